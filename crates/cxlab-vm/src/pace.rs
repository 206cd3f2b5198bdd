//! Guests in step: in which order the model takes what their processors tell.
//!
//! Every processor has a ring and a time in the fabric: its own, what was skipped while its guest
//! slept, and what it was charged. What is earliest goes first. That is certain while each guest has
//! something to say; of one that has not, it is known how far its time has come, and nothing is taken
//! that lies as much as the window, or more, ahead of that. So what meets in the fabric comes late by
//! less than the window, and with none in the exact order of its times, however QEMU runs.
//!
//! A guest never waits for another but for its answers: it runs ahead in its ring until that is full,
//! or until it reads the clock, which must be right. So nobody waits in a circle: the guest whose time
//! is least is never held up, for what it says is the earliest, or it is on its way to say something.
//!
//! Whoever has nothing to add holds up nobody: a guest that has ended, one that sleeps without a
//! timer, and one that waits at the beginning of its program. Programs begin together: a guest at a
//! begin mark waits until all others are at one or have ended, and all go on at the time that the farthest has reached.
//!
//! Left out: the order between processors of one guest, which wait for each other in QEMU in ways
//! that nobody tells. Its earliest record goes first, but none is waited for; a guest with several
//! processors is as far as the one that is farthest.

use std::ops::Range;

use crate::memory::{Memory, Stuck};
use crate::model::{Model, PoolCounts, Taken};
use crate::ring::{Counters, Kind, Shared};

/// Records that are charged at once, unless the plugin waits.
const BATCH: u64 = 64;
/// The mark at which programs begin.
pub const BEGIN: u64 = 1;
/// The mark at which they end.
pub const END: u64 = 2;
/// The marks at which what is of interest in a program begins and ends.
pub const INTEREST: [u64; 2] = [3, 4];

/// How it stands with a guest at a mark.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Moment {
    /// Simulated time, but for what was skipped while it slept.
    pub busy_ps: u64,
    /// What was.
    pub idle_ns: u64,
    /// What the plugin counted.
    pub counters: Counters,
    /// What was asked of each pool.
    pub pools: Vec<PoolCounts>,
}

/// How far guests were out of step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Late {
    /// Records and answers.
    pub events: u64,
    /// Those that came when another guest's later one had been taken.
    pub late: u64,
    /// The most that one was late.
    pub most_ps: u64,
}

struct Guest<'a> {
    shared: Shared<'a>,
    lanes: Range<usize>,
    /// Its first program has begun.
    begun: bool,
    ended: bool,
    /// It waits at a begin mark, or at its first: since when, and which processor.
    held: Option<(u64, usize)>,
    /// The time of its latest event.
    latest_ps: u64,
}

#[derive(Clone, Copy)]
struct Lane {
    guest: usize,
    /// Its number in the guest.
    number: usize,
    tail: u64,
    head: u64,
    told: u64,
}

/// What can be taken.
#[derive(Default)]
struct View {
    /// The earliest record.
    ready: Option<(u64, usize)>,
    /// Guests that have not ended, and those of them that wait at a begin mark.
    here: usize,
    held: usize,
    /// How many processors wait, and one of them.
    waiting: usize,
    one: usize,
    /// Nothing from this time on may be taken yet.
    limit: Option<u64>,
}

/// The model, and the rings of all guests.
pub struct Pace<'a, M> {
    model: Model<M>,
    window_ps: u64,
    guests: Vec<Guest<'a>>,
    lanes: Vec<Lane>,
    late: Late,
}

impl<'a, M: Memory> Pace<'a, M> {
    /// Of guests with so many processors each, as the model has them.
    pub fn new(
        model: Model<M>,
        guests: impl IntoIterator<Item = (Shared<'a>, usize)>,
        window_ps: u64,
    ) -> Pace<'a, M> {
        let mut pace = Pace {
            model,
            window_ps,
            guests: Vec::new(),
            lanes: Vec::new(),
            late: Late::default(),
        };
        for (shared, processors) in guests {
            let first = pace.lanes.len();
            let guest = pace.guests.len();
            pace.lanes.extend((0..processors).map(|number| Lane {
                guest,
                number,
                tail: 0,
                head: 0,
                told: 0,
            }));
            pace.guests.push(Guest {
                shared,
                lanes: first..pace.lanes.len(),
                begun: false,
                ended: false,
                held: None,
                latest_ps: 0,
            });
        }
        pace
    }

