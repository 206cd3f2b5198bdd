//! Hundreds of failures and repairs in one run. No request remains, nothing is
//! stuck, the repaired fabric is as fast as one that never failed, and no result
//! depends on threads, ranks or checkpoints.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Picos;
use cxlab_host::{Failure, RequestRow};
use cxlab_plan::{FailureChange, Plan};
use cxlab_system::report::Report;
use cxlab_tests::checkpoint::{self, timeless};
use cxlab_tests::swarm::{Draw, check_drained, credits, topology};
use cxlab_tests::{assert_threads, link, plan, rows, run_down, try_run};
use proptest::prelude::*;

const US: u64 = 1_000_000;

/// Time at which the fabric is whole again, its last tables are in force, and all requests
/// that lost a message have ended.
fn settled(plan: &Plan) -> u64 {
    let failures = plan.failures().unwrap();
    let last = failures.times.last().unwrap().0 + failures.params.reconfiguration_time.0;
    let routed = failures.routing.last().map_or(0, |change| change.at.0);
    last.max(routed) + failures.params.completion_timeout.0
}

/// Checks that each request ends by data or by its timeout, and that
/// none fails after the last repair.
fn check_rows(plan: &Plan, rows: &[RequestRow]) {
    let failures = plan.failures().unwrap();
    let timeout = failures.params.completion_timeout.0;
    let settled = settled(plan);
    for row in rows {
        let lasted = row.completed_ps - row.issued_ps;
        match row.failure {
            Some(Failure::TimedOut) => assert_eq!(lasted, timeout, "{row:?}"),
            _ => assert!(lasted <= timeout, "{row:?}"),
        }
        let is_late = row.failure.is_some() && row.issued_ps >= settled;
        assert!(!is_late, "after all was repaired: {row:?}");
    }
}

/// A saturated spine-leaf fabric whose links and switches fail about a thousand times in 2 ms.
const STORM: &str = r#"
name = "storm"
[measure]
duration = "2600 us"
[fabric]
topology = { kind = "spine-leaf", leaves = 4, spines = 2 }
link = { bandwidth = "4 GB/s", credits = { m2s_req = 8, m2s_rwd = 8, s2m_ndr = 8, s2m_drs = 8 } }
[[hosts]]
name = "h"
count = 4
workload = { kind = "uniform", read_ratio = 0.5 }
issue = { outstanding = 16 }
[[devices]]
name = "d"
count = 4
capacity = "4 GiB"
"#;

const FAILING: &str = r#"
[failures]
completion_timeout = "20 us"
reconfiguration_time = "1 us"
isolation_time = "1 us"
[failures.random]
until = "2 ms"
links = { mtbf = "60 us", mttr = "6 us" }
edge_links = { mtbf = "60 us", mttr = "6 us" }
switches = { mtbf = "200 us", mttr = "10 us" }
"#;

/// Number of requests served between two times.
fn served(rows: &[RequestRow], from: u64, to: u64) -> u64 {
    let ends = |row: &&RequestRow| (from..to).contains(&row.completed_ps);
    let all = rows.iter().filter(|row| row.failure.is_none());
    all.filter(ends).count() as u64
}

