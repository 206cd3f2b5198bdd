//! CLOCK (Corbató 1968): lines leave in order of insertion, but a line that was used since the hand
//! last passed stays for another round.
//!
//! A queue represents the hand and its circle. The line at the head leaves; if it was used, it
//! loses its mark and moves to the tail. Insertion counts as a use, as a page fault does: a line
//! stays for at least one round while others are unmarked. The hand skips pinned lines.

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use schemars::JsonSchema;

use super::{NoParams, PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::lines::ResidentLines;
use crate::resident::order::EvictionRank;
use crate::resident::{Geometry, Slot};

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "clock",
    summary: "the line inserted first that was not used since the hand last passed it",
    schema: <NoParams as JsonSchema>::json_schema,
    build: |params| {
        NoParams::check(params)?;
        Ok(Box::new(ClockPolicy))
    },
};

struct ClockPolicy;

impl VictimPolicy for ClockPolicy {
    fn state(&self, geometry: Geometry, _: StreamRng) -> PolicyState {
        PolicyState::from(Clock {
            used: vec![false; geometry.lines() as usize],
        })
    }
}

/// The policy's state. The rank is the position in the queue.
pub(super) struct Clock {
    used: Vec<bool>,
}

save_state!(Clock {
    sized: used;
});

impl Clock {
    #[inline]
    fn to_tail(lines: &mut ResidentLines, slot: Slot) {
        let stamp = lines.order.tick();
        lines.order.set_rank(slot, EvictionRank { class: 0, stamp });
    }
}

impl ReplacementPolicy for Clock {
    #[inline]
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        self.used[slot.index()] = true;
        Clock::to_tail(lines, slot);
        lines.order.unpin(slot);
    }

    #[inline]
    fn touched(&mut self, _: &mut ResidentLines, slot: Slot) {
        self.used[slot.index()] = true;
    }

    fn victim(&mut self, lines: &mut ResidentLines, set: u32) -> Option<Slot> {
        loop {
            let slot = lines.order.least(set)?;
            if !std::mem::take(&mut self.used[slot.index()]) {
                return Some(slot);
            }
            Clock::to_tail(lines, slot);
        }
    }
}
