//! A swarm of small random systems. Each is drawn from a seed as the text of a scenario, run until
//! nothing is left to do, and checked against invariants of every system.
//!
//! A failure prints the command that replays it, and the scenario. A seed gives
//! the same random system on every machine.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use cxlab_device::WriteCompletion;
use cxlab_engine::units::{Hpa, Picos};
use cxlab_host::{RequestRow, STAGE_NAMES};
use cxlab_link::Transmission;
use cxlab_plan::{End, Plan, PlannedLink};
use cxlab_protocol::flit::FlitFormat;
use cxlab_system::report::Report;
use cxlab_tests::checkpoint::timeless;
use cxlab_tests::run_down;
use cxlab_tests::swarm::{
    self, Draw, LinkRules, Swarm, assert_every_topology, check_drained, links, shape,
};
use cxlab_tests::turns::most_sent_past_a_head;

fn workload(draw: &mut Draw) -> String {
    let kind = draw.pick(&[
        "uniform",
        "uniform",
        "stream",
        "stride",
        "hot-cold",
        "pointer-chase",
    ]);
    let mut text = format!("{{ kind = \"{kind}\"");
    if kind == "stride" || draw.one_in(2) {
        let footprint = draw.pick(&["64 KiB", "1 MiB", "64 MiB"]);
        text += &format!(", footprint = \"{footprint}\"");
    }
    if kind == "stride" {
        text += &format!(", stride = \"{}\"", draw.pick(&["128 B", "4 KiB", "448 B"]));
    }
    if draw.one_in(3) {
        let offset = draw.pick(&["64 B", "1 MiB", "100 MiB"]);
        text += &format!(", offset = \"{offset}\"");
    }
    let ratio = draw.pick(&["1.0", "0.0", "0.5", "0.8"]);
    text += &format!(", read_ratio = {ratio}");
    text += &format!(", mix = \"{}\"", draw.pick(&["random", "regular"]));
    if draw.one_in(2) {
        text += ", private = true";
    }
    text + " }"
}

fn host(draw: &mut Draw, number: usize, alone: bool) {
    draw.line(format!("\n[[hosts]]\nname = \"h{number}\""));
    let workload = workload(draw);
    draw.line(format!("workload = {workload}"));
    let requests = draw.between(1, 120);
    draw.line(format!("requests = {requests}\n[hosts.issue]"));
    if alone {
        draw.line("outstanding = 1");
        return;
    }
    draw.maybe_number("outstanding", &["1", "2", "3", "9", "300"]);
    draw.maybe_number("queue", &["1", "2", "5"]);
    draw.maybe("process_time", &["0 ns", "10 ns", "33 ps"]);
    if draw.one_in(4) {
        draw.line("rate = \"1 GB/s\"");
    } else {
        draw.maybe("issue_interval", &["0 ns", "1 ps", "3 ns", "150 ns"]);
    }
    if draw.one_in(4) {
        let cache = draw.pick(&[
            "64 B\", ways = 1",
            "1 KiB\", ways = 2",
            "4 KiB\", ways = 64",
        ]);
        let time = draw.pick(&["0 ns", "1 ps", "12 ns"]);
        draw.line(format!(
            "cache = {{ size = \"{cache}, access_time = \"{time}\" }}"
        ));
    } else if draw.one_in(4) {
        let after = draw.pick(&["1", "2", "9"]);
        let beyond = draw.pick(&["1", "5", "64"]);
        let within = draw.pick(&["128 B", "4 KiB", "1 MiB"]);
        draw.line(format!(
            "overfetch = {{ after = {after}, beyond = {beyond}, within = \"{within}\" }}"
        ));
    }
}

fn device(draw: &mut Draw, number: usize, capacity: &str, alone: bool) {
    draw.line(format!(
        "\n[[devices]]\nname = \"d{number}\"\ncapacity = \"{capacity}\""
    ));
    let mut memory = "{ kind = \"fixed\"".to_owned();
    for (key, values) in [
        ("latency", ["0 ns", "1 ps", "46 ns", "3 us"]),
        ("write_latency", ["0 ns", "5 ns", "900 ns", "46 ns"]),
        ("bandwidth", ["500 MB/s", "10 GB/s", "38.4 GB/s", "1 TB/s"]),
        ("banks", ["1", "2", "7", "64"]),
        ("bank_cycle", ["0 ns", "1 ns", "45 ns", "300 ns"]),
        ("queue", ["1", "2", "5", "64"]),
    ] {
        let waits = matches!(key, "bandwidth" | "bank_cycle");
        if !(alone && waits) {
            swarm::key(draw, &mut memory, 2, key, &values);
        }
    }
    draw.line(format!("memory = {memory} }}\n[devices.controller]"));
    draw.maybe("process_time", &["0 ns", "1 ps", "40 ns"]);
    match alone {
        // An accepted write would still be in the media when the next request arrives.
        true => draw.line("write_completion = \"written\""),
        false => draw.maybe("write_completion", &["accepted", "written"]),
    }
    draw.maybe_number("contexts", &["1", "2", "7", "64"]);
}

