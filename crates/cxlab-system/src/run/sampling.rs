//! Sampled runs, after SMARTS (R. E. Wunderlich, T. F. Wenisch, B. Falsafi, J. C. Hoe, *SMARTS: accelerating
//! microarchitecture simulation via rigorous statistical sampling*, ISCA 2003).
//!
//! A run is divided into units of equally many requests. Of each unit, some hundred or thousand requests are
//! simulated in detail. The first of them fill queues and the rest are measured. Hosts then issue nothing
//! until no request is in flight and no event is left. The requests up to the next unit are applied to
//! caches, buffers and mappings, without simulated time. The sampling is stratified: the window of a unit
//! begins at a random place of the unit's part of the run.
//!
//! A measured window begins and ends at the first point of a grid of simulated time at which a given number of requests
//! has completed. The grid spacing is a fraction of the last window, so windows depend only on the system and the seed.

use web_time::Instant;

use cxlab_engine::Stop;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::{RequestAgent, Requester, WarmBuffer};
use cxlab_plan::Plan;
use cxlab_plan::windows::WindowEnd;
use cxlab_protocol::PortId;
use cxlab_scenario::{Note, Sampling};

use super::{RunError, RunOptions, Runner};
use crate::assembly::{self, Context};
use crate::batches::CounterSnapshot;
use crate::checkpoint::Checkpoints;
use crate::intervals::{self, Parts};
use crate::laws::check_drained;
use crate::readings::{LinkReadings, Readings};
use crate::report::{Report, SamplingReport};
use crate::samples::{Sample, Samples};
use crate::system::{Node, System};

/// Mean number of lines that a host applies without time before the next host's turn.
const ROUND: u64 = 64;
/// Points of the grid in a measured window (*assumed*).
const POINTS: u64 = 64;
/// The first distance between points of the grid: 100 ns.
const FIRST_STEP: u64 = 100_000;
/// Fewest units at which a run stops because it is precise enough.
const FEWEST_UNITS: usize = 32;
/// Mean length of the part of a unit before its measured window, in slowest operations of a medium (*assumed*).
const SLOWEST: u64 = 3;
/// Weight of the last window in a host's share: 1/4 for the last window, 3/4 for earlier windows.
const RECENT: u64 = 4;

/// The sampling settings of the run, if it is sampled.
///
/// # Errors
/// Options that do not work with sampling and are no part of a plan.
pub(super) fn settings(
    plan: &Plan,
    options: &RunOptions<'_>,
    checkpoints: &Checkpoints<'_>,
    lacking: [(&'static str, &'static str, bool); 2],
) -> Result<Option<Sampling>, RunError> {
    let sampling = plan.scenario.measure.sampling;
    let checkpointed = checkpoints.write.is_some() || checkpoints.restore.is_some();
    let log = "with a request log, which would lack most requests";
    let others = [
        ("with checkpoints", "without them", checkpointed),
        (log, "without it", options.rows.is_some()),
    ];
    match lacking.into_iter().chain(others).find(|(.., found)| *found) {
        Some((found, allowed, _)) if sampling.is_some() => Err(RunError::of(
            "measure.sampling",
            format!("found in a run {found}; allowed: {allowed}"),
        )),
        _ => Ok(sampling),
    }
}

pub(super) fn run(
    mut runner: Runner<'_, '_>,
    sampling: Sampling,
    (warmup, window): (WindowEnd, WindowEnd),
    began: Instant,
) -> Result<Report, RunError> {
    let mut sampler = Sampler::new(&runner, sampling);
    let stop = sampler.all(&mut runner, (warmup, window))?;
    let partial = stop == Stop::Interrupted;
    if sampler.samples.count() == 0 && !partial {
        return Err(too_short(&sampler));
    }
    let end = runner.now;
    let readings = match sampler.readings.take() {
        Some(readings) => readings,
        None => {
            let links = LinkReadings::all(&mut runner.system, end);
            Readings::of(&runner.system, links, Picos::ZERO, end).map_err(RunError::Law)?
        }
    };
    let Some(outcome) = runner.outcome else {
        return Err(RunError::Law("nothing was run".to_owned()));
    };
    let context = Context {
        plan: runner.plan,
        seed: runner.options.seed,
        warmed: runner.position.warmed,
        outcome: &outcome,
        enumeration: None,
        start: sampler.start.unwrap_or(end),
        end,
        readings: &readings,
        sampling: Some(sampler.report()),
        partial,
        notes: sampler.notes(runner.notes(end)),
        parts: Some(Parts::Samples(&sampler.samples)),
        wall: began.elapsed(),
    };
    assembly::assemble(&runner.system, &context).map_err(RunError::Law)
}

