//! Peers access each other's memory through PBR switches. Data and snoops pass only the
//! switches between them, and no host.
#![allow(clippy::unwrap_used)]

use cxlab_system::report::Report;
use cxlab_tests::{plan, shipped, try_run};

/// The host reads one line, and the peers run their workloads.
const ALONE: &[&str] = &[
    "measure={ warmup_requests = 0 }",
    "hosts[0].requests=1",
    "hosts[1].requests=10000",
];

fn run(set: &[&str]) -> Report {
    let set: Vec<&str> = ALONE.iter().chain(set).copied().collect();
    try_run(&plan(&shipped("peer-to-peer"), &set), 1).unwrap()
}

/// Lines that crossed a link, in both directions.
fn lines(report: &Report, link: &str) -> u64 {
    let directions = report.links.iter().filter(|one| one.name == link);
    let bytes: Vec<u64> = directions.map(|one| one.payload_bytes).collect();
    assert_eq!(bytes.len(), 2, "{link} has two directions");
    bytes.iter().sum::<u64>() / 64
}

/// Flits that crossed a link in both directions: requests, responses, snoops, credits.
fn flits(report: &Report, link: &str) -> u64 {
    let directions = report.links.iter().filter(|one| one.name == link);
    directions.map(|one| one.flits).sum()
}

#[test]
fn a_peer_reaches_the_other_peers_memory_over_the_switches_between_them() {
    let plan = plan(&shipped("peer-to-peer"), &[]);
    let (host, peers) = (0, [1, 2]);
    let devices = [3, 4];
    for (at, peer) in peers.into_iter().enumerate() {
        // Its own device, the other's, and the host's way to it.
        assert_eq!(plan.tables.hops(peer, devices[at]), Some(2));
        assert_eq!(plan.tables.hops(peer, devices[1 - at]), Some(3));
        assert_eq!(plan.tables.hops(host, devices[at]), Some(3));
    }
}

#[test]
fn no_data_of_the_peers_passes_the_host() {
    let classes = [
        "devices[0].coherence={ class = \"hdm-db\", filter = { lines = 8192 } }",
        "devices[0].coherence={ class = \"hdm-h\" }",
    ];
    for class in classes {
        let report = run(&[class]);
        assert_eq!(report.requests.completed, 20_001, "{class}");
        let devices = report.devices.iter();
        let moved: u64 = devices.map(|one| one.reads + one.writes).sum();
        let between = lines(&report, "left--right");
        assert!(between > moved / 3, "{class}: {between} of {moved}");
        assert_eq!(lines(&report, "host--root"), 1, "{class}: the host's own");
        let above = lines(&report, "root--left") + lines(&report, "root--right");
        assert_eq!(above, 1, "{class}: the host's own, on its way");
    }
}

#[test]
fn peers_take_lines_from_each_other_without_the_host() {
    let report = run(&[]);
    let taken = |host: usize| report.hosts[host].coherence.as_ref().unwrap().invalidated;
    let [host, one, other] = [0, 1, 2].map(taken);
    assert!(one > 100 && other > 100, "{one} {other}");
    assert!(host <= 1, "the host has had one line");
    let devices = report.devices.iter();
    let snoops: u64 = devices
        .map(|one| one.coherence.as_ref().unwrap().snoops)
        .sum();
    assert!(snoops > 1_000, "{snoops}");
    let (between, host) = (flits(&report, "left--right"), flits(&report, "host--root"));
    assert!(host < 20 && between > 1_000, "{host} {between}");
}

#[test]
fn without_a_link_of_their_own_the_peers_meet_in_the_switch_above_and_not_in_the_host() {
    let links = "fabric.topology.links=[[\"host\", \"root\"], [\"root\", \"left\"], \
                 [\"root\", \"right\"], [\"npu0\", \"left\"], [\"mem0\", \"left\"], \
                 [\"npu1\", \"right\"], [\"mem1\", \"right\"]]";
    let report = run(&[links]);
    assert!(lines(&report, "root--left") > 1_000);
    assert_eq!(lines(&report, "host--root"), 1);
}
