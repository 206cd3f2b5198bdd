//! Runs components: sequentially, or conservatively on several threads in windows of one lookahead,
//! with bit-identical results.
//!
//! The components of a partition ([`Partition`]) run on one thread; `threads.rs` runs several partitions.

mod barrier;
mod blocks;
mod exchange;
mod monitor;
mod pace;
mod part;
mod ranks;
mod saved;
mod stepped;
mod sync;
#[cfg(test)]
mod tests;
mod threads;
mod windows;

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::component::{
    Blocks, Body, Component, ComponentRecord, ExecutionHints, NO_BLOCK, Outgoing, PartitionEvents,
    Route, Wire, combine_digests,
};
use crate::partition::{Partitioning, partition};
use crate::queue::{EventKey, EventQueue, Target, WheelQueue};
use crate::units::SimTime;
use blocks::BlockArrangement;
pub use monitor::{Monitor, Outcome, Stop};
use pace::{Pace, Slice};
pub use pace::{Threads, processors};
use part::{ComponentSlot, Partition, SliceEnd};
pub use ranks::{GatherError, LocalRank, Ranks, share};
use saved::pending;
use threads::Workers;
pub use windows::Windows;

/// Number of events after which the engine checks for the first time how evenly the threads share the work
/// (*assumed*). The next check follows when the number of events has doubled.
const FIRST_BALANCE_CHECK: u64 = 1 << 14;

/// Shortest duration of the end of a window, in nanoseconds (*assumed*: two cache lines go from one core to
/// another and back).
const BARRIER_NS: f64 = 200.0;

/// Least reduction of the busiest partition's work, in percent, for which components move (*assumed*).
const WORTH_MOVING: u64 = 5;

/// The components of a system with their wires and pending events, and the executor that runs them.
///
/// # Windows of the threaded executor
/// On several threads, the components are divided into *partitions*, one for each thread. The
/// *lookahead* is the shortest latency of a wire between two partitions ([`Outcome::lookahead`]).
/// Partitions run in *windows*:
/// - A window begins at the earliest pending event of all partitions and ends one lookahead later.
/// - In a window, each partition handles all of its events before the end, independently of the others.
/// - Between two windows, the partitions exchange the payloads that they have sent to each other.
///
/// The guarantee: a payload that is sent to another partition in a window never arrives before the end of
/// the window, since it takes at least one lookahead. So when a partition handles an event, every earlier
/// event of the same component is already known, and the [order](Component#order-of-events) holds.
///
/// The division cuts long wires and joins components with short ones, so the lookahead is as long as an
/// even division allows ([`partition()`]). Two windows never begin within one lookahead:
///
/// ```
/// use cxlab_engine::units::{Picos, SimTime};
/// use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Wire};
///
/// # #[derive(Clone, Copy, Default)]
/// # struct Ball(u64);
/// # impl Payload for Ball { fn fingerprint(&self) -> u64 { self.0 } }
/// #
/// /// Forwards each ball as fast as the wire allows. It notes when balls arrive.
/// struct Station {
///     first: SimTime,
///     latency: [Picos; 2],
///     arrivals: Vec<SimTime>,
/// }
///
/// impl Component for Station {
/// #   type Payload = Ball;
///     fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
///         // One ball in each direction.
///         ctx.send(0, self.first, Ball(0));
///         ctx.send(1, self.first, Ball(0));
///     }
///
///     fn receive(&mut self, ctx: &mut Ctx<'_, Ball>, port: u16, ball: &Ball) {
///         self.arrivals.push(ctx.now());
///         let onward = 1 - port;
///         ctx.send(onward, ctx.now() + self.latency[usize::from(onward)], Ball(ball.0 + 1));
///     }
/// #   fn wake(&mut self, _: &mut Ctx<'_, Ball>, _: u32) {}
/// }
///
/// // A ring of eight stations: short wires of 10 ps within pairs, long wires of 500 ps between pairs.
/// let latency = |from: usize| Picos(if from % 2 == 0 { 10 } else { 500 });
/// let station = |at| Station {
///     first: SimTime(500 + 137 * at as u64),
///     latency: [latency(at), latency(at + 7)],
///     arrivals: Vec::new(),
/// };
/// let wire = |peer: usize, peer_port, min_latency| Wire::new(ComponentId::from(peer % 8), peer_port, min_latency);
/// let build = || {
///     let wires = (0..8).map(|at| vec![wire(at + 1, 1, latency(at)), wire(at + 7, 0, latency(at + 7))]);
///     Simulation::new((0..8).map(station).collect(), wires.collect())
/// };
///
/// let (until, monitor) = (SimTime(100_000), Monitor::default());
/// let (mut alone, mut simulation) = (build(), build());
/// alone.run(1, until, &monitor);
/// let outcome = simulation.run(2, until, &monitor);
/// assert_eq!(outcome.partitions, 2);
/// assert_eq!(outcome.lookahead, Some(Picos(500)), "only long wires are cut");
/// let windows = monitor.windows().count;
/// assert!(windows > 0 && windows <= until.0 / 500 + 1, "each takes at least one lookahead");
/// for (station, expected) in simulation.components().zip(alone.components()) {
///     assert!(station.arrivals.is_sorted(), "no event comes late");
///     assert_eq!(station.arrivals, expected.arrivals);
/// }
/// ```
pub struct Simulation<C: Component> {
    /// All components in the partitions of the present division, with their pending events.
    parts: Vec<Partition<C>>,
    division: Partitioning,
    /// Number of partitions that was requested when the division was made.
    requested_parts: usize,
    /// The index of each component in its partition.
    local_of: Vec<u32>,
    wires: Vec<Vec<Wire>>,
    started: bool,
    events: u64,
    end: SimTime,
    /// Number of events at which the division is checked next.
    next_balance_check: u64,
    /// Sequence number of each component at the last check of the division, or after its start.
    sent: Vec<u64>,
    /// Events and time at the last check of the division.
    last_balance_check: (u64, SimTime),
    /// Whether events are so dense that partitions are executed block by block.
    dense: bool,
    /// Chooses the number of threads, where a run may choose.
    pace: Option<Pace>,
    /// Number of processors that may be used, once it has been queried.
    processors: Option<usize>,
    workers: Workers<C>,
}

