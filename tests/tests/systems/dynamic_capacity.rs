//! Dynamic capacity: events add and release hosts' memory of regions while the hosts use
//! it. The tests check which request is denied and when, that other hosts are not
//! affected, and that every request ends.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Hpa;
use cxlab_host::{RequestRow, STAGE_NAMES};
use cxlab_scenario::Sharing;
use cxlab_system::report::Denied;
use cxlab_tests::oracle::{Holdings, check_presence, check_spans, check_values, region_of, values};
use cxlab_tests::swarm::{Draw, each_seed};
use cxlab_tests::{assert_threads, plan, rows, stage};
use proptest::prelude::*;

const POOL: &str = r#"
name = "pool"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "a"
workload = { kind = "uniform", read_ratio = 0.5 }
requests = 2000
[[hosts]]
name = "b"
workload = { kind = "uniform", read_ratio = 0.5 }
requests = 2000
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
"#;

/// Each host has a device of its own.
const APART: &str = r#"
[[regions]]
name = "one"
hosts = ["a"]
devices = ["d0"]
capacity = "1 GiB"
[[regions]]
name = "other"
hosts = ["b"]
devices = ["d1"]
capacity = "1 GiB"
"#;

fn event(at_ps: u64, kind: &str, region: &str, host: &str) -> String {
    format!(
        "[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\nregion = \"{region}\"\nhost = \"{host}\"\n"
    )
}

fn of_host(rows: &[RequestRow], host: u16) -> Vec<&RequestRow> {
    rows.iter().filter(|row| row.requester == host).collect()
}

/// The parts of a row that must not depend on the system's other hosts.
fn essence(row: &RequestRow) -> (u64, bool, u64, u64, u64, [u64; STAGE_NAMES.len()], bool) {
    let times = (row.issued_ps, row.completed_ps);
    (
        row.id, row.write, row.hpa, times.0, times.1, row.stages, row.denied,
    )
}

const US: u64 = 1_000_000;

#[test]
fn before_a_release_nothing_is_denied_and_after_it_everything() {
    let text = format!("{POOL}{APART}{}", event(4 * US, "release", "one", "a"));
    let (report, rows) = rows(&plan(&text, &[]), 1);
    let own = of_host(&rows, 0);
    assert_eq!(own.len(), 2000, "every request ends");
    let (mut served, mut denied) = (0, 0);
    for row in &own {
        if row.completed_ps <= 4 * US {
            assert!(!row.denied, "{row:?}");
            served += 1;
        }
        if row.issued_ps >= 4 * US {
            assert!(row.denied, "{row:?}");
            denied += 1;
        }
    }
    assert!(served > 100 && denied > 100, "{served} {denied}");
    let count = |write| {
        let denied = own.iter().filter(|row| row.denied && row.write == write);
        denied.count() as u64
    };
    let expected = Some(Denied {
        reads: count(false),
        writes: count(true),
    });
    assert_eq!(report.requests.denied, expected);
    assert_eq!(report.hosts[0].denied, expected);
    assert_eq!(report.devices[0].denied, expected);
    assert_eq!(report.hosts[1].denied, Some(Denied::default()));
    assert_eq!(report.devices[1].denied, Some(Denied::default()));
    let served = own.iter().filter(|row| !row.denied).count() as u64;
    assert_eq!(report.devices[0].reads + report.devices[0].writes, served);
    let rate = served as f64 * 64.0 / report.extent.window_ns;
    assert!((report.hosts[0].bandwidth_gb_per_s.total / rate - 1.0).abs() < 1e-9);
    let series = &report.time_series;
    let sum = |bins: &[u64]| bins.iter().sum::<u64>();
    assert_eq!(sum(&series.denied_reads), count(false));
    assert_eq!(sum(&series.denied_writes), count(true));
    let latency = |denied: bool| {
        let rows = own.iter().filter(|row| row.denied == denied);
        let spans: Vec<u64> = rows.map(|row| row.completed_ps - row.issued_ps).collect();
        spans.iter().sum::<u64>() as f64 / 1e3 / spans.len() as f64
    };
    let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9);
    close(report.hosts[0].latency_ns.mean, latency(false));
    let denied = report.hosts[0].unserved_latency_ns.denied.as_ref();
    close(denied.unwrap().mean, latency(true));
    assert_eq!(report.hosts[1].unserved_latency_ns, Default::default());
}

