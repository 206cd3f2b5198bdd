//! A swarm of small random systems: each is drawn from a seed as the text of a scenario, run until
//! nothing is left to do, and held against what must be true of every system.
//!
//! A failure prints the command that replays it and the scenario. The drawing uses only the
//! engine's random stream, so a seed means the same system on every machine.
#![allow(clippy::unwrap_used)]

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, Picos, SimTime};
use cxlab_engine::{Monitor, Stop};
use cxlab_host::{RequestRow, STAGE_NAMES};
use cxlab_system::plan::{End, Plan, PlannedLink};
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};
use cxlab_system::system::{Node, Notes, System};

/// Draws one system.
struct Draw {
    rng: StreamRng,
    text: String,
    /// One request at a time, and nothing random on its way: its latency is known exactly.
    alone: bool,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// `key = "value"` from some values; half of the time the default.
    fn maybe(&mut self, key: &str, values: &[&str]) {
        if self.one_in(2) {
            let value = self.pick(values);
            self.line(format!("{key} = \"{value}\""));
        }
    }

    fn maybe_number(&mut self, key: &str, values: &[&str]) {
        if self.one_in(2) {
            let value = self.pick(values);
            self.line(format!("{key} = {value}"));
        }
    }
}

/// What the parts of a scenario have to know of each other.
struct Shape {
    kind: &'static str,
    topology: String,
    bindings: Vec<(usize, usize)>,
    hosts: usize,
    devices: usize,
    /// One virtual channel suffices whatever the routing.
    acyclic: bool,
    direct: bool,
}

fn shape(draw: &mut Draw) -> Shape {
    let hosts = if draw.alone { 1 } else { draw.between(1, 4) };
    let devices = draw.between(1, 4);
    let mut shape = Shape {
        kind: "pbr",
        topology: String::new(),
        bindings: Vec::new(),
        hosts,
        devices,
        acyclic: false,
        direct: false,
    };
    let placement = draw.pick(&["split", "paired"]);
    let placement = format!("placement = \"{placement}\"");
    match draw.below(14) {
        0 => {
            shape.devices = hosts * draw.between(1, 3);
            (shape.acyclic, shape.direct) = (true, true);
            shape.topology = "{ kind = \"direct\" }".into();
        }
        1 => {
            let switches = draw.between(1, 5);
            shape.acyclic = true;
            shape.topology = format!("{{ kind = \"chain\", switches = {switches}, {placement} }}");
        }
        2 => {
            let (arity, leaves) = (draw.between(2, 3), draw.between(2, 6));
            shape.acyclic = true;
            shape.topology =
                format!("{{ kind = \"tree\", arity = {arity}, leaves = {leaves}, {placement} }}");
        }
        3 => {
            let switches = draw.between(3, 7);
            shape.topology = format!("{{ kind = \"ring\", switches = {switches}, {placement} }}");
        }
        4 => {
            let dimensions = draw.pick(&["[1, 3]", "[2, 2]", "[3, 2]", "[3, 3]", "[2, 2, 2]"]);
            shape.topology =
                format!("{{ kind = \"mesh\", dimensions = {dimensions}, {placement} }}");
        }
        5 => {
            let dimensions = draw.pick(&["[3, 1]", "[3, 3]", "[4, 2]", "[5, 3]", "[3, 2, 2]"]);
            shape.topology =
                format!("{{ kind = \"torus\", dimensions = {dimensions}, {placement} }}");
        }
        6 => {
            let (leaves, spines) = (draw.between(1, 4), draw.between(1, 3));
            shape.acyclic = true;
            shape.topology = format!(
                "{{ kind = \"spine-leaf\", leaves = {leaves}, spines = {spines}, {placement} }}"
            );
        }
        7 => {
            let switches = draw.between(1, 5);
            shape.topology =
                format!("{{ kind = \"fully-connected\", switches = {switches}, {placement} }}");
        }
        8 => {
            let (routers, global) = (draw.between(1, 3), draw.between(1, 2));
            let groups = draw.between(2, (routers * global + 1).min(4));
            shape.topology = format!(
                "{{ kind = \"dragonfly\", groups = {groups}, routers_per_group = {routers}, \
                 global_links = {global}, {placement} }}"
            );
        }
        9..=11 => custom(draw, &mut shape),
        12 => {
            shape.kind = "single-vcs";
            shape.hosts = 1;
            custom_tree(draw, &mut shape);
        }
        _ => {
            shape.kind = "multiple-vcs";
            shape.devices = hosts + draw.below(3);
            several_trees(draw, &mut shape);
        }
    }
    shape
}

