//! The hash index, similar to CCEH (Nam et al., FAST 2019) as Viper uses it. A directory of
//! segments is indexed by the upper bits of the hash, and the 256 lines of a segment by the lower
//! bits. A line has four pairs of hash and place. A lock word follows the pairs of each segment.
//!
//! The index is made large enough for all keys and does not split segments. A search continues from
//! pair to pair until it finds one that was never used. CCEH examines 16 pairs, and splits the
//! segment when all are in use.

use cxlab_engine::save_state;
use cxlab_engine::units::LINE_BYTES;
use serde::{Deserialize, Serialize};

use super::super::script::Script;
use crate::program::StepDependency;

/// Pairs of a segment: 256 lines of four.
const SEGMENT_PAIRS: u64 = 1024;
/// Bytes of a pair.
const PAIR: u64 = 16;
/// Distance between segments in bytes: the pairs, then a line with the lock word.
const SEGMENT: u64 = SEGMENT_PAIRS * PAIR + LINE_BYTES;
/// Offset of the lock word in a segment, after the pairs and the segment's depth.
const LOCK: u64 = SEGMENT_PAIRS * PAIR + 8;
/// Bytes of a pointer in the directory.
const POINTER: u64 = 8;

/// The hash of a pair that was never used.
const EMPTY: u64 = u64::MAX;
/// The hash of a pair whose key was removed.
const TOMBSTONE: u64 = u64::MAX - 1;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Pair {
    hash: u64,
    place: u64,
}

/// The index of one core's store.
pub(super) struct Index {
    /// First address of the directory.
    directory: u64,
    /// First address of the segments.
    segments: u64,
    /// Number of segments: a power of two.
    count: u64,
    pairs: Vec<Pair>,
    /// Whether each change is written back, because the index is in persistent CXL memory.
    persistent: bool,
}

save_state!(Index {
    sized: pairs;
    built: directory, segments, count, persistent;
});

/// The result of a search.
struct SearchResult {
    /// The pair with the key; `None` if the key is not in the index.
    pair: Option<usize>,
    /// The first pair that a new key can use.
    free: usize,
}

impl Index {
    /// Number of segments for this many keys: at most half of the pairs are used.
    fn segments_for(keys: u64) -> u64 {
        (2 * keys).div_ceil(SEGMENT_PAIRS).next_power_of_two()
    }

    fn directory_bytes(count: u64) -> u64 {
        (count * POINTER).next_multiple_of(LINE_BYTES)
    }

    /// Bytes of an index for this many keys.
    pub fn bytes(keys: u64) -> u64 {
        let count = Index::segments_for(keys);
        Index::directory_bytes(count) + count * SEGMENT
    }

    /// Makes an empty index for this many keys at an address.
    pub fn new(first: u64, keys: u64, persistent: bool) -> Index {
        let count = Index::segments_for(keys);
        let empty = Pair {
            hash: EMPTY,
            place: 0,
        };
        Index {
            directory: first,
            segments: first + Index::directory_bytes(count),
            count,
            pairs: vec![empty; (count * SEGMENT_PAIRS) as usize],
            persistent,
        }
    }

