//! Running components: sequentially, or conservatively on several threads in windows of one
//! lookahead, with bit-identical results.
//!
//! In a window every partition handles its events before the window's end, which lies one
//! lookahead after the earliest pending event of all, so no letter can arrive inside it. Letters
//! go through double-buffered mailboxes, and one barrier a window suffices.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::component::{
    Account, Body, Component, ComponentId, Ctx, Lane, Letter, Payload, Route, Wire, combine_digests,
};
use crate::partition::{Partition, partition};
use crate::prefetch::prefetch;
use crate::queue::{EventKey, EventQueue, Popped, Target, WheelQueue};
use crate::state::{SaveState, StateError, StateReader, StateWriter};
use crate::units::{Picos, SimTime};

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
    time: AtomicU64,
}

impl Monitor {
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
    /// Units of work (completed requests) so far.
    pub fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }
    /// Simulated time reached.
    pub fn time(&self) -> SimTime {
        SimTime(self.time.load(Ordering::Relaxed))
    }
}

/// Components and their wiring, and the events between them.
pub struct Simulation<C: Component> {
    components: Vec<C>,
    wires: Vec<Vec<Wire>>,
    accounts: Vec<Account>,
    pending: Vec<(EventKey, u32, Body<C::Payload>)>,
    started: bool,
    events: u64,
    end: SimTime,
}

/// How many events a thread handles between two looks at the monitor.
const LOOK_EVERY: u64 = 4096;

/// So many components with their events lie in the second-level cache, where fetching ahead costs
/// more than it saves.
const NEAR: usize = 64;

/// A component with what the engine keeps of it, which every event needs and which therefore lies
/// before it, in the cache line that is fetched ahead.
#[repr(C)]
struct Cell<C: Component> {
    account: Account,
    routes: Box<[Route]>,
    component: C,
}

