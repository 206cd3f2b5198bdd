//! Confidence intervals of a report's values.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Half-widths of the 95 % confidence intervals of the report's own rates and means, and the data that all
/// intervals of the report are computed from. `null` marks a value without an interval.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct ReportCi95 {
    /// Number of batches of equal simulated time; in a sampled run, of sampling units.
    pub batches: u64,
    /// Length of a batch; in a sampled run, the mean length of a measured window.
    pub batch_ns: f64,
    /// Why a value of this table has no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Half-width for `bandwidth_gb_per_s.total`.
    pub total_gb_per_s: Option<f64>,
    /// Half-width for `bandwidth_gb_per_s.read`.
    pub read_gb_per_s: Option<f64>,
    /// Half-width for `bandwidth_gb_per_s.write`.
    pub write_gb_per_s: Option<f64>,
    /// Half-width for `latency_ns.mean`. Percentiles have no interval.
    pub latency_ns: Option<f64>,
    /// Half-width for `read_latency_ns.mean`.
    pub read_latency_ns: Option<f64>,
    /// Half-width for `littles_law.in_flight`.
    pub in_flight: Option<f64>,
    /// Half-width for each entry of `stages_ns`.
    pub stages_ns: Map<String, Value>,
}

/// Half-widths of the 95 % confidence intervals of a host's or an accelerator's rates and means.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct HostCi95 {
    /// Why a value of this table has no interval, unless the report's `ci95` gives the reason for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Half-width for `bandwidth_gb_per_s.total`.
    pub total_gb_per_s: Option<f64>,
    /// Half-width for `bandwidth_gb_per_s.read`.
    pub read_gb_per_s: Option<f64>,
    /// Half-width for `bandwidth_gb_per_s.write`.
    pub write_gb_per_s: Option<f64>,
    /// Half-width for `latency_ns.mean`.
    pub latency_ns: Option<f64>,
    /// Half-width for `in_flight`.
    pub in_flight: Option<f64>,
}

/// Half-widths of the 95 % confidence intervals of a device's rates.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct DeviceCi95 {
    /// Why a value of this table has no interval, unless the report's `ci95` gives the reason for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Half-width for `bandwidth_gb_per_s.total`.
    pub total_gb_per_s: Option<f64>,
    /// Half-width for `bandwidth_gb_per_s.read`.
    pub read_gb_per_s: Option<f64>,
    /// Half-width for `bandwidth_gb_per_s.write`.
    pub write_gb_per_s: Option<f64>,
}

/// Half-widths of the 95 % confidence intervals of one direction of a link.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct LinkCi95 {
    /// Why a value of this table has no interval, unless the report's `ci95` gives the reason for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Half-width for `utilization`.
    pub utilization: Option<f64>,
    /// Half-width for `efficiency`.
    pub efficiency: Option<f64>,
    /// Half-width for the payload rate: `payload_bytes` over the window.
    pub payload_gb_per_s: Option<f64>,
}

/// Half-widths of the 95 % confidence intervals for requests grouped by links crossed.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct HopsCi95 {
    /// Why a value of this table has no interval, unless the report's `ci95` gives the reason for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Half-width for `mean_ns`.
    pub mean_ns: Option<f64>,
    /// Half-width for `queue_ns`.
    pub queue_ns: Option<f64>,
}
