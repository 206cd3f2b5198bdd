//! A partition: the components that run on one thread, and the loop that handles their events.

use std::sync::atomic::Ordering;

use super::Monitor;
use crate::component::{
    Component, ComponentRecord, Ctx, ExecutionHints, NOWHERE, PartitionEvents, Payload, Route,
};
use crate::prefetch::{CACHE_LINE, prefetch, prefetch_first};
use crate::queue::{EventQueue, PoppedEvent, Target, WheelQueue};
use crate::units::SimTime;

/// Number of events that a thread handles between two accesses to the monitor (*assumed*).
pub(super) const MONITOR_INTERVAL: u64 = 4096;

/// Largest number of components without prefetching (*assumed*): they and their events fit the second-level
/// cache, where prefetching costs more than it saves.
const NEAR: usize = 128;

/// Prefetch distances in events with a timing wheel: for the component and the payload of an event, and
/// for both stages of [`ExecutionHints`]. A line from memory takes as long as two or three events.
/// Twice these distances are slower (`docs/notebook/performance.md`).
const WHEEL_DISTANCES: [usize; 2] = [6, 2];

/// Prefetch distances in events with block-by-block execution: for the component and the payload of an
/// event, and for each stage of [`ExecutionHints`] (*assumed*). In large systems most lines come from memory.
const BLOCK_DISTANCES: [usize; 3] = [12, 6, 3];

/// How a slice of a run ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SliceEnd {
    /// The time limit was reached, or no event was left.
    Finished,
    /// [`Monitor::interrupt`] was called, or another thread panicked.
    Interrupted,
    /// The run continues with another slice.
    Paused,
}

/// A component with the engine's data on it. Every event needs these data, so they precede the component,
/// in the cache line that is prefetched.
#[repr(C)]
pub(super) struct ComponentSlot<C: Component> {
    pub(super) record: ComponentRecord,
    pub(super) routes: Box<[Route]>,
    pub(super) component: C,
}

/// A partition: the components that run on one thread, and their events.
///
/// Partitions are neighbours in memory. Each fills whole pairs of cache lines, which processors fetch
/// together, so that no two threads write to one line.
#[repr(align(128))]
pub(super) struct Partition<C: Component> {
    pub(super) slots: Vec<ComponentSlot<C>>,
    pub(super) pending: PartitionEvents<C::Payload>,
    /// Events handled since the last [`Simulation::settle`](super::Simulation::settle).
    pub(super) events: u64,
    /// Time of the last event handled, in picoseconds.
    pub(super) last: u64,
}

impl<C: Component> Partition<C> {
    /// Starts the components, in the order of their indices.
    pub(super) fn start(&mut self) {
        for (local, slot) in self.slots.iter_mut().enumerate() {
            let block = self.pending.blocks.of_local[local] - self.pending.blocks.first;
            self.pending.begin_block(usize::from(block));
            slot.component.start(&mut Ctx {
                now: SimTime(self.last),
                record: &mut slot.record,
                routes: &slot.routes,
                pending: &mut self.pending,
                place: NOWHERE,
            });
        }
    }

    /// Lets the receiver of an event handle it.
    #[inline(always)]
    fn dispatch(&mut self, event: PoppedEvent) {
        let PoppedEvent { key, target, place } = event;
        let slot = &mut self.slots[target.component()];
        let ctx = &mut Ctx {
            now: SimTime(key.time),
            record: &mut slot.record,
            routes: &slot.routes,
            pending: &mut self.pending,
            place,
        };
        if target.is_wake() {
            ctx.pending.queue.release(place);
            ctx.place = NOWHERE;
            ctx.record
                .absorb(key, u64::from(target.port_or_token) | 1 << 63);
            slot.component.wake(ctx, target.port_or_token);
        } else {
            let content = ctx.received().fingerprint() ^ u64::from(target.port_or_token) << 48;
            ctx.record.absorb(key, content);
            slot.component.arrive(ctx, target.port_or_token as u16);
            if ctx.place != NOWHERE {
                ctx.pending.queue.release(ctx.place);
            }
        }
    }

    /// Prefetches for the next events of the timing wheel, since little of what an event touches is in
    /// the nearest caches. Each stage needs the lines of the one before: the event, its component, the
    /// state that the component will read. No stage reads a line that was requested just before.
    #[inline(always)]
    fn prefetch_upcoming(&mut self) {
        let queue = &mut self.pending.queue;
        queue.prefetch_next_slot();
        while let Some((target, carried)) = queue.next_to_prefetch(0, WHEEL_DISTANCES[0]) {
            prefetch_slot(&self.slots, target, carried);
        }
        while let Some((target, carried)) = queue.next_to_prefetch(1, WHEEL_DISTANCES[1]) {
            prefetch_state(&self.slots, target, carried);
            prefetch_linked_state(&self.slots, target, carried);
        }
    }

    /// Applies one prefetch stage to the event that is `behind` events after the current one,
    /// with block-by-block execution.
    #[inline(always)]
    fn prefetch_upcoming_of_blocks(
        &self,
        behind: usize,
        step: impl Fn(&[ComponentSlot<C>], Target, &C::Payload),
    ) {
        if let Some((target, carried)) = self.pending.queue.coming(behind) {
            step(&self.slots, target, carried);
        }
    }

    /// Handles events before `end`, at most `limit`; with several blocks, it completes the last window.
    /// Returns the number of events.
    pub(super) fn advance(&mut self, end: u64, limit: u64) -> u64 {
        let done = match self.pending.queue.blocks() {
            1 => self.handle(end, limit),
            _ => self.advance_blocks(end, limit),
        };
        self.events += done;
        done
    }

