//! Devices in a report.

use cxlab_device::MediaErrorStats;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Bandwidth, Denied, DeviceCi95, Wait};

/// Measurements of a device.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceReport {
    /// Name of the device.
    pub name: String,
    /// Lines that the medium read for hosts.
    pub reads: u64,
    /// Lines that the medium wrote for hosts.
    pub writes: u64,
    /// Lines that it read before their request, if a host sends speculative reads (`MemSpecRd`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_reads: Option<u64>,
    /// Requests that it denied in addition, if hosts gain or lose memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// Load that it reported, if it has QoS telemetry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<DeviceLoad>,
    /// Poison that was read and written, if its lines may be poison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<MediaErrorStats>,
    /// Effects of viral, if an event brings it to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viral: Option<DeviceViral>,
    /// Payload of the requests that the device serves.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Wait before the media accept a request.
    #[serde(default)]
    pub wait_ns: Wait,
    /// The part of the mean wait that is for the medium; the rest is for a context.
    #[serde(default)]
    pub medium_wait_ns: f64,
    /// Half-widths of the 95 % confidence intervals of these rates.
    #[serde(default)]
    pub ci95: DeviceCi95,
    /// Statistics of its DCOH and snoop filter, if it keeps its memory coherent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherence: Option<DeviceCoherence>,
    /// Statistics of its media: name and value (`docs/reference/statistics.md`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub medium: Map<String, Value>,
}

impl DeviceReport {
    /// Requests that it took: served or denied.
    pub fn taken(&self) -> u64 {
        self.reads + self.writes + self.denied.map_or(0, |denied| denied.total())
    }
}

/// Responses of a device by the load that they reported (DevLoad).
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct DeviceLoad {
    /// Responses that reported light load.
    pub light: u64,
    /// Responses that reported optimal load.
    pub optimal: u64,
    /// Responses that reported moderate overload.
    pub moderate: u64,
    /// Responses that reported severe overload.
    pub severe: u64,
}

/// Effects of viral on a device.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceViral {
    /// Time at which the device went viral for the first host, from the start of the workloads.
    pub since_ns: f64,
    /// Writes that the device dropped, which `writes` counts too.
    pub dropped_writes: u64,
}

/// Statistics of a DCOH and its snoop filter.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceCoherence {
    /// Requests on M2S Req.
    pub requests: u64,
    /// Requests that need an entry of the snoop filter and found that of their line.
    pub filter_hits: u64,
    /// Requests that need an entry of the snoop filter and found none.
    pub filter_misses: u64,
    /// Entries of the snoop filter that were evicted.
    pub evictions: u64,
    /// Snoop messages sent.
    pub snoops: u64,
    /// Snoop messages for several lines, such as BISnpCurBlk.
    pub block_snoops: u64,
    /// Messages for several lines that join snoops for requests, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_snoops: Option<u64>,
    /// Copies in caches of hosts that snoops invalidated.
    pub invalidated: u64,
    /// Modified lines written back.
    pub writebacks: u64,
    /// Snoops of a line with a request in flight.
    pub conflicts: u64,
    /// Largest number of entries in use at once.
    pub peak_entries: u32,
    /// Time that requests waited for their line, summed over requests.
    pub line_wait_ns: f64,
    /// Time that requests waited for an entry of the snoop filter, summed over requests.
    pub entry_wait_ns: f64,
    /// Time that requests waited for snoops of their own line, summed over requests.
    pub snoop_wait_ns: f64,
}
