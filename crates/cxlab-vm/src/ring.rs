//! Memory shared by the plugin and the model, as `adapters/qemu/ring.h` defines it: words of 64 bits.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::GuestLineAddr;

/// The bytes "cxabring".
const MAGIC: u64 = 0x676e_6972_6261_7863;
/// Version of the layout.
const LAYOUT: u64 = 4;
/// Number of rings, and so most processors of a guest.
pub const LANES: usize = 8;
/// Number of records of a ring.
pub const ENTRIES: u64 = 4096;
/// Number of counters of a processor.
const COUNTERS: usize = 8;

const HEADER: usize = 8;
const NOW: usize = 1;
const ACCESS: usize = 2;
const VALUE: usize = 3;
const TAIL: usize = 8;
const CHARGED: usize = 9;
const REPLY: usize = 10;
const COUNTER: usize = 16;
const RECORDS: usize = COUNTER + COUNTERS;
const LANE: usize = RECORDS + 2 * ENTRIES as usize;
/// Most windows of CXL memory of a guest.
pub const MOST_WINDOWS: usize = 8;
/// Number of words of all rings.
pub const WORDS: usize = HEADER + LANES * LANE;

/// Words behind the rings of a guest with an accelerator: place of its memory in QEMU, and lists of lines.
const OWN: usize = WORDS;
const WINDOWS: usize = OWN + 3;
const LISTED: usize = WINDOWS + 4 * MOST_WINDOWS;
const DROPPED: usize = LISTED + 1;
const LINES: usize = DROPPED + 1;
/// Most lines in a list of the plugin or of the model.
pub const MOST_LINES: usize = 131_072;
/// Number of words in all, where the guest has an accelerator.
pub const WORDS_WITH_DEVICE: usize = LINES + MOST_LINES;
/// First address of an accelerator's registers, behind all addresses of a plan.
pub const REGISTERS: u64 = 1 << 54;
/// Bytes of registers.
pub const REGISTER_BYTES: u64 = 4096;
/// Offset of the register whose store starts a command. The plugin lists the lines of its caches before.
pub const DOORBELL: u64 = 0x18;

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A load that missed every cache.
    Load,
    /// A store that missed every cache.
    Store,
    /// A modified line that the last-level cache evicts.
    WriteBack,
    /// The guest reached a mark.
    Mark,
    /// An access to memory that guests share, or to a register. The processor waits for its [`Access`].
    Shared,
}

/// Operation of an access to memory that guests share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A read of up to eight bytes.
    Load,
    /// A write of up to eight bytes.
    Store,
    /// Writes a modified line back and drops it from the caches: `clflush` or `clflushopt`.
    Flush,
    /// Writes a modified line back: `clwb`.
    WriteBack,
    /// Waits until all earlier flushes have reached memory: `sfence` or `mfence`.
    Fence,
}

/// An access to memory that guests share, within one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Operation of the access.
    pub operation: Operation,
    /// Offset of the first byte in the line, 0 to 63.
    pub offset: usize,
    /// Number of bytes of a load or store, 1 to 8.
    pub bytes: usize,
    /// Whether the access is part of an atomic instruction, which is a load and the store that follows.
    pub locked: bool,
    /// Whether the plugin's caches have the line, unless another guest has taken it.
    pub cached: bool,
    /// The bytes that a store writes, the lowest first.
    pub value: u64,
}

impl Access {
    /// Parses the words of a plugin. `None` if the words are no access within a line.
    fn from_words(what: u64, value: u64) -> Option<Access> {
        let operation = match what & 0xff {
            0 => Operation::Load,
            1 => Operation::Store,
            2 => Operation::Flush,
            3 => Operation::WriteBack,
            4 => Operation::Fence,
            _ => return None,
        };
        let byte = |at: u32| (what >> (8 * at) & 0xff) as usize;
        let access = Access {
            operation,
            offset: byte(1),
            bytes: byte(2),
            locked: byte(3) & 1 != 0,
            cached: byte(3) & 2 != 0,
            value,
        };
        let inside = access.bytes <= 8 && access.offset + access.bytes <= 64;
        inside.then_some(access)
    }
}

/// A record of the plugin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Record {
    /// The processor's own time plus the time that was skipped while all processors slept, in picoseconds.
    pub at_ps: u64,
    /// Address of the line and kind of the record, or number of the mark.
    pub what: u64,
}

impl Record {
    /// Kind of the record.
    pub fn kind(self) -> Kind {
        match self.what & 7 {
            4 => Kind::Shared,
            0 => Kind::Load,
            1 => Kind::Store,
            2 => Kind::WriteBack,
            _ => Kind::Mark,
        }
    }

