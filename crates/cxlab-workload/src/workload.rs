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

/// What a workload is made of, which decides what can run it. Programs and threads say their `kind` in a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkloadForm {
    /// Lines that a requester, a core or each core of a processor accesses.
    Lines,
    /// Programs with a result, which end by themselves. Each runs on a core.
    Program(&'static str),
    /// Threads that share memory, and end by themselves. They run on a processor and its accelerators.
    Threads(&'static str),
}

/// A workload as a scenario describes it, before it is bound to requesters.
pub trait Workload: Send + Sync {
    /// What the workload is made of.
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Lines
    }

    /// Checks the parameters as far as possible before the system is known.
    ///
    /// # Errors
    /// The first parameter with a value that no system allows.
    fn check(&self) -> Result<(), ParamError> {
        Ok(())
    }

    /// Makes the source of one requester.
    ///
    /// # Errors
    /// When a parameter does not fit the system, when a file cannot be used, or when the workload is not
    /// made of lines.
    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        let _ = ctx;
        let message = match self.form() {
            WorkloadForm::Lines => {
                "found a workload without lines; allowed: patterns and traces".to_owned()
            }
            WorkloadForm::Program(kind) => format!(
                "found `{kind}`, which is a program and runs on a core; allowed: hosts with `core` \
                 under [[hosts]]"
            ),
            WorkloadForm::Threads(kind) => format!(
                "found `{kind}`, whose threads share memory; allowed: where a coherent system runs it"
            ),
        };
        Err(WorkloadError::param("kind", message))
    }

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

    /// Whether the workload is made of threads.
    fn needs_threads(&self) -> bool {
        matches!(self.form(), WorkloadForm::Threads(_))
    }

    /// Whether the workload is made of programs.
    fn needs_core(&self) -> bool {
        matches!(self.form(), WorkloadForm::Program(_))
    }

    /// Says why an accelerator of the host, by number from 0, must have CXL.cache: the parameter
    /// that makes its threads load, store or push host memory. `None` where the threads use at
    /// most DMA, registers and the accelerator's own buffers, or where their accesses are not
    /// known before they run.
    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let _ = accelerator;
        None
    }

    /// Whether the workload ends by itself.
    fn is_finite(&self) -> bool {
        self.form() != WorkloadForm::Lines
    }

    /// The file that the operations come from, if there is one. The file's content identifies a
    /// plan together with the scenario.
    fn file(&self, scenario_dir: &Path, trace_override: Option<&Path>) -> Option<PathBuf> {
        let _ = (scenario_dir, trace_override);
        None
    }
}

impl<W: Workload + ?Sized> Workload for Arc<W> {
    fn form(&self) -> WorkloadForm {
        self.as_ref().form()
    }

    fn check(&self) -> Result<(), ParamError> {
        self.as_ref().check()
    }

    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        self.as_ref().source(ctx)
    }

    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        self.as_ref().program(ctx)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.as_ref().threads(ctx)
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
