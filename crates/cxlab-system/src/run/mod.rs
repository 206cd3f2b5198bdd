//! The run: warm-up, measurement, and the laws that every run must hold.
//!
//! Windows end at sampling points, which are spaced by simulated time (a microsecond at first, then
//! a sixteenth of the time so far), so where a window ends depends on the system and the seed and
//! on nothing else. A measured window whose edges would bias its rates continues for a short time.

mod edges;
mod error;
mod progress;
mod ranks;
mod sampling;
mod saving;
mod windows;

use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Monitor, Outcome, Stop, Threads, processors};
use cxlab_host::RequestRow;
use cxlab_plan::Plan;
use cxlab_plan::windows::{WindowEnd, is_steady, windows};
use cxlab_scenario::{EventParams, Note, ThreadLimit};
use web_time::Instant;

pub use error::RunError;
pub use ranks::{describe_division, division, run_ranked};

use crate::assembly::{self, Context};
use crate::batches::{Batches, CounterSnapshot};
use crate::checkpoint::{Checkpoints, Writer};
use crate::intervals::Parts;
use crate::laws;
use crate::perfetto::Tracer;
use crate::position::{RunPosition, WarmupEnd};
use crate::readings::{LinkReadings, Readings};
use crate::report::Report;
use crate::system::{RecordOptions, System};
use ranks::Ranked;

/// How a run is executed; none of it changes the result.
pub struct RunOptions<'a> {
    /// Seed of every random stream.
    pub seed: u64,
    /// Threads that it may use.
    pub threads: Threads,
    /// Progress and interruption.
    pub monitor: &'a Monitor,
    /// Takes the rows of completed requests, if they are wanted: all of the run, those of the
    /// warm-up too (they complete up to the report's `warmup_ns`).
    pub rows: Option<&'a mut dyn FnMut(Vec<RequestRow>) -> std::io::Result<()>>,
}

/// Message to the user if a run has used fewer threads than the user allowed.
pub fn unused_threads(limit: ThreadLimit, monitor: &Monitor) -> Option<String> {
    let used = monitor.threads();
    let ThreadLimit::UpTo(most) = limit else {
        return None;
    };
    (used > 0 && used < most as usize).then(|| {
        format!(
            "the run used {used} of {most} threads: the process may use {} processors, and a thread is added only \
             after a trial in this run was faster with it",
            processors()
        )
    })
}

struct Runner<'p, 'a> {
    plan: &'p Plan,
    system: System,
    options: RunOptions<'a>,
    outcome: Option<Outcome>,
    now: SimTime,
    /// When the workloads began.
    begun: SimTime,
    position: RunPosition,
    /// Whether the run has a steady state: [`is_steady`].
    steady: bool,
    writer: Option<Writer<'p>>,
    /// Batches for the report's confidence intervals; `None` before the measurement.
    batches: Option<Batches>,
    /// Batches of all ranks, as last gathered.
    gathered: Option<Batches>,
    ranked: Option<Ranked<'a>>,
    /// Collects the run's trace, if one is wanted.
    tracer: Option<&'a mut Tracer>,
}

/// Runs a plan.
///
/// # Errors
/// [`RunError`]; an interruption is not an error but a report marked partial.
pub fn run(plan: &Plan, options: RunOptions<'_>) -> Result<Report, RunError> {
    run_with(plan, options, Checkpoints::default())
}

/// Runs a plan that writes checkpoints or goes on from one. Neither changes the report.
///
/// # Errors
/// As [`run`]; also where the system cannot be saved, or the checkpoint is not of this run.
pub fn run_with<'p>(
    plan: &'p Plan,
    options: RunOptions<'_>,
    checkpoints: Checkpoints<'p>,
) -> Result<Report, RunError> {
    let parts = Parties::default();
    whole(plan, run_parts(plan, options, checkpoints, parts))
}

/// The report of a run in one process.
fn whole(plan: &Plan, report: Result<Option<Report>, RunError>) -> Result<Report, RunError> {
    match report.and_then(|report| unchanged(plan, report))? {
        Some(report) => Ok(report),
        None => unreachable!("only ranks above 0 have no report"),
    }
}

/// Runs a plan while a tracer collects the requests of its window. Tracing does not change the report.
///
/// # Errors
/// The errors of [`run`], and a plan whose run is sampled.
pub fn run_traced<'a>(
    plan: &'a Plan,
    options: RunOptions<'a>,
    tracer: &'a mut Tracer,
) -> Result<Report, RunError> {
    let parts = Parties {
        tracer: Some(tracer),
        ..Parties::default()
    };
    let report = run_parts(plan, options, Checkpoints::default(), parts);
    whole(plan, report)
}

