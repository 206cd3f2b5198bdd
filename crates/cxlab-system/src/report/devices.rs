//! What a report says of devices.

use cxlab_device::MediaErrorStats;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Bandwidth, Denied, DeviceCi95, Wait};

/// What a device measured.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceReport {
    /// Name of the device.
    pub name: String,
    /// Lines that the medium read for hosts.
    pub reads: u64,
    /// Lines that the medium wrote for hosts.
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
    /// Payload of the requests that the device serves.
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

/// What viral did to a device.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct DeviceViral {
    /// When the first host's part of it came into viral, after the workloads began.
    pub since_ns: f64,
    /// Writes that it dropped, which `writes` counts too.
    pub dropped_writes: u64,
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
    /// Entries of the snoop filter that were evicted.
    pub evictions: u64,
    /// Snoop messages sent.
    pub snoops: u64,
    /// Snoop messages for several lines (BISnpCurBlk and the like).
    pub block_snoops: u64,
    /// Those among them that join snoops for requests, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_snoops: Option<u64>,
    /// Copies that snoops took.
    pub invalidated: u64,
    /// Modified lines written back.
    pub writebacks: u64,
    /// Snoops that met a request in flight.
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
