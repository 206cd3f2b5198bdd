//! The report: what a run measured, and the laws that it must hold.

use std::borrow::Cow;
use std::time::Duration;

use cxlab_agent::HwThreads;
use cxlab_device::{DcohStats, DeviceStats, MediaErrorStats};
use cxlab_engine::Outcome;
use cxlab_engine::probe::{LatencyProbe, WaitProbe};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::{
    CoherenceStats, Core, HopStats, RequesterStats, STAGE_NAMES, ThrottleStats, UnservedRequests,
};
use cxlab_memory::Statistic;
use cxlab_plan::{Failures, Plan, PlannedPool, Sample};
use cxlab_scenario::Note;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bottleneck;
pub use crate::bottleneck::{Bottleneck, Limit};
pub use crate::enumeration::EnumerationReport;
use crate::host::Host;
use crate::intervals::{self, Intervals, Parts};
pub use crate::intervals::{DeviceCi95, HopsCi95, HostCi95, LinkCi95, ReportCi95};
use crate::limited;
use crate::output::run_id;
use crate::readings::{IssuerReadings, Readings};
use crate::run::edges::{self, Law, Measured};
use crate::run::{Warmed, part, seconds};
use crate::series;
pub use crate::series::TimeSeries;
use crate::system::{Node, System};

/// Version of the names in a report. Version 1 called bandwidths in GB/s `bandwidth_gbps`.
pub const FORMAT: u32 = 2;

fn first_format() -> u32 {
    1
}

/// A report's JSON text with the names of [`FORMAT`], from a text with the names of any version.
pub fn with_current_names(text: &str) -> Cow<'_, str> {
    // A quotation mark before a colon ends a name: those inside texts are escaped.
    match text.contains("_gbps\":") {
        true => {
            let renamed = text.replace("_gbps\":", "_gb_per_s\":");
            let numbered = format!("\"format\": {FORMAT},\n  \"scenario\":");
            let versioned = renamed.replacen("\"scenario\":", &numbered, 1);
            Cow::Owned(versioned)
        }
        false => Cow::Borrowed(text),
    }
}

/// What a run measured. Only `wall_seconds`, `events_per_second` and
/// `requests.per_wall_second` may differ between identical runs.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Report {
    /// Version of cxlab.
    pub version: String,
    /// Version of the names in the report, [`FORMAT`]; 1 where it is missing.
    #[serde(default = "first_format")]
    pub format: u32,
    /// The scenario's name.
    pub scenario: String,
    /// Identifies everything that can change the result but the seed.
    pub plan_hash: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// The run's ID, which all files of it carry; empty in reports of before.
    #[serde(default)]
    pub run: String,
    /// Order digest over every component's events, hexadecimal.
    pub digest: String,
    /// Whether the run was interrupted before its window ended.
    pub partial: bool,
    /// What interrupted it, where that was a plug-in that cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What a careful user would want to know of the scenario and of this run, such as what limited a
    /// link other than its wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Simulated time when the workloads began, where hosts enumerate before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enumeration_ns: Option<f64>,
    /// Simulated time when measurement began.
    pub warmup_ns: f64,
    /// Simulated time when the transient had ended at the latest, where the warm-up was found by the run
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_ns: Option<f64>,
    /// Simulated time at the end of the measurement.
    pub sim_time_ns: f64,
    /// Length of the measurement; of a sampled run, of all its measured windows together.
    pub window_ns: f64,
    /// How the run was sampled, where it was. All other values are of the measured windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingReport>,
    /// Real time of the run, building included.
    pub wall_seconds: f64,
    /// Events handled, warm-up included.
    pub events: u64,
    /// Events per real second.
    pub events_per_second: f64,
    /// Requests in the window.
    pub requests: Requests,
    /// Rates of 64-byte lines in the window, in GB/s (10^9 bytes per second), without requests that
    /// were denied or failed.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of the requests served in the window: completed, and neither denied nor failed.
    pub latency_ns: Latency,
    /// Latency of the reads among them.
    pub read_latency_ns: Latency,
    /// Latency of the requests that completed in the window without being served.
    #[serde(default, skip_serializing_if = "UnservedLatency::is_empty")]
    pub unserved_latency_ns: UnservedLatency,
    /// Latency of all requests that completed in the window, served or not, where some were not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_latency_ns: Option<Latency>,
    /// Operations of several lines, where there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// Mean time of each latency stage of served requests; the stages sum to the mean latency.
    pub stages_ns: Map<String, Value>,
    /// Latency of served requests by links crossed between requester and device.
    pub by_hops: Vec<ByHops>,
    /// Half-widths of the 95 % confidence intervals of these rates and means.
    #[serde(default)]
    pub ci95: ReportCi95,
    /// What failures have done to messages, where something fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<FailuresReport>,
    /// The commands of the fabric manager up to the end of the run, in the order in which they were
    /// issued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandReport>,
    /// By pooled region.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolReport>,
    /// Little's law.
    pub littles_law: LittlesLaw,
    /// By host.
    pub hosts: Vec<HostReport>,
    /// By accelerator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<HostReport>,
    /// By device.
    pub devices: Vec<DeviceReport>,
    /// By link and direction.
    pub links: Vec<LinkReport>,
    /// What limits the rate; absent where nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Latency distribution of served requests: upper bound in nanoseconds and number of requests.
    pub latency_histogram: Vec<(f64, u64)>,
    /// Requests completed over the time of the measurement.
    pub time_series: TimeSeries,
}

/// What a sampled run simulated in detail, and what it passed over.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct SamplingReport {
    /// Units that were measured.
    pub units: u64,
    /// Requests that the run has come past behind its warm-up: those warmed, and those in detail.
    pub requests: u64,
    /// Requests applied to caches, buffers and mappings without time, those of the warm-up among them.
    pub warmed: u64,
    /// Requests simulated in detail.
    pub detailed: u64,
    /// Requests that completed in measured windows.
    pub measured: u64,
    /// The part that these are of `requests`.
    pub measured_fraction: f64,
    /// Estimate of the simulated time that `requests` take; absent where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<f64>,
    /// Half-width of its 95 % confidence interval.
    pub time_ci95_ns: Option<f64>,
}

