//! A map from 4 KiB page numbers to one 64-bit word each: open addressing with linear probing in a
//! flat array, 16 bytes a slot, at most 3/4 full. Results never depend on the order of the slots.

/// Page size of the compact address mapping and of the footprint count, in bytes.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Lines in a page.
pub(crate) const PAGE_LINES: u64 = PAGE_BYTES / cxlab_engine::units::LINE_BYTES;

/// Marks an empty slot: page numbers are less than 2^52.
const EMPTY: u64 = u64::MAX;

/// A hash map from page numbers to 64-bit words.
#[derive(Clone, Debug)]
pub(crate) struct PageMap {
    slots: Vec<Slot>,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u64,
    word: u64,
}

const FREE: Slot = Slot {
    page: EMPTY,
    word: 0,
};

/// Spreads a page number over all 64 bits (the finalizer of SplitMix64).
#[inline]
pub(crate) fn spread(page: u64) -> u64 {
    let z = (page ^ (page >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Default for PageMap {
    fn default() -> PageMap {
        PageMap {
            slots: vec![FREE; 64],
            len: 0,
        }
    }
}

impl PageMap {
    /// The number of pages in the map.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The word of a page; `None` if the page is not in the map.
    #[inline]
    pub fn get(&self, page: u64) -> Option<u64> {
        let slot = self.slots[self.slot(page)];
        (slot.page == page).then_some(slot.word)
    }

    /// The word of a page; a page that is not in the map is added with the word `first`.
    #[inline]
    pub fn entry(&mut self, page: u64, first: u64) -> &mut u64 {
        let mut slot = self.slot(page);
        if self.slots[slot].page == EMPTY {
            if (self.len + 1) * 4 > self.slots.len() as u64 * 3 {
                self.rebuild(self.slots.len() * 2, |_| true);
                slot = self.slot(page);
            }
            self.slots[slot] = Slot { page, word: first };
            self.len += 1;
        }
        &mut self.slots[slot].word
    }

    /// Removes the pages that `keep` rejects.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.rebuild(self.slots.len(), keep);
    }

    /// All words, in no particular order.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let full = self.slots.iter().filter(|slot| slot.page != EMPTY);
        full.map(|slot| slot.word)
    }

    /// The slot that holds the page, or the empty slot where it would be inserted.
    #[inline]
    fn slot(&self, page: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.home(page);
        while self.slots[slot].page != page && self.slots[slot].page != EMPTY {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// The slot at which the search for the page begins, by multiplicative hashing (Knuth, *The Art
    /// of Computer Programming*, vol. 3, section 6.4): the highest bits of the product with 2^64
    /// over the golden ratio.
    #[inline]
    fn home(&self, page: u64) -> usize {
        let bits = self.slots.len().trailing_zeros();
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    fn rebuild(&mut self, slots: usize, keep: impl Fn(u64) -> bool) {
        let before = std::mem::replace(&mut self.slots, vec![FREE; slots]);
        self.len = 0;
        for slot in before {
            if slot.page != EMPTY && keep(slot.page) {
                let at = self.slot(slot.page);
                self.slots[at] = slot;
                self.len += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_map_answers_as_an_ordered_map_does() {
        let mut map = PageMap::default();
        let mut oracle = BTreeMap::new();
        for index in 0..20_000u64 {
            let page = spread(index % 7_000) >> 40;
            *map.entry(page, index) += 1;
            *oracle.entry(page).or_insert(index) += 1;
        }
        assert_eq!(map.len(), oracle.len() as u64);
        let holds = |map: &PageMap, oracle: &BTreeMap<u64, u64>| {
            let mut pages = oracle.iter();
            pages.all(|(page, word)| map.get(*page) == Some(*word))
        };
        assert!(holds(&map, &oracle));
        assert_eq!(map.get(1 << 50), None);
        map.retain(|page| page % 2 == 0);
        oracle.retain(|page, _| page % 2 == 0);
        assert_eq!(map.words().count(), oracle.len());
        assert!(holds(&map, &oracle));
    }
}
