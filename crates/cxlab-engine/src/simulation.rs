//! Running components: sequentially, or conservatively on several threads in windows of one
//! lookahead, with bit-identical results.
//!
//! The components of a part (`part.rs`) run on one thread; `threads.rs` runs several parts.

mod barrier;
mod blocks;
mod exchange;
mod pace;
mod part;
mod ranks;
mod sync;
#[cfg(test)]
mod tests;
mod threads;
mod windows;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::component::{
    Account, Blocks, Body, Component, ComponentId, Lane, NO_BLOCK, Outgoing, Route, Wire,
    combine_digests,
};
use crate::partition::{Partition, partition};
use crate::queue::{EventKey, EventQueue, Target, WheelQueue};
use crate::state::{SaveState, StateError, StateReader, StateWriter};
use crate::units::{Picos, SimTime};
use blocks::Arrangement;
use pace::{Pace, Slice};
pub use pace::{Threads, processors};
use part::{Cell, Part};
pub use ranks::{GatherError, LocalRank, Ranks, share};
use threads::Workers;

pub use windows::Windows;

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// No event was left.
    Exhausted,
    /// The time limit was reached.
    TimeLimit,
    /// [`Monitor::interrupt`] was called.
    Interrupted,
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Time of the last event handled, or the time limit where that ended the run.
    pub end: SimTime,
    /// Events handled so far, over all runs of this simulation.
    pub events: u64,
    /// Order digest over all components' event streams.
    pub digest: u64,
    /// Why it ended.
    pub stop: Stop,
    /// How many partitions ran.
    pub partitions: usize,
    /// The lookahead between them; `None` with one partition.
    pub lookahead: Option<Picos>,
}

/// A window on a running simulation for another thread: progress, and the way to interrupt it.
#[derive(Default, Debug)]
pub struct Monitor {
    interrupted: AtomicBool,
    events: AtomicU64,
    work: AtomicU64,
    /// What was done before this run took it up.
    before: AtomicU64,
    time: AtomicU64,
    blocks: AtomicU64,
    /// The most threads that a run has found worth using.
    threads: AtomicUsize,
    windows: windows::Counted,
}

impl Monitor {
    /// The most blocks of components that have taken turns on a thread; below 2 where none did, because all lie
    /// near the processor or have little to do at a time.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// The most threads that a run has used, but for trials of more that were not faster; 0 before a run.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// The windows of the runs that it has seen on several threads, between two of them.
    pub fn windows(&self) -> Windows {
        self.windows.get()
    }

    /// Asks the run to end soon, keeping what was measured.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }
    /// Whether [`Monitor::interrupt`] was called.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
    /// Events handled so far (updated every few thousand).
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
    /// Units of work (completed requests) so far, those before a restored state among them.
    pub fn work(&self) -> u64 {
        self.before() + self.work.load(Ordering::Relaxed)
    }
    /// Those that were done before.
    pub fn before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }
    /// The run goes on from a state in which so much was done.
    pub fn take_up(&self, work: u64) {
        self.before.store(work, Ordering::Relaxed);
    }
    /// Simulated time reached.
    pub fn time(&self) -> SimTime {
        SimTime(self.time.load(Ordering::Relaxed))
    }
}

/// Events on several threads between two looks at how even the work is, at first; then twice as many
/// each time.
const LOOK_AT_BALANCE: u64 = 1 << 14;

/// Least time in nanoseconds that the end of a window takes (*assumed*: two cache lines go from one core to
/// another and back).
const BARRIER_NS: f64 = 200.0;

/// How much shorter, in percent, the work of the busiest part must become for components to move.
const WORTH_MOVING: u64 = 5;