struct Part<C: Component> {
    cells: Vec<Cell<C>>,
    lane: Lane<C::Payload>,
    events: u64,
    last: u64,
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
        let accounts = (0..components.len() as u32)
            .map(|id| Account {
                id,
                local: 0,
                sequence: 0,
                digest: 0,
            })
            .collect();
        Simulation {
            components,
            wires,
            accounts,
            pending: Vec::new(),
            started: false,
            events: 0,
            end: SimTime::ZERO,
        }
    }

    /// The components, in the order of their numbers.
    pub fn components(&self) -> &[C] {
        &self.components
    }

    /// Visits every component between runs, in the order of their numbers.
    pub fn for_each_mut(&mut self, visit: impl FnMut(&mut C)) {
        self.components.iter_mut().for_each(visit);
    }

    /// One component between runs.
    ///
    /// # Panics
    /// If there is no component of that number.
    pub fn component_mut(&mut self, number: usize) -> &mut C {
        &mut self.components[number]
    }

    /// The components, for reading out their results after a run.
    pub fn into_components(self) -> Vec<C> {
        self.components
    }

    /// The time of the earliest pending event, between runs. `None` before the first run, and when
    /// no event is left.
    pub fn next_event(&self) -> Option<SimTime> {
        let times = self.pending.iter().map(|(key, ..)| SimTime(key.time));
        times.min()
    }

    /// Lets every component start once more when the next run begins, at the time that the last one
    /// reached: a phase of the simulation is over, and the next one begins.
    pub fn start_again(&mut self) {
        self.started = false;
    }

    /// The division that a run on `threads` threads uses.
    pub fn division(&self, threads: usize) -> Partition {
        partition(&self.wires, threads)
    }

    /// Runs until no event is left, `until` is reached (events at `until` or later stay
    /// pending), or the monitor interrupts. Can be called again to go on.
    pub fn run(&mut self, threads: usize, until: SimTime, monitor: &Monitor) -> Outcome {
        let division = partition(&self.wires, threads);
        let mut parts = self.split(&division);
        let interrupted = if parts.len() == 1 {
            parts[0].run_alone(until.0, monitor, !self.started)
        } else {
            let lookahead = division.lookahead.map_or(u64::MAX / 2, |span| span.0);
            run_together(&mut parts, lookahead, until.0, monitor, !self.started)
        };
        self.started = true;
        self.join(parts, &division);
        let stop = if interrupted {
            Stop::Interrupted
        } else if self.pending.is_empty() {
            Stop::Exhausted
        } else {
            self.end = until;
            Stop::TimeLimit
        };
        Outcome {
            end: self.end,
            events: self.events,
            digest: combine_digests(self.accounts.iter().map(|account| account.digest)),
            stop,
            partitions: division.parts,
            lookahead: division.lookahead,
        }
    }

    /// Hands components, accounts and pending events to the parts of a division.
    fn split(&mut self, division: &Partition) -> Vec<Part<C>> {
        let mut local_of = vec![0u32; self.components.len()];
        let mut sizes = vec![0u32; division.parts];
        for (id, part) in division.part_of.iter().enumerate() {
            local_of[id] = sizes[*part as usize];
            sizes[*part as usize] += 1;
        }
        let mut parts: Vec<Part<C>> = (0..division.parts)
            .map(|part| Part {
                cells: Vec::with_capacity(sizes[part] as usize),
                lane: Lane {
                    queue: WheelQueue::for_components(sizes[part] as usize),
                    outboxes: (0..division.parts).map(|_| Vec::new()).collect(),
                    partition: part as u16,
                    work: 0,
                },
                events: 0,
                last: self.end.0,
            })
            .collect();
        let components = std::mem::take(&mut self.components);
        let accounts = std::mem::take(&mut self.accounts);
        for (id, (component, mut account)) in components.into_iter().zip(accounts).enumerate() {
            let part = &mut parts[division.part_of[id] as usize];
            account.local = local_of[id];
            let routes = self.wires[id].iter().map(|wire| Route {
                min_latency: wire.min_latency.0,
                local: local_of[wire.peer.0 as usize],
                partition: division.part_of[wire.peer.0 as usize],
                port: wire.peer_port,
            });
            part.cells.push(Cell {
                account,
                routes: routes.collect(),
                component,
            });
        }
        for (key, id, body) in std::mem::take(&mut self.pending) {
            let local = local_of[id as usize];
            let queue = &mut parts[division.part_of[id as usize] as usize].lane.queue;
            match body {
                Body::Payload(port, payload) => {
                    *queue.push(key, Target::port(local, port)) = payload;
                }
                Body::Wake(token) => {
                    queue.push(key, Target::wake(local, token));
                }
            }
        }
        parts
    }

    /// Takes components, accounts and pending events back.
    fn join(&mut self, parts: Vec<Part<C>>, division: &Partition) {
        let mut iterators = Vec::with_capacity(parts.len());
        for mut part in parts {
            while let Some(event) = part.lane.queue.pop_before(u64::MAX) {
                let target = event.target;
                let id = part.cells[target.component()].account.id;
                let body = match target.is_wake() {
                    true => Body::Wake(target.at),
                    false => Body::Payload(target.at as u16, *part.lane.queue.carried(event)),
                };
                self.pending.push((event.key, id, body));
            }
            self.events += part.events;
            self.end = SimTime(self.end.0.max(part.last));
            iterators.push(part.cells.into_iter());
        }
        for part in &division.part_of {
            if let Some(cell) = iterators[*part as usize].next() {
                self.components.push(cell.component);
                self.accounts.push(cell.account);
            }
        }
    }
}

impl<C: Component + SaveState> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Writes the state between two runs.
    pub fn save(&self, out: &mut StateWriter) {
        out.value("components", &(self.components.len() as u64));
        out.value("clock", &(self.started, self.events, self.end.0));
        for (component, account) in self.components.iter().zip(&self.accounts) {
            out.value("account", &(account.sequence, account.digest));
            component.save(out);
        }
        // In the order of events, whatever the division was that ran last.
        let mut pending: Vec<_> = self.pending.iter().collect();
        pending.sort_unstable_by_key(|(key, ..)| *key);
        out.value("pending", &(pending.len() as u64));
        for (key, id, body) in pending {
            let (port, payload, token) = match body {
                Body::Payload(port, payload) => (*port, Some(payload), 0),
                Body::Wake(token) => (0, None, *token),
            };
            out.value("event", &(key.time, key.order, id, port, payload, token));
        }
    }

    /// Fills this simulation, freshly made from the same plan, with a saved state.
    ///
    /// # Errors
    /// The state is of another system.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let count: u64 = from.value("components")?;
        if count != self.components.len() as u64 {
            return Err(StateError::new(format!(
                "the state is of {count} components, this system has {}",
                self.components.len()
            )));
        }
        let end;
        (self.started, self.events, end) = from.value("clock")?;
        self.end = SimTime(end);
        for (component, account) in self.components.iter_mut().zip(&mut self.accounts) {
            (account.sequence, account.digest) = from.value("account")?;
            component.restore(from)?;
        }
        self.pending.clear();
        for _ in 0..from.value::<u64>("pending")? {
            type Event<P> = (u64, u64, u32, u16, Option<P>, u32);
            let (time, order, id, port, payload, token): Event<C::Payload> = from.value("event")?;
            let ports = self.wires.get(id as usize).map_or(0, Vec::len);
            if time < end || usize::from(port) >= ports.max(1) {
                return Err(StateError::new(
                    "an event in the state does not fit this system",
                ));
            }
            let body = payload.map_or(Body::Wake(token), |payload| Body::Payload(port, payload));
            self.pending.push((EventKey { time, order }, id, body));
        }
        Ok(())
    }
}

