//! Links in a report.

use serde::{Deserialize, Serialize};

use super::{LinkCi95, Wait};

/// Measurements of one direction of a link.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct LinkReport {
    /// Name of the link: its ends joined by `--`.
    pub name: String,
    /// Direction: `transmitter` `->` `receiver`.
    pub direction: String,
    /// Name of the component that sends; empty in reports of older versions.
    #[serde(default)]
    pub transmitter: String,
    /// Name of the component that receives; empty in reports of older versions.
    #[serde(default)]
    pub receiver: String,
    /// Name of its class of links, if it is a named link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_class: Option<String>,
    /// Fraction of the window in which the wire was busy.
    pub utilization: f64,
    /// Payload (64-byte lines) as a fraction of all bytes sent.
    pub efficiency: f64,
    /// Bytes sent, headers and empty slots included.
    pub bytes: u64,
    /// Bytes of 64-byte lines among the bytes sent.
    pub payload_bytes: u64,
    /// `payload_bytes` over the window, in GB/s; 0 in reports of older versions.
    #[serde(default)]
    pub payload_gb_per_s: f64,
    /// Flits (or packets) sent.
    pub flits: u64,
    /// Flits sent again after an error.
    pub retries: u64,
    /// Rate of the wire.
    pub rate_gb_per_s: f64,
    /// Number of messages that the direction carried.
    #[serde(default)]
    pub messages: u64,
    /// How long messages wait for the transmitter of this direction to take them: at the output of a host, a switch
    /// or a device. A message that it has taken leaves within a flit, or within `staging` of packets.
    #[serde(default)]
    pub wait_ns: Wait,
    /// The part of the mean wait that is for credits; the rest is for the wire.
    #[serde(default)]
    pub credit_wait_ns: f64,
    /// Half-widths of the 95 % confidence intervals of these values.
    #[serde(default)]
    pub ci95: LinkCi95,
}
