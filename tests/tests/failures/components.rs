//! Failures of links, switches and devices while hosts use them: which requests fail and how, that
//! the fabric routes around a failure, that nothing is stuck, and that the surviving data is right.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use cxlab_host::{Failure, RequestRow};
use cxlab_plan::{End, FailureChange, Plan};
use cxlab_scenario::EventParams;
use cxlab_tests::oracle::{Holdings, check_presence, check_spans, check_values, device_of, values};
use cxlab_tests::swarm::{Draw, check_drained, credits, each_seed, topology};
use cxlab_tests::{assert_threads, gone, link, plan, rows, run_down};
use proptest::prelude::*;

const US: u64 = 1_000_000;

/// Hosts are on `sw0` and `sw1`, devices on `sw2` and `sw3`.
const RING: &str = r#"
name = "ring"
[fabric]
topology = { kind = "ring", switches = 4 }
[[hosts]]
name = "h"
count = 2
workload = { kind = "uniform", read_ratio = 0.5 }
issue = { process_time = "10 ns", outstanding = 16 }
requests = 4000
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
[failures]
completion_timeout = "40 us"
reconfiguration_time = "5 us"
"#;

fn port(at: u64, action: &str, switch: &str, behind: &str) -> String {
    format!(
        "\n[[events]]\nat = \"{at} ps\"\nkind = \"port-control\"\naction = \"{action}\"\n\
         link = [\"{switch}\", \"{behind}\"]\n"
    )
}

/// Rows of a host's requests for a device.
fn between(rows: &[RequestRow], host: u16, device: u16) -> Vec<&RequestRow> {
    let of = rows.iter();
    of.filter(|row| (row.requester, row.device) == (host, device))
        .collect()
}

#[test]
fn a_fabric_routes_around_a_link_that_fails() {
    let text = format!("{RING}{}", link(10 * US, "link-down", "sw3", "sw0"));
    let (report, rows) = rows(&plan(&text, &[]), 1);
    assert_eq!(rows.len(), 8000, "every request ends");
    let failed = |row: &&RequestRow| row.failure.is_some();
    let failures: Vec<&RequestRow> = rows.iter().filter(failed).collect();
    assert!(failures.len() >= 16, "{}", failures.len());
    for row in &failures {
        assert_eq!(row.failure, Some(Failure::TimedOut), "nobody is cut off");
        assert_eq!(row.completed_ps - row.issued_ps, 40 * US, "exactly");
        assert!(row.issued_ps < 15 * US, "{row:?}");
        assert!(row.issued_ps + 2 * US > 10 * US, "{row:?}");
    }
    // From the first host to the second device: one link between switches
    // before the failure, three after it.
    let own = between(&rows, 0, 1);
    let served = |row: &&&RequestRow| row.failure.is_none();
    let before = own.iter().filter(|row| row.completed_ps < 10 * US);
    let after = own.iter().filter(|row| row.issued_ps > 15 * US);
    assert!(before.clone().count() > 50 && after.clone().count() > 50);
    assert!(before.filter(served).all(|row| row.hops == 3));
    assert!(after.filter(served).all(|row| row.hops == 5));
    // No other path used the link, apart from ties.
    assert!(between(&rows, 1, 0).iter().all(|row| row.failure.is_none()));
    let all = report.failures.unwrap();
    assert_eq!(all.timed_out, failures.len() as u64);
    assert_eq!(all.lost_messages + all.late_answers, all.timed_out);
    let failed = report.requests.failed.unwrap();
    assert_eq!(failed.total(), failures.len() as u64);
    assert_threads(&plan(&text, &[]), &report.provenance.digest, 2..4);
}

#[test]
fn a_device_that_is_removed_is_cut_off_and_the_other_serves_on() {
    let text = format!("{RING}{}", gone(10 * US, "device-removed", "device", "d1"));
    let (report, rows) = rows(&plan(&text, &[]), 1);
    assert_eq!(rows.len(), 8000);
    for row in rows.iter().filter(|row| row.device == 0) {
        assert_eq!(row.failure, None);
    }
    let mut cut_off = 0;
    for row in rows.iter().filter(|row| row.device == 1) {
        if row.issued_ps >= 15 * US {
            assert_eq!(row.failure, Some(Failure::CutOff), "{row:?}");
            // 10 ns in the requester, and 20 ns in the root port.
            assert_eq!(row.completed_ps - row.issued_ps, 30_000);
            cut_off += 1;
        } else if row.failure.is_some() {
            assert_eq!(row.failure, Some(Failure::TimedOut));
        }
    }
    assert!(cut_off > 1000, "{cut_off}");
    let failed = report.requests.failed.unwrap();
    assert_eq!(failed.cut_off_reads + failed.cut_off_writes, cut_off);
    // The hosts' limits on outstanding requests bound the requests in flight at the failure.
    assert!(failed.timed_out_reads + failed.timed_out_writes <= 32);
}

