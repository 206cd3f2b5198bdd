//! State of a followed thread, and the delay that it owes.

use std::time::{Duration, Instant};

use crate::estimate::PhaseId;
use crate::ledger::Ledger;
use crate::maps::{self, ThreadUsage};
use crate::progress::ThreadPlace;
use crate::recording::StackId;
use crate::reuse_time::{ReuseTimes, WatchId};
use crate::sys::{Breakpoint, Resume, Tid};

/// Least delay for which a thread is held, in nanoseconds. Shorter holds cost more than they charge.
const LEAST_HOLD_NS: u64 = 5_000_000;
/// CPU time that a thread must have used since its last hold before it is held again. A thread runs
/// more slowly after a hold, because its nearest caches are cold and its processor slept. That
/// slowdown would count as waits of the program.
const LEAST_RUN_NS: u64 = 20_000_000;
/// CPU time after a hold in which a thread is known to run more slowly.
const SLOW_AFTER_HOLD_NS: u64 = 12_000_000;
/// Least CPU time over which the rate of page faults is computed, in nanoseconds (*assumed*).
const LEAST_KNOWN_NS: u64 = 1_000_000;
/// Largest slowdown of a thread by watching lines, as a part of its CPU time (*assumed*).
const WATCH_COST: f64 = 0.02;

#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) enum State {
    #[default]
    Running,
    /// The thread was asked to stop: for a sample, for a hold, or for a window.
    Asked {
        window: bool,
        since: Instant,
        /// CPU time that the thread had used when it was asked, in nanoseconds, as of the kernel's last tick.
        cpu_ns: u64,
    },
    /// The thread is stopped from `since` until `until`, and then resumes with `then`.
    Held {
        since: Instant,
        until: Instant,
        then: Resume,
    },
    /// One of the program's own stop signals holds the thread.
    Listening,
}

#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) pid: Tid,
    pub(crate) state: State,
    /// CPU time that is accounted for, and the kernel's counts of it.
    pub(crate) cpu_ns: u64,
    pub(crate) usage: ThreadUsage,
    /// CPU time since the last sample.
    pub(crate) stretch: SpentTime,
    /// Samples whose preceding interval has no price yet, in order.
    pub(crate) open: Vec<RegisterSample>,
    /// The last sample before those in `open`.
    pub(crate) priced: Option<RegisterSample>,
    /// Time of another sample before the next epoch.
    pub(crate) again: Option<Instant>,
    /// CPU time in this epoch.
    pub(crate) ran_ns: u64,
    /// CPU time that was priced since the last request to the fabric.
    pub(crate) computed_ns: u64,
    /// CPU time since the thread's last window, and since its last hold.
    pub(crate) since_ns: u64,
    pub(crate) unheld_ns: u64,
    /// Slowdown by holds that is not yet in the ledger, in nanoseconds. Negative if the thread ran faster.
    pub(crate) slower_ns: f64,
    pub(crate) ledger: Ledger,
    /// Watched lines, until they are touched again or have left the cache.
    pub(crate) watched: Vec<Watch>,
    /// Additional time of page faults while the thread watched lines, and the share of its CPU time by which watching
    /// would lengthen its latest page faults.
    watch_cost_ns: f64,
    watch_part: f64,
}

/// A line that a thread watches.
pub(crate) struct Watch {
    id: WatchId,
    /// Breakpoints on the line, one at least.
    breakpoints: Vec<Breakpoint>,
    /// CPU time of windows during the watch, which does not count as the program's, in nanoseconds.
    stepped_ns: u64,
}

impl Watch {
    pub(crate) fn new(id: WatchId, breakpoints: Vec<Breakpoint>) -> Watch {
        Watch {
            id,
            breakpoints,
            stepped_ns: 0,
        }
    }

    /// Number of breakpoints on the line.
    pub(crate) fn breakpoints(&self) -> usize {
        self.breakpoints.len()
    }

