//! The assembly of a report from what was read of the system.

mod bottleneck;
mod devices;
mod enumeration;
mod events;
mod issuers;
mod limited;
mod links;
mod measures;
mod notes;

use std::time::Duration;

use cxlab_engine::Outcome;
use cxlab_engine::probe::LatencyProbe;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::{HopStats, RequesterStats, STAGE_NAMES, UnservedRequests};
use cxlab_plan::{Plan, PlannedPool};
use cxlab_scenario::Note;
use serde_json::{Map, Value};

use crate::host::Host;
use crate::intervals::{Intervals, Parts};
use crate::laws::littles_law::{self, LittlesSums, WindowKind};
use crate::output::run_id;
use crate::position::WarmupEnd;
use crate::readings::Readings;
use crate::report::{
    Bandwidth, CommandReport, Denied, Extent, FORMAT, FailedRequests, FailuresReport, LittlesLaw,
    Operations, PoolReport, Provenance, Report, Requests, SamplingReport, TimeSeries,
    UnservedLatency,
};
use crate::series;
use crate::system::System;

pub(crate) struct Context<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) seed: u64,
    pub(crate) outcome: &'a Outcome,
    /// When the workloads began, where hosts enumerate before that.
    pub(crate) enumeration: Option<SimTime>,
    pub(crate) start: SimTime,
    pub(crate) end: SimTime,
    /// Readings of the window; of a sampled run, of all measured windows.
    pub(crate) readings: &'a Readings<'a>,
    pub(crate) sampling: Option<SamplingReport>,
    pub(crate) partial: bool,
    /// Notes of the plan, and of this run.
    pub(crate) notes: Vec<Note>,
    pub(crate) warmed: WarmupEnd,
    /// Data for confidence intervals; absent if the run ended by itself, and in sessions.
    pub(crate) parts: Option<Parts<'a>>,
    pub(crate) wall: Duration,
}

impl Context<'_> {
    fn measured(&self) -> WindowKind {
        match self.parts {
            Some(Parts::Batches(_)) => WindowKind::Window,
            Some(Parts::Samples(_)) => WindowKind::Samples,
            None => WindowKind::ToTheEnd,
        }
    }

    fn window_ns(&self) -> f64 {
        self.readings.window.as_nanos_f64()
    }

    /// Rate of a number of lines in the window, in GB/s.
    fn rate(&self, lines: u64) -> f64 {
        match self.readings.window {
            Picos::ZERO => 0.0,
            _ => lines as f64 * 64.0 / self.window_ns(),
        }
    }

    /// Denied requests; `None` if the scenario can deny none.
    fn denied(&self, denied: Denied) -> Option<Denied> {
        self.plan.changes_capacity().then_some(denied)
    }

    /// Failed requests; `None` if the scenario has neither failures nor media errors.
    fn failed(&self, failed: FailedRequests) -> Option<FailedRequests> {
        (self.plan.failures().is_some() || self.plan.has_media_errors()).then_some(failed)
    }

    fn bandwidth(&self, reads: u64, writes: u64) -> Bandwidth {
        Bandwidth {
            total: self.rate(reads + writes),
            read: self.rate(reads),
            write: self.rate(writes),
        }
    }
}

/// Sums over all hosts.
#[derive(Default)]
struct Totals {
    requests: Requests,
    denied: Denied,
    failed: FailedRequests,
    unserved: [UnservedRequests; 4],
    failures: FailuresReport,
    completed_ever: u64,
    latency: LatencyProbe,
    read_latency: LatencyProbe,
    operations: Option<Box<LatencyProbe>>,
    stages_ps: [u128; STAGE_NAMES.len()],
    by_hops: Vec<HopStats>,
    integral: u128,
}

