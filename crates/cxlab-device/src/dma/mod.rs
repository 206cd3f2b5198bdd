//! A DMA engine: descriptors become transaction layer packets.
//!
//! Passive: its owner posts descriptors, takes packets when they are due, delivers completions, and
//! hears what is done. For each descriptor the engine reads it from host memory (or gets it by
//! software), sets it up, moves the data, and writes a status. Descriptors begin and end in order;
//! several may be at work. Reads take a tag each until their last byte is in. Both directions of
//! the datapath move `width` bytes a cycle.
//!
//! Left out: scatter lists within a descriptor, relaxed order, interrupts (an owner sends one when
//! a descriptor is done), and errors. Posted writes are done when they have left.
//!
//! Invariants: every byte of a descriptor is asked for or written once; at most `tags` reads are
//! under way; times never go back.

mod params;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, Hpa, SimTime};
use cxlab_protocol::io::segment::{Piece, Pieces};
use cxlab_protocol::io::tlp::{Kind, Tlp};

pub use params::DmaParams;

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From host memory into the device (H2D): memory reads.
    Read,
    /// From the device into host memory (D2H): memory writes.
    Write,
}

/// A transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The owner's name for it.
    pub id: u64,
    /// Which way.
    pub direction: Direction,
    /// Where in host memory.
    pub address: Hpa,
    /// How much; at least 1.
    pub bytes: Bytes,
    /// Where the descriptor itself is; its status is written there too.
    pub ring_address: Hpa,
}

/// A packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The packet.
    pub tlp: Tlp,
    /// The addresses that it is about.
    pub piece: Piece,
    /// Of a read: its tag.
    pub tag: Option<u16>,
    /// When its last byte has left the datapath.
    pub at: SimTime,
}

/// What the engine wants to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This, now.
    Send(Outgoing),
    /// Something, at that time.
    At(SimTime),
    /// Nothing before a completion or a descriptor comes.
    Wait,
}

/// How far a descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Too many others are at work.
    Queued,
    /// To be read from host memory.
    Fetch,
    /// Being read.
    Fetching,
    /// Its data is being asked for, or written.
    Data,
    /// All was asked for.
    Draining,
    /// Its status is to be written.
    Status,
    /// Done.
    Done,
}

struct Work {
    descriptor: Descriptor,
    stage: Stage,
    /// When the stage may go on.
    ready: SimTime,
    /// What is still to be asked for or written.
    pieces: Pieces,
    /// Bytes that are still to come.
    left: u64,
}

#[derive(Clone, Copy, Default)]
struct Tag {
    /// The number of the descriptor, counted from the first.
    work: u64,
    left: u32,
}

/// The engine.
pub struct DmaEngine {
    params: DmaParams,
    works: VecDeque<Work>,
    /// The number of the first of `works`.
    first: u64,
    /// When places for descriptors at work become free, in order.
    places: VecDeque<SimTime>,
    tags: Vec<Tag>,
    /// Free tags and since when, in order of time.
    free_tags: VecDeque<(u16, SimTime)>,
    setup_free: SimTime,
    out_free: SimTime,
    in_free: SimTime,
    /// Descriptors at the head that are done, and when the last of them was.
    settled: usize,
    settled_at: SimTime,
    last_done: SimTime,
}

impl DmaEngine {
    /// An idle engine.
    ///
    /// # Errors
    /// Parameters out of range.
    pub fn new(params: DmaParams) -> Result<DmaEngine, ParamError> {
        params.check()?;
        let tags = params.tags as u16;
        Ok(DmaEngine {
            works: VecDeque::with_capacity(params.ring as usize),
            first: 0,
            places: (0..params.outstanding).map(|_| SimTime::ZERO).collect(),
            tags: vec![Tag::default(); params.tags as usize],
            free_tags: (0..tags).map(|tag| (tag, SimTime::ZERO)).collect(),
            setup_free: SimTime::ZERO,
            out_free: SimTime::ZERO,
            in_free: SimTime::ZERO,
            settled: 0,
            settled_at: SimTime::ZERO,
            last_done: SimTime::ZERO,
            params,
        })
    }

