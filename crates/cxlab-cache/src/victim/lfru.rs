//! Least frequently recently used: the line with the fewest uses leaves; of equals, the least
//! recently used one.
//!
//! Uses are counted from the insertion until the line leaves; the insertion counts as a use.
//! CXL-SSD-Sim names the policy without a definition. This is what its public code does
//! (`LFRUCache`: ordered by count, then by time of last use).

use cxlab_engine::catalog::Entry;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use schemars::JsonSchema;

use super::{NoParams, PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::lines::ResidentLines;
use crate::resident::order::EvictionRank;
use crate::resident::{Geometry, Slot};

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "lfru",
    summary: "the line used least often since it came in; of equals the least recently used",
    schema: <NoParams as JsonSchema>::json_schema,
    build: |params| {
        NoParams::check(params)?;
        Ok(Box::new(Lfru))
    },
};

/// The policy's state. The rank consists of the number of uses and the time of the last use.
#[derive(Clone, Copy)]
pub(super) struct Lfru;

/// The policy's state is stored in the order of the lines.
impl SaveState for Lfru {
    fn save(&self, _: &mut StateWriter) {}

    fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl VictimPolicy for Lfru {
    fn state(&self, _: Geometry, _: StreamRng) -> PolicyState {
        PolicyState::from(*self)
    }
}

impl ReplacementPolicy for Lfru {
    #[inline]
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let stamp = lines.order.tick();
        lines.order.set_rank(slot, EvictionRank { class: 1, stamp });
        lines.order.unpin(slot);
    }

    #[inline]
    fn touched(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let class = lines.order.rank(slot).class.saturating_add(1);
        let stamp = lines.order.tick();
        lines.order.set_rank(slot, EvictionRank { class, stamp });
    }
}
