//! The run: warm-up, measurement, and the laws that every run must hold.
//!
//! Windows end at looks. Looks are spaced by simulated time (a microsecond at first, then a
//! sixteenth of the time so far), so where a window ends depends on the system and the seed and
//! on nothing else. A measured window whose edges would bias its rates goes on for a little.

pub(crate) mod edges;
mod sampling;

use std::time::{Duration, Instant};

use cxlab_engine::state::Refusal;
use cxlab_engine::units::{Percent, Picos, SimTime};
use cxlab_engine::{
    GatherError, Monitor, Outcome, Partition, Ranks, Stop, Threads, processors, share,
};
use cxlab_host::{Processor, RequestRow};
use cxlab_link::LostMessages;
use cxlab_plan::windows::{WindowEnd, is_steady, windows};
use cxlab_plan::{Plan, PlannedHost, Problem};
use cxlab_scenario::{EventParams, Note, ThreadLimit};
use serde::{Deserialize, Serialize};

use crate::batches::{Batches, Tally};
use crate::checkpoint::{self, CheckpointError, Checkpoints, Place, Writer};
use crate::host::Host;
use crate::intervals::{self, Parts};
use crate::readings::{LinkReadings, Readings};
use crate::report::{self, Report};
use crate::series::Series;
use crate::system::{Node, Notes, System};

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

/// Why a run has no report.
#[derive(Debug)]
pub enum RunError {
    /// The user's mistake.
    Problems(Vec<Problem>),
    /// Rows could not be written.
    Rows(std::io::Error),
    /// The system cannot run on so many ranks.
    Ranks(String),
    /// A checkpoint cannot be used or written.
    Checkpoint(CheckpointError),
    /// A law of the simulator does not hold: our own mistake.
    Law(String),
    /// A plug-in cannot go on: what is wrong, and what was measured until then, marked partial.
    Fault(Box<Report>, String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Problems(problems) => {
                let messages: Vec<String> = problems
                    .iter()
                    .map(|problem| format!("{}: {}", problem.path, problem.message))
                    .collect();
                f.write_str(&messages.join("\n"))
            }
            RunError::Checkpoint(error) => error.fmt(f),
            RunError::Ranks(why) | RunError::Fault(_, why) => f.write_str(why),
            RunError::Rows(error) => write!(f, "the request log cannot be written: {error}"),
            RunError::Law(what) => write!(
                f,
                "internal error, please report it with the scenario and the seed: {what}"
            ),
        }
    }
}

impl std::error::Error for RunError {}

/// Fewest batches at which a run stops because it is precise enough.
const FEWEST_BATCHES: usize = 32;
/// The first look.
const FIRST_LOOK: u64 = 1_000_000;

/// What became of a warm-up.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Warmed {
    /// It lasted as long as the scenario says, or is not over.
    AsGiven,
    /// The transient had ended at this time, at the latest.
    Settled(SimTime),
    /// The longest allowed was over.
    NotSettled,
}

