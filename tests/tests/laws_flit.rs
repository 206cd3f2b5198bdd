//! Link efficiency follows from flit packing: a saturated link carries what the closed forms of
//! `cxlab_protocol::flit` (derived in `docs/flit-packing.md`) say, within one percent.

use cxlab_protocol::flit::{self, FlitFormat};
use cxlab_system::report::{LinkReport, Report};
use cxlab_tests::{report, shipped};

/// A direct link that nothing but itself limits: a narrow link, many requests, fast memory.
fn saturated(generation: u8, format: &str, read_ratio: f64) -> Report {
    report(
        &shipped("direct"),
        &[
            "measure={ requests = 30_000 }",
            &format!(
                "fabric.link={{ generation = \"{generation}\", lanes = 4, flit = \"{format}\" }}"
            ),
            "hosts[0].issue.outstanding=2048",
            "hosts[0].workload.mix=\"regular\"",
            &format!("hosts[0].workload.read_ratio={read_ratio}"),
            "devices[0].controller.contexts=4096",
            "devices[0].memory={ kind = \"fixed\", latency = \"10 ns\", queue = 4096 }",
        ],
    )
}

fn direction<'a>(report: &'a Report, name: &str) -> &'a LinkReport {
    let found = report.links.iter().find(|link| link.direction == name);
    found.expect("the direction is reported")
}

fn assert_packing(generation: u8, format: FlitFormat, name: &str) {
    for (mix, read_ratio) in [
        ("reads", 1.0),
        ("writes", 0.0),
        ("2:1", 2.0 / 3.0),
        ("1:1", 0.5),
    ] {
        let law = flit::efficiency(format, read_ratio);
        let report = saturated(generation, name, read_ratio);
        let (full, packed) = if law.m2s_limits() {
            (direction(&report, "host->mem"), law.m2s.packed)
        } else {
            (direction(&report, "mem->host"), law.s2m.packed)
        };
        assert!(full.utilization > 0.995, "{name} {mix}: {full:?}");
        let error = full.efficiency / packed - 1.0;
        assert!(
            error.abs() <= 0.01,
            "{name} {mix}: simulated {:.4}, closed form {packed:.4}, off by {:.2} %",
            full.efficiency,
            error * 100.0
        );
        // Bandwidth is that of the full direction: its lines over its share of them.
        let share = if law.m2s_limits() {
            1.0 - read_ratio
        } else {
            read_ratio
        };
        let expected = full.rate_gbps * packed / share;
        let error = report.bandwidth_gbps.total / expected - 1.0;
        assert!(
            error.abs() <= 0.015,
            "{name} {mix}: {:.3} GB/s, {expected:.3}",
            report.bandwidth_gbps.total
        );
    }
}

#[test]
fn a_68_byte_link_is_as_efficient_as_its_slots_allow() {
    assert_packing(5, FlitFormat::B68, "68B");
}

#[test]
fn a_256_byte_link_is_as_efficient_as_its_slots_allow() {
    assert_packing(6, FlitFormat::B256, "256B");
}

#[test]
fn a_latency_optimised_link_is_as_efficient_as_its_slots_allow() {
    assert_packing(
        6,
        FlitFormat::B256LatencyOptimized,
        "256B-latency-optimized",
    );
}
