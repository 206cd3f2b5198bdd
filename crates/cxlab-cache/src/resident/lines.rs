//! The resident lines, their slots, and the order in which they would leave.

use cxlab_engine::prefetch;
use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;

use super::Slot;
use super::geometry::Geometry;
use super::line_table::LineTable;
use super::order::EvictionOrder;

/// Number of lines in a 64-bit address space.
const LINES: u64 = 1 << 58;
/// Marks an empty slot.
const EMPTY: u64 = u64::MAX;

/// Sets of up to this many ways are searched linearly; larger ones have a hash table.
const MAX_SCANNED_WAYS: u32 = 32;

/// The resident lines, without the payloads of their owner.
pub(crate) struct ResidentLines {
    geometry: Geometry,
    tags: Vec<u64>,
    table: Option<LineTable>,
    pub(crate) order: EvictionOrder,
    len: u32,
}

save_state!(ResidentLines {
    values: len;
    sized: tags;
    states: table, order;
    built: geometry;
});

impl ResidentLines {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let lines = geometry.lines() as usize;
        ResidentLines {
            geometry,
            tags: vec![EMPTY; lines],
            table: (geometry.ways() > MAX_SCANNED_WAYS).then(|| LineTable::with_capacity(lines)),
            order: EvictionOrder::new(geometry),
            len: 0,
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn find(&self, line: LineAddr) -> Option<Slot> {
        if let Some(table) = &self.table {
            return table.get(line.0).map(Slot);
        }
        let base = self.geometry.set_of(line) * self.geometry.ways();
        let set = &self.tags[base as usize..(base + self.geometry.ways()) as usize];
        let way = set.iter().position(|tag| *tag == line.0)?;
        Some(Slot(base + way as u32))
    }

    /// Prefetches the set of a line, if sets are searched.
    #[inline]
    pub(crate) fn prefetch(&self, line: LineAddr) {
        if self.table.is_some() {
            return;
        }
        let set = self.geometry.set_of(line);
        let base = (set * self.geometry.ways()) as usize;
        let tags = &self.tags[base..base + self.geometry.ways() as usize];
        // Eight tags fill a cache line of the host machine.
        for tag in tags.iter().step_by(8).chain(tags.last()) {
            prefetch(tag);
        }
        self.order.prefetch(set);
    }

    /// The line in a slot.
    #[inline]
    pub(crate) fn line(&self, slot: Slot) -> LineAddr {
        LineAddr(self.tags[slot.index()])
    }

    /// The occupied slots, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let used = |(_, tag): &(usize, &u64)| **tag != EMPTY;
        let slots = self.tags.iter().enumerate().filter(used);
        slots.map(|(slot, _)| Slot(slot as u32))
    }

    /// Puts an absent line into a free slot of its set. The line is pinned until its policy
    /// has ranked it.
    #[inline]
    pub(crate) fn insert(&mut self, line: LineAddr) -> Slot {
        assert!(line.0 < LINES, "the line lies below 2^58");
        let slot = self.order.take(self.geometry.set_of(line));
        let slot = slot.expect("the line's set has a free slot");
        let absent = match &mut self.table {
            Some(table) => table.insert(line.0, slot.0),
            None => self.find(line).is_none(),
        };
        assert!(absent, "the line is absent");
        self.tags[slot.index()] = line.0;
        self.len += 1;
        slot
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> LineAddr {
        self.order.release(slot);
        let line = std::mem::replace(&mut self.tags[slot.index()], EMPTY);
        if let Some(table) = &mut self.table {
            table.remove(line);
        }
        self.len -= 1;
        LineAddr(line)
    }
}
