//! Compares the analytic form with the event engine: single requests to the picosecond, loads
//! below 60 % and full loads within the bounds that `docs/explain/analytic.md` states. With
//! `--nocapture` the tests print their tables.

use cxlab_plan::Plan;
use cxlab_system::analytic::{AnalyticReport, analyze};
use cxlab_tests::{plan, report, rows, shipped};

fn analytic(plan: &Plan) -> AnalyticReport {
    match analyze(plan, plan.scenario.seed) {
        Ok(report) => report,
        Err(problems) => panic!("{problems:?}"),
    }
}

/// Every topology of the catalog, of a size for four hosts and four devices.
fn topologies() -> impl Iterator<Item = String> {
    let names = cxlab_fabric::topology::CATALOG
        .iter()
        .map(|entry| entry.name);
    names.map(|name| match name {
        "custom" => CUSTOM.to_owned(),
        _ => format!("{{ kind = \"{name}\" }}"),
    })
}

const CUSTOM: &str = r#"{ kind = "custom", switches = ["a", "b"], links = [["host", "a"], ["other0", "a"], ["other1", "b"], ["other2", "b"], ["a", "b"], ["a", "b"], ["mem0", "a"], ["mem1", "b"], ["mem2", "b"], ["mem3", "b"]] }"#;

/// Link parameters: formats, rates that are no whole picoseconds, and buses. Between
/// switches all flits are standard flits.
const LINKS: [&str; 6] = [
    "link = {}",
    r#"link = { generation = "5", lanes = 8, flit = "256B" }, edge_link = { generation = "5", lanes = 8 }"#,
    r#"link = { lanes = 4 }, edge_link = { flit = "256B-latency-optimized", lanes = 4 }"#,
    r#"link = { transmission = "packet", bandwidth = "7 GB/s" }"#,
    r#"link = { transmission = "packet", duplex = "half", turnaround = "3 ns" }"#,
    r#"link = { transmission = "packet", duplex = "half", propagation = "0 ns" }"#,
];

/// One host with one outstanding request, and three others that each
/// send one request at the beginning.
fn lonely(topology: &str, link: &str, read_ratio: f64) -> Plan {
    let text = format!(
        r#"
name = "lonely"
measure = {{ requests = 60, warmup_requests = 10 }}
fabric = {{ topology = {topology}, {link}, routing = "random" }}
hosts = [
    {{ name = "host", issue = {{ outstanding = 1 }}, workload = {{ kind = "uniform", read_ratio = {read_ratio} }} }},
    {{ name = "other", count = 3, requests = 1, issue = {{ outstanding = 1 }}, workload = {{ kind = "uniform" }} }},
]
devices = [{{ name = "mem", count = 4, memory = {{ kind = "fixed", latency = "46 ns", write_latency = "9 ns" }} }}]
"#
    );
    plan(&text, &[])
}

#[test]
fn alone_a_request_takes_the_same_picoseconds_in_both_forms() {
    let mut compared = 0;
    for topology in topologies() {
        for link in LINKS {
            // A bus lacks the virtual channels that the other topologies need. Or there are two
            // paths, and a bus that is idle since then does not turn around.
            let one_way = ["direct", "chain", "tree"];
            if link.contains("half") && !one_way.iter().any(|kind| topology.contains(kind)) {
                continue;
            }
            for read_ratio in [1.0, 0.0] {
                let plan = lonely(&topology, link, read_ratio);
                let report = analytic(&plan);
                let (measured, rows) = rows(&plan, 1);
                let mut seen = 0;
                for row in rows.iter().filter(|row| {
                    row.requester == 0 && row.issued_ps as f64 / 1e3 > measured.extent.warmup_ns
                }) {
                    let device = &plan.devices[row.device as usize].name;
                    let pair = report.pairs.iter().find(|pair| {
                        pair.host == "host" && pair.device == *device && pair.write == row.write
                    });
                    let took = (row.completed_ps - row.issued_ps) as f64 / 1e3;
                    let pair = pair.expect("the pair is known");
                    assert_eq!(pair.unloaded_ns, took, "{topology} {link} {device}");
                    assert_eq!(usize::from(row.hops), hops(&plan, device));
                    seen += 1;
                }
                assert!(seen > 40, "{topology} {link}: {seen}");
                compared += seen;
            }
        }
    }
    assert!(compared > 3000, "{compared}");
}

fn hops(plan: &Plan, device: &str) -> usize {
    let number = plan.devices.iter().position(|one| one.name == device);
    let number = plan.hosts.len() + number.expect("a device");
    plan.tables.hops(0, number).expect("a path") as usize
}

/// Bandwidth and mean latency of both forms, in per cent of the engine's.
struct Error {
    bandwidth: f64,
    latency: f64,
    used: f64,
}

