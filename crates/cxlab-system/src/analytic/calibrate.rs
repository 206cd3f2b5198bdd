//! The analytic form, corrected by short event runs of the same plan.
//!
//! The form is a control variate: it is computed for the whole plan, and for the operations that a short run of events
//! measured. Where the short run differs from the form of its own operations, the form of all is wrong by the same
//! factor, so each host's rate and latency are multiplied by it. What the operations of the short run have that others
//! have not (a phase of a trace, a draw of addresses) is in both and falls out. A second run, with another seed and
//! behind a longer warm-up, takes no part in that: how far it is from the corrected numbers decides their classes.

use cxlab_analytic::{ErrorClass, ErrorClasses, Network, Solution, classify};
use cxlab_engine::{Monitor, Threads};
use cxlab_plan::{Plan, Problem};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compare::compare;
use super::demand::{CountedOperations, HostDemand};
use super::judge::{ClassJudgements, Of, judge};
use super::{AnalyticHost, AnalyticReport, UnjudgedForm, report};
use crate::report::{HostReport, Report};
use crate::run::{RunError, RunOptions, run};

/// Default number of requests that a run measures: the fewest, and the number for each request in flight.
const LEAST: f64 = 5_000.0;
const OF_FLIGHT: f64 = 20.0;
/// Length of the second run's window and warm-up, relative to those of the first run.
const LONGER: u64 = 2;
/// An error class covers this multiple of the measured error and of its uncertainty, because single
/// draws of both vary. *Assumed*; `tests/tests/swarms/analytic_classes.rs` checks it.
const MARGIN: f64 = 3.0;
/// Relative half-width of the interval of a number whose run is too short for one. *Assumed*.
const UNKNOWN: f64 = 0.05;
/// A host with fewer requests in the second run has a class of 30 % at best, because it settles later than others.
const FEW: u64 = 1_000;
/// Best error class after two short runs: some systems settle differently by seed.
const BEST: ErrorClass = ErrorClass::TenPercent;

/// Corrections of the form by short event runs.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Calibration {
    /// Requests that the first run measured, behind as many; the second run has twice as many of both.
    pub requests: u64,
    /// Events of both runs.
    pub events: u64,
    /// Real time of both runs, in seconds.
    pub wall_seconds: f64,
    /// Bandwidth of all hosts.
    pub bandwidth: Corrected,
    /// Mean latency of all hosts.
    pub latency: Corrected,
    /// Largest error of a host's bandwidths and latencies against the second run, before and after.
    pub furthest_host: Corrected,
}

/// Relative error of the form against the second run.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Corrected {
    /// Error before the correction.
    pub before: f64,
    /// Error after the correction.
    pub after: f64,
}

impl Calibration {
    /// The corrections as text for the user.
    pub(super) fn describe(&self) -> String {
        let change = |name: &str, Corrected { before, after }: Corrected| {
            let [before, after] = [before, after].map(|part| 100.0 * part);
            format!("{name} {before:+.1} % -> {after:+.1} %")
        };
        format!(
            "  corrected by a run of {} requests; against another of {}: {}, {}, {}\n  both runs: {} events, {:.2} s\n",
            2 * self.requests,
            2 * LONGER * self.requests,
            change("bandwidth", self.bandwidth),
            change("latency", self.latency),
            change("furthest host", self.furthest_host),
            self.events,
            self.wall_seconds
        )
    }
}

