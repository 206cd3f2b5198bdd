//! Properties that every synthetic pattern has, and tests of each pattern.

use std::collections::BTreeSet;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_workload::pattern::CATALOG;
use cxlab_workload::{MemOp, OpKind, SourceContext};
use serde_json::{Value, json};

use super::{build, refused, source_context};

const SYNTHETIC: [&str; 6] = [
    "stream",
    "stride",
    "uniform",
    "hot-cold",
    "zipf",
    "pointer-chase",
];

fn context(span: u64, requester: usize, requesters: usize) -> SourceContext<'static> {
    SourceContext {
        span: Bytes(span),
        local: Bytes(0),
        ..source_context(requester, requesters)
    }
}

fn take(name: &str, params: &Value, ctx: &SourceContext, seed: u64, count: usize) -> Vec<MemOp> {
    let mut source = build(name, params).unwrap().source(ctx).unwrap();
    let mut rng = StreamRng::new(seed, "host0");
    std::iter::from_fn(|| source.next_op(&mut rng))
        .take(count)
        .collect()
}

/// Operations of the only requester of 1 MiB.
fn alone(name: &str, params: &Value, seed: u64, count: usize) -> Vec<MemOp> {
    take(name, params, &context(1 << 20, 0, 1), seed, count)
}

fn addresses<C: FromIterator<u64>>(ops: &[MemOp]) -> C {
    ops.iter().map(|op| op.hpa.0).collect()
}

#[test]
fn the_catalog_has_each_name_once_and_a_schema_for_each() {
    let names: BTreeSet<_> = CATALOG.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), CATALOG.len());
    let mut generator = schemars::SchemaGenerator::default();
    for entry in CATALOG {
        assert!(!entry.summary.is_empty());
        (entry.schema)(&mut generator);
        let built = (entry.build)(&json!({"no_such_key": 1}));
        assert!(built.is_err(), "{}", entry.name);
    }
}

#[test]
fn operations_stay_in_their_region_on_whole_lines() {
    let params = json!({"offset": "8 KiB", "footprint": "65600 B", "private": true});
    for name in SYNTHETIC {
        for requester in 0..3 {
            let slice = 65_600 / 64 / 3 * 64;
            let first = 8192 + requester as u64 * slice;
            for op in take(name, &params, &context(1 << 20, requester, 3), 1, 5_000) {
                assert!((first..first + slice).contains(&op.hpa.0), "{name} {op:?}");
                assert_eq!(op.hpa.0 % 64, 0);
                assert_eq!(op.not_before, SimTime::ZERO);
                assert_eq!(op.dependent, name == "pointer-chase");
            }
        }
    }
}

#[test]
fn an_operation_covers_its_request() {
    for (request, lines) in [("32 B", 1u8), ("64 B", 1), ("256 B", 4), ("4 KiB", 64)] {
        let bytes = u64::from(lines) * 64;
        for name in SYNTHETIC {
            let mut params = json!({"footprint": "64 KiB", "offset": "8 KiB", "request": request});
            if name == "stride" {
                params["stride"] = json!("8 KiB");
            }
            assert_eq!(build(name, &params).unwrap().request_lines(), lines);
            let ops = alone(name, &params, 1, 2_000);
            for op in &ops {
                assert_eq!((op.lines, op.hpa.0 % bytes), (lines, 0), "{name} {request}");
                let within = (8192..8192 + 65_536).contains(&op.hpa.0);
                assert!(within, "{name} {request}");
            }
            let touched: BTreeSet<u64> = addresses(&ops);
            let all = 65_536 / bytes;
            let most = if name == "stride" {
                all.min(2_000)
            } else {
                all
            };
            assert!(touched.len() as u64 <= most, "{name} {request}");
            if lines > 1 && ["stream", "stride", "pointer-chase"].contains(&name) {
                assert_eq!(touched.len() as u64, all, "{name} {request}");
            }
        }
    }
    // Two halves of a line are two operations on it.
    let params = json!({"request": "32 B"});
    let lines: Vec<u64> = addresses(&alone("stream", &params, 1, 4));
    assert_eq!(lines, [0, 0, 64, 64]);
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let params = json!({"read_ratio": 0.5});
    for name in SYNTHETIC {
        let ops = |seed| take(name, &params, &context(1 << 30, 0, 1), seed, 1_000);
        assert_eq!(ops(9), ops(9), "{name}");
        assert_ne!(ops(9), ops(10), "{name}");
    }
}

