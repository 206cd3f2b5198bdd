//! Laws of every migration policy, and the behaviour of TPP.

use std::collections::BTreeMap;

use cxlab_engine::units::Picos;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::address::{PageSize, Pasid, VirtAddr};
use crate::frames::tests::nodes;
use crate::frames::{Frame, NodeKind, NodePreference, NodeSet};

const SMALL: u64 = PageSize::Small.bytes();
/// Number of small frames of a node.
const FRAMES: u64 = 512;

/// A processor's node and two expanders, of which the second is nearer.
fn frames() -> FrameAllocator {
    let kinds = [NodeKind::Cpu, NodeKind::Memory, NodeKind::Memory];
    nodes(kinds, 1, 0, [[10, 30, 20], [30, 10, 40], [20, 40, 10]])
}

fn policy(name: &str, params: &serde_json::Value) -> Box<dyn MigrationPolicy> {
    let entry = cxlab_engine::catalog::find(CATALOG, name).unwrap();
    (entry.build)(params).unwrap()
}

fn page(number: u64) -> Page {
    Page::around(Pasid(1), VirtAddr(number * SMALL), PageSize::Small)
}

/// An owner: frames, the location of each page, and a policy.
struct PolicyOwner {
    frames: FrameAllocator,
    pages: BTreeMap<Page, (NodeId, Frame)>,
    policy: Box<dyn Migration>,
}

impl PolicyOwner {
    fn new(name: &str, params: &serde_json::Value) -> PolicyOwner {
        let frames = frames();
        let policy = policy(name, params);
        policy.check(&frames).unwrap();
        let policy = policy.state(&frames);
        let pages = BTreeMap::new();
        PolicyOwner {
            frames,
            pages,
            policy,
        }
    }

    fn place(&mut self, number: u64, node: u16) {
        let preference = NodePreference {
            from: NodeId(node),
            first: NodeSet::NONE,
            allowed: NodeSet::of(NodeId(node)),
        };
        let placed = self.frames.allocate(preference, PageSize::Small);
        if let Some(placed) = placed.filter(|_| !self.pages.contains_key(&page(number))) {
            self.pages.insert(page(number), (placed.node, placed.frame));
            self.policy.placed(page(number), placed.node);
        } else if let Some(placed) = placed {
            self.frames.free(placed.frame);
        }
    }

    fn release(&mut self, number: u64) {
        if let Some((_, frame)) = self.pages.remove(&page(number)) {
            self.frames.free(frame);
            self.policy.released(page(number));
        }
    }

    /// Makes one move that the policy wants.
    fn step(&mut self) -> Option<(PageMove, bool)> {
        let wanted = self.policy.wanted(&self.frames)?;
        let (node, frame) = self.pages[&wanted.page];
        assert_eq!(node, wanted.from, "a page is moved from where it is");
        assert_ne!(wanted.from, wanted.to);
        assert!(self.frames.nodes().contains(wanted.to));
        let placed = self
            .frames
            .take_from(wanted.to, wanted.page.size, wanted.keep);
        if let Some(placed) = placed {
            self.frames.free(frame);
            self.pages.insert(wanted.page, (placed.node, placed.frame));
        }
        self.policy.ended(wanted, placed.is_some());
        Some((wanted, placed.is_some()))
    }

    fn moves(&mut self) -> Vec<(u64, u16)> {
        std::iter::from_fn(|| self.step())
            .filter(|(_, done)| *done)
            .map(|(moved, _)| (moved.page.start.0 / SMALL, moved.to.0))
            .collect()
    }

    /// A hint fault of a page by the processor.
    fn hint(&mut self, at_ms: u64, number: u64) {
        self.policy.hint_fault(ms(at_ms), page(number), NodeId(0));
    }

    fn scan(&mut self, at_ms: u64) -> Vec<u64> {
        let pages = self.policy.scan(ms(at_ms));
        pages.iter().map(|page| page.start.0 / SMALL).collect()
    }
}

fn ms(ms: u64) -> SimTime {
    SimTime::ZERO + Picos::from_nanos(ms * 1_000_000)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Place(u64, u16),
    Release(u64),
    Access(u64),
    Scan,
    Hint(u64, u16),
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0u64..700;
    prop_oneof![
        4 => (page.clone(), 0u16..3).prop_map(|(page, node)| Step::Place(page, node)),
        1 => page.clone().prop_map(Step::Release),
        2 => page.clone().prop_map(Step::Access),
        1 => Just(Step::Scan),
        2 => (page, 0u16..3).prop_map(|(page, node)| Step::Hint(page, node)),
        2 => Just(Step::Move),
    ]
}

