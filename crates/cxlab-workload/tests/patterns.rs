//! Laws that every synthetic pattern obeys, and what is particular to each.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::collections::BTreeSet;
use std::path::Path;

use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_workload::pattern::CATALOG;
use cxlab_workload::{MemOp, OpKind, SourceContext, Workload, WorkloadError};
use serde_json::{Value, json};

const SYNTHETIC: [&str; 5] = ["stream", "stride", "uniform", "hot-cold", "pointer-chase"];

fn context(span: u64, requester: usize, requesters: usize) -> SourceContext<'static> {
    let scenario_dir = Path::new(".");
    SourceContext {
        span: Bytes(span),
        local: Bytes(0),
        requester,
        requesters,
        scenario_dir,
        trace_override: None,
    }
}

fn build(name: &str, params: &Value) -> Box<dyn Workload> {
    (find(CATALOG, name).unwrap().build)(params).unwrap()
}

fn take(name: &str, params: &Value, ctx: &SourceContext, seed: u64, count: usize) -> Vec<MemOp> {
    let mut source = build(name, params).source(ctx).unwrap();
    let mut rng = StreamRng::new(seed, "host0");
    std::iter::from_fn(|| source.next_op(&mut rng))
        .take(count)
        .collect()
}

fn message(name: &str, params: Value, ctx: &SourceContext) -> String {
    let built = (find(CATALOG, name).unwrap().build)(&params).map_err(WorkloadError::from);
    built
        .and_then(|workload| workload.source(ctx))
        .err()
        .unwrap()
        .to_string()
}

#[test]
fn the_catalog_has_each_name_once_and_a_schema_for_each() {
    let names: BTreeSet<_> = CATALOG.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), CATALOG.len());
    let mut generator = schemars::SchemaGenerator::default();
    for entry in CATALOG {
        assert!(!entry.summary.is_empty());
        (entry.schema)(&mut generator);
        assert!(
            (entry.build)(&json!({"no_such_key": 1})).is_err(),
            "{}",
            entry.name
        );
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
fn the_same_seed_gives_the_same_operations() {
    let params = json!({"read_ratio": 0.5});
    for name in SYNTHETIC {
        let ctx = context(1 << 30, 0, 1);
        assert_eq!(
            take(name, &params, &ctx, 9, 1_000),
            take(name, &params, &ctx, 9, 1_000)
        );
        assert_ne!(
            take(name, &params, &ctx, 9, 1_000),
            take(name, &params, &ctx, 10, 1_000)
        );
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
            assert!(
                (reads(&random) as f64 - expected).abs() <= bound,
                "{name} {ratio}"
            );
            let params = json!({"read_ratio": ratio, "mix": "regular"});
            let regular = take(name, &params, &ctx, 5, 40_000);
            for count in [1, 2, 3, 10, 999, 40_000] {
                let exact = count as f64 * ratio;
                let found = reads(&regular[..count]) as f64;
                assert!(
                    (found - exact).abs() < 1.0 + 1e-6,
                    "{name} {ratio} {count}: {found}"
                );
            }
        }
    }
}

#[test]
fn a_stream_is_sequential_and_starts_again() {
    let ops = take(
        "stream",
        &json!({"footprint": "192 B"}),
        &context(1 << 20, 0, 1),
        1,
        7,
    );
    assert_eq!(
        ops.iter().map(|op| op.hpa.0).collect::<Vec<_>>(),
        [0, 64, 128, 0, 64, 128, 0]
    );
}

#[test]
fn stride_and_pointer_chase_visit_every_line_once_a_lap() {
    for lines in [2u64, 5, 64, 100, 1000] {
        let footprint = format!("{} B", lines * 64);
        for (name, params) in [
            ("pointer-chase", json!({"footprint": footprint})),
            ("stride", json!({"footprint": footprint, "stride": "64 B"})),
            (
                "stride",
                json!({"footprint": footprint, "stride": format!("{} B", lines / 2 * 64)}),
            ),
        ] {
            let ops = take(
                name,
                &params,
                &context(1 << 20, 0, 1),
                1,
                2 * lines as usize,
            );
            let lap: BTreeSet<u64> = ops[..lines as usize]
                .iter()
                .map(|op| op.hpa.0 / 64)
                .collect();
            assert!(lap.into_iter().eq(0..lines), "{name} {lines}");
            assert_eq!(
                ops[..lines as usize],
                ops[lines as usize..],
                "{name} {lines}"
            );
        }
    }
}

#[test]
fn hot_lines_take_their_share() {
    let ops = take(
        "hot-cold",
        &json!({"footprint": "64000 B"}),
        &context(1 << 20, 0, 1),
        3,
        50_000,
    );
    let hot = ops.iter().filter(|op| op.hpa.0 < 6_400).count();
    assert!(hot.abs_diff(45_000) < 340, "{hot}"); // five standard deviations of 67
    let touched: BTreeSet<u64> = ops.iter().map(|op| op.hpa.0).collect();
    // 900 cold lines and 5,000 cold operations: 3.5 lines are expected to be left out.
    assert!(
        touched.len() > 980 && touched.len() <= 1000,
        "{}",
        touched.len()
    );
}

#[test]
fn wrong_parameters_name_the_field_the_value_and_what_is_allowed() {
    let ctx = context(1 << 20, 0, 4);
    for (name, params, field, found) in [
        ("stream", json!({"read_ratio": 1.5}), "`read_ratio`", "1.5"),
        (
            "stream",
            json!({"footprint": "2 MiB"}),
            "`footprint`",
            "2 MiB",
        ),
        ("stream", json!({"footprint": "0 B"}), "`footprint`", "0 B"),
        (
            "stream",
            json!({"footprint": "100 B"}),
            "`footprint`",
            "100 B",
        ),
        ("uniform", json!({"offset": "2 MiB"}), "`offset`", "2 MiB"),
        (
            "uniform",
            json!({"footprint": "128 B", "private": true}),
            "`private`",
            "128 B",
        ),
        ("stride", json!({"stride": "0 B"}), "`stride`", "0 B"),
        ("stride", json!({"stride": "1 MiB"}), "`stride`", "1 MiB"),
        (
            "hot-cold",
            json!({"hot_footprint": 1.0}),
            "`hot_footprint`",
            "1",
        ),
        (
            "hot-cold",
            json!({"footprint": "64 B"}),
            "`footprint`",
            "64 B",
        ),
        (
            "trace",
            json!({"path": "x", "time_scale": 0.0}),
            "`time_scale`",
            "0",
        ),
        ("trace", json!({"path": "x", "repeat": 0}), "`repeat`", "0"),
        ("trace", json!({}), "`path`", "none"),
    ] {
        let message = message(name, params, &ctx);
        assert!(
            message.contains(field) && message.contains(found),
            "{message}"
        );
        assert!(message.contains("allowed"), "{message}");
    }
    let message = message("stream", json!({"mix": "regular", "footprint": 5}), &ctx);
    assert!(
        message.starts_with("`footprint`") && message.ends_with("found 5"),
        "{message}"
    );
}