fn reads(ops: &[MemOp]) -> u64 {
    ops.iter().filter(|op| op.kind == OpKind::Read).count() as u64
}

#[test]
fn the_read_ratio_is_met() {
    let ctx = context(1 << 30, 0, 1);
    for name in SYNTHETIC {
        for ratio in [0.0f64, 0.25, 2.0 / 3.0, 0.9, 1.0] {
            let random = take(name, &json!({"read_ratio": ratio}), &ctx, 5, 40_000);
            let expected = 40_000.0 * ratio;
            // Five standard deviations of the binomial distribution.
            let bound = 5.0 * (40_000.0 * ratio * (1.0 - ratio)).sqrt();
            let deviation = (reads(&random) as f64 - expected).abs();
            assert!(deviation <= bound, "{name} {ratio}");
            let params = json!({"read_ratio": ratio, "mix": "regular"});
            let regular = take(name, &params, &ctx, 5, 40_000);
            for count in [1, 2, 3, 10, 999, 40_000] {
                let exact = count as f64 * ratio;
                let found = reads(&regular[..count]) as f64;
                let off = (found - exact).abs();
                assert!(off < 1.0 + 1e-6, "{name} {ratio} {count}: {found}");
            }
        }
    }
}

#[test]
fn a_stream_is_sequential_and_starts_again() {
    let ops = alone("stream", &json!({"footprint": "192 B"}), 1, 7);
    let found: Vec<u64> = addresses(&ops);
    assert_eq!(found, [0, 64, 128, 0, 64, 128, 0]);
}

#[test]
fn stride_and_pointer_chase_visit_every_line_once_a_lap() {
    for lines in [2u64, 5, 64, 100, 1000] {
        let footprint = format!("{} B", lines * 64);
        let half = format!("{} B", lines / 2 * 64);
        for (name, params) in [
            ("pointer-chase", json!({"footprint": footprint})),
            ("stride", json!({"footprint": footprint, "stride": "64 B"})),
            ("stride", json!({"footprint": footprint, "stride": half})),
        ] {
            let ops = alone(name, &params, 1, 2 * lines as usize);
            let (first, second) = ops.split_at(lines as usize);
            let lap: BTreeSet<u64> = first.iter().map(|op| op.hpa.0 / 64).collect();
            assert!(lap.into_iter().eq(0..lines), "{name} {lines}");
            assert_eq!(first, second, "{name} {lines}");
        }
    }
}

#[test]
fn hot_lines_take_their_share() {
    let ops = alone("hot-cold", &json!({"footprint": "64000 B"}), 3, 50_000);
    let hot = ops.iter().filter(|op| op.hpa.0 < 6_400).count();
    assert!(hot.abs_diff(45_000) < 340, "{hot}"); // five standard deviations of 67
    let touched = addresses::<BTreeSet<u64>>(&ops).len();
    // 900 cold lines and 5,000 cold operations: 3.5 lines are expected to have no operation.
    assert!((981..=1000).contains(&touched), "{touched}");
}

/// The number of draws of each line.
fn draws(params: &Value, requester: usize, seed: u64) -> Vec<u32> {
    let ctx = context(64_000, requester, 2);
    let mut counts = vec![0; 1_000];
    for op in take("zipf", params, &ctx, seed, 200_000) {
        counts[op.hpa.0 as usize / 64] += 1;
    }
    counts
}