#[test]
fn a_thousand_changes_in_one_run_leave_a_fabric_as_fast_as_before() {
    let plan = plan(&format!("{STORM}{FAILING}"), &[]);
    let failures = plan.failures().unwrap();
    assert!(failures.times.len() >= 1000, "{}", failures.times.len());
    assert!(failures.routing.len() >= 200, "{}", failures.routing.len());
    // No change waits longer than the channels of the earlier tables take to drain.
    for change in &failures.routing {
        assert!(change.at.0 - change.due.0 <= 20 * US, "{change:?}");
    }
    let (report, found) = rows(&plan, 1);
    check_rows(&plan, &found);
    let all = report.failures.unwrap();
    assert_eq!(all.changes, failures.times.len() as u64);
    assert_eq!(all.routing_changes, failures.routing.len() as u64);
    assert!(all.lost_messages > 1000, "{all:?}");
    let requests = &report.requests;
    assert_eq!(requests.in_flight_at_end, 64, "as many as without failures");
    assert_eq!(requests.issued, requests.completed + 64);
    assert_threads(&plan, &report.provenance.digest, 2..4);
    // As fast as the system without failures in the same window. Both draw the
    // same addresses, but at other times.
    let whole = cxlab_tests::plan(STORM, &[]);
    let (_, undisturbed) = rows(&whole, 1);
    let (from, to) = (settled(&plan), 2600 * US);
    assert!(to - from > 500 * US, "{}", to - from);
    let [after, before] = [&found, &undisturbed].map(|rows| served(rows, from, to));
    assert!(before > 20_000, "{before}");
    let ratio = after as f64 / before as f64;
    assert!((ratio - 1.0).abs() < 0.01, "{after} {before}");
    // The report has the latency of served requests beside that of all requests.
    let (of_all, of_served) = (report.all_latency_ns.unwrap(), &report.latency_ns);
    assert!(of_all.mean > of_served.mean && of_all.max >= 20_000.0);
    let timed_out = report.unserved_latency_ns.timed_out.unwrap();
    assert_eq!(timed_out.min, 20_000.0);
}

#[test]
fn each_uplink_of_a_spine_leaf_may_fail_in_turn() {
    let mut text = STORM.replace("2600 us", "300 us");
    let uplinks = (0..4).flat_map(|leaf| (0..2).map(move |spine| (leaf, spine)));
    for (number, (leaf, spine)) in uplinks.enumerate() {
        let (leaf, spine) = (format!("leaf{leaf}"), format!("spine{spine}"));
        let at = (10 + 20 * number as u64) * US;
        text += &link(at, "link-down", &leaf, &spine);
        text += &link(at + 10 * US, "link-up", &leaf, &spine);
    }
    text += "[failures]\nreconfiguration_time = \"1 us\"\n";
    let plan = plan(&text, &[]);
    let failures = plan.failures().unwrap();
    // Each failure changes the routing twice: away, and back again.
    assert_eq!(failures.routing.len(), 16);
    assert_eq!(failures.fabrics, 9);
    check_rows(&plan, &rows(&plan, 1).1);
}

#[test]
fn a_change_that_finds_no_channels_waits_and_comes_with_the_next() {
    // A ring takes two channels, and a broken ring one. With three channels,
    // the second change finds none free.
    let ring = STORM.replace(
        "topology = { kind = \"spine-leaf\", leaves = 4, spines = 2 }",
        "virtual_channels = 3\ntopology = { kind = \"ring\", switches = 5 }",
    );
    let times = "[failures]\ncompletion_timeout = \"30 us\"\nreconfiguration_time = \"1 us\"\n";
    let events = link(10 * US, "link-down", "sw0", "sw1")
        + &link(20 * US, "link-down", "sw1", "sw2")
        + &link(30 * US, "link-up", "sw0", "sw1");
    let text = format!("{ring}{times}{events}").replace("2600 us", "200 us");
    let plan = plan(&text, &[]);
    let failures = plan.failures().unwrap();
    let found: Vec<_> = (failures.routing.iter())
        .map(|change| (change.due, change.at, change.overlaps))
        .collect();
    // Replaced at 11 us, the channels of the first tables have drained at 41 us.
    let us = |time: u64| Picos(time * US);
    assert_eq!(found, [(us(11), us(11), false), (us(21), us(41), false)]);
    for note in [
        "1 of 2 changes of the routing wait until virtual channels",
        "20 us at the longest",
    ] {
        let is_told = plan.notes.iter().any(|one| one.message.contains(note));
        assert!(is_told, "{note}: {:?}", plan.notes);
    }
    let report = try_run(&plan, 1).unwrap();
    let all = report.failures.unwrap();
    assert_eq!((all.routing_changes, all.delayed_routing_changes), (2, 1));
    assert_eq!(all.longest_routing_delay_ns, 20_000.0);
}

