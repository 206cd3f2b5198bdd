//! The front end of a hardware thread: it takes the steps of its thread in order, several each cycle.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_workload::{Program, Step, SyncPoint, ThreadStep};

/// The program that a core runs, with its random stream.
pub(super) struct RunningProgram {
    pub(super) program: Box<dyn Program>,
    pub(super) rng: StreamRng,
}

save_state!(RunningProgram {
    states: program, rng;
});

/// The next step of a thread.
pub(super) struct FrontEnd {
    left: u64,
    pub(super) held: Option<Step>,
    /// The point of synchronization that the thread has come to, and whether its earlier steps have completed.
    pub(super) sync: Option<SyncPoint>,
    pub(super) passed: bool,
    /// When the window has room for the held step, as far as that is known.
    pub(super) room: u64,
    pub(super) exhausted: bool,
    /// Whether the program ended by itself, and not by the limit of its steps.
    pub(super) finished: bool,
    /// When the program began. The times of its steps count from here.
    pub(super) begun: u64,
    /// Start of the cycle of the last issue, and the number of steps issued in it.
    pub(super) cycle_start: u64,
    pub(super) in_cycle: u32,
}

save_state!(FrontEnd {
    values: left, held, sync, passed, room, exhausted, finished, begun, cycle_start, in_cycle;
});

impl FrontEnd {
    /// The front end before the program begins. It takes at most `limit` steps.
    pub(super) fn new(limit: Option<u64>) -> FrontEnd {
        FrontEnd {
            left: limit.unwrap_or(u64::MAX),
            held: None,
            sync: None,
            passed: false,
            room: 0,
            exhausted: false,
            finished: false,
            begun: 0,
            cycle_start: 0,
            in_cycle: 0,
        }
    }

    /// Fetches the next step of the program's only thread, unless one is held.
    pub(super) fn hold(&mut self, running: &mut RunningProgram) {
        if self.held.is_none() && !self.exhausted {
            if self.left > 0 {
                self.left -= 1;
                self.held = running.program.next_step(&mut running.rng);
                self.finished = self.held.is_none();
            }
            self.exhausted = self.held.is_none();
        }
    }

    /// Fetches what thread `number` of several does next, unless that is held.
    pub(super) fn hold_of(&mut self, running: &mut RunningProgram, number: usize) {
        if self.held.is_some() || self.sync.is_some() || self.exhausted {
            return;
        }
        if self.left > 0 {
            self.left -= 1;
            match running.program.next_of(number, &mut running.rng) {
                Some(ThreadStep::Step(step)) => self.held = Some(step),
                Some(ThreadStep::Sync(sync)) => self.sync = Some(sync),
                None => self.finished = true,
            }
        }
        self.exhausted = self.held.is_none() && self.sync.is_none();
    }

    /// The next step or computing begins at `now`, in picoseconds.
    pub(super) fn go_on(&mut self, now: u64) {
        (self.cycle_start, self.in_cycle, self.room) = (now, 0, 0);
    }

    /// Takes the held step at `now`, in picoseconds.
    pub(super) fn take(&mut self, now: u64) {
        (self.held, self.room) = (None, 0);
        if now > self.cycle_start {
            self.cycle_start = now;
            self.in_cycle = 0;
        }
        self.in_cycle += 1;
    }
}
