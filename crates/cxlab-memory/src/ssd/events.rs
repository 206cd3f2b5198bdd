//! What happens inside a drive, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub(super) enum Event {
    /// A request is done.
    Done(u32),
    /// A channel is free, and somebody waits for it.
    Bus(u32),
    /// A die's array is done, unless the die has been suspended since.
    Array(u32, u32),
    /// A read's data have left a die.
    Data(u32),
    /// A die has suspended what it did.
    Suspended(u32),
    /// A die's array begins to work while reads wait.
    Begun(u32, u32),
}

/// A heap of events; those of one instant come in the order in which they were put in.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
}

save_state!(Events {
    values: heap, number;
});

impl Events {
    #[inline]
    pub fn push(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.heap.push(Reverse((at, self.number, event)));
    }

    #[inline]
    pub fn first(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    #[inline]
    pub fn pop_until(&mut self, now: u64) -> Option<(u64, Event)> {
        if self.first()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
