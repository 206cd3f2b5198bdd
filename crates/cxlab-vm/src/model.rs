//! The time model of processors behind their caches: what each cache miss costs.
//!
//! The plugin reports at which time of the processor's own clock a line missed every cache. The model computes how much
//! time the miss adds to that clock. QEMU executes accesses in program order and knows no data dependences, so the
//! processor waits for every load that misses. It does not wait for stores (their lines are read meanwhile), for
//! write-backs, nor for lines that the prefetcher requested early enough. The number of MSHRs bounds the lines in
//! flight. With all MSHRs in use, the processor waits for the oldest line.
//!
//! Left out: overlap of independent loads that are not consecutive, instruction misses,
//! page table walks, coherence between processors of one guest.
//!
//! Memory that several guests share is in [`shared`].

pub mod shared;

use std::collections::VecDeque;

use crate::memory::{GuestLineAddr, Memory, StuckBackend, Ticket};
use crate::prefetch::Prefetcher;
use crate::ring::{Access, Kind, Record};
use shared::Sharing;

/// Most lines that were prefetched and not yet used, as a multiple of the MSHRs.
const PREFETCHED_PER_MSHR: usize = 4;

/// Limits on a processor's requests in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Lines in flight from memory (MSHRs of the last-level cache).
    pub misses: u32,
    /// Write-backs in flight.
    pub writebacks: u32,
}

/// Requests to a pool. Times are in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolCounts {
    /// Number of loads that missed.
    pub loads: u64,
    /// Number of these loads whose line had been prefetched.
    pub prefetched: u64,
    /// Time that the processor waited for loads.
    pub waited_ps: u64,
    /// Number of lines read: by loads, stores and prefetches.
    pub lines_read: u64,
    /// Number of these lines that a load requested itself.
    pub demand: u64,
    /// Sum of the latencies of these lines.
    pub demand_ps: u64,
    /// Number of lines written back.
    pub lines_written: u64,
}

impl PoolCounts {
    /// Counts since `before`.
    pub fn since(&self, before: &PoolCounts) -> PoolCounts {
        PoolCounts {
            loads: self.loads - before.loads,
            prefetched: self.prefetched - before.prefetched,
            waited_ps: self.waited_ps - before.waited_ps,
            lines_read: self.lines_read - before.lines_read,
            demand: self.demand - before.demand,
            demand_ps: self.demand_ps - before.demand_ps,
            lines_written: self.lines_written - before.lines_written,
        }
    }
}

/// A line in flight.
#[derive(Clone, Copy, Debug)]
struct OutstandingLine {
    place: GuestLineAddr,
    ticket: Ticket,
    prefetch: bool,
}

/// Response that a processor waits for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    until: WaitEnd,
    from_ps: u64,
    reason: WaitReason,
}

impl Wait {
    fn of(ticket: Ticket, from_ps: u64, reason: WaitReason) -> Wait {
        Wait {
            until: WaitEnd::Ticket(ticket),
            from_ps,
            reason,
        }
    }
}

/// End of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaitEnd {
    /// A request completes.
    Ticket(Ticket),
    /// A time. The request has completed.
    Time(u64),
}

/// Reason of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaitReason {
    /// The line of a load. `demand` is set if this load requested the line.
    Load { pool: usize, demand: bool },
    /// An MSHR. The processor waits for the oldest line, which is kept if it was
    /// prefetched. The record is processed again.
    Mshr { kept: Option<GuestLineAddr> },
    /// A free write-back buffer, or another request. The record is processed again.
    Again,
    /// A request that another processor waits for. The record is processed again.
    Behind,
    /// The line of a load from memory that guests share.
    Shared {
        pool: usize,
        place: GuestLineAddr,
        access: Access,
    },
    /// The value of a register of an accelerator.
    Register(u64),
}

/// Result of processing a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordResult {
    /// The record is charged.
    Whole,
    /// The record will be charged when the processor has waited.
    Waits,
}

