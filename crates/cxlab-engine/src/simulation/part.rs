//! Components that run on one thread.

use std::sync::atomic::Ordering;

use super::Monitor;
use crate::component::{Account, Component, Ctx, Lane, NOWHERE, Payload, Route};
use crate::prefetch::{CACHE_LINE, prefetch, prefetch_first};
use crate::queue::{EventQueue, Popped, Target, WheelQueue};
use crate::units::SimTime;

/// How many events a thread handles between two looks at the monitor.
pub(super) const LOOK_EVERY: u64 = 4096;

/// So many components with their events lie in the second-level cache, where fetching ahead costs
/// more than it saves.
const NEAR: usize = 128;

/// How many events before its turn is asked for an event's component with what the event carries, and for
/// what the component will look at: a line from memory takes as long as two or three events.
const AHEAD: [usize; 2] = [6, 2];

/// The same where blocks take turns, and for what that leads to. In large systems most of it comes from memory.
const COMING: [usize; 3] = [12, 6, 3];

/// A component with what the engine keeps of it, which every event needs and which therefore lies
/// before it, in the cache line that is fetched ahead.
#[repr(C)]
pub(super) struct Cell<C: Component> {
    pub(super) account: Account,
    pub(super) routes: Box<[Route]>,
    pub(super) component: C,
}

/// What runs on one thread. Others lie beside it in memory, so it fills whole pairs of cache lines
/// (which processors fetch together): a line that two threads write would go to and fro.
#[repr(align(128))]
pub(super) struct Part<C: Component> {
    pub(super) cells: Vec<Cell<C>>,
    pub(super) lane: Lane<C::Payload>,
    pub(super) events: u64,
    pub(super) last: u64,
}

impl<C: Component> Part<C> {
    pub(super) fn start(&mut self) {
        for (local, cell) in self.cells.iter_mut().enumerate() {
            let block = self.lane.blocks.of_local[local] - self.lane.blocks.first;
            self.lane.turn_to(usize::from(block));
            cell.component.start(&mut Ctx {
                now: SimTime(self.last),
                account: &mut cell.account,
                routes: &cell.routes,
                lane: &mut self.lane,
                place: NOWHERE,
            });
        }
    }

    #[inline(always)]
    fn dispatch(&mut self, event: Popped) {
        let Popped { key, target, place } = event;
        let cell = &mut self.cells[target.component()];
        let ctx = &mut Ctx {
            now: SimTime(key.time),
            account: &mut cell.account,
            routes: &cell.routes,
            lane: &mut self.lane,
            place,
        };
        if target.is_wake() {
            ctx.lane.queue.release(place);
            ctx.place = NOWHERE;
            ctx.account.absorb(key, u64::from(target.at) | 1 << 63);
            cell.component.wake(ctx, target.at);
        } else {
            let what = ctx.received().fingerprint() ^ u64::from(target.at) << 48;
            ctx.account.absorb(key, what);
            cell.component.arrive(ctx, target.at as u16);
            if ctx.place != NOWHERE {
                ctx.lane.queue.release(ctx.place);
            }
        }
    }

    /// Little of what an event touches is in the nearest caches. What the next events will touch is asked
    /// for in the order in which each leads to the next: the event, its component, and what the component
    /// will look at. Nothing is looked at before it has had the time to come.
    #[inline(always)]
    fn fetch_ahead(&mut self) {
        let queue = &mut self.lane.queue;
        queue.fetch_behind();
        while let Some((target, carried)) = queue.ask_ahead(0, AHEAD[0]) {
            fetch_cell(&self.cells, target, carried);
        }
        while let Some((target, carried)) = queue.ask_ahead(1, AHEAD[1]) {
            fetch(&self.cells, target, carried);
            fetch_next(&self.cells, target, carried);
        }
    }

    /// The same where blocks take turns, one of the steps for the event that comes so far behind the one at hand.
    #[inline(always)]
    fn fetch_coming(&self, behind: usize, step: impl Fn(&[Cell<C>], Target, &C::Payload)) {
        if let Some((target, carried)) = self.lane.queue.coming(behind) {
            step(&self.cells, target, carried);
        }
    }

    /// Handles events before `end`, up to `limit`, with several blocks a window more; returns how many.
    pub(super) fn advance(&mut self, end: u64, limit: u64) -> u64 {
        let done = match self.lane.queue.blocks() {
            1 => self.handle(end, limit),
            _ => self.advance_blocks(end, limit),
        };
        self.events += done;
        done
    }

