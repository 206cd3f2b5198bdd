//! The last-level cache and the directory of the home agent.
//!
//! Inclusive: one array. Who has an entry of the directory has a place for its data beside it, and
//! a line that makes room leaves every private cache.
//!
//! Non-inclusive: two arrays. The directory has an entry for each line that a private cache or a
//! device holds, or that a transaction has; the cache holds lines that private caches have evicted,
//! and remembers the directory's word of those that have no entry. A line that a core takes alone
//! leaves the cache; one that cores share stays. So an eviction there takes nothing from cores,
//! while an entry that makes room does.

use std::ops::{Index, IndexMut};

use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr};
use cxlab_memory::{GeometryError, Room, Slot, TagArray};
use cxlab_protocol::coherence::cache_home::{CORES, Filter, Peer, Peers};
use serde::{Deserialize, Serialize};

use super::NONE;
use super::caches::lru;
use super::home::Way;
use super::params::{Inclusion, ProcessorParams};

/// What a non-inclusive cache remembers of a line without an entry in the directory.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Kept {
    /// Whether it is newer than memory.
    dirty: bool,
    /// Whether the directory gave the line to the cores alone, not as sharers.
    alone: bool,
}

/// A line that has left the last-level cache.
pub(super) struct Leaving {
    pub(super) line: LineAddr,
    /// Whether it is newer than memory.
    pub(super) dirty: bool,
    /// Whether another cache may hold it still.
    pub(super) keeps: bool,
}

/// Both arrays.
pub(super) struct Llc {
    directory: TagArray<Way>,
    /// The lines of a non-inclusive cache; an inclusive one has them in the directory.
    victims: Option<TagArray<Kept>>,
}

save_state!(Llc {
    states: directory, victims;
});

impl Llc {
    /// Empty arrays.
    ///
    /// # Errors
    /// More lines than a tag array holds.
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

    /// Whether it is filled by what private caches evict, and by nothing that cores read.
    #[inline]
    pub(super) fn is_victim_cache(&self) -> bool {
        self.victims.is_some()
    }

    #[inline]
    pub(super) fn find(&self, line: LineAddr) -> Option<Slot> {
        self.directory.find(line)
    }

    /// Whether the directory or the cache has anything of a line.
    pub(super) fn knows(&self, line: LineAddr) -> bool {
        let victims = self.victims.as_ref();
        self.find(line).is_some() || victims.is_some_and(|victims| victims.find(line).is_some())
    }

    #[inline]
    pub(super) fn line(&self, slot: Slot) -> LineAddr {
        self.directory.line(slot)
    }

    /// The set of the directory that a line belongs to.
    #[inline]
    pub(super) fn set_of(&self, line: LineAddr) -> u32 {
        self.directory.geometry().set_of(line)
    }

    pub(super) fn prefetch(&self, line: LineAddr) {
        self.directory.prefetch(line);
    }

    pub(super) fn room(&mut self, line: LineAddr) -> Room {
        self.directory.room(line)
    }

    #[inline]
    pub(super) fn touch(&mut self, slot: Slot) {
        self.directory.touch(slot);
    }

    /// The directory takes a line in; the cache may have it.
    pub(super) fn enter(&mut self, line: LineAddr) -> Slot {
        let mut way = Way::default();
        if let Some(victims) = &self.victims
            && let Some(place) = victims.find(line)
        {
            let kept = victims[place];
            (way.data, way.dirty) = (true, kept.dirty);
            way.filter = match kept.alone {
                true => Filter::Any(CORES),
                false => Filter::Shared(Peers::only(CORES)),
            };
        }
        self.directory.insert(line, way)
    }

    /// A transaction has the line: it stays.
    pub(super) fn pin(&mut self, slot: Slot) {
        self.directory.pin(slot);
        let line = self.line(slot);
        if let Some(victims) = &mut self.victims
            && let Some(place) = victims.access(line)
        {
            victims.pin(place);
        }
    }

    /// The transaction is over. The entry goes if nobody needs it.
    pub(super) fn unpin(&mut self, slot: Slot) {
        self.directory.unpin(slot);
        let line = self.line(slot);
        if let Some(victims) = &mut self.victims
            && let Some(place) = victims.find(line)
        {
            victims.unpin(place);
        }
        self.settle(slot);
    }

    /// An entry that no transaction has goes if no private cache and no device needs it; what the
    /// cache has of the line stays there.
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
            && let Some(place) = victims.find(line)
        {
            victims[place] = Kept {
                dirty: way.dirty,
                alone: way.filter == Filter::Any(CORES),
            };
        }
    }

    /// Entries that name a holder: those that no transaction has, and the lines of the others.
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

    /// The entry goes, and what there is beside it.
    pub(super) fn remove(&mut self, slot: Slot) -> (LineAddr, Way) {
        self.drop_data(slot);
        self.directory.remove(slot)
    }

    /// The cache takes a line in that has an entry, or what is newer of it; what makes room is
    /// returned. It is the line itself where transactions have every other of its set.
    pub(super) fn keep(&mut self, slot: Slot, dirty: bool) -> Option<Leaving> {
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
        let Some(filled) = victims.fill(line, Kept::default()) else {
            return Some(Llc::leaves(line, way));
        };
        way.data = true;
        if way.txn != NONE {
            victims.pin(filled.slot);
        }
        let (line, kept) = filled.evicted?;
        Some(match self.directory.find(line) {
            Some(slot) => Llc::leaves(line, &mut self.directory[slot]),
            None => Leaving {
                line,
                dirty: kept.dirty,
                keeps: false,
            },
        })
    }

    /// The cache has nothing of a line any more.
    fn leaves(line: LineAddr, way: &mut Way) -> Leaving {
        way.data = false;
        let devices = way.filter.holders().without(CORES);
        Leaving {
            line,
            dirty: std::mem::take(&mut way.dirty),
            keeps: way.cores != 0 || !devices.is_empty(),
        }
    }

    /// The cache gives its data of a line up.
    pub(super) fn drop_data(&mut self, slot: Slot) {
        let line = self.line(slot);
        let had = std::mem::take(&mut self.directory[slot].data);
        if let Some(victims) = &mut self.victims
            && had
            && let Some(place) = victims.find(line)
        {
            victims.remove(place);
        }
    }
}

impl Index<Slot> for Llc {
    type Output = Way;

    #[inline]
    fn index(&self, slot: Slot) -> &Way {
        &self.directory[slot]
    }
}

impl IndexMut<Slot> for Llc {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Way {
        &mut self.directory[slot]
    }
}
