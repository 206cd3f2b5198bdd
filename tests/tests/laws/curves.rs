//! A memory known by its curves, inside a system: it reproduces its file behind a link, and conserves
//! bandwidth behind a switch.

use std::path::Path;

use cxlab_plan::load::{read, resolve};
use cxlab_plan::{Externals, Files, Plan};
use cxlab_system::analytic::analyze;
use cxlab_system::analytic::compare::compare;
use cxlab_tests::{assert_close, plan, report, root, shipped};

/// The points of the shipped file: read percent, MB/s, ns.
fn points() -> Vec<[f64; 3]> {
    let path = root().join("scenarios/curves/invented.csv");
    let text = std::fs::read_to_string(path).expect("the file is there");
    let rows = text
        .lines()
        .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()));
    let number = |field: &str| field.parse().expect("a number");
    rows.map(|row| {
        let fields: Vec<f64> = row.split(',').map(number).collect();
        [fields[0], fields[1], fields[2]]
    })
    .collect()
}

/// Time between requests of this bandwidth, as text.
fn interval(mb_per_s: f64) -> String {
    format!("{:.0} ps", 64e6 / mb_per_s)
}

/// A direct link of 32 lanes' worth of a generation that is four times as fast as the memory.
const WIDE: [&str; 4] = [
    "measure={ requests = 60_000, warmup_requests = 60_000 }",
    "fabric.topology={ kind = \"direct\" }",
    "hosts[0].issue.outstanding=4096",
    "devices[0].controller.contexts=4096",
];

/// The latency of the rest of the system is constant on a link this wide, so the file's latency is the
/// host's less what the same host measures of a fixed medium with no latency.
#[test]
fn behind_a_link_each_point_of_each_mix_is_reproduced_within_one_per_cent() {
    for [read_percent, mb_per_s, latency_ns] in points() {
        let peak = points()
            .into_iter()
            .filter(|point| point[0] == read_percent);
        let peak = peak.map(|point| point[1]).fold(0.0, f64::max);
        if mb_per_s > 0.96 * peak {
            continue;
        }
        let keys = "kind = \"uniform\", mix = \"regular\"";
        let ratio = read_percent / 100.0;
        let load = [
            format!("hosts[0].issue.issue_interval=\"{}\"", interval(mb_per_s)),
            format!("hosts[0].workload={{ {keys}, read_ratio = {ratio} }}"),
        ];
        let mut set: Vec<&str> = WIDE.to_vec();
        set.extend(load.iter().map(String::as_str));
        let found = report(&shipped("curves"), &set);
        set.push("devices[0].memory={ kind = \"fixed\", latency = \"0 ns\", queue = 4096 }");
        let rest = report(&shipped("curves"), &set);
        let latency = found.latency_ns.mean - rest.latency_ns.mean;
        let what = format!("{read_percent} % at {mb_per_s} MB/s");
        assert_close(latency, latency_ns, 0.01, format!("ns, {what}"));
        let rate = found.bandwidth_gb_per_s.total * 1e3;
        assert_close(rate, mb_per_s, 0.01, format!("MB/s, {what}"));
    }
}

#[test]
fn two_hosts_behind_a_switch_share_the_peak_and_lose_nothing() {
    let peak = points().into_iter().filter(|point| point[0] == 75.0);
    let peak = peak.map(|point| point[1]).fold(0.0, f64::max) * 1e-3;
    for (interval, expected) in [("16 ns", 8.0), ("8 ns", 16.0), ("2 ns", peak)] {
        let text = shipped("curves").replace("name = \"host\"", "name = \"host\"\ncount = 2");
        let interval = format!("hosts[0].issue.issue_interval=\"{interval}\"");
        let measure = "measure={ requests = 100_000, warmup_requests = 100_000 }";
        let mix = "hosts[0].workload.mix=\"regular\"";
        let found = report(&text, &[measure, mix, &interval]);
        let [a, b] = [0, 1].map(|at| found.hosts[at].bandwidth_gb_per_s.total);
        let device = found.devices[0].bandwidth_gb_per_s.total;
        for one in [a + b, device] {
            assert_close(one, expected, 0.01, &interval);
        }
        assert!(device < 1.000_1 * peak, "{device}");
        assert_close(a, b, 0.02, &interval);
    }
}

/// A plan of the shipped scenario with files from `folder`.
fn plan_in(folder: &Path) -> Result<Plan, String> {
    let files = Files::of(folder);
    let document =
        read("curves.toml", &shipped("curves"), &[]).map_err(|error| error.render(false))?;
    let loaded =
        resolve(document, files, &Externals::new()).map_err(|error| error.render(false))?;
    Ok(loaded.plan)
}

#[test]
fn the_content_of_the_file_is_part_of_the_hash_and_a_mistake_in_it_has_its_line() {
    let folder = std::env::temp_dir().join(format!("cxlab-curves-hash-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("curves")).expect("a folder");
    let shipped_file = root().join("scenarios/curves/invented.csv");
    let text = std::fs::read_to_string(shipped_file).expect("the file is there");
    let with = |text: &str| {
        std::fs::write(folder.join("curves/invented.csv"), text).expect("a file");
        plan_in(&folder)
    };
    let hash = |plan: Result<Plan, String>| plan.unwrap_or_else(|error| panic!("{error}")).hash;
    let same = hash(with(&text));
    assert_eq!(same, plan(&shipped("curves"), &[]).hash);
    let slower = text.replace("60.040", "60.041");
    assert_ne!(same, hash(with(&slower)));
    let error = with(&text.replace("60.040", "-60"))
        .err()
        .expect("it is refused");
    for says in [
        "curves.toml:17",
        "devices[0].memory.file",
        "invented.csv:4: latency_ns: found `-60`",
    ] {
        assert!(error.contains(says), "{error}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn the_analytic_form_holds_its_classes_and_does_not_trust_a_loaded_curve() {
    for (interval, is_trusted) in [("20 ns", true), ("3 ns", false)] {
        let interval = format!("hosts[0].issue.issue_interval=\"{interval}\"");
        let plan = plan(
            &shipped("curves"),
            &[&interval, "measure={ requests = 30_000 }"],
        );
        let form = analyze(&plan, 1).unwrap_or_else(|problems| panic!("{problems:?}"));
        let engine = cxlab_tests::try_run(&plan, 1).unwrap_or_else(|error| panic!("{error}"));
        for number in compare(&form, &engine).numbers {
            let error = number.error.map_or(0.0, f64::abs);
            let bound = number.error_class.bound();
            assert!(
                bound.is_none_or(|bound| error <= bound),
                "{interval}: {number:?}"
            );
        }
        assert_eq!(
            form.error_class.worst().bound().is_some(),
            is_trusted,
            "{interval}: {}",
            form.error_class.why
        );
    }
}
