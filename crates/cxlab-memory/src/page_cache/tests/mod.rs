mod data;
mod parameters;
mod timing;

use cxlab_engine::units::{Bytes, SimTime};
use serde_json::{Value, json};

use super::{DramCache, DramCacheParams, MovementObserver, NoObserver};
use crate::testing::{self, prompt_times, request, with};
use crate::{Completion, MediumSite, MemoryBackend};

/// Parameters with a slow medium of 3 us to read and 100 us to write, unless
/// `given` says otherwise.
fn params(given: Value) -> DramCacheParams {
    let all = json!({
        "size": "64 KiB",
        "behind": { "kind": "fixed", "latency": "3 us", "write_latency": "100 us" },
    });
    serde_json::from_value(with(all, &given)).unwrap()
}

fn cache_with<O: MovementObserver>(given: Value, capacity: u64, observer: O) -> DramCache<O> {
    let site = MediumSite::alone(Bytes(capacity), 1);
    DramCache::new(&params(given), site, observer).unwrap()
}

fn cache(given: Value) -> DramCache {
    cache_with(given, 1 << 20, NoObserver)
}

/// Completion time of each request (time, address, write) of 64 bytes.
fn times(cache: &mut DramCache, requests: &[(u64, u64, bool)]) -> Vec<u64> {
    let lines: Vec<_> = requests
        .iter()
        .map(|(at, dpa, write)| (*at, *dpa, 1, *write))
        .collect();
    prompt_times(cache, &lines)
}

fn statistic(cache: &dyn MemoryBackend, name: &str) -> f64 {
    testing::statistic(cache, u64::MAX / 2, name)
}
