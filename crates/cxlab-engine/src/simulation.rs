//! Running components: sequentially, or conservatively on several threads in windows of one
//! lookahead, with bit-identical results.
//!
//! The components of a part (`part.rs`) run on one thread; `threads.rs` runs several parts.

mod part;
mod ranks;
#[cfg(test)]
mod tests;
mod threads;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::component::{
    Account, Body, Component, ComponentId, Lane, Outbox, Route, Wire, combine_digests,
};
use crate::partition::{Partition, partition, partition_together};
use crate::queue::{EventKey, EventQueue, Target, WheelQueue};
use crate::state::{SaveState, StateError, StateReader, StateWriter};
use crate::units::{Picos, SimTime};
use part::{Cell, Part};
pub use ranks::{GatherError, LocalRank, Ranks, share};
use threads::run_together;

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
    /// The empty queues of the last run's parts, for the next run.
    queues: Vec<WheelQueue<C::Payload>>,
    started: bool,
    events: u64,
    end: SimTime,
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
            queues: Vec::new(),
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

    /// The division among so many ranks of components of which some belong to one rank, pair by pair.
    pub fn division_together(&self, ranks: usize, together: &[(usize, usize)]) -> Partition {
        partition_together(&self.wires, ranks, together)
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
        self.outcome(stop, &division)
    }

    /// What a run has come to.
    fn outcome(&self, stop: Stop, division: &Partition) -> Outcome {
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
        let mut queues = std::mem::take(&mut self.queues);
        if queues.len() != division.parts {
            let queue = |size: &u32| WheelQueue::for_components(*size as usize);
            queues = sizes.iter().map(queue).collect();
        }
        let mut parts: Vec<Part<C>> = (queues.into_iter().enumerate())
            .map(|(part, queue)| Part {
                cells: Vec::with_capacity(sizes[part] as usize),
                lane: Lane {
                    queue,
                    outboxes: (0..division.parts).map(|_| Outbox::default()).collect(),
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
            part.lane.queue.rewind();
            self.queues.push(part.lane.queue);
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
        for number in 0..self.components.len() {
            self.save_component(number, out);
        }
        self.save_pending(out);
    }

    fn save_component(&self, number: usize, out: &mut StateWriter) {
        out.enter(number);
        let account = &self.accounts[number];
        out.value("account", &(account.sequence, account.digest));
        self.components[number].save(out);
    }

    /// In the order of events, whatever the division was that ran last.
    fn save_pending(&self, out: &mut StateWriter) {
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
        for number in 0..self.components.len() {
            self.restore_component(number, from)?;
        }
        self.pending.clear();
        self.restore_pending(from)
    }

    fn restore_component(
        &mut self,
        number: usize,
        from: &mut StateReader<'_>,
    ) -> Result<(), StateError> {
        let account = &mut self.accounts[number];
        (account.sequence, account.digest) = from.value("account")?;
        self.components[number].restore(from)
    }

    /// Adds events to those that are pending.
    fn restore_pending(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        for _ in 0..from.value::<u64>("pending")? {
            type Event<P> = (u64, u64, u32, u16, Option<P>, u32);
            let (time, order, id, port, payload, token): Event<C::Payload> = from.value("event")?;
            let ports = self.wires.get(id as usize).map_or(0, Vec::len);
            let known = (id as usize) < self.components.len();
            let fits = known && time >= self.end.0;
            if !fits || payload.is_some() && usize::from(port) >= ports {
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

/// The number of a component by its place in a list.
impl From<usize> for ComponentId {
    fn from(index: usize) -> Self {
        ComponentId(index as u32)
    }
}
