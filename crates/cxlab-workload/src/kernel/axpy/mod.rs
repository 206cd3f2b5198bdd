//! `y = a x + y` by a CPU thread and an accelerator, in the three programming models that Cohet
//! compares (its Fig. 4): arrays copied by DMA, unified memory whose pages migrate on access,
//! and one coherent memory.
//!
//! The CPU thread allocates and fills the arrays, starts the accelerator, waits for it, and
//! reads `y`. The models differ in how the accelerator accesses the arrays, and in what the CPU
//! must do for it.

mod accelerator;
mod host;

use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{aligned, doubles, mix, needs_both, phase, within, without_cxl_cache};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::entry;
use crate::program::Phase;
use crate::thread::{ExecutionPlace, Thread, ThreadContext, ThreadedKernel, scratch};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<Axpy>(
    "axpy",
    "threads: y = a x + y on a CPU and an accelerator, in three programming models",
);

/// The kernel's phases, by number.
const FILL: u8 = 0;
const COPY_IN: u8 = 1;
const COMPUTE: u8 = 2;
const COPY_OUT: u8 = 3;
const READ: u8 = 4;

/// Elements of a chunk, the unit of work of a processing element.
const CHUNK: u64 = 512;

/// How the accelerator accesses the arrays.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The accelerator loads and stores the arrays themselves, which are coherent (Fig. 4 c).
    #[default]
    Cohet,
    /// The CPU copies the arrays to the accelerator by DMA, and the result back (Fig. 4 a).
    Explicit,
    /// A page moves by DMA when one side accesses a page that the other side has (Fig. 4 b).
    Unified,
}

/// `y = a x + y` on doubles, by a CPU thread on the first core and the processing elements of the
/// first accelerator. Phases: `fill`, `copy-in`, `compute`, `copy-out`, `read`. An operation is one
/// element of the vectors.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Axpy {
    /// How the accelerator accesses the arrays. Default `cohet`.
    pub model: Model,
    /// Number of elements of each vector, 1 to 268435456.
    pub elements: u64,
    /// Chunks of 512 elements that a processing element has in flight, 1 to 64. Default 2 (*assumed*).
    pub chunks: u64,
    /// Cycles of a processing element to compute a chunk. Default 64 (*assumed*).
    pub cycles: u32,
    /// With `unified`: bytes that are moved at a time. A multiple of 4 KiB.
    pub page: Bytes,
    /// With `unified`: cycles of the core for a page fault, in addition to the
    /// messages and the DMA. Default 24,000 (*assumed*).
    pub fault_cycles: u32,
    /// With `explicit` and `unified`: cycles of the core for a call of the driver. Default 2,400 (*assumed*).
    pub call_cycles: u32,
    /// The placement policy of the arrays, as an index into the scenario's policies.
    pub policy: u16,
    /// Whether a processing element requests ownership of a line of `y` when it loads the line,
    /// which it will store. Otherwise it requests a shared copy, and ownership at the store.
    pub own_y: bool,
}

impl Default for Axpy {
    fn default() -> Self {
        Axpy {
            model: Model::Cohet,
            elements: 65_536,
            chunks: 2,
            cycles: 64,
            page: Bytes(64 << 10),
            fault_cycles: 24_000,
            call_cycles: 2_400,
            policy: 0,
            own_y: false,
        }
    }
}

impl Workload for Axpy {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("axpy")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("elements", self.elements, 1, 1 << 28)?;
        within("chunks", self.chunks, 1, 64)?;
        within("page", self.page.0, 4096, 1 << 30)?;
        aligned("page", self.page, 4096)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        needs_both(ctx)?;
        let bytes = [
            ("fill", 16),
            ("copy-in", 16),
            ("compute", 24),
            ("copy-out", 8),
            ("read", 8),
        ];
        Ok(Box::new(Arc::new(Job {
            params: self.clone(),
            seed: mix(ctx.seed),
            vector: (self.elements * 8).next_multiple_of(self.page.0),
            elements: ctx.elements,
            result: Mutex::default(),
            phases: bytes.map(|(name, bytes)| phase(name, bytes)),
        })))
    }

    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let reaches = accelerator == 0 && self.model == Model::Cohet;
        let allowed = "`explicit`, `unified`, which use DMA";
        reaches.then(|| without_cxl_cache("model", "cohet", allowed))
    }
}

