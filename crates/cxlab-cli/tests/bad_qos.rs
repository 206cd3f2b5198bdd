//! Broken scenarios with QoS telemetry and throttles.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, Folder, check_cases, cxlab};

/// A scenario without a mistake, one value a line.
const BASE: &str = r#"name = "qos"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "host"
count = 2
requests = 100
workload = { kind = "uniform" }
[hosts.issue]
outstanding = 4
[hosts.issue.throttle]
period = "2 us"
step = "200 MB/s"
moderate_cut = 16
severe_cut = 64
least = "50 MB/s"
[[devices]]
name = "mem"
capacity = "4 GiB"
[devices.qos]
optimal = 4
moderate = 16
severe = 64
completion_collection_interval = "64 ns"
bandwidth = "8 GB/s"
[[devices.qos.shares]]
host = "host0"
allocated = 128
limit = 200
[[devices.qos.shares]]
host = "host1"
allocated = 64
"#;

const CASES: &[Case] = &[
    (
        "period = \"2 us\"",
        "period = \"2 ns\"",
        "period",
        &[
            "hosts[0].issue.throttle.period",
            "found 2 ns",
            "10 ns to 1 ms",
        ],
    ),
    (
        "step = \"200 MB/s\"",
        "step = \"0 MB/s\"",
        "step",
        &["hosts[0].issue.throttle.step", "1 MB/s to 1 TB/s"],
    ),
    (
        "least = \"50 MB/s\"",
        "least = \"2 TB/s\"",
        "least",
        &["hosts[0].issue.throttle.least", "1 MB/s to 1 TB/s"],
    ),
    (
        "severe_cut = 64",
        "severe_cut = 256",
        "severe_cut",
        &["hosts[0].issue.throttle.severe_cut", "256", "255"],
    ),
    (
        "moderate_cut = 16",
        "moderate_cuts = 16",
        "moderate_cuts",
        &["`moderate_cuts`", "did you mean `moderate_cut`?"],
    ),
    (
        "moderate = 16",
        "moderate = 4",
        "optimal = 4",
        &[
            "devices[0].qos.optimal",
            "found 4",
            "less than `moderate`, 4",
        ],
    ),
    (
        "optimal = 4\nmoderate = 16",
        "moderate = 1",
        "moderate = 1",
        &[
            "devices[0].qos.moderate",
            "found 1",
            "more than `optimal`, which is",
        ],
    ),
    (
        "optimal = 4\nmoderate = 16\nsevere = 64",
        "severe = 3",
        "severe = 3",
        &[
            "devices[0].qos.severe",
            "found 3",
            "more than `moderate`, which is",
        ],
    ),
    (
        "severe = 64",
        "severe = 10",
        "moderate = 16",
        &["devices[0].qos.moderate", "less than `severe`, 10"],
    ),
    (
        "completion_collection_interval = \"64 ns\"",
        "completion_collection_interval = \"128 ns\"",
        "completion_collection_interval",
        &[
            "devices[0].qos.completion_collection_interval",
            "1 ns to 127 ns",
        ],
    ),
    (
        "optimal = 4",
        "optimal = 4\nbackpressure_sample_interval = \"40 ns\"",
        "backpressure_sample_interval",
        &[
            "devices[0].qos.backpressure_sample_interval",
            "1 ns to 31 ns",
        ],
    ),
    (
        "optimal = 4",
        "optimal = 4\negress_moderate_percentage = 30",
        "egress_moderate_percentage",
        &[
            "devices[0].qos.egress_moderate_percentage",
            "less than `egress_severe_percentage`, 25",
        ],
    ),
    (
        "bandwidth = \"8 GB/s\"",
        "bandwidth = \"8 kB/s\"",
        "bandwidth",
        &["devices[0].qos.bandwidth", "1 MB/s to 1 TB/s"],
    ),
    (
        "bandwidth = \"8 GB/s\"\n",
        "",
        "[[devices.qos.shares]]",
        &["devices[0].qos.shares", "without `bandwidth`"],
    ),
    (
        "host = \"host1\"",
        "host = \"hots1\"",
        "host = \"hots1\"",
        &["devices[0].qos.shares[1].host", "did you mean `host1`?"],
    ),
    (
        "host = \"host1\"",
        "host = \"host0\"\n#",
        "host = \"host0\"\n#",
        &["devices[0].qos.shares[1].host", "found `host0` again"],
    ),
    (
        "allocated = 64",
        "allocated = 129",
        "allocated = 129",
        &["devices[0].qos.shares[1].allocated", "found 257 of 256"],
    ),
    (
        "limit = 200",
        "limit = 100",
        "limit = 100",
        &[
            "devices[0].qos.shares[0].limit",
            "at least what is allocated, 128",
        ],
    ),
    (
        "limit = 200",
        "limit = 0",
        "limit = 0",
        &["devices[0].qos.shares[0].limit", "1"],
    ),
    (
        "requests = 100",
        "requests = 100\ncore = {}",
        "[hosts.issue]",
        &["hosts[0].issue", "found `issue` and `core`"],
    ),
];