#[test]
fn with_one_virtual_channel_a_change_discards_what_is_in_flight() {
    let one = STORM.replace("[fabric]", "[fabric]\nvirtual_channels = 1");
    let events = link(50 * US, "link-down", "leaf0", "spine0")
        + &link(100 * US, "link-up", "leaf0", "spine0");
    let times = "[failures]\ncompletion_timeout = \"30 us\"\nreconfiguration_time = \"1 us\"\n";
    let text = format!("{one}{times}{events}").replace("2600 us", "300 us");
    let plan = plan(&text, &[]);
    let failures = plan.failures().unwrap();
    assert_eq!(failures.virtual_channels, 1);
    let mut changes = failures.routing.iter();
    assert!(changes.all(|change| change.overlaps && change.at == change.due));
    let (report, found) = rows(&plan, 1);
    check_rows(&plan, &found);
    let all = report.failures.unwrap();
    assert!(all.discarded_messages >= 16, "{all:?}");
    assert!(all.discarded_messages <= all.lost_messages, "{all:?}");
    // Both changes discard messages, and no others are lost when the link comes back.
    let second = |row: &&RequestRow| row.failure.is_some() && row.issued_ps > 60 * US;
    assert!(found.iter().filter(second).count() >= 8);
}

#[test]
fn a_drain_time_as_long_as_the_timeout_loses_nothing_that_was_waited_for() {
    // A device with one request each 3 us stalls messages of old
    // tables, which later tables discard.
    let slow = STORM.replace(
        "capacity = \"4 GiB\"",
        "capacity = \"4 GiB\"\nmemory = { kind = \"fixed\", latency = \"3 us\", queue = 1 }\n\
         controller = { contexts = 1 }",
    );
    let slow = slow
        .replace("2600 us", "400 us")
        .replace("outstanding = 16", "outstanding = 8");
    let slow = slow.replace("[fabric]", "[fabric]\nvirtual_channels = 2");
    let slow = slow.replace("m2s_req = 8, m2s_rwd = 8", "m2s_req = 2, m2s_rwd = 2");
    let all = [(20, "link-down"), (110, "link-up")];
    let mut events = Vec::new();
    for leaf in 0..3 {
        for (at, kind) in all {
            let at = (at + 30 * leaf) * US;
            events.push((at, link(at, kind, &format!("leaf{leaf}"), "spine0")));
        }
    }
    events.sort();
    let events: String = events.into_iter().map(|(_, text)| text).collect();
    let run = |drain: &str| {
        let times = format!(
            "[failures]\ncompletion_timeout = \"100 us\"\nreconfiguration_time = \"1 us\"\n{drain}"
        );
        let plan = plan(&format!("{slow}{times}{events}"), &[]);
        let (report, found) = rows(&plan, 1);
        check_rows(&plan, &found);
        report.failures.unwrap()
    };
    // Requests take up to 96 us, so after the default of 100 us there is nothing to discard.
    let (long, short) = (run(""), run("drain_time = \"1 us\""));
    assert_eq!(long.delayed_routing_changes, 2, "{long:?}");
    assert_eq!(long.discarded_messages, 0, "{long:?}");
    assert_eq!(short.delayed_routing_changes, 0, "{short:?}");
    assert!(short.discarded_messages > 0, "{short:?}");
}