/// Switches in a random tree, with further links between any two (twice the same, too) at random.
fn custom(draw: &mut Draw, shape: &mut Shape) {
    let switches = draw.between(1, 6);
    let mut links: Vec<(String, String)> = (1..switches)
        .map(|switch| (format!("s{}", draw.below(switch)), format!("s{switch}")))
        .collect();
    let extra = if switches > 1 { draw.below(5) } else { 0 };
    for _ in 0..extra {
        let a = draw.below(switches);
        let b = (a + draw.between(1, switches - 1)) % switches;
        links.push((format!("s{a}"), format!("s{b}")));
    }
    shape.acyclic = extra == 0;
    attach(draw, shape, switches, links);
}

fn custom_tree(draw: &mut Draw, shape: &mut Shape) {
    let switches = draw.between(1, 5);
    let links = (1..switches)
        .map(|switch| (format!("s{}", draw.below(switch)), format!("s{switch}")))
        .collect();
    shape.acyclic = true;
    attach(draw, shape, switches, links);
}

fn attach(draw: &mut Draw, shape: &mut Shape, switches: usize, mut links: Vec<(String, String)>) {
    for host in 0..shape.hosts {
        links.push((format!("h{host}"), format!("s{}", draw.below(switches))));
    }
    for device in 0..shape.devices {
        links.push((format!("d{device}"), format!("s{}", draw.below(switches))));
    }
    write_custom(shape, switches, &links);
}

/// All hosts at one switch; below it, switches that each belong to one host.
fn several_trees(draw: &mut Draw, shape: &mut Shape) {
    let mut links: Vec<(String, String)> = (0..shape.hosts)
        .map(|host| (format!("h{host}"), "s0".to_owned()))
        .collect();
    let mut switches = 1;
    for device in 0..shape.devices {
        let owner = if device < shape.hosts {
            device
        } else {
            draw.below(shape.hosts)
        };
        shape.bindings.push((device, owner));
        let mut parent = 0;
        for _ in 0..draw.below(3) {
            links.push((format!("s{parent}"), format!("s{switches}")));
            parent = switches;
            switches += 1;
        }
        links.push((format!("d{device}"), format!("s{parent}")));
    }
    shape.acyclic = true;
    write_custom(shape, switches, &links);
}

fn write_custom(shape: &mut Shape, switches: usize, links: &[(String, String)]) {
    let names: Vec<String> = (0..switches)
        .map(|switch| format!("\"s{switch}\""))
        .collect();
    let links: Vec<String> = links
        .iter()
        .map(|(a, b)| format!("[\"{a}\", \"{b}\"]"))
        .collect();
    shape.topology = format!(
        "{{ kind = \"custom\", switches = [{}], links = [{}] }}",
        names.join(", "),
        links.join(", ")
    );
}

