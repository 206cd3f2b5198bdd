//! A real Linux with its real CXL driver under a scenario: `cxlab vm`.
//!
//! A guest is built from Debian's packages ([`build`]) and started in QEMU ([`qemu`], [`session`]) on a
//! machine that has the scenario's devices ([`machine`]). A plugin (`adapters/qemu`) filters every
//! access through the processor's caches; what misses comes through shared memory ([`ring`]) to a
//! model of the processor ([`model`]), which asks the scenario's memory ([`memory`]) how long each
//! line takes and charges the guest's processor for it. The guest's own clock follows. Several guests
//! meet in one model, in step ([`pace`]).
//!
//! # Invariants
//! What the guest says or does changes its output and its numbers, and nothing else: every word from
//! it is bounded, and files are written by names that it does not choose. When cxlab ends, in
//! whatever way, QEMU ends. Time charged never goes back.
//!
//! Only Linux on x86-64 runs guests; the rest builds everywhere.

pub mod console;
pub mod cpio;
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