/// Operations of several lines, each of which is a request too.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Operations {
    /// Completed in the window.
    pub completed: u64,
    /// From the issue of the first line to the end of the last.
    pub latency_ns: Latency,
}

/// Requests in the window.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Requests {
    /// Issued.
    pub issued: u64,
    /// Completed.
    pub completed: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Answered by a private cache, among those completed.
    pub cache_hits: u64,
    /// Dirty lines written back, not counted as requests.
    pub writebacks: u64,
    /// Denied, among those completed, where what hosts have of devices changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// Failed, among those completed, where something fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedRequests>,
    /// In flight at the end.
    pub in_flight: u64,
    /// Completed since the start of the run, warm-up included, per real second.
    pub per_wall_second: f64,
}

/// Requests whose address no decoder of the device had for their host.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, Debug)]
pub struct Denied {
    /// Reads, answered `MemData-NXM`, without data.
    pub reads: u64,
    /// Writes, dropped.
    pub writes: u64,
}

impl Denied {
    pub(crate) fn of(stats: &RequesterStats) -> Denied {
        Denied {
            reads: stats.denied.reads,
            writes: stats.denied.writes,
        }
    }

    /// Both.
    pub fn total(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Requests that nothing answered, or poison.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, Debug)]
pub struct FailedRequests {
    /// Reads whose time was over: the host has no data.
    pub timed_out_reads: u64,
    /// Writes whose time was over: they may have been made, or may be yet.
    pub timed_out_writes: u64,
    /// Reads of devices that the host knew it did not reach: not sent, no data.
    pub cut_off_reads: u64,
    /// Writes to such devices: not sent, dropped.
    pub cut_off_writes: u64,
    /// Reads that met poison.
    #[serde(default)]
    pub poisoned_reads: u64,
    /// Atomic operations that met poison.
    #[serde(default)]
    pub poisoned_writes: u64,
}

impl FailedRequests {
    pub(crate) fn of(stats: &RequesterStats) -> FailedRequests {
        FailedRequests {
            timed_out_reads: stats.timed_out.reads,
            timed_out_writes: stats.timed_out.writes,
            cut_off_reads: stats.cut_off.reads,
            cut_off_writes: stats.cut_off.writes,
            poisoned_reads: stats.poisoned.reads,
            poisoned_writes: stats.poisoned.writes,
        }
    }

    fn add(&mut self, other: FailedRequests) {
        self.timed_out_reads += other.timed_out_reads;
        self.timed_out_writes += other.timed_out_writes;
        self.cut_off_reads += other.cut_off_reads;
        self.cut_off_writes += other.cut_off_writes;
        self.poisoned_reads += other.poisoned_reads;
        self.poisoned_writes += other.poisoned_writes;
    }

    /// Reads of all kinds.
    pub fn reads(&self) -> u64 {
        self.timed_out_reads + self.cut_off_reads + self.poisoned_reads
    }

    /// Writes of all kinds.
    pub fn writes(&self) -> u64 {
        self.timed_out_writes + self.cut_off_writes + self.poisoned_writes
    }

    /// All.
    pub fn total(&self) -> u64 {
        self.reads() + self.writes()
    }
}

/// What failures have done to messages, from the beginning of the run.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct FailuresReport {
    /// Failures and repairs.
    #[serde(default)]
    pub changes: u64,
    /// Changes of the routing.
    #[serde(default)]
    pub routing_changes: u64,
    /// Changes of the routing among them that waited until virtual channels of earlier routing states had drained.
    #[serde(default)]
    pub delayed_routing_changes: u64,
    /// The longest of these waits.
    #[serde(default)]
    pub longest_routing_delay_ns: f64,
    /// Messages lost: on links, in switches, in devices, and in front of links that did not work.
    pub lost_messages: u64,
    /// Messages among them that switches discarded because a later routing state took their virtual channel.
    #[serde(default)]
    pub discarded_messages: u64,
    /// Answers that came after the time of their request.
    pub late_answers: u64,
    /// Requests whose time was over. In a run that ends by itself, the sum of both.
    pub timed_out: u64,
}

impl FailuresReport {
    /// Counts what happens up to a time after the workloads begin.
    fn count_changes(&mut self, failures: &Failures, until: Picos) {
        self.changes = failures.times.iter().filter(|at| **at <= until).count() as u64;
        for change in failures.routing.iter().filter(|one| one.at <= until) {
            let wait = change.at.0 - change.due.0;
            self.routing_changes += 1;
            self.delayed_routing_changes += u64::from(wait > 0);
            self.longest_routing_delay_ns = self.longest_routing_delay_ns.max(wait as f64 / 1e3);
        }
    }
}

/// A command of the fabric manager. Times count from when the workloads begin.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct CommandReport {
    /// Its name in the specification.
    pub command: String,
    /// Its opcode, as the specification writes it.
    pub opcode: String,
    /// What it is about.
    pub of: String,
    /// When it was issued.
    pub issued_ns: f64,
    /// When what it asked for was done; absent where the run ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<f64>,
    /// What was answered; absent where the run ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

impl CommandReport {
    /// The commands of a run that has lasted for so long since the workloads began.
    fn all(plan: &Plan, lasted: Picos) -> Vec<CommandReport> {
        let commands = plan.commands().iter();
        let issued = commands.filter(|command| command.issued <= lasted);
        issued
            .map(|command| {
                let done = command.done <= lasted;
                CommandReport {
                    command: command.name.to_owned(),
                    opcode: format!("{:04X}h", command.opcode),
                    of: command.of.clone(),
                    issued_ns: command.issued.as_nanos_f64(),
                    done_ns: done.then(|| command.done.as_nanos_f64()),
                    response: done.then(|| command.response.describe()),
                }
            })
            .collect()
    }
}

