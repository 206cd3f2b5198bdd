//! One Optane DIMM and its share of the memory controller.
//!
//! A write waits for a place in the write-pending queue, and completes when it has one. From the
//! queue, lines move in order and at the rate of the bus into the read-modify-write buffer, which
//! gathers the lines of a 256 B granule. A read is served from the queue, from the buffer, or by
//! the media, whose 256 bytes are put into the buffer. Reads of one granule share one access.
//!
//! Reads and writes need a buffer entry. A completely written granule goes to the media by itself,
//! and is clean once the media begins to write it. Without a free entry, a random one is evicted
//! (write amplification beyond the buffer's size grows as with random choice, FAST'20 Fig. 10). A
//! partly written entry leaves when the media begins to write it.
//!
//! The media serve accesses in order, a bounded number at once, and accesses to one granule one
//! after the other. Before an access, the address of the granule's block is looked up.
//!
//! Left out: wear levelling and its rare pauses of 50 us, the queue between bus and buffer (LENS's
//! LSQ), power limits, and how writes of many cores mix before they reach the memory controller.

use std::collections::VecDeque;

use cxlab_cache::{Geometry, SetRoom, Slot, TagArray, victim};
use cxlab_engine::list::NONE;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::slab::Slab;
use cxlab_engine::units::LineAddr;
use serde::{Deserialize, Serialize};

use super::GRANULE_LINES;
use super::pending::PendingRequests;

/// The mask of all lines of a granule.
const ALL: u8 = (1 << GRANULE_LINES) - 1;
/// Granules in a block of the address indirection table, 4 KiB (LENS).
const BLOCK_GRANULES: u64 = 16;

/// The parameters that all DIMMs share; times in picoseconds.
#[derive(Clone, Copy)]
pub(super) struct DimmParams {
    pub(super) interface_ps: u64,
    pub(super) accept_ps: u64,
    pub(super) line_ps: u64,
    pub(super) ait_ps: u64,
    pub(super) read_ps: u64,
    pub(super) write_ps: u64,
    pub(super) accesses: u32,
    pub(super) wpq: u32,
    pub(super) buffer: Geometry,
    pub(super) ait: Geometry,
}

/// Consecutive lines of one request on this DIMM.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct LineRun {
    pub(super) request: u32,
    /// The first line, counted on this DIMM.
    pub(super) line: u64,
    pub(super) lines: u32,
}

/// The counters of a DIMM.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct DimmCounters {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_hits: u64,
    pub(super) write_hits: u64,
    pub(super) ait_misses: u64,
    pub(super) media_reads: u64,
    pub(super) media_writes: u64,
}

impl DimmCounters {
    pub(super) fn add(&mut self, other: &DimmCounters) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_hits += other.read_hits;
        self.write_hits += other.write_hits;
        self.ait_misses += other.ait_misses;
        self.media_reads += other.media_reads;
        self.media_writes += other.media_writes;
    }
}

/// An entry of the read-modify-write buffer: masks of the present and of the written lines, its
/// state, and the first read that waits for the media.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct BufferEntry {
    here: u8,
    dirty: u8,
    busy: EntryState,
    waiting: u32,
}

const EMPTY: BufferEntry = BufferEntry {
    here: 0,
    dirty: 0,
    busy: EntryState::No,
    waiting: NONE,
};

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum EntryState {
    #[default]
    No,
    /// The media read the granule.
    Filling,
    /// The entry waits until the media begin to write it.
    Writing,
}

/// A read that waits for a granule.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct WaitingRead {
    request: u32,
    lines: u32,
    next: u32,
}

/// An access to the media.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct MediaAccess {
    granule: u64,
    slot: Slot,
    write: bool,
    /// The time at which the address is known; of an access in progress, the time at which it ends.
    at: u64,
}

pub(super) struct Dimm {
    params: DimmParams,
    reads: VecDeque<LineRun>,
    writes: VecDeque<LineRun>,
    /// Lines in the write-pending queue.
    wpq: VecDeque<u64>,
    buffer: TagArray<BufferEntry>,
    /// Whether a partly written entry waits for its eviction.
    leaving: bool,
    ait: TagArray<()>,
    waiting: Slab<WaitingRead>,
    /// Accesses that wait for the media, in order of the times at which their addresses are known.
    queue: VecDeque<MediaAccess>,
    media: Vec<MediaAccess>,
    bus_free: u64,
    /// Time of the next event; 2^64 - 1 for none.
    next: u64,
    pub(super) counts: DimmCounters,
}

