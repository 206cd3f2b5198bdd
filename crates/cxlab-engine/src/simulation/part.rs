//! A partition: the components that run on one thread, and the loop that handles their events.

use std::sync::atomic::Ordering;

use super::Monitor;
use crate::component::{Account, Component, Ctx, ExecutionHints, Lane, NOWHERE, Payload, Route};
use crate::prefetch::{CACHE_LINE, prefetch, prefetch_first};
use crate::queue::{EventQueue, PoppedEvent, Target, WheelQueue};
use crate::units::SimTime;

/// Number of events that a thread handles between two accesses to the monitor (*assumed*).
pub(super) const LOOK_EVERY: u64 = 4096;

/// Largest number of components without prefetching (*assumed*): they and their events fit the second-level
/// cache, where prefetching costs more than it saves.
const NEAR: usize = 128;

/// Prefetch distances in events with a timing wheel: for the component and the payload of an event, and
/// for both stages of [`ExecutionHints`]. A line from memory takes as long as two or three events.
/// Twice these distances are slower (`docs/notebook/performance.md`).
const AHEAD: [usize; 2] = [6, 2];

/// Prefetch distances in events with block-by-block execution: for the component and the payload of an
/// event, and for each stage of [`ExecutionHints`] (*assumed*). In large systems most lines come from memory.
const COMING: [usize; 3] = [12, 6, 3];

/// A component with the engine's data on it. Every event needs these data, so they precede the component,
/// in the cache line that is prefetched.
#[repr(C)]
pub(super) struct Cell<C: Component> {
    pub(super) account: Account,
    pub(super) routes: Box<[Route]>,
    pub(super) component: C,
}

/// A partition: the components that run on one thread, and their events.
///
/// Partitions are neighbours in memory. Each fills whole pairs of cache lines, which processors fetch
/// together, so that no two threads write to one line.
#[repr(align(128))]
pub(super) struct RunningPartition<C: Component> {
    pub(super) cells: Vec<Cell<C>>,
    pub(super) lane: Lane<C::Payload>,
    /// Events handled since the last [`Simulation::settle`](super::Simulation::settle).
    pub(super) events: u64,
    /// Time of the last event handled, in picoseconds.
    pub(super) last: u64,
}

impl<C: Component> RunningPartition<C> {
    /// Starts the components, in the order of their indices.
    pub(super) fn start(&mut self) {
        for (local, cell) in self.cells.iter_mut().enumerate() {
            let block = self.lane.blocks.of_local[local] - self.lane.blocks.first;
            self.lane.begin_block(usize::from(block));
            cell.component.start(&mut Ctx {
                now: SimTime(self.last),
                account: &mut cell.account,
                routes: &cell.routes,
                lane: &mut self.lane,
                place: NOWHERE,
            });
        }
    }