/// State of a processor.
#[derive(Default)]
struct Lane {
    guest: usize,
    charged_ps: u64,
    outstanding: VecDeque<OutstandingLine>,
    writes: VecDeque<Ticket>,
    /// Lines that were prefetched and not yet used.
    kept: VecDeque<GuestLineAddr>,
    prefetcher: Prefetcher,
    waits: Option<Wait>,
}

/// The processors of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processors {
    /// Number of processors.
    pub count: usize,
    /// Limits of each processor.
    pub limits: Limits,
}

/// All processors of all guests, and their memory. Processors are numbered guest by guest.
pub struct Model<M> {
    memory: M,
    limits: Vec<Limits>,
    counts: Vec<Vec<PoolCounts>>,
    lanes: Vec<Lane>,
    sharing: Sharing,
}

impl<M: Memory> Model<M> {
    /// A model with idle processors. `guests` gives the processors of each guest.
    pub fn new(memory: M, guests: &[Processors]) -> Model<M> {
        let counts = |guest| vec![PoolCounts::default(); memory.pools(guest).len()];
        let lanes = guests.iter().enumerate().flat_map(|(guest, one)| {
            (0..one.count).map(move |_| Lane {
                guest,
                ..Lane::default()
            })
        });
        Model {
            limits: guests.iter().map(|one| one.limits).collect(),
            counts: (0..guests.len()).map(counts).collect(),
            sharing: Sharing::new(guests.len(), guests.iter().map(|one| one.count).sum()),
            lanes: lanes.collect(),
            memory,
        }
    }

    /// The memory that all processors share.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Requests to each of a guest's pools so far.
    pub fn counts(&self, guest: usize) -> &[PoolCounts] {
        &self.counts[guest]
    }

    /// Time charged to a processor so far, in picoseconds.
    pub fn charged_ps(&self, lane: usize) -> u64 {
        self.lanes[lane].charged_ps
    }

    /// Charges a processor for time that it waits for other guests.
    pub fn hold(&mut self, lane: usize, time_ps: u64) {
        self.lanes[lane].charged_ps += time_ps;
    }

    /// Drops the wait of a processor that has ended. A processor queued behind it then waits for the request.
    pub fn leave(&mut self, lane: usize) {
        self.sharing.unlock(lane);
        let Some(left) = self.lanes[lane].waits.take() else {
            return;
        };
        let waits = self.lanes.iter_mut().filter_map(|one| one.waits.as_mut());
        let mut behind = waits.filter(|wait| wait.until == left.until);
        if let Some(next) = behind.next()
            && left.reason != WaitReason::Behind
        {
            next.reason = WaitReason::Again;
        }
    }

    /// Whether a processor waits for memory.
    pub fn waits(&self, lane: usize) -> bool {
        self.lanes[lane].waits.is_some()
    }

    /// The processor whose wait ends first, and when, unless that is after `until_ps`. Memory
    /// advances to that time and no further, so no request may arrive before it.
    pub fn first(&mut self, until_ps: u64) -> Option<(u64, usize)> {
        loop {
            let memory = &self.memory;
            let waits = self.lanes.iter().enumerate();
            let waits = waits.filter_map(|(lane, one)| Some((lane, one.waits?)));
            // A processor that waits behind another goes on after it.
            let waits = waits.filter(|(_, wait)| wait.reason != WaitReason::Behind);
            let known = |(lane, wait): (usize, Wait)| {
                let at = match wait.until {
                    WaitEnd::Ticket(ticket) => memory.known(ticket)?,
                    WaitEnd::Time(at) => at,
                };
                Some((at.max(wait.from_ps), lane))
            };
            let first = waits.filter_map(known).min();
            let before = first.map_or(until_ps, |(at, _)| at.min(until_ps));
            match memory.next_ps() {
                Some(next) if next <= before => self.memory.advance(next),
                _ => return first.filter(|(at, _)| *at <= until_ps),
            }
        }
    }

