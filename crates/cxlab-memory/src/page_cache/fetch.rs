//! State in flight: pieces of requests, fetches, and pages on their way to the slow medium.

use serde::{Deserialize, Serialize};

use crate::tag_array::Slot;

/// Stands for the absence of an index.
pub(super) const NONE: u32 = u32::MAX;

/// Items with stable numbers; the numbers of removed items are reused.
#[derive(Serialize, Deserialize)]
pub(super) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Slab<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Slab {
            items: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.items[number as usize] = item;
                number
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> T {
        self.items[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.items[number as usize]
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        self.items[number as usize]
    }
}

/// A request of the owner.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: u32,
    /// Unfinished pieces, plus one while a part of the request waits for its look-up.
    pub(super) pieces: u32,
    pub(super) at: u64,
}

/// The lines of a request in one page.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct PageAccess {
    pub(super) request: u32,
    pub(super) line: u64,
    pub(super) lines: u64,
    pub(super) write: bool,
    /// The next piece that waits for the same fetch.
    pub(super) next: u32,
}

/// A fetch in progress (a miss status holding register).
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Fetch {
    pub(super) used: bool,
    pub(super) page: u64,
    pub(super) slot: Slot,
    /// Sectors that the fetch brings.
    pub(super) sectors: u64,
    /// The missed sectors among them, which are requested first with `critical_first`.
    pub(super) critical: u64,
    /// Unfinished reads of the slow medium.
    pub(super) reads: u32,
    /// Sectors that arrived while the frame was still being read out.
    pub(super) held: u64,
    /// The page in the write-back buffer that must be written before the fetch starts.
    pub(super) after: u32,
    pub(super) prefetch: bool,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) targets: u32,
}

/// A read of the slow medium for a fetch.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct SlowRead {
    pub(super) fetch: u32,
    pub(super) sectors: u64,
}

/// An entry of the write-back buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct WriteBackEntry {
    pub(super) used: bool,
    pub(super) page: u64,
    pub(super) slot: Slot,
    pub(super) sectors: u64,
    /// Unfinished reads of the DRAM.
    pub(super) reads: u32,
    /// Unfinished writes of the slow medium.
    pub(super) writes: u32,
}