    /// Takes a descriptor; `false` when the ring is full.
    ///
    /// # Panics
    /// If it is of no bytes: our own mistake.
    pub fn post(&mut self, now: SimTime, descriptor: Descriptor) -> bool {
        assert!(descriptor.bytes > Bytes(0), "a descriptor of no bytes");
        if self.works.len() == self.params.ring as usize {
            return false;
        }
        let limits = self.params.limits();
        let Descriptor { address, bytes, .. } = descriptor;
        let pieces = match descriptor.direction {
            Direction::Read => limits.reads(address.0, bytes.0),
            Direction::Write => limits.writes(address.0, bytes.0),
        };
        self.works.push_back(Work {
            descriptor,
            stage: Stage::Queued,
            ready: now,
            pieces,
            left: bytes.0,
        });
        self.start();
        true
    }

    /// Starts descriptors that wait for a place.
    fn start(&mut self) {
        for at in 0..self.works.len() {
            if self.works[at].stage != Stage::Queued {
                continue;
            }
            let Some(place) = self.places.pop_front() else {
                return;
            };
            let begin = self.works[at].ready.max(place);
            if self.params.descriptor_bytes > 0 {
                self.works[at].stage = Stage::Fetch;
                self.works[at].ready = begin;
            } else {
                self.set_up(at, begin);
            }
        }
    }

    fn set_up(&mut self, at: usize, begin: SimTime) {
        let setup = self.params.cycles(self.params.setup_cycles.into());
        self.setup_free = begin.max(self.setup_free) + setup;
        self.works[at].stage = Stage::Data;
        self.works[at].ready = self.setup_free;
    }

    /// What to send next: call it again after each `Send`.
    pub fn next_tlp(&mut self, now: SimTime) -> Next {
        let Some((at, due)) = self.candidate() else {
            return Next::Wait;
        };
        if due > now {
            return Next::At(due);
        }
        match self.works[at].stage {
            Stage::Fetch => {
                let piece = self.ring_piece(at, self.params.descriptor_bytes);
                self.works[at].stage = Stage::Fetching;
                self.send_read(now, at, piece)
            }
            Stage::Status => {
                let piece = self.ring_piece(at, self.params.status_bytes);
                let sent = self.send(now, piece, Kind::MemWr, None);
                self.finish(at, self.out_free);
                sent
            }
            _ => self.send_data(now, at),
        }
    }

    /// The descriptor that can send first, the oldest of those, and when. Data goes in order.
    fn candidate(&self) -> Option<(usize, SimTime)> {
        let tag = self.free_tags.front().map(|(_, since)| *since);
        let mut earlier_data = false;
        let mut best: Option<(usize, SimTime)> = None;
        for (at, work) in self.works.iter().enumerate() {
            let reads = work.descriptor.direction == Direction::Read;
            let tag_time = match work.stage {
                Stage::Fetch => tag,
                Stage::Data if earlier_data => None,
                Stage::Data if reads => tag,
                Stage::Data | Stage::Status => Some(SimTime::ZERO),
                _ => None,
            };
            earlier_data |= matches!(work.stage, Stage::Fetch | Stage::Fetching | Stage::Data);
            if let Some(tag_time) = tag_time {
                let due = work.ready.max(self.out_free).max(tag_time);
                if best.is_none_or(|(_, least)| due < least) {
                    best = Some((at, due));
                }
            }
        }
        best
    }

    fn ring_piece(&self, at: usize, bytes: u32) -> Piece {
        let address = self.works[at].descriptor.ring_address.0;
        Piece { address, bytes }
    }