/// Time after which the slowest operations of media are outstanding in their average number.
fn fill_time(plan: &Plan) -> Picos {
    let media = plan.media.devices.iter();
    let slowest = media.map(|medium| medium.slowest()).max();
    Picos(slowest.unwrap_or_default().0.saturating_mul(SLOWEST))
}

fn too_short(sampler: &Sampler) -> RunError {
    let Sampling { every, .. } = sampler.sampling;
    RunError::of(
        "measure.sampling.every",
        format!(
            "found {every}, and the run ended after {} requests, in which no unit was measured; allowed: a small \
             part of that",
            sampler.warmed + sampler.detailed
        ),
    )
}

struct Sampler {
    sampling: Sampling,
    /// By host: weight of its share of the requests between units.
    weights: Vec<u64>,
    buffer: WarmBuffer,
    /// Whether a medium has state that accesses change.
    keeps: bool,
    /// Time after which slow operations of media are in flight in their average number.
    fill: Picos,
    /// Requests that a unit simulates before its measured window, at most those since the previous unit.
    /// Their number does not depend on the speed of the unit itself. Otherwise, windows would fall too often
    /// on times when the system is slow.
    lead: u64,
    /// Simulated time of the measured windows, in picoseconds.
    span_ps: u128,
    /// Units of which more than half was simulated in detail.
    long: u64,
    draws: StreamRng,
    /// Requests in flight at the ends of windows, summed.
    in_flight: u64,
    /// Number of completed requests at which a window begins. The window begins at the first grid point at
    /// which at least this many have completed, and ends by the same rule. Counting from that grid point
    /// instead would place too many windows just after requests that completed together.
    begin: u64,
    /// Distance between the grid points at which a window can end, in picoseconds.
    step: u64,
    /// Requests that the run has passed since its warm-up.
    passed: u64,
    warmed: u64,
    detailed: u64,
    measured: u64,
    start: Option<SimTime>,
    samples: Samples,
    readings: Option<Readings<'static>>,
}

impl Sampler {
    fn new(runner: &Runner<'_, '_>, sampling: Sampling) -> Sampler {
        let plan = runner.plan;
        Sampler {
            sampling,
            weights: vec![1; runner.system.hosts],
            buffer: WarmBuffer::default(),
            keeps: plan.media.devices.iter().any(|medium| medium.keeps_state()),
            fill: fill_time(plan),
            lead: sampling.warmup,
            span_ps: 0,
            long: 0,
            draws: StreamRng::new(runner.options.seed, "sampling"),
            in_flight: 0,
            begin: 0,
            step: FIRST_STEP,
            passed: 0,
            warmed: 0,
            detailed: 0,
            measured: 0,
            start: None,
            samples: Samples::default(),
            readings: None,
        }
    }

    fn report(&self) -> SamplingReport {
        let (time_ns, time_ci95_ns) = intervals::time_of(&self.samples, self.passed);
        SamplingReport {
            units: self.samples.count() as u64,
            requests: self.passed,
            warmed: self.warmed,
            detailed: self.detailed,
            measured: self.measured,
            measured_fraction: self.measured as f64 / self.passed.max(1) as f64,
            time_ns,
            time_ci95_ns,
        }
    }

    /// Adds notes on the units for the user.
    fn notes(&self, mut notes: Vec<Note>) -> Vec<Note> {
        if self.long > 0 {
            let Sampling { every, .. } = self.sampling;
            notes.push(Note::new(
                "measure.sampling.every",
                format!(
                    "{} of {} units took more than {} requests in detail, half of `every`: media need {} to have \
                     their slow operations under way; a larger one makes the run faster",
                    self.long,
                    self.samples.count(),
                    every / 2,
                    self.fill
                ),
            ));
        }
        notes
    }

    /// Runs all units, until the window or the workloads end, or the run is precise enough.
    fn all(
        &mut self,
        runner: &mut Runner<'_, '_>,
        (warmup, window): (WindowEnd, WindowEnd),
    ) -> Result<Stop, RunError> {
        let Sampling {
            every,
            detailed,
            warmup: least,
        } = self.sampling;
        let most = match window {
            WindowEnd::Requests(requests) => requests,
            _ => u64::MAX,
        };
        if let WindowEnd::Requests(requests) = warmup {
            self.warm(runner, requests);
            self.passed = 0;
        }
        // One window begins at a random place of each part of `every` requests. At equal distances, windows
        // would see only some places of a workload with the same period.
        let mut part = 0_u64;
        loop {
            let place = part + self.draws.below(every);
            part += every;
            let ahead = place.saturating_sub(self.passed);
            let gap = ahead.saturating_sub(self.lead);
            let lead = (ahead - gap).max(least);
            let left = most.saturating_sub(self.passed);
            let whole = left > gap.saturating_add(lead + detailed);
            let ended = self.warm(runner, if whole { gap } else { left });
            if runner.options.monitor.is_interrupted() {
                return Ok(Stop::Interrupted);
            }
            if ended || !whole {
                return Ok(Stop::TimeLimit);
            }
            match self.unit(runner, lead)? {
                Stop::TimeLimit => {}
                stop => return Ok(stop),
            }
            if self.is_precise(runner.plan) {
                return Ok(Stop::TimeLimit);
            }
        }
    }

