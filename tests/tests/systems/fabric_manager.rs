//! Commands of the fabric manager while hosts use a pool: when they take effect, what happens to
//! requests in flight and to data, and hosts that join and leave.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use cxlab_device::{CapacityEvent, DeviceChangeKind};
use cxlab_engine::units::Picos;
use cxlab_host::RequestRow;
use cxlab_plan::Plan;
use cxlab_protocol::PortId;
use cxlab_tests::oracle::values;
use cxlab_tests::swarm::Draw;
use cxlab_tests::{THROTTLED, assert_threads, checkpoint, plan, rows, try_run};

const US: u64 = 1_000_000;

/// Two hosts on one device, which is slow enough that requests queue in it.
const POOL: &str = r#"
name = "pool"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "a"
workload = { kind = "uniform", read_ratio = 0.5, footprint = "8 KiB" }
requests = 1500
[[hosts]]
name = "b"
workload = { kind = "uniform", read_ratio = 0.5, footprint = "8 KiB" }
requests = 1500
[[devices]]
name = "d"
capacity = "4 GiB"
logical_devices = 2
memory = { kind = "fixed", latency = "1 us", queue = 32 }
"#;

const OWN: &str = "[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n";
const MOVING: &str = "[[regions]]\nname = \"all\"\nsharing = \"moving\"\ncapacity = \"1 GiB\"\n";

fn event(at_ps: u64, kind: &str, rest: &str) -> String {
    format!("[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\n{rest}\n")
}

fn binding(at_ps: u64, kind: &str, host: &str, rest: &str) -> String {
    event(
        at_ps,
        kind,
        &format!("host = \"{host}\"\ndevice = \"d\"\n{rest}"),
    )
}

fn manager(rest: &str) -> String {
    format!("[fabric_manager]\n{rest}\n")
}

fn of_host(rows: &[RequestRow], host: u16) -> impl Iterator<Item = &RequestRow> + Clone {
    rows.iter().filter(move |row| row.requester == host)
}

#[test]
fn a_managed_unbind_serves_what_was_issued_before_it_and_nothing_else() {
    let text = format!(
        "{POOL}{OWN}{}{}",
        manager("command_time = \"2 us\"\nhost_time = \"1 ms\""),
        binding(5 * US, "unbind", "a", "")
    );
    let (report, rows) = rows(&plan(&text, &[]), 1);
    for row in of_host(&rows, 0) {
        assert_eq!(row.denied, row.issued_ps >= 7 * US, "{row:?}");
    }
    let late = |row: &&RequestRow| row.issued_ps < 7 * US && row.completed_ps > 7 * US + US / 2;
    assert!(of_host(&rows, 0).filter(late).count() > 20, "under way");
    assert!(of_host(&rows, 0).filter(|row| row.denied).count() > 500);
    assert!(of_host(&rows, 1).all(|row| !row.denied));
    let commands: Vec<_> = report.commands.iter().collect();
    let [command] = commands[..] else {
        panic!("{commands:?}")
    };
    let words = [&*command.command, &*command.opcode, &*command.of];
    assert_eq!(words, ["Unbind vPPB", "5202h", "a, d"]);
    assert_eq!((command.issued_ns, command.done_ns), (5e3, Some(1_007e3)));
    assert_eq!(command.response.as_deref(), Some("success"));
}

#[test]
fn a_surprise_denies_what_waits_for_the_medium() {
    let text = |option: &str| {
        let option = format!("option = \"{option}\"");
        format!("{POOL}{OWN}{}", binding(7 * US, "unbind", "a", &option))
    };
    let denied_before = |option| {
        let (_, rows) = rows(&plan(&text(option), &[]), 1);
        for row in of_host(&rows, 0).filter(|row| row.issued_ps >= 7 * US) {
            assert!(row.denied, "{row:?}");
        }
        let before = of_host(&rows, 0).filter(|row| row.issued_ps < 7 * US);
        before.filter(|row| row.denied).count()
    };
    assert!(denied_before("surprise-hot-remove") > 20);
    assert_eq!(denied_before("managed-hot-remove"), 0);
}

