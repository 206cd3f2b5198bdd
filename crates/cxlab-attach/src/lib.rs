//! Unmodified programs under a scenario: `cxlab attach`.
//!
//! A program runs natively. Its threads are traced: now and then one is stepped over some hundred
//! instructions, every address of which is decoded ([`model`]); that says how long the program
//! waits for memory, and for which ([`placement`]), when it goes on in the same way ([`onward`]). From what its registers say of its progress ([`progress`]),
//! or else from its CPU time, and from what the analytic form of the fabric says of latency and bandwidth
//! ([`fabric`]), follows the delay that CXL memory would have added ([`estimate`]). The thread that used the time is held for that long, and the
//! books are kept to the nanosecond ([`ledger`]).
//!
//! # Invariants
//! Delay is never clipped, and what was charged equals what was asked for but for the last hold.
//! Memory that is not slower than this machine's adds nothing. More latency never asks for less.
//! When cxlab ends, in whatever way, the program runs on.
//!
//! Only Linux on x86-64 has the parts that follow a program; the rest builds everywhere.

pub mod estimate;
pub mod fabric;
pub mod ledger;
pub mod model;
pub mod onward;
pub mod placement;
pub mod progress;
pub mod report;
pub mod schedule;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod calibrate;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod decode;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod doctor;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guard;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod maps;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod prices;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod process;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod sys;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod thread;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod window;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use guard::{AttachError, Options, attach};

/// What runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A command and its arguments, started for it.
    Command(Vec<std::ffi::OsString>),
    /// A process that runs already, with its threads, and what it starts from now on.
    Pid(i32),
}