    /// A guest has ended, in whatever way: nobody waits for it any more.
    pub fn end(&mut self, guest: usize) {
        let guest = &mut self.guests[guest];
        guest.ended = true;
        for lane in guest.lanes.clone() {
            self.model.leave(lane);
        }
    }

    /// How far guests were out of step until now.
    pub fn late(&self) -> Late {
        self.late
    }

    /// Takes what comes next; false when nothing can be taken yet. `on_mark` is told of guests at marks.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn step(&mut self, on_mark: &mut dyn FnMut(usize, u64, Moment)) -> Result<bool, Stuck> {
        let view = self.look();
        if view.held > 0 && view.held == view.here {
            self.release(on_mark);
            return Ok(true);
        }
        // The last time that may be taken.
        let last = match view.limit {
            None => u64::MAX,
            Some(0) => return Ok(false),
            Some(limit) => limit - 1,
        };
        if view.waiting > 0 {
            let until = view.ready.map_or(last, |(at, _)| at.min(last));
            let first = match (view.waiting, until) {
                // Nothing can come between.
                (1, u64::MAX) => Some(view.one),
                (_, until) => self.model.first(until).map(|(_, lane)| lane),
            };
            // With none to come, one that waits for ever is why.
            if let Some(lane) = first.or_else(|| (until == u64::MAX).then_some(view.one)) {
                let (at, taken) = self.model.resume(lane)?;
                self.note(self.lanes[lane].guest, at);
                if taken == Taken::Whole {
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

    fn look(&mut self) -> View {
        let mut view = View::default();
        for guest in self.guests.iter().filter(|guest| !guest.ended) {
            view.here += 1;
            view.held += usize::from(guest.held.is_some());
            // Before what lanes say: it grows only when none has more to say.
            let idle_ps = guest.shared.idle_ns().saturating_mul(1000);
            let mut says = guest.held.is_some() || !guest.begun;
            let mut position = 0;
            for number in guest.lanes.clone() {
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

    fn take(&mut self, at: u64, lane: usize, on_mark: &mut dyn FnMut(usize, u64, Moment)) {
        let one = self.lanes[lane];
        let guest = &mut self.guests[one.guest];
        let record = guest.shared.lane(one.number).record(one.tail);
        if record.kind() == Kind::Mark {
            let begins = record.mark() == BEGIN || !guest.begun;
            if begins && guest.held.is_none() {
                guest.held = Some((at, lane));
                return;
            }
            on_mark(one.guest, record.mark(), self.moment(one.guest, at));
        }
        self.note(one.guest, at);
        if self.model.record(lane, record) == Taken::Whole {
            self.taken(lane);
        }
    }

    /// Lets all guests go on: each is at the beginning of a program. Others went on while they waited, and
    /// may have ended since.
    fn release(&mut self, on_mark: &mut dyn FnMut(usize, u64, Moment)) {
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
            on_mark(number, mark.mark(), self.moment(number, begin));
            self.taken(lane);
        }
    }

    fn moment(&self, number: usize, at: u64) -> Moment {
        let guest = &self.guests[number];
        let idle_ns = guest.shared.idle_ns();
        let lanes = guest.lanes.clone().map(|lane| self.lanes[lane].number);
        let counters = lanes
            .map(|lane| guest.shared.lane(lane).counters())
            .fold(Counters::default(), |sum, one| sum.plus(&one));
        Moment {
            busy_ps: at.saturating_sub(idle_ns.saturating_mul(1000)),
            idle_ns,
            counters,
            pools: self.model.counts(number).to_vec(),
        }
    }

    fn note(&mut self, number: usize, at: u64) {
        let others = self.guests.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        let latest = others.map(|(_, guest)| guest.latest_ps).max().unwrap_or(0);
        let behind = latest.saturating_sub(at);
        self.late.events += 1;
        self.late.late += u64::from(behind > 0);
        self.late.most_ps = self.late.most_ps.max(behind);
        let mine = &mut self.guests[number].latest_ps;
        *mine = at.max(*mine);
    }

    /// A record is charged.
    fn taken(&mut self, number: usize) {
        let charged = self.model.charged_ps(number);
        let lane = &mut self.lanes[number];
        lane.tail += 1;
        if lane.tail == lane.head || lane.tail - lane.told >= BATCH {
            lane.told = lane.tail;
            let shared = self.guests[lane.guest].shared;
            shared.lane(lane.number).charge(charged, lane.tail);
        }
    }
}

#[cfg(test)]
mod tests;