/// Mean latency of rows, in nanoseconds.
fn mean_ns<'a>(rows: impl Iterator<Item = &'a RequestRow>) -> f64 {
    let (mut sum, mut count) = (0, 0);
    for row in rows {
        sum += row.completed_ps - row.issued_ps;
        count += 1;
    }
    sum as f64 / 1e3 / f64::from(count.max(1))
}

#[test]
fn requests_that_fail_have_statistics_of_their_own() {
    let removed = ["d0", "d1"].map(|device| gone(6 * US, "device-removed", "device", device));
    let text = format!("{RING}{}", removed.concat());
    let (report, rows) = rows(&plan(&text, &[]), 1);
    let ended = |failure: Option<Failure>| rows.iter().filter(move |row| row.failure == failure);
    let served = ended(None).count() as u64;
    assert!(served > 100 && ended(Some(Failure::CutOff)).count() as u64 > 10 * served);
    // Nine in ten requests end after 30 ns in the root port, so
    // their latency says nothing of memory.
    let same = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9);
    same(report.latency_ns.mean, mean_ns(ended(None)));
    assert!(report.latency_ns.min > 100.0 && report.latency_ns.p50 > 100.0);
    let reads = ended(None).filter(|row| !row.write);
    same(report.read_latency_ns.mean, mean_ns(reads));
    let unserved = &report.unserved_latency_ns;
    assert_eq!(unserved.cut_off.as_ref().unwrap().p50, 30.0);
    assert_eq!(unserved.timed_out.as_ref().unwrap().max, 40_000.0);
    assert_eq!(unserved.denied, None);
    let binned = report.latency_histogram.iter().map(|(_, count)| count);
    assert_eq!(binned.sum::<u64>(), served);
    let crossed = report.by_hops.iter().map(|hops| hops.count);
    assert_eq!(crossed.sum::<u64>(), served);
    let stages = report.stages_ns.values().filter_map(|one| one.as_f64());
    same(stages.sum(), report.latency_ns.mean);
    let series = &report.time_series;
    let failed = series.failed_reads.iter().chain(&series.failed_writes);
    assert_eq!(failed.sum::<u64>(), report.requests.failed.unwrap().total());
    // Failed requests do not count in the latency of a bin.
    let all = |at: usize| series.reads[at] + series.writes[at];
    let failed = |at: usize| series.failed_reads[at] + series.failed_writes[at];
    let bins = 0..series.reads.len();
    let spent = bins.map(|at| series.latency_ns[at] * (all(at) - failed(at)) as f64);
    same(spent.sum::<f64>(), report.latency_ns.mean * served as f64);
    // All requests together obey Little's law.
    let law = &report.littles_law;
    same(law.rate_times_latency, law.in_flight);
}

#[test]
fn a_link_that_comes_back_carries_requests_again() {
    let events = link(10 * US, "link-down", "d1", "sw3") + &link(60 * US, "link-up", "sw3", "d1");
    let text = format!("{RING}{events}").replace("requests = 4000", "requests = 20000");
    let plan = plan(&text, &[]);
    let (_, rows) = rows(&plan, 1);
    let own = || rows.iter().filter(|row| row.device == 1);
    let later = || own().filter(|row| row.issued_ps >= 65 * US);
    let meanwhile = |row: &&RequestRow| (15 * US..60 * US).contains(&row.issued_ps);
    assert!(own().filter(meanwhile).count() > 100 && later().count() > 100);
    let cut_off = |row: &RequestRow| row.failure == Some(Failure::CutOff);
    assert!(own().filter(meanwhile).all(cut_off));
    assert!(later().all(|row| row.failure.is_none()));
    // All credits of all links are back, including those of the failed link.
    check_drained(&plan, &mut run_down(&plan).0);
}

