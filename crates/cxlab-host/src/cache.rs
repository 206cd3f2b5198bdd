//! A private cache of one requester: set-associative, least recently used, write-back and
//! write-allocate. It holds tags only; nobody else shares its lines, so there is no state beyond
//! valid and dirty.

use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LineAddr};
use serde::{Deserialize, Serialize};

use crate::params::CacheParams;

/// What an access to the cache did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheAccess {
    /// The line was there.
    pub hit: bool,
    /// A dirty line that had to make room, to be written back.
    pub evicted: Option<LineAddr>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Way {
    line: u64,
    used: u64,
    dirty: bool,
}

const EMPTY: u64 = u64::MAX;

/// The tag array.
pub struct PrivateCache {
    ways: Vec<Way>,
    associativity: usize,
    sets: u64,
    clock: u64,
}

save_state!(PrivateCache {
    values: clock;
    sized: ways;
    built: associativity, sets;
});

impl PrivateCache {
    /// An empty cache; at least one set.
    pub fn new(params: &CacheParams) -> Self {
        PrivateCache::of(params.size, params.ways)
    }

    /// An empty cache of that capacity; at least one set.
    pub fn of(size: Bytes, ways: u32) -> Self {
        let associativity = ways.max(1) as usize;
        let sets = (size.0 / 64 / associativity as u64).max(1);
        PrivateCache {
            ways: vec![
                Way {
                    line: EMPTY,
                    used: 0,
                    dirty: false
                };
                sets as usize * associativity
            ],
            associativity,
            sets,
            clock: 0,
        }
    }

    /// Looks a line up, and takes it in if it was not there.
    pub fn access(&mut self, line: LineAddr, write: bool) -> CacheAccess {
        let hit = self.touch(line, write);
        let evicted = match hit {
            true => None,
            false => self.insert(line, write),
        };
        CacheAccess { hit, evicted }
    }

    /// Uses a line; false when it is not there.
    #[inline]
    pub fn touch(&mut self, line: LineAddr, write: bool) -> bool {
        self.clock += 1;
        let clock = self.clock;
        match self.set(line).iter_mut().find(|way| way.line == line.0) {
            Some(way) => {
                way.used = clock;
                way.dirty |= write;
                true
            }
            None => false,
        }
    }

    /// Whether a line is there, without using it.
    pub fn has(&self, line: LineAddr) -> bool {
        let first = (line.0 % self.sets) as usize * self.associativity;
        let set = &self.ways[first..first + self.associativity];
        set.iter().any(|way| way.line == line.0)
    }

    /// Takes in a line that is not there. Returns the dirty line that had to make room.
    pub fn insert(&mut self, line: LineAddr, dirty: bool) -> Option<LineAddr> {
        self.clock += 1;
        let fresh = Way {
            line: line.0,
            used: self.clock,
            dirty,
        };
        let ways = self.set(line);
        let mut victim = 0;
        for (at, way) in ways.iter().enumerate() {
            if way.used < ways[victim].used {
                victim = at;
            }
        }
        let out = std::mem::replace(&mut ways[victim], fresh);
        (out.dirty && out.line != EMPTY).then_some(LineAddr(out.line))
    }

    /// A line's copy is now as memory is; true when it was not.
    pub fn clean(&mut self, line: LineAddr) -> bool {
        let way = self.set(line).iter_mut().find(|way| way.line == line.0);
        way.is_some_and(|way| std::mem::take(&mut way.dirty))
    }

    #[inline]
    fn set(&mut self, line: LineAddr) -> &mut [Way] {
        let first = (line.0 % self.sets) as usize * self.associativity;
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
