//! The report of the analytic form, with the names of a run's report.

use std::collections::BTreeMap;

use cxlab_analytic::{ErrorClass, ErrorClasses, Flow, Network, Solution, StationLoad};
use cxlab_plan::{End, Plan, PlannedLink};
use cxlab_scenario::Note;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::judge::ClassJudgements;
use super::{Calibration, Media, UnjudgedForm, is_shared};
use crate::layout::{
    SHOWN, busiest_links, cells, more, nanos, size, stages as stages_table, table,
};
use crate::report::Bandwidth;

/// Most pairs of host and device that are listed.
const MOST_PAIRS: usize = 4096;

/// Results of the analytic form for a plan. Fields have the names, units and meaning of a run's
/// report; what only a run has (distributions, counts, a digest) is absent.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AnalyticReport {
    /// Version of cxlab.
    pub version: String,
    /// Kind of the report: always "analytic".
    pub mode: String,
    /// The scenario's name.
    pub scenario: String,
    /// Identifies everything that can change the result but the seed.
    pub plan_hash: String,
    /// ID of the computation, in all its files; empty in reports of older versions.
    #[serde(default)]
    pub run: String,
    /// Seed of the workloads.
    pub seed: u64,
    /// Error classes of the numbers of all hosts against the event engine. `latency` applies to stages and `by_hops` too.
    pub error_class: ErrorClasses,
    /// Requests of all hosts, per nanosecond.
    pub requests_per_ns: f64,
    /// Rates of 64-byte lines, in GB/s (10^9 bytes per second).
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of all requests.
    pub latency_ns: AnalyticLatency,
    /// Latency of the reads.
    pub read_latency_ns: AnalyticLatency,
    /// Mean time of each latency stage; the stages sum to the mean latency. Unless event runs
    /// correct the form, a wait for credits is in the queue of its output, and `credits` is 0. All
    /// waits of a device, except for its links, are in `media_queue`.
    pub stages_ns: Map<String, Value>,
    /// Latency by links crossed between requester and device.
    pub by_hops: Vec<AnalyticHops>,
    /// Requests in flight, of all hosts: rate times latency.
    pub in_flight: f64,
    /// Rates and latencies by host, in the order of the plan.
    pub hosts: Vec<AnalyticHost>,
    /// Rates by device, in the order of the plan.
    pub devices: Vec<AnalyticDevice>,
    /// By link and direction; a half-duplex link is one.
    pub links: Vec<AnalyticLink>,
    /// By pair of host and device with traffic: the first 4,096.
    pub pairs: Vec<PairLatency>,
    /// The station with the largest used fraction of its capacity.
    pub bottleneck: Option<AnalyticBottleneck>,
    /// Whether latencies had settled when the work ended: to 10^-7, or to 1 % in the last half of the rounds.
    pub settled: bool,
    /// Corrections by short event runs, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Assumptions and limits that users should know.
    pub notes: Vec<Note>,
}

/// A mean latency and its part without load, in nanoseconds.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct AnalyticLatency {
    /// Mean over all requests, in nanoseconds.
    pub mean: f64,
    /// Mean if nothing ever waited: the sum of the constant stages.
    pub unloaded: f64,
}

/// Requests that crossed the same number of links.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AnalyticHops {
    /// Links between host and device.
    pub hops: usize,
    /// Part of all requests.
    pub share: f64,
    /// Mean latency of these requests.
    pub mean_ns: f64,
    /// Mean time in queues.
    pub queue_ns: f64,
}

/// Rates and latencies of a host.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AnalyticHost {
    /// Name of the host.
    pub name: String,
    /// Payload of its requests, in GB/s.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of its requests.
    pub latency_ns: AnalyticLatency,
    /// Mean requests in flight.
    pub in_flight: f64,
    /// Error classes of these numbers against the event engine; `latency` applies to the host's pairs too.
    pub error_class: ErrorClasses,
    /// Limit on the host's rate: its own `pace`, or its requests in `flight`.
    pub limit: String,
}

/// Rates of a device.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AnalyticDevice {
    /// Name of the device.
    pub name: String,
    /// Payload of the requests that it serves, in GB/s.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Error class of its rates against the event engine: the worst of its hosts.
    pub error_class: ErrorClass,
    /// Part of the medium's capacity that is used.
    pub utilization: f64,
    /// Mean wait for the medium.
    pub wait_ns: f64,
}

