//! Processors behind their caches: what their misses cost them.
//!
//! The plugin says when, by the processor's own clock, a line missed every cache; this says what the
//! miss adds to that clock. QEMU gives accesses in the order of the program and nothing of what
//! depends on what, so the processor waits for every load that misses. It does not wait for stores
//! (their lines are read while it goes on), for lines that it writes back, nor for lines that the
//! prefetcher asked for early enough. As many lines are under way as it has MSHRs; where there is
//! none free it waits for the oldest.
//!
//! Left out: overlap of loads that are independent and not in a row, misses of instructions, walks
//! of page tables, coherence between processors.

use std::collections::VecDeque;

use crate::memory::{Memory, Place, Stuck, Ticket};
use crate::prefetch::Prefetcher;
use crate::ring::{Kind, Record};

/// Lines that were prefetched and not yet used: as many as are under way, that many times.
const KEPT: usize = 4;

/// How much a processor does at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Lines under way from memory (MSHRs of the last cache).
    pub misses: u32,
    /// Lines on their way back to memory.
    pub writebacks: u32,
}

/// What was asked of a pool. Times in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolCounts {
    /// Loads that missed.
    pub loads: u64,
    /// Those of them whose line the prefetcher had asked for.
    pub prefetched: u64,
    /// What the processor waited for loads.
    pub waited_ps: u64,
    /// Lines read, for whatever reason.
    pub lines_read: u64,
    /// Those among them that a load waited for from the beginning.
    pub demand: u64,
    /// From asking for these to having them.
    pub demand_ps: u64,
    /// Lines written back.
    pub lines_written: u64,
}

impl PoolCounts {
    /// What was counted since.
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

/// A line under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    place: Place,
    ticket: Ticket,
    prefetch: bool,
}

/// What a processor waits for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    ticket: Ticket,
    from_ps: u64,
    why: Why,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    /// The line of a load. Whether it was asked for by this load.
    Load { pool: usize, demand: bool },
    /// An MSHR: the line that comes first, whether the prefetcher wants it kept. The record comes again.
    Mshr { kept: Option<Place> },
    /// Room for a line that is written back. The record comes again.
    WriteBack,
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is charged.
    Whole,
    /// It will be when the processor has waited.
    Waits,
}

/// One processor.
#[derive(Default)]
struct Lane {
    guest: usize,
    charged_ps: u64,
    flights: VecDeque<Flight>,
    writes: VecDeque<Ticket>,
    /// Lines that the prefetcher has brought.
    kept: VecDeque<Place>,
    prefetcher: Prefetcher,
    waits: Option<Wait>,
}

/// A guest, as the model knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processors {
    /// How many.
    pub count: usize,
    /// What each does at once.
    pub limits: Limits,
}

/// All processors of all guests, and their memory. Processors are numbered guest by guest.
pub struct Model<M> {
    memory: M,
    /// By guest.
    limits: Vec<Limits>,
    counts: Vec<Vec<PoolCounts>>,
    lanes: Vec<Lane>,
}