/// The state that the threads and the check share.
struct Job {
    params: Axpy,
    seed: u64,
    /// Bytes of a vector, rounded up to whole pages.
    vector: u64,
    /// Number of processing elements of the accelerator.
    elements: usize,
    /// The bytes of `y` that the CPU has read at the end.
    result: Mutex<Vec<u8>>,
    phases: [Phase; 5],
}

/// Numbers of the accelerator's registers.
mod register {
    /// Counts the commands for the copy engine; each change starts a copy.
    pub const COPY: u32 = 0;
    /// The copy's address in host memory, address in the accelerator, bytes, and direction
    /// (1: to the host).
    pub const COPY_HOST: u32 = 1;
    pub const COPY_DEVICE: u32 = 2;
    pub const COPY_BYTES: u32 = 3;
    pub const COPY_OUT: u32 = 4;
    /// A change starts the processing elements.
    pub const RUN: u32 = 5;
    /// The addresses of `x` and `y`, the number of elements, and the bits of `a`.
    pub const X: u32 = 6;
    pub const Y: u32 = 7;
    pub const N: u32 = 8;
    pub const A: u32 = 9;
    /// The number of the missing page plus 1, or 0 when the result is complete.
    pub const FAULT: u32 = 10;
    /// Counts how often the lock `own::ASKING` has been released.
    pub const TURN: u32 = 11;
    /// The first of one register for each page: 1 when the page is in the accelerator's memory.
    pub const PAGES: u32 = 12;
}

/// Interrupt vectors of the accelerator.
mod vector {
    /// A page is missing, or the result is complete.
    pub const ATTENTION: u16 = 0;
    /// A copy is complete.
    pub const COPIED: u16 = 1;
}

/// Addresses in the accelerator's own memory: words of state, then a word for each
/// page, then the vectors.
mod own {
    use super::scratch;
    /// The number of processing elements that have finished.
    pub const FINISHED: u64 = scratch(0);
    /// The lock of the element that is requesting a page; 0 when free.
    pub const ASKING: u64 = scratch(0) + 64;
    /// A word for each page: 1 after an element has decided to request the page.
    pub const PAGES: u64 = scratch(0) + (1 << 20);
    /// The vectors, one after the other.
    pub const VECTORS: u64 = scratch(0) + (1 << 30);
}

impl Job {
    fn x(&self, element: u64) -> f64 {
        1.0 + (mix(self.seed ^ element) >> 12) as f64 / (1u64 << 52) as f64
    }

    fn y(&self, element: u64) -> f64 {
        self.x(element ^ (1 << 40))
    }

    fn a(&self) -> f64 {
        self.x(1 << 41)
    }

    /// The chunks of both vectors, by first element and number of elements.
    fn chunks(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let elements = self.params.elements;
        let first = (0..elements).step_by(CHUNK as usize);
        first.map(move |first| (first, CHUNK.min(elements - first)))
    }
}

impl ThreadedKernel for Arc<Job> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let job = Arc::clone(self);
        match place {
            ExecutionPlace::Core { core: 0 } => vec![Thread::new(|t| host::run(job, t))],
            ExecutionPlace::Element {
                accelerator: 0,
                element,
            } => {
                let engine = Arc::clone(self);
                let copies = element == 0 && self.params.model != Model::Cohet;
                let mut threads = vec![Thread::new(move |t| {
                    accelerator::run(job, element as u64, t)
                })];
                threads.extend(copies.then(|| Thread::new(|t| accelerator::copy(engine, t))));
                threads
            }
            _ => Vec::new(),
        }
    }

    fn can_run_again(&self) -> bool {
        true
    }

    /// Compares the vector that the CPU read with each element computed by itself.
    fn check(&self, _: &Image) -> Result<(), String> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        if result.len() as u64 != self.params.elements * 8 {
            return Err(format!("the result has {} bytes", result.len()));
        }
        for (element, found) in (0..).zip(doubles(&result)) {
            let expected = self.a() * self.x(element) + self.y(element);
            if found.to_bits() != expected.to_bits() {
                return Err(format!("element {element} is {found}, not {expected}"));
            }
        }
        Ok(())
    }
}