/// Draws the scenario of a seed.
fn scenario(seed: u64) -> String {
    let alone = seed % 8 == 7;
    let mut draw = Draw::new(seed, "swarm");
    if alone {
        draw.line("# alone: one request at a time");
    }
    let hosts = if alone { 1 } else { draw.between(1, 4) };
    let devices = draw.between(1, 4);
    let shape = shape(&mut draw, hosts, devices);
    draw.line(format!("name = \"swarm-{seed}\"\nseed = {}", seed % 1000));
    if !shape.direct && draw.one_in(3) {
        let granularity = draw.pick(&["256 B", "1 KiB", "16 KiB"]);
        draw.line(format!(
            "\n[address_map]\ngranularity = \"{granularity}\"\nways = 1"
        ));
    }
    shape.write(&mut draw);
    let rules = LinkRules {
        half: shape.acyclic && !alone,
        errors: !alone,
        snoops: false,
        pbr: shape.has_pbr_links(),
    };
    links(&mut draw, rules);
    (0..shape.hosts).for_each(|number| host(&mut draw, number, alone));
    let capacity = draw.pick(&["256 MiB", "16 GiB"]);
    for number in 0..shape.devices {
        let other = draw.one_in(8);
        let capacity = if other { "512 MiB" } else { capacity };
        device(&mut draw, number, capacity, alone);
    }
    // Edge links of the fabric that may have PBR flits.
    if shape.has_pbr_links() && !draw.text.contains("[fabric.edge_link]") && draw.one_in(2) {
        let g_fam = "[[devices]]\ng_fam = true\n";
        return draw.text.replace("[[devices]]\n", g_fam);
    }
    draw.text
}

/// Time of a single message on a link, in picoseconds. It is computed here from the rate and the
/// format, not by the transmitter, apart from its resolution of 2^-16 ps.
fn serialization(link: &PlannedLink, data: bool) -> u64 {
    let params = serde_json::to_value(&link.params).unwrap();
    let is = |key: &str, value: &str| params[key].as_str() == Some(value);
    let fixed = |bytes: u64| {
        let rate = u128::from(link.params.rate().0);
        (u128::from(bytes) * (1_000_000_000_000 << 16)).div_ceil(rate) as u64
    };
    let packet = link.params.packet;
    let old = ["3", "4", "5"].iter().any(|old| is("generation", old));
    let usual = if old { "68B" } else { "256B" };
    let time = match params["flit"].as_str().unwrap_or(usual) {
        _ if is("transmission", "packet") && data => fixed(packet.data_header.0 + 64),
        _ if is("transmission", "packet") => fixed(packet.header.0),
        // The header and three quarters of the line, then a flit with the rest.
        "68B" => fixed(68) * if data { 2 } else { 1 },
        "256B" | "256B-pbr" => fixed(256),
        // Header and line fit into the first half.
        _ => fixed(256) / 2,
    };
    time >> 16
}

/// Time of a link's forward error correction. By default it is that of a standard 256 B flit.
fn correction(link: &PlannedLink) -> u64 {
    let params = serde_json::to_value(&link.params).unwrap();
    let is = |key: &str, values: &[&str]| {
        let value = params[key].as_str();
        value.is_some_and(|value| values.contains(&value))
    };
    let standard = match params["flit"].as_str() {
        Some(flit) => ["256B", "256B-pbr"].contains(&flit),
        None => is("generation", &["6", "7"]),
    };
    match link.params.fec_delay {
        Some(said) => said.0,
        None if standard && !is("transmission", &["packet"]) => 2_000,
        None => 0,
    }
}

/// Stages of a request that meets no other, computed from the plan's parameters, and the number
/// of links of its return path.
struct Idle {
    stages: [u64; STAGE_NAMES.len()],
    hops: u16,
}

