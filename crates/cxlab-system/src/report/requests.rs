//! Requests, their rates and their latencies.

use cxlab_host::RequesterStats;
use serde::{Deserialize, Serialize};

/// Requests in the window.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Requests {
    /// Requests issued in the window.
    pub issued: u64,
    /// Requests completed in the window.
    pub completed: u64,
    /// Reads among the completed requests.
    pub reads: u64,
    /// Writes among the completed requests.
    pub writes: u64,
    /// Completed requests that a private cache answered.
    pub cache_hits: u64,
    /// Dirty lines written back, which are not counted as requests.
    pub writebacks: u64,
    /// Lines that prefetchers read in vain (`hosts[].issue.overfetch`), which are not counted as requests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overfetched: u64,
    /// Completed requests that devices denied, if hosts gain or lose memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denied>,
    /// Completed requests that failed, if the scenario has failures or media errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedRequests>,
    /// Requests in flight at the end of the window.
    #[serde(alias = "in_flight")]
    pub in_flight_at_end: u64,
    /// Requests completed since the start of the run, warm-up included, per second of real time.
    pub per_wall_second: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Requests whose address no decoder of the device had for their host.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, Debug)]
pub struct Denied {
    /// Reads that were answered `MemData-NXM`, without data.
    pub reads: u64,
    /// Writes that the device dropped.
    pub writes: u64,
}

impl Denied {
    pub(crate) fn of(stats: &RequesterStats) -> Denied {
        Denied {
            reads: stats.denied.reads,
            writes: stats.denied.writes,
        }
    }

    /// Reads and writes together.
    pub fn total(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Requests that ended without a response, or with poison.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, Debug)]
pub struct FailedRequests {
    /// Reads that timed out: the host has no data.
    pub timed_out_reads: u64,
    /// Writes that timed out: the device may have made them, or may still make them.
    pub timed_out_writes: u64,
    /// Reads of devices that the host knew to be unreachable: not sent, no data.
    pub cut_off_reads: u64,
    /// Writes to devices that the host knew to be unreachable: not sent, dropped.
    pub cut_off_writes: u64,
    /// Reads that met poison.
    #[serde(default)]
    pub poisoned_reads: u64,
    /// Atomic operations that met poison.
    #[serde(default)]
    pub poisoned_writes: u64,
}

impl FailedRequests {
    pub(crate) fn of(stats: &RequesterStats) -> FailedRequests {
        FailedRequests {
            timed_out_reads: stats.timed_out.reads,
            timed_out_writes: stats.timed_out.writes,
            cut_off_reads: stats.cut_off.reads,
            cut_off_writes: stats.cut_off.writes,
            poisoned_reads: stats.poisoned.reads,
            poisoned_writes: stats.poisoned.writes,
        }
    }

    pub(crate) fn add(&mut self, other: FailedRequests) {
        self.timed_out_reads += other.timed_out_reads;
        self.timed_out_writes += other.timed_out_writes;
        self.cut_off_reads += other.cut_off_reads;
        self.cut_off_writes += other.cut_off_writes;
        self.poisoned_reads += other.poisoned_reads;
        self.poisoned_writes += other.poisoned_writes;
    }

    /// Reads of all kinds.
    pub fn reads(&self) -> u64 {
        self.timed_out_reads + self.cut_off_reads + self.poisoned_reads
    }

    /// Writes of all kinds.
    pub fn writes(&self) -> u64 {
        self.timed_out_writes + self.cut_off_writes + self.poisoned_writes
    }

    /// Failed requests of all kinds.
    pub fn total(&self) -> u64 {
        self.reads() + self.writes()
    }
}

/// Rates of 64-byte lines, GB/s.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Bandwidth {
    /// Reads and writes together.
    pub total: f64,
    /// Payload that reads bring to the host.
    pub read: f64,
    /// Payload that writes bring to the device.
    pub write: f64,
}

/// A latency distribution in nanoseconds. Percentiles are upper bounds: the ends of bins that are 0.1 % wide,
/// and at least 0.128 ns.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Latency {
    /// Mean latency, exact.
    pub mean: f64,
    /// Shortest latency, exact.
    pub min: f64,
    /// Median, an upper bound.
    pub p50: f64,
    /// 90 % of requests are not slower; an upper bound.
    pub p90: f64,
    /// 99 % of requests are not slower; an upper bound.
    pub p99: f64,
    /// 99.9 % of requests are not slower; an upper bound.
    pub p999: f64,
    /// Longest latency, exact.
    pub max: f64,
}

/// Latency of the requests that completed without being served, by the way in which they ended;
/// absent where none ended so.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct UnservedLatency {
    /// Latency of requests that a device denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Latency>,
    /// Latency of requests that timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<Latency>,
    /// Latency of requests that were not sent, because the host knew that no path leads to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<Latency>,
    /// Latency of requests that ended with poison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poisoned: Option<Latency>,
}

impl UnservedLatency {
    pub(super) fn is_empty(&self) -> bool {
        *self == UnservedLatency::default()
    }

    /// The ways in which requests ended, and their latency.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Latency)> {
        let all = [
            ("denied", &self.denied),
            ("timed out", &self.timed_out),
            ("cut off", &self.cut_off),
            ("poisoned", &self.poisoned),
        ];
        let ended = all.into_iter();
        ended.filter_map(|(name, latency)| Some((name, latency.as_ref()?)))
    }
}

/// How long messages wait at a place, in nanoseconds, over all that pass it: those that do not wait count as 0.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct Wait {
    /// Mean, exact. Messages that do not wait count as 0.
    pub mean: f64,
    /// 99 % do not wait longer. An upper bound: the end of a bin that is at most 12.5 % wide.
    pub p99: f64,
    /// Longest wait, exact.
    pub max: f64,
}
