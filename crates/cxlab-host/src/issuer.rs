//! When a requester issues its next operation. This depends on its source, the least time between two
//! issues, the operation's own time, and dependences.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_engine::{Ctx, ReservedWake, prefetch};
use cxlab_link::Parcel;
use cxlab_workload::{Inlet, MemOp, OpSource};
use serde::{Deserialize, Serialize};

/// Wake-up token for issuing.
pub(crate) const ISSUE: u32 = u32::MAX;

/// Issues operations from a source, each at its time.
pub(crate) struct Issuer {
    source: Box<dyn OpSource>,
    rng: StreamRng,
    left: u64,
    interval_ps: u64,
    /// Number of lines issued.
    issued: u64,
    /// An operation taken from the source that could not be issued yet.
    held: Option<MemOp>,
    exhausted: bool,
    next_issue: u64,
    wake: SimTime,
    /// When the workload began. The times of operations count from here.
    begun: u64,
    /// The time of an operation that is issued when the workload begins: 0, except in sampled runs.
    origin: u64,
    /// The remaining operations while nothing may be issued, in sampled runs.
    parked: Option<ParkedIssuer>,
    /// The wake-up of the next operation of an inlet, which is not known yet.
    awaited: Option<AwaitedOp>,
}

/// The wake-up for an operation that another program has not handed over yet.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct AwaitedOp {
    wake: ReservedWake,
    /// Earliest time of the next issue when the wake-up was reserved.
    next_issue: u64,
}

/// A reserved wake-up whose time has become known, for
/// [`Simulation::wake_reserved`](cxlab_engine::Simulation::wake_reserved).
#[derive(Clone, Copy, Debug)]
pub struct DueWake {
    /// The wake-up that the component has reserved.
    pub wake: ReservedWake,
    /// When the component is woken.
    pub at: SimTime,
    /// The token of the wake-up.
    pub token: u32,
}

/// The remaining operations of a parked issuer.
struct ParkedIssuer {
    left: u64,
    held: Option<MemOp>,
    exhausted: bool,
}

// A sampled run is not saved.
save_state!(Issuer {
    values: interval_ps, issued, left, held, exhausted, next_issue, wake, begun, awaited;
    states: source, rng;
    built: origin, parked;
});

impl Issuer {
    pub(crate) fn new(
        source: Box<dyn OpSource>,
        rng: StreamRng,
        limit: Option<u64>,
        interval_ps: u64,
    ) -> Self {
        Issuer {
            source,
            rng,
            left: limit.unwrap_or(u64::MAX),
            interval_ps,
            issued: 0,
            held: None,
            exhausted: false,
            next_issue: 0,
            wake: SimTime::NEVER,
            begun: 0,
            origin: 0,
            parked: None,
            awaited: None,
        }
    }