/// Components and their wiring, and the events between them.
pub struct Simulation<C: Component> {
    /// All components, as they were divided last, each with its pending events.
    parts: Vec<Part<C>>,
    division: Partition,
    /// How many parts were asked for when it was made.
    asked: usize,
    /// Of each component, its place in its part.
    local_of: Vec<u32>,
    wires: Vec<Vec<Wire>>,
    started: bool,
    events: u64,
    end: SimTime,
    /// At how many events the division is looked at again.
    look_at_balance: u64,
    /// What each component had sent when it was looked at last, or when it had started.
    sent: Vec<u64>,
    /// Events and time when it was looked at last.
    looked: (u64, SimTime),
    /// Whether events are so dense that parts are handled block by block.
    dense: bool,
    /// How many threads are used, where a run may choose.
    pace: Option<Pace>,
    /// Processors that may be used, once that has been asked.
    processors: Option<usize>,
    workers: Workers<C>,
}

impl<C: Component> Simulation<C> {
    /// A simulation of `components`, where `wires[i]` are the ports of component `i` in order.
    ///
    /// # Panics
    /// If a wire leads to a component or port that does not exist, does not lead back, or takes
    /// no time: the wiring is made by a plan that was checked, so these are our own mistakes.
    pub fn new(components: Vec<C>, wires: Vec<Vec<Wire>>) -> Self {
        assert_eq!(
            components.len(),
            wires.len(),
            "one list of wires for each component"
        );
        assert!(components.len() < 1 << 24, "component numbers have 24 bits");
        for (from, own) in wires.iter().enumerate() {
            for (port, wire) in own.iter().enumerate() {
                assert!(wire.min_latency.0 >= 1, "a wire takes at least 1 ps");
                let back = &wires[wire.peer.0 as usize][wire.peer_port as usize];
                assert!(
                    back.peer.0 as usize == from && back.peer_port as usize == port,
                    "a wire leads back to where it came from"
                );
            }
        }
        let account = |id: usize| Account {
            id: id as u32,
            local: 0,
            sequence: 0,
            digest: 0,
        };
        let cells = components.into_iter().enumerate();
        let cells: Vec<_> = cells.map(|(id, one)| (account(id), one)).collect();
        let division = Partition::undivided(wires.len());
        let mut simulation = Simulation {
            parts: Vec::new(),
            sent: vec![0; cells.len()],
            local_of: Vec::new(),
            asked: 1,
            division: division.clone(),
            wires,
            started: false,
            events: 0,
            end: SimTime::ZERO,
            look_at_balance: 0,
            looked: (0, SimTime::ZERO),
            dense: false,
            pace: None,
            processors: None,
            workers: Workers::NONE,
        };
        simulation.place(cells, division);
        simulation
    }

    /// The components, in the order of their numbers.
    pub fn components(&self) -> impl ExactSizeIterator<Item = &C> {
        (0..self.local_of.len()).map(|number| self.component(number))
    }

    /// The component of that number.
    ///
    /// # Panics
    /// If there is none.
    pub fn component(&self, number: usize) -> &C {
        &self.cell(number).component
    }

    /// One component between runs.
    ///
    /// # Panics
    /// If there is no component of that number.
    pub fn component_mut(&mut self, number: usize) -> &mut C {
        &mut self.cell_mut(number).component
    }

    /// Visits every component between runs, in the order of their numbers.
    pub fn for_each_mut(&mut self, mut visit: impl FnMut(&mut C)) {
        for number in 0..self.local_of.len() {
            visit(self.component_mut(number));
        }
    }

    fn cell(&self, number: usize) -> &Cell<C> {
        let part = usize::from(self.division.part_of[number]);
        &self.parts[part].cells[self.local_of[number] as usize]
    }

    fn cell_mut(&mut self, number: usize) -> &mut Cell<C> {
        let part = usize::from(self.division.part_of[number]);
        &mut self.parts[part].cells[self.local_of[number] as usize]
    }

    /// The time of the earliest pending event, between runs. `None` before the first run, and when
    /// no event is left.
    pub fn next_event(&mut self) -> Option<SimTime> {
        let times = self.parts.iter().map(|part| part.lane.queue.next_time());
        times.min().filter(|time| *time < u64::MAX).map(SimTime)
    }

    /// Lets every component start once more when the next run begins, at the time that the last one
    /// reached: a phase of the simulation is over, and the next one begins.
    pub fn start_again(&mut self) {
        self.started = false;
    }