save_state!(Dimm {
    values: reads, writes, wpq, leaving, waiting, queue, media, bus_free, next, counts;
    states: buffer, ait;
    built: params;
});

fn array<T: Copy + Default>(geometry: Geometry, policy: &str, rng: StreamRng) -> TagArray<T> {
    let policy = victim::build(policy).expect("the policy is in the catalog");
    TagArray::new(geometry, policy.as_ref(), rng)
}

impl Dimm {
    pub(super) fn new(params: &DimmParams, rng: StreamRng) -> Self {
        let entries = params.buffer.lines() as usize;
        Dimm {
            params: *params,
            reads: VecDeque::with_capacity(64),
            writes: VecDeque::with_capacity(64),
            wpq: VecDeque::with_capacity(params.wpq as usize),
            buffer: array(params.buffer, "random", rng.clone()),
            leaving: false,
            ait: array(params.ait, "lru", rng),
            waiting: Slab::with_capacity(entries),
            queue: VecDeque::with_capacity(entries + 1),
            media: Vec::with_capacity(params.accesses as usize),
            bus_free: 0,
            next: u64::MAX,
            counts: DimmCounters::default(),
        }
    }

    /// Time of the next event; 2^64 - 1 for none.
    #[inline]
    pub(super) fn next_event(&self) -> u64 {
        self.next
    }

    /// Accepts lines of a request.
    pub(super) fn enqueue(
        &mut self,
        now: u64,
        segment: LineRun,
        write: bool,
        pending: &mut PendingRequests,
    ) {
        while self.next <= now {
            self.step(pending);
        }
        if write {
            self.counts.writes += u64::from(segment.lines);
            self.writes.push_back(segment);
        } else {
            self.counts.reads += u64::from(segment.lines);
            self.reads.push_back(segment);
        }
        self.settle(now, pending);
    }

    /// Handles the next event.
    pub(super) fn step(&mut self, pending: &mut PendingRequests) {
        let now = self.next;
        while let Some(ended) = self.media.iter().position(|access| access.at <= now) {
            let access = self.media.swap_remove(ended);
            if !access.write {
                self.filled(now, access.slot, pending);
            }
        }
        self.settle(now, pending);
    }

    /// Does all work that is possible at `now`, and computes the time of the next event.
    fn settle(&mut self, now: u64, pending: &mut PendingRequests) {
        loop {
            let read = self.read(now, pending);
            let drained = self.drain(now);
            let admitted = self.admit(now, pending);
            // Last, because a request that waits for an entry may just have queued an eviction.
            let began = self.begin(now);
            if !(began || read || drained || admitted) {
                break;
            }
        }
        let ends = self.media.iter().map(|one| one.at);
        let mut next = ends.min().unwrap_or(u64::MAX);
        if self.media.len() < self.params.accesses as usize {
            let later = self.queue.iter().map(|one| one.at).find(|at| *at > now);
            next = next.min(later.unwrap_or(u64::MAX));
        }
        if !self.wpq.is_empty() && self.bus_free > now {
            next = next.min(self.bus_free);
        }
        self.next = next;
    }

    /// Starts accesses while the media have room.
    fn begin(&mut self, now: u64) -> bool {
        let mut any = false;
        while self.media.len() < self.params.accesses as usize {
            let free = |access: &MediaAccess| {
                let same = |other: &MediaAccess| other.granule == access.granule;
                access.at <= now && !self.media.iter().any(same)
            };
            let Some(mut access) = self
                .queue
                .iter()
                .position(free)
                .and_then(|first| self.queue.remove(first))
            else {
                break;
            };
            any = true;
            if access.write {
                self.counts.media_writes += 1;
                self.written(access.slot);
                access.at = now + self.params.write_ps;
            } else {
                self.counts.media_reads += 1;
                access.at = now + self.params.read_ps;
            }
            self.media.push(access);
        }
        any
    }

