//! Runs each partition of a simulation in a process of its own.
//!
//! Every process (rank) builds the whole simulation and runs its own partition, in the same windows of
//! one lookahead as threads do. At the end of a window, ranks exchange cross-partition events and the
//! time of their next events. So one exchange for each window suffices, and all ranks come to the same
//! decisions. The events of a component have the same order on any rank, so digests are equal bit by bit.

use std::sync::mpsc::{Receiver, Sender, channel};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::part::{MONITOR_INTERVAL, Partition};
use super::saved::save_pending;
use super::{Monitor, Outcome, Simulation, Stop};
use crate::component::Component;
use crate::partition::Partitioning;
use crate::queue::{EventKey, EventQueue, Target};
use crate::state::{Refusal, SaveState, StateError, StateReader, StateWriter};
use crate::units::SimTime;

/// Communication between the processes of a run, such as MPI.
pub trait Ranks {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// Sends `out[r]` to each rank `r`, and receives into `into[r]` the bytes that rank `r` sent to this one.
    ///
    /// The call is collective: the n-th call of one rank meets the n-th calls of all others. Both lists
    /// have an entry for each rank; those for the own rank are ignored.
    fn exchange(&mut self, out: &[Vec<u8>], into: &mut [Vec<u8>]);
}

/// A rank that is a thread of this process, for tests of code that runs on ranks.
pub struct LocalRank {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl LocalRank {
    /// Makes `size` ranks, each to be moved to a thread of its own.
    pub fn several(size: usize) -> Vec<LocalRank> {
        let numbered = 0..size;
        let empty = numbered.map(|rank| LocalRank {
            rank,
            to: Vec::new(),
            from: Vec::new(),
        });
        let mut ranks: Vec<LocalRank> = empty.collect();
        for sender in 0..size {
            for receiver in 0..size {
                let (to, from) = channel();
                ranks[sender].to.push(to);
                ranks[receiver].from.push(from);
            }
        }
        ranks
    }
}

impl Ranks for LocalRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    /// # Panics
    /// If another rank has ended.
    fn exchange(&mut self, out: &[Vec<u8>], into: &mut [Vec<u8>]) {
        for (to, bytes) in self.to.iter().zip(out) {
            assert!(to.send(bytes.clone()).is_ok(), "a rank has ended");
        }
        for (from, bytes) in self.from.iter().zip(into) {
            match from.recv() {
                Ok(sent) => *bytes = sent,
                Err(_) => panic!("a rank has ended"),
            }
        }
    }
}

/// Gives every rank the values of all ranks, in the order of ranks. The call is collective.
///
/// # Panics
/// If another rank runs a different program, so that its value cannot be read.
pub fn share<T: Serialize + DeserializeOwned + Clone>(ranks: &mut dyn Ranks, value: &T) -> Vec<T> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let mut bytes = Vec::new();
    write(&mut bytes, value);
    let mut into = vec![Vec::new(); size];
    ranks.exchange(&vec![bytes; size], &mut into);
    let value_of = |(from, bytes): (usize, &Vec<u8>)| match from == rank {
        true => value.clone(),
        false => read(&mut &bytes[..]),
    };
    into.iter().enumerate().map(value_of).collect()
}

fn write<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    match postcard::to_extend(value, std::mem::take(bytes)) {
        Ok(longer) => *bytes = longer,
        Err(error) => unreachable!("plain values can be written: {error}"),
    }
}

/// Reads a value from the beginning of `bytes` and removes it.
///
/// # Panics
/// If the bytes are not such a value: the other rank runs a different program.
fn read<T: DeserializeOwned>(bytes: &mut &[u8]) -> T {
    match postcard::take_from_bytes(bytes) {
        Ok((value, rest)) => {
            *bytes = rest;
            value
        }
        Err(error) => panic!("what another rank sent cannot be read: {error}"),
    }
}

/// What a rank sends to each other rank at the end of a window, before its events for that rank.
#[derive(Serialize, Deserialize)]
struct WindowHeader {
    /// Time of the earliest pending event, including those for other ranks.
    next: u64,
    interrupted: bool,
    /// Number of events that follow.
    events: u64,
}

/// A cross-partition event: time, order, the receiver's index in its partition, port, payload.
type Written<P> = (u64, u64, u32, u32, P);

/// The end of a run on one rank: time of its last event, and number of events.
#[derive(Clone, Serialize, Deserialize)]
struct RankEnd {
    last: u64,
    events: u64,
}

impl<C: Component> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Divides the components into the partitions of the ranks.
    fn divide_among_ranks(&mut self, division: &Partitioning) {
        self.rearrange(division.clone(), self.dense);
        // The next run on threads makes its own division.
        self.requested_parts = 0;
    }

    /// Runs the partition of this rank until no rank has an event left, until the time `until`, or until
    /// the monitor of a rank interrupts.
    ///
    /// The `division` ([`Simulation::partition_for_ranks`]) is the same on all ranks and in every run of a
    /// simulation. Components of other ranks do not change here. The outcome is equal on all ranks except
    /// for the digest; [`Simulation::gather`] returns the digest of the whole.
    pub fn run_ranked(
        &mut self,
        division: &Partitioning,
        ranks: &mut dyn Ranks,
        until: SimTime,
        monitor: &Monitor,
    ) -> Outcome {
        let rank = ranks.rank();
        self.divide_among_ranks(division);
        self.begin_parts(rank);
        for (other, part) in self.parts.iter_mut().enumerate() {
            if other != rank {
                part.forget_pending();
            }
        }
        let lookahead = division.lookahead.map_or(u64::MAX / 2, |span| span.0);
        let part = &mut self.parts[rank];
        let stop = part.run_windows_ranked(ranks, lookahead, until.0, monitor);
        let ended = RankEnd {
            last: part.last,
            events: part.events,
        };
        // Every rank counts the events of all ranks, so that outcomes are equal.
        for (part, ended) in self.parts.iter_mut().zip(share(ranks, &ended)) {
            (part.last, part.events) = (ended.last, ended.events);
        }
        self.settle();
        if stop == Stop::TimeLimit {
            self.end = until;
        }
        self.outcome(stop)
    }
}