    /// Handles the events of the timing wheel in their order.
    fn handle(&mut self, end: u64, limit: u64) -> u64 {
        let fetches = self.slots.len() > NEAR;
        let mut done = 0;
        while done < limit {
            let Some(event) = self.pending.queue.pop_before(end) else {
                break;
            };
            if fetches {
                self.prefetch_upcoming();
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
        while let Some(event) = self.pending.queue.block_queues().pop() {
            let passed = self.pending.queue.block_queues().pass();
            self.last = event.key.time;
            self.dispatch(event);
            done += 1;
            if passed {
                self.prefetch_upcoming_of_blocks(BLOCK_DISTANCES[0], prefetch_slot);
                self.prefetch_upcoming_of_blocks(BLOCK_DISTANCES[1], prefetch_state);
                self.prefetch_upcoming_of_blocks(BLOCK_DISTANCES[2], prefetch_linked_state);
            }
        }
        done
    }

    /// Handles events in windows of the shortest latency between two blocks; in each window, one block after the other.
    ///
    /// The state that the events of a large system touch does not fit the caches. In the order of time,
    /// each event would touch lines that have long been evicted. In a window no block can affect another,
    /// so the events of one block may all precede those of the next, and each line is fetched once a
    /// window. The order of events of each component, and so every result, is the same.
    fn advance_blocks(&mut self, end: u64, limit: u64) -> u64 {
        let mut done = 0;
        while done < limit && self.pending.queue.block_queues().open(end) {
            (0..=BLOCK_DISTANCES[0])
                .for_each(|behind| self.prefetch_upcoming_of_blocks(behind, prefetch_slot));
            (0..=BLOCK_DISTANCES[1])
                .for_each(|behind| self.prefetch_upcoming_of_blocks(behind, prefetch_state));
            (0..=BLOCK_DISTANCES[2])
                .for_each(|behind| self.prefetch_upcoming_of_blocks(behind, prefetch_linked_state));
            let mut last = self.last;
            while let Some(block) = self.pending.queue.block_queues().begin_block() {
                self.pending.begin_block(block);
                done += self.handle_block();
                last = last.max(self.last);
            }
            self.last = last;
        }
        done
    }

    /// Adds handled events, work and time to the monitor.
    pub(super) fn update_monitor(&mut self, monitor: &Monitor, handled: u64) {
        monitor.events.fetch_add(handled, Ordering::Relaxed);
        monitor
            .work
            .fetch_add(std::mem::take(&mut self.pending.work), Ordering::Relaxed);
        monitor.time.fetch_max(self.last, Ordering::Relaxed);
        monitor.show();
    }

    /// Removes all pending events. Components keep the payloads that they have kept or taken in.
    pub(super) fn forget_pending(&mut self) {
        if self.pending.queue.next_time() < u64::MAX {
            self.take_kept();
            let blocks = &self.pending.blocks;
            self.pending.queue = WheelQueue::for_blocks(&blocks.counts, blocks.span, self.last);
            self.pending.block = self.pending.blocks.first;
        }
        self.restore_kept();
    }

    /// Moves kept payloads out of the queue, by [`KeptPayloads::take_kept`](crate::KeptPayloads::take_kept) of components.
    pub(super) fn take_kept(&mut self) {
        for slot in &mut self.slots {
            if let Some(keeper) = slot.component.hand_over() {
                keeper.take_kept(&mut |kept| self.pending.take(kept));
            }
        }
    }

    /// Moves kept payloads back, by [`KeptPayloads::restore_kept`](crate::KeptPayloads::restore_kept) of components.
    pub(super) fn restore_kept(&mut self) {
        for slot in &mut self.slots {
            if let Some(keeper) = slot.component.hand_over() {
                keeper.restore_kept(&mut |payload| self.pending.keep(payload));
            }
        }
    }

    /// Runs as the only partition for about `events` events, or until `pause` returns true. Returns how
    /// the slice ended.
    pub(super) fn run_alone(
        &mut self,
        until: u64,
        events: u64,
        pause: &mut dyn FnMut() -> bool,
        monitor: &Monitor,
    ) -> SliceEnd {
        let mut handled = 0;
        while handled < events {
            let done = self.advance(until, MONITOR_INTERVAL);
            handled += done;
            self.update_monitor(monitor, done);
            if done < MONITOR_INTERVAL {
                return SliceEnd::Finished;
            }
            if monitor.is_interrupted() {
                return SliceEnd::Interrupted;
            }
            if pause() {
                break;
            }
        }
        SliceEnd::Paused
    }
}

/// Prefetches the payload of an event and the component that it is for.
#[inline(always)]
fn prefetch_slot<C: Component>(slots: &[ComponentSlot<C>], target: Target, carried: &C::Payload) {
    prefetch(carried);
    prefetch_first::<{ 3 * CACHE_LINE }, _>(&slots[target.component()]);
}

/// First stage of the component: prefetches the state that it will read.
#[inline(always)]
fn prefetch_state<C: Component>(slots: &[ComponentSlot<C>], target: Target, carried: &C::Payload) {
    if !target.is_wake() {
        let component = &slots[target.component()].component;
        component
            .hints()
            .prefetch(target.port_or_token as u16, carried);
    }
}

/// Second stage of the component: prefetches the state behind pointers, and the route of the port through
/// which the component will send.
#[inline(always)]
fn prefetch_linked_state<C: Component>(
    slots: &[ComponentSlot<C>],
    target: Target,
    carried: &C::Payload,
) {
    if !target.is_wake() {
        let slot = &slots[target.component()];
        let hints = slot.component.hints();
        let port = hints.prefetch_next(target.port_or_token as u16, carried);
        if let Some(route) = port.and_then(|port| slot.routes.get(port as usize)) {
            prefetch(route);
        }
    }
}
