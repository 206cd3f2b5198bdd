//! Helpers of swarms of random systems: drawing the text of a scenario from a seed, and a runner that prints how to
//! replay a failure. The draws use only the engine's random stream, so a seed gives the same system on every machine.

use cxlab_engine::rng::StreamRng;
use cxlab_plan::{Plan, PlannedLink};
use cxlab_protocol::Channel;
use cxlab_system::system::System;

/// Asserts that the scenarios, concatenated, use every topology.
///
/// # Panics
/// If a topology is missing.
pub fn assert_every_topology(scenarios: &str) {
    for kind in kinds() {
        let topology = format!("topology = {{ kind = \"{kind}\"");
        assert!(scenarios.contains(&topology), "no system is a {kind}");
    }
}

/// The kinds of topology.
fn kinds() -> impl Iterator<Item = &'static str> {
    let entries = cxlab_fabric::topology::CATALOG.iter();
    entries.map(|entry| entry.name)
}

/// Draws one system.
pub struct Draw {
    rng: StreamRng,
    /// Text of the scenario so far.
    pub text: String,
}

impl Draw {
    /// Draws of a seed in the swarm of this name.
    pub fn new(seed: u64, swarm: &str) -> Draw {
        Draw {
            rng: StreamRng::new(seed, swarm),
            text: String::new(),
        }
    }

    /// A random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    /// A random number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random one of several texts.
    pub fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// Appends a line to the scenario.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Writes `key = "value"` with a random value half of the time. Otherwise the default applies.
    pub fn maybe(&mut self, key: &str, values: &[&str]) {
        if self.one_in(2) {
            let value = self.pick(values);
            self.line(format!("{key} = \"{value}\""));
        }
    }

    /// Writes `key = value` with a random value half of the time. Otherwise the default applies.
    pub fn maybe_number(&mut self, key: &str, values: &[&str]) {
        if self.one_in(2) {
            let value = self.pick(values);
            self.line(format!("{key} = {value}"));
        }
    }
}

/// Adds `, key = value` to a table with a random value, once in `n`. A value with a unit is quoted.
pub fn key(draw: &mut Draw, table: &mut String, n: usize, key: &str, values: &[&str]) {
    if draw.one_in(n) {
        let quote = if values[0].contains(' ') { "\"" } else { "" };
        let value = draw.pick(values);
        *table += &format!(", {key} = {quote}{value}{quote}");
    }
}

/// Properties of a scenario on which its parts depend.
pub struct Shape {
    /// `fabric.kind`.
    pub kind: &'static str,
    /// `fabric.topology`.
    pub topology: String,
    /// Pairs of a device and the host that it is bound to. Empty if all are bound.
    pub bindings: Vec<(usize, usize)>,
    /// Number of hosts, named `h0`, `h1`, ...
    pub hosts: usize,
    /// Number of devices, named `d0`, `d1`, ...
    pub devices: usize,
    /// Whether one virtual channel suffices with any routing.
    pub acyclic: bool,
    /// Whether there are no switches. Device j then belongs to host j modulo the number of hosts.
    pub direct: bool,
}

impl Shape {
    /// Whether links may join switches of a PBR fabric.
    pub fn has_pbr_links(&self) -> bool {
        self.kind == "pbr" && !self.direct
    }

    /// Whether this host reaches this device.
    pub fn reaches(&self, host: usize, device: usize) -> bool {
        if self.direct {
            return device % self.hosts == host;
        }
        self.bindings.is_empty() || self.bindings.contains(&(device, host))
    }

    /// Writes the fabric, apart from its links.
    pub fn write(&self, draw: &mut Draw) {
        draw.line(format!("\n[fabric]\nkind = \"{}\"", self.kind));
        draw.line(format!("topology = {}", self.topology));
        draw.maybe("routing", &["shortest", "oblivious", "random", "adaptive"]);
        draw.maybe_number("virtual_channels", &["1", "1", "2"]);
        for (device, host) in &self.bindings {
            draw.line(format!(
                "[[fabric.bindings]]\ndevice = \"d{device}\"\nhost = \"h{host}\""
            ));
        }
        draw.line("[fabric.switch]");
        draw.maybe("switching_time", &["0 ns", "1 ps", "20 ns", "200 ns"]);
        draw.maybe("arbitration", &["round-robin", "age"]);
    }
}

/// Draws one of these topologies, each a `kind` with its parameters, or one of the catalog that they do not name,
/// with its defaults. Neither `direct` nor `custom` is drawn.
pub fn topology(draw: &mut Draw, with_parameters: &[&str]) {
    let is_named = |name: &str| {
        let mut kinds = with_parameters.iter().map(|one| one.split('"').next());
        kinds.any(|kind| kind == Some(name))
    };
    let others: Vec<String> = kinds()
        .filter(|name| !["direct", "custom"].contains(name) && !is_named(name))
        .map(|name| format!("{name}\""))
        .collect();
    let others = others.iter().map(String::as_str);
    let all: Vec<&str> = with_parameters.iter().copied().chain(others).collect();
    let kind = draw.pick(&all);
    draw.line(format!("topology = {{ kind = \"{kind} }}"));
}

