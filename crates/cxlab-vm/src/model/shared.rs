//! Accesses to memory that guests share.
//!
//! The processor waits for each of them, so all guests' accesses are in the order of simulated
//! time. A load has its value when its line is there. A store has its effect when it is issued, and
//! the processor does not wait for its line.
//!
//! - Coherent memory (HDM-DB): the device's snoop filter decides what a request costs
//!   ([`Memory::demand`]). A request of a line waits until an earlier request of that line has completed.
//! - Other memory: each guest's caches hold copies, which no other guest changes. A guest loads the value that
//!   another guest has stored only after that guest has written its copy back and the loading guest has dropped its own.
//!
//! An atomic instruction is a locked load and a store. Between the two no other processor continues.
//!
//! Left out: the prefetcher, store buffers that reorder, and weakly ordered flushes. A flush has its effect
//! at once, and its write-back takes time until the next fence.

use super::{Model, OutstandingLine, RecordResult, Wait, WaitReason};
use crate::contents::{Contents, Words};
use crate::memory::{GuestLineAddr, LineRequest, Memory, SharedLine, SnoopCounts, Ticket};
use crate::ring::{Access, Operation, Record};

/// A guest's accesses to memory that guests share.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SharedCounts {
    /// Loads and stores.
    pub accesses: u64,
    /// Loads and stores that needed a request to a device.
    pub misses: u64,
    /// Loads that did not return the bytes stored last: from an older copy, or from memory to which another guest
    /// has not written its copy back.
    pub stale_loads: u64,
    /// Flushes: `clflush`, `clflushopt` and `clwb`.
    pub flushes: u64,
    /// Snoops by devices that keep their memory coherent.
    pub snoops: SnoopCounts,
}

impl SharedCounts {
    /// Counts since `before`.
    pub fn since(&self, before: &SharedCounts) -> SharedCounts {
        let snoops = (&self.snoops, &before.snoops);
        SharedCounts {
            accesses: self.accesses - before.accesses,
            misses: self.misses - before.misses,
            stale_loads: self.stale_loads - before.stale_loads,
            flushes: self.flushes - before.flushes,
            snoops: SnoopCounts {
                snoops: snoops.0.snoops - snoops.1.snoops,
                invalidated: snoops.0.invalidated - snoops.1.invalidated,
                written_back: snoops.0.written_back - snoops.1.written_back,
            },
        }
    }
}

/// State of the accesses to shared memory.
#[derive(Default)]
pub(super) struct Sharing {
    contents: Contents,
    /// Accesses of each guest.
    counts: Vec<SharedCounts>,
    /// Requests of coherent lines in flight. A line has at most one.
    coherent_requests: Vec<(SharedLine, Ticket)>,
    /// Values of loads that are done, by processor.
    replies: Vec<Option<u64>>,
    /// The processor between the load and the store of an atomic instruction.
    locked: Option<usize>,
}

impl Sharing {
    pub(super) fn new(guests: usize, lanes: usize) -> Sharing {
        Sharing {
            counts: vec![SharedCounts::default(); guests],
            replies: vec![None; lanes],
            ..Sharing::default()
        }
    }

    /// Removes a completed request, whose ticket may be used again.
    pub(super) fn completed(&mut self, ticket: Ticket) {
        self.coherent_requests.retain(|(_, other)| *other != ticket);
    }

    /// Records the value of a processor's load.
    pub(super) fn reply(&mut self, lane: usize, value: u64) {
        self.replies[lane] = Some(value);
    }

    /// Releases the lock of a processor that does something else than the locked store, or has ended.
    pub(super) fn unlock(&mut self, lane: usize) {
        self.locked.take_if(|locked| *locked == lane);
    }
}

impl<M: Memory> Model<M> {
    /// Gives the model the memories that guests share, by number.
    pub fn share(&mut self, memories: Vec<Box<dyn Words>>) {
        self.sharing.contents = Contents::new(memories);
    }

    /// A guest's accesses to shared memory so far.
    pub fn shared_counts(&self, guest: usize) -> SharedCounts {
        SharedCounts {
            snoops: self.memory.snoops(guest),
            ..self.sharing.counts[guest]
        }
    }

    /// The processor within an atomic instruction. Until its store, no other processor continues.
    pub fn locked(&self) -> Option<usize> {
        self.sharing.locked
    }

    /// Releases the lock of a processor that does something else than access memory.
    pub fn unlock(&mut self, lane: usize) {
        self.sharing.unlock(lane);
    }

    /// Removes and returns the value of a processor's load.
    pub fn take_reply(&mut self, lane: usize) -> Option<u64> {
        self.sharing.replies[lane].take()
    }

