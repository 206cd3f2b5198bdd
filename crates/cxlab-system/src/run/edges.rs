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

use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Stop, share};
use cxlab_host::{RequesterStats, UnservedRequests};
use cxlab_plan::windows::WindowEnd;
use cxlab_scenario::Note;
use serde::{Deserialize, Serialize};

use super::{RunError, Runner};

/// A window ends at its last sampling point where Little's law differs by at most one part in so many: 0.5 %
/// (*assumed*: half of the difference that the report has a note on).
const FAR: u128 = 200;
/// A later end is one where it differs by at most one part in so many: 0.1 % (*assumed*).
const CLOSE: u128 = 1_000;
/// Finer sampling points in a mean latency (*assumed*).
const POINTS: u128 = 64;
/// Mean latencies that are searched: the phase of requests in lockstep comes again within one.
const SEARCH: u64 = 2;
/// Fewest mean latencies of a window whose length the scenario leaves open (*assumed*). The report has a note on
/// shorter ones.
pub(crate) const FEWEST_LATENCIES: u64 = 20;
/// Requests after which such a window ends although it has fewer: latencies may grow for as long as it lasts.
const LONGEST: u64 = 10 * cxlab_plan::windows::DEFAULT_REQUESTS;

/// What a window has counted up to now, on both sides of Little's law.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(crate) struct Law {
    /// Requests completed, served or not.
    pub(crate) requests: u64,
    /// Their latency in picoseconds.
    pub(crate) latency_ps: u128,
    /// Requests in flight, integrated over time, in picoseconds.
    pub(crate) in_flight_ps: u128,
}

impl Law {
    fn of(stats: &RequesterStats, now: SimTime) -> Law {
        let unserved = stats.unserved().map(UnservedRequests::latency_ps);
        Law {
            requests: stats.reads + stats.writes,
            latency_ps: stats.served_ps() + unserved.iter().sum::<u128>(),
            in_flight_ps: stats.in_flight.at(now.0) - stats.integral_before,
        }
    }

    fn add(&mut self, other: Law) {
        self.requests += other.requests;
        self.latency_ps += other.latency_ps;
        self.in_flight_ps += other.in_flight_ps;
    }

    /// Whether both sides differ by more than one part in so many.
    fn differs(&self, part: u128) -> bool {
        self.in_flight_ps.abs_diff(self.latency_ps) * part > self.in_flight_ps
    }

    /// Mean latency in picoseconds.
    fn mean_ps(&self) -> u128 {
        self.latency_ps / u128::from(self.requests.max(1))
    }
}

impl Runner<'_, '_> {
    /// The whole system in the measured window up to now.
    fn law(&mut self) -> Law {
        let ranked = self.ranked.as_ref();
        let nodes = self.system.simulation.components().enumerate();
        let own = nodes.filter(|(number, _)| ranked.is_none_or(|ranked| ranked.owns(*number)));
        let mut law = Law::default();
        for host in own.filter_map(|(_, node)| node.host()) {
            law.add(Law::of(host.stats(), self.now));
        }
        let Some(ranked) = &mut self.ranked else {
            return law;
        };
        let mut all = Law::default();
        share(ranked.ranks, &law)
            .into_iter()
            .for_each(|one| all.add(one));
        all
    }

    /// Whether the run measures a system in its steady state, in one window.
    fn measures_steady_state(&self) -> bool {
        self.steady && self.place.measured_since.is_some()
    }

    /// Whether the measured window has [`FEWEST_LATENCIES`] at the last sampling point, where it needs them.
    pub(super) fn is_long(&mut self) -> bool {
        if !self.measures_steady_state() {
            return true;
        }
        let span = u128::from(self.place.look.0 - self.place.since.0);
        let law = self.law();
        law.mean_ps() * u128::from(FEWEST_LATENCIES) <= span
    }

    /// Whether a window that is over by its number of requests or its time may end at the last sampling point. One
    /// whose length the scenario leaves open goes on while it is too short.
    pub(super) fn may_end(&mut self) -> bool {
        let measure = &self.plan.scenario.measure;
        let open = measure.requests.is_none() && measure.duration.is_none();
        let place = &self.place;
        !open || place.seen - place.completed >= LONGEST || self.is_long()
    }

    /// Goes on from the last sampling point of the window to where its edges are equal.
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

/// Largest difference of Little's law without a note: one part in so many, 1 %.
const NOTED: u128 = 100;

/// How a window was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measured {
    /// In one window of a run that would go on.
    Window,
    /// To the end of all workloads: how many latencies that takes is theirs.
    ToTheEnd,
    /// In many short windows.
    Samples,
}

/// The note on a window of that length whose edges matter: the sides of Little's law differ by more than 1 %, or
/// the window is too short for its rates and means.
pub(crate) fn note(law: Law, window: Picos, measured: Measured) -> Option<Note> {
    let span = window.0.max(1) as f64;
    let latencies = span / (law.mean_ps().max(1) as f64);
    let few = measured == Measured::Window && latencies < FEWEST_LATENCIES as f64;
    let advice = "[measure] requests or duration makes it longer (docs/guide/error-bars.md)";
    if law.in_flight_ps == 0 || !few && !law.differs(NOTED) {
        return None;
    }
    if law.requests == 0 {
        let message = format!("no request completed in the window of {window}; {advice}");
        return Some(Note::new("measure", message));
    }
    if !law.differs(NOTED) {
        let message = format!(
            "the window is {latencies:.1} mean latencies long, below {FEWEST_LATENCIES}: what begins and ends in it is \
             a large part of it; {advice}"
        );
        return Some(Note::new("measure", message));
    }
    let (held, rate) = (law.in_flight_ps as f64 / span, law.latency_ps as f64 / span);
    let older = law.in_flight_ps > law.latency_ps;
    let cause = match (measured, few, older) {
        (Measured::Samples, ..) => "the windows of the units are short, or few".to_owned(),
        (_, true, _) => format!("the window is only {latencies:.1} mean latencies long"),
        (_, false, true) => "requests wait longer and longer, or complete in bursts".to_owned(),
        (_, false, false) => {
            "requests of a time with more load complete in the window, or they complete in bursts"
                .to_owned()
        }
    };
    let message = format!(
        "Little's law differs by {:+.1} %: {held:.1} requests are in flight on average, and the rate times the mean \
         latency is {rate:.1}. Requests in flight at the end of the window are together {} than those at its \
         beginning: {cause}. Rates may be wrong by as much; {advice}",
        (rate / held - 1.0) * 100.0,
        if older { "older" } else { "younger" },
    );
    Some(Note::new("measure", message))
}