    /// Handles the start of a write: a completely written entry is clean now, any other is evicted.
    fn written(&mut self, slot: Slot) {
        let entry = &mut self.buffer[slot];
        if entry.dirty != ALL {
            self.buffer.remove(slot);
            self.leaving = false;
            return;
        }
        entry.dirty = 0;
        entry.busy = EntryState::No;
        self.buffer.unpin(slot);
    }

    /// Handles the end of a read: all lines of the granule are present, and waiting
    /// reads get theirs.
    fn filled(&mut self, now: u64, slot: Slot, pending: &mut PendingRequests) {
        let entry = &mut self.buffer[slot];
        entry.here = ALL;
        entry.busy = EntryState::No;
        let mut at = std::mem::replace(&mut entry.waiting, NONE);
        self.buffer.unpin(slot);
        if self.buffer[slot].dirty == ALL {
            self.write(now, slot);
        }
        while at != NONE {
            let read = self.waiting.remove(at);
            self.transfer(now, read.request, read.lines, pending);
            at = read.next;
        }
    }

    /// Sends lines over the bus to the requester.
    fn transfer(&mut self, now: u64, request: u32, lines: u32, pending: &mut PendingRequests) {
        self.bus_free = self.bus_free.max(now) + self.params.line_ps * u64::from(lines);
        let at = self.bus_free + self.params.interface_ps;
        pending.done(request, lines, at);
    }

    /// Serves reads in order until one must wait for an entry.
    fn read(&mut self, now: u64, pending: &mut PendingRequests) -> bool {
        let mut any = false;
        while let Some(segment) = self.reads.front().copied() {
            let granule = segment.line / GRANULE_LINES;
            let end = (granule + 1) * GRANULE_LINES;
            let lines = segment.lines.min((end - segment.line) as u32);
            if !self.read_granule(now, granule, segment, lines, pending) {
                break;
            }
            any = true;
            advance(&mut self.reads, lines);
        }
        any
    }

    /// Serves the first `lines` lines of a segment, all in one granule. Returns `false` if they
    /// must wait for a buffer entry.
    fn read_granule(
        &mut self,
        now: u64,
        granule: u64,
        segment: LineRun,
        lines: u32,
        pending: &mut PendingRequests,
    ) -> bool {
        let wanted = mask(segment.line, lines);
        let mut here = 0;
        for line in &self.wpq {
            if line / GRANULE_LINES == granule {
                here |= mask(*line, 1);
            }
        }
        let found = self.buffer.find(LineAddr(granule));
        if let Some(slot) = found {
            here |= self.buffer[slot].here;
        }
        if wanted & !here == 0 {
            self.counts.read_hits += u64::from(lines);
            self.transfer(now, segment.request, lines, pending);
            return true;
        }
        let Some(slot) = found.or_else(|| self.allocate(now, granule)) else {
            return false;
        };
        if self.buffer[slot].busy == EntryState::Writing {
            return false;
        }
        if self.buffer[slot].busy == EntryState::No {
            self.buffer[slot].busy = EntryState::Filling;
            self.buffer.pin(slot);
            self.queue_access(now, granule, slot, false);
        }
        let number = self.waiting.insert(WaitingRead {
            request: segment.request,
            lines,
            next: self.buffer[slot].waiting,
        });
        self.buffer[slot].waiting = number;
        true
    }

    /// Allocates a buffer entry for a granule; `None` if none is free yet.
    fn allocate(&mut self, now: u64, granule: u64) -> Option<Slot> {
        if self.buffer.len() == self.params.buffer.lines() {
            if self.leaving {
                return None;
            }
            let SetRoom::Evict(block) = self.buffer.room(LineAddr(granule)) else {
                return None;
            };
            let slot = self.buffer.find(block.victim)?;
            if self.buffer[slot].dirty != 0 {
                self.leaving = true;
                self.write(now, slot);
                return None;
            }
            self.buffer.remove(slot);
        }
        Some(self.buffer.insert(LineAddr(granule), EMPTY))
    }

    /// Queues the write of a dirty entry.
    fn write(&mut self, now: u64, slot: Slot) {
        self.buffer[slot].busy = EntryState::Writing;
        self.buffer.pin(slot);
        let granule = self.buffer.line(slot).0;
        self.queue_access(now, granule, slot, true);
    }

