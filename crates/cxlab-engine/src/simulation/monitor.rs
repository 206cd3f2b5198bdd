//! What a run shows to its caller: progress while it runs, and its outcome.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::windows::{WindowCounters, Windows};
use crate::units::{Picos, SimTime};

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// No event was left.
    Exhausted,
    /// The time limit was reached.
    TimeLimit,
    /// [`Monitor::interrupt`] was called.
    Interrupted,
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Time of the last event handled, or the time limit where that ended the run.
    pub end: SimTime,
    /// Events handled so far, over all runs of this simulation.
    pub events: u64,
    /// The order digest: a hash of all events of each component, in their order, over all runs of this
    /// simulation. Equal digests say that two simulations handled the same events in the same order.
    pub digest: u64,
    /// Why the run ended.
    pub stop: Stop,
    /// Number of partitions at the end of the run. It depends on the number of threads.
    pub partitions: usize,
    /// The lookahead between the partitions; `None` if no wire connects two of them.
    pub lookahead: Option<Picos>,
}

/// Shows the progress of a running simulation to another thread, which may interrupt the run. Where there is no
/// other thread, [`Monitor::watched`] has the run call a function.
#[derive(Default, Debug)]
pub struct Monitor {
    interrupted: AtomicBool,
    pub(super) events: AtomicU64,
    pub(super) work: AtomicU64,
    untimed_work: AtomicU64,
    pub(super) time: AtomicU64,
    pub(super) blocks: AtomicU64,
    /// The most threads that a run has used outside of trials.
    pub(super) threads: AtomicUsize,
    pub(super) windows: WindowCounters,
    watch: Option<fn(&Monitor)>,
}

impl Monitor {
    /// A monitor that calls `watch` after every few thousand events, on the thread that handled them.
    pub fn watched(watch: fn(&Monitor)) -> Monitor {
        Monitor {
            watch: Some(watch),
            ..Monitor::default()
        }
    }

    /// Calls the function of [`Monitor::watched`].
    pub(super) fn show(&self) {
        if let Some(watch) = self.watch {
            watch(self);
        }
    }

    /// The largest number of blocks of components on one thread, with block-by-block execution. Below 2
    /// where no thread used it, because the components fit the caches or have few events at a time.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// The largest number of threads that a run has used, apart from trials of more threads that were not
    /// faster. 0 before the first run.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// Counts of the windows of all runs on several threads with this monitor. They are complete when the
    /// run has ended.
    pub fn windows(&self) -> Windows {
        self.windows.get()
    }

    /// Asks the run to end soon. What components have measured stays valid.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }
    /// Whether [`Monitor::interrupt`] was called.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
    /// Events handled so far, updated every few thousand events.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
    /// Units of work so far ([`Ctx::count_work`](crate::Ctx::count_work)), including those before a restored state.
    pub fn work(&self) -> u64 {
        self.untimed_work() + self.work.load(Ordering::Relaxed)
    }
    /// Units of work that were not simulated in this run: done before a restored state, or applied without time.
    pub fn untimed_work(&self) -> u64 {
        self.untimed_work.load(Ordering::Relaxed)
    }
    /// Sets the units of work that were done before the state from which the run continues.
    pub fn set_untimed_work(&self, work: u64) {
        self.untimed_work.store(work, Ordering::Relaxed);
    }
    /// Simulated time so far, updated together with [`Monitor::events`].
    pub fn time(&self) -> SimTime {
        SimTime(self.time.load(Ordering::Relaxed))
    }
}
