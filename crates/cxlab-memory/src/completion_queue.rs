//! A queue of known completions, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cxlab_cache::Completion;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;

/// Future completions; equal times keep the order of insertion.
pub(crate) struct CompletionQueue {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    added: u64,
}

save_state!(CompletionQueue {
    values: heap, added;
});

impl CompletionQueue {
    /// An empty queue with room for `capacity` completions without allocation.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        CompletionQueue {
            heap: BinaryHeap::with_capacity(capacity),
            added: 0,
        }
    }

    /// Adds the completion of a request, in picoseconds.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, id: u32) {
        self.heap.push(Reverse((at, self.added, id)));
        self.added += 1;
    }

    /// Time of the first completion.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Moves all completions up to `now` into `done`.
    #[inline]
    pub(crate) fn drain(&mut self, now: u64, done: &mut Vec<Completion>) {
        while let Some(Reverse((at, _, id))) = self.heap.peek().copied()
            && at <= now
        {
            self.heap.pop();
            done.push(Completion {
                id,
                at: SimTime(at),
            });
        }
    }
}