/// A pooled region, from when the workloads begin to the end of the run. Means are over time.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PoolReport {
    /// The region.
    pub region: String,
    /// The policy by which it was granted.
    pub policy: String,
    /// Its capacity, GiB.
    pub capacity_gib: f64,
    /// Demands of hosts.
    pub demands: u64,
    /// Those that were refused.
    pub refused: u64,
    /// What hosts needed, mean.
    pub needed_gib: f64,
    /// What hosts had, mean.
    pub held_gib: f64,
    /// What hosts had beyond what they needed, mean.
    pub idle_gib: f64,
    /// What hosts needed and did not have, mean.
    pub unmet_gib: f64,
    /// What nobody had while some host did not have what it needed, mean: stranded capacity. What is
    /// being scrubbed is not among it.
    pub stranded_gib: f64,
    /// Pieces in which what nobody had lay, at most.
    pub most_free_runs: u64,
    /// Pieces in which what hosts had lay, at most.
    pub most_extents: u64,
}

impl PoolReport {
    /// What came of a pool in so long since the workloads began.
    fn of(pool: &PlannedPool, lasted: Picos) -> PoolReport {
        let gib = |blocks: f64| blocks * PlannedPool::BLOCK.0 as f64 / f64::from(1 << 30);
        let samples: Vec<_> = (pool.samples.iter())
            .filter(|(at, _)| *at <= lasted)
            .collect();
        let mean = |what: &dyn Fn(&Sample) -> u32| {
            let ends = samples.iter().skip(1).map(|(at, _)| *at).chain([lasted]);
            let spans = samples.iter().zip(ends);
            let sum: u128 = spans
                .map(|((since, sample), until)| {
                    u128::from(what(sample)) * u128::from(until.0 - since.0)
                })
                .sum();
            gib(sum as f64 / lasted.0.max(1) as f64)
        };
        let most = |what: &dyn Fn(&Sample) -> u32| {
            let all = samples.iter().map(|(_, sample)| what(sample));
            u64::from(all.max().unwrap_or(0))
        };
        let demands = pool.demands.iter().filter(|(at, _)| *at <= lasted);
        PoolReport {
            region: pool.region.clone(),
            policy: pool.policy.clone(),
            capacity_gib: gib(f64::from(pool.total)),
            demands: demands.clone().count() as u64,
            refused: demands.filter(|(_, met)| !met).count() as u64,
            needed_gib: mean(&|one| one.needed),
            held_gib: mean(&|one| one.held),
            idle_gib: mean(&|one| one.idle),
            unmet_gib: mean(&|one| one.unmet),
            stranded_gib: mean(&|one| if one.unmet > 0 { one.free } else { 0 }),
            most_free_runs: most(&|one| one.free_runs),
            most_extents: most(&|one| one.extents),
        }
    }
}

/// Rates of 64-byte lines, GB/s.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Bandwidth {
    /// Reads and writes.
    pub total: f64,
    /// Reads.
    pub read: f64,
    /// Writes.
    pub write: f64,
}

/// A latency distribution in nanoseconds. Percentiles are upper bounds: the ends of bins that are 0.1 % wide,
/// and at least 0.128 ns.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Latency {
    /// Mean, exact.
    pub mean: f64,
    /// Shortest, exact.
    pub min: f64,
    /// Median, an upper bound.
    pub p50: f64,
    /// 90 % are not longer; an upper bound.
    pub p90: f64,
    /// 99 % are not longer; an upper bound.
    pub p99: f64,
    /// 99.9 % are not longer; an upper bound.
    pub p999: f64,
    /// Longest, exact.
    pub max: f64,
}

/// Latency of the requests that completed without being served, by the way in which they ended;
/// absent where none ended so.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct UnservedLatency {
    /// Denied by a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Latency>,
    /// Timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<Latency>,
    /// Not sent, because the host knew that no path leads to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<Latency>,
    /// Answered with poison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poisoned: Option<Latency>,
}

impl UnservedLatency {
    fn of(unserved: [&UnservedRequests; 4]) -> UnservedLatency {
        let [denied, timed_out, cut_off, poisoned] = unserved.map(|one| one.latency().map(latency));
        UnservedLatency {
            denied,
            timed_out,
            cut_off,
            poisoned,
        }
    }

    fn is_empty(&self) -> bool {
        *self == UnservedLatency::default()
    }

    /// The ways in which requests ended, and their latency.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Latency)> {
        let all = [
            ("denied", &self.denied),
            ("timed out", &self.timed_out),
            ("cut off", &self.cut_off),
            ("poisoned", &self.poisoned),
        ];
        all.into_iter()
            .filter_map(|(name, latency)| Some((name, latency.as_ref()?)))
    }
}

/// How long messages wait at a place, in nanoseconds, over all that pass it: those that do not wait count as 0.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Wait {
    /// Mean, exact.
    pub mean: f64,
    /// 99 % do not wait longer. An upper bound: the end of a bin that is at most 12.5 % wide.
    pub p99: f64,
    /// Longest, exact.
    pub max: f64,
}

impl Wait {
    fn of(waits: &WaitProbe, passed: u64) -> Wait {
        Wait {
            mean: mean_ns(waits.sum_ps(), passed),
            p99: waits.quantile_ps(0.99, passed) as f64 / 1e3,
            max: waits.max_ps() as f64 / 1e3,
        }
    }
}

/// A mean in nanoseconds of a sum in picoseconds.
fn mean_ns(sum_ps: u128, count: u64) -> f64 {
    sum_ps as f64 / 1e3 / count.max(1) as f64
}

/// Requests that crossed so many links.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct ByHops {
    /// Links crossed on the way back from the device.
    pub hops: usize,
    /// Requests.
    pub count: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Mean wait for a place or a wire: the sum of the stages `host_queue`, `credits`, `switch_queue`,
    /// `device_queue` and `media_queue`.
    pub queue_ns: f64,
    /// Half-widths of the 95 % confidence intervals of these means.
    #[serde(default)]
    pub ci95: HopsCi95,
}

