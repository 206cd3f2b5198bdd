//! Scenarios with QoS telemetry and throttles, beside the mistakes of `qos.txt`.

use crate::common::cxlab;
use crate::table::numbered_folder;

const BASE: &str = include_str!("qos.toml");

#[test]
fn a_throttle_needs_a_device_that_tells_its_load() {
    let folder = numbered_folder();
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
    let folder = numbered_folder();
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
    let folder = numbered_folder();
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
    let folder = numbered_folder();
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"run", &path, &"--mode", &"analytic"]);
    let said = &output.stderr;
    assert_eq!(output.code, Some(2), "{said}");
    assert!(
        said.contains("found a throttle; allowed in analytic mode"),
        "{said}"
    );
}