fn link(draw: &mut Draw, table: &str, half_allowed: bool) {
    draw.line(format!("\n[{table}]"));
    let half = half_allowed && !draw.alone && draw.one_in(5);
    let packet = half || draw.one_in(3);
    let generation = draw.between(3, 7);
    draw.line(format!("generation = \"{generation}\""));
    draw.maybe_number("lanes", &["1", "2", "4", "8", "16"]);
    if draw.one_in(4) {
        draw.maybe(
            "bandwidth",
            &["1 GB/s", "7.3 GB/s", "33.333 GB/s", "1 TB/s"],
        );
    }
    if packet {
        draw.line("transmission = \"packet\"");
        let header = draw.pick(&["0 B", "1 B", "16 B", "64 B"]);
        let data_header = draw.pick(&["0 B", "7 B", "16 B"]);
        draw.line(format!(
            "packet = {{ header = \"{header}\", data_header = \"{data_header}\" }}"
        ));
    } else if generation <= 5 {
        draw.maybe("flit", &["68B", "256B", "256B-latency-optimized"]);
    } else {
        draw.maybe("flit", &["256B", "256B-latency-optimized"]);
    }
    if half {
        draw.line("duplex = \"half\"");
        draw.maybe("turnaround", &["0 ps", "1 ns", "37 ns"]);
        draw.maybe_number("turnaround_burst", &["1", "2", "100"]);
    }
    draw.maybe("propagation", &["500 ps", "3 ns", "101 ns"]);
    draw.maybe("port_delay", &["1 ns", "7 ns", "25 ns"]);
    if !draw.alone && draw.one_in(3) {
        draw.line("replay_buffer_flits = 65535");
        let rate = draw.pick(&["0.001", "0.02", "0.1"]);
        draw.line(format!("flit_error_rate = {rate}"));
    }
    if draw.one_in(3) {
        return;
    }
    let sizes: &[&str] = match draw.below(3) {
        0 => &["1"],
        1 => &["1", "2", "3", "7"],
        _ => &["1", "2", "9", "40", "255"],
    };
    let classes = ["m2s_req", "m2s_rwd", "s2m_ndr", "s2m_drs"];
    let credits = classes.map(|class| format!("{class} = {}", draw.pick(sizes)));
    draw.line(format!("credits = {{ {} }}", credits.join(", ")));
}

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
        text += &format!(
            ", offset = \"{}\"",
            draw.pick(&["64 B", "1 MiB", "100 MiB"])
        );
    }
    text += &format!(
        ", read_ratio = {}",
        draw.pick(&["1.0", "0.0", "0.5", "0.8"])
    );
    text += &format!(", mix = \"{}\"", draw.pick(&["random", "regular"]));
    if draw.one_in(2) {
        text += ", private = true";
    }
    text + " }"
}

fn host(draw: &mut Draw, number: usize) {
    draw.line(format!("\n[[hosts]]\nname = \"h{number}\""));
    let workload = workload(draw);
    draw.line(format!("workload = {workload}"));
    let requests = draw.between(1, 120);
    draw.line(format!("requests = {requests}\n[hosts.issue]"));
    if draw.alone {
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
    }
}

fn device(draw: &mut Draw, number: usize, capacity: &str) {
    draw.line(format!(
        "\n[[devices]]\nname = \"d{number}\"\ncapacity = \"{capacity}\""
    ));
    let mut memory = "{ kind = \"fixed\"".to_owned();
    for (key, values) in [
        ("latency", ["\"0 ns\"", "\"1 ps\"", "\"46 ns\"", "\"3 us\""]),
        (
            "write_latency",
            ["\"0 ns\"", "\"5 ns\"", "\"900 ns\"", "\"46 ns\""],
        ),
        (
            "bandwidth",
            ["\"500 MB/s\"", "\"10 GB/s\"", "\"38.4 GB/s\"", "\"1 TB/s\""],
        ),
        ("banks", ["1", "2", "7", "64"]),
        (
            "bank_cycle",
            ["\"0 ns\"", "\"1 ns\"", "\"45 ns\"", "\"300 ns\""],
        ),
        ("queue", ["1", "2", "5", "64"]),
    ] {
        let waits = matches!(key, "bandwidth" | "bank_cycle");
        if !(draw.alone && waits) && draw.one_in(2) {
            memory += &format!(", {key} = {}", draw.pick(&values));
        }
    }
    draw.line(format!("memory = {memory} }}\n[devices.controller]"));
    draw.maybe("process_time", &["0 ns", "1 ps", "40 ns"]);
    draw.maybe_number("contexts", &["1", "2", "7", "64"]);
}