    /// The offset of an access to a register; `None` for other records.
    pub fn register(self, access: Access) -> Option<u64> {
        let offset = (self.what & !GuestLineAddr::CXL & !63).wrapping_sub(REGISTERS);
        let is_one = self.kind() == Kind::Shared && offset < REGISTER_BYTES;
        is_one.then_some(offset + access.offset as u64)
    }

    /// The number of a mark.
    pub fn mark(self) -> u64 {
        self.what / 64
    }
}

/// Counters of the plugin for one processor, since the first mark.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Instructions that the processor executed.
    pub instructions: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Accesses that missed the first-level cache.
    pub first_misses: u64,
    /// Accesses that missed every cache.
    pub misses: u64,
    /// Number of clock reads.
    pub clock_reads: u64,
    /// Accesses to devices, which bypass the caches.
    pub device_accesses: u64,
}

impl Counters {
    /// Sum of the counters of two processors.
    pub fn plus(&self, other: &Counters) -> Counters {
        self.each(other, u64::wrapping_add)
    }

    /// Counts since `before`.
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

/// State of the guest's clock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClockState {
    /// The plugin has not published it yet.
    #[default]
    Unknown,
    /// The clock follows the model.
    Simulated,
    /// The clock is this machine's.
    Host,
}

/// The shared words, from the model's side.
#[derive(Clone, Copy)]
pub struct ModelWords<'a> {
    words: &'a [AtomicU64],
}

impl<'a> ModelWords<'a> {
    /// Initialises at least [`WORDS`] words that are zero. `None` if there are fewer.
    pub fn new(words: &'a [AtomicU64]) -> Option<ModelWords<'a>> {
        if words.len() < WORDS {
            return None;
        }
        words[1].store(LAYOUT, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Some(ModelWords { words })
    }

    /// Version of QEMU's plugin interface. `None` before the plugin is loaded.
    pub fn version(self) -> Option<u64> {
        Some(self.words[2].load(Ordering::Acquire)).filter(|version| *version > 0)
    }

    /// State of the guest's clock.
    pub fn clock(self) -> ClockState {
        match self.words[3].load(Ordering::Acquire) {
            0 => ClockState::Unknown,
            1 => ClockState::Simulated,
            _ => ClockState::Host,
        }
    }

    /// Number of windows of CXL memory that are as fast as other memory in QEMU.
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

    /// Extents of the guest's memory, once the plugin has published them. `None` in a guest without accelerator.
    pub fn extents(self) -> Option<Vec<Extent>> {
        let word = |at: usize| self.words[at].load(Ordering::Relaxed);
        if self.words.len() < WORDS_WITH_DEVICE || self.words[OWN].load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut extents = own_extents(word(OWN), word(OWN + 1), word(OWN + 2));
        for window in 0..MOST_WINDOWS {
            let at = WINDOWS + 4 * window;
            let extent = Extent {
                memory: word(at),
                guest: word(at + 1),
                bytes: word(at + 2),
                place: word(at + 3) | GuestLineAddr::CXL,
            };
            extents.extend((extent.bytes > 0).then_some(extent));
        }
        Some(extents)
    }

    /// The lines that the caches held when the doorbell was written: address as in records, and whether the line is
    /// modified. A line may be listed several times.
    pub fn listed(self) -> Vec<(u64, bool)> {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let count = self.words.get(LISTED).map_or(0, load) as usize;
        let lines = self.words.get(LINES..).unwrap_or_default().iter();
        let lines = lines.take(count).map(load);
        lines.map(|line| (line & !63, line & 1 != 0)).collect()
    }

    /// Invalidates up to [`MOST_LINES`] lines in the caches, before the access that the processor waits for ends.
    pub fn take(self, lines: &[u64]) {
        let room = self.words.get(LINES..).unwrap_or_default();
        let count = lines.len().min(room.len());
        for (word, line) in room.iter().zip(lines) {
            word.store(*line, Ordering::Relaxed);
        }
        if let Some(word) = self.words.get(DROPPED) {
            word.store(count as u64, Ordering::Relaxed);
        }
    }

    /// The ring of processor `number`, which must be below [`LANES`].
    pub fn lane(self, number: usize) -> Lane<'a> {
        let from = HEADER + (number % LANES) * LANE;
        Lane {
            words: &self.words[from..from + LANE],
        }
    }
}

/// A part of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Address of its first byte in QEMU.
    pub memory: u64,
    /// Address of its first byte in the guest.
    pub guest: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Address of its first byte in records.
    pub place: u64,
}

