//! The address space of a process: mappings, one page table, first touch, and moving pages.
//!
//! `mmap` reserves addresses without memory, so that more can be reserved than there is (Linux: `vm.overcommit_memory`
//! 1). A page gets a frame when it is touched for the first time, by the placement policy of the process or of the
//! mapping. Left out: files, sharing between processes, copy on write, swap.
//!
//! Invariants: a page has a frame only within a mapping. The frames allocated and not freed are
//! those of the resident pages, of the tables, and of the pages being moved.

mod area;
mod moving;

#[cfg(test)]
mod tests;

use std::fmt;

use cxlab_engine::save_state;
use cxlab_engine::units::Hpa;

pub use area::AreaOptions;
pub use moving::{MoveError, MovingPage};

use crate::address::{Page, PageAccess, PageSize, Pasid, USER_END, VirtAddr};
use crate::frames::{AllocatedFrame, Frame, FrameAllocator, NodeId, NodePreference};
use crate::page_table::{MappedPage, PageTable, PageWalk, WalkResult};
use crate::policy::placement::{FirstTouch, Placement};
use area::{Area, Areas, Policies};
use serde::{Deserialize, Serialize};

/// Why an operation on memory fails. A process would be told of the first three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceError {
    /// No mapping at this address (`SIGSEGV`).
    Unmapped(VirtAddr),
    /// The mapping has no write permission (`SIGSEGV`).
    ReadOnly(VirtAddr),
    /// No allowed node has a frame (the process would be killed).
    OutOfMemory,
    /// No addresses are left, or the length is 0 or not a multiple of 4 KiB (`ENOMEM`, `EINVAL`).
    Length(u64),
    /// A page of the range is being moved; the operation can be repeated after the move.
    Moving(VirtAddr),
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceError::Unmapped(at) => write!(f, "no memory is mapped at {:#x}", at.0),
            SpaceError::ReadOnly(at) => write!(f, "memory at {:#x} may not be written", at.0),
            SpaceError::OutOfMemory => f.write_str("no allowed node has memory left"),
            SpaceError::Length(length) => {
                write!(
                    f,
                    "no range of {length} bytes: it must be a positive multiple of 4096 and fit"
                )
            }
            SpaceError::Moving(at) => write!(f, "the page at {:#x} is being moved", at.0),
        }
    }
}

impl std::error::Error for SpaceError {}

/// Result of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TouchResult {
    /// The page was present.
    Present(MappedPage),
    /// The page got a frame of this node: a page fault.
    Placed(MappedPage, NodeId),
    /// The page was sampled ([`AddressSpace::sample`]): a hint fault.
    Hinted(MappedPage),
}

/// Why a page is not present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AbsenceReason {
    Fault,
    Moving,
    Sampled,
}

/// The memory of a process.
pub struct AddressSpace {
    pasid: Pasid,
    home: NodeId,
    table: PageTable,
    areas: Areas,
    policies: Policies,
    moving: Vec<MovingPage>,
    resident: [u64; 2],
}

save_state!(AddressSpace {
    values: areas, moving, resident;
    states: table, policies;
    built: pasid, home;
});

impl AddressSpace {
    /// An empty address space. Its page table is stored near `home`, the node of the processor that runs the process.
    ///
    /// # Errors
    /// No memory for the root of the page table.
    pub fn new(
        pasid: Pasid,
        home: NodeId,
        policy: Placement,
        frames: &mut FrameAllocator,
    ) -> Result<AddressSpace, SpaceError> {
        let root = table_frame(frames, home).ok_or(SpaceError::OutOfMemory)?;
        Ok(AddressSpace {
            pasid,
            home,
            table: PageTable::new(root),
            areas: Areas::default(),
            policies: Policies::new(policy),
            moving: Vec::new(),
            resident: [0; 2],
        })
    }

    /// Number of the process.
    pub fn pasid(&self) -> Pasid {
        self.pasid
    }

    /// The page table, for walks.
    pub fn table(&self) -> &PageTable {
        &self.table
    }

