//! One entry of a page table, bit for bit as x86-64 processors read it (Intel SDM, volume 3A,
//! tables 4-15 to 4-20).

use cxlab_engine::units::Hpa;
use serde::{Deserialize, Serialize};

use crate::address::PageSize;

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
/// In an entry of the page directory: the entry maps a page of 2 MiB, not a table.
const LARGE: u64 = 1 << 7;
/// Ignored by processors: the page is being moved, and the entry keeps its frame (Linux has a swap
/// entry of type migration).
const MOVING: u64 = 1 << 9;
/// Ignored by processors: the next access must fault (Linux has PROT_NONE entries for NUMA hints).
const SAMPLED: u64 = 1 << 10;
/// Bits 51:12, the physical address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// A page table entry.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct PageTableEntry(pub u64);

impl PageTableEntry {
    /// An empty entry.
    pub const NONE: PageTableEntry = PageTableEntry(0);

    /// An entry that refers to a table.
    pub const fn table(frame: Hpa) -> PageTableEntry {
        PageTableEntry(frame.0 & ADDRESS | PRESENT | WRITABLE | USER | ACCESSED)
    }

    /// An entry that maps a page.
    pub const fn page(frame: Hpa, size: PageSize, writable: bool) -> PageTableEntry {
        let large = match size {
            PageSize::Small => 0,
            PageSize::Large => LARGE,
        };
        PageTableEntry(frame.0 & ADDRESS | PRESENT | USER | large).with(WRITABLE, writable)
    }

    const fn with(self, bit: u64, on: bool) -> PageTableEntry {
        PageTableEntry(if on { self.0 | bit } else { self.0 & !bit })
    }

    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Whether processors and devices may use the entry.
    pub const fn is_present(self) -> bool {
        self.has(PRESENT)
    }

    /// Whether the page is being moved: the entry is not present, and keeps the frame.
    pub const fn is_moving(self) -> bool {
        self.has(MOVING)
    }

    /// Whether the next access must fault: the entry is not present, and keeps the frame.
    pub const fn is_sampled(self) -> bool {
        self.has(SAMPLED)
    }

    /// Whether the entry is empty, also for the operating system.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether an entry of the page directory maps 2 MiB.
    pub const fn is_large(self) -> bool {
        self.has(LARGE)
    }

    /// Whether the entry grants write permission.
    pub const fn is_writable(self) -> bool {
        self.has(WRITABLE)
    }

    /// Whether the page was used since the accessed bit was cleared.
    pub const fn is_accessed(self) -> bool {
        self.has(ACCESSED)
    }

    /// Whether the page was written since the dirty bit was cleared.
    pub const fn is_dirty(self) -> bool {
        self.has(DIRTY)
    }

    /// Physical address of the frame or of the table.
    pub const fn frame(self) -> Hpa {
        Hpa(self.0 & ADDRESS)
    }

    pub(super) const fn with_accessed(self, on: bool) -> PageTableEntry {
        self.with(ACCESSED, on)
    }

    pub(super) const fn with_dirty(self, on: bool) -> PageTableEntry {
        self.with(DIRTY, on)
    }

    pub(super) const fn with_moving(self, on: bool) -> PageTableEntry {
        self.with(MOVING, on)
            .with(PRESENT, !on)
            .with(SAMPLED, false)
    }

    pub(super) const fn with_sampled(self, on: bool) -> PageTableEntry {
        self.with(SAMPLED, on).with(PRESENT, !on)
    }

    pub(super) const fn with_frame(self, frame: Hpa) -> PageTableEntry {
        PageTableEntry(self.0 & !ADDRESS | frame.0 & ADDRESS)
    }
}
