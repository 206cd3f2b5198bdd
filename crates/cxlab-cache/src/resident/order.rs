//! The order in which the lines of each set would leave.
//!
//! The slots of a set are one array in three parts: candidates, pinned lines, free slots. A line
//! changes its part by a swap. So nothing is allocated, pinned lines do not slow the choice, and
//! a pinned line keeps its rank. The candidates of a large set form a heap with four children a
//! node and the least rank first. Those of a small set are unordered, so that a hit is one store,
//! and are searched.

use cxlab_engine::prefetch;
use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

use super::Slot;
use super::geometry::Geometry;

/// The rank of a line: the least leaves first, by class and then by stamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct EvictionRank {
    pub(crate) class: u32,
    pub(crate) stamp: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct OrderEntry {
    stamp: u64,
    class: u32,
    slot: u32,
}

impl OrderEntry {
    #[inline]
    fn rank(self) -> EvictionRank {
        EvictionRank {
            class: self.class,
            stamp: self.stamp,
        }
    }

    /// The rank as a single number.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.class) << 64 | u128::from(self.stamp)
    }
}

/// The parts of a set's array.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct SetBounds {
    /// End of the candidates and start of the pinned lines.
    candidates: u32,
    /// End of the pinned lines and start of the free slots.
    resident: u32,
}

/// Number of children of a heap node.
const FAN: usize = 4;

/// Sets of up to this many ways are searched linearly; larger ones are heaps.
const MAX_SEARCHED_WAYS: u32 = 32;

/// The order of all sets.
pub(crate) struct EvictionOrder {
    entries: Vec<OrderEntry>,
    /// The index of each slot in its set's array.
    places: Vec<u32>,
    parts: Vec<SetBounds>,
    geometry: Geometry,
    ways: u32,
    heaped: bool,
    clock: u64,
}

save_state!(EvictionOrder {
    values: clock;
    sized: entries, places, parts;
    built: geometry, ways, heaped;
});

