//! Compares `cxlab fleet` with the event engine, and with earlier results.
//!
//! A fleet takes the latency of pool memory from the analytic form. Here a pod of the shipped
//! scenario runs event by event at the same load. `docs/explain/fleet.md` has the table that
//! `cargo test -p cxlab-tests --test systems fleet:: -- --nocapture --test-threads=1` prints.

use cxlab_fleet::{PodFabric, Watch};
use cxlab_system::analytic::PodModel;
use cxlab_system::fleet::{Fleet, FleetReport, series_csv, svg};
use cxlab_tests::{plan, report, root, shipped};

/// Changes that make a pod small.
const SMALL: [&str; 3] = [
    "hosts[0].count=4",
    "devices[0].count=2",
    "measure={ warmup_requests = 5_000, requests = 60_000 }",
];

fn fabric(set: &[&str]) -> PodFabric {
    let plan = plan(&shipped("fleet-pond"), set);
    match PodModel::new(&plan, 1) {
        Ok(mut model) => PodFabric::new(&mut model),
        Err(problems) => panic!("{problems:?}"),
    }
}

/// Read latency in nanoseconds over all hosts, and bandwidth of each host in GB/s, from the engine.
fn engine(set: &[&str]) -> (f64, f64) {
    let report = report(&shipped("fleet-pond"), set);
    let hosts = report.hosts.len() as f64;
    (
        report.read_latency_ns.mean,
        report.bandwidth_gb_per_s.total / hosts,
    )
}

#[test]
fn without_load_a_pod_has_the_latency_of_the_engine_to_the_picosecond() {
    for topology in [
        "fabric.topology={ kind = \"chain\", switches = 1 }",
        "fabric.topology={ kind = \"spine-leaf\", leaves = 2, spines = 1 }",
    ] {
        let one = "hosts[0].issue={ process_time = \"10 ns\", outstanding = 1 }";
        let reads = "hosts[0].workload.read_ratio=1.0";
        let alone = [
            "hosts[0].count=1",
            "devices[0].count=2",
            SMALL[2],
            topology,
            "fabric.link.flit=256B",
            one,
            reads,
        ];
        let found = engine(&alone).0;
        let expected = fabric(&alone).mean_ns();
        let apart = (found - expected).abs();
        assert!(apart < 1e-3, "{topology}: {found} {expected}");
    }
}

/// Equal loads of all hosts, up to 80 % of what the fabric carries: the error of the form itself.
#[test]
fn at_equal_loads_a_pod_has_the_latency_of_the_engine_within_three_percent() {
    let fabric = fabric(&SMALL);
    let limit = fabric.curves[0].limit_gb_per_s;
    println!("\n| load of each host, GB/s | of the limit | engine, ns | fleet, ns | error |");
    for part in [0.1, 0.3, 0.5, 0.6, 0.7, 0.8] {
        let rate = format!("hosts[0].issue.rate=\"{:.3} GB/s\"", part * limit);
        let (latency, gb_per_s) = engine(&[SMALL[0], SMALL[1], SMALL[2], &rate]);
        let (wait, stretch) = fabric.wait(0, gb_per_s, gb_per_s);
        let found = fabric.mean_ns() + wait;
        let error = found / latency - 1.0;
        println!(
            "| {gb_per_s:.2} | {:.0} % | {latency:.1} | {found:.1} | {:+.1} % |",
            100.0 * part,
            100.0 * error
        );
        assert!(stretch == 1.0 && error.abs() < 0.03, "{part}: {error}");
        let allowed = fabric.errors[fabric.point(0, gb_per_s, gb_per_s)];
        assert!(error.abs() < allowed, "{part}: {error} {allowed}");
    }
}

