//! Workloads that execute a real algorithm on a core, one file or folder each.
//!
//! A kernel computes on its own copy of the data while it hands out [steps](crate::program), so
//! that addresses, values and dependencies are those of the algorithm, and checks its result
//! against another computation when it has finished. Kernels run only on hosts with a core.
//! `docs/kernels.md` says what each of them does and what is left out of all: address
//! translation, instruction fetches, and memory of the stack.

mod common;
pub mod random_read;
pub mod stream;

pub use common::Memory;
pub use random_read::RandomRead;
pub use stream::StreamKernels;