/// Computes a plan's report and corrects it by two event runs, of which the first measures
/// `requests` requests; by default 20 for each request in flight and at least 5,000. If a run is
/// interrupted, its report is partial, and the result is `None`.
///
/// # Errors
/// Plans that the analytic form does not cover, hosts that end, fewer requests than four for each in flight or than fill the private
/// caches, and the errors of runs.
pub fn calibrate(
    plan: &Plan,
    seed: u64,
    requests: Option<u64>,
    monitor: &Monitor,
) -> Result<Option<AnalyticReport>, RunError> {
    let mut groups = plan.scenario.hosts.iter().enumerate();
    if let Some((at, requests)) = groups.find_map(|(at, group)| Some((at, group.requests?))) {
        return Err(RunError::of(
            format!("hosts[{at}].requests"),
            format!(
                "found {requests}; allowed with --calibrate: none (a short run sees another part of such a host's \
                 life)"
            ),
        ));
    }
    let whole = UnjudgedForm::of(plan, seed, &super::demand::first(plan))?;
    let (_, alone) = classify(&whole.network, &whole.solution);
    let before = assemble(plan, seed, &whole);
    let least = (before.in_flight * 4.0).ceil().max(1.0) as u64;
    let requests = requests.unwrap_or((before.in_flight * OF_FLIGHT).max(LEAST) as u64);
    if requests < least {
        let in_flight = before.in_flight;
        return Err(RunError::of(
            "--calibrate",
            format!(
                "found {requests}; allowed: {least} or more (four for each of the {in_flight:.0} requests in flight)"
            ),
        ));
    }
    let short = shorter(plan, requests)?;
    let Some(first) = run_short(&short, seed, monitor)? else {
        return Ok(None);
    };
    let parts: Vec<CountedOperations> = first.hosts.iter().map(part).collect();
    let of_short = UnjudgedForm::of(&short, seed, &parts)?;
    if of_short.demand.hosts.iter().any(HostDemand::is_cold) {
        return Err(RunError::of(
            "--calibrate",
            format!(
                "found {requests}; allowed: more, so that the warm-up of the short runs fills the private caches"
            ),
        ));
    }
    let of_short = assemble(&short, seed, &of_short);
    let mut computed = whole;
    correct(&mut computed, &factors(&of_short, &first));
    let long = shorter(plan, LONGER * requests)?;
    let Some(second) = run_short(&long, seed.wrapping_add(1), monitor)? else {
        return Ok(None);
    };
    let after = assemble(plan, seed, &computed);
    let found = classes(&after, &second, &alone);
    let judged = judge(plan, &computed, found, Of::Runs);
    let mut report = report::assemble(plan, seed, &computed, &judged);
    report.stages_ns = stages(&before, &of_short, &first, report.latency_ns.mean);
    report.calibration = Some(Calibration {
        requests,
        events: first.extent.events + second.extent.events,
        wall_seconds: first.extent.wall_seconds + second.extent.wall_seconds,
        ..distances(&before, &after, &second)
    });
    Ok(Some(report))
}

/// The plan with a warm-up and a window of `requests` requests each.
fn shorter(plan: &Plan, requests: u64) -> Result<Plan, Vec<Problem>> {
    let mut scenario = plan.scenario.clone();
    scenario.measure.warmup = None;
    scenario.measure.warmup_time = None;
    scenario.measure.warmup_requests = Some(requests);
    scenario.measure.requests = Some(requests);
    scenario.measure.duration = None;
    scenario.measure.precision = None;
    scenario.measure.sampling = None;
    Plan::new(scenario, plan.files.clone())
}

/// Runs a short plan; `None` if the run was interrupted.
fn run_short(plan: &Plan, seed: u64, monitor: &Monitor) -> Result<Option<Report>, RunError> {
    let options = RunOptions {
        seed,
        threads: Threads::UpTo(1),
        monitor,
        rows: None,
    };
    let report = run(plan, options)?;
    Ok((!report.provenance.partial).then_some(report))
}

/// The operations of a host in the measured window of a short run, after a warm-up of as many requests.
fn part(host: &HostReport) -> CountedOperations {
    CountedOperations {
        skip: host.completed,
        count: host.completed.max(1) as usize,
    }
}

/// The report of a form whose error classes are not judged yet.
fn assemble(plan: &Plan, seed: u64, computed: &UnjudgedForm) -> AnalyticReport {
    let none = || ErrorClasses {
        bandwidth: ErrorClass::DoNotUse,
        latency: ErrorClass::DoNotUse,
        why: String::new(),
    };
    let judged = ClassJudgements {
        all: none(),
        hosts: vec![none(); plan.hosts.len()],
    };
    report::assemble(plan, seed, computed, &judged)
}

/// By host: the factors that correct the form's rates and latencies.
fn factors(form: &AnalyticReport, run: &Report) -> Vec<(f64, f64)> {
    let ratio = |run: f64, form: f64| match form > 0.0 && run > 0.0 {
        true => run / form,
        false => 1.0,
    };
    let both = |(form, run): (&AnalyticHost, &HostReport)| {
        let rate = ratio(run.bandwidth_gb_per_s.total, form.bandwidth_gb_per_s.total);
        (rate, ratio(run.latency_ns.mean, form.latency_ns.mean))
    };
    form.hosts.iter().zip(&run.hosts).map(both).collect()
}

