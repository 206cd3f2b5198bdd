//! The last-level cache and the directory of the home agent.
//!
//! Inclusive: one array. Each directory entry has a slot for its data beside it, and the eviction of an
//! entry invalidates the line in every private cache.
//!
//! Non-inclusive: two arrays. The directory has an entry for each line that a private cache or a device
//! holds, or that has a transaction in progress. The cache has lines that private caches have evicted, and
//! keeps the directory's state of those without an entry. A line that a core takes exclusively leaves the
//! cache; a line that cores share stays. An eviction from the cache therefore invalidates no copies in
//! cores, but the eviction of a directory entry does.

use std::ops::{Index, IndexMut};

use cxlab_cache::{GeometryError, SetRoom, Slot, TagArray};
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr};
use cxlab_protocol::coherence::cache_home::{CORES, Filter, Peer, Peers};
use serde::{Deserialize, Serialize};

use super::caches::lru;
use super::params::{Inclusion, ProcessorParams};
use super::tokens::NONE;

/// A directory entry: a line in the last-level cache, or a line that other caches hold.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct DirectoryEntry {
    /// The transaction that has the line, or `NONE`.
    pub(super) txn: u32,
    /// Possible holders of the line. The cores are holders while `data` is true. The filter may still name
    /// the cores after they have evicted the line silently.
    pub(super) filter: Filter,
    /// Whether the last-level cache has the line's data.
    pub(super) data: bool,
    /// Whether the data are newer than memory. During a transaction also whether modified data of cores or
    /// devices have been collected.
    pub(super) dirty: bool,
    /// Cores that hold the line, one bit each.
    pub(super) cores: u64,
}

impl Default for DirectoryEntry {
    fn default() -> Self {
        DirectoryEntry {
            txn: NONE,
            filter: Filter::Invalid,
            data: false,
            dirty: false,
            cores: 0,
        }
    }
}

/// State of a line in a non-inclusive cache that has no directory entry.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct VictimLine {
    /// Whether the line is newer than memory.
    dirty: bool,
    /// Whether the directory gave the line to the cores exclusively, and not as sharers.
    alone: bool,
}

/// A line that has been evicted from the last-level cache.
pub(super) struct EvictedLine {
    pub(super) line: LineAddr,
    /// Whether the line is newer than memory.
    pub(super) dirty: bool,
    /// Whether another cache may still hold the line.
    pub(super) keeps: bool,
}

/// The arrays of directory and cache.
pub(super) struct Llc {
    directory: TagArray<DirectoryEntry>,
    /// Lines of a non-inclusive cache. An inclusive cache has its lines in the directory.
    victims: Option<TagArray<VictimLine>>,
}

save_state!(Llc {
    states: directory, victims;
});

impl Llc {
    /// The arrays for these parameters, without any line.
    ///
    /// # Errors
    /// If an array has more lines than a tag array can hold.
    pub(super) fn new(params: &ProcessorParams) -> Result<Llc, GeometryError> {
        let llc = &params.llc;
        Ok(match llc.inclusion {
            Inclusion::Inclusive => Llc {
                directory: lru(llc.size, llc.ways)?,
                victims: None,
            },
            Inclusion::NonInclusive => Llc {
                directory: lru(
                    Bytes(params.directory_entries() * LINE_BYTES),
                    llc.directory.ways,
                )?,
                victims: Some(lru(llc.size, llc.ways)?),
            },
        })
    }

    /// Whether the cache is filled with lines that private caches evict, and not with
    /// lines that cores read.
    #[inline]
    pub(super) fn is_victim_cache(&self) -> bool {
        self.victims.is_some()
    }

    #[inline]
    pub(super) fn find(&self, line: LineAddr) -> Option<Slot> {
        self.directory.find(line)
    }

    /// Whether the directory or the cache has an entry for a line.
    pub(super) fn knows(&self, line: LineAddr) -> bool {
        let victims = self.victims.as_ref();
        self.find(line).is_some() || victims.is_some_and(|victims| victims.find(line).is_some())
    }

    #[inline]
    pub(super) fn line(&self, slot: Slot) -> LineAddr {
        self.directory.line(slot)
    }

    #[inline]
    pub(super) fn set_of(&self, line: LineAddr) -> u32 {
        self.directory.geometry().set_of(line)
    }

    pub(super) fn prefetch(&self, line: LineAddr) {
        self.directory.prefetch(line);
    }

    pub(super) fn room(&mut self, line: LineAddr) -> SetRoom {
        self.directory.room(line)
    }

    #[inline]
    pub(super) fn touch(&mut self, slot: Slot) {
        self.directory.touch(slot);
    }