#[test]
fn a_port_in_reset_has_no_link_and_a_reset_ends_by_itself() {
    let times = "[fabric_manager]\ncommand_time = \"2 us\"\nreset_time = \"50 us\"\n";
    let assert = port(10 * US, "assert-perst", "sw3", "d1");
    let both = format!("{assert}{}", port(60 * US, "deassert-perst", "sw3", "d1"));
    let reset = port(10 * US, "reset-ppb", "sw3", "d1");
    let failed = link(12 * US, "link-down", "sw3", "d1") + &link(62 * US, "link-up", "sw3", "d1");
    let run = |events: &str| {
        let text = format!("{RING}{times}{events}").replace("requests = 4000", "requests = 20000");
        rows(&plan(&text, &[]), 1)
    };
    let (report, found) = run(&both);
    let own = || found.iter().filter(|row| row.device == 1);
    let cut = |row: &&RequestRow| row.failure == Some(Failure::CutOff);
    assert!(own().filter(cut).count() > 100);
    let while_down = |row: &RequestRow| (17 * US..67 * US).contains(&row.issued_ps);
    assert!(own().filter(cut).all(while_down));
    let later = own().filter(|row| row.issued_ps > 67 * US);
    assert!(later.clone().count() > 100 && later.clone().all(|row| row.failure.is_none()));
    let commands = report.commands.iter();
    let commands: Vec<_> = commands.map(|one| [&*one.opcode, &*one.of]).collect();
    assert_eq!(commands, [["5102h", "sw3, d1"]; 2]);
    // Only the link's state matters: the result equals that of a
    // failure when the command takes effect.
    assert_eq!(run(&reset).0.provenance.digest, report.provenance.digest);
    assert_eq!(run(&failed).0.provenance.digest, report.provenance.digest);
}

#[test]
fn a_host_that_is_unbound_with_the_link_is_denied_when_that_is_back() {
    let regions = "[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n";
    let times = "[fabric_manager]\ncommand_time = \"1 us\"\nreset_time = \"20 us\"\n";
    let unbind = "\n[[events]]\nat = \"3 us\"\nkind = \"unbind\"\nhost = \"h0\"\ndevice = \"d1\"\n\
                  option = \"wait-for-link-down\"\n";
    let reset = port(9 * US, "reset-ppb", "sw3", "d1");
    let text = format!("{RING}{regions}{times}{unbind}{reset}");
    let text = text.replace("requests = 4000", "requests = 20000");
    let (report, found) = rows(&plan(&text, &[]), 1);
    let own = between(&found, 0, 1);
    // The command waits, so requests accepted before the link goes down are served.
    let mut before = own.iter().filter(|row| row.completed_ps < 10 * US);
    assert!(before.all(|row| !row.denied && row.failure.is_none()));
    let waiting = own.iter().map(|row| row.issued_ps);
    let waiting = waiting.filter(|issued| (4 * US..9 * US).contains(issued));
    assert!(waiting.count() > 50);
    let mut later = own.iter().filter(|row| row.issued_ps > 35 * US);
    let count = later.clone().count();
    assert!(count > 100 && later.all(|row| row.denied), "{count}");
    let other = between(&found, 1, 1);
    assert!(other.iter().all(|row| !row.denied), "it stays bound");
    let unbinding = report.commands.first().unwrap();
    assert_eq!(unbinding.opcode, "5202h");
    assert_eq!(unbinding.done_ns, Some(10e3));
}

#[test]
fn what_is_under_way_keeps_to_the_tables_that_it_began_with() {
    // Requests lost at 5 us occupy the host until their timeout. Then it continues on the
    // long path. From `sw0` to the device on `sw5` the short path has one link, and the other
    // way round the ring has five.
    let events = link(5 * US, "link-down", "sw5", "sw0") + &link(60 * US, "link-up", "sw5", "sw0");
    let text = format!("{RING}{events}").replace("switches = 4", "switches = 6");
    let text = text.replace("count = 2\ncapacity", "count = 3\ncapacity");
    let set = ["hosts[0].count=3", "hosts[0].issue.outstanding=64"];
    let (_, rows) = rows(&plan(&text, &set), 1);
    let served = between(&rows, 0, 2).into_iter();
    let served: Vec<_> = served.filter(|row| row.failure.is_none()).collect();
    for row in &served {
        assert!([3, 7].contains(&row.hops), "{row:?}");
    }
    // Some responses took the long path, after the short one was available again.
    let long = |row: &&&RequestRow| row.hops == 7 && row.completed_ps > 65 * US;
    assert!(served.iter().filter(long).count() > 2);
    assert!(served.iter().filter(|row| row.hops == 3).count() > 100);
}

