mod data;
mod parameters;
mod timing;

use cxlab_engine::units::{Bytes, Dpa, SimTime};
use serde_json::{Value, json};

use super::{DramCache, DramCacheParams, MovementObserver, NoObserver};
use crate::MediumSite;
use crate::backend::{Completion, MemoryBackend, MemoryRequest};

/// Parameters with a slow medium of 3 us to read and 100 us to write, unless
/// `given` says otherwise.
fn params(given: Value) -> DramCacheParams {
    let mut all = json!({
        "size": "64 KiB",
        "behind": { "kind": "fixed", "latency": "3 us", "write_latency": "100 us" },
    });
    for (key, value) in given.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn cache_with<O: MovementObserver>(given: Value, capacity: u64, observer: O) -> DramCache<O> {
    DramCache::new(
        &params(given),
        MediumSite::alone(Bytes(capacity), 1),
        observer,
    )
    .unwrap()
}

fn cache(given: Value) -> DramCache {
    cache_with(given, 1 << 20, NoObserver)
}

fn request(id: u32, dpa: u64, lines: u16, write: bool) -> MemoryRequest {
    MemoryRequest {
        id,
        dpa: Dpa(dpa),
        lines,
        write,
    }
}

/// Completion time of each request (time, address, write) of 64 bytes.
fn times<O: MovementObserver>(cache: &mut DramCache<O>, requests: &[(u64, u64, bool)]) -> Vec<u64> {
    let mut done: Vec<Completion> = Vec::new();
    for (id, (at, dpa, write)) in requests.iter().enumerate() {
        while let Some(next) = cache.next_event()
            && next.0 < *at
        {
            cache.advance(next, &mut done);
        }
        assert!(cache.can_accept(SimTime(*at), *write));
        let request = request(id as u32, *dpa, 1, *write);
        assert_eq!(cache.enqueue(SimTime(*at), request), None);
    }
    while let Some(next) = cache.next_event() {
        cache.advance(next, &mut done);
    }
    assert_eq!(done.len(), requests.len());
    let mut times = vec![0; requests.len()];
    done.iter()
        .for_each(|one| times[one.id as usize] = one.at.0);
    times
}

fn statistic(cache: &dyn MemoryBackend, name: &str) -> f64 {
    let mut list = Vec::new();
    cache.statistics(SimTime(u64::MAX / 2), &mut list);
    let found = list.iter().find(|one| one.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).value
}
