//! The commands that help in a terminal: new, explain, diff, completions and man pages.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use common::{Folder, cxlab};
use serde_json::Value;

#[test]
fn a_new_scenario_passes_the_check_and_names_its_schema() {
    let folder = Folder::new("new");
    let list = folder.cxlab("new --template 'no such template' x.toml");
    let names = list.stderr.split("allowed: ").nth(1).unwrap();
    let names: Vec<&str> = names.trim().split(", ").collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let file = format!("my {name}.toml");
        let made = folder.cxlab(&format!("new --template '{name}' '{file}'"));
        made.done().prints(&["cxlab run"]);
        let text = folder.text(&file);
        assert!(text.starts_with("#:schema ./cxlab.schema.json\n"));
        assert!(text.contains(&format!("name = \"my-{name}\"\n")), "{name}");
        folder.cxlab(&format!("check '{file}'")).ends(0);
    }
    assert_eq!(
        folder.text("cxlab.schema.json"),
        folder.cxlab("schema").stdout
    );
}

#[test]
fn a_new_scenario_overwrites_nothing() {
    let folder = Folder::new("new-again");
    folder.file("pool.toml", b"mine");
    folder.file("cxlab.schema.json", b"{}");
    folder.cxlab("new --template direct pool.toml").ends(2);
    assert_eq!(folder.text("pool.toml"), "mine");
    let other = folder.cxlab("new --template direct other.toml");
    other.done().prints(&["stays as it is"]);
    assert_eq!(folder.text("cxlab.schema.json"), "{}");
}

#[test]
fn a_key_is_explained_with_its_kinds_range_default_and_an_example() {
    let explain = |key: &str| cxlab(&[&"explain", &key]).done();
    for (key, parts) in [
        (
            "fabric.topology.switches",
            &[
                "\"ring\"",
                "integer",
                "Number of switches",
                "Example (scenarios/",
                "switches =",
            ][..],
        ),
        ("hosts[0].workload.kind", &["one of ", "\"uniform\""]),
        // A name alone, and a list of values.
        ("switching_time", &["fabric.switch.switching_time\n"]),
        (
            "fabric.topology.placement",
            &["\n    \"paired\": Requesters evenly on all edge switches"],
        ),
        ("fabric.link.credits.m2s_req", &["integer, 1 to 1023"]),
        (
            "devices.memory.latency",
            &["a time such as", "default: \"46 ns\""],
        ),
        (
            "fabric.links.anything.lanes",
            &["type: 1, or 2, or 4, or 8, or 16"],
        ),
        ("fabric", &["Its keys:"]),
        // An example has the header of its table and a key, and a default is told once.
        (
            "fabric.switch.switching_time",
            &[
                "\n  default: \"10 ns\"\n  Time from input to output in one direction, without the ports. Of the",
                "toml):\n  [fabric]\n  switch = { switching_time = ",
            ],
        ),
        (
            "hosts",
            &["type: a list of tables", "  [[hosts]]\n  name = "],
        ),
        (
            "fabric.topology.rings",
            &[
                "type: integer, at least 2\n",
                "default: as many as give a switch to each requester-device pair",
            ],
        ),
        ("fabric.links", &["Its keys:\n  NAME "]),
        (
            "devices.memory",
            &[
                "\n  default: { kind = \"fixed\" }\n",
                "\n    latency            Latency of a read. [default: \"46 ns\"]\n",
                " [default: as a read]\n",
                " [required]\n",
            ],
        ),
        (
            "ring-star",
            &["ring-star, of topologies: fabric.topology.kind\n  "],
        ),
    ] {
        explain(key).prints(parts);
    }
    cxlab(&[&"explain"])
        .done()
        .prints(&["\n  hosts ", "\n  devices "]);
    let memory = explain("devices.memory").stdout;
    let (_, fixed) = memory.split_once("  with kind = \"fixed\": ").unwrap();
    let (fixed, _) = fixed.split_once("  with kind = ").unwrap();
    let has_own_keys = fixed.contains("\n    bank_cycle ") && !fixed.contains("gc_policy");
    assert!(has_own_keys, "{memory}");
}

