//! The front end of a core: it takes the program's steps in order, several each cycle.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_workload::{Program, Step};

/// The program, and the next step of it.
pub(super) struct FrontEnd {
    pub(super) program: Box<dyn Program>,
    rng: StreamRng,
    left: u64,
    pub(super) held: Option<Step>,
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
    values: left, held, room, exhausted, finished, begun, cycle_start, in_cycle;
    states: program, rng;
});

impl FrontEnd {
    /// The front end before the program begins. It takes at most `limit` steps.
    pub(super) fn new(program: Box<dyn Program>, rng: StreamRng, limit: Option<u64>) -> FrontEnd {
        FrontEnd {
            program,
            rng,
            left: limit.unwrap_or(u64::MAX),
            held: None,
            room: 0,
            exhausted: false,
            finished: false,
            begun: 0,
            cycle_start: 0,
            in_cycle: 0,
        }
    }

    /// Fetches the next step, unless one is held.
    pub(super) fn hold(&mut self) {
        if self.held.is_none() && !self.exhausted {
            if self.left > 0 {
                self.left -= 1;
                self.held = self.program.next_step(&mut self.rng);
                self.finished = self.held.is_none();
            }
            self.exhausted = self.held.is_none();
        }
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
