//! Parameters of a device's telemetry.

use cxlab_engine::units::{BytesPerSec, Picos};
use cxlab_protocol::PortId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// User parameters of a device's telemetry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct QosParams {
    /// Number of requests inside from which the load is optimal; below it the load is light. 1
    /// to 65536. Default: the number that just saturates the device, which is its bandwidth
    /// times the time of a request inside an unloaded device (Little's law). The specification
    /// leaves all three thresholds to the device.
    #[schemars(range(min = 1, max = 65536))]
    pub optimal: Option<u32>,
    /// Number of requests inside from which the load is moderate overload. 1 to 65536. Default:
    /// twice `optimal`, where a request waits as long as it is served. More if random arrivals and
    /// pauses of the medium (refresh of DRAM) bring more requests inside at 90 % use.
    #[schemars(range(min = 1, max = 65536))]
    pub moderate: Option<u32>,
    /// Number of requests inside from which the load is severe overload. 1 to 65536. Default:
    /// four times `moderate` (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub severe: Option<u32>,
    /// Completion Collection Interval: the responses to a host are counted over the last 16 of
    /// them. 1 to 127 ns, the range of the register. Default 64 ns, as for an MLD.
    pub completion_collection_interval: Picos,
    /// Backpressure Sample Interval: how often the port is sampled for messages that wait for
    /// credits. 1 to 31 ns, the range of the register, or 0: no Egress Port Congestion. Default 0.
    pub backpressure_sample_interval: Picos,
    /// Egress Moderate Percentage: number of the last 100 samples with backpressure from which the
    /// load is at least moderate overload. 1 to 100. Default 10 (the register's, *recollection*).
    #[schemars(range(min = 1, max = 100))]
    pub egress_moderate_percentage: u8,
    /// Egress Severe Percentage: number of these samples from which the load is severe overload. 1
    /// to 100. Default 25 (the register's, *recollection*).
    #[schemars(range(min = 1, max = 100))]
    pub egress_severe_percentage: u8,
    /// Maximum bandwidth of the device. Limits are fractions of the completions at this rate
    /// in 16 intervals (ReqCmpBasis, derated by the requests inside). Default: none; required
    /// if there are limits.
    pub bandwidth: Option<BytesPerSec>,
    /// Shares of hosts. A host without a share has an allocation of zero and
    /// no limit. Default: none.
    pub shares: Vec<ShareParams>,
}

impl Default for QosParams {
    fn default() -> Self {
        QosParams {
            optimal: None,
            moderate: None,
            severe: None,
            completion_collection_interval: Picos::from_nanos(64),
            backpressure_sample_interval: Picos::ZERO,
            egress_moderate_percentage: 10,
            egress_severe_percentage: 25,
            bandwidth: None,
            shares: Vec::new(),
        }
    }
}

/// The highest allowed threshold (*assumed*).
const MOST_INSIDE: u32 = 65_536;
/// Minimum distance of the default [`QosParams::moderate`] above `optimal` (*assumed*). The tail of
/// an M/D/1 queue at 90 % use falls by a factor of exp(-0.207) a request, so that 16 or more wait
/// in about 3 % of the time.
const BURST: u32 = 16;
/// Factor between [`QosParams::moderate`] and the default of [`QosParams::severe`] (*assumed*).
const SEVERE: u32 = 4;

/// Numbers of requests inside from which a device reports each load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadThresholds {
    /// From here on the load is optimal.
    pub optimal: u32,
    /// From here on the load is moderate overload.
    pub moderate: u32,
    /// From here on the load is severe overload.
    pub severe: u32,
}

impl QosParams {
    /// The thresholds in force: those that the user gave, and defaults for the others. `full` is
    /// the number of requests inside that just saturates the device. `spread` is the number of
    /// additional requests inside by chance at 90 % use. `most` is the capacity of the device, so
    /// that a default is reached before the buffers are full.
    pub fn thresholds(&self, full: u32, spread: u32, most: u32) -> LoadThresholds {
        let optimal = self.optimal.unwrap_or(full.clamp(1, MOST_INSIDE - 2));
        let moderate = self.moderate.unwrap_or_else(|| {
            let between = optimal.saturating_add(most) / 2;
            let twice = optimal.saturating_add(optimal.max(spread).max(BURST));
            twice
                .min(between)
                .clamp(optimal + 1, MOST_INSIDE.max(optimal + 1))
        });
        let severe = self.severe.unwrap_or_else(|| {
            let times = moderate.saturating_mul(SEVERE);
            times.min(most).max(moderate + 1)
        });
        LoadThresholds {
            optimal,
            moderate,
            severe,
        }
    }
}

/// The share of a host, which is the logical device of that host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct ShareParams {
    /// Name of the host.
    pub host: String,
    /// QoS Allocation Fraction, in 256ths of the current use of all hosts. A host within its
    /// allocation is reported less overload. 0 to 256, at most 256 in sum.
    #[schemars(range(max = 256))]
    pub allocated: u16,
    /// QoS Limit Fraction, in 256ths: use above it is overload for this host, whatever other hosts
    /// use. 1 to 256. Default: no limit.
    #[serde(default)]
    #[schemars(range(min = 1, max = 256))]
    pub limit: Option<u16>,
}

/// A share whose host is resolved to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostShare {
    /// Edge port of the host.
    pub host: PortId,
    /// Allocation fraction in 256ths.
    pub allocated: u16,
    /// Limit fraction in 256ths; `None` for no limit.
    pub limit: Option<u16>,
}

/// Everything that telemetry is built from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosConfig {
    /// User parameters. Their shares by name and their thresholds are ignored here.
    pub params: QosParams,
    /// The thresholds in force.
    pub thresholds: LoadThresholds,
    /// Number of edge ports from which requests may come.
    pub edge_ports: usize,
    /// Shares of hosts; a host without one has no allocation and no limit.
    pub shares: Vec<HostShare>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_that_are_not_given_follow_from_those_below_and_fit_into_the_device() {
        let of = |given: [Option<u32>; 3], full, most| {
            let [optimal, moderate, severe] = given;
            let params = QosParams {
                optimal,
                moderate,
                severe,
                ..QosParams::default()
            };
            let found = params.thresholds(full, 20, most);
            [found.optimal, found.moderate, found.severe]
        };
        // A slow medium and a fast one, with a capacity of a thousand requests.
        assert_eq!(of([None; 3], 3, 1000), [3, 23, 92]);
        assert_eq!(of([None; 3], 100, 1000), [100, 200, 800]);
        // Buffers for 320 requests: `moderate` is halfway between the first threshold and the
        // capacity, `severe` is the capacity.
        assert_eq!(of([None; 3], 244, 320), [244, 282, 320]);
        assert_eq!(of([None; 3], 400, 320), [400, 401, 402]);
        assert_eq!(of([Some(8), None, None], 100, 1000), [8, 28, 112]);
        assert_eq!(of([None, Some(32), None], 3, 1000), [3, 32, 128]);
        assert_eq!(of([Some(1), Some(2), Some(3)], 100, 1000), [1, 2, 3]);
        assert_eq!(of([None; 3], u32::MAX, 7), [65_534, 65_535, 65_536]);
        let [optimal, moderate, severe] = of([Some(65_536), None, None], 1, 7);
        assert!(optimal < moderate && moderate < severe);
    }
}
