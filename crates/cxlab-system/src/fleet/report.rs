//! The report of a fleet, and its time series.

use cxlab_fleet::params::MIB;
use cxlab_fleet::stats::{CORE_BINS, Histogram, Point};
use cxlab_fleet::study::NeededDram;
use cxlab_fleet::{FleetParams, Outcome, PodFabric, StudyResult};
use cxlab_plan::Plan;
use serde::{Deserialize, Serialize};

use crate::analytic::ErrorClass;
use crate::layout::row;

/// The results of a study. Memory is in GiB, parts are in percent.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct FleetReport {
    /// The scenario's name.
    pub scenario: String,
    /// `fleet`.
    pub mode: String,
    /// Seed of the random streams.
    pub seed: u64,
    /// Hash of all else that can change the result.
    pub plan: String,
    /// Version of the program.
    pub version: String,
    /// The run's ID, which all its files carry.
    #[serde(default)]
    pub run: String,
    /// Whether it was interrupted: some clusters or simulations are missing.
    pub partial: bool,
    /// Size and parameters of the fleet.
    pub fleet: Shape,
    /// Latency and bandwidth of pool memory.
    pub latency: PoolLatency,
    /// The least DRAM that serves, where it was searched for and found; mean over clusters where each
    /// is sized for itself.
    pub needed: Option<Dram>,
    /// DRAM at the peaks of all hosts and pools, VMs placed as without pools.
    pub peaks: Option<Dram>,
    /// Without pools, with the DRAM of the scenario.
    pub alone: OutcomeReport,
    /// With pools: with the DRAM that is needed, or as given.
    pub pooled: Option<OutcomeReport>,
    /// Assumptions and limits that users should know.
    pub notes: Vec<String>,
    /// Seconds that the study took; the only field that depends on the machine.
    pub wall_seconds: f64,
}

/// Size and parameters of a fleet.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Shape {
    /// Hosts in all, in whole pods.
    pub hosts: u64,
    /// Pods in all.
    pub pods: u64,
    /// Clusters in all.
    pub clusters: u64,
    /// Hosts of a pod.
    pub pod_hosts: usize,
    /// Devices of a pod.
    pub pod_devices: usize,
    /// Cores of a host.
    pub cores: u32,
    /// DRAM of a host without a pool, as the scenario has it.
    pub dram_gib: f64,
    /// Days of demand.
    pub days: f64,
    /// The kind of demand.
    pub demand: String,
    /// How VMs are placed.
    pub placement: String,
    /// The pool policy.
    pub policy: String,
}

/// Latency and bandwidth of pool memory.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PoolLatency {
    /// Local memory, in nanoseconds.
    pub local_ns: f64,
    /// Pool memory without load, over all hosts and devices that reach each other: mean.
    pub mean_ns: f64,
    /// Latency of the pair of host and device with the least.
    pub min_ns: f64,
    /// Latency of the pair of host and device with the largest.
    pub max_ns: f64,
    /// `mean_ns` over `local_ns`.
    pub ratio: f64,
    /// Bandwidth that the fabric carries for each host when all hosts use it, in GB/s.
    pub limit_gb_per_s: f64,
    /// Load of every host at the points below, in GB/s.
    pub load_gb_per_s: Vec<f64>,
    /// Latency at these loads, mean over hosts, in nanoseconds.
    pub loaded_ns: Vec<f64>,
    /// Error class of the latency at these loads against the event engine: the worst of all hosts.
    pub error_class: Vec<ErrorClass>,
}

/// DRAM without pools and with them.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Dram {
    /// Without pools, for each host.
    pub alone_gib: f64,
    /// Local with pools, for each host.
    pub local_gib: f64,
    /// Pool memory, for each host.
    pub pool_gib: f64,
    /// Pool memory of each device.
    pub device_gib: f64,
    /// DRAM that pools save, in percent of DRAM without pools; absent where no VM found a place without them.
    pub saved_percent: Option<f64>,
    /// Rejected core-hours that were allowed, in percent; 0 where nothing was searched for.
    pub allowed_percent: f64,
}

/// A distribution of slowdown, in percent.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Slowdown {
    /// Number of VMs.
    pub count: u64,
    /// Mean slowdown of these VMs.
    pub mean: f64,
    /// Median, to about 0.1, as all quantiles.
    pub p50: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// Part that loses 1 % and more.
    pub over_1: f64,
    /// Part that loses 5 % and more.
    pub over_5: f64,
    /// Part that loses 25 % and more.
    pub over_25: f64,
    /// Points of the distribution: a slowdown, and the part that loses as much and more.
    pub curve: Vec<[f64; 2]>,
}