    /// Prefetches the source for an issue that will come soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&*self.source);
    }

    pub(crate) fn begin(&mut self, now: SimTime) {
        self.begun = now.0;
    }

    pub(crate) fn set_interval(&mut self, interval_ps: u64) {
        self.interval_ps = interval_ps;
    }

    /// Counts `more` further lines of the operation that was just issued.
    pub(crate) fn count_lines(&mut self, more: u64) {
        self.issued += more;
    }

    /// Number of lines issued since the start of the run.
    pub(crate) fn issued(&self) -> u64 {
        self.issued
    }

    /// Least time between two issues, in picoseconds.
    pub(crate) fn interval(&self) -> u64 {
        self.interval_ps
    }

    /// Ends the workload: nothing is issued any more.
    pub(crate) fn stop(&mut self) {
        self.left = 0;
        self.held = None;
        self.exhausted = true;
    }

    /// Whether every operation has been issued and the source has no more.
    pub(crate) fn is_done(&self) -> bool {
        self.exhausted && self.held.is_none()
    }

    #[inline]
    pub(crate) fn woken(&mut self, now: SimTime) {
        if now == self.wake {
            self.wake = SimTime::NEVER;
        }
    }

    /// Delays the next issue by `span_ps`, because something else takes its time.
    #[inline]
    pub(crate) fn delay(&mut self, now: SimTime, span_ps: u64) {
        if span_ps > 0 {
            self.next_issue = self.next_issue.max(now.0) + span_ps;
        }
    }

    /// Takes the next operation from the source, unless one is held.
    #[inline]
    fn hold(&mut self) {
        if self.held.is_some() || self.exhausted {
            return;
        }
        if self.left > 0 {
            self.held = self.source.next_op(&mut self.rng);
            if self.held.is_none() && self.is_open() {
                return;
            }
            self.left -= 1;
        }
        self.exhausted = self.held.is_none();
    }

    /// Whether another program may hand over more operations.
    #[cold]
    fn is_open(&mut self) -> bool {
        self.source.inlet().is_some_and(|inlet| inlet.is_open())
    }

    pub(crate) fn inlet(&mut self) -> Option<&mut Inlet> {
        self.source.inlet()
    }

    /// To be called after operations were added to the inlet, or after it was closed. Returns a wake-up
    /// that the caller must pass to the simulation, with its time.
    ///
    /// The wake-up has the order and the time that it would have had if the operation had been known since
    /// the issue of the one before it. So a requester behaves as if it had known all operations in advance.
    pub(crate) fn handed_over(&mut self) -> Option<DueWake> {
        self.awaited?;
        self.hold();
        let op = self.held?;
        let AwaitedOp { wake, next_issue } = self.awaited.take()?;
        let due = next_issue.max(self.begun + op.not_before.0);
        self.wake = SimTime(due);
        Some(DueWake {
            wake,
            at: self.wake,
            token: ISSUE,
        })
    }

    /// Reserves the wake-up for the next operation of an inlet that is empty and open.
    #[cold]
    #[inline(never)]
    fn await_op(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if !self.exhausted && self.awaited.is_none() && self.wake == SimTime::NEVER {
            self.awaited = Some(AwaitedOp {
                wake: ctx.reserve_wake(),
                next_issue: self.next_issue,
            });
        }
    }

    /// Appends up to `count` operations without issuing them or spending time.
    pub(crate) fn take(&mut self, count: usize, out: &mut Vec<MemOp>) {
        let before = out.len();
        out.extend(self.held.take());
        let most = count.saturating_sub(out.len() - before);
        let most = most.min(usize::try_from(self.left).unwrap_or(most));
        if most > 0 && !self.exhausted {
            let had = out.len();
            self.source.next_ops(&mut self.rng, most, out);
            self.left -= (out.len() - had) as u64;
            self.exhausted = out.len() - had < most;
        }
    }

    /// Stops issuing until [`Issuer::resume`].
    pub(crate) fn park(&mut self) {
        self.parked = Some(ParkedIssuer {
            left: std::mem::take(&mut self.left),
            held: self.held.take(),
            exhausted: std::mem::replace(&mut self.exhausted, true),
        });
    }

    /// Allows operations to be taken again.
    pub(crate) fn resume(&mut self) {
        if let Some(parked) = self.parked.take() {
            (self.left, self.held, self.exhausted) = (parked.left, parked.held, parked.exhausted);
        }
    }

    /// Makes the workload begin with the next operation, whatever the operation's time is.
    pub(crate) fn begin_here(&mut self) {
        self.hold();
        self.origin = self.held.map_or(0, |op| op.not_before.0);
    }

    /// The operation to issue now, with `in_flight` operations before it. Requests a wake-up if only time is missing.
    #[inline(always)]
    pub(crate) fn next(&mut self, ctx: &mut Ctx<'_, Parcel>, in_flight: u64) -> Option<MemOp> {
        let now = ctx.now();
        self.hold();
        let Some(op) = self.held else {
            self.await_op(ctx);
            return None;
        };
        if op.dependent && in_flight > 0 {
            return None;
        }
        let due = (self.next_issue).max(self.begun + op.not_before.0.saturating_sub(self.origin));
        if due > now.0 {
            if due < self.wake.0 {
                self.wake = SimTime(due);
                ctx.wake_at(SimTime(due), ISSUE);
            }
            return None;
        }
        self.held = None;
        self.issued += 1;
        self.next_issue = now.0 + self.interval_ps;
        Some(op)
    }
}
