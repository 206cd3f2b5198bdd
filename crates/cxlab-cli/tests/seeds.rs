//! `cxlab run --seeds`: what it writes, that it does not depend on how many runs are side by side, and what it refuses.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, command, cxlab};
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

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
    let folder = Folder::new("seeds");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let output = cxlab(&[&"run", &base, &"--seed=5", &"--seeds=3", &"--out", &out]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.stderr, "");
    assert!(
        output.stdout.contains("3 runs, seeds 5 to 7"),
        "{}",
        output.stdout
    );
    let seeds = json(&out.join("seeds.json"));
    assert_eq!(
        (&seeds["asked"], &seeds["partial"]),
        (&3.into(), &false.into())
    );
    let mut reports = Vec::new();
    for (number, seed) in ["5", "6", "7"].iter().enumerate() {
        let single = folder.path(&format!("single{seed}"));
        let run = cxlab(&[&"run", &base, &"--seed", seed, &"-q", &"--out", &single]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let report = json(&single.join("report.json"));
        for field in ["seed", "digest", "window_ns", "sim_time_ns"] {
            assert_eq!(
                seeds["runs"][number][field], report[field],
                "{field} of seed {seed}"
            );
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
        let ends = [&one["min"], &one["max"]].map(|end| end.as_f64().unwrap());
        assert!(
            expected.contains(&ends[0]) && expected.contains(&ends[1]),
            "{name}"
        );
        assert!(
            expected
                .iter()
                .all(|value| ends[0] <= *value && *value <= ends[1])
        );
        varied += usize::from(width > 0.0 && name.contains("latency_ns.mean"));
    }
    // All requests, reads, and both hosts.
    assert_eq!(varied, 4, "seeds do not differ");
    let svg = std::fs::read_to_string(out.join("seeds.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("Mean latency"));
    // The files of one run and of several are never together in a folder.
    let single = cxlab(&[&"run", &base, &"-q", &"--out", &out]);
    assert_eq!(single.code, Some(0));
    assert!(!out.join("seeds.json").exists() && !out.join("seeds.svg").exists());
    let again = cxlab(&[&"run", &base, &"--seeds=2", &"-q", &"--out", &out]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
    assert!(!out.join("report.json").exists() && !out.join("topology.svg").exists());
}

#[test]
fn the_files_do_not_depend_on_how_many_runs_are_side_by_side() {
    let folder = Folder::new("seeds-threads");
    let base = folder.file("base.toml", BASE.as_bytes());
    let files = |threads: &str| {
        let out = folder.path(&format!("out{threads}"));
        let output = cxlab(&[
            &"run",
            &base,
            &"--seeds=9",
            &"--threads",
            &threads,
            &"--out",
            &out,
        ]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let shown = output.stdout.replace(&out.display().to_string(), "");
        let files = ["seeds.json", "seeds.svg"];
        (
            shown,
            files.map(|name| std::fs::read(out.join(name)).unwrap()),
        )
    };
    let one = files("1");
    assert!(files("2") == one && files("auto") == one);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Folder::new("seeds-refused");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let checkpoint = format!("--checkpoint={}", folder.path("saved").display());
    let restore = format!("--restore={}", folder.path("saved").display());
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
            &["--seeds=3", &checkpoint],
            "--seeds: found with --checkpoint",
        ),
        (&["--seeds=3", &restore], "--seeds: found with --restore"),
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
        let mut command = command(&[&"run", &base, &"--out", &out]);
        let output = common::finish(command.args(more));
        assert_eq!(output.code, Some(2), "{more:?}: {}", output.stderr);
        assert_eq!(
            output.stderr.matches(expected).count(),
            1,
            "{more:?}: {}",
            output.stderr
        );
        assert!(!out.exists(), "{more:?} left its folder");
    }
}

#[test]
fn an_interrupted_command_keeps_what_was_measured_and_says_that_it_is_partial() {
    let folder = Folder::new("seeds-interrupt");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let endless = "--set=measure.requests=100000000000";
    let child = command(&[
        &"run",
        &base,
        &endless,
        &"--seeds=4",
        &"--threads=2",
        &"--out",
        &out,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let began = Instant::now();
    while !out.exists() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the runs do not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    // The handler is set right after the folder is made; then let some requests complete.
    std::thread::sleep(Duration::from_millis(1500));
    let kill = Command::new("kill")
        .arg("-INT")
        .arg(child.id().to_string())
        .status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("0 of 4 runs are whole") && said.contains("partial"),
        "{said}"
    );
    let seeds = json(&out.join("seeds.json"));
    assert_eq!(
        (&seeds["asked"], &seeds["partial"]),
        (&4.into(), &true.into())
    );
    let runs = seeds["runs"].as_array().unwrap();
    assert!((1..=2).contains(&runs.len()), "{}", runs.len());
    for run in runs {
        assert_eq!(run["partial"], true);
        assert!(run["completed"].as_u64().unwrap() > 0);
    }
    let total = &seeds["quantities"][0];
    assert_eq!(
        (&total["ci95"], total["values"].as_array().unwrap().len()),
        (&Value::Null, 0)
    );
}