    /// Bytes of all mappings.
    pub fn promised_bytes(&self) -> u64 {
        self.areas.bytes()
    }

    /// Bytes that have frames.
    pub fn resident_bytes(&self) -> u64 {
        let bytes = |size: PageSize| self.resident[size as usize] * size.bytes();
        PageSize::ALL.into_iter().map(bytes).sum()
    }

    /// Maps `length` bytes at a free address; pages get frames when they are touched. Without a
    /// policy of its own the mapping uses that of the process.
    ///
    /// # Errors
    /// A length that is 0, not a multiple of 4 KiB, or does not fit.
    pub fn mmap(
        &mut self,
        length: u64,
        options: AreaOptions,
        policy: Option<Placement>,
    ) -> Result<VirtAddr, SpaceError> {
        if length == 0 || !length.is_multiple_of(PageSize::Small.bytes()) {
            return Err(SpaceError::Length(length));
        }
        let large = PageSize::Large.bytes();
        let align = if options.pages == PageSize::Large && length >= large {
            large
        } else {
            PageSize::Small.bytes()
        };
        let start = self.areas.find_free(length, align);
        let start = start.ok_or(SpaceError::Length(length))?;
        Ok(self.promise(start, length, options, policy))
    }

    /// Maps `length` bytes from `start` on (`MAP_FIXED_NOREPLACE`); otherwise as [`AddressSpace::mmap`].
    ///
    /// # Errors
    /// A range that is not of whole pages, or of which a part is mapped already.
    pub fn mmap_at(
        &mut self,
        start: VirtAddr,
        length: u64,
        options: AreaOptions,
        policy: Option<Placement>,
    ) -> Result<VirtAddr, SpaceError> {
        let (from, end) = self.range(start, length)?;
        if !self.areas.is_free(from, end) {
            return Err(SpaceError::Length(length));
        }
        Ok(self.promise(from, length, options, policy))
    }

    fn promise(
        &mut self,
        start: u64,
        length: u64,
        options: AreaOptions,
        policy: Option<Placement>,
    ) -> VirtAddr {
        let policy = policy.map_or(0, |policy| self.policies.keep(policy));
        let area = Area {
            end: start + length,
            options,
            origin: start,
            policy,
        };
        self.areas.insert(start, area);
        VirtAddr(start)
    }

    fn range(&self, start: VirtAddr, length: u64) -> Result<(u64, u64), SpaceError> {
        let small = PageSize::Small.bytes();
        let end = start.0.checked_add(length).filter(|end| *end <= USER_END);
        let whole = start.0.is_multiple_of(small) && length.is_multiple_of(small) && length > 0;
        let end = end.filter(|_| whole).ok_or(SpaceError::Length(length))?;
        let touched = |page: &&MovingPage| page.page.start.0 < end && start.0 < page.page.end();
        match self.moving.iter().find(touched) {
            Some(moving) => Err(SpaceError::Moving(moving.page.start)),
            None => Ok((start.0, end)),
        }
    }

    /// Unmaps a range. The translations of its pages must be invalidated *before* the frames are
    /// reused. The pages and frames are therefore returned as [`ReleasedPages`], and [`ReleasedPages::free`]
    /// frees the frames after the invalidation.
    ///
    /// # Errors
    /// A range that is not of whole pages, cuts a page of 2 MiB, or has a page that is being moved.
    pub fn munmap(&mut self, start: VirtAddr, length: u64) -> Result<ReleasedPages, SpaceError> {
        let (start, end) = self.range(start, length)?;
        for edge in [start, end] {
            let page = self.page_at(VirtAddr(edge));
            if page.is_some_and(|page| page.start.0 != edge) {
                return Err(SpaceError::Length(length));
            }
        }
        let mut released = ReleasedPages::default();
        for page in self.resident_pages(start, end) {
            if let Some(unmapped) = self.table.unmap(page.start) {
                self.resident[page.size as usize] -= 1;
                released.pages.push(page);
                released.frames.push(unmapped.mapping.frame);
                let tables = unmapped.tables.into_iter().flatten();
                released.frames.extend(tables.map(small_frame));
            }
        }
        self.areas.remove(start, end);
        self.policies.retain(&self.areas);
        Ok(released)
    }