    fn send_data(&mut self, now: SimTime, at: usize) -> Next {
        let direction = self.works[at].descriptor.direction;
        let Some(piece) = self.works[at].pieces.next() else {
            return Next::Wait;
        };
        let more = self.works[at].pieces.clone().next().is_some();
        match direction {
            Direction::Read => {
                if !more {
                    self.works[at].stage = Stage::Draining;
                }
                self.send_read(now, at, piece)
            }
            Direction::Write => {
                let sent = self.send(now, piece, Kind::MemWr, None);
                if !more {
                    self.data_done(at, self.out_free);
                }
                sent
            }
        }
    }

    fn send_read(&mut self, now: SimTime, at: usize, piece: Piece) -> Next {
        let Some((tag, _)) = self.free_tags.pop_front() else {
            return Next::Wait;
        };
        self.tags[usize::from(tag)] = Tag {
            work: self.first + at as u64,
            left: piece.bytes,
        };
        self.send(now, piece, Kind::MemRd, Some(tag))
    }

    fn send(&mut self, now: SimTime, piece: Piece, kind: Kind, tag: Option<u16>) -> Next {
        let tlp = piece.tlp(kind);
        let beats = self.params.beats(tlp.payload_bytes().into());
        self.out_free = now.max(self.out_free) + self.params.cycles(beats);
        Next::Send(Outgoing {
            tlp,
            piece,
            tag,
            at: self.out_free,
        })
    }

    /// A completion with data came for a read.
    ///
    /// # Panics
    /// If the read did not ask for so much: our own mistake.
    pub fn completion(&mut self, now: SimTime, tag: u16, bytes: u32) {
        let Tag { work, left } = self.tags[usize::from(tag)];
        assert!(
            bytes <= left,
            "{bytes} bytes for tag {tag}, which waits for {left}"
        );
        let beats = self.params.beats(bytes.into());
        self.in_free = now.max(self.in_free) + self.params.cycles(beats);
        self.tags[usize::from(tag)].left -= bytes;
        if left == bytes {
            self.free_tags.push_back((tag, self.in_free));
        }
        let at = (work - self.first) as usize;
        if self.works[at].stage == Stage::Fetching {
            if left == bytes {
                self.set_up(at, self.in_free);
            }
            return;
        }
        self.works[at].left -= u64::from(bytes);
        if self.works[at].left == 0 {
            self.data_done(at, self.in_free);
        }
    }

    /// The data of a descriptor is where it should be.
    fn data_done(&mut self, at: usize, when: SimTime) {
        let when = when + self.params.cycles(self.params.completion_cycles.into());
        if self.params.status_bytes > 0 {
            self.works[at].stage = Stage::Status;
            self.works[at].ready = when;
        } else {
            self.finish(at, when);
        }
    }

    fn finish(&mut self, at: usize, when: SimTime) {
        self.works[at].stage = Stage::Done;
        self.works[at].ready = when;
        // Places become free in order: a descriptor that is done waits for those before it.
        while let Some(work) = self.works.get(self.settled)
            && work.stage == Stage::Done
        {
            self.settled_at = self.settled_at.max(work.ready);
            self.places.push_back(self.settled_at);
            self.settled += 1;
        }
        self.start();
    }

    /// When the oldest descriptor is done, if that is known.
    pub fn next_done(&self) -> Option<SimTime> {
        let work = self.works.front()?;
        (work.stage == Stage::Done).then(|| work.ready.max(self.last_done))
    }

    /// Takes the oldest descriptor if it is done, and when it was.
    pub fn done(&mut self, now: SimTime) -> Option<(Descriptor, SimTime)> {
        let when = self.next_done().filter(|when| *when <= now)?;
        let work = self.works.pop_front()?;
        self.first += 1;
        self.settled -= 1;
        self.last_done = when;
        Some((work.descriptor, when))
    }

    /// Descriptors in the ring, with those at work and those not yet taken.
    pub fn len(&self) -> usize {
        self.works.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.works.is_empty()
    }
}
