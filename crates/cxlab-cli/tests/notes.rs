//! What a scenario may say and its author may not expect has a note, with path, file and line; what cannot be
//! meant is refused in the words that were written.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, finish};
use cxlab_engine::Monitor;
use cxlab_engine::units::Bytes;
use cxlab_plan::load::{self, Loaded};
use cxlab_plan::{Externals, Files};
use cxlab_system::run::{RunOptions, run};

/// Reads a scenario with changes; what is wrong with it, as text.
fn read(text: &str, set: &[&str]) -> Result<Loaded, String> {
    let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
    load::read("s.toml", text, &set)
        .and_then(|document| load::resolve(document, Files::default(), &Externals::new()))
        .map_err(|mistakes| mistakes.render(false))
}

fn paths(loaded: &Loaded) -> Vec<&str> {
    let notes = loaded.plan.notes.iter();
    notes.map(|note| note.path.as_str()).collect()
}

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Something reads it, and nothing is said.
    Read,
    /// Nothing reads it, and a note says so.
    Noted,
    /// It contradicts what else is said.
    Refused,
}
use Fate::{Noted, Read, Refused};

/// Hosts of four kinds.
const KINDS: [(&str, &str); 4] = [
    ("requester", "workload = { kind = \"uniform\" }"),
    (
        "core",
        "workload = { kind = \"uniform\" }\nrequests = 100\ncore = {}",
    ),
    (
        "processor with threads",
        "workload = { kind = \"stream-threads\", array = \"1 MiB\" }\nprocessor = { cores = 2 }\n\
         nodes = [{ capacity = \"64 MiB\" }]",
    ),
    (
        "processor with lines",
        "workload = { kind = \"uniform\" }\nrequests = 100\nprocessor = { cores = 2 }\n\
         nodes = [{ capacity = \"64 MiB\" }]",
    ),
];

/// Keys of a host, as a `--set`, the path of the note, and what becomes of them in each kind.
const KEYS: &[(&str, &str, [Fate; 4])] = &[
    ("issue={}", "issue", [Read, Noted, Noted, Noted]),
    (
        "issue.outstanding=8",
        "issue",
        [Read, Refused, Refused, Refused],
    ),
    (
        "issue.issue_interval=\"1 ns\"",
        "issue",
        [Read, Refused, Refused, Refused],
    ),
    (
        "issue.cache={ size = \"64 KiB\" }",
        "issue.cache",
        [Read, Refused, Refused, Refused],
    ),
    (
        "issue.cache={ size = \"64 KiB\", mshrs = 4 }",
        "issue.cache.mshrs",
        [Noted, Refused, Refused, Refused],
    ),
    (
        "issue.cache={ size = \"64 KiB\", clean_evict = false }",
        "issue.cache.clean_evict",
        [Noted, Refused, Refused, Refused],
    ),
    (
        "issue.throttle={}",
        "issue.throttle",
        [Refused, Refused, Refused, Refused],
    ),
    (
        "local={ capacity = \"1 MiB\" }",
        "local",
        [Refused, Read, Refused, Refused],
    ),
    (
        "nodes=[{ capacity = \"128 MiB\" }]",
        "nodes",
        [Refused, Refused, Read, Read],
    ),
    ("os={}", "os", [Refused, Refused, Read, Read]),
    (
        "os={ iommu = { walkers = 2 } }",
        "os.iommu",
        [Refused, Refused, Noted, Noted],
    ),
    ("span=\"cxl\"", "span", [Refused, Refused, Refused, Read]),
    ("requests=10", "requests", [Read, Read, Refused, Read]),
    (
        "beside={ workload = { kind = \"uniform\" }, requests = 5 }",
        "beside",
        [Refused, Refused, Read, Refused],
    ),
];

/// Keys of a processor, and what becomes of them with threads and with lines.
const PROCESSOR_KEYS: &[(&str, [Fate; 2])] = &[
    ("window=8", [Read, Noted]),
    ("reorder=8", [Noted, Read]),
    ("misses=8", [Read, Read]),
    ("llc.access_time=\"9 ns\"", [Read, Read]),
    ("llc.directory.ways=4", [Refused, Refused]),
    ("home_interval=\"3 ns\"", [Noted, Noted]),
    ("interrupt_time=\"3 ns\"", [Noted, Noted]),
];