/// The scenario of a seed.
fn scenario(seed: u64) -> String {
    let rng = StreamRng::new(seed, "swarm");
    let mut draw = Draw {
        rng,
        text: String::new(),
        alone: seed % 8 == 7,
    };
    if draw.alone {
        draw.line("# alone: one request at a time");
    }
    let shape = shape(&mut draw);
    draw.line(format!("name = \"swarm-{seed}\"\nseed = {}", seed % 1000));
    if !shape.direct && draw.one_in(3) {
        let granularity = draw.pick(&["256 B", "1 KiB", "16 KiB"]);
        draw.line(format!(
            "\n[address_map]\ngranularity = \"{granularity}\"\nways = 1"
        ));
    }
    draw.line(format!("\n[fabric]\nkind = \"{}\"", shape.kind));
    draw.line(format!("topology = {}", shape.topology));
    draw.maybe("routing", &["shortest", "oblivious", "random", "adaptive"]);
    for (device, host) in &shape.bindings {
        draw.line(format!(
            "[[fabric.bindings]]\ndevice = \"d{device}\"\nhost = \"h{host}\""
        ));
    }
    draw.line("[fabric.switch]");
    draw.maybe("switching_time", &["0 ns", "1 ps", "20 ns", "200 ns"]);
    draw.maybe("arbitration", &["round-robin", "age"]);
    link(&mut draw, "fabric.link", shape.acyclic);
    if draw.one_in(3) {
        link(&mut draw, "fabric.edge_link", shape.acyclic);
    }
    (0..shape.hosts).for_each(|number| host(&mut draw, number));
    let capacity = draw.pick(&["256 MiB", "16 GiB"]);
    for number in 0..shape.devices {
        let other = draw.one_in(8);
        device(&mut draw, number, if other { "512 MiB" } else { capacity });
    }
    draw.text
}

/// The picoseconds that a message alone takes on a link: worked out here from the rate and the
/// format, not taken from the transmitter, but for its resolution of 2^-16 ps.
fn serialization(link: &PlannedLink, data: bool) -> u64 {
    let params = serde_json::to_value(&link.params).unwrap();
    let is = |key: &str, value: &str| params[key].as_str() == Some(value);
    let fixed = |bytes: u64| {
        let rate = u128::from(link.params.rate().0);
        (u128::from(bytes) * (1_000_000_000_000 << 16)).div_ceil(rate) as u64
    };
    let time = if is("transmission", "packet") {
        let packet = link.params.packet;
        fixed(if data {
            packet.data_header.0 + 64
        } else {
            packet.header.0
        })
    } else {
        let old = ["3", "4", "5"]
            .iter()
            .any(|generation| is("generation", generation));
        match params["flit"]
            .as_str()
            .unwrap_or(if old { "68B" } else { "256B" })
        {
            // The header and three quarters of the line, then a flit with the rest.
            "68B" => fixed(68) * if data { 2 } else { 1 },
            "256B" => fixed(256),
            // Header and line fit into the first half.
            _ => fixed(256) / 2,
        }
    };
    time >> 16
}

/// The stages of a request that meets nobody, as the plan's parameters give them, and the links
/// of its way.
struct Idle {
    stages: [u64; STAGE_NAMES.len()],
    hops: u16,
}

impl Idle {
    fn of(plan: &Plan, host: usize, device: usize, write: bool) -> Idle {
        let number = plan.hosts.len() + device;
        let hops = plan
            .tables
            .hops(host, number)
            .expect("the device is reached");
        let with = |is: &dyn Fn(End, End) -> bool| {
            let found = plan.links.iter().find(|link| is(link.a, link.b));
            found.expect("the path's links exist")
        };
        let path: Vec<&PlannedLink> = if hops == 1 {
            vec![with(
                &|a, b| matches!((a, b), (End::Host(a, _), End::Device(b, _)) if a == host && b == device),
            )]
        } else {
            let inner = (2..hops).map(|_| with(&|a, _| matches!(a, End::Switch(..))));
            std::iter::once(with(&|a, _| a == End::Host(host, 0)))
                .chain(inner)
                .chain([with(&|a, _| a == End::Device(device, 0))])
                .collect()
        };
        let issue = &plan.scenario.hosts[plan.hosts[host].group].issue;
        let group = &plan.scenario.devices[plan.devices[device].group];
        let time = |key: &str| {
            let text = group.memory.params.get(key)?.as_str()?;
            Some(text.parse::<Picos>().unwrap().0)
        };
        let read = time("latency").unwrap_or(46_000);
        let wire = path.iter().map(|link| {
            let bytes = serialization(link, write) + serialization(link, !write);
            2 * link.params.propagation.0 + bytes
        });
        let switches = u64::from(hops - 1);
        Idle {
            stages: [
                issue.process_time.0,
                issue.cache.as_ref().map_or(0, |cache| cache.access_time.0),
                0,
                wire.sum(),
                path.iter().map(|link| 4 * link.params.port_delay.0).sum(),
                2 * switches * plan.scenario.fabric.switch.switching_time.0,
                group.controller.process_time.0,
                0,
                if write {
                    time("write_latency").unwrap_or(read)
                } else {
                    read
                },
            ],
            hops: hops as u16,
        }
    }
}

