//! A private cache of one requester: set-associative, least recently used, write-back and
//! write-allocate. The cache has tags only. No other requester shares its lines, so a line has no state
//! beyond valid and dirty.

use cxlab_engine::prefetch;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LineAddr};
use serde::{Deserialize, Serialize};

use crate::params::CacheParams;

/// The result of a cache access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheAccess {
    /// Whether the access found its line in the cache.
    pub hit: bool,
    /// A dirty line that was evicted and must be written back.
    pub evicted: Option<LineAddr>,
}

/// A line and the time of its last use: twice the clock's value, plus 1 if the line is dirty.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct CacheWay {
    line: u64,
    stamp: u64,
}

impl CacheWay {
    #[inline]
    fn new(line: u64, used: u64, dirty: bool) -> CacheWay {
        CacheWay {
            line,
            stamp: 2 * used + u64::from(dirty),
        }
    }

    /// Records a use of the line, which may be a write.
    #[inline]
    fn touch(&mut self, used: u64, write: bool) {
        self.stamp = 2 * used + (self.stamp & 1 | u64::from(write));
    }

    /// The line, if it must be written back.
    #[inline]
    fn dirty_line(self) -> Option<LineAddr> {
        (self.stamp & 1 == 1 && self.line != EMPTY).then_some(LineAddr(self.line))
    }
}

const EMPTY: u64 = u64::MAX;

/// The tag array of a private cache.
pub struct PrivateCache {
    ways: Vec<CacheWay>,
    associativity: usize,
    sets: u64,
    /// Whether the number of sets is a power of two, so that a mask divides.
    is_masked: bool,
    clock: u64,
}

save_state!(PrivateCache {
    values: clock;
    sized: ways;
    built: associativity, sets, is_masked;
});

impl PrivateCache {
    /// An empty cache with at least one set.
    pub fn new(params: &CacheParams) -> Self {
        PrivateCache::of(params.size, params.ways)
    }

    /// An empty cache of the given capacity, with at least one set.
    pub fn of(size: Bytes, ways: u32) -> Self {
        let associativity = ways.max(1) as usize;
        let sets = (size.0 / 64 / associativity as u64).max(1);
        PrivateCache {
            ways: vec![CacheWay::new(EMPTY, 0, false); sets as usize * associativity],
            associativity,
            sets,
            is_masked: sets.is_power_of_two(),
            clock: 0,
        }
    }

    /// Looks up a line, and inserts it if absent.
    pub fn access(&mut self, line: LineAddr, write: bool) -> CacheAccess {
        self.clock += 1;
        let clock = self.clock;
        let ways = self.set(line);
        let (mut victim, mut oldest) = (0, u64::MAX);
        for (index, way) in ways.iter_mut().enumerate() {
            if way.line == line.0 {
                way.touch(clock, write);
                return CacheAccess {
                    hit: true,
                    evicted: None,
                };
            }
            if way.stamp < oldest {
                (victim, oldest) = (index, way.stamp);
            }
        }
        let out = std::mem::replace(&mut ways[victim], CacheWay::new(line.0, clock + 1, write));
        self.clock += 1;
        CacheAccess {
            hit: false,
            evicted: out.dirty_line(),
        }
    }

    /// Whether the set of a line has a way that was never used.
    pub fn has_room(&self, line: LineAddr) -> bool {
        let first = self.first(line);
        let ways = &self.ways[first..first + self.associativity];
        ways.iter().any(|way| way.line == EMPTY)
    }

    #[inline]
    pub(crate) fn prefetch(&self, line: LineAddr) {
        let first = self.first(line);
        for way in self.ways[first..first + self.associativity]
            .iter()
            .step_by(4)
        {
            prefetch(way);
        }
    }

    /// Uses a line if it is present. Returns false if it is absent.
    #[inline]
    pub fn touch(&mut self, line: LineAddr, write: bool) -> bool {
        self.clock += 1;
        let clock = self.clock;
        match self.set(line).iter_mut().find(|way| way.line == line.0) {
            Some(way) => {
                way.touch(clock, write);
                true
            }
            None => false,
        }
    }

    /// Whether a line is present. Does not count as a use.
    pub fn has(&self, line: LineAddr) -> bool {
        let first = self.first(line);
        let set = &self.ways[first..first + self.associativity];
        set.iter().any(|way| way.line == line.0)
    }

    /// Inserts a line that is absent. Returns the dirty line that was evicted, if any.
    pub fn insert(&mut self, line: LineAddr, dirty: bool) -> Option<LineAddr> {
        self.clock += 1;
        let fresh = CacheWay::new(line.0, self.clock, dirty);
        let ways = self.set(line);
        let mut victim = 0;
        for (index, way) in ways.iter().enumerate() {
            if way.stamp < ways[victim].stamp {
                victim = index;
            }
        }
        std::mem::replace(&mut ways[victim], fresh).dirty_line()
    }

    /// Marks a line as clean. Returns true if it was dirty.
    pub fn clean(&mut self, line: LineAddr) -> bool {
        let way = self.set(line).iter_mut().find(|way| way.line == line.0);
        way.is_some_and(|way| {
            let dirty = way.stamp & 1 == 1;
            way.stamp &= !1;
            dirty
        })
    }

    /// Index of the first way of a line's set.
    #[inline]
    fn first(&self, line: LineAddr) -> usize {
        let set = match self.is_masked {
            true => line.0 & (self.sets - 1),
            false => line.0 % self.sets,
        };
        set as usize * self.associativity
    }

    #[inline]
    fn set(&mut self, line: LineAddr) -> &mut [CacheWay] {
        let first = self.first(line);
        &mut self.ways[first..first + self.associativity]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cxlab_engine::units::Picos;

    #[test]
    fn the_least_recently_used_line_goes_and_only_a_dirty_one_is_written_back() {
        let params = CacheParams {
            ways: 2,
            access_time: Picos(0),
            ..CacheParams::of_size(Bytes(128))
        };
        let mut cache = PrivateCache::new(&params);
        let mut access = |line, write| {
            let result = cache.access(LineAddr(line), write);
            (result.hit, result.evicted.map(|line| line.0))
        };
        assert_eq!(access(1, true), (false, None));
        assert_eq!(access(2, false), (false, None));
        assert_eq!(access(1, false), (true, None));
        assert_eq!(
            access(3, false),
            (false, None),
            "clean line 2 goes silently"
        );
        assert_eq!(access(4, false), (false, Some(1)), "line 1 was written");
    }
}
