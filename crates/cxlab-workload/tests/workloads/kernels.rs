//! Properties that every kernel has, and tests of each kernel.

use std::collections::{BTreeMap, BTreeSet};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_workload::{Action, LOCAL_BASE, Program, SourceContext, Step, StepDependency};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{build, refused, source_context};

fn program(name: &str, params: &Value, ctx: &SourceContext) -> Box<dyn Program> {
    build(name, params).unwrap().program(ctx).unwrap()
}

/// All steps of a program, whose own check must then pass.
fn steps(program: &mut dyn Program, seed: u64) -> Vec<Step> {
    let mut rng = StreamRng::new(seed, "core0");
    let steps: Vec<Step> = std::iter::from_fn(|| program.next_step(&mut rng)).collect();
    assert_eq!(program.next_step(&mut rng), None);
    program.check().unwrap();
    steps
}

fn run(name: &str, params: &Value, ctx: &SourceContext, seed: u64) -> Vec<Step> {
    steps(program(name, params, ctx).as_mut(), seed)
}

/// The number of operations that ended in each phase, by the phase's name.
fn operations(program: &dyn Program, steps: &[Step]) -> Vec<(String, usize)> {
    let ended = |phase: usize| {
        let of_phase = steps.iter().filter(|step| usize::from(step.phase) == phase);
        of_phase.filter(|step| step.ends).count()
    };
    let phases = program.phases().iter().enumerate();
    phases
        .map(|(place, phase)| (phase.name.clone(), ended(place)))
        .collect()
}

/// Small parameters of every kernel, in both memories.
fn small() -> Vec<(&'static str, Value)> {
    let wide_stream = json!({"elements": 640, "repeats": 3, "access": "32 B", "base": "64 B"});
    let local_stream = json!({"elements": 640, "data": "local", "base": "4 KiB"});
    let far_reads = json!({"footprint": "64 KiB", "stride": "256 B", "reads": 1000, "warm_up": 0,
        "data": "local"});
    let long_records = json!({"operations": 400, "key": "32 B", "value": "500 B",
        "keys": "zipfian", "update": "out-of-place", "index": "cxl", "base": "8 KiB"});
    let odd_records = json!({"operations": 90, "key": "11 B", "value": "9 B", "keys": "zipfian",
        "data": "local", "update": "out-of-place"});
    let records_of_a_page =
        json!({"operations": 20, "value": "4064 B", "data": "local", "index": "cxl"});
    vec![
        ("stream-kernels", json!({"elements": 640})),
        ("stream-kernels", wide_stream),
        ("stream-kernels", local_stream),
        ("random-read", json!({"footprint": "16 KiB"})),
        ("random-read", far_reads),
        ("key-value", json!({"operations": 150})),
        ("key-value", long_records),
        ("key-value", odd_records),
        ("key-value", records_of_a_page),
    ]
}

/// Whether a step accesses memory of its own system.
fn inside(step: &Step) -> bool {
    let ctx = source_context(0, 1);
    let own = LOCAL_BASE.0..LOCAL_BASE.0 + ctx.local.0;
    step.hpa.0 < ctx.span.0 || own.contains(&step.hpa.0)
}

#[test]
fn kernels_need_a_core_end_by_themselves_and_say_so_when_asked_for_lines() {
    for (name, params) in small() {
        let workload = build(name, &params).unwrap();
        assert!(workload.needs_core() && workload.is_finite(), "{name}");
        let error = workload
            .source(&source_context(0, 1))
            .err()
            .unwrap()
            .to_string();
        assert!(error.starts_with("`kind`"), "{error}");
        for word in [name, "allowed", "`core`"] {
            assert!(error.contains(word), "{error}");
        }
    }
}