    /// The resident page that contains an address.
    fn page_at(&self, address: VirtAddr) -> Option<Page> {
        let mapping = self.table.lookup(address)?;
        Some(Page::around(self.pasid, address, mapping.frame.size))
    }

    /// Resident pages of a range, in ascending order; absent tables are skipped as a whole.
    fn resident_pages(&self, start: u64, end: u64) -> Vec<Page> {
        let mut pages = Vec::new();
        let mut at = start;
        while at < end {
            match self.page_at(VirtAddr(at)) {
                Some(page) => {
                    pages.push(page);
                    at = page.end();
                }
                None => {
                    // The entry at the end of the walk covers this many bytes.
                    let level = 5 - self.table.walk(VirtAddr(at)).steps().len();
                    let covers = 1u64 << (12 + 9 * (level - 1));
                    at = (at / covers + 1) * covers;
                }
            }
        }
        pages
    }

    /// Walks to an address, for an owner that times the walk.
    pub fn walk(&self, address: VirtAddr) -> PageWalk {
        self.table.walk(address)
    }

    /// Touches an address: finds its page or gives it a frame, and sets the accessed and dirty
    /// bits. `by` is the node of the processor or accelerator.
    ///
    /// # Errors
    /// No mapping, no permission, no memory, or the page is being moved.
    pub fn touch(
        &mut self,
        address: VirtAddr,
        access: PageAccess,
        by: NodeId,
        frames: &mut FrameAllocator,
    ) -> Result<TouchResult, SpaceError> {
        let touched = match self.present(address, access)? {
            Ok(mapping) => TouchResult::Present(mapping),
            Err(AbsenceReason::Moving) => return Err(SpaceError::Moving(address)),
            Err(AbsenceReason::Sampled) => {
                self.table.end_sample(address);
                return match self.touch(address, access, by, frames)? {
                    TouchResult::Present(mapping) => Ok(TouchResult::Hinted(mapping)),
                    other => Ok(other),
                };
            }
            Err(AbsenceReason::Fault) => {
                let node = self.fault(address, access, by, frames)?;
                match self.table.lookup(address) {
                    Some(mapping) => TouchResult::Placed(mapping, node),
                    None => return Err(SpaceError::Unmapped(address)),
                }
            }
        };
        self.table.mark(address, access);
        Ok(touched)
    }

    /// Records the use of a present page: sets its accessed bit, and its dirty bit for a write.
    pub fn mark(&mut self, address: VirtAddr, access: PageAccess) {
        self.table.mark(address, access);
    }

    fn present(
        &self,
        address: VirtAddr,
        access: PageAccess,
    ) -> Result<Result<MappedPage, AbsenceReason>, SpaceError> {
        match self.table.walk(address).leaf {
            WalkResult::Present(mapping) => {
                if access == PageAccess::Write && !mapping.entry.is_writable() {
                    return Err(SpaceError::ReadOnly(address));
                }
                Ok(Ok(mapping))
            }
            WalkResult::NotPresent(entry) if entry.is_moving() => Ok(Err(AbsenceReason::Moving)),
            WalkResult::NotPresent(entry) if entry.is_sampled() => Ok(Err(AbsenceReason::Sampled)),
            WalkResult::NotPresent(_) => Ok(Err(AbsenceReason::Fault)),
        }
    }