    /// Processes a record of kind [`crate::ring::Kind::Shared`] of a processor that does not wait.
    pub fn access(&mut self, lane: usize, record: Record, access: Access) -> RecordResult {
        let place = GuestLineAddr::from_record(record.what, self.lanes[lane].guest);
        let now = record.at_ps + self.lanes[lane].charged_ps;
        self.sharing.unlock(lane);
        self.memory.advance(now);
        self.collect(lane);
        let known = self.memory.shared(place).zip(self.memory.pool_of(place));
        match (access.operation, known) {
            (Operation::Fence, _) => self.fence(lane, now),
            (_, None) => self.sharing.replies[lane] = Some(0),
            (_, Some((line, pool))) => {
                let at = AccessContext {
                    lane,
                    now,
                    pool,
                    place,
                    line,
                };
                let merges = access.operation == Operation::Store && access.cached;
                if !self.waits_for_line(at, merges) {
                    self.perform(at, access);
                }
            }
        }
        let taken = self.taken(lane);
        if taken == RecordResult::Whole {
            self.count(lane, access);
        }
        taken
    }

    /// Processes a record of a line that the plugin's caches evict. A modified line is written back.
    pub(super) fn evict_shared(
        &mut self,
        lane: usize,
        now: u64,
        place: GuestLineAddr,
        line: SharedLine,
    ) {
        let guest = self.lanes[lane].guest;
        let Some(pool) = self.memory.pool_of(place) else {
            return;
        };
        let at = AccessContext {
            lane,
            now,
            pool,
            place,
            line,
        };
        if line.coherent {
            if !self.waits_for_line(at, false) && !self.waits_for_buffer(at) {
                self.evict(at);
            }
        } else if self.sharing.contents.is_dirty(guest, line) && !self.waits_for_buffer(at) {
            self.write_copy_back(at);
        }
    }

    /// Ends the wait of a load whose line has arrived.
    pub(super) fn loaded(&mut self, lane: usize, place: GuestLineAddr, access: Access) {
        let Some(line) = self.memory.shared(place) else {
            return;
        };
        let guest = self.lanes[lane].guest;
        if !line.coherent {
            self.sharing.contents.fetch(guest, line);
        }
        self.value(lane, line, access);
        self.count(lane, access);
    }

    fn count(&mut self, lane: usize, access: Access) {
        let counts = &mut self.sharing.counts[self.lanes[lane].guest];
        match access.operation {
            Operation::Load | Operation::Store => counts.accesses += 1,
            Operation::Flush | Operation::WriteBack => counts.flushes += 1,
            Operation::Fence => {}
        }
    }

    /// Makes the processor wait for a request of the line in flight: any processor's if the line is coherent, and
    /// otherwise its own. A merging store does not wait for its own processor's request. Returns whether
    /// the processor has to wait.
    fn waits_for_line(&mut self, at: AccessContext, merges: bool) -> bool {
        let one = &mut self.lanes[at.lane];
        let own = one.outstanding.iter().position(|one| one.place == at.place);
        if let Some(own) = own {
            if !merges {
                let line = one.outstanding.remove(own);
                one.waits = line.map(|one| Wait::of(one.ticket, at.now, WaitReason::Again));
            }
            return !merges;
        }
        let mut requests = self.sharing.coherent_requests.iter();
        let Some((_, ticket)) = requests.find(|(line, _)| *line == at.line).copied() else {
            return false;
        };
        let mut wait = Wait::of(ticket, at.now, WaitReason::Again);
        for other in &mut self.lanes {
            other.outstanding.retain(|one| one.ticket != ticket);
            if other.waits.is_some_and(|one| one.until == wait.until) {
                wait.reason = WaitReason::Behind;
            }
        }
        self.lanes[at.lane].waits = Some(wait);
        true
    }

    fn perform(&mut self, at: AccessContext, access: Access) {
        let guest = self.lanes[at.lane].guest;
        match access.operation {
            Operation::Load | Operation::Store => {
                if !access.cached {
                    // The plugin's caches have dropped the line without a record, because it was clean.
                    self.sharing.contents.write_back(guest, at.line);
                    self.sharing.contents.drop_copy(guest, at.line);
                    if at.line.coherent {
                        self.evict(at);
                    }
                }
                match access.operation {
                    Operation::Store => self.store(at, access),
                    _ => self.load(at, access),
                }
            }
            Operation::Flush | Operation::WriteBack => self.flush(at, access.operation),
            Operation::Fence => {}
        }
    }

    fn load(&mut self, at: AccessContext, access: Access) {
        let guest = self.lanes[at.lane].guest;
        let demand = match access.locked {
            true => LineRequest::Own,
            false => LineRequest::Load,
        };
        match self.request(at, demand) {
            None => self.value(at.lane, at.line, access),
            Some(ticket) => {
                self.counts[guest][at.pool].loads += 1;
                let reason = WaitReason::Shared {
                    pool: at.pool,
                    place: at.place,
                    access,
                };
                self.lanes[at.lane].waits = Some(Wait::of(ticket, at.now, reason));
            }
        }
    }