#[test]
fn results_are_right_phases_go_up_and_every_step_lies_in_memory() {
    for (name, params) in small() {
        for (requester, requesters) in [(0, 1), (2, 3)] {
            let steps = run(name, &params, &source_context(requester, requesters), 7);
            assert!(steps.iter().all(inside), "{name} {params}");
            assert!(steps.is_sorted_by_key(|step| step.phase), "{name} {params}");
            assert!(steps.iter().all(|step| step.not_before == SimTime::ZERO));
            assert!(steps.last().unwrap().ends, "{name} {params}");
        }
    }
}

#[test]
fn every_phase_has_a_name_of_its_own_and_steps_of_its_own() {
    for (name, params) in small() {
        let mut program = program(name, &params, &source_context(0, 1));
        let steps = steps(program.as_mut(), 1);
        let names: BTreeSet<_> = program.phases().iter().map(|phase| &phase.name).collect();
        assert_eq!(names.len(), program.phases().len());
        for (phase, ended) in operations(program.as_ref(), &steps) {
            assert!(ended > 0 || phase == "warm-up", "{name} {phase}");
        }
    }
}

#[test]
fn cores_never_touch_the_same_line() {
    for (name, params) in small() {
        let mut owners = BTreeMap::new();
        for core in 0..3 {
            for step in run(name, &params, &source_context(core, 3), 5) {
                let owner = *owners.entry(step.hpa.line()).or_insert(core);
                assert_eq!(owner, core, "{name} {params} {step:?}");
            }
        }
    }
}

