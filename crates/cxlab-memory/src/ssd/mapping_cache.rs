//! The pages of the mapping in the drive's DRAM, with LRU eviction.
//!
//! A page is found by its number, so the cache needs no hash table. An absent page is either
//! being read from flash, with a list of requests that wait for it, or not requested. A change to
//! an absent page is kept with the blocks' own lists of their contents, and is applied when the
//! page is read.

use cxlab_engine::list::{Link, Linked, List, NONE};
use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// Set if the rest of the word is a slot. Otherwise the word is 0 for an absent page, or one more
/// than the head of the list of waiting requests.
const PRESENT: u32 = 1 << 31;
/// The page is being read, and no request waits for it.
const UNWAITED: u32 = PRESENT - 1;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct CachedMappingPage {
    page: u32,
    dirty: bool,
    link: Link,
}

impl Linked for CachedMappingPage {
    #[inline]
    fn link(&self) -> &Link {
        &self.link
    }

    #[inline]
    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The result of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MappingLookup {
    Hit,
    /// The page is being read; the value is the head of the list of waiting requests.
    Reading(u32),
    Miss,
}

pub(super) struct MappingCache {
    /// Most slots; `None` if the whole mapping is in DRAM.
    capacity: Option<u32>,
    /// The word of each translation page.
    directory: Vec<u32>,
    slots: Vec<CachedMappingPage>,
    /// The slots in use, the least recently used first.
    used: List,
    /// Bit mask of the pages that were changed while they were absent.
    changed: Vec<u64>,
    pub hits: u64,
    pub misses: u64,
}

save_state!(MappingCache {
    values: slots, used, hits, misses;
    sized: directory, changed;
    built: capacity;
});

impl MappingCache {
    pub fn new(pages: u32, capacity: Option<u32>) -> MappingCache {
        let whole = capacity.is_none_or(|capacity| capacity >= pages);
        MappingCache {
            capacity: if whole { None } else { capacity },
            directory: if whole {
                Vec::new()
            } else {
                vec![0; pages as usize]
            },
            slots: Vec::new(),
            used: List::EMPTY,
            changed: if whole {
                Vec::new()
            } else {
                vec![0; (pages as usize).div_ceil(64)]
            },
            hits: 0,
            misses: 0,
        }
    }

    /// Whether the whole mapping is in DRAM.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.capacity.is_none()
    }

    /// Looks up a page, and makes it the most recently used.
    #[inline]
    pub fn look(&mut self, page: u32) -> MappingLookup {
        if self.is_whole() {
            self.hits += 1;
            return MappingLookup::Hit;
        }
        let word = self.directory[page as usize];
        if word & PRESENT != 0 {
            self.hits += 1;
            let slot = word & !PRESENT;
            if slot != self.used.last {
                self.used.remove(&mut self.slots, slot);
                self.used.push_back(&mut self.slots, slot);
            }
            return MappingLookup::Hit;
        }
        self.misses += 1;
        match word {
            0 => MappingLookup::Miss,
            UNWAITED => MappingLookup::Reading(NONE),
            head => MappingLookup::Reading(head - 1),
        }
    }

    /// Marks the page as being read, with `head` as the list of waiting requests.
    pub fn wait(&mut self, page: u32, head: u32) {
        self.directory[page as usize] = if head == NONE { UNWAITED } else { head + 1 };
    }

    /// Marks the page as dirty, now or when it is read, because one of its entries changes.
    pub fn change(&mut self, page: u32) -> MappingLookup {
        if self.is_whole() {
            return MappingLookup::Hit;
        }
        let word = self.directory[page as usize];
        if word & PRESENT != 0 {
            self.slots[(word & !PRESENT) as usize].dirty = true;
            return MappingLookup::Hit;
        }
        self.changed[page as usize / 64] |= 1 << (page % 64);
        match word {
            0 => MappingLookup::Miss,
            UNWAITED => MappingLookup::Reading(NONE),
            head => MappingLookup::Reading(head - 1),
        }
    }

    /// Inserts a page that was read. Returns the list of waiting requests, and the evicted page
    /// if it was dirty.
    pub fn arrive(&mut self, page: u32) -> (u32, Option<u32>) {
        let head = match self.directory[page as usize] {
            UNWAITED => NONE,
            head => head - 1,
        };
        let (word, bit) = (page as usize / 64, 1u64 << (page % 64));
        let dirty = self.changed[word] & bit != 0;
        self.changed[word] &= !bit;
        let mut written = None;
        let fresh = CachedMappingPage {
            page,
            dirty,
            link: Link::NONE,
        };
        let full = self
            .capacity
            .is_some_and(|capacity| self.slots.len() as u32 >= capacity);
        let slot = if full {
            let slot = self.used.first;
            let old = self.slots[slot as usize];
            self.used.remove(&mut self.slots, slot);
            self.directory[old.page as usize] = 0;
            written = old.dirty.then_some(old.page);
            self.slots[slot as usize] = fresh;
            slot
        } else {
            self.slots.push(fresh);
            self.slots.len() as u32 - 1
        };
        self.used.push_back(&mut self.slots, slot);
        self.directory[page as usize] = slot | PRESENT;
        (head, written)
    }

    /// Empties the cache, and returns the pages whose copy in flash is out of date.
    pub fn drain_dirty(&mut self) -> Vec<u32> {
        let mut dirty = Vec::new();
        let mut at = self.used.first;
        while at != NONE {
            let slot = self.slots[at as usize];
            if slot.dirty {
                dirty.push(slot.page);
            }
            at = slot.link.after;
        }
        let pages = 0..self.directory.len() as u32;
        dirty
            .extend(pages.filter(|page| self.changed[*page as usize / 64] >> (page % 64) & 1 != 0));
        self.changed.fill(0);
        self.directory.fill(0);
        self.slots.clear();
        self.used = List::EMPTY;
        dirty
    }
}
