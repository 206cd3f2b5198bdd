//! Page-walk caches: upper-level entries of page tables, so that a walk starts at a lower level.
//!
//! There is one small fully associative cache for each level, as in the paging-structure caches of
//! processors (Intel SDM, volume 3A, section 4.10.3; Barr, Cox and Rixner, ISCA 2010, "unified
//! translation cache" is the other design). An entry of level 4, 3 or 2 has the address of the next
//! level's table; leaf entries are never cached here.

use cxlab_cache::TagArray;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InvalidationScope, array};
use crate::address::{Pasid, VirtAddr};
use crate::page_table::{LEVELS, PageWalk};

/// Number of cached levels: 4, 3 and 2.
const CACHED: usize = LEVELS - 1;

/// Parameters of a page-walk cache. Defaults *assumed*, after measurements of
/// processors (Intel: 1 to 4 entries of level 4, 4 to 8 of level 3, 32 of level 2; van
/// Schaik and others, "RevAnC", 2017).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct WalkCacheParams {
    /// Number of entries of the root, which cover 512 GiB each; 0 for none. Default 2.
    pub level4: u32,
    /// Number of entries that cover 1 GiB each; 0 for none. Default 4.
    pub level3: u32,
    /// Number of entries that cover 2 MiB each; 0 for none. Default 32.
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

/// Counters of a page-walk cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct WalkCacheStats {
    /// Walks that started below an entry of level 4, 3 or 2.
    pub hits: [u64; CACHED],
    /// Walks that started at the root.
    pub misses: u64,
    /// Entries that were invalidated.
    pub invalidated: u64,
}

/// A page-walk cache: one small cache for each of the levels 4, 3 and 2.
pub struct WalkCache {
    /// Caches of levels 4, 3 and 2.
    levels: [Option<TagArray<Hpa>>; CACHED],
    stats: WalkCacheStats,
}

save_state!(WalkCache {
    values: stats;
    states: levels;
});

/// Number of address bits below an entry of a cached level.
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
                .then(|| array(field, entries, entries, "lru", rng.substream(field)))
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

    /// Counters of the cache.
    pub fn stats(&self) -> WalkCacheStats {
        self.stats
    }

    /// Returns the number of steps of a walk that need no read, and caches the walk's other table
    /// entries. A cached entry that differs from the page table counts as a miss and is replaced.
    pub fn walk(&mut self, pasid: Pasid, address: VirtAddr, walk: &PageWalk) -> usize {
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

    /// Removes every entry on the path to an address that the scope covers, and returns their
    /// number. An IOMMU does this for an invalidation whose hint is not "leaves only".
    pub fn invalidate(&mut self, scope: InvalidationScope) -> u64 {
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