/// Mean requests in flight, measured as an integral over time, against rate times latency. The
/// exact form (with the requests that cross the window's edges) is checked in every run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct LittlesLaw {
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Completions per nanosecond times mean latency, over all requests, served or not.
    pub rate_times_latency: f64,
}

/// What a host measured.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Requests issued.
    pub issued: u64,
    /// Requests completed.
    pub completed: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Requests that its private cache answered.
    pub cache_hits: u64,
    /// Denied by devices, among those completed, where what hosts have of devices changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// Failed, among those completed, where something fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedRequests>,
    /// What its throttle did, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleReport>,
    /// Rates, without those denied or failed.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of served requests.
    pub latency_ns: Latency,
    /// Latency of the requests that completed without being served.
    #[serde(default, skip_serializing_if = "UnservedLatency::is_empty")]
    pub unserved_latency_ns: UnservedLatency,
    /// Latency of all requests that completed, served or not, where some were not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_latency_ns: Option<Latency>,
    /// Mean requests in flight.
    pub in_flight: f64,
    /// Half-widths of the 95 % confidence intervals of these rates and means.
    #[serde(default)]
    pub ci95: HostCi95,
    /// What its enumeration was, where the run begins with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enumeration: Option<EnumerationReport>,
    /// What its cache did, where it holds memory that devices keep coherent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherence: Option<HostCoherence>,
    /// What its core measured of the program it ran, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<HostCore>,
    /// What its threads did, where it runs threads, by phase of their kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ThreadPhaseReport>,
    /// What its caches and its home agent did, where it has a processor: name and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub processor: Map<String, Value>,
    /// What its cache and its engines did, where it is an accelerator: name and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub accelerator: Map<String, Value>,
}

/// What a host's throttle did in the window.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct ThrottleReport {
    /// Periods after which the host went faster.
    pub faster: u64,
    /// Periods after which it went slower.
    pub slower: u64,
    /// The part of the periods in which it issued nearly all that its rate allowed (90 %), so that it may have had more to
    /// send.
    #[serde(default)]
    pub held: f64,
    /// The rate allowed at the end; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_gb_per_s: Option<f64>,
}

impl From<ThrottleStats> for ThrottleReport {
    fn from(stats: ThrottleStats) -> Self {
        ThrottleReport {
            faster: stats.faster,
            slower: stats.slower,
            held: stats.held as f64 / stats.periods.max(1) as f64,
            rate_gb_per_s: stats.rate.map(|rate| rate.as_gb_per_s()),
        }
    }
}

/// Answers of a device by the load that they told (DevLoad).
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct DeviceLoad {
    /// Light load.
    pub light: u64,
    /// Optimal load.
    pub optimal: u64,
    /// Moderate overload.
    pub moderate: u64,
    /// Severe overload.
    pub severe: u64,
}

impl DeviceLoad {
    fn of([light, optimal, moderate, severe]: [u64; 4]) -> DeviceLoad {
        DeviceLoad {
            light,
            optimal,
            moderate,
            severe,
        }
    }
}

/// What the threads of one component did in a phase of their kernel, from the beginning of the
/// run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct ThreadPhaseReport {
    /// The phase's name.
    pub name: String,
    /// Operations of the kernel completed, by its own count.
    pub operations: u64,
    /// Operations of its threads completed: loads, stores, atomics, DMA and so on.
    pub steps: u64,
    /// From the first begin to the last completion.
    pub time_ns: f64,
    /// Operations of the kernel over that time.
    pub operations_per_second: f64,
    /// Those of them that are on memory.
    #[serde(default)]
    pub on_memory: u64,
    /// Of those, the ones whose first byte lies in CXL memory.
    #[serde(default)]
    pub on_cxl: u64,
    /// Of those, the ones that waited for the host's own memory; caches answered the others.
    #[serde(default)]
    pub from_own: u64,
    /// Of those, the ones that waited for CXL memory.
    #[serde(default)]
    pub from_cxl: u64,
    /// Bytes that the threads' operations moved, without those that were denied or failed.
    pub bytes: u64,
    /// Time in which such an operation was under way.
    pub busy_ns: f64,
    /// Bytes over that time.
    pub bandwidth_gb_per_s: f64,
    /// From begin to completion of each such operation that was neither denied nor failed.
    pub latency_ns: Latency,
}

impl ThreadPhaseReport {
    fn all(hw_threads: &HwThreads) -> Vec<ThreadPhaseReport> {
        let used = hw_threads.phases().filter(|(_, stats)| stats.completed > 0);
        used.map(|(phase, stats)| {
            let time_ns = stats.time().0 as f64 / 1e3;
            let busy_ps = stats.busy().0;
            let per_ns = |count: f64| if time_ns > 0.0 { count / time_ns } else { 0.0 };
            ThreadPhaseReport {
                name: phase.name.clone(),
                operations: stats.operations,
                steps: stats.completed,
                time_ns,
                operations_per_second: 1e9 * per_ns(stats.operations as f64),
                on_memory: stats.on_memory,
                on_cxl: stats.on_cxl,
                from_own: stats.from_own,
                from_cxl: stats.from_cxl,
                bytes: stats.bytes,
                busy_ns: busy_ps as f64 / 1e3,
                bandwidth_gb_per_s: stats.bytes as f64 * 1e3 / busy_ps.max(1) as f64,
                latency_ns: latency(&stats.latency),
            }
        })
        .collect()
    }
}

/// What a core measured of its program, from the beginning of the run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct HostCore {
    /// Loads issued.
    pub loads: u64,
    /// Stores issued.
    pub stores: u64,
    /// Flushes issued.
    pub flushes: u64,
    /// Flushes that found a modified line.
    pub flushes_dirty: u64,
    /// Loads and stores that each private cache answered, nearest first.
    pub hits: Vec<u64>,
    /// Loads and stores that found their line asked for already.
    pub merged: u64,
    /// Loads and stores that asked memory for their line.
    pub misses: u64,
    /// Lines that the prefetcher asked memory for, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetches: Option<u64>,
    /// By phase of the program.
    pub phases: Vec<PhaseReport>,
    /// What the medium of the host's own memory kept about itself: name with unit, and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memory: Map<String, Value>,
}