    /// CPU time of the thread until it touched the line, or until now, in nanoseconds, and whether it touched the
    /// line at all. `None` if the breakpoints cannot be read.
    fn read(&self) -> Option<(f64, bool)> {
        let all = self.breakpoints.iter().map(Breakpoint::read);
        let all: Vec<(u64, bool)> = all.collect::<Result<_, _>>().ok()?;
        let again = all.iter().any(|(_, again)| *again);
        let equal = all.iter().filter(|(_, touched)| *touched == again);
        let ns = equal.map(|(ns, _)| *ns).min()?;
        Some((ns.saturating_sub(self.stepped_ns) as f64, again))
    }
}

impl State {
    /// The state of a thread that is asked to stop now.
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
pub(crate) struct SpentTime {
    /// In user space and in the kernel.
    pub(crate) cpu_ns: f64,
    /// In user space, to the resolution of the kernel's ticks.
    pub(crate) user_ns: f64,
    /// Lines read from memory meanwhile, where an event counts them.
    pub(crate) lines: f64,
}

impl SpentTime {
    pub(crate) fn add(&mut self, more: SpentTime) {
        self.cpu_ns += more.cpu_ns;
        self.user_ns += more.user_ns;
        self.lines += more.lines;
    }

    pub(crate) fn half(self) -> SpentTime {
        SpentTime {
            cpu_ns: self.cpu_ns / 2.0,
            user_ns: self.user_ns / 2.0,
            lines: self.lines / 2.0,
        }
    }

    /// This CPU time without `kernel_ns` in the kernel.
    pub(crate) fn without(self, kernel_ns: f64) -> SpentTime {
        let cpu_ns = (self.cpu_ns - kernel_ns).max(0.0);
        SpentTime {
            cpu_ns,
            user_ns: self.user_ns.min(cpu_ns),
            lines: self.lines,
        }
    }
}

/// A sample of a thread's instruction pointer and registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterSample {
    pub(crate) place: ThreadPlace,
    /// Phase of that code, if a window has been there by now.
    pub(crate) code: Option<PhaseId>,
    /// CPU time since the previous sample, and the number of instructions counted for it.
    pub(crate) spent: SpentTime,
    pub(crate) counted: Option<f64>,
    /// The calls that led to the instruction, if they are recorded.
    pub(crate) stack: StackId,
}

/// Most samples without a price. Beyond it, the two oldest intervals are merged (*assumed*).
const MAX_OPEN_SAMPLES: usize = 256;

impl Thread {
    /// The last sample.
    pub(crate) fn last_sample(&self) -> Option<RegisterSample> {
        self.open.last().copied().or(self.priced)
    }

    /// Finds the phases of samples without one after a window. `phase_of` gives the phase of a place.
    pub(crate) fn find_code(&mut self, phase_of: impl Fn(&ThreadPlace) -> Option<PhaseId>) {
        let unknown = self.open.iter_mut().chain(&mut self.priced);
        let unknown = unknown.filter(|sample| sample.code.is_none());
        unknown.for_each(|sample| sample.code = phase_of(&sample.place));
    }

    /// Whether time without a price is in code without a window.
    pub(crate) fn is_unknown(&self) -> bool {
        self.open.iter().any(|sample| sample.code.is_none())
    }

    /// CPU time that has no price yet, in nanoseconds.
    pub(crate) fn waits_ns(&self) -> f64 {
        let open = self.open.iter().map(|sample| sample.spent.cpu_ns);
        self.stretch.cpu_ns + open.sum::<f64>()
    }

    /// Records a sample.
    pub(crate) fn record_sample(
        &mut self,
        place: ThreadPlace,
        code: Option<PhaseId>,
        counted: Option<f64>,
        stack: StackId,
    ) {
        let spent = std::mem::take(&mut self.stretch);
        self.open.push(RegisterSample {
            place,
            code,
            spent,
            counted,
            stack,
        });
        if self.open.len() > MAX_OPEN_SAMPLES {
            let oldest = self.open.remove(0);
            self.open[0].spent.add(oldest.spent);
            self.open[0].counted = None;
        }
    }

