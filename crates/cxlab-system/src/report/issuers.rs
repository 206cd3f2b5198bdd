//! Hosts and accelerators.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Bandwidth, Denied, EnumerationReport, FailedRequests, HostCi95, Latency, UnservedLatency,
};

/// What a host measured.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct HostReport {
    /// Name of the host.
    pub name: String,
    /// Requests issued in the window.
    pub issued: u64,
    /// Requests completed in the window.
    pub completed: u64,
    /// Reads among the completed requests.
    pub reads: u64,
    /// Writes among the completed requests.
    pub writes: u64,
    /// Completed requests that the private cache answered.
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
    /// Payload, without requests denied or failed.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of served requests.
    pub latency_ns: Latency,
    /// Where the mean latency of its served requests went, by stage.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub stages_ns: Map<String, Value>,
    /// Latency of the requests that completed without being served.
    #[serde(default, skip_serializing_if = "UnservedLatency::is_empty")]
    pub unserved_latency_ns: UnservedLatency,
    /// Latency of all requests that completed, served or not, where some were not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_latency_ns: Option<Latency>,
    /// Mean number of requests in flight.
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
    /// Statistics of caches and home agent, if the host has a processor: name and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub processor: Map<String, Value>,
    /// What its cache and its engines did, where it is an accelerator: name and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub accelerator: Map<String, Value>,
}

/// What a host's throttle did in the window.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct ThrottleReport {
    /// Periods after which the host raised its rate.
    pub faster: u64,
    /// Periods after which the host lowered its rate.
    pub slower: u64,
    /// Fraction of the periods in which it issued at least 90 % of what its rate allowed.
    #[serde(default)]
    pub held: f64,
    /// The rate allowed at the end; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_gb_per_s: Option<f64>,
}

/// What the threads of one component did in a phase of their kernel, since the beginning of the run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct ThreadPhaseReport {
    /// Name of the phase.
    pub name: String,
    /// Operations of the kernel that were completed, by its own count.
    pub operations: u64,
    /// Operations of the threads that were completed: loads, stores, atomics, DMA and so on.
    pub steps: u64,
    /// Time from the first begin to the last completion.
    pub time_ns: f64,
    /// Operations of the kernel over that time.
    pub operations_per_second: f64,
    /// Operations of threads on memory.
    #[serde(default)]
    pub on_memory: u64,
    /// Operations on memory whose first byte is in CXL memory.
    #[serde(default)]
    pub on_cxl: u64,
    /// Operations on memory that waited for the host's own memory; caches answered the others.
    #[serde(default)]
    pub from_own: u64,
    /// Operations on memory that waited for CXL memory.
    #[serde(default)]
    pub from_cxl: u64,
    /// Bytes that operations of threads moved, without those denied or failed.
    pub bytes: u64,
    /// Time with at least one such operation in flight.
    pub busy_ns: f64,
    /// `bytes` over `busy_ns`.
    pub bandwidth_gb_per_s: f64,
    /// From begin to completion of each such operation that was neither denied nor failed.
    pub latency_ns: Latency,
}

/// What a core measured of its program, from the beginning of the run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct HostCore {
    /// Loads that the core issued.
    pub loads: u64,
    /// Stores that the core issued.
    pub stores: u64,
    /// Flushes that the core issued.
    pub flushes: u64,
    /// Flushes that found a modified line.
    pub flushes_dirty: u64,
    /// Loads and stores that hit in each private cache, nearest first.
    pub hits: Vec<u64>,
    /// Loads and stores whose line was outstanding already.
    pub merged: u64,
    /// Loads and stores that requested their line from memory.
    pub misses: u64,
    /// Lines that the prefetcher asked memory for, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetches: Option<u64>,
    /// Time in which the program waited for memory, however many of its loads, stores and flushes did at once.
    #[serde(default)]
    pub outstanding_ns: f64,
    /// Phases of the program, in order.
    pub phases: Vec<PhaseReport>,
    /// Threads of a program of several, for `cxlab attach --verify`; not in files.
    #[serde(skip)]
    pub threads: Vec<CoreThread>,
    /// What the medium of the host's own memory kept about itself: name with unit, and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memory: Map<String, Value>,
}

/// Times of one of several threads of a program on a core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoreThread {
    /// When the thread began.
    pub begin_ns: f64,
    /// When its last step completed.
    pub end_ns: f64,
    /// Time in between in which it waited for other threads.
    pub waited_ns: f64,
}

/// What a phase of a program did.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PhaseReport {
    /// Name of the phase.
    pub name: String,
    /// Operations of the program that were completed.
    pub operations: u64,
    /// Loads, stores and flushes that were issued.
    pub steps: u64,
    /// Time from the first issue to the last completion.
    pub time_ns: f64,
    /// Operations over that time.
    pub operations_per_second: f64,
    /// Bytes that the program counts for its operations, over that time; 0 where it counts none.
    pub bandwidth_gb_per_s: f64,
    /// Mean latency of loads, from caches and memory.
    pub load_latency_ns: f64,
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
    /// Snoops that met a request in flight.
    pub conflicts: u64,
}