/// Multiplies rates and latencies by host; loads and waits of stations follow.
fn correct(computed: &mut UnjudgedForm, factors: &[(f64, f64)]) {
    let (network, solution) = (&computed.network, &mut computed.solution);
    let before = crossings(network, solution);
    for (rate, (factor, _)) in solution.rates.iter_mut().zip(factors) {
        *rate *= factor;
    }
    for (at, flow) in network.flows.iter().enumerate() {
        let waits: f64 = (flow.visits.iter().zip(&solution.waits_ps[at]))
            .map(|(visit, wait)| visit.share * wait)
            .sum();
        let latency = &mut solution.latency_ps[at];
        let corrected = *latency * factors[flow.host as usize].1;
        let left = (waits + corrected - *latency).max(0.0);
        *latency = corrected;
        // Where the form has no wait, there is none to be made longer: stages say what it is.
        if waits > 0.0 {
            for wait in &mut solution.waits_ps[at] {
                *wait *= left / waits;
            }
        }
    }
    let after = crossings(network, solution);
    for (load, (before, after)) in solution.stations.iter_mut().zip(before.iter().zip(&after)) {
        if before.0 > 0.0 {
            load.scale(after.0 / before.0);
            load.wait_ps = after.1 / after.0;
        }
    }
}

/// By station: messages per picosecond, and the same times their waits.
fn crossings(network: &Network, solution: &Solution) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0.0); network.stations.len()];
    for (flow, waits) in network.flows.iter().zip(&solution.waits_ps) {
        for (visit, wait) in flow.visits.iter().zip(waits) {
            let rate = solution.rates[flow.host as usize] * flow.share * visit.share;
            let sum = &mut sums[visit.station as usize];
            *sum = (sum.0 + rate, sum.1 + rate * wait);
        }
    }
    sums
}

/// Latencies by stage, in nanoseconds.
type Stages = serde_json::Map<String, Value>;

/// Stages, corrected by the difference of the short run from the form of its operations; they sum to `mean`.
fn stages(form: &AnalyticReport, of_short: &AnalyticReport, run: &Report, mean: f64) -> Stages {
    let of = |stages: &Stages, name: &str| stages.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let corrected = form.stages_ns.keys().map(|name| {
        let more = of(&run.stages_ns, name) - of(&of_short.stages_ns, name);
        (name, (of(&form.stages_ns, name) + more).max(0.0))
    });
    let corrected: Vec<(&String, f64)> = corrected.collect();
    let sum: f64 = corrected.iter().map(|(_, stage)| stage).sum();
    let scale = if sum > 0.0 { mean / sum } else { 0.0 };
    let scaled = corrected
        .into_iter()
        .map(|(name, stage)| (name.clone(), Value::from(stage * scale)));
    scaled.collect()
}

/// The classes that the second run allows. How hosts share a saturated station may settle differently by seed, so
/// where the form `alone` has no bound for a host, two runs that agree add little.
fn classes(
    form: &AnalyticReport,
    run: &Report,
    alone: &[ErrorClasses],
) -> (ErrorClasses, Vec<ErrorClasses>) {
    let compared = compare(form, run).numbers;
    let class = |what: &super::compare::ComparedNumber| {
        let Some(error) = what.error else {
            return ErrorClass::DoNotUse;
        };
        let interval = what.engine_ci95.map_or(UNKNOWN, |half| half / what.engine);
        let found = MARGIN * (error.abs() + interval);
        ErrorClass::of(found).max(BEST)
    };
    let mut all: Vec<ErrorClasses> = compared
        .chunks_exact(2)
        .map(|pair| ErrorClasses {
            bandwidth: class(&pair[0]),
            latency: class(&pair[1]),
            why: "corrected, and held against a second run".to_owned(),
        })
        .collect();
    let of_all = all.remove(0);
    for ((classes, host), alone) in all.iter_mut().zip(&run.hosts).zip(alone) {
        let why = match (host.completed < FEW, alone.worst()) {
            (true, _) => "few requests in the short runs",
            (_, ErrorClass::DoNotUse) => alone.why.as_str(),
            _ => continue,
        };
        classes.at_best(ErrorClass::ThirtyPercent, ErrorClass::ThirtyPercent, why);
    }
    (of_all, all)
}

/// Errors of the form against the second run, before and after the correction.
fn distances(before: &AnalyticReport, after: &AnalyticReport, run: &Report) -> Calibration {
    let [before, after] = [before, after].map(|form| {
        let numbers = compare(form, run).numbers.into_iter();
        let mut errors = numbers.map(|number| number.error.unwrap_or(0.0));
        let of_all = [errors.next().unwrap_or(0.0), errors.next().unwrap_or(0.0)];
        let furthest = errors.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        [of_all[0], of_all[1], furthest.unwrap_or(0.0)]
    });
    let both = |at: usize| Corrected {
        before: before[at],
        after: after[at],
    };
    Calibration {
        bandwidth: both(0),
        latency: both(1),
        furthest_host: both(2),
        ..Calibration::default()
    }
}
