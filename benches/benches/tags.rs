//! Tag arrays: a hit in a set-associative cache, and a miss with its
//! victim in a full fully-associative filter.

use cxlab_benches as _;
use cxlab_cache::victim::{self, CATALOG};
use cxlab_cache::{Geometry, TagArray};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::LineAddr;
use divan::Bencher;
use divan::counter::ItemsCount;

const ACCESSES: u64 = 100_000;

fn policies() -> impl Iterator<Item = &'static str> {
    CATALOG.iter().map(|entry| entry.name)
}

fn array(geometry: Geometry, policy: &str) -> Option<TagArray<u32>> {
    let policy = victim::build(policy)?;
    let rng = StreamRng::new(1, "tags");
    Some(TagArray::new(geometry, policy.as_ref(), rng))
}

/// Uniform accesses to `footprint` lines. The array is full before measuring begins.
fn accesses(bencher: Bencher, geometry: Geometry, policy: &str, footprint: u64) {
    let Some(mut tags) = array(geometry, policy) else {
        return;
    };
    let mut draw = StreamRng::new(1, "lines");
    let mut access = |line| {
        if tags.access(line).is_none() {
            divan::black_box(tags.fill(line, 0));
        }
    };
    for line in 0..footprint {
        access(LineAddr(line));
    }
    bencher
        .counter(ItemsCount::new(ACCESSES))
        .bench_local(|| (0..ACCESSES).for_each(|_| access(LineAddr(draw.below(footprint)))));
}

/// A cache of 1 MiB in sets of 16, in which every access hits.
#[divan::bench(args = policies())]
fn cache_hits(bencher: Bencher, policy: &str) {
    if let Ok(geometry) = Geometry::set_associative(16_384, 16) {
        accesses(bencher, geometry, policy, 16_384);
    }
}

/// A cache of 1 MiB in sets of 16, in which nearly every access misses and evicts.
#[divan::bench(args = policies())]
fn cache_misses(bencher: Bencher, policy: &str) {
    if let Ok(geometry) = Geometry::set_associative(16_384, 16) {
        accesses(bencher, geometry, policy, 1 << 20);
    }
}

/// A fully associative filter, in which three accesses of four miss and evict.
#[divan::bench(args = policies(), consts = [1_000, 100_000, 1_000_000])]
fn filter<const LINES: u64>(bencher: Bencher, policy: &str) {
    if let Ok(geometry) = Geometry::fully_associative(LINES) {
        accesses(bencher, geometry, policy, LINES * 4);
    }
}

fn main() {
    divan::main();
}
