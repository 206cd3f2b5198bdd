//! Changes of the system during the run: failures, commands of the fabric manager, and pooled memory.

use serde::{Deserialize, Serialize};

/// Effects of failures on messages, from the beginning of the run.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct FailuresReport {
    /// Failures and repairs.
    #[serde(default)]
    pub changes: u64,
    /// Changes of the routing.
    #[serde(default)]
    pub routing_changes: u64,
    /// Changes of the routing that waited until virtual channels of earlier routing states had drained.
    #[serde(default)]
    pub delayed_routing_changes: u64,
    /// Longest delay of a change of the routing.
    #[serde(default)]
    pub longest_routing_delay_ns: f64,
    /// Messages lost: on links, in switches, in devices, and in front of links that did not work.
    pub lost_messages: u64,
    /// Messages among them that switches discarded because a later routing state took their virtual channel.
    #[serde(default)]
    pub discarded_messages: u64,
    /// Responses that arrived after the time-out of their request.
    pub late_answers: u64,
    /// Requests that timed out. In a run that ends by itself, lost messages and late responses together.
    pub timed_out: u64,
}

/// A command of the fabric manager. Times count from when the workloads begin.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct CommandReport {
    /// Name of the command in the specification.
    pub command: String,
    /// Opcode of the command, as the specification writes it.
    pub opcode: String,
    /// Objects that the command is about.
    pub of: String,
    /// Time at which the command was issued.
    pub issued_ns: f64,
    /// Time at which the command was carried out, or failed; absent if the run ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<f64>,
    /// Return code of the command; absent if the run ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

/// A pooled region, from when the workloads begin to the end of the run. Means are over time.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PoolReport {
    /// Name of the region.
    pub region: String,
    /// Policy by which blocks were granted.
    pub policy: String,
    /// Capacity of the pool.
    pub capacity_gib: f64,
    /// Number of demands of hosts.
    pub demands: u64,
    /// Number of demands that were refused.
    pub refused: u64,
    /// Mean capacity that hosts needed.
    pub needed_gib: f64,
    /// Mean capacity that hosts had.
    pub held_gib: f64,
    /// Mean capacity that hosts had beyond their need.
    pub idle_gib: f64,
    /// Mean capacity that hosts needed and did not have.
    pub unmet_gib: f64,
    /// Stranded capacity, mean over the whole time: free capacity while some host had less than it needed, else 0.
    /// Capacity that is being scrubbed does not count.
    pub stranded_gib: f64,
    /// Largest number of contiguous runs of free blocks.
    pub most_free_runs: u64,
    /// Largest number of contiguous runs of granted blocks.
    pub most_extents: u64,
}
