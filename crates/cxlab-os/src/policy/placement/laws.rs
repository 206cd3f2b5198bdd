//! Laws of every placement policy, and the behaviour of each.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::address::PageSize;
use crate::frames::{FrameAllocator, NodeKind};

const BLOCK: u64 = PageSize::Large.bytes();
const NODES: u16 = 4;

/// Two sockets, an accelerator at the second, an expander at the first; 4 large frames each.
fn frames() -> FrameAllocator {
    use NodeKind::{Cpu, Memory, Xpu};
    let distances = [
        [10, 21, 40, 30],
        [21, 10, 30, 40],
        [40, 30, 10, 50],
        [30, 40, 50, 10],
    ];
    crate::frames::tests::nodes([Cpu, Cpu, Xpu, Memory], 4, 0, distances)
}

/// Parameters with which an entry can be built on four nodes.
fn params(name: &str) -> serde_json::Value {
    match name {
        "first-touch" | "local" => json!({}),
        "interleave" => json!({ "nodes": [0, 3] }),
        "weighted-interleave" => json!({ "nodes": [0, 3], "weights": [3, 1] }),
        "preferred" => json!({ "nodes": [3] }),
        "bind" => json!({ "nodes": [1, 2] }),
        other => panic!("say here how to build `{other}`"),
    }
}

fn policy(name: &str, params: &serde_json::Value) -> Box<dyn PlacementPolicy> {
    let entry = cxlab_engine::catalog::find(CATALOG, name).unwrap();
    (entry.build)(params).unwrap()
}

fn touch(by: u16, index: u64) -> FirstTouch {
    FirstTouch {
        by: NodeId(by),
        home: NodeId(0),
        index,
    }
}

/// Nodes of `pages` large pages touched from one node, until no memory is left.
fn nodes(name: &str, params: &serde_json::Value, by: u16, pages: u64) -> Vec<u16> {
    let mut frames = frames();
    let mut state = policy(name, params).state(frames.nodes());
    (0..pages)
        .map_while(|index| frames.allocate(state.place(touch(by, index)), PageSize::Large))
        .map(|placed| placed.node.0)
        .collect()
}

proptest! {
    #[test]
    fn every_page_goes_to_an_allowed_node_with_room_or_none_is_left(
        touches in prop::collection::vec((0..NODES, 0u64..64), 1..40),
    ) {
        for entry in CATALOG {
            let policy = policy(entry.name, &params(entry.name));
            let mut frames = frames();
            prop_assert!(policy.check(frames.nodes()).is_ok());
            let (mut state, mut again) = (policy.state(frames.nodes()), policy.state(frames.nodes()));
            for (by, index) in &touches {
                let preference = state.place(touch(*by, *index));
                prop_assert_eq!(preference, again.place(touch(*by, *index)), "deterministic");
                let named = preference.allowed.iter().chain(preference.first.iter());
                prop_assert!(named.into_iter().all(|node| frames.nodes().contains(node)));
                let before: Vec<u64> = (0..NODES).map(|node| frames.free_bytes(NodeId(node))).collect();
                match frames.allocate(preference, PageSize::Large) {
                    Some(placed) => {
                        prop_assert!(preference.allowed.contains(placed.node), "{}", entry.name);
                        prop_assert!(before[placed.node.index()] >= BLOCK);
                        // No nearer node had space, except nodes that are not preferred.
                        let list = frames.zonelist(preference.from);
                        for node in list.iter().take_while(|node| **node != placed.node) {
                            let passed = before[node.index()] < BLOCK
                                || !preference.allowed.contains(*node)
                                || preference.first.contains(placed.node) && !preference.first.contains(*node);
                            prop_assert!(passed, "{} passed node {}", entry.name, node.0);
                        }
                    }
                    None => {
                        let full = |node: NodeId| before[node.index()] < BLOCK;
                        prop_assert!(preference.allowed.iter().all(full), "{}", entry.name);
                    }
                }
            }
        }
    }
}

#[test]
fn every_entry_is_described_and_refuses_unknown_keys() {
    for entry in CATALOG {
        assert!(!entry.summary.is_empty());
        let built = (entry.build)(&json!({ "nodez": 1 }));
        assert!(built.is_err(), "{}", entry.name);
        let mut generator = schemars::SchemaGenerator::default();
        assert!((entry.schema)(&mut generator).as_object().is_some());
    }
}

#[test]
fn the_first_touch_of_an_accelerator_allocates_at_it_and_local_does_not() {
    assert_eq!(nodes("first-touch", &json!({}), 2, 6), [2, 2, 2, 2, 1, 1]);
    assert_eq!(nodes("local", &json!({}), 2, 6), [0, 0, 0, 0, 1, 1]);
}

#[test]
fn interleaved_pages_take_turns_and_a_full_node_is_helped_out() {
    let all = nodes("interleave", &params("interleave"), 1, 16);
    assert_eq!(all[..8], [0, 3, 0, 3, 0, 3, 0, 3]);
    // Pages of node 0 fall back to node 1 (21), those of node 3 to node 1 (40) and then to 2 (50).
    assert_eq!(all[8..], [1, 1, 1, 1, 2, 2, 2, 2]);
    let by_offset = json!({ "nodes": [0, 3], "order": "offset" });
    let mut state = policy("interleave", &by_offset).state(NodeSet::first(4));
    let from = |index| state.place(touch(1, index)).from.0;
    assert_eq!([7, 7, 2, 0].map(from), [3, 3, 0, 0]);
}

#[test]
fn weights_are_pages_a_turn() {
    let all = nodes("weighted-interleave", &params("weighted-interleave"), 1, 5);
    assert_eq!(all, [0, 0, 0, 3, 0]);
}

#[test]
fn a_preferred_node_is_the_centre_of_its_fall_back_and_several_are_chosen_by_distance() {
    let one = nodes("preferred", &params("preferred"), 2, 6);
    assert_eq!(one, [3, 3, 3, 3, 0, 0]);
    let many = json!({ "nodes": [0, 3] });
    let all = nodes("preferred", &many, 2, 12);
    assert_eq!(all, [0, 0, 0, 0, 3, 3, 3, 3, 2, 2, 2, 2]);
}

#[test]
fn bound_memory_ends_where_its_nodes_end() {
    let all = nodes("bind", &params("bind"), 0, 16);
    assert_eq!(all, [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(nodes("bind", &params("bind"), 2, 5), [2, 2, 2, 2, 1]);
}

#[test]
fn nodes_that_do_not_exist_are_named() {
    let nodes = NodeSet::first(4);
    let error = |name, params| policy(name, &params).check(nodes).unwrap_err().to_string();
    assert!(error("bind", json!({ "nodes": [1, 9] })).contains("node 9 is none of 0, 1, 2, 3"));
    assert!(error("interleave", json!({ "nodes": [] })).contains("at least one"));
    let short = json!({ "nodes": [0, 1], "weights": [1] });
    assert!(error("weighted-interleave", short).contains("1 weights for 2 nodes"));
    let zero = json!({ "nodes": [0], "weights": [0] });
    assert!(error("weighted-interleave", zero).contains("found 0; allowed: 1 to 255"));
}
