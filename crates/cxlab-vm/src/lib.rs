//! Runs an unmodified Linux with its own CXL driver under a scenario: `cxlab vm`.
//!
//! A guest is built from Debian's packages ([`build`]) and started in QEMU ([`qemu`], [`session`])
//! on a machine with the scenario's devices ([`machine`]). A plugin (`adapters/qemu`) filters
//! every access through the processor's caches. Misses pass through shared memory ([`ring`]) to a
//! model of the processor ([`model`]). The model asks the scenario's memory ([`memory`]) for the
//! latency of each line, and charges it to the guest's processor, whose clock follows. Several
//! guests share one model, in step ([`pace`]). A guest may have an accelerator, whose registers and commands
//! are in [`device`].
//!
//! # Invariants
//! * A guest can only change its own output and numbers. Every message from a guest is bounded, and
//!   a guest does not choose the names of files.
//! * When cxlab ends, for whatever reason, QEMU ends.
//! * Charged time never decreases.
//!
//! Guests run only on Linux on x86-64. The other modules build everywhere.

pub mod console;
pub mod contents;
pub mod cpio;
pub mod device;
pub mod machine;
pub mod memory;
pub mod model;
pub mod pace;
pub mod prefetch;
pub mod qemu;
pub mod ring;

#[cfg(target_os = "linux")]
pub mod build;
#[cfg(target_os = "linux")]
pub mod session;
#[cfg(target_os = "linux")]
pub mod snapshot;
#[cfg(target_os = "linux")]
pub mod storage;
#[cfg(target_os = "linux")]
mod sys;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod native;
