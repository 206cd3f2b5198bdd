//! Bandwidth of a topology's bridges: the laws of Figs. 10 and 11 of the ESF paper (An et al.).
//!
//! N requesters read uniformly at random from N devices, and the ports limit
//! bandwidth. The simulator is nearly exact here, so the tolerance is half a percent,
//! not the ten of the published claim.

use cxlab_fabric::routing::AllowedPaths;
use cxlab_system::report::Report;
use cxlab_tests::{assert_close, plan, report, shipped, try_run};

/// Bandwidth of a port in the scenario `esf-fig10`, in GB/s.
const PORT: f64 = 8.0;

/// A run of `esf-fig10` with `n` requesters and devices.
fn run(topology: &str, n: u32, more: &[&str]) -> Report {
    let topology = format!("fabric.topology={{ {topology} }}");
    let hosts = format!("hosts[0].count={n}");
    let devices = format!("devices[0].count={n}");
    // A round of all requests takes N x 256 x 8 ns in a chain. Each window is several rounds.
    let warmup = format!("measure.warmup_requests={}", n * 700);
    let requests = format!("measure.requests={}", n * 700);
    let mut set = vec![topology.as_str(), &hosts, &devices, &warmup, &requests];
    set.extend(more);
    report(&shipped("esf-fig10"), &set)
}

/// Windows of many rounds, for systems that settle slowly.
const LONG: [&str; 2] = ["measure.warmup_requests=50_000", "measure.requests=60_000"];

/// Aggregate bandwidth over the bandwidth of a port.
fn ports(report: &Report) -> f64 {
    report.bandwidth_gb_per_s.total / PORT
}

/// Checks a law at system scales 4, 8, 16, 32 and 64.
#[track_caller]
fn assert_law(kind: &str, law: fn(f64) -> f64) {
    for n in [2, 4, 8, 16, 32] {
        let found = ports(&run(&format!("kind = \"{kind}\""), n, &[]));
        let what = format!("{kind} at scale {}", 2 * n);
        assert_close(found, law(f64::from(n)), 0.005, what);
    }
}

#[test]
fn a_chain_carries_one_port_at_every_scale() {
    assert_law("chain", |_| 1.0);
}

#[test]
fn a_tree_carries_one_port_at_every_scale() {
    assert_law("tree", |_| 1.0);
}

#[test]
fn a_ring_carries_two_ports_at_every_scale() {
    assert_law("ring", |_| 2.0);
}

#[test]
fn a_spine_leaf_carries_half_a_port_for_each_requester() {
    assert_law("spine-leaf", |n| n / 2.0);
}

#[test]
fn a_full_connection_carries_a_port_for_each_requester() {
    assert_law("fully-connected", |n| n);
}

/// With requester i and device i on one switch, a quarter of uniform traffic crosses the
/// middle of a chain (or the root of a tree) in each direction: half of the requesters
/// times half of the devices. A full-duplex bridge has a port in each direction, so it
/// bounds the aggregate at four ports, and for reads only lines count. The law of Fig. 10
/// (one port) therefore needs the split placement.
#[test]
fn a_paired_chain_or_tree_is_bound_by_four_ports() {
    for kind in ["chain", "tree"] {
        let topology = format!("kind = \"{kind}\", placement = \"paired\"");
        let found = ports(&run(&topology, 8, &LONG));
        assert!(found <= 4.02, "{kind}: {found} is above the bound");
        assert_close(found, 4.0, 0.03, kind);
    }
}

/// In half duplex, both directions share the bridge. Half of all traffic crosses it, so the bound
/// is two ports, less a turnaround of 1 ns after each burst of 16 lines of 8 ns.
#[test]
fn a_paired_half_duplex_chain_is_bound_by_two_ports() {
    let topology = "kind = \"chain\", placement = \"paired\"";
    let half = ["fabric.link.duplex=\"half\"", LONG[0], LONG[1]];
    let found = ports(&run(topology, 8, &half));
    let bound = 2.0 * 128.0 / 130.0;
    assert!(found <= bound * 1.005, "{found} is above the bound {bound}");
    assert_close(found, bound, 0.01, "half duplex");
}