/// A fabric with many random failures, all of which are repaired in the end.
fn random(seed: u64) -> String {
    let mut draw = Draw::new(seed, "failure storms");
    let (hosts, devices) = (draw.between(1, 4), draw.between(1, 4));
    draw.line("name = \"random\"\n[fabric]");
    let with_parameters = [
        "chain\", switches = 3",
        "ring\", switches = 3",
        "ring\", switches = 6",
        "mesh\", dimensions = [3, 2]",
        "torus\", dimensions = [3, 3]",
        "tree\", leaves = 3",
        "spine-leaf\", leaves = 4, spines = 2",
        "fully-connected\", switches = 4",
        "dragonfly\", groups = 3, routers_per_group = 2",
    ];
    topology(&mut draw, &with_parameters);
    let channels = draw.pick(&["1", "2", "3", "4", "8"]);
    draw.line(format!("virtual_channels = {channels}"));
    let credits = credits(&mut draw, &["1", "2", "4", "128"]);
    let transmission = draw.pick(&["flit", "packet"]);
    draw.line(format!(
        "[fabric.link]\ntransmission = \"{transmission}\"\ncredits = {credits}"
    ));
    for host in 0..hosts {
        let outstanding = draw.pick(&["2", "8", "32"]);
        draw.line(format!(
            "[[hosts]]\nname = \"h{host}\"\nrequests = 1200\nworkload = {{ kind = \"uniform\", read_ratio = 0.5 }}\n\
             issue = {{ outstanding = {outstanding}, issue_interval = \"100 ns\" }}"
        ));
    }
    for device in 0..devices {
        let memory = draw.pick(&[
            "{ kind = \"fixed\" }",
            "{ kind = \"fixed\", bandwidth = \"500 MB/s\" }",
            "{ kind = \"fixed\", latency = \"400 ns\", queue = 2 }",
            "{ kind = \"dram\" }",
        ]);
        draw.line(format!(
            "[[devices]]\nname = \"d{device}\"\ncapacity = \"4 GiB\"\nmemory = {memory}"
        ));
    }
    let timeout = draw.pick(&["3 us", "10 us", "30 us"]);
    let reconfiguration = draw.pick(&["1 ns", "200 ns", "2 us"]);
    let drain = draw.pick(&["", "drain_time = \"1 us\"\n", "drain_time = \"5 us\"\n"]);
    draw.line(format!(
        "[failures]\ncompletion_timeout = \"{timeout}\"\nreconfiguration_time = \"{reconfiguration}\"\n{drain}\
         [failures.random]\nuntil = \"80 us\""
    ));
    let mean = draw.pick(&["5 us", "20 us", "60 us"]);
    let classes = 1 + draw.below(7);
    for (bit, class) in ["links", "edge_links", "switches"].iter().enumerate() {
        if classes >> bit & 1 == 1 {
            let repair = draw.pick(&["1 us", "4 us", "15 us"]);
            draw.line(format!(
                "{class} = {{ mtbf = \"{mean}\", mttr = \"{repair}\" }}"
            ));
        }
    }
    draw.text
}

/// Counts of a storm: changes, routing changes that waited or discarded, and messages discarded.
#[derive(Default, Debug)]
struct Seen {
    changes: usize,
    waited: usize,
    overlapped: usize,
    discarded: u64,
}

/// Checks that every request ends as it may, all credits come back, and threads change nothing.
fn check(seed: u64) -> Seen {
    let plan = plan(&random(seed), &[]);
    let Some(failures) = plan.failures().filter(|all| !all.times.is_empty()) else {
        return Seen::default();
    };
    let (report, found) = rows(&plan, 1);
    let all = report.failures.unwrap();
    let expected = 1200 * plan.hosts.len();
    assert_eq!(found.len(), expected, "every request ends");
    assert_eq!(report.requests.in_flight_at_end, 0);
    assert_eq!(all.lost_messages + all.late_answers, all.timed_out);
    let timeout = failures.params.completion_timeout.0;
    let settled = settled(&plan);
    for row in &found {
        let lasted = row.completed_ps - row.issued_ps;
        assert!(lasted <= timeout, "{row:?}");
        // A slow request may time out at any time, but a repaired fabric cuts nothing off.
        let cut_off = row.failure == Some(Failure::CutOff);
        assert!(!cut_off || row.issued_ps < settled, "{row:?}");
    }
    assert_threads(&plan, &report.provenance.digest, [2 + seed as usize % 2]);
    check_drained(&plan, &mut run_down(&plan).0);
    let waited = |change: &&cxlab_plan::RoutingChange| change.at > change.due;
    Seen {
        changes: failures.times.len(),
        waited: failures.routing.iter().filter(waited).count(),
        overlapped: failures.routing.iter().filter(|one| one.overlaps).count(),
        discarded: all.discarded_messages,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]
    #[test]
    fn storms_leave_no_request_and_no_credit_behind(seed in 0u64..1_000_000) {
        check(seed);
    }
}