/// Other ranks of a run, and the tracer that records it.
#[derive(Default)]
struct Parties<'a> {
    ranked: Option<Ranked<'a>>,
    tracer: Option<&'a mut Tracer>,
}

/// Returns the report, or an error if a trace file changed during the run: the measured operations are then unknown.
fn unchanged(plan: &Plan, report: Option<Report>) -> Result<Option<Report>, RunError> {
    let Some(path) = plan.inputs.changed() else {
        return Ok(report);
    };
    Err(RunError::of(
        "",
        format!(
            "found {} changed since the run was planned; allowed: traces that stay as they are until it has ended",
            path.display()
        ),
    ))
}

/// Runs a plan in this process, as one rank of several where there are such. Only rank 0 has a report.
fn run_parts<'p, 'a>(
    plan: &'p Plan,
    options: RunOptions<'a>,
    checkpoints: Checkpoints<'p>,
    Parties { ranked, tracer }: Parties<'a>,
) -> Result<Option<Report>, RunError> {
    plan.refuse_external()?;
    let began = Instant::now();
    let (warmup, window) = windows(plan);
    let record = RecordOptions {
        rows: options.rows.is_some() || tracer.is_some(),
        values: false,
        states: checkpoints.write.is_some() || checkpoints.restore.is_some() || ranked.is_some(),
        arrivals: tracer.is_some(),
    };
    let trace = "with a trace, which would lack most requests";
    let lacking = [
        ("on ranks", "in one process", ranked.is_some()),
        (trace, "without it", tracer.is_some()),
    ];
    let sampling = sampling::settings(plan, &options, &checkpoints, lacking)?;
    let system = System::build(plan, options.seed, record)?;
    let mut runner = Runner::new(plan, system, options, ranked, warmup);
    runner.tracer = tracer;
    if let Some(sampling) = sampling {
        return sampling::run(runner, sampling, (warmup, window), began).map(Some);
    }
    let mut stop = runner.enumerate()?;
    if let Some(tracer) = &mut runner.tracer {
        tracer.begin_run(&mut runner.system.simulation);
    }
    if runner.any(stop == Stop::Interrupted) {
        stop = Stop::Interrupted;
    }
    runner.enter_window();
    if stop != Stop::Interrupted {
        runner.take_up(checkpoints, warmup, window)?;
    }
    let mut start = runner.position.measured_since;
    if start.is_none() {
        if stop != Stop::Interrupted && !runner.position.has_window_ended {
            stop = runner.until(warmup)?;
        }
        if stop == Stop::Exhausted {
            return Err(runner.nothing_to_measure());
        }
        if stop != Stop::Interrupted {
            start = Some(runner.begin_measurement()?);
        }
    }
    if stop != Stop::Interrupted {
        stop = runner.until(window)?;
    }
    match runner.gather()? {
        true => runner.report(stop, start, began).map(Some),
        false => Ok(None),
    }
}

impl<'p, 'a> Runner<'p, 'a> {
    fn new(
        plan: &'p Plan,
        system: System,
        options: RunOptions<'a>,
        ranked: Option<Ranked<'a>>,
        warmup: WindowEnd,
    ) -> Runner<'p, 'a> {
        Runner {
            plan,
            system,
            options,
            outcome: None,
            now: SimTime::ZERO,
            begun: SimTime::ZERO,
            position: RunPosition {
                warmup,
                measured_since: None,
                now: SimTime::ZERO,
                since: SimTime::ZERO,
                completed: 0,
                sampled_at: SimTime::ZERO,
                completed_at_sample: 0,
                has_window_ended: warmup == WindowEnd::Requests(0)
                    || warmup == WindowEnd::Time(Picos::ZERO),
                warmed: WarmupEnd::AsConfigured,
            },
            steady: is_steady(plan),
            writer: None,
            batches: None,
            gathered: None,
            ranked,
            tracer: None,
        }
    }

    /// The error of a run whose workloads ended during the warm-up.
    fn nothing_to_measure(&mut self) -> RunError {
        if let Err(error) = self.gather().and_then(|_| self.check_drained()) {
            return error;
        }
        let at_ns = self.now.0 as f64 / 1e3;
        RunError::of(
            "measure",
            format!(
                "the workloads ended during the warm-up, at {at_ns} ns: nothing is left to measure"
            ),
        )
    }