    /// The division among so many ranks of components of which some belong to one rank, pair by pair.
    /// What components have done so far says how much each has to do; before the first run, their
    /// wires do.
    pub fn division_together(&self, ranks: usize, together: &[(usize, usize)]) -> Partition {
        partition(&self.wires, &self.weights(), ranks, together)
    }

    /// What components have had to do since they were looked at last.
    fn weights(&self) -> Vec<u64> {
        let numbers = 0..self.local_of.len();
        let work = |number| {
            let cell = self.cell(number);
            (cell.account.sequence - self.sent[number]) * cell.component.event_cost()
        };
        let work: Vec<u64> = numbers.map(work).collect();
        match work.iter().all(|work| *work == 0) {
            true => self.wires.iter().map(|own| 1 + own.len() as u64).collect(),
            false => work.into_iter().map(|work| work + 1).collect(),
        }
    }

    /// Runs on one thread until so many events more have been handled, or no event is left.
    pub fn run_some(&mut self, events: u64) {
        self.begin();
        self.divide(1);
        self.parts[0].advance(u64::MAX, events);
        self.settle();
    }

    /// Runs until no event is left, `until` is reached (events at `until` or later stay
    /// pending), or the monitor interrupts. Can be called again to go on.
    pub fn run(
        &mut self,
        threads: impl Into<Threads>,
        until: SimTime,
        monitor: &Monitor,
    ) -> Outcome {
        self.begin();
        let threads = threads.into();
        let interrupted = loop {
            let ended = self.run_slice(threads, until, monitor);
            if let Some(interrupted) = ended {
                break interrupted;
            }
        };
        let stop = if interrupted {
            Stop::Interrupted
        } else if self.next_event().is_none() {
            Stop::Exhausted
        } else {
            self.end = until;
            Stop::TimeLimit
        };
        self.outcome(stop)
    }

