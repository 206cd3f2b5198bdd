//! The page table of one process: four levels as on x86-64, in simulated memory.
//!
//! Every table has a frame, so a walk yields the physical addresses that it reads. Pages have 4
//! KiB or 2 MiB, and present, writable, accessed and dirty bits. Processors and devices share the
//! page table (Cohet, section III-C1). Left out: five levels, pages of 1 GiB, execute permission,
//! global pages, protection keys.
//!
//! Invariants: [`PageTable::walk`] finds the same entry as [`PageTable::read`] of the walk's
//! addresses. A table below the root has at least one entry that is not empty.

mod entry;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::Hpa;

pub use entry::PageTableEntry;

use crate::address::{PageAccess, PageSize, USER_END, VirtAddr};
use crate::frames::Frame;

/// Number of levels: 4 is the root (PML4), 1 the last.
pub const LEVELS: usize = 4;

/// Number of entries in a table.
const ENTRIES: usize = 512;

/// Size of an entry in bytes.
pub const ENTRY_BYTES: u64 = 8;

/// Why a page cannot be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// The address is not a user address, or page and frame do not have the same alignment.
    Address,
    /// A page is mapped at the address already.
    Occupied,
    /// Exactly this number of frames for tables is needed.
    Tables(usize),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Address => f.write_str("not an aligned user address"),
            MapError::Occupied => f.write_str("something is mapped there"),
            MapError::Tables(count) => write!(f, "exactly {count} frames for tables are needed"),
        }
    }
}

impl std::error::Error for MapError {}

/// A page that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedPage {
    /// Frame of the page.
    pub frame: Frame,
    /// The entry that maps the page.
    pub entry: PageTableEntry,
}

/// Result of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkResult {
    /// The walk ends at a page.
    Present(MappedPage),
    /// The walk ends at an entry that is not present.
    NotPresent(PageTableEntry),
}

/// A walk: the entries that it reads, and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageWalk {
    steps: [Hpa; LEVELS],
    count: u8,
    /// Result of the walk.
    pub leaf: WalkResult,
}

impl PageWalk {
    /// Addresses of the entries that the walk reads, from the root on: 8 bytes each, and each read
    /// depends on the one before. A walk has 4 reads for a page of 4 KiB, 3 for a page of 2 MiB.
    pub fn steps(&self) -> &[Hpa] {
        &self.steps[..usize::from(self.count)]
    }
}

/// A page that was unmapped, and the tables that became empty. Their frames belong to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnmappedPage {
    /// The page that was mapped, present or being moved.
    pub mapping: MappedPage,
    /// Frames of the empty tables, lowest level first.
    pub tables: [Option<Hpa>; LEVELS - 1],
}

struct Table {
    frame: Hpa,
    entries: Box<[PageTableEntry; ENTRIES]>,
    /// Number of the table that each entry refers to.
    children: Option<Box<[u32; ENTRIES]>>,
    used: u16,
}

impl Table {
    fn new(frame: Hpa, level: usize) -> Table {
        Table {
            frame,
            entries: Box::new([PageTableEntry::NONE; ENTRIES]),
            children: (level > 1).then(|| Box::new([0; ENTRIES])),
            used: 0,
        }
    }

    fn child(&self, index: usize) -> Option<usize> {
        let entry = self.entries[index];
        let leads_on = !entry.is_none() && !entry.is_large();
        let children = self.children.as_ref().filter(|_| leads_on)?;
        Some(children[index] as usize)
    }
}

/// The page table of a process.
pub struct PageTable {
    /// All tables; the root is the first.
    tables: Vec<Table>,
    unused: Vec<u32>,
    by_frame: BTreeMap<u64, u32>,
}

/// The saved state of a table.
type SavedTable = (Hpa, Vec<PageTableEntry>, Option<Vec<u32>>, u16);

