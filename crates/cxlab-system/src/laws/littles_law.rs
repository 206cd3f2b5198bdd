//! Little's law over a measured window.
//!
//! The law lacks the requests in flight when the window begins and when it ends: the integral of requests in flight
//! is the latency of the completed requests, plus the ages at the end, less the ages at the beginning.

use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::{RequesterStats, UnservedRequests};
use cxlab_scenario::Note;
use serde::{Deserialize, Serialize};

/// Fewest mean latencies of a window whose length the scenario leaves open (*assumed*). Shorter ones get a note.
pub(crate) const FEWEST_LATENCIES: u64 = 20;

/// Both sides of Little's law, counted in a window up to now.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(crate) struct LittlesSums {
    /// Requests completed, served or not.
    pub(crate) requests: u64,
    /// Summed latency of these requests, in picoseconds.
    pub(crate) latency_ps: u128,
    /// Requests in flight, integrated over time, in picoseconds.
    pub(crate) in_flight_ps: u128,
}

impl LittlesSums {
    pub(crate) fn of(stats: &RequesterStats, now: SimTime) -> LittlesSums {
        let unserved = stats.unserved().map(UnservedRequests::latency_ps);
        LittlesSums {
            requests: stats.reads + stats.writes,
            latency_ps: stats.served_ps() + unserved.iter().sum::<u128>(),
            in_flight_ps: stats.in_flight.at(now.0) - stats.integral_before,
        }
    }

    pub(crate) fn add(&mut self, other: LittlesSums) {
        self.requests += other.requests;
        self.latency_ps += other.latency_ps;
        self.in_flight_ps += other.in_flight_ps;
    }

    /// Whether both sides differ by more than one part in `part`.
    pub(crate) fn differs(&self, part: u128) -> bool {
        self.in_flight_ps.abs_diff(self.latency_ps) * part > self.in_flight_ps
    }

    pub(crate) fn mean_ps(&self) -> u128 {
        self.latency_ps / u128::from(self.requests.max(1))
    }
}

/// Largest difference of Little's law without a note: 1/100.
const NOTED: u128 = 100;

/// How a window was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WindowKind {
    /// One window of a run that could continue.
    Window,
    /// A window to the end of all workloads, which determine its length.
    ToTheEnd,
    /// Many short windows of a sampled run.
    Samples,
}

/// The note on a window of that length whose edges matter: the sides of Little's law differ by more than 1 %, or
/// the window is too short for its rates and means.
pub(crate) fn note(law: LittlesSums, window: Picos, measured: WindowKind) -> Option<Note> {
    let span = window.0.max(1) as f64;
    let latencies = span / (law.mean_ps().max(1) as f64);
    let few = measured == WindowKind::Window && latencies < FEWEST_LATENCIES as f64;
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
        (WindowKind::Samples, ..) => "the windows of the units are short, or few".to_owned(),
        (_, true, _) => format!("the window is only {latencies:.1} mean latencies long"),
        (_, false, true) => "requests wait longer and longer, or complete in bursts".to_owned(),
        _ => "requests of a time with more load complete in the window, or they complete in bursts"
            .to_owned(),
    };
    let message = format!(
        "Little's law is {:+.1} % off at the edges of the window: {held:.1} requests are in flight on average, and the \
         rate times the mean latency is {rate:.1}. Requests in flight at the end of the window are together {} than those at its \
         beginning: {cause}. Rates may be wrong by as much; {advice}",
        (rate / held - 1.0) * 100.0,
        if older { "older" } else { "younger" },
    );
    Some(Note::new("measure", message))
}
