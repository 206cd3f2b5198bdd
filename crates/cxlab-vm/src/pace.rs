//! Keeps guests in step: the order in which the model processes the records of their processors.
//!
//! Every processor has a ring and a time in the fabric: its own time, the time that was skipped while its guest slept,
//! and the charged time. The earliest record goes first. That order is certain while every guest has a record. Of a
//! guest without a record, the published time is known, and no record is processed that is ahead of that time by the
//! window or more. So requests that meet in the fabric are late by less than the window. With a window of 0 they are in
//! exact time order, however QEMU schedules its threads.
//!
//! A guest only waits for its own responses. It runs ahead until its ring is full, or until it
//! reads the clock, which must be right. So there is no deadlock: the guest with the least time is
//! never stalled, because its record is the earliest, or it is about to publish one.
//!
//! Some guests cannot add records and therefore stall no other guest: a guest that has ended, one that sleeps without a
//! timer, and one that waits at the beginning of its program. Programs begin together. A guest at a begin mark waits
//! until all other guests are at one or have ended. Then all continue at the time of the farthest guest.
//!
//! A processor waits for each access to memory that guests share, so the values of these accesses are in the
//! same order. From the load of an atomic instruction to its store, only its own records are processed.
//!
//! Left out: the order between processors of one guest, which wait for each other inside QEMU
//! without the plugin knowing. The earliest record of the guest goes first, but no processor is
//! waited for. The time of a guest with several processors is that of its farthest processor.

use std::ops::Range;

use crate::device::{Counts, Device};
use crate::memory::{Memory, StuckBackend};
use crate::model::shared::SharedCounts;
use crate::model::{Model, PoolCounts, RecordResult};
use crate::ring::{Counters, Kind, ModelWords};

/// Most records that are charged together, unless the plugin waits.
const BATCH: u64 = 64;
/// Number of the mark at which a program begins.
pub const BEGIN: u64 = 1;
/// Number of the mark at which a program ends.
pub const END: u64 = 2;
/// Numbers of the marks at which a region of interest of a program begins and ends.
pub const INTEREST: [u64; 2] = [3, 4];

/// State of a guest at a mark.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GuestMark {
    /// Simulated time, without the time skipped while the guest slept.
    pub busy_ps: u64,
    /// Time skipped while the guest slept.
    pub idle_ns: u64,
    /// Counters of the plugin.
    pub counters: Counters,
    /// Requests to each pool so far.
    pub pools: Vec<PoolCounts>,
    /// Accesses to memory that guests share so far.
    pub shared: SharedCounts,
    /// Commands of the guest's accelerator so far.
    pub device: Counts,
}

/// How far guests were out of step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GuestSkew {
    /// Number of records and responses.
    pub events: u64,
    /// Number of records and responses that were processed after a later one of another guest.
    pub late_events: u64,
    /// Largest difference between a late event and the latest event of another guest, in picoseconds.
    pub max_late_ps: u64,
}

struct Guest<'a> {
    shared: ModelWords<'a>,
    device: Option<Device<'a>>,
    lanes: Range<usize>,
    /// Whether the guest's first program has begun.
    begun: bool,
    ended: bool,
    /// Time and processor of the begin mark (or first mark) at which the guest waits.
    held: Option<(u64, usize)>,
    /// Time of the guest's latest event.
    latest_ps: u64,
}

#[derive(Clone, Copy, Default)]
struct Lane {
    guest: usize,
    /// Number of the processor in its guest.
    number: usize,
    tail: u64,
    head: u64,
    /// Number of charged records that the ring shows.
    published: u64,
}

/// Records and waits that could be processed next.
#[derive(Default)]
struct View {
    /// Time and processor of the earliest record.
    ready: Option<(u64, usize)>,
    /// Number of guests that have not ended, and of those that wait at a begin mark.
    here: usize,
    held: usize,
    /// Number of processors that wait for memory, and one of them.
    waiting: usize,
    one: usize,
    /// Time from which on no event may be processed yet.
    limit: Option<u64>,
}

/// The model, and the rings of all guests.
pub struct Pace<'a, M> {
    model: Model<M>,
    window_ps: u64,
    guests: Vec<Guest<'a>>,
    lanes: Vec<Lane>,
    skew: GuestSkew,
}

