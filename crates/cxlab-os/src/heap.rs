//! `malloc` for kernels: small objects by size class in spans of 64 KiB, which are cut from
//! mappings of 2 MiB; each large object has a mapping of its own.
//!
//! There are four classes to a doubling, as in jemalloc (Evans, BSDCan 2006): an object beyond 64
//! bytes wastes at most a fifth. Objects above 16 KiB get a mapping of their own (glibc: from 128
//! KiB on, `M_MMAP_THRESHOLD`). The allocator stores its own data outside simulated memory, so they
//! cost no simulated access. Spans are never unmapped.
//!
//! Invariants: objects do not overlap. They are aligned to 16 bytes, or to a page above 16 KiB. The
//! same calls return the same addresses.

use std::collections::BTreeMap;
use std::fmt;

use crate::address::{PageSize, VirtAddr};
use crate::space::{AddressSpace, AreaOptions, ReleasedPages, SpaceError};

/// Size of a span in bytes.
const SPAN: u64 = 64 << 10;

/// Size in bytes of a mapping that spans are cut from: one page of 2 MiB, if the
/// heap uses large pages.
const CHUNK: u64 = PageSize::Large.bytes();

/// Size in bytes of the largest object in a span.
const MAX_SMALL: u64 = 16 << 10;

/// Alignment of every object in bytes (x86-64 ABI: `max_align_t`).
pub const ALIGN: u64 = 16;

