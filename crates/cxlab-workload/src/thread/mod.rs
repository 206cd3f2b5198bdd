//! Kernels written as ordinary sequential code on one simulated memory with real values.
//!
//! A [`Program`](crate::Program) computes on its own copy of the data; threads share their
//! data. A thread is an `async` block that issues loads, stores and atomic operations through
//! its [`Handle`]. Each operation returns what the simulated memory, an [`Image`], contains at
//! the simulated time at which the operation takes effect. Several cores and accelerators can
//! therefore work on the same data and wait for one another, and code that lacks
//! synchronization computes wrong results.
//!
//! ```
//! use cxlab_workload::thread::{Order, Thread, run_threads};
//! use cxlab_workload::Image;
//!
//! let image = Image::new();
//! let add = || Thread::new(|t| async move {
//!     for _ in 0..10 {
//!         t.fetch_add(64, 1).await;
//!     }
//! });
//! run_threads(vec![add(), add()], &image, Order::Random(1)).unwrap();
//! assert_eq!(image.read(cxlab_engine::units::Hpa(64), 8), 20);
//! ```
//!
//! [`op`] lists the operations. [`runtime`] is the interface for executors, [`handle`] the
//! interface for code, and [`kernel`] connects both in a system. [`reference`](mod@reference) runs
//! threads without any timing. No task runtime is involved: a thread's code is polled only when an
//! operation that the code awaits has completed.

pub mod barrier;
pub mod handle;
pub mod kernel;
pub mod op;
pub mod reference;
pub mod runtime;

#[cfg(doc)]
use crate::image::Image;

pub use barrier::{AbandonedBarrier, Barrier, SideBySide, side_by_side};
pub use handle::{Handle, LoadedRange, Value, Window};
pub use kernel::{Bases, ExecutionPlace, NoThreads, ThreadContext, ThreadedKernel};
pub use op::{AtomicKind, BIAS_REGISTER, Direction, SCRATCH_BASE, SCRATCH_SPAN, ThreadOp, scratch};
pub use reference::{Order, StuckThreads, run_kernel, run_threads, run_traced};
pub use runtime::{NextAction, Thread, Token, UNCOUNTED};
