//! The window of a core: steps that have been taken and have not retired, in a ring buffer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{Index, IndexMut};

use cxlab_engine::save_state;
use cxlab_engine::units::Hpa;
use cxlab_workload::{Action, Step, StepDependency};
use serde::{Deserialize, Serialize};

/// Stands for no step and no request.
pub(super) const NIL: u32 = u32::MAX;
/// Completion time of a step that waits for memory.
pub(super) const PENDING: u64 = u64::MAX;

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct WindowEntry {
    pub(super) step: Step,
    /// When the step began, in picoseconds.
    pub(super) begun: u64,
    /// When the step completes, in picoseconds; [`PENDING`] if that is not known yet.
    pub(super) done: u64,
    /// Index of the first step that waits for this step's data.
    pub(super) waiters: u32,
    /// Index of the next step that waits for the same data as this step.
    pub(super) sibling: u32,
    /// Number of instructions of the program up to this step.
    pub(super) position: u64,
}

/// The window. A step's index is its number, from 0, modulo the number of entries, which is a power of two.
pub(super) struct Window {
    pub(super) entries: Vec<WindowEntry>,
    /// Number of instructions that the window holds.
    pub(super) size: u64,
    pub(super) oldest: u64,
    pub(super) next: u64,
    /// Number of instructions of the program up to the next step.
    pub(super) position: u64,
    /// Number of steps in the window that have not begun.
    pub(super) waiting: u32,
    /// Number of steps in the window that wait for memory.
    pub(super) pending: u32,
    /// Time since which at least one step waits for memory, in picoseconds.
    pub(super) pending_since: u64,
    /// Latest known completion time of a step, in picoseconds.
    pub(super) latest: u64,
    /// Steps whose data will be available, by time and number.
    pub(super) ready: BinaryHeap<Reverse<(u64, u64)>>,
    /// Steps that have to wait for room in memory, in order.
    pub(super) blocked: VecDeque<u64>,
}

save_state!(Window {
    values: oldest, next, position, waiting, pending, pending_since, latest, ready, blocked;
    sized: entries;
    built: size;
});

impl Window {
    /// Number of entries of a window of `size` instructions, in which each step is one or more.
    pub(super) fn entries_for(size: u32) -> u32 {
        size.next_power_of_two()
    }

    /// An empty window of `size` instructions.
    pub(super) fn new(size: u32) -> Window {
        let step = WindowEntry {
            step: Step::new(Hpa(0), Action::Load),
            begun: 0,
            done: 0,
            waiters: NIL,
            sibling: NIL,
            position: 0,
        };
        Window {
            entries: vec![step; Self::entries_for(size) as usize],
            size: size.into(),
            oldest: 0,
            next: 0,
            position: 0,
            waiting: 0,
            pending: 0,
            pending_since: 0,
            latest: 0,
            ready: BinaryHeap::with_capacity(size as usize),
            blocked: VecDeque::with_capacity(size as usize),
        }
    }

    pub(super) fn index_of(&self, number: u64) -> u32 {
        (number as usize & (self.entries.len() - 1)) as u32
    }

    pub(super) fn number_at(&self, index: u32) -> u64 {
        let ahead =
            index.wrapping_sub(self.index_of(self.oldest)) as usize & (self.entries.len() - 1);
        self.oldest + ahead as u64
    }

    /// The step whose data a step needs, if that step may still be in the window.
    pub(super) fn needed(&self, number: u64, after: StepDependency) -> Option<u64> {
        match after {
            StepDependency::Previous => number.checked_sub(1),
            StepDependency::Back(back) => number
                .checked_sub(u64::from(back))
                .filter(|needed| *needed >= self.oldest),
            StepDependency::Nothing | StepDependency::All => None,
        }
    }

    pub(super) fn begin(&mut self, number: u64, now: u64) {
        self[number].begun = now;
        self.waiting -= 1;
    }

    /// Records that another step waits for memory.
    pub(super) fn begin_wait(&mut self, now: u64) {
        if self.pending == 0 {
            self.pending_since = now;
        }
        self.pending += 1;
    }

    /// Records that memory has responded to a step. If no step waits any longer, returns for how long at least one had
    /// waited, in picoseconds; otherwise 0.
    pub(super) fn end_wait(&mut self, now: u64) -> u64 {
        self.pending -= 1;
        match self.pending {
            0 => now - self.pending_since,
            _ => 0,
        }
    }
}

/// Steps by number.
impl Index<u64> for Window {
    type Output = WindowEntry;

    fn index(&self, number: u64) -> &WindowEntry {
        &self.entries[self.index_of(number) as usize]
    }
}

impl IndexMut<u64> for Window {
    fn index_mut(&mut self, number: u64) -> &mut WindowEntry {
        let index = self.index_of(number);
        &mut self.entries[index as usize]
    }
}