/// Load of one direction of a link.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AnalyticLink {
    /// The link: its ends joined by `--`.
    pub name: String,
    /// The direction: from `->` to, or `<->` where both share a bus.
    pub direction: String,
    /// Error class of its rates against the event engine: the worst of the hosts that use it.
    pub error_class: ErrorClass,
    /// Part of the time that the wire is busy.
    pub utilization: f64,
    /// Used fraction of the capacity, as limited by wire and credits: 1 is full. Below
    /// `utilization` where flits are partly empty.
    pub used: f64,
    /// Payload (64-byte lines) among all bytes sent.
    pub efficiency: f64,
    /// Payload that the direction carries, in GB/s.
    pub payload_gb_per_s: f64,
    /// Mean wait for the direction.
    pub wait_ns: f64,
    /// Rate of the direction, GB/s.
    pub rate_gb_per_s: f64,
}

/// Latency between a host and a device.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PairLatency {
    /// Name of the host.
    pub host: String,
    /// Name of the device.
    pub device: String,
    /// Whether the requests are writes.
    pub write: bool,
    /// Latency of a request alone in the system.
    pub unloaded_ns: f64,
    /// Latency under the load.
    pub mean_ns: f64,
}

/// The fullest station.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AnalyticBottleneck {
    /// A link's direction, or a device.
    pub name: String,
    /// Part of its capacity that is used.
    pub used: f64,
}

/// Requests of a kind: how many in a picosecond, and their summed latencies.
#[derive(Clone, Copy, Default)]
struct Sum {
    reads: f64,
    writes: f64,
    latency: f64,
    unloaded: f64,
    queue: f64,
}

impl Sum {
    fn add(&mut self, flow: &Flow, rate: f64, latency_ps: f64) {
        match flow.write {
            true => self.writes += rate,
            false => self.reads += rate,
        }
        let unloaded = flow.stages.total() as f64;
        self.latency += rate * latency_ps;
        self.unloaded += rate * unloaded;
        self.queue += rate * (latency_ps - unloaded + flow.stages.switch_queue as f64);
    }

    fn rate(&self) -> f64 {
        self.reads + self.writes
    }

    fn mean_ns(&self, sum: f64) -> f64 {
        match self.rate() > 0.0 {
            true => sum / self.rate() / 1e3,
            false => 0.0,
        }
    }

    fn idle(&self) -> AnalyticLatency {
        AnalyticLatency {
            mean: self.mean_ns(self.latency),
            unloaded: self.mean_ns(self.unloaded),
        }
    }

    fn bandwidth(&self) -> Bandwidth {
        // Lines in a picosecond times 64 B are 10^12 B/s.
        let gb_per_s = |rate: f64| rate * 64e3;
        Bandwidth {
            total: gb_per_s(self.rate()),
            read: gb_per_s(self.reads),
            write: gb_per_s(self.writes),
        }
    }
}

/// Sums over the flows of a solution.
#[derive(Default)]
struct Sums {
    all: Sum,
    reads: Sum,
    hosts: Vec<Sum>,
    devices: Vec<Sum>,
    /// By links crossed.
    hops: BTreeMap<u32, Sum>,
    /// By stage: rate times time, in picoseconds.
    stages: BTreeMap<&'static str, f64>,
    /// The first pairs of host and device.
    pairs: Vec<PairLatency>,
}

impl Sums {
    fn of(plan: &Plan, network: &Network, solution: &Solution) -> Self {
        let mut sums = Sums {
            hosts: vec![Sum::default(); plan.hosts.len()],
            devices: vec![Sum::default(); plan.devices.len()],
            ..Sums::default()
        };
        let latencies = solution.latency_ps.iter().zip(&solution.waits_ps);
        for (flow, (latency, waits)) in network.flows.iter().zip(latencies) {
            let rate = solution.rates[flow.host as usize] * flow.share;
            if let Some(device) = flow.device {
                sums.devices[device as usize].add(flow, rate, *latency);
            }
            if !flow.counts {
                continue;
            }
            sums.all.add(flow, rate, *latency);
            sums.hosts[flow.host as usize].add(flow, rate, *latency);
            if !flow.write {
                sums.reads.add(flow, rate, *latency);
            }
            if let Some(device) = flow.device {
                let hops = sums.hops.entry(flow.hops).or_default();
                hops.add(flow, rate, *latency);
                if sums.pairs.len() < MOST_PAIRS {
                    sums.pairs.push(PairLatency {
                        host: plan.hosts[flow.host as usize].name.clone(),
                        device: plan.devices[device as usize].name.clone(),
                        write: flow.write,
                        unloaded_ns: flow.stages.total() as f64 / 1e3,
                        mean_ns: latency / 1e3,
                    });
                }
            }
            for (name, picos) in flow.stages.named() {
                *sums.stages.entry(name).or_default() += rate * picos as f64;
            }
            for (visit, wait) in flow.visits.iter().zip(waits) {
                let stage = waits_in(plan, visit.station as usize);
                *sums.stages.entry(stage).or_default() += rate * visit.share * wait;
            }
        }
        sums
    }
}

