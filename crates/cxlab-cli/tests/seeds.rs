//! `cxlab run --seeds`: what it writes, that it does not depend on how many runs are side by side, and what it refuses.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Folder, Output, finish, signal, until};
use serde_json::Value;

/// A value by its path in a report, such as `hosts[0].latency_ns.p99`.
fn at(report: &Value, path: &str) -> f64 {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    let value = report.pointer(&format!("/{pointer}"));
    value
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{path}"))
}

fn floats(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap();
    values.iter().map(|one| one.as_f64().unwrap()).collect()
}

#[test]
fn each_seed_has_the_values_of_its_own_run_and_the_mean_has_students_interval() {
    let folder = Folder::with_base("seeds");
    let output = folder.cxlab("run base.toml --seed=5 --seeds=3 --out out");
    output.done().prints(&["3 runs, seeds 5 to 7"]);
    let seeds = folder.json("out/seeds.json");
    assert_eq!(seeds["asked"], 3);
    assert_eq!(seeds["partial"], false);
    let mut reports = Vec::new();
    for (number, seed) in [5, 6, 7].into_iter().enumerate() {
        let run = format!("run base.toml --seed {seed} -q --out single{seed}");
        folder.cxlab(&run).ends(0);
        let report = folder.json(&format!("single{seed}/report.json"));
        for field in ["seed", "digest", "window_ns", "sim_time_ns"] {
            let of_seed = &seeds["runs"][number][field];
            assert_eq!(*of_seed, report[field], "{field} of seed {seed}");
        }
        reports.push(report);
    }
    let quantities = seeds["quantities"].as_array().unwrap();
    let mut varied = 0;
    for one in quantities {
        let name = one["name"].as_str().unwrap();
        let expected: Vec<f64> = reports.iter().map(|report| at(report, name)).collect();
        assert_eq!(floats(&one["values"]), expected, "{name}");
        let mean = expected.iter().sum::<f64>() / 3.0;
        let squares: f64 = expected.iter().map(|value| (value - mean).powi(2)).sum();
        // The 0.975 quantile of Student's t with two degrees of freedom.
        let width = 4.302_652_73 * (squares / 6.0).sqrt();
        let close = |found: &Value, expected: f64| {
            (found.as_f64().unwrap() - expected).abs() <= 1e-9 * mean.abs().max(1.0)
        };
        assert!(close(&one["mean"], mean), "{name}: {one}");
        assert!(close(&one["ci95"], width), "{name}: {one}");
        let [min, max] = [&one["min"], &one["max"]].map(|end| end.as_f64().unwrap());
        let has_ends = expected.contains(&min) && expected.contains(&max);
        let is_inside = expected.iter().all(|value| (min..=max).contains(value));
        assert!(has_ends && is_inside, "{name}: {one}");
        varied += usize::from(width > 0.0 && name.contains("latency_ns.mean"));
    }
    // All requests, reads, and both hosts.
    assert_eq!(varied, 4, "seeds do not differ");
    let svg = folder.text("out/seeds.svg");
    assert!(svg.starts_with("<svg") && svg.contains("Mean latency"));
    // The files of one run and of several are never together in a folder.
    folder.cxlab("run base.toml -q --out out").ends(0);
    assert_eq!(folder.names("out"), ["report.json", "topology.svg"]);
    let again = folder.cxlab("run base.toml --seeds=2 -q --out out");
    assert_eq!(again.ends(0).stdout, "");
    assert_eq!(folder.names("out"), ["seeds.json", "seeds.svg"]);
}

#[test]
fn the_files_do_not_depend_on_how_many_runs_are_side_by_side() {
    let folder = Folder::with_base("seeds-threads");
    let files = |threads: &str| {
        let run = format!("run base.toml --seeds=9 --threads {threads} --out out{threads}");
        let shown = folder.cxlab(&run).ends(0).stdout;
        let of = |name: &str| folder.text(&format!("out{threads}/{name}"));
        let shown = shown.replace(&format!("out{threads}"), "");
        (shown, of("seeds.json"), of("seeds.svg"))
    };
    let one = files("1");
    assert!(files("2") == one && files("auto") == one);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Folder::with_base("seeds-refused");
    let cases: [(&[&str], &str); 10] = [
        (&["--seeds=0"], "allowed: a whole number from 2 to 1000"),
        (&["--seeds=1"], "allowed: a whole number from 2 to 1000"),
        (&["--seeds=1001"], "allowed: a whole number from 2 to 1000"),
        (&["--seeds=two"], "allowed: a whole number from 2 to 1000"),
        (
            &["--seeds=3", "--mode=analytic"],
            "--seeds: found with a --mode other than events",
        ),
        (
            &["--seeds=3", "--requests"],
            "--seeds: found with --requests",
        ),
        (
            &["--seeds=3", "--checkpoint=saved"],
            "--seeds: found with --checkpoint",
        ),
        (
            &["--seeds=3", "--restore=saved"],
            "--seeds: found with --restore",
        ),
        (
            &["--seeds=3", "--seed=18446744073709551614"],
            "found 3 seeds from 18446744073709551614 on; allowed: the last of them at most 18446744073709551615",
        ),
        // A mistake that only a run finds, told once.
        (
            &[
                "--seeds=3",
                "--set=hosts[0].requests=20",
                "--set=measure.warmup_requests=1000",
            ],
            "the workloads ended during the warm-up",
        ),
    ];
    for (more, expected) in cases {
        let output = finish(folder.command("run base.toml --out out").args(more)).ends(2);
        let found = output.stderr.matches(expected).count();
        assert_eq!(found, 1, "{more:?}: {}", output.stderr);
        assert!(!folder.path("out").exists(), "{more:?} left its folder");
    }
}

#[test]
fn an_interrupted_command_keeps_what_was_measured_and_says_that_it_is_partial() {
    let folder = Folder::with_base("seeds-interrupt");
    let endless = "run base.toml --set=measure.requests=100000000000";
    let mut command = folder.command(&format!("{endless} --seeds=4 --threads=2 --out out"));
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("the runs' folder", || folder.path("out").exists());
    // The handler is set right after the folder is made; then let some requests complete.
    std::thread::sleep(Duration::from_millis(1500));
    signal(&child, "-INT");
    let output = Output::of(endless, &child.wait_with_output().unwrap());
    let says = ["0 of 4 runs are whole", "partial"];
    output.ends(130).says(&says);
    let seeds = folder.json("out/seeds.json");
    assert_eq!(seeds["asked"], 4);
    assert_eq!(seeds["partial"], true);
    let runs = seeds["runs"].as_array().unwrap();
    assert!((1..=2).contains(&runs.len()), "{}", runs.len());
    for run in runs {
        assert_eq!(run["partial"], true);
        assert!(run["completed"].as_u64().unwrap() > 0);
    }
    let total = &seeds["quantities"][0];
    assert_eq!(total["ci95"], Value::Null);
    assert_eq!(total["values"], serde_json::json!([]));
}
