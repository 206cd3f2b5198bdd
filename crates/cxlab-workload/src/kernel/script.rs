//! The steps of one operation of a program, written down before they are handed out.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LINE_BYTES};

use crate::program::{Action, After, Step};

/// Steps that wait to be handed out. It grows to the longest operation and then no more.
#[derive(Default)]
pub(super) struct Script {
    steps: VecDeque<Step>,
    phase: u8,
    /// The next store waits for all steps before it.
    fence: bool,
    /// The next step follows an atomic operation and waits for it.
    barrier: bool,
    /// Computing before the next atomic operation.
    cycles: u32,
}

save_state!(Script {
    values: steps, phase, fence, barrier, cycles;
});

impl Script {
    /// The steps that follow belong to this phase.
    pub fn enter(&mut self, phase: u8) {
        self.phase = phase;
    }

    /// The next step to hand out.
    #[inline]
    pub fn next(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    fn push(&mut self, hpa: u64, action: Action, after: After) {
        let after = match after {
            After::Nothing if self.barrier => After::Previous,
            after => after,
        };
        self.barrier = false;
        self.steps.push_back(Step {
            after,
            phase: self.phase,
            ..Step::new(Hpa(hpa), action)
        });
    }

    /// Loads.
    pub fn load(&mut self, hpa: u64, after: After) {
        self.push(hpa, Action::Load, after);
    }

    /// Stores, when an earlier fence lets it.
    pub fn store(&mut self, hpa: u64, after: After) {
        let fence = std::mem::take(&mut self.fence);
        let after = if fence { After::All } else { after };
        self.push(hpa, Action::Store, after);
    }

    /// Writes back a line when the stores to it before are done (CLWB).
    pub fn flush(&mut self, hpa: u64) {
        self.push(hpa, Action::Flush, After::Nothing);
    }

    /// Holds the next store until all before it is done (SFENCE); loads may pass.
    pub fn fence(&mut self) {
        self.fence = true;
    }

    /// Computing that the next atomic operation waits for.
    pub fn compute(&mut self, cycles: u32) {
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// The store of an atomic read-modify-write (LOCK) of what has been loaded: it waits for all
    /// before it, and what comes next waits for it.
    pub fn exchange(&mut self, hpa: u64) {
        self.fence = false;
        self.push(hpa, Action::Store, After::All);
        if let Some(step) = self.steps.back_mut() {
            step.cycles = std::mem::take(&mut self.cycles);
        }
        self.barrier = true;
    }

    /// An atomic read-modify-write (LOCK).
    pub fn atomic(&mut self, hpa: u64, after: After) {
        self.load(hpa, after);
        self.exchange(hpa);
    }

    /// Loads every line of a range; the first waits as said, the others come with it.
    pub fn load_range(&mut self, hpa: u64, bytes: u64, first: After) {
        let mut after = first;
        for at in lines(hpa, bytes) {
            self.load(at, after);
            after = After::Nothing;
        }
    }

    /// Stores to every line of a range, then writes each back.
    pub fn persist(&mut self, hpa: u64, bytes: u64, first: After) {
        let mut after = first;
        for at in lines(hpa, bytes) {
            self.store(at, after);
            after = After::Nothing;
        }
        for at in lines(hpa, bytes) {
            self.flush(at);
        }
    }

    /// An operation of the program is done with the last step.
    pub fn end(&mut self) {
        if let Some(step) = self.steps.back_mut() {
            step.ends = true;
        }
    }
}

/// The first byte of a range in each line that it touches.
fn lines(hpa: u64, bytes: u64) -> impl Iterator<Item = u64> {
    let last = hpa + bytes.max(1) - 1;
    (hpa / LINE_BYTES..=last / LINE_BYTES).map(move |line| hpa.max(line * LINE_BYTES))
}
