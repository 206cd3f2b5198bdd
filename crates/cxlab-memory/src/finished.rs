//! Requests whose end is known, told of in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;

use crate::backend::Completion;

/// Completions to come; of equal times the one that was added first is first.
pub(crate) struct Finished {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    added: u64,
}

save_state!(Finished {
    values: heap, added;
});

impl Finished {
    /// Room for that many without allocation.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Finished {
            heap: BinaryHeap::with_capacity(capacity),
            added: 0,
        }
    }

    /// A request will be done at a time.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, id: u32) {
        self.heap.push(Reverse((at, self.added, id)));
        self.added += 1;
    }

    /// When the next is done.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Moves what is done by `now`.
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
