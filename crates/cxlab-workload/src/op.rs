//! The one seam between whatever makes memory operations and whatever issues them.
//!
//! A [`Workload`] is what a scenario names; it makes one [`OpSource`] for each requester when the
//! system is built, and every problem with its parameters or files is reported there. A source
//! then only hands out operations: it knows no latency, no host and no device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES, SimTime};
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
#[cfg(doc)]
use crate::program::LOCAL_BASE;
use crate::program::{Lines, Program};
use crate::thread::{ThreadContext, ThreadedKernel};

/// What a memory operation does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum OpKind {
    /// Loads one line.
    Read,
    /// Stores one line.
    Write,
}

/// One operation on one 64-byte line of memory, or on several in a row.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct MemOp {
    /// The line's first byte.
    pub hpa: Hpa,
    /// Read or write.
    pub kind: OpKind,
    /// Lines from there on, 1 to 64. The operation is done when all are.
    pub lines: u8,
    /// Earliest issue; [`SimTime::ZERO`] when there is none.
    pub not_before: SimTime,
    /// May issue only when the source's previous operation has completed (pointer chase).
    pub dependent: bool,
}

/// A stream of memory operations for one requester. A copy that is restored hands out what the
/// original would have.
pub trait OpSource: SaveState + Send {
    /// The next operation; `None` when the source has finished, and ever after.
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp>;

    /// Appends up to `count` operations, in order. Fewer are there only where the source has finished.
    fn next_ops(&mut self, rng: &mut StreamRng, count: usize, out: &mut Vec<MemOp>) {
        for _ in 0..count {
            match self.next_op(rng) {
                Some(op) => out.push(op),
                None => return,
            }
        }
    }
}

/// What a workload is told when it makes the source of one requester.
#[derive(Clone, Copy, Debug)]
pub struct SourceContext<'a> {
    /// Bytes of memory addressable from [`Hpa`] 0: the workload's address space is `0..span`.
    pub span: Bytes,
    /// Bytes of the host's own memory, from [`LOCAL_BASE`] on; 0 when it has none.
    pub local: Bytes,
    /// The number of this requester, from 0.
    pub requester: usize,
    /// How many requesters share the workload.
    pub requesters: usize,
    /// The folder that relative paths of the scenario start from.
    pub scenario_dir: &'a Path,
    /// A trace given on the command line instead of the scenario's.
    pub trace_override: Option<&'a Path>,
}

/// A workload as a scenario describes it, before it is bound to requesters.
pub trait Workload: Send + Sync {
    /// Makes the source of one requester.
    ///
    /// # Errors
    /// A parameter that does not fit the system, or a file that cannot be used.
    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError>;

    /// Makes the program of one core.
    ///
    /// # Errors
    /// As [`Workload::source`].
    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        if self.request_lines() > 1 {
            return Err(WorkloadError::param(
                "request",
                "found more than 64 B on a core; allowed: 64 B, as its loads and stores lie within a \
                 line",
            ));
        }
        Ok(Box::new(Lines::new(self.source(ctx)?)))
    }

    /// Bytes of an operation: 32, or a power of two from a line to 4,096.
    fn request(&self) -> Bytes {
        Bytes(LINE_BYTES)
    }

    /// Lines of an operation, 1 to 64.
    fn request_lines(&self) -> u8 {
        (self.request().0 / LINE_BYTES).max(1) as u8
    }

    /// Makes the kernel of one coherent system, whose threads share memory.
    ///
    /// # Errors
    /// As [`Workload::source`]; also where the workload is not made of threads.
    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        let _ = ctx;
        Err(WorkloadError::param(
            "kind",
            "found a workload without threads; allowed: kernels made of threads",
        ))
    }

    /// Whether it is made of threads and runs only where [`Workload::threads`] is asked for.
    fn needs_threads(&self) -> bool {
        false
    }

    /// Whether it runs only on a core.
    fn needs_core(&self) -> bool {
        false
    }

    /// Why an accelerator of its host, by number from 0, must have CXL.cache: the parameter that
    /// makes its threads load, store or push host memory. `None` where they use DMA, registers and
    /// their own buffers at most, or where that is not known before they run.
    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let _ = accelerator;
        None
    }

    /// Whether its sources end by themselves.
    fn is_finite(&self) -> bool {
        false
    }

    /// The file that its operations come from, if there is one: its content is part of what a
    /// plan is.
    fn file(&self, scenario_dir: &Path, trace_override: Option<&Path>) -> Option<PathBuf> {
        let _ = (scenario_dir, trace_override);
        None
    }
}

impl<W: Workload + ?Sized> Workload for Arc<W> {
    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        self.as_ref().source(ctx)
    }

    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        self.as_ref().program(ctx)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.as_ref().threads(ctx)
    }

    fn needs_threads(&self) -> bool {
        self.as_ref().needs_threads()
    }

    fn needs_core(&self) -> bool {
        self.as_ref().needs_core()
    }

    fn request(&self) -> Bytes {
        self.as_ref().request()
    }

    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        self.as_ref().needs_cxl_cache(accelerator)
    }

    fn is_finite(&self) -> bool {
        self.as_ref().is_finite()
    }

    fn file(&self, scenario_dir: &Path, trace_override: Option<&Path>) -> Option<PathBuf> {
        self.as_ref().file(scenario_dir, trace_override)
    }
}
