//! A processor behind its caches: what its misses cost it.
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

/// A load that the processor waits for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    ticket: Ticket,
    from_ps: u64,
    pool: usize,
    /// Whether it was asked for by this load.
    demand: bool,
}

/// One processor.
#[derive(Default)]
struct Lane {
    charged_ps: u64,
    flights: VecDeque<Flight>,
    writes: VecDeque<Ticket>,
    /// Lines that the prefetcher has brought.
    kept: VecDeque<Place>,
    prefetcher: Prefetcher,
    waits: Option<Wait>,
}

/// All processors of a guest, and its memory.
pub struct Model<M> {
    memory: M,
    limits: Limits,
    lanes: Vec<Lane>,
    counts: Vec<PoolCounts>,
}

impl<M: Memory> Model<M> {
    /// Processors at rest.
    pub fn new(memory: M, limits: Limits, processors: usize) -> Model<M> {
        let counts = vec![PoolCounts::default(); memory.pools().len()];
        Model {
            memory,
            limits,
            lanes: (0..processors).map(|_| Lane::default()).collect(),
            counts,
        }
    }

    /// How many processors there are.
    pub fn processors(&self) -> usize {
        self.lanes.len()
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// What was asked of each pool until now.
    pub fn counts(&self) -> &[PoolCounts] {
        &self.counts
    }

    /// Time charged to a processor until now.
    pub fn charged_ps(&self, lane: usize) -> u64 {
        self.lanes[lane].charged_ps
    }

    /// Since when a processor waits for a load.
    pub fn waits_from(&self, lane: usize) -> Option<u64> {
        self.lanes[lane].waits.map(|wait| wait.from_ps)
    }

    /// No read takes less than this.
    pub fn least_ps(&self) -> u64 {
        self.memory.least_ps()
    }

    /// A record of a processor that does not wait.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn record(&mut self, lane: usize, record: Record) -> Result<(), Stuck> {
        let place = Place::from_record(record.what);
        let Some(pool) = self.memory.pool_of(place) else {
            return Ok(());
        };
        let now = record.at_ps + self.lanes[lane].charged_ps;
        self.memory.advance(now);
        self.collect(lane);
        match record.kind() {
            Kind::Load => self.read(lane, now, pool, place, true),
            Kind::Store => self.read(lane, now, pool, place, false),
            Kind::WriteBack => self.write(lane, now, pool, place),
            Kind::Mark => Ok(()),
        }
    }