impl SaveState for PageTable {
    fn save(&self, out: &mut StateWriter) {
        let PageTable {
            tables,
            unused,
            by_frame,
        } = self;
        let saved = tables.iter().map(|table| {
            let Table {
                frame,
                entries,
                children,
                used,
            } = table;
            let children = children.as_ref().map(|children| children.to_vec());
            (*frame, entries.to_vec(), children, *used)
        });
        let saved: Vec<SavedTable> = saved.collect();
        out.value("tables", &(saved, unused, by_frame));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let saved: Vec<SavedTable>;
        (saved, self.unused, self.by_frame) = from.value("tables")?;
        let whole = |(frame, entries, children, used): SavedTable| {
            Ok(Table {
                frame,
                entries: full(entries)?,
                children: children.map(full).transpose()?,
                used,
            })
        };
        self.tables = saved.into_iter().map(whole).collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// Checks that a list has as many entries as a table.
fn full<T>(list: Vec<T>) -> Result<Box<[T; ENTRIES]>, StateError> {
    let length = list.len();
    let list = list.into_boxed_slice().try_into();
    list.map_err(|_| StateError::of_length("tables", length, ENTRIES))
}

/// Index of an address in a table of a level.
#[inline]
const fn index(address: VirtAddr, level: usize) -> usize {
    (address.0 >> (12 + 9 * (level - 1))) as usize & (ENTRIES - 1)
}

/// Level whose entries map pages of a size.
const fn leaf_level(size: PageSize) -> usize {
    match size {
        PageSize::Small => 1,
        PageSize::Large => 2,
    }
}

/// Position of an entry.
#[derive(Clone, Copy)]
struct EntryPosition {
    table: usize,
    index: usize,
    level: usize,
}

impl PageTable {
    /// An empty page table with its root in this frame of 4 KiB.
    pub fn new(root: Hpa) -> PageTable {
        PageTable {
            tables: vec![Table::new(root, LEVELS)],
            unused: Vec::new(),
            by_frame: BTreeMap::from([(root.0, 0)]),
        }
    }

    /// Address of the root (CR3).
    pub fn root(&self) -> Hpa {
        self.tables[0].frame
    }

    /// Number of tables.
    pub fn table_count(&self) -> usize {
        self.by_frame.len()
    }

    /// Value of the entry at a physical address; `None` if no table contains the address.
    pub fn read(&self, address: Hpa) -> Option<u64> {
        let table = self.by_frame.get(&(address.0 & !0xfff))?;
        let entries = &self.tables[*table as usize].entries;
        Some(entries[(address.0 & 0xfff) as usize / ENTRY_BYTES as usize].0)
    }

    /// Walks to the page around an address, as a processor or an IOMMU does, without setting bits.
    pub fn walk(&self, address: VirtAddr) -> PageWalk {
        let mut steps = [Hpa::default(); LEVELS];
        let (mut table, mut count, mut level) = (0, 0, LEVELS);
        let (entry, size) = loop {
            let index = index(address, level);
            let here = &self.tables[table];
            steps[count] = Hpa(here.frame.0 + index as u64 * ENTRY_BYTES);
            count += 1;
            match here.child(index) {
                Some(child) => (table, level) = (child, level - 1),
                None if level == 1 => break (here.entries[index], PageSize::Small),
                None => break (here.entries[index], PageSize::Large),
            }
        };
        let leaf = if entry.is_present() && address.0 < USER_END {
            let base = entry.frame();
            let frame = Frame { base, size };
            WalkResult::Present(MappedPage { frame, entry })
        } else {
            WalkResult::NotPresent(entry)
        };
        PageWalk {
            steps,
            count: count as u8,
            leaf,
        }
    }

    /// The page that is mapped at an address, present or being moved.
    pub fn lookup(&self, address: VirtAddr) -> Option<MappedPage> {
        let place = self.find(address);
        let entry = self.entry(place);
        (!entry.is_none() && address.0 < USER_END).then(|| self.mapping(place))
    }

    fn find(&self, address: VirtAddr) -> EntryPosition {
        let (mut table, mut level) = (0, LEVELS);
        loop {
            let index = index(address, level);
            match self.tables[table].child(index) {
                Some(child) => (table, level) = (child, level - 1),
                None => {
                    return EntryPosition {
                        table,
                        index,
                        level,
                    };
                }
            }
        }
    }

    fn entry(&self, place: EntryPosition) -> PageTableEntry {
        self.tables[place.table].entries[place.index]
    }

    fn mapping(&self, place: EntryPosition) -> MappedPage {
        let entry = self.entry(place);
        let size = if place.level == 1 {
            PageSize::Small
        } else {
            PageSize::Large
        };
        let base = entry.frame();
        let frame = Frame { base, size };
        MappedPage { frame, entry }
    }

    fn set(&mut self, place: EntryPosition, entry: PageTableEntry) -> Hpa {
        let table = &mut self.tables[place.table];
        let old = std::mem::replace(&mut table.entries[place.index], entry);
        table.used = table.used + u16::from(!entry.is_none()) - u16::from(!old.is_none());
        Hpa(table.frame.0 + place.index as u64 * ENTRY_BYTES)
    }

    /// Number of frames of 4 KiB for tables that [`PageTable::map`] needs for a page of this size.
    pub fn tables_missing(&self, address: VirtAddr, size: PageSize) -> usize {
        self.find(address).level.saturating_sub(leaf_level(size))
    }

    /// Maps a page; `spare` are the frames of the missing tables.
    ///
    /// # Errors
    /// The address is wrong, a page is mapped there, or `spare` does not have the number of frames
    /// that [`PageTable::tables_missing`] returns. The page table is unchanged then.
    pub fn map(
        &mut self,
        address: VirtAddr,
        frame: Frame,
        writable: bool,
        spare: &[Hpa],
    ) -> Result<(), MapError> {
        let size = frame.size;
        let aligned = address.offset_in(size) == 0 && frame.base.0.is_multiple_of(size.bytes());
        if !aligned || address.0 >= USER_END {
            return Err(MapError::Address);
        }
        let mut place = self.find(address);
        if !self.entry(place).is_none() || place.level < leaf_level(size) {
            return Err(MapError::Occupied);
        }
        let missing = place.level - leaf_level(size);
        if spare.len() != missing {
            return Err(MapError::Tables(missing));
        }
        for &table in spare {
            place = self.grow(place, address, table);
        }
        self.set(place, PageTableEntry::page(frame.base, size, writable));
        Ok(())
    }

    /// Puts an empty table into an empty entry.
    fn grow(&mut self, place: EntryPosition, address: VirtAddr, frame: Hpa) -> EntryPosition {
        let level = place.level - 1;
        let table = Table::new(frame, level);
        let number = match self.unused.pop() {
            Some(number) => {
                self.tables[number as usize] = table;
                number
            }
            None => {
                self.tables.push(table);
                (self.tables.len() - 1) as u32
            }
        };
        self.by_frame.insert(frame.0, number);
        self.set(place, PageTableEntry::table(frame));
        if let Some(children) = &mut self.tables[place.table].children {
            children[place.index] = number;
        }
        EntryPosition {
            table: number as usize,
            index: index(address, level),
            level,
        }
    }

    /// Unmaps the page around an address.
    pub fn unmap(&mut self, address: VirtAddr) -> Option<UnmappedPage> {
        let mapping = self.lookup(address)?;
        let place = self.find(address);
        self.set(place, PageTableEntry::NONE);
        let mut tables = [None; LEVELS - 1];
        for empty in &mut tables {
            let Some(frame) = self.prune(address) else {
                break;
            };
            *empty = Some(frame);
        }
        Some(UnmappedPage { mapping, tables })
    }

    /// Removes the last table on the path to an address, if the table is empty.
    fn prune(&mut self, address: VirtAddr) -> Option<Hpa> {
        let (mut table, mut level) = (0, LEVELS);
        let mut parent = None;
        while let Some(child) = self.tables[table].child(index(address, level)) {
            let index = index(address, level);
            parent = Some(EntryPosition {
                table,
                index,
                level,
            });
            (table, level) = (child, level - 1);
        }
        let parent = parent.filter(|_| self.tables[table].used == 0)?;
        self.set(parent, PageTableEntry::NONE);
        let frame = self.tables[table].frame;
        self.by_frame.remove(&frame.0);
        self.unused.push(table as u32);
        Some(frame)
    }

    /// Changes the entry of the page around an address. Returns the address of the entry that was
    /// written, `None` if no page is mapped or the entry is unchanged.
    fn change(
        &mut self,
        address: VirtAddr,
        change: impl FnOnce(PageTableEntry) -> PageTableEntry,
    ) -> Option<Hpa> {
        self.lookup(address)?;
        let place = self.find(address);
        let entry = self.entry(place);
        let changed = change(entry);
        (changed != entry).then(|| self.set(place, changed))
    }

    /// Sets the accessed bit, and the dirty bit for a write, as a walk does before it completes.
    /// Returns the address of the entry if it had to be written.
    pub fn mark(&mut self, address: VirtAddr, access: PageAccess) -> Option<Hpa> {
        let dirty = access == PageAccess::Write;
        self.change(address, |entry| {
            if !entry.is_present() {
                return entry;
            }
            entry
                .with_accessed(true)
                .with_dirty(entry.is_dirty() || dirty)
        })
    }

    /// Clears the accessed bit, as the aging of pages does. True if the bit was set.
    pub fn clear_accessed(&mut self, address: VirtAddr) -> bool {
        self.change(address, |entry| entry.with_accessed(false))
            .is_some()
    }

    /// Begins to move a page: its entry is no longer present. Returns the address of the entry.
    pub fn suspend(&mut self, address: VirtAddr) -> Option<Hpa> {
        self.change(address, |entry| entry.with_moving(true))
    }

    /// Ends the move of a suspended page: it is present at this frame, which has the size of the
    /// page. Returns the address of the entry, `None` if the page was not suspended.
    pub fn resume(&mut self, address: VirtAddr, frame: Hpa) -> Option<Hpa> {
        self.change(address, |entry| {
            if !entry.is_moving() {
                return entry;
            }
            entry.with_moving(false).with_frame(frame)
        })
    }

    /// Makes the next access to a page fault: its entry is not present until
    /// [`PageTable::end_sample`]. Returns the address of the entry, `None` if the
    /// page is not present.
    pub fn sample(&mut self, address: VirtAddr) -> Option<Hpa> {
        self.change(address, |entry| {
            if !entry.is_present() {
                return entry;
            }
            entry.with_sampled(true)
        })
    }

    /// Makes a sampled page present again. Returns the address of the entry, `None` if the
    /// page was not sampled.
    pub fn end_sample(&mut self, address: VirtAddr) -> Option<Hpa> {
        self.change(address, |entry| {
            if !entry.is_sampled() {
                return entry;
            }
            entry.with_sampled(false)
        })
    }
}
