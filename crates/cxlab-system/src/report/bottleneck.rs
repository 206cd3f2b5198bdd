//! The bottleneck of a run, as the report has it.

use serde::{Deserialize, Serialize};

/// Kind of limit on the rate of a run.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The wire of a link's direction is busy.
    Wire,
    /// The buffer at the far end of a link is too small for the link's round trip.
    Credits,
    /// A device's medium is busy: requests wait for it, or inside of it.
    Medium,
    /// A device has no context for one more request.
    Contexts,
    /// Hosts have as many requests in flight as they may.
    Outstanding,
    /// Hosts had more to send than the load that devices report (DevLoad) lets them.
    Throttle,
    /// Hosts issue as fast as their workload lets them.
    Pace,
}

impl Limit {
    /// Whether nothing but the hosts themselves limits the rate.
    pub(crate) fn is_of_hosts(self) -> bool {
        matches!(self, Limit::Outstanding | Limit::Throttle | Limit::Pace)
    }
}

/// The bottleneck of a run, by measured utilization and waits.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Bottleneck {
    /// A link's direction, a device, or `hosts`.
    pub name: String,
    /// The resource that is exhausted.
    pub limit: Limit,
    /// Number of other places that are alike: wires that are as busy, or devices or links with the same limit
    /// and at least half of the mean wait.
    #[serde(default)]
    pub alike: usize,
    /// Fraction of the window in which the wire was busy, where the bottleneck is a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Mean wait for the limiting resource, over all messages or requests that pass.
    pub wait_ns: f64,
    /// Fraction of all requests' latency that is spent in that wait, there and at the places that are alike.
    pub share: f64,
    /// The longest stage (a key of `stages_ns`), where its time says more than the wait: if hosts limit the rate, or if
    /// requests take longer in media than they wait here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_stage: Option<String>,
    /// The fields above as one sentence.
    pub text: String,
}