/// What to say where a run has used fewer threads than it was asked to.
pub fn unused_threads(limit: ThreadLimit, monitor: &Monitor) -> Option<String> {
    let used = monitor.threads();
    let ThreadLimit::UpTo(most) = limit else {
        return None;
    };
    (used > 0 && used < most as usize).then(|| {
        format!(
            "found {most} threads, and the run used {used}: it may use {} processors, and no more threads are \
             used than have been seen to make it faster",
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
    place: Place,
    /// Whether the run has a steady state: [`is_steady`].
    steady: bool,
    writer: Option<Writer<'p>>,
    /// What the report's intervals are computed from; none before the measurement.
    batches: Option<Batches>,
    /// Those of all ranks, when they were brought together last.
    gathered: Option<Batches>,
    ranked: Option<Ranked<'a>>,
}

/// A run in several processes.
struct Ranked<'a> {
    ranks: &'a mut dyn Ranks,
    division: Partition,
}

impl Ranked<'_> {
    fn owns(&self, component: usize) -> bool {
        usize::from(self.division.part_of[component]) == self.ranks.rank()
    }
}

/// Runs a plan.
///
/// # Errors
/// [`RunError`]; an interruption is not an error but a report marked partial.
pub fn run(plan: &Plan, options: RunOptions<'_>) -> Result<Report, RunError> {
    run_with(plan, options, Checkpoints::default())
}

/// Shortest lookahead between ranks that does not make most of a run wait.
const SHORT_LOOKAHEAD: Picos = Picos(1_000);

/// Events that show how much each component has to do.
const TRIAL: u64 = 30_000;

/// How a system is divided among ranks. Each of them runs its beginning alone to see how much each
/// component has to do, and all see the same.
///
/// # Errors
/// Its components cannot be divided among as many.
pub fn division(plan: &Plan, seed: u64, ranks: usize) -> Result<Partition, RunError> {
    let mut system = System::build(plan, seed, Notes::default()).map_err(RunError::Problems)?;
    let monitor = Monitor::default();
    let enumerated = system.enumerate(plan, Threads::Exactly(1), &monitor);
    enumerated.map_err(RunError::Law)?;
    system.simulation.run_some(TRIAL);
    // A host and its accelerators share the bytes of their memory.
    let first = plan.devices.len() - plan.accelerator_hosts.len();
    let accelerators = plan.accelerator_hosts.iter().enumerate();
    let together = accelerators.map(|(number, host)| (*host, system.hosts + first + number));
    // So do hosts and devices with a part in shared regions.
    let (hosts, parts) = (system.hosts, plan.shared.iter().enumerate());
    let shared = parts.flat_map(|(host, part)| {
        let devices = part.shares.iter();
        devices.map(move |(device, ..)| (host, hosts + device))
    });
    let together: Vec<(usize, usize)> = together.chain(shared).collect();
    let division = system.simulation.division_together(ranks, &together);
    if division.parts < ranks {
        return Err(RunError::Ranks(format!(
            "found {ranks} ranks; allowed: 1 to {} for this system, whose components cannot be divided \
             further",
            division.parts
        )));
    }
    Ok(division)
}

/// What there is to say of a division: its lookahead, and a warning where that is short.
pub fn describe_division(division: &Partition) -> String {
    let Some(lookahead) = division.lookahead else {
        return format!("{} rank, nothing is cut", division.parts);
    };
    let warning = if lookahead < SHORT_LOOKAHEAD {
        "; warning: ranks speak to each other that often, and under 1 ns a run on one is faster"
    } else {
        ""
    };
    format!(
        "{} ranks, lookahead {:.3} ns{warning}",
        division.parts,
        lookahead.as_nanos_f64()
    )
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
    match run_parts(plan, options, checkpoints, None).and_then(|report| unchanged(plan, report))? {
        Some(report) => Ok(report),
        None => unreachable!("only ranks above 0 have no report"),
    }
}

/// Runs a plan in several processes, each of which calls this with the same arguments, among them the
/// [`division`] among so many ranks. Rank 0 has
/// the report, which is that of one process; the others have none. Rows and threads are for runs in
/// one process.
///
/// # Errors
/// As [`run_with`]; also where the system cannot be brought together because something in it cannot be
/// saved.
pub fn run_ranked<'p>(
    plan: &'p Plan,
    options: RunOptions<'p>,
    checkpoints: Checkpoints<'p>,
    ranks: &'p mut dyn Ranks,
    division: Partition,
) -> Result<Option<Report>, RunError> {
    let report = run_parts(plan, options, checkpoints, Some(Ranked { ranks, division }))?;
    unchanged(plan, report)
}

/// What was measured, unless a trace has changed meanwhile: nobody knows then which operations were measured.
fn unchanged(plan: &Plan, report: Option<Report>) -> Result<Option<Report>, RunError> {
    let Some(path) = plan.inputs.changed() else {
        return Ok(report);
    };
    Err(RunError::Problems(vec![Problem {
        path: String::new(),
        message: format!(
            "found {} changed since the run was planned; allowed: traces that stay as they are until it has ended",
            path.display()
        ),
    }]))
}