/// Why an object cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// No object begins at this address, or it was freed before.
    NotAllocated(VirtAddr),
    /// The pages of the object cannot be unmapped now.
    Space(SpaceError),
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FreeError::NotAllocated(at) => write!(f, "no object begins at {:#x}", at.0),
            FreeError::Space(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FreeError {}

/// Bytes that an object of `size` bytes takes in a span: its class.
pub fn class_bytes(size: u64) -> u64 {
    let size = size.max(ALIGN);
    if size <= 4 * ALIGN {
        return size.next_multiple_of(ALIGN);
    }
    // Between 2^k and 2^(k+1) the classes are 2^(k-2) apart.
    let step = 1 << ((size - 1).ilog2() - 2);
    size.next_multiple_of(step)
}

/// A span: objects of one class.
struct HeapSpan {
    class: u64,
    live: Vec<bool>,
}

/// Free objects of one class; the object freed last is allocated next.
type FreeList = Vec<VirtAddr>;

/// The heap of a process.
pub struct Heap {
    options: AreaOptions,
    free: BTreeMap<u64, FreeList>,
    spans: BTreeMap<u64, HeapSpan>,
    large: BTreeMap<u64, u64>,
    /// Unused part of the last chunk: first address, and end (exclusive).
    chunk: (u64, u64),
    live_bytes: u64,
}

impl Heap {
    /// An empty heap whose mappings request pages of this size.
    pub fn new(pages: PageSize) -> Heap {
        Heap {
            options: AreaOptions {
                writable: true,
                pages,
            },
            free: BTreeMap::new(),
            spans: BTreeMap::new(),
            large: BTreeMap::new(),
            chunk: (0, 0),
            live_bytes: 0,
        }
    }

    /// Bytes of live objects, rounded up to their classes.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Allocates an object of `size` bytes; 0 counts as 1. A page gets a frame
    /// when it is first touched.
    ///
    /// # Errors
    /// No addresses are left.
    pub fn malloc(&mut self, size: u64, space: &mut AddressSpace) -> Result<VirtAddr, SpaceError> {
        let size = size.max(1);
        if size > MAX_SMALL {
            return self.malloc_large(size, space);
        }
        let class = class_bytes(size);
        let at = match self.free.get_mut(&class).and_then(Vec::pop) {
            Some(at) => at,
            None => self.new_span(class, space)?,
        };
        self.set_live(at, true);
        self.live_bytes += class;
        Ok(at)
    }

    fn malloc_large(
        &mut self,
        size: u64,
        space: &mut AddressSpace,
    ) -> Result<VirtAddr, SpaceError> {
        let page = PageSize::Small.bytes();
        let length = size.checked_next_multiple_of(page);
        let length = length.ok_or(SpaceError::Length(size))?;
        let at = space.mmap(length, self.options, None)?;
        self.large.insert(at.0, length);
        self.live_bytes += length;
        Ok(at)
    }

    /// Creates a span of a class and allocates its first object.
    fn new_span(&mut self, class: u64, space: &mut AddressSpace) -> Result<VirtAddr, SpaceError> {
        if self.chunk.0 == self.chunk.1 {
            let start = space.mmap(CHUNK, self.options, None)?.0;
            self.chunk = (start, start + CHUNK);
        }
        let start = self.chunk.0;
        self.chunk.0 += SPAN;
        let objects = SPAN / class;
        let live = vec![false; objects as usize];
        self.spans.insert(start, HeapSpan { class, live });
        let later = (1..objects)
            .rev()
            .map(|number| VirtAddr(start + number * class));
        self.free.entry(class).or_default().extend(later);
        Ok(VirtAddr(start))
    }

    fn span_of(&mut self, at: VirtAddr) -> Option<(&mut HeapSpan, usize)> {
        let (start, span) = self.spans.range_mut(..=at.0).next_back()?;
        let offset = at.0 - start;
        let number = (offset / span.class) as usize;
        let begins = offset.is_multiple_of(span.class) && number < span.live.len();
        begins.then_some((span, number))
    }

    fn set_live(&mut self, at: VirtAddr, live: bool) {
        if let Some((span, number)) = self.span_of(at) {
            span.live[number] = live;
        }
    }

    /// Usable bytes of the object that begins at an address.
    pub fn usable_bytes(&self, at: VirtAddr) -> Option<u64> {
        if let Some(length) = self.large.get(&at.0) {
            return Some(*length);
        }
        let (start, span) = self.spans.range(..=at.0).next_back()?;
        let offset = at.0 - start;
        let live = span.live.get((offset / span.class) as usize).copied()?;
        (live && offset.is_multiple_of(span.class)).then_some(span.class)
    }

    /// Frees an object. A large object is unmapped. The caller returns its frames after
    /// the translations are invalidated.
    ///
    /// # Errors
    /// No object begins at the address, or one of its pages is being moved.
    pub fn free(
        &mut self,
        at: VirtAddr,
        space: &mut AddressSpace,
    ) -> Result<Option<ReleasedPages>, FreeError> {
        let bytes = self.usable_bytes(at).ok_or(FreeError::NotAllocated(at))?;
        let mut released = None;
        if self.large.contains_key(&at.0) {
            released = Some(space.munmap(at, bytes).map_err(FreeError::Space)?);
            self.large.remove(&at.0);
        } else {
            self.set_live(at, false);
            self.free.entry(bytes).or_default().push(at);
        }
        self.live_bytes -= bytes;
        Ok(released)
    }
}

#[cfg(test)]
mod tests {
    use cxlab_engine::units::{Bytes, Hpa};
    use proptest::prelude::*;

    use super::*;
    use crate::address::Pasid;
    use crate::frames::{
        FrameAllocator, NodeId, NodeKind, NodeSpec, NumaDistances, WatermarkParams,
    };
    use crate::policy::placement::PlacementChoice;

    fn process() -> (FrameAllocator, AddressSpace) {
        let spec = NodeSpec {
            kind: NodeKind::Cpu,
            base: Hpa(0),
            capacity: Bytes(64 << 20),
            watermarks: WatermarkParams::NONE,
        };
        let distances = NumaDistances::new(vec![vec![10]]).unwrap();
        let mut frames = FrameAllocator::new(&[spec], distances).unwrap();
        let policy = PlacementChoice::default().build().unwrap();
        let policy = policy.state(frames.nodes());
        let space = AddressSpace::new(Pasid(0), NodeId(0), policy, &mut frames).unwrap();
        (frames, space)
    }

    #[test]
    fn classes_are_four_to_a_doubling_and_waste_at_most_a_fifth() {
        assert_eq!([1, 16, 17, 64].map(class_bytes), [16, 16, 32, 64]);
        assert_eq!(
            [65, 81, 128, 129, 160, 161].map(class_bytes),
            [80, 96, 128, 160, 160, 192]
        );
        assert_eq!([8193, 16_384].map(class_bytes), [10_240, 16_384]);
        for size in 65..=MAX_SMALL {
            let class = class_bytes(size);
            assert!(
                class >= size && (class - size) * 5 < class,
                "{size} takes {class}"
            );
            assert_eq!(class_bytes(class), class);
        }
    }

    #[test]
    fn what_was_freed_last_is_given_first_and_nothing_is_freed_twice() {
        let (_, mut space) = process();
        let mut heap = Heap::new(PageSize::Small);
        let a = heap.malloc(100, &mut space).unwrap();
        let b = heap.malloc(100, &mut space).unwrap();
        assert_eq!(b.0 - a.0, 112);
        heap.free(a, &mut space).unwrap();
        assert_eq!(
            heap.free(a, &mut space).err(),
            Some(FreeError::NotAllocated(a))
        );
        let within = VirtAddr(b.0 + 16);
        assert_eq!(
            heap.free(within, &mut space).err(),
            Some(FreeError::NotAllocated(within))
        );
        assert_eq!(heap.malloc(97, &mut space), Ok(a));
    }

    #[test]
    fn small_objects_of_a_heap_of_large_pages_share_one() {
        let (mut frames, mut space) = process();
        let mut heap = Heap::new(PageSize::Large);
        for size in [16, 1000, 16_000] {
            let at = heap.malloc(size, &mut space).unwrap();
            space
                .touch(at, crate::PageAccess::Write, NodeId(0), &mut frames)
                .unwrap();
        }
        assert_eq!(space.resident_count(PageSize::Large), 1);
        assert_eq!(space.resident_count(PageSize::Small), 0);
    }

    #[test]
    fn a_large_object_is_a_mapping_and_its_frames_come_back() {
        let (mut frames, mut space) = process();
        let mut heap = Heap::new(PageSize::Large);
        let at = heap.malloc(3 << 20, &mut space).unwrap();
        assert_eq!(at.0 % PageSize::Large.bytes(), 0);
        let free = frames.free_bytes(NodeId(0));
        space
            .touch(at, crate::PageAccess::Write, NodeId(0), &mut frames)
            .unwrap();
        assert_eq!(space.resident_bytes(), 2 << 20);
        let released = heap.free(at, &mut space).unwrap().unwrap();
        assert_eq!(released.pages.len(), 1);
        released.give(&mut frames);
        assert_eq!(frames.free_bytes(NodeId(0)), free);
        assert_eq!(heap.live_bytes(), 0);
    }

    proptest! {
        #[test]
        fn objects_never_overlap_and_are_aligned(
            steps in prop::collection::vec((any::<bool>(), 0u64..40_000, any::<prop::sample::Index>()), 1..300),
        ) {
            let (_, mut space) = process();
            let mut heap = Heap::new(PageSize::Small);
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            for (free, size, index) in steps {
                if free && !live.is_empty() {
                    let at = *live.keys().nth(index.index(live.len())).unwrap();
                    live.remove(&at);
                    prop_assert!(heap.free(VirtAddr(at), &mut space).is_ok());
                } else {
                    let at = heap.malloc(size, &mut space).unwrap();
                    let usable = heap.usable_bytes(at).unwrap();
                    prop_assert!(usable >= size.max(1) && at.0.is_multiple_of(ALIGN));
                    let before = live.range(..at.0).next_back();
                    prop_assert!(before.is_none_or(|(other, bytes)| other + bytes <= at.0));
                    let after = live.range(at.0..).next();
                    prop_assert!(after.is_none_or(|(other, _)| at.0 + usable <= *other));
                    live.insert(at.0, usable);
                }
                prop_assert_eq!(heap.live_bytes(), live.values().sum::<u64>());
            }
        }
    }
}
