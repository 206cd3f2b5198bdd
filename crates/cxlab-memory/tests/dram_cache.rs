//! The orderings of MQSim-CXL (Yang et al., USENIX ATC 2023) with a DRAM cache in front of a flash
//! drive, at a quarter of the size. `docs/explain/dram-cache.md` has the table, with the numbers of
//! the public code.
#![allow(clippy::unwrap_used)]

use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, MediumSite, MemoryBackend, MemoryRequest};
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

fn drive() -> Value {
    json!({ "kind": "ssd", "flash": "z-nand", "buffer": "1 MiB", "acknowledge": "programmed" })
}

/// A cache of 16 MiB in sets of 16 pages, with a hit time of 46 ns.
fn cached(given: Value) -> Value {
    let mut all = json!({
        "kind": "dram-cache", "size": "16 MiB", "lookup": "0 ps", "policy": { "kind": "fifo" },
        "behind": drive(), "write_buffer": 64,
    });
    for (key, value) in given.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

struct Outcome {
    mean_ns: f64,
    /// Fraction of the requests that took less than a microsecond.
    fast: f64,
}

/// Runs a pattern. Requests arrive at equal intervals, and wait while the medium has no room.
fn run(medium: Value, pattern: Pattern) -> Outcome {
    let mut medium = medium;
    let kind = medium.as_object_mut().unwrap().remove("kind").unwrap();
    let built = (find(CATALOG, kind.as_str().unwrap()).unwrap().build)(&medium).unwrap();
    built.check(Bytes(CAPACITY)).unwrap();
    let mut backend: Box<dyn MemoryBackend> = built.backend(MediumSite::alone(Bytes(CAPACITY), 1));
    let (mut done, mut now, mut left) = (Vec::new(), 0, REQUESTS);
    let (mut sum, mut fast) = (0u64, 0u64);
    let trace = lines(pattern);
    let mut next = 0;
    while left > 0 {
        let arrival = next as u64 * pattern.interval();
        if next < trace.len() && arrival <= now {
            let (line, write) = trace[next];
            if backend.can_accept(SimTime(now), write) {
                let request = MemoryRequest {
                    id: next as u32,
                    dpa: Dpa(line * 64),
                    lines: 1,
                    write,
                };
                let known = backend.enqueue(SimTime(now), request);
                assert_eq!(known, None);
                next += 1;
                continue;
            }
        }
        let event = backend.next_event().map_or(u64::MAX, |at| at.0);
        now = if next < trace.len() && arrival > now {
            event.min(arrival)
        } else {
            event
        };
        backend.advance(SimTime(now), &mut done);
        for one in done.drain(..) {
            let took = one.at.0 - u64::from(one.id) * pattern.interval();
            sum += took / 1_000;
            fast += u64::from(took < 1_000_000);
            left -= 1;
        }
    }
    Outcome {
        mean_ns: sum as f64 / REQUESTS as f64,
        fast: fast as f64 / REQUESTS as f64,
    }
}

/// Runs a pattern, prints the results, and returns the mean latency in nanoseconds.
fn mean(what: &str, medium: Value, pattern: Pattern) -> f64 {
    let Outcome { mean_ns, fast } = run(medium, pattern);
    println!(
        "{what:40} {mean_ns:10.0} ns, {:5.1} % below 1 us",
        100.0 * fast
    );
    mean_ns
}

#[test]
fn prefetching_helps_a_sequential_run_as_in_mqsim_cxl() {
    let run = |name: &str, prefetch: Value| {
        let medium = cached(json!({ "prefetch": prefetch }));
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
    let uncached = mean("hot, no cache", drive(), Pattern::Hot);
    let policy = |name: &str| {
        let medium = cached(json!({ "policy": { "kind": name } }));
        mean(&format!("hot, {name}"), medium, Pattern::Hot)
    };
    let (lru, fifo) = (policy("lru"), policy("fifo"));
    for other in ["2q", "lfru", "clock", "cflru", "random"] {
        policy(other);
    }
    let direct = cached(json!({ "ways": 1 }));
    mean("hot, direct-mapped", direct, Pattern::Hot);
    let alone = cached(json!({ "merge": false }));
    let alone = mean("hot, fifo, no MSHR", alone, Pattern::Hot);
    let uniform = mean("uniform, fifo", cached(json!({})), Pattern::Uniform);
    // MQSim-CXL: 1,471 LRU, 7,225 FIFO, 7,260 FIFO without MSHRs, 40,397 uniform, 160,201 uncached.
    assert!(lru < fifo, "{lru} {fifo}");
    assert!(alone > 0.97 * fifo && alone < 1.5 * fifo, "{fifo} {alone}");
    assert!(fifo < uniform, "{fifo} {uniform}");
    assert!(fifo * 5.0 < uncached, "{fifo} {uncached}");
}

#[test]
fn misses_to_one_page_flood_the_drive_without_mshrs() {
    let with = mean("sequential, fifo", cached(json!({})), Pattern::Sequential);
    let without = cached(json!({ "merge": false }));
    let without = mean("sequential, fifo, no MSHR", without, Pattern::Sequential);
    assert!(with < without, "{with} {without}");
}