#[test]
fn a_host_that_takes_longer_than_it_has_loses_what_is_late() {
    // One request each 3 us, with about 40 before the last of those issued in time.
    let text = format!(
        "{POOL}{OWN}{}{}",
        manager("command_time = \"0 ns\"\nhost_time = \"5 us\""),
        binding(30 * US, "unbind", "a", "")
    );
    let slow = "devices[0].memory={ kind = \"fixed\", latency = \"3 us\", queue = 1 }";
    let (_, rows) = rows(&plan(&text, &[slow, "hosts[0].requests=60"]), 1);
    let before = |denied| {
        of_host(&rows, 0).filter(move |row| row.issued_ps < 30 * US && row.denied == denied)
    };
    assert!(before(false).all(|row| row.completed_ps < 39 * US));
    assert!(before(true).count() > 10);
}

#[test]
fn what_is_bound_again_has_the_data_that_it_had() {
    let events = binding(6 * US, "unbind", "a", "option = \"surprise-hot-remove\"")
        + &binding(12 * US, "bind", "a", "");
    let rows = values(&plan(&format!("{POOL}{OWN}{events}"), &[]), 1);
    let own = of_host(&rows, 0);
    let is_stored = |row: &&RequestRow| row.write && row.completed_ps < 6 * US;
    let stored = own.clone().filter(is_stored);
    let lines: BTreeSet<u64> = stored.map(|row| row.hpa).collect();
    let later = own.clone().filter(|row| row.issued_ps >= 12 * US);
    let again = later.filter(|row| !row.write && lines.contains(&row.hpa));
    assert!(again.clone().count() > 20);
    for row in again {
        assert!(!row.denied && row.value != 0, "{row:?}");
    }
    let mut between = own.filter(|row| (6 * US..10 * US).contains(&row.issued_ps));
    assert!(between.clone().count() > 20);
    assert!(between.all(|row| row.denied && (row.write || row.value == 0)));
}

#[test]
fn a_host_that_is_not_bound_at_first_is_denied_until_it_is() {
    let unbound = manager("command_time = \"1 us\"\nunbound = [{ host = \"b\", device = \"d\" }]");
    let text = format!("{POOL}{OWN}{unbound}");
    let (_, never) = rows(&plan(&text, &[]), 1);
    assert!(of_host(&never, 1).all(|row| row.denied));
    assert!(of_host(&never, 0).all(|row| !row.denied));
    let bind = binding(3 * US, "bind", "b", "");
    let (_, bound) = rows(&plan(&format!("{text}{bind}"), &[]), 1);
    for row in of_host(&bound, 1) {
        assert!(row.denied || row.completed_ps > 4 * US, "{row:?}");
        assert!(!row.denied || row.issued_ps < 4 * US, "{row:?}");
    }
    assert!(of_host(&bound, 1).any(|row| row.denied));
}

#[test]
fn what_a_host_gives_up_is_served_to_the_end_and_scrubbed_before_another_has_it() {
    let times = manager("command_time = \"1 us\"\nhost_time = \"4 us\"\nscrub_time = \"3 us\"");
    let gives_up = "region = \"all\"\nhost = \"a\"\nforced = false";
    let release = event(5 * US, "release", gives_up);
    // Takes effect at 6 us, released at 10 us, scrubbed at 13 us: not a picosecond too early.
    let add = event(12 * US, "add", "region = \"all\"\nhost = \"b\"");
    let text = format!("{POOL}{MOVING}{times}{release}{add}");
    let rows = values(&plan(&text, &["hosts[1].requests=4000"]), 1);
    for row in of_host(&rows, 0) {
        assert_eq!(row.denied, row.issued_ps >= 6 * US, "{row:?}");
    }
    for row in of_host(&rows, 1) {
        assert!(row.denied || row.completed_ps > 13 * US, "{row:?}");
        assert!(!row.denied || row.issued_ps < 13 * US, "{row:?}");
        assert!(row.write || row.value >> 12 != 1, "data of the other");
    }
    let loads = of_host(&rows, 1).filter(|row| !row.write && !row.denied);
    assert!(loads.clone().any(|row| row.value == 0) && loads.count() > 100);
}

