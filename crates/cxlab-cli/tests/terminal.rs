//! The commands that help in a terminal: new, explain, diff, completions and man pages.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::ffi::OsStr;

use common::{Folder, Output, cxlab};
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

fn done(output: &Output) -> &str {
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    &output.stdout
}

#[test]
fn a_new_scenario_passes_the_check_and_names_its_schema() {
    let folder = Folder::new("new");
    let list = cxlab(&[&"new", &"--template", &"no such template", &"x.toml"]);
    let names = list.stderr.split("allowed: ").nth(1).unwrap();
    let names: Vec<&str> = names.trim().split(", ").collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let file = folder.path(&format!("my {name}.toml"));
        let output = cxlab(&[&"new", &"--template", &name, &file]);
        assert!(done(&output).contains("cxlab run"), "{name}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("#:schema ./cxlab.schema.json\n"));
        assert!(text.contains(&format!("name = \"my-{name}\"\n")), "{name}");
        assert_eq!(cxlab(&[&"check", &file]).code, Some(0), "{name}");
    }
    let schema = std::fs::read_to_string(folder.path("cxlab.schema.json")).unwrap();
    assert_eq!(schema, cxlab(&[&"schema"]).stdout);
}

#[test]
fn a_new_scenario_overwrites_nothing() {
    let folder = Folder::new("new-again");
    let file = folder.file("pool.toml", b"mine");
    let schema = folder.file("cxlab.schema.json", b"{}");
    let output = cxlab(&[&"new", &"--template", &"direct", &file]);
    assert_eq!(output.code, Some(2));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let other = folder.path("other.toml");
    let output = cxlab(&[&"new", &"--template", &"direct", &other]);
    assert!(done(&output).contains("stays as it is"));
    assert_eq!(std::fs::read(&schema).unwrap(), b"{}");
}

#[test]
fn a_key_is_explained_with_its_kinds_range_default_and_an_example() {
    let explain = |key: &str| done(&cxlab(&[&"explain", &key])).to_owned();
    let switches = explain("fabric.topology.switches");
    for part in [
        "\"ring\"",
        "integer",
        "Number of switches",
        "Example (scenarios/",
        "switches =",
    ] {
        assert!(switches.contains(part), "{part}: {switches}");
    }
    let kind = explain("hosts[0].workload.kind");
    assert!(
        kind.contains("one of ") && kind.contains("\"uniform\""),
        "{kind}"
    );
    let credits = explain("fabric.link.credits.m2s_req");
    assert!(credits.contains("integer, 1 to 1023"), "{credits}");
    let latency = explain("devices.memory.latency");
    assert!(
        latency.contains("a time such as") && latency.contains("default: \"46 ns\""),
        "{latency}"
    );
    let named = explain("fabric.links.anything.lanes");
    assert!(
        named.contains("type: 1, or 2, or 4, or 8, or 16"),
        "{named}"
    );
    assert!(explain("fabric").contains("Its keys:"));
    let memory = explain("devices.memory");
    let (_, fixed) = memory.split_once("  with kind = \"fixed\": ").unwrap();
    let (fixed, _) = fixed.split_once("  with kind = ").unwrap();
    assert!(
        fixed.contains("\n    bank_cycle ") && !fixed.contains("gc_policy"),
        "{memory}"
    );
    let all = done(&cxlab(&[&"explain"])).to_owned();
    assert!(
        all.contains("\n  hosts ") && all.contains("\n  devices "),
        "{all}"
    );
}

/// Runs the base scenario with these arguments into a folder.
fn report(folder: &Folder, name: &str, arguments: &[&str]) -> std::path::PathBuf {
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path(name);
    let mut all: Vec<&dyn AsRef<OsStr>> = vec![&"run", &base, &"--quiet", &"--out", &out];
    all.extend(
        arguments
            .iter()
            .map(|argument| argument as &dyn AsRef<OsStr>),
    );
    done(&cxlab(&all));
    out
}

