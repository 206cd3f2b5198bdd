//! What changed the system during the run: failures, commands of the fabric manager, and pooled memory.

use serde::{Deserialize, Serialize};

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