impl<C: Component> Part<C> {
    fn start(&mut self) {
        for cell in &mut self.cells {
            cell.component.start(&mut Ctx {
                now: SimTime(self.last),
                account: &mut cell.account,
                routes: &cell.routes,
                lane: &mut self.lane,
            });
        }
    }

    #[inline(always)]
    fn dispatch(&mut self, event: Popped) {
        let Popped { key, target, .. } = event;
        let cell = &mut self.cells[target.component()];
        let ctx = &mut Ctx {
            now: SimTime(key.time),
            account: &mut cell.account,
            routes: &cell.routes,
            lane: &mut self.lane,
        };
        if target.is_wake() {
            ctx.account.absorb(key, u64::from(target.at) | 1 << 63);
            cell.component.wake(ctx, target.at);
        } else {
            let payload = *ctx.lane.queue.carried(event);
            let what = payload.fingerprint() ^ u64::from(target.at) << 48;
            ctx.account.absorb(key, what);
            cell.component.receive(ctx, target.at as u16, &payload);
        }
    }

    /// Little of what an event touches is in the nearest cache, in a large system not even in the
    /// next. What the next events will touch is asked for in the order in which each leads to the
    /// next: the event, its component, and what the component will look at.
    #[inline(always)]
    fn fetch_ahead(&mut self) {
        if self.cells.len() <= NEAR {
            return;
        }
        let queue = &mut self.lane.queue;
        let behind = queue.fetch_behind();
        let Some((next, carried)) = queue.upcoming(0) else {
            if let Some(target) = behind {
                prefetch(&self.cells[target.component()].account);
            }
            return;
        };
        if !next.is_wake() {
            let cell = &self.cells[next.component()];
            cell.component.fetch(next.at as u16, carried);
        }
        if let Some((second, carried)) = queue.upcoming(1) {
            prefetch(&self.cells[second.component()]);
            prefetch(carried);
        }
    }

    /// Handles up to `limit` events before `end`; returns how many.
    #[inline]
    fn advance(&mut self, end: u64, limit: u64) -> u64 {
        let mut done = 0;
        while done < limit {
            let Some(event) = self.lane.queue.pop_before(end) else {
                break;
            };
            self.fetch_ahead();
            self.last = event.key.time;
            self.dispatch(event);
            done += 1;
        }
        self.events += done;
        done
    }

    fn tell(&mut self, monitor: &Monitor, handled: u64) {
        monitor.events.fetch_add(handled, Ordering::Relaxed);
        monitor
            .work
            .fetch_add(std::mem::take(&mut self.lane.work), Ordering::Relaxed);
        monitor.time.fetch_max(self.last, Ordering::Relaxed);
    }

    /// Runs as the only part; returns whether it was interrupted.
    fn run_alone(&mut self, until: u64, monitor: &Monitor, fresh: bool) -> bool {
        if fresh {
            self.start();
        }
        loop {
            let done = self.advance(until, LOOK_EVERY);
            self.tell(monitor, done);
            if done < LOOK_EVERY {
                return false;
            }
            if monitor.is_interrupted() {
                return true;
            }
        }
    }
}

/// A barrier that spins for a moment and then yields: windows are short, and there may be more
/// threads than cores.
struct SpinBarrier {
    count: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
}

