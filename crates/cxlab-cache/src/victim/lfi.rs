//! Least frequently inserted: the line with the fewest insertions in the whole run leaves.
//!
//! The history covers all lines that were ever inserted, resident or not. By default it is exact
//! and grows with the footprint: 21 to 43 bytes a line, doubled when three quarters full. With
//! `counters` it consists of that many counters of 4 bytes. Lines with equal hashes share a
//! counter, so counts may be too high, but never too low.

use cxlab_engine::catalog::{Entry, in_range, read_params};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::line_table::{LineTable, hash};
use crate::resident::lines::ResidentLines;
use crate::resident::order::EvictionRank;
use crate::resident::{Geometry, Slot};

/// Most counters in a bounded history: 1 GiB.
const MAX_COUNTERS: u32 = 1 << 28;

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "lfi",
    summary: "the line that was inserted least often in all the run; of equals the last",
    schema: <LfiParams as JsonSchema>::json_schema,
    build: |params| {
        let params: LfiParams = read_params(params)?;
        if let Some(counters) = params.counters {
            in_range("counters", counters, 1..=MAX_COUNTERS)?;
        }
        Ok(Box::new(params))
    },
};

/// Parameters of the least frequently inserted policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct LfiParams {
    /// Counters of the insertion history, shared by lines with equal hashes. 1 to 268435456.
    /// Default: one for each line that was ever inserted.
    #[schemars(range(min = 1, max = 268_435_456))]
    counters: Option<u32>,
}

impl VictimPolicy for LfiParams {
    fn state(&self, _: Geometry, _: StreamRng) -> PolicyState {
        let history = match self.counters {
            Some(counters) => InsertionHistory::Shared(vec![0; counters as usize]),
            None => InsertionHistory::Exact(LineTable::with_capacity(0)),
        };
        PolicyState::from(Lfi { history })
    }
}

enum InsertionHistory {
    Exact(LineTable),
    Shared(Vec<u32>),
}

impl SaveState for InsertionHistory {
    fn save(&self, out: &mut StateWriter) {
        match self {
            InsertionHistory::Exact(table) => table.save(out),
            InsertionHistory::Shared(counters) => out.value("counters", counters),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            InsertionHistory::Exact(table) => table.restore(from)?,
            InsertionHistory::Shared(counters) => {
                let count = counters.len();
                *counters = from.value("counters")?;
                if counters.len() != count {
                    return Err(StateError::of_length("counters", counters.len(), count));
                }
            }
        }
        Ok(())
    }
}

/// The policy's state. The rank is the number of insertions, which is constant while the
/// line is resident.
pub(super) struct Lfi {
    history: InsertionHistory,
}

save_state!(Lfi {
    states: history;
});

impl ReplacementPolicy for Lfi {
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let line = lines.line(slot).0;
        let count = match &mut self.history {
            InsertionHistory::Exact(table) => table.entry(line),
            InsertionHistory::Shared(counters) => {
                let counter = (u128::from(hash(line)) * counters.len() as u128) >> 64;
                &mut counters[counter as usize]
            }
        };
        *count = count.saturating_add(1);
        let rank = EvictionRank {
            class: *count,
            stamp: u64::MAX - lines.order.tick(),
        };
        lines.order.set_rank(slot, rank);
        lines.order.unpin(slot);
    }

    #[inline]
    fn touched(&mut self, _: &mut ResidentLines, _: Slot) {}
}