#[test]
fn reports_of_one_run_do_not_differ_and_slower_links_do() {
    let folder = Folder::new("diff");
    let (a, again) = (report(&folder, "a", &[]), report(&folder, "again", &[]));
    let output = cxlab(&[&"diff", &a, &again.join("report.json")]);
    for text in ["no difference in ", "digests: equal"] {
        assert!(done(&output).contains(text), "{}", output.stdout);
    }

    let slower = report(
        &folder,
        "slower",
        &["--set", "fabric.link.propagation=100 ns"],
    );
    let output = cxlab(&[&"diff", &a, &slower, &"--format", &"json"]);
    let difference: Value = serde_json::from_str(done(&output)).unwrap();
    let changes = difference["changes"].as_array().unwrap();
    let of = |path: &str| changes.iter().find(|change| change["path"] == path);
    let latency = of("latency_ns.mean").unwrap();
    assert!(latency["relative"].as_f64().unwrap() > 0.1);
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(a.join("report.json")).unwrap()).unwrap();
    assert_eq!(latency["a"], report["latency_ns"]["mean"]);
    assert_eq!(latency["a_ci95"], report["ci95"]["latency_ns"]);
    for change in changes {
        let number = |key: &str| change[key].as_f64();
        let path = change["path"].as_str().unwrap();
        let expected = match (number("a_ci95"), number("b_ci95")) {
            (Some(a), Some(b)) if (number("a").unwrap() - number("b").unwrap()).abs() > a + b => {
                "beyond_intervals"
            }
            (Some(_), Some(_)) => "within_intervals",
            _ => match path.rsplit('.').next().unwrap() {
                "min" | "p50" | "p90" | "p99" | "p999" | "max" => "percentile",
                _ => "no_interval",
            },
        };
        assert_eq!(change["verdict"], expected, "{change}");
    }
    assert!(of("wall_seconds").is_none() && of("events_per_second").is_none());
    let note = difference["notes"][0].as_str().unwrap();
    assert!(note.contains("resolve to two systems"), "{note}");
    let first: Vec<&str> = changes
        .iter()
        .filter(|change| change["verdict"] == latency["verdict"])
        .filter_map(|change| change["path"].as_str())
        .take(2)
        .collect();
    assert_eq!(first, ["bandwidth_gb_per_s.total", "latency_ns.mean"]);
    let text = cxlab(&[&"diff", &a, &slower]);
    let text = done(&text);
    assert!(!text.contains("null"), "{text}");
    assert!(text.contains("percentiles and extremes, which one run does not bound"));
    assert!(text.contains("digests: different"), "{text}");
}

#[test]
fn several_seeds_are_compared_by_their_means() {
    let folder = Folder::new("diff-seeds");
    let few = report(&folder, "few", &["--seeds", "3"]);
    let other = report(&folder, "other", &["--seeds", "3", "--seed", "9"]);
    let slow = ["--seeds", "3", "--set", "fabric.link.propagation=100 ns"];
    let slow = report(&folder, "slow", &slow);
    let output = cxlab(&[&"diff", &few, &slow.join("seeds.json")]);
    let text = done(&output);
    assert!(text.contains("means over 3 seeds"), "{text}");
    assert!(!text.contains("which one run does not bound"), "{text}");
    let (_, beyond) = text.split_once("beyond the 95 % intervals").unwrap();
    assert!(beyond.contains("latency_ns.mean"), "{text}");
    let output = cxlab(&[&"diff", &few, &other, &"--format", &"json"]);
    let difference: Value = serde_json::from_str(done(&output)).unwrap();
    assert_eq!(difference["a"]["seeds"], 3);
    let seeds: Value =
        serde_json::from_str(&std::fs::read_to_string(few.join("seeds.json")).unwrap()).unwrap();
    for change in difference["changes"].as_array().unwrap() {
        let quantities = seeds["quantities"].as_array().unwrap();
        let mut of_path = quantities
            .iter()
            .filter(|one| one["name"] == change["path"]);
        let quantity = of_path.next().unwrap();
        assert_eq!(change["a"], quantity["mean"], "{change}");
        assert_eq!(change["a_ci95"], quantity["ci95"], "{change}");
    }
    let single = report(&folder, "single", &[]);
    let output = cxlab(&[&"diff", &few, &single]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("several seeds"), "{}", output.stderr);
}

#[test]
fn a_report_of_a_later_version_or_of_the_other_form_is_refused() {
    let folder = Folder::new("diff-other");
    let a = report(&folder, "a", &[]);
    let text = std::fs::read_to_string(a.join("report.json")).unwrap();
    let later = text.replacen("\"format\": 2", "\"format\": 99", 1);
    let later = folder.file("later.json", later.as_bytes());
    let output = cxlab(&[&"diff", &a, &later]);
    assert_eq!(output.code, Some(2));
    assert!(
        output.stderr.contains("found format 99"),
        "{}",
        output.stderr
    );
    let analytic = report(&folder, "analytic", &["--mode", "analytic"]);
    let output = cxlab(&[&"diff", &a, &analytic]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("cxlab compare"), "{}", output.stderr);
    assert!(done(&cxlab(&[&"diff", &analytic, &analytic])).contains("no difference"));
}

#[test]
fn shells_and_man_know_every_command() {
    let help = cxlab(&[&"--help"]).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        names.contains(&"run") && names.contains(&"diff"),
        "{names:?}"
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = cxlab(&[&"completions", &shell]);
        for name in &names {
            assert!(done(&script).contains(name), "{shell}: {name}");
        }
    }
    let folder = Folder::new("man");
    let dir = folder.path("man1");
    done(&cxlab(&[&"man", &dir]));
    for name in names.iter().filter(|name| **name != "help") {
        let page = std::fs::read_to_string(dir.join(format!("cxlab-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(
        std::fs::read_to_string(dir.join("cxlab.1"))
            .unwrap()
            .contains("cxlab\\-run(1)")
    );
    assert!(dir.join("cxlab-trace-import.1").exists() && !dir.join("cxlab-plugin-host.1").exists());
}
