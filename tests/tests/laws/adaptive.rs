//! Adaptive routing restores a host's bandwidth beside noisy neighbours: Fig. 13 of the ESF paper
//! (An et al.).

use cxlab_tests::{report, shipped};

/// Bandwidth of the victim, in GB/s.
fn victim(routing: &str, alone: bool) -> f64 {
    let routing = format!("fabric.routing=\"{routing}\"");
    let mut set = vec![
        "measure={ warmup_time = \"30 us\", duration = \"80 us\" }",
        &routing,
    ];
    if alone {
        // The neighbours stay in the system, and each sends one request.
        set.push("hosts[0].requests=1");
    }
    let report = report(&shipped("noisy-neighbours"), &set);
    let host = report.hosts.iter().find(|host| host.name == "victim");
    host.expect("the victim is reported")
        .bandwidth_gb_per_s
        .total
}

#[test]
fn adaptive_routing_restores_the_bandwidth_that_oblivious_routing_loses() {
    let alone = victim("oblivious", true);
    let (oblivious, adaptive) = (victim("oblivious", false), victim("adaptive", false));
    assert!((alone - 4.0).abs() < 0.01, "alone it has its rate: {alone}");
    assert!(adaptive >= 0.95 * alone, "{adaptive} of {alone} GB/s");
    assert!(oblivious <= 0.75 * alone, "{oblivious} of {alone} GB/s");
}