#[test]
fn requests_that_cross_more_of_a_chain_queue_longer() {
    let report = run("kind = \"chain\"", 8, &[]);
    let hops: Vec<usize> = report.by_hops.iter().map(|row| row.hops).collect();
    assert_eq!(hops, [3, 4, 5, 6, 7, 8, 9]);
    for pair in report.by_hops.windows(2) {
        assert!(pair[1].queue_ns > 1.05 * pair[0].queue_ns, "{pair:#?}");
    }
    // Congestion dominates.
    let last = &report.by_hops[6];
    assert!(last.queue_ns > 0.9 * last.mean_ns, "{last:?}");
}

/// A second bridge halves the time in the system. For the mean this is exact (Little's law, because
/// N x outstanding requests are always in flight). For the most hops it holds if arbitration is
/// fair to old requests. With round-robin a switch serves inputs and not requesters, so a chain's
/// farthest requests take longer, and the ratio is below a half there.
#[test]
fn a_ring_halves_the_latency_of_chain_and_tree() {
    for arbitration in ["round-robin", "age"] {
        let set = format!("fabric.switch.arbitration=\"{arbitration}\"");
        let [chain, tree, ring] = ["chain", "tree", "ring"]
            .map(|kind| run(&format!("kind = \"{kind}\""), 8, &[&set, LONG[0], LONG[1]]));
        let most_hops = |report: &Report| report.by_hops.last().map_or(0.0, |row| row.mean_ns);
        for other in [&chain, &tree] {
            let half = other.latency_ns.mean / 2.0;
            assert_close(ring.latency_ns.mean, half, 0.01, arbitration);
            if arbitration == "age" {
                assert_close(most_hops(&ring), most_hops(other) / 2.0, 0.1, "most hops");
            } else {
                assert!(most_hops(&ring) < most_hops(other));
            }
        }
    }
}

/// Without further virtual channels every request still arrives, over
/// more links and with less bandwidth.
#[test]
fn one_virtual_channel_is_enough_and_costs_bandwidth() {
    let names = ["ring-16", "torus-16", "mesh-9", "dragonfly-12"];
    let routings = ["shortest", "adaptive"].map(|kind| format!("fabric.routing=\"{kind}\""));
    for (name, routing) in names
        .iter()
        .flat_map(|name| routings.iter().map(move |kind| (*name, kind)))
    {
        let full = [LONG[0], LONG[1], "hosts[0].issue.outstanding=256", routing];
        let one = [&full[..], &["fabric.virtual_channels=1"]].concat();
        let text = shipped(name);
        let (free, bound) = (plan(&text, &full), plan(&text, &one));
        assert_eq!(bound.virtual_channels(), 1, "{name}");
        let needs_more = free.virtual_channels() > 1;
        let paths = bound.tables.paths();
        assert_eq!(paths != AllowedPaths::Shortest, needs_more, "{name}");
        let [free, bound] = [free, bound].map(|plan| try_run(&plan, 1).expect("the run ends"));
        let links = |report: &Report| {
            let rows = report.by_hops.iter();
            let sum = rows.map(|row| row.hops as u64 * row.count).sum::<u64>();
            sum as f64 / report.by_hops.iter().map(|row| row.count).sum::<u64>() as f64
        };
        let [all, left] = [&free, &bound].map(|report| report.bandwidth_gb_per_s.total);
        println!(
            "| `{name}`, {routing} | {} | {:.2} | {:.2} | {all:.1} | {left:.1} |",
            paths.name(),
            links(&free),
            links(&bound),
        );
        // If paths stay as short, the mean still differs, because
        // other requests ended in the window.
        assert!(links(&bound) >= 0.998 * links(&free), "{name}");
        assert!(left <= all * 1.01, "{name}: {left} of {all} GB/s");
    }
}