    /// Lets the receiver of an event handle it.
    #[inline(always)]
    fn dispatch(&mut self, event: PoppedEvent) {
        let PoppedEvent { key, target, place } = event;
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
            ctx.account
                .absorb(key, u64::from(target.port_or_token) | 1 << 63);
            cell.component.wake(ctx, target.port_or_token);
        } else {
            let content = ctx.received().fingerprint() ^ u64::from(target.port_or_token) << 48;
            ctx.account.absorb(key, content);
            cell.component.arrive(ctx, target.port_or_token as u16);
            if ctx.place != NOWHERE {
                ctx.lane.queue.release(ctx.place);
            }
        }
    }

    /// Prefetches for the next events of the timing wheel, since little of what an event touches is in
    /// the nearest caches. Each stage needs the lines of the one before: the event, its component, the
    /// state that the component will read. No stage reads a line that was requested just before.
    #[inline(always)]
    fn fetch_ahead(&mut self) {
        let queue = &mut self.lane.queue;
        queue.fetch_behind();
        while let Some((target, carried)) = queue.next_to_prefetch(0, AHEAD[0]) {
            fetch_cell(&self.cells, target, carried);
        }
        while let Some((target, carried)) = queue.next_to_prefetch(1, AHEAD[1]) {
            fetch(&self.cells, target, carried);
            fetch_next(&self.cells, target, carried);
        }
    }

    /// Applies one prefetch stage to the event that is `behind` events after the current one,
    /// with block-by-block execution.
    #[inline(always)]
    fn fetch_coming(&self, behind: usize, step: impl Fn(&[Cell<C>], Target, &C::Payload)) {
        if let Some((target, carried)) = self.lane.queue.coming(behind) {
            step(&self.cells, target, carried);
        }
    }

    /// Handles events before `end`, at most `limit`; with several blocks, it completes the last window.
    /// Returns the number of events.
    pub(super) fn advance(&mut self, end: u64, limit: u64) -> u64 {
        let done = match self.lane.queue.blocks() {
            1 => self.handle(end, limit),
            _ => self.advance_blocks(end, limit),
        };
        self.events += done;
        done
    }

    /// Handles the events of the timing wheel in their order.
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

    /// Handles the events of the current block in the window.
    fn handle_block(&mut self) -> u64 {
        let mut done = 0;
        while let Some(event) = self.lane.queue.block_queues().pop() {
            let passed = self.lane.queue.block_queues().pass();
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

    /// Handles events in windows of the shortest latency between two blocks; in each window, one block
    /// after the other.
    ///
    /// The state that the events of a large system touch does not fit the caches. In the order of time,
    /// each event would touch lines that have long been evicted. In a window no block can affect another,
    /// so the events of one block may all precede those of the next, and each line is fetched once a
    /// window. The order of events of each component, and so every result, is the same.
    fn advance_blocks(&mut self, end: u64, limit: u64) -> u64 {
        let mut done = 0;
        while done < limit && self.lane.queue.block_queues().open(end) {
            (0..=COMING[0]).for_each(|behind| self.fetch_coming(behind, fetch_cell));
            (0..=COMING[1]).for_each(|behind| self.fetch_coming(behind, fetch));
            (0..=COMING[2]).for_each(|behind| self.fetch_coming(behind, fetch_next));
            let mut last = self.last;
            while let Some(block) = self.lane.queue.block_queues().begin_block() {
                self.lane.begin_block(block);
                done += self.handle_block();
                last = last.max(self.last);
            }
            self.last = last;
        }
        done
    }

    /// Adds handled events, work and time to the monitor.
    pub(super) fn tell(&mut self, monitor: &Monitor, handled: u64) {
        monitor.events.fetch_add(handled, Ordering::Relaxed);
        monitor
            .work
            .fetch_add(std::mem::take(&mut self.lane.work), Ordering::Relaxed);
        monitor.time.fetch_max(self.last, Ordering::Relaxed);
        monitor.show();
    }

    /// Removes all pending events. Components keep the payloads that they have kept or taken in.
    pub(super) fn forget_pending(&mut self) {
        if self.lane.queue.next_time() < u64::MAX {
            self.take_in();
            let blocks = &self.lane.blocks;
            self.lane.queue = WheelQueue::for_blocks(&blocks.counts, blocks.span, self.last);
            self.lane.block = self.lane.blocks.first;
        }
        self.put_back();
    }

    /// Moves kept payloads from the queue into the components
    /// ([`HandOver::take_in`](crate::HandOver::take_in)).
    pub(super) fn take_in(&mut self) {
        for cell in &mut self.cells {
            if let Some(keeper) = cell.component.hand_over() {
                keeper.take_in(&mut |kept| self.lane.take(kept));
            }
        }
    }

    /// Lets components keep payloads in the queue again
    /// ([`HandOver::put_back`](crate::HandOver::put_back)).
    pub(super) fn put_back(&mut self) {
        for cell in &mut self.cells {
            if let Some(keeper) = cell.component.hand_over() {
                keeper.put_back(&mut |payload| self.lane.keep(payload));
            }
        }
    }

    /// Runs as the only partition for about `events` events, or until `pause` returns true. Returns
    /// whether the run was interrupted, or `None` where it can continue.
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

/// Prefetches the payload of an event and the component that it is for.
#[inline(always)]
fn fetch_cell<C: Component>(cells: &[Cell<C>], target: Target, carried: &C::Payload) {
    prefetch(carried);
    prefetch_first::<{ 3 * CACHE_LINE }, _>(&cells[target.component()]);
}

/// First stage of the component: prefetches the state that it will read.
#[inline(always)]
fn fetch<C: Component>(cells: &[Cell<C>], target: Target, carried: &C::Payload) {
    if !target.is_wake() {
        let component = &cells[target.component()].component;
        component
            .hints()
            .prefetch(target.port_or_token as u16, carried);
    }
}

/// Second stage of the component: prefetches the state behind pointers, and the route of the port through
/// which the component will send.
#[inline(always)]
fn fetch_next<C: Component>(cells: &[Cell<C>], target: Target, carried: &C::Payload) {
    if !target.is_wake() {
        let cell = &cells[target.component()];
        let hints = cell.component.hints();
        let port = hints.prefetch_next(target.port_or_token as u16, carried);
        if let Some(route) = port.and_then(|port| cell.routes.get(port as usize)) {
            prefetch(route);
        }
    }
}