    fn is_precise(&self, plan: &Plan) -> bool {
        let Some(wanted) = plan.scenario.measure.precision else {
            return false;
        };
        let enough = self.samples.count() >= FEWEST_UNITS;
        enough && intervals::is_precise(Parts::Samples(&self.samples), wanted)
    }

    /// Applies `requests` requests of all hosts without time, in turn, each host in proportion to its
    /// measured rate. Returns whether all workloads have ended.
    fn warm(&mut self, runner: &mut Runner<'_, '_>, requests: u64) -> bool {
        let hosts = self.weights.len();
        let all: u128 = self.weights.iter().copied().map(u128::from).sum();
        let rounds = requests.div_ceil(ROUND * hosts as u64).max(1);
        let mut given = vec![0; hosts];
        let mut ended = vec![false; hosts];
        for round in 1..=rounds {
            for host in 0..hosts {
                // The product fits into 128 bits: a number below 2^64 times a number below 2^32, because
                // windows have fewer requests.
                let share = u128::from(requests) * u128::from(self.weights[host]) / all.max(1);
                let due = (share * u128::from(round) / u128::from(rounds)) as u64;
                let wanted = due.saturating_sub(given[host]);
                if wanted > 0 && !ended[host] {
                    let taken = self.warm_host(&mut runner.system, host, wanted);
                    given[host] += taken;
                    ended[host] = taken < wanted;
                    self.passed += taken;
                    self.warmed += taken;
                }
            }
            if runner.options.monitor.is_interrupted() || ended.iter().all(|ended| *ended) {
                break;
            }
        }
        runner.options.monitor.set_untimed_work(self.warmed);
        ended.iter().all(|ended| *ended)
    }

    /// Applies at most `lines` requests of a host without time. Returns how many the host had.
    fn warm_host(&mut self, system: &mut System, host: usize, lines: u64) -> u64 {
        let node = system.simulation.component_mut(host);
        let taken = match requester(node) {
            Some(requester) => requester.warm(lines, self.keeps, &mut self.buffer),
            None => unreachable!("the plan has no other hosts"),
        };
        // Edge ports are numbered as components are: hosts, then devices.
        let source = PortId(host as u16);
        let accesses = &self.buffer.accesses;
        for run in accesses.chunk_by(|one, next| one.device == next.device) {
            let device = usize::from(run[0].device.0);
            if let Node::Device(device) = system.simulation.component_mut(device) {
                for access in run {
                    device.warm(source, access.hpa, access.write);
                }
            }
        }
        taken
    }

    /// Simulates a unit in detail, and then drains all requests in flight.
    fn unit(&mut self, runner: &mut Runner<'_, '_>, lead: u64) -> Result<Stop, RunError> {
        each(runner, Requester::begin_here);
        runner.system.simulation.restart();
        let before = runner.completed();
        let mut stop = self.fill(runner, lead)?;
        if stop == Stop::TimeLimit {
            stop = self.measure(runner)?;
        }
        if stop == Stop::TimeLimit {
            each(runner, Requester::park);
            match self.simulate(runner, SimTime::NEVER) {
                Stop::Exhausted => check_drained(&runner.system).map_err(RunError::Law)?,
                other => stop = other,
            }
            each(runner, Requester::resume);
        }
        let done = runner.completed() - before;
        self.passed += done;
        self.detailed += done;
        self.long += u64::from(done > self.sampling.every / 2);
        Ok(stop)
    }