    /// Processes a record of a processor that does not wait.
    pub fn record(&mut self, lane: usize, record: Record) -> RecordResult {
        let place = GuestLineAddr::from_record(record.what, self.lanes[lane].guest);
        let kind = record.kind();
        let pool = match kind {
            Kind::Mark | Kind::Shared => None,
            _ => self.memory.pool_of(place),
        };
        let Some(pool) = pool else {
            return RecordResult::Whole;
        };
        let now = record.at_ps + self.lanes[lane].charged_ps;
        self.sharing.unlock(lane);
        self.memory.advance(now);
        self.collect(lane);
        if let (Kind::WriteBack, Some(line)) = (kind, self.memory.shared(place)) {
            self.evict_shared(lane, now, place, line);
            return self.taken(lane);
        }
        match kind {
            Kind::Load => self.read(lane, now, pool, place, true),
            Kind::Store => self.read(lane, now, pool, place, false),
            Kind::WriteBack | Kind::Mark | Kind::Shared => self.write(lane, now, pool, place),
        }
        self.taken(lane)
    }

    fn taken(&self, lane: usize) -> RecordResult {
        match self.waits(lane) {
            true => RecordResult::Waits,
            false => RecordResult::Whole,
        }
    }

    /// Processes an access to a register of an accelerator by a processor that does not wait. A load has its `value` at
    /// `until_ps`. A store has no value, and the processor does not wait for it.
    pub fn register(
        &mut self,
        lane: usize,
        now_ps: u64,
        value: Option<u64>,
        until_ps: u64,
    ) -> RecordResult {
        self.sharing.unlock(lane);
        self.memory.advance(now_ps);
        self.collect(lane);
        let Some(value) = value else {
            return RecordResult::Whole;
        };
        self.lanes[lane].waits = Some(Wait {
            until: WaitEnd::Time(until_ps),
            from_ps: now_ps,
            reason: WaitReason::Register(value),
        });
        RecordResult::Waits
    }

    /// Ends a processor's wait. Returns the time, and whether the record is charged. If not,
    /// the record must be processed again.
    ///
    /// # Errors
    /// [`StuckBackend`] if a memory backend never responds.
    pub fn resume(&mut self, lane: usize) -> Result<(u64, RecordResult), StuckBackend> {
        let Some(wait) = self.lanes[lane].waits.take() else {
            return Ok((0, RecordResult::Whole));
        };
        let at = match wait.until {
            WaitEnd::Ticket(ticket) => self.complete(ticket)?,
            WaitEnd::Time(at) => at,
        };
        let took = at.saturating_sub(wait.from_ps);
        let most = self.most_kept(lane);
        let one = &mut self.lanes[lane];
        one.charged_ps += took;
        if let WaitReason::Load { pool, .. } | WaitReason::Shared { pool, .. } = wait.reason {
            let counts = &mut self.counts[one.guest][pool];
            counts.waited_ps += took;
            if !matches!(wait.reason, WaitReason::Load { demand: false, .. }) {
                counts.demand += 1;
                counts.demand_ps += took;
            }
        }
        let now = wait.from_ps + took;
        match wait.reason {
            // The load's MSHR is free, so the prefetcher may use it.
            WaitReason::Load { .. } => self.prefetch(lane, now, 0),
            WaitReason::Shared { place, access, .. } => self.loaded(lane, place, access),
            WaitReason::Register(value) => self.sharing.reply(lane, value),
            WaitReason::Mshr { kept } => {
                kept.inspect(|place| keep(&mut one.kept, *place, most));
                return Ok((now, RecordResult::Waits));
            }
            WaitReason::Again | WaitReason::Behind => return Ok((now, RecordResult::Waits)),
        }
        Ok((now, RecordResult::Whole))
    }

    /// Advances time until a request completes. Processors queued behind the request continue at that time.
    fn complete(&mut self, ticket: Ticket) -> Result<u64, StuckBackend> {
        let at = self.memory.finish(ticket)?;
        self.sharing.completed(ticket);
        for wait in self.lanes.iter_mut().filter_map(|one| one.waits.as_mut()) {
            if wait.until == WaitEnd::Ticket(ticket) {
                wait.until = WaitEnd::Time(at);
                wait.reason = WaitReason::Again;
            }
        }
        Ok(at)
    }

