//! Hosts and accelerators.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Bandwidth, Denied, EnumerationReport, FailedRequests, HostCi95, Latency, UnservedLatency,
};

/// Measurements of a host or an accelerator.
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
    /// Completed requests that devices denied, if hosts gain or lose memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// Completed requests that failed, if the scenario has failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedRequests>,
    /// Actions of its throttle, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleReport>,
    /// Payload, without requests denied or failed.
    pub bandwidth_gb_per_s: Bandwidth,
    /// Latency of served requests.
    pub latency_ns: Latency,
    /// Mean time of its served requests in each stage.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub stages_ns: Map<String, Value>,
    /// Latency of requests that completed without being served, if there are any.
    #[serde(default, skip_serializing_if = "UnservedLatency::is_empty")]
    pub unserved_latency_ns: UnservedLatency,
    /// Latency of all completed requests, served or not, if some were not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_latency_ns: Option<Latency>,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Half-widths of the 95 % confidence intervals of these rates and means.
    #[serde(default)]
    pub ci95: HostCi95,
    /// Its enumeration, if the run begins with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enumeration: Option<EnumerationReport>,
    /// Statistics of its cache, if it holds lines of memory that devices keep coherent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherence: Option<HostCoherence>,
    /// Statistics of its program, if it has a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreReport>,
    /// Statistics of its threads in each phase of their kernel, if it runs threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ThreadPhaseReport>,
    /// Statistics of caches, home agent, memory and operating system, if the host has a processor,
    /// by name (`docs/reference/statistics.md`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub processor: Map<String, Value>,
    /// Statistics of caches, engines and memory, if it is an accelerator,
    /// by name (`docs/reference/statistics.md`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub accelerator: Map<String, Value>,
}

/// Actions of a host's throttle in the window.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct ThrottleReport {
    /// Periods after which the host raised its rate.
    pub faster: u64,
    /// Periods after which the host lowered its rate.
    pub slower: u64,
    /// Fraction of the periods in which it issued at least 90 % of what its rate allowed.
    #[serde(default)]
    pub held: f64,
    /// Allowed rate at the end; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_gb_per_s: Option<f64>,
}

/// Statistics of a component's threads in a phase of their kernel, since the beginning of the run.
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
    /// Latency of memory operations that were neither denied nor failed, from begin to completion.
    pub latency_ns: Latency,
}

/// Statistics of a core's program, from the beginning of the run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct CoreReport {
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
    /// Lines that its prefetcher requested, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetches: Option<u64>,
    /// Time in which the program waited for memory, however many requests it had outstanding.
    #[serde(default)]
    pub outstanding_ns: f64,
    /// Phases of the program, in order.
    pub phases: Vec<PhaseReport>,
    /// Threads of a program of several, for `cxlab attach --verify`; not in files.
    #[serde(skip)]
    pub threads: Vec<CoreThread>,
    /// Statistics of the host's own memory: name with unit, and value.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memory: Map<String, Value>,
}

/// Times of one of several threads of a program on a core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoreThread {
    /// Time at which the thread began.
    pub begin_ns: f64,
    /// Time at which its last step completed.
    pub end_ns: f64,
    /// Time in between in which it waited for other threads.
    pub waited_ns: f64,
}

/// Statistics of a phase of a core's program.
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

/// Statistics of a cache that holds lines of memory that devices keep coherent.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct HostCoherence {
    /// Accesses that found their line in a sufficient state.
    pub hits: u64,
    /// Accesses that sent a request.
    pub misses: u64,
    /// Accesses that waited for the request of another access to the same line.
    pub merged: u64,
    /// Stores to lines in state S.
    pub upgrades: u64,
    /// Evicted clean lines that the host reported to the device.
    pub clean_evictions: u64,
    /// Modified lines that were evicted.
    pub dirty_evictions: u64,
    /// Lines that back-invalidate snoops invalidated.
    pub invalidated: u64,
    /// Modified lines that back-invalidate snoops wrote back.
    pub snoop_writebacks: u64,
    /// Snoops of a line with a request in flight.
    pub conflicts: u64,
}