impl Totals {
    fn add(&mut self, stats: &RequesterStats, in_flight: u64, integral: u128) {
        self.requests.issued += stats.issued;
        self.requests.completed += stats.reads + stats.writes;
        self.requests.reads += stats.reads;
        self.requests.writes += stats.writes;
        self.requests.cache_hits += stats.cache_hits;
        self.requests.writebacks += stats.writebacks;
        self.requests.overfetched += stats.overfetched;
        self.requests.in_flight_at_end += in_flight;
        self.denied.reads += stats.denied.reads;
        self.denied.writes += stats.denied.writes;
        for (sum, one) in self.unserved.iter_mut().zip(stats.unserved()) {
            sum.merge(one);
        }
        self.failed.add(FailedRequests::of(stats));
        self.failures.late_answers += stats.late_ever;
        self.failures.timed_out += stats.timed_out_ever;
        self.completed_ever += stats.completed_ever;
        self.latency.merge(&stats.read_latency);
        self.latency.merge(&stats.write_latency);
        self.read_latency.merge(&stats.read_latency);
        if let Some(operations) = &stats.multi_line_latency {
            self.operations.get_or_insert_default().merge(operations);
        }
        for (sum, stage) in self.stages_ps.iter_mut().zip(stats.stages_ps) {
            *sum += u128::from(stage);
        }
        let hops = self.by_hops.len().max(stats.by_hops.len());
        self.by_hops.resize(hops, HopStats::default());
        for (sum, hops) in self.by_hops.iter_mut().zip(&stats.by_hops) {
            sum.count += hops.count;
            sum.latency_sum_ps += hops.latency_sum_ps;
            sum.queue_sum_ps += hops.queue_sum_ps;
        }
        self.integral += integral;
    }

    /// Counts what failures up to `lasted` after the workloads began have done to messages.
    fn add_failures(&mut self, system: &System, plan: &Plan, lasted: Picos) {
        for node in system.simulation.components() {
            self.failures.lost_messages += node.lost().messages;
            self.failures.discarded_messages += node.discarded();
        }
        if let Some(failures) = plan.failures() {
            self.failures.count_changes(failures, lasted);
        }
    }

    fn littles_sums(&self) -> LittlesSums {
        let unserved = self.unserved.iter().map(UnservedRequests::latency_ps);
        LittlesSums {
            requests: self.requests.completed,
            latency_ps: self.latency.sum_ps() + unserved.sum::<u128>(),
            in_flight_ps: self.integral,
        }
    }

    fn stages_ns(&self) -> Map<String, Value> {
        stages_ns(self.stages_ps, self.latency.count())
    }
}

/// Mean time of each stage in nanoseconds, of `served` requests that spent these sums in the stages.
fn stages_ns(sums_ps: [u128; STAGE_NAMES.len()], served: u64) -> Map<String, Value> {
    let served = served.max(1) as f64;
    let stages = STAGE_NAMES.iter().zip(sums_ps);
    let mean =
        |(name, sum): (&&str, u128)| ((*name).to_owned(), Value::from(sum as f64 / 1e3 / served));
    stages.map(mean).collect()
}

/// Wall time as seconds, never zero.
fn seconds(wall: Duration) -> f64 {
    wall.as_secs_f64().max(1e-9)
}