/// Stranded memory of clusters in a range of scheduled cores, in percent.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Stranding {
    /// Lower end of the range of scheduled cores, in percent.
    pub cores_from: f64,
    /// Upper end of the range of scheduled cores, in percent.
    pub cores_to: f64,
    /// Clusters and moments.
    pub samples: u64,
    /// Mean of the samples.
    pub mean: f64,
    /// 5 % are below.
    pub p5: f64,
    /// 95 % are below.
    pub p95: f64,
}

/// Hosts and moments whose latency of pool memory has an error class.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct ErrorShare {
    /// Class of error.
    pub error_class: ErrorClass,
    /// Percentage of the hosts and moments with pool traffic.
    pub percent: f64,
}

/// VMs of a class of sensitivity.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Class {
    /// Name of the class.
    pub name: String,
    /// Number of VMs that found a host.
    pub placed: u64,
    /// Number of those VMs that have pool memory.
    pub pooled: u64,
}

/// A point of the time series: sums over all hosts, but for the latency.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct SeriesPoint {
    /// VMs that run.
    pub vms: u64,
    /// Cores that are scheduled.
    pub cores: u64,
    /// Local DRAM in use, in MiB.
    pub local_mib: u64,
    /// Pool memory in use, in MiB.
    pub pool_mib: u64,
    /// Stranded memory, in MiB.
    pub stranded_mib: u64,
    /// VMs rejected so far.
    pub rejected: u64,
    /// Latency of pool memory under load, mean over VMs that have some, in nanoseconds; absent where none has.
    pub latency_ns: Option<f64>,
    /// VMs with pool memory.
    pub pooled_vms: u64,
    /// Hosts whose pool traffic is more than the fabric carries.
    pub saturated: u64,
}

fn series(outcome: &Outcome) -> Vec<SeriesPoint> {
    let point = |point: &Point| SeriesPoint {
        vms: point.vms,
        cores: point.cores,
        local_mib: point.local_mib,
        pool_mib: point.pool_mib,
        stranded_mib: point.stranded_mib,
        rejected: point.rejected,
        latency_ns: (point.pooled_vms > 0).then(|| point.latency_sum_ns / point.pooled_vms as f64),
        pooled_vms: point.pooled_vms,
        saturated: point.saturated,
    };
    outcome.series.iter().map(point).collect()
}

/// Results of one simulation of the fleet. Means are over the time series.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct OutcomeReport {
    /// Local DRAM of each host.
    pub local_gib: f64,
    /// Pool memory for each host.
    pub pool_gib: f64,
    /// VMs that asked for a place.
    pub arrived: u64,
    /// VMs that found no place.
    pub rejected: u64,
    /// VMs that departed.
    pub departed: u64,
    /// VMs that run at the end.
    pub running: u64,
    /// Core-hours of rejected VMs, of all asked for.
    pub rejected_core_percent: f64,
    /// Scheduled cores, mean.
    pub cores_percent: f64,
    /// Local DRAM in use, mean.
    pub local_percent: f64,
    /// Stranded memory, of all DRAM of hosts and pools, mean.
    pub stranded_percent: f64,
    /// Stranded memory, largest.
    pub stranded_most_percent: f64,
    /// Pool memory in use, mean.
    pub pool_percent: f64,
    /// Pool memory in use, largest.
    pub pool_most_percent: f64,
    /// Latency of pool memory under load, mean over VMs that have some, in nanoseconds.
    pub pool_latency_ns: f64,
    /// Error classes of the latency of pool memory against the event engine, each with its share of
    /// the hosts and moments with pool traffic.
    pub pool_latency_error: Vec<ErrorShare>,
    /// VMs whose pool memory the monitor replaced by local DRAM, of all that were placed.
    pub mitigated_percent: f64,
    /// Hosts and moments at which the fabric did not carry what was asked for.
    pub saturated_percent: f64,
    /// Slowdown of VMs over their lives.
    pub slowdown: Slowdown,
    /// Slowdown of VMs that run at a moment.
    pub slowdown_running: Slowdown,
    /// By class of sensitivity.
    pub classes: Vec<Class>,
    /// Stranded memory by scheduled cores of a cluster, in groups of 5 %.
    pub stranding: Vec<Stranding>,
    /// By cluster: scheduled cores and stranded memory, means in percent.
    pub clusters: Vec<[f64; 2]>,
    /// Points of the time series.
    pub series: Vec<SeriesPoint>,
}