impl<'a, M: Memory> Pace<'a, M> {
    /// Guests with their rings and numbers of processors, as in `model`.
    pub fn new(
        model: Model<M>,
        guests: impl IntoIterator<Item = (ModelWords<'a>, usize)>,
        window_ps: u64,
    ) -> Pace<'a, M> {
        let mut pace = Pace {
            model,
            window_ps,
            guests: Vec::new(),
            lanes: Vec::new(),
            skew: GuestSkew::default(),
        };
        for (shared, processors) in guests {
            let first = pace.lanes.len();
            let guest = pace.guests.len();
            pace.lanes.extend((0..processors).map(|number| Lane {
                guest,
                number,
                ..Lane::default()
            }));
            pace.guests.push(Guest {
                shared,
                device: None,
                lanes: first..pace.lanes.len(),
                begun: false,
                ended: false,
                held: None,
                latest_ps: 0,
            });
        }
        pace
    }

    /// Gives a guest an accelerator.
    pub fn attach(&mut self, guest: usize, device: Device<'a>) {
        self.guests[guest].device = Some(device);
    }

    /// Marks a guest as ended, so that no other guest waits for it.
    pub fn end(&mut self, guest: usize) {
        let guest = &mut self.guests[guest];
        guest.ended = true;
        for lane in guest.lanes.clone() {
            self.model.leave(lane);
        }
    }

    /// How far guests were out of step so far.
    pub fn skew(&self) -> GuestSkew {
        self.skew
    }