pub(super) fn assemble(
    plan: &Plan,
    seed: u64,
    computed: &UnjudgedForm,
    judged: &ClassJudgements,
) -> AnalyticReport {
    let (network, solution) = (&computed.network, &computed.solution);
    let classes = station_classes(network, judged);
    let Sums {
        all,
        reads,
        hosts,
        devices,
        hops,
        stages,
        pairs,
    } = Sums::of(plan, network, solution);
    let named_stages = cxlab_host::STAGE_NAMES.iter().map(|name| {
        let sum = stages.get(name).copied().unwrap_or(0.0);
        ((*name).to_owned(), Value::from(all.mean_ns(sum)))
    });
    let total = all.rate();
    let by_hops = hops.iter().map(|(hops, sum)| AnalyticHops {
        hops: *hops as usize,
        share: sum.rate() / total.max(f64::MIN_POSITIVE),
        mean_ns: sum.mean_ns(sum.latency),
        queue_ns: sum.mean_ns(sum.queue),
    });
    let media_start = 2 * plan.links.len();
    AnalyticReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mode: "analytic".to_owned(),
        scenario: plan.scenario.name.clone(),
        plan_hash: plan.hash.clone(),
        run: String::new(),
        seed,
        error_class: judged.all.clone(),
        requests_per_ns: total * 1e3,
        bandwidth_gb_per_s: all.bandwidth(),
        latency_ns: all.idle(),
        read_latency_ns: reads.idle(),
        stages_ns: named_stages.collect(),
        by_hops: by_hops.collect(),
        in_flight: all.latency,
        hosts: (hosts.iter().enumerate())
            .map(|(number, sum)| {
                let limits = &network.hosts[number];
                let paced = solution.rates[number] * limits.interval_ps > 1.0 - 1e-6;
                AnalyticHost {
                    name: plan.hosts[number].name.clone(),
                    bandwidth_gb_per_s: sum.bandwidth(),
                    latency_ns: sum.idle(),
                    in_flight: sum.latency,
                    error_class: judged.hosts[number].clone(),
                    limit: if paced { "pace" } else { "flight" }.to_owned(),
                }
            })
            .collect(),
        devices: (devices.iter().enumerate())
            .map(|(number, sum)| {
                let load = &solution.stations[media_start + number];
                AnalyticDevice {
                    name: plan.devices[number].name.clone(),
                    bandwidth_gb_per_s: sum.bandwidth(),
                    error_class: classes[media_start + number],
                    utilization: load.used.min(1.0),
                    wait_ns: load.wait_ps / 1e3,
                }
            })
            .collect(),
        links: links(plan, solution, &classes),
        pairs,
        bottleneck: solution.bottleneck().map(|station| AnalyticBottleneck {
            name: station_name(plan, station),
            used: solution.stations[station].used.min(1.0),
        }),
        settled: solution.settled,
        calibration: None,
        notes: notes(plan, &computed.media),
    }
}

/// By station: the worst class of the rates of the hosts that use it.
fn station_classes(network: &Network, judged: &ClassJudgements) -> Vec<ErrorClass> {
    let mut classes = vec![ErrorClass::Exact; network.stations.len()];
    for flow in &network.flows {
        let class = judged.hosts[flow.host as usize].bandwidth;
        for visit in &flow.visits {
            let station = &mut classes[visit.station as usize];
            *station = class.max(*station);
        }
    }
    classes
}

/// The stage of a wait at a station.
fn waits_in(plan: &Plan, station: usize) -> &'static str {
    let Some(link) = plan.links.get(station / 2) else {
        return "media_queue";
    };
    let forward = station.is_multiple_of(2);
    match if forward { link.a } else { link.b } {
        _ if is_shared(link) => "switch_queue",
        End::Host(..) => "host_queue",
        End::Device(..) => "device_queue",
        End::Switch(..) => "switch_queue",
    }
}

fn station_name(plan: &Plan, station: usize) -> String {
    match station.checked_sub(2 * plan.links.len()) {
        Some(device) => plan.devices[device].name.clone(),
        None => direction(plan, &plan.links[station / 2], station.is_multiple_of(2)),
    }
}

fn direction(plan: &Plan, link: &PlannedLink, forward: bool) -> String {
    let (a, b) = (plan.end_name(link.a), plan.end_name(link.b));
    match (is_shared(link), forward) {
        (true, _) => format!("{a}<->{b}"),
        (false, true) => format!("{a}->{b}"),
        (false, false) => format!("{b}->{a}"),
    }
}

