//! Clean-first LRU (Park et al., CASES 2006): among the least recently used lines, a clean line
//! leaves before a dirty one, because write-backs are expensive.
//!
//! The lines of a set, pinned ones too, are ordered by last use. The oldest of them, as many as the
//! window, are the clean-first region. Its oldest clean line leaves; if all its lines are dirty,
//! the oldest line of the set does. The owner says which lines are dirty; a new line is clean.

use cxlab_engine::catalog::{Entry, in_range, read_params};
use cxlab_engine::list::{Link, List, NONE};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::two_queue::share;
use super::{PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::lines::ResidentLines;
use crate::resident::order::EvictionRank;
use crate::resident::{Geometry, Slot};

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "cflru",
    summary: "the least recently used clean line of a window of old lines; if none, of all lines",
    schema: <CflruParams as JsonSchema>::json_schema,
    build: |params| {
        let params: CflruParams = read_params(params)?;
        in_range("window_percent", params.window_percent, 1..=100)?;
        Ok(Box::new(params))
    },
};

/// Parameters of clean-first LRU.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct CflruParams {
    /// Size of the clean-first region, in percent of a set's ways, at least one line. 1 to
    /// 100. Default 50 (*assumed*; the best window depends on workload and costs, Park et
    /// al., section 3).
    #[schemars(range(min = 1, max = 100))]
    window_percent: u32,
}

impl Default for CflruParams {
    fn default() -> Self {
        CflruParams { window_percent: 50 }
    }
}

impl VictimPolicy for CflruParams {
    fn state(&self, geometry: Geometry, _: StreamRng) -> PolicyState {
        PolicyState::from(Cflru {
            window: share(geometry.ways(), self.window_percent),
            geometry,
            sets: vec![SetLists::default(); geometry.sets() as usize],
            links: vec![Link::NONE; geometry.lines() as usize],
            flags: vec![LineFlags::default(); geometry.lines() as usize],
        })
    }
}

/// The lines of a set, oldest first, with the youngest line and the size of its clean-first region.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SetLists {
    lines: List,
    last: u32,
    inside: u32,
}

impl Default for SetLists {
    fn default() -> Self {
        SetLists {
            lines: List::EMPTY,
            last: NONE,
            inside: 0,
        }
    }
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct LineFlags {
    dirty: bool,
    inside: bool,
}

/// The policy's state. A clean line of the clean-first region has rank class 0, any other line
/// class 1; within a class the least recently used line is first.
pub(super) struct Cflru {
    window: u32,
    geometry: Geometry,
    sets: Vec<SetLists>,
    links: Vec<Link>,
    flags: Vec<LineFlags>,
}

save_state!(Cflru {
    values: links;
    sized: sets, flags;
    built: window, geometry;
});

impl Cflru {
    fn rank(&self, lines: &mut ResidentLines, slot: Slot) {
        let LineFlags { dirty, inside } = self.flags[slot.index()];
        let class = u32::from(dirty || !inside);
        let rank = lines.order.rank(slot);
        if rank.class != class {
            lines.order.set_rank(slot, EvictionRank { class, ..rank });
        }
    }

    /// Removes a line from the order; the next line moves into the region.
    fn unlink(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let set = self.geometry.set_of(lines.line(slot)) as usize;
        let SetLists {
            lines: mut chain,
            mut last,
            mut inside,
        } = self.sets[set];
        if std::mem::take(&mut self.flags[slot.index()].inside) {
            inside -= 1;
            if last == slot.0 {
                last = self.links[slot.0 as usize].before;
            }
        }
        chain.remove(&mut self.links, slot.0);
        self.sets[set] = SetLists {
            lines: chain,
            last,
            inside,
        };
        self.widen(lines, set);
    }

    /// Appends a line at the young end of the order.
    fn link(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let set = self.geometry.set_of(lines.line(slot)) as usize;
        self.sets[set].lines.push_back(&mut self.links, slot.0);
        let stamp = lines.order.tick();
        lines.order.set_rank(slot, EvictionRank { class: 1, stamp });
        self.widen(lines, set);
    }

    /// Moves the next line into the region, if there is one and the region has room.
    fn widen(&mut self, lines: &mut ResidentLines, set: usize) {
        let SetLists {
            lines: chain,
            last,
            inside,
        } = self.sets[set];
        let next = match last {
            NONE => chain.first,
            last => self.links[last as usize].after,
        };
        if inside < self.window && next != NONE {
            self.sets[set].last = next;
            self.sets[set].inside += 1;
            self.flags[next as usize].inside = true;
            self.rank(lines, Slot(next));
        }
    }
}

impl ReplacementPolicy for Cflru {
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        self.flags[slot.index()] = LineFlags::default();
        self.link(lines, slot);
        lines.order.unpin(slot);
    }

    fn touched(&mut self, lines: &mut ResidentLines, slot: Slot) {
        self.unlink(lines, slot);
        self.link(lines, slot);
    }

    fn leaving(&mut self, lines: &mut ResidentLines, slot: Slot) {
        self.unlink(lines, slot);
    }

    fn dirtied(&mut self, lines: &mut ResidentLines, slot: Slot, dirty: bool) {
        self.flags[slot.index()].dirty = dirty;
        self.rank(lines, slot);
    }
}