const MIB_OF_GIB: f64 = 1024.0;
/// Places of the distribution of slowdown, in tenths of a percent.
const CURVE: [usize; 19] = [
    1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 250, 300, 350, 400, 600, 1000,
];

pub(super) fn assemble(
    plan: &Plan,
    params: &FleetParams,
    fabric: &PodFabric,
    seed: u64,
    result: &StudyResult,
) -> FleetReport {
    let slice_gib = params.slice.0 as f64 / (1u64 << 30) as f64;
    let per_host = fabric.devices() as f64 / fabric.hosts().max(1) as f64;
    let pool_gib = |slices: f64| slices * slice_gib * per_host;
    let dram_gib = params.host.dram.0 as f64 / (1u64 << 30) as f64;
    let pooled = result.pooled.as_ref().map(|outcome| {
        let (local_mib, slices) = sizes(result);
        let local_gib = local_mib / MIB_OF_GIB;
        outcome_report((params, fabric), outcome, local_gib, pool_gib(slices))
    });
    FleetReport {
        scenario: plan.scenario.name.clone(),
        mode: "fleet".to_owned(),
        seed,
        plan: plan.hash.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        partial: result.partial,
        fleet: Shape {
            hosts: result.alone.hosts,
            pods: result.alone.pods,
            clusters: result.alone.clusters,
            pod_hosts: fabric.hosts(),
            pod_devices: fabric.devices(),
            cores: params.host.cores,
            dram_gib,
            days: params.days,
            demand: params.demand.kind.clone(),
            placement: params.placement.kind.clone(),
            policy: params.pool.kind.clone(),
        },
        latency: latency(params, fabric),
        needed: dram_needed(result, &pool_gib, slice_gib),
        peaks: (result.as_if.as_ref()).map(|as_if| peaks(result, as_if, per_host)),
        alone: outcome_report((params, fabric), &result.alone, dram_gib, 0.0),
        run: String::new(),
        notes: notes(params, result, pooled.as_ref()),
        pooled,
        wall_seconds: 0.0,
    }
}

fn latency(params: &FleetParams, fabric: &PodFabric) -> PoolLatency {
    let local_ns = params.host.local_latency.as_nanos_f64();
    let all = || fabric.unloaded_ns.iter().flatten().flatten().copied();
    let mean_ns = fabric.mean_ns();
    let hosts = fabric.curves.len().max(1) as f64;
    let first = fabric.curves.first();
    let load_gb_per_s = first.map_or_else(Vec::new, |curve| curve.load_gb_per_s.clone());
    let loaded = |at: usize| {
        let sum: f64 = fabric.curves.iter().map(|curve| curve.wait_ns[at]).sum();
        mean_ns + sum / hosts
    };
    let errors = fabric.errors[..load_gb_per_s.len()].iter();
    PoolLatency {
        local_ns,
        mean_ns,
        min_ns: all().fold(f64::INFINITY, f64::min),
        max_ns: all().fold(0.0, f64::max),
        ratio: mean_ns / local_ns,
        limit_gb_per_s: first.map_or(0.0, |curve| curve.limit_gb_per_s),
        loaded_ns: (0..load_gb_per_s.len()).map(loaded).collect(),
        error_class: errors.map(|error| ErrorClass::of(*error)).collect(),
        load_gb_per_s,
    }
}

fn error_shares(fabric: &PodFabric, outcome: &Outcome) -> Vec<ErrorShare> {
    let all = outcome.loads.iter().sum::<u64>() as f64;
    let of_class = |error_class: ErrorClass| {
        let loads = outcome.loads.iter().zip(&fabric.errors);
        let of_class = loads.filter(|(_, error)| ErrorClass::of(**error) == error_class);
        let count: u64 = of_class.map(|(count, _)| count).sum();
        (count > 0).then(|| ErrorShare {
            error_class,
            percent: 100.0 * count as f64 / all,
        })
    };
    ErrorClass::ALL.into_iter().filter_map(of_class).collect()
}

/// Whether DRAM without pools says something: some VM found a place.
fn placed(result: &StudyResult) -> bool {
    result.alone.rejected < result.alone.arrived
}

fn saved(alone: f64, with: f64) -> f64 {
    100.0 * (1.0 - with / alone)
}

