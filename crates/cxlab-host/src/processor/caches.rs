//! The private caches of a core: two levels. The second has the state of each line.

use cxlab_cache::{Geometry, GeometryError, SetRoom, TagArray, victim};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LineAddr};
use serde::{Deserialize, Serialize};

use crate::core::CacheLevel;

/// The state in which a core holds a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, Debug)]
pub enum CoreState {
    /// The core has no copy.
    #[default]
    Invalid,
    /// A copy that other caches may have too.
    Shared,
    /// The only copy, unmodified.
    Exclusive,
    /// The only copy, newer than memory.
    Modified,
}

/// The private cache level that served an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HitLevel {
    /// The access hit in the first-level cache.
    L1,
    /// The access hit in the second-level cache.
    L2,
}

/// Both private caches of one core. The second level includes the first.
pub struct CoreCaches {
    l1: TagArray<()>,
    l2: TagArray<CoreState>,
}

save_state!(CoreCaches {
    states: l1, l2;
});

/// A tag array with least-recently-used sets.
pub fn lru<T: Copy + Default>(size: Bytes, ways: u32) -> Result<TagArray<T>, GeometryError> {
    let ways = u64::from(ways.max(1));
    let sets = (size.0 / 64 / ways).max(1);
    let geometry = Geometry::set_associative(sets * ways, ways)?;
    let Some(policy) = victim::build("lru") else {
        unreachable!("the catalog of victim policies has lru")
    };
    Ok(TagArray::new(
        geometry,
        policy.as_ref(),
        StreamRng::new(0, "lru"),
    ))
}

impl CoreCaches {
    /// Both caches, empty.
    ///
    /// # Errors
    /// If a cache has more lines than a tag array can hold.
    pub fn new(l1: &CacheLevel, l2: &CacheLevel) -> Result<CoreCaches, GeometryError> {
        Ok(CoreCaches {
            l1: lru(l1.size, l1.ways)?,
            l2: lru(l2.size, l2.ways)?,
        })
    }

    /// The state in which the core holds a line.
    pub fn held(&self, line: LineAddr) -> CoreState {
        self.l2
            .find(line)
            .map_or(CoreState::Invalid, |slot| self.l2[slot])
    }

    /// Uses a line if the core holds it in a sufficient state, for a store if `owns`. Returns
    /// the level that had it.
    #[inline]
    pub fn access(&mut self, line: LineAddr, owns: bool) -> Option<HitLevel> {
        let slot = self.l2.find(line)?;
        match (owns, self.l2[slot]) {
            (false, CoreState::Invalid) | (true, CoreState::Invalid | CoreState::Shared) => {
                return None;
            }
            (true, _) => self.l2[slot] = CoreState::Modified,
            (false, _) => {}
        }
        self.l2.touch(slot);
        if self.l1.access(line).is_some() {
            return Some(HitLevel::L1);
        }
        self.l1.fill(line, ());
        Some(HitLevel::L2)
    }

    /// Inserts a line, or changes its state. Returns the evicted line with its former
    /// state, if there is one.
    pub fn insert(&mut self, line: LineAddr, held: CoreState) -> Option<(LineAddr, CoreState)> {
        if let Some(slot) = self.l2.find(line) {
            self.l2[slot] = held;
            return None;
        }
        let mut out = None;
        if let SetRoom::Evict(block) = self.l2.room(line)
            && let Some(slot) = self.l2.find(block.victim)
        {
            out = Some(self.l2.remove(slot));
            self.drop_l1(block.victim);
        }
        self.l2.insert(line, held);
        self.l1.fill(line, ());
        out
    }

    fn drop_l1(&mut self, line: LineAddr) {
        if let Some(slot) = self.l1.find(line) {
            self.l1.remove(slot);
        }
    }

    /// Invalidates a line. Returns its former state.
    pub fn drop_line(&mut self, line: LineAddr) -> CoreState {
        let Some(slot) = self.l2.find(line) else {
            return CoreState::Invalid;
        };
        self.drop_l1(line);
        self.l2.remove(slot).1
    }

    /// Downgrades a line to shared. Returns its former state.
    pub fn share(&mut self, line: LineAddr) -> CoreState {
        let Some(slot) = self.l2.find(line) else {
            return CoreState::Invalid;
        };
        let before = self.l2[slot];
        self.l2[slot] = before.min(CoreState::Shared);
        before
    }

    /// Marks a line as unmodified. Returns its former state.
    pub fn clean(&mut self, line: LineAddr) -> CoreState {
        let Some(slot) = self.l2.find(line) else {
            return CoreState::Invalid;
        };
        let before = self.l2[slot];
        self.l2[slot] = before.min(CoreState::Exclusive);
        before
    }
}
