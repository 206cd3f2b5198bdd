//! The steps of one operation of a program, collected before they are handed out.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LINE_BYTES};

use crate::program::{Action, Step, StepDependency};

/// A queue of steps to be handed out. It grows to the length of the longest operation.
#[derive(Default)]
pub(super) struct Script {
    steps: VecDeque<Step>,
    phase: u8,
    /// Whether the next store waits for all earlier steps.
    fence: bool,
    /// Whether the next step follows an atomic operation and waits for it.
    barrier: bool,
    /// Core cycles of computing before the next atomic operation.
    cycles: u32,
}

save_state!(Script {
    values: steps, phase, fence, barrier, cycles;
});

impl Script {
    /// Assigns later steps to this phase.
    pub fn enter(&mut self, phase: u8) {
        self.phase = phase;
    }

    /// Removes and returns the next step.
    #[inline]
    pub fn next(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    fn push(&mut self, hpa: u64, action: Action, after: StepDependency) {
        let after = match after {
            StepDependency::Nothing if self.barrier => StepDependency::Previous,
            after => after,
        };
        self.barrier = false;
        self.steps.push_back(Step {
            after,
            phase: self.phase,
            ..Step::new(Hpa(hpa), action)
        });
    }

    /// Adds a load.
    pub fn load(&mut self, hpa: u64, after: StepDependency) {
        self.push(hpa, Action::Load, after);
    }

    /// Adds a store; after a fence, the store waits for all earlier steps.
    pub fn store(&mut self, hpa: u64, after: StepDependency) {
        let fence = std::mem::take(&mut self.fence);
        let after = if fence { StepDependency::All } else { after };
        self.push(hpa, Action::Store, after);
    }

    /// Adds a write-back of a line (CLWB), which waits for earlier stores to the line.
    pub fn flush(&mut self, hpa: u64) {
        self.push(hpa, Action::Flush, StepDependency::Nothing);
    }

    /// Makes the next store wait for all earlier steps (SFENCE); loads do not wait.
    pub fn fence(&mut self) {
        self.fence = true;
    }

    /// Adds computing before the next atomic operation.
    pub fn compute(&mut self, cycles: u32) {
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// Adds the store of an atomic read-modify-write (LOCK) whose load has been added. The store
    /// waits for all earlier steps, and the next step waits for the store.
    pub fn exchange(&mut self, hpa: u64) {
        self.fence = false;
        self.push(hpa, Action::Store, StepDependency::All);
        if let Some(step) = self.steps.back_mut() {
            step.cycles = std::mem::take(&mut self.cycles);
        }
        self.barrier = true;
    }

    /// Adds an atomic read-modify-write (LOCK).
    pub fn atomic(&mut self, hpa: u64, after: StepDependency) {
        self.load(hpa, after);
        self.exchange(hpa);
    }

    /// Adds loads of every line of a range. The first waits as `first` says, the
    /// others for no step.
    pub fn load_range(&mut self, hpa: u64, bytes: u64, first: StepDependency) {
        let mut after = first;
        for at in lines(hpa, bytes) {
            self.load(at, after);
            after = StepDependency::Nothing;
        }
    }

    /// Adds stores to every line of a range, then a write-back of each line. The first store
    /// waits as `first` says.
    pub fn persist(&mut self, hpa: u64, bytes: u64, first: StepDependency) {
        let mut after = first;
        for at in lines(hpa, bytes) {
            self.store(at, after);
            after = StepDependency::Nothing;
        }
        for at in lines(hpa, bytes) {
            self.flush(at);
        }
    }

    /// Marks the last step as the end of an operation of the program.
    pub fn end(&mut self) {
        if let Some(step) = self.steps.back_mut() {
            step.ends = true;
        }
    }
}

/// The first byte of a range in each line that the range covers.
fn lines(hpa: u64, bytes: u64) -> impl Iterator<Item = u64> {
    let last = hpa + bytes.max(1) - 1;
    (hpa / LINE_BYTES..=last / LINE_BYTES).map(move |line| hpa.max(line * LINE_BYTES))
}
