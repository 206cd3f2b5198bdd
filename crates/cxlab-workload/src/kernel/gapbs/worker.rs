//! A thread of a graph kernel: its team, the kernel's arrays, and the queue of a search.

use std::ops::Range;

use cxlab_engine::units::LINE_BYTES;

use super::Run;
use crate::kernel::team::{Shares, Team, control_bytes, in_order};
use crate::thread::{AtomicKind, Handle, Value};

/// Vertices that a thread takes at a time (GAPBS: 64 in `tc.cc`, 1,024 and 16,384 elsewhere, for
/// graphs that are thousands of times as large).
const CHUNK: u64 = 64;
/// Vertices that a thread collects before it appends them to the queue.
const BUFFER: usize = 64;

/// Bytes of the team's variables, and of the line with the queue's end.
pub(super) fn control(cores: u64) -> u64 {
    control_bytes(cores) + LINE_BYTES
}

/// A thread of a graph kernel.
pub(super) struct Worker<'a> {
    pub(super) t: &'a Handle,
    pub(super) run: &'a Run,
    pub(super) team: Team<'a>,
    queue_end: u64,
}

/// Vertices that a thread has found and not yet appended to the queue.
pub(super) struct FoundVertices {
    queue: u64,
    vertices: Vec<u64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(t: &'a Handle, run: &'a Run, core: u64) -> Worker<'a> {
        Worker {
            t,
            run,
            team: Team::new(t, core, run.cores, run.control),
            queue_end: run.control + control_bytes(run.cores),
        }
    }

    /// Whether this is the thread that does the work of a single thread for the team.
    pub(super) fn is_first(&self) -> bool {
        self.team.core == 0
    }

    /// The address of an element of `bytes` bytes in one of the kernel's arrays.
    pub(super) fn at(&self, array: usize, element: u64, bytes: u64) -> u64 {
        self.run.arrays[array] + element * bytes
    }

    /// Begins a loop with dynamic schedule over all vertices. A barrier must follow.
    pub(super) fn share_vertices(&mut self) -> Shares {
        self.share(self.run.n)
    }

    /// Begins a loop with dynamic schedule over `items` items. A barrier must follow.
    pub(super) fn share(&mut self, items: u64) -> Shares {
        self.team.share(items, CHUNK)
    }

    /// Replaces a number of 4 B if it equals `expected`. Value: the old number.
    pub(super) fn swap_if(&self, addr: u64, expected: u32, new: u32) -> Value<'a> {
        let (new, expected) = (new.into(), expected.into());
        self.t
            .issue(AtomicKind::CompareExchange.op(addr, 4, new, expected))
    }

    /// Loads a number of 4 B.
    pub(super) fn load(&self, addr: u64) -> Value<'a> {
        self.t.load_sized(addr, 4)
    }

    /// Stores a number of 4 B without waiting.
    pub(super) fn store(&self, addr: u64, number: u32) {
        drop(self.t.store_sized(addr, 4, number.into()));
    }

    /// Loads some elements of 4 B of an array, all at the same time.
    pub(super) async fn load_all(&self, array: usize, elements: Range<u64>) -> Vec<u64> {
        in_order(elements.map(|element| self.load(self.at(array, element, 4)))).await
    }

    /// The end of the queue. Other threads' additions are complete only after a barrier.
    pub(super) async fn queue_end(&self) -> u64 {
        self.t.load(self.queue_end).await
    }

    /// An empty buffer of found vertices for the queue in array `queue`, with 4 B for each vertex.
    pub(super) fn nothing_found(&self, queue: usize) -> FoundVertices {
        FoundVertices {
            queue: self.run.arrays[queue],
            vertices: Vec::with_capacity(BUFFER),
        }
    }

    /// Adds a vertex to the buffer, and appends the full buffer to the queue.
    pub(super) async fn find(&self, found: &mut FoundVertices, vertex: u64) {
        found.vertices.push(vertex);
        if found.vertices.len() == BUFFER {
            self.append(found).await;
        }
    }

    /// Appends the buffer to the queue.
    pub(super) async fn append(&self, found: &mut FoundVertices) {
        if found.vertices.is_empty() {
            return;
        }
        let count = found.vertices.len() as u64;
        let first = self.t.fetch_add(self.queue_end, count).await;
        for (place, vertex) in (first..).zip(found.vertices.drain(..)) {
            self.store(found.queue + 4 * place, vertex as u32);
        }
    }
}
