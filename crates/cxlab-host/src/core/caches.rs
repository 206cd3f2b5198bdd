//! The private caches of a core.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;

use super::params::CacheLevel;
use crate::cache::PrivateCache;

/// The levels, nearest first.
pub(super) struct CacheHierarchy {
    levels: Vec<PrivateCache>,
    /// Time of a hit in each level, and of a lookup in all levels, in picoseconds.
    pub(super) level_ps: Vec<u64>,
    pub(super) lookup_ps: u64,
}

save_state!(CacheHierarchy {
    states: levels;
    built: level_ps, lookup_ps;
});

impl CacheHierarchy {
    pub(super) fn new(levels: &[CacheLevel]) -> CacheHierarchy {
        let mut time = 0;
        let level_ps: Vec<u64> = levels
            .iter()
            .map(|level| {
                time += level.access_time.0;
                time
            })
            .collect();
        let caches = levels.iter();
        CacheHierarchy {
            levels: caches
                .map(|level| PrivateCache::of(level.size, level.ways))
                .collect(),
            lookup_ps: time,
            level_ps,
        }
    }

    pub(super) fn has(&self, line: LineAddr) -> bool {
        self.levels.iter().any(|cache| cache.has(line))
    }

    /// Marks a line as unmodified in every level. Returns whether it was modified.
    pub(super) fn clean(&mut self, line: LineAddr) -> bool {
        let levels = self.levels.iter_mut();
        levels.fold(false, |dirty, cache| dirty | cache.clean(line))
    }

    /// The level in which a line hits. The line is then in all nearer levels too. `evicted` receives the
    /// modified lines that leave the last level.
    pub(super) fn find(
        &mut self,
        line: LineAddr,
        store: bool,
        evicted: &mut VecDeque<LineAddr>,
    ) -> Option<usize> {
        let first = self.levels.first_mut()?;
        if first.touch(line, store) {
            return Some(0);
        }
        let level = (1..self.levels.len()).find(|level| self.levels[*level].touch(line, false))?;
        for above in (0..level).rev() {
            self.insert(above, line, store && above == 0, evicted);
        }
        Some(level)
    }

    /// Inserts a line into every level.
    pub(super) fn fill(&mut self, line: LineAddr, dirty: bool, evicted: &mut VecDeque<LineAddr>) {
        for level in (0..self.levels.len()).rev() {
            self.insert(level, line, dirty && level == 0, evicted);
        }
    }

    /// Inserts a line into a level. A modified line that is evicted goes to the next level.
    fn insert(
        &mut self,
        level: usize,
        line: LineAddr,
        dirty: bool,
        evicted: &mut VecDeque<LineAddr>,
    ) {
        let mut out = self.levels[level].insert(line, dirty);
        for next in level + 1..self.levels.len() {
            let Some(line) = out else { return };
            if self.levels[next].touch(line, true) {
                return;
            }
            out = self.levels[next].insert(line, true);
        }
        evicted.extend(out);
    }
}
