//! Components that run on one thread.

use std::sync::atomic::Ordering;

use super::Monitor;
use crate::component::{Account, Component, Ctx, Lane, Payload, Route};
use crate::prefetch::prefetch;
use crate::queue::{EventQueue, Popped, WheelQueue};
use crate::units::SimTime;

/// How many events a thread handles between two looks at the monitor.
pub(super) const LOOK_EVERY: u64 = 4096;

/// So many components with their events lie in the second-level cache, where fetching ahead costs
/// more than it saves.
const NEAR: usize = 64;

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
    pub(super) fn advance(&mut self, end: u64, limit: u64) -> u64 {
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

    pub(super) fn tell(&mut self, monitor: &Monitor, handled: u64) {
        monitor.events.fetch_add(handled, Ordering::Relaxed);
        monitor
            .work
            .fetch_add(std::mem::take(&mut self.lane.work), Ordering::Relaxed);
        monitor.time.fetch_max(self.last, Ordering::Relaxed);
    }

    /// Without the events that were pending.
    pub(super) fn forget_pending(&mut self) {
        if self.lane.queue.next_time() < u64::MAX {
            self.lane.queue = WheelQueue::for_components(self.cells.len()).at(self.last);
        }
    }

    /// Runs as the only part; returns whether it was interrupted.
    pub(super) fn run_alone(&mut self, until: u64, monitor: &Monitor) -> bool {
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