fn run_parts<'p, 'a>(
    plan: &'p Plan,
    options: RunOptions<'a>,
    checkpoints: Checkpoints<'p>,
    ranked: Option<Ranked<'a>>,
) -> Result<Option<Report>, RunError> {
    let began = Instant::now();
    let (warmup, window) = windows(plan);
    let notes = Notes {
        rows: options.rows.is_some(),
        values: false,
        states: checkpoints.write.is_some() || checkpoints.restore.is_some() || ranked.is_some(),
    };
    let sampling = sampling::settings(plan, &options, &checkpoints, ranked.is_some())?;
    let system = System::build(plan, options.seed, notes).map_err(RunError::Problems)?;
    let seed = options.seed;
    let mut runner = Runner {
        plan,
        system,
        options,
        outcome: None,
        now: SimTime::ZERO,
        begun: SimTime::ZERO,
        place: Place {
            warmup,
            measured_since: None,
            now: SimTime::ZERO,
            since: SimTime::ZERO,
            completed: 0,
            look: SimTime::ZERO,
            seen: 0,
            over: warmup == WindowEnd::Requests(0) || warmup == WindowEnd::Time(Picos::ZERO),
            warmed: Warmed::AsGiven,
        },
        steady: is_steady(plan),
        writer: None,
        batches: None,
        gathered: None,
        ranked,
    };
    if let Some(sampling) = sampling {
        return sampling::run(runner, sampling, (warmup, window), began).map(Some);
    }
    let mut stop = runner.enumerate()?;
    if runner.any(stop == Stop::Interrupted) {
        stop = Stop::Interrupted;
    }
    runner.enter_window();
    if stop != Stop::Interrupted {
        runner.take_up(checkpoints, warmup, window)?;
    }
    let mut start = runner.place.measured_since;
    if start.is_none() {
        if stop != Stop::Interrupted && !runner.place.over {
            stop = runner.until(warmup)?;
        }
        if stop == Stop::Exhausted {
            runner.gather()?;
            runner.check_drained()?;
            return Err(RunError::Problems(vec![Problem {
                path: "measure".to_owned(),
                message: format!(
                    "the workloads ended during the warm-up, at {} ns: nothing is left to measure",
                    runner.now.0 as f64 / 1e3
                ),
            }]));
        }
        if stop != Stop::Interrupted {
            start = Some(runner.begin_measurement()?);
        }
    }
    if stop != Stop::Interrupted {
        stop = runner.until(window)?;
    }
    let start = start.unwrap_or(SimTime::ZERO);
    let end = runner.now;
    if !runner.gather()? {
        return Ok(None);
    }
    runner.system.simulation.for_each_mut(|node| {
        if let Some(host) = node.host_mut() {
            host.end_measurement(end);
        }
    });
    let outcome = match runner.outcome {
        Some(outcome) => outcome,
        None => return Err(RunError::Law("nothing was run".to_owned())),
    };
    if stop == Stop::Exhausted {
        check_drained(&runner.system)?;
        check_kernels(&runner.system)?;
    }
    let batches = runner
        .all_batches()
        .filter(|_| stop != Stop::Exhausted)
        .cloned();
    let links = LinkReadings::all(&mut runner.system, end);
    let readings = Readings::of(&runner.system, links, end - start, end).map_err(RunError::Law)?;
    let context = report::Context {
        plan,
        seed,
        warmed: runner.place.warmed,
        outcome: &outcome,
        enumeration: (!runner.system.enumerated.is_empty()).then_some(runner.begun),
        start,
        end,
        readings: &readings,
        sampling: None,
        partial: stop == Stop::Interrupted,
        notes: runner.notes(end),
        parts: batches.as_ref().map(Parts::Batches),
        wall: began.elapsed(),
    };
    let mut report = report::assemble(&runner.system, &context).map_err(RunError::Law)?;
    // Not before: media are asked for their statistics while the report is made.
    match runner.system.faults.first() {
        Some((_, what)) => {
            report.partial = true;
            report.fault = Some(what.clone());
            Err(RunError::Fault(Box::new(report), what))
        }
        None => Ok(Some(report)),
    }
}

