//! The flash drive, in requests a second: reads with the whole mapping in DRAM and with a small
//! part of it, writes during garbage collection, and a mix.

use cxlab_benches as _;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::ssd::{Drive, SsdParams};
use cxlab_memory::{Completion, MediumSite, MemoryBackend, MemoryRequest};
use divan::Bencher;
use divan::counter::ItemsCount;

const REQUESTS: u64 = 100_000;
const CAPACITY: u64 = 1 << 30;
const OUTSTANDING: u32 = 256;

/// A closed loop of 256 requests in flight to a drive.
struct Loop {
    drive: Drive,
    rng: StreamRng,
    now: SimTime,
    flying: u32,
    done: Vec<Completion>,
}

impl Loop {
    fn new(params: &SsdParams) -> Option<Loop> {
        let drive = Drive::new(params, MediumSite::alone(Bytes(CAPACITY), 1)).ok()?;
        Some(Loop {
            drive,
            rng: StreamRng::new(1, "requests"),
            now: SimTime(0),
            flying: 0,
            done: Vec::new(),
        })
    }

    fn run(&mut self, requests: u64, writes: f64, lines: u16) {
        let mut left = requests;
        while left > 0 {
            let write = self.rng.chance(writes);
            if self.flying < OUTSTANDING && self.drive.can_accept(self.now, write) {
                let page = self.rng.below(CAPACITY / 4096);
                let request = MemoryRequest {
                    id: 0,
                    dpa: Dpa(page * 4096),
                    lines,
                    write,
                };
                self.drive.enqueue(self.now, request);
                self.flying += 1;
                left -= 1;
                continue;
            }
            let Some(at) = self.drive.next_event() else {
                break;
            };
            self.now = at;
            self.drive.advance(at, &mut self.done);
            self.flying -= self.done.len() as u32;
            self.done.clear();
        }
    }
}

fn bench(bencher: Bencher, params: &SsdParams, writes: f64, lines: u16) {
    let Some(mut work) = Loop::new(params) else {
        return;
    };
    work.run(REQUESTS, writes, lines);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .bench_local(|| work.run(REQUESTS, writes, lines));
}

fn full() -> SsdParams {
    SsdParams {
        fill: 1.0,
        overwrite: 2.0,
        ..SsdParams::default()
    }
}

/// 64 B reads of a full drive, with the whole mapping in DRAM.
#[divan::bench]
fn reads(bencher: Bencher) {
    bench(bencher, &full(), 0.0, 1);
}

/// 64 B reads of a full drive, with an eighth of the mapping's pages in DRAM.
#[divan::bench]
fn reads_with_little_mapping(bencher: Bencher) {
    let params = SsdParams {
        mapping_cache: Some(Bytes(128 << 10)),
        ..full()
    };
    bench(bencher, &params, 0.0, 1);
}

/// 4 KiB writes in steady state.
#[divan::bench]
fn writes(bencher: Bencher) {
    bench(bencher, &full(), 1.0, 64);
}

/// 64 B requests, a third of which are writes.
#[divan::bench]
fn mixed(bencher: Bencher) {
    bench(bencher, &full(), 0.33, 1);
}

fn main() {
    divan::main();
}
