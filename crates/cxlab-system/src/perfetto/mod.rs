//! Traces of a window of a run, for Perfetto's UI and its trace processor.
//!
//! A trace has each request of the window with its stages, on the track of its requester, and the places that the
//! request's messages passed: outputs, links, switches and devices. Counters show how many messages wait at each
//! output, and its credits.
//!
//! # Where a stage is placed
//! A message carries its stages along. What it has gained between its arrivals at two components is what it spent
//! there, so the positions of hops are exact. Several stages between two arrivals are placed in the order component,
//! output queue, wire. What a requester spends by itself (processing, caches, waits before a message) fills the time
//! before, between and behind. A request without messages of its own, such as one that waited for the line of another,
//! has its stages one after the other in the order of [`STAGE_NAMES`](cxlab_host::STAGE_NAMES). Lengths are exact in all cases.
//!
//! # Left out
//! Messages that belong to no request of the window have no slices: snoops, write-backs, and requests that were
//! issued before the window or completed after it. Counters count them.

mod chains;
mod chrome;
mod model;
mod place;
mod proto;
mod summary;

use cxlab_engine::Simulation;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::RequestRow;

use crate::system::Node;
use crate::wrapper::tracing::{Arrival, LevelChange};

pub use model::Trace;

/// Simulated time between two collections of components' records, which bounds the memory of the records: 1 us.
const COLLECTION: Picos = Picos(1_000_000);

/// The requests of a run that a trace has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceWindow {
    /// First time of issue, since the start of the run; by default the measurement's beginning.
    pub from: Option<Picos>,
    /// Last time of completion. Default: none.
    pub to: Option<Picos>,
    /// Most requests: the first to complete are taken.
    pub requests: usize,
}

/// Collects the records of a traced run.
#[derive(Debug)]
pub struct Tracer {
    window: TraceWindow,
    /// When the window opened, and when it closes.
    open: Option<(SimTime, SimTime)>,
    rows: Vec<RequestRow>,
    arrivals: Vec<Arrival>,
    levels: Vec<LevelChange>,
    /// Completion of the last request, if there are as many as the bound says.
    ended: Option<SimTime>,
    /// Requests of the window beyond the bound.
    left_out: u64,
}

impl Tracer {
    /// A collector for one run.
    pub fn new(window: TraceWindow) -> Tracer {
        Tracer {
            window,
            open: None,
            rows: Vec::new(),
            arrivals: Vec::new(),
            levels: Vec::new(),
            ended: None,
            left_out: 0,
        }
    }

    pub(crate) fn begin_run(&mut self, simulation: &mut Simulation<Node>) {
        if let Some(from) = self.window.from {
            self.begin(simulation, SimTime(from.0));
        }
    }

    pub(crate) fn begin_measurement(&mut self, simulation: &mut Simulation<Node>, now: SimTime) {
        if self.window.from.is_none() {
            self.begin(simulation, now);
        }
    }

    fn begin(&mut self, simulation: &mut Simulation<Node>, from: SimTime) {
        let to = self.window.to.map_or(SimTime::NEVER, |to| SimTime(to.0));
        self.open = Some((from, to));
        set(simulation, from, to);
    }

    /// Time up to which a run may continue from `now` before the tracer collects.
    pub(crate) fn slice(&self, now: SimTime) -> SimTime {
        match self.open {
            Some((from, _)) if now < from => from,
            Some((_, to)) if now <= to && self.ended.is_none() => now + COLLECTION,
            _ => SimTime::NEVER,
        }
    }

    /// Collects the records of components up to now, and the requests that completed meanwhile, in order.
    pub(crate) fn collect(&mut self, simulation: &mut Simulation<Node>, rows: &[RequestRow]) {
        let Some((from, to)) = self.open else {
            return;
        };
        let inside = |row: &&RequestRow| row.issued_ps >= from.0 && row.completed_ps <= to.0;
        let inside: Vec<&RequestRow> = rows.iter().filter(inside).collect();
        let room = self.window.requests - self.rows.len();
        self.rows.extend(inside.iter().copied().take(room));
        self.left_out += inside.len().saturating_sub(room) as u64;
        if self.ended.is_some() {
            return;
        }
        let (arrivals, levels) = (&mut self.arrivals, &mut self.levels);
        simulation.for_each_mut(|node| {
            if let Some(wrapper) = node.tracing_mut() {
                let mut noted = wrapper.take();
                arrivals.append(&mut noted.arrivals);
                levels.append(&mut noted.levels);
            }
        });
        let is_full = self.rows.len() >= self.window.requests;
        if let Some(row) = self.rows.last().filter(|_| is_full) {
            let last = SimTime(row.completed_ps);
            self.arrivals.retain(|arrival| arrival.at_ps <= last.0);
            self.levels.retain(|level| level.at_ps <= last.0);
            self.ended = Some(last);
            set(simulation, SimTime::NEVER, SimTime::ZERO);
        }
    }
}

/// Opens the window of all components, or closes it.
fn set(simulation: &mut Simulation<Node>, from: SimTime, to: SimTime) {
    simulation.for_each_mut(|node| {
        if let Some(wrapper) = node.tracing_mut() {
            wrapper.open(from, to);
        }
    });
}