    /// Processes a record and all waits of its processor, while no other processor is active.
    ///
    /// # Errors
    /// [`StuckBackend`] if a memory backend never responds.
    pub fn alone(&mut self, lane: usize, record: Record) -> Result<(), StuckBackend> {
        while self.record(lane, record) == RecordResult::Waits {
            if self.resume(lane)?.1 == RecordResult::Whole {
                break;
            }
        }
        Ok(())
    }

    fn limits(&self, lane: usize) -> Limits {
        self.limits[self.lanes[lane].guest]
    }

    fn most_kept(&self, lane: usize) -> usize {
        PREFETCHED_PER_MSHR * self.limits(lane).misses as usize
    }

    /// Records the lines and write-backs that have completed.
    fn collect(&mut self, lane: usize) {
        let most = self.most_kept(lane);
        let one = &mut self.lanes[lane];
        let (memory, kept, sharing) = (&mut self.memory, &mut one.kept, &mut self.sharing);
        one.outstanding.retain(|line| {
            let here = memory.done(line.ticket).is_some();
            if here {
                sharing.completed(line.ticket);
            }
            if here && line.prefetch {
                keep(kept, line.place, most);
            }
            !here
        });
        one.writes.retain(|ticket| memory.done(*ticket).is_none());
    }

    /// Requests a line, for a load that waits or a store that does not.
    fn read(&mut self, lane: usize, now: u64, pool: usize, place: GuestLineAddr, load: bool) {
        let misses = self.limits(lane).misses as usize;
        let one = &mut self.lanes[lane];
        let counts = &mut self.counts[one.guest][pool];
        let mut wait = None;
        if let Some(at) = one.kept.iter().position(|kept| *kept == place) {
            one.kept.remove(at);
            counts.prefetched += u64::from(load);
        } else if let Some(at) = one.outstanding.iter().position(|one| one.place == place) {
            counts.prefetched += u64::from(load && one.outstanding[at].prefetch);
            one.outstanding[at].prefetch = false;
            if load {
                wait = one.outstanding.remove(at).map(|line| (line.ticket, false));
            }
        } else if one.outstanding.len() >= misses
            && let Some(oldest) = one.outstanding.pop_front()
        {
            let reason = WaitReason::Mshr {
                kept: oldest.prefetch.then_some(oldest.place),
            };
            one.waits = Some(Wait::of(oldest.ticket, now, reason));
            return;
        } else {
            let ticket = self.ask(lane, pool, now, place);
            match load {
                true => wait = Some((ticket, true)),
                false => self.track(lane, place, ticket, false),
            }
        }
        let one = &mut self.lanes[lane];
        self.counts[one.guest][pool].loads += u64::from(load);
        one.prefetcher.note(place);
        // The load itself takes an MSHR.
        self.prefetch(lane, now, usize::from(wait.is_some()));
        self.lanes[lane].waits =
            wait.map(|(ticket, demand)| Wait::of(ticket, now, WaitReason::Load { pool, demand }));
    }

    fn ask(&mut self, lane: usize, pool: usize, now: u64, place: GuestLineAddr) -> Ticket {
        self.counts[self.lanes[lane].guest][pool].lines_read += 1;
        self.memory.issue(now, place, false)
    }

    fn track(&mut self, lane: usize, place: GuestLineAddr, ticket: Ticket, prefetch: bool) {
        self.lanes[lane].outstanding.push_back(OutstandingLine {
            place,
            ticket,
            prefetch,
        });
    }

    /// Issues prefetches into the free MSHRs. The caller occupies `taken` MSHRs.
    fn prefetch(&mut self, lane: usize, now: u64, taken: usize) {
        let depth = self.limits(lane).misses;
        while self.lanes[lane].outstanding.len() + taken < depth as usize {
            let Some(place) = self.lanes[lane].prefetcher.next(depth) else {
                return;
            };
            let one = &self.lanes[lane];
            let known =
                one.kept.contains(&place) || one.outstanding.iter().any(|line| line.place == place);
            if let (false, Some(pool)) = (known, self.memory.pool_of(place)) {
                let ticket = self.ask(lane, pool, now, place);
                self.track(lane, place, ticket, true);
            }
        }
    }

