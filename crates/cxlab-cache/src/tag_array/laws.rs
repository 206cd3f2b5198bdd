//! Laws that every policy must obey, and the agreement of each policy with its definition.

use proptest::prelude::*;
use serde_json::json;

use super::naive::{PolicyDefinition, ReferenceTagArray};
use super::*;
use crate::victim::{self, CATALOG};

/// An operation on an array.
#[derive(Clone, Copy, Debug)]
enum TagOperation {
    /// A hit, or a miss that inserts the line.
    Access(u64),
    Remove(u64),
    Pin(u64),
    Unpin(u64),
    Own(u64, u64),
    Dirty(u64, bool),
}

impl TagOperation {
    fn line(self) -> u64 {
        let (Self::Access(line)
        | Self::Remove(line)
        | Self::Pin(line)
        | Self::Unpin(line)
        | Self::Own(line, _)
        | Self::Dirty(line, _)) = self;
        line
    }
}

fn step() -> impl Strategy<Value = TagOperation> {
    let line = 0u64..48;
    prop_oneof![
        6 => line.clone().prop_map(TagOperation::Access),
        1 => line.clone().prop_map(TagOperation::Remove),
        1 => line.clone().prop_map(TagOperation::Pin),
        1 => line.clone().prop_map(TagOperation::Unpin),
        1 => (line.clone(), 0u64..2).prop_map(|(line, owner)| TagOperation::Own(line, owner)),
        2 => (line, any::<bool>()).prop_map(|(line, dirty)| TagOperation::Dirty(line, dirty)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<TagOperation>> {
    prop::collection::vec(step(), 0..300)
}

/// Geometries small enough for frequent evictions. Sets of 33 ways and more have a hash table
/// and a heap.
fn geometry() -> impl Strategy<Value = Geometry> {
    prop_oneof![
        (1u64..6, 1u64..9),
        Just((1, 40)),
        Just((1, 33)),
        Just((1, 16)),
        Just((2, 20))
    ]
    .prop_map(|(sets, ways)| Geometry::set_associative(sets * ways, ways).unwrap())
}

fn rng() -> StreamRng {
    StreamRng::new(1, "tags")
}

/// Applies a step as an owner would; returns the victim, if there is one.
fn apply(tags: &mut TagArray<u64>, step: TagOperation) -> Option<LineAddr> {
    if let TagOperation::Access(line) = step {
        if tags.access(LineAddr(line)).is_some() {
            return None;
        }
        let (victim, payload) = tags.fill(LineAddr(line), line)?.evicted?;
        assert_eq!(victim.0, payload, "a payload stays with its line");
        return Some(victim);
    }
    let slot = tags.find(LineAddr(step.line()))?;
    match step {
        TagOperation::Access(_) => {}
        TagOperation::Remove(line) => assert_eq!(tags.remove(slot), (LineAddr(line), line)),
        TagOperation::Pin(_) => tags.pin(slot),
        TagOperation::Unpin(_) => tags.unpin(slot),
        TagOperation::Own(_, owner) => tags.set_owner(slot, owner),
        TagOperation::Dirty(_, dirty) => tags.set_dirty(slot, dirty),
    }
    None
}

fn apply_naive(naive: &mut ReferenceTagArray, step: TagOperation) -> Option<LineAddr> {
    match step {
        TagOperation::Access(line) if naive.find(line).is_some() => naive.touch(line),
        TagOperation::Access(line) => {
            let full = naive.is_full(line);
            let victim = if full { naive.victim(line) } else { None };
            if let Some(block) = victim {
                naive.remove(block.victim.0);
            }
            if !full || victim.is_some() {
                naive.insert(line);
            }
            return victim.map(|block| block.victim);
        }
        TagOperation::Remove(line) => naive.remove(line),
        TagOperation::Pin(line) | TagOperation::Unpin(line) => {
            if let Some(one) = naive.find(line) {
                one.pinned = matches!(step, TagOperation::Pin(_));
            }
        }
        TagOperation::Own(line, owner) => naive.set_owner(line, owner),
        TagOperation::Dirty(line, dirty) => naive.set_dirty(line, dirty),
    }
    None
}

fn entry(name: &str, params: serde_json::Value) -> Box<dyn VictimPolicy> {
    let entry = cxlab_engine::catalog::find(CATALOG, name).unwrap();
    (entry.build)(&params).unwrap()
}

fn definitions() -> Vec<(PolicyDefinition, Box<dyn VictimPolicy>)> {
    let mut all = vec![
        (PolicyDefinition::Fifo, victim::build("fifo").unwrap()),
        (PolicyDefinition::Lru, victim::build("lru").unwrap()),
        (PolicyDefinition::Lifo, victim::build("lifo").unwrap()),
        (PolicyDefinition::Mru, victim::build("mru").unwrap()),
        (PolicyDefinition::Lfi, victim::build("lfi").unwrap()),
        (PolicyDefinition::Lfru, victim::build("lfru").unwrap()),
        (PolicyDefinition::Clock, victim::build("clock").unwrap()),
    ];
    for (in_percent, out_percent) in [(25, 50), (50, 100), (100, 1)] {
        let params = json!({ "in_percent": in_percent, "out_percent": out_percent });
        let definition = PolicyDefinition::TwoQueue {
            in_percent,
            out_percent,
        };
        all.push((definition, entry("2q", params)));
    }
    for window_percent in [1, 50, 100] {
        let params = json!({ "window_percent": window_percent });
        let definition = PolicyDefinition::Cflru { window_percent };
        all.push((definition, entry("cflru", params)));
    }
    let aligned = [1, 2, 4].map(|max_lines| (max_lines, true));
    let unaligned = [1, 2, 3, 4].map(|max_lines| (max_lines, false));
    for (max_lines, aligned) in aligned.into_iter().chain(unaligned) {
        let params = json!({ "max_lines": max_lines, "aligned": aligned });
        let definition = PolicyDefinition::BlockLength { max_lines, aligned };
        all.push((definition, entry("block-length", params)));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_policy_agrees_with_its_definition(geometry in geometry(), steps in steps()) {
        for (definition, policy) in definitions() {
            let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
            let mut naive = ReferenceTagArray::new(geometry, definition);
            for step in &steps {
                if let TagOperation::Access(line) = step && naive.find(*line).is_none() {
                    let expected = if naive.is_full(*line) {
                        naive.victim(*line).map_or(SetRoom::Pinned, SetRoom::Evict)
                    } else {
                        SetRoom::Free
                    };
                    prop_assert_eq!(tags.room(LineAddr(*line)), expected, "{:?}", definition);
                }
                let expected = apply_naive(&mut naive, *step);
                prop_assert_eq!(apply(&mut tags, *step), expected, "{:?}", definition);
            }
            let mut expected: Vec<u64> = naive.lines.iter().map(|one| one.line).collect();
            let mut found: Vec<u64> = tags.iter().map(|(_, line, _)| line.0).collect();
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_victim_is_resident_unpinned_and_of_the_right_set_and_none_leaves_while_there_is_room(
        geometry in geometry(),
        steps in steps(),
    ) {
        for entry in CATALOG {
            let policy = victim::build(entry.name).unwrap();
            let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
            for step in &steps {
                let before = tags.len();
                let line = LineAddr(match step { TagOperation::Access(line) => *line, _ => 0 });
                let set = geometry.set_of(line);
                let of_set: Vec<(Slot, LineAddr)> = tags
                    .iter()
                    .map(|(slot, line, _)| (slot, line))
                    .filter(|(_, line)| geometry.set_of(*line) == set)
                    .collect();
                let pinned = of_set.iter().filter(|(slot, _)| tags.is_pinned(*slot)).count();
                let miss = matches!(step, TagOperation::Access(_)) && tags.find(line).is_none();
                let slot_of = |victim: LineAddr| {
                    of_set.iter().find(|(_, line)| *line == victim).unwrap().0
                };
                if miss {
                    let room = tags.room(line);
                    if let SetRoom::Evict(block) = room {
                        prop_assert!(block.iter().any(|line| line == block.victim));
                        for line in block.iter() {
                            let slot = tags.find(line).unwrap();
                            prop_assert!(!tags.is_pinned(slot));
                        }
                        prop_assert!(!tags.is_pinned(slot_of(block.victim)));
                    }
                    prop_assert_eq!(room == SetRoom::Free, of_set.len() < geometry.ways() as usize);
                    prop_assert_eq!(room == SetRoom::Pinned, pinned == geometry.ways() as usize);
                }
                let pins: Vec<Slot> = of_set.iter().map(|(slot, _)| *slot)
                    .filter(|slot| tags.is_pinned(*slot)).collect();
                let victim = apply(&mut tags, *step);
                if let Some(victim) = victim {
                    let slot = slot_of(victim);
                    prop_assert!(!pins.contains(&slot), "{} chose a pinned line", entry.name);
                    prop_assert_eq!(of_set.len(), geometry.ways() as usize);
                    prop_assert_eq!(tags.len(), before);
                } else if miss {
                    let took = u32::from(pinned < geometry.ways() as usize);
                    prop_assert_eq!(tags.len(), before + took);
                }
            }
        }
    }

    #[test]
    fn the_same_steps_choose_the_same_victims(geometry in geometry(), steps in steps()) {
        for entry in CATALOG {
            let run = || -> Vec<Option<LineAddr>> {
                let policy = victim::build(entry.name).unwrap();
                let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
                steps.iter().map(|step| apply(&mut tags, *step)).collect()
            };
            prop_assert_eq!(run(), run(), "{}", entry.name);
        }
    }

    #[test]
    fn hits_do_not_move_lines_that_leave_by_insertion(
        geometry in geometry(),
        fills in prop::collection::vec((0u64..48, 0u64..48), 0..200),
    ) {
        for name in ["fifo", "lifo", "lfi", "block-length", "random"] {
            let victims = |hits: bool| -> Vec<Option<LineAddr>> {
                let policy = victim::build(name).unwrap();
                let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
                let mut fill = |(line, hit): &(u64, u64)| {
                    if hits {
                        tags.access(LineAddr(*hit));
                    }
                    match tags.find(LineAddr(*line)) {
                        Some(_) => None,
                        None => apply(&mut tags, TagOperation::Access(*line)),
                    }
                };
                fills.iter().map(&mut fill).collect()
            };
            prop_assert_eq!(victims(true), victims(false), "{}", name);
        }
    }
}

#[test]
fn random_chooses_each_unpinned_line_about_as_often() {
    let geometry = Geometry::fully_associative(10).unwrap();
    let policy = victim::build("random").unwrap();
    let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
    let slots: Vec<Slot> = (0..10)
        .map(|line| tags.insert(LineAddr(line), line))
        .collect();
    tags.pin(slots[3]);
    tags.pin(slots[7]);
    let mut chosen = [0; 10];
    for _ in 0..8_000 {
        let SetRoom::Evict(block) = tags.room(LineAddr(99)) else {
            panic!("eight lines may leave");
        };
        chosen[block.victim.0 as usize] += 1;
    }
    for (line, count) in chosen.into_iter().enumerate() {
        let expected = match line {
            3 | 7 => 0..1,
            _ => 850..1150,
        };
        assert!(expected.contains(&count), "line {line}: {count} of 8000");
    }
}

#[test]
fn a_shared_history_chooses_as_the_exact_one_unless_lines_share_counters() {
    let geometry = Geometry::fully_associative(8).unwrap();
    let run = |params| {
        let policy = entry("lfi", params);
        let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
        let mut draw = StreamRng::new(2, "lines");
        let steps = (0..2_000).map(|_| TagOperation::Access(draw.below(24)));
        steps.map(|step| apply(&mut tags, step)).collect::<Vec<_>>()
    };
    let exact = run(json!({}));
    assert_eq!(run(json!({ "counters": 1 << 20 })), exact);
    let shared = run(json!({ "counters": 2 }));
    assert_ne!(shared, exact, "two counters for 24 lines");
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    for (name, params) in [
        ("lfi", json!({ "counters": 0 })),
        ("block-length", json!({ "max_lines": 0 })),
        ("block-length", json!({ "max_lines": 3 })),
        ("block-length", json!({ "max_lines": 5, "aligned": false })),
        ("2q", json!({ "in_percent": 0 })),
        ("2q", json!({ "out_percent": 401 })),
        ("cflru", json!({ "window_percent": 101 })),
    ] {
        let entry = cxlab_engine::catalog::find(CATALOG, name).unwrap();
        let error = (entry.build)(&params).err().unwrap();
        assert!(error.message.contains("allowed"), "{error}");
    }
    for entry in CATALOG {
        assert!((entry.build)(&json!({ "nonsense": 1 })).is_err());
    }
    for (lines, ways) in [(0, 1), (8, 0), (8, 3), (1 << 27, 8)] {
        let error = Geometry::set_associative(lines, ways).unwrap_err();
        assert!(error.to_string().contains("allowed"), "{error}");
    }
}

#[test]
fn a_block_reaches_across_sets_but_not_across_owners_or_pins() {
    let policy = victim::build("block-length").unwrap();
    let geometry = Geometry::set_associative(16, 2).unwrap();
    let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
    let slots: Vec<Slot> = (0..16)
        .map(|line| tags.insert(LineAddr(line), line))
        .collect();
    let block = |tags: &mut TagArray<u64>| match tags.room(LineAddr(16)) {
        SetRoom::Evict(block) => (block.victim.0, block.first.0, block.lines),
        other => panic!("{other:?}"),
    };
    assert_eq!(block(&mut tags), (8, 8, 4), "of equals, the last inserted");
    tags.pin(slots[9]);
    assert_eq!(block(&mut tags), (0, 0, 4), "8 is alone now");
    tags.set_owner(slots[3], 1);
    assert_eq!(block(&mut tags), (0, 0, 2));
    tags.unpin(slots[9]);
    assert_eq!(block(&mut tags), (8, 8, 4));
}

/// The victims of a sequence of accesses, in an array of one set.
fn leaving(name: &str, ways: u64, accesses: &[u64]) -> Vec<u64> {
    let policy = victim::build(name).unwrap();
    let geometry = Geometry::fully_associative(ways).unwrap();
    let mut tags = TagArray::new(geometry, policy.as_ref(), rng());
    let steps = accesses.iter().map(|line| TagOperation::Access(*line));
    steps
        .filter_map(|step| apply(&mut tags, step).map(|line| line.0))
        .collect()
}

#[test]
fn a_scan_does_not_drive_out_what_2q_found_worth_keeping() {
    // 0 and 1 leave A1in (which may hold 2 of 8), return while they are remembered, and enter Am.
    let mut accesses: Vec<u64> = (0..10).chain([0, 1]).collect();
    accesses.extend(100..150);
    let left = leaving("2q", 8, &accesses);
    let since = left.len() - 50;
    assert!(left[since..].iter().all(|line| *line > 1), "{left:?}");
    assert!(leaving("lru", 8, &accesses)[since..].contains(&0));
}

#[test]
fn clock_gives_a_used_line_another_round() {
    // Insertion marks all lines. 4 unmarks all and evicts 0; then 1 is used, and 2
    // is evicted first.
    assert_eq!(leaving("clock", 4, &[0, 1, 2, 3, 4, 1, 5]), [0, 2]);
}

#[test]
fn lfru_keeps_what_was_used_more_often_however_long_ago() {
    assert_eq!(leaving("lfru", 3, &[0, 0, 0, 1, 1, 2, 3, 4]), [2, 3]);
}
