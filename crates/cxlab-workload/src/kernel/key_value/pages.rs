//! Records in pages of 4 KiB, similar to Viper's VPages (Benson et al., VLDB 2021): a version
//! lock, a bitmap of free slots, then the slots. The page before the first one has the number
//! of pages in use.
//!
//! A record is made persistent before the bit of its slot is cleared, and the bit before the next
//! store. Whenever power fails, a record is therefore stored wholly or not at all.

use cxlab_engine::save_state;

use super::super::script::Script;
use crate::program::StepDependency;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// Offset of the bitmap in a page; the lock precedes it.
const BITMAP: u64 = 8;
/// Bits of a word of the bitmap.
const WORD_BITS: u64 = 64;

/// A slot of a page, by page number and slot number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageSlot {
    pub page: u32,
    pub slot: u16,
}

impl PageSlot {
    /// The place as a word of the index.
    pub fn word(self) -> u64 {
        u64::from(self.page) << 16 | u64::from(self.slot)
    }

    /// The place in a word of the index.
    pub fn from_word(word: u64) -> PageSlot {
        PageSlot {
            page: (word >> 16) as u32,
            slot: word as u16,
        }
    }
}

/// The layout of records of one size in a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub key: u64,
    pub value: u64,
    /// Number of slots of a page; 0 when a record does not fit.
    pub slots: u64,
}

impl Layout {
    /// Makes the layout with as many slots as fit, with a bit for each.
    pub fn new(key: u64, value: u64) -> Layout {
        let fits = |slots: &u64| header(*slots) + slots * (key + value) <= PAGE;
        let most = (PAGE / (key + value).max(1)).min(PAGE);
        let slots = (1..=most).rev().find(fits).unwrap_or(0);
        Layout { key, value, slots }
    }

    fn record(&self) -> u64 {
        self.key + self.value
    }

    /// Number of pages for this many records, including the page with the number of pages.
    pub fn pages(&self, records: u64) -> u64 {
        1 + records.div_ceil(self.slots)
    }

    fn words(&self) -> u64 {
        self.slots.div_ceil(WORD_BITS)
    }
}

/// Bytes of a page before the first slot.
fn header(slots: u64) -> u64 {
    BITMAP + slots.div_ceil(WORD_BITS) * 8
}

/// The pages of one core's store, with their contents.
pub(super) struct Pages {
    first: u64,
    layout: Layout,
    bytes: Vec<u8>,
}

save_state!(Pages {
    sized: bytes;
    built: first, layout;
});

impl Pages {
    /// Makes pages for this many records at an address.
    pub fn new(first: u64, layout: Layout, records: u64) -> Pages {
        Pages {
            first,
            layout,
            bytes: vec![0; (layout.pages(records) * PAGE) as usize],
        }
    }