impl<M: Memory> Model<M> {
    /// Processors at rest, by guest.
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
            lanes: lanes.collect(),
            memory,
        }
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// What was asked of each of a guest's pools until now.
    pub fn counts(&self, guest: usize) -> &[PoolCounts] {
        &self.counts[guest]
    }

    /// Time charged to a processor until now.
    pub fn charged_ps(&self, lane: usize) -> u64 {
        self.lanes[lane].charged_ps
    }

    /// Charges a processor that waits for other guests.
    pub fn hold(&mut self, lane: usize, time_ps: u64) {
        self.lanes[lane].charged_ps += time_ps;
    }

    /// A processor has gone: it waits no more.
    pub fn leave(&mut self, lane: usize) {
        self.lanes[lane].waits = None;
    }

    /// Whether a processor waits.
    pub fn waits(&self, lane: usize) -> bool {
        self.lanes[lane].waits.is_some()
    }

    /// The processor that has first what it waits for, and when, where that is not after a time. Memory
    /// goes on until then, and no further: nothing else may come before that time.
    pub fn first(&mut self, until_ps: u64) -> Option<(u64, usize)> {
        loop {
            let memory = &self.memory;
            let waits = self.lanes.iter().enumerate();
            let waits = waits.filter_map(|(lane, one)| Some((lane, one.waits?)));
            let known = |(lane, wait): (usize, Wait)| {
                let at = memory.known(wait.ticket)?;
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

    /// A record of a processor that does not wait.
    pub fn record(&mut self, lane: usize, record: Record) -> Taken {
        let place = Place::from_record(record.what, self.lanes[lane].guest);
        let kind = record.kind();
        let pool = match kind {
            Kind::Mark => None,
            _ => self.memory.pool_of(place),
        };
        let Some(pool) = pool else {
            return Taken::Whole;
        };
        let now = record.at_ps + self.lanes[lane].charged_ps;
        self.memory.advance(now);
        self.collect(lane);
        match kind {
            Kind::Load => self.read(lane, now, pool, place, true),
            Kind::Store => self.read(lane, now, pool, place, false),
            Kind::WriteBack | Kind::Mark => self.write(lane, now, pool, place),
        }
        match self.waits(lane) {
            true => Taken::Waits,
            false => Taken::Whole,
        }
    }

    /// Ends a processor's wait: when, and whether its record is charged now; otherwise it must be given
    /// again.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn resume(&mut self, lane: usize) -> Result<(u64, Taken), Stuck> {
        let Some(wait) = self.lanes[lane].waits.take() else {
            return Ok((0, Taken::Whole));
        };
        let at = self.memory.finish(wait.ticket)?;
        let took = at.saturating_sub(wait.from_ps);
        let most = self.most_kept(lane);
        let one = &mut self.lanes[lane];
        one.charged_ps += took;
        match wait.why {
            Why::Load { pool, demand } => {
                let counts = &mut self.counts[one.guest][pool];
                counts.waited_ps += took;
                if demand {
                    counts.demand += 1;
                    counts.demand_ps += took;
                }
                // Its MSHR is free.
                self.prefetch(lane, wait.from_ps + took, 0);
                return Ok((wait.from_ps + took, Taken::Whole));
            }
            Why::Mshr { kept: Some(place) } => keep(&mut one.kept, place, most),
            Why::Mshr { kept: None } | Why::WriteBack => {}
        }
        Ok((wait.from_ps + took, Taken::Waits))
    }

    /// A record and all that its processor waits for, where no other is at work.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn alone(&mut self, lane: usize, record: Record) -> Result<(), Stuck> {
        while self.record(lane, record) == Taken::Waits {
            if self.resume(lane)?.1 == Taken::Whole {
                break;
            }
        }
        Ok(())
    }

    fn limits(&self, lane: usize) -> Limits {
        self.limits[self.lanes[lane].guest]
    }

    fn most_kept(&self, lane: usize) -> usize {
        KEPT * self.limits(lane).misses as usize
    }

    /// Takes note of what has come until now.
    fn collect(&mut self, lane: usize) {
        let most = self.most_kept(lane);
        let one = &mut self.lanes[lane];
        let (memory, kept) = (&mut self.memory, &mut one.kept);
        one.flights.retain(|flight| {
            let here = memory.done(flight.ticket).is_some();
            if here && flight.prefetch {
                keep(kept, flight.place, most);
            }
            !here
        });
        one.writes.retain(|ticket| memory.done(*ticket).is_none());
    }

    /// A line is wanted: now (a load), or some time (a store).
    fn read(&mut self, lane: usize, now: u64, pool: usize, place: Place, load: bool) {
        let misses = self.limits(lane).misses as usize;
        let one = &mut self.lanes[lane];
        let counts = &mut self.counts[one.guest][pool];
        let mut wait = None;
        if let Some(at) = one.kept.iter().position(|kept| *kept == place) {
            one.kept.remove(at);
            counts.prefetched += u64::from(load);
        } else if let Some(at) = one.flights.iter().position(|one| one.place == place) {
            counts.prefetched += u64::from(load && one.flights[at].prefetch);
            one.flights[at].prefetch = false;
            if load {
                wait = one.flights.remove(at).map(|flight| (flight.ticket, false));
            }
        } else if one.flights.len() >= misses
            && let Some(oldest) = one.flights.pop_front()
        {
            one.waits = Some(Wait {
                ticket: oldest.ticket,
                from_ps: now,
                why: Why::Mshr {
                    kept: oldest.prefetch.then_some(oldest.place),
                },
            });
            return;
        } else {
            let ticket = self.ask(lane, pool, now, place);
            match load {
                true => wait = Some((ticket, true)),
                false => self.fly(lane, place, ticket, false),
            }
        }
        let one = &mut self.lanes[lane];
        self.counts[one.guest][pool].loads += u64::from(load);
        one.prefetcher.note(place);
        // The load itself takes an MSHR.
        self.prefetch(lane, now, usize::from(wait.is_some()));
        self.lanes[lane].waits = wait.map(|(ticket, demand)| Wait {
            ticket,
            from_ps: now,
            why: Why::Load { pool, demand },
        });
    }

    fn ask(&mut self, lane: usize, pool: usize, now: u64, place: Place) -> Ticket {
        self.counts[self.lanes[lane].guest][pool].lines_read += 1;
        self.memory.issue(now, place, false)
    }

    fn fly(&mut self, lane: usize, place: Place, ticket: Ticket, prefetch: bool) {
        self.lanes[lane].flights.push_back(Flight {
            place,
            ticket,
            prefetch,
        });
    }

    fn prefetch(&mut self, lane: usize, now: u64, taken: usize) {
        let depth = self.limits(lane).misses;
        while self.lanes[lane].flights.len() + taken < depth as usize {
            let Some(place) = self.lanes[lane].prefetcher.next(depth) else {
                return;
            };
            let one = &self.lanes[lane];
            let known =
                one.kept.contains(&place) || one.flights.iter().any(|flight| flight.place == place);
            if let (false, Some(pool)) = (known, self.memory.pool_of(place)) {
                let ticket = self.ask(lane, pool, now, place);
                self.fly(lane, place, ticket, true);
            }
        }
    }

    fn write(&mut self, lane: usize, now: u64, pool: usize, place: Place) {
        let writebacks = self.limits(lane).writebacks as usize;
        let one = &mut self.lanes[lane];
        if one.writes.len() >= writebacks
            && let Some(oldest) = one.writes.pop_front()
        {
            one.waits = Some(Wait {
                ticket: oldest,
                from_ps: now,
                why: Why::WriteBack,
            });
            return;
        }
        self.counts[one.guest][pool].lines_written += 1;
        let ticket = self.memory.issue(now, place, true);
        one.writes.push_back(ticket);
    }
}