/// The guest's own memory. QEMU's q35 has up to 2.75 GiB of it in one piece, and otherwise all but the first 2 GiB
/// from 4 GiB on. `first` is its first address in records; all ones if these have the guest's addresses.
fn own_extents(memory: u64, bytes: u64, first: u64) -> Vec<Extent> {
    let below = if bytes >= 0xb000_0000 { 2 << 30 } else { bytes };
    let piece = |from: u64, guest: u64, bytes: u64| Extent {
        memory: memory + from,
        guest,
        bytes,
        place: match first {
            u64::MAX => guest,
            first => first + from,
        },
    };
    let pieces = [piece(0, 0, below), piece(below, 4 << 30, bytes - below)];
    pieces.into_iter().filter(|one| one.bytes > 0).collect()
}

/// The ring of a processor.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    words: &'a [AtomicU64],
}

impl Lane<'_> {
    /// Number of records written so far.
    pub fn head(self) -> u64 {
        self.words[0].load(Ordering::Acquire)
    }

    /// The processor's own time, in picoseconds. Records that [`Lane::head`] does not count yet, if
    /// it is read after this time, have no earlier time.
    pub fn now_ps(self) -> u64 {
        self.words[NOW].load(Ordering::Acquire)
    }

    /// The record `number`, which must be below [`Lane::head`].
    pub fn record(self, number: u64) -> Record {
        let at = RECORDS + 2 * (number % ENTRIES) as usize;
        Record {
            at_ps: self.words[at].load(Ordering::Relaxed),
            what: self.words[at + 1].load(Ordering::Relaxed),
        }
    }

    /// The access of a record of kind [`Kind::Shared`], for which the processor waits. `None` if the
    /// plugin's words make no sense.
    pub fn access(self) -> Option<Access> {
        let word = |at: usize| self.words[at].load(Ordering::Relaxed);
        Access::from_words(word(ACCESS), word(VALUE))
    }

    /// Gives the value of a load, before the record is charged.
    pub fn reply(self, value: u64) {
        self.words[REPLY].store(value, Ordering::Relaxed);
    }

    /// Publishes the charged time, and the number of charged records.
    pub fn charge(self, charged_ps: u64, tail: u64) {
        self.words[CHARGED].store(charged_ps, Ordering::Relaxed);
        self.words[TAIL].store(tail, Ordering::Release);
    }

    /// Counters of the plugin. They are exact while it waits for the ring to be empty.
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

/// Words of shared memory with the value 0.
#[cfg(test)]
pub(crate) fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The shared words, from the plugin's side.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct RingWriter<'a> {
    words: &'a [AtomicU64],
}

#[cfg(test)]
impl<'a> RingWriter<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> RingWriter<'a> {
        RingWriter { words }
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

    /// An access to shared memory, whose record is then written. Flag 1 is locked, and 2 is cached.
    pub(crate) fn access(&self, lane: usize, operation: u64, bytes: [u64; 2], flags: u64) {
        let [offset, count] = bytes;
        let what = operation | offset << 8 | count << 16 | flags << 24;
        self.lane(lane)[ACCESS].store(what, Ordering::Relaxed);
    }

    pub(crate) fn value(&self, lane: usize, value: u64) {
        self.lane(lane)[VALUE].store(value, Ordering::Relaxed);
    }

    pub(crate) fn reply(&self, lane: usize) -> u64 {
        self.lane(lane)[REPLY].load(Ordering::Relaxed)
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

/// Where the parts behind the rings begin, and where they end.
#[cfg(test)]
pub(crate) const WORDS_BEHIND: [usize; 6] =
    [OWN, WINDOWS, LISTED, DROPPED, LINES, WORDS_WITH_DEVICE];

/// The words behind the rings, from the plugin's side.
#[cfg(test)]
impl ModelWords<'_> {
    pub(crate) fn list(self, lines: &[u64]) {
        for (word, line) in self.words[LINES..].iter().zip(lines) {
            word.store(*line, Ordering::Relaxed);
        }
        self.words[LISTED].store(lines.len() as u64, Ordering::Relaxed);
    }

    pub(crate) fn taken(self) -> Vec<u64> {
        let count = self.words[DROPPED].swap(0, Ordering::Relaxed) as usize;
        let lines = self.words[LINES..].iter().take(count);
        lines.map(|line| line.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn publish_own(self, memory: u64, bytes: u64, first: u64) {
        for (at, word) in [memory, bytes, first].into_iter().enumerate() {
            self.words[OWN + at].store(word, Ordering::Relaxed);
        }
    }
}