    /// Runs a piece on as many threads as are wanted; returns whether it was interrupted, or `None` where the
    /// run can go on.
    fn run_slice(&mut self, threads: Threads, until: SimTime, monitor: &Monitor) -> Option<bool> {
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
        // Without a limit of time nothing is to be measured.
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

    /// Runs the parts of the division.
    fn run_parts(
        &mut self,
        until: SimTime,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> Option<bool> {
        let blocks = self.parts.iter().map(|part| part.lane.queue.blocks());
        let blocks = blocks.max().unwrap_or(1) as u64;
        monitor.blocks.fetch_max(blocks, Ordering::Relaxed);
        if let [alone] = &mut self.parts[..] {
            let events = self.look_at_balance.saturating_sub(self.events);
            return alone.run_alone(until.0, events, pause, monitor);
        }
        let lookahead = self.division.lookahead.map_or(u64::MAX / 2, |span| span.0);
        let processors = self.processors();
        let spans = (lookahead, until.0);
        let (workers, parts) = (&mut self.workers, &mut self.parts);
        workers.run(parts, spans, processors, pause, monitor)
    }

    /// The processors that may be used. Asking takes some files to be read.
    fn processors(&mut self) -> usize {
        *self.processors.get_or_insert_with(processors)
    }

    /// What chooses the number of threads.
    fn take_pace(&mut self, most: usize) -> Pace {
        let components = self.local_of.len();
        let most = most.min(self.processors()).clamp(1, components.max(1));
        match self.pace.take() {
            Some(pace) => pace,
            None => Pace::new(most, components),
        }
    }

    /// Whether so many threads can be faster than one where an event takes so many seconds: whether windows
    /// have enough events to make up for the barriers.
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

    /// Before a run: components that have not started do. They send to each other at once, so they are
    /// in one part then.
    fn begin(&mut self) {
        if !self.started {
            self.rearrange(Partition::undivided(self.local_of.len()), self.dense);
            self.asked = 1;
            self.look_at_balance = 0;
        }
        self.begin_parts(0);
    }

    /// The same for the components of one part; those of others have not started here.
    fn begin_parts(&mut self, part: usize) {
        for part in &mut self.parts {
            part.last = self.end.0;
        }
        if !std::mem::replace(&mut self.started, true) {
            self.parts[part].start();
            self.sent = self.sequences();
        }
    }

    /// After a run: what the parts have counted.
    fn settle(&mut self) {
        for part in &mut self.parts {
            self.events += std::mem::take(&mut part.events);
            self.end = SimTime(self.end.0.max(part.last));
        }
    }

    fn sequences(&self) -> Vec<u64> {
        let numbers = 0..self.local_of.len();
        numbers
            .map(|number| self.cell(number).account.sequence)
            .collect()
    }

    /// Divides components among so many threads, and now and then anew, where what they have done since
    /// says that it was uneven. Nothing of a result depends on it.
    fn divide(&mut self, threads: usize) {
        let another = self.asked != threads;
        if !another && self.events < self.look_at_balance {
            return;
        }
        let weights = self.weights();
        let division = partition(&self.wires, &weights, threads, &[]);
        let (new, old) = (division.busiest(&weights), self.division.busiest(&weights));
        let dense = self.is_dense(&division);
        if another || new * 100 < old * (100 - WORTH_MOVING) || dense != self.dense {
            self.rearrange(division, dense);
            self.asked = threads;
        }
        self.look_at_balance = self.events + self.events.max(LOOK_AT_BALANCE);
        self.looked = (self.events, self.end);
        self.sent = self.sequences();
    }

    /// Whether events were so dense since the last look that parts are best handled block by block.
    fn is_dense(&self, division: &Partition) -> bool {
        let (events, end) = self.looked;
        let (events, span) = (self.events - events, self.end.0 - end.0);
        let share = events / division.parts as u64;
        let members = division.members().into_iter();
        let mut parts = members.map(|own| Arrangement::in_blocks(&self.wires, own));
        parts.all(|part| part.is_large() && part.pays(share, span))
    }

    /// What a run has come to.
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
        combine_digests(numbers.map(|number| self.cell(number).account.digest))
    }

    /// Hands components and pending events to the parts of another division.
    fn rearrange(&mut self, division: Partition, dense: bool) {
        if (&division, dense) == (&self.division, self.dense) {
            return;
        }
        self.dense = dense;
        self.parts.iter_mut().for_each(Part::take_in);
        let pending = pending(&self.parts);
        let queues = self.parts.iter().map(|part| part.lane.queue.len());
        assert_eq!(
            queues.sum::<usize>(),
            pending.len(),
            "a component has not taken in what it kept"
        );
        let parts = std::mem::take(&mut self.parts).into_iter();
        let cells = parts.flat_map(|part| part.cells);
        let mut cells: Vec<_> = cells.map(|cell| (cell.account, cell.component)).collect();
        cells.sort_by_key(|(account, _)| account.id);
        self.place(cells, division);
        for (key, id, body) in pending {
            self.put_pending(key, id, body);
        }
        self.parts.iter_mut().for_each(Part::put_back);
    }

    /// Makes the parts of a division.
    fn place(&mut self, cells: Vec<(Account, C)>, division: Partition) {
        let arrange = |members| match self.dense {
            true => Arrangement::in_blocks(&self.wires, members),
            false => Arrangement::whole(members),
        };
        let arranged: Vec<Arrangement> = division.members().into_iter().map(arrange).collect();
        self.local_of = vec![0; cells.len()];
        let mut block_of = vec![0u16; cells.len()];
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
        let mut cells: Vec<_> = cells.into_iter().map(Some).collect();
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
            let own = members.iter().filter_map(|number| {
                let (mut account, component) = cells[*number].take()?;
                account.local = self.local_of[*number];
                Some(Cell {
                    account,
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
            Part {
                cells: own.collect(),
                lane: Lane {
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

    fn put_pending(&mut self, key: EventKey, id: u32, body: Body<C::Payload>) {
        let local = self.local_of[id as usize];
        let part = usize::from(self.division.part_of[id as usize]);
        let lane = &mut self.parts[part].lane;
        match body {
            Body::Payload(port, payload) => *lane.arrive(key, Target::port(local, port)) = payload,
            Body::Wake(token) => {
                lane.arrive(key, Target::wake(local, token));
            }
        }
    }
}

impl<C: Component + SaveState> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Writes the state between two runs.
    pub fn save(&mut self, out: &mut StateWriter) {
        self.parts.iter_mut().for_each(Part::take_in);
        out.value("components", &(self.local_of.len() as u64));
        out.value("clock", &(self.started, self.events, self.end.0));
        for number in 0..self.local_of.len() {
            self.save_component(number, out);
        }
        save_pending(&self.parts, out);
        self.parts.iter_mut().for_each(Part::put_back);
    }

    fn save_component(&self, number: usize, out: &mut StateWriter) {
        out.enter(number);
        let cell = self.cell(number);
        out.value("account", &(cell.account.sequence, cell.account.digest));
        cell.component.save(out);
    }

    /// Fills this simulation, freshly made from the same plan, with a saved state.
    ///
    /// # Errors
    /// The state is of another system.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let count: u64 = from.value("components")?;
        if count != self.local_of.len() as u64 {
            return Err(StateError::new(format!(
                "the state is of {count} components, this system has {}",
                self.local_of.len()
            )));
        }
        let end;
        (self.started, self.events, end) = from.value("clock")?;
        self.end = SimTime(end);
        for number in 0..self.local_of.len() {
            self.restore_component(number, from)?;
        }
        self.sent = self.sequences();
        self.parts.iter_mut().for_each(Part::forget_pending);
        self.restore_pending(from)
    }

    fn restore_component(
        &mut self,
        number: usize,
        from: &mut StateReader<'_>,
    ) -> Result<(), StateError> {
        let cell = self.cell_mut(number);
        (cell.account.sequence, cell.account.digest) = from.value("account")?;
        cell.component.restore(from)
    }

    /// Adds events to those that are pending.
    fn restore_pending(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        for _ in 0..from.value::<u64>("pending")? {
            type Event<P> = (u64, u64, u32, u16, Option<P>, u32);
            let (time, order, id, port, payload, token): Event<C::Payload> = from.value("event")?;
            let ports = self.wires.get(id as usize).map_or(0, Vec::len);
            let known = (id as usize) < self.local_of.len();
            let fits = known && time >= self.end.0;
            if !fits || payload.is_some() && usize::from(port) >= ports {
                return Err(StateError::new(
                    "an event in the state does not fit this system",
                ));
            }
            let body = payload.map_or(Body::Wake(token), |payload| Body::Payload(port, payload));
            self.put_pending(EventKey { time, order }, id, body);
        }
        Ok(())
    }
}

/// All pending events of parts, in the order of events: it does not depend on the division.
fn pending<C: Component>(parts: &[Part<C>]) -> Vec<(EventKey, u32, Body<C::Payload>)> {
    let mut pending = Vec::new();
    for part in parts {
        part.lane.queue.for_each(|key, target, carried| {
            let id = part.cells[target.component()].account.id;
            let body = match target.is_wake() {
                true => Body::Wake(target.at),
                false => Body::Payload(target.at as u16, *carried),
            };
            pending.push((key, id, body));
        });
    }
    pending.sort_unstable_by_key(|(key, ..)| *key);
    pending
}

fn save_pending<C: Component>(parts: &[Part<C>], out: &mut StateWriter)
where
    C::Payload: Serialize,
{
    let pending = pending(parts);
    out.value("pending", &(pending.len() as u64));
    for (key, id, body) in pending {
        let (port, payload, token) = match body {
            Body::Payload(port, payload) => (port, Some(payload), 0),
            Body::Wake(token) => (0, None, token),
        };
        out.value("event", &(key.time, key.order, id, port, payload, token));
    }
}

/// The number of a component by its place in a list.
impl From<usize> for ComponentId {
    fn from(index: usize) -> Self {
        ComponentId(index as u32)
    }
}