/// Runs the base scenario with these arguments into a folder.
fn run(folder: &Folder, name: &str, more: &str) -> Value {
    let run = format!("run base.toml --quiet --out {name} {more}");
    folder.cxlab(&run).done();
    folder.json(&format!("{name}/report.json"))
}

#[test]
fn reports_of_one_run_do_not_differ_and_slower_links_do() {
    let folder = Folder::with_base("diff");
    let report = run(&folder, "a", "");
    run(&folder, "again", "");
    let same = folder.cxlab("diff a again/report.json");
    same.done().prints(&["no difference in ", "digests: equal"]);
    run(&folder, "slower", "--set 'fabric.link.propagation=100 ns'");
    let output = folder.cxlab("diff a slower --format json").done();
    let difference: Value = serde_json::from_str(&output.stdout).unwrap();
    let changes = difference["changes"].as_array().unwrap();
    let of = |path: &str| changes.iter().find(|change| change["path"] == path);
    let latency = of("latency_ns.mean").unwrap();
    assert!(latency["relative"].as_f64().unwrap() > 0.1);
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
    let text = folder.cxlab("diff a slower").done().stdout;
    assert!(!text.contains("null"), "{text}");
    assert!(text.contains("percentiles and extremes, which one run does not bound"));
    assert!(text.contains("digests: different"), "{text}");
}

#[test]
fn several_seeds_are_compared_by_their_means() {
    let folder = Folder::with_base("diff-seeds");
    for (name, more) in [
        ("few", ""),
        ("other", "--seed 9"),
        ("slow", "--set 'fabric.link.propagation=100 ns'"),
    ] {
        let run = format!("run base.toml --quiet --out {name} --seeds 3 {more}");
        folder.cxlab(&run).done();
    }
    let text = folder.cxlab("diff few slow/seeds.json").done().stdout;
    assert!(text.contains("means over 3 seeds"), "{text}");
    assert!(!text.contains("which one run does not bound"), "{text}");
    let (_, beyond) = text.split_once("beyond the 95 % intervals").unwrap();
    assert!(beyond.contains("latency_ns.mean"), "{text}");
    let output = folder.cxlab("diff few other --format json").done();
    let difference: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(difference["a"]["seeds"], 3);
    let seeds = folder.json("few/seeds.json");
    for change in difference["changes"].as_array().unwrap() {
        let mut quantities = seeds["quantities"].as_array().unwrap().iter();
        let of_path = quantities.find(|one| one["name"] == change["path"]);
        let quantity = of_path.unwrap();
        assert_eq!(change["a"], quantity["mean"], "{change}");
        assert_eq!(change["a_ci95"], quantity["ci95"], "{change}");
    }
    run(&folder, "single", "");
    let refused = folder.cxlab("diff few single");
    refused.ends(2).says(&["several seeds"]);
}

#[test]
fn a_report_of_a_later_version_or_of_the_other_form_is_refused() {
    let folder = Folder::with_base("diff-other");
    run(&folder, "a", "");
    let text = folder.text("a/report.json");
    let later = text.replacen("\"format\": 2", "\"format\": 99", 1);
    folder.file("later.json", later.as_bytes());
    let refused = folder.cxlab("diff a later.json");
    refused.ends(2).says(&["found format 99"]);
    run(&folder, "analytic", "--mode analytic");
    let refused = folder.cxlab("diff a analytic");
    refused.ends(2).says(&["cxlab compare"]);
    let same = folder.cxlab("diff analytic analytic");
    same.done().prints(&["no difference"]);
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
        cxlab(&[&"completions", &shell]).done().prints(&names);
    }
    let folder = Folder::new("man");
    folder.cxlab("man man1").done();
    for name in names.iter().filter(|name| **name != "help") {
        let page = folder.text(&format!("man1/cxlab-{name}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(folder.text("man1/cxlab.1").contains("cxlab\\-run(1)"));
    let has_page = |name: &str| folder.path("man1").join(name).exists();
    assert!(has_page("cxlab-trace-import.1") && !has_page("cxlab-__host-medium.1"));
}
