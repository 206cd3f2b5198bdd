//! Running each part of a simulation in a process of its own.
//!
//! Every process (rank) builds the whole simulation and runs its own part of it, in the same windows
//! of one lookahead as threads do: a rank hands over its cross-partition events with the time of its next event,
//! so that one exchange a window suffices, and all ranks decide alike. A component's events have
//! the same order wherever it runs, so digests are equal to the bit.

use std::sync::mpsc::{Receiver, Sender, channel};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::part::{LOOK_EVERY, Part};
use super::{Monitor, Outcome, Simulation, Stop, save_pending};
use crate::component::Component;
use crate::partition::Partition;
use crate::queue::{EventKey, EventQueue, Target};
use crate::state::{Refusal, SaveState, StateError, StateReader, StateWriter};
use crate::units::SimTime;

/// How the processes of a run speak to each other.
pub trait Ranks {
    /// The number of this one, from 0.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// Hands `out[r]` to rank r, and takes into `into[r]` what that one handed over. All ranks do it
    /// together, each exchange with the same one of the others. What a rank would hand to itself is
    /// not looked at.
    fn exchange(&mut self, out: &[Vec<u8>], into: &mut [Vec<u8>]);
}

/// A rank that is a thread of this process, for trying out what runs on ranks.
pub struct LocalRank {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl LocalRank {
    /// So many ranks, each to be moved to a thread of its own.
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

/// Gives every rank what each has, by rank.
pub fn share<T: Serialize + DeserializeOwned + Clone>(ranks: &mut dyn Ranks, own: &T) -> Vec<T> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let mut bytes = Vec::new();
    write(&mut bytes, own);
    let mut into = vec![Vec::new(); size];
    ranks.exchange(&vec![bytes; size], &mut into);
    let of = |(from, bytes): (usize, &Vec<u8>)| match from == rank {
        true => own.clone(),
        false => read(&mut &bytes[..]),
    };
    into.iter().enumerate().map(of).collect()
}

fn write<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    match postcard::to_extend(value, std::mem::take(bytes)) {
        Ok(longer) => *bytes = longer,
        Err(error) => unreachable!("plain values can be written: {error}"),
    }
}

/// # Panics
/// If the other rank is another program.
fn read<T: DeserializeOwned>(bytes: &mut &[u8]) -> T {
    match postcard::take_from_bytes(bytes) {
        Ok((value, rest)) => {
            *bytes = rest;
            value
        }
        Err(error) => panic!("what another rank sent cannot be read: {error}"),
    }
}

/// What a rank sends at the end of a window to each of the others, before its events for that one.
#[derive(Serialize, Deserialize)]
struct Cover {
    /// Its earliest event, those for other ranks included.
    next: u64,
    interrupted: bool,
    events: u64,
}

/// Time, order, receiver in its part, port, and what is carried.
type Written<P> = (u64, u64, u32, u32, P);

/// How a rank's part of a run ended.
#[derive(Clone, Serialize, Deserialize)]
struct Ended {
    last: u64,
    events: u64,
}

impl<C: Component> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Parts are those of ranks.
    fn take_places(&mut self, division: &Partition) {
        self.rearrange(division.clone(), self.dense);
        // A run on threads divides anew.
        self.asked = 0;
    }

    /// Runs this rank's part of a division, which is the same in every run, until no rank has an event
    /// left, `until` is reached, or the monitor of one interrupts. The components of other ranks stay as
    /// they were. The outcome is the same on all ranks, but for the digest, which is right after
    /// [`Simulation::gather`].
    pub fn run_ranked(
        &mut self,
        division: &Partition,
        ranks: &mut dyn Ranks,
        until: SimTime,
        monitor: &Monitor,
    ) -> Outcome {
        let rank = ranks.rank();
        self.take_places(division);
        self.begin_parts(rank);
        for (other, part) in self.parts.iter_mut().enumerate() {
            if other != rank {
                part.forget_pending();
            }
        }
        let lookahead = division.lookahead.map_or(u64::MAX / 2, |span| span.0);
        let part = &mut self.parts[rank];
        let (interrupted, exhausted) = part.run_windows_ranked(ranks, lookahead, until.0, monitor);
        let ended = Ended {
            last: part.last,
            events: part.events,
        };
        // What others handled counts here too, so that every rank says the same.
        for (part, ended) in self.parts.iter_mut().zip(share(ranks, &ended)) {
            (part.last, part.events) = (ended.last, ended.events);
        }
        self.settle();
        let stop = if interrupted {
            Stop::Interrupted
        } else if exhausted {
            Stop::Exhausted
        } else {
            self.end = until;
            Stop::TimeLimit
        };
        self.outcome(stop)
    }
}

