//! Accesses to memory that guests share.
//!
//! The processor waits for each of them, so all guests' accesses are in the order of simulated
//! time. A load has its value when its line is there. A store has its effect when it is issued, and
//! the processor does not wait for its line.
//!
//! - Coherent memory (HDM-DB): the device's snoop filter decides what a request costs
//!   ([`Memory::demand`]). A request of a line waits until another of that line has completed.
//! - Other memory: each guest's caches hold copies, which nobody else changes. A guest sees what
//!   another has stored only when that one has written its copy back and this one has dropped its own.
//!
//! An atomic instruction is a locked load and a store. Between the two no other processor goes on.
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
    /// Loads that returned other bytes than were stored last: of a copy that is older, or of memory
    /// to which another guest has not written its own back.
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
    flying: Vec<(SharedLine, Ticket)>,
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

    /// A request has completed, so its number may be used again.
    pub(super) fn completed(&mut self, ticket: Ticket) {
        self.flying.retain(|(_, flying)| *flying != ticket);
    }

    /// A processor's load is done.
    pub(super) fn reply(&mut self, lane: usize, value: u64) {
        self.replies[lane] = Some(value);
    }

    /// A processor does something else, or has ended.
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

    /// The processor that is in an atomic instruction. Until its store, no other goes on.
    pub fn locked(&self) -> Option<usize> {
        self.sharing.locked
    }

    /// A processor does something that is no access to memory.
    pub fn unlock(&mut self, lane: usize) {
        self.sharing.unlock(lane);
    }

    /// The value of a processor's load, once.
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
                let at = AccessMoment {
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

    /// A record of a line that the plugin's caches evict: a modified one is written back.
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
        let at = AccessMoment {
            lane,
            now,
            pool,
            place,
            line,
        };
        if line.coherent {
            if !self.waits_for_line(at, false) && !self.waits_for_buffer(at) {
                self.give_up(at);
            }
        } else if self.sharing.contents.is_dirty(guest, line) && !self.waits_for_buffer(at) {
            self.write_copy_back(at);
        }
    }

    /// Ends the wait of a load: its line is there.
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

    /// Waits for a request of the line that is in flight: of a coherent line, anyone's; of another
    /// line, the guest's own. A store that merges waits for none of its own guest. Returns false if
    /// there is none to wait for.
    fn waits_for_line(&mut self, at: AccessMoment, merges: bool) -> bool {
        let one = &mut self.lanes[at.lane];
        let own = one.flights.iter().position(|one| one.place == at.place);
        if let Some(own) = own {
            if !merges {
                let flight = one.flights.remove(own);
                one.waits = flight.map(|one| Wait::of(one.ticket, at.now, WaitReason::Again));
            }
            return !merges;
        }
        let mut flying = self.sharing.flying.iter();
        let Some((_, ticket)) = flying.find(|(line, _)| *line == at.line).copied() else {
            return false;
        };
        let mut wait = Wait::of(ticket, at.now, WaitReason::Again);
        for other in &mut self.lanes {
            other.flights.retain(|one| one.ticket != ticket);
            if other.waits.is_some_and(|one| one.until == wait.until) {
                wait.why = WaitReason::Behind;
            }
        }
        self.lanes[at.lane].waits = Some(wait);
        true
    }

    fn perform(&mut self, at: AccessMoment, access: Access) {
        let guest = self.lanes[at.lane].guest;
        match access.operation {
            Operation::Load | Operation::Store => {
                if !access.cached {
                    // The plugin's caches have dropped the line without a word: it was clean.
                    self.sharing.contents.write_back(guest, at.line);
                    self.sharing.contents.drop_copy(guest, at.line);
                    if at.line.coherent {
                        self.give_up(at);
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

    fn load(&mut self, at: AccessMoment, access: Access) {
        let guest = self.lanes[at.lane].guest;
        let demand = match access.locked {
            true => LineRequest::Own,
            false => LineRequest::Load,
        };
        match self.request(at, demand) {
            None => self.value(at.lane, at.line, access),
            Some(ticket) => {
                self.counts[guest][at.pool].loads += 1;
                let why = WaitReason::Shared {
                    pool: at.pool,
                    place: at.place,
                    access,
                };
                self.lanes[at.lane].waits = Some(Wait::of(ticket, at.now, why));
            }
        }
    }

    fn store(&mut self, at: AccessMoment, access: Access) {
        let guest = self.lanes[at.lane].guest;
        let misses = self.limits(at.lane).misses as usize;
        let one = &mut self.lanes[at.lane];
        if one.flights.len() >= misses
            && let Some(oldest) = one.flights.pop_front()
        {
            one.waits = Some(Wait::of(oldest.ticket, at.now, WaitReason::Again));
            return;
        }
        let own = one.flights.iter().any(|flight| flight.place == at.place);
        if !own && let Some(ticket) = self.request(at, LineRequest::Own) {
            self.lanes[at.lane].flights.push_back(OutstandingLine {
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

    /// Requests a line if the guest's caches do not have it as they need it.
    fn request(&mut self, at: AccessMoment, demand: LineRequest) -> Option<Ticket> {
        let guest = self.lanes[at.lane].guest;
        let (ticket, reads) = match at.line.coherent {
            true => self.memory.demand(at.now, at.place, demand)?,
            false if self.sharing.contents.has_copy(guest, at.line) => return None,
            false => (self.memory.issue(at.now, at.place, false), true),
        };
        if at.line.coherent {
            self.sharing.flying.push((at.line, ticket));
        }
        self.sharing.counts[guest].misses += 1;
        self.counts[guest][at.pool].lines_read += u64::from(reads);
        Some(ticket)
    }

    /// The reply to a load.
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

    fn flush(&mut self, at: AccessMoment, operation: Operation) {
        let guest = self.lanes[at.lane].guest;
        let drops = operation == Operation::Flush;
        if at.line.coherent {
            if self.waits_for_buffer(at) {
                return;
            }
            self.give_up(at);
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

    /// The guest's caches give up a coherent line, and write it back if it is modified.
    fn give_up(&mut self, at: AccessMoment) {
        if let Some((ticket, _)) = self.memory.demand(at.now, at.place, LineRequest::Evict) {
            let one = &mut self.lanes[at.lane];
            one.writes.push_back(ticket);
            self.counts[one.guest][at.pool].lines_written += 1;
        }
    }

    fn write_copy_back(&mut self, at: AccessMoment) {
        let one = &mut self.lanes[at.lane];
        self.sharing.contents.write_back(one.guest, at.line);
        let ticket = self.memory.issue(at.now, at.place, true);
        one.writes.push_back(ticket);
        self.counts[one.guest][at.pool].lines_written += 1;
    }

    /// Waits for the oldest write-back if there are as many as there may be.
    fn waits_for_buffer(&mut self, at: AccessMoment) -> bool {
        let most = self.limits(at.lane).writebacks as usize;
        let one = &mut self.lanes[at.lane];
        if one.writes.len() < most {
            return false;
        }
        let oldest = one.writes.pop_front();
        one.waits = oldest.map(|ticket| Wait::of(ticket, at.now, WaitReason::Again));
        one.waits.is_some()
    }

    /// Waits until all stores and write-backs of the processor are done.
    fn fence(&mut self, lane: usize, now: u64) {
        let one = &mut self.lanes[lane];
        let flight = one.flights.iter().position(|flight| !flight.prefetch);
        let flight = flight.and_then(|at| one.flights.remove(at));
        let oldest = flight.map(|flight| flight.ticket);
        let oldest = oldest.or_else(|| one.writes.pop_front());
        one.waits = oldest.map(|ticket| Wait::of(ticket, now, WaitReason::Again));
    }
}

/// Where and when an access is performed.
#[derive(Clone, Copy)]
struct AccessMoment {
    lane: usize,
    now: u64,
    pool: usize,
    place: GuestLineAddr,
    line: SharedLine,
}
