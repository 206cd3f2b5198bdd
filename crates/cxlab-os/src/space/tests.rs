use cxlab_engine::units::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::frames::{NodeKind, NodeSpec, NumaDistances, WatermarkParams};
use crate::policy::placement;

const SMALL: u64 = PageSize::Small.bytes();
const LARGE: u64 = PageSize::Large.bytes();

/// A processor and an accelerator with `blocks` blocks of 2 MiB each.
fn frames(blocks: u64) -> FrameAllocator {
    let spec = |kind, number: u64| NodeSpec {
        kind,
        base: Hpa(number << 32),
        capacity: Bytes(blocks * LARGE),
        watermarks: WatermarkParams::NONE,
    };
    let specs = [spec(NodeKind::Cpu, 0), spec(NodeKind::Xpu, 1)];
    let distances = NumaDistances::new(vec![vec![10, 20], vec![20, 10]]).unwrap();
    FrameAllocator::new(&specs, distances).unwrap()
}

fn policy(name: &str, params: serde_json::Value, frames: &FrameAllocator) -> Box<dyn Placement> {
    let entry = cxlab_engine::catalog::find(placement::CATALOG, name).unwrap();
    (entry.build)(&params).unwrap().state(frames.nodes())
}

fn process(frames: &mut FrameAllocator) -> AddressSpace {
    let policy = policy("first-touch", json!({}), frames);
    AddressSpace::new(Pasid(1), NodeId(0), policy, frames).unwrap()
}

const LARGE_PAGES: AreaOptions = AreaOptions {
    writable: true,
    pages: PageSize::Large,
};

