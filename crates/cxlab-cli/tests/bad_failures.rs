//! Broken scenarios with links, switches and devices that fail: each is one report with file, line, key,
//! value and what is allowed, and exit code 2.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, Folder, check_cases, cxlab};

/// A scenario without a mistake, one value a line.
const BASE: &str = r#"name = "failures"
[fabric]
topology = { kind = "ring", switches = 3 }
routing = "shortest"
[fabric.link]
lanes = 16
[[hosts]]
name = "host"
count = 2
requests = 100
issue = { outstanding = 4 }
workload = { kind = "uniform" }
[[devices]]
name = "mem"
count = 2
capacity = "16 GiB"
[failures]
completion_timeout = "60 us"
reconfiguration_time = "5 us"
isolation_time = "30 ns"
[[events]]
at = "10 us"
kind = "link-down"
link = ["sw0", "sw1"]
[[events]]
at = "20 us"
kind = "link-up"
link = ["sw1", "sw0"]
[[events]]
at = "30 us"
kind = "switch-down"
switch = "sw2"
[[events]]
at = "40 us"
kind = "device-removed"
device = "mem0"
"#;

const CASES: &[Case] = &[
    (
        "kind = \"switch-down\"",
        "kind = \"switch-dwn\"",
        "kind = \"switch-dwn\"",
        &[
            "switch-dwn",
            "did you mean `switch-down`?",
            "`device-removed`",
        ],
    ),
    (
        "link = [\"sw0\", \"sw1\"]",
        "",
        "[[events]]",
        &["`link`", "events[0]"],
    ),
    (
        "link = [\"sw0\", \"sw1\"]",
        "link = [\"sw0\", \"sw1\", \"sw2\"]",
        "link = [\"sw0\", \"sw1\", \"sw2\"]",
        &["events[0].link", "2"],
    ),
    (
        "link = [\"sw0\", \"sw1\"]",
        "link = [\"sw0\", \"sw9\"]",
        "link = [\"sw0\", \"sw9\"]",
        &["events[0].link[1]", "`sw9`", "a host, a device or a switch"],
    ),
    (
        "link = [\"sw0\", \"sw1\"]",
        "link = [\"host0\", \"mem0\"]",
        "link = [\"host0\", \"mem0\"]",
        &["events[0].link", "which no link joins"],
    ),
    (
        "link = [\"sw0\", \"sw1\"]",
        "link = [\"sw0\", \"sw1\"]\nnumber = 1",
        "number = 1",
        &["events[0].number", "found 1", "less than 1"],
    ),
    (
        "link = [\"sw0\", \"sw1\"]",
        "link = [\"sw0\", \"sw1\"]\nregion = \"own\"",
        "region = \"own\"",
        &["unknown key `region`", "events[0]"],
    ),
    (
        "kind = \"link-down\"\nlink = [\"sw0\", \"sw1\"]",
        "kind = \"port-control\"\naction = \"assert\"\nlink = [\"sw0\", \"sw1\"]",
        "action = \"assert\"",
        &[
            "events[0].action",
            "assert-perst",
            "deassert-perst",
            "reset-ppb",
        ],
    ),
    (
        "kind = \"link-down\"\nlink = [\"sw0\", \"sw1\"]",
        "kind = \"port-control\"\naction = \"assert-perst\"\nlink = [\"host0\", \"sw0\"]",
        "link = [\"host0\", \"sw0\"]",
        &["events[0].link[0]", "`host0`, which is no switch"],
    ),
    (
        "kind = \"link-down\"\nlink = [\"sw0\", \"sw1\"]",
        "kind = \"port-control\"\naction = \"deassert-perst\"\nlink = [\"sw0\", \"sw1\"]",
        "kind = \"port-control\"",
        &[
            "events[0].kind",
            "`sw1`, which is not in reset",
            "after \"assert-perst\"",
        ],
    ),
    (
        "kind = \"link-up\"\nlink = [\"sw1\", \"sw0\"]",
        "kind = \"port-control\"\naction = \"reset-ppb\"\nlink = [\"sw1\", \"sw2\"]\n[[events]]\nat = \"25 us\"\n\
         kind  = \"port-control\"\naction = \"assert-perst\"\nlink = [\"sw2\", \"sw1\"]",
        "kind  = \"port-control\"",
        &["events[2].kind", "`sw1`, which is in reset"],
    ),
    (
        "[failures]",
        "[fabric_manager]\nreset_time = \"0 ns\"\n[failures]",
        "reset_time",
        &["fabric_manager.reset_time", "found 0 ns", "1 ps to 3600 s"],
    ),
    (
        "[failures]",
        "[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"1 us\"\nkind = \"unbind\"\n\
         host = \"host0\"\ndevice = \"mem1\"\noption = \"wait-for-link-down\"\n[failures]",
        "option",
        &[
            "events[0].option",
            "the link of `mem1` is never down",
            "port-control",
        ],
    ),
    (
        "[failures]",
        "[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"1 us\"\nkind = \"unbind\"\n\
         host = \"host0\"\ndevice  = \"mem0\"\noption = \"wait-for-link-down\"\n[[events]]\nat = \"2 us\"\n\
         kind  = \"unbind\"\nhost = \"host0\"\ndevice  = \"mem0\"\n[failures]",
        "kind  = \"unbind\"",
        &[
            "events[1].kind",
            "which waits for its link",
            "ends at 40 us",
        ],
    ),
    (
        "kind = \"link-up\"",
        "kind  = \"link-down\"",
        "kind  = \"link-down\"",
        &["events[1].kind", "`sw1--sw0`, which is down", "20 us"],
    ),
    (
        "kind = \"link-down\"",
        "kind  = \"link-up\"",
        "kind  = \"link-up\"",
        &["events[0].kind", "after a \"link-down\""],
    ),
    (
        "kind = \"link-up\"\nlink = [\"sw1\", \"sw0\"]",
        "kind = \"switch-down\"\nswitch  = \"sw2\"",
        "switch = \"sw2\"",
        &["events[2].switch", "`sw2`", "an earlier event has taken"],
    ),
    (
        "switch = \"sw2\"",
        "switch = \"sw3\"",
        "switch = \"sw3\"",
        &[
            "events[2].switch",
            "`sw3`",
            "a switch; allowed: sw0, sw1, sw2",
        ],
    ),
    (
        "device = \"mem0\"",
        "device = \"mem\"",
        "device = \"mem\"",
        &["events[3].device", "`mem`", "allowed: mem0, mem1"],
    ),
    (
        "device = \"mem0\"",
        "device = \"host0\"",
        "device = \"host0\"",
        &["events[3].device", "`host0`", "which is not a device"],
    ),
    (
        "at = \"40 us\"",
        "at = \"4 us\"",
        "at = \"4 us\"",
        &["events[3].at", "behind an event at 30 us"],
    ),
    (
        "completion_timeout = \"60 us\"",
        "completion_timeout = \"900 ns\"",
        "completion_timeout",
        &["failures.completion_timeout", "900 ns", "1 us to 64 s"],
    ),
    (
        "reconfiguration_time = \"5 us\"",
        "reconfiguration_time = \"0 ns\"",
        "reconfiguration_time",
        &["failures.reconfiguration_time", "1 ns to 1 s"],
    ),
    (
        "isolation_time = \"30 ns\"",
        "isolation_time = \"2 ms\"",
        "isolation_time",
        &["failures.isolation_time", "2 ms", "1 ns to 1 ms"],
    ),
    (
        "issue = { outstanding = 4 }",
        "issue = { cache = { size = \"64 KiB\" } }",
        "issue = {",
        &[
            "hosts[0].issue.cache",
            "where components fail",
            "`issue` alone",
        ],
    ),
    (
        "issue = { outstanding = 4 }",
        "core = {}",
        "core = {}",
        &["hosts[0].core", "where components fail", "`issue` alone"],
    ),
    (
        "routing = \"shortest\"",
        "routing = \"adaptive\"",
        "routing = \"adaptive\"",
        &["fabric.routing", "\"adaptive\"", "\"shortest\""],
    ),
    (
        "lanes = 16",
        "duplex = \"half\"\ntransmission = \"packet\"",
        "duplex = \"half\"",
        &["fabric.link.duplex", "\"full\""],
    ),
];