#[track_caller]
fn compare(scenario: &str, set: &[&str]) -> Error {
    let settings = [&["measure={ requests = 30_000 }"], set].concat();
    let text = shipped(scenario);
    let engine = report(&text, &settings);
    let form = analytic(&plan(&text, &settings));
    let per_cent = |form: f64, engine: f64| 100.0 * (form / engine - 1.0);
    let error = Error {
        bandwidth: per_cent(
            form.bandwidth_gb_per_s.total,
            engine.bandwidth_gb_per_s.total,
        ),
        latency: per_cent(form.latency_ns.mean, engine.latency_ns.mean),
        used: form.bottleneck.map_or(0.0, |bottleneck| bottleneck.used),
    };
    println!(
        "| {scenario} {} | {:.0} % | {:.2} | {:.2} | {:+.1} % | {:.1} | {:.1} | {:+.1} % |",
        set.join(", "),
        100.0 * error.used,
        engine.bandwidth_gb_per_s.total,
        form.bandwidth_gb_per_s.total,
        error.bandwidth,
        engine.latency_ns.mean,
        form.latency_ns.mean,
        error.latency
    );
    error
}

#[track_caller]
fn assert_within(error: &Error, per_cent: f64) {
    assert!(
        error.bandwidth.abs() <= per_cent && error.latency.abs() <= per_cent,
        "bandwidth {:+.2} %, latency {:+.2} %, allowed {per_cent} %",
        error.bandwidth,
        error.latency
    );
}

fn heading() {
    println!(
        "\n| scenario | fullest | GB/s, engine | GB/s, form | error | ns, engine | ns, form | error |"
    );
    println!("|---|---|---|---|---|---|---|---|");
}

#[test]
fn below_sixty_per_cent_of_load_the_forms_agree_within_two_per_cent() {
    heading();
    for scenario in [
        "direct",
        "dragonfly-12",
        "esf-table3",
        "fully-connected-16",
        "loaded-latency",
        "mesh-9",
        "multiple-vcs",
        "ring-16",
        "single-vcs",
        "spine-leaf-16",
        "torus-16",
        "tree-16",
    ] {
        let error = compare(scenario, &[]);
        assert!(error.used < 0.6, "{scenario} is not below: {}", error.used);
        assert_within(&error, 2.0);
    }
    for interval in ["30 ns", "10 ns", "5 ns"] {
        let error = compare(
            "loaded-latency",
            &[&format!("hosts[0].issue.issue_interval=\"{interval}\"")],
        );
        assert!(error.used < 0.6);
        assert_within(&error, 2.0);
    }
    for ratio in ["0.0", "0.5"] {
        let set = format!("hosts[0].workload.read_ratio={ratio}");
        assert_within(&compare("spine-leaf-16", &[&set]), 2.0);
    }
}

#[test]
fn one_full_link_is_full_at_the_same_rate_within_ten_per_cent() {
    heading();
    let many = "hosts[0].issue.outstanding=1024";
    for ratio in ["1.0", "0.5", "0.0"] {
        let set = format!("hosts[0].workload.read_ratio={ratio}");
        assert_within(&compare("direct", &[many, &set]), 10.0);
        assert_within(&compare("esf-section4", &[&set]), 10.0);
    }
    for interval in ["4 ns", "2.8 ns", "2.4 ns", "1 ns"] {
        let set = format!("hosts[0].issue.issue_interval=\"{interval}\"");
        assert_within(&compare("loaded-latency", &[&set]), 5.0);
    }
    for kind in [
        "chain",
        "tree",
        "ring",
        "spine-leaf",
        "fully-connected",
        "mesh",
        "torus",
    ] {
        let set = format!("fabric.topology={{ kind = \"{kind}\" }}");
        assert_within(&compare("esf-fig10", &[&set]), 10.0);
    }
    for set in [
        "fabric.link.duplex=\"half\"",
        "hosts[0].workload.read_ratio=0.5",
    ] {
        assert_within(&compare("duplex", &[set]), 5.0);
    }
    for scenario in ["chain-16", "trace"] {
        assert_within(&compare(scenario, &[]), 5.0);
    }
    assert_within(
        &compare("chain-16", &["hosts[0].issue.outstanding=256"]),
        15.0,
    );
}

/// Systems in which full links stall messages for other links.
#[test]
fn congestion_that_spreads_is_found_within_thirty_per_cent() {
    heading();
    let dragonfly = ["fabric.topology={ kind = \"dragonfly\" }"];
    assert_within(&compare("esf-fig10", &dragonfly), 30.0);
}

/// Media without a constant latency are measured alone, but in the system their
/// device does not use them alone.
#[test]
fn measured_media_agree_within_twenty_per_cent() {
    heading();
    for kind in ["dram", "pmem"] {
        let memory = format!("devices[0].memory={{ kind = \"{kind}\" }}");
        for outstanding in ["1", "16", "64"] {
            let set = format!("hosts[0].issue.outstanding={outstanding}");
            assert_within(&compare("direct", &[&memory, &set]), 20.0);
        }
    }
}

#[test]
fn what_has_no_analytic_form_is_refused_where_it_stands() {
    let overfetch: &[&str] = &["hosts[0].issue.overfetch={}"];
    for (scenario, set, path) in [
        ("device-coherent", &[][..], "devices[0].coherence.class"),
        ("core-stream", &[], "hosts[0].core"),
        ("cohet-fpga", &[], "accelerators[0]"),
        ("direct", overfetch, "hosts[0].issue.overfetch"),
    ] {
        let plan = plan(&shipped(scenario), set);
        let problems = analyze(&plan, 1).expect_err("not covered");
        assert_eq!(problems[0].path, path);
        assert!(problems[0].message.contains("analytic mode"));
    }
}