    /// Ends a processor's wait.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn resume(&mut self, lane: usize) -> Result<(), Stuck> {
        let Some(wait) = self.lanes[lane].waits.take() else {
            return Ok(());
        };
        let at = self.memory.finish(wait.ticket)?;
        let took = at.saturating_sub(wait.from_ps);
        self.lanes[lane].charged_ps += took;
        let counts = &mut self.counts[wait.pool];
        counts.waited_ps += took;
        if wait.demand {
            counts.demand += 1;
            counts.demand_ps += took;
        }
        // Its MSHR is free.
        self.prefetch(lane, wait.from_ps + took, 0);
        Ok(())
    }

    /// Takes note of what has come until now.
    fn collect(&mut self, lane: usize) {
        let most = KEPT * self.limits.misses as usize;
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
    fn read(
        &mut self,
        lane: usize,
        mut now: u64,
        pool: usize,
        place: Place,
        load: bool,
    ) -> Result<(), Stuck> {
        self.counts[pool].loads += u64::from(load);
        let one = &mut self.lanes[lane];
        let mut wait = None;
        if let Some(at) = one.kept.iter().position(|kept| *kept == place) {
            one.kept.remove(at);
            self.counts[pool].prefetched += u64::from(load);
        } else if let Some(at) = one.flights.iter().position(|one| one.place == place) {
            self.counts[pool].prefetched += u64::from(load && one.flights[at].prefetch);
            one.flights[at].prefetch = false;
            if load {
                wait = one.flights.remove(at).map(|flight| (flight.ticket, false));
            }
        } else {
            now = self.room(lane, now)?;
            let ticket = self.ask(pool, now, place);
            match load {
                true => wait = Some((ticket, true)),
                false => self.fly(lane, place, ticket, false),
            }
        }
        self.lanes[lane].prefetcher.note(place);
        // The load itself takes an MSHR.
        self.prefetch(lane, now, usize::from(wait.is_some()));
        self.lanes[lane].waits = wait.map(|(ticket, demand)| Wait {
            ticket,
            from_ps: now,
            pool,
            demand,
        });
        Ok(())
    }

    fn ask(&mut self, pool: usize, now: u64, place: Place) -> Ticket {
        self.counts[pool].lines_read += 1;
        self.memory.issue(now, place, false)
    }

    fn fly(&mut self, lane: usize, place: Place, ticket: Ticket, prefetch: bool) {
        self.lanes[lane].flights.push_back(Flight {
            place,
            ticket,
            prefetch,
        });
    }

    /// Waits for an MSHR; the time then.
    fn room(&mut self, lane: usize, now: u64) -> Result<u64, Stuck> {
        if self.lanes[lane].flights.len() < self.limits.misses as usize {
            return Ok(now);
        }
        let Some(oldest) = self.lanes[lane].flights.pop_front() else {
            return Ok(now);
        };
        let at = self.memory.finish(oldest.ticket)?;
        if oldest.prefetch {
            let most = KEPT * self.limits.misses as usize;
            keep(&mut self.lanes[lane].kept, oldest.place, most);
        }
        Ok(self.charge(lane, now, at))
    }

    /// A processor that is at `now` goes on at `at`, or at once when that is past.
    fn charge(&mut self, lane: usize, now: u64, at: u64) -> u64 {
        self.lanes[lane].charged_ps += at.saturating_sub(now);
        now.max(at)
    }

    fn prefetch(&mut self, lane: usize, now: u64, taken: usize) {
        let depth = self.limits.misses;
        while self.lanes[lane].flights.len() + taken < depth as usize {
            let Some(place) = self.lanes[lane].prefetcher.next(depth) else {
                return;
            };
            let one = &self.lanes[lane];
            let known =
                one.kept.contains(&place) || one.flights.iter().any(|flight| flight.place == place);
            if let (false, Some(pool)) = (known, self.memory.pool_of(place)) {
                let ticket = self.ask(pool, now, place);
                self.fly(lane, place, ticket, true);
            }
        }
    }

    fn write(&mut self, lane: usize, mut now: u64, pool: usize, place: Place) -> Result<(), Stuck> {
        if self.lanes[lane].writes.len() >= self.limits.writebacks as usize
            && let Some(oldest) = self.lanes[lane].writes.pop_front()
        {
            let at = self.memory.finish(oldest)?;
            now = self.charge(lane, now, at);
        }
        self.counts[pool].lines_written += 1;
        let ticket = self.memory.issue(now, place, true);
        self.lanes[lane].writes.push_back(ticket);
        Ok(())
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
        fn pools(&self) -> Vec<String> {
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
        fn least_ps(&self) -> u64 {
            100_000
        }
    }

    fn model(misses: u32, writebacks: u32) -> Model<Fixed> {
        let limits = Limits { misses, writebacks };
        Model::new(Fixed::default(), limits, 1)
    }

    fn give(model: &mut Model<Fixed>, at_ps: u64, line: u64, kind: u64) {
        let what = (line * 64) | kind | 1 << 63;
        model.record(0, Record { at_ps, what }).unwrap();
        model.resume(0).unwrap();
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
        let counts = model.counts()[1];
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
        assert!(model.counts()[1].prefetched > 390);
        assert_eq!(model.counts()[1].loads, 400);
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
        assert_eq!(model.counts()[1].lines_read, 1);
    }

    #[test]
    fn lines_written_back_hold_nobody_until_their_places_are_taken() {
        let mut model = model(8, 2);
        for line in 0..3 {
            give(&mut model, line * 1000, line * 100, WRITE_BACK);
        }
        assert_eq!(model.charged_ps(0), 98_000);
        assert_eq!(model.counts()[1].lines_written, 3);
    }

    #[test]
    fn what_lies_outside_memory_costs_nothing() {
        let mut model = model(8, 8);
        give(&mut model, 0, 1 << 40, LOAD);
        assert_eq!(model.charged_ps(0), 0);
        assert!(model.memory().asked.is_empty());
    }
}