#[test]
fn the_base_has_no_mistake() {
    let folder = Folder::new("bad-qos-base");
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_broken_system_is_one_report_with_file_line_key_value_and_what_is_allowed() {
    check_cases("bad-qos", BASE, CASES);
}

#[test]
fn a_throttle_needs_a_device_that_tells_its_load() {
    let folder = Folder::new("bad-qos-none");
    let text = &BASE[..BASE.find("[devices.qos]").unwrap()];
    let path = folder.file("none.toml", text.as_bytes());
    let output = cxlab(&[&"check", &path]);
    let said = &output.stderr;
    assert_eq!(output.code, Some(2), "{said}");
    assert!(said.contains("`hosts[0].issue.throttle`"), "{said}");
    assert!(said.contains("allowed: with devices[].qos"), "{said}");
}

#[test]
fn devices_that_keep_their_memory_coherent_tell_their_load_too() {
    let folder = Folder::new("bad-qos-coherent");
    let text = BASE
        .replace(
            "outstanding = 4",
            "outstanding = 4\ncache = { size = \"64 KiB\" }",
        )
        .replace(
            "[devices.qos]",
            "[devices.coherence]\nclass = \"hdm-db\"\n[devices.qos]",
        );
    let path = folder.file("coherent.toml", text.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn keys_of_telemetry_that_nothing_reads_are_noted() {
    let folder = Folder::new("bad-qos-unread");
    let shares = BASE.find("[[devices.qos.shares]]").unwrap();
    let text = BASE[..shares].replace("optimal = 4", "optimal = 4\negress_severe_percentage = 30");
    let far = "[[devices]]\nname = \"far\"\n[[hosts]]\nname = \"apart\"\nrequests = 100\n\
               issue = { throttle = {} }\nworkload = { kind = \"uniform\" }\n\
               [[regions]]\nname = \"near\"\ncapacity = \"1 GiB\"\nhosts = [\"host0\", \"host1\"]\ndevices = [\"mem\"]\n\
               [[regions]]\nname = \"apart\"\ncapacity = \"1 GiB\"\nhosts = [\"apart\"]\ndevices = [\"far\"]\n";
    let path = folder.file("unread.toml", format!("{text}{far}").as_bytes());
    let output = cxlab(&[&"check", &path]);
    let said = &output.stdout;
    assert_eq!(output.code, Some(0), "{said}");
    for key in [
        "`devices[0].qos.egress_severe_percentage`",
        "`devices[0].qos.completion_collection_interval`",
        "`hosts[1].issue.throttle`",
    ] {
        assert!(said.contains(key), "{key}: {said}");
    }
    assert!(!said.contains("`hosts[0].issue.throttle`"), "{said}");
}

#[test]
fn analytic_mode_refuses_throttles() {
    let folder = Folder::new("bad-qos-analytic");
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"run", &path, &"--mode", &"analytic"]);
    let said = &output.stderr;
    assert_eq!(output.code, Some(2), "{said}");
    assert!(
        said.contains("found a throttle; allowed in analytic mode"),
        "{said}"
    );
}