fn host(body: &str) -> String {
    format!(
        "name = \"kinds\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n[[hosts]]\nname = \"host\"\n{body}\n\
         [[devices]]\nname = \"memory\"\ncapacity = \"256 MiB\"\n"
    )
}

/// What becomes of a change below `hosts[0]`, whose note would be at `path`.
fn fate(text: &str, change: &str, path: &str) -> Fate {
    let path = format!("hosts[0].{path}");
    match read(text, &[&format!("hosts[0].{change}")]) {
        Err(_) => Refused,
        Ok(loaded) if paths(&loaded).iter().any(|found| path.starts_with(*found)) => Noted,
        Ok(_) => Read,
    }
}

#[test]
fn a_key_that_a_kind_of_host_does_not_read_is_noted_or_refused() {
    for (at, (kind, body)) in KINDS.iter().enumerate() {
        let text = host(body);
        let loaded = read(&text, &[]).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(paths(&loaded).is_empty(), "{kind}: {:?}", paths(&loaded));
        for (change, path, fates) in KEYS {
            assert_eq!(fate(&text, change, path), fates[at], "{change} of a {kind}");
        }
        for (change, fates) in PROCESSOR_KEYS.iter().filter(|_| at >= 2) {
            let path = change.split('=').next().unwrap();
            let found = fate(
                &text,
                &format!("processor.{change}"),
                &format!("processor.{path}"),
            );
            assert_eq!(found, fates[at - 2], "processor.{change} of a {kind}");
        }
    }
}

#[test]
fn of_two_keys_for_the_number_of_spines_one_is_noted() {
    let with = |topology: &str| {
        let topology = format!("fabric.topology={{ kind = \"spine-leaf\", {topology} }}");
        let host = host("workload = { kind = \"uniform\" }");
        let loaded = read(&host, &[&topology]).unwrap();
        let found = paths(&loaded).into_iter();
        found
            .filter(|path| path.ends_with("oversubscription"))
            .count()
    };
    assert_eq!(with("oversubscription = 3"), 0);
    assert_eq!(with("spines = 2"), 0);
    assert_eq!(with("spines = 2, oversubscription = 3"), 1);
}

const ACCELERATOR: &str = r#"name = "device"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "host"
workload = { kind = "circus-tent", memory = "1 MiB", interface = "pcie" }
processor = { home_interval = "3 ns" }
nodes = [{ capacity = "64 MiB" }]
[[accelerators]]
name = "nic"
"#;

#[test]
fn a_key_that_a_device_does_not_read_is_noted() {
    let check = |set: &[&str], path: &str, expected: bool| {
        let loaded = read(ACCELERATOR, set).unwrap_or_else(|error| panic!("{set:?}: {error}"));
        let path = format!("accelerators[0].device.{path}");
        assert_eq!(paths(&loaded).contains(&path.as_str()), expected, "{set:?}");
    };
    let atc = "accelerators[0].device.atc={ requests = 4 }";
    check(&[atc], "atc", true);
    check(&[atc, "hosts[0].os={}"], "atc", false);
    let dmc = "accelerators[0].device.dmc={ ways = 2 }";
    check(&[dmc], "dmc", true);
    let memory = "accelerators[0].memory={ capacity = \"256 MiB\" }";
    check(&[dmc, memory], "dmc", false);
    // Who knows of each line whether the host may hold it has no bias.
    let page = "accelerators[0].device.bias_page=\"256 B\"";
    let coherent = "accelerators[0].memory={ capacity = \"256 MiB\", class = \"hdm-db\" }";
    let flits = "fabric.link.generation=\"6\"";
    check(&[page, memory], "bias_page", false);
    check(&[page, coherent, flits], "bias_page", true);
    let cache = "accelerators[0].device.cache={ size = \"64 KiB\" }";
    check(&[cache], "cache.size", false);
    let pcie = "accelerators[0].device.kind=\"pcie\"";
    check(&[cache, pcie], "cache.size", true);
    let simple = host(KINDS[0].1);
    for (set, path) in [
        (
            "devices[0].coherence.filter={ lines = 64 }",
            "devices[0].coherence.filter",
        ),
        ("fabric.switch={ max_ports = 64 }", "fabric.switch"),
    ] {
        assert_eq!(paths(&read(&simple, &[set]).unwrap()), [path]);
    }
}

