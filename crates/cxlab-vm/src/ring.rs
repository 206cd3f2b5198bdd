//! What the plugin and the model share, as `adapters/qemu/ring.h` lays it out: words of 64 bits.

use std::sync::atomic::{AtomicU64, Ordering};

/// "cxabring".
const MAGIC: u64 = 0x676e_6972_6261_7863;
/// Changes with the layout.
const LAYOUT: u64 = 2;
/// Processors.
pub const LANES: usize = 8;
/// Records of a ring.
pub const ENTRIES: u64 = 4096;
/// Counters of a processor.
const COUNTERS: usize = 8;

const HEADER: usize = 8;
const NOW: usize = 1;
const TAIL: usize = 8;
const CHARGED: usize = 9;
const COUNTER: usize = 16;
const RECORDS: usize = COUNTER + COUNTERS;
const LANE: usize = RECORDS + 2 * ENTRIES as usize;
/// Words in all.
pub const WORDS: usize = HEADER + LANES * LANE;

/// What a record is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A load that missed every cache.
    Load,
    /// A store that missed every cache.
    Store,
    /// A changed line that leaves the last cache.
    WriteBack,
    /// The guest says where it is.
    Mark,
}

/// What the plugin tells.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Record {
    /// The processor's own time and what was skipped while all slept, in picoseconds.
    pub at_ps: u64,
    /// Place and kind.
    pub what: u64,
}

impl Record {
    /// What it is of.
    pub fn kind(self) -> Kind {
        match self.what & 3 {
            0 => Kind::Load,
            1 => Kind::Store,
            2 => Kind::WriteBack,
            _ => Kind::Mark,
        }
    }

    /// The number of a mark.
    pub fn mark(self) -> u64 {
        self.what / 64
    }
}

/// What the plugin counted on one processor, since the first mark.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Instructions.
    pub instructions: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Those that missed the first cache.
    pub first_misses: u64,
    /// Those that missed every cache.
    pub misses: u64,
    /// How often the clock was read.
    pub clock_reads: u64,
    /// Accesses to devices, which no cache sees.
    pub device_accesses: u64,
}

impl Counters {
    /// Of two processors.
    pub fn plus(&self, other: &Counters) -> Counters {
        self.each(other, u64::wrapping_add)
    }

    /// What was counted since.
    pub fn since(&self, before: &Counters) -> Counters {
        self.each(before, u64::wrapping_sub)
    }

    fn each(&self, other: &Counters, form: fn(u64, u64) -> u64) -> Counters {
        Counters {
            instructions: form(self.instructions, other.instructions),
            accesses: form(self.accesses, other.accesses),
            first_misses: form(self.first_misses, other.first_misses),
            misses: form(self.misses, other.misses),
            clock_reads: form(self.clock_reads, other.clock_reads),
            device_accesses: form(self.device_accesses, other.device_accesses),
        }
    }
}

/// What became of the guest's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockState {
    /// The plugin has not said yet.
    Unknown,
    /// It follows the model.
    Simulated,
    /// It is this machine's.
    Host,
}

/// The words, seen from the model's side.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Shared<'a> {
    /// Over at least [`WORDS`] words that are zero.
    pub fn new(words: &'a [AtomicU64]) -> Option<Shared<'a>> {
        if words.len() < WORDS {
            return None;
        }
        words[1].store(LAYOUT, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Some(Shared { words })
    }

    /// Version of QEMU's interface that the plugin works with; `None` before it is loaded.
    pub fn version(self) -> Option<u64> {
        Some(self.words[2].load(Ordering::Acquire)).filter(|version| *version > 0)
    }

    /// What became of the guest's clock.
    pub fn clock(self) -> ClockState {
        match self.words[3].load(Ordering::Acquire) {
            0 => ClockState::Unknown,
            1 => ClockState::Simulated,
            _ => ClockState::Host,
        }
    }

    /// Windows of CXL memory that are as fast as other memory.
    pub fn overlay(self) -> u64 {
        self.words[4].load(Ordering::Acquire)
    }

    /// Time that was skipped because all processors slept, in nanoseconds.
    pub fn idle_ns(self) -> u64 {
        self.words[6].load(Ordering::Acquire)
    }

    /// Whether all processors sleep and no timer will wake one.
    pub fn asleep(self) -> bool {
        self.words[7].load(Ordering::Acquire) != 0
    }

    /// A processor's ring, below [`LANES`].
    pub fn lane(self, number: usize) -> Lane<'a> {
        let from = HEADER + (number % LANES) * LANE;
        Lane {
            words: &self.words[from..from + LANE],
        }
    }
}

/// One processor's ring.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    words: &'a [AtomicU64],
}

impl Lane<'_> {
    /// Records written so far.
    pub fn head(self) -> u64 {
        self.words[0].load(Ordering::Acquire)
    }

    /// The processor's own time, in picoseconds: no record that [`Lane::head`] does not say yet when it
    /// is asked after this is of an earlier one.
    pub fn now_ps(self) -> u64 {
        self.words[NOW].load(Ordering::Acquire)
    }

    /// A record, of those below [`Lane::head`].
    pub fn record(self, number: u64) -> Record {
        let at = RECORDS + 2 * (number % ENTRIES) as usize;
        Record {
            at_ps: self.words[at].load(Ordering::Relaxed),
            what: self.words[at + 1].load(Ordering::Relaxed),
        }
    }

    /// Says what was charged, and for how many records.
    pub fn charge(self, charged_ps: u64, tail: u64) {
        self.words[CHARGED].store(charged_ps, Ordering::Relaxed);
        self.words[TAIL].store(tail, Ordering::Release);
    }

    /// What the plugin counted. Exact while it waits for the ring to be empty.
    pub fn counters(self) -> Counters {
        let word = |at: usize| self.words[COUNTER + at].load(Ordering::Relaxed);
        Counters {
            instructions: word(0),
            accesses: word(1),
            first_misses: word(2),
            misses: word(3),
            clock_reads: word(4),
            device_accesses: word(5),
        }
    }
}

/// The words, seen from the plugin's side.
#[cfg(test)]
pub(crate) struct Teller<'a> {
    words: &'a [AtomicU64],
}

#[cfg(test)]
impl<'a> Teller<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Teller<'a> {
        Teller { words }
    }

    fn lane(&self, lane: usize) -> &[AtomicU64] {
        &self.words[HEADER + lane * LANE..]
    }

    pub(crate) fn write(&self, lane: usize, number: u64, record: Record) {
        let at = RECORDS + 2 * (number % ENTRIES) as usize;
        self.lane(lane)[at].store(record.at_ps, Ordering::Relaxed);
        self.lane(lane)[at + 1].store(record.what, Ordering::Relaxed);
    }

    pub(crate) fn publish(&self, lane: usize, head: u64, now_ps: u64) {
        self.lane(lane)[0].store(head, Ordering::Release);
        self.lane(lane)[NOW].store(now_ps, Ordering::Release);
    }

    pub(crate) fn tail(&self, lane: usize) -> u64 {
        self.lane(lane)[TAIL].load(Ordering::Acquire)
    }

    pub(crate) fn charged_ps(&self, lane: usize) -> u64 {
        self.lane(lane)[CHARGED].load(Ordering::Relaxed)
    }

    pub(crate) fn idle_ns(&self, idle_ns: u64) {
        self.words[6].store(idle_ns, Ordering::Release);
    }

    pub(crate) fn asleep(&self, asleep: bool) {
        self.words[7].store(u64::from(asleep), Ordering::Release);
    }
}
