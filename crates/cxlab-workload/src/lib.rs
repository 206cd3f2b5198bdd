//! Memory operations and their sources: synthetic patterns, traces, algorithms, and captures of
//! real programs. This crate knows no host and no device.
//!
//! A [`Workload`] is what a scenario names. [`op`] is the interface to requesters: a workload makes one
//! [`OpSource`] for each requester, which takes its [`MemOp`]s from the source. [`program`] is the interface to cores, and
//! [`thread`](mod@thread) the interface to cores and accelerators that share one memory with real
//! values, an [`Image`]. [`pattern::CATALOG`] lists the workloads that a scenario can name, and
//! [`kernel`] has those that execute an algorithm. [`trace`] reads and writes the `.cxlt` format
//! (`docs/reference/cxlt.md`), [`import`](mod@import) converts other formats to it, [`filter`] passes
//! accesses through caches, and [`capture`](mod@capture) records an unmodified program.

#[cfg(unix)]
pub mod capture;
mod error;
pub mod filter;
pub mod image;
pub mod import;
mod inlet;
pub mod kernel;
pub mod op;
mod page_map;
mod params;
pub mod pattern;
pub mod program;
pub mod rpc;
pub mod thread;
pub mod trace;
mod varint;
pub mod workload;
mod zipf;

#[cfg(unix)]
pub use capture::{
    CaptureError, CaptureOptions, CaptureSummary, Recorder, Sampling, capture, find_program,
};
pub use error::{FilePlace, TraceError, WorkloadError};
pub use filter::Hierarchy;
pub use image::Image;
pub use import::{Footprint, Summary, TraceInfo, head, import, info};
pub use inlet::InletWorkload;
pub use op::{Inlet, InletError, MemOp, OpKind, OpSource};
pub use program::{
    Action, LOCAL_BASE, Lines, MOST_THREADS, Phase, Program, Step, StepDependency, SyncPoint,
    ThreadStep,
};
pub use thread::{
    ExecutionPlace as ThreadPlace, NextAction, Thread, ThreadContext, ThreadOp, ThreadedKernel,
};
pub use workload::{SourceContext, Workload, WorkloadForm};
