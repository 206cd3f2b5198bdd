//! The edges of a measured window: requests in flight when it begins and when it ends.
//!
//! Requests in flight at the beginning complete in the window although a part of their latency is before it, and
//! those in flight at the end have spent time in it without completing. The summed ages of both are what Little's law
//! lacks: the integral of requests in flight is the latency of the completed requests, plus the ages at the end,
//! less the ages at the beginning. Where hosts run in lockstep, ages rise together and fall together when a burst
//! completes, so a window that ends just after a burst has up to one burst too many, and its bandwidth is too high.
//!
//! A window ends where both sums of ages are equal, within [`CLOSE`]. Then the mean requests in flight are the rate times
//! the mean latency, and a closed system of `N` requests in flight has the rate `N` over the mean latency without a
//! bias from edges, whatever the phase at which the window began. The window ends at the first sampling point where
//! the difference is at most [`FAR`]: windows of many latencies end where they ended without that rule. Otherwise
//! finer sampling points follow, for [`SEARCH`] mean latencies at most.
//!
//! All of it depends on simulated time and the counters of requests alone, so windows are the same on any number of
//! threads and ranks. The rule is for systems in a steady state: endless workloads, no events, no sampling.

use cxlab_engine::Stop;
use cxlab_engine::units::SimTime;
use cxlab_plan::windows::WindowEnd;

use super::{RunError, Runner};
use crate::laws::littles_law::{FEWEST_LATENCIES, LittlesSums};

/// A window ends at its last sampling point if the sides of Little's law differ by at most 1/200:
/// 0.5 % (*assumed*: half of the difference that the report has a note on).
const FAR: u128 = 200;
/// Otherwise a window ends at the first of the finer sampling points at which the sides of Little's law differ by at
/// most 1/1,000: 0.1 % (*assumed*).
const CLOSE: u128 = 1_000;
/// Finer sampling points in a mean latency (*assumed*).
const POINTS: u128 = 64;
/// Mean latencies in which the end of the window is searched for: the phase of requests in lockstep comes again within one.
const SEARCH: u64 = 2;

/// Requests after which a window ends although it has fewer than [`FEWEST_LATENCIES`]: latencies may grow for as
/// long as the window lasts.
const LONGEST: u64 = 10 * cxlab_plan::windows::DEFAULT_REQUESTS;

impl Runner<'_, '_> {
    /// Both sides of Little's law for the whole system, in the measured window up to now.
    fn law(&mut self) -> LittlesSums {
        let mut own = LittlesSums::default();
        for host in self.own_hosts() {
            own.add(LittlesSums::of(host.stats(), self.now));
        }
        let mut all = LittlesSums::default();
        for one in self.shared(own) {
            all.add(one);
        }
        all
    }

    /// Whether the run measures a system in its steady state, in one window.
    fn measures_steady_state(&self) -> bool {
        self.steady && self.position.measured_since.is_some()
    }

    /// Whether the measured window has [`FEWEST_LATENCIES`] at the last sampling point, where it needs them.
    pub(super) fn is_long(&mut self) -> bool {
        if !self.measures_steady_state() {
            return true;
        }
        let span = u128::from(self.position.sampled_at.0 - self.position.since.0);
        let law = self.law();
        law.mean_ps() * u128::from(FEWEST_LATENCIES) <= span
    }

    /// Whether a window that is over by its number of requests or its time may end at the last sampling point. A
    /// window whose length the scenario leaves open continues while it is too short.
    pub(super) fn may_end(&mut self) -> bool {
        let measure = &self.plan.scenario.measure;
        let open = measure.requests.is_none() && measure.duration.is_none();
        let position = &self.position;
        !open || position.completed_at_sample - position.completed >= LONGEST || self.is_long()
    }

    /// Continues from the last sampling point of the window to a time at which its edges are equal.
    pub(super) fn balance_edges(&mut self, window: WindowEnd) -> Result<Stop, RunError> {
        let law = self.law();
        if !self.measures_steady_state() || !law.differs(FAR) {
            return Ok(Stop::TimeLimit);
        }
        let mean = law.mean_ps();
        // A latency is at most 1.1 s, far below 2^64 ps.
        let step = (mean / POINTS).max(1) as u64;
        let limit = self.limit(window);
        for _ in 0..SEARCH * POINTS as u64 {
            let point = SimTime(self.now.0.saturating_add(step));
            if point > limit {
                break;
            }
            let outcome = self.advance(point);
            self.outcome = Some(outcome);
            self.hand_over_rows()?;
            self.check_progress()?;
            if self.has_fault() {
                return Ok(Stop::Interrupted);
            }
            if outcome.stop != Stop::TimeLimit {
                return Ok(outcome.stop);
            }
            if !self.law().differs(CLOSE) {
                break;
            }
        }
        Ok(Stop::TimeLimit)
    }
}