impl<C: Component + SaveState> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Brings the components of all ranks to rank 0, which then has the whole simulation as one
    /// process would have it; the others keep what they have. Returns the digest there.
    ///
    /// # Errors
    /// What cannot be saved, or a state that is of another system: the ranks are not the same program.
    pub fn gather(
        &mut self,
        division: &Partition,
        ranks: &mut dyn Ranks,
    ) -> Result<u64, GatherError> {
        let rank = ranks.rank();
        self.take_places(division);
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
        self.parts[part].take_in();
        for number in self.division.members().swap_remove(part) {
            self.save_component(number, &mut out);
        }
        save_pending(&self.parts[part..=part], &mut out);
        self.parts[part].put_back();
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

/// Why the components of all ranks cannot be brought together.
#[derive(Debug)]
pub enum GatherError {
    /// Something cannot be saved.
    Refused(Vec<Refusal>),
    /// The ranks do not have the same system.
    Differs(StateError),
}

impl<C: Component> Part<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Returns whether the run was interrupted, and whether no event is left anywhere.
    fn run_windows_ranked(
        &mut self,
        ranks: &mut dyn Ranks,
        lookahead: u64,
        until: u64,
        monitor: &Monitor,
    ) -> (bool, bool) {
        let (rank, size) = (ranks.rank(), ranks.size());
        let mut out = vec![Vec::new(); size];
        let mut into = vec![Vec::new(); size];
        let mut untold = 0;
        loop {
            let mut next = self.lane.queue.next_time();
            for to_one in &mut self.lane.outgoing {
                next = next.min(std::mem::replace(&mut to_one.earliest, u64::MAX));
            }
            let mut interrupted = monitor.is_interrupted();
            for (to, to_one) in self.lane.outgoing.iter_mut().enumerate() {
                if to == rank {
                    continue;
                }
                let (bytes, events) = (&mut out[to], to_one.events.len() as u64);
                bytes.clear();
                let cover = Cover {
                    next,
                    interrupted,
                    events,
                };
                write(bytes, &cover);
                for event in to_one.events.drain(..) {
                    let (key, target) = (event.key, event.target);
                    let receiver = target.component() as u32;
                    let written = (key.time, key.order, receiver, target.at, event.payload);
                    write::<Written<C::Payload>>(bytes, &written);
                }
            }
            ranks.exchange(&out, &mut into);
            for (from, bytes) in into.iter().enumerate() {
                if from == rank {
                    continue;
                }
                let mut bytes = &bytes[..];
                let cover: Cover = read(&mut bytes);
                next = next.min(cover.next);
                interrupted |= cover.interrupted;
                for _ in 0..cover.events {
                    let (time, order, receiver, port, payload): Written<C::Payload> =
                        read(&mut bytes);
                    let target = Target::port(receiver, port as u16);
                    *self.lane.arrive(EventKey { time, order }, target) = payload;
                }
            }
            if interrupted || next >= until || next == u64::MAX {
                self.tell(monitor, untold);
                return (interrupted, next == u64::MAX);
            }
            untold += self.advance(next.saturating_add(lookahead).min(until), u64::MAX);
            if untold >= LOOK_EVERY {
                self.tell(monitor, untold);
                untold = 0;
            }
        }
    }
}