#[test]
fn a_switch_that_fails_takes_its_endpoints_with_it_and_nobody_else() {
    let text = format!("{RING}{}", gone(10 * US, "switch-down", "switch", "sw1"));
    let plan = plan(&text, &[]);
    let (report, rows) = rows(&plan, 1);
    for row in rows.iter().filter(|row| row.issued_ps >= 15 * US) {
        let expected = (row.requester == 1).then_some(Failure::CutOff);
        assert_eq!(row.failure, expected, "{row:?}");
    }
    assert!(report.failures.unwrap().lost_messages >= 16);
    let note = "2 pairs of host and device are cut off";
    let is_told = plan.notes.iter().any(|one| one.message.contains(note));
    assert!(is_told, "{:?}", plan.notes);
}

#[test]
fn an_answer_after_the_timeout_is_late_and_its_tag_is_not_used_before() {
    // The device serves one request each 3 us, so all but the first are late.
    let set = [
        "devices[0].memory={ kind = \"fixed\", latency = \"3 us\", queue = 1 }",
        "devices[0].controller.write_completion=\"written\"",
        "failures.completion_timeout=\"2 us\"",
        "hosts[0].requests=40",
    ];
    let text = format!("{RING}{}", link(900 * US, "link-down", "sw3", "sw0"));
    let (report, rows) = rows(&plan(&text, &set), 1);
    assert_eq!(rows.len(), 80);
    let timed_out = |row: &RequestRow| row.failure == Some(Failure::TimedOut);
    assert!(rows.iter().all(timed_out));
    let all = report.failures.unwrap();
    let counts = [all.lost_messages, all.late_answers, all.timed_out];
    assert_eq!(counts, [0, 80, 80]);
}

#[test]
fn doubled_links_fail_one_by_one() {
    let text = r#"
name = "doubled"
[fabric.topology]
kind = "custom"
switches = ["left", "right"]
links = [["left", "right"], ["left", "right"], ["h", "left"], ["right", "d0"], ["right", "d1"]]
[[hosts]]
name = "h"
workload = { kind = "uniform" }
requests = 3000
[[devices]]
name = "d"
count = 2
[failures]
reconfiguration_time = "2 us"
"#;
    let one = link(4 * US, "link-down", "right", "left");
    let (_, found) = rows(&plan(&format!("{text}{one}"), &[]), 1);
    let late = |row: &&RequestRow| row.issued_ps >= 6 * US;
    assert!(found.iter().filter(late).all(|row| row.failure.is_none()));
    assert!(found.iter().filter(late).count() > 1000);
    let other = link(20 * US, "link-down", "left", "right") + "number = 1\n";
    let (_, found) = rows(&plan(&format!("{text}{one}{other}"), &[]), 1);
    let mut late = found.iter().filter(|row| row.issued_ps >= 22 * US);
    assert!(late.clone().count() > 100);
    assert!(late.all(|row| row.failure == Some(Failure::CutOff)));
}

#[test]
fn what_fails_fails_after_enumeration_too() {
    let text = format!("{RING}{}", link(10 * US, "link-down", "sw3", "sw0"));
    let (report, rows) = rows(&plan(&text, &["enumeration={}"]), 1);
    let begun = (report.extent.enumeration_ns.unwrap() * 1e3) as u64;
    let failures = rows.iter().filter(|row| row.failure.is_some());
    assert!(failures.clone().count() >= 16);
    for row in failures {
        assert!(row.issued_ps + 2 * US > begun + 10 * US && row.issued_ps < begun + 15 * US);
    }
}