/// A request against the path it must have taken.
fn check_row(plan: &Plan, row: &RequestRow, alone: bool) {
    let latency = row.completed_ps - row.issued_ps;
    assert_eq!(
        row.stages.iter().sum::<u64>(),
        latency,
        "stages sum to the latency: {row:?}"
    );
    let host = row.requester as usize;
    if row.device == u16::MAX {
        let issue = &plan.scenario.hosts[plan.hosts[host].group].issue;
        let access = issue
            .cache
            .as_ref()
            .expect("only a cache hits")
            .access_time
            .0;
        assert_eq!((latency, row.stages[1]), (access, access), "{row:?}");
        return;
    }
    let (owner, _) = plan.hosts[host]
        .map
        .locate(Hpa(row.hpa))
        .expect("the address is mapped");
    assert_eq!(
        usize::from(owner.0),
        plan.hosts.len() + usize::from(row.device),
        "{row:?}"
    );
    let idle = Idle::of(plan, host, row.device as usize, row.write);
    assert_eq!(row.hops, idle.hops, "{row:?}");
    for (stage, name) in STAGE_NAMES.iter().enumerate() {
        let (found, least) = (row.stages[stage], idle.stages[stage]);
        if alone || matches!(*name, "process" | "cache" | "port" | "switch" | "device") {
            assert_eq!(found, least, "{name} of {row:?}");
        } else {
            assert!(
                found >= least,
                "{name} took {found}, alone it takes {least}: {row:?}"
            );
        }
    }
}

/// Nothing lost, nothing twice: hosts, devices and links count the same lines.
fn check_counts(plan: &Plan, report: &Report) {
    for (host, planned) in report.hosts.iter().zip(&plan.hosts) {
        let wanted = plan.scenario.hosts[planned.group].requests.unwrap();
        assert_eq!(
            (host.issued, host.completed),
            (wanted, wanted),
            "requests of {}",
            host.name
        );
    }
    let requests = &report.requests;
    let (mut reads, mut writes) = (0, 0);
    for device in &report.devices {
        (reads, writes) = (reads + device.reads, writes + device.writes);
        let payload = |direction: String| {
            let links = report
                .links
                .iter()
                .filter(|link| link.direction == direction);
            links.map(|link| link.payload_bytes).sum::<u64>()
        };
        let near: Vec<&str> = report
            .links
            .iter()
            .filter_map(|link| link.direction.strip_prefix(&format!("{}->", device.name)))
            .collect();
        assert_eq!(near.len(), 1, "a device has one link");
        let out = payload(format!("{}->{}", device.name, near[0]));
        let into = payload(format!("{}->{}", near[0], device.name));
        assert_eq!(
            (out, into),
            (64 * device.reads, 64 * device.writes),
            "{}",
            device.name
        );
    }
    let missed = requests.completed - requests.cache_hits;
    assert_eq!(
        reads + writes,
        missed + requests.writebacks,
        "lines at hosts and devices"
    );
    for link in &report.links {
        assert!(
            link.bytes >= link.payload_bytes && link.utilization <= 1.0,
            "{link:?}"
        );
    }
}

