//! A thread of a graph kernel: its place in the team, the arrays, and the queue of a search.

use std::ops::Range;

use cxlab_engine::units::LINE_BYTES;

use super::Run;
use crate::kernel::team::{Shares, Team, control_bytes, in_order};
use crate::thread::op::{AtomicKind, ThreadOp};
use crate::thread::{Handle, Value};

/// Vertices that a thread takes at a time (GAPBS: 64 in `tc.cc`, 1,024 and 16,384 elsewhere, for graphs
/// that are thousands of times as large).
const CHUNK: u64 = 64;
/// Vertices that a thread gathers before it appends them to the queue.
const BUFFER: usize = 64;

/// Bytes of control: the team's, and the queue's end in a line of its own.
pub(super) fn control(cores: u64) -> u64 {
    control_bytes(cores) + LINE_BYTES
}

/// One thread.
pub(super) struct Worker<'a> {
    pub(super) t: &'a Handle,
    pub(super) run: &'a Run,
    pub(super) team: Team<'a>,
    queue_end: u64,
}

/// Vertices found, before they are in the queue.
pub(super) struct Found {
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

    /// Whether it does what one thread does for all.
    pub(super) fn is_first(&self) -> bool {
        self.team.core == 0
    }

    /// The address of an element of `bytes` in one of the kernel's arrays.
    pub(super) fn at(&self, array: usize, element: u64, bytes: u64) -> u64 {
        self.run.arrays[array] + element * bytes
    }

    /// Begins a loop over the vertices. A barrier must follow it.
    pub(super) fn share_vertices(&mut self) -> Shares {
        self.share(self.run.n)
    }

    /// The same over others.
    pub(super) fn share(&mut self, items: u64) -> Shares {
        self.team.share(items, CHUNK)
    }

    /// Replaces 4 B if they are as expected; the old number.
    pub(super) fn swap_if(&self, addr: u64, expected: u32, new: u32) -> Value<'a> {
        self.t.issue(ThreadOp::Atomic {
            addr,
            size: 4,
            kind: AtomicKind::CompareExchange,
            operand: new.into(),
            compare: expected.into(),
        })
    }

    /// Loads 4 B.
    pub(super) fn load(&self, addr: u64) -> Value<'a> {
        self.t.load_sized(addr, 4)
    }

    /// Stores 4 B, and does not wait.
    pub(super) fn store(&self, addr: u64, number: u32) {
        drop(self.t.store_sized(addr, 4, number.into()));
    }

    /// Loads some elements of 4 B of an array together.
    pub(super) async fn load_all(&self, array: usize, elements: Range<u64>) -> Vec<u64> {
        in_order(elements.map(|element| self.load(self.at(array, element, 4)))).await
    }

    /// The queue's end, behind a barrier.
    pub(super) async fn queue_end(&self) -> u64 {
        self.t.load(self.queue_end).await
    }

    /// Nothing found yet for the queue in an array of 4 B each.
    pub(super) fn nothing_found(&self, queue: usize) -> Found {
        Found {
            queue: self.run.arrays[queue],
            vertices: Vec::with_capacity(BUFFER),
        }
    }

    /// Notes a vertex for the queue.
    pub(super) async fn find(&self, found: &mut Found, vertex: u64) {
        found.vertices.push(vertex);
        if found.vertices.len() == BUFFER {
            self.append(found).await;
        }
    }

    /// Appends what was found to the queue.
    pub(super) async fn append(&self, found: &mut Found) {
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
