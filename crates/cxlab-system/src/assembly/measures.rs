//! Means and distributions of the report, from what components count.

use cxlab_engine::probe::{LatencyProbe, WaitProbe};
use cxlab_host::{HopStats, UnservedRequests};
use cxlab_memory::Statistic;
use serde_json::{Map, Value};

use crate::intervals::Intervals;
use crate::report::{ByHops, Latency, UnservedLatency, Wait};

/// A mean in nanoseconds of a sum in picoseconds.
pub(super) fn mean_ns(sum_ps: u128, count: u64) -> f64 {
    sum_ps as f64 / 1e3 / count.max(1) as f64
}

impl Wait {
    pub(super) fn of(waits: &WaitProbe, passed: u64) -> Wait {
        Wait {
            mean: mean_ns(waits.sum_ps(), passed),
            p99: waits.quantile_ps(0.99, passed) as f64 / 1e3,
            max: waits.max_ps() as f64 / 1e3,
        }
    }
}

pub(super) fn latency(probe: &LatencyProbe) -> Latency {
    Latency {
        mean: probe.mean_ns(),
        min: probe.min_ns(),
        p50: probe.quantile_ns(0.5),
        p90: probe.quantile_ns(0.9),
        p99: probe.quantile_ns(0.99),
        p999: probe.quantile_ns(0.999),
        max: probe.max_ns(),
    }
}

impl UnservedLatency {
    pub(super) fn of(unserved: [&UnservedRequests; 4]) -> UnservedLatency {
        let [denied, timed_out, cut_off, poisoned] = unserved.map(|one| one.latency().map(latency));
        UnservedLatency {
            denied,
            timed_out,
            cut_off,
            poisoned,
        }
    }
}

/// Latency of requests that were served and those that were not together, where there are any of these.
pub(super) fn all_latency(
    served: &LatencyProbe,
    unserved: [&UnservedRequests; 4],
) -> Option<Latency> {
    let mut others = unserved.iter().filter_map(|one| one.latency()).peekable();
    others.peek()?;
    let mut all = served.clone();
    others.for_each(|one| all.merge(one));
    Some(latency(&all))
}

pub(super) fn by_hops(hops: &[HopStats], intervals: &Intervals<'_>) -> Vec<ByHops> {
    let used = hops.iter().enumerate().filter(|(_, stats)| stats.count > 0);
    used.map(|(hops, stats)| ByHops {
        hops,
        count: stats.count,
        mean_ns: stats.latency_sum_ps as f64 / stats.count as f64 / 1e3,
        queue_ns: stats.queue_sum_ps as f64 / stats.count as f64 / 1e3,
        ci95: intervals.of_hops(hops),
    })
    .collect()
}

/// A medium's statistics as the report has them.
pub(super) fn values(statistics: Vec<Statistic>) -> Map<String, Value> {
    let pairs = statistics.into_iter();
    pairs.map(|one| (one.name, one.value.into())).collect()
}