/// Keeps a line that was prefetched, in place of the one kept longest.
fn keep(kept: &mut VecDeque<Place>, place: Place, most: usize) {
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line takes 100 ns; the pools are apart at 1 MiB.
    #[derive(Default)]
    struct Fixed {
        now: u64,
        done: Vec<u64>,
        asked: Vec<(u64, u64, bool)>,
    }

    impl Memory for Fixed {
        fn pools(&self, _: usize) -> Vec<String> {
            vec!["local".to_owned(), "cxl".to_owned()]
        }
        fn pool_of(&self, place: Place) -> Option<usize> {
            (place.address() < 1 << 20).then(|| usize::from(place.is_cxl()))
        }
        fn issue(&mut self, at_ps: u64, place: Place, write: bool) -> Ticket {
            self.asked.push((at_ps, place.address() / 64, write));
            self.done.push(at_ps + 100_000);
            self.done.len() as u32 - 1
        }
        fn advance(&mut self, to_ps: u64) {
            self.now = self.now.max(to_ps);
        }
        fn done(&mut self, ticket: Ticket) -> Option<u64> {
            Some(self.done[ticket as usize]).filter(|at| *at <= self.now)
        }
        fn finish(&mut self, ticket: Ticket) -> Result<u64, Stuck> {
            self.now = self.now.max(self.done[ticket as usize]);
            Ok(self.done[ticket as usize])
        }
        fn next_ps(&self) -> Option<u64> {
            None
        }
        fn known(&self, ticket: Ticket) -> Option<u64> {
            Some(self.done[ticket as usize])
        }
    }

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
        // 10 ns of computing a line, 8 under way: 100 ns / 8 a line.
        for line in 0..400 {
            give(&mut model, line * 10_000, 1000 + line, LOAD);
        }
        let total = 400 * 10_000 + model.charged_ps(0);
        let bound = 400 * 100_000 / 8;
        assert!(
            total >= bound && total < bound + bound / 10,
            "{total} of {bound}"
        );
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
