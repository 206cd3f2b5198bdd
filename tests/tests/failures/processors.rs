//! Processors in systems with failures, or whose hosts lose memory. Every operation ends with data
//! or a counted error, no thread continues without its data, and the surviving data is right.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Hpa;
use cxlab_host::{Failure, RequestRow};
use cxlab_system::report::Report;
use cxlab_tests::oracle::{Holdings, device_of, region_of, spans};
use cxlab_tests::swarm::{Draw, credits, each_seed, topology};
use cxlab_tests::{assert_threads, gone, link, plan, rows, stage};
use proptest::prelude::*;

const US: u64 = 1_000_000;

/// A host on `sw0` with two cores, and devices on `sw2` and `sw3`. Caches have 1 KiB to 8 KiB.
const RING: &str = r#"
name = "ring"
[fabric]
topology = { kind = "ring", switches = 4 }
[[hosts]]
name = "h"
workload = { kind = "uniform", read_ratio = 0.5, footprint = "64 KiB" }
requests = 4000
nodes = [{ capacity = "64 MiB" }]
[hosts.processor]
cores = 2
l1 = { size = "1 KiB", ways = 2, access_time = "1 ns" }
l2 = { size = "2 KiB", ways = 2, access_time = "3 ns" }
llc = { size = "8 KiB", ways = 8, access_time = "5 ns" }
mesh_time = "10 ns"
root_port_time = "10 ns"
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
[failures]
completion_timeout = "40 us"
reconfiguration_time = "5 us"
"#;

fn count(report: &Report, host: usize, name: &str) -> f64 {
    let found = report.hosts[host].processor.get(name);
    found.and_then(serde_json::Value::as_f64).unwrap_or(0.0)
}

/// The report and rows of a run. Two threads must give the same report.
fn simulate(text: &str) -> (Report, Vec<RequestRow>) {
    let plan = plan(text, &[]);
    let (report, found) = rows(&plan, 1);
    assert_threads(&plan, &report.provenance.digest, [2]);
    (report, found)
}

#[test]
fn a_load_of_a_device_that_is_gone_is_a_machine_check_after_exactly_its_timeout() {
    let text = format!("{RING}{}", gone(10 * US, "device-removed", "device", "d1"));
    let (report, found) = simulate(&text);
    assert_eq!(found.len(), 8000, "every operation ends");
    let failed = |why| found.iter().filter(move |row| row.failure == Some(why));
    assert!(failed(Failure::TimedOut).count() > 0 && failed(Failure::CutOff).count() > 100);
    // To the home agent and back, and the last-level cache: 14 + 5 + 10 ns.
    for row in failed(Failure::TimedOut) {
        assert_eq!(row.device, 1);
        // Some arrived later, for a line that was already requested.
        assert!((40 * US..56 * US).contains(&row.completed_ps), "{row:?}");
    }
    let exact = |row: &&RequestRow| row.completed_ps - row.issued_ps == 40 * US + 29_000;
    assert!(failed(Failure::TimedOut).any(|row| exact(&row)));
    // Twice through the root port's logic, and its response.
    let exact = |row: &&RequestRow| row.completed_ps - row.issued_ps == 40_000 + 29_000;
    assert!(failed(Failure::CutOff).filter(exact).count() > 10);
    let all = failed(Failure::TimedOut).count() + failed(Failure::CutOff).count();
    assert_eq!(count(&report, 0, "machine_checks"), all as f64);
    assert!(count(&report, 0, "lost_write_backs") > 0.0);
    let mut other = found.iter().filter(|row| row.device == 0);
    assert!(other.all(|row| row.failure.is_none()));
    let failures = report.failures.unwrap();
    let without_answer = failures.lost_messages + failures.late_answers;
    assert_eq!(without_answer, failures.timed_out);
    let requests = report.requests.failed.unwrap();
    assert_eq!(requests.total(), all as u64);
}

#[test]
fn caches_serve_what_they_have_of_a_device_that_is_gone() {
    // 1 KiB of each core fits all caches, so after the first round no request goes to a device.
    let text = format!("{RING}{}", gone(5 * US, "device-removed", "device", "d1"));
    let text = text.replace("64 KiB", "1 KiB").replace("= 4000", "= 40000");
    let (report, found) = simulate(&text);
    let last = found.iter().map(|row| row.issued_ps).max().unwrap();
    assert!(last > 20 * US, "it goes on behind the failure: {last}");
    assert!(found.iter().all(|row| row.failure.is_none()));
    assert_eq!(count(&report, 0, "machine_checks"), 0.0);
}