    /// Queues an access for the time at which its address is known.
    fn queue_access(&mut self, now: u64, granule: u64, slot: Slot, write: bool) {
        let mut at = now;
        if !self.look_up(granule) {
            self.counts.ait_misses += 1;
            at += self.params.ait_ps;
        }
        let access = MediaAccess {
            granule,
            slot,
            write,
            at,
        };
        let place = self.queue.partition_point(|other| other.at <= at);
        self.queue.insert(place, access);
    }

    /// Updates the buffer and the address table for an access without time, while no request
    /// is in flight.
    pub(super) fn warm(&mut self, line: u64, write: bool) {
        let (granule, own) = (line / GRANULE_LINES, mask(line, 1));
        let found = self.buffer.find(LineAddr(granule));
        if !write && found.is_some_and(|slot| self.buffer[slot].here & own != 0) {
            return;
        }
        let slot = match found {
            Some(slot) => slot,
            None => self.warm_entry(granule),
        };
        let entry = &mut self.buffer[slot];
        if write {
            entry.here |= own;
            entry.dirty |= own;
            if entry.dirty != ALL {
                return;
            }
            entry.dirty = 0;
        } else {
            entry.here = ALL;
        }
        // The pin and unpin of a media access, because they influence later random choices.
        self.buffer.pin(slot);
        self.look_up(granule);
        self.buffer.unpin(slot);
    }

    /// Allocates a buffer entry for a granule, and evicts another one if the buffer is full.
    fn warm_entry(&mut self, granule: u64) -> Slot {
        if self.buffer.len() == self.params.buffer.lines()
            && let SetRoom::Evict(block) = self.buffer.room(LineAddr(granule))
            && let Some(slot) = self.buffer.find(block.victim)
        {
            if self.buffer[slot].dirty != 0 {
                self.buffer.pin(slot);
                self.look_up(block.victim.0);
            }
            self.buffer.remove(slot);
        }
        self.buffer.insert(LineAddr(granule), EMPTY)
    }

    /// Looks up the address of a granule's block; returns whether the table has it already.
    fn look_up(&mut self, granule: u64) -> bool {
        let block = LineAddr(granule / BLOCK_GRANULES);
        let found = self.ait.access(block).is_some();
        if !found {
            self.ait.fill(block, ());
        }
        found
    }

    /// Moves lines from the write-pending queue into the buffer, at the rate of the bus.
    fn drain(&mut self, now: u64) -> bool {
        let mut any = false;
        while let Some(line) = self.wpq.front().copied()
            && self.bus_free <= now
        {
            let granule = line / GRANULE_LINES;
            let found = self.buffer.find(LineAddr(granule));
            let Some(slot) = found.or_else(|| self.allocate(now, granule)) else {
                break;
            };
            if self.buffer[slot].busy == EntryState::Writing {
                break;
            }
            self.counts.write_hits += u64::from(found.is_some());
            let entry = &mut self.buffer[slot];
            entry.here |= mask(line, 1);
            entry.dirty |= mask(line, 1);
            if entry.dirty == ALL && entry.busy == EntryState::No {
                self.write(now, slot);
            }
            self.bus_free = now + self.params.line_ps;
            self.wpq.pop_front();
            any = true;
        }
        any
    }

    /// Moves writes into the write-pending queue while there is room.
    fn admit(&mut self, now: u64, pending: &mut PendingRequests) -> bool {
        let mut any = false;
        while self.wpq.len() < self.params.wpq as usize
            && let Some(segment) = self.writes.front().copied()
        {
            self.wpq.push_back(segment.line);
            pending.done(segment.request, 1, now + self.params.accept_ps);
            advance(&mut self.writes, 1);
            any = true;
        }
        any
    }
}

/// The bit mask for lines of one granule.
#[inline]
fn mask(line: u64, lines: u32) -> u8 {
    (((1u16 << lines) - 1) << (line % GRANULE_LINES)) as u8
}

/// Removes lines from the first segment of a queue.
#[inline]
fn advance(queue: &mut VecDeque<LineRun>, lines: u32) {
    if let Some(segment) = queue.front_mut() {
        segment.line += u64::from(lines);
        segment.lines -= lines;
        if segment.lines == 0 {
            queue.pop_front();
        }
    }
}