#[test]
fn a_host_joins_and_leaves_when_it_says_so() {
    let visit = |from: u64, to: u64| {
        let joins = event(from * US, "host-joins", "host = \"b\"");
        joins + &event(to * US, "host-leaves", "host = \"b\"")
    };
    let set = ["hosts[1].requests=1000000", "hosts[0].requests=3000"];
    let slow = "name = \"b\"\nissue = { outstanding = 1 }\n";
    let alone = format!("{POOL}{OWN}").replace("name = \"b\"\n", slow);
    let run = |events: String| rows(&plan(&format!("{alone}{events}"), &set), 1);
    let (report, found) = run(visit(4, 9));
    let times: Vec<u64> = of_host(&found, 1).map(|row| row.issued_ps).collect();
    assert_eq!(times.iter().min(), Some(&(4 * US)), "at once");
    assert!(times.iter().max() < Some(&(9 * US)));
    // Its last request is served.
    assert!(of_host(&found, 1).all(|row| !row.denied));
    assert_eq!(report.requests.in_flight_at_end, 0);
    let command = report.commands.first().unwrap();
    assert_eq!([&*command.opcode, &*command.of], ["5605h", "own, b"]);
    // While the second host is absent, the first is not affected.
    let (_, quiet) = run(visit(30, 40));
    let before = |rows: &[RequestRow]| -> Vec<_> {
        let own = of_host(rows, 0).filter(|row| row.completed_ps <= 4 * US);
        own.map(|row| (row.id, row.issued_ps, row.completed_ps))
            .collect()
    };
    assert!(before(&quiet).len() > 50);
    assert_eq!(before(&quiet), before(&found));
}

#[test]
fn a_command_to_a_device_that_is_gone_is_not_answered() {
    let events = [
        binding(2 * US, "set-qos", "a", "limit = 64"),
        event(5 * US, "device-removed", "device = \"d\""),
        binding(6 * US, "unbind", "a", "option = \"surprise-hot-remove\""),
    ];
    let text = format!("{POOL}{OWN}{}", events.concat());
    let qos = "devices[0].qos={ bandwidth = \"8 GB/s\" }";
    let report = try_run(&plan(&text, &[qos]), 1).unwrap();
    let commands = report.commands.iter();
    let answers: Vec<_> = commands.filter_map(|one| one.response.as_deref()).collect();
    assert_eq!(answers, ["success", "none, d is gone"]);
}

/// Shares of the hosts of [`THROTTLED`].
const SHARES: &str = "shares = [{ host = \"h0\", allocated = 128 }, { host = \"h1\", allocated = 64 }, \
                      { host = \"h2\", allocated = 64 }]\n";

fn share(at_ps: u64, host: usize, allocated: u16) -> String {
    let rest = format!("host = \"h{host}\"\ndevice = \"pool\"\nallocated = {allocated}");
    event(at_ps, "set-qos", &rest)
}

#[test]
fn shares_that_are_set_at_once_are_those_of_the_scenario() {
    let short = ["measure={ warmup_requests = 0, duration = \"60 us\" }"];
    let set = format!("{THROTTLED}{SHARES}{}{}", share(0, 0, 32), share(0, 1, 160));
    let first = format!("{THROTTLED}{SHARES}");
    let written = first.replace("allocated = 128", "allocated = 32");
    let written = written.replacen("allocated = 64", "allocated = 160", 1);
    let digest = |text: &str| try_run(&plan(text, &short), 1).unwrap().provenance.digest;
    assert_eq!(digest(&set), digest(&written));
    assert_ne!(digest(&first), digest(&written));
}

#[test]
fn throughput_follows_the_shares_that_are_set_later() {
    // The shares of the first and the third host are exchanged. Their sum never exceeds the whole.
    let events = share(50 * US, 0, 16) + &share(50 * US, 2, 176);
    let report = try_run(&plan(&format!("{THROTTLED}{SHARES}{events}"), &[]), 1).unwrap();
    let hosts = report.hosts.iter();
    let rates: Vec<f64> = hosts.map(|host| host.bandwidth_gb_per_s.total).collect();
    let sum: f64 = rates.iter().sum();
    assert!(sum > 0.75 * 8.0, "{rates:?}");
    for (rate, part) in rates.iter().zip([16.0, 64.0, 176.0]) {
        assert!((rate / sum - part / 256.0).abs() < 0.06, "{rates:?}");
    }
}

