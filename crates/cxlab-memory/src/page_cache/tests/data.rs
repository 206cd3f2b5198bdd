//! Follows data through the cache, its write-back buffer and the slow medium.
//!
//! Every write has a stamp. Shadow copies of the three places follow the movements that the cache
//! reports. They fail on a movement whose source is missing or out of date. Every read must find
//! the stamp of the last completed write to its line.

use cxlab_engine::rng::StreamRng;
use serde_json::json;

use super::*;
use crate::page_cache::Movement;

const CAPACITY: u64 = 1 << 20;
const LINES: u64 = CAPACITY / 64;

struct ShadowMemory {
    /// Stamp of each line in the slow medium.
    behind: Vec<u64>,
    /// Stamp of each line in the cache.
    cache: Vec<Option<u64>>,
    /// Stamp of each line that is in the write-back buffer, and not yet in the slow medium.
    buffer: Vec<Option<u64>>,
    /// Stamp that the slow medium had when the line was read from it.
    asked: Vec<Option<u64>>,
    /// Stamp that each request writes.
    stamps: Vec<u64>,
    /// Reads: request, line, stamp.
    found: Vec<(u32, u64, u64)>,
}

impl ShadowMemory {
    fn new() -> Self {
        let lines = LINES as usize;
        ShadowMemory {
            behind: vec![0; lines],
            cache: vec![None; lines],
            buffer: vec![None; lines],
            asked: vec![None; lines],
            stamps: vec![0; 64],
            found: Vec::new(),
        }
    }

    /// The latest stamp of a line in the three places.
    fn latest(&self, line: usize) -> u64 {
        self.cache[line]
            .or(self.buffer[line])
            .unwrap_or(self.behind[line])
    }
}