    /// Processes the next event. Returns false if none may be processed yet. `on_mark` is called
    /// with each guest at a mark.
    ///
    /// # Errors
    /// [`StuckBackend`] if a memory backend never responds.
    pub fn step(
        &mut self,
        on_mark: &mut dyn FnMut(usize, u64, GuestMark),
    ) -> Result<bool, StuckBackend> {
        let view = self.survey();
        if view.held > 0 && view.held == view.here {
            self.release(on_mark);
            return Ok(true);
        }
        // The last time that may be processed.
        let last = match view.limit {
            None => u64::MAX,
            Some(0) => return Ok(false),
            Some(limit) => limit - 1,
        };
        if view.waiting > 0 {
            let until = view.ready.map_or(last, |(at, _)| at.min(last));
            let first = match (view.waiting, until) {
                // No other event can come first.
                (1, u64::MAX) => Some(view.one),
                (_, until) => self.model.first(until).map(|(_, lane)| lane),
            };
            // If no event can come first, the wait never ends. Resuming reports that.
            if let Some(lane) = first.or_else(|| (until == u64::MAX).then_some(view.one)) {
                let (at, taken) = self.model.resume(lane)?;
                self.note(self.lanes[lane].guest, at);
                if taken == RecordResult::Whole {
                    self.taken(lane);
                }
                return Ok(true);
            }
        }
        match view.ready {
            Some((at, lane)) if at <= last => {
                self.take(at, lane, on_mark);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Reads all rings, and returns the events that may be processed next and the time limit of the guests without one.
    fn survey(&mut self) -> View {
        let mut view = View::default();
        let locked = self.model.locked();
        for guest in self.guests.iter().filter(|guest| !guest.ended) {
            view.here += 1;
            view.held += usize::from(guest.held.is_some());
            // Must be read before the lanes: it only grows while no lane has a further record.
            let idle_ps = guest.shared.idle_ns().saturating_mul(1000);
            let waits_for_lock = locked.is_some_and(|locked| !guest.lanes.contains(&locked));
            let mut says = guest.held.is_some() || !guest.begun || waits_for_lock;
            let mut position = 0;
            for number in guest.lanes.clone() {
                if locked.is_some_and(|locked| locked != number) {
                    continue;
                }
                if self.model.waits(number) {
                    view.waiting += 1;
                    view.one = number;
                    says = true;
                    continue;
                }
                if guest.held.is_some_and(|(_, lane)| lane == number) {
                    continue;
                }
                let lane = &mut self.lanes[number];
                let ring = guest.shared.lane(lane.number);
                let charged = self.model.charged_ps(number);
                if lane.head == lane.tail {
                    let now = ring.now_ps();
                    lane.head = ring.head();
                    position = position.max(now.saturating_add(charged).saturating_add(idle_ps));
                }
                if lane.head != lane.tail {
                    says = true;
                    let at = ring.record(lane.tail).at_ps.saturating_add(charged);
                    view.ready = Some(view.ready.map_or((at, number), |one| one.min((at, number))));
                }
            }
            if !says && !guest.shared.asleep() {
                let limit = position.saturating_add(self.window_ps);
                view.limit = Some(view.limit.map_or(limit, |one| one.min(limit)));
            }
        }
        view
    }

    /// Processes a processor's next record at time `at`. A guest at a begin mark is held instead.
    fn take(&mut self, at: u64, lane: usize, on_mark: &mut dyn FnMut(usize, u64, GuestMark)) {
        let one = self.lanes[lane];
        let guest = &mut self.guests[one.guest];
        let ring = guest.shared.lane(one.number);
        let record = ring.record(one.tail);
        if record.kind() == Kind::Mark {
            let begins = record.mark() == BEGIN || !guest.begun;
            if begins && guest.held.is_none() {
                guest.held = Some((at, lane));
                self.model.unlock(lane);
                return;
            }
            on_mark(one.guest, record.mark(), self.mark(one.guest, at));
        }
        let access = match record.kind() {
            Kind::Shared => ring.access(),
            _ => None,
        };
        self.note(one.guest, at);
        let register = access.and_then(|access| record.register(access).zip(Some(access)));
        let device = self.guests[one.guest].device.as_mut();
        let taken = match (access, register, device) {
            (_, Some((offset, access)), Some(device)) => {
                let (value, until) = device.access(at, offset, access);
                self.model.register(lane, at, value, until)
            }
            (Some(access), None, _) => self.model.access(lane, record, access),
            (_, Some(_), None) => RecordResult::Whole,
            (None, None, _) => self.model.record(lane, record),
        };
        if taken == RecordResult::Whole {
            self.taken(lane);
        }
    }

    /// Releases all guests, each of which waits at the beginning of a program, at the time of the farthest guest.
    fn release(&mut self, on_mark: &mut dyn FnMut(usize, u64, GuestMark)) {
        let reached = |guest: &Guest<'_>| {
            let held = guest.held.map_or(0, |(at, _)| at);
            held.max(guest.latest_ps)
        };
        let begin = self.guests.iter().map(reached).max().unwrap_or(0);
        for number in 0..self.guests.len() {
            let Some((at, lane)) = self.guests[number].held.take() else {
                continue;
            };
            self.guests[number].begun = true;
            self.model.hold(lane, begin - at);
            let one = self.lanes[lane];
            let mark = self.guests[number].shared.lane(one.number).record(one.tail);
            on_mark(number, mark.mark(), self.mark(number, begin));
            self.taken(lane);
        }
    }

    fn mark(&self, number: usize, at: u64) -> GuestMark {
        let guest = &self.guests[number];
        let idle_ns = guest.shared.idle_ns();
        let lanes = guest.lanes.clone().map(|lane| self.lanes[lane].number);
        let counters = lanes.map(|lane| guest.shared.lane(lane).counters());
        let device = guest.device.as_ref().map(Device::counts);
        GuestMark {
            busy_ps: at.saturating_sub(idle_ns.saturating_mul(1000)),
            idle_ns,
            counters: counters.fold(Counters::default(), |sum, one| sum.plus(&one)),
            pools: self.model.counts(number).to_vec(),
            shared: self.model.shared_counts(number),
            device: device.unwrap_or_default(),
        }
    }

    fn note(&mut self, number: usize, at: u64) {
        let others = self.guests.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        let latest = others.map(|(_, guest)| guest.latest_ps).max().unwrap_or(0);
        let behind = latest.saturating_sub(at);
        self.skew.events += 1;
        self.skew.late_events += u64::from(behind > 0);
        self.skew.max_late_ps = self.skew.max_late_ps.max(behind);
        let mine = &mut self.guests[number].latest_ps;
        *mine = at.max(*mine);
    }

    /// Marks a record as charged, and publishes the charged time now and then.
    fn taken(&mut self, number: usize) {
        let charged = self.model.charged_ps(number);
        let reply = self.model.take_reply(number);
        let lane = &mut self.lanes[number];
        let ring = self.guests[lane.guest].shared.lane(lane.number);
        if let Some(value) = reply {
            ring.reply(value);
        }
        lane.tail += 1;
        if lane.tail == lane.head || lane.tail - lane.published >= BATCH {
            lane.published = lane.tail;
            ring.charge(charged, lane.tail);
        }
    }
}

#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;