/// Reads a system out after its run.
///
/// # Errors
/// A violated law, which is a mistake of the simulator.
pub(crate) fn assemble(system: &System, context: &Context<'_>) -> Result<Report, String> {
    let intervals = Intervals::new(context.parts);
    let (hosts, accelerators, mut totals) = issuers::all(system, context, &intervals)?;
    let devices = devices::all(system, context, &intervals);
    let mut notes = context.notes.clone();
    notes.extend(notes::unsettled(context));
    let links = links::all(&intervals, context, &mut notes);
    let lasted = context.end - context.enumeration.unwrap_or(SimTime::ZERO);
    totals.add_failures(system, context.plan, lasted);
    let (denied, failed) = (totals.denied, totals.failed);
    totals.requests.denied = context.denied(denied);
    totals.requests.failed = context.failed(failed);
    let wall_seconds = seconds(context.wall);
    totals.requests.per_wall_second = totals.completed_ever as f64 / wall_seconds;
    let sums = totals.littles_sums();
    let window = context.readings.window;
    notes.extend(littles_law::note(sums, window, context.measured()));
    let window_ns = context.window_ns();
    let latency_ns = sums.latency_ps as f64 / 1e3;
    let plan = context.plan;
    let bottleneck = bottleneck::find(plan, window_ns, latency_ns, &hosts, &links, &devices);
    let pool = |pool: &PlannedPool| PoolReport::of(pool, lasted);
    let mut report = Report {
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format: FORMAT,
            scenario: context.plan.scenario.name.clone(),
            plan_hash: context.plan.hash.clone(),
            seed: context.seed,
            run: String::new(),
            digest: format!("{:016x}", context.outcome.digest),
            partial: context.partial,
            fault: None,
            notes,
        },
        extent: Extent {
            enumeration_ns: context.enumeration.map(|begun| begun.0 as f64 / 1e3),
            warmup_ns: context.start.0 as f64 / 1e3,
            settled_ns: match context.warmed {
                WarmupEnd::Settled(at) => Some(at.0 as f64 / 1e3),
                WarmupEnd::AsConfigured | WarmupEnd::NotSettled => None,
            },
            sim_time_ns: context.end.0 as f64 / 1e3,
            window_ns,
            sampling: context.sampling.clone(),
            wall_seconds,
            events: context.outcome.events,
            events_per_second: context.outcome.events as f64 / wall_seconds,
        },
        bandwidth_gb_per_s: context.bandwidth(
            totals.requests.reads - denied.reads - failed.reads(),
            totals.requests.writes - denied.writes - failed.writes(),
        ),
        latency_ns: measures::latency(&totals.latency),
        read_latency_ns: measures::latency(&totals.read_latency),
        unserved_latency_ns: UnservedLatency::of(totals.unserved.each_ref()),
        all_latency_ns: measures::all_latency(&totals.latency, totals.unserved.each_ref()),
        operations: totals.operations.as_ref().map(|probe| Operations {
            completed: probe.count(),
            latency_ns: measures::latency(probe),
        }),
        stages_ns: totals.stages_ns(),
        by_hops: measures::by_hops(&totals.by_hops, &intervals),
        ci95: intervals.of_report(),
        failures: context.plan.failures().map(|_| totals.failures),
        commands: CommandReport::all(context.plan, lasted),
        pools: plan.pools.iter().map(pool).collect(),
        littles_law: LittlesLaw {
            in_flight: sums.in_flight_ps as f64 / 1e3 / window_ns.max(1e-3),
            rate_times_latency: latency_ns / window_ns.max(1e-3),
        },
        latency_histogram: totals.latency.bins(60),
        time_series: match context.sampling {
            Some(_) => TimeSeries::default(),
            None => series::sum(system.issuers().map(Host::series), context.end),
        },
        requests: totals.requests,
        bottleneck,
        hosts,
        accelerators,
        devices,
        links,
    };
    complete(&mut report, context.plan);
    Ok(report)
}

/// Adds the parts of a report that depend on all others: the longest stage, notes on limits, and the ID of the run.
fn complete(report: &mut Report, plan: &Plan) {
    if let Some(place) = report.bottleneck.take() {
        let mut found = bottleneck::in_media(plan, report, &place).unwrap_or(place);
        found.tell_longest_stage(&report.stages_ns);
        report.bottleneck = Some(found);
    }
    let in_flight = limited::by_requests_in_flight(plan, report);
    report.provenance.notes.extend(in_flight);
    let throttled = limited::by_throttles(plan, report);
    report.provenance.notes.extend(throttled);
    report.provenance.run = run_id(&[
        &report.provenance.version,
        &report.provenance.plan_hash,
        &report.provenance.seed.to_string(),
        &report.provenance.digest,
        &report.extent.sim_time_ns.to_string(),
        &report.provenance.partial.to_string(),
    ]);
}
