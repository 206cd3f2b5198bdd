//! Workloads that execute a real algorithm on a core, one file or folder each.
//!
//! A kernel computes on its own copy of the data while it hands out [steps](crate::program), so
//! that addresses, values and dependencies are those of the algorithm, and checks its result
//! against another computation when it has finished. Kernels run only on hosts with a core.
//! `docs/kernels.md` says what each of them does and what is left out of all: address
//! translation, instruction fetches, and memory of the stack.

mod common;
pub mod key_value;
pub mod random_read;
mod script;
pub mod stream;
mod zipf;

pub use common::Memory;
pub use key_value::KeyValue;
pub use random_read::RandomRead;
pub use stream::StreamKernels;