/// A pool with random capacity changes and failures.
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn random(seed: u64, swarm: &str, slow: bool) -> String {
    let mut draw = Draw::new(seed, swarm);
    let (hosts, devices) = (draw.between(1, 4), draw.between(1, 4));
    draw.line("name = \"random\"\n[fabric]");
    let with_parameters = [
        "chain\", switches = 2",
        "ring\", switches = 3",
        "ring\", switches = 5",
        "mesh\", dimensions = [2, 3]",
        "tree\", leaves = 3",
        "spine-leaf\", leaves = 3, spines = 2",
        "fully-connected\", switches = 4",
        "dragonfly\", groups = 3, routers_per_group = 2",
    ];
    topology(&mut draw, &with_parameters);
    let credits = credits(&mut draw, &["1", "4", "128"]);
    let transmission = draw.pick(&["flit", "packet"]);
    draw.line(format!(
        "[fabric.link]\ntransmission = \"{transmission}\"\ncredits = {credits}"
    ));
    for host in 0..hosts {
        let footprint = draw.pick(&["", ", footprint = \"4 KiB\""]);
        let outstanding = draw.pick(&["1", "4", "32"]);
        let interval = draw.pick(&["0 ns", "30 ns", "100 ns"]);
        draw.line(format!(
            "[[hosts]]\nname = \"h{host}\"\nrequests = 300\n\
             workload = {{ kind = \"uniform\", read_ratio = 0.5{footprint} }}\n\
             issue = {{ outstanding = {outstanding}, issue_interval = \"{interval}\" }}"
        ));
    }
    for device in 0..devices {
        let memory = match slow {
            true => draw.pick(&[
                "{ kind = \"fixed\", latency = \"2 us\", queue = 2 }",
                "{ kind = \"fixed\", bandwidth = \"500 MB/s\" }",
                "{ kind = \"dram\" }",
            ]),
            false => draw.pick(&["{ kind = \"fixed\" }", "{ kind = \"dram\" }"]),
        };
        let contexts = draw.pick(&["1", "4", "256"]);
        draw.line(format!(
            "[[devices]]\nname = \"d{device}\"\ncapacity = \"16 GiB\"\nmemory = {memory}\n\
             controller = {{ contexts = {contexts} }}"
        ));
    }
    let mut holdings = Holdings::default();
    for _ in 0..draw.between(1, 3) {
        let sharing = draw.pick(&["exclusive", "shared", "moving"]);
        let added = !draw.one_in(3);
        holdings.region(&mut draw, hosts, sharing, added, 256 * devices);
    }
    if draw.one_in(2) {
        holdings.manager(&mut draw, hosts, devices);
    }
    // Names of components, from the plan of the system without failures.
    let whole = plan(&draw.text, &[]);
    let timeout = match slow {
        true => draw.pick(&["1 us", "3 us", "50 us"]),
        false => "50 us",
    };
    let reconfiguration = draw.pick(&["1 ns", "200 ns", "2 us"]);
    draw.line(format!(
        "[failures]\ncompletion_timeout = \"{timeout}\"\nreconfiguration_time = \"{reconfiguration}\""
    ));
    let component = |end: End| whole.end_name(end).to_owned();
    let links: Vec<[String; 2]> = (whole.links.iter())
        .map(|link| [component(link.a), component(link.b)])
        .collect();
    // Links that are down, and whether a command took them down.
    let mut down: BTreeMap<usize, bool> = BTreeMap::new();
    // Links that a command brings up, and when it does.
    let command_time = whole.scenario.manager().command_time.0;
    let mut rising: BTreeMap<usize, u64> = BTreeMap::new();
    let mut dead = BTreeSet::new();
    let (mut at, mut failed) = (0, 0);
    for _ in 0..draw.between(1, 10) {
        at += [0, 300_000, 2_000_000][draw.below(3)];
        if draw.one_in(2) {
            holdings.event(&mut draw, hosts, at);
            continue;
        }
        let number = draw.below(links.len());
        let [a, b] = &links[number];
        let alive = !dead.contains(a) && !dead.contains(b);
        // Links connect an endpoint to a switch, or two switches.
        let is_switched = matches!(whole.links[number].b, End::Switch(..));
        match draw.below(6) {
            0 => {
                let switch = draw.below(whole.graph.switches.len());
                let name = whole.graph.switches[switch].name.clone();
                if dead.insert(name.clone()) {
                    draw.line(gone(at, "switch-down", "switch", &name));
                    failed += 1;
                }
            }
            1 => {
                let name = format!("d{}", draw.below(devices));
                if dead.insert(name.clone()) {
                    draw.line(gone(at, "device-removed", "device", &name));
                    failed += 1;
                }
            }
            _ if !alive => {}
            _ if rising.get(&number).is_some_and(|up| at <= *up) => {}
            _ if let Some(commanded) = down.remove(&number) => {
                if commanded {
                    rising.insert(number, at + command_time);
                }
                draw.line(match commanded {
                    true => port(at, "deassert-perst", b, a),
                    false => link(at, "link-up", a, b),
                });
            }
            _ => {
                let commanded = is_switched && holdings.is_managed() && draw.one_in(2);
                let device = a.strip_prefix('d').and_then(|number| number.parse().ok());
                if commanded && let Some(device) = device {
                    holdings.unbind_with_link(&mut draw, device, at);
                }
                draw.line(match commanded {
                    true => port(at, "assert-perst", b, a),
                    false => link(at, "link-down", a, b),
                });
                down.insert(number, commanded);
                failed += 1;
            }
        }
    }
    if failed == 0 {
        draw.line(gone(at, "device-removed", "device", "d0"));
    }
    draw.text
}

