//! Warm-up and measurement windows, and how a run is executed.

use cxlab_engine::units::{PartsPerMillion, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::threads::ThreadLimit;

/// Warm-up and measurement windows. Each ends at the first sampling point after its condition is
/// met. Sampling points are spaced by simulated time, so windows do not depend on how a run is executed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// `"auto"`: the run finds the end of its warm-up, where total bandwidth and mean latency have settled (MSER,
    /// docs/guide/error-bars.md). The warm-up has at least a tenth of the length of the measured window, and at
    /// most its length. Not with `warmup_requests` or `warmup_time`. Default: `"auto"` where neither is given, all
    /// workloads are endless, and there are no events; otherwise a tenth of `requests`, and nothing where
    /// `requests` is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Warmup>,
    /// The warm-up ends when this many requests have completed in the whole system.
    pub warmup_requests: Option<u64>,
    /// The warm-up ends after this time. Not with `warmup_requests`.
    pub warmup_time: Option<Picos>,
    /// The measured window ends when this many requests have completed in it in the whole system, and requests in
    /// flight are as old as they were at its beginning (docs/guide/error-bars.md). Default: 100,000 and 20 mean
    /// latencies, when neither `duration` is given nor every workload ends by itself.
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// The measured window ends after this time. Not with `requests`.
    pub duration: Option<Picos>,
    /// The measured window ends as soon as the 95 % confidence intervals of total bandwidth and mean latency are
    /// at most this part of their value to each side. `requests` or `duration` is the longest window then.
    /// Default: none, and 10,000,000 requests where it is given without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PartsPerMillion>,
    /// Measure windows far apart in detail, and apply the requests between them to caches, buffers and
    /// mappings without time (docs/guide/sampling.md). `warmup_requests` and `requests` count both kinds; not
    /// with `warmup`, `warmup_time` or `duration`. Default: none, all is simulated in detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
}

/// How a run is sampled, in requests of the whole system.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Requests from one unit to the next. At least twice `warmup` and `detailed` together. Default 100,000.
    pub every: u64,
    /// Requests that are measured in each unit. At least 10. Default 1,000.
    #[schemars(range(min = 10))]
    pub detailed: u64,
    /// Requests simulated in detail before the measured ones, to fill queues. Default 1,000.
    pub warmup: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            every: 100_000,
            detailed: 1_000,
            warmup: 1_000,
        }
    }
}

/// How a warm-up ends.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// When total bandwidth and mean latency have settled.
    Auto,
}

/// How the run is executed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Execution {
    /// Threads at most: 1 to 256, or `auto` for as many as the process has processors. A run uses no
    /// more than make it faster. Default `auto`. The result is the same for every number.
    pub threads: ThreadLimit,
}
