//! Memory media behind one trait, and the tag arrays of snoop filters and caches with their
//! victim policies. Addresses and time; no messages.

pub mod backend;
pub mod fixed;
pub mod tag_array;
pub mod victim;

use cxlab_engine::catalog::Entry;

pub use backend::{Completion, MemoryBackend, MemoryRequest};
pub use tag_array::{Block, Filled, Geometry, GeometryError, Room, Slot, TagArray};
pub use victim::VictimPolicy;

/// What builds a backend for a device, from its parameters.
pub trait Medium: Send + Sync {
    /// A fresh backend.
    fn backend(&self) -> Box<dyn MemoryBackend>;
    /// Time of one read alone on an idle medium, in picoseconds, where that is a constant.
    fn idle_read_ps(&self) -> Option<u64>;
}

/// Every medium that a scenario can name.
pub static CATALOG: &[Entry<Box<dyn Medium>>] = &[fixed::ENTRY];
