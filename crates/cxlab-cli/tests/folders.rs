//! Folders of results as users have them: one writer, one run's files, and nothing of the user's is lost.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Folder, Random, finish, root, until};

/// The bytes of a file that is no text, as text.
fn bytes(folder: &Folder, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(folder.path(name)).unwrap()).into_owned()
}

/// The run that the files of `out` are of, which is one.
fn run_of(folder: &Folder) -> String {
    let report = folder.json("out/report.json");
    let run = report["run"].as_str().unwrap().to_owned();
    assert_eq!(run.len(), 16);
    let stamp = format!("<!-- cxlab run {run} -->");
    assert!(folder.text("out/topology.svg").contains(&stamp), "{run}");
    if folder.path("out/requests.parquet").exists() {
        let log = bytes(folder, "out/requests.parquet");
        assert!(log.contains(&run), "{run}");
    }
    run
}

#[test]
fn all_files_carry_the_run_and_a_run_replaces_those_of_the_one_before() {
    let folder = Folder::with_base("sets");
    let run = |more: &str| {
        let run = format!("run base.toml --out out --quiet {more}");
        folder.cxlab(&run).ends(0);
    };
    run("--requests");
    folder.file("out/notes.txt", b"mine");
    let first = run_of(&folder);
    let all = [
        "notes.txt",
        "report.json",
        "requests.parquet",
        "topology.svg",
    ];
    assert_eq!(folder.names("out"), all);
    run("--requests");
    assert_eq!(run_of(&folder), first, "the same run");
    run("--seed 8");
    assert_ne!(run_of(&folder), first, "another seed");
    let all = ["notes.txt", "report.json", "topology.svg"];
    assert_eq!(folder.names("out"), all);
    run("--mode analytic");
    run_of(&folder);
    run("--seeds 2");
    let all = ["notes.txt", "seeds.json", "seeds.svg"];
    assert_eq!(folder.names("out"), all);
}

#[test]
fn two_runs_do_not_write_to_one_folder() {
    let folder = Folder::with_base("twice");
    let long = "run base.toml --set=measure.requests=100000000 --out out --quiet";
    let mut first = folder.command(long);
    let mut first = first.stderr(Stdio::null()).spawn().unwrap();
    until("the run's folder", || folder.path("out").exists());
    // It has made the folder, and then takes it.
    std::thread::sleep(Duration::from_millis(200));
    let second = folder.cxlab("run base.toml --out out");
    first.kill().unwrap();
    first.wait().unwrap();
    second.ends(2).says(&["another cxlab is writing to it"]);
    folder.cxlab("run base.toml --out out").ends(0);
    run_of(&folder);
    assert_eq!(folder.names("out"), ["report.json", "topology.svg"]);
}

#[test]
fn a_file_of_the_users_with_the_name_of_a_result_stays() {
    let folder = Folder::with_base("mine");
    for name in [
        "report.json",
        "topology.svg",
        "requests.parquet",
        "seeds.json",
    ] {
        let out = format!("out-{name}");
        std::fs::create_dir(folder.path(&out)).unwrap();
        let file = format!("{out}/{name}");
        folder.file(&file, b"mine");
        for more in ["", "--requests", "--seeds 2", "--mode analytic"] {
            let run = format!("run base.toml --out {out} --quiet {more}");
            let says = format!("found `{name}`, which cxlab did not write");
            folder.cxlab(&run).ends(2).says(&[&says]);
            assert_eq!(folder.names(&out), [name]);
            assert_eq!(folder.text(&file), "mine");
        }
    }
}

/// A study of a small fleet, into `out`.
fn fleet(hosts: u32) -> String {
    let scenario = root().join("scenarios/fleet-pond.toml");
    format!(
        "fleet '{}' --set=fleet.hosts={hosts} --out out",
        scenario.display()
    )
}

#[test]
fn files_of_a_fleet_carry_the_study() {
    let folder = Folder::new("studies");
    let study = |more: &str, stem: &str| {
        let study = format!("{} --set=fleet.days=1 {more}", fleet(50));
        folder.cxlab(&study).ends(0);
        let report = folder.json(&format!("out/{stem}.json"));
        let run = report["run"].as_str().unwrap().to_owned();
        let stamp = format!("<!-- cxlab run {run} -->");
        let picture = format!("out/{stem}.svg");
        assert!(!folder.path(&picture).exists() || folder.text(&picture).contains(&stamp));
        run
    };
    let first = study("--seed 1", "fleet");
    assert_eq!(first.len(), 16);
    assert_eq!(study("--seed 1", "fleet"), first);
    let others = [
        study("--seed 2", "fleet"),
        study("--seed 1 --seeds 2", "seeds"),
        study("--seed 1 --grid fleet.days=1", "sweep"),
    ];
    assert!(!others.contains(&first), "{others:?}");
}

/// The files of a folder are of one run, or what is left to do is written down and the next run does it.
#[test]
#[ignore = "slow: 200 killed commands"]
fn a_command_that_is_killed_at_any_time_loses_no_earlier_result_and_mixes_none() {
    let (folder, planned) = (Folder::with_base("kills"), Folder::new("kills-fleet"));
    let mut random = Random::new();
    let begin = |seed: u32, fleet_turn: bool| match fleet_turn {
        true => planned.command(&format!("{} --seed {seed}", fleet(100))),
        false => folder.command(&format!("run base.toml --out out --requests --seed {seed}")),
    };
    let whole = || [false, true].map(|turn| finish(&mut begin(1, turn)).ends(0));
    whole();
    let mut unfinished = 0;
    for kill in 0..200 {
        let fleet_turn = kill % 4 == 3;
        let mut command = begin(kill + 2, fleet_turn);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let longest = if fleet_turn { 3_000_000 } else { 150_000 };
        std::thread::sleep(Duration::from_micros(random.below(longest)));
        child.kill().unwrap();
        child.wait().unwrap();
        if fleet_turn {
            let report = planned.json("out/fleet.json");
            assert_eq!(report["partial"], false, "kill {kill}");
        } else if folder.path("out/.cxlab-replacing").exists() {
            unfinished += 1;
        } else {
            run_of(&folder);
        }
    }
    println!("{unfinished} of 200 were killed while files were renamed");
    whole();
    run_of(&folder);
    let all = ["report.json", "requests.parquet", "topology.svg"];
    assert_eq!(folder.names("out"), all);
    let all = ["fleet.csv", "fleet.json", "fleet.svg"];
    assert_eq!(planned.names("out"), all);
}
