//! The orderings of MQSim-CXL (Yang et al., USENIX ATC 2023) with a DRAM cache in front of a flash
//! drive, at a quarter of the size. `docs/explain/dram-cache.md` has the table, with the numbers of
//! the public code.
#![allow(clippy::unwrap_used)]

mod common;

use common::{backend, drive, with};
use cxlab_engine::rng::StreamRng;
use serde_json::{Value, json};

const CAPACITY: u64 = 1 << 30;
const REQUESTS: u64 = 250_000;
/// Number of pages: the hot tenth and the rest. With this number FIFO misses hot pages as often as
/// in the trace.
const FOOTPRINT: u64 = 18_310;

#[derive(Clone, Copy)]
enum Pattern {
    Sequential,
    Uniform,
    Hot,
}

impl Pattern {
    /// Time between requests, in picoseconds. In the sequential trace it is about 100 ns: 30 of 64
    /// lines of a page hit behind a read of 3 us. The other patterns are slower, because a drive
    /// whose channels take time (none in MQSim-CXL) cannot program as fast.
    fn interval(self) -> u64 {
        match self {
            Pattern::Sequential => 100_000,
            Pattern::Hot => 400_000,
            Pattern::Uniform => 1_000_000,
        }
    }
}

fn lines(pattern: Pattern) -> Vec<(u64, bool)> {
    let mut rng = StreamRng::new(11, "trace");
    let pages = 16_384;
    let line = |number: u64, rng: &mut StreamRng| match pattern {
        Pattern::Sequential => number,
        Pattern::Uniform => rng.below(pages * 64),
        Pattern::Hot if rng.chance(0.9) => rng.below(FOOTPRINT / 10 * 64),
        Pattern::Hot => rng.below(FOOTPRINT * 64),
    };
    (0..REQUESTS)
        .map(|number| (line(number, &mut rng), rng.chance(0.3)))
        .collect()
}

fn ssd() -> Value {
    json!({ "kind": "ssd", "flash": "z-nand", "buffer": "1 MiB", "acknowledge": "programmed" })
}

/// A cache of 16 MiB in sets of 16 pages, with a hit time of 46 ns.
fn cached(given: &Value) -> Value {
    let all = json!({
        "kind": "dram-cache", "size": "16 MiB", "lookup": "0 ps", "policy": { "kind": "fifo" },
        "behind": ssd(), "write_buffer": 64,
    });
    with(all, given)
}

/// Runs a pattern, prints the results, and returns the mean latency in nanoseconds. Requests arrive at
/// equal intervals, and wait while the medium has no room.
fn mean(what: &str, mut medium: Value, pattern: Pattern) -> f64 {
    let kind = medium.as_object_mut().unwrap().remove("kind").unwrap();
    let mut backend = backend(kind.as_str().unwrap(), &medium, CAPACITY);
    let arrivals = (0..).map(|number| number * pattern.interval());
    let requests = arrivals.zip(lines(pattern));
    let requests: Vec<_> = requests
        .map(|(at, (line, write))| (at, line * 64, 1, write))
        .collect();
    let heard = drive(backend.as_mut(), &requests, None);
    assert_eq!(heard.known, 0);
    let times = heard.done.iter().zip(&requests);
    let times: Vec<u64> = times.map(|(done, request)| done - request.0).collect();
    let sum: u64 = times.iter().map(|took| took / 1_000).sum();
    let fast = times.iter().filter(|took| **took < 1_000_000).count();
    let [mean_ns, fast] = [sum, fast as u64].map(|of_all| of_all as f64 / REQUESTS as f64);
    println!(
        "{what:40} {mean_ns:10.0} ns, {:5.1} % below 1 us",
        100.0 * fast
    );
    mean_ns
}

#[test]
fn prefetching_helps_a_sequential_run_as_in_mqsim_cxl() {
    let run = |name: &str, prefetch: Value| {
        let medium = cached(&json!({ "prefetch": prefetch }));
        mean(name, medium, Pattern::Sequential)
    };
    let none = run("sequential, no prefetcher", json!({ "kind": "none" }));
    let next = run("sequential, next-page", json!({ "kind": "next-page" }));
    let stride = run("sequential, stride", json!({ "kind": "stride" }));
    let best = run("sequential, best-offset", json!({ "kind": "best-offset" }));
    // MQSim-CXL: 1,471 ns without, 48 with the next page, 349 with Leap.
    assert!(none > 1_000.0, "{none}");
    assert!(next * 10.0 < none, "{next}");
    assert!(stride * 2.0 < none && best * 2.0 < none, "{stride} {best}");
}

#[test]
fn caches_policies_and_mshrs_are_ordered_as_in_mqsim_cxl() {
    let uncached = mean("hot, no cache", ssd(), Pattern::Hot);
    let policy = |name: &str| {
        let medium = cached(&json!({ "policy": { "kind": name } }));
        mean(&format!("hot, {name}"), medium, Pattern::Hot)
    };
    let (lru, fifo) = (policy("lru"), policy("fifo"));
    for other in ["2q", "lfru", "clock", "cflru", "random"] {
        policy(other);
    }
    let direct = cached(&json!({ "ways": 1 }));
    mean("hot, direct-mapped", direct, Pattern::Hot);
    let alone = cached(&json!({ "merge": false }));
    let alone = mean("hot, fifo, no MSHR", alone, Pattern::Hot);
    let uniform = mean("uniform, fifo", cached(&json!({})), Pattern::Uniform);
    // MQSim-CXL: 1,471 LRU, 7,225 FIFO, 7,260 FIFO without MSHRs, 40,397 uniform, 160,201 uncached.
    assert!(lru < fifo, "{lru} {fifo}");
    assert!(alone > 0.97 * fifo && alone < 1.5 * fifo, "{fifo} {alone}");
    assert!(fifo < uniform, "{fifo} {uniform}");
    assert!(fifo * 5.0 < uncached, "{fifo} {uncached}");
}

#[test]
fn misses_to_one_page_flood_the_drive_without_mshrs() {
    let with = mean("sequential, fifo", cached(&json!({})), Pattern::Sequential);
    let without = cached(&json!({ "merge": false }));
    let without = mean("sequential, fifo, no MSHR", without, Pattern::Sequential);
    assert!(with < without, "{with} {without}");
}
