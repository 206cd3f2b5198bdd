//! The outstanding requests of a core to memory.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use serde::{Deserialize, Serialize};

use super::params::CoreParams;
use super::window::{NIL, Window};

/// A request of a core to memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct CoreRequest {
    pub(super) line: LineAddr,
    pub(super) issued: u64,
    pub(super) id: u64,
    pub(super) kind: RequestKind,
    /// The hardware thread that sent the request.
    pub(super) thread: u16,
    /// The steps that wait for the request, as indices in the windows of all threads.
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

/// The requests of all threads by tag, and the lines that wait for one.
pub(super) struct MemoryRequests {
    pub(super) list: Vec<CoreRequest>,
    pub(super) free: Vec<u32>,
    /// Outstanding fills and write-backs. There are few, so a search is linear.
    pub(super) fills: Vec<u32>,
    pub(super) writebacks: Vec<u32>,
    /// By index in the windows of all threads: the next step that waits for the same line.
    pub(super) next: Vec<u32>,
    /// Evicted lines that wait for a free request.
    pub(super) evicted: VecDeque<LineAddr>,
    /// Most write-backs, including lines that wait for one.
    most_writebacks: u32,
}

save_state!(MemoryRequests {
    values: free, fills, writebacks, evicted;
    sized: list, next;
    built: most_writebacks;
});

impl MemoryRequests {
    pub(super) fn new(params: &CoreParams, threads: u32) -> MemoryRequests {
        let (fills, writebacks) = (params.fills() * threads, params.writebacks * threads);
        let requests = fills + writebacks;
        let free = CoreRequest {
            line: LineAddr(0),
            issued: 0,
            id: 0,
            kind: RequestKind::Free,
            thread: 0,
            first: NIL,
            last: NIL,
            dirty: false,
            prefetch: false,
        };
        MemoryRequests {
            list: vec![free; requests as usize],
            free: (0..requests).rev().collect(),
            fills: Vec::with_capacity(fills as usize),
            writebacks: Vec::with_capacity(writebacks as usize),
            next: vec![NIL; (Window::entries_for(params.window) * threads) as usize],
            evicted: VecDeque::with_capacity(fills as usize),
            most_writebacks: writebacks,
        }
    }

    pub(super) fn may_write_back(&self) -> bool {
        self.writebacks.len() < self.most_writebacks as usize
    }

    /// The step at `index` waits for request `tag`, too.
    pub(super) fn wait(&mut self, tag: u32, index: u32) {
        self.next[index as usize] = NIL;
        let request = &mut self.list[tag as usize];
        match std::mem::replace(&mut request.last, index) {
            NIL => request.first = index,
            last => self.next[last as usize] = index,
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

    /// The outstanding fill of a line, if there is one.
    pub(super) fn fill_of(&self, line: LineAddr) -> Option<u32> {
        let mut fills = self.fills.iter();
        fills
            .find(|tag| self.list[**tag as usize].line == line)
            .copied()
    }

    /// Whether a write-back of a line is outstanding or waits for a free request.
    pub(super) fn is_going_back(&self, line: LineAddr) -> bool {
        self.evicted.contains(&line)
            || self
                .writebacks
                .iter()
                .any(|tag| self.list[*tag as usize].line == line)
    }
}