    fn write(&mut self, lane: usize, now: u64, pool: usize, place: GuestLineAddr) {
        let writebacks = self.limits(lane).writebacks as usize;
        let one = &mut self.lanes[lane];
        if one.writes.len() >= writebacks
            && let Some(oldest) = one.writes.pop_front()
        {
            one.waits = Some(Wait::of(oldest, now, WaitReason::Again));
            return;
        }
        self.counts[one.guest][pool].lines_written += 1;
        let ticket = self.memory.issue(now, place, true);
        one.writes.push_back(ticket);
    }
}

/// Keeps a prefetched line, in place of the oldest if there are `most` already.
fn keep(kept: &mut VecDeque<GuestLineAddr>, place: GuestLineAddr, most: usize) {
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Fixed;

    fn model(misses: u32, writebacks: u32) -> Model<Fixed> {
        let limits = Limits { misses, writebacks };
        Model::new(Fixed::default(), &[Processors { count: 1, limits }])
    }

    fn give(model: &mut Model<Fixed>, at_ps: u64, line: u64, kind: u64) {
        let what = (line * 64) | kind | 1 << 63;
        model.alone(0, Record { at_ps, what }).unwrap();
    }

    const LOAD: u64 = 0;
    const STORE: u64 = 1;
    const WRITE_BACK: u64 = 2;

    #[test]
    fn loads_without_order_are_paid_one_after_another() {
        let mut model = model(8, 8);
        for (step, line) in [5, 900, 33, 4000].into_iter().enumerate() {
            give(&mut model, step as u64 * 1000, line, LOAD);
        }
        assert_eq!(model.charged_ps(0), 400_000);
        let counts = model.counts(0)[1];
        assert_eq!((counts.demand, counts.demand_ps), (4, 400_000));
        assert_eq!(model.memory().asked[3].0, 303_000, "after three waits");
    }

    #[test]
    fn a_stream_is_paid_by_its_first_lines_and_by_what_mshrs_allow() {
        let mut model = model(8, 8);
        // 10 ns of computing a line, and 8 lines in flight: 100 ns / 8 a line.
        for line in 0..400 {
            give(&mut model, line * 10_000, 1000 + line, LOAD);
        }
        let total = 400 * 10_000 + model.charged_ps(0);
        let bound = 400 * 100_000 / 8;
        let expected = bound..bound + bound / 10;
        assert!(expected.contains(&total), "{total} of {bound}");
        assert!(model.counts(0)[1].prefetched > 390);
        assert_eq!(model.counts(0)[1].loads, 400);
    }

    #[test]
    fn stores_wait_only_for_a_free_mshr() {
        let mut model = model(2, 8);
        give(&mut model, 0, 10, STORE);
        give(&mut model, 1000, 500, STORE);
        assert_eq!(model.charged_ps(0), 0);
        give(&mut model, 2000, 900, STORE);
        assert_eq!(
            model.charged_ps(0),
            98_000,
            "the first line comes at 100 ns"
        );
    }

    #[test]
    fn a_load_of_a_line_that_a_store_asked_for_waits_for_the_rest() {
        let mut model = model(8, 8);
        give(&mut model, 0, 10, STORE);
        give(&mut model, 30_000, 10, LOAD);
        assert_eq!(model.charged_ps(0), 70_000);
        assert_eq!(model.counts(0)[1].lines_read, 1);
    }

    #[test]
    fn lines_written_back_hold_nobody_until_their_places_are_taken() {
        let mut model = model(8, 2);
        for line in 0..3 {
            give(&mut model, line * 1000, line * 100, WRITE_BACK);
        }
        assert_eq!(model.charged_ps(0), 98_000);
        assert_eq!(model.counts(0)[1].lines_written, 3);
    }

    #[test]
    fn what_lies_outside_memory_costs_nothing() {
        let mut model = model(8, 8);
        give(&mut model, 0, 1 << 40, LOAD);
        assert_eq!(model.charged_ps(0), 0);
        assert!(model.memory().asked.is_empty());
    }
}