#[test]
fn a_link_that_comes_back_serves_again_and_poison_is_not_kept() {
    let events = link(10 * US, "link-down", "d1", "sw3") + &link(60 * US, "link-up", "sw3", "d1");
    let (_, found) = simulate(&format!("{RING}{events}").replace("= 4000", "= 40000"));
    let later = found.iter().filter(|row| row.issued_ps >= 65 * US);
    assert!(later.clone().filter(|row| row.device == 1).count() > 100);
    assert!(later.clone().all(|row| row.failure.is_none()));
    let meanwhile = found.iter().filter(|row| row.failure.is_some());
    assert!(meanwhile.clone().count() > 10);
    assert!(meanwhile.clone().all(|row| row.device == 1));
}

#[test]
fn a_process_whose_memory_is_lost_ends_and_the_other_host_computes_on() {
    let kernel = "kind = \"hot-pages\", memory = \"64 KiB\", operations = 20000, data = \"cxl\"";
    let text = ring(kernel, "count = 2\n").replace("[failures]", REGIONS);
    let text = format!("{text}{}", gone(20 * US, "device-removed", "device", "d1"));
    // The second host's result is checked at the end.
    let (report, found) = simulate(&text);
    let ended = count(&report, 0, "threads_ended_ns") * 1e3;
    assert!(ended >= 20.0 * US as f64, "{ended}");
    assert_eq!(count(&report, 1, "threads_ended_ns"), 0.0);
    assert!(count(&report, 0, "machine_checks") + count(&report, 0, "lost_write_backs") > 0.0);
    // Nothing of the first host begins after it, and nothing of the second one fails.
    let is_right = |row: &RequestRow| match row.requester {
        0 => row.issued_ps as f64 <= ended,
        _ => row.failure.is_none(),
    };
    assert!(found.iter().all(is_right));
}

/// [`RING`] with a kernel, and a key instead of the number of requests.
fn ring(kernel: &str, key: &str) -> String {
    let uniform = "kind = \"uniform\", read_ratio = 0.5, footprint = \"64 KiB\"";
    let text = RING.replace(uniform, kernel);
    text.replace("requests = 4000\n", key)
}

/// The first host's memory is on the second device, and the second host's on the first.
const REGIONS: &str = "[[regions]]\nname = \"first\"\ncapacity = \"1 GiB\"\nhosts = [\"h0\"]\ndevices = [\"d1\"]\n\
     [[regions]]\nname = \"second\"\ncapacity = \"1 GiB\"\nhosts = [\"h1\"]\ndevices = [\"d0\"]\n[failures]";

#[test]
fn threads_that_wait_for_one_another_end_together() {
    // STREAM has barriers, at which some threads wait when another meets poison.
    let kernel = "kind = \"stream-threads\", array = \"64 KiB\", repeats = 4, data = \"cxl\"";
    let text = ring(kernel, "");
    let mut ended = 0;
    for at in [5, 8, 12, 20, 50] {
        let down = gone(at * US, "switch-down", "switch", "sw3");
        let (report, _) = simulate(&format!("{text}{down}"));
        ended += u32::from(count(&report, 0, "threads_ended_ns") > 0.0);
    }
    assert!(ended >= 3, "{ended}");
}

#[test]
fn a_release_is_a_machine_check_for_what_is_not_in_caches() {
    let text = RING.replace(
        "[failures]\ncompletion_timeout = \"40 us\"\nreconfiguration_time = \"5 us\"\n",
        "[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n\
         [[events]]\nat = \"30 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"h\"\n\
         [[events]]\nat = \"60 us\"\nkind = \"add\"\nregion = \"own\"\nhost = \"h\"\n",
    );
    let (report, found) = simulate(&text.replace("= 4000", "= 20000"));
    let denied = found.iter().filter(|row| row.denied);
    assert!(denied.clone().count() > 100);
    for row in denied.clone() {
        // An access that waits for the line of an earlier access is denied with it,
        // and has crossed no switch itself.
        let joined = row.stages[stage("switch")] == 0;
        assert!(row.completed_ps > 30 * US && (joined || row.issued_ps < 60 * US));
    }
    assert_eq!(count(&report, 0, "machine_checks"), denied.count() as f64);
    assert!(count(&report, 0, "lost_write_backs") > 0.0);
    assert!(found.iter().filter(|row| row.issued_ps > 60 * US).count() > 100);
}