    /// Inserts a line into the directory. The cache may already have its data.
    pub(super) fn enter(&mut self, line: LineAddr) -> Slot {
        let mut way = DirectoryEntry::default();
        if let Some(victims) = &self.victims
            && let Some(victim_slot) = victims.find(line)
        {
            let kept = victims[victim_slot];
            (way.data, way.dirty) = (true, kept.dirty);
            way.filter = match kept.alone {
                true => Filter::Any(CORES),
                false => Filter::Shared(Peers::only(CORES)),
            };
        }
        self.directory.insert(line, way)
    }

    /// Pins a line while a transaction has it, so that it is not evicted.
    pub(super) fn pin(&mut self, slot: Slot) {
        self.directory.pin(slot);
        let line = self.line(slot);
        if let Some(victims) = &mut self.victims
            && let Some(victim_slot) = victims.access(line)
        {
            victims.pin(victim_slot);
        }
    }

    /// Unpins a line whose transaction is over. The entry is removed if no holder needs it.
    pub(super) fn unpin(&mut self, slot: Slot) {
        self.directory.unpin(slot);
        let line = self.line(slot);
        if let Some(victims) = &mut self.victims
            && let Some(victim_slot) = victims.find(line)
        {
            victims.unpin(victim_slot);
        }
        self.settle(slot);
    }

    /// Removes an entry without a transaction if no private cache and no device holds its line. The line's
    /// data stay in the cache.
    pub(super) fn settle(&mut self, slot: Slot) {
        let way = self.directory[slot];
        if way.txn != NONE {
            return;
        }
        if way.filter == Filter::Invalid {
            self.drop_data(slot);
            self.directory.remove(slot);
            return;
        }
        let Some(victims) = &mut self.victims else {
            return;
        };
        let devices = way.filter.holders().without(CORES);
        if way.cores != 0 || !devices.is_empty() {
            return;
        }
        let (line, way) = self.directory.remove(slot);
        if way.data
            && let Some(victim_slot) = victims.find(line)
        {
            victims[victim_slot] = VictimLine {
                dirty: way.dirty,
                alone: way.filter == Filter::Any(CORES),
            };
        }
    }

    /// Entries that name `peer` as a holder: the slots of those without a transaction, and the
    /// lines of those with one.
    pub(super) fn held_by(&self, peer: Peer) -> (Vec<Slot>, Vec<LineAddr>) {
        let (mut idle, mut busy) = (Vec::new(), Vec::new());
        for (slot, line, way) in self.directory.iter() {
            match (way.filter.holders().contains(peer), way.txn) {
                (false, _) => {}
                (true, NONE) => idle.push(slot),
                (true, _) => busy.push(line),
            }
        }
        (idle, busy)
    }

    /// Removes an entry, with the line's data in the cache.
    pub(super) fn remove(&mut self, slot: Slot) -> (LineAddr, DirectoryEntry) {
        self.drop_data(slot);
        self.directory.remove(slot)
    }

    /// Stores a line that has an entry in the cache, or marks its data as modified. Returns the evicted
    /// line, if any. That is the line itself if transactions have pinned every other line of its set.
    pub(super) fn keep(&mut self, slot: Slot, dirty: bool) -> Option<EvictedLine> {
        let line = self.directory.line(slot);
        let way = &mut self.directory[slot];
        way.dirty |= dirty;
        let Some(victims) = &mut self.victims else {
            way.data = true;
            return None;
        };
        if way.data {
            return None;
        }
        let Some(filled) = victims.fill(line, VictimLine::default()) else {
            return Some(Llc::leaves(line, way));
        };
        way.data = true;
        if way.txn != NONE {
            victims.pin(filled.slot);
        }
        let (line, kept) = filled.evicted?;
        Some(match self.directory.find(line) {
            Some(slot) => Llc::leaves(line, &mut self.directory[slot]),
            None => EvictedLine {
                line,
                dirty: kept.dirty,
                keeps: false,
            },
        })
    }

    /// Removes the cache's data of a line from the entry's state.
    fn leaves(line: LineAddr, way: &mut DirectoryEntry) -> EvictedLine {
        way.data = false;
        let devices = way.filter.holders().without(CORES);
        EvictedLine {
            line,
            dirty: std::mem::take(&mut way.dirty),
            keeps: way.cores != 0 || !devices.is_empty(),
        }
    }

    pub(super) fn drop_data(&mut self, slot: Slot) {
        let line = self.line(slot);
        let had = std::mem::take(&mut self.directory[slot].data);
        if let Some(victims) = &mut self.victims
            && had
            && let Some(victim_slot) = victims.find(line)
        {
            victims.remove(victim_slot);
        }
    }
}

impl Index<Slot> for Llc {
    type Output = DirectoryEntry;

    #[inline]
    fn index(&self, slot: Slot) -> &DirectoryEntry {
        &self.directory[slot]
    }
}

impl IndexMut<Slot> for Llc {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut DirectoryEntry {
        &mut self.directory[slot]
    }
}
