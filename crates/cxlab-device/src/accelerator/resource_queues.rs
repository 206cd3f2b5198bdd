//! Arbitration for the cache: its port, which accepts one access a cycle, and the resources of a
//! miss (CQIDs and ways of a set).
//!
//! Processing elements get the port in order of arrival. Accesses that lack a CQID or a way wait in one queue. The
//! first access of the queue gets the resource that becomes free, and no later access gets the resource earlier. A miss
//! that must evict takes two CQIDs. With a single free CQID the miss evicts, and waits for the second CQID.

use std::collections::VecDeque;

use cxlab_agent::{Access, OvertakingCounter, WaitTicket};
use cxlab_engine::Ctx;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::hmc::{LookupAttempt, LookupOutcome};

/// A request that waits for a CQID or a way.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum ResourceWaiter {
    /// A processing element whose next access has not begun.
    Element(u32),
    /// An access that has begun, and when.
    Access(Access, SimTime),
}

/// The queues for the port and for the resources of a miss.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ResourceQueues {
    /// Processing elements that wait for the port.
    port: VecDeque<(u32, WaitTicket)>,
    pub(super) port_turns: OvertakingCounter,
    resources: VecDeque<ResourceWaiter>,
    /// Whether the current lookup is for the first of `resources`, or for a flip whose turn it is.
    pub(super) serving: bool,
}

impl ResourceQueues {
    /// Whether the current lookup may allocate: it has its turn, or no request waits.
    pub(super) fn may_allocate(&self) -> bool {
        self.serving || self.resources.is_empty()
    }

    /// Whether a processing element is the first in the queue for resources.
    fn is_first(&self, element: u32) -> bool {
        matches!(self.resources.front(), Some(ResourceWaiter::Element(first)) if *first == element)
    }

    fn has(&self, element: u32) -> bool {
        let mut waiters = self.resources.iter();
        waiters.any(|waiter| matches!(waiter, ResourceWaiter::Element(other) if *other == element))
    }
}

impl Accelerator {
    /// Whether a processing element gets the cache's port now; otherwise it is queued for the port.
    pub(super) fn has_port(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) -> bool {
        let free = self.cache_free <= ctx.now().0;
        let ResourceQueues {
            port, port_turns, ..
        } = &mut self.queues;
        match port.front() {
            None if free => return true,
            Some((first, ticket)) if free && *first == hw_thread as u32 => {
                port_turns.serve(*ticket);
                port.pop_front();
                return true;
            }
            _ => {}
        }
        if !port.iter().any(|(other, _)| *other == hw_thread as u32) {
            port.push_back((hw_thread as u32, port_turns.wait(port.len())));
        }
        self.wake_port(ctx);
        false
    }

    /// Wakes the first processing element in the port's queue when the port is free.
    pub(super) fn wake_port(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some((first, _)) = self.queues.port.front().copied() {
            let at = self.cache_free.max(ctx.now().0);
            self.wake_hw_thread(ctx, first as usize, SimTime(at));
        }
    }

    /// Passes the port on if the processing element that was woken for it did not use it.
    pub(super) fn pass_port(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) {
        let first = self.queues.port.front().map(|(first, _)| *first);
        if first == Some(hw_thread as u32) && self.cache_free <= ctx.now().0 {
            self.queues.port.pop_front();
            self.wake_port(ctx);
        }
    }

    /// Looks up the line of a processing element's next access; false if the access must wait for a CQID or a way.
    pub(super) fn look_for_element(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        hw_thread: u32,
    ) -> bool {
        let first = self.queues.is_first(hw_thread);
        self.queues.serving = first;
        let found = self.look(ctx, access, ctx.now(), LookupAttempt::Fresh);
        self.queues.serving = false;
        if found == LookupOutcome::Blocked {
            if !self.queues.has(hw_thread) {
                self.queues
                    .resources
                    .push_back(ResourceWaiter::Element(hw_thread));
            }
            return false;
        }
        self.leave_queue(ctx, hw_thread);
        true
    }

    pub(super) fn leave_queue(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: u32) {
        if self.queues.resources.is_empty() {
            return;
        }
        let is_other = |waiter: &ResourceWaiter| !matches!(waiter, ResourceWaiter::Element(element) if *element == hw_thread);
        self.queues.resources.retain(is_other);
        self.serve_waiters(ctx);
    }

    /// Looks up the line of an access that has begun, and queues the access if no CQID or way is free.
    pub(super) fn look_again(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: Access,
        begun: SimTime,
        how: LookupAttempt,
    ) {
        if self.look(ctx, &access, begun, how) == LookupOutcome::Blocked {
            self.queues
                .resources
                .push_back(ResourceWaiter::Access(access, begun));
        }
    }

    /// Serves the queue in order, after resources may have become free.
    pub(super) fn serve_waiters(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self.queues.serving {
            return;
        }
        while let Some(first) = self.queues.resources.front().copied() {
            match first {
                ResourceWaiter::Access(access, begun) => {
                    self.queues.serving = true;
                    let found = self.look(ctx, &access, begun, LookupAttempt::Again);
                    self.queues.serving = false;
                    if found == LookupOutcome::Blocked {
                        return;
                    }
                    self.queues.resources.pop_front();
                }
                ResourceWaiter::Element(hw_thread) => {
                    let now = ctx.now();
                    return self.wake_hw_thread(ctx, hw_thread as usize, now);
                }
            }
        }
    }
}
