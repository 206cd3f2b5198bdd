//! The outstanding requests of a core to memory.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use serde::{Deserialize, Serialize};

use super::params::CoreParams;
use super::window::NIL;

/// A request to memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct CoreRequest {
    pub(super) line: LineAddr,
    pub(super) issued: u64,
    pub(super) id: u64,
    pub(super) kind: RequestKind,
    /// The steps that wait for the request, as indices in the window.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Whether a waiting step stores to the line.
    pub(super) dirty: bool,
    /// Whether the prefetcher sent the request.
    pub(super) prefetch: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum RequestKind {
    Free,
    /// Reads a line for a miss.
    Fill,
    /// Writes a flushed line.
    Flush,
    /// Writes an evicted line.
    Evict,
}

/// The requests by tag, and the lines that wait for one.
pub(super) struct MemoryRequests {
    pub(super) list: Vec<CoreRequest>,
    pub(super) free: Vec<u32>,
    /// Outstanding fills and write-backs. There are few, so a search is linear.
    pub(super) fills: Vec<u32>,
    pub(super) writebacks: Vec<u32>,
    /// Number of outstanding fills that the prefetcher requested.
    pub(super) prefetched: u32,
    /// Evicted lines that wait for a free request.
    pub(super) evicted: VecDeque<LineAddr>,
    /// Most write-backs, including lines that wait for one.
    most_writebacks: u32,
}

save_state!(MemoryRequests {
    values: free, fills, writebacks, prefetched, evicted;
    sized: list;
    built: most_writebacks;
});

impl MemoryRequests {
    pub(super) fn new(params: &CoreParams) -> MemoryRequests {
        let requests = params.fills() + params.writebacks;
        let free = CoreRequest {
            line: LineAddr(0),
            issued: 0,
            id: 0,
            kind: RequestKind::Free,
            first: NIL,
            last: NIL,
            dirty: false,
            prefetch: false,
        };
        MemoryRequests {
            list: vec![free; requests as usize],
            free: (0..requests).rev().collect(),
            fills: Vec::with_capacity(params.fills() as usize),
            writebacks: Vec::with_capacity(params.writebacks as usize),
            prefetched: 0,
            evicted: VecDeque::with_capacity(params.fills() as usize),
            most_writebacks: params.writebacks,
        }
    }

    /// Number of requests in flight, including evicted lines that wait for one.
    pub(super) fn in_flight(&self) -> u64 {
        (self.list.len() - self.free.len() + self.evicted.len()) as u64
    }

    /// Whether the limit of outstanding write-backs is reached.
    pub(super) fn is_writing_back_most(&self) -> bool {
        self.writebacks.len() + self.evicted.len() >= self.most_writebacks as usize
    }

    pub(super) fn fill_of(&self, line: LineAddr) -> Option<u32> {
        let mut fills = self.fills.iter();
        fills
            .find(|tag| self.list[**tag as usize].line == line)
            .copied()
    }

    pub(super) fn is_going_back(&self, line: LineAddr) -> bool {
        self.evicted.contains(&line)
            || self
                .writebacks
                .iter()
                .any(|tag| self.list[*tag as usize].line == line)
    }
}