/// Runs the system in one piece and looks at what it leaves behind.
fn check_drained(plan: &Plan, digest: &str) {
    let mut system =
        System::build(plan, plan.scenario.seed, Notes::default()).expect("the system builds");
    let outcome = system
        .simulation
        .run(1, SimTime::NEVER, &Monitor::default());
    assert_eq!(outcome.stop, Stop::Exhausted);
    assert_eq!(
        format!("{:016x}", outcome.digest),
        digest,
        "a run in pieces is the run in one"
    );
    let vcs = u32::from(plan.tables.virtual_channels());
    for node in system.simulation.components() {
        match node {
            Node::Host(host) => assert!(host.is_done(), "a host has requests left"),
            other => assert_eq!(other.holds(), 0, "messages are left"),
        }
    }
    for (link, directions) in plan.links.iter().zip(&system.directions) {
        let table = &link.params.credits;
        let classes = [table.m2s_req, table.m2s_rwd, table.s2m_ndr, table.s2m_drs];
        // Credits go back alone when a quarter of the buffer has gathered.
        let may_wait: u32 = classes
            .iter()
            .map(|credits| (u32::from(*credits) / 4).saturating_sub(1) * vcs)
            .sum();
        for (component, port) in [directions.forward, directions.backward] {
            let node = system.simulation.component_mut(component);
            let waiting = node.port_mut(port).unreturned();
            assert!(
                waiting <= may_wait,
                "{waiting} credits never came back from {:?}--{:?}, at most {may_wait} may wait",
                link.a,
                link.b
            );
        }
    }
}

/// A report without what may differ between identical runs.
fn timeless(mut report: Report) -> Report {
    report.wall_seconds = 0.0;
    report.events_per_second = 0.0;
    report.requests.per_wall_second = 0.0;
    report
}

fn check(seed: u64, text: &str) {
    let plan = cxlab_tests::plan(text, &[]);
    let alone = text.contains("# alone");
    let monitor = Monitor::default();
    let mut rows = Vec::new();
    let mut sink = |batch: Vec<RequestRow>| {
        rows.extend(batch);
        Ok(())
    };
    let options = RunOptions {
        seed: plan.scenario.seed,
        threads: 1,
        monitor: &monitor,
        rows: Some(&mut sink),
    };
    let report = match run(&plan, options) {
        Ok(report) => timeless(report),
        Err(error) => panic!("{error}"),
    };
    check_counts(&plan, &report);
    assert_eq!(
        rows.len() as u64,
        report.requests.completed,
        "a row for each request"
    );
    rows.iter().for_each(|row| check_row(&plan, row, alone));
    check_drained(&plan, &report.digest);
    for threads in [2, 3] {
        match cxlab_tests::try_run(&plan, threads) {
            Ok(other) => assert_eq!(timeless(other), report, "{threads} threads, seed {seed}"),
            Err(error) => panic!("{threads} threads: {error}"),
        }
    }
}

/// Checks the systems of some seeds, or of the one that `CXLAB_SWARM_SEED` names.
fn swarm(test: &str, seeds: std::ops::Range<u64>) {
    let chosen = std::env::var("CXLAB_SWARM_SEED").ok();
    let chosen = chosen.map(|seed| seed.parse().expect("CXLAB_SWARM_SEED is a number"));
    let seeds = chosen.map_or(seeds, |seed: u64| seed..seed + 1);
    let mut failed: Vec<(u64, String)> = Vec::new();
    for seed in seeds {
        let text = scenario(seed);
        if let Err(cause) = std::panic::catch_unwind(|| check(seed, &text)) {
            let message = cause
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| cause.downcast_ref::<&str>().copied());
            failed.push((seed, message.unwrap_or("no message").to_owned()));
        }
    }
    if let Some((seed, message)) = failed.first() {
        let all: Vec<String> = failed
            .iter()
            .map(|(seed, message)| format!("{seed}: {message:.300}"))
            .collect();
        panic!(
            "system {seed} fails: {message}\n\nReplay it with\n    CXLAB_SWARM_SEED={seed} cargo \
             test -p cxlab-tests --test swarm -- --include-ignored --exact {test}\n\n{}\nAll that \
             fail:\n{}",
            scenario(*seed),
            all.join("\n")
        );
    }
}

#[test]
fn two_hundred_random_systems_obey_the_laws() {
    swarm("two_hundred_random_systems_obey_the_laws", 0..200);
}

#[test]
#[ignore = "takes minutes; `make test-all` runs it"]
fn two_thousand_more_random_systems_obey_the_laws() {
    swarm("two_thousand_more_random_systems_obey_the_laws", 200..2200);
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
    for kind in [
        "direct",
        "chain",
        "tree",
        "ring",
        "mesh",
        "torus",
        "spine-leaf",
        "fully-connected",
        "dragonfly",
        "custom",
    ] {
        assert!(
            all.contains(&format!("topology = {{ kind = \"{kind}\"")),
            "no system is a {kind}"
        );
    }
}