#[test]
fn more_can_be_promised_than_there_is_and_memory_is_taken_when_touched() {
    let mut frames = frames(4);
    let mut space = process(&mut frames);
    let start = space.mmap(1 << 40, AreaOptions::default(), None).unwrap();
    assert_eq!(
        (space.promised_bytes(), space.resident_bytes()),
        (1 << 40, 0)
    );
    let read = space.touch(start, PageAccess::Read, NodeId(1), &mut frames);
    assert!(matches!(read, Ok(TouchResult::Placed(_, NodeId(1)))));
    let again = space.touch(
        VirtAddr(start.0 + 7),
        PageAccess::Write,
        NodeId(0),
        &mut frames,
    );
    assert!(matches!(again, Ok(TouchResult::Present(mapping)) if mapping.frame.base.0 >= 1 << 32));
    assert_eq!(space.resident_bytes(), SMALL);
    let mut touched = 1;
    let out = loop {
        let at = VirtAddr(start.0 + touched * SMALL);
        match space.touch(at, PageAccess::Write, NodeId(1), &mut frames) {
            Ok(_) => touched += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(out, SpaceError::OutOfMemory);
    let tables = space.table().table_count() as u64;
    assert_eq!(
        (touched + tables) * SMALL,
        8 * LARGE,
        "everything but tables"
    );
}

#[test]
fn wrong_accesses_are_refused_as_a_kernel_would() {
    let mut frames = frames(4);
    let mut space = process(&mut frames);
    let options = AreaOptions {
        writable: false,
        ..AreaOptions::default()
    };
    let start = space.mmap(2 * SMALL, options, None).unwrap();
    let mut touch = |at: u64, access| space.touch(VirtAddr(at), access, NodeId(0), &mut frames);
    assert_eq!(
        touch(start.0, PageAccess::Write),
        Err(SpaceError::ReadOnly(start))
    );
    assert!(touch(start.0, PageAccess::Read).is_ok());
    assert_eq!(
        touch(start.0, PageAccess::Write),
        Err(SpaceError::ReadOnly(start))
    );
    let behind = start.0 + 2 * SMALL;
    assert_eq!(
        touch(behind, PageAccess::Read),
        Err(SpaceError::Unmapped(VirtAddr(behind)))
    );
    assert_eq!(space.mmap(5, options, None), Err(SpaceError::Length(5)));
    assert_eq!(
        space.mmap(1 << 48, options, None),
        Err(SpaceError::Length(1 << 48))
    );
}

#[test]
fn large_pages_are_taken_where_they_fit_and_small_ones_elsewhere() {
    let mut frames = frames(4);
    let mut space = process(&mut frames);
    let start = space.mmap(2 * LARGE + SMALL, LARGE_PAGES, None).unwrap();
    assert_eq!(start.0 % LARGE, 0);
    let mut size = |offset: u64| {
        let at = VirtAddr(start.0 + offset);
        match space
            .touch(at, PageAccess::Write, NodeId(1), &mut frames)
            .unwrap()
        {
            TouchResult::Placed(mapping, _) => mapping.frame.size,
            TouchResult::Present(_) | TouchResult::Hinted(_) => panic!("first touch"),
        }
    };
    assert_eq!(size(5), PageSize::Large);
    assert_eq!(
        size(2 * LARGE),
        PageSize::Small,
        "the mapping ends in this one"
    );
    assert_eq!(size(LARGE + 9), PageSize::Large);
    assert_eq!(space.resident_bytes(), 2 * LARGE + SMALL);
}

#[test]
fn without_a_free_block_a_large_page_becomes_small_ones() {
    let mut frames = frames(1);
    let mut space = process(&mut frames);
    let start = space.mmap(2 * LARGE, LARGE_PAGES, None).unwrap();
    let mut touch = |at| {
        space.touch(
            VirtAddr(start.0 + at),
            PageAccess::Write,
            NodeId(1),
            &mut frames,
        )
    };
    assert!(
        matches!(touch(0), Ok(TouchResult::Placed(page, _)) if page.frame.size == PageSize::Large)
    );
    // The only block of node 0 is split for tables.
    assert!(
        matches!(touch(LARGE), Ok(TouchResult::Placed(page, NodeId(0))) if page.frame.size == PageSize::Small)
    );
}

#[test]
fn what_is_unmapped_comes_back_to_the_last_byte() {
    let mut frames = frames(8);
    let before = [0, 1].map(|node| frames.free_bytes(NodeId(node)));
    let mut space = process(&mut frames);
    let small = space
        .mmap(16 * SMALL, AreaOptions::default(), None)
        .unwrap();
    let large = space.mmap(LARGE, LARGE_PAGES, None).unwrap();
    for (at, by) in [(small.0, 0), (small.0 + 5 * SMALL, 1), (large.0 + 77, 1)] {
        space
            .touch(VirtAddr(at), PageAccess::Write, NodeId(by), &mut frames)
            .unwrap();
    }
    assert_eq!(
        space.munmap(VirtAddr(large.0 + SMALL), SMALL).err(),
        Some(SpaceError::Length(SMALL))
    );
    let released = space
        .munmap(VirtAddr(small.0 + 4 * SMALL), 12 * SMALL)
        .unwrap();
    assert_eq!(released.pages.len(), 1);
    released.give(&mut frames);
    let gone = space.touch(
        VirtAddr(small.0 + 5 * SMALL),
        PageAccess::Read,
        NodeId(0),
        &mut frames,
    );
    assert!(matches!(gone, Err(SpaceError::Unmapped(_))));
    assert!(
        space
            .touch(small, PageAccess::Read, NodeId(0), &mut frames)
            .is_ok()
    );
    space.munmap(small, 4 * SMALL).unwrap().give(&mut frames);
    space.munmap(large, LARGE).unwrap().give(&mut frames);
    let after = [0, 1].map(|node| frames.free_bytes(NodeId(node)));
    assert_eq!(
        after,
        [before[0] - SMALL, before[1]],
        "the root of the table stays"
    );
}

#[test]
fn a_mapping_can_have_a_policy_of_its_own() {
    let mut frames = frames(8);
    let mut space = process(&mut frames);
    let bound = policy("bind", json!({ "nodes": [1] }), &frames);
    let start = space
        .mmap(4 * SMALL, AreaOptions::default(), Some(bound))
        .unwrap();
    let touched = space.touch(start, PageAccess::Write, NodeId(0), &mut frames);
    assert!(matches!(touched, Ok(TouchResult::Placed(_, NodeId(1)))));
}

#[test]
fn a_page_moves_with_its_bits_and_is_out_of_reach_on_the_way() {
    let mut frames = frames(4);
    let mut space = process(&mut frames);
    let start = space.mmap(LARGE, LARGE_PAGES, None).unwrap();
    space
        .touch(start, PageAccess::Write, NodeId(0), &mut frames)
        .unwrap();
    let free = [0, 1].map(|node| frames.free_bytes(NodeId(node)));
    let at = VirtAddr(start.0 + 12345);
    let full = space.begin_move(at, NodeId(1), 4 * LARGE, &mut frames);
    assert_eq!(full, Err(MoveError::Full(NodeId(1))));
    let moving = space.begin_move(at, NodeId(1), 0, &mut frames).unwrap();
    assert_eq!(
        space.begin_move(at, NodeId(1), 0, &mut frames),
        Err(MoveError::Moving)
    );
    let touch = space.touch(at, PageAccess::Read, NodeId(0), &mut frames);
    assert_eq!(touch, Err(SpaceError::Moving(at)));
    assert_eq!(
        space.munmap(start, LARGE).err(),
        Some(SpaceError::Moving(start))
    );
    assert_eq!(space.end_move(moving.page, &mut frames), Some(moving));
    let after = [0, 1].map(|node| frames.free_bytes(NodeId(node)));
    assert_eq!(after, [free[0] + LARGE, free[1] - LARGE]);
    assert_eq!(space.pages(&frames), [(moving.page, NodeId(1))]);
    assert_eq!(
        space.begin_move(at, NodeId(1), 0, &mut frames),
        Err(MoveError::Already)
    );
}

proptest! {
    #[test]
    fn mappings_never_overlap_and_frames_are_those_of_pages_and_tables(
        steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 1u64..700, 0u16..2), 1..80),
    ) {
        let mut frames = frames(4);
        let mut space = process(&mut frames);
        let mut areas: Vec<(u64, u64)> = Vec::new();
        for (step, index, pages, by) in steps {
            let length = pages * SMALL;
            if step == 0 || areas.is_empty() {
                let options = if pages.is_multiple_of(2) { LARGE_PAGES } else { AreaOptions::default() };
                let start = space.mmap(length, options, None).unwrap().0;
                prop_assert!(areas.iter().all(|(a, l)| start + length <= *a || a + l <= start));
                areas.push((start, length));
            } else if step == 1 {
                let (start, length) = areas.swap_remove(index.index(areas.len()));
                space.munmap(VirtAddr(start), length).unwrap().give(&mut frames);
            } else {
                let (start, length) = areas[index.index(areas.len())];
                let at = VirtAddr(start + (pages * 12_347) % length);
                let touched = space.touch(at, PageAccess::Write, NodeId(by), &mut frames);
                prop_assert!(matches!(touched, Ok(_) | Err(SpaceError::OutOfMemory)));
            }
            let free: u64 = [0, 1].map(|node| frames.free_bytes(NodeId(node))).iter().sum();
            let tables = space.table().table_count() as u64 * SMALL;
            prop_assert_eq!(8 * LARGE - free, space.resident_bytes() + tables);
            let promised: u64 = areas.iter().map(|(_, length)| length).sum();
            prop_assert_eq!(space.promised_bytes(), promised);
        }
    }
}