/// A pool under all commands at once, written in the style of the swarms.
fn busy(seed: u64) -> String {
    let mut draw = Draw::new(seed, "fabric manager");
    let events = [
        binding(3 * US, "unbind", "a", ""),
        event(4 * US, "host-joins", "host = \"b\""),
        event(
            5 * US,
            "release",
            "region = \"all\"\nhost = \"a\"\nforced = false",
        ),
        binding(8 * US, "bind", "a", ""),
        event(9 * US, "add", "region = \"all\"\nhost = \"b\""),
        event(14 * US, "host-leaves", "host = \"b\""),
    ];
    let times = manager(draw.pick(&[
        "command_time = \"0 ns\"\nhost_time = \"2 us\"\nscrub_time = \"1 us\"",
        "command_time = \"700 ns\"\nhost_time = \"3 us\"",
    ]));
    format!("{POOL}{MOVING}{OWN}{times}{}", events.concat())
}

#[test]
fn a_run_goes_on_from_any_time_between_commands_and_on_any_number_of_threads() {
    for seed in 0..6 {
        let plan = plan(&busy(seed), &[]);
        let report = checkpoint::timeless(try_run(&plan, 1).unwrap());
        checkpoint::check(&plan, &report, seed);
        assert_threads(&plan, &report.provenance.digest, 2..4);
    }
}

/// Two hosts with memory of their own, and a pool of eight blocks on two devices.
const BLOCKS: &str = r#"
name = "blocks"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "h"
count = 3
workload = { kind = "uniform", read_ratio = 0.5 }
requests = 1500
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
[[regions]]
name = "own"
capacity = "512 MiB"
[[regions]]
name = "pool"
sharing = "pooled"
capacity = "2 GiB"
"#;

fn demand(at_ps: u64, host: usize, blocks: usize) -> String {
    let rest = format!(
        "host = \"h{host}\"\nregion = \"pool\"\ncapacity = \"{} MiB\"",
        256 * blocks
    );
    event(at_ps, "demand", &rest)
}

/// Sizes of the hosts' memory, in MiB.
fn spans(plan: &Plan) -> Vec<u64> {
    let hosts = plan.hosts.iter();
    hosts.map(|host| host.map.span().0 >> 20).collect()
}

