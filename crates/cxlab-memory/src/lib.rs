//! Memory media behind one trait. Addresses and time; no messages.

pub mod backend;
pub mod fixed;

use cxlab_engine::catalog::Entry;

pub use backend::{Completion, MemoryBackend, MemoryRequest};

/// What builds a backend for a device, from its parameters.
pub trait Medium: Send + Sync {
    /// A fresh backend.
    fn backend(&self) -> Box<dyn MemoryBackend>;
    /// Time of one read alone on an idle medium, in picoseconds, where that is a constant.
    fn idle_read_ps(&self) -> Option<u64>;
}

/// Every medium that a scenario can name.
pub static CATALOG: &[Entry<Box<dyn Medium>>] = &[fixed::ENTRY];