impl Idle {
    fn of(plan: &Plan, host: usize, device: usize, write: bool) -> Idle {
        let number = plan.hosts.len() + device;
        let hops = |from, to| plan.tables.hops(from, to).expect("the device is reached");
        // Up*/down* paths may be longer in one direction than in the other.
        let (there, back) = (hops(host, number), hops(number, host));
        let with = |is: &dyn Fn(End, End) -> bool| {
            let found = plan.links.iter().find(|link| is(link.a, link.b));
            found.expect("the path's links exist")
        };
        let path = |hops: u32| -> Vec<&PlannedLink> {
            if hops == 1 {
                return vec![with(
                    &|a, b| matches!((a, b), (End::Host(a, _), End::Device(b, _)) if a == host && b == device),
                )];
            }
            let inner = (2..hops).map(|_| with(&|a, _| matches!(a, End::Switch(..))));
            std::iter::once(with(&|a, _| a == End::Host(host, 0)))
                .chain(inner)
                .chain([with(&|a, _| a == End::Device(device, 0))])
                .collect()
        };
        let group = &plan.scenario.hosts[plan.hosts[host].group];
        let issue = group.requester().cloned().unwrap_or_default();
        let group = plan
            .memory_group(&plan.devices[device])
            .expect("a Type 3 device");
        let time = |key: &str| {
            let text = group.memory.params.get(key)?.as_str()?;
            Some(text.parse::<Picos>().unwrap().0)
        };
        let read = time("latency").unwrap_or(46_000);
        let wire = |hops: u32, data: bool| -> u64 {
            let time = |link: &&PlannedLink| {
                let params = &link.params;
                let retimers = u64::from(params.retimers) * params.retimer_delay.0;
                params.propagation.0 + retimers + serialization(link, data)
            };
            path(hops).iter().map(time).sum()
        };
        let switches = u64::from(there - 1) + u64::from(back - 1);
        let delays = |hops: u32| -> u64 {
            let links = path(hops);
            let time = |link: &&PlannedLink| 2 * link.params.port_delay.0 + correction(link);
            links.iter().map(time).sum()
        };
        let switching = plan.scenario.fabric.switch.switching_time.0;
        let access = issue.cache.as_ref().map_or(0, |cache| cache.access_time.0);
        let stage = |name: &str| match name {
            "process" => issue.process_time.0,
            "cache" => access,
            "link" => wire(there, write) + wire(back, !write),
            "port" => delays(there) + delays(back),
            "switch" => switches * switching,
            "device" => group.controller.process_time.0,
            "media" if write => match group.controller.write_completion {
                WriteCompletion::Accepted => 0,
                WriteCompletion::Written => time("write_latency").unwrap_or(read),
            },
            "media" => read,
            _ => 0,
        };
        Idle {
            stages: STAGE_NAMES.map(stage),
            hops: back as u16,
        }
    }
}

/// Compares a request with the path that it must have taken.
fn check_row(plan: &Plan, row: &RequestRow, alone: bool) {
    let latency = row.completed_ps - row.issued_ps;
    let sum: u64 = row.stages.iter().sum();
    assert_eq!(sum, latency, "stages sum to the latency: {row:?}");
    let host = row.requester as usize;
    if row.device == u16::MAX {
        let group = &plan.scenario.hosts[plan.hosts[host].group];
        let issue = group.requester().cloned().unwrap_or_default();
        let cache = issue.cache.as_ref().expect("only a cache hits");
        let access = cache.access_time.0;
        assert_eq!((latency, row.stages[1]), (access, access), "{row:?}");
        return;
    }
    let owner = plan.hosts[host].map.locate(Hpa(row.hpa));
    let owner = usize::from(owner.expect("the address is mapped").0.0);
    let device = plan.hosts.len() + usize::from(row.device);
    assert_eq!(owner, device, "{row:?}");
    let idle = Idle::of(plan, host, row.device as usize, row.write);
    assert_eq!(row.hops, idle.hops, "{row:?}");
    for (stage, name) in STAGE_NAMES.iter().enumerate() {
        let (found, least) = (row.stages[stage], idle.stages[stage]);
        if alone || matches!(*name, "process" | "cache" | "port" | "switch" | "device") {
            assert_eq!(found, least, "{name} of {row:?}");
        } else {
            assert!(found >= least, "{name}: {found}, alone {least}: {row:?}");
        }
    }
}