/// The devices that a host knows to be unreachable, by time.
fn cut_off(plan: &Plan, host: usize) -> Vec<(u64, Vec<bool>)> {
    let timeline = plan.failures().unwrap().timelines[host].iter();
    let known = timeline.filter_map(|(at, change)| match change {
        FailureChange::CutOff(devices) => Some((at.0, devices.to_vec())),
        _ => None,
    });
    std::iter::once((0, vec![false; plan.devices.len()]))
        .chain(known)
        .collect()
}

/// Checks that every request ends, and that the surviving parts work.
fn check(seed: u64) {
    let text = random(seed, "failures", false);
    let plan = plan(&text, &[]);
    let (report, found) = rows(&plan, 1);
    check_presence(&plan, &found, 300);
    assert_eq!(report.requests.in_flight_at_end, 0, "requests end\n{text}");
    let failures = plan.failures().unwrap();
    let events = plan.scenario.events.iter();
    let failing = events.filter(|event| event.is_failure());
    let command_time = plan.scenario.manager().command_time.0;
    let in_force = |event: &EventParams| match event {
        EventParams::PortControl { at, .. } => at.0 + command_time,
        event => event.at().0,
    };
    let times: Vec<u64> = failing.map(in_force).collect();
    let known = times.iter().max().unwrap() + failures.params.reconfiguration_time.0;
    // A change of the routing may wait for virtual channels.
    let routed = failures.routing.last().map_or(0, |change| change.at.0);
    let settled = known.max(routed);
    let first = *times.iter().min().unwrap();
    for row in &found {
        let host = usize::from(row.requester);
        // The memory of the host, according to the timeline.
        let device = device_of(&plan, host, row.hpa);
        let served = !row.denied && row.failure.is_none();
        check_spans(&plan, row, (row.denied, served), &text);
        let (from, to) = (row.issued_ps, row.completed_ps);
        let is_early = row.failure.is_some() && to < first;
        assert!(!is_early, "before anything failed: {row:?}\n{text}");
        // Whether the device is reachable, as the host knows it.
        let known = cut_off(&plan, host);
        // In the picosecond of a change, either state may apply.
        let sets = known.iter().enumerate().filter(|(at, (since, _))| {
            *since <= from && known.get(at + 1).is_none_or(|(next, _)| from <= *next)
        });
        let mut cut = sets.map(|(_, (_, devices))| devices[device]);
        let is_cut = row.failure == Some(Failure::CutOff);
        assert!(cut.clone().any(|cut| cut == is_cut), "{row:?}\n{text}");
        let is_stuck = row.failure.is_some() && from > settled && !cut.any(|cut| cut);
        assert!(!is_stuck, "stuck in what is left: {row:?}\n{text}");
    }
    assert_threads(&plan, &report.provenance.digest, [2 + seed as usize % 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_request_ends_and_the_fabric_that_is_left_works(seed in 0u64..1_000_000) {
        check(seed);
    }
}

#[test]
#[ignore = "slow: make test-all"]
fn many_fabrics_work_on_as_far_as_they_are_left() {
    each_seed(1_000_000..1_001_000, check);
}

#[test]
fn values_survive_failures() {
    let (mut stored, mut empty, mut open, mut failed) = (0, 0, 0, 0);
    let (mut lost, mut late) = (0, 0);
    for seed in 0..200 {
        let slow = seed % 2 == 1;
        let text = random(seed, "values", slow);
        let plan = plan(&text, &[]);
        let rows = values(&plan, 1 + seed as usize % 3);
        check_presence(&plan, &rows, 300);
        let seen = check_values(&plan, &rows);
        stored += seen.stored;
        empty += seen.empty;
        open += seen.open;
        failed += rows.iter().filter(|row| row.failure.is_some()).count();
        if slow {
            // The run checks its laws, among them the balance of lost and late messages.
            let all = self::rows(&plan, 1).0.failures.unwrap();
            lost += all.lost_messages;
            late += all.late_answers;
        }
    }
    let enough = stored > 1000 && empty > 1000 && open > 100 && failed > 1000;
    assert!(enough, "{stored} {empty} {open} {failed}");
    assert!(lost > 100 && late > 100, "{lost} {late}");
}