/// The same number of credits in each message class of CXL.mem, as a value of `credits`.
pub fn credits(draw: &mut Draw, numbers: &[&str]) -> String {
    let number = draw.pick(numbers);
    let classes = ["m2s_req", "m2s_rwd", "s2m_ndr", "s2m_drs"];
    let each = classes.map(|class| format!("{class} = {number}"));
    format!("{{ {} }}", each.join(", "))
}

/// Topologies that [`shape`] draws with parameters. All others of the catalog have their defaults.
const DRAWN: [&str; 10] = [
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
];

/// Draws a topology of any kind, for about this many hosts and devices.
pub fn shape(draw: &mut Draw, hosts: usize, devices: usize) -> Shape {
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
    let others: Vec<&str> = kinds().filter(|name| !DRAWN.contains(name)).collect();
    // A kind with its parameters, and whether one virtual channel suffices.
    let mut switched = |parameters: String, acyclic| {
        shape.acyclic = acyclic;
        shape.topology = format!("{{ kind = \"{parameters}, {placement} }}");
    };
    match draw.below(14 + others.len()) {
        0 => {
            shape.devices = hosts * draw.between(1, 3);
            (shape.acyclic, shape.direct) = (true, true);
            shape.topology = "{ kind = \"direct\" }".into();
        }
        1 => switched(format!("chain\", switches = {}", draw.between(1, 5)), true),
        2 => {
            let (arity, leaves) = (draw.between(2, 3), draw.between(2, 6));
            switched(format!("tree\", arity = {arity}, leaves = {leaves}"), true);
        }
        3 => switched(format!("ring\", switches = {}", draw.between(3, 7)), false),
        4 => {
            let dimensions = draw.pick(&["[1, 3]", "[2, 2]", "[3, 2]", "[3, 3]", "[2, 2, 2]"]);
            switched(format!("mesh\", dimensions = {dimensions}"), false);
        }
        5 => {
            let dimensions = draw.pick(&["[3, 1]", "[3, 3]", "[4, 2]", "[5, 3]", "[3, 2, 2]"]);
            switched(format!("torus\", dimensions = {dimensions}"), false);
        }
        6 => {
            let (leaves, spines) = (draw.between(1, 4), draw.between(1, 3));
            let parameters = format!("spine-leaf\", leaves = {leaves}, spines = {spines}");
            switched(parameters, true);
        }
        7 => {
            let switches = draw.between(1, 5);
            switched(format!("fully-connected\", switches = {switches}"), false);
        }
        8 => {
            let (routers, global) = (draw.between(1, 3), draw.between(1, 2));
            let groups = draw.between(2, (routers * global + 1).min(4));
            let size = format!("groups = {groups}, routers_per_group = {routers}");
            switched(
                format!("dragonfly\", {size}, global_links = {global}"),
                false,
            );
        }
        9..=11 => custom(draw, &mut shape),
        12 => {
            shape.kind = "single-vcs";
            shape.hosts = 1;
            custom_tree(draw, &mut shape);
        }
        13 => {
            shape.kind = "multiple-vcs";
            shape.devices = hosts + draw.below(3);
            several_trees(draw, &mut shape);
        }
        other => shape.topology = format!("{{ kind = \"{}\" }}", others[other - 14]),
    }
    shape
}

/// Draws a random tree of switches with further random links, some of them duplicates.
fn custom(draw: &mut Draw, shape: &mut Shape) {
    let switches = draw.between(1, 6);
    let mut links = tree(draw, switches);
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
    let links = tree(draw, switches);
    shape.acyclic = true;
    attach(draw, shape, switches, links);
}

