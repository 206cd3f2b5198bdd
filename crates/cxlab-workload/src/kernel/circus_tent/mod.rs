//! CircusTent: atomic operations in eight patterns (Tactical Computing Laboratories;
//! `src/CircusTent/Impl/CT_OMP/CT_OMP_IMPL.c`), executed on cores, or on an accelerator
//! as remote atomic operations.
//!
//! The benchmark's own threads, its PEs, are remote. Their requests arrive in the accelerator's
//! receive buffer, one iteration of each PE after the other. Processing element `p` modulo the
//! number of elements serves PE `p`, one request at a time. A request whose operand needs the
//! result of another request arrives after that result has been returned.

mod atomics;
mod oracle;
mod run;

use std::sync::Arc;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, whole_lines, within, without_cxl_cache};
use crate::error::WorkloadError;
use crate::params::{entry, require};
use crate::thread::{ThreadContext, ThreadedKernel};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<CircusTent>(
    "circus-tent",
    "threads: remote atomic operations in the eight patterns of CircusTent",
);

/// Most atomic operations of one kernel: the check keeps each of them in memory.
const MAX_OPERATIONS: u64 = 1 << 26;

/// The words that the operations access. `A` is the array, `X` the random
/// indices, `i` the iteration.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// `A[X[i]]`.
    #[default]
    Rand,
    /// `A[i]`.
    Stride1,
    /// `A[i * stride]`.
    StrideN,
    /// `X[s]`, where `s` is the word that the preceding operation returned.
    PtrChase,
    /// `A[0]`.
    Central,
    /// `X[i + 1]`, `A[i]`, then `A` at the index that the first operation returned.
    Scatter,
    /// `X[i + 1]`, then `A` at the returned index, then `A[i]`.
    Gather,
    /// `X[i]`, `X[i + 1]`, then `A` at each returned index.
    Sg,
}

/// The kind of atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Fetch and add.
    #[default]
    Add,
    /// Compare and swap. The expected and the new word are loaded first.
    Cas,
}

/// How an atomic operation is executed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// On coherent memory: the line is owned and locked while the word is
    /// read, changed and written.
    #[default]
    Cxl,
    /// By a DMA read, the change, and a DMA write. The next operation on the same word waits for
    /// the acknowledgement of the write.
    Pcie,
}

/// How the indices of `ptr-chase`, `scatter`, `gather` and `sg` are read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Index {
    /// By atomic operations like all others, as in the benchmark.
    #[default]
    Remote,
    /// Without operations: the requester knows the indices.
    Local,
}

/// The processors that execute the operations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunOn {
    /// The processing elements of the accelerators.
    #[default]
    Accelerators,
    /// The cores of the host.
    Cores,
}

/// Atomic operations on words of 8 B in the patterns of CircusTent. The kernel has one phase,
/// `atomics`; an operation is one atomic operation of 8 B.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CircusTent {
    /// The words that the operations access. Default `rand`.
    pub pattern: Pattern,
    /// The kind of atomic operation. Default `add`.
    pub operation: Operation,
    /// Number of the benchmark's threads, 1 to 65536. Default: one for each
    /// processing element (or core).
    pub pes: Option<u64>,
    /// Iterations of each thread, at least 1; at most 67108864 operations in all.
    pub iterations: u64,
    /// Bytes of the array, a multiple of 64 B. CircusTent's script: 16488974000 B.
    pub memory: Bytes,
    /// With `stride-n`: words from one iteration to the next, 1 to 1048576. CircusTent's script: 9.
    pub stride: u64,
    /// Whether indices are read by atomic operations too.
    pub index: Index,
    /// How an atomic operation is executed. Default `cxl`.
    pub interface: Interface,
    /// The processors that execute the operations. Default `accelerators`.
    pub run_on: RunOn,
    /// Cycles of the processing element to take an operation from the receive buffer
    /// and to parse it.
    pub cycles: u32,
    /// With `pcie`: DMA writes of a processing element that may be in flight when its
    /// next operation begins, 0 to 64. An operation on a word of one of these writes
    /// waits for the write.
    pub posted_writes: u32,
    /// The memory of the array; the indices follow the array.
    pub data: Memory,
    /// Offset of the array in that memory. A multiple of 64 B.
    pub base: Bytes,
}