    /// The events, in their order.
    fn handle(&mut self, end: u64, limit: u64) -> u64 {
        let fetches = self.cells.len() > NEAR;
        let mut done = 0;
        while done < limit {
            let Some(event) = self.lane.queue.pop_before(end) else {
                break;
            };
            if fetches {
                self.fetch_ahead();
            }
            self.last = event.key.time;
            self.dispatch(event);
            done += 1;
        }
        done
    }

    /// Those of the block whose turn it is.
    fn handle_turn(&mut self) -> u64 {
        let mut done = 0;
        while let Some(event) = self.lane.queue.turns().pop() {
            let passed = self.lane.queue.turns().pass();
            self.last = event.key.time;
            self.dispatch(event);
            done += 1;
            if passed {
                self.fetch_coming(COMING[0], fetch_cell);
                self.fetch_coming(COMING[1], fetch);
                self.fetch_coming(COMING[2], fetch_next);
            }
        }
        done
    }

    /// In windows of one lookahead, in each of them one block after the other.
    ///
    /// What the events of a large system touch does not fit the caches, and in the order of time each
    /// event touches what has long been displaced. In a window no block can notice another, so the
    /// events of one may all come before those of the next: what they touch is then fetched once a
    /// window. The order of each component's events, and so every result, is the same.
    fn advance_blocks(&mut self, end: u64, limit: u64) -> u64 {
        let mut done = 0;
        while done < limit && self.lane.queue.turns().open(end) {
            (0..=COMING[0]).for_each(|behind| self.fetch_coming(behind, fetch_cell));
            (0..=COMING[1]).for_each(|behind| self.fetch_coming(behind, fetch));
            (0..=COMING[2]).for_each(|behind| self.fetch_coming(behind, fetch_next));
            let mut last = self.last;
            while let Some(block) = self.lane.queue.turns().turn() {
                self.lane.turn_to(block);
                done += self.handle_turn();
                last = last.max(self.last);
            }
            self.last = last;
        }
        done
    }

    pub(super) fn tell(&mut self, monitor: &Monitor, handled: u64) {
        monitor.events.fetch_add(handled, Ordering::Relaxed);
        monitor
            .work
            .fetch_add(std::mem::take(&mut self.lane.work), Ordering::Relaxed);
        monitor.time.fetch_max(self.last, Ordering::Relaxed);
    }

    /// Without the events that were pending. What components kept or took in, they keep.
    pub(super) fn forget_pending(&mut self) {
        if self.lane.queue.next_time() < u64::MAX {
            self.take_in();
            let blocks = &self.lane.blocks;
            self.lane.queue = WheelQueue::for_blocks(&blocks.counts, blocks.span, self.last);
            self.lane.block = self.lane.blocks.first;
        }
        self.put_back();
    }

    /// Components take in what they have kept.
    pub(super) fn take_in(&mut self) {
        for cell in &mut self.cells {
            cell.component.take_in(&mut |kept| self.lane.take(kept));
        }
    }

    /// Components may keep again what they took in.
    pub(super) fn put_back(&mut self) {
        for cell in &mut self.cells {
            let keep = &mut |payload| self.lane.keep(payload);
            cell.component.put_back(keep);
        }
    }

    /// Runs as the only part for about so many events, or until `pause` says to pause; returns whether it was
    /// interrupted, or `None` where it can go on.
    pub(super) fn run_alone(
        &mut self,
        until: u64,
        events: u64,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> Option<bool> {
        let mut handled = 0;
        while handled < events {
            let done = self.advance(until, LOOK_EVERY);
            handled += done;
            self.tell(monitor, done);
            if done < LOOK_EVERY {
                return Some(false);
            }
            if monitor.is_interrupted() {
                return Some(true);
            }
            if pause() {
                return None;
            }
        }
        None
    }
}

/// Asks for what an event carries and whom it is for.
#[inline(always)]
fn fetch_cell<C: Component>(cells: &[Cell<C>], target: Target, carried: &C::Payload) {
    prefetch(carried);
    prefetch_first::<{ 3 * CACHE_LINE }, _>(&cells[target.component()]);
}

/// Asks for what the component will look at.
#[inline(always)]
fn fetch<C: Component>(cells: &[Cell<C>], target: Target, carried: &C::Payload) {
    if !target.is_wake() {
        let component = &cells[target.component()].component;
        component.fetch(target.at as u16, carried);
    }
}

/// Asks for what that leads to.
#[inline(always)]
fn fetch_next<C: Component>(cells: &[Cell<C>], target: Target, carried: &C::Payload) {
    if !target.is_wake() {
        let cell = &cells[target.component()];
        let port = cell.component.fetch_next(target.at as u16, carried);
        if let Some(route) = port.and_then(|port| cell.routes.get(port as usize)) {
            prefetch(route);
        }
    }
}
