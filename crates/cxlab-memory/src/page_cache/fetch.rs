//! What is under way: pieces of requests, fetches, pages on their way back.

use serde::{Deserialize, Serialize};

use crate::tag_array::Slot;

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// Things with numbers that are used again.
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
    /// Pieces that are not done, and one for what waits to be looked up.
    pub(super) pieces: u32,
    pub(super) at: u64,
}

/// The lines of a request that lie in one page.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) request: u32,
    pub(super) line: u64,
    pub(super) lines: u64,
    pub(super) write: bool,
    /// The next that waits for the same fetch.
    pub(super) next: u32,
}

/// A page that is being fetched.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Fetch {
    pub(super) used: bool,
    pub(super) page: u64,
    pub(super) slot: Slot,
    /// Sectors that it brings.
    pub(super) sectors: u64,
    /// Those of them to ask for first.
    pub(super) critical: u64,
    /// Reads of the slow medium that are not done.
    pub(super) reads: u32,
    /// Sectors that came and wait for the frame.
    pub(super) held: u64,
    /// The page in the write-back buffer that it waits for.
    pub(super) after: u32,
    pub(super) prefetch: bool,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) targets: u32,
}

/// A read of the slow medium.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) fetch: u32,
    pub(super) sectors: u64,
}

/// A page of the write-back buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Leaving {
    pub(super) used: bool,
    pub(super) page: u64,
    pub(super) slot: Slot,
    pub(super) sectors: u64,
    /// Reads of the DRAM that are not done.
    pub(super) reads: u32,
    /// Writes of the slow medium that are not done.
    pub(super) writes: u32,
}