impl Default for CircusTent {
    fn default() -> Self {
        CircusTent {
            pattern: Pattern::Rand,
            operation: Operation::Add,
            pes: None,
            iterations: 10_000,
            memory: Bytes(64 << 20),
            stride: 9,
            index: Index::Remote,
            interface: Interface::Cxl,
            run_on: RunOn::Accelerators,
            cycles: 0,
            posted_writes: 0,
            data: Memory::Local,
            base: Bytes(0),
        }
    }
}

impl CircusTent {
    /// Number of words of the array.
    fn words(&self) -> u64 {
        self.memory.0 / 8
    }

    /// Number of atomic operations of an iteration.
    fn operations(&self) -> u32 {
        let indices = u32::from(self.index == Index::Remote);
        match self.pattern {
            Pattern::Rand | Pattern::Stride1 | Pattern::StrideN | Pattern::Central => 1,
            Pattern::PtrChase => 1,
            Pattern::Scatter | Pattern::Gather => 2 + indices,
            Pattern::Sg => 2 + 2 * indices,
        }
    }

    /// Number of processing elements or cores that execute operations.
    fn places(&self, ctx: &ThreadContext) -> Result<usize, ParamError> {
        let (places, other, what) = match self.run_on {
            RunOn::Accelerators => (ctx.accelerators * ctx.elements, "cores", "accelerators"),
            RunOn::Cores => (ctx.cores, "accelerators", "cores"),
        };
        let found = format_args!("`{what}`, of which this host has none");
        let allowed = format_args!("`{other}`, or a host with {what}");
        require(places > 0, "run_on", found, allowed)?;
        let atomic = self.interface == Interface::Cxl || ctx.accelerators < 2;
        let found =
            "`pcie` on several accelerators, whose operations are not atomic to one another";
        require(atomic, "interface", found, "`cxl`, or one accelerator")?;
        Ok(places)
    }

    /// Checks the number of operations, and that the words that the pattern accesses
    /// are inside the array.
    fn check_reach(&self, pes: u64) -> Result<(), ParamError> {
        let total = pes * self.iterations;
        let operations = total * u64::from(self.operations());
        let found = format_args!("{operations} operations of {pes} threads");
        let few = operations <= MAX_OPERATIONS;
        require(few, "iterations", found, MAX_OPERATIONS)?;
        let reach = match self.pattern {
            Pattern::Rand | Pattern::Sg | Pattern::Central | Pattern::PtrChase => 1,
            Pattern::Stride1 | Pattern::Scatter | Pattern::Gather => total - 1,
            Pattern::StrideN => (total - 1) * self.stride,
        };
        let words = self.words();
        let found = format_args!("{words} words");
        let allowed = format_args!("more than {reach}, which {pes} threads reach");
        require(reach < words, "memory", found, allowed)
    }
}

impl Workload for CircusTent {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("circus-tent")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("pes", self.pes.unwrap_or(1), 1, 1 << 16)?;
        within("iterations", self.iterations, 1, MAX_OPERATIONS)?;
        within("memory", self.memory.0, 64, 1 << 46)?;
        whole_lines("memory", self.memory)?;
        within("stride", self.stride, 1, 1 << 20)?;
        within("posted_writes", u64::from(self.posted_writes), 0, 64)?;
        let operates = self.pattern != Pattern::PtrChase || self.index == Index::Remote;
        let allowed = "`remote`, because all that `ptr-chase` does is read indices";
        require(operates, "index", "`local`", allowed)?;
        let possible = self.interface == Interface::Cxl || self.run_on == RunOn::Accelerators;
        let allowed = "`cxl`, because cores have no DMA engine";
        require(possible, "interface", "`pcie`", allowed)?;
        whole_lines("base", self.base)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        let places = self.places(ctx)?;
        let pes = self.pes.unwrap_or(places as u64);
        self.check_reach(pes)?;
        let indices = (pes + 1) * self.iterations;
        let bytes = self.memory.0 + indices * 8;
        let need = MemoryNeed::of_data(self.data, self.base, "memory", bytes);
        let array = need.place_for(ctx)?;
        let mut data = run::Data::new(self.clone(), pes, places, array, ctx.seed);
        data.elements = ctx.elements;
        Ok(Box::new(Arc::new(data)))
    }

    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let _ = accelerator;
        let reaches = self.run_on == RunOn::Accelerators && self.interface == Interface::Cxl;
        reaches.then(|| without_cxl_cache("interface", "cxl", "`pcie`, which uses DMA"))
    }
}
