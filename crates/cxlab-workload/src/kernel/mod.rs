//! Workloads that execute a real algorithm, in one file or folder each.
//!
//! There are two kinds of kernels. Those made of [threads](mod@crate::thread) share memory with
//! real values and run on the cores and accelerators of a coherent system. All others are programs
//! for one core, and run only on hosts with a core. Such a kernel computes on its own copy of the
//! data while it hands out [steps](crate::program), so that addresses, values and dependencies are
//! those of the algorithm. When a kernel has finished, it checks its result against another
//! computation. `docs/explain/kernels.md` describes each kernel, and what all leave out: address
//! translation, instruction fetches, and memory of the stack.

pub mod axpy;
pub mod circus_tent;
mod common;
pub mod dma_transfers;
pub mod gapbs;
pub mod hot_pages;
pub mod key_value;
pub mod load_store_unit;
pub mod nas;
pub mod random_read;
pub mod rpc;
mod script;
pub mod stream;
pub mod stream_threads;
mod team;

pub use axpy::Axpy;
pub use circus_tent::CircusTent;
pub use common::Memory;
pub use dma_transfers::DmaTransfers;
pub use gapbs::Gapbs;
pub use hot_pages::HotPages;
pub use key_value::KeyValue;
pub use load_store_unit::LoadStoreUnit;
pub use nas::Nas;
pub use random_read::RandomRead;
pub use rpc::Rpc;
pub use stream::StreamKernels;
pub use stream_threads::StreamThreads;