/// One host with a high load and the others with low loads. This checks the rule that adds the
/// waits of the host's own link and of the shared parts.
#[test]
fn at_unequal_loads_a_pod_has_the_latency_of_the_engine_within_three_percent_up_to_80_percent() {
    let reads = "hosts[0].workload.read_ratio=1.0";
    let fabric = fabric(&[SMALL[0], SMALL[1], SMALL[2], reads]);
    let two = |first: &str, others: &str| {
        let text = shipped("fleet-pond");
        let (head, tail) = text.split_once("[[hosts]]").expect("a scenario has hosts");
        let (_, tail) = tail
            .split_once("[[devices]]")
            .expect("a scenario has devices");
        let host = |name: &str, count: u32, rate: &str| {
            format!(
                "[[hosts]]\nname = \"{name}\"\ncount = {count}\nissue = {{ process_time = \"10 ns\", outstanding = 512, rate = \"{rate}\" }}\n\
                 workload = {{ kind = \"uniform\" }}\n"
            )
        };
        format!(
            "{head}{}{}[[devices]]{tail}",
            host("busy", 1, first),
            host("quiet", 3, others)
        )
    };
    let limits = (
        fabric.curves[0].limit_gb_per_s,
        fabric.alone[0].limit_gb_per_s,
    );
    println!("\n| own, GB/s | others, GB/s | fullest | engine, ns | fleet, ns | error |");
    for (own, others) in [
        (4.0, 1.0),
        (12.0, 1.0),
        (20.0, 4.0),
        (20.0, 8.0),
        (1.0, 12.0),
        (24.0, 8.0),
    ] {
        let text = two(&format!("{own} GB/s"), &format!("{others} GB/s"));
        let set = ["devices[0].count=2", SMALL[2]];
        let found = report(&text, &set);
        let mean = (own + 3.0 * others) / 4.0;
        for (host, load) in [(0, own), (1, others)] {
            let latency = found.hosts[host].latency_ns.mean;
            let (wait, _) = fabric.wait(host, load, mean);
            let error = (fabric.mean_ns() + wait) / latency - 1.0;
            let fullest = (mean / limits.0).max(own.max(others) / limits.1);
            println!(
                "| {load} | {} | {:.0} % | {latency:.1} | {:.1} | {:+.1} % |",
                if host == 0 { others } else { own },
                100.0 * fullest,
                fabric.mean_ns() + wait,
                100.0 * error
            );
            let bound = if fullest <= 0.8 { 0.03 } else { 0.05 };
            assert!(error.abs() < bound, "{own} {others}: {error}");
            let allowed = fabric.errors[fabric.point(host, load, mean)];
            assert!(error.abs() < allowed, "{own} {others}: {error} {allowed}");
        }
    }
}

fn study(set: &[&str], threads: usize) -> FleetReport {
    let plan = plan(&shipped("fleet-pond"), set);
    let fleet = match Fleet::new(&plan, 1) {
        Ok(fleet) => fleet,
        Err(problems) => panic!("{problems:?}"),
    };
    match fleet.run(1, threads, &Watch::default()) {
        Some(report) => report,
        None => panic!("the scenario has a fleet"),
    }
}

/// The results of a small study, to the last digit, in `tests/golden/fleet.csv`. They change only
/// with the model, and the changelog then says why.
#[test]
fn a_small_study_is_as_it_was() {
    let set = [
        "fleet.hosts=128",
        "fleet.cluster=64",
        "fleet.days=1",
        "fleet.sample_minutes=120",
    ];
    let report = study(&set, 2);
    let params = plan(&shipped("fleet-pond"), &set)
        .scenario
        .fleet
        .unwrap_or_default();
    let found = series_csv(&params, &report);
    let path = root().join("tests/golden/fleet.csv");
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == golden,
        "{}: expected\n{golden}\nfound\n{found}",
        path.display()
    );
    let picture = svg(&params, &report);
    assert!(picture.starts_with("<svg") && !picture.contains("NaN"));
}

/// A small version of the shipped study: savings must grow with the size of the pool.
#[test]
fn larger_pools_save_more_and_no_vm_is_lost() {
    let mut before = f64::NEG_INFINITY;
    for hosts in ["hosts[0].count=1", "hosts[0].count=4", "hosts[0].count=16"] {
        let set = [
            hosts,
            "devices[0].count=1",
            "fleet.hosts=512",
            "fleet.days=1",
            "fleet.sizing=\"given\"",
        ];
        let report = study(&set, 2);
        for outcome in [
            &report.alone,
            report.pooled.as_ref().unwrap_or(&report.alone),
        ] {
            let placed = outcome.departed + outcome.running;
            assert_eq!(outcome.arrived, outcome.rejected + placed);
        }
        let saved = report
            .peaks
            .and_then(|dram| dram.saved_percent)
            .unwrap_or(f64::NAN);
        assert!(saved > before + 1.0, "{hosts}: {saved} after {before}");
        before = saved;
    }
}
