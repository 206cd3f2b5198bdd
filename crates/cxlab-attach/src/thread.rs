//! What is known of a followed thread, and what it owes.

use std::time::Instant;

use crate::estimate::PhaseId;
use crate::ledger::Ledger;
use crate::maps;
use crate::progress::Place;
use crate::sys::{Resume, Tid};

/// A thread is held when it owes so much: short holds cost more than they charge.
const LEAST_HOLD_NS: u64 = 5_000_000;
/// And when it has used so much CPU time since the last hold: it runs more slowly behind one (what it had in
/// the nearest caches is gone, and its processor slept), which would be taken for waits of its own.
const LEAST_RUN_NS: u64 = 20_000_000;
/// CPU time behind a hold in which a thread is known to run more slowly.
const BEHIND_NS: u64 = 12_000_000;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum State {
    Running,
    /// It was asked to stop, for a look at where it is, to be held, or for a window.
    Asked {
        window: bool,
        since: Instant,
        /// CPU time that it had used by then, in nanoseconds, as of the kernel's last tick.
        cpu_ns: u64,
    },
    /// It stands still since and until then, and goes on so.
    Held {
        since: Instant,
        until: Instant,
        then: Resume,
    },
    /// The program's own stop signals hold it.
    Listening,
}

pub(crate) struct Thread {
    pub(crate) pid: Tid,
    pub(crate) state: State,
    /// CPU time that is accounted for, and that of it in user space.
    pub(crate) cpu_ns: u64,
    pub(crate) user_ns: u64,
    /// CPU time since the last look at where it is.
    pub(crate) stretch: Spent,
    /// Looks before which time passed that has no price yet, in order.
    pub(crate) open: Vec<Look>,
    /// The last one before those.
    pub(crate) priced: Option<Look>,
    /// When it is to be looked at again, before the next epoch.
    pub(crate) again: Option<Instant>,
    /// Whether it was last seen in code that no window has been in.
    pub(crate) elsewhere: bool,
    /// CPU time in this epoch.
    pub(crate) ran_ns: u64,
    /// CPU time of what it was asked for since the last question to the fabric.
    pub(crate) computed_ns: u64,
    /// CPU time since its last window, and since its last hold.
    pub(crate) since_ns: u64,
    pub(crate) unheld_ns: u64,
    /// What holds have slowed it down by and was not taken down yet, in nanoseconds.
    pub(crate) slower_ns: f64,
    pub(crate) ledger: Ledger,
}

impl State {
    /// It is asked now.
    pub(crate) fn asked(tid: Tid, window: bool) -> State {
        State::Asked {
            window,
            since: Instant::now(),
            cpu_ns: maps::cpu_ns(tid).unwrap_or(u64::MAX),
        }
    }
}

/// CPU time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Spent {
    /// All of it.
    pub(crate) cpu_ns: f64,
    /// That in user space, as far as the kernel's ticks show it.
    pub(crate) user_ns: f64,
}

impl Spent {
    pub(crate) fn add(&mut self, more: Spent) {
        self.cpu_ns += more.cpu_ns;
        self.user_ns += more.user_ns;
    }

    pub(crate) fn half(self) -> Spent {
        Spent {
            cpu_ns: self.cpu_ns / 2.0,
            user_ns: self.user_ns / 2.0,
        }
    }

    /// Without so much in the kernel.
    pub(crate) fn without(self, kernel_ns: f64) -> Spent {
        let cpu_ns = (self.cpu_ns - kernel_ns).max(0.0);
        Spent {
            cpu_ns,
            user_ns: self.user_ns.min(cpu_ns),
        }
    }
}

/// A look at where a thread is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) place: Place,
    /// Which code that was, if a window had been there by then.
    pub(crate) code: Option<PhaseId>,
    /// CPU time since the look before, and as how many instructions it was counted then.
    pub(crate) spent: Spent,
    pub(crate) counted: Option<f64>,
}

/// Looks without a price at most: then what passed between the oldest is taken together (*assumed*).
const OPEN: usize = 256;

impl Thread {
    /// The last look.
    pub(crate) fn last_look(&self) -> Option<Look> {
        self.open.last().copied().or(self.priced)
    }

    /// CPU time that has no price yet, in nanoseconds.
    pub(crate) fn waits_ns(&self) -> f64 {
        let open = self.open.iter().map(|look| look.spent.cpu_ns);
        self.stretch.cpu_ns + open.sum::<f64>()
    }

    /// It was looked at.
    pub(crate) fn looked(&mut self, place: Place, code: Option<PhaseId>, counted: Option<f64>) {
        let spent = std::mem::take(&mut self.stretch);
        self.open.push(Look {
            place,
            code,
            spent,
            counted,
        });
        if self.open.len() > OPEN {
            let oldest = self.open.remove(0);
            self.open[0].spent.add(oldest.spent);
            self.open[0].counted = None;
        }
    }

    pub(crate) fn new(tid: Tid, pid: Tid) -> Thread {
        Thread {
            pid,
            state: State::Running,
            cpu_ns: maps::cpu_ns(tid).unwrap_or(0),
            user_ns: maps::user_ns(tid).unwrap_or(0),
            stretch: Spent::default(),
            open: Vec::new(),
            priced: None,
            again: None,
            elsewhere: true,
            ran_ns: 0,
            computed_ns: 0,
            since_ns: 0,
            unheld_ns: 0,
            slower_ns: 0.0,
            ledger: Ledger::default(),
        }
    }

    /// It took so much longer because it had been held, or so much less. Over all of it that is taken from it.
    pub(crate) fn slow_down(&mut self, longer_ns: f64) -> u64 {
        self.slower_ns += longer_ns;
        let taken = self.slower_ns.max(0.0) as u64;
        self.slower_ns -= taken as f64;
        self.ledger.take(taken);
        taken
    }

    /// No hold was shortly before.
    pub(crate) fn is_plain(&self) -> bool {
        self.ledger.held_ns == 0 || self.unheld_ns > BEHIND_NS
    }

    pub(crate) fn must_be_held(&self) -> bool {
        self.ledger.debt_ns() >= LEAST_HOLD_NS && self.unheld_ns >= LEAST_RUN_NS
    }
}
