//! Random eviction: every unpinned line is equally likely to leave.

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use schemars::JsonSchema;

use super::{NoParams, PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::lines::ResidentLines;
use crate::resident::{Geometry, Slot};

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "random",
    summary: "any line that may leave, each as likely, from the array's own random stream",
    schema: <NoParams as JsonSchema>::json_schema,
    build: |params| {
        NoParams::check(params)?;
        Ok(Box::new(RandomPolicy))
    },
};

struct RandomPolicy;

impl VictimPolicy for RandomPolicy {
    fn state(&self, _: Geometry, rng: StreamRng) -> PolicyState {
        PolicyState::from(Random { rng })
    }
}

/// The policy's state. All ranks are equal, and each choice draws one random number.
pub(super) struct Random {
    rng: StreamRng,
}

save_state!(Random {
    states: rng;
});

impl ReplacementPolicy for Random {
    #[inline]
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        lines.order.unpin(slot);
    }

    #[inline]
    fn touched(&mut self, _: &mut ResidentLines, _: Slot) {}

    #[inline]
    fn victim(&mut self, lines: &mut ResidentLines, set: u32) -> Option<Slot> {
        let candidates = lines.order.candidates(set);
        if candidates == 0 {
            return None;
        }
        let number = self.rng.below(u64::from(candidates)) as u32;
        Some(lines.order.candidate(set, number))
    }
}
