//! `cxlab fleet`, through the real command.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Folder, Output, check_all, refusal, root, signal, until};
use serde_json::{Value, json};

/// The shipped scenario, small.
fn small() -> String {
    let text = std::fs::read_to_string(root().join("scenarios/fleet-pond.toml")).unwrap();
    text.replace("hosts = 10_000", "hosts = 128")
        .replace("cluster = 256", "cluster = 64")
        .replace(
            "days = 7",
            "days = 1\nslice = \"1 GiB\"\nplacement = { kind = \"balanced\" }",
        )
}

/// A folder with the small scenario, `pond.toml`.
fn pond(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.file("pond.toml", small().as_bytes());
    folder
}

/// A folder with the small scenario, whose VMs come from a file.
fn listed(name: &str, vms: &str) -> Folder {
    let folder = Folder::new(name);
    let demand = "[fleet]\ndemand = { kind = \"csv\", path = \"vms.csv\" }";
    let text = small().replace("[fleet]", demand);
    folder.file("pond.toml", text.as_bytes());
    let vms = format!("start_s,lifetime_s,cores,memory_gib\n{vms}");
    folder.file("vms.csv", vms.as_bytes());
    folder
}

/// A report without what depends on the machine.
fn without_wall_time(mut report: Value) -> Value {
    report["wall_seconds"] = 0.into();
    report
}

#[test]
fn a_study_writes_its_files_and_does_not_depend_on_threads() {
    let folder = pond("fleet");
    let [one, three] = [1, 3].map(|threads| {
        let study = format!("fleet pond.toml --threads {threads} --out {threads}");
        folder.cxlab(&study).done().prints(&[
            "128 hosts",
            "needed",
            "at peaks",
            "DRAM stranded",
            "slowdown",
            "written:",
        ]);
        let read = |name: &str| folder.text(&format!("{threads}/{name}"));
        assert_eq!(read("fleet.csv").lines().count(), 25);
        assert!(read("fleet.svg").starts_with("<svg"));
        let report = without_wall_time(folder.json(&format!("{threads}/fleet.json")));
        (report, read("fleet.csv"), read("fleet.svg"))
    });
    assert!(one == three);
    assert_eq!(one.0["partial"], false);
    assert_eq!(one.0["mode"], "fleet");
}

