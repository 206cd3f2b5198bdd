//! Virtual addresses and pages.

use cxlab_engine::units::Bytes;
use serde::{Deserialize, Serialize};

/// End of the user addresses: the lower half of 48-bit canonical addresses (four-level paging;
/// Intel SDM, volume 3A, section 4.5).
pub const USER_END: u64 = 1 << 47;

/// A virtual address of a process, in bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct VirtAddr(pub u64);

impl VirtAddr {
    /// First address of the page of this size that contains the address.
    #[inline]
    pub const fn page_start(self, size: PageSize) -> VirtAddr {
        VirtAddr(self.0 & !(size.bytes() - 1))
    }

    /// Offset of the address in its page of this size, in bytes.
    #[inline]
    pub const fn offset_in(self, size: PageSize) -> u64 {
        self.0 & (size.bytes() - 1)
    }
}

/// The number of a process in translation requests (PCIe: PASID, 20 bits).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Pasid(pub u32);

impl Pasid {
    /// One more than the greatest number (PCIe 6.0, section 6.20).
    pub const END: u32 = 1 << 20;
}

/// The modelled page sizes. Pages of 1 GiB are left out.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum PageSize {
    /// A page of 4 KiB.
    #[default]
    Small,
    /// A page of 2 MiB.
    Large,
}

impl PageSize {
    /// Both sizes, the smaller first.
    pub const ALL: [PageSize; 2] = [PageSize::Small, PageSize::Large];

    /// Size of a page in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        1 << self.bits()
    }

    /// Number of address bits within a page.
    #[inline]
    pub const fn bits(self) -> u32 {
        match self {
            PageSize::Small => 12,
            PageSize::Large => 21,
        }
    }

    /// Size of a page as a quantity.
    pub const fn size(self) -> Bytes {
        Bytes(self.bytes())
    }
}

/// A page of one process.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Page {
    /// The process that the page belongs to.
    pub pasid: Pasid,
    /// First address of the page, a multiple of its size.
    pub start: VirtAddr,
    /// Size of the page.
    pub size: PageSize,
}

impl Page {
    /// The page of this size that contains an address.
    pub const fn around(pasid: Pasid, address: VirtAddr, size: PageSize) -> Page {
        Page {
            pasid,
            start: address.page_start(size),
            size,
        }
    }

    /// First address after the page.
    pub const fn end(self) -> u64 {
        self.start.0 + self.size.bytes()
    }
}

/// What an access does to a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum PageAccess {
    /// Loads, and device reads.
    Read,
    /// Stores, atomics, and device writes.
    Write,
}
