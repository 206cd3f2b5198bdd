//! The DRAM cache alone, over memory with a latency of 3 us and over a flash drive: with all
//! accesses in the cache, and with pages that are fetched and evicted.

use cxlab_benches as _;
use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, MediumSite, MemoryBackend, MemoryRequest};
use divan::Bencher;
use divan::counter::ItemsCount;

const REQUESTS: u64 = 50_000;
const CAPACITY: u64 = 4 << 30;
/// Size of a working set that fits, in bytes: half of the cache.
const HOT: u64 = 8 << 20;

const MEMORIES: [(&str, &str); 4] = [
    (
        "fixed",
        r#"{"behind": {"kind": "fixed", "latency": "3 us"}}"#,
    ),
    (
        "fixed-behind-ddr4",
        r#"{"dram": {"kind": "dram", "grade": "DDR4-2400R"}, "behind": {"kind": "fixed", "latency": "3 us"}}"#,
    ),
    (
        "fixed-prefetching",
        r#"{"prefetch": {"kind": "next-page"}, "behind": {"kind": "fixed", "latency": "3 us"}}"#,
    ),
    ("ssd", r#"{"behind": {"kind": "ssd"}}"#),
];

fn names() -> impl Iterator<Item = &'static str> {
    MEMORIES.iter().map(|(name, _)| *name)
}

fn memory(name: &str) -> Option<Box<dyn MemoryBackend>> {
    let (_, params) = MEMORIES.iter().find(|(one, _)| *one == name)?;
    let params = serde_json::from_str(params).ok()?;
    let medium = (find(CATALOG, "dram-cache")?.build)(&params).ok()?;
    medium.check(Bytes(CAPACITY)).ok()?;
    Some(medium.backend(MediumSite::alone(Bytes(CAPACITY), 1)))
}

/// Sends requests for random lines as soon as there is room, and wakes the
/// memory when it asks for that.
struct Owner {
    memory: Box<dyn MemoryBackend>,
    rng: StreamRng,
    now: u64,
}

impl Owner {
    fn send(&mut self, requests: u64, footprint: u64) {
        let mut done = Vec::with_capacity(64);
        let mut left = requests;
        while left > 0 {
            self.memory.advance(SimTime(self.now), &mut done);
            done.clear();
            while left > 0 && self.memory.can_accept(SimTime(self.now), false) {
                let request = MemoryRequest {
                    id: 0,
                    dpa: Dpa(self.rng.below(footprint / 64) * 64),
                    lines: 1,
                    write: self.rng.chance(0.3),
                };
                self.memory.enqueue(SimTime(self.now), request);
                left -= 1;
            }
            let Some(next) = self.memory.next_event() else {
                return;
            };
            self.now = next.0.max(self.now);
        }
    }
}

fn run(bencher: Bencher, name: &str, footprint: u64) {
    let Some(memory) = memory(name) else {
        return;
    };
    let mut owner = Owner {
        memory,
        rng: StreamRng::new(1, "requests"),
        now: 0,
    };
    // The cache is warm before measuring begins.
    owner.send(REQUESTS, footprint);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .bench_local(|| owner.send(REQUESTS, footprint));
}

/// The working set fits the cache.
#[divan::bench(args = names())]
fn hits(bencher: Bencher, name: &str) {
    run(bencher, name, HOT);
}

/// Nearly every request misses, and a third of the evicted pages are dirty.
#[divan::bench(args = names())]
fn misses(bencher: Bencher, name: &str) {
    run(bencher, name, 1 << 30);
}

fn main() {
    divan::main();
}
