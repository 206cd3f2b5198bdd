//! Guests that share memory, as scripts under random schedules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::tests::draw;
use super::*;
use crate::contents::Words;
use crate::memory::tests::{Fixed, LATENCY_PS};
use crate::model::{Limits, Processors};
use crate::ring::{Record, RingWriter, WORDS, zeros};

/// Words of the memory that guests share: one line for each of the 8.
const SHARED_WORDS: usize = 64;

#[derive(Clone)]
struct Memory64(Arc<Vec<AtomicU64>>);

impl Words for Memory64 {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// What a guest does with a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Compute(u64),
    /// Adds one to the line's first word: a load and a store, as an atomic instruction or not.
    Add {
        line: u64,
        atomic: bool,
    },
    /// Stores a value.
    Put(u64, u64),
    /// Loads, and remembers the value.
    Get(u64),
    Flush(u64),
    Fence,
    /// The caches evict the line.
    Evict(u64),
}

/// A guest that follows a script.
#[derive(Default)]
struct Fake<'a> {
    teller: RingWriter<'a>,
    script: Vec<Act>,
    next: usize,
    own_ps: u64,
    head: u64,
    /// What an access that was posted waits for.
    waits: bool,
    /// The value that an addition has loaded.
    loaded: Option<u64>,
    seen: Vec<u64>,
    cached: BTreeSet<u64>,
}

impl Fake<'_> {
    fn post(&mut self, what: u64) {
        let record = Record {
            at_ps: self.own_ps,
            what,
        };
        self.teller.write(0, self.head, record);
        self.head += 1;
        self.teller.publish(0, self.head, self.own_ps);
    }

    fn access(&mut self, line: u64, operation: u64, locked: bool, value: u64) {
        let cached = self.cached.contains(&line);
        let flags = u64::from(locked) | u64::from(cached) << 1;
        self.teller.access(0, operation, [0, 8], flags);
        self.teller.value(0, value);
        match operation {
            0 | 1 => _ = self.cached.insert(line),
            2 => _ = self.cached.remove(&line),
            _ => {}
        }
        self.waits = true;
        self.post((line * 64) | 4 | 1 << 63);
    }

    /// Does the next step, if the guest does not wait. Returns whether it did something.
    fn act(&mut self) -> bool {
        if self.waits {
            if self.teller.tail(0) < self.head {
                return false;
            }
            self.waits = false;
            let reply = self.teller.reply(0);
            match self.script[self.next] {
                Act::Get(_) => self.seen.push(reply),
                Act::Add { .. } if self.loaded.is_none() => {
                    self.loaded = Some(reply);
                    return true;
                }
                _ => self.loaded = None,
            }
            self.next += 1;
            return true;
        }
        let Some(act) = self.script.get(self.next).copied() else {
            return false;
        };
        match act {
            Act::Compute(ps) => {
                self.own_ps += ps;
                self.teller.publish(0, self.head, self.own_ps);
                self.next += 1;
            }
            Act::Add { line, atomic } => match self.loaded {
                None => self.access(line, 0, atomic, 0),
                Some(value) => self.access(line, 1, atomic, value + 1),
            },
            Act::Put(line, value) => self.access(line, 1, false, value),
            Act::Get(line) => self.access(line, 0, false, 0),
            Act::Flush(line) => self.access(line, 2, false, 0),
            Act::Fence => self.access(0, 4, false, 0),
            Act::Evict(line) => {
                self.cached.remove(&line);
                self.post((line * 64) | 2 | 1 << 63);
                self.next += 1;
            }
        }
        true
    }
}

/// What has become of guests and their memory.
#[derive(PartialEq, Eq, Debug)]
struct Became {
    stored: Vec<u64>,
    seen: Vec<Vec<u64>>,
    ended_ps: Vec<u64>,
    counts: Vec<SharedCounts>,
    skew: GuestSkew,
}

fn run(coherent: bool, scripts: &[Vec<Act>], seed: u64) -> Became {
    let rings: Vec<_> = scripts.iter().map(|_| zeros(WORDS)).collect();
    let memory = Memory64(Arc::new(zeros(SHARED_WORDS)));
    let board = Fixed {
        coherent: Some(coherent),
        ..Fixed::default()
    };
    let processors = Processors {
        count: 1,
        limits: Limits {
            misses: 2,
            writebacks: 2,
        },
    };
    let mut model = Model::new(board, &vec![processors; scripts.len()]);
    model.share(vec![Box::new(memory.clone())]);
    let shared = rings
        .iter()
        .map(|words| (ModelWords::new(words).unwrap(), 1));
    let mut pace = Pace::new(model, shared, 0);
    let mut fakes: Vec<Fake<'_>> = (rings.iter().zip(scripts))
        .map(|(words, script)| {
            let mut fake = Fake {
                teller: RingWriter::new(words),
                script: [vec![Act::Compute(1)], script.clone()].concat(),
                // Every guest begins its program.
                waits: true,
                ..Fake::default()
            };
            fake.post(64 | 3);
            fake
        })
        .collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut still = 0;
    let mut ended = vec![false; fakes.len()];
    while still < 200 {
        let guest = (draw(&mut state) >> 8) as usize % (fakes.len() + 1);
        let went = match fakes.get_mut(guest) {
            Some(fake) => {
                let went = fake.act();
                if !ended[guest] && !went && fake.next == fake.script.len() && !fake.waits {
                    ended[guest] = true;
                    // Its last records are charged before it ends.
                    while pace.step(&mut |_, _, _| {}).unwrap() {}
                    pace.end(guest);
                }
                went
            }
            None => pace.step(&mut |_, _, _| {}).unwrap(),
        };
        still = if went { 0 } else { still + 1 };
    }
    assert!(ended.iter().all(|ended| *ended), "a guest waits for ever");
    let stored = |line: usize| memory.0[8 * line].load(Ordering::Relaxed);
    let ended_ps = |fake: &Fake<'_>| fake.own_ps + fake.teller.charged_ps(0);
    let counts = |guest| pace.model.shared_counts(guest);
    Became {
        stored: (0..8).map(stored).collect(),
        ended_ps: fakes.iter().map(ended_ps).collect(),
        seen: fakes.into_iter().map(|fake| fake.seen).collect(),
        counts: (0..scripts.len()).map(counts).collect(),
        skew: pace.skew(),
    }
}

