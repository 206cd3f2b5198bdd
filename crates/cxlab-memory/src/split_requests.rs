//! Requests that are served in several parts.

use cxlab_engine::slab::Slab;
use serde::{Deserialize, Serialize};

/// A request with unfinished parts.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SplitRequest {
    id: u32,
    /// Number of parts that are not done.
    left: u32,
    /// The latest completion among its finished parts, in picoseconds.
    last: u64,
}

/// Requests in flight, each done when its last part is.
#[derive(Serialize, Deserialize)]
pub(crate) struct SplitRequests(Slab<SplitRequest>);

impl SplitRequests {
    /// No request, with room for `capacity` of them.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        SplitRequests(Slab::with_capacity(capacity))
    }

    /// Adds a request of so many parts, and returns the number by which its parts name it.
    #[inline]
    pub(crate) fn begin(&mut self, id: u32, parts: u32) -> u32 {
        self.0.insert(SplitRequest {
            id,
            left: parts,
            last: 0,
        })
    }

    /// Sets the number of parts of a request that was added without knowing it.
    #[inline]
    pub(crate) fn set_parts(&mut self, number: u32, parts: u32) {
        self.0[number].left = parts;
    }

    /// Records that parts of a request are done at `at`. With the last one, returns the request's
    /// completion and its owner's id.
    #[inline]
    pub(crate) fn finish(&mut self, number: u32, parts: u32, at: u64) -> Option<(u64, u32)> {
        let request = &mut self.0[number];
        request.left -= parts;
        request.last = request.last.max(at);
        let done = (request.last, request.id);
        if request.left > 0 {
            return None;
        }
        self.0.release(number);
        Some(done)
    }
}
