//! A hierarchy of caches between a program and memory: the program's accesses go in, and misses and
//! write-backs of dirty lines come out.
//!
//! Each level is set-associative with least-recently-used replacement, write-back and
//! write-allocate. A miss is looked up in the next level, and the line is filled into every
//! level that missed. A dirty victim is written whole, without a read, into the next level;
//! the last level writes dirty victims to memory. Levels are neither inclusive nor exclusive.
//! Left out: other cores, prefetching, instruction fetches, and the lines still dirty at the
//! end, which stay cached.

use std::fmt;
use std::str::FromStr;

use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr};

use crate::op::OpKind;

/// Limits on the number of levels, on ways, and on bytes of a level (*assumed*: more
/// than any processor has).
const MAX_LEVELS: usize = 8;
const MAX_WAYS: u32 = 64;
const MAX_LEVEL_BYTES: u64 = 4 << 30;

/// Size and associativity of one cache level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Data capacity in bytes.
    pub size: Bytes,
    /// Associativity: lines in a set.
    pub ways: u32,
}

/// A list of cache levels, from the one nearest to the program to the last one before memory.
///
/// As text, `32 KiB/8 + 1 MiB/16` is a level of 32 KiB with 8 ways, then a level of
/// 1 MiB with 16 ways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// The levels, nearest first.
    pub levels: Vec<Level>,
}

impl Default for Hierarchy {
    /// 32 KiB with 8 ways, then 1 MiB with 16 (*assumed*: the private caches of one server core).
    fn default() -> Self {
        let level = |size, ways| Level {
            size: Bytes(size),
            ways,
        };
        Hierarchy {
            levels: vec![level(32 << 10, 8), level(1 << 20, 16)],
        }
    }
}

impl fmt::Display for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.levels.iter().enumerate() {
            let separator = if index == 0 { "" } else { " + " };
            write!(f, "{separator}{}/{}", level.size, level.ways)?;
        }
        Ok(())
    }
}

impl FromStr for Hierarchy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = |part: &str| {
            let (size, ways) = part.split_once('/')?;
            let size = size.trim().parse().ok()?;
            Some(Level {
                size,
                ways: ways.trim().parse().ok()?,
            })
        };
        let levels = text.split('+').map(level).collect::<Option<Vec<Level>>>();
        let levels = levels.ok_or_else(|| {
            format!(
                "found `{text}`; allowed: SIZE/WAYS, nearest first, as in `32 KiB/8 + 1 MiB/16`"
            )
        })?;
        let hierarchy = Hierarchy { levels };
        hierarchy.check()?;
        Ok(hierarchy)
    }
}

impl Hierarchy {
    /// Checks that the levels can be built.
    ///
    /// # Errors
    /// Names the first level that cannot be built, with the value found and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MAX_LEVELS).contains(&self.levels.len()) {
            return Err(format!(
                "found {} levels; allowed: 1 to {MAX_LEVELS}",
                self.levels.len()
            ));
        }
        for (index, Level { size, ways }) in self.levels.iter().enumerate() {
            if !(1..=MAX_WAYS).contains(ways) {
                return Err(format!(
                    "level {index}: found {ways} ways; allowed: 1 to {MAX_WAYS}"
                ));
            }
            let set_bytes = u64::from(*ways) * LINE_BYTES;
            if size.0 == 0 || size.0 > MAX_LEVEL_BYTES || !size.0.is_multiple_of(set_bytes) {
                return Err(format!(
                    "level {index}: found {size} with {ways} ways; allowed: multiples of {set_bytes} B up to {}",
                    Bytes(MAX_LEVEL_BYTES)
                ));
            }
        }
        Ok(())
    }
}

/// The simulated caches of a [`Hierarchy`], with the lines that they hold.
#[derive(Clone, Debug)]
pub struct CacheFilter {
    caches: Vec<Cache>,
}

impl CacheFilter {
    /// Makes the caches of a hierarchy, all empty.
    ///
    /// # Errors
    /// Returns what [`Hierarchy::check`] finds wrong with the levels.
    pub fn new(hierarchy: &Hierarchy) -> Result<CacheFilter, String> {
        hierarchy.check()?;
        Ok(CacheFilter {
            caches: hierarchy.levels.iter().map(Cache::new).collect(),
        })
    }

    /// Passes one access through the caches. `out` is called for each line read from or written to
    /// memory: first for the miss, if there is one, then for the write-backs.
    #[inline]
    pub fn access(&mut self, line: LineAddr, kind: OpKind, out: &mut impl FnMut(OpKind, LineAddr)) {
        let dirty = kind == OpKind::Write;
        if self.caches[0].touch(line.0, dirty) {
            return;
        }
        let hit = (1..self.caches.len()).find(|level| self.caches[*level].touch(line.0, false));
        if hit.is_none() {
            out(OpKind::Read, line);
        }
        // The farthest level is filled first, so that a victim of a nearer level
        // finds its line there.
        for level in (0..hit.unwrap_or(self.caches.len())).rev() {
            self.insert(level, line.0, dirty && level == 0, out);
        }
    }

    /// Inserts an absent line into a level and passes the dirty victim, if any, down the levels.
    fn insert(
        &mut self,
        mut level: usize,
        line: u64,
        dirty: bool,
        out: &mut impl FnMut(OpKind, LineAddr),
    ) {
        let mut victim = self.caches[level].insert(line, dirty);
        while let Some(line) = victim {
            level += 1;
            let Some(cache) = self.caches.get_mut(level) else {
                out(OpKind::Write, LineAddr(line));
                return;
            };
            victim = if cache.touch(line, true) {
                None
            } else {
                cache.insert(line, true)
            };
        }
    }
}

