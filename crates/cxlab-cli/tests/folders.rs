//! Folders of results as users have them: one writer, one run's files, and nothing of the user's is lost.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{Folder, Random, command, cxlab, root};
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

/// The run that a folder's files are of, which is one.
fn run_of(out: &Path) -> String {
    let report: Value = serde_json::from_str(&text(&out.join("report.json"))).unwrap();
    let run = report["run"].as_str().unwrap().to_owned();
    assert_eq!(run.len(), 16);
    let stamp = format!("<!-- cxlab run {run} -->");
    assert!(text(&out.join("topology.svg")).contains(&stamp), "{run}");
    let log = out.join("requests.parquet");
    if log.exists() {
        assert!(text(&log).contains(&run), "{run}");
    }
    run
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn all_files_carry_the_run_and_a_run_replaces_those_of_the_one_before() {
    let folder = Folder::new("sets");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let run = |more: &[&str]| {
        let mut run = command(&[&"run", &base, &"--out", &out, &"--quiet"]);
        let done = common::finish(run.args(more));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    };
    run(&["--requests"]);
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    let first = run_of(&out);
    let all = [
        "notes.txt",
        "report.json",
        "requests.parquet",
        "topology.svg",
    ];
    assert_eq!(names(&out), all);
    run(&["--requests"]);
    assert_eq!(run_of(&out), first, "the same run");
    run(&["--seed", "8"]);
    assert_ne!(run_of(&out), first, "another seed");
    assert_eq!(names(&out), ["notes.txt", "report.json", "topology.svg"]);
    run(&["--mode", "analytic"]);
    run_of(&out);
    run(&["--seeds", "2"]);
    assert_eq!(names(&out), ["notes.txt", "seeds.json", "seeds.svg"]);
}

#[test]
fn two_runs_do_not_write_to_one_folder() {
    let folder = Folder::new("twice");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let long = "--set=measure.requests=100000000";
    let mut first = command(&[&"run", &base, &long, &"--out", &out, &"--quiet"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !out.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // It has made the folder, and then takes it.
    std::thread::sleep(Duration::from_millis(200));
    let second = cxlab(&[&"run", &base, &"--out", &out]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    assert!(
        second.stderr.contains("another cxlab is writing to it"),
        "{}",
        second.stderr
    );
    let third = cxlab(&[&"run", &base, &"--out", &out]);
    assert_eq!(third.code, Some(0), "{}", third.stderr);
    run_of(&out);
    assert_eq!(names(&out), ["report.json", "topology.svg"]);
}

#[test]
fn a_file_of_the_users_with_the_name_of_a_result_stays() {
    let folder = Folder::new("mine");
    let base = folder.file("base.toml", BASE.as_bytes());
    for name in [
        "report.json",
        "topology.svg",
        "requests.parquet",
        "seeds.json",
    ] {
        let out = folder.path(&format!("out-{name}"));
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join(name), "mine").unwrap();
        for more in [
            &[][..],
            &["--requests"],
            &["--seeds", "2"],
            &["--mode", "analytic"],
        ] {
            let mut run = command(&[&"run", &base, &"--out", &out, &"--quiet"]);
            let refused = common::finish(run.args(more));
            assert_eq!(refused.code, Some(2), "{name} {more:?}: {}", refused.stderr);
            let says = format!("found `{name}`, which cxlab did not write");
            assert!(refused.stderr.contains(&says), "{name}: {}", refused.stderr);
            assert_eq!(names(&out), [name]);
            assert_eq!(text(&out.join(name)), "mine");
        }
    }
}

#[test]
fn files_of_a_fleet_carry_the_study() {
    let folder = Folder::new("studies");
    let fleet = root().join("scenarios/fleet-pond.toml");
    let small = ["--set=fleet.hosts=50", "--set=fleet.days=1"];
    let study = |seed: &str, more: &[&str], stem: &str| {
        let out = folder.path("out");
        let mut study = command(&[&"fleet", &fleet, &"--out", &out, &"--seed", &seed]);
        let done = common::finish(study.args(small).args(more));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let report: Value = serde_json::from_str(&text(&out.join(format!("{stem}.json")))).unwrap();
        let run = report["run"].as_str().unwrap().to_owned();
        let stamp = format!("<!-- cxlab run {run} -->");
        let picture = out.join(format!("{stem}.svg"));
        assert!(!picture.exists() || text(&picture).contains(&stamp));
        run
    };
    let first = study("1", &[], "fleet");
    assert_eq!(first.len(), 16);
    assert_eq!(study("1", &[], "fleet"), first);
    let others = [
        study("2", &[], "fleet"),
        study("1", &["--seeds", "2"], "seeds"),
        study("1", &["--grid", "fleet.days=1"], "sweep"),
    ];
    assert!(!others.contains(&first), "{others:?}");
}

/// The files of a folder are of one run, or what is left to do is written down and the next run does it.
#[test]
#[ignore = "slow: 200 killed commands"]
fn a_command_that_is_killed_at_any_time_loses_no_earlier_result_and_mixes_none() {
    let folder = Folder::new("kills");
    let base = folder.file("base.toml", BASE.as_bytes());
    let fleet = root().join("scenarios/fleet-pond.toml");
    let (out, planned) = (folder.path("out"), folder.path("planned"));
    let mut random = Random::new();
    let small = "--set=fleet.hosts=100";
    let begin = |seed: &str, fleet_turn: bool| match fleet_turn {
        true => command(&[
            &"fleet", &fleet, &"--out", &planned, &"--seed", &seed, &small,
        ]),
        false => command(&[
            &"run",
            &base,
            &"--out",
            &out,
            &"--requests",
            &"--seed",
            &seed,
        ]),
    };
    for turn in [false, true] {
        let done = common::finish(&mut begin("1", turn));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let mut unfinished = 0;
    for kill in 0..200 {
        let fleet_turn = kill % 4 == 3;
        let seed = (kill + 2).to_string();
        let mut child = begin(&seed, fleet_turn)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let longest = if fleet_turn { 3_000_000 } else { 150_000 };
        std::thread::sleep(Duration::from_micros(random.below(longest)));
        child.kill().unwrap();
        child.wait().unwrap();
        if fleet_turn {
            let report: Value = serde_json::from_str(&text(&planned.join("fleet.json"))).unwrap();
            assert_eq!(report["partial"], Value::Bool(false), "kill {kill}");
        } else if out.join(".cxlab-replacing").exists() {
            unfinished += 1;
        } else {
            run_of(&out);
        }
    }
    println!("{unfinished} of 200 were killed while files were renamed");
    for turn in [false, true] {
        let done = common::finish(&mut begin("1", turn));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    run_of(&out);
    assert_eq!(
        names(&out),
        ["report.json", "requests.parquet", "topology.svg"]
    );
    assert_eq!(names(&planned), ["fleet.csv", "fleet.json", "fleet.svg"]);
}