    /// Reads the system at the end of the run. `start` is when measurement began.
    fn report(
        mut self,
        stop: Stop,
        start: Option<SimTime>,
        began: Instant,
    ) -> Result<Report, RunError> {
        let start = start.unwrap_or(SimTime::ZERO);
        let end = self.now;
        self.system.each_issuer(|host| host.end_measurement(end));
        let Some(outcome) = self.outcome else {
            return Err(RunError::Law("nothing was run".to_owned()));
        };
        if stop == Stop::Exhausted {
            laws::check_drained(&self.system)
                .and_then(|()| laws::check_kernels(&self.system))
                .map_err(RunError::Law)?;
        }
        let batches = self.all_batches().filter(|_| stop != Stop::Exhausted);
        let batches = batches.cloned();
        let links = LinkReadings::all(&mut self.system, end);
        let readings = Readings::of(&self.system, links, end - start, end);
        let readings = readings.map_err(RunError::Law)?;
        let context = Context {
            plan: self.plan,
            seed: self.options.seed,
            warmed: self.position.warmed,
            outcome: &outcome,
            enumeration: (!self.system.enumerated.is_empty()).then_some(self.begun),
            start,
            end,
            readings: &readings,
            sampling: None,
            partial: stop == Stop::Interrupted,
            notes: self.notes(end),
            parts: batches.as_ref().map(Parts::Batches),
            wall: began.elapsed(),
        };
        let mut report = assembly::assemble(&self.system, &context).map_err(RunError::Law)?;
        // Not before: media are asked for their statistics while the report is made.
        match self.system.faults.first() {
            Some((_, what)) => {
                report.provenance.partial = true;
                report.provenance.fault = Some(what.clone());
                Err(RunError::Fault(Box::new(report), what))
            }
            None => Ok(report),
        }
    }

    /// The notes of the plan, and those about this run, which ended at `end`.
    fn notes(&self, end: SimTime) -> Vec<Note> {
        let mut notes = self.plan.notes.clone();
        let lasted = Picos(end.0.saturating_sub(self.begun.0));
        notes.extend(late_events(self.plan, lasted));
        notes
    }

    /// Runs the enumeration, if the scenario has one.
    fn enumerate(&mut self) -> Result<Stop, RunError> {
        let (threads, monitor) = (self.options.threads, self.options.monitor);
        let outcome = self.system.enumerate(self.plan, threads, monitor);
        let Some(outcome) = outcome.map_err(RunError::Law)? else {
            return Ok(Stop::TimeLimit);
        };
        self.now = outcome.end;
        self.begun = outcome.end;
        let begun = self.begun;
        self.system.each_issuer(|host| host.begin_series(begun));
        self.outcome = Some(outcome);
        Ok(match outcome.stop {
            Stop::Interrupted => Stop::Interrupted,
            Stop::Exhausted | Stop::TimeLimit => Stop::TimeLimit,
        })
    }

    /// Ends the warm-up and begins the measurement; returns the time.
    fn begin_measurement(&mut self) -> Result<SimTime, RunError> {
        self.position.has_window_ended = true;
        if self.writer.as_ref().is_some_and(Writer::is_after_warmup) {
            self.write_checkpoint()?;
        }
        let start = self.now;
        let simulation = &mut self.system.simulation;
        simulation.for_each_mut(|node| node.begin_measurement(start));
        if let Some(tracer) = &mut self.tracer {
            tracer.begin_measurement(simulation, start);
        }
        let (began, before) = (self.position.since, self.position.completed);
        self.enter_window();
        let completed = self.position.completed - before;
        self.batches = Some(Batches::new(start, start.0 - began.0, completed));
        self.take_batch();
        self.position.measured_since = Some(start);
        self.position.has_window_ended = false;
        Ok(start)
    }