impl SpinBarrier {
    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation
                .store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0u32;
        while self.generation.load(Ordering::Acquire) == generation {
            spins += 1;
            if spins < 2_000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Letters from one part to another.
type Mailbox<P> = Mutex<Vec<Letter<P>>>;

/// What threads exchange at the barrier; index 0 and 1 alternate by window.
struct Exchange<P: Payload> {
    barrier: SpinBarrier,
    /// `mail[turn][from][to]`
    mail: [Vec<Vec<Mailbox<P>>>; 2],
    /// `next[turn][part]`: earliest event that the part knows of, its own letters included.
    next: [Vec<AtomicU64>; 2],
    interrupted: [AtomicBool; 2],
}

/// Runs several parts, one thread each; returns whether they were interrupted.
fn run_together<C: Component>(
    parts: &mut [Part<C>],
    lookahead: u64,
    until: u64,
    monitor: &Monitor,
    fresh: bool,
) -> bool {
    let count = parts.len();
    let mail = || {
        (0..count)
            .map(|_| (0..count).map(|_| Mutex::new(Vec::new())).collect())
            .collect()
    };
    let next = || (0..count).map(|_| AtomicU64::new(u64::MAX)).collect();
    let exchange: Exchange<C::Payload> = Exchange {
        barrier: SpinBarrier {
            count,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
        },
        mail: [mail(), mail()],
        next: [next(), next()],
        interrupted: [AtomicBool::new(false), AtomicBool::new(false)],
    };
    let exchange = &exchange;
    std::thread::scope(|scope| {
        let (first, others) = match parts.split_first_mut() {
            Some(split) => split,
            None => return false,
        };
        for part in others {
            scope.spawn(move || part.run_windows(exchange, lookahead, until, monitor, fresh));
        }
        first.run_windows(exchange, lookahead, until, monitor, fresh)
    })
}

impl<C: Component> Part<C> {
    fn run_windows(
        &mut self,
        exchange: &Exchange<C::Payload>,
        lookahead: u64,
        until: u64,
        monitor: &Monitor,
        fresh: bool,
    ) -> bool {
        let me = self.lane.partition as usize;
        if fresh {
            self.start();
        }
        let mut turn = 0;
        let mut untold = 0;
        loop {
            self.post(exchange, turn, me, monitor);
            exchange.barrier.wait();
            for from in 0..exchange.next[turn].len() {
                let mut letters = exchange.mail[turn][from][me]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                for (key, target, payload) in letters.drain(..) {
                    *self.lane.queue.push(key, target) = payload;
                }
            }
            let earliest = exchange.next[turn]
                .iter()
                .map(|time| time.load(Ordering::Acquire))
                .min()
                .unwrap_or(u64::MAX);
            let interrupted = exchange.interrupted[turn].load(Ordering::Acquire);
            if interrupted || earliest >= until || earliest == u64::MAX {
                self.tell(monitor, untold);
                return interrupted;
            }
            untold += self.advance(earliest.saturating_add(lookahead).min(until), u64::MAX);
            if untold >= LOOK_EVERY {
                self.tell(monitor, untold);
                untold = 0;
            }
            turn ^= 1;
        }
    }

    /// Puts this window's letters into the mailboxes and says what is pending next.
    fn post(&mut self, exchange: &Exchange<C::Payload>, turn: usize, me: usize, monitor: &Monitor) {
        let mut earliest = self.lane.queue.next_time();
        for (to, outbox) in self.lane.outboxes.iter_mut().enumerate() {
            if outbox.is_empty() {
                continue;
            }
            let sent = outbox.iter().map(|(key, ..)| key.time).min();
            earliest = earliest.min(sent.unwrap_or(u64::MAX));
            let mut slot = exchange.mail[turn][me][to]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(outbox, &mut slot);
        }
        exchange.next[turn][me].store(earliest, Ordering::Release);
        if me == 0 {
            exchange.interrupted[turn].store(monitor.is_interrupted(), Ordering::Release);
        }
    }
}

/// The number of a component by its place in a list.
impl From<usize> for ComponentId {
    fn from(index: usize) -> Self {
        ComponentId(index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::StreamRng;

    #[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
    struct Ball(u64);

    impl Payload for Ball {
        fn fingerprint(&self) -> u64 {
            self.0
        }
    }

    /// Throws every ball on through a random port after a random time, and wakes itself.
    struct Juggler {
        rng: StreamRng,
        ports: u64,
        latency: u64,
        seen: Vec<(u64, u64)>,
    }

    impl Component for Juggler {
        type Payload = Ball;
        fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
            for ball in 0..3 {
                ctx.wake_at(SimTime(ball), ball as u32);
            }
        }
        fn receive(&mut self, ctx: &mut Ctx<'_, Ball>, port: u16, ball: &Ball) {
            self.seen.push((ctx.now().0, ball.0 ^ u64::from(port)));
            let at = SimTime(ctx.now().0 + self.latency + self.rng.below(3) * 100);
            let port = self.rng.below(self.ports) as u16;
            ctx.send(port, at, Ball(ball.0.wrapping_mul(31) + 1));
            ctx.count_work(1);
        }
        fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, token: u32) {
            let at = SimTime(ctx.now().0 + self.latency);
            ctx.send(0, at, Ball(u64::from(token)));
        }
    }

    impl SaveState for Juggler {
        fn save(&self, out: &mut StateWriter) {
            self.rng.save(out);
            out.value("seen", &self.seen);
        }
        fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
            self.rng.restore(from)?;
            self.seen = from.value("seen")?;
            Ok(())
        }
    }

    #[test]
    fn a_restored_run_ends_as_the_run_that_was_never_saved() {
        let monitor = Monitor::default();
        let mut whole = jugglers(12, 1_000);
        let expected = whole.run(1, SimTime(400_000), &monitor);
        for (before, after) in [(1, 1), (1, 3), (3, 1)] {
            let mut first = jugglers(12, 1_000);
            first.run(before, SimTime(150_000), &monitor);
            let mut out = StateWriter::default();
            first.save(&mut out);
            let bytes = out.finish();
            drop(first);
            let mut second = jugglers(12, 1_000);
            let mut from = StateReader::open(&bytes).expect("it was just written");
            second.restore(&mut from).expect("it is of the same system");
            from.finish().expect("all of it was read");
            let found = second.run(after, SimTime(400_000), &monitor);
            assert_eq!(
                (found.digest, found.events, found.end),
                (expected.digest, expected.events, expected.end)
            );
            for (a, b) in whole.components().iter().zip(second.components()) {
                assert_eq!(a.seen, b.seen);
            }
        }
    }

    #[test]
    fn the_saved_state_does_not_depend_on_threads_and_fits_no_other_system() {
        let monitor = Monitor::default();
        let states = [1, 4].map(|threads| {
            let mut simulation = jugglers(12, 1_000);
            simulation.run(threads, SimTime(100_000), &monitor);
            let mut out = StateWriter::default();
            simulation.save(&mut out);
            out.finish()
        });
        assert_eq!(states[0], states[1]);
        let mut from = StateReader::open(&states[0]).expect("it was just written");
        let error = jugglers(11, 1_000).restore(&mut from);
        assert!(error.is_err_and(|error| error.to_string().contains("12 components")));
    }

    fn jugglers(count: usize, latency: u64) -> Simulation<Juggler> {
        let components = (0..count)
            .map(|i| Juggler {
                rng: StreamRng::new(9, &format!("juggler{i}")),
                ports: 2,
                latency,
                seen: Vec::new(),
            })
            .collect();
        let wire = |to: usize, port: u16| Wire {
            peer: ComponentId(to as u32),
            peer_port: port,
            min_latency: Picos(latency),
        };
        let wires =
            (0..count).map(|i| vec![wire((i + 1) % count, 1), wire((i + count - 1) % count, 0)]);
        Simulation::new(components, wires.collect())
    }

    type Seen = Vec<Vec<(u64, u64)>>;

    fn run(threads: usize, latency: u64, pauses: &[u64]) -> (Outcome, Seen) {
        let mut simulation = jugglers(17, latency);
        let monitor = Monitor::default();
        let mut outcome = None;
        for until in pauses {
            outcome = Some(simulation.run(threads, SimTime(*until), &monitor));
        }
        let seen = simulation
            .into_components()
            .into_iter()
            .map(|one| one.seen)
            .collect();
        (outcome.unwrap(), seen)
    }

    #[test]
    fn every_number_of_threads_gives_the_same_events() {
        for latency in [1, 40, 700] {
            let (expected, seen) = run(1, latency, &[60_000]);
            assert!(expected.events > 1000);
            assert_eq!(expected.stop, Stop::TimeLimit);
            for threads in [2, 3, 5, 8] {
                let (outcome, same) = run(threads, latency, &[60_000]);
                assert_eq!(
                    (outcome.digest, outcome.events),
                    (expected.digest, expected.events)
                );
                assert_eq!(same, seen);
                assert_eq!(outcome.partitions, threads);
            }
        }
    }

    #[test]
    fn a_run_in_pieces_is_the_run_in_one() {
        let (expected, seen) = run(1, 40, &[60_000]);
        let (outcome, same) = run(1, 40, &[1, 777, 30_000, 30_000, 60_000]);
        assert_eq!((outcome.digest, same), (expected.digest, seen));
        let (outcome, _) = run(3, 40, &[5_000, 60_000]);
        assert_eq!(outcome.digest, expected.digest);
    }

    #[test]
    fn the_next_event_is_the_first_that_a_run_handles() {
        let monitor = Monitor::default();
        let mut simulation = jugglers(5, 1_000);
        assert_eq!(simulation.next_event(), None, "nothing has begun");
        let mut before = simulation.run(1, SimTime(0), &monitor).events;
        for threads in [1, 2, 3, 1, 2] {
            let next = simulation.next_event().expect("balls are in the air");
            assert_eq!(simulation.run(threads, next, &monitor).events, before);
            let behind = SimTime(next.0 + 1);
            let after = simulation.run(threads, behind, &monitor).events;
            assert!(after > before, "{after} events after {next:?}");
            before = after;
        }
    }

    #[test]
    fn an_interrupted_run_says_so_and_can_go_on() {
        for threads in [1, 2] {
            let mut simulation = jugglers(8, 40);
            let monitor = Monitor::default();
            monitor.interrupt();
            let outcome = simulation.run(threads, SimTime::NEVER, &monitor);
            assert_eq!(outcome.stop, Stop::Interrupted);
            let outcome = simulation.run(threads, SimTime(10_000_000), &Monitor::default());
            assert_eq!(outcome.stop, Stop::TimeLimit);
        }
    }

    /// Notes when it is started and when it wakes, so long after.
    struct Alarm {
        after: u64,
        noted: Vec<u64>,
    }

    impl Component for Alarm {
        type Payload = Ball;
        fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
            self.noted.push(ctx.now().0);
            ctx.wake_at(SimTime(ctx.now().0 + self.after), 0);
        }
        fn receive(&mut self, _: &mut Ctx<'_, Ball>, _: u16, _: &Ball) {}
        fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, _: u32) {
            self.noted.push(ctx.now().0);
        }
    }