#[test]
fn lines_come_as_often_as_zipfs_law_says() {
    for exponent in [0.6, 0.99, 1.4] {
        let counts = draws(&json!({"exponent": exponent}), 0, 3);
        let weight = |line: usize| ((line + 1) as f64).powf(-exponent);
        let all: f64 = (0..1_000).map(weight).sum();
        for (line, count) in counts.iter().enumerate() {
            let expected = weight(line) / all * 200_000.0;
            let deviation = (f64::from(*count) - expected).abs();
            assert!(
                deviation < 5.0 * expected.sqrt().max(1.0),
                "{exponent}: line {line} came {count} times, expected {expected}"
            );
        }
    }
}

#[test]
fn scrambled_ranks_are_the_same_lines_for_all_requesters_and_seeds() {
    let plain = draws(&json!({}), 0, 3);
    let scrambled = draws(&json!({"scramble": true}), 0, 3);
    let mut sorted = [plain.clone(), scrambled.clone()];
    sorted.iter_mut().for_each(|counts| counts.sort_unstable());
    let [of_plain, of_scrambled] = sorted;
    assert_eq!(of_plain, of_scrambled, "each line keeps its rank's draws");
    assert_ne!(plain, scrambled);
    let hottest = |counts: &[u32]| (0..1_000).max_by_key(|line| counts[*line]);
    assert_eq!(hottest(&plain), Some(0));
    let other = draws(&json!({"scramble": true}), 1, 4);
    assert_eq!(hottest(&other), hottest(&scrambled));
    // Neighbours in rank are not neighbours in memory: the ten hottest lines are
    // spread over several pages.
    let mut lines: Vec<usize> = (0..1_000).collect();
    lines.sort_unstable_by_key(|line| std::cmp::Reverse(scrambled[*line]));
    let pages: BTreeSet<usize> = lines[..10].iter().map(|line| line / 64).collect();
    assert!(pages.len() >= 5, "{pages:?}");
}

#[test]
fn wrong_parameters_name_the_field_the_value_and_what_is_allowed() {
    let ctx = context(1 << 20, 0, 4);
    let rows = [
        r#"stream {"read_ratio": 1.5} => read_ratio: 1.5"#,
        r#"stream {"footprint": "2 MiB"} => footprint: 2 MiB"#,
        r#"stream {"footprint": "0 B"} => footprint: 0 B"#,
        r#"stream {"footprint": "100 B"} => footprint: 100 B"#,
        r#"uniform {"offset": "2 MiB"} => offset: 2 MiB"#,
        r#"uniform {"footprint": "128 B", "private": true} => private: 128 B"#,
        r#"stride {"stride": "0 B"} => stride: 0 B"#,
        r#"stride {"stride": "1 MiB"} => stride: 1 MiB"#,
        r#"hot-cold {"hot_footprint": 1.0} => hot_footprint: 1"#,
        r#"hot-cold {"footprint": "64 B"} => footprint: 64 B"#,
        r#"stream {"request": "96 B"} => request: 96 B"#,
        r#"stream {"request": "8 KiB"} => request: 8 KiB"#,
        r#"uniform {"request": "4 KiB", "footprint": "6 KiB"} => footprint: 6144 B"#,
        r#"stride {"request": "4 KiB", "stride": "64 B"} => stride: 64 B"#,
        r#"zipf {"exponent": 0.0} => exponent: 0"#,
        r#"zipf {"exponent": 4.5} => exponent: 4.5"#,
        r#"trace {"path": "x", "time_scale": 0.0} => time_scale: 0"#,
        r#"trace {"path": "x", "repeat": 0} => repeat: 0"#,
        r#"trace {} => path: none"#,
    ];
    refused(&rows, |workload| workload.source(&ctx).map(drop));
    let wrong = build("stream", &json!({"mix": "regular", "footprint": 5}));
    let message = wrong.err().unwrap().to_string();
    assert!(message.starts_with("`footprint`"), "{message}");
    assert!(message.ends_with("found 5"), "{message}");
}