    /// Runs to the end of the window that the run is in.
    fn until(&mut self, window: WindowEnd) -> Result<Stop, RunError> {
        loop {
            let next = self.next_sampling_point(window);
            loop {
                // The simulation checks for interruptions from time to time, but perhaps not within a short slice.
                let interrupted = self.outcome.is_some() && self.options.monitor.is_interrupted();
                if self.any(interrupted) {
                    return self.interrupted();
                }
                let traced = self.tracer.as_ref().map(|tracer| tracer.slice(self.now));
                let slice = next.min(self.slice()).min(traced.unwrap_or(SimTime::NEVER));
                let outcome = self.advance(slice);
                self.outcome = Some(outcome);
                self.hand_over_rows()?;
                self.check_progress()?;
                // A medium that cannot continue sends nothing, and components that wait for it do not either.
                if self.has_fault() {
                    return Ok(Stop::Interrupted);
                }
                match outcome.stop {
                    Stop::TimeLimit => {}
                    Stop::Interrupted => return self.interrupted(),
                    Stop::Exhausted => return Ok(Stop::Exhausted),
                }
                if self.now >= next {
                    break;
                }
                self.write_if_due()?;
            }
            self.position.sampled_at = next;
            self.position.completed_at_sample = self.completed();
            if self.has_settled(window) {
                return Ok(Stop::TimeLimit);
            }
            if self.is_precise() && self.is_long() || self.has_ended(window) {
                return self.balance_edges(window);
            }
            self.write_if_due()?;
        }
    }

    fn has_fault(&self) -> bool {
        self.plan.has_plugins && self.system.faults.first().is_some()
    }

    /// Writes a checkpoint if checkpoints are written at intervals.
    fn interrupted(&mut self) -> Result<Stop, RunError> {
        let regular = |writer: &Writer<'_>| !writer.is_after_warmup();
        if self.writer.as_ref().is_some_and(regular) {
            self.write_checkpoint()?;
        }
        Ok(Stop::Interrupted)
    }

    /// Simulates up to `until`, batch by batch.
    fn advance(&mut self, until: SimTime) -> Outcome {
        loop {
            let edge = self.batches.as_ref().map_or(SimTime::NEVER, Batches::next);
            let outcome = self.simulate(until.min(edge));
            self.now = outcome.end;
            if outcome.stop != Stop::TimeLimit {
                return outcome;
            }
            if self.now == edge {
                self.take_batch();
            }
            if self.now >= until {
                return outcome;
            }
        }
    }

    fn take_batch(&mut self) {
        let Some(batches) = &mut self.batches else {
            return;
        };
        let ranked = self.ranked.as_ref();
        let own = |number| ranked.is_none_or(|ranked| ranked.owns(number));
        batches.take(CounterSnapshot::of(&mut self.system, self.now, own));
    }

    /// Simulates up to `until`.
    fn simulate(&mut self, until: SimTime) -> Outcome {
        let (simulation, monitor) = (&mut self.system.simulation, self.options.monitor);
        match &mut self.ranked {
            Some(Ranked { ranks, division }) => {
                simulation.run_ranked(division, *ranks, until, monitor)
            }
            None => simulation.run(self.options.threads, until, monitor),
        }
    }

    /// Requests completed in the whole system.
    fn completed(&mut self) -> u64 {
        let own = self.own_hosts().map(|host| host.stats().completed_ever);
        let own: u64 = own.sum();
        self.shared(own).iter().sum()
    }

    fn take_rows(&mut self) -> Vec<RequestRow> {
        let mut rows = Vec::new();
        (self.system).each_issuer(|host| rows.append(&mut host.take_rows()));
        rows
    }

    /// Hands over the rows of this step, in order of completion.
    fn hand_over_rows(&mut self) -> Result<(), RunError> {
        if self.options.rows.is_none() && self.tracer.is_none() {
            return Ok(());
        }
        let mut rows = self.take_rows();
        rows.sort_unstable_by_key(|row| (row.completed_ps, row.requester, row.id));
        if let Some(tracer) = &mut self.tracer {
            tracer.collect(&mut self.system.simulation, &rows);
        }
        match &mut self.options.rows {
            Some(sink) if !rows.is_empty() => sink(rows).map_err(RunError::Rows),
            _ => Ok(()),
        }
    }
}

/// Notes on events of the scenario that a run did not reach in `lasted` after the workloads began.
fn late_events(plan: &Plan, lasted: Picos) -> Vec<Note> {
    let events = plan.scenario.events.iter().enumerate();
    let said = |number: usize| {
        let path = format!("events[{number}]");
        plan.notes.iter().any(|note| note.path == path)
    };
    let late = events.filter(|(number, event)| event.at() > lasted && !said(*number));
    let note = |(number, event): (usize, &EventParams)| {
        let (at, what) = (event.at(), event.describe());
        let late = format!("the run ended {lasted} after the workloads began");
        let message = format!("did not happen ({what}, at {at}): {late}");
        Note::new(format!("events[{number}]"), message)
    };
    late.map(note).collect()
}