    fn store(&mut self, at: AccessContext, access: Access) {
        let guest = self.lanes[at.lane].guest;
        let misses = self.limits(at.lane).misses as usize;
        let one = &mut self.lanes[at.lane];
        if one.outstanding.len() >= misses
            && let Some(oldest) = one.outstanding.pop_front()
        {
            one.waits = Some(Wait::of(oldest.ticket, at.now, WaitReason::Again));
            return;
        }
        let own = one.outstanding.iter().any(|line| line.place == at.place);
        if !own && let Some(ticket) = self.request(at, LineRequest::Own) {
            self.lanes[at.lane].outstanding.push_back(OutstandingLine {
                place: at.place,
                ticket,
                prefetch: false,
            });
        }
        if !at.line.coherent && !self.sharing.contents.has_copy(guest, at.line) {
            self.sharing.contents.fetch(guest, at.line);
        }
        let bytes = (access.offset, access.bytes);
        self.sharing
            .contents
            .store(guest, at.line, bytes, access.value);
    }

    /// Requests a line if the guest's caches have no copy in the state that the access needs.
    fn request(&mut self, at: AccessContext, demand: LineRequest) -> Option<Ticket> {
        let guest = self.lanes[at.lane].guest;
        let (ticket, reads) = match at.line.coherent {
            true => self.memory.demand(at.now, at.place, demand)?,
            false if self.sharing.contents.has_copy(guest, at.line) => return None,
            false => (self.memory.issue(at.now, at.place, false), true),
        };
        if at.line.coherent {
            self.sharing.coherent_requests.push((at.line, ticket));
        }
        self.sharing.counts[guest].misses += 1;
        self.counts[guest][at.pool].lines_read += u64::from(reads);
        Some(ticket)
    }

    /// Records the value that a load returns.
    fn value(&mut self, lane: usize, line: SharedLine, access: Access) {
        let guest = self.lanes[lane].guest;
        let contents = &self.sharing.contents;
        let (value, stale) = contents.load(guest, line, access.offset, access.bytes);
        self.sharing.replies[lane] = Some(value);
        self.sharing.counts[guest].stale_loads += u64::from(stale);
        if access.locked {
            self.sharing.locked = Some(lane);
        }
    }

    fn flush(&mut self, at: AccessContext, operation: Operation) {
        let guest = self.lanes[at.lane].guest;
        let drops = operation == Operation::Flush;
        if at.line.coherent {
            if self.waits_for_buffer(at) {
                return;
            }
            self.evict(at);
            if drops
                && let Some((ticket, _)) = self.memory.demand(at.now, at.place, LineRequest::Flush)
            {
                self.lanes[at.lane].writes.push_back(ticket);
            }
            return;
        }
        if self.sharing.contents.is_dirty(guest, at.line) {
            if self.waits_for_buffer(at) {
                return;
            }
            self.write_copy_back(at);
        }
        if drops {
            self.sharing.contents.drop_copy(guest, at.line);
        }
    }

    /// Evicts a coherent line from the guest's caches, and writes a modified line back.
    fn evict(&mut self, at: AccessContext) {
        if let Some((ticket, _)) = self.memory.demand(at.now, at.place, LineRequest::Evict) {
            let one = &mut self.lanes[at.lane];
            one.writes.push_back(ticket);
            self.counts[one.guest][at.pool].lines_written += 1;
        }
    }

    fn write_copy_back(&mut self, at: AccessContext) {
        let one = &mut self.lanes[at.lane];
        self.sharing.contents.write_back(one.guest, at.line);
        let ticket = self.memory.issue(at.now, at.place, true);
        one.writes.push_back(ticket);
        self.counts[one.guest][at.pool].lines_written += 1;
    }

    /// Makes the processor wait for the oldest write-back if all write-back buffers are in use.
    fn waits_for_buffer(&mut self, at: AccessContext) -> bool {
        let most = self.limits(at.lane).writebacks as usize;
        let one = &mut self.lanes[at.lane];
        if one.writes.len() < most {
            return false;
        }
        let oldest = one.writes.pop_front();
        one.waits = oldest.map(|ticket| Wait::of(ticket, at.now, WaitReason::Again));
        one.waits.is_some()
    }

    /// Makes the processor wait until all its stores and write-backs are done.
    fn fence(&mut self, lane: usize, now: u64) {
        let one = &mut self.lanes[lane];
        let line = one.outstanding.iter().position(|line| !line.prefetch);
        let line = line.and_then(|at| one.outstanding.remove(at));
        let oldest = line.map(|line| line.ticket);
        let oldest = oldest.or_else(|| one.writes.pop_front());
        one.waits = oldest.map(|ticket| Wait::of(ticket, now, WaitReason::Again));
    }
}

/// Processor, time, pool and line of an access.
#[derive(Clone, Copy)]
struct AccessContext {
    lane: usize,
    now: u64,
    pool: usize,
    place: GuestLineAddr,
    line: SharedLine,
}
