//! Cohet's testbed: its measured latencies, bandwidths and speed-ups (Wang et al., section VI)
//! from a single set of parameters.

use cxlab_system::report::{Report, ThreadPhaseReport};
use cxlab_tests::{report, shipped};

const ASIC: &str = "accelerators[0].device.cycle=\"667 ps\"";

fn run(workload: &str, more: &[&str]) -> Report {
    let workload = format!("hosts[0].workload={{ {workload} }}");
    let mut set = vec![workload.as_str()];
    set.extend(more);
    report(&shipped("cohet-fpga"), &set)
}

/// Report of the accelerator's last phase.
fn phase(report: &Report) -> &ThreadPhaseReport {
    let phase = report.accelerators[0].phases.last();
    phase.expect("the accelerator ran a phase")
}

fn close(name: &str, found: f64, published: f64, percent: f64) {
    let off = 100.0 * (found / published - 1.0);
    assert!(
        off.abs() <= percent,
        "{name}: {found:.2}, published {published}, {off:+.1} %"
    );
}

#[test]
fn loads_take_as_long_as_published() {
    for (tier, nanos) in [("hmc", 115.0), ("llc", 575.6), ("memory", 688.3)] {
        let unit = format!("kind = \"load-store-unit\", tier = \"{tier}\", repeats = 20");
        close(tier, phase(&run(&unit, &[])).latency_ns.p50, nanos, 1.0);
    }
    // Nodes 7 to 4, then 0 to 3 (Fig. 12), in the order of the scenario.
    let nodes = [688.0, 693.0, 708.0, 710.0, 758.0, 761.0, 770.0, 776.0];
    for (node, nanos) in nodes.into_iter().enumerate() {
        let unit = format!("kind = \"load-store-unit\", repeats = 20, base = \"{node} GiB\"");
        let found = phase(&run(&unit, &[])).latency_ns.p50;
        close(&format!("place {node}"), found, nanos, 1.0);
    }
}

/// GB/s of loads in steady state: the additional loads of the longer of two
/// measurements, divided by its additional time.
fn steady(tier: &str, lines: [f64; 2], more: &[&str]) -> f64 {
    let [fewer_ns, more_ns] = lines.map(|lines| {
        let unit = format!(
            "kind = \"load-store-unit\", tier = \"{tier}\", lines = {lines}, outstanding = 4096, \
             repeats = 1, settle = 2400000"
        );
        64.0 * lines / phase(&run(&unit, more)).bandwidth_gb_per_s
    });
    64.0 * (lines[1] - lines[0]) / (more_ns - fewer_ns)
}

#[test]
fn many_loads_have_the_published_bandwidth() {
    let (few, many) = ([1024.0, 2048.0], [8192.0, 24_576.0]);
    let found = steady("hmc", few, &[]);
    close("hmc", found, 25.6, 0.1);
    close("hmc", found, 25.07, 3.0);
    let llc = steady("llc", many, &[]);
    close("llc", llc, 14.10, 1.0);
    close("memory", steady("memory", many, &[]), 13.49, 1.5);
    // Memory is slower only because requests run out while a channel refreshes.
    let idle = "hosts[0].nodes[0].memory={ kind = \"dram\", channels = 4, refresh = \"none\" }";
    close(
        "memory without refresh",
        steady("memory", many, &[idle]),
        llc,
        0.1,
    );
    let requests = "accelerators[0].device.cache.misses=512";
    close(
        "memory with more requests",
        steady("memory", many, &[requests]),
        llc,
        0.5,
    );
}

#[test]
fn dma_is_as_slow_and_as_fast_as_published() {
    let one = run("kind = \"dma-transfers\", messages = 50", &[]);
    close("64 B", phase(&one).latency_ns.p50, 2500.0, 3.0);
    let many = "kind = \"dma-transfers\", messages = 5000, outstanding = 1000, distinct = 2000";
    close("64 B", phase(&run(many, &[])).bandwidth_gb_per_s, 0.92, 3.0);
    let long = "kind = \"dma-transfers\", bytes = \"256 KiB\", messages = 50, outstanding = 4";
    close(
        "256 KiB",
        phase(&run(long, &[])).bandwidth_gb_per_s,
        22.9,
        3.0,
    );
}

/// Over PCIe an atomic operation is a DMA read, a store to the processing element's buffer,
/// and a DMA write. Processing elements exclude each other by locks, which are not
/// requests, however often they are tried.
#[test]
fn locks_of_remote_atomics_are_not_requests() {
    for elements in [1, 4] {
        let report = run(
            "kind = \"circus-tent\", pattern = \"central\", interface = \"pcie\", pes = 4, \
             iterations = 100",
            &[&format!("accelerators[0].device.elements={elements}")],
        );
        let accelerator = &report.accelerators[0];
        let lines = (accelerator.writes, accelerator.reads);
        assert_eq!(lines, (400, 0), "{elements}");
        let phase = phase(&report);
        let operations = (phase.operations, phase.on_memory);
        assert_eq!(operations, (400, 400), "{elements}");
        assert_eq!(phase.bytes, 400 * 24, "{elements}");
    }
}

#[test]
fn remote_atomics_gain_as_published() {
    for (pattern, gain) in [("central", 40.2), ("stride1", 22.4), ("rand", 5.5)] {
        let [cxl, pcie] = ["cxl", "pcie"].map(|interface| {
            let tent = format!(
                "kind = \"circus-tent\", pattern = \"{pattern}\", interface = \"{interface}\", \
                 pes = 1, iterations = 2000"
            );
            phase(&run(&tent, &[ASIC])).operations_per_second
        });
        close(pattern, cxl / pcie, gain, 10.0);
    }
}

/// A load that requests ownership saves the upgrade at the store. For a line of `y`, two requests
/// of three remain: a load, an upgrade and an eviction.
#[test]
fn a_load_of_what_will_be_stored_may_ask_for_ownership_at_once() {
    let axpy = |own_y| {
        let workload = format!("kind = \"axpy\", elements = 16384, own_y = {own_y}");
        run(&workload, &[ASIC])
    };
    let count = |report: &Report, name: &str| report.accelerators[0].accelerator[name].as_f64();
    let (shared, own) = (axpy(false), axpy(true));
    let lines = f64::from(16384 / 8);
    assert!(count(&shared, "hmc_upgrades").unwrap() >= lines);
    assert!(count(&own, "hmc_upgrades").unwrap() < 0.01 * lines);
    assert_eq!(count(&shared, "hmc_misses"), count(&own, "hmc_misses"));
    assert!(own.extent.window_ns < shared.extent.window_ns);
}