/// Mean and interval of the numbers of single studies, with their seeds, by hand.
#[test]
fn several_seeds_give_the_mean_of_single_studies_and_its_interval_on_any_number_of_threads() {
    let folder = pond("fleet-seeds");
    let [one, three] = [1, 3].map(|threads| {
        let study =
            format!("fleet pond.toml --seeds 3 --threads {threads} --out {threads} --seed 7");
        folder.cxlab(&study).done().prints(&["95 % interval"]);
        let report = without_wall_time(folder.json(&format!("{threads}/seeds.json")));
        (report, folder.text(&format!("{threads}/seeds.csv")))
    });
    assert!(one == three);
    let report = one.0;
    assert_eq!(report["seeds"], json!([7, 8, 9]));
    assert_eq!(report["partial"], false);
    let saved = [7, 8, 9].map(|seed| {
        folder.cxlab(&format!(
            "fleet pond.toml --seed {seed} -q --out seed{seed}"
        ));
        let one = folder.json(&format!("seed{seed}/fleet.json"));
        one["needed"]["saved_percent"].as_f64().unwrap()
    });
    let mean = saved.iter().sum::<f64>() / 3.0;
    let squares: f64 = saved.iter().map(|value| (value - mean).powi(2)).sum();
    // Student's t with two degrees of freedom: 4.3027.
    let half = 4.302_652_73 * (squares / 2.0 / 3.0).sqrt();
    let number = &report["numbers"][0];
    assert_eq!(number["name"], "saved_percent");
    assert!((number["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((number["half_width"].as_f64().unwrap() - half).abs() < 1e-6 * half.abs() + 1e-9);
}

#[test]
fn where_no_vm_finds_a_place_nothing_is_said_to_be_saved() {
    let folder = listed("fleet-none", "0,7200,64,8\n60,3600,64,16\n");
    let output = folder.cxlab("fleet pond.toml --out out").done();
    let output = output.prints(&["no VM found a place"]);
    let mut lines = output.stdout.lines();
    let needed = lines.find(|line| line.starts_with("  needed"));
    assert!(
        needed.is_some_and(|line| line.ends_with(" -")),
        "{needed:?}"
    );
    let report = folder.json("out/fleet.json");
    assert_eq!(report["alone"]["rejected"], 2);
    for what in ["needed", "peaks"] {
        assert!(report[what]["saved_percent"].is_null(), "{}", report[what]);
    }
}

/// Latency in the series is that of an access, not a sum over VMs.
#[test]
fn latency_in_the_series_is_between_that_without_load_and_that_of_a_full_fabric() {
    let folder = pond("fleet-latency");
    folder.cxlab("fleet pond.toml --set fleet.sizing=given -q --out out");
    let report = folder.json("out/fleet.json");
    let least = report["latency"]["min_ns"].as_f64().unwrap();
    for point in report["pooled"]["series"].as_array().unwrap() {
        let latency = point["latency_ns"].as_f64().unwrap();
        assert!((least..3.0 * least).contains(&latency), "{latency} {least}");
    }
    assert!(report["alone"]["series"][0]["latency_ns"].is_null());
}

#[test]
fn a_grid_is_a_table_a_picture_and_a_line_for_each_combination() {
    let folder = pond("fleet-grid");
    let policies = "{ kind = \"static\", fraction = 0.3 },{ kind = \"on-demand\" }";
    let grid = format!("--grid hosts[0].count=4,16 --grid 'fleet.pool={policies}'");
    folder
        .cxlab(&format!("fleet pond.toml {grid} --out out"))
        .done();
    let csv = folder.text("out/sweep.csv");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let is_quoted = csv.contains("\"{ kind = \"\"on-demand\"\" }\"");
    let is_bare = csv.contains("16,{ kind = \"\"on-demand\"\" },16,");
    assert!(is_bare || is_quoted, "{csv}");
    let svg = folder.text("out/sweep.svg");
    for policy in ["static, fraction = 0.3", "on-demand"] {
        assert!(svg.contains(policy), "{policy}: {svg}");
    }
    // Four charts, of a line for each policy.
    assert_eq!(svg.matches("<polyline").count(), 8);
}

#[test]
fn vms_come_from_a_file_beside_the_scenario() {
    let folder = listed("fleet-csv", "0,7200,2,8\n60,3600,4,16\n");
    let study = folder.cxlab("fleet pond.toml --set fleet.sizing=given --out out");
    study.done();
    let report = folder.json("out/fleet.json");
    assert_eq!(report["alone"]["arrived"], 2);
    assert_eq!(report["pooled"]["departed"], 2);
    assert_eq!(report["alone"]["series"][0]["cores"], 2);
}

/// What stands in the scenario instead of what, and what the report says.
type Case = (&'static str, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "cluster = 64",
        "clutser = 64",
        &["`clutser`", "did you mean `cluster`?", "pond.toml:"],
    ),
    ("hosts = 128", "hosts = 0", &["fleet.hosts", "0", "1"]),
    ("hosts = 128", "hosts = \"many\"", &["fleet.hosts", "many"]),
    ("days = 1\n", "days = -1\n", &["fleet.days"]),
    ("days = 1\n", "days = 0.02\n", &["fleet.sample_minutes"]),
    (
        "cluster = 64",
        "cluster = 200_000",
        &["fleet.cluster", "100000"],
    ),
    (
        "kind = \"static\"",
        "kind = \"statik\"",
        &["fleet.pool", "did you mean \"static\"?"],
    ),
    ("kind = \"static\"", "kind = \"none\"", &["fraction"]),
    (
        "fraction = 0.5",
        "fraction = 1.5",
        &["fleet.pool.fraction", "1.5"],
    ),
    (
        "kind = \"balanced\"",
        "kind = \"ballanced\"",
        &["fleet.placement", "did you mean \"balanced\"?"],
    ),
    (
        "slice = \"1 GiB\"",
        "slice = \"100 KiB\"",
        &["fleet.slice", "1 MiB"],
    ),
    (
        "slice = \"1 GiB\"",
        "slice = \"1 TiB\"\nsizing = \"given\"",
        &["fleet.slice", "capacity of a device"],
    ),
    (
        "slice = \"1 GiB\"",
        "host = { local = \"64 GiB\" }",
        &["fleet.host.local", "given"],
    ),
    (
        "slice = \"1 GiB\"",
        "host = { dram = \"0 B\" }",
        &["fleet.host.dram"],
    ),
    (
        "slice = \"1 GiB\"",
        "host = { local_latency = \"0 ns\" }",
        &["fleet.host.local_latency"],
    ),
    (
        "slice = \"1 GiB\"",
        "untouched = [0.0, 0.9, 0.5, 0.7, 1.0]",
        &["fleet.untouched", "five numbers"],
    ),
    (
        "slice = \"1 GiB\"",
        "untouched = [0.0, 1.0]",
        &["fleet.untouched"],
    ),
    (
        "slice = \"1 GiB\"",
        "sensitivity = [{ name = \"a\", weight = 0, low = 0, high = 0 }]",
        &["fleet.sensitivity", "weights"],
    ),
    (
        "slice = \"1 GiB\"",
        "sensitivity = [{ name = \"a\", weight = 1, low = 0.2, high = 0.1 }]",
        &["fleet.sensitivity[0].low"],
    ),
    (
        "slice = \"1 GiB\"",
        "demand = { kind = \"generator\", load = [0.9, 0.5] }",
        &["fleet.demand.load"],
    ),
    (
        "slice = \"1 GiB\"",
        "demand = { kind = \"generator\", lifetimes = [{ hours = 1, part = 0 }, { hours = 2, part = 0.5 }] }",
        &["fleet.demand.lifetimes"],
    ),
    (
        "slice = \"1 GiB\"",
        "demand = { kind = \"csv\", path = \"missing.csv\" }",
        &["fleet.demand.path", "missing.csv", "cannot be read"],
    ),
    (
        "slice = \"1 GiB\"",
        "demand = { kind = \"csv\", path = \"bad.csv\" }",
        &[
            "fleet.demand.path",
            "bad.csv:3",
            "column `cores`: found \"x\"",
        ],
    ),
    (
        "[[devices]]",
        "[[devices]]\nname = \"odd\"\ncapacity = \"1 GiB\"\n\n[[devices]]",
        &["devices[1].capacity", "devices[0]"],
    ),
    ("[fleet]", "[flet]", &["did you mean `fleet`?"]),
];

#[test]
fn every_mistake_in_a_fleet_is_exit_code_2_and_located() {
    let folder = Folder::new("fleet-bad");
    folder.file(
        "bad.csv",
        b"start_s,lifetime_s,cores,memory_gib\n0,60,1,4\n0,60,x,4\n",
    );
    check_all(CASES, |number, (before, after, says)| {
        let text = small();
        assert!(text.contains(before), "{before}");
        // Unknown names of the base must not hide what is looked for.
        let (scenario, out) = (format!("{number}-pond.toml"), format!("out{number}"));
        folder.file(&scenario, text.replacen(before, after, 1).as_bytes());
        let output = folder.cxlab(&format!("fleet {scenario} --out {out}"));
        let left = || format!("{after}: a folder is left");
        refusal(after, &output, says).or_else(|| folder.path(&out).exists().then(left))
    });
}

#[test]
fn arguments_that_make_no_sense_are_exit_code_2() {
    let folder = pond("fleet-arguments");
    let direct = root().join("scenarios/direct.toml");
    let direct = format!("'{}'", direct.display());
    for (words, says) in [
        (direct.as_str(), "found no `fleet` table"),
        ("pond.toml --grid hosts", "found no `=`"),
        ("pond.toml --grid hosts[0].count=1,,2", "a value is missing"),
        (
            "pond.toml --grid hosts[0].cuont=1,2",
            "did you mean `count`?",
        ),
        ("pond.toml --threads 0", "--threads"),
        ("pond.toml --seeds 1", "--seeds"),
        ("pond.toml --seeds 2 --grid fleet.days=1,2", "--grid"),
        (
            "pond.toml --seeds 2 --seed 18446744073709551615",
            "--seeds 2",
        ),
    ] {
        let output = folder.cxlab(&format!("fleet {words} --out out"));
        output.ends(2).says(&[says]);
    }
}

/// Runs the command into `out`, interrupts it some time after its folder is there, and returns what it printed.
#[cfg(unix)]
fn interrupted(folder: &Folder, more: &str, after: Duration) -> Output {
    let study = format!("fleet pond.toml --out out -q {more}");
    let mut command = folder.command(&study);
    let running = command.stderr(Stdio::piped()).spawn().unwrap();
    // Its folder is there before its signals are handled; a little later both are.
    until("the study's folder", || folder.path("out").exists());
    std::thread::sleep(after);
    signal(&running, "-INT");
    let output = Output::of(&study, &running.wait_with_output().unwrap());
    output.ends(130).says(&["interrupted"])
}

#[cfg(unix)]
#[test]
fn an_interrupted_study_keeps_what_it_measured() {
    let folder = Folder::new("fleet-interrupt");
    let long = small()
        .replace("hosts = 128", "hosts = 100_000")
        .replace("days = 1\n", "days = 90\n");
    folder.file("pond.toml", long.as_bytes());
    interrupted(&folder, "", Duration::from_millis(700));
    let report = folder.json("out/fleet.json");
    assert_eq!(report["partial"], true);
    let hosts = report["fleet"]["hosts"].as_u64().unwrap();
    assert!(hosts < 100_000, "{hosts}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_grid_says_how_many_points_are_missing() {
    let folder = pond("fleet-grid-interrupt");
    let grid = "--grid fleet.hosts=128,1_000_000,64";
    // The second study takes minutes, and nobody knows how long the first one does here.
    let output = (2..8)
        .map(|power| interrupted(&folder, grid, Duration::from_secs(1 << power)))
        .find(|output| !output.stderr.contains("before the first study ended"));
    output.unwrap().says(&["sweep.csv holds 1 of 3 points"]);
    let sweep = folder.json("out/sweep.json");
    assert_eq!(sweep["asked"], 3);
    assert_eq!(sweep["partial"], true);
    assert_eq!(sweep["points"].as_array().unwrap().len(), 1);
}
