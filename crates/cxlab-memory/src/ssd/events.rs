//! The internal events of a drive, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// An internal event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub(super) enum DriveEvent {
    /// The request is done.
    Done(u32),
    /// The channel is free, and a die waits for it.
    Bus(u32),
    /// The array of the die is done, unless the die was suspended since; the second number
    /// is its turn.
    Array(u32, u32),
    /// The data of a read have left the die.
    Data(u32),
    /// The die has suspended its operation.
    Suspended(u32),
    /// The array of the die begins to work while reads wait; the second number is its turn.
    Begun(u32, u32),
}

/// A heap of events; events at one time keep their order of insertion.
#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, DriveEvent)>>,
    number: u64,
}

save_state!(EventQueue {
    values: heap, number;
});

impl EventQueue {
    #[inline]
    pub fn push(&mut self, at: u64, event: DriveEvent) {
        self.number += 1;
        self.heap.push(Reverse((at, self.number, event)));
    }

    #[inline]
    pub fn first(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    #[inline]
    pub fn pop_until(&mut self, now: u64) -> Option<(u64, DriveEvent)> {
        if self.first()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
