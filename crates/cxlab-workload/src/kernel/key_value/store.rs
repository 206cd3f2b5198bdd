//! One core's store: put, get, update and remove, with the steps of Viper's client.

use cxlab_engine::save_state;
use cxlab_engine::units::LINE_BYTES;

use super::super::script::Script;
use super::index::Index;
use super::pages::{Layout, PAGE, PageSlot, Pages};
use super::record::hash;
use crate::program::StepDependency;

/// Bytes of an entry in the list of pages with free slots.
const ENTRY: u64 = 4;

/// The list of full pages that got a free slot again: a ring after the index; a line before the
/// ring has its ends.
struct FreeList {
    first: u64,
    ring: Vec<u32>,
    head: usize,
    len: usize,
}

save_state!(FreeList {
    values: head, len;
    sized: ring;
    built: first;
});

impl FreeList {
    fn bytes(pages: u64) -> u64 {
        LINE_BYTES + (pages * ENTRY).next_multiple_of(LINE_BYTES)
    }

    fn entry(&self, place: usize) -> u64 {
        self.first + LINE_BYTES + place as u64 * ENTRY
    }

    /// Adds a page at the end of the list.
    fn push(&mut self, page: u32, script: &mut Script) {
        assert!(self.len < self.ring.len(), "a page is in the list once");
        let place = (self.head + self.len) % self.ring.len();
        script.load(self.first + 8, StepDependency::Nothing);
        script.store(self.entry(place), StepDependency::Previous);
        script.store(self.first + 8, StepDependency::Nothing);
        self.ring[place] = page;
        self.len += 1;
    }

    /// Removes and returns the oldest page of the list.
    fn pop(&mut self, script: &mut Script) -> Option<u32> {
        script.load(self.first, StepDependency::Nothing);
        script.load(self.first + 8, StepDependency::Nothing);
        if self.len == 0 {
            return None;
        }
        let page = self.ring[self.head];
        script.load(self.entry(self.head), StepDependency::Previous);
        script.store(self.first, StepDependency::Nothing);
        self.head = (self.head + 1) % self.ring.len();
        self.len -= 1;
        Some(page)
    }
}

/// The size of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub layout: Layout,
    /// Most keys that the store has at any time.
    pub keys: u64,
}

impl Size {
    /// Most records at any time: an update out of place stores a key twice.
    fn records(&self) -> u64 {
        self.keys + 1
    }

    /// Bytes of the pages.
    pub fn data(&self) -> u64 {
        self.layout.pages(self.records()) * PAGE
    }

    /// Bytes of the index and of the list of pages.
    pub fn index(&self) -> u64 {
        Index::bytes(self.keys) + FreeList::bytes(self.layout.pages(self.records()))
    }
}

/// A key-value store of one core.
pub(super) struct Store {
    pub script: Script,
    pages: Pages,
    index: Index,
    free: FreeList,
    /// The page into which records are put; `None` before the first record.
    current: Option<u32>,
    /// Core cycles of computing of one operation.
    cycles: u32,
}

save_state!(Store {
    values: current;
    states: script, pages, index, free;
    built: cycles;
});

/// Compares the key of the record at a place, which is a word of the index, with a key.
fn is_key(pages: &Pages, key: &[u8]) -> impl Fn(u64, &mut Script) -> bool {
    move |word, script| pages.has_key(PageSlot::from_word(word), key, script)
}

impl Store {
    /// Makes an empty store with its pages at address `data` and its index at address `index`.
    pub fn new(size: &Size, data: u64, index: u64, persistent: bool, cycles: u32) -> Store {
        let pages = size.layout.pages(size.records());
        Store {
            script: Script::default(),
            pages: Pages::new(data, size.layout, size.records()),
            index: Index::new(index, size.keys, persistent),
            free: FreeList {
                first: index + Index::bytes(size.keys),
                ring: vec![0; pages as usize],
                head: 0,
                len: 0,
            },
            current: None,
            cycles,
        }
    }

    /// Chooses the next page for new records.
    fn next_page(&mut self) -> u32 {
        let page = match self.free.pop(&mut self.script) {
            Some(page) => page,
            None => self.pages.begin(&mut self.script),
        };
        self.current = Some(page);
        page
    }