#[test]
fn a_host_that_shares_nothing_with_the_one_concerned_does_not_notice() {
    let quiet = plan(&format!("{POOL}{APART}"), &[]);
    let events = event(3 * US, "release", "one", "a") + &event(5 * US, "add", "one", "a");
    let busy = plan(&format!("{POOL}{APART}{events}"), &[]);
    let (quiet, busy) = (rows(&quiet, 1).1, rows(&busy, 1).1);
    let all = |rows: &[RequestRow], host| -> Vec<_> {
        of_host(rows, host).into_iter().map(essence).collect()
    };
    assert_eq!(all(&quiet, 1), all(&busy, 1));
    assert_ne!(all(&quiet, 0), all(&busy, 0), "the other one does");
}

#[test]
fn what_is_added_again_is_served_again() {
    let events = event(2 * US, "release", "one", "a") + &event(4 * US, "add", "one", "a");
    let (_, rows) = rows(&plan(&format!("{POOL}{APART}{events}"), &[]), 1);
    let mut seen = [0; 3];
    for row in of_host(&rows, 0) {
        let between = |from: u64, to: u64| row.issued_ps >= from && row.completed_ps < to;
        for (at, (from, to)) in [(0, 2 * US), (2 * US, 4 * US), (4 * US, u64::MAX)]
            .into_iter()
            .enumerate()
        {
            if between(from, to) {
                assert_eq!(row.denied, at == 1, "{row:?}");
                seen[at] += 1;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

#[test]
fn a_region_that_is_not_there_at_first_is_denied_until_it_is_added() {
    let apart = APART.replacen("capacity", "initially_added = false\ncapacity", 1);
    let never = rows(&plan(&format!("{POOL}{apart}"), &[]), 1).1;
    assert!(of_host(&never, 0).iter().all(|row| row.denied));
    assert!(of_host(&never, 1).iter().all(|row| !row.denied));
    let at_once = event(0, "add", "one", "a");
    let added = rows(&plan(&format!("{POOL}{apart}{at_once}"), &[]), 1).1;
    assert!(added.iter().all(|row| !row.denied));
}

/// One host with one outstanding request, so that every request takes equally long.
const ALONE: &str = r#"
name = "alone"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "a"
workload = { kind = "uniform", read_ratio = 0.5 }
requests = 40
issue = { outstanding = 1 }
[[devices]]
name = "d"
[[regions]]
name = "own"
capacity = "1 GiB"
"#;

#[test]
fn a_denied_request_takes_as_long_as_a_served_one_without_the_medium() {
    let served = rows(&plan(ALONE, &[]), 1).1;
    let denied = rows(&plan(&format!("{ALONE}initially_added = false\n"), &[]), 1).1;
    assert!(denied.iter().any(|row| row.write) && denied.iter().any(|row| !row.write));
    for (served, denied) in served.iter().zip(&denied) {
        assert!(denied.denied && served.write == denied.write);
        let mut stages = served.stages;
        let media = std::mem::take(&mut stages[stage("media")]);
        // A write is complete when it is accepted.
        assert_eq!(media > 0, !served.write, "{served:?}");
        assert_eq!(denied.stages[stage("media")], 0);
        // The next slot of a flit depends on the time.
        let slots = 2 * served.stages[stage("link")].max(denied.stages[stage("link")]);
        let time = |row: &RequestRow| row.completed_ps - row.issued_ps;
        let apart = time(denied).abs_diff(time(served) - media);
        assert!(apart < slots, "{served:?} {denied:?}");
    }
}

#[test]
fn a_release_takes_effect_at_its_picosecond() {
    let base = rows(&plan(ALONE, &[]), 1).1;
    // Whether the request of this number is denied if the release comes `after` its issue.
    let denied = |id: usize, after: u64| {
        let at = base[id].issued_ps + after;
        let text = format!("{ALONE}{}", event(at, "release", "own", "a"));
        let rows = rows(&plan(&text, &[]), 1).1;
        for (id, row) in rows.iter().enumerate() {
            assert_eq!(row.id, id as u64, "one at a time");
        }
        let first = rows.iter().position(|row| row.denied).unwrap_or(rows.len());
        assert!(rows[first..].iter().all(|row| row.denied), "all after it");
        assert!(first == id || first == id + 1, "{first} of {id}");
        first == id
    };
    // Finds by bisection how long after its issue a request reaches the device.
    let arrival = |id: usize| {
        let (mut low, mut high) = (0, base[id].completed_ps - base[id].issued_ps);
        assert!(denied(id, low) && !denied(id, high));
        while high - low > 1 {
            let middle = low.midpoint(high);
            match denied(id, middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    };
    let row = &base[7];
    let found = arrival(7);
    // By then it has passed requester and controller, but neither the media nor the return path.
    let total = row.completed_ps - row.issued_ps;
    let before = row.stages[stage("process")] + row.stages[stage("device")];
    let inside = before..total - row.stages[stage("media")];
    assert!(inside.contains(&found), "{found} of {total}");
    let same = |id: &&usize| base[**id].stages == row.stages && base[**id].write == row.write;
    let alike = [3, 11, 20, 30, 35, 37];
    let mut alike = alike.iter().filter(same).peekable();
    assert!(alike.peek().is_some(), "another request as long");
    for id in alike {
        assert_eq!(arrival(*id), found, "request {id}");
    }
}

#[test]
fn times_count_from_when_the_workloads_begin() {
    let text = format!("{POOL}{APART}{}", event(4 * US, "release", "one", "a"));
    let (report, rows) = rows(&plan(&text, &["enumeration={}"]), 1);
    let begun = (report.extent.enumeration_ns.unwrap() * 1e3) as u64;
    assert!(begun > 10 * US, "enumeration takes its time");
    let own = of_host(&rows, 0);
    let after = |row: &&&RequestRow| row.issued_ps >= begun + 4 * US;
    let before = |row: &&&RequestRow| row.completed_ps <= begun + 4 * US;
    assert!(own.iter().filter(after).all(|row| row.denied));
    assert!(own.iter().filter(before).all(|row| !row.denied));
    assert!(own.iter().filter(after).count() > 50 && own.iter().filter(before).count() > 50);
}

/// A slow and small device, so that requests wait in all buffers when capacity is released.
#[test]
fn what_waits_in_a_full_device_is_denied_and_nothing_is_stuck() {
    for medium in [
        "{ kind = \"fixed\", latency = \"3 us\", queue = 1 }",
        "{ kind = \"fixed\", bandwidth = \"500 MB/s\", queue = 2 }",
        "{ kind = \"dram\" }",
    ] {
        for contexts in [1, 3, 256] {
            let events = event(7 * US, "release", "one", "a") + &event(9 * US, "add", "one", "a");
            let text =
                format!("{POOL}{APART}{events}").replace("requests = 2000", "requests = 300");
            let memory = format!("devices[0].memory={medium}");
            let controller = format!("devices[0].controller={{ contexts = {contexts} }}");
            let (report, rows) = rows(&plan(&text, &[&memory, &controller]), 1);
            assert_eq!(report.requests.completed, 600, "{medium} {contexts}");
            assert_eq!(report.requests.in_flight_at_end, 0);
            assert!(of_host(&rows, 1).iter().all(|row| !row.denied));
        }
    }
}

#[test]
fn memory_that_moves_to_another_host_is_scrubbed() {
    let small = POOL.replace(
        "kind = \"uniform\"",
        "kind = \"uniform\", footprint = \"8 KiB\"",
    );
    let region = "[[regions]]\nname = \"all\"\nsharing = \"moving\"\ncapacity = \"2 GiB\"\n";
    // Both events are at the same picosecond, so there is no time between them.
    let events = event(6 * US, "release", "all", "a") + &event(6 * US, "add", "all", "b");
    let rows = values(&plan(&format!("{small}{region}{events}"), &[]), 1);
    let loads = |host, denied| {
        let own = of_host(&rows, host).into_iter();
        own.filter(move |row| !row.write && row.denied == denied)
    };
    let from = |row: &&RequestRow, host: u16| row.value >> 12 == host + 1;
    assert!(loads(0, false).filter(|row| from(row, 0)).count() > 100);
    assert!(loads(1, false).filter(|row| from(row, 1)).count() > 100);
    assert!(loads(1, false).any(|row| row.value == 0), "not yet written");
    assert!(loads(1, false).all(|row| !from(&row, 0)), "the other's");
    for host in 0..2 {
        let mut denied = loads(host, true);
        assert!(denied.clone().count() > 100);
        assert!(denied.all(|row| row.value == 0), "data of a denied read");
    }
}

/// A random system whose regions are added, released and moved. Events may share a time.
fn random(seed: u64) -> String {
    let mut draw = Draw::new(seed, "events");
    let (hosts, devices) = (draw.between(1, 4), draw.between(1, 3));
    draw.line("name = \"random\"\n[fabric]");
    let topology = draw.pick(&["chain\", switches = 1", "ring\", switches = 3"]);
    draw.line(format!("topology = {{ kind = \"{topology} }}"));
    for host in 0..hosts {
        let kind = draw.pick(&["uniform", "stream"]);
        let footprint = draw.pick(&["", ", footprint = \"4 KiB\""]);
        let outstanding = draw.pick(&["1", "4", "64"]);
        let interval = draw.pick(&["0 ns", "20 ns", "33 ps"]);
        draw.line(format!(
            "[[hosts]]\nname = \"h{host}\"\nrequests = 150\n\
             workload = {{ kind = \"{kind}\", read_ratio = 0.5{footprint} }}\n\
             issue = {{ outstanding = {outstanding}, issue_interval = \"{interval}\" }}"
        ));
    }
    for device in 0..devices {
        let memory = draw.pick(&[
            "{ kind = \"fixed\" }",
            "{ kind = \"fixed\", latency = \"1 us\", queue = 2 }",
            "{ kind = \"fixed\", bandwidth = \"1 GB/s\" }",
            "{ kind = \"dram\" }",
        ]);
        let contexts = draw.pick(&["1", "4", "256"]);
        draw.line(format!(
            "[[devices]]\nname = \"d{device}\"\ncapacity = \"16 GiB\"\nmemory = {memory}\n\
             controller = {{ contexts = {contexts} }}"
        ));
    }
    let mut holdings = Holdings::default();
    for _ in 0..draw.between(1, 4) {
        let sharing = draw.pick(&["exclusive", "shared", "moving"]);
        let added = draw.one_in(2);
        let mib = 256 * draw.between(1, 2) * devices;
        holdings.region(&mut draw, hosts, sharing, added, mib);
    }
    if draw.one_in(2) {
        holdings.manager(&mut draw, hosts, devices);
    }
    let mut at = 0;
    for _ in 0..draw.between(0, 12) {
        at += [0, 300_000, 800_000][draw.below(3)];
        holdings.event(&mut draw, hosts, at);
    }
    draw.text
}

/// Checks that a host is served the memory that it has, and denied all other memory.
fn check(seed: u64) {
    let text = random(seed);
    let plan = plan(&text, &[]);
    let (report, found) = rows(&plan, 1);
    let hosts = plan.hosts.len();
    check_presence(&plan, &found, 150);
    assert_eq!(report.requests.in_flight_at_end, 0, "requests end\n{text}");
    let mut counts = vec![Denied::default(); hosts];
    for row in &found {
        let host = usize::from(row.requester);
        check_spans(&plan, row, (row.denied, !row.denied), &text);
        let Denied { reads, writes } = &mut counts[host];
        *if row.write { writes } else { reads } += u64::from(row.denied);
        // Memory of an exclusive region never belongs to another host.
        let (port, dpa) = plan.hosts[host].map.locate(Hpa(row.hpa)).unwrap();
        let device = &plan.devices[usize::from(port.0) - hosts];
        let region = &plan.scenario.regions[region_of(&plan, row.hpa)];
        for other in (0..hosts).filter(|other| *other != host) {
            let other = cxlab_protocol::PortId(other as u16);
            let is_alone = device.decoders.encode(other, dpa).is_none();
            let exclusive = region.sharing == Sharing::Exclusive;
            assert_eq!(is_alone, exclusive, "{row:?}\n{text}");
        }
    }
    if plan.changes_capacity() {
        let by_hosts = report.hosts.iter().map(|host| host.denied.unwrap());
        assert_eq!(by_hosts.collect::<Vec<_>>(), counts, "{text}");
        let by_devices = report.devices.iter().map(|one| one.denied.unwrap().total());
        let all = counts.iter().map(Denied::total).sum::<u64>();
        assert_eq!(by_devices.sum::<u64>(), all, "{text}");
    } else {
        assert_eq!(report.requests.denied, None, "{text}");
    }
    assert_threads(&plan, &report.provenance.digest, [2 + seed as usize % 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_host_is_served_what_it_has_and_denied_all_else(seed in 0u64..100_000) {
        check(seed);
    }
}

#[test]
#[ignore = "slow: make test-all"]
fn hosts_of_many_random_systems_are_served_what_they_have() {
    each_seed(100_000..102_000, check);
}

#[test]
fn nobody_loads_released_data_and_no_store_to_what_stays_is_lost() {
    let (mut found, mut zero, mut scrubbed) = (0, 0, 0);
    for seed in 0..150 {
        let plan = plan(&random(seed), &[]);
        if !plan.devices.iter().all(|device| !device.changes.is_empty()) {
            continue;
        }
        let rows = values(&plan, 1);
        let seen = check_values(&plan, &rows);
        found += seen.stored;
        zero += seen.empty;
        scrubbed += seen.scrubs;
    }
    let enough = found > 1000 && zero > 1000 && scrubbed > 1000;
    assert!(enough, "{found} {zero} {scrubbed}");
}