/// Runs steps; returns the moves, and the owner at the end.
fn run(name: &str, steps: &[Step]) -> (Vec<(PageMove, bool)>, PolicyOwner) {
    let mut owner = PolicyOwner::new(name, &json!({}));
    for number in 0..FRAMES {
        owner.place(number, 0);
    }
    let mut moves = Vec::new();
    let mut now = 0;
    for step in steps {
        now += 1;
        match *step {
            Step::Place(number, node) => owner.place(number, node),
            Step::Release(number) => owner.release(number),
            Step::Access(number) => owner.policy.accessed(page(number)),
            Step::Scan => {
                owner.scan(now);
            }
            Step::Hint(number, by) => owner.policy.hint_fault(ms(now), page(number), NodeId(by)),
            Step::Move => moves.extend(owner.step()),
        }
    }
    (moves, owner)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_move_is_of_a_page_that_is_there_to_a_node_with_room_and_repeats(
        steps in prop::collection::vec(step(), 1..300),
    ) {
        for entry in CATALOG {
            let (moves, owner) = run(entry.name, &steps);
            let (again, _) = run(entry.name, &steps);
            prop_assert_eq!(&moves, &again, "{} is not deterministic", entry.name);
            let stats = owner.policy.stats();
            let done = moves.iter().filter(|(_, done)| *done).count() as u64;
            prop_assert_eq!(stats.promoted + stats.demoted, done);
            prop_assert_eq!(stats.refused, moves.len() as u64 - done);
            prop_assert!(entry.name != "none" || moves.is_empty());
            let free: u64 = (0..3).map(|node| owner.frames.free_bytes(NodeId(node))).sum();
            prop_assert_eq!(free, (3 * FRAMES - owner.pages.len() as u64) * SMALL);
        }
    }
}

#[test]
fn every_entry_is_described_and_refuses_unknown_keys() {
    for entry in CATALOG {
        assert!(!entry.summary.is_empty());
        let built = (entry.build)(&json!({ "nodez": 1 }));
        assert!(built.is_err(), "{}", entry.name);
    }
    let tpp = cxlab_engine::catalog::find(CATALOG, "tpp").unwrap();
    let field = |params| (tpp.build)(&params).err().unwrap().field;
    assert_eq!(field(json!({ "scan_period": "0 ps" })), "scan_period");
    assert_eq!(field(json!({ "demote_scale": 10_001 })), "demote_scale");
    let unknown = policy("tpp", &json!({ "slow": [7] })).check(&frames());
    assert!(unknown.unwrap_err().to_string().contains("node 7"));
}

fn tpp() -> PolicyOwner {
    let params = json!({ "scan_period": "1 ms", "window": "2 ms", "scan_size": "8 KiB" });
    PolicyOwner::new("tpp", &params)
}

#[test]
fn a_page_goes_up_at_its_second_hint_fault_within_the_window() {
    let mut owner = tpp();
    owner.place(1, 1);
    owner.place(2, 1);
    owner.place(3, 0);
    assert_eq!(owner.policy.next_scan(), ms(1));
    assert_eq!(owner.scan(1), [1, 2], "pages of fast nodes are not sampled");
    assert_eq!(owner.policy.next_scan(), ms(2));
    owner.hint(1, 1);
    owner.hint(1, 1);
    let early = owner.moves();
    assert_eq!(early, [], "one sample is one fault, and one is not enough");
    assert_eq!(owner.scan(2), [1], "2 is still sampled");
    owner.hint(3, 1);
    assert_eq!(owner.moves(), [(1, 0)]);
    owner.hint(4, 2);
    assert_eq!(owner.scan(4), [2]);
    owner.hint(7, 2);
    assert_eq!(owner.moves(), [], "3 ms are more than the window");
    assert_eq!(owner.policy.stats().promoted, 1);
}

#[test]
fn scans_take_turns_through_the_pages() {
    let mut owner = tpp();
    (0..5).for_each(|number| owner.place(number, 1));
    assert_eq!(owner.scan(1), [0, 1]);
    assert_eq!(owner.scan(2), [2, 3]);
    owner.hint(2, 0);
    let third = owner.scan(3);
    assert_eq!(third, [4, 0], "those still sampled are not sampled again");
}

#[test]
fn a_full_node_demotes_cold_pages_to_the_nearest_slow_node_up_to_its_watermark() {
    let mut owner = tpp();
    (0..FRAMES).for_each(|number| owner.place(number, 0));
    // Pages referenced twice are active. Pages referenced once get another chance.
    for number in [0, 0, 1, 1, 2] {
        owner.policy.accessed(page(number));
    }
    let moves = owner.moves();
    // 2 % of 512 frames are 10.24: demotion ends when 11 are free.
    let expected: Vec<(u64, u16)> = (3..14).map(|number| (number, 2)).collect();
    assert_eq!(moves, expected);
    assert_eq!(owner.frames.free_bytes(NodeId(0)), 11 * SMALL);
}

#[test]
fn without_room_below_nothing_is_demoted() {
    let mut owner = tpp();
    for node in [1, 2] {
        (0..FRAMES).for_each(|number| owner.place(1000 * u64::from(node) + number, node));
    }
    (0..FRAMES).for_each(|number| owner.place(number, 0));
    assert_eq!(owner.moves(), []);
    owner.release(1000);
    assert_eq!(owner.moves(), [(0, 1)], "the farther one, which has room");
}

#[test]
fn a_promotion_that_finds_no_room_stays_and_is_counted() {
    let mut owner = tpp();
    owner.place(1000, 1);
    (0..FRAMES).for_each(|number| owner.place(number, 0));
    for at in [1, 2] {
        assert_eq!(owner.scan(at), [1000]);
        owner.hint(at, 1000);
    }
    let (first, done) = owner.step().unwrap();
    assert!(first.promotion && !done);
    assert_eq!(owner.policy.stats().refused, 1);
    let demoted = owner.moves().len();
    assert_eq!(demoted, 11, "demotion makes room for the next time");
}
