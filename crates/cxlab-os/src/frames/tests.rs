use proptest::prelude::*;

use super::*;

const BLOCK: u64 = PageSize::Large.bytes();

fn spec(kind: NodeKind, number: usize, blocks: u64, min: u64) -> NodeSpec {
    let watermarks = WatermarkParams {
        min: Some(Bytes(min)),
        scale: 0,
    };
    NodeSpec {
        kind,
        base: Hpa((number as u64) << 30),
        capacity: Bytes(blocks * BLOCK),
        watermarks,
    }
}

/// Nodes of these kinds, one in each GiB, each with so many blocks of 2 MiB and this minimum.
pub(crate) fn nodes<const N: usize>(
    kinds: [NodeKind; N],
    blocks: u64,
    min: u64,
    distances: [[u8; N]; N],
) -> FrameAllocator {
    let kinds = kinds.into_iter().enumerate();
    let specs: Vec<NodeSpec> = kinds
        .map(|(at, kind)| spec(kind, at, blocks, min))
        .collect();
    let rows = distances.map(Vec::from).into();
    FrameAllocator::new(&specs, NumaDistances::new(rows).unwrap()).unwrap()
}

fn three(min: u64) -> FrameAllocator {
    let kinds = [NodeKind::Cpu, NodeKind::Xpu, NodeKind::Memory];
    nodes(kinds, 2, min, [[10, 30, 20], [30, 10, 40], [20, 40, 10]])
}

fn near(node: u16) -> NodePreference {
    NodePreference {
        from: NodeId(node),
        first: NodeSet::NONE,
        allowed: NodeSet::first(3),
    }
}

#[test]
fn a_full_node_is_helped_out_by_the_nearest() {
    let mut frames = three(0);
    let mut taken = || {
        let placed = frames.allocate(near(0), PageSize::Large);
        placed.map(|placed| placed.node.0)
    };
    assert_eq!([taken(), taken()], [Some(0); 2]);
    assert_eq!([taken(), taken()], [Some(2); 2]);
    assert_eq!([taken(), taken(), taken()], [Some(1), Some(1), None]);
}

#[test]
fn every_node_falls_to_its_low_watermark_before_any_falls_to_its_minimum() {
    // Of the 1024 frames of a node, min keeps 100 and low 125.
    let mut frames = three(100 * 4096);
    let mut order: Vec<(u16, u32)> = Vec::new();
    while let Some(placed) = frames.allocate(near(0), PageSize::Small) {
        match order.last_mut() {
            Some((node, count)) if *node == placed.node.0 => *count += 1,
            _ => order.push((placed.node.0, 1)),
        }
    }
    let expected = [(0, 899), (2, 899), (1, 899), (0, 25), (2, 25), (1, 25)];
    assert_eq!(order, expected);
}

#[test]
fn allowed_nodes_are_a_limit_and_first_nodes_a_wish() {
    let mut frames = three(0);
    let wish = NodePreference {
        first: NodeSet::of(NodeId(1)),
        ..near(0)
    };
    let nodes: Vec<u16> = std::iter::from_fn(|| frames.allocate(wish, PageSize::Large))
        .map(|placed| placed.node.0)
        .collect();
    assert_eq!(nodes, [1, 1, 0, 0, 2, 2]);
    let mut frames = three(0);
    let limit = NodePreference {
        allowed: NodeSet::of(NodeId(1)),
        ..near(0)
    };
    let count = std::iter::from_fn(|| frames.allocate(limit, PageSize::Large)).count();
    assert_eq!(count, 2);
}

#[test]
fn a_node_in_small_pieces_has_no_large_frame_until_a_block_is_whole_again() {
    let mut frames = three(0);
    let here = NodePreference {
        allowed: NodeSet::of(NodeId(0)),
        ..near(0)
    };
    let small: Vec<Frame> = std::iter::from_fn(|| frames.allocate(here, PageSize::Small))
        .map(|placed| placed.frame)
        .collect();
    assert_eq!(small.len(), 1024);
    for frame in small.iter().filter(|frame| frame.base.0 != 0) {
        frames.free(*frame);
    }
    assert_eq!(frames.free_bytes(NodeId(0)), 2 * BLOCK - 4096);
    let large = frames.allocate(here, PageSize::Large).unwrap().frame;
    assert_eq!(large.base, Hpa(BLOCK));
    assert_eq!(frames.allocate(here, PageSize::Large), None);
    frames.free(Frame {
        base: Hpa(0),
        size: PageSize::Small,
    });
    assert!(frames.allocate(here, PageSize::Large).is_some());
}

#[test]
#[should_panic(expected = "was not taken")]
fn a_frame_cannot_be_given_back_twice() {
    let mut frames = three(0);
    let frame = frames.allocate(near(0), PageSize::Small).unwrap().frame;
    let second = frames.allocate(near(0), PageSize::Small).unwrap().frame;
    frames.free(frame);
    assert_ne!(frame, second);
    frames.free(frame);
}

#[test]
fn nodes_that_cannot_be_are_refused() {
    let line = |count: usize| {
        let row = |a: usize| (0..count).map(|b| if a == b { 10 } else { 20 }).collect();
        NumaDistances::new((0..count).map(row).collect()).unwrap()
    };
    let a = spec(NodeKind::Cpu, 0, 2, 0);
    let error = |specs: &[NodeSpec], count| FrameAllocator::new(specs, line(count)).err();
    let odd = NodeSpec {
        capacity: Bytes(BLOCK + 4096),
        ..a
    };
    assert_eq!(error(&[odd], 1), Some(FramesError::Range(NodeId(0))));
    let overlap = FramesError::Overlap(NodeId(0), NodeId(1));
    assert_eq!(error(&[a, a], 2), Some(overlap));
    let (nodes, distances) = (1, 2);
    let count = FramesError::Count { nodes, distances };
    assert_eq!(error(&[a], 2), Some(count));
}

proptest! {
    #[test]
    fn no_frame_is_taken_twice_and_the_bytes_always_add_up(
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0usize..3, any::<prop::sample::Index>()), 1..400),
    ) {
        let mut frames = three(0);
        let mut taken: Vec<Frame> = Vec::new();
        for (give, large, node, index) in steps {
            if give && !taken.is_empty() {
                let frame = taken.swap_remove(index.index(taken.len()));
                frames.free(frame);
            } else {
                let size = if large { PageSize::Large } else { PageSize::Small };
                if let Some(placed) = frames.allocate(near(node as u16), size) {
                    let frame = placed.frame;
                    prop_assert_eq!(frame.base.0 % size.bytes(), 0);
                    prop_assert_eq!(frames.node_of(frame.base), Some(placed.node));
                    let apart = |other: &Frame| {
                        other.base.0 + other.size.bytes() <= frame.base.0
                            || frame.base.0 + size.bytes() <= other.base.0
                    };
                    prop_assert!(taken.iter().all(apart));
                    taken.push(frame);
                }
            }
            let used: u64 = taken.iter().map(|frame| frame.size.bytes()).sum();
            let free: u64 = (0..3).map(|node| frames.free_bytes(NodeId(node))).sum();
            prop_assert_eq!(used + free, 6 * BLOCK);
        }
    }
}