/// Draws the links of a tree of switches.
fn tree(draw: &mut Draw, switches: usize) -> Vec<(String, String)> {
    let parents = (1..switches).map(|switch| (draw.below(switch), switch));
    let links = parents.map(|(parent, switch)| (format!("s{parent}"), format!("s{switch}")));
    links.collect()
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

/// Draws a tree with all hosts at one switch, and below it switches that each belong to one host.
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

/// Constraints on the links of a table.
#[derive(Clone, Copy)]
pub struct LinkRules {
    /// Whether links may be half duplex, with a single virtual channel.
    pub half: bool,
    /// Whether flits may arrive corrupted.
    pub errors: bool,
    /// Whether the links carry back-invalidation, so that their flits have 256 B.
    pub snoops: bool,
    /// Whether the links join switches of a PBR fabric, so that their flits are standard ones of 256 B.
    pub pbr: bool,
}

/// Draws the parameters of all links, and in a third of the fabrics others of those at the edge.
pub fn links(draw: &mut Draw, rules: LinkRules) {
    link(draw, "fabric.link", rules);
    if draw.one_in(3) {
        let rules = LinkRules {
            pbr: false,
            ..rules
        };
        link(draw, "fabric.edge_link", rules);
    }
}

/// Draws the parameters of the links of a table.
pub fn link(draw: &mut Draw, table: &str, rules: LinkRules) {
    draw.line(format!("\n[{table}]"));
    let half = rules.half && draw.one_in(5);
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
    } else if rules.pbr {
        draw.line("flit = \"256B\"");
    } else if generation <= 5 && rules.snoops {
        let flit = draw.pick(&["256B", "256B-latency-optimized"]);
        draw.line(format!("flit = \"{flit}\""));
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
    draw.maybe("fec_delay", &["0 ns", "3 ns"]);
    draw.maybe_number("retimers", &["1", "2"]);
    draw.maybe("retimer_delay", &["10 ns", "64 ns"]);
    if rules.errors && draw.one_in(3) {
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
    let mut classes = vec!["m2s_req", "m2s_rwd", "s2m_ndr", "s2m_drs"];
    if rules.snoops {
        classes.extend(["s2m_bisnp", "m2s_birsp"]);
    }
    let credits = classes
        .iter()
        .map(|class| format!("{class} = {}", draw.pick(sizes)));
    let credits: Vec<String> = credits.collect();
    draw.line(format!("credits = {{ {} }}", credits.join(", ")));
}

/// Checks each seed.
///
/// # Panics
/// If a check panics: with its seed, behind its own message.
pub fn each_seed(seeds: std::ops::Range<u64>, check: impl Fn(u64)) {
    for seed in seeds {
        let checked = std::panic::AssertUnwindSafe(|| check(seed));
        let checked = std::panic::catch_unwind(checked);
        assert!(checked.is_ok(), "seed {seed} fails");
    }
}

/// A swarm of random systems.
pub struct Swarm<'a> {
    /// Module of its tests, for the command that replays a failure.
    pub module: &'a str,
    /// Draws the scenario of a seed.
    pub scenario: fn(u64) -> String,
}

impl Swarm<'_> {
    /// Checks the systems of some seeds, or of the seed that `CXLAB_SWARM_SEED` names. `check` gets the seed and its
    /// scenario, and panics if a law is broken. Returns whether all seeds were checked.
    ///
    /// # Panics
    /// If a check panics: with the first failure, the command that replays it, and its scenario.
    pub fn run(
        &self,
        test: &str,
        seeds: std::ops::Range<u64>,
        mut check: impl FnMut(u64, &str),
    ) -> bool {
        let chosen = std::env::var("CXLAB_SWARM_SEED").ok();
        let whole = chosen.is_none();
        let seeds = match chosen.map(|seed| (seed.parse::<u64>(), seed)) {
            None => seeds,
            Some((Ok(seed), _)) => seed..seed + 1,
            Some((Err(error), found)) => panic!("CXLAB_SWARM_SEED = {found:?}: {error}"),
        };
        let mut failed: Vec<(u64, String)> = Vec::new();
        for seed in seeds {
            let text = (self.scenario)(seed);
            let checked = std::panic::AssertUnwindSafe(|| check(seed, &text));
            if let Err(cause) = std::panic::catch_unwind(checked) {
                let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let message = cause.downcast_ref::<String>().cloned().or(text);
                failed.push((seed, message.unwrap_or_else(|| "no message".to_owned())));
            }
        }
        if let Some((seed, message)) = failed.first() {
            let all: Vec<String> = failed
                .iter()
                .map(|(seed, message)| format!("{seed}: {message:.300}"))
                .collect();
            panic!(
                "system {seed} fails: {message}\n\nReplay it with\n    CXLAB_SWARM_SEED={seed} \
                 cargo test -p cxlab-tests --test swarms -- --include-ignored --exact {}::{test}\n\n{}\n\
                 All that fail ({}):\n{}",
                self.module,
                (self.scenario)(*seed),
                failed.len(),
                all.join("\n")
            );
        }
        whole
    }
}

/// Most credits that may be left in the buffers of a direction of a link in a drained system. They
/// wait for a message to carry them, and are sent alone only from a quarter of a window on. No
/// system here sends CXL.cache or CXL.io messages.
pub fn may_wait(plan: &Plan, link: &PlannedLink) -> u32 {
    let windows = link.params.windows(plan.pipelines(link));
    let (params, vcs) = (&link.params, plan.virtual_channels());
    let classes = Channel::ALL
        .into_iter()
        .filter(|class| !class.is_cache() && !class.is_io());
    classes
        .map(|class| {
            (u32::from(params.standalone_threshold(windows[class.index()])) - 1) * u32::from(vcs)
        })
        .sum()
}

/// Checks a drained system: no component holds a message, hosts have finished, and all credits are
/// back but for those of [`may_wait`].
///
/// # Panics
/// If requests, messages or credits are left.
pub fn check_drained(plan: &Plan, system: &mut System) {
    for node in system.simulation.components() {
        match node.host() {
            Some(host) => assert!(host.is_done(), "a host has requests left"),
            None => assert_eq!(node.in_flight(), 0, "messages are left"),
        }
    }
    for (link, directions) in plan.links.iter().zip(&system.directions) {
        let may_wait = may_wait(plan, link);
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
