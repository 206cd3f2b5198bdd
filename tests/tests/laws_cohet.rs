//! Cohet's testbed: its measured latencies, bandwidths and speed-ups (Wang et al., section VI), from
//! one set of parameters.

use cxlab_system::report::{Report, ThreadPhaseReport};
use cxlab_tests::{report, shipped};

const ASIC: &str = "accelerators[0].device.cycle=\"667 ps\"";

fn run(workload: &str, more: &[&str]) -> Report {
    let workload = format!("hosts[0].workload={{ {workload} }}");
    let mut set = vec![workload.as_str()];
    set.extend(more);
    report(&shipped("cohet-fpga"), &set)
}

/// What the accelerator did in its last phase.
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

#[test]
fn many_loads_have_the_published_bandwidth() {
    for (tier, gbps) in [("hmc", 25.07), ("llc", 14.10), ("memory", 13.49)] {
        let unit = format!(
            "kind = \"load-store-unit\", tier = \"{tier}\", lines = 2048, outstanding = 2048, \
             repeats = 5"
        );
        close(tier, phase(&run(&unit, &[])).bandwidth_gbps, gbps, 3.0);
    }
}

#[test]
fn dma_is_as_slow_and_as_fast_as_published() {
    let one = run("kind = \"dma-transfers\", messages = 50", &[]);
    close("64 B", phase(&one).latency_ns.p50, 2500.0, 3.0);
    let many = "kind = \"dma-transfers\", messages = 5000, outstanding = 1000, distinct = 2000";
    close("64 B", phase(&run(many, &[])).bandwidth_gbps, 0.92, 3.0);
    let long = "kind = \"dma-transfers\", bytes = \"256 KiB\", messages = 50, outstanding = 4";
    close("256 KiB", phase(&run(long, &[])).bandwidth_gbps, 22.9, 3.0);
}

/// Over PCIe an atomic operation is a DMA read, a store to the element's buffer and a DMA write. The locks
/// by which elements keep from each other's words are no requests, however often they are tried.
#[test]
fn locks_of_remote_atomics_are_not_requests() {
    for elements in [1, 4] {
        let report = run(
            "kind = \"circus-tent\", pattern = \"central\", interface = \"pcie\", pes = 4, \
             iterations = 100",
            &[&format!("accelerators[0].device.elements={elements}")],
        );
        let accelerator = &report.accelerators[0];
        assert_eq!(
            (accelerator.writes, accelerator.reads),
            (400, 0),
            "{elements}"
        );
        let phase = phase(&report);
        assert_eq!(
            (phase.operations, phase.on_memory),
            (400, 400),
            "{elements}"
        );
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
