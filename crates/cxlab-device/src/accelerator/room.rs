//! Who uses the cache next: its port, which takes one access a cycle, and room for misses (CQIDs and
//! ways of a set).
//!
//! Elements have the port in turn. Whatever finds no room waits in one queue: the first has what
//! becomes free, and none that comes later takes it before. A miss that must evict takes two CQIDs; with
//! one it evicts, and waits for its own.

use std::collections::VecDeque;

use cxlab_agent::{Access, Overtaking, Ticket};
use cxlab_engine::Ctx;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::hmc::{Found, Look};

/// What waits for room.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Wants {
    /// An element whose next access has not begun.
    Element(u32),
    /// An access that has begun, and when.
    Access(Access, SimTime),
}

/// The queues.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Queues {
    /// Elements that wait for the port.
    port: VecDeque<(u32, Ticket)>,
    pub(super) port_turns: Overtaking,
    room: VecDeque<Wants>,
    /// What looks now has its turn: the first of `room`, or a flip.
    pub(super) serving: bool,
}

impl Queues {
    /// Whether what looks now may take room: it is its turn, or nobody waits.
    pub(super) fn may_take_room(&self) -> bool {
        self.serving || self.room.is_empty()
    }

    /// Whether an element is the first that waits for room.
    fn is_first(&self, element: u32) -> bool {
        matches!(self.room.front(), Some(Wants::Element(first)) if *first == element)
    }

    fn has(&self, element: u32) -> bool {
        let mut room = self.room.iter();
        room.any(|one| matches!(one, Wants::Element(other) if *other == element))
    }
}

impl Accelerator {
    /// Whether an element has the port of the cache; otherwise it waits for its turn.
    pub(super) fn has_port(&mut self, ctx: &mut Ctx<'_, Parcel>, lane: usize) -> bool {
        let free = self.cache_free <= ctx.now().0;
        let Queues {
            port, port_turns, ..
        } = &mut self.queues;
        match port.front() {
            None if free => return true,
            Some((first, ticket)) if free && *first == lane as u32 => {
                port_turns.serve(*ticket);
                port.pop_front();
                return true;
            }
            _ => {}
        }
        if !port.iter().any(|(other, _)| *other == lane as u32) {
            port.push_back((lane as u32, port_turns.wait(port.len())));
        }
        self.wake_port(ctx);
        false
    }

    /// The first element that waits for the port is woken when that is free.
    pub(super) fn wake_port(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some((first, _)) = self.queues.port.front().copied() {
            let at = self.cache_free.max(ctx.now().0);
            self.wake_lane(ctx, first as usize, SimTime(at));
        }
    }

    /// An element was woken for its turn at the port. If it did not use it, the next one may.
    pub(super) fn pass_port(&mut self, ctx: &mut Ctx<'_, Parcel>, lane: usize) {
        let first = self.queues.port.front().map(|(first, _)| *first);
        if first == Some(lane as u32) && self.cache_free <= ctx.now().0 {
            self.queues.port.pop_front();
            self.wake_port(ctx);
        }
    }

    /// An element's next access looks for its line, in its turn if it waits for room; false when it
    /// finds none.
    pub(super) fn look_for_element(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        lane: u32,
    ) -> bool {
        let first = self.queues.is_first(lane);
        self.queues.serving = first;
        let found = self.look(ctx, access, ctx.now(), Look::Fresh);
        self.queues.serving = false;
        if found == Found::Blocked {
            if !self.queues.has(lane) {
                self.queues.room.push_back(Wants::Element(lane));
            }
            return false;
        }
        self.leave_room(ctx, lane);
        true
    }

    /// An element waits for room no more.
    pub(super) fn leave_room(&mut self, ctx: &mut Ctx<'_, Parcel>, lane: u32) {
        if self.queues.room.is_empty() {
            return;
        }
        let other = |one: &Wants| !matches!(one, Wants::Element(own) if *own == lane);
        self.queues.room.retain(other);
        self.serve_room(ctx);
    }

    /// An access that has begun looks for its line, and waits if there is no room.
    pub(super) fn look_again(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: Access,
        begun: SimTime,
        how: Look,
    ) {
        if self.look(ctx, &access, begun, how) == Found::Blocked {
            self.queues.room.push_back(Wants::Access(access, begun));
        }
    }

    /// Room may have become free: what waits has it, in order.
    pub(super) fn serve_room(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self.queues.serving {
            return;
        }
        while let Some(first) = self.queues.room.front().copied() {
            match first {
                Wants::Access(access, begun) => {
                    self.queues.serving = true;
                    let found = self.look(ctx, &access, begun, Look::Again);
                    self.queues.serving = false;
                    if found == Found::Blocked {
                        return;
                    }
                    self.queues.room.pop_front();
                }
                Wants::Element(lane) => {
                    let now = ctx.now();
                    return self.wake_lane(ctx, lane as usize, now);
                }
            }
        }
    }
}