/// Checks that nothing is lost or duplicated: hosts, devices and links count the same lines.
fn check_counts(plan: &Plan, report: &Report) {
    for (host, planned) in report.hosts.iter().zip(&plan.hosts) {
        let wanted = plan.scenario.hosts[planned.group].requests.unwrap();
        let found = [host.issued, host.completed];
        assert_eq!(found, [wanted; 2], "requests of {}", host.name);
    }
    let requests = &report.requests;
    let (mut reads, mut writes) = (0, 0);
    for device in &report.devices {
        (reads, writes) = (reads + device.reads, writes + device.writes);
        let name = &device.name;
        let payload = |direction: String| {
            let links = report.links.iter();
            let links = links.filter(|link| link.direction == direction);
            links.map(|link| link.payload_bytes).sum::<u64>()
        };
        let from = format!("{name}->");
        let links = report.links.iter();
        let near = links.filter_map(|link| link.direction.strip_prefix(&from));
        let [near] = near.collect::<Vec<_>>()[..] else {
            panic!("{name} has one link")
        };
        let lines = [format!("{name}->{near}"), format!("{near}->{name}")].map(payload);
        assert_eq!(lines, [64 * device.reads, 64 * device.writes], "{name}");
    }
    let missed = requests.completed - requests.cache_hits;
    let lines = missed + requests.writebacks + requests.overfetched;
    assert_eq!(reads + writes, lines, "lines at hosts and devices");
    for link in &report.links {
        assert!(link.bytes >= link.payload_bytes, "{link:?}");
        assert!(link.utilization <= 1.0, "{link:?}");
    }
}

/// Checks the order of requests of one host to one device that take the same path, if the media
/// have no busy banks: no request overtakes another of its kind.
fn check_order(plan: &Plan, rows: &[RequestRow]) {
    let in_order = |row: &&RequestRow| {
        let device = plan.devices.get(usize::from(row.device));
        let group = device.and_then(|device| plan.memory_group(device));
        group.is_some_and(|group| !group.memory.params.contains_key("bank_cycle"))
    };
    let mut last: BTreeMap<(u16, u16, bool), &RequestRow> = BTreeMap::new();
    let mut sent: Vec<&RequestRow> = rows.iter().filter(in_order).collect();
    sent.sort_by_key(|row| row.id);
    for row in sent {
        let before = last.insert((row.requester, row.device, row.write), row);
        let overtaken = before.filter(|before| before.completed_ps > row.completed_ps);
        assert!(overtaken.is_none(), "{row:?} overtook {overtaken:?}");
    }
}

fn check(seed: u64, text: &str) {
    let plan = cxlab_tests::plan(text, &[]);
    let alone = text.contains("# alone");
    let (report, rows) = cxlab_tests::rows(&plan, 1);
    let report = timeless(report);
    check_counts(&plan, &report);
    let count = rows.len() as u64;
    assert_eq!(count, report.requests.completed, "a row for each request");
    // On a 68 B link a request may meet the control flit of credits.
    let is_old = |link: &PlannedLink| {
        link.params.transmission == Transmission::Flit
            && link.params.flit_format() == FlitFormat::B68
    };
    let alone = alone && !plan.links.iter().any(is_old);
    rows.iter().for_each(|row| check_row(&plan, row, alone));
    let (mut system, digest) = run_down(&plan);
    assert_eq!(
        digest, report.provenance.digest,
        "a run in pieces is the run in one"
    );
    check_drained(&plan, &mut system);
    if plan.scenario.fabric.routing.0.keeps_order() {
        check_order(&plan, &rows);
    }
    if !text.contains("arbitration = \"age\"") {
        let most = most_sent_past_a_head(&plan);
        assert!(most <= 1, "a message waits for {most} of another input");
    }
    for threads in [2, 3] {
        let other = cxlab_tests::try_run(&plan, threads);
        let other = other.unwrap_or_else(|error| panic!("{threads} threads: {error}"));
        assert_eq!(timeless(other), report, "{threads} threads, seed {seed}");
    }
    cxlab_tests::checkpoint::check(&plan, &report, seed);
}

const SWARM: Swarm<'_> = Swarm {
    module: "systems",
    scenario,
};

#[test]
fn two_hundred_random_systems_obey_the_laws() {
    SWARM.run("two_hundred_random_systems_obey_the_laws", 0..200, check);
}

#[test]
#[ignore = "takes minutes; `make test-all` runs it"]
fn two_thousand_more_random_systems_obey_the_laws() {
    let test = "two_thousand_more_random_systems_obey_the_laws";
    SWARM.run(test, 200..2200, check);
}

#[test]
fn the_swarm_draws_every_kind_of_system() {
    let all: String = (0..200).map(scenario).collect();
    for word in [
        "# alone",
        "single-vcs",
        "multiple-vcs",
        "half",
        "packet",
        "68B",
        "256B-latency-optimized",
        "flit_error_rate",
        "m2s_rwd = 1,",
        "age",
        "adaptive",
        "oblivious",
        "random",
        "cache",
        "pointer-chase",
        "stride",
        "hot-cold",
        "contexts = 1",
        "edge_link",
        "ways = 1",
    ] {
        assert!(all.contains(word), "no system has `{word}`");
    }
    assert_every_topology(&all);
}
