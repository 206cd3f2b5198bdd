//! Kernels that a compiler has made: functions of a WebAssembly module (wasm64) that run on the
//! processing elements of an accelerator.
//!
//! A module is checked and rewritten before it runs. Every load, store and atomic operation becomes a
//! call of a function outside of the module. Where the address is in simulated memory, the interpreter
//! pauses, and [`Call::resume`] returns the access as a [`Request`]. The owner carries it out in simulated
//! time and resumes the call with its value. [`RunningCall`] does so on a processing element. So pointers are addresses of the simulated process, passed
//! as they are.
//!
//! **Private memory.** The module's own memory (its stack, then static data) has the addresses from
//! 0 to [`Program::private_bytes`]. Each call has a stack of its own. Accesses to private memory take
//! their instruction's time and leave no trace in simulated memory. Static data cannot be stored to, and
//! addresses below [`NULL_BYTES`] not be accessed, so that a null pointer is an error.
//!
//! **Time.** Each step says how many cycles the instructions before it took, by the table of
//! [`cost`]. Loads wait for their value; the owner decides what stores wait for.
//!
//! **Left out:** tables of functions (function pointers), vectors (SIMD), exceptions, threads of the
//! module itself, growing memory, writable static data.

#![forbid(unsafe_code)]

mod call;
pub mod cost;
mod element;
mod private;
mod program;
mod rewrite;

pub use call::{AtomicOp, Call, Request, Step, WorkItem};
pub use element::{BytePlace, Reach, RunningCall, StopReason};
pub use private::NULL_BYTES;
pub use program::{Function, Program, ValueType};