/// The mean of a quantity of what is needed, over hosts.
fn over_hosts(result: &StudyResult, of: impl Fn(&NeededDram) -> f64) -> f64 {
    let hosts: u64 = result.needed.iter().map(|needed| needed.hosts).sum();
    let weighted = |needed: &NeededDram| of(needed) * needed.hosts as f64;
    let sum: f64 = result.needed.iter().map(weighted).sum();
    sum / hosts.max(1) as f64
}

/// Local DRAM of a host in MiB and slices of a device with pools, mean over hosts.
fn sizes(result: &StudyResult) -> (f64, f64) {
    if result.needed.is_empty() {
        return (result.local_mib as f64, f64::from(result.device_slices));
    }
    (
        over_hosts(result, |needed| needed.local_mib as f64),
        over_hosts(result, |needed| f64::from(needed.device_slices)),
    )
}

fn dram_needed(
    result: &StudyResult,
    pool_gib: &dyn Fn(f64) -> f64,
    slice_gib: f64,
) -> Option<Dram> {
    if result.needed.is_empty() {
        return None;
    }
    let (local_mib, slices) = sizes(result);
    let alone_gib = over_hosts(result, |needed| needed.alone_mib as f64) / MIB_OF_GIB;
    let (local_gib, pool_gib) = (local_mib / MIB_OF_GIB, pool_gib(slices));
    Some(Dram {
        alone_gib,
        local_gib,
        pool_gib,
        device_gib: slices * slice_gib,
        saved_percent: placed(result).then(|| saved(alone_gib, local_gib + pool_gib)),
        allowed_percent: 100.0 * over_hosts(result, |needed| needed.allowed),
    })
}

fn peaks(result: &StudyResult, as_if: &Outcome, per_host: f64) -> Dram {
    let hosts = result.alone.hosts.max(1) as f64 * MIB_OF_GIB;
    let alone_gib = result.alone.local_peak_mib as f64 / hosts;
    let local_gib = as_if.local_peak_mib as f64 / hosts;
    let pool_gib = as_if.pool_peak_mib as f64 / hosts;
    Dram {
        alone_gib,
        local_gib,
        pool_gib,
        device_gib: pool_gib / per_host,
        saved_percent: placed(result).then(|| saved(alone_gib, local_gib + pool_gib)),
        allowed_percent: 0.0,
    }
}

fn slowdown(histogram: &Histogram) -> Slowdown {
    Slowdown {
        count: histogram.total(),
        mean: 100.0 * histogram.mean(),
        p50: 100.0 * histogram.quantile(0.5),
        p90: 100.0 * histogram.quantile(0.9),
        p99: 100.0 * histogram.quantile(0.99),
        over_1: 100.0 * histogram.part_from(10),
        over_5: 100.0 * histogram.part_from(50),
        over_25: 100.0 * histogram.part_from(250),
        curve: CURVE
            .map(|bin| [bin as f64 / 10.0, 100.0 * histogram.part_from(bin)])
            .to_vec(),
    }
}

fn stranding(outcome: &Outcome) -> Vec<Stranding> {
    let width = 100.0 / CORE_BINS as f64;
    let groups = outcome.stranded.iter().enumerate();
    let groups = groups.filter(|(_, histogram)| histogram.total() > 0);
    let stranding = groups.map(|(at, histogram)| Stranding {
        cores_from: at as f64 * width,
        cores_to: (at + 1) as f64 * width,
        samples: histogram.total(),
        mean: 100.0 * histogram.mean(),
        p5: 100.0 * histogram.quantile(0.05),
        p95: 100.0 * histogram.quantile(0.95),
    });
    stranding.collect()
}

