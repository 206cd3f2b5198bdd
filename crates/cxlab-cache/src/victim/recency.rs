//! FIFO, LRU, LIFO and MRU: the first or last line, by insertion or use.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use schemars::JsonSchema;

use super::{NoParams, PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::lines::ResidentLines;
use crate::resident::order::EvictionRank;
use crate::resident::{Geometry, Slot};

pub(super) const FIFO: Entry<Box<dyn VictimPolicy>> =
    entry("fifo", "the line that was inserted first", |params| {
        build(params, false, false)
    });
pub(super) const LRU: Entry<Box<dyn VictimPolicy>> =
    entry("lru", "the least recently used line", |params| {
        build(params, false, true)
    });
pub(super) const LIFO: Entry<Box<dyn VictimPolicy>> =
    entry("lifo", "the line that was inserted last", |params| {
        build(params, true, false)
    });
pub(super) const MRU: Entry<Box<dyn VictimPolicy>> =
    entry("mru", "the most recently used line", |params| {
        build(params, true, true)
    });

type BuildPolicy = fn(&serde_json::Value) -> Result<Box<dyn VictimPolicy>, ParamError>;

const fn entry(
    name: &'static str,
    summary: &'static str,
    build: BuildPolicy,
) -> Entry<Box<dyn VictimPolicy>> {
    Entry {
        name,
        summary,
        schema: <NoParams as JsonSchema>::json_schema,
        build,
    }
}

fn build(
    params: &serde_json::Value,
    newest: bool,
    hits: bool,
) -> Result<Box<dyn VictimPolicy>, ParamError> {
    NoParams::check(params)?;
    Ok(Box::new(Recency { newest, hits }))
}

/// State of all four policies. A line's rank is the time of its insertion or, if hits count, of
/// its last use.
#[derive(Clone, Copy)]
pub(super) struct Recency {
    newest: bool,
    hits: bool,
}

save_state!(Recency {
    built: newest, hits;
});

impl VictimPolicy for Recency {
    fn state(&self, _: Geometry, _: StreamRng) -> PolicyState {
        PolicyState::from(*self)
    }
}

impl Recency {
    #[inline]
    fn stamp(self, lines: &mut ResidentLines, slot: Slot) {
        let now = lines.order.tick();
        let stamp = if self.newest { u64::MAX - now } else { now };
        lines.order.set_rank(slot, EvictionRank { class: 0, stamp });
    }
}

impl ReplacementPolicy for Recency {
    #[inline]
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        self.stamp(lines, slot);
        lines.order.unpin(slot);
    }

    #[inline]
    fn touched(&mut self, lines: &mut ResidentLines, slot: Slot) {
        if self.hits {
            self.stamp(lines, slot);
        }
    }
}
