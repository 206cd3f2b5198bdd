//! Memory operations and where they come from: synthetic patterns, traces, capture of real
//! programs. Knows no host and no device.
//!
//! [`op`] is the seam: a [`Workload`] makes one [`OpSource`] for each requester, and the requester
//! asks it for the next [`MemOp`]; [`program`] is the same for cores, and [`thread`](mod@thread) for cores and
//! accelerators that share one memory with real values, an [`Image`]. [`pattern::CATALOG`] lists the
//! workloads a scenario can name, and [`kernel`] holds those that execute an algorithm on a core.
//! [`trace`] reads and writes the `.cxlt` format (`docs/guide/traces.md`), [`import`](mod@import) turns
//! other formats into it, [`filter`] passes accesses through caches, and [`capture`](mod@capture)
//! records an unmodified program.

pub mod capture;
mod error;
pub mod filter;
pub mod image;
pub mod import;
pub mod kernel;
pub mod op;
mod page_map;
pub mod pattern;
pub mod program;
pub mod rpc;
pub mod thread;
pub mod trace;
mod varint;

pub use capture::{
    CaptureError, CaptureOptions, CaptureSummary, Recorder, Sampling, capture, find_program,
};
pub use error::{Place, TraceError, WorkloadError};
pub use filter::Hierarchy;
pub use image::Image;
pub use import::{Summary, import};
pub use op::{MemOp, OpKind, OpSource, SourceContext, Workload};
pub use program::{Action, After, LOCAL_BASE, Lines, Phase, Program, Step};
pub use thread::{Next, Place as ThreadPlace, Thread, ThreadContext, ThreadOp, ThreadedKernel};
pub use trace::{Footprint, TraceInfo, head, info};