#[test]
fn storms_wait_overlap_and_discard() {
    let mut sum = Seen::default();
    for seed in 0..20 {
        let seen = check(seed);
        sum.changes += seen.changes;
        sum.waited += seen.waited;
        sum.overlapped += seen.overlapped;
        sum.discarded += seen.discarded;
    }
    assert!(sum.changes > 1000 && sum.waited > 50, "{sum:?}");
    assert!(sum.overlapped > 50 && sum.discarded > 50, "{sum:?}");
}

#[test]
#[ignore = "slow: make test-all"]
fn many_storms_leave_no_request_and_no_credit_behind() {
    for seed in 1_000_000..1_001_000 {
        check(seed);
    }
}

fn alone(plan: &Plan) -> Report {
    timeless(try_run(plan, 1).unwrap())
}

#[test]
fn a_storm_that_was_saved_goes_on_as_if_it_had_not_been() {
    let text = format!("{STORM}{FAILING}").replace("2600 us", "300 us");
    let plan = plan(&text.replace("2 ms", "250 us"), &[]);
    let expected = alone(&plan);
    assert!(expected.failures.unwrap().delayed_routing_changes > 0);
    for seed in 0..4 {
        checkpoint::check(&plan, &expected, seed);
    }
    for seed in 0..6 {
        let plan = cxlab_tests::plan(&random(seed), &[]);
        checkpoint::check(&plan, &alone(&plan), seed);
    }
}

#[test]
fn timelines_follow_from_seed_and_names_alone() {
    let times = |text: &str, set: &[&str]| plan(text, set).failures().unwrap().times.clone();
    let text = format!("{STORM}{FAILING}");
    let first = times(&text, &[]);
    assert_eq!(first, times(&text, &["hosts[0].issue.outstanding=1"]));
    assert_ne!(first, times(&text, &["seed=7"]));
    assert_eq!(
        times(&text, &["seed=7", "failures.random.seed=3"]),
        times(&text, &["failures.random.seed=3"])
    );
    // Mean number of failures with exponential times: 16 links and 6 switches for 2 ms.
    let expected = 2.0 * (16.0 * 2000.0 / 66.0 + 6.0 * 2000.0 / 210.0);
    let found = first.len() as f64;
    assert!(
        (found - expected).abs() < 4.0 * expected.sqrt(),
        "{found} {expected}"
    );
    assert!(first.is_sorted());
}

#[test]
fn a_switch_that_is_repaired_carries_messages_again() {
    let mut text = STORM.replace("2600 us", "300 us");
    for (at, kind) in [
        (20, "switch-down"),
        (60, "switch-up"),
        (100, "switch-down"),
        (140, "switch-up"),
    ] {
        text += &format!("\n[[events]]\nat = \"{at} us\"\nkind = \"{kind}\"\nswitch = \"leaf1\"\n");
    }
    text += "[failures]\ncompletion_timeout = \"20 us\"\nreconfiguration_time = \"1 us\"\n";
    let plan = plan(&text, &[]);
    let (_, found) = rows(&plan, 1);
    check_rows(&plan, &found);
    let of = |from: u64, to: u64| {
        let own = found.iter().filter(|row| row.requester == 2);
        own.filter(move |row| (from * US..to * US).contains(&row.issued_ps))
    };
    assert!(of(22, 60).all(|row| row.failure == Some(Failure::CutOff)));
    assert!(of(62, 79).count() > 100 && of(62, 79).all(|row| row.failure.is_none()));
    assert!(of(102, 140).all(|row| row.failure == Some(Failure::CutOff)));
    assert!(of(142, 290).count() > 1000 && of(142, 290).all(|row| row.failure.is_none()));
    let changes = &plan.failures().unwrap().timelines;
    let of_switch = |change: &FailureChange| {
        changes
            .iter()
            .flatten()
            .filter(|(_, one)| one == change)
            .count()
    };
    let changes = [FailureChange::Dead, FailureChange::Alive];
    assert_eq!(changes.each_ref().map(of_switch), [2, 2]);
}