    /// Simulates the part of a unit before its measured window, of `lead` requests.
    fn fill(&mut self, runner: &mut Runner<'_, '_>, lead: u64) -> Result<Stop, RunError> {
        if self.fill > Picos::ZERO && self.samples.count() == 0 {
            // The number of requests that complete meanwhile is not known yet.
            let least = SimTime(runner.now.0 + self.fill.0);
            let stop = self.simulate(runner, least);
            if stop != Stop::TimeLimit {
                return Ok(stop);
            }
        }
        let before = runner.completed();
        let stop = self.reach(runner, before + lead)?;
        if stop != Stop::TimeLimit {
            return Ok(stop);
        }
        // Requests that began together complete in rounds of as many as are in flight. Windows begin at
        // random places of a round. The length of a round comes from earlier units: where requests arrive in
        // bursts, this unit's requests in flight would predict the arrivals that follow.
        let units = self.samples.count() as u64;
        let round = self.in_flight.checked_div(units).unwrap_or_default();
        self.begin = runner.completed() + self.draws.below(round.max(1));
        self.reach(runner, self.begin)
    }

    /// Measures the window of a unit.
    fn measure(&mut self, runner: &mut Runner<'_, '_>) -> Result<Stop, RunError> {
        let start = runner.now;
        let simulation = &mut runner.system.simulation;
        simulation.for_each_mut(|node| node.begin_measurement(start));
        let began = tally(runner);
        let wanted = self.sampling.detailed;
        let stop = self.reach(runner, self.begin + wanted / 2)?;
        if stop != Stop::TimeLimit {
            return Ok(stop);
        }
        let (half, first) = (runner.now, tally(runner).since(&began).total());
        let stop = self.reach(runner, self.begin + wanted)?;
        if stop != Stop::TimeLimit {
            return Ok(stop);
        }
        runner.check_progress()?;
        let span = runner.now - start;
        let links = LinkReadings::all(&mut runner.system, runner.now);
        let readings = Readings::of(&runner.system, links, span, runner.now);
        let readings = readings.map_err(RunError::Law)?;
        self.note_progress(&readings, span);
        match &mut self.readings {
            Some(all) => all.merge(&readings),
            None => self.readings = Some(readings.into_owned()),
        }
        self.start.get_or_insert(start);
        each(runner, |one| self.in_flight += one.requests_in_flight());
        self.samples.add(Sample {
            spans: [span.0, (half - start).0],
            tally: tally(runner).since(&began),
            first,
        });
        Ok(Stop::TimeLimit)
    }

    /// Updates the hosts' rates and the number of requests before the next window.
    fn note_progress(&mut self, readings: &Readings<'_>, span: Picos) {
        let mut all = 0;
        for (weight, read) in self.weights.iter_mut().zip(&readings.issuers) {
            let completed = read.stats.reads + read.stats.writes;
            all += completed;
            // The counts are shifted to keep fractions.
            let before = match self.samples.count() {
                0 => completed << 16,
                _ => *weight,
            };
            *weight = before - before / RECENT + (completed << 16) / RECENT;
        }
        self.measured += all;
        self.span_ps += u128::from(span.0);
        let filling = u128::from(self.fill.0) * u128::from(self.measured) / self.span_ps.max(1);
        let filling = u64::try_from(filling).unwrap_or(u64::MAX);
        self.lead = filling.max(self.sampling.warmup);
        let wanted = u128::from(span.0) * u128::from(self.sampling.detailed);
        self.step = (wanted / u128::from(all.max(1)) / u128::from(POINTS)).max(1) as u64;
    }

    /// Simulates until `target` requests have completed since the beginning of the run.
    fn reach(&mut self, runner: &mut Runner<'_, '_>, target: u64) -> Result<Stop, RunError> {
        let since = runner.now;
        while runner.completed() < target {
            // Before the first measured window, the speed of the system is not known.
            let grown = match self.samples.count() {
                0 => (runner.now - since).0 / POINTS,
                _ => 0,
            };
            let until = SimTime(runner.now.0 + self.step.max(grown));
            let stop = self.simulate(runner, until);
            if stop != Stop::TimeLimit {
                return Ok(stop);
            }
        }
        Ok(Stop::TimeLimit)
    }

    fn simulate(&mut self, runner: &mut Runner<'_, '_>, until: SimTime) -> Stop {
        let outcome = runner.simulate(until);
        runner.now = outcome.end;
        runner.outcome = Some(outcome);
        outcome.stop
    }
}

fn requester(node: &mut Node) -> Option<&mut Requester> {
    node.host_mut()?.plain_mut()
}

fn each(runner: &mut Runner<'_, '_>, mut change: impl FnMut(&mut Requester)) {
    runner.system.simulation.for_each_mut(|node| {
        if let Some(requester) = requester(node) {
            change(requester);
        }
    });
}

fn tally(runner: &mut Runner<'_, '_>) -> CounterSnapshot {
    CounterSnapshot::of(&mut runner.system, runner.now, |_| true)
}