/// A system with processors, random capacity changes and random failures.
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn random(seed: u64) -> String {
    let mut draw = Draw::new(seed, "processor-failures");
    let (hosts, devices) = (draw.between(1, 3), draw.between(1, 3));
    let moves = draw.one_in(2);
    draw.line("name = \"random\"\n[fabric]");
    let with_parameters = [
        "chain\", switches = 2",
        "ring\", switches = 3",
        "mesh\", dimensions = [2, 3]",
        "spine-leaf\", leaves = 3, spines = 2",
        "fully-connected\", switches = 4",
    ];
    topology(&mut draw, &with_parameters);
    let credits = credits(&mut draw, &["1", "4", "128"]);
    draw.line(format!("[fabric.link]\ncredits = {credits}"));
    for host in 0..hosts {
        draw.line(format!("[[hosts]]\nname = \"h{host}\""));
        // If capacity changes, hosts run workloads that tolerate missing memory.
        let threads = !moves && draw.one_in(2);
        let os = !moves && draw.one_in(2);
        let workload = match threads {
            true => draw.pick(&[
                "kind = \"hot-pages\", memory = \"64 KiB\", operations = 600, data = \"cxl\"",
                "kind = \"stream-threads\", array = \"16 KiB\", data = \"cxl\"",
                "kind = \"hot-pages\", memory = \"64 KiB\", operations = 600, data = \"local\"",
            ]),
            false => draw.pick(&[
                "kind = \"uniform\", read_ratio = 0.5, footprint = \"64 KiB\"",
                "kind = \"uniform\", read_ratio = 0.5",
                "kind = \"stream\", read_ratio = 0.7, footprint = \"16 KiB\"",
            ]),
        };
        draw.line(format!("workload = {{ {workload} }}"));
        if !threads {
            draw.line("requests = 200");
        }
        draw.line("nodes = [{ capacity = \"64 MiB\" }]\n[hosts.processor]");
        let cores = draw.between(1, 3);
        let inclusion = draw.pick(&["inclusive", "non-inclusive"]);
        let misses = draw.pick(&["1", "4", "48"]);
        draw.line(format!(
            "cores = {cores}\nmisses = {misses}\n\
             l1 = {{ size = \"1 KiB\", ways = 2, access_time = \"1 ns\" }}\n\
             l2 = {{ size = \"2 KiB\", ways = 2, access_time = \"3 ns\" }}\n\
             llc = {{ size = \"8 KiB\", ways = 8, inclusion = \"{inclusion}\" }}"
        ));
        if os {
            let placement = draw.pick(&[
                "{ kind = \"bind\", nodes = [1] }",
                "{ kind = \"interleave\", nodes = [0, 1] }",
                "{ kind = \"first-touch\" }",
            ]);
            draw.line(format!(
                "[hosts.os]\nheap = \"64 MiB\"\nplacement = {placement}"
            ));
        }
    }
    for device in 0..devices {
        let memory = draw.pick(&[
            "{ kind = \"fixed\" }",
            "{ kind = \"dram\" }",
            "{ kind = \"fixed\", latency = \"2 us\", queue = 2 }",
        ]);
        draw.line(format!(
            "[[devices]]\nname = \"d{device}\"\ncapacity = \"16 GiB\"\nmemory = {memory}"
        ));
    }
    let mut holdings = Holdings::default();
    for _ in 0..draw.between(1, 2) {
        let sharing = match moves {
            true => draw.pick(&["exclusive", "shared", "moving"]),
            false => "exclusive",
        };
        let added = !moves || !draw.one_in(3);
        holdings.region(&mut draw, hosts, sharing, added, 256 * devices);
    }
    let whole = plan(&draw.text, &[]);
    let timeout = draw.pick(&["1 us", "3 us", "50 us"]);
    let reconfiguration = draw.pick(&["1 ns", "200 ns", "2 us"]);
    draw.line(format!(
        "[failures]\ncompletion_timeout = \"{timeout}\"\nreconfiguration_time = \"{reconfiguration}\""
    ));
    let links: Vec<[String; 2]> = (whole.links.iter())
        .map(|link| [link.a, link.b].map(|end| whole.end_name(end).to_owned()))
        .collect();
    let mut at = 0;
    let mut down = std::collections::BTreeSet::new();
    let removed = draw.below(devices);
    for _ in 0..draw.between(0, 5) {
        at += [300_000, 2_000_000, 5_000_000][draw.below(3)];
        if moves && draw.one_in(2) {
            holdings.event(&mut draw, hosts, at);
            continue;
        }
        // Only links of endpoints fail, so the routing tables do not change.
        let number = draw.below(links.len());
        let [a, b] = &links[number];
        if !(a.starts_with('h') || b.starts_with('h') || a.starts_with('d') || b.starts_with('d')) {
            continue;
        }
        match down.remove(&number) {
            true => draw.line(link(at, "link-up", a, b)),
            false => {
                draw.line(link(at, "link-down", a, b));
                down.insert(number);
            }
        }
    }
    let removed = format!("d{removed}");
    draw.line(gone(at + US, "device-removed", "device", &removed));
    draw.text
}