/// What a phase of a program did.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Operations of the program completed.
    pub operations: u64,
    /// Loads, stores and flushes issued.
    pub steps: u64,
    /// From its first issue to its last completion.
    pub time_ns: f64,
    /// Operations over that time.
    pub operations_per_second: f64,
    /// Bytes that the program counts for its operations, over that time; 0 where it counts none.
    pub bandwidth_gb_per_s: f64,
    /// Mean time of its loads, whatever answered them.
    pub load_latency_ns: f64,
}

impl HostCore {
    fn of(core: &Core, end: SimTime) -> HostCore {
        let stats = core.core_stats();
        let phases = core.phases().iter().zip(&stats.phases);
        HostCore {
            loads: stats.loads,
            stores: stats.stores,
            flushes: stats.flushes,
            flushes_dirty: stats.flushes_dirty,
            hits: stats.hits.clone(),
            merged: stats.merged,
            misses: stats.misses,
            prefetches: Some(stats.prefetches).filter(|lines| *lines > 0),
            phases: phases
                .map(|(phase, stats)| {
                    let time_ns = stats.time().0 as f64 / 1e3;
                    let per_ns = |count: f64| if time_ns > 0.0 { count / time_ns } else { 0.0 };
                    PhaseReport {
                        name: phase.name.clone(),
                        operations: stats.operations,
                        steps: stats.issued,
                        time_ns,
                        operations_per_second: 1e9 * per_ns(stats.operations as f64),
                        bandwidth_gb_per_s: per_ns(stats.operations as f64 * phase.bytes.0 as f64),
                        load_latency_ns: stats.load_ps as f64 / 1e3 / stats.loads.max(1) as f64,
                    }
                })
                .collect(),
            memory: values(core.local_statistics(end).unwrap_or_default()),
        }
    }
}

/// A medium's statistics as the report has them.
fn values(statistics: Vec<Statistic>) -> Map<String, Value> {
    let pairs = statistics.into_iter();
    pairs.map(|one| (one.name, one.value.into())).collect()
}

/// What a coherent cache did.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct HostCoherence {
    /// Accesses that found what they needed.
    pub hits: u64,
    /// Accesses that had to ask.
    pub misses: u64,
    /// Accesses that waited for another one's line.
    pub merged: u64,
    /// Stores to lines that were held shared.
    pub upgrades: u64,
    /// Clean lines that made room and were announced.
    pub clean_evictions: u64,
    /// Modified lines that made room.
    pub dirty_evictions: u64,
    /// Lines that snoops took.
    pub invalidated: u64,
    /// Modified lines that snoops wrote back.
    pub snoop_writebacks: u64,
    /// Snoops that met a request under way.
    pub conflicts: u64,
}

impl From<&CoherenceStats> for HostCoherence {
    fn from(stats: &CoherenceStats) -> Self {
        HostCoherence {
            hits: stats.hits,
            misses: stats.misses,
            merged: stats.merged,
            upgrades: stats.upgrades,
            clean_evictions: stats.clean_evictions,
            dirty_evictions: stats.dirty_evictions,
            invalidated: stats.invalidated,
            snoop_writebacks: stats.snoop_writebacks,
            conflicts: stats.conflicts,
        }
    }
}

/// What viral did to a device.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceViral {
    /// When the first host's part of it came into viral, after the workloads began.
    pub since_ns: f64,
    /// Writes that it dropped, which `writes` counts too.
    pub dropped_writes: u64,
}

/// What a device measured.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Lines that it read ahead of their request, where a host told it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_reads: Option<u64>,
    /// Requests that it denied, beside those, where what hosts have of it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// What it told of its load, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<DeviceLoad>,
    /// Poison that was read and written, where lines of it may be poison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<MediaErrorStats>,
    /// Viral, where an event brings it to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viral: Option<DeviceViral>,
    /// Rates.
    pub bandwidth_gb_per_s: Bandwidth,
    /// How long requests wait in the device before the medium takes them.
    #[serde(default)]
    pub wait_ns: Wait,
    /// The part of the mean wait that is for the medium; the rest is for a context.
    #[serde(default)]
    pub medium_wait_ns: f64,
    /// Half-widths of the 95 % confidence intervals of these rates.
    #[serde(default)]
    pub ci95: DeviceCi95,
    /// What its DCOH did, where it keeps its memory coherent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherence: Option<DeviceCoherence>,
    /// What its medium kept about itself: name with unit, and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub medium: Map<String, Value>,
}

impl DeviceReport {
    /// Requests that it took: served or denied.
    pub fn taken(&self) -> u64 {
        self.reads + self.writes + self.denied.map_or(0, |denied| denied.total())
    }
}

/// What a DCOH and its snoop filter did.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceCoherence {
    /// Requests on M2S Req.
    pub requests: u64,
    /// Requests that need an entry of the filter and found their line's.
    pub filter_hits: u64,
    /// Requests that need an entry and found none.
    pub filter_misses: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Snoop messages sent.
    pub snoops: u64,
    /// Those for several lines.
    pub block_snoops: u64,
    /// Those among them that join snoops for requests, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_snoops: Option<u64>,
    /// Copies that snoops took.
    pub invalidated: u64,
    /// Modified lines written back.
    pub writebacks: u64,
    /// Snoops that met a request under way.
    pub conflicts: u64,
    /// Most entries in use at once.
    pub peak_entries: u32,
    /// Time that requests waited for their line, in all.
    pub line_wait_ns: f64,
    /// For an entry.
    pub entry_wait_ns: f64,
    /// For snoops of their own line.
    pub snoop_wait_ns: f64,
}