fn links(plan: &Plan, solution: &Solution, classes: &[ErrorClass]) -> Vec<AnalyticLink> {
    let mut rows = Vec::with_capacity(2 * plan.links.len());
    for (number, link) in plan.links.iter().enumerate() {
        let directions = [true, false].into_iter();
        for forward in directions.filter(|forward| *forward || !is_shared(link)) {
            let station = cxlab_plan::routes::station(number, &link.params, forward) as usize;
            let load: &StationLoad = &solution.stations[station];
            rows.push(AnalyticLink {
                name: format!("{}--{}", plan.end_name(link.a), plan.end_name(link.b)),
                direction: direction(plan, link, forward),
                error_class: classes[station],
                utilization: load.wire.busy.min(1.0),
                used: load.used.min(1.0),
                efficiency: match load.wire.bytes > 0.0 {
                    true => load.wire.payload / load.wire.bytes,
                    false => 0.0,
                },
                payload_gb_per_s: load.wire.payload * 1e3,
                wait_ns: load.wait_ps / 1e3,
                rate_gb_per_s: link.params.rate().as_gb_per_s(),
            });
        }
    }
    rows
}

fn notes(plan: &Plan, media: &Media) -> Vec<Note> {
    let mut notes = plan.notes.clone();
    for (at, medium) in media.iter().enumerate() {
        if medium.is_some_and(|medium| !medium.constant) {
            notes.push(Note::new(
                format!("devices[{at}].memory"),
                "has no constant latency: what it does alone was measured on its own model with the \
                 first accesses of the hosts, and what caches and flash hold later, or what curves say of other \
                 loads, is not known",
            ));
        }
    }
    notes
}

/// Error classes in words.
fn error(classes: &ErrorClasses) -> String {
    let bound = |class: ErrorClass| match class {
        ErrorClass::Exact => "exact".to_owned(),
        ErrorClass::DoNotUse => "not to be used".to_owned(),
        class => format!("within {class} of the event engine"),
    };
    format!(
        "bandwidth {}, latency {}: {}",
        bound(classes.bandwidth),
        bound(classes.latency),
        classes.why
    )
}

/// Summary of the report as text for the user.
pub fn summary(plan: &Plan, report: &AnalyticReport) -> String {
    let mut text = format!(
        "{} (analytic): {}, {} {}\n",
        report.scenario,
        size(plan),
        plan.scenario.fabric.topology.kind,
        plan.routing_name(),
    );
    let bandwidth = &report.bandwidth_gb_per_s;
    text.push_str(&format!(
        "  bandwidth {:.3} GB/s (read {:.3}, write {:.3}); {:.1} requests in flight\n",
        bandwidth.total, bandwidth.read, bandwidth.write, report.in_flight
    ));
    if let Some(bottleneck) = &report.bottleneck {
        let mut links = report.links.iter();
        let link = links.find(|link| link.direction == bottleneck.name);
        let used = bottleneck.used * 100.0;
        let used = match link {
            Some(link) => format!(
                "{:.1} % busy, with {used:.1} % of what full flits would carry",
                link.utilization * 100.0
            ),
            None => format!("{used:.1} % of its capacity"),
        };
        text.push_str(&format!("  fullest: {}, {used}\n", bottleneck.name));
    }
    if !report.settled {
        text.push_str("  the rates had not settled: take them as estimates\n");
    }
    text.push_str(&format!("  {}\n", error(&report.error_class)));
    if let Some(calibration) = &report.calibration {
        text.push_str(&calibration.describe());
    }
    text.push('\n');
    let mut rows = vec![cells([
        "latency, ns",
        "mean",
        "without load",
        "error, latency",
        "bandwidth",
    ])];
    let mut row = |name: &str, latency: &AnalyticLatency, classes: &ErrorClasses| {
        rows.push(vec![
            name.to_owned(),
            nanos(latency.mean),
            nanos(latency.unloaded),
            classes.latency.to_string(),
            classes.bandwidth.to_string(),
        ]);
    };
    row("all requests", &report.latency_ns, &report.error_class);
    if bandwidth.read > 0.0 && bandwidth.write > 0.0 {
        row("reads", &report.read_latency_ns, &report.error_class);
    }
    if report.hosts.len() > 1 {
        for host in report.hosts.iter().take(SHOWN) {
            row(&host.name, &host.latency_ns, &host.error_class);
        }
        rows.extend(more(report.hosts.len()));
    }
    text.push_str(&table(&rows));
    text.push('\n');
    let stages = stages_table(report.latency_ns.mean, &report.stages_ns, None);
    text.push_str(&stages);
    if report.calibration.is_none() {
        text.push_str("  waits for credits are in the queue of their output\n");
    }
    text.push('\n');
    let carries =
        |link: &'_ AnalyticLink| (link.utilization, link.efficiency, link.payload_gb_per_s);
    let links = report.links.iter().map(|link| {
        let (utilization, efficiency, payload) = carries(link);
        (
            link.direction.as_str(),
            utilization,
            efficiency,
            payload,
            None,
        )
    });
    text.push_str(&busiest_links(links.collect()));
    text
}
