//! The DRAM backend alone, saturated with requests and at a low load.

use cxlab_benches as _;
use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, MediumSite, MemoryBackend, MemoryRequest};
use divan::Bencher;
use divan::counter::ItemsCount;

const REQUESTS: u64 = 100_000;
const CAPACITY: u64 = 8 << 30;

const MEMORIES: [(&str, &str); 5] = [
    ("ddr4", r#"{"grade": "DDR4-3200AA", "channels": 1}"#),
    (
        "ddr4-bank-queues",
        r#"{"grade": "DDR4-3200AA", "channels": 1, "ranks": 2, "bank_queue": 8}"#,
    ),
    ("ddr5", r#"{"grade": "DDR5-4800BN", "channels": 1}"#),
    (
        "ddr5-two-channels",
        r#"{"grade": "DDR5-4800BN", "channels": 2}"#,
    ),
    (
        "hbm3",
        r#"{"grade": "HBM3-6400", "channels": 16, "organization": "4Gb"}"#,
    ),
];

fn names() -> impl Iterator<Item = &'static str> {
    MEMORIES.iter().map(|(name, _)| *name)
}

fn memory(name: &str) -> Option<Box<dyn MemoryBackend>> {
    let (_, params) = MEMORIES.iter().find(|(one, _)| *one == name)?;
    let params = serde_json::from_str(params).ok()?;
    let medium = (find(CATALOG, "dram")?.build)(&params).ok()?;
    Some(medium.backend(MediumSite::alone(Bytes(CAPACITY), 1)))
}

/// Sends requests, each `gap` ps after the last or when there is room, and wakes the
/// memory when it asks for that.
fn run(bencher: Bencher, name: &str, random: bool, writes: f64, gap: u64) {
    let Some(mut memory) = memory(name) else {
        return;
    };
    let mut rng = StreamRng::new(1, "requests");
    let mut now = 0;
    let mut next = 0;
    let mut line = 0;
    let mut done = Vec::with_capacity(64);
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut left = REQUESTS;
        let mut write = false;
        while left > 0 {
            memory.advance(SimTime(now), &mut done);
            done.clear();
            while left > 0 && next <= now && memory.can_accept(SimTime(now), write) {
                line = match random {
                    true => rng.below(CAPACITY / 64),
                    false => (line + 1) % (CAPACITY / 64),
                };
                let request = MemoryRequest {
                    id: 0,
                    dpa: Dpa(line * 64),
                    lines: 1,
                    write,
                };
                memory.enqueue(SimTime(now), request);
                left -= 1;
                next = next.max(now.saturating_sub(gap)) + gap;
                write = rng.chance(writes);
            }
            let event = memory.next_event().map_or(u64::MAX, |at| at.0);
            let sends = if next > now { next } else { u64::MAX };
            now = event.min(sends).max(now);
        }
    });
}

/// Random reads and writes, with one more request always pending.
#[divan::bench(args = names())]
fn random_saturated(bencher: Bencher, name: &str) {
    run(bencher, name, true, 0.33, 0);
}

/// Consecutive lines, with one more request always pending.
#[divan::bench(args = names())]
fn stream_saturated(bencher: Bencher, name: &str) {
    run(bencher, name, false, 0.33, 0);
}

/// A random request each 200 ns, about a hundredth of the saturated load.
#[divan::bench(args = names())]
fn random_low_load(bencher: Bencher, name: &str) {
    run(bencher, name, true, 0.33, 200_000);
}

fn main() {
    divan::main();
}