impl From<DcohStats> for DeviceCoherence {
    fn from(stats: DcohStats) -> Self {
        let nanos = |span: Picos| span.0 as f64 / 1e3;
        DeviceCoherence {
            requests: stats.requests(),
            filter_hits: stats.filter_hits,
            filter_misses: stats.filter_misses,
            evictions: stats.evictions,
            snoops: stats.snoops.iter().sum(),
            block_snoops: stats.block_snoops,
            joined_snoops: (stats.joined_snoops > 0).then_some(stats.joined_snoops),
            invalidated: stats.invalidated,
            writebacks: stats.writebacks,
            conflicts: stats.conflicts,
            peak_entries: stats.peak_entries,
            line_wait_ns: nanos(stats.line_wait),
            entry_wait_ns: nanos(stats.entry_wait),
            snoop_wait_ns: nanos(stats.snoop_wait),
        }
    }
}

/// What a direction of a link carried.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct LinkReport {
    /// The link: its ends joined by `--`.
    pub name: String,
    /// The direction: from `->` to.
    pub direction: String,
    /// The named link that it is one of, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_class: Option<String>,
    /// Fraction of the window in which the wire was busy.
    pub utilization: f64,
    /// Payload (64-byte lines) among all bytes sent.
    pub efficiency: f64,
    /// Bytes sent, headers and empty slots included.
    pub bytes: u64,
    /// Bytes of lines among them.
    pub payload_bytes: u64,
    /// Flits (or packets) sent.
    pub flits: u64,
    /// Flits sent again after an error.
    pub retries: u64,
    /// Rate of the direction, GB/s.
    pub rate_gb_per_s: f64,
    /// Messages sent.
    #[serde(default)]
    pub messages: u64,
    /// How long messages wait for the transmitter of this direction to take them: at the output of a host,
    /// a switch or a device. What it has taken goes within a flit, or within `staging` of packets.
    #[serde(default)]
    pub wait_ns: Wait,
    /// The part of the mean wait that is for credits; the rest is for the wire.
    #[serde(default)]
    pub credit_wait_ns: f64,
    /// Half-widths of the 95 % confidence intervals of what it carried.
    #[serde(default)]
    pub ci95: LinkCi95,
}

pub(crate) struct Context<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) seed: u64,
    pub(crate) outcome: &'a Outcome,
    /// When the workloads began, where hosts enumerate before that.
    pub(crate) enumeration: Option<SimTime>,
    pub(crate) start: SimTime,
    pub(crate) end: SimTime,
    /// What was read in the window; of a sampled run, in all measured windows.
    pub(crate) readings: &'a Readings<'a>,
    pub(crate) sampling: Option<SamplingReport>,
    pub(crate) partial: bool,
    /// Notes of the plan, and of this run.
    pub(crate) notes: Vec<Note>,
    pub(crate) warmed: Warmed,
    /// Absent where the run ended by itself.
    pub(crate) parts: Option<Parts<'a>>,
    pub(crate) wall: Duration,
}

impl Context<'_> {
    fn measured(&self) -> Measured {
        match self.parts {
            Some(Parts::Batches(_)) => Measured::Window,
            Some(Parts::Samples(_)) => Measured::Samples,
            None => Measured::ToTheEnd,
        }
    }

    fn window_ns(&self) -> f64 {
        self.readings.window.as_nanos_f64()
    }

    /// GB/s of so many lines in the window.
    fn rate(&self, lines: u64) -> f64 {
        if self.readings.window == Picos::ZERO {
            0.0
        } else {
            lines as f64 * 64.0 / self.window_ns()
        }
    }

    /// What was denied, where anything can be.
    fn denied(&self, denied: Denied) -> Option<Denied> {
        self.plan.changes_capacity().then_some(denied)
    }

    /// What failed, where anything can.
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
        self.requests.in_flight += in_flight;
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
        if let Some(operations) = &stats.whole_latency {
            self.operations.get_or_insert_default().merge(operations);
        }
        for (sum, stage) in self.stages_ps.iter_mut().zip(stats.stages_ps) {
            *sum += u128::from(stage);
        }
        if self.by_hops.len() < stats.by_hops.len() {
            self.by_hops
                .resize(stats.by_hops.len(), HopStats::default());
        }
        for (sum, hops) in self.by_hops.iter_mut().zip(&stats.by_hops) {
            sum.count += hops.count;
            sum.latency_ps += hops.latency_ps;
            sum.queue_ps += hops.queue_ps;
        }
        self.integral += integral;
    }
}

