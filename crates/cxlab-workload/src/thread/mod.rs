//! Kernels as ordinary sequential code on one simulated memory with real values.
//!
//! A [`Program`](crate::Program) computes on its own copy of the data; threads share theirs. A
//! thread is an `async` block that asks its [`Handle`] for loads, stores and atomic operations.
//! What they return is what the simulated memory, an [`Image`], holds when
//! the simulated system gets there. So several cores and accelerators can work on the same data, wait for
//! one another, and be wrong where they forget to.
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
//! [`op`] lists the operations, [`runtime`] is what an executor sees, [`handle`] what code sees,
//! [`kernel`] how both meet in a system, and [`reference`](mod@reference) runs threads without
//! any timing. There is no runtime of tasks behind this: a thread's code is polled only when something that
//! it awaits is done.

pub mod handle;
pub mod kernel;
pub mod op;
pub mod reference;
pub mod runtime;

#[cfg(doc)]
use crate::image::Image;

pub use handle::{Handle, Loaded, Value, Window};
pub use kernel::{Bases, NoThreads, Place, ThreadContext, ThreadedKernel};
pub use op::{AtomicKind, BIAS_REGISTER, Direction, SCRATCH_BASE, SCRATCH_SPAN, ThreadOp, scratch};
pub use reference::{Order, Stuck, run_kernel, run_threads, run_traced};
pub use runtime::{Next, Thread, Token, UNCOUNTED};