impl<C: Component> Simulation<C> {
    /// A simulation of `components`, where `wires[i]` are the ports of component `i` in their order.
    ///
    /// # Panics
    /// If a wire takes less than 1 ps, if it leads to a component or port that does not exist, or if the
    /// wire of the peer's port does not lead back. These are errors of the program that makes the wires.
    pub fn new(components: Vec<C>, wires: Vec<Vec<Wire>>) -> Self {
        assert_eq!(
            components.len(),
            wires.len(),
            "one list of wires for each component"
        );
        assert!(components.len() < 1 << 24, "component numbers have 24 bits");
        for (from, wires_of) in wires.iter().enumerate() {
            for (port, wire) in wires_of.iter().enumerate() {
                assert!(wire.min_latency.0 >= 1, "a wire takes at least 1 ps");
                let back = &wires[wire.peer.0 as usize][wire.peer_port as usize];
                assert!(
                    back.peer.0 as usize == from && back.peer_port as usize == port,
                    "a wire leads back to where it came from"
                );
            }
        }
        let record = |id: usize| ComponentRecord {
            id: id as u32,
            local: 0,
            sequence: 0,
            digest: 0,
        };
        let slots = components.into_iter().enumerate();
        let slots: Vec<_> = slots
            .map(|(id, component)| (record(id), component))
            .collect();
        let division = Partitioning::single(wires.len());
        let mut simulation = Simulation {
            parts: Vec::new(),
            sent: vec![0; slots.len()],
            local_of: Vec::new(),
            requested_parts: 1,
            division: division.clone(),
            wires,
            started: false,
            events: 0,
            end: SimTime::ZERO,
            next_balance_check: 0,
            last_balance_check: (0, SimTime::ZERO),
            dense: false,
            pace: None,
            processors: None,
            workers: Workers::NONE,
        };
        simulation.make_parts(slots, division);
        simulation
    }

    /// The components, in the order of their numbers.
    pub fn components(&self) -> impl ExactSizeIterator<Item = &C> {
        (0..self.local_of.len()).map(|number| self.component(number))
    }

    /// The component with this number.
    ///
    /// # Panics
    /// If there is no component with this number.
    pub fn component(&self, number: usize) -> &C {
        &self.slot(number).component
    }

    /// The component with this number, to be changed between runs.
    ///
    /// # Panics
    /// If there is no component with this number.
    pub fn component_mut(&mut self, number: usize) -> &mut C {
        &mut self.slot_mut(number).component
    }

