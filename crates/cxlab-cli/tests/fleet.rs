//! `cxlab fleet`, through the real command.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, command, cxlab, root};

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

/// A report without what depends on the machine.
fn without_wall_time(text: &str) -> serde_json::Value {
    let mut report: serde_json::Value = serde_json::from_str(text).unwrap();
    report["wall_seconds"] = 0.into();
    report
}

#[test]
fn a_study_writes_its_files_and_does_not_depend_on_threads() {
    let folder = Folder::new("fleet");
    let scenario = folder.file("pond.toml", small().as_bytes());
    let mut reports = Vec::new();
    for threads in ["1", "3"] {
        let out = folder.path(threads);
        let output = cxlab(&[&"fleet", &scenario, &"--threads", &threads, &"--out", &out]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        for says in [
            "128 hosts",
            "needed",
            "at peaks",
            "DRAM stranded",
            "slowdown",
            "written:",
        ] {
            assert!(output.stdout.contains(says), "{says}: {}", output.stdout);
        }
        let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(read("fleet.csv").lines().count(), 25);
        assert!(read("fleet.svg").starts_with("<svg"));
        reports.push((
            without_wall_time(&read("fleet.json")),
            read("fleet.csv"),
            read("fleet.svg"),
        ));
    }
    assert!(reports[0] == reports[1]);
    assert_eq!(reports[0].0["partial"], false);
    assert_eq!(reports[0].0["mode"], "fleet");
}

/// Mean and interval of the numbers of single studies, with their seeds, by hand.
#[test]
fn several_seeds_give_the_mean_of_single_studies_and_its_interval_on_any_number_of_threads() {
    let folder = Folder::new("fleet-seeds");
    let scenario = folder.file("pond.toml", small().as_bytes());
    let mut reports = Vec::new();
    for threads in ["1", "3"] {
        let out = folder.path(&format!("seeds-{threads}"));
        let seeds: [&dyn AsRef<std::ffi::OsStr>; 8] = [
            &"fleet",
            &scenario,
            &"--seeds",
            &"3",
            &"--threads",
            &threads,
            &"--out",
            &out,
        ];
        let output = cxlab(&[&seeds[..], &[&"--seed", &"7"]].concat());
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert!(output.stdout.contains("95 % interval"), "{}", output.stdout);
        let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        reports.push((without_wall_time(&read("seeds.json")), read("seeds.csv")));
    }
    assert!(reports[0] == reports[1]);
    let report = &reports[0].0;
    assert_eq!(report["seeds"], serde_json::json!([7, 8, 9]));
    assert_eq!(report["partial"], false);
    let mut saved = Vec::new();
    for seed in ["7", "8", "9"] {
        let out = folder.path(seed);
        cxlab(&[&"fleet", &scenario, &"--seed", &seed, &"-q", &"--out", &out]);
        let text = std::fs::read_to_string(out.join("fleet.json")).unwrap();
        let one: serde_json::Value = serde_json::from_str(&text).unwrap();
        saved.push(one["needed"]["saved_percent"].as_f64().unwrap());
    }
    let mean = saved.iter().sum::<f64>() / 3.0;
    let squares: f64 = saved
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    // Student's t with two degrees of freedom: 4.3027.
    let half = 4.302_652_73 * (squares / 2.0 / 3.0).sqrt();
    let number = &report["numbers"][0];
    assert_eq!(number["name"], "saved_percent");
    assert!((number["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((number["half_width"].as_f64().unwrap() - half).abs() < 1e-6 * half.abs() + 1e-9);
}

#[test]
fn where_no_vm_finds_a_place_nothing_is_said_to_be_saved() {
    let folder = Folder::new("fleet-none");
    let text = small().replace(
        "[fleet]",
        "[fleet]\ndemand = { kind = \"csv\", path = \"vms.csv\" }",
    );
    folder.file(
        "vms.csv",
        b"start_s,lifetime_s,cores,memory_gib\n0,7200,64,8\n60,3600,64,16\n",
    );
    let scenario = folder.file("pond.toml", text.as_bytes());
    let out = folder.path("out");
    let output = cxlab(&[&"fleet", &scenario, &"--out", &out]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(
        output.stdout.contains("no VM found a place"),
        "{}",
        output.stdout
    );
    let needed = output
        .stdout
        .lines()
        .find(|line| line.starts_with("  needed"));
    assert!(
        needed.is_some_and(|line| line.ends_with(" -")),
        "{needed:?}"
    );
    let report = without_wall_time(&std::fs::read_to_string(out.join("fleet.json")).unwrap());
    assert_eq!(report["alone"]["rejected"], 2);
    assert!(
        report["needed"]["saved_percent"].is_null(),
        "{}",
        report["needed"]
    );
    assert!(report["peaks"]["saved_percent"].is_null());
}

/// Latency in the series is that of an access, not a sum over VMs.
#[test]
fn latency_in_the_series_is_between_that_without_load_and_that_of_a_full_fabric() {
    let folder = Folder::new("fleet-latency");
    let scenario = folder.file("pond.toml", small().as_bytes());
    let out = folder.path("out");
    cxlab(&[
        &"fleet",
        &scenario,
        &"--set",
        &"fleet.sizing=given",
        &"-q",
        &"--out",
        &out,
    ]);
    let report = without_wall_time(&std::fs::read_to_string(out.join("fleet.json")).unwrap());
    let least = report["latency"]["min_ns"].as_f64().unwrap();
    for point in report["pooled"]["series"].as_array().unwrap() {
        let latency = point["latency_ns"].as_f64().unwrap();
        assert!((least..3.0 * least).contains(&latency), "{latency} {least}");
    }
    assert!(report["alone"]["series"][0]["latency_ns"].is_null());
}

#[test]
fn a_grid_is_a_table_a_picture_and_a_line_for_each_combination() {
    let folder = Folder::new("fleet-grid");
    let scenario = folder.file("pond.toml", small().as_bytes());
    let out = folder.path("out");
    let output = cxlab(&[
        &"fleet",
        &scenario,
        &"--grid",
        &"hosts[0].count=4,16",
        &"--grid",
        &"fleet.pool={ kind = \"static\", fraction = 0.3 },{ kind = \"on-demand\" }",
        &"--out",
        &out,
    ]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let csv = std::fs::read_to_string(out.join("sweep.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(
        csv.contains("16,{ kind = \"\"on-demand\"\" },16,")
            || csv.contains("\"{ kind = \"\"on-demand\"\" }\""),
        "{csv}"
    );
    let svg = std::fs::read_to_string(out.join("sweep.svg")).unwrap();
    assert!(
        svg.contains("static, fraction = 0.3") && svg.contains("on-demand"),
        "{svg}"
    );
    // Four charts, of a line for each policy.
    assert_eq!(svg.matches("<polyline").count(), 8);
}

#[test]
fn vms_come_from_a_file_beside_the_scenario() {
    let folder = Folder::new("fleet-csv");
    folder.file(
        "vms.csv",
        b"start_s,lifetime_s,cores,memory_gib\n0,7200,2,8\n60,3600,4,16\n",
    );
    let text = small().replace(
        "[fleet]",
        "[fleet]\ndemand = { kind = \"csv\", path = \"vms.csv\" }",
    );
    let scenario = folder.file("pond.toml", text.as_bytes());
    let out = folder.path("out");
    let output = cxlab(&[
        &"fleet",
        &scenario,
        &"--set",
        &"fleet.sizing=given",
        &"--out",
        &out,
    ]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let report = without_wall_time(&std::fs::read_to_string(out.join("fleet.json")).unwrap());
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
    let mut wrong = String::new();
    for (number, (before, after, says)) in CASES.iter().enumerate() {
        let text = small();
        assert!(text.contains(before), "{before}");
        // Unknown names of the base must not hide what is looked for.
        let scenario = folder.file(
            &format!("{number}-pond.toml"),
            text.replacen(before, after, 1).as_bytes(),
        );
        let out = folder.path("out");
        let output = cxlab(&[&"fleet", &scenario, &"--out", &out]);
        let missing: Vec<_> = says
            .iter()
            .filter(|says| !output.stderr.contains(**says))
            .collect();
        if output.code != Some(2) || !missing.is_empty() || !output.stdout.is_empty() {
            wrong += &format!(
                "{after}: exit code {:?}, not said: {missing:?}\n{}\n",
                output.code, output.stderr
            );
        }
        assert!(!out.exists(), "{after}: a folder is left");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn arguments_that_make_no_sense_are_exit_code_2() {
    let folder = Folder::new("fleet-arguments");
    let scenario = folder.file("pond.toml", small().as_bytes());
    let direct = root().join("scenarios/direct.toml");
    let cases: [(&[&dyn AsRef<std::ffi::OsStr>], &str); 8] = [
        (&[&"fleet", &direct], "found no `fleet` table"),
        (&[&"fleet", &scenario, &"--grid", &"hosts"], "found no `=`"),
        (
            &[&"fleet", &scenario, &"--grid", &"hosts[0].count=1,,2"],
            "a value is missing",
        ),
        (
            &[&"fleet", &scenario, &"--grid", &"hosts[0].cuont=1,2"],
            "did you mean `count`?",
        ),
        (&[&"fleet", &scenario, &"--threads", &"0"], "--threads"),
        (&[&"fleet", &scenario, &"--seeds", &"1"], "--seeds"),
        (
            &[
                &"fleet",
                &scenario,
                &"--seeds",
                &"2",
                &"--grid",
                &"fleet.days=1,2",
            ],
            "--grid",
        ),
        (
            &[
                &"fleet",
                &scenario,
                &"--seeds",
                &"2",
                &"--seed",
                &"18446744073709551615",
            ],
            "--seeds 2",
        ),
    ];
    for (args, says) in cases {
        let mut with = args.to_vec();
        let out = folder.path("out");
        with.extend([&"--out" as &dyn AsRef<std::ffi::OsStr>, &out]);
        let output = cxlab(&with);
        assert_eq!(output.code, Some(2), "{says}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{says}: {}", output.stderr);
    }
}

/// Runs the command on a scenario, interrupts it some time after its folder is there, and returns what it printed.
#[cfg(unix)]
fn interrupted(scenario: &Path, out: &Path, more: &[&dyn AsRef<OsStr>], after: Duration) -> String {
    let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"fleet", &scenario, &"--out", &out, &"-q"];
    arguments.extend(more);
    let mut running = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    // Its folder is there before its signals are handled; a little later both are.
    let begun = Instant::now();
    while !out.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(after);
    let killed = Command::new("kill")
        .arg("-INT")
        .arg(running.id().to_string())
        .status();
    assert!(killed.unwrap().success());
    let status = running.wait().unwrap();
    let mut said = String::new();
    running
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    said
}

#[cfg(unix)]
#[test]
fn an_interrupted_study_keeps_what_it_measured() {
    let folder = Folder::new("fleet-interrupt");
    let long = small()
        .replace("hosts = 128", "hosts = 100_000")
        .replace("days = 1\n", "days = 90\n");
    let scenario = folder.file("pond.toml", long.as_bytes());
    let out = folder.path("out");
    interrupted(&scenario, &out, &[], Duration::from_millis(700));
    let report = without_wall_time(&std::fs::read_to_string(out.join("fleet.json")).unwrap());
    assert_eq!(report["partial"], true);
    let hosts = report["fleet"]["hosts"].as_u64().unwrap();
    assert!(hosts < 100_000, "{hosts}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_grid_says_how_many_points_are_missing() {
    let folder = Folder::new("fleet-grid-interrupt");
    let scenario = folder.file("pond.toml", small().as_bytes());
    let out = folder.path("out");
    let grid: [&dyn AsRef<OsStr>; 2] = [&"--grid", &"fleet.hosts=128,1_000_000,64"];
    // The second study takes minutes, and nobody knows how long the first one does here.
    let said = (2..8)
        .map(|power| interrupted(&scenario, &out, &grid, Duration::from_secs(1 << power)))
        .find(|said| !said.contains("before the first study ended"))
        .unwrap();
    assert!(said.contains("sweep.csv holds 1 of 3 points"), "{said}");
    let text = std::fs::read_to_string(out.join("sweep.json")).unwrap();
    let sweep: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&sweep["asked"], &sweep["partial"]),
        (&3.into(), &true.into())
    );
    assert_eq!(sweep["points"].as_array().unwrap().len(), 1);
}