/// An entry without a line. Line numbers are below 2^58; the lowest bit of an entry
/// is the dirty bit.
const INVALID: u64 = u64::MAX;

/// One cache level: its sets one after the other, each with the most recently used entry first.
#[derive(Clone, Debug)]
struct Cache {
    entries: Vec<u64>,
    ways: usize,
    sets: u64,
}

impl Cache {
    fn new(level: &Level) -> Cache {
        let lines = level.size.0 / LINE_BYTES;
        let sets = lines / u64::from(level.ways);
        Cache {
            entries: vec![INVALID; lines as usize],
            ways: level.ways as usize,
            sets,
        }
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let set = if self.sets.is_power_of_two() {
            line & (self.sets - 1)
        } else {
            line % self.sets
        };
        let first = set as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// Makes a line the most recently used, and marks it dirty if `dirty`. Returns false
    /// when it is absent.
    #[inline]
    fn touch(&mut self, line: u64, dirty: bool) -> bool {
        let set = self.set(line);
        let Some(way) = set.iter().position(|entry| entry >> 1 == line) else {
            return false;
        };
        let entry = set[way] | u64::from(dirty);
        set.copy_within(..way, 1);
        set[0] = entry;
        true
    }

    /// Inserts an absent line as the most recently used and returns the victim if it was dirty.
    #[inline]
    fn insert(&mut self, line: u64, dirty: bool) -> Option<u64> {
        let set = self.set(line);
        let last = set.len() - 1;
        let victim = set[last];
        set.copy_within(..last, 1);
        set[0] = line << 1 | u64::from(dirty);
        (victim != INVALID && victim & 1 == 1).then_some(victim >> 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Entry = (u64, bool, u64);

    /// Reference model: each cache is a list of (line, dirty, last use).
    #[derive(Default)]
    struct Oracle {
        levels: Vec<(u64, usize, Vec<Entry>)>,
        clock: u64,
        out: Vec<(OpKind, u64)>,
    }

    impl Oracle {
        fn find(&mut self, level: usize, line: u64, dirty: bool) -> bool {
            self.clock += 1;
            let clock = self.clock;
            let mut entries = self.levels[level].2.iter_mut();
            let found = entries.find(|entry| entry.0 == line);
            found
                .map(|entry| *entry = (line, entry.1 || dirty, clock))
                .is_some()
        }

        fn fill(&mut self, level: usize, line: u64, dirty: bool) {
            if level == self.levels.len() {
                return self.out.push((OpKind::Write, line));
            }
            if self.find(level, line, dirty) {
                return;
            }
            let (sets, ways, lines) = &mut self.levels[level];
            let set = lines.iter().filter(|entry| entry.0 % *sets == line % *sets);
            let mut victim = None;
            if set.clone().count() == *ways {
                victim = set.min_by_key(|entry| entry.2).copied();
                lines.retain(|entry| Some(*entry) != victim);
            }
            lines.push((line, dirty, self.clock));
            if let Some((victim, true, _)) = victim {
                self.fill(level + 1, victim, true);
            }
        }

        fn access(&mut self, line: u64, write: bool) {
            let levels = self.levels.len();
            let hit = (0..levels).find(|level| self.find(*level, line, write && *level == 0));
            if hit.is_none() {
                self.out.push((OpKind::Read, line));
            }
            for level in (0..hit.unwrap_or(levels)).rev() {
                self.fill(level, line, write && level == 0);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_filter_agrees_with_brute_force(
            shapes in prop::collection::vec((1u64..4, 1u32..4), 1..4),
            accesses in prop::collection::vec((0u64..40, any::<bool>()), 0..400),
        ) {
            let level = |(sets, ways): &(u64, u32)| Level { size: Bytes(sets * u64::from(*ways) * 64), ways: *ways };
            let hierarchy = Hierarchy { levels: shapes.iter().map(level).collect() };
            let mut filter = CacheFilter::new(&hierarchy).unwrap();
            let levels = shapes.iter().map(|(sets, ways)| (*sets, *ways as usize, vec![])).collect();
            let mut oracle = Oracle { levels, ..Oracle::default() };
            let mut out = Vec::new();
            for (line, write) in accesses {
                let kind = if write { OpKind::Write } else { OpKind::Read };
                filter.access(LineAddr(line), kind, &mut |kind, line| out.push((kind, line.0)));
                oracle.access(line, write);
            }
            prop_assert_eq!(out, oracle.out);
        }
    }

    #[test]
    fn a_dirty_line_comes_out_once_it_leaves_the_last_level() {
        let mut filter = CacheFilter::new(&"64 B/1 + 128 B/2".parse().unwrap()).unwrap();
        let mut out = Vec::new();
        let write = (OpKind::Write, 0);
        let reads = [1, 2, 3].map(|line| (OpKind::Read, line));
        for (kind, line) in std::iter::once(write).chain(reads) {
            filter.access(LineAddr(line), kind, &mut |kind, line| {
                out.push((kind, line.0))
            });
        }
        let fill = (OpKind::Read, 0);
        assert_eq!(out, [&[fill], &reads[..], &[write]].concat());
    }

    #[test]
    fn hierarchies_print_as_they_read_and_wrong_ones_say_what_is_allowed() {
        let hierarchy = Hierarchy::default();
        assert_eq!(hierarchy.to_string(), "32 KiB/8 + 1 MiB/16");
        assert_eq!(hierarchy.to_string().parse(), Ok(hierarchy));
        let wrong = ",32 KiB,32 KiB/0,0 B/1,100 B/1,32 KiB/65,8 GiB/8,/,+";
        for wrong in wrong.split(',') {
            let error = wrong.parse::<Hierarchy>().unwrap_err();
            assert!(error.contains("allowed"), "`{wrong}`: {error}");
        }
    }
}