/// Additions to one line by each guest, with computing between them.
fn adders(guests: usize, count: u64, atomic: bool) -> Vec<Vec<Act>> {
    let one = |guest: u64| {
        let steps = (0..count).flat_map(move |step| {
            let compute = Act::Compute(1 + (guest * 7919 + step * 104_729) % 90_000);
            [compute, Act::Add { line: 3, atomic }]
        });
        steps.collect()
    };
    (0..guests as u64).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn atomic_additions_of_guests_to_coherent_memory_lose_none(seed in 1u64..u64::MAX) {
        let became = run(true, &adders(3, 40, true), seed);
        prop_assert_eq!(became.stored[3], 120);
        prop_assert_eq!(became.skew.late_events, 0);
    }

    #[test]
    fn the_schedule_of_guests_changes_nothing(seed in 1u64..u64::MAX, coherent: bool) {
        let mut scripts = adders(2, 20, true);
        scripts[0].extend([Act::Put(5, 9), Act::Flush(5), Act::Fence, Act::Evict(3)]);
        scripts[1].extend([Act::Get(5), Act::Flush(3), Act::Get(3)]);
        let (one, other) = (run(coherent, &scripts, seed), run(coherent, &scripts, 7));
        prop_assert_eq!(one, other);
    }
}

#[test]
fn additions_that_are_not_atomic_lose_some_although_memory_is_coherent() {
    let became = run(true, &adders(3, 40, false), 1);
    assert!(became.stored[3] < 120, "{became:?}");
}

#[test]
fn atomic_additions_to_memory_that_nobody_keeps_coherent_lose_some() {
    let mut scripts = adders(2, 40, true);
    for script in &mut scripts {
        script.push(Act::Flush(3));
    }
    let became = run(false, &scripts, 1);
    assert_eq!(became.stored[3], 40, "each added to a copy of its own");
}

/// A store, a copy of the other guest, and what each must do so that the store is seen.
#[test]
fn a_guest_sees_a_store_if_it_was_written_back_and_the_old_copy_dropped() {
    let later = Act::Compute(1_000_000);
    for (writes_back, drops, seen) in [
        (true, true, 7),
        (true, false, 0),
        (false, true, 0),
        (false, false, 0),
    ] {
        let mut writer = vec![later, Act::Put(2, 7)];
        let mut reader = vec![Act::Get(2), later, later];
        if writes_back {
            writer.push(Act::Flush(2));
        }
        if drops {
            reader.push(Act::Flush(2));
        }
        reader.push(Act::Get(2));
        let became = run(false, &[writer, reader], 1);
        assert_eq!(became.seen[1], [0, seen], "{writes_back} {drops}");
        let stale = u64::from(seen == 0);
        assert_eq!(became.counts[1].stale_loads, stale, "{writes_back} {drops}");
    }
}

#[test]
fn a_line_that_the_caches_evict_is_written_back() {
    let writer = vec![Act::Put(2, 7), Act::Evict(2), Act::Fence];
    let became = run(false, &[writer, vec![]], 1);
    assert_eq!(became.stored[2], 7);
}

#[test]
fn a_coherent_store_is_seen_at_once_and_costs_the_other_its_copy() {
    let later = Act::Compute(1_000_000);
    let writer = vec![later, Act::Put(2, 7)];
    let reader = vec![Act::Get(2), later, later, Act::Get(2), Act::Get(2)];
    let became = run(true, &[writer, reader], 1);
    assert_eq!(became.seen[1], [0, 7, 7]);
    assert_eq!(became.counts[1].misses, 2);
    // Two misses of the reader, and nothing that the writer waits for.
    let begin = became.ended_ps[0] - 1_000_000;
    assert_eq!(became.ended_ps[1] - begin, 2_000_000 + 2 * LATENCY_PS);
}

#[test]
fn a_request_waits_for_that_of_another_guest_to_the_same_line() {
    let one = vec![Act::Get(2)];
    let became = run(true, &[one.clone(), one], 1);
    let took = &became.ended_ps;
    assert_eq!(took[0].abs_diff(took[1]), LATENCY_PS, "{became:?}");
}

#[test]
fn a_fence_waits_for_flushes_before_it() {
    let writer = vec![Act::Put(2, 7), Act::Flush(2), Act::Fence];
    let became = run(false, &[writer, vec![]], 1);
    // The flush waits for the line of the store, and the fence for the write-back.
    assert_eq!(became.ended_ps[0] - became.ended_ps[1], 2 * LATENCY_PS);
}