#[test]
fn every_line_is_stored_before_it_is_loaded() {
    for (name, params) in small().into_iter().filter(|(name, _)| *name != "key-value") {
        let mut stored = BTreeSet::new();
        for step in run(name, &params, &source_context(0, 1), 5) {
            match step.action {
                Action::Store => drop(stored.insert(step.hpa.line())),
                _ => assert!(stored.contains(&step.hpa.line()), "{name} {step:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_same_seed_gives_the_same_steps_and_every_seed_right_results(seed: u64) {
        for (name, params) in small() {
            let first = run(name, &params, &source_context(0, 2), seed);
            let second = run(name, &params, &source_context(0, 2), seed);
            prop_assert!(first == second, "{name} {params}");
        }
    }

    #[test]
    fn stream_is_right_for_every_size_and_number_of_cores(
        lines in 1u64..200,
        repeats in 1u32..5,
        access in prop::sample::select(vec![8, 16, 32, 64]),
        cores in 1usize..5,
    ) {
        let params = json!({
            "elements": 8 * lines, "repeats": repeats, "access": format!("{access} B"),
        });
        prop_assume!(lines >= cores as u64);
        let mut count = 0;
        for core in 0..cores {
            count += run("stream-kernels", &params, &source_context(core, cores), 1).len() as u64;
        }
        prop_assert_eq!(count, 8 * lines * 8 / access * (3 + 10 * u64::from(repeats)));
    }
}

#[test]
fn stream_counts_the_bytes_and_operations_that_stream_counts() {
    let params = json!({"elements": 64, "repeats": 2, "access": "16 B"});
    let mut program = program("stream-kernels", &params, &source_context(0, 1));
    let steps = steps(program.as_mut(), 1);
    let phases = program.phases().iter();
    let bytes = phases.map(|phase| (phase.name.as_str(), phase.bytes.0 / 2));
    let expected = [
        ("init", 0),
        ("copy", 16),
        ("scale", 16),
        ("add", 24),
        ("triad", 24),
        ("copy-2", 16),
        ("scale-2", 16),
        ("add-2", 24),
        ("triad-2", 24),
    ];
    assert_eq!(bytes.collect::<Vec<_>>(), expected);
    for (phase, ended) in operations(program.as_ref(), &steps) {
        assert_eq!(ended, 32, "{phase}");
    }
}

#[test]
fn triad_loads_b_and_c_and_stores_a() {
    let params = json!({"elements": 8, "base": "128 B", "cycles": 5});
    let steps = run("stream-kernels", &params, &source_context(0, 1), 1);
    let triad: Vec<_> = steps
        .iter()
        .filter(|step| step.phase == 4)
        .take(4)
        .map(|step| (step.hpa.0, step.action, step.after, step.cycles, step.ends))
        .collect();
    let expected = [
        (192, Action::Load, StepDependency::Nothing, 0, false),
        (256, Action::Load, StepDependency::Nothing, 0, false),
        (128, Action::Store, StepDependency::Previous, 5, true),
        (200, Action::Load, StepDependency::Nothing, 0, false),
    ];
    assert_eq!(triad, expected);
}

#[test]
fn random_reads_depend_on_each_other_and_touch_every_place_once_a_lap() {
    let params = json!({"footprint": "64 KiB", "warm_up": 2, "base": "1 MiB"});
    let steps = run("random-read", &params, &source_context(0, 1), 3);
    let loads: Vec<_> = steps.iter().filter(|step| step.phase > 0).collect();
    assert_eq!(loads.len(), 3 * 1024);
    assert!(
        loads
            .iter()
            .all(|step| step.after == StepDependency::Previous)
    );
    assert!(loads.iter().all(|step| step.action == Action::Load));
    for lap in loads.chunks(1024) {
        let places: BTreeSet<_> = lap.iter().map(|step| step.hpa.0).collect();
        let all = (0..1024).map(|line| (1 << 20) + 64 * line);
        assert!(places.into_iter().eq(all));
    }
    let is_near = |pair: &&[&Step]| pair[0].hpa.0.abs_diff(pair[1].hpa.0) <= 64;
    let near = loads.windows(2).filter(is_near).count();
    assert!(near < 30, "{near} of 3072 next to the one before");
}

#[test]
fn an_unfinished_program_does_not_pass_its_check() {
    for (name, params) in small() {
        let mut program = program(name, &params, &source_context(0, 1));
        let mut rng = StreamRng::new(1, "core0");
        assert!(program.check().is_err(), "{name}");
        program.next_step(&mut rng).unwrap();
        assert!(program.check().is_err(), "{name}");
    }
}

#[test]
fn wrong_parameters_name_the_field_the_value_and_what_is_allowed() {
    let bare = SourceContext {
        local: Bytes(0),
        ..source_context(0, 9)
    };
    let rows = [
        r#"stream-kernels {"elements": 0} => elements: 0"#,
        r#"stream-kernels {"elements": 12} => elements: 12"#,
        r#"stream-kernels {"elements": 64} => elements: 9 cores"#,
        r#"stream-kernels {"base": "1 GiB"} => elements: 1 GiB"#,
        r#"stream-kernels {"repeats": 64} => repeats: 64"#,
        r#"stream-kernels {"access": "4 B"} => access: 4 B"#,
        r#"stream-kernels {"base": "8 B"} => base: 8 B"#,
        r#"stream-kernels {"data": "local"} => data: local"#,
        r#"random-read {"stride": "0 B"} => stride: 0"#,
        r#"random-read {"stride": "96 B"} => stride: 96 B"#,
        r#"random-read {"footprint": "64 B"} => footprint: 64 B"#,
        r#"random-read {"footprint": "1 KiB"} => footprint: 1 KiB"#,
        r#"random-read {"footprint": "2 GiB"} => footprint: 2 GiB"#,
        r#"random-read {"reads": 0} => reads: 0"#,
        r#"random-read {"data": "local"} => data: local"#,
        r#"key-value {"operations": 0} => operations: 0"#,
        r#"key-value {"operations": 8} => operations: 9 cores"#,
        r#"key-value {"index": "local"} => index: local"#,
        r#"key-value {"index": "cxl", "base": "1020 MiB"} => operations: 1020 MiB"#,
        r#"key-value {"key": "4 B"} => key: 4"#,
        r#"key-value {"value": "4065 B"} => value: 4065 B"#,
        r#"key-value {"exponent": 0.0} => exponent: 0"#,
        r#"key-value {"base": "64 B"} => base: 64 B"#,
    ];
    refused(&rows, |workload| workload.program(&bare).map(drop));
}

/// The part of a key-value store that a step accesses. The pages begin at 0, and the index
/// is in local memory.
fn part(step: &Step) -> String {
    let action = match step.action {
        Action::Load => "load",
        Action::Store => "store",
        Action::Flush => "flush",
    };
    let part = match (step.hpa.0 / 4096, step.hpa.0 % 4096) {
        _ if step.hpa >= LOCAL_BASE => "index",
        (0, _) => "count",
        (_, 0) => "lock",
        (_, 8) => "bitmap",
        _ => "record",
    };
    let after = match step.after {
        StepDependency::Nothing => "",
        StepDependency::Previous | StepDependency::Back(1) => " <",
        StepDependency::Back(_) => " < far",
        StepDependency::All => " <<",
    };
    format!("{action} {part}{after}")
}

/// The steps of one operation of a store with records of 64 B, with one operation in each phase.
fn chart(phase: u8) -> String {
    let params = json!({"operations": 1, "value": "48 B"});
    let steps = run("key-value", &params, &source_context(0, 1), 1);
    let of_phase = steps.iter().filter(|step| step.phase == phase);
    of_phase.map(part).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_put_persists_the_record_then_its_bit_then_enters_the_index() {
    let expected = [
        // The lock is free: the version becomes odd. The bitmap has the free slot.
        "load lock, store lock <<, load bitmap <",
        // Both lines of the record and their write-backs, then the bit and its write-back.
        "store record <, store record, flush record, flush record",
        "store bitmap <<, flush bitmap",
        // Directory, lock of the segment, a free pair; then compare and swap, place, and hash.
        "load index, load index <, store index <<, load index <",
        "store index <<, store index <, store index",
        // Both locks are released.
        "load index, store index <<, load lock <, store lock <",
    ];
    assert_eq!(chart(1), expected.join(", "));
}

#[test]
fn a_query_needs_the_index_then_the_key_then_the_value() {
    let expected = [
        "load index, load index <, store index <<",
        // The pair's hash is that of the key, so the record's key at the pair's place is compared.
        "load index <, load index, load record <",
        "load index, store index <<",
        // The version, both lines of the value, the version again.
        "load lock <, load record, load record, load lock <",
    ];
    assert_eq!(chart(2), expected.join(", "));
}

#[test]
fn an_update_in_place_persists_eight_bytes_and_a_delete_a_bit() {
    let find = "load index, load index <, store index <<, load index <, load index, load record <, \
                load index, store index <<, load lock <, store lock <<";
    // The store that releases the lock waits for the write-back.
    let update = "load record <, store record <, flush record, load lock, store lock <<";
    assert_eq!(chart(3), format!("{find}, {update}"));
    let expected = [
        find,
        "load bitmap <, store bitmap <, flush bitmap",
        // The index is searched again for the pair, whose place and hash are cleared.
        "load index, load index <, store index <<, load index <, load index, load record <",
        "store index <<, store index <<, load index <, store index <<",
        "load lock <, store lock <",
    ];
    assert_eq!(chart(4), expected.join(", "));
}

/// Data that a store to the bitmap makes valid are persistent before the store, and everything is
/// persistent at the end of an operation. Locks need not be: they are void after a loss of power.
#[test]
fn nothing_is_valid_before_it_is_persistent() {
    for (data, index) in [("cxl", "local"), ("local", "cxl")] {
        let params = json!({
            "operations": 300, "data": data, "index": index, "update": "out-of-place",
        });
        let (mut dirty, mut leaving) = (BTreeSet::new(), BTreeSet::new());
        let (mut stored, mut flushed) = (BTreeSet::new(), 0);
        for step in run("key-value", &params, &source_context(0, 1), 9) {
            let in_pages = (step.hpa < LOCAL_BASE) == (data == "cxl");
            let line = step.hpa.line();
            if step.after == StepDependency::All {
                leaving.clear();
            }
            if step.action == Action::Store {
                stored.insert(line);
            }
            match (step.action, step.hpa.0 % 4096) {
                (Action::Store, 8) if in_pages => {
                    assert!(dirty.is_empty() && leaving.is_empty(), "{data} {step:?}");
                    dirty.insert(line);
                }
                (Action::Store, 9..) if in_pages => drop(dirty.insert(line)),
                (Action::Flush, _) => {
                    assert!(stored.remove(&line), "{data} {step:?}");
                    dirty.remove(&line);
                    leaving.insert(line);
                    flushed += u64::from(!in_pages);
                }
                _ => {}
            }
            if step.ends {
                assert!(dirty.is_empty() && leaving.is_empty(), "{data} {step:?}");
            }
        }
        // Writes, inserts, updates and deletes change one pair each; in CXL memory the
        // change is written back.
        assert_eq!(flushed, if index == "cxl" { 4 * 300 } else { 0 });
    }
}

/// The number of queries of each record, in descending order.
fn reads_by_record(keys: &str) -> Vec<u32> {
    let params = json!({"operations": 2000, "keys": keys});
    let mut counts = BTreeMap::new();
    let mut last = None;
    for step in run("key-value", &params, &source_context(0, 1), 4) {
        if step.phase != 2 {
            continue;
        }
        // The first load of the pages in an operation is that of the key.
        if step.hpa < LOCAL_BASE && last.is_none() {
            last = Some(step.hpa);
            *counts.entry(step.hpa).or_insert(0) += 1;
        }
        if step.ends {
            last = None;
        }
    }
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

#[test]
fn a_few_keys_take_most_queries_only_by_zipfs_law() {
    let top = |counts: &[u32]| counts.iter().take(40).sum::<u32>();
    let (uniform, zipfian) = (reads_by_record("uniform"), reads_by_record("zipfian"));
    assert_eq!(uniform.iter().sum::<u32>(), 2000);
    assert_eq!(zipfian.iter().sum::<u32>(), 2000);
    // Of 4,000 keys, the first 40 take 4.3 / 8.9 of the queries at an exponent of 0.99.
    assert!(top(&uniform) < 200, "{uniform:?}");
    assert!((900..1150).contains(&top(&zipfian)), "{zipfian:?}");
}

#[test]
fn updates_out_of_place_use_freed_slots_again() {
    let params = json!({"operations": 3000, "update": "out-of-place"});
    let steps = run("key-value", &params, &source_context(0, 1), 4);
    let pages = steps.iter().filter(|step| step.hpa < LOCAL_BASE);
    let last = pages.map(|step| step.hpa.0 / 4096).max().unwrap();
    // 18 records of 216 B fit a page. There is one more record than keys, and the page with
    // the number of pages.
    assert_eq!(last, 6001u64.div_ceil(18));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_store_of_any_shape_ends_with_the_right_content(
        seed: u64,
        operations in 1u64..120,
        key in 8u64..200,
        value in 8u64..1500,
        zipfian: bool,
        out_of_place: bool,
        cxl_index: bool,
        exponent in 0.1f64..3.0,
        cores in 1usize..4,
    ) {
        prop_assume!(operations >= cores as u64);
        let params = json!({
            "operations": operations,
            "key": format!("{key} B"),
            "value": format!("{value} B"),
            "keys": if zipfian { "zipfian" } else { "uniform" },
            "exponent": exponent,
            "update": if out_of_place { "out-of-place" } else { "in-place" },
            "index": if cxl_index { "cxl" } else { "local" },
        });
        let mut ended = 0;
        for core in 0..cores {
            let steps = run("key-value", &params, &source_context(core, cores), seed);
            prop_assert!(steps.iter().all(inside));
            ended += steps.iter().filter(|step| step.ends).count() as u64;
        }
        prop_assert_eq!(ended, 5 * operations);
    }
}
