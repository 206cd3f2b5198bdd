use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::frames::NodeKind;
use crate::frames::tests::nodes;
use crate::policy::placement;

const SMALL: u64 = PageSize::Small.bytes();
const LARGE: u64 = PageSize::Large.bytes();

const CPU: NodeId = NodeId(0);
const XPU: NodeId = NodeId(1);

const LARGE_PAGES: AreaOptions = AreaOptions {
    writable: true,
    pages: PageSize::Large,
};

fn policy(name: &str, params: serde_json::Value, frames: &FrameAllocator) -> Placement {
    let entry = cxlab_engine::catalog::find(placement::CATALOG, name).unwrap();
    (entry.build)(&params).unwrap().state(frames.nodes())
}

/// A process on a processor and an accelerator.
struct Process {
    frames: FrameAllocator,
    space: AddressSpace,
}

impl Process {
    /// Both nodes have `blocks` blocks of 2 MiB.
    fn new(blocks: u64) -> Process {
        let kinds = [NodeKind::Cpu, NodeKind::Xpu];
        let mut frames = nodes(kinds, blocks, 0, [[10, 20], [20, 10]]);
        let policy = policy("first-touch", json!({}), &frames);
        let space = AddressSpace::new(Pasid(1), CPU, policy, &mut frames).unwrap();
        Process { frames, space }
    }

    /// Maps bytes by the policy of the process; returns their first address.
    fn mmap(&mut self, length: u64, options: AreaOptions) -> u64 {
        self.space.mmap(length, options, None).unwrap().0
    }

    fn munmap(&mut self, start: u64, length: u64) {
        let released = self.space.munmap(VirtAddr(start), length).unwrap();
        released.free(&mut self.frames);
    }

    fn read(&mut self, at: u64, by: NodeId) -> Result<TouchResult, SpaceError> {
        let read = PageAccess::Read;
        self.space.touch(VirtAddr(at), read, by, &mut self.frames)
    }

    fn write(&mut self, at: u64, by: NodeId) -> Result<TouchResult, SpaceError> {
        let write = PageAccess::Write;
        self.space.touch(VirtAddr(at), write, by, &mut self.frames)
    }

    /// Bytes free at the processor and at the accelerator.
    fn free(&self) -> [u64; 2] {
        [CPU, XPU].map(|node| self.frames.free_bytes(node))
    }
}

