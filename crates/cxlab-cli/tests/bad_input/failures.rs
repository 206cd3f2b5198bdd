//! Scenarios with failures, beside the mistakes of `failures.txt`.

use crate::common::cxlab;
use crate::table::numbered_folder;

const BASE: &str = include_str!("failures.toml");

/// Events of the base, which the scenario without any of them does not have.
#[test]
fn a_table_of_failures_needs_a_failure() {
    let folder = numbered_folder();
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
    let folder = numbered_folder();
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
fn analytic_mode_refuses_what_fails() {
    let folder = numbered_folder();
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"run", &path, &"--mode", &"analytic"]);
    assert_eq!(output.code, Some(2));
    let said = &output.stderr;
    assert!(
        said.contains("or what fails; allowed in analytic mode"),
        "{said}"
    );
}