    /// Calls `visit` for every component, in the order of their numbers, between runs.
    pub fn for_each_mut(&mut self, mut visit: impl FnMut(&mut C)) {
        for number in 0..self.local_of.len() {
            visit(self.component_mut(number));
        }
    }

    fn slot(&self, number: usize) -> &ComponentSlot<C> {
        let part = usize::from(self.division.part_of[number]);
        &self.parts[part].slots[self.local_of[number] as usize]
    }

    fn slot_mut(&mut self, number: usize) -> &mut ComponentSlot<C> {
        let part = usize::from(self.division.part_of[number]);
        &mut self.parts[part].slots[self.local_of[number] as usize]
    }

    /// The time of the earliest pending event. `None` before the first run, and when no event is left.
    pub fn next_event(&mut self) -> Option<SimTime> {
        let times = self.parts.iter().map(|part| part.pending.queue.next_time());
        times.min().filter(|time| *time < u64::MAX).map(SimTime)
    }

    /// Makes the next run call [`Component::start`] of every component again, at the time that the last run
    /// reached. So a simulation can have phases.
    pub fn restart(&mut self) {
        self.started = false;
    }

    /// Divides the components among `ranks` processes ([`Simulation::run_ranked`]). The two components of
    /// each pair in `together` come to one rank.
    ///
    /// Components are weighted by the events that they have sent so far, and before the first run by their
    /// number of wires.
    pub fn partition_for_ranks(&self, ranks: usize, together: &[(usize, usize)]) -> Partitioning {
        partition(&self.wires, &self.weights(), ranks, together)
    }

    /// The work of each component since the last check of the division: events sent times cost. Without any
    /// events, its number of wires.
    fn weights(&self) -> Vec<u64> {
        let numbers = 0..self.local_of.len();
        let work = |number| {
            let slot = self.slot(number);
            (slot.record.sequence - self.sent[number]) * slot.component.hints().event_cost()
        };
        let work: Vec<u64> = numbers.map(work).collect();
        match work.iter().all(|work| *work == 0) {
            true => self
                .wires
                .iter()
                .map(|wires| 1 + wires.len() as u64)
                .collect(),
            false => work.into_iter().map(|work| work + 1).collect(),
        }
    }

    /// Runs on one thread until `events` more events have been handled, or no event is left. With
    /// block-by-block execution, the last window is completed.
    pub fn run_events(&mut self, events: u64) {
        self.begin();
        self.divide(1);
        self.parts[0].advance(u64::MAX, events);
        self.settle();
    }