#[test]
fn more_can_be_promised_than_there_is_and_memory_is_taken_when_touched() {
    let mut process = Process::new(4);
    let start = process.mmap(1 << 40, AreaOptions::default());
    assert_eq!(process.space.promised_bytes(), 1 << 40);
    assert_eq!(process.space.resident_bytes(), 0);
    let read = process.read(start, XPU);
    assert!(matches!(read, Ok(TouchResult::Placed(_, XPU))));
    let again = process.write(start + 7, CPU);
    assert!(matches!(again, Ok(TouchResult::Present(mapping)) if mapping.frame.base.0 >= 1 << 30));
    assert_eq!(process.space.resident_bytes(), SMALL);
    let mut touched = 1;
    let out = loop {
        match process.write(start + touched * SMALL, XPU) {
            Ok(_) => touched += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(out, SpaceError::OutOfMemory);
    let used = (touched + process.space.table().table_count() as u64) * SMALL;
    assert_eq!(used, 8 * LARGE, "everything but tables");
}

#[test]
fn wrong_accesses_are_refused_as_a_kernel_would() {
    let mut process = Process::new(4);
    let options = AreaOptions {
        writable: false,
        ..AreaOptions::default()
    };
    let start = process.mmap(2 * SMALL, options);
    let forbidden = Err(SpaceError::ReadOnly(VirtAddr(start)));
    assert_eq!(process.write(start, CPU), forbidden);
    assert!(process.read(start, CPU).is_ok());
    assert_eq!(process.write(start, CPU), forbidden);
    let behind = start + 2 * SMALL;
    let unmapped = Err(SpaceError::Unmapped(VirtAddr(behind)));
    assert_eq!(process.read(behind, CPU), unmapped);
    for length in [5, 1 << 48] {
        let mapped = process.space.mmap(length, options, None);
        assert_eq!(mapped, Err(SpaceError::Length(length)));
    }
}

#[test]
fn large_pages_are_taken_where_they_fit_and_small_ones_elsewhere() {
    let mut process = Process::new(4);
    let start = process.mmap(2 * LARGE + SMALL, LARGE_PAGES);
    assert_eq!(start % LARGE, 0);
    let mut size = |offset| match process.write(start + offset, XPU).unwrap() {
        TouchResult::Placed(mapping, _) => mapping.frame.size,
        TouchResult::Present(_) | TouchResult::Hinted(_) => panic!("first touch"),
    };
    assert_eq!(size(5), PageSize::Large);
    let last = size(2 * LARGE);
    assert_eq!(last, PageSize::Small, "the mapping ends in this one");
    assert_eq!(size(LARGE + 9), PageSize::Large);
    assert_eq!(process.space.resident_bytes(), 2 * LARGE + SMALL);
}

#[test]
fn without_a_free_block_a_large_page_becomes_small_ones() {
    let mut process = Process::new(1);
    let start = process.mmap(2 * LARGE, LARGE_PAGES);
    let mut placed = |at| match process.write(start + at, XPU) {
        Ok(TouchResult::Placed(page, node)) => (page.frame.size, node),
        other => panic!("{other:?}"),
    };
    assert_eq!(placed(0).0, PageSize::Large);
    // The only block of node 0 is split for tables.
    assert_eq!(placed(LARGE), (PageSize::Small, CPU));
}

#[test]
fn what_is_unmapped_comes_back_to_the_last_byte() {
    let mut process = Process::new(8);
    let root = SMALL;
    let before = process.free();
    let small = process.mmap(16 * SMALL, AreaOptions::default());
    let large = process.mmap(LARGE, LARGE_PAGES);
    for (at, by) in [(small, CPU), (small + 5 * SMALL, XPU), (large + 77, XPU)] {
        process.write(at, by).unwrap();
    }
    let part = process.space.munmap(VirtAddr(large + SMALL), SMALL);
    assert_eq!(part.err(), Some(SpaceError::Length(SMALL)));
    let behind = VirtAddr(small + 4 * SMALL);
    let released = process.space.munmap(behind, 12 * SMALL).unwrap();
    assert_eq!(released.pages.len(), 1);
    released.free(&mut process.frames);
    let gone = process.read(small + 5 * SMALL, CPU);
    assert!(matches!(gone, Err(SpaceError::Unmapped(_))));
    assert!(process.read(small, CPU).is_ok());
    process.munmap(small, 4 * SMALL);
    process.munmap(large, LARGE);
    assert_eq!(process.free(), before, "the root of the table stays");
    assert_eq!(before, [8 * LARGE - root, 8 * LARGE]);
}

#[test]
fn a_mapping_can_have_a_policy_of_its_own() {
    let mut process = Process::new(8);
    let bound = policy("bind", json!({ "nodes": [1] }), &process.frames);
    let options = AreaOptions::default();
    let start = process.space.mmap(4 * SMALL, options, Some(bound)).unwrap();
    let touched = process.write(start.0, CPU);
    assert!(matches!(touched, Ok(TouchResult::Placed(_, XPU))));
}

#[test]
fn a_page_moves_with_its_bits_and_is_out_of_reach_on_the_way() {
    let mut process = Process::new(4);
    let start = process.mmap(LARGE, LARGE_PAGES);
    process.write(start, CPU).unwrap();
    let free = process.free();
    let at = VirtAddr(start + 12345);
    let begin = |process: &mut Process, keep| {
        let Process { frames, space } = process;
        space.begin_move(at, XPU, keep, frames)
    };
    assert_eq!(begin(&mut process, 4 * LARGE), Err(MoveError::Full(XPU)));
    let moving = begin(&mut process, 0).unwrap();
    assert_eq!(begin(&mut process, 0), Err(MoveError::Moving));
    assert_eq!(process.read(at.0, CPU), Err(SpaceError::Moving(at)));
    let unmapped = process.space.munmap(VirtAddr(start), LARGE);
    assert_eq!(unmapped.err(), Some(SpaceError::Moving(VirtAddr(start))));
    let ended = process.space.end_move(moving.page, &mut process.frames);
    assert_eq!(ended, Some(moving));
    assert_eq!(process.free(), [free[0] + LARGE, free[1] - LARGE]);
    assert_eq!(process.space.pages(&process.frames), [(moving.page, XPU)]);
    assert_eq!(begin(&mut process, 0), Err(MoveError::Already));
}

proptest! {
    #[test]
    fn mappings_never_overlap_and_frames_are_those_of_pages_and_tables(
        steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 1u64..700, 0u16..2), 1..80),
    ) {
        let mut process = Process::new(4);
        let mut areas: Vec<(u64, u64)> = Vec::new();
        for (step, index, pages, by) in steps {
            let length = pages * SMALL;
            if step == 0 || areas.is_empty() {
                let options = if pages.is_multiple_of(2) { LARGE_PAGES } else { AreaOptions::default() };
                let start = process.mmap(length, options);
                prop_assert!(areas.iter().all(|(a, l)| start + length <= *a || a + l <= start));
                areas.push((start, length));
            } else if step == 1 {
                let (start, length) = areas.swap_remove(index.index(areas.len()));
                process.munmap(start, length);
            } else {
                let (start, length) = areas[index.index(areas.len())];
                let touched = process.write(start + (pages * 12_347) % length, NodeId(by));
                prop_assert!(matches!(touched, Ok(_) | Err(SpaceError::OutOfMemory)));
            }
            let (free, space): (u64, _) = (process.free().iter().sum(), &process.space);
            let tables = space.table().table_count() as u64 * SMALL;
            prop_assert_eq!(8 * LARGE - free, space.resident_bytes() + tables);
            let promised: u64 = areas.iter().map(|(_, length)| length).sum();
            prop_assert_eq!(space.promised_bytes(), promised);
        }
    }
}