impl MovementObserver for ShadowMemory {
    fn moved(&mut self, movement: Movement, line: u64, lines: u64) {
        for line in line..line + lines {
            let at = line as usize;
            match movement {
                Movement::Read { id } => {
                    let stamp = self.cache[at].expect("a line is read that the cache has");
                    self.found.push((id, line, stamp));
                }
                Movement::ReadWriteBuffer { id } => {
                    assert_eq!(self.cache[at], None, "the cache would be newer");
                    let stamp = self.buffer[at].expect("a line is read that the buffer has");
                    self.found.push((id, line, stamp));
                }
                Movement::Write { id } => self.cache[at] = Some(self.stamps[id as usize]),
                Movement::Asked => {
                    assert_eq!(self.buffer[at], None, "the slow medium is out of date");
                    self.asked[at] = Some(self.behind[at]);
                }
                Movement::Installed => {
                    assert_eq!(
                        self.cache[at], None,
                        "what the cache has is not overwritten"
                    );
                    self.cache[at] = Some(self.asked[at].expect("it was asked for"));
                }
                Movement::Buffered => {
                    assert_eq!(self.buffer[at], None, "one copy waits at most");
                    self.buffer[at] = Some(self.cache[at].expect("the cache has it"));
                }
                Movement::Dropped => {
                    let stamp = self.cache[at].take().expect("the cache had it");
                    let kept = self.buffer[at].unwrap_or(self.behind[at]);
                    assert_eq!(kept, stamp, "nothing dirty is dropped");
                }
                Movement::Writing => assert!(self.buffer[at].is_some()),
                Movement::Written => {
                    self.behind[at] = self.buffer[at].take().expect("the buffer had it");
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct DataOp {
    line: u64,
    lines: u64,
    write: bool,
}

struct Driver {
    cache: DramCache<ShadowMemory>,
    rng: StreamRng,
    now: u64,
    /// By line: reads in flight, whether a write is in flight, and the stamp of the
    /// last completed write.
    readers: Vec<u32>,
    writer: Vec<bool>,
    answered: Vec<u64>,
    ops: Vec<Option<DataOp>>,
    stamp: u64,
    scan: u64,
    done: Vec<Completion>,
}

impl Driver {
    fn new(given: Value, seed: u64) -> Self {
        let lines = LINES as usize;
        Driver {
            cache: cache_with(given, CAPACITY, ShadowMemory::new()),
            rng: StreamRng::new(seed, "driver"),
            now: 0,
            readers: vec![0; lines],
            writer: vec![false; lines],
            answered: vec![0; lines],
            ops: vec![None; 64],
            stamp: 0,
            scan: 0,
            done: Vec::new(),
        }
    }

    /// A random operation; `None` if it conflicts with an operation in flight, which
    /// hosts would order.
    fn draw(&mut self) -> Option<DataOp> {
        let line = match self.rng.below(10) {
            0..4 => self.rng.below(LINES / 16),
            4..7 => self.rng.below(LINES),
            _ => {
                self.scan = (self.scan + 1) % LINES;
                self.scan
            }
        };
        let most = if self.rng.chance(0.05) { 100 } else { 3 };
        let op = DataOp {
            line,
            lines: (1 + self.rng.below(most)).min(LINES - line),
            write: self.rng.chance(0.4),
        };
        let mut lines = op.line..op.line + op.lines;
        let clash = lines
            .any(|line| self.writer[line as usize] || op.write && self.readers[line as usize] > 0);
        (!clash).then_some(op)
    }

    fn issue(&mut self) {
        let Some(id) = self.ops.iter().position(Option::is_none) else {
            return;
        };
        let Some(op) = self.draw() else { return };
        if !self.cache.can_accept(SimTime(self.now), op.write) {
            return;
        }
        self.ops[id] = Some(op);
        self.stamp += 1;
        self.cache.observer_mut().stamps[id] = self.stamp;
        for line in op.line..op.line + op.lines {
            match op.write {
                true => self.writer[line as usize] = true,
                false => self.readers[line as usize] += 1,
            }
        }
        let request = request(id as u32, op.line * 64, op.lines as u16, op.write);
        assert_eq!(self.cache.enqueue(SimTime(self.now), request), None);
    }

    fn advance(&mut self, to: u64) {
        while let Some(next) = self.cache.next_event()
            && next.0 <= to
        {
            self.now = next.0;
            self.cache.advance(next, &mut self.done);
            for one in std::mem::take(&mut self.done) {
                self.finish(one.id);
            }
        }
        self.now = to;
    }

    fn finish(&mut self, id: u32) {
        let op = self.ops[id as usize].take().expect("answered once");
        let shadow = self.cache.observer_mut();
        if op.write {
            for line in op.line..op.line + op.lines {
                self.writer[line as usize] = false;
                self.answered[line as usize] = shadow.stamps[id as usize];
            }
            return;
        }
        let mut seen = 0;
        let answered = &self.answered;
        shadow.found.retain(|(reader, line, stamp)| {
            if *reader == id {
                assert!((op.line..op.line + op.lines).contains(line));
                assert_eq!(*stamp, answered[*line as usize], "line {line}");
                seen += 1;
            }
            *reader != id
        });
        assert_eq!(seen, op.lines, "every line is read once");
        for line in op.line..op.line + op.lines {
            self.readers[line as usize] -= 1;
        }
    }

    fn run(&mut self, operations: u64) {
        while self.stamp < operations {
            let inside = self.ops.iter().any(Option::is_some);
            assert!(
                !inside || self.cache.next_event().is_some(),
                "the cache waits for nothing"
            );
            self.issue();
            let pause = self.rng.below(400_000);
            self.advance(self.now + pause);
        }
    }
}

/// Configurations that differ in every parameter that affects data movement.
fn configurations() -> Vec<Value> {
    let slow = json!({ "kind": "fixed", "latency": "3 us", "write_latency": "10 us", "banks": 8, "bank_cycle": "1 us" });
    let pmem = json!({ "kind": "pmem", "dimms": 2 });
    let dram = json!({ "kind": "dram" });
    vec![
        json!({ "behind": slow, "prefetch": { "kind": "next-page", "degree": 2 } }),
        json!({ "behind": slow, "ways": 1, "critical_first": true, "mshrs": 8 }),
        json!({ "behind": slow, "merge": false, "policy": { "kind": "2q" }, "write_buffer": 2 }),
        json!({ "behind": slow, "fetch": "sector", "policy": { "kind": "cflru" }, "ways": 0 }),
        json!({ "behind": pmem, "fetch": "sector", "sector": "256 B", "policy": { "kind": "clock" }, "critical_first": true }),
        json!({ "behind": pmem, "dram": dram, "merge": false, "prefetch": { "kind": "stride" }, "targets": 4 }),
        json!({ "behind": slow, "page": "256 B", "size": "4 KiB", "ways": 2, "policy": { "kind": "random" }, "write_buffer": 1 }),
        json!({ "behind": slow, "page": "64 KiB", "size": "256 KiB", "ways": 4, "policy": { "kind": "lfru" }, "prefetch": { "kind": "best-offset" }, "critical_first": true }),
        json!({ "behind": pmem, "merge": false, "fetch": "sector", "critical_first": true, "mshrs": 4, "write_buffer": 1, "lookup": "0 ps" }),
    ]
}

fn follow(operations: u64) {
    for (seed, given) in configurations().into_iter().enumerate() {
        let mut driver = Driver::new(given.clone(), seed as u64);
        driver.run(operations);
        driver.advance(u64::MAX / 4);
        assert!(driver.ops.iter().all(Option::is_none), "all are answered");
        let shadow = driver.cache.observer();
        for line in 0..LINES as usize {
            assert_eq!(shadow.latest(line), driver.answered[line], "{given}");
        }
        let evicted = statistic(&driver.cache, "evictions_dirty");
        assert!(evicted > operations as f64 / 1000.0, "{evicted} {given}");
    }
}

#[test]
fn nothing_is_lost_between_cache_buffer_and_slow_medium() {
    follow(60_000);
}

/// Nine configurations, four million operations.
#[test]
#[ignore = "takes a minute"]
fn nothing_is_lost_in_millions_of_operations() {
    follow(450_000);
}

#[test]
fn a_power_failure_at_any_time_loses_nothing_that_was_answered() {
    for (number, given) in configurations().into_iter().enumerate() {
        for seed in 0..12 {
            let mut driver = Driver::new(given.clone(), seed * 100 + number as u64);
            driver.run(500 + 300 * seed);
            let failed = driver.cache.power_fail(SimTime(driver.now));
            assert!(failed.at.0 >= driver.now);
            assert!(!driver.cache.can_accept(failed.at, true));
            let shadow = driver.cache.observer();
            for line in 0..LINES as usize {
                let kept = shadow.behind[line];
                let unanswered = driver.writer[line] && kept > driver.answered[line];
                assert!(kept == driver.answered[line] || unanswered, "{given}");
            }
        }
    }
}