/// Reads a system out after its run.
///
/// # Errors
/// A law that does not hold, which is our own mistake.
pub(crate) fn assemble(system: &System, context: &Context<'_>) -> Result<Report, String> {
    let mut totals = Totals::default();
    let intervals = Intervals::new(context.parts);
    let mut hosts = Vec::with_capacity(system.hosts);
    let mut accelerators = Vec::new();
    let mut issuers = 0;
    for number in 0..system.hosts + system.devices {
        let Some(host) = system.simulation.component(number).host() else {
            continue;
        };
        let Some(read) = context.readings.issuers.get(issuers) else {
            return Err(format!("issuer {issuers} was not read"));
        };
        totals.add(&read.stats, host.requests_in_flight(), read.integral);
        let ci95 = intervals.of_issuer(issuers);
        issuers += 1;
        match number.checked_sub(system.hosts) {
            None => hosts.push(host_report(
                &context.plan.hosts[number].name,
                host,
                read,
                ci95,
                context,
            )),
            Some(device) => accelerators.push(host_report(
                &context.plan.devices[device].name,
                host,
                read,
                ci95,
                context,
            )),
        }
    }
    for (host, done) in hosts.iter_mut().zip(&system.enumerated) {
        host.enumeration = Some(done.into());
    }
    let devices = (0..system.devices).filter_map(|number| {
        let node = system.simulation.component(system.hosts + number).inside();
        let read = context.readings.devices.get(number)?.as_ref()?;
        let (coherence, told, medium) = match node {
            // What a medium counts cannot be divided into what was measured and what was not.
            _ if context.sampling.is_some() => (None, None, Vec::new()),
            Node::Device(device) => (None, device.told(), device.medium_statistics(context.end)),
            Node::Coherent(device) => (
                Some(device.coherence_stats()),
                device.told(),
                device.medium_statistics(context.end),
            ),
            _ => return None,
        };
        let (stats, waits) = (&read.stats, &read.waits);
        Some(DeviceReport {
            name: context.plan.devices[number].name.clone(),
            reads: stats.reads,
            writes: stats.writes,
            speculative_reads: (stats.speculative_reads > 0).then_some(stats.speculative_reads),
            denied: context.denied(Denied {
                reads: stats.denied_reads,
                writes: stats.denied_writes,
            }),
            load: told.map(DeviceLoad::of),
            media_errors: match node {
                Node::Device(device) => device.media_errors(),
                _ => None,
            },
            viral: context.plan.devices[number].viral().map(|at| DeviceViral {
                since_ns: at.0 as f64 / 1e3,
                dropped_writes: stats.dropped_writes,
            }),
            bandwidth_gb_per_s: context.bandwidth(stats.reads, stats.writes),
            wait_ns: Wait::of(&waits.all, taken(stats)),
            medium_wait_ns: mean_ns(waits.medium_ps, taken(stats)),
            ci95: intervals.of_device(number),
            coherence: coherence.map(DeviceCoherence::from),
            medium: values(medium),
        })
    });
    let devices: Vec<DeviceReport> = devices.collect();
    let mut notes = context.notes.clone();
    notes.extend(unsettled(context));
    let links = links(&intervals, context, &mut notes);
    let wall_seconds = seconds(context.wall);
    let lasted = context.end - context.enumeration.unwrap_or(SimTime::ZERO);
    let denied = totals.denied;
    let failed = totals.failed;
    for node in system.simulation.components() {
        totals.failures.lost_messages += node.lost().messages;
        totals.failures.discarded_messages += node.discarded();
    }
    if let Some(failures) = context.plan.failures() {
        totals.failures.count_changes(failures, lasted);
    }
    totals.requests.denied = context.denied(denied);
    totals.requests.failed = context.failed(failed);
    totals.requests.per_wall_second = totals.completed_ever as f64 / wall_seconds;
    let count = totals.latency.count().max(1) as f64;
    let stages = STAGE_NAMES.iter().zip(totals.stages_ps);
    let window_ns = context.window_ns();
    let unserved_ps: u128 = totals
        .unserved
        .iter()
        .map(UnservedRequests::latency_ps)
        .sum();
    let completed_ps = totals.latency.sum_ps() + unserved_ps;
    let law = Law {
        requests: totals.requests.completed,
        latency_ps: completed_ps,
        in_flight_ps: totals.integral,
    };
    notes.extend(edges::note(
        law,
        context.readings.window,
        context.measured(),
    ));
    let mut report = Report {
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
        enumeration_ns: context.enumeration.map(|begun| begun.0 as f64 / 1e3),
        warmup_ns: context.start.0 as f64 / 1e3,
        settled_ns: match context.warmed {
            Warmed::Settled(at) => Some(at.0 as f64 / 1e3),
            Warmed::AsGiven | Warmed::NotSettled => None,
        },
        sim_time_ns: context.end.0 as f64 / 1e3,
        window_ns,
        sampling: context.sampling.clone(),
        wall_seconds,
        events: context.outcome.events,
        events_per_second: context.outcome.events as f64 / wall_seconds,
        bandwidth_gb_per_s: context.bandwidth(
            totals.requests.reads - denied.reads - failed.reads(),
            totals.requests.writes - denied.writes - failed.writes(),
        ),
        latency_ns: latency(&totals.latency),
        read_latency_ns: latency(&totals.read_latency),
        unserved_latency_ns: UnservedLatency::of(totals.unserved.each_ref()),
        all_latency_ns: all_latency(&totals.latency, totals.unserved.each_ref()),
        operations: totals.operations.as_ref().map(|probe| Operations {
            completed: probe.count(),
            latency_ns: latency(probe),
        }),
        stages_ns: stages
            .map(|(name, sum)| ((*name).to_owned(), Value::from(sum as f64 / 1e3 / count)))
            .collect(),
        by_hops: by_hops(&totals.by_hops, &intervals),
        ci95: intervals.of_report(),
        failures: context.plan.failures().map(|_| totals.failures),
        commands: CommandReport::all(context.plan, lasted),
        pools: (context.plan.pools().iter())
            .map(|pool| PoolReport::of(pool, lasted))
            .collect(),
        littles_law: LittlesLaw {
            in_flight: totals.integral as f64 / 1e3 / window_ns.max(1e-3),
            rate_times_latency: completed_ps as f64 / 1e3 / window_ns.max(1e-3),
        },
        latency_histogram: totals.latency.bins(60),
        time_series: match context.sampling {
            Some(_) => TimeSeries::default(),
            None => series::sum(system.issuers().map(Host::series), context.end),
        },
        requests: totals.requests,
        bottleneck: bottleneck::find(
            context.plan,
            completed_ps as f64 / 1e3,
            &hosts,
            &links,
            &devices,
        ),
        hosts,
        accelerators,
        devices,
        links,
    };
    if let Some(found) = &mut report.bottleneck {
        found.tell_longest_stage(&report.stages_ns);
    }
    let in_flight = limited::by_requests_in_flight(context.plan, &report);
    report.notes.extend(in_flight);
    let throttled = limited::by_throttles(context.plan, &report);
    report.notes.extend(throttled);
    report.run = run_id(&[
        &report.version,
        &report.plan_hash,
        &report.seed.to_string(),
        &report.digest,
        &report.sim_time_ns.to_string(),
        &report.partial.to_string(),
    ]);
    Ok(report)
}

/// Requests that a device took: served or denied.
fn taken(stats: &DeviceStats) -> u64 {
    stats.reads + stats.writes + stats.denied_reads + stats.denied_writes
}