impl<'p> Runner<'p, '_> {
    /// The notes of the plan, and those about this run, which ended at `end`.
    fn notes(&self, end: SimTime) -> Vec<Note> {
        let mut notes = self.plan.notes.clone();
        let lasted = Picos(end.0.saturating_sub(self.begun.0));
        notes.extend(late_events(self.plan, lasted));
        notes
    }

    /// The first phase, where the scenario has it.
    fn enumerate(&mut self) -> Result<Stop, RunError> {
        let (threads, monitor) = (self.options.threads, self.options.monitor);
        let outcome = self.system.enumerate(self.plan, threads, monitor);
        let Some(outcome) = outcome.map_err(RunError::Law)? else {
            return Ok(Stop::TimeLimit);
        };
        self.now = outcome.end;
        self.begun = outcome.end;
        let begun = self.begun;
        self.system.simulation.for_each_mut(|node| {
            if let Some(host) = node.host_mut() {
                host.begin_series(begun);
            }
        });
        self.outcome = Some(outcome);
        Ok(match outcome.stop {
            Stop::Interrupted => Stop::Interrupted,
            Stop::Exhausted | Stop::TimeLimit => Stop::TimeLimit,
        })
    }

    /// A window begins now.
    fn enter_window(&mut self) {
        let completed = self.completed();
        self.place = Place {
            now: self.now,
            since: self.now,
            completed,
            look: self.now,
            seen: completed,
            ..self.place
        };
    }

    /// Goes on from a checkpoint, where there is one, and gets ready to write them.
    fn take_up(
        &mut self,
        checkpoints: Checkpoints<'p>,
        warmup: WindowEnd,
        window: WindowEnd,
    ) -> Result<(), RunError> {
        if let Some(checkpoint) = &checkpoints.restore {
            let simulation = &mut self.system.simulation;
            let restored = checkpoint.restore(self.plan, self.options.seed, simulation);
            (self.place, self.batches) = restored.map_err(RunError::Checkpoint)?;
            if self.ranked.as_ref().is_some_and(|own| own.ranks.rank() > 0) {
                self.batches.iter_mut().for_each(Batches::forget);
            }
            self.now = self.place.now;
            self.options.monitor.take_up(self.completed());
            self.check_windows(warmup, window)?;
        }
        if checkpoints.write.is_some() || self.ranked.is_some() {
            // Before a long run, not after it.
            let refusals = checkpoint::refusals(&mut self.system.simulation);
            if !refusals.is_empty() {
                return Err(self.not_saved(&refusals));
            }
        }
        if let Some(write) = checkpoints.write {
            let completed = self.completed();
            let writer = Writer::new(write, checkpoints.not_written, self.now, completed);
            self.writer = Some(writer.map_err(RunError::Checkpoint)?);
        }
        Ok(())
    }

    /// Windows may change as far as the run has not passed them.
    fn check_windows(&mut self, warmup: WindowEnd, window: WindowEnd) -> Result<(), RunError> {
        let place = self.place;
        let warm = place.measured_since.is_some() || place.over;
        let wrong = |message: &str| {
            Err(RunError::Problems(vec![Problem::new(
                "measure",
                format!("found in a run that goes on from a checkpoint: {message}"),
            )]))
        };
        if warm && place.warmup != warmup {
            return wrong(
                "another warm-up than the one that has ended in it; allowed: the same one",
            );
        }
        let within = match place.measured_since {
            Some(_) => window,
            None => warmup,
        };
        if !place.over && (self.has_ended(within) || self.next_look(within) <= self.now) {
            return wrong("a window that had ended before it; allowed: one that ends after it");
        }
        self.place.warmup = warmup;
        Ok(())
    }

    /// The warm-up is over; returns when.
    fn begin_measurement(&mut self) -> Result<SimTime, RunError> {
        self.place.over = true;
        if self.writer.as_ref().is_some_and(Writer::is_after_warmup) {
            self.write_checkpoint()?;
        }
        let start = self.now;
        let simulation = &mut self.system.simulation;
        simulation.for_each_mut(|node| node.begin_measurement(start));
        let (began, before) = (self.place.since, self.place.completed);
        self.enter_window();
        let completed = self.place.completed - before;
        self.batches = Some(Batches::new(start, start.0 - began.0, completed));
        self.take_batch();
        self.place.measured_since = Some(start);
        self.place.over = false;
        Ok(start)
    }

    /// When a window by time ends.
    fn limit(&self, window: WindowEnd) -> SimTime {
        match window {
            WindowEnd::Time(span) | WindowEnd::SettledTime(span) => {
                SimTime(self.place.since.0.saturating_add(span.0))
            }
            WindowEnd::Requests(_) | WindowEnd::SettledRequests(_) | WindowEnd::End => {
                SimTime::NEVER
            }
        }
    }

    /// The look after the last one.
    fn next_look(&self, window: WindowEnd) -> SimTime {
        let last = self.place.look;
        let step = FIRST_LOOK.max((last.0 - self.begun.0) / 16);
        SimTime(last.0.saturating_add(step)).min(self.limit(window))
    }

    /// Whether a window has ended at the last look.
    fn is_over(&self, window: WindowEnd) -> bool {
        let place = &self.place;
        match window {
            WindowEnd::Requests(requests) | WindowEnd::SettledRequests(requests) => {
                place.seen - place.completed >= requests
            }
            WindowEnd::Time(_) | WindowEnd::SettledTime(_) => place.look >= self.limit(window),
            WindowEnd::End => false,
        }
    }

    /// Whether a window has ended at the last sampling point, and is as long as it must be.
    fn has_ended(&mut self, window: WindowEnd) -> bool {
        self.is_over(window) && self.may_end()
    }

    /// Whether a warm-up that ends by itself has ended at the last look. Says where the transient ended.
    fn has_settled(&mut self, window: WindowEnd) -> bool {
        let place = &self.place;
        let least = match window {
            WindowEnd::SettledRequests(most) => place.seen - place.completed >= most / 10,
            WindowEnd::SettledTime(most) => (place.look.0 - place.since.0) >= most.0 / 10,
            WindowEnd::Requests(_) | WindowEnd::Time(_) | WindowEnd::End => return false,
        };
        if !least {
            return false;
        }
        let profile = self.series().map(|all| all.profile(self.now));
        let settled = profile.and_then(|profile| profile.settled());
        self.place.warmed = settled.map_or(Warmed::NotSettled, Warmed::Settled);
        settled.is_some()
    }

    /// What all hosts have completed over time.
    fn series(&mut self) -> Option<Series> {
        let ranked = self.ranked.as_ref();
        let nodes = self.system.simulation.components().enumerate();
        let own = nodes.filter(|(number, _)| ranked.is_none_or(|ranked| ranked.owns(*number)));
        let hosts = own.filter_map(|(_, node)| node.host());
        let own = Series::merged(hosts.map(Host::series));
        match &mut self.ranked {
            Some(Ranked { ranks, .. }) => Series::merged(share(*ranks, &own).into_iter().flatten()),
            None => own,
        }
    }

    /// Whether the measurement is as precise as the scenario wants.
    fn is_precise(&mut self) -> bool {
        let (Some(wanted), Some(batches)) = (self.plan.scenario.measure.precision, &self.batches)
        else {
            return false;
        };
        if batches.count() < FEWEST_BATCHES {
            return false;
        }
        let mut totals = batches.totals();
        if let Some(Ranked { ranks, .. }) = &mut self.ranked {
            let mut all = share(*ranks, &totals).into_iter();
            totals = all.next().unwrap_or(totals);
            all.for_each(|other| totals.merge(&other));
        }
        intervals::relative(Parts::Batches(&totals)).is_some_and(|reached| reached <= part(wanted))
    }

    /// Runs to the end of the window that the run is in.
    fn until(&mut self, window: WindowEnd) -> Result<Stop, RunError> {
        loop {
            let look = self.next_look(window);
            loop {
                // The simulation asks for it now and then, which a short slice may not come to.
                let interrupted = self.outcome.is_some() && self.options.monitor.is_interrupted();
                if self.any(interrupted) {
                    return self.interrupted();
                }
                let slice = look.min(self.slice());
                let outcome = self.advance(slice);
                self.outcome = Some(outcome);
                self.hand_over_rows()?;
                self.check_progress()?;
                // A medium that cannot go on is silent, and so are those that wait for it.
                if self.has_fault() {
                    return Ok(Stop::Interrupted);
                }
                match outcome.stop {
                    Stop::TimeLimit => {}
                    Stop::Interrupted => return self.interrupted(),
                    Stop::Exhausted => return Ok(Stop::Exhausted),
                }
                if self.now >= look {
                    break;
                }
                self.write_if_due()?;
            }
            self.place.look = look;
            self.place.seen = self.completed();
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

    /// Leaves a checkpoint where they are written from time to time.
    fn interrupted(&mut self) -> Result<Stop, RunError> {
        let regular = |writer: &Writer<'_>| !writer.is_after_warmup();
        if self.writer.as_ref().is_some_and(regular) {
            self.write_checkpoint()?;
        }
        Ok(Stop::Interrupted)
    }

    /// Simulates up to that time, batch by batch.
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

    /// A batch ends now.
    fn take_batch(&mut self) {
        let Some(batches) = &mut self.batches else {
            return;
        };
        let ranked = self.ranked.as_ref();
        let own = |number| ranked.is_none_or(|ranked| ranked.owns(number));
        batches.take(Tally::of(&mut self.system, self.now, own));
    }

    /// Simulates up to that time.
    fn simulate(&mut self, until: SimTime) -> Outcome {
        let (simulation, monitor) = (&mut self.system.simulation, self.options.monitor);
        match &mut self.ranked {
            Some(Ranked { ranks, division }) => {
                simulation.run_ranked(division, *ranks, until, monitor)
            }
            None => simulation.run(self.options.threads, until, monitor),
        }
    }

    /// Whether something is so on any rank.
    fn any(&mut self, own: bool) -> bool {
        match &mut self.ranked {
            Some(Ranked { ranks, .. }) => share(*ranks, &own).contains(&true),
            None => own,
        }
    }

    /// What rank 0 says: where real time decides, all must decide alike.
    fn agreed<T: Serialize + serde::de::DeserializeOwned + Clone>(&mut self, own: T) -> T {
        match &mut self.ranked {
            Some(Ranked { ranks, .. }) => share(*ranks, &own).swap_remove(0),
            None => own,
        }
    }

    /// How far to simulate at once.
    fn slice(&mut self) -> SimTime {
        if self.writer.is_none() {
            return SimTime::NEVER;
        }
        let completed = self.completed();
        let slice = match &mut self.writer {
            Some(writer) => writer.slice(self.now, completed),
            None => SimTime::NEVER,
        };
        self.agreed(slice)
    }

    fn write_if_due(&mut self) -> Result<(), RunError> {
        if self.writer.is_none() {
            return Ok(());
        }
        let completed = self.completed();
        let due = match &mut self.writer {
            Some(writer) => writer.is_due(self.now, completed),
            None => false,
        };
        match self.agreed(due) {
            true => self.write_checkpoint(),
            false => Ok(()),
        }
    }

    /// Brings the components of all ranks to the first one; whether this is that.
    fn gather(&mut self) -> Result<bool, RunError> {
        let Some(Ranked { ranks, division }) = &mut self.ranked else {
            return Ok(true);
        };
        let gathered = self.system.simulation.gather(division, *ranks);
        let rank = ranks.rank();
        let mut all = share(*ranks, &self.batches).into_iter();
        self.gathered = all.next().flatten();
        if let Some(sum) = &mut self.gathered {
            all.flatten().for_each(|other| sum.merge(&other));
        }
        let digest = gathered.map_err(|error| match error {
            GatherError::Refused(refusals) => self.not_saved(&refusals),
            GatherError::Differs(error) => RunError::Law(error.to_string()),
        })?;
        if let Some(outcome) = &mut self.outcome {
            outcome.digest = digest;
        }
        Ok(rank == 0)
    }

    /// When no event is left, nothing may be left inside: else requests were lost or are deadlocked.
    fn check_drained(&self) -> Result<(), RunError> {
        match &self.ranked {
            Some(Ranked { ranks, .. }) if ranks.rank() > 0 => Ok(()),
            _ => check_drained(&self.system),
        }
    }

    /// The batches of all ranks.
    fn all_batches(&self) -> Option<&Batches> {
        match self.ranked {
            Some(_) => self.gathered.as_ref(),
            None => self.batches.as_ref(),
        }
    }

    /// The state of the run as bytes.
    fn saved(&mut self) -> Result<Vec<u8>, RunError> {
        self.place.now = self.now;
        let simulation = &mut self.system.simulation;
        let batches = match self.ranked {
            Some(_) => self.gathered.as_ref(),
            None => self.batches.as_ref(),
        };
        let place = (&self.place, batches);
        let saved = checkpoint::save(self.plan, self.options.seed, place, simulation);
        saved.map_err(|refusals| self.not_saved(&refusals))
    }

    fn not_saved(&self, refusals: &[Refusal]) -> RunError {
        RunError::Problems(checkpoint::problems(self.plan, &self.system, refusals))
    }

    /// The first rank writes for all.
    fn write_checkpoint(&mut self) -> Result<(), RunError> {
        let completed = self.completed();
        let bytes = match self.gather()? {
            true => Some(self.saved()?),
            false => None,
        };
        match &mut self.writer {
            Some(writer) => {
                let written = writer.write(bytes.as_deref(), self.now, completed);
                written.map_err(RunError::Checkpoint)
            }
            None => Ok(()),
        }
    }

    /// Looks for what ends a run early.
    pub(super) fn check_progress(&self) -> Result<(), RunError> {
        self.check_access()?;
        self.check_processes()?;
        self.check_stages()
    }

    /// Nobody knows where the time of a request went that waited for longer than a message can tell.
    fn check_stages(&self) -> Result<(), RunError> {
        let mut issuers = self.system.issuers();
        match issuers.position(|issuer| issuer.stats().too_long) {
            Some(number) => Err(RunError::Problems(vec![self.plan.too_long(number)])),
            None => Ok(()),
        }
    }

    /// Threads of a PCIe device may not load or store host memory.
    fn check_access(&self) -> Result<(), RunError> {
        let nodes = self.system.simulation.components();
        let accelerators = nodes.filter_map(|node| node.host()?.accelerator());
        let wrong = accelerators
            .enumerate()
            .find_map(|(number, accelerator)| accelerator.refused().map(|access| (number, access)));
        match wrong {
            Some((number, access)) => Err(RunError::Problems(vec![
                self.plan.refused_access(number, &access),
            ])),
            None => Ok(()),
        }
    }

    /// A process that did what no process may is the workload's mistake.
    fn check_processes(&self) -> Result<(), RunError> {
        let wrong = |host: &PlannedHost, why: &str| {
            Err(RunError::Problems(vec![Problem {
                path: format!("hosts[{}].workload", host.group),
                message: format!("found a process that cannot go on: {why}"),
            }]))
        };
        for (host, node) in self.plan.hosts.iter().zip(self.system.issuers()) {
            if let Some(error) = node.processor().and_then(Processor::error) {
                return wrong(host, error);
            }
        }
        let nodes = self.system.simulation.components();
        let accelerators = nodes.filter_map(|node| node.host()?.accelerator());
        for (accelerator, host) in accelerators.zip(&self.plan.accelerator_hosts) {
            if let Some(access) = accelerator.stray() {
                let host = &self.plan.hosts[*host];
                let at = access.hpa.0;
                let why = format!("a device of it asks for {at:#x}, where there is no memory");
                return wrong(host, &why);
            }
        }
        Ok(())
    }

    /// Requests completed in the whole system.
    fn completed(&mut self) -> u64 {
        let nodes = self.system.simulation.components().enumerate();
        let ranked = &mut self.ranked;
        let own: u64 = nodes
            .filter(|(number, _)| ranked.as_ref().is_none_or(|ranked| ranked.owns(*number)))
            .filter_map(|(_, node)| node.host())
            .map(|host| host.stats().completed_ever)
            .sum();
        match ranked {
            Some(Ranked { ranks, .. }) => share(*ranks, &own).iter().sum(),
            None => own,
        }
    }

    fn take_rows(&mut self) -> Vec<RequestRow> {
        let mut rows = Vec::new();
        self.system.simulation.for_each_mut(|node| {
            if let Some(host) = node.host_mut() {
                rows.append(&mut host.take_rows());
            }
        });
        rows
    }

    /// Hands over the rows of this step, in order of completion.
    fn hand_over_rows(&mut self) -> Result<(), RunError> {
        if self.options.rows.is_none() {
            return Ok(());
        }
        let mut rows = self.take_rows();
        rows.sort_unstable_by_key(|row| (row.completed_ps, row.requester, row.id));
        match &mut self.options.rows {
            Some(sink) if !rows.is_empty() => sink(rows).map_err(RunError::Rows),
            _ => Ok(()),
        }
    }
}

/// The events of the scenario that a run did not reach whose workloads ran for `lasted`.
fn late_events(plan: &Plan, lasted: Picos) -> Vec<Note> {
    let events = plan.scenario.events.iter().enumerate();
    let said = |number: usize| {
        let path = format!("events[{number}]");
        plan.notes.iter().any(|note| note.path == path)
    };
    let late = events.filter(|(number, event)| event.at() > lasted && !said(*number));
    let note = |(number, event): (usize, &EventParams)| {
        let (at, what) = (event.at(), event.describe());
        Note::new(
            format!("events[{number}]"),
            format!(
                "did not happen ({what}, at {at}): the run ended {lasted} after the workloads began"
            ),
        )
    };
    late.map(note).collect()
}

fn check_drained(system: &System) -> Result<(), RunError> {
    let mut held = Vec::new();
    for (number, node) in system.simulation.components().enumerate() {
        let done = match node.host() {
            Some(host) => host.is_done(),
            None => node.holds() == 0,
        };
        if !done {
            held.push(format!("component {number} holds {}", node.holds()));
        }
    }
    if held.is_empty() {
        return check_denied(system);
    }
    held.truncate(8);
    Err(RunError::Law(format!(
        "requests never completed: {}",
        held.join(", ")
    )))
}

/// What devices denied, hosts were denied, unless the answer was lost or late; and each request whose
/// time was over lost a message, or was answered late.
fn check_denied(system: &System) -> Result<(), RunError> {
    let nodes = system.simulation.components();
    let (mut by_devices, mut of_hosts) = (0, 0);
    let (mut timed_out, mut late) = (0, 0);
    let mut lost = LostMessages::default();
    for node in nodes {
        lost += node.lost();
        match node.inside() {
            Node::Device(device) => by_devices += device.stats().denied_ever,
            Node::Host(host) => {
                let stats = host.stats();
                of_hosts += stats.denied_ever + stats.late_denied_ever;
                timed_out += stats.timed_out_ever;
                late += stats.late_ever;
            }
            _ => {}
        }
    }
    if by_devices != of_hosts + lost.denied {
        return Err(RunError::Law(format!(
            "devices denied {by_devices} requests, hosts were denied {of_hosts}, {} were lost",
            lost.denied
        )));
    }
    if timed_out != lost.messages + late {
        return Err(RunError::Law(format!(
            "the time of {timed_out} requests was over, {} messages were lost, {late} answers late",
            lost.messages
        )));
    }
    Ok(())
}

/// When their threads have all ended by themselves, kernels check what they have computed.
fn check_kernels(system: &System) -> Result<(), RunError> {
    let hosts = system.simulation.components();
    for (domain, node) in system.domains.iter().zip(hosts) {
        let Some(domain) = domain else { continue };
        let processor = node.host().and_then(Host::processor);
        if processor.is_some_and(|processor| processor.threads_ended().is_some()) {
            continue;
        }
        let process = processor.and_then(Processor::process_image);
        domain
            .kernel
            .check(process.as_ref().unwrap_or(&domain.image))
            .map_err(|wrong| RunError::Law(format!("the result of the kernel: {wrong}")))?;
    }
    Ok(())
}

/// A percentage as a part of one.
pub(crate) fn part(percent: Percent) -> f64 {
    percent.0 as f64 / 1e6
}

/// Wall time as seconds, never zero.
pub(crate) fn seconds(wall: Duration) -> f64 {
    wall.as_secs_f64().max(1e-9)
}
