//! State in flight: pieces of requests, fetches, and pages on their way to the slow medium.

use cxlab_cache::Slot;
use serde::{Deserialize, Serialize};

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