/// Checks a random system, and returns counts of the outcomes.
fn check(seed: u64) -> [f64; 5] {
    let text = random(seed);
    let plan = plan(&text, &[]);
    // The run checks its laws and the results of all threads that were not ended.
    let (report, found) = rows(&plan, 1);
    let events = plan.scenario.events.iter();
    let first = events.map(|event| event.at().0).min().unwrap();
    let mut seen = [0.0; 5];
    for (host, group) in plan.scenario.hosts.iter().enumerate() {
        let own = found.iter();
        let own: Vec<&RequestRow> = own
            .filter(|row| usize::from(row.requester) == host)
            .collect();
        let cores = group.processor().unwrap().cores as usize;
        if group.requests.is_some() {
            assert_eq!(own.len(), 200 * cores, "every operation ends\n{text}");
        }
        let ended = count(&report, host, "threads_ended_ns");
        for row in &own {
            if row.denied {
                let held = |row: &RequestRow| {
                    let device = device_of(&plan, host, row.hpa);
                    let mut spans =
                        spans(&plan, region_of(&plan, row.hpa), host, device).into_iter();
                    spans.any(|has| has.since <= row.issued_ps && row.completed_ps < has.issued)
                };
                // An access to a line that is already requested gets
                // the result of the first access.
                let together = |other: &&&RequestRow| {
                    (other.hpa / 64, other.completed_ps) == (row.hpa / 64, row.completed_ps)
                };
                let denied = own.iter().filter(together).any(|other| !held(other));
                assert!(denied, "denied what it has: {row:?}\n{text}");
            }
            if row.failure.is_some() {
                let slow = text.contains("queue = 2") || !text.contains("50 us");
                let quiet = row.failure == Some(Failure::CutOff) || !slow;
                let is_early = quiet && row.completed_ps < first;
                assert!(!is_early, "before anything failed: {row:?}\n{text}");
                let (port, _) = plan.hosts[host].map.locate(Hpa(row.hpa & !63)).unwrap();
                let device = usize::from(port.0) - plan.hosts.len();
                assert_eq!(usize::from(row.device), device, "{row:?}\n{text}");
            }
            let is_late = ended > 0.0 && row.issued_ps as f64 > ended * 1e3 + 0.5;
            assert!(!is_late, "{row:?}\n{text}");
        }
        seen[0] += count(&report, host, "machine_checks");
        seen[1] += count(&report, host, "lost_write_backs");
        seen[2] += f64::from(u8::from(ended > 0.0));
        seen[3] += f64::from(u8::from(group.requests.is_none() && ended == 0.0));
        seen[4] += own.iter().filter(|row| row.denied).count() as f64;
    }
    assert_threads(&plan, &report.provenance.digest, [2 + seed as usize % 2]);
    seen
}

#[test]
fn every_operation_of_a_processor_ends_and_what_survives_is_right() {
    let mut all = [0.0; 5];
    for seed in 0..150 {
        for (all, seen) in all.iter_mut().zip(check(seed)) {
            *all += seen;
        }
    }
    let [checks, lost, ended, computed, denied] = all;
    assert!(checks > 500.0 && lost > 50.0 && ended > 10.0, "{all:?}");
    assert!(computed > 10.0 && denied > 100.0, "{all:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_processor_in_any_failure(seed in 1_000u64..1_000_000) {
        check(seed);
    }
}

#[test]
#[ignore = "slow: make test-all"]
fn many_processors_in_any_failure() {
    each_seed(1_000_000..1_000_500, |seed| {
        check(seed);
    });
}