#[test]
fn a_host_has_the_addresses_of_what_it_is_granted_and_is_served_them() {
    let text = format!("{BLOCKS}{}{}", demand(0, 0, 2), demand(4 * US, 1, 7));
    let plan = plan(&text, &[]);
    let (report, rows) = rows(&plan, 1);
    // What is refused has no addresses.
    assert_eq!(spans(&plan), [1024, 512, 512]);
    assert!(rows.iter().all(|row| !row.denied));
    let answers = report.commands.iter().map(|one| {
        let answer = one.response.as_deref().unwrap();
        [&*one.opcode, &*one.of, answer]
    });
    let expected = [
        ["5604h", "pool, h0, 512 MiB", "success"],
        ["5604h", "pool, h1", "resources exhausted"],
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
    let [pool] = &report.pools[..] else {
        panic!("{:?}", report.pools)
    };
    assert_eq!((pool.demands, pool.refused, pool.capacity_gib), (2, 1, 2.0));
    let after = 1.0 - 4e3 / report.extent.sim_time_ns;
    for (found, expected) in [
        (pool.held_gib, 0.5),
        (pool.idle_gib, 0.0),
        (pool.unmet_gib, 1.75 * after),
        (pool.stranded_gib, 1.5 * after),
    ] {
        assert!((found - expected).abs() < 1e-9, "{expected}: {pool:?}");
    }
}

#[test]
fn what_is_given_up_is_scrubbed_before_it_is_granted_again() {
    let times = manager("command_time = \"0 ns\"\nhost_time = \"2 us\"\nscrub_time = \"3 us\"");
    let first = demand(0, 0, 8) + &demand(4 * US, 0, 0);
    for (at, granted) in [(9 * US - 1, false), (9 * US, true)] {
        let text = format!("{BLOCKS}{times}{first}{}", demand(at, 1, 8));
        let plan = plan(&text, &[]);
        assert_eq!(plan.pools[0].demands[2].1, granted);
        for row in rows(&plan, 1).1.iter().filter(|row| row.requester == 0) {
            let in_pool = row.hpa >= 512 << 20;
            assert_eq!(row.denied, in_pool && row.issued_ps >= 4 * US, "{row:?}");
        }
    }
}

/// An event that gives a logical device this many blocks of the pool on a device.
fn allocation(at_ps: u64, host: usize, device: &str, blocks: usize) -> String {
    let rest = format!(
        "host = \"h{host}\"\ndevice = \"{device}\"\nregion = \"pool\"\ncapacity = \"{} MiB\"",
        256 * blocks
    );
    event(at_ps, "set-ld-allocations", &rest)
}

#[test]
fn a_logical_device_grows_and_shrinks_on_its_device() {
    // Four blocks on each device. Commands take effect 1 us later, and memory
    // is scrubbed 2 us after that.
    let times = manager("command_time = \"1 us\"\nscrub_time = \"2 us\"");
    let events = [
        allocation(0, 0, "d1", 3),
        allocation(US, 1, "d1", 2),
        allocation(2 * US, 0, "d1", 1),
        allocation(4 * US - 1, 1, "d1", 2),
        allocation(4 * US, 1, "d1", 3),
        allocation(5 * US, 2, "d0", 4),
    ];
    let text = format!("{BLOCKS}{times}{}", events.concat());
    let plan = plan(&text, &["devices[0].logical_devices=3"]);
    let rows = values(&plan, 1);
    let (report, _) = cxlab_tests::rows(&plan, 1);
    let answers = report.commands.iter().map(|one| {
        assert_eq!(one.opcode, "5402h");
        one.response.clone().unwrap()
    });
    let [yes, no] = ["success", "resources exhausted"];
    assert_eq!(answers.collect::<Vec<_>>(), [yes, no, yes, no, yes, yes]);
    assert_eq!(spans(&plan), [512 + 768, 512 + 768, 512 + 1024]);
    // The first host keeps the first block that it was granted, and loses the others at once.
    let own = |host| of_host(&rows, host).filter(|row| row.hpa >= 512 << 20);
    let lost = |row: &&RequestRow| row.hpa >= (512 + 256) << 20;
    let mut kept = own(0).filter(|row| !lost(row));
    assert!(kept.all(|row| !row.denied || row.issued_ps < US));
    let late = |row: &&RequestRow| row.issued_ps >= 3 * US;
    assert!(own(0).filter(lost).filter(late).all(|row| row.denied));
    assert!(own(0).filter(lost).any(|row| !row.denied));
    let mut later = own(1).filter(|row| row.issued_ps >= 5 * US);
    assert!(later.all(|row| !row.denied));
    rows.iter().for_each(check_value);
    check_extents(&plan);
}

/// No host loads the values of another.
fn check_value(row: &RequestRow) {
    let own = row.value == 0 || row.value >> 12 == row.requester + 1;
    assert!(row.write || own, "{row:?}");
}

/// A pool of any size under random demands, with a policy.
fn pooled(seed: u64, policy: &str) -> String {
    let mut draw = Draw::new(seed, "pooled");
    let (hosts, devices) = (draw.between(1, 4), draw.between(1, 3));
    draw.line("name = \"pooled\"\n[fabric]\ntopology = { kind = \"chain\", switches = 1 }");
    for host in 0..hosts {
        // The first lines of the first block, which hosts use one after the other.
        let footprint = draw.pick(&["", ", footprint = \"8 KiB\""]);
        draw.line(format!(
            "[[hosts]]\nname = \"h{host}\"\nrequests = 300\nissue = {{ outstanding = 8 }}\n\
             workload = {{ kind = \"uniform\", read_ratio = 0.5{footprint} }}"
        ));
    }
    let blocks = devices * draw.between(1, 3);
    let medium = draw.pick(&[
        "{ kind = \"fixed\" }",
        "{ kind = \"fixed\", latency = \"1 us\", queue = 4 }",
    ]);
    draw.line(format!(
        "[[devices]]\nname = \"d\"\ncount = {devices}\nlogical_devices = 16\nmemory = {medium}\n[[regions]]\nname = \"pool\"\n\
         sharing = \"pooled\"\ncapacity = \"{} MiB\"\n[[regions]]\nname = \"own\"\ncapacity = \"{} MiB\"",
        256 * blocks,
        256 * devices
    ));
    let times = ["0 ns", "1 ps", "200 ns", "1 us"];
    let [command, host, scrub] = [0, 1, 2].map(|_| draw.pick(&times));
    draw.line(manager(&format!(
        "command_time = \"{command}\"\nhost_time = \"{host}\"\nscrub_time = \"{scrub}\"\npolicy = {{ kind = \"{policy}\" }}"
    )));
    let mut at = 0;
    for _ in 0..draw.between(1, 14) {
        at += [0, 300_000, 800_000][draw.below(3)] as u64;
        let host = draw.below(hosts);
        if draw.one_in(3) {
            let (device, needs) = (draw.below(devices), draw.below(blocks / devices + 1));
            let device = match devices {
                1 => "d".to_owned(),
                _ => format!("d{device}"),
            };
            draw.line(allocation(at, host, &device, needs));
            continue;
        }
        let needs = draw.below(blocks + 1);
        draw.line(demand(at, host, needs));
    }
    draw.text
}

/// Follows a device's events: each extent belongs to one host at a time, and
/// is scrubbed before it changes hosts.
fn check_extents(plan: &Plan) -> usize {
    let mut scrubs = 0;
    for device in &plan.devices {
        let mut owners: BTreeMap<u64, (PortId, Picos)> = BTreeMap::new();
        let mut clean: BTreeMap<u64, Picos> = BTreeMap::new();
        for change in &device.changes {
            let DeviceChangeKind::Capacity(capacity) = change.kind else {
                continue;
            };
            let (first, host) = (capacity.decoder.first.0, capacity.host);
            match capacity.event {
                CapacityEvent::Add => {
                    let since = (host, change.at);
                    assert_eq!(owners.insert(first, since), None, "{change:?}");
                    let scrubbed = clean.get(&first).copied().unwrap_or(Picos::ZERO);
                    assert!(scrubbed < Picos(u64::MAX), "not scrubbed: {change:?}");
                }
                CapacityEvent::Leave => assert!(owners.contains_key(&first)),
                CapacityEvent::Release => {
                    // At the beginning no host has the memory that it gets later.
                    let had = owners.remove(&first);
                    assert!(had.is_none_or(|(one, _)| one == host), "{change:?}");
                    if had.is_some() {
                        clean.insert(first, Picos(u64::MAX));
                    }
                }
                CapacityEvent::Scrub => {
                    assert!(!owners.contains_key(&first), "{change:?}");
                    clean.insert(first, change.at);
                    scrubs += 1;
                }
            }
        }
    }
    scrubs
}

#[test]
fn every_policy_isolates_hosts_and_every_request_ends() {
    for entry in cxlab_fabric::manager::CATALOG {
        let (mut own, mut empty, mut scrubs, mut refused) = (0, 0, 0, 0);
        for seed in 0..40 {
            let plan = plan(&pooled(seed, entry.name), &[]);
            scrubs += check_extents(&plan);
            let pool = &plan.pools[0];
            refused += pool.demands.iter().filter(|(_, met)| !met).count();
            for (_, sample) in &pool.samples {
                assert!(sample.held + sample.free <= pool.total, "{sample:?}");
                assert_eq!(sample.held + sample.unmet, sample.needed + sample.idle);
            }
            let rows = values(&plan, 1 + seed as usize % 3);
            assert_eq!(rows.len(), 300 * plan.hosts.len(), "every request ends");
            for row in rows.iter().filter(|row| !row.write) {
                assert!(!row.denied || row.value == 0);
                check_value(row);
                own += usize::from(row.value != 0);
                empty += usize::from(row.value == 0);
            }
            let digest = |threads| try_run(&plan, threads).unwrap().provenance.digest;
            assert_eq!(digest(1), digest(2 + seed as usize % 2));
        }
        let enough = own > 500 && empty > 500 && scrubs > 50 && refused > 10;
        let name = entry.name;
        assert!(enough, "{name}: {own} {empty} {scrubs} {refused}");
    }
}