    /// Gives the page of an address a frame, and returns the frame's node.
    fn fault(
        &mut self,
        address: VirtAddr,
        access: PageAccess,
        by: NodeId,
        frames: &mut FrameAllocator,
    ) -> Result<NodeId, SpaceError> {
        let (start, area) = self
            .areas
            .of(address)
            .ok_or(SpaceError::Unmapped(address))?;
        let (options, origin, policy, end) = (area.options, area.origin, area.policy, area.end);
        if access == PageAccess::Write && !options.writable {
            return Err(SpaceError::ReadOnly(address));
        }
        let home = self.home;
        let place = |size: PageSize| FirstTouch {
            by,
            home,
            index: (address.0 - origin) / size.bytes(),
        };
        let large = options.pages == PageSize::Large && self.fits_large(address, start, end);
        let sizes = [PageSize::Large, PageSize::Small];
        let mut result = Err(SpaceError::OutOfMemory);
        for size in &sizes[usize::from(!large)..] {
            if let Some(preference) = self.policies.place(policy, place(*size)) {
                result = self.give(address, preference, *size, options, frames);
            }
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Whether the mapping contains the whole page of 2 MiB around the address, and that page is empty.
    fn fits_large(&self, address: VirtAddr, start: u64, end: u64) -> bool {
        let first = address.page_start(PageSize::Large);
        let within = first.0 >= start && first.0 + PageSize::Large.bytes() <= end;
        // A walk of four steps means that the table of small pages exists already.
        within && self.table.walk(first).steps().len() < 4
    }

    fn give(
        &mut self,
        address: VirtAddr,
        preference: NodePreference,
        size: PageSize,
        options: AreaOptions,
        frames: &mut FrameAllocator,
    ) -> Result<NodeId, SpaceError> {
        let start = address.page_start(size);
        let placed = frames.allocate(preference, size);
        let AllocatedFrame { frame, node } = placed.ok_or(SpaceError::OutOfMemory)?;
        let missing = self.table.tables_missing(start, size);
        let mut tables = Vec::with_capacity(missing);
        tables.extend((0..missing).map_while(|_| table_frame(frames, self.home)));
        if self
            .table
            .map(start, frame, options.writable, &tables)
            .is_err()
        {
            frames.free(frame);
            tables
                .into_iter()
                .for_each(|table| frames.free(small_frame(table)));
            return Err(SpaceError::OutOfMemory);
        }
        self.resident[size as usize] += 1;
        Ok(node)
    }

    /// Makes the next access to a page fault, for policies that sample. True if the page was
    /// present, in which case its cached translations must be invalidated.
    pub fn sample(&mut self, page: Page) -> bool {
        self.table.sample(page.start).is_some()
    }

    /// Ends the sampling of a page: the next access does not fault.
    pub fn end_sample(&mut self, page: Page) {
        self.table.end_sample(page.start);
    }

    /// Whether the page was used since the last call. The bit is cleared, so the page's cached
    /// translations should be invalidated if the next use must be detected.
    pub fn take_accessed(&mut self, page: Page) -> bool {
        self.table.clear_accessed(page.start)
    }

    /// All resident pages, in ascending order, each with its node.
    pub fn pages(&self, frames: &FrameAllocator) -> Vec<(Page, NodeId)> {
        let pages = self.resident_pages(0, USER_END);
        let node = |page: Page| {
            let mapping = self.table.lookup(page.start)?;
            Some((page, frames.node_of(mapping.frame.base)?))
        };
        pages.into_iter().filter_map(node).collect()
    }
}

/// Pages that were unmapped. Their frames may be reused when no translation of the pages is cached anywhere.
#[derive(Default, Serialize, Deserialize, Debug)]
#[must_use = "the frames are lost if they are not given back"]
pub struct ReleasedPages {
    /// The pages, in ascending order.
    pub pages: Vec<Page>,
    frames: Vec<Frame>,
}

impl ReleasedPages {
    /// Frees the frames. Only after every cached translation has been invalidated.
    pub fn free(self, frames: &mut FrameAllocator) {
        self.frames.into_iter().for_each(|frame| frames.free(frame));
    }
}

/// Allocates the frame of a table: near the processor that handles the fault, by distance, from all nodes.
fn table_frame(frames: &mut FrameAllocator, home: NodeId) -> Option<Hpa> {
    let allowed = frames.nodes();
    let preference = NodePreference {
        from: home,
        first: Default::default(),
        allowed,
    };
    let placed = frames.allocate(preference, PageSize::Small)?;
    Some(placed.frame.base)
}

fn small_frame(base: Hpa) -> Frame {
    let size = PageSize::Small;
    Frame { base, size }
}
