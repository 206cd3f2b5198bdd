//! Scenarios with QoS telemetry and throttles, beside the mistakes of `qos.txt`.

use crate::table::numbered_folder;

const BASE: &str = include_str!("qos.toml");

#[test]
fn a_throttle_needs_a_device_that_tells_its_load() {
    let folder = numbered_folder();
    let text = &BASE[..BASE.find("[devices.qos]").unwrap()];
    folder.file("none.toml", text.as_bytes());
    let refused = folder.cxlab("check none.toml").ends(2);
    refused.says(&["`hosts[0].issue.throttle`", "allowed: with devices[].qos"]);
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
    folder.file("coherent.toml", text.as_bytes());
    folder.cxlab("check coherent.toml").done();
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
    folder.file("unread.toml", format!("{text}{far}").as_bytes());
    let checked = folder.cxlab("check unread.toml").ends(0).prints(&[
        "`devices[0].qos.egress_severe_percentage`",
        "`devices[0].qos.completion_collection_interval`",
        "`hosts[1].issue.throttle`",
    ]);
    let said = &checked.stdout;
    assert!(!said.contains("`hosts[0].issue.throttle`"), "{said}");
}

#[test]
fn analytic_mode_refuses_throttles() {
    let folder = numbered_folder();
    folder.file("base.toml", BASE.as_bytes());
    let refused = folder.cxlab("run base.toml --mode analytic").ends(2);
    refused.says(&["found a throttle; allowed in analytic mode"]);
}