#[test]
fn devices_of_different_media_take_turns_only_where_that_is_said() {
    let text = host(KINDS[0].1).replace(
        "[[devices]]",
        "[[devices]]\nname = \"slow\"\ncapacity = \"256 MiB\"\nmemory = { kind = \"fixed\", latency = \"80 us\" }\n\
         [[devices]]",
    );
    let loaded = read(&text, &[]).unwrap();
    assert_eq!(paths(&loaded), ["address_map"]);
    let message = &loaded.plan.notes[0].message;
    for part in ["`slow`", "`memory`", "256 B", "ways = 1"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let said: [&[&str]; 4] = [
        &["address_map.ways=1"],
        &["address_map.granularity=\"4 KiB\""],
        &["devices[0].memory={ kind = \"fixed\" }"],
        &["devices[0].capacity=\"512 MiB\""],
    ];
    for set in said {
        assert!(paths(&read(&text, set).unwrap()).is_empty(), "{set:?}");
    }
}

#[test]
fn a_write_latency_that_no_write_contains_is_noted() {
    let text = host(KINDS[0].1);
    let memory = "devices[0].memory={ kind = \"fixed\", write_latency = \"1 us\" }";
    let written = "devices[0].controller.write_completion=\"written\"";
    let loaded = read(&text, &[memory]).unwrap();
    assert_eq!(paths(&loaded), ["devices[0].memory.write_latency"]);
    let message = &loaded.plan.notes[0].message;
    for part in ["accepts it", "for 1 us", "write_completion = \"written\""] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(paths(&read(&text, &[memory, written]).unwrap()).is_empty());
    assert!(paths(&read(&text, &[]).unwrap()).is_empty());
    // The latency of a write is as the note says.
    let mean = |set: &[&str]| {
        let only_writes = [
            "hosts[0].workload.read_ratio=0.0",
            "hosts[0].issue.outstanding=1",
        ];
        let window = ["measure.requests=200"];
        let set = [set, &only_writes, &window].concat();
        let loaded = read(&text, &set).unwrap();
        let options = RunOptions {
            seed: 1,
            threads: 1.into(),
            monitor: &Monitor::default(),
            rows: None,
        };
        run(&loaded.plan, options).unwrap().latency_ns.mean
    };
    let (without, with) = (mean(&[]), mean(&[memory]));
    assert!((with - without).abs() < 1e-6, "{without} {with}");
    let slow = mean(&[memory, written]);
    assert!((slow - without - 1000.0).abs() < 1e-6, "{without} {slow}");
}

#[test]
fn a_finite_workload_beside_an_endless_one_is_not_cut_silently() {
    let text = host("workload = { kind = \"uniform\" }\nrequests = 200000").replace(
        "[[devices]]",
        "[[hosts]]\nname = \"other\"\nworkload = { kind = \"uniform\" }\n[[devices]]\ncount = 2",
    );
    let loaded = read(&text, &[]).unwrap();
    assert_eq!(paths(&loaded), ["measure"]);
    assert!(loaded.plan.notes[0].message.contains("100,000 requests"));
    for set in [
        "measure.requests=1000",
        "measure.duration=\"1 us\"",
        "hosts[1].requests=5",
    ] {
        assert!(paths(&read(&text, &[set]).unwrap()).is_empty(), "{set}");
    }
}

const EVENT: &str = "[[events]]\nkind = \"host-leaves\"\nat = \"5 ms\"\nhost = \"host\"\n";

#[test]
fn an_event_after_the_end_is_told_before_the_run_or_after_it() {
    let text = format!("{}{EVENT}", host(KINDS[0].1));
    let by_time = read(&text, &["measure.duration=\"1 ms\""]).unwrap();
    assert_eq!(paths(&by_time), ["events[0]"]);
    let by_time = read(&text, &["measure.duration=\"6 ms\""]).unwrap();
    assert!(paths(&by_time).is_empty());
    // When so many requests are done, only the run knows.
    let loaded = read(&text, &["measure.requests=1000"]).unwrap();
    assert!(paths(&loaded).is_empty());
    let options = RunOptions {
        seed: 1,
        threads: 1.into(),
        monitor: &Monitor::default(),
        rows: None,
    };
    let report = run(&loaded.plan, options).unwrap();
    let late = |note: &&cxlab_scenario::Note| note.path == "events[0]";
    let note = report.provenance.notes.iter().find(late).unwrap();
    assert!(note.message.starts_with("did not happen"), "{note}");
}

#[test]
fn an_error_about_a_size_or_a_time_says_what_is_near_it() {
    let text = host(KINDS[2].1);
    for (set, parts) in [
        (
            "llc.size=\"64 MB\"",
            &[
                "hosts[0].processor.llc.size",
                "found 64 MB",
                "such as 60 MiB",
            ][..],
        ),
        // Times are whole picoseconds.
        (
            "cycle=\"0.4167 ns\"",
            &[
                "0.4167 ns",
                "whole number of ps",
                "\"416 ps\"",
                "\"417 ps\"",
            ],
        ),
    ] {
        let error = read(&text, &[&format!("hosts[0].processor.{set}")]);
        let error = error.err().unwrap();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    read(&text, &["hosts[0].processor.llc.size=\"60 MiB\""]).unwrap();
}

#[test]
fn the_default_capacity_is_what_the_medium_holds() {
    let device = |memory: &str| {
        let text = host(KINDS[0].1).replace("capacity = \"256 MiB\"\n", memory);
        let loaded = read(&text, &[]).unwrap_or_else(|error| panic!("{memory}: {error}"));
        loaded.plan.scenario.devices[0].capacity
    };
    let ddr4 = "memory = { kind = \"dram\", grade = \"DDR4-2400R\", channels = 1 }\n";
    assert_eq!(device(ddr4), Bytes(8 << 30));
    assert_eq!(device(""), Bytes(16 << 30));
    let two = "memory = { kind = \"dram\", grade = \"DDR4-2400R\", channels = 4 }\n";
    assert_eq!(device(two), Bytes(16 << 30));
}

#[test]
fn check_and_plan_warn_and_run_notes_with_file_and_line() {
    let folder = Folder::new("notes");
    let text = host(
        "workload = { kind = \"uniform\" }\nissue = { cache = { size = \"64 KiB\", mshrs = 4 } }",
    );
    folder.file("s.toml", text.as_bytes());
    let path = "hosts[0].issue.cache.mshrs";
    let line = "s.toml:7";
    let checked = folder.cxlab("check s.toml").ends(0);
    checked.prints(&["warning", path, line]);
    let listed = folder.cxlab("check s.toml --format=json").stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["level"], "warning");
    assert_eq!(listed[0]["path"], path);
    assert_eq!(listed[0]["line"], 7);
    folder.cxlab("plan s.toml").prints(&[line, path]);
    let ran = folder.cxlab("run s.toml --out out --set measure.requests=100");
    ran.prints(&["note: ", line]);
    let report = folder.json("out/report.json");
    let notes = report["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note["path"] == path), "{notes:?}");
}

#[test]
fn threads_that_do_not_help_are_not_used_and_the_run_says_so() {
    let folder = Folder::new("limit");
    folder.file("s.toml", host(KINDS[0].1).as_bytes());
    let run = |threads: &[&str]| {
        let mut run = folder.command("run s.toml --out out --set measure.requests=100");
        finish(run.args(threads))
    };
    let many = run(&["--threads", "200"]);
    many.prints(&["the run used 1 of 200 threads"]);
    for few in [&[][..], &["--threads", "auto"], &["--threads", "1"]] {
        let said = run(few).stdout;
        assert!(!said.contains("--threads"), "{few:?}: {said}");
    }
}
