//! 2Q, full version (Johnson and Shasha, VLDB 1994): a line must be used again to enter
//! the main queue.
//!
//! A new line enters `A1in`, a first-in first-out queue, in which hits change nothing. When the
//! line leaves `A1in`, its address is remembered in `A1out`. A line that is inserted again while
//! its address is remembered enters `Am`, an LRU queue. The victim is the first line of `A1in` if
//! that holds more than its share, and else the least recently used line of `Am`. If that queue has
//! no unpinned line, the victim comes from the other. A line of `A1in` that its owner removes is
//! remembered as well. Each set has its own queues.
//!
//! Victims are found by a walk from the head of a queue past pinned lines.

use cxlab_engine::catalog::{Entry, in_range, read_params};
use cxlab_engine::list::{Link, List, NONE};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::line_table::LineTable;
use crate::resident::lines::ResidentLines;
use crate::resident::{Geometry, Slot};

/// Most remembered addresses, in percent of the lines of the array (*assumed*).
const MAX_OUT_PERCENT: u32 = 400;

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "2q",
    summary: "2Q: lines used again after they left a first-in first-out queue are kept by recency",
    schema: <TwoQueueParams as JsonSchema>::json_schema,
    build: |params| {
        let params: TwoQueueParams = read_params(params)?;
        in_range("in_percent", params.in_percent, 1..=100)?;
        in_range("out_percent", params.out_percent, 1..=MAX_OUT_PERCENT)?;
        Ok(Box::new(params))
    },
};

/// Parameters of 2Q.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct TwoQueueParams {
    /// Share of a set's ways that `A1in` may hold before the victim comes from it (`Kin`), in
    /// percent, at least one line. 1 to 100. Default 25 (Johnson and Shasha, section 3.2).
    #[schemars(range(min = 1, max = 100))]
    in_percent: u32,
    /// Addresses remembered in `A1out` (`Kout`), in percent of a set's ways, at least one. 1 to
    /// 400. Default 50 (Johnson and Shasha, section 3.2).
    #[schemars(range(min = 1, max = 400))]
    out_percent: u32,
}

impl Default for TwoQueueParams {
    fn default() -> Self {
        TwoQueueParams {
            in_percent: 25,
            out_percent: 50,
        }
    }
}

/// A share of a set's ways in percent, at least one way.
pub(super) fn share(ways: u32, percent: u32) -> u32 {
    ((u64::from(ways) * u64::from(percent) / 100) as u32).max(1)
}

impl VictimPolicy for TwoQueueParams {
    fn state(&self, geometry: Geometry, _: StreamRng) -> PolicyState {
        let remembered = share(geometry.ways(), self.out_percent);
        let ghosts = geometry.sets() * remembered;
        let mut state = TwoQueue {
            most_in: share(geometry.ways(), self.in_percent),
            geometry,
            sets: vec![SetQueues::default(); geometry.sets() as usize],
            main: vec![false; geometry.lines() as usize],
            slots: vec![Link::NONE; geometry.lines() as usize],
            ghosts: vec![Link::NONE; ghosts as usize],
            ghost_lines: vec![0; ghosts as usize],
            table: LineTable::with_capacity(ghosts as usize),
        };
        for ghost in 0..ghosts {
            let set = &mut state.sets[(ghost / remembered) as usize];
            set.unused.push_back(&mut state.ghosts, ghost);
        }
        PolicyState::from(state)
    }
}

/// The queues of one set: two of slots, then the remembered addresses and their unused entries.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SetQueues {
    a1_in: List,
    main: List,
    a1_out: List,
    unused: List,
}

impl Default for SetQueues {
    fn default() -> Self {
        SetQueues {
            a1_in: List::EMPTY,
            main: List::EMPTY,
            a1_out: List::EMPTY,
            unused: List::EMPTY,
        }
    }
}

/// The policy's state: its queues. Ranks are not used.
pub(super) struct TwoQueue {
    most_in: u32,
    geometry: Geometry,
    sets: Vec<SetQueues>,
    /// By slot: whether the line is in `Am` rather than in `A1in`.
    main: Vec<bool>,
    slots: Vec<Link>,
    ghosts: Vec<Link>,
    ghost_lines: Vec<u64>,
    /// The entry of each remembered address.
    table: LineTable,
}

save_state!(TwoQueue {
    values: slots, ghosts;
    sized: sets, main, ghost_lines;
    states: table;
    built: most_in, geometry;
});

impl TwoQueue {
    /// Remembers a line that left `A1in`, and forgets the oldest one if `A1out` is full.
    fn remember(&mut self, set: u32, line: LineAddr) {
        let set = &mut self.sets[set as usize];
        let mut ghost = set.unused.first;
        if ghost == NONE {
            ghost = set.a1_out.first;
            set.a1_out.remove(&mut self.ghosts, ghost);
            self.table.remove(self.ghost_lines[ghost as usize]);
        } else {
            set.unused.remove(&mut self.ghosts, ghost);
        }
        self.ghost_lines[ghost as usize] = line.0;
        self.table.insert(line.0, ghost);
        set.a1_out.push_back(&mut self.ghosts, ghost);
    }

    /// Forgets a line, and returns whether it was remembered.
    fn recall(&mut self, set: u32, line: LineAddr) -> bool {
        let Some(ghost) = self.table.get(line.0) else {
            return false;
        };
        self.table.remove(line.0);
        let set = &mut self.sets[set as usize];
        set.a1_out.remove(&mut self.ghosts, ghost);
        set.unused.push_back(&mut self.ghosts, ghost);
        true
    }

    /// The first unpinned line of a queue.
    fn first(&self, lines: &ResidentLines, queue: List) -> Option<Slot> {
        let mut at = queue.first;
        while at != NONE {
            if !lines.order.is_pinned(Slot(at)) {
                return Some(Slot(at));
            }
            at = self.slots[at as usize].after;
        }
        None
    }
}

impl ReplacementPolicy for TwoQueue {
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let line = lines.line(slot);
        let set = self.geometry.set_of(line);
        let main = self.recall(set, line);
        self.main[slot.index()] = main;
        let set = &mut self.sets[set as usize];
        let queue = if main { &mut set.main } else { &mut set.a1_in };
        queue.push_back(&mut self.slots, slot.0);
        lines.order.unpin(slot);
    }

    #[inline]
    fn touched(&mut self, lines: &mut ResidentLines, slot: Slot) {
        if self.main[slot.index()] {
            let set = self.geometry.set_of(lines.line(slot));
            let queue = &mut self.sets[set as usize].main;
            queue.remove(&mut self.slots, slot.0);
            queue.push_back(&mut self.slots, slot.0);
        }
    }

    fn leaving(&mut self, lines: &mut ResidentLines, slot: Slot) {
        let line = lines.line(slot);
        let number = self.geometry.set_of(line);
        let set = &mut self.sets[number as usize];
        if self.main[slot.index()] {
            set.main.remove(&mut self.slots, slot.0);
        } else {
            set.a1_in.remove(&mut self.slots, slot.0);
            self.remember(number, line);
        }
    }

    fn victim(&mut self, lines: &mut ResidentLines, set: u32) -> Option<Slot> {
        if lines.order.candidates(set) == 0 {
            return None;
        }
        let SetQueues { a1_in, main, .. } = self.sets[set as usize];
        let (prefer, other) = if a1_in.len > self.most_in {
            (a1_in, main)
        } else {
            (main, a1_in)
        };
        self.first(lines, prefer)
            .or_else(|| self.first(lines, other))
    }
}