impl<C: Component + SaveState> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Copies the components of all ranks to rank 0, which then has the state that a run in one process would have. The
    /// other ranks do not change. Returns the digest, which is that of the whole run on rank 0 alone.
    ///
    /// # Errors
    /// If a component cannot be saved, or if ranks have different systems.
    pub fn gather(
        &mut self,
        division: &Partitioning,
        ranks: &mut dyn Ranks,
    ) -> Result<u64, GatherError> {
        let rank = ranks.rank();
        self.divide_among_ranks(division);
        let mut out = vec![Vec::new(); ranks.size()];
        if rank > 0 {
            out[0] = self.save_part(rank).map_err(GatherError::Refused)?;
        }
        let mut into = vec![Vec::new(); ranks.size()];
        ranks.exchange(&out, &mut into);
        if rank == 0 {
            for (from, bytes) in into.iter().enumerate().skip(1) {
                let restored = self.restore_part(from, bytes);
                restored.map_err(GatherError::Differs)?;
            }
        }
        Ok(self.digest())
    }

    fn save_part(&mut self, part: usize) -> Result<Vec<u8>, Vec<Refusal>> {
        let mut out = StateWriter::default();
        self.parts[part].take_kept();
        for number in self.division.members().swap_remove(part) {
            self.save_component(number, &mut out);
        }
        save_pending(&self.parts[part..=part], &mut out);
        self.parts[part].restore_kept();
        out.finish()
    }

    fn restore_part(&mut self, part: usize, bytes: &[u8]) -> Result<(), StateError> {
        let mut from = StateReader::open(bytes)?;
        for number in self.division.members().swap_remove(part) {
            self.restore_component(number, &mut from)?;
        }
        self.parts[part].forget_pending();
        self.restore_pending(&mut from)?;
        from.finish()
    }
}

/// Why the components of all ranks cannot be gathered.
#[derive(Debug)]
pub enum GatherError {
    /// Parts of components that cannot be saved.
    Refused(Vec<Refusal>),
    /// The state of another rank is of a different system.
    Differs(StateError),
}

impl<C: Component> Partition<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Runs windows until the end of the run, and returns why it ended.
    fn run_windows_ranked(
        &mut self,
        ranks: &mut dyn Ranks,
        lookahead: u64,
        until: u64,
        monitor: &Monitor,
    ) -> Stop {
        let (rank, size) = (ranks.rank(), ranks.size());
        let mut out = vec![Vec::new(); size];
        let mut into = vec![Vec::new(); size];
        let mut unreported = 0;
        loop {
            let mut next = self.pending.queue.next_time();
            for outgoing in &mut self.pending.outgoing {
                next = next.min(std::mem::replace(&mut outgoing.earliest, u64::MAX));
            }
            let mut interrupted = monitor.is_interrupted();
            for (to, outgoing) in self.pending.outgoing.iter_mut().enumerate() {
                if to == rank {
                    continue;
                }
                let (bytes, events) = (&mut out[to], outgoing.events.len() as u64);
                bytes.clear();
                let header = WindowHeader {
                    next,
                    interrupted,
                    events,
                };
                write(bytes, &header);
                for event in outgoing.events.drain(..) {
                    let (key, target) = (event.key, event.target);
                    let receiver = target.component() as u32;
                    let written = (
                        key.time,
                        key.order,
                        receiver,
                        target.port_or_token,
                        event.payload,
                    );
                    write::<Written<C::Payload>>(bytes, &written);
                }
            }
            ranks.exchange(&out, &mut into);
            for (from, bytes) in into.iter().enumerate() {
                if from == rank {
                    continue;
                }
                let mut bytes = &bytes[..];
                let header: WindowHeader = read(&mut bytes);
                next = next.min(header.next);
                interrupted |= header.interrupted;
                for _ in 0..header.events {
                    let (time, order, receiver, port, payload): Written<C::Payload> =
                        read(&mut bytes);
                    let target = Target::port(receiver, port as u16);
                    *self.pending.arrive(EventKey { time, order }, target) = payload;
                }
            }
            if interrupted || next >= until || next == u64::MAX {
                self.update_monitor(monitor, unreported);
                return match next {
                    _ if interrupted => Stop::Interrupted,
                    u64::MAX => Stop::Exhausted,
                    _ => Stop::TimeLimit,
                };
            }
            unreported += self.advance(next.saturating_add(lookahead).min(until), u64::MAX);
            if unreported >= MONITOR_INTERVAL {
                self.update_monitor(monitor, unreported);
                unreported = 0;
            }
        }
    }
}