    /// The segment of a hash.
    fn home(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.count)) >> 64) as u64
    }

    fn address(&self, pair: usize) -> u64 {
        let pair = pair as u64;
        self.segments + pair / SEGMENT_PAIRS * SEGMENT + pair % SEGMENT_PAIRS * PAIR
    }

    /// Loads the segment's pointer from the directory and takes the segment's lock.
    fn acquire(&self, hash: u64, script: &mut Script) {
        let home = self.home(hash);
        script.load(self.directory + home * POINTER, StepDependency::Nothing);
        script.atomic(
            self.segments + home * SEGMENT + LOCK,
            StepDependency::Previous,
        );
    }

    fn release(&self, hash: u64, script: &mut Script) {
        let home = self.home(hash);
        script.atomic(
            self.segments + home * SEGMENT + LOCK,
            StepDependency::Nothing,
        );
    }

    /// Takes the lock of a hash's segment, and searches for the key.
    fn locked(
        &self,
        hash: u64,
        script: &mut Script,
        same: impl FnMut(u64, &mut Script) -> bool,
    ) -> (u64, SearchResult) {
        let hash = hash.min(TOMBSTONE - 1);
        self.acquire(hash, script);
        (hash, self.search(hash, script, same))
    }

    /// Examines one pair after the other; `same` compares the key at a place with the wanted key.
    fn search(
        &self,
        hash: u64,
        script: &mut Script,
        mut same: impl FnMut(u64, &mut Script) -> bool,
    ) -> SearchResult {
        let (home, first) = (self.home(hash), hash % 256 * 4);
        let mut free = None;
        for step in 0..self.pairs.len() as u64 {
            let segment = (home + step / SEGMENT_PAIRS) % self.count;
            let pair = (segment * SEGMENT_PAIRS + (first + step) % SEGMENT_PAIRS) as usize;
            let Pair { hash: found, place } = self.pairs[pair];
            script.load(self.address(pair), StepDependency::Nothing);
            if found >= TOMBSTONE && free.is_none() {
                free = Some(pair);
            }
            if found == EMPTY {
                break;
            }
            if found != hash {
                continue;
            }
            script.load(self.address(pair) + 8, StepDependency::Nothing);
            if same(place, script) {
                return SearchResult {
                    pair: Some(pair),
                    free: pair,
                };
            }
        }
        let free = free.unwrap_or_default();
        SearchResult { pair: None, free }
    }

    /// The place of a key; `None` if the key is not in the index.
    pub fn get(
        &self,
        hash: u64,
        script: &mut Script,
        same: impl FnMut(u64, &mut Script) -> bool,
    ) -> Option<u64> {
        let (hash, found) = self.locked(hash, script, same);
        self.release(hash, script);
        Some(self.pairs[found.pair?].place)
    }

    /// Sets the place of a key and returns its old place.
    pub fn insert(
        &mut self,
        hash: u64,
        place: u64,
        script: &mut Script,
        same: impl FnMut(u64, &mut Script) -> bool,
    ) -> Option<u64> {
        let (hash, found) = self.locked(hash, script, same);
        let address = self.address(found.free);
        let before = found.pair.map(|pair| self.pairs[pair].place);
        match before {
            Some(_) => script.exchange(address + 8),
            None => {
                assert!(
                    self.pairs[found.free].hash >= TOMBSTONE,
                    "an index made for all keys has room"
                );
                script.exchange(address);
                script.store(address + 8, StepDependency::Nothing);
                script.store(address, StepDependency::Nothing);
            }
        }
        self.pairs[found.free] = Pair { hash, place };
        self.written(address, script);
        self.release(hash, script);
        before
    }

    /// Removes a key and returns its place.
    pub fn remove(
        &mut self,
        hash: u64,
        script: &mut Script,
        same: impl FnMut(u64, &mut Script) -> bool,
    ) -> Option<u64> {
        let (hash, found) = self.locked(hash, script, same);
        if let Some(pair) = found.pair {
            let address = self.address(pair);
            script.exchange(address + 8);
            script.exchange(address);
            self.pairs[pair].hash = TOMBSTONE;
            self.written(address, script);
        }
        self.release(hash, script);
        Some(self.pairs[found.pair?].place)
    }

    /// Writes a changed pair back, if the index is persistent.
    fn written(&self, address: u64, script: &mut Script) {
        if self.persistent {
            script.flush(address);
            script.fence();
        }
    }

    /// Number of keys in the index.
    pub fn len(&self) -> usize {
        let used = self.pairs.iter().filter(|pair| pair.hash < TOMBSTONE);
        used.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use cxlab_engine::rng::StreamRng;

    /// Each key is its own place. Many keys have the same hash or a reserved hash.
    #[test]
    fn keys_whose_hashes_meet_are_told_apart() {
        let hash = |key: u64| match key % 5 {
            0 => u64::MAX - key % 3,
            1 => 7,
            _ => key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let mut index = Index::new(1 << 20, 600, true);
        let mut model = BTreeMap::new();
        let mut rng = StreamRng::new(1, "index");
        let mut script = Script::default();
        for _ in 0..20_000 {
            let key = rng.below(600);
            let same = |place: u64, _: &mut Script| place % 1000 == key;
            match rng.below(3) {
                0 => {
                    let place = key + 1000 * rng.below(9);
                    let before = index.insert(hash(key), place, &mut script, same);
                    assert_eq!(before, model.insert(key, place));
                }
                1 => {
                    let before = index.remove(hash(key), &mut script, same);
                    assert_eq!(before, model.remove(&key));
                }
                _ => {
                    let found = index.get(hash(key), &mut script, same);
                    assert_eq!(found, model.get(&key).copied());
                }
            }
            while script.next().is_some() {}
            assert_eq!(index.len(), model.len());
        }
    }
}