    /// Runs until no event is left, until the time `until`, or until the monitor interrupts. Events at
    /// `until` or later stay pending. The next call continues.
    ///
    /// `threads` is a number of threads or a [`Threads`].
    ///
    /// # Determinism
    /// The state of all components, [`Outcome::digest`], [`Outcome::events`] and [`Outcome::end`] depend on the
    /// components, their wires and `until` alone. They are equal bit by bit on any number of threads, and for a run in
    /// pieces. An interruption ends a run at an arbitrary event; the run that continues still comes to the same result.
    ///
    /// ```
    /// use cxlab_engine::rng::StreamRng;
    /// use cxlab_engine::units::{Picos, SimTime};
    /// use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Threads, Wire};
    ///
    /// # #[derive(Clone, Copy, Default)]
    /// # struct Ball(u64);
    /// # impl Payload for Ball { fn fingerprint(&self) -> u64 { self.0 } }
    /// #
    /// /// Forwards each ball to a random neighbour after a random time. Any change of the order of balls
    /// /// changes the random numbers, and with them all that follows.
    /// struct Station {
    ///     rng: StreamRng,
    ///     seen: Vec<(SimTime, u64)>,
    /// }
    ///
    /// impl Component for Station {
    /// #   type Payload = Ball;
    /// #   fn start(&mut self, ctx: &mut Ctx<'_, Ball>) { ctx.send(0, SimTime(40), Ball(0)); }
    /// #   fn wake(&mut self, _: &mut Ctx<'_, Ball>, _: u32) {}
    ///     fn receive(&mut self, ctx: &mut Ctx<'_, Ball>, port: u16, ball: &Ball) {
    ///         self.seen.push((ctx.now(), ball.0 ^ u64::from(port)));
    ///         // Multiples of 20 ps, so that many balls arrive at the same time.
    ///         let at = ctx.now() + Picos(40 + 20 * self.rng.below(5));
    ///         ctx.send(self.rng.below(2) as u16, at, Ball(ball.0.wrapping_mul(31) + 1));
    ///     }
    /// }
    ///
    /// let ring = || {
    ///     let station = |at| Station {
    ///         rng: StreamRng::new(1, &format!("station{at}")),
    ///         seen: Vec::new(),
    ///     };
    ///     let wire = |peer: usize, peer_port| Wire::new(ComponentId::from(peer % 9), peer_port, Picos(40));
    ///     let wires = (0..9).map(|at| vec![wire(at + 1, 1), wire(at + 8, 0)]);
    ///     Simulation::new((0..9).map(station).collect(), wires.collect())
    /// };
    /// let run = |threads: Threads, pauses: &[u64]| {
    ///     let (mut simulation, monitor) = (ring(), Monitor::default());
    ///     for pause in pauses {
    ///         simulation.run(threads, SimTime(*pause), &monitor);
    ///     }
    ///     let outcome = simulation.run(threads, SimTime(20_000), &monitor);
    ///     let seen: Vec<_> = simulation.components().map(|one| one.seen.clone()).collect();
    ///     ((outcome.digest, outcome.events, outcome.end), seen)
    /// };
    /// let expected = run(Threads::Exactly(1), &[]);
    /// for threads in [2, 3, 8] {
    ///     assert_eq!(run(Threads::Exactly(threads), &[]), expected, "{threads} threads");
    /// }
    /// assert_eq!(run(Threads::AUTO, &[]), expected, "as many threads as are fast");
    /// assert_eq!(run(Threads::Exactly(2), &[1, 777, 10_000]), expected, "in pieces");
    /// ```
    pub fn run(
        &mut self,
        threads: impl Into<Threads>,
        until: SimTime,
        monitor: &Monitor,
    ) -> Outcome {
        self.begin();
        let threads = threads.into();
        let mut ended = SliceEnd::Paused;
        while ended == SliceEnd::Paused {
            ended = self.run_slice(threads, until, monitor);
        }
        let stop = if ended == SliceEnd::Interrupted {
            Stop::Interrupted
        } else if self.next_event().is_none() {
            Stop::Exhausted
        } else {
            self.end = until;
            Stop::TimeLimit
        };
        self.outcome(stop)
    }

    /// Runs a slice on the number of threads that is requested or chosen for it, and returns how it ended.
    fn run_slice(&mut self, threads: Threads, until: SimTime, monitor: &Monitor) -> SliceEnd {
        let (slice, mut pace) = match threads {
            Threads::Exactly(threads) => {
                let slice = Slice {
                    threads,
                    time: None,
                    trial: false,
                };
                (slice, None)
            }
            Threads::UpTo(most) => {
                let mut pace = self.take_pace(most);
                (pace.next(|more, event| self.helps(more, event)), Some(pace))
            }
        };
        // The clock is read only in slices with a time limit.
        let mut now = || match (&mut pace, slice.time) {
            (Some(pace), Some(_)) => pace.now(),
            _ => Duration::ZERO,
        };
        let began = now();
        self.divide(slice.threads);
        let moved = now();
        let events = self.events;
        let mut pause = || slice.time.is_some_and(|time| now() - moved >= time);
        let ended = self.run_parts(until, &mut pause, monitor);
        self.settle();
        let done = now();
        if let Some(mut pace) = pace {
            pace.done(self.events - events, done - moved, moved - began);
            self.pace = Some(pace);
        }
        if !slice.trial {
            monitor
                .threads
                .fetch_max(self.division.parts, Ordering::Relaxed);
        }
        ended
    }

