//! Scenarios with failures, beside the mistakes of `failures.txt`.

use crate::table::numbered_folder;

const BASE: &str = include_str!("failures.toml");

/// Events of the base, which the scenario without any of them does not have.
#[test]
fn a_table_of_failures_needs_a_failure() {
    let folder = numbered_folder();
    let text = &BASE[..BASE.find("[[events]]").unwrap()];
    folder.file("none.toml", text.as_bytes());
    let refused = folder.cxlab("check none.toml").ends(2);
    refused.says(&["`failures`: found a table", "\"device-removed\""]);
}

/// Virtual channels of earlier changes are used again.
#[test]
fn a_fabric_changes_more_often_than_there_are_virtual_channels() {
    let folder = numbered_folder();
    let mut text =
        BASE[..BASE.find("[[events]]").unwrap()].replace("switches = 3", "switches = 12");
    for number in 2..12 {
        text += &format!(
            "[[events]]\nat = \"{number} us\"\nkind = \"switch-down\"\nswitch = \"sw{number}\"\n"
        );
    }
    folder.file("many.toml", text.as_bytes());
    let checked = folder.cxlab("check many.toml").ends(0);
    checked.prints(&["until virtual channels of earlier routing states have drained"]);
    let planned = folder.cxlab("plan many.toml");
    planned.prints(&["10 failures and repairs, "]);
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
    let folder = numbered_folder();
    let check = |workload: &str, more: &str, events: &str| {
        let text = PROCESSORS.replace("WORKLOAD", workload);
        let text = text.replace("processor = {}", &format!("processor = {{}}{more}"));
        folder.file("processors.toml", format!("{text}{events}").as_bytes());
        folder.cxlab("check processors.toml")
    };
    let shared = format!("sharing = \"shared\"\n{removed}");
    check("uniform", "", release).done();
    check("hot-pages\", data = \"cxl", "", removed).ends(0);
    check("hot-pages", "\nos = {}", removed).ends(0);
    check("uniform", "", &shared).ends(0);
    for (workload, more, events, says) in [
        (
            "hot-pages",
            "",
            release,
            &[
                "hosts[0].workload",
                "patterns, traces or programs",
                "region `own`",
                "processors.toml",
            ][..],
        ),
        (
            "uniform",
            "\nos = {}",
            release,
            &[
                "hosts[0].os",
                "without `os`",
                "region `own`",
                "processors.toml",
            ],
        ),
        (
            "hot-pages\", data = \"cxl",
            "",
            &shared,
            &[
                "regions[0].sharing",
                "threads of several hosts",
                "exclusive",
            ],
        ),
    ] {
        check(workload, more, events).ends(2).says(says);
    }
}

#[test]
fn analytic_mode_refuses_what_fails() {
    let folder = numbered_folder();
    folder.file("base.toml", BASE.as_bytes());
    let refused = folder.cxlab("run base.toml --mode analytic").ends(2);
    refused.says(&["or what fails; allowed in analytic mode"]);
}