impl EvictionOrder {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let entry = |slot| OrderEntry {
            stamp: 0,
            class: 0,
            slot,
        };
        EvictionOrder {
            entries: (0..geometry.lines()).map(entry).collect(),
            places: (0..geometry.lines())
                .map(|slot| slot % geometry.ways())
                .collect(),
            parts: vec![SetBounds::default(); geometry.sets() as usize],
            geometry,
            ways: geometry.ways(),
            heaped: geometry.ways() > MAX_SEARCHED_WAYS,
            clock: 0,
        }
    }

    /// Prefetches the order of a set.
    #[inline]
    pub(crate) fn prefetch(&self, set: u32) {
        prefetch(&self.parts[set as usize]);
        let base = (set * self.ways) as usize;
        let range = base..base + self.ways as usize;
        let (entries, places) = (&self.entries[range.clone()], &self.places[range]);
        // Four entries, or sixteen places, fill a cache line of the host machine.
        for entry in entries.iter().step_by(4).chain(entries.last()) {
            prefetch(entry);
        }
        for place in places.iter().step_by(16).chain(places.last()) {
            prefetch(place);
        }
    }

    /// A stamp greater than all before.
    #[inline]
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes a free slot of a set, as pinned; the caller must set the rank.
    #[inline]
    pub(crate) fn take(&mut self, set: u32) -> Option<Slot> {
        let parts = &mut self.parts[set as usize];
        if parts.resident == self.ways {
            return None;
        }
        let entry = self.entries[(set * self.ways + parts.resident) as usize];
        parts.resident += 1;
        Some(Slot(entry.slot))
    }

    /// Frees a slot.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.pin(slot);
        let set = self.geometry.set_of_slot(slot);
        let parts = &mut self.parts[set as usize];
        parts.resident -= 1;
        let last = parts.resident;
        self.trade(set, self.places[slot.index()], last);
    }

    /// Removes a line from the candidates. No effect if the line is pinned.
    #[inline]
    pub(crate) fn pin(&mut self, slot: Slot) {
        let (set, place) = self.locate(slot);
        let parts = &mut self.parts[set as usize];
        if place < parts.candidates {
            parts.candidates -= 1;
            let last = parts.candidates;
            self.trade(set, place, last);
            if self.heaped && place < last {
                self.settle(set, place);
            }
        }
    }

    /// Returns a line to the candidates. No effect if the line is not pinned.
    #[inline]
    pub(crate) fn unpin(&mut self, slot: Slot) {
        let (set, place) = self.locate(slot);
        let parts = &mut self.parts[set as usize];
        if place >= parts.candidates {
            let last = parts.candidates;
            parts.candidates += 1;
            self.trade(set, place, last);
            if self.heaped {
                self.rise(set, last);
            }
        }
    }

    /// Whether a line is not a candidate.
    #[inline]
    pub(crate) fn is_pinned(&self, slot: Slot) -> bool {
        let (set, place) = self.locate(slot);
        place >= self.parts[set as usize].candidates
    }

    #[inline]
    pub(crate) fn rank(&self, slot: Slot) -> EvictionRank {
        let (set, place) = self.locate(slot);
        self.entries[(set * self.ways + place) as usize].rank()
    }

    #[inline]
    pub(crate) fn set_rank(&mut self, slot: Slot, rank: EvictionRank) {
        let (set, place) = self.locate(slot);
        let entry = &mut self.entries[(set * self.ways + place) as usize];
        (entry.class, entry.stamp) = (rank.class, rank.stamp);
        if self.heaped && place < self.parts[set as usize].candidates {
            self.settle(set, place);
        }
    }

    /// The candidate with the least rank.
    #[inline]
    pub(crate) fn least(&self, set: u32) -> Option<Slot> {
        let base = (set * self.ways) as usize;
        let candidates = self.parts[set as usize].candidates as usize;
        let candidates = &self.entries[base..base + candidates];
        let first = *candidates.first()?;
        if self.heaped {
            return Some(Slot(first.slot));
        }
        let lesser = |least: (u128, u32), next: &OrderEntry| {
            let key = next.key();
            if key < least.0 {
                (key, next.slot)
            } else {
                least
            }
        };
        let (_, least) = candidates.iter().fold((u128::MAX, first.slot), lesser);
        Some(Slot(least))
    }

    /// Number of candidates in a set.
    #[inline]
    pub(crate) fn candidates(&self, set: u32) -> u32 {
        self.parts[set as usize].candidates
    }

    /// A candidate of a set by index, in no particular order.
    #[inline]
    pub(crate) fn candidate(&self, set: u32, number: u32) -> Slot {
        Slot(self.entries[(set * self.ways + number) as usize].slot)
    }

    /// Whether at least one slot of a set is free.
    #[inline]
    pub(crate) fn has_free(&self, set: u32) -> bool {
        self.parts[set as usize].resident < self.ways
    }

    #[inline]
    fn locate(&self, slot: Slot) -> (u32, u32) {
        let set = self.geometry.set_of_slot(slot);
        let place = self.places[slot.index()];
        let resident = self.parts[set as usize].resident;
        assert!(place < resident, "the slot holds no line");
        (set, place)
    }

    #[inline]
    fn trade(&mut self, set: u32, a: u32, b: u32) {
        let base = set * self.ways;
        self.entries.swap((base + a) as usize, (base + b) as usize);
        for place in [a, b] {
            let slot = self.entries[(base + place) as usize].slot;
            self.places[slot as usize] = place;
        }
    }

    /// Moves a candidate whose rank changed to its place in the heap.
    #[inline]
    fn settle(&mut self, set: u32, place: u32) {
        if !self.rise(set, place) {
            self.sink(set, place);
        }
    }

    /// Moves a candidate towards the root; returns `false` if it stays.
    fn rise(&mut self, set: u32, place: u32) -> bool {
        let base = (set * self.ways) as usize;
        let heap = &mut self.entries[base..base + self.ways as usize];
        let mut at = place as usize;
        let moving = heap[at];
        while at > 0 {
            let parent = (at - 1) / FAN;
            if heap[parent].key() <= moving.key() {
                break;
            }
            heap[at] = heap[parent];
            self.places[heap[at].slot as usize] = at as u32;
            at = parent;
        }
        if at == place as usize {
            return false;
        }
        heap[at] = moving;
        self.places[moving.slot as usize] = at as u32;
        true
    }

    fn sink(&mut self, set: u32, place: u32) {
        let base = (set * self.ways) as usize;
        let heap = &mut self.entries[base..base + self.parts[set as usize].candidates as usize];
        let mut at = place as usize;
        let moving = heap[at];
        loop {
            let children = heap.iter().enumerate().skip(at * FAN + 1).take(FAN);
            let keys = children.map(|(child, entry)| (child, entry.key()));
            let least = keys.reduce(|least, one| if one.1 < least.1 { one } else { least });
            let Some((least, _)) = least.filter(|(_, key)| *key < moving.key()) else {
                break;
            };
            heap[at] = heap[least];
            self.places[heap[at].slot as usize] = at as u32;
            at = least;
        }
        heap[at] = moving;
        self.places[moving.slot as usize] = at as u32;
    }
}