fn outcome_report(
    (params, fabric): (&FleetParams, &PodFabric),
    outcome: &Outcome,
    local_gib: f64,
    pool_gib: f64,
) -> OutcomeReport {
    let hosts = outcome.hosts.max(1) as f64;
    let (local, pool) = (
        hosts * local_gib * MIB_OF_GIB,
        hosts * pool_gib * MIB_OF_GIB,
    );
    let part = |of: f64, all: f64| if all > 0.0 { 100.0 * of / all } else { 0.0 };
    let mean = |of: fn(&Point) -> u64| outcome.mean(|point| of(point) as f64);
    let most = |of: fn(&Point) -> u64| outcome.most(of) as f64;
    let stranded = |point: &Point| point.stranded_mib;
    let cores = hosts * f64::from(params.host.cores);
    let placed = (outcome.arrived - outcome.rejected) as f64;
    let points = outcome.series.iter();
    let latency: f64 = points.clone().map(|point| point.latency_sum_ns).sum();
    let pooled: u64 = points.map(|point| point.pooled_vms).sum();
    OutcomeReport {
        local_gib,
        pool_gib,
        arrived: outcome.arrived,
        rejected: outcome.rejected,
        departed: outcome.departed,
        running: outcome.running,
        rejected_core_percent: 100.0 * outcome.rejected_part(),
        cores_percent: part(mean(|point| point.cores), cores),
        local_percent: part(mean(|point| point.local_mib), local),
        stranded_percent: part(mean(stranded), local + pool),
        stranded_most_percent: part(most(stranded), local + pool),
        pool_percent: part(mean(|point| point.pool_mib), pool),
        pool_most_percent: part(most(|point| point.pool_mib), pool),
        pool_latency_error: error_shares(fabric, outcome),
        pool_latency_ns: match pooled {
            0 => 0.0,
            _ => latency / pooled as f64,
        },
        mitigated_percent: part(outcome.mitigated as f64, placed),
        saturated_percent: part(mean(|point| point.saturated), hosts),
        slowdown: slowdown(&outcome.slowdown),
        slowdown_running: slowdown(&outcome.slowdown_now),
        classes: (params.sensitivity.iter().zip(&outcome.by_class))
            .map(|(class, [placed, pooled])| Class {
                name: class.name.clone(),
                placed: *placed,
                pooled: *pooled,
            })
            .collect(),
        stranding: stranding(outcome),
        clusters: (outcome.scatter.iter())
            .map(|[cores, stranded]| [100.0 * cores, 100.0 * stranded])
            .collect(),
        series: series(outcome),
    }
}

fn notes(
    params: &FleetParams,
    result: &StudyResult,
    pooled: Option<&OutcomeReport>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    if pooled.is_some_and(|pooled| pooled.saturated_percent > 0.0) {
        note("pool traffic is at times more than the fabric carries: VMs are slowed in proportion");
    }
    let alone = &result.alone;
    if !result.partial && alone.arrived == 0 {
        note("no VM asked for a place: nothing says what pools save");
    } else if !result.partial && !placed(result) {
        note(
            "no VM found a place without pools: nothing says what pools save (check fleet.host against the VMs of fleet.demand)",
        );
    } else if alone.rejected_part() > 0.05 {
        note(&format!(
            "hosts without pools reject {:.1} % of core-hours, and `needed` allows as much with them",
            100.0 * alone.rejected_part()
        ));
    }
    if sizes(result).0 * (MIB as f64) < params.host.dram.0 as f64 / 100.0 {
        note("nearly no local DRAM is left: check what the policy and the classes allow");
    }
    notes
}

/// The time series as CSV: each line a moment, without and with pools.
pub fn series_csv(params: &FleetParams, report: &FleetReport) -> String {
    let mut text = "hours".to_owned();
    let columns = row(
        "vms | cores | local_gib | pool_gib | stranded_gib | rejected | pool_latency_ns | saturated_hosts",
    );
    let outcomes = [
        ("alone", Some(&report.alone)),
        ("pooled", report.pooled.as_ref()),
    ];
    let there = || {
        let outcomes = outcomes.iter();
        outcomes.filter_map(|(name, outcome)| outcome.map(|outcome| (name, outcome)))
    };
    for (name, _) in there() {
        for column in &columns {
            text.push_str(&format!(",{name}_{column}"));
        }
    }
    text.push('\n');
    let step = f64::from(params.sample_minutes) / 60.0;
    for at in 0..report.alone.series.len() {
        text.push_str(&format!("{}", at as f64 * step));
        for (_, outcome) in there() {
            let Some(point) = outcome.series.get(at) else {
                text.push_str(&",".repeat(columns.len()));
                continue;
            };
            let gib = |mib: u64| mib as f64 / MIB_OF_GIB;
            text.push_str(&format!(
                ",{},{},{},{},{},{},{},{}",
                point.vms,
                point.cores,
                gib(point.local_mib),
                gib(point.pool_mib),
                gib(point.stranded_mib),
                point.rejected,
                (point.latency_ns).map_or(String::new(), |ns| format!("{ns:.3}")),
                point.saturated,
            ));
        }
        text.push('\n');
    }
    text
}