    /// Locks a page with a free slot and returns the slot.
    fn slot(&mut self) -> PageSlot {
        let mut page = match self.current {
            Some(page) => page,
            None => self.next_page(),
        };
        loop {
            self.pages
                .lock(page, StepDependency::Nothing, &mut self.script);
            if let Some(place) = self.pages.free_slot(page, &mut self.script) {
                return place;
            }
            self.pages.unlock(page, &mut self.script);
            page = self.next_page();
        }
    }

    /// Stores a record in a new slot. Returns true when the key is new.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.script.compute(self.cycles);
        let place = self.slot();
        self.pages.write(place, key, value, &mut self.script);
        let same = is_key(&self.pages, key);
        let (word, script) = (place.word(), &mut self.script);
        let before = self.index.insert(hash(key), word, script, same);
        if let Some(word) = before {
            self.free_slot(PageSlot::from_word(word), place.page);
        }
        self.pages.unlock(place.page, &mut self.script);
        self.script.end();
        before.is_none()
    }

    /// Frees a slot while the lock of page `held` is taken, which may be the slot's own page.
    fn free_slot(&mut self, place: PageSlot, held: u32) {
        let script = &mut self.script;
        if place.page == held {
            self.pages.free(place, script);
            return;
        }
        self.pages.lock(place.page, StepDependency::Nothing, script);
        self.release(place);
        self.pages.unlock(place.page, &mut self.script);
    }

    /// Frees a slot of a locked page, and adds the page to the list if the page was full.
    fn release(&mut self, place: PageSlot) {
        let full = self.pages.free(place, &mut self.script);
        if full && self.current != Some(place.page) {
            self.free.push(place.page, &mut self.script);
        }
    }

    /// Finds the record of a key.
    fn find(&mut self, key: &[u8]) -> Option<PageSlot> {
        let same = is_key(&self.pages, key);
        let word = self.index.get(hash(key), &mut self.script, same)?;
        Some(PageSlot::from_word(word))
    }

    /// Reads the value of a key; `None` if there is no such key.
    pub fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        self.script.compute(self.cycles);
        let place = self.find(key);
        let value = place.map(|place| self.pages.read(place, &mut self.script));
        self.script.end();
        value
    }

    /// Overwrites the first bytes of a value in place. Returns false when there is no such key.
    pub fn update(&mut self, key: &[u8], bytes: &[u8]) -> bool {
        self.script.compute(self.cycles);
        let place = self.find(key);
        if let Some(place) = place {
            let script = &mut self.script;
            self.pages
                .lock(place.page, StepDependency::Previous, script);
            self.pages.overwrite(place, bytes, script);
            self.pages.unlock(place.page, script);
        }
        self.script.end();
        place.is_some()
    }

    /// Removes a record. Returns false when there is no such key.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.script.compute(self.cycles);
        let place = self.find(key);
        if let Some(place) = place {
            let script = &mut self.script;
            self.pages
                .lock(place.page, StepDependency::Previous, script);
            self.release(place);
            let same = is_key(&self.pages, key);
            self.index.remove(hash(key), &mut self.script, same);
            self.pages.unlock(place.page, &mut self.script);
        }
        self.script.end();
        place.is_some()
    }

    /// All records that a recovery would find, found in the same way: by the number of
    /// pages and the bitmaps.
    pub fn records(&self, layout: &Layout) -> impl Iterator<Item = (&[u8], &[u8])> {
        let slots = layout.slots as u16;
        let (pages, key) = (&self.pages, layout.key as usize);
        (0..pages.used())
            .flat_map(move |page| (0..slots).map(move |slot| PageSlot { page, slot }))
            .filter(|place| pages.holds(*place))
            .map(move |place| pages.bytes_of(place).split_at(key))
    }

    /// Number of keys in the index.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the index has the place of a key's record. Adds no steps to the program.
    pub fn finds(&self, key: &[u8]) -> bool {
        let mut unused = Script::default();
        let same = |word, script: &mut Script| {
            self.pages.has_key(PageSlot::from_word(word), key, script)
                && self.pages.holds(PageSlot::from_word(word))
        };
        self.index.get(hash(key), &mut unused, same).is_some()
    }
}