    #[test]
    fn all_start_again_at_the_time_that_was_reached() {
        for threads in [1, 2] {
            let alarms = [5, 70].map(|after| Alarm {
                after,
                noted: Vec::new(),
            });
            let wire = |peer: usize| Wire {
                peer: ComponentId::from(peer),
                peer_port: 0,
                min_latency: Picos(1),
            };
            let wires = vec![vec![wire(1)], vec![wire(0)]];
            let mut simulation = Simulation::new(alarms.into(), wires);
            let monitor = Monitor::default();
            let first = simulation.run(threads, SimTime::NEVER, &monitor);
            assert_eq!((first.stop, first.end), (Stop::Exhausted, SimTime(70)));
            simulation.start_again();
            let second = simulation.run(threads, SimTime::NEVER, &monitor);
            assert_eq!((second.end, second.partitions), (SimTime(140), threads));
            let noted = simulation.into_components().into_iter();
            let noted: Vec<Vec<u64>> = noted.map(|alarm| alarm.noted).collect();
            assert_eq!(noted, [[0, 5, 70, 75], [0, 70, 70, 140]]);
        }
    }

    #[test]
    #[should_panic(expected = "faster than the wire")]
    fn nothing_outruns_its_wire() {
        let mut simulation = jugglers(2, 100);
        for juggler in &mut simulation.components {
            juggler.latency = 50;
        }
        simulation.run(1, SimTime::NEVER, &Monitor::default());
    }
}
