//! `libcxlab`: cxlab under another simulator, through the C interface of `include/cxlab.h`.
//!
//! Each function checks its arguments, finds the system of a handle, and calls
//! [`Session`](::cxlab_system::session::Session). No model lives here. Invariants:
//!
//! - No panic leaves a function: it becomes [`CXLAB_ERROR_INTERNAL`], and the system is unusable from then on.
//! - A handle has a generation, so the handle of a system that was destroyed is refused (`handles.rs`).
//! - One thread at a time is in a function with a system; another one gets an error and does not wait.
//! - `cxlab_submit`, `cxlab_advance` and `cxlab_take_completed` allocate nothing once the lists have grown to
//!   their largest length.
//!
//! All `unsafe` code of the interface is in this crate. Two things cannot be checked: that pointers are what
//! the header says, and that a callback returns.

#![allow(
    unsafe_code,
    reason = "functions of C take pointers, and handles are shared among threads"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header says what pointers must be"
)]
#![allow(non_camel_case_types, reason = "the names are those of the header")]

mod abi;
mod calls;
mod handles;
mod ports;
mod results;
mod status;

pub use abi::*;
pub use ports::*;
pub use results::*;
pub use status::cxlab_last_error;

#[cfg(feature = "allocator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