    /// Runs the partitions of the present division, and returns how the slice ended.
    fn run_parts(
        &mut self,
        until: SimTime,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> SliceEnd {
        let blocks = self.parts.iter().map(|part| part.pending.queue.blocks());
        let blocks = blocks.max().unwrap_or(1) as u64;
        monitor.blocks.fetch_max(blocks, Ordering::Relaxed);
        if let [only_part] = &mut self.parts[..] {
            let events = self.next_balance_check.saturating_sub(self.events);
            return only_part.run_alone(until.0, events, pause, monitor);
        }
        let lookahead = self.division.lookahead.map_or(u64::MAX / 2, |span| span.0);
        let processors = self.processors();
        let spans = (lookahead, until.0);
        let (workers, parts) = (&mut self.workers, &mut self.parts);
        workers.run(parts, spans, processors, pause, monitor)
    }

    /// Number of processors that may be used. It is cached, because the query reads files.
    fn processors(&mut self) -> usize {
        *self.processors.get_or_insert_with(processors)
    }

    /// Takes the object that chooses among at most `most` threads.
    fn take_pace(&mut self, most: usize) -> Pace {
        let components = self.local_of.len();
        let most = most.min(self.processors()).clamp(1, components.max(1));
        match self.pace.take() {
            Some(pace) => pace,
            None => Pace::new(most, components),
        }
    }

    /// Whether `threads` threads can be faster than one where an event takes `event` seconds: whether
    /// windows have enough events to make up for the barriers.
    fn helps(&self, threads: usize, event: f64) -> bool {
        let weights = self.weights();
        let division = partition(&self.wires, &weights, threads, &[]);
        let Some(lookahead) = division.lookahead else {
            return false;
        };
        let share = division.busiest(&weights) as f64 / weights.iter().sum::<u64>().max(1) as f64;
        let windows = Windows {
            count: (self.end.0 / lookahead.0.max(1)).min(self.events),
            events: self.events,
            busiest: (self.events as f64 * share) as u64,
        };
        windows.speed_up(event * 1e9, BARRIER_NS) > 1.0
    }

    /// Starts components that have not started, before a run. They may send to each other at once, so all
    /// are in one partition then.
    fn begin(&mut self) {
        if !self.started {
            self.rearrange(Partitioning::single(self.local_of.len()), self.dense);
            self.requested_parts = 1;
            self.next_balance_check = 0;
        }
        self.begin_parts(0);
    }

    /// Starts the components of one partition, if they have not started, and sets the time of all partitions.
    fn begin_parts(&mut self, part: usize) {
        for part in &mut self.parts {
            part.last = self.end.0;
        }
        if !std::mem::replace(&mut self.started, true) {
            self.parts[part].start();
            self.sent = self.sequences();
        }
    }

    /// Adds up the events and the time of the partitions after a run.
    fn settle(&mut self) {
        for part in &mut self.parts {
            self.events += std::mem::take(&mut part.events);
            self.end = SimTime(self.end.0.max(part.last));
        }
    }

    fn sequences(&self) -> Vec<u64> {
        let numbers = 0..self.local_of.len();
        numbers
            .map(|number| self.slot(number).record.sequence)
            .collect()
    }

    /// Divides the components among `threads` threads. At growing intervals it divides them again, where
    /// the work since the last check was uneven. No result depends on the division.
    fn divide(&mut self, threads: usize) {
        let is_new_request = self.requested_parts != threads;
        if !is_new_request && self.events < self.next_balance_check {
            return;
        }
        let weights = self.weights();
        let division = partition(&self.wires, &weights, threads, &[]);
        let (new, old) = (division.busiest(&weights), self.division.busiest(&weights));
        let dense = self.is_dense(&division);
        if is_new_request || new * 100 < old * (100 - WORTH_MOVING) || dense != self.dense {
            self.rearrange(division, dense);
            self.requested_parts = threads;
        }
        self.next_balance_check = self.events + self.events.max(FIRST_BALANCE_CHECK);
        self.last_balance_check = (self.events, self.end);
        self.sent = self.sequences();
    }

    /// Whether events were so dense since the last check that block-by-block execution is faster.
    fn is_dense(&self, division: &Partitioning) -> bool {
        let (events, end) = self.last_balance_check;
        let (events, span) = (self.events - events, self.end.0 - end.0);
        let share = events / division.parts as u64;
        let members = division.members().into_iter();
        let mut parts = members.map(|members| BlockArrangement::in_blocks(&self.wires, members));
        parts.all(|part| part.is_large() && part.is_faster(share, span))
    }

    /// The result of a run that ended for this reason.
    fn outcome(&self, stop: Stop) -> Outcome {
        Outcome {
            end: self.end,
            events: self.events,
            digest: self.digest(),
            stop,
            partitions: self.division.parts,
            lookahead: self.division.lookahead,
        }
    }

    fn digest(&self) -> u64 {
        let numbers = 0..self.local_of.len();
        combine_digests(numbers.map(|number| self.slot(number).record.digest))
    }

    /// Moves components and pending events to the partitions of another division.
    fn rearrange(&mut self, division: Partitioning, dense: bool) {
        if (&division, dense) == (&self.division, self.dense) {
            return;
        }
        self.dense = dense;
        self.parts.iter_mut().for_each(Partition::take_kept);
        let pending = pending(&self.parts);
        let queues = self.parts.iter().map(|part| part.pending.queue.len());
        assert_eq!(
            queues.sum::<usize>(),
            pending.len(),
            "a component has not taken in what it kept"
        );
        let parts = std::mem::take(&mut self.parts).into_iter();
        let slots = parts.flat_map(|part| part.slots);
        let mut slots: Vec<_> = slots.map(|slot| (slot.record, slot.component)).collect();
        slots.sort_by_key(|(record, _)| record.id);
        self.make_parts(slots, division);
        for (key, id, body) in pending {
            self.put_pending(key, id, body);
        }
        self.parts.iter_mut().for_each(Partition::restore_kept);
    }

    /// Makes the partitions of a division, without pending events.
    fn make_parts(&mut self, slots: Vec<(ComponentRecord, C)>, division: Partitioning) {
        let arrange = |members| match self.dense {
            true => BlockArrangement::in_blocks(&self.wires, members),
            false => BlockArrangement::whole(members),
        };
        let arranged: Vec<BlockArrangement> = division.members().into_iter().map(arrange).collect();
        self.local_of = vec![0; slots.len()];
        let mut block_of = vec![0u16; slots.len()];
        let mut partitions = Vec::new();
        for (part, arrangement) in arranged.iter().enumerate() {
            let members = arrangement.blocks.iter().flatten();
            for (local, number) in members.enumerate() {
                self.local_of[*number] = local as u32;
            }
            for block in &arrangement.blocks {
                for number in block {
                    block_of[*number] = partitions.len() as u16;
                }
                partitions.push(part as u16);
            }
        }
        let mut slots: Vec<_> = slots.into_iter().map(Some).collect();
        let mut first = 0;
        let parts = arranged.into_iter().enumerate().map(|(part, arrangement)| {
            let counts: Vec<usize> = arrangement.blocks.iter().map(Vec::len).collect();
            let members: Vec<usize> = arrangement.blocks.into_iter().flatten().collect();
            let routes = |wire: &Wire| Route {
                min_latency: wire.min_latency.0,
                local: self.local_of[wire.peer.0 as usize],
                block: block_of[wire.peer.0 as usize],
                port: wire.peer_port,
            };
            let part_cells = members.iter().filter_map(|number| {
                let (mut record, component) = slots[*number].take()?;
                record.local = self.local_of[*number];
                Some(ComponentSlot {
                    record,
                    routes: self.wires[*number].iter().map(routes).collect(),
                    component,
                })
            });
            let blocks = Blocks {
                first,
                of_local: members.iter().map(|number| block_of[*number]).collect(),
                partitions: partitions.clone(),
                span: arrangement.span,
                counts,
            };
            first += blocks.counts.len() as u16;
            Partition {
                slots: part_cells.collect(),
                pending: PartitionEvents {
                    queue: WheelQueue::for_blocks(&blocks.counts, blocks.span, self.end.0),
                    outgoing: (0..division.parts).map(|_| Outgoing::default()).collect(),
                    partition: part as u16,
                    block: blocks.first,
                    wheel_of: match blocks.counts.len() {
                        1 => blocks.first,
                        _ => NO_BLOCK,
                    },
                    blocks,
                    work: 0,
                },
                events: 0,
                last: self.end.0,
            }
        });
        self.parts = parts.collect();
        self.division = division;
    }

    /// Adds an event that was pending between two runs.
    fn put_pending(&mut self, key: EventKey, id: u32, body: Body<C::Payload>) {
        let local = self.local_of[id as usize];
        let part = usize::from(self.division.part_of[id as usize]);
        let pending = &mut self.parts[part].pending;
        match body {
            Body::Payload(port, payload) => {
                *pending.arrive(key, Target::port(local, port)) = payload
            }
            Body::Wake(token) => {
                pending.arrive(key, Target::wake(local, token));
            }
        }
    }
}