/// What a host or an accelerator measured.
fn host_report(
    name: &str,
    host: &Host,
    read: &IssuerReadings<'_>,
    ci95: HostCi95,
    context: &Context<'_>,
) -> HostReport {
    let stats = &read.stats;
    let (denied, failed) = (Denied::of(stats), FailedRequests::of(stats));
    HostReport {
        name: name.to_owned(),
        issued: stats.issued,
        completed: stats.reads + stats.writes,
        reads: stats.reads,
        writes: stats.writes,
        cache_hits: stats.cache_hits,
        denied: context.denied(denied),
        failed: context.failed(failed),
        throttle: host.throttle().map(ThrottleReport::from),
        bandwidth_gb_per_s: context.bandwidth(
            stats.reads - denied.reads - failed.reads(),
            stats.writes - denied.writes - failed.writes(),
        ),
        latency_ns: latency(&stats.latency()),
        unserved_latency_ns: UnservedLatency::of(stats.unserved()),
        all_latency_ns: all_latency(&stats.latency(), stats.unserved()),
        in_flight: read.integral as f64 / 1e3 / context.window_ns().max(1e-3),
        ci95,
        enumeration: None,
        coherence: host.coherence().map(HostCoherence::from),
        core: host.core().map(|core| HostCore::of(core, context.end)),
        phases: host
            .hw_threads()
            .map(ThreadPhaseReport::all)
            .unwrap_or_default(),
        processor: host
            .processor()
            .map(|processor| values(processor.counts(context.end)))
            .unwrap_or_default(),
        accelerator: host
            .accelerator()
            .map(|device| values(device.counts(context.end)))
            .unwrap_or_default(),
    }
}

/// Notes on a window that has not settled, or is not as precise as it was to be.
fn unsettled(context: &Context<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    if context.warmed == Warmed::NotSettled {
        notes.push(Note::new(
            "measure.warmup",
            "the warm-up ended before total bandwidth and mean latency had settled; use a longer one, by \
             [measure] warmup_time (docs/guide/error-bars.md)",
        ));
    }
    let what = match context.parts.map(intervals::drifts) {
        Some([true, true]) => "total bandwidth and mean latency",
        Some([true, false]) => "total bandwidth",
        Some([false, true]) => "mean latency",
        Some([false, false]) | None => "",
    };
    if !what.is_empty() {
        let (path, why) = match context.sampling {
            Some(_) => (
                "measure.sampling.warmup",
                "the halves of measured windows differ by more than chance explains, so requests in detail \
                 before them are too few",
            ),
            None => (
                "measure",
                "the halves of the window differ by more than chance explains; use a longer warm-up or \
                 window",
            ),
        };
        notes.push(Note::new(
            path,
            format!("{what} had not settled: {why} (docs/guide/error-bars.md)"),
        ));
    }
    if let Some(wanted) = context.plan.scenario.measure.precision {
        let reached = context.parts.and_then(intervals::relative);
        if reached.is_none_or(|reached| reached > part(wanted)) {
            let reached = reached.map_or("without an interval".to_owned(), |reached| {
                format!("at {:.2} %", reached * 100.0)
            });
            notes.push(Note::new(
                "measure.precision",
                format!(
                    "the precision of {wanted} was not reached: the longest window ended {reached}; \
                     [measure] requests or duration sets it"
                ),
            ));
        }
    }
    notes
}

/// Latency of requests that were served and those that were not together, where there are any of these.
fn all_latency(served: &LatencyProbe, unserved: [&UnservedRequests; 4]) -> Option<Latency> {
    let mut others = unserved.iter().filter_map(|one| one.latency()).peekable();
    others.peek()?;
    let mut all = served.clone();
    others.for_each(|one| all.merge(one));
    Some(latency(&all))
}

fn latency(probe: &LatencyProbe) -> Latency {
    Latency {
        mean: probe.mean_ns(),
        min: probe.min_ns(),
        p50: probe.quantile_ns(0.5),
        p90: probe.quantile_ns(0.9),
        p99: probe.quantile_ns(0.99),
        p999: probe.quantile_ns(0.999),
        max: probe.max_ns(),
    }
}

fn by_hops(hops: &[HopStats], intervals: &Intervals<'_>) -> Vec<ByHops> {
    let used = hops.iter().enumerate().filter(|(_, stats)| stats.count > 0);
    used.map(|(hops, stats)| ByHops {
        hops,
        count: stats.count,
        mean_ns: stats.latency_ps as f64 / stats.count as f64 / 1e3,
        queue_ns: stats.queue_ps as f64 / stats.count as f64 / 1e3,
        ci95: intervals.of_hops(hops),
    })
    .collect()
}

fn links(
    intervals: &Intervals<'_>,
    context: &Context<'_>,
    notes: &mut Vec<Note>,
) -> Vec<LinkReport> {
    let window_ps = context.readings.window.0.max(1) as f64;
    let directions = context.readings.links.as_chunks().0;
    let mut reports = Vec::with_capacity(2 * directions.len());
    for (link, [forward, backward]) in context.plan.links.iter().zip(directions) {
        let (a, b) = (context.plan.end_name(link.a), context.plan.end_name(link.b));
        for (read, from, to) in [(forward, a, b), (backward, b, a)] {
            let (stats, waits) = (&read.stats, &read.waits);
            let report = LinkReport {
                name: format!("{a}--{b}"),
                direction: format!("{from}->{to}"),
                link_class: context.plan.link_classes[link.class].name.clone(),
                utilization: (stats.busy_ps as f64 / window_ps).min(1.0),
                efficiency: if stats.bytes == 0 {
                    0.0
                } else {
                    stats.payload_bytes as f64 / stats.bytes as f64
                },
                bytes: stats.bytes,
                payload_bytes: stats.payload_bytes,
                flits: stats.flits,
                retries: stats.retries,
                rate_gb_per_s: link.params.rate().as_gb_per_s(),
                messages: stats.messages,
                wait_ns: Wait::of(&waits.all, stats.messages),
                credit_wait_ns: mean_ns(waits.credits_ps, stats.messages),
                ci95: intervals.of_link(reports.len()),
            };
            notes.extend(limited::by_credits(
                context.plan,
                link,
                read,
                &report,
                window_ps,
            ));
            reports.push(report);
        }
    }
    reports
}
