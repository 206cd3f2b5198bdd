//! Page-walk caches: the upper entries of page tables, so that a walk begins further down.
//!
//! One small fully associative cache a level, as in the paging-structure caches of processors
//! (Intel SDM, volume 3A, section 4.10.3; Barr, Cox and Rixner, ISCA 2010, "unified translation
//! cache" is the other design). An entry of level 4, 3 or 2 says where the table of the next level
//! lies; leaves are never kept here.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr};
use cxlab_memory::TagArray;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scope, array};
use crate::address::{Pasid, VirtAddr};
use crate::page_table::{LEVELS, Walk};

/// Levels that are cached: 4, 3 and 2.
const CACHED: usize = LEVELS - 1;

/// Parameters of a page-walk cache. Defaults *assumed*, after what was measured of processors
/// (Intel: 1 to 4 entries of level 4, 4 to 8 of level 3, 32 of level 2; van Schaik and others,
/// "RevAnC", 2017).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct WalkCacheParams {
    /// Entries for the root's entries, 512 GiB each; 0: none. Default 2.
    pub level4: u32,
    /// Entries of 1 GiB each; 0: none. Default 4.
    pub level3: u32,
    /// Entries of 2 MiB each; 0: none. Default 32.
    pub level2: u32,
}

impl Default for WalkCacheParams {
    fn default() -> Self {
        WalkCacheParams {
            level4: 2,
            level3: 4,
            level2: 32,
        }
    }
}

/// What a page-walk cache counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct WalkCacheStats {
    /// Walks that began below an entry of level 4, 3 or 2.
    pub hits: [u64; CACHED],
    /// Walks that began at the root.
    pub misses: u64,
    /// Entries that were invalidated.
    pub invalidated: u64,
}

/// A page-walk cache.
pub struct WalkCache {
    /// Of levels 4, 3 and 2.
    levels: [Option<TagArray<Hpa>>; CACHED],
    stats: WalkCacheStats,
}

save_state!(WalkCache {
    values: stats;
    states: levels;
});

/// The bits of an address below an entry of a cached level.
const fn shift(place: usize) -> u32 {
    39 - 9 * place as u32
}

#[inline]
fn key(pasid: Pasid, address: VirtAddr, place: usize) -> LineAddr {
    LineAddr(address.0 >> shift(place) | u64::from(pasid.0 & (Pasid::END - 1)) << 37)
}

impl WalkCache {
    /// An empty cache.
    ///
    /// # Errors
    /// More entries than an array can have.
    pub fn new(params: &WalkCacheParams, rng: StreamRng) -> Result<WalkCache, ParamError> {
        let level = |field, entries: u32| {
            (entries > 0)
                .then(|| array(field, entries, entries, "lru", rng.part(field)))
                .transpose()
        };
        Ok(WalkCache {
            levels: [
                level("level4", params.level4)?,
                level("level3", params.level3)?,
                level("level2", params.level2)?,
            ],
            stats: WalkCacheStats::default(),
        })
    }

    /// What was counted.
    pub fn stats(&self) -> WalkCacheStats {
        self.stats
    }

    /// How many steps of the walk to an address need no read, and keeps the steps that do: the
    /// walk's entries that lead to tables are in the cache afterwards. An entry that does not lead
    /// where the page table does counts as a miss; it is replaced.
    pub fn walk(&mut self, pasid: Pasid, address: VirtAddr, walk: &Walk) -> usize {
        let steps = walk.steps();
        let tables = steps.len() - 1;
        let hit = (0..tables).rev().find(|place| {
            let array = self.levels[*place].as_mut();
            let slot = array.and_then(|array| {
                let slot = array.access(key(pasid, address, *place))?;
                Some(array[slot])
            });
            slot.is_some_and(|table| table.0 == steps[place + 1].0 & !0xfff)
        });
        match hit {
            Some(place) => self.stats.hits[place] += 1,
            None => self.stats.misses += 1,
        }
        let skipped = hit.map_or(0, |place| place + 1);
        for place in skipped..tables {
            self.keep(key(pasid, address, place), place, steps[place + 1]);
        }
        skipped
    }

    fn keep(&mut self, key: LineAddr, place: usize, next: Hpa) {
        if let Some(array) = &mut self.levels[place] {
            let table = Hpa(next.0 & !0xfff);
            match array.find(key) {
                Some(slot) => array[slot] = table,
                None => {
                    array.fill(key, table);
                }
            }
        }
    }

    /// Drops every entry on the way to an address that is concerned, as an IOMMU does for an
    /// invalidation whose hint is not "leaves only"; how many there were.
    pub fn invalidate(&mut self, scope: Scope) -> u64 {
        let mut dropped = 0;
        for (place, level) in self.levels.iter_mut().enumerate() {
            let Some(array) = level else { continue };
            let concerned = |key: LineAddr| {
                let from = (key.0 & ((1 << 37) - 1)) << shift(place);
                let pasid = Pasid((key.0 >> 37) as u32);
                scope.touches(pasid, from, from + (1 << shift(place)))
            };
            let slots: Vec<_> = array
                .iter()
                .filter(|(_, key, _)| concerned(*key))
                .map(|(slot, ..)| slot)
                .collect();
            dropped += slots.len() as u64;
            slots.into_iter().for_each(|slot| {
                array.remove(slot);
            });
        }
        self.stats.invalidated += dropped;
        dropped
    }
}