    pub(crate) fn new(tid: Tid, pid: Tid) -> Thread {
        Thread {
            pid,
            cpu_ns: maps::cpu_ns(tid).unwrap_or(0),
            usage: maps::usage(tid).unwrap_or_default(),
            ..Thread::default()
        }
    }

    /// Reads the kernel's counts for the last `ran_ns` of CPU time, and returns the part of that time in user space.
    /// While the thread watches lines, a page fault takes `watched_fault_ns` longer.
    pub(crate) fn used(&mut self, tid: Tid, ran_ns: u64, watched_fault_ns: f64) -> u64 {
        let then = self.usage;
        self.usage = maps::usage(tid).unwrap_or(then);
        let faults = self.usage.faults.saturating_sub(then.faults);
        let longer_ns = faults as f64 * watched_fault_ns;
        if !self.watched.is_empty() {
            self.watch_cost_ns += longer_ns;
        }
        if ran_ns >= LEAST_KNOWN_NS {
            self.watch_part = longer_ns / ran_ns as f64;
        }
        self.usage.user_ns.saturating_sub(then.user_ns)
    }

    /// Whether the thread may watch lines: watching takes little of its time now, or has taken little so far.
    pub(crate) fn may_watch(&self) -> bool {
        let so_far = self.watch_cost_ns / self.cpu_ns.max(1) as f64;
        so_far.min(self.watch_part) <= WATCH_COST
    }

    /// Records the state of the watched lines. Ends the watch of lines that were touched again, or not within `longest`
    /// nanoseconds. Returns whether this invalidates estimates.
    pub(crate) fn record_watches(&mut self, times: &mut ReuseTimes, longest: f64) -> bool {
        let mut changes = false;
        self.watched.retain(|watch| {
            let Some((ns, again)) = watch.read() else {
                return false;
            };
            changes |= times.record(watch.id, ns, again);
            !again && ns < longest
        });
        changes
    }

    /// Adds CPU time of a window, in nanoseconds.
    pub(crate) fn stepped(&mut self, ns: u64) {
        for watch in &mut self.watched {
            watch.stepped_ns += ns;
        }
    }

    /// Records the additional time of the thread after a hold, which may be negative. Charges a positive sum as taken,
    /// and returns the charge.
    pub(crate) fn slow_down(&mut self, longer_ns: f64) -> u64 {
        self.slower_ns += longer_ns;
        let taken = self.slower_ns.max(0.0) as u64;
        self.slower_ns -= taken as f64;
        self.ledger.take(taken);
        taken
    }

    /// Ends a hold, if the thread is held. Returns how it resumes.
    pub(crate) fn end_hold(&mut self) -> Option<Resume> {
        let State::Held { since, then, .. } = self.state else {
            return None;
        };
        self.ledger.hold(since.elapsed().as_nanos() as u64);
        self.state = State::Running;
        Some(then)
    }

    /// Delay for which the thread has not been held yet.
    pub(crate) fn owes(&self) -> Duration {
        let held = match self.state {
            State::Held { since, .. } => since.elapsed(),
            _ => Duration::ZERO,
        };
        Duration::from_nanos(self.ledger.debt_ns()).saturating_sub(held)
    }

    /// Whether no hold was shortly before.
    pub(crate) fn is_plain(&self) -> bool {
        self.ledger.held_ns == 0 || self.unheld_ns > SLOW_AFTER_HOLD_NS
    }

    pub(crate) fn must_be_held(&self) -> bool {
        self.ledger.debt_ns() >= LEAST_HOLD_NS && self.unheld_ns >= LEAST_RUN_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn a_thread_with_many_page_faults_watches_lines_for_a_part_of_its_time() {
        let mut thread = Thread::new(sys::own(), sys::own());
        thread.cpu_ns = 100_000_000;
        let mut may = |cost_ns, part| {
            (thread.watch_cost_ns, thread.watch_part) = (cost_ns, part);
            thread.may_watch()
        };
        assert!(may(2e6, 0.5) && may(50e6, 0.02));
        assert!(!may(2.1e6, 0.5) && !may(50e6, 0.021));
    }
}