    /// Number of pages in use, without the page that has this number.
    pub fn used(&self) -> u32 {
        self.word(0) as u32
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at as usize..at as usize + 8]);
        u64::from_le_bytes(word)
    }

    fn set_word(&mut self, at: u64, word: u64) {
        self.bytes[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// Offset of a page in the bytes; page 0 follows the page with the number of pages.
    fn offset(page: u32) -> u64 {
        (u64::from(page) + 1) * PAGE
    }

    fn record(&self, place: PageSlot) -> u64 {
        let slot = u64::from(place.slot) * self.layout.record();
        Pages::offset(place.page) + header(self.layout.slots) + slot
    }

    /// The bytes of a slot.
    pub fn bytes_of(&self, place: PageSlot) -> &[u8] {
        let at = self.record(place) as usize;
        &self.bytes[at..at + self.layout.record() as usize]
    }

    /// Initialises the next unused page and returns its number.
    pub fn begin(&mut self, script: &mut Script) -> u32 {
        let page = self.used();
        let at = Pages::offset(page);
        script.load(self.first, StepDependency::Nothing);
        script.store(self.first + at, StepDependency::Previous);
        for word in 0..self.layout.words() {
            let bits = (self.layout.slots - word * WORD_BITS).min(WORD_BITS);
            self.set_word(at + BITMAP + word * 8, u64::MAX >> (WORD_BITS - bits));
            script.store(self.first + at + BITMAP + word * 8, StepDependency::Nothing);
        }
        script.flush(self.first + at);
        script.fence();
        self.set_word(0, u64::from(page) + 1);
        script.persist(self.first, 8, StepDependency::Nothing);
        script.fence();
        page
    }

    /// Takes the lock of a page by making its version odd.
    pub fn lock(&mut self, page: u32, after: StepDependency, script: &mut Script) {
        let at = Pages::offset(page);
        script.atomic(self.first + at, after);
        self.bytes[at as usize] |= 1;
    }

    /// Releases the lock of a page by the next even version.
    pub fn unlock(&mut self, page: u32, script: &mut Script) {
        let at = Pages::offset(page);
        script.load(self.first + at, StepDependency::Nothing);
        script.store(self.first + at, StepDependency::Previous);
        self.bytes[at as usize] = self.bytes[at as usize].wrapping_add(1);
    }

    /// The first free slot of a page; `None` if the page is full.
    pub fn free_slot(&self, page: u32, script: &mut Script) -> Option<PageSlot> {
        for word in 0..self.layout.words() {
            let at = Pages::offset(page) + BITMAP + word * 8;
            script.load(self.first + at, StepDependency::Nothing);
            let bits = self.word(at);
            if bits != 0 {
                let slot = (word * WORD_BITS + u64::from(bits.trailing_zeros())) as u16;
                return Some(PageSlot { page, slot });
            }
        }
        None
    }

    /// Whether a slot has a valid record, by its bit.
    pub fn holds(&self, place: PageSlot) -> bool {
        let (at, bit) = self.bit(place);
        self.word(at) & bit == 0
    }

    fn bit(&self, place: PageSlot) -> (u64, u64) {
        let (word, bit) = (place.slot as u64 / WORD_BITS, place.slot as u64 % WORD_BITS);
        (Pages::offset(place.page) + BITMAP + word * 8, 1 << bit)
    }

    /// Writes a record to a free slot of a page whose bitmap has been loaded, then
    /// clears the slot's bit.
    pub fn write(&mut self, place: PageSlot, key: &[u8], value: &[u8], script: &mut Script) {
        let at = self.record(place) as usize;
        self.bytes[at..at + key.len()].copy_from_slice(key);
        self.bytes[at + key.len()..at + key.len() + value.len()].copy_from_slice(value);
        script.persist(
            self.first + at as u64,
            self.layout.record(),
            StepDependency::Previous,
        );
        script.fence();
        let (word, bit) = self.bit(place);
        self.set_word(word, self.word(word) & !bit);
        script.persist(self.first + word, 8, StepDependency::Nothing);
        script.fence();
    }

    /// Sets the bit of a slot, and returns whether the page had no free slot before.
    pub fn free(&mut self, place: PageSlot, script: &mut Script) -> bool {
        let full = (0..self.layout.words())
            .all(|word| self.word(Pages::offset(place.page) + BITMAP + word * 8) == 0);
        let (word, bit) = self.bit(place);
        self.set_word(word, self.word(word) | bit);
        script.load(self.first + word, StepDependency::Nothing);
        script.persist(self.first + word, 8, StepDependency::Previous);
        script.fence();
        full
    }

    /// Loads the key of a record and compares it with `key`.
    pub fn has_key(&self, place: PageSlot, key: &[u8], script: &mut Script) -> bool {
        let at = self.record(place);
        script.load_range(self.first + at, self.layout.key, StepDependency::Previous);
        self.bytes_of(place).starts_with(key)
    }

    /// Reads a value without the lock, as Viper does: the version is loaded before and after, and
    /// must be the same.
    pub fn read(&self, place: PageSlot, script: &mut Script) -> &[u8] {
        let version = self.first + Pages::offset(place.page);
        let at = self.first + self.record(place) + self.layout.key;
        script.load(version, StepDependency::Previous);
        script.load_range(at, self.layout.value, StepDependency::Nothing);
        script.load(version, StepDependency::Previous);
        &self.bytes_of(place)[self.layout.key as usize..]
    }

    /// Overwrites the first bytes of a value in place.
    pub fn overwrite(&mut self, place: PageSlot, bytes: &[u8], script: &mut Script) {
        let at = self.record(place) + self.layout.key;
        self.bytes[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        script.load_range(self.first + at, bytes.len() as u64, StepDependency::Nothing);
        script.persist(
            self.first + at,
            bytes.len() as u64,
            StepDependency::Previous,
        );
        script.fence();
    }
}
