//! The schema of the report: the names and units of what a run measured.

mod bottleneck;
mod ci95;
mod devices;
mod enumeration;
mod events;
mod issuers;
mod links;
mod requests;

use std::borrow::Cow;

use cxlab_scenario::Note;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use bottleneck::{Bottleneck, Limit};
pub use ci95::{DeviceCi95, HopsCi95, HostCi95, LinkCi95, ReportCi95};
pub use devices::{DeviceCoherence, DeviceLoad, DeviceReport, DeviceViral};
pub use enumeration::{Accesses, EnumerationPhase, EnumerationReport};
pub use events::{CommandReport, FailuresReport, PoolReport};
pub use issuers::{
    CoreReport, CoreThread, HostCoherence, HostReport, PhaseReport, ThreadPhaseReport,
    ThrottleReport,
};
pub use links::LinkReport;
pub use requests::{Bandwidth, Denied, FailedRequests, Latency, Requests, UnservedLatency, Wait};

pub use crate::series::TimeSeries;

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

/// The report of a run. Only `extent.wall_seconds`, `extent.events_per_second` and `requests.per_wall_second` may
/// differ between identical runs. The JSON text has the fields of [`Provenance`] and [`Extent`] beside the others.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Report {
    /// The run that was measured.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// How much was simulated and measured.
    #[serde(flatten)]
    pub extent: Extent,
    /// Number of requests in the window, by outcome.
    pub requests: Requests,
    /// Rates of 64-byte lines in the window, in GB/s (10^9 bytes per second), without requests that
    /// were denied or failed.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of the requests served in the window: completed, and neither denied nor failed.
    pub latency_ns: Latency,
    /// Latency of served reads.
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
    /// Latency of served requests by number of links crossed.
    pub by_hops: Vec<ByHops>,
    /// Half-widths of the 95 % confidence intervals of these rates and means.
    #[serde(default)]
    pub ci95: ReportCi95,
    /// Effects of failures on messages, if the scenario has failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<FailuresReport>,
    /// Commands of the fabric manager up to the end of the run, in the order of issue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandReport>,
    /// Regions whose blocks are granted by demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolReport>,
    /// Little's law: mean number of requests in flight against rate times latency.
    pub littles_law: LittlesLaw,
    /// Hosts, in the order of the scenario.
    pub hosts: Vec<HostReport>,
    /// Accelerators, in the order of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<HostReport>,
    /// Devices, in the order of the scenario.
    pub devices: Vec<DeviceReport>,
    /// Links, by direction.
    pub links: Vec<LinkReport>,
    /// The limit on the rate; absent if no request completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Latency of served requests: upper bound of each bin in nanoseconds, and number of requests.
    pub latency_histogram: Vec<(f64, u64)>,
    /// Requests completed over the window.
    pub time_series: TimeSeries,
}

/// The run that a report is of: its input, its version, and whether it came to its end.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Provenance {
    /// Version of cxlab.
    pub version: String,
    /// Version of the names in the report, [`FORMAT`]; 1 where it is missing.
    #[serde(default = "first_format")]
    pub format: u32,
    /// The scenario's name.
    pub scenario: String,
    /// Hash of everything that can change the result but the seed.
    pub plan_hash: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// The run's ID, in all its files; empty in reports of older versions.
    #[serde(default)]
    pub run: String,
    /// Hash of the order of all events, hexadecimal.
    pub digest: String,
    /// Whether the run was interrupted before its window ended.
    pub partial: bool,
    /// Error of a plug-in that interrupted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Assumptions and limits of the scenario and of this run that users should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// How much a run simulated and measured, and in what time.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Extent {
    /// Simulated time when the workloads began, where hosts enumerate before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enumeration_ns: Option<f64>,
    /// Simulated time when measurement began.
    pub warmup_ns: f64,
    /// Latest simulated time at which the transient had ended, where the run found its warm-up itself.
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
    /// Number of events handled, warm-up included.
    pub events: u64,
    /// Events per real second.
    pub events_per_second: f64,
}

/// Requests that a sampled run simulated in detail, and requests that it applied without time.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct SamplingReport {
    /// Number of sampling units that were measured.
    pub units: u64,
    /// Requests since the warm-up: warmed ones and detailed ones.
    pub requests: u64,
    /// Requests applied to caches, buffers and mappings without time, those of the warm-up included.
    pub warmed: u64,
    /// Requests simulated in detail.
    pub detailed: u64,
    /// Requests that completed in measured windows.
    pub measured: u64,
    /// `measured` over `requests`.
    pub measured_fraction: f64,
    /// Estimate of the simulated time that `requests` take; absent where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<f64>,
    /// Half-width of the 95 % confidence interval of `time_ns`.
    pub time_ci95_ns: Option<f64>,
}

/// Operations of several lines, each of which is a request too.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Operations {
    /// Operations completed in the window.
    pub completed: u64,
    /// Latency from the issue of the first line to the completion of the last.
    pub latency_ns: Latency,
}

/// Requests that crossed the same number of links.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct ByHops {
    /// Links crossed by the response.
    pub hops: usize,
    /// Number of requests.
    pub count: u64,
    /// Mean latency of these requests.
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