/// Events of the base, which the scenario without any of them does not have.
#[test]
fn a_table_of_failures_needs_a_failure() {
    let folder = Folder::new("bad-failures-none");
    let text = &BASE[..BASE.find("[[events]]").unwrap()];
    let path = folder.file("none.toml", text.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!(output.code, Some(2));
    let said = &output.stderr;
    assert!(said.contains("`failures`: found a table"), "{said}");
    assert!(said.contains("\"device-removed\""), "{said}");
}

/// Virtual channels of earlier changes are used again.
#[test]
fn a_fabric_changes_more_often_than_there_are_virtual_channels() {
    let folder = Folder::new("bad-failures-many");
    let mut text =
        BASE[..BASE.find("[[events]]").unwrap()].replace("switches = 3", "switches = 12");
    for number in 2..12 {
        text += &format!(
            "[[events]]\nat = \"{number} us\"\nkind = \"switch-down\"\nswitch = \"sw{number}\"\n"
        );
    }
    let path = folder.file("many.toml", text.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let said = &output.stdout;
    assert!(
        said.contains("until virtual channels of earlier routing states have drained"),
        "{said}"
    );
    let output = cxlab(&[&"plan", &path]);
    assert!(
        output.stdout.contains("10 failures and repairs, "),
        "{}",
        output.stdout
    );
}

/// The base with failures at random.
const RANDOM: &str = r#"name = "random"
[fabric]
topology = { kind = "ring", switches = 3 }
[[hosts]]
name = "host"
workload = { kind = "uniform" }
[[devices]]
name = "mem"
capacity = "16 GiB"
[failures]
drain_time = "60 us"
[failures.random]
until = "1 ms"
links = { mtbf = "100 us", mttr = "10 us" }
"#;

const RANDOM_CASES: &[Case] = &[
    (
        "drain_time = \"60 us\"",
        "drain_time = \"10 ns\"",
        "drain_time = \"10 ns\"",
        &["failures.drain_time", "found 10 ns", "1 us to 64 s"],
    ),
    (
        "until = \"1 ms\"",
        "until = \"0 ns\"",
        "until = \"0 ns\"",
        &["failures.random.until", "1 ps to "],
    ),
    ("until = \"1 ms\"\n", "", "[failures.random]", &["`until`"]),
    (
        "mtbf = \"100 us\"",
        "mtbf = \"10 ns\"",
        "links = { mtbf = \"10 ns\"",
        &["failures.random.links.mtbf", "found 10 ns", "1 us to "],
    ),
    (
        "mttr = \"10 us\"",
        "mttf = \"10 us\"",
        "links = { mtbf",
        &["unknown key `mttf`", "did you mean"],
    ),
    (
        "links = { mtbf = \"100 us\", mttr = \"10 us\" }\n",
        "",
        "[failures.random]",
        &[
            "failures.random",
            "at least one of `links`, `edge_links` and `switches`",
        ],
    ),
    (
        "until = \"1 ms\"",
        "until = \"3600 s\"",
        "until = \"3600 s\"",
        &[
            "failures.random.until",
            "more than 65000 failures and repairs",
        ],
    ),
    (
        "links = { mtbf = \"100 us\", mttr = \"10 us\" }\n",
        "links = { mtbf = \"100 us\", mttr = \"10 us\" }\n[[events]]\nat = \"1 us\"\nkind = \"port-control\"\n\
         action = \"reset-ppb\"\nlink = [\"sw0\", \"host\"]\n",
        "[failures.random]",
        &["failures.random", "without \"port-control\""],
    ),
    (
        "links = { mtbf = \"100 us\", mttr = \"10 us\" }\n",
        "links = { mtbf = \"100 us\", mttr = \"10 us\" }\n[[events]]\nat = \"1 us\"\nkind = \"switch-up\"\n\
         switch = \"sw0\"\n",
        "switch = \"sw0\"",
        &[
            "events[0].switch",
            "`sw0`, which is there",
            "\"switch-down\"",
        ],
    ),
];

#[test]
fn failures_at_random_are_checked() {
    check_cases("bad-failures-random", RANDOM, RANDOM_CASES);
}

/// Two hosts with processors, on a region.
const PROCESSORS: &str = r#"name = "processors"
[fabric]
topology = { kind = "ring", switches = 3 }
[[hosts]]
name = "host"
count = 2
workload = { kind = "WORKLOAD" }
processor = {}
nodes = [{ capacity = "1 GiB" }]
[[devices]]
name = "mem"
[[regions]]
name = "own"
capacity = "1 GiB"
"#;

#[test]
fn processors_whose_threads_need_what_goes_are_refused() {
    let release =
        "[[events]]\nat = \"10 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n";
    let removed = "[[events]]\nat = \"10 us\"\nkind = \"device-removed\"\ndevice = \"mem\"\n";
    let folder = Folder::new("bad-failures-processors");
    let check = |workload: &str, more: &str, events: &str| {
        let text = PROCESSORS.replace("WORKLOAD", workload);
        let text = text.replace("processor = {}", &format!("processor = {{}}{more}"));
        let path = folder.file("processors.toml", format!("{text}{events}").as_bytes());
        let output = cxlab(&[&"check", &path]);
        (output.code, output.stderr)
    };
    assert_eq!(check("uniform", "", release), (Some(0), String::new()));
    assert_eq!(check("hot-pages\", data = \"cxl", "", removed).0, Some(0));
    assert_eq!(check("hot-pages", "\nos = {}", removed).0, Some(0));
    for (workload, more, events, path, said) in [
        (
            "hot-pages",
            "",
            release,
            "hosts[0].workload",
            "patterns, traces or programs",
        ),
        (
            "uniform",
            "\nos = {}",
            release,
            "hosts[0].os",
            "without `os`",
        ),
    ] {
        let (code, stderr) = check(workload, more, events);
        assert_eq!(code, Some(2), "{stderr}");
        for part in [path, said, "region `own`", "processors.toml"] {
            assert!(stderr.contains(part), "{stderr}");
        }
    }
    let shared = format!("sharing = \"shared\"\n{removed}");
    let (code, stderr) = check("hot-pages\", data = \"cxl", "", &shared);
    assert_eq!(code, Some(2), "{stderr}");
    for part in [
        "regions[0].sharing",
        "threads of several hosts",
        "exclusive",
    ] {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert_eq!(check("uniform", "", &shared).0, Some(0));
}

#[test]
fn the_base_has_no_mistake() {
    let folder = Folder::new("bad-failures-base");
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn analytic_mode_refuses_what_fails() {
    let folder = Folder::new("bad-failures-analytic");
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"run", &path, &"--mode", &"analytic"]);
    assert_eq!(output.code, Some(2));
    let said = &output.stderr;
    assert!(
        said.contains("or what fails; allowed in analytic mode"),
        "{said}"
    );
}

#[test]
fn a_broken_system_is_one_report_with_file_line_key_value_and_what_is_allowed() {
    check_cases("bad-failures", BASE, CASES);
}
