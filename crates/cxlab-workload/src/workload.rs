//! A workload as a scenario names it. When the system is built, it makes one source for each requester, one
//! program for each core, or one kernel of threads. Problems with the workload's parameters or files are
//! reported then.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cxlab_engine::catalog::ParamError;
#[cfg(doc)]
use cxlab_engine::units::Hpa;
use cxlab_engine::units::{Bytes, LINE_BYTES};

use crate::error::WorkloadError;
use crate::op::OpSource;
#[cfg(doc)]
use crate::program::LOCAL_BASE;
use crate::program::{Lines, Program};
use crate::thread::{ThreadContext, ThreadedKernel};

/// The system's properties that a workload needs to make the source of one requester.
#[derive(Clone, Copy, Debug)]
pub struct SourceContext<'a> {
    /// Bytes of memory addressable from [`Hpa`] 0: the workload's address space is `0..span`.
    pub span: Bytes,
    /// Bytes of the host's own memory, from [`LOCAL_BASE`] on; 0 when the host has none.
    pub local: Bytes,
    /// The requester's number, from 0.
    pub requester: usize,
    /// The number of requesters that share the workload.
    pub requesters: usize,
    /// The folder that the scenario's relative paths are relative to.
    pub scenario_dir: &'a Path,
    /// A trace from the command line that replaces the scenario's.
    pub trace_override: Option<&'a Path>,
}

/// A workload as a scenario describes it, before it is bound to requesters.
pub trait Workload: Send + Sync {
    /// Makes the source of one requester.
    ///
    /// # Errors
    /// When a parameter does not fit the system, or when a file cannot be used.
    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError>;

    /// Makes the program of one core.
    ///
    /// # Errors
    /// Those of [`Workload::source`], and operations of more than a line: a core has none.
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

    /// Size of an operation in bytes: 32, or a power of two from a line to 4,096.
    fn request(&self) -> Bytes {
        Bytes(LINE_BYTES)
    }

    /// Number of lines that an operation accesses, 1 to 64.
    fn request_lines(&self) -> u8 {
        (self.request().0 / LINE_BYTES).max(1) as u8
    }

    /// Makes the kernel of one coherent system, whose threads share memory.
    ///
    /// # Errors
    /// Those of [`Workload::source`], and a workload that is not made of threads.
    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        let _ = ctx;
        Err(WorkloadError::param(
            "kind",
            "found a workload without threads; allowed: kernels made of threads",
        ))
    }

    /// Whether the workload consists of threads, so that it
    /// runs only through [`Workload::threads`].
    fn needs_threads(&self) -> bool {
        false
    }

    /// Whether the workload runs only on a core.
    fn needs_core(&self) -> bool {
        false
    }

    /// Says why an accelerator of the host, by number from 0, must have CXL.cache: the parameter
    /// that makes its threads load, store or push host memory. `None` where the threads use at
    /// most DMA, registers and the accelerator's own buffers, or where their accesses are not
    /// known before they run.
    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let _ = accelerator;
        None
    }

    /// Whether the workload's sources end by themselves.
    fn is_finite(&self) -> bool {
        false
    }

    /// The file that the operations come from, if there is one. The file's content identifies a
    /// plan together with the scenario.
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
