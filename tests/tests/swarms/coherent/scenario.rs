//! Draws a system of hosts with caches and devices that keep their memory coherent. All buffers and
//! caches are small, so that stalls, conflicts and evictions are frequent.

use cxlab_cache::victim;
use cxlab_tests::swarm::{Draw, LinkRules, Shape, key, links, shape};

/// Lines that all workloads of a system share, so that they conflict.
struct Region {
    offset: u64,
    lines: usize,
}

/// Smallest possible capacity of a device, or of a device's share of the common region.
const CAPACITY: u64 = 256 << 20;

/// Regions of the hosts. All hosts see a common region. Some hosts have a region of
/// their own before it, so hosts know the same line by different addresses. Without
/// `Regions`, all hosts see all memory.
struct Regions {
    own: Vec<usize>,
    devices: usize,
}

impl Regions {
    /// Draws the regions from a stream of their own. Hosts and devices must all reach each other.
    fn draw(seed: u64, shape: &Shape) -> Option<Regions> {
        let mut draw = Draw::new(seed, "coherent-swarm-regions");
        let all = !shape.direct && shape.bindings.is_empty();
        (all && draw.one_in(3)).then(|| Regions {
            own: (0..shape.hosts).filter(|_| draw.one_in(2)).collect(),
            devices: shape.devices,
        })
    }

    fn write(&self, draw: &mut Draw) {
        let capacity = CAPACITY * self.devices as u64;
        for host in &self.own {
            draw.line(format!(
                "\n[[regions]]\nname = \"own{host}\"\nhosts = [\"h{host}\"]\ncapacity = \"{capacity} B\""
            ));
        }
        draw.line(format!(
            "\n[[regions]]\nname = \"all\"\nsharing = \"shared\"\ncapacity = \"{capacity} B\""
        ));
    }

    /// Start of the common region for a host.
    fn first(&self, host: usize) -> u64 {
        match self.own.contains(&host) {
            true => CAPACITY * self.devices as u64,
            false => 0,
        }
    }
}

/// Draws the scenario of a seed.
pub fn scenario(seed: u64) -> String {
    let mut draw = Draw::new(seed, "coherent-swarm");
    let (joins, roomy) = {
        let mut draw = Draw::new(seed, "coherent-swarm-joins");
        (draw.one_in(2), draw.one_in(2))
    };
    // Snoops are joined where hosts own many lines.
    let sets = (joins && roomy).then_some("16");
    let hosts = [1, 2, 2, 3, 3, 4][draw.below(6)];
    let devices = draw.between(1, 3);
    let shape = shape(&mut draw, hosts, devices);
    let coherent = classes(&mut draw, &shape);
    let reached = (0..shape.hosts).map(|host| {
        let devices = 0..shape.devices;
        devices.filter(|one| shape.reaches(host, *one)).count()
    });
    let reached = reached.min().unwrap_or(1);
    let mixed = coherent.iter().any(|class| *class != coherent[0]);
    let consecutive = mixed || draw.one_in(3);
    let lines = [2, 4, 8, 16, 32, 64][draw.below(6)];
    // If devices have consecutive addresses, the lines are around the end of one device.
    let offset = if consecutive && reached > 1 {
        CAPACITY * draw.between(1, reached - 1) as u64 - 64 * (lines as u64 / 2)
    } else {
        64 * draw.below(5) as u64
    };

    draw.line(format!(
        "name = \"coherent-{seed}\"\nseed = {}",
        seed % 1000
    ));
    draw.line("\n[measure]\nwarmup_requests = 0\n\n[address_map]");
    draw.maybe("granularity", &["256 B", "512 B", "1 KiB"]);
    if consecutive {
        draw.line("ways = 1");
    }
    shape.write(&mut draw);
    let rules = LinkRules {
        half: shape.acyclic,
        errors: true,
        snoops: true,
        pbr: shape.has_pbr_links(),
    };
    links(&mut draw, rules);
    let regions = Regions::draw(seed, &shape);
    let region = |host| Region {
        offset: offset + regions.as_ref().map_or(0, |regions| regions.first(host)),
        lines,
    };
    let needs = |coherent: &[bool], host| {
        let mut reached = (0..shape.devices).filter(|device| shape.reaches(host, *device));
        reached.any(|device| coherent[device])
    };
    let regions_of = regions.as_ref();
    let alike = regions_of.is_none_or(|regions| regions.own.is_empty());
    if shape.hosts > 1 && draw.one_in(4) && alike {
        let count = shape.hosts;
        let coherent = (0..count).all(|number| needs(&coherent, number));
        let names = format!("name = \"h\"\ncount = {count}");
        host(&mut draw, &names, &region(0), (true, coherent), sets);
    } else {
        for number in 0..shape.hosts {
            let needs = needs(&coherent, number);
            let name = format!("name = \"h{number}\"");
            host(&mut draw, &name, &region(number), (needs, needs), sets);
        }
    }
    for (number, coherent) in coherent.into_iter().enumerate() {
        let shares = regions.as_ref().map_or(1, |regions| 1 + regions.own.len());
        device(&mut draw, number, coherent, CAPACITY * shares as u64, sets);
    }
    if let Some(regions) = &regions {
        regions.write(&mut draw);
    }
    // Messages on a path of their own overtake those on the far path by whole round trips.
    let has = |spines| shape.topology.contains(spines);
    if has("spines = 2") || has("spines = 3") {
        let span = Draw::new(seed, "coherent-swarm-far").pick(&["300 ns", "3 us"]);
        draw.line(format!(
            "\n[fabric.links.far]\npropagation = \"{span}\"\n[[fabric.overrides]]\n\
             between = [\"leaf*\", \"spine0\"]\nlink = \"far\""
        ));
    }
    let text = with_load_requests(&draw.text, &mut Draw::new(seed, "coherent-swarm-loads"));
    let text = match joins {
        true => with_joins(&text, &mut Draw::new(seed, "coherent-swarm-spans")),
        false => text,
    };
    with_telemetry(&text, &mut Draw::new(seed, "coherent-swarm-qos"))
}

/// Inserts a text after each occurrence of a word, or nothing.
fn with(text: &str, word: &str, mut part: impl FnMut(&str) -> Option<String>) -> String {
    let mut parts = text.split(word);
    let mut with = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let more = part(rest).unwrap_or_default();
        with += &format!("{word}{more}{rest}");
    }
    with
}

/// Adds devices that join snoops for requests, where a snoop may cover several lines, and hosts
/// that request neighbouring lines one after the other.
fn with_joins(text: &str, draw: &mut Draw) -> String {
    let joined = with(text, "filter = { ", |rest| {
        let filter = rest.lines().next().unwrap_or_default();
        let span = draw.pick(&["0 ns", "20 ns", "300 ns", "1 us"]);
        (!filter.contains("block = 1")).then(|| format!("join = \"{span}\", "))
    });
    let streams = joined.replace("kind = \"uniform\"", "kind = \"stream\"");
    ["1", "2", "3"].iter().fold(streams, |text, few| {
        let text = text.replace(&format!("outstanding = {few}\n"), "outstanding = 9\n");
        text.replace(&format!(", mshrs = {few}"), "")
    })
}

/// Adds devices that report their load, and hosts that react to it.
fn with_telemetry(text: &str, draw: &mut Draw) -> String {
    if !draw.one_in(3) {
        return text.to_owned();
    }
    let told = with(text, "[[devices]]\n", |_| {
        let steps = draw.pick(&["1, moderate = 2, severe = 4", "2, moderate = 4, severe = 9"]);
        let sampled = draw.pick(&["", ", backpressure_sample_interval = \"2 ns\""]);
        Some(format!("qos = {{ optimal = {steps}{sampled} }}\n"))
    });
    with(&told, "[hosts.issue]\n", |_| {
        let period = draw.pick(&["50 ns", "1 us"]);
        let throttle = format!("throttle = {{ period = \"{period}\", least = \"1 GB/s\" }}\n");
        draw.one_in(2).then_some(throttle)
    })
}

/// Adds caches whose loads request any copy, a shared copy, or none.
fn with_load_requests(text: &str, draw: &mut Draw) -> String {
    with(text, "cache = {", |_| {
        let requests = ["MemRdData", "MemRdData", "MemRd-SnpData", "MemRd-SnpCur"];
        let request = draw.pick(&requests);
        Some(format!(" load_request = \"{request}\","))
    })
}

/// Draws which devices keep their memory coherent. At least one does.
fn classes(draw: &mut Draw, shape: &Shape) -> Vec<bool> {
    let mut coherent = vec![true; shape.devices];
    let apart = shape.direct || !shape.bindings.is_empty();
    if draw.one_in(if apart { 1 } else { 3 }) {
        coherent.fill_with(|| draw.one_in(2));
        let one = draw.below(shape.devices);
        coherent[one] = true;
    }
    coherent
}

fn workload(draw: &mut Draw, region: &Region) -> String {
    let kind = draw.pick(&[
        "uniform",
        "uniform",
        "uniform",
        "stream",
        "stride",
        "hot-cold",
        "hot-cold",
        "pointer-chase",
    ]);
    let mut lines = region.lines;
    if draw.one_in(5) {
        lines = (lines / 2).max(2);
    }
    let mut text = format!(
        "{{ kind = \"{kind}\", offset = \"{} B\", footprint = \"{} B\"",
        region.offset,
        64 * lines
    );
    match kind {
        "stride" => {
            let stride = 64 * draw.between(1, (lines - 1).min(5));
            text += &format!(", stride = \"{stride} B\"");
        }
        "hot-cold" => {
            let hot = draw.pick(&["0.1", "0.25", "0.5"]);
            text += &format!(", hot_footprint = {hot}, hot_accesses = 0.9");
        }
        _ => {}
    }
    let ratio = draw.pick(&["0.0", "0.3", "0.5", "0.7", "0.9", "1.0"]);
    text += &format!(", read_ratio = {ratio}");
    text += &format!(", mix = \"{}\"", draw.pick(&["random", "regular"]));
    text
}

/// Draws a host, or several equal ones. A host may have no cache if nothing that it reaches needs
/// one, and only a coherent cache has a policy. `sets` replaces the number of the cache's sets.
fn host(
    draw: &mut Draw,
    names: &str,
    region: &Region,
    (needs_cache, coherent): (bool, bool),
    sets: Option<&str>,
) {
    draw.line(format!("\n[[hosts]]\n{names}"));
    let workload = workload(draw, region);
    // Each of several hosts needs at least two lines of its own, and a stride needs more.
    let private = region.lines >= 32 && !workload.contains("stride") && draw.one_in(4);
    let private = if private { ", private = true" } else { "" };
    draw.line(format!("workload = {workload}{private} }}"));
    let requests = [20, 60, 120, 200][draw.below(4)];
    draw.line(format!("requests = {requests}\n[hosts.issue]"));
    draw.maybe_number("outstanding", &["1", "2", "3", "9", "100"]);
    draw.maybe_number("queue", &["1", "2", "5"]);
    draw.maybe("process_time", &["0 ns", "10 ns", "33 ps"]);
    draw.maybe("issue_interval", &["0 ns", "1 ps", "3 ns", "150 ns"]);
    if !needs_cache && draw.one_in(2) {
        return;
    }
    let ways = draw.between(1, 4);
    let drawn = draw.pick(&["1", "1", "2", "3", "8"]);
    let sets = sets.unwrap_or(drawn);
    let lines = ways * sets.parse::<usize>().expect("a number of sets");
    let mut cache = format!("{{ size = \"{} B\", ways = {ways}", 64 * lines);
    key(
        draw,
        &mut cache,
        2,
        "access_time",
        &["0 ns", "1 ps", "40 ns"],
    );
    key(draw, &mut cache, 2, "mshrs", &["1", "2", "4"]);
    if draw.one_in(2) {
        cache += ", clean_evict = false";
    }
    key(
        draw,
        &mut cache,
        4,
        "snoop_time",
        &["1 ps", "2 ns", "70 ns"],
    );
    if coherent && draw.one_in(2) {
        let policy = victim::CATALOG[draw.below(victim::CATALOG.len())].name;
        cache += &format!(", policy = {{ kind = \"{policy}\" }}");
    }
    draw.line(format!("cache = {cache} }}"));
}

fn device(draw: &mut Draw, number: usize, coherent: bool, capacity: u64, sets: Option<&str>) {
    draw.line(format!(
        "\n[[devices]]\nname = \"d{number}\"\ncapacity = \"{capacity} B\""
    ));
    let mut memory = "{ kind = \"fixed\"".to_owned();
    for (name, values) in [
        ("latency", ["0 ns", "1 ps", "46 ns", "1 us"]),
        ("write_latency", ["0 ns", "5 ns", "600 ns", "46 ns"]),
        ("bandwidth", ["1 GB/s", "10 GB/s", "38.4 GB/s", "1 TB/s"]),
        ("banks", ["1", "2", "7", "64"]),
        ("bank_cycle", ["0 ns", "1 ns", "45 ns", "300 ns"]),
        ("queue", ["1", "2", "5", "64"]),
    ] {
        key(draw, &mut memory, 3, name, &values);
    }
    draw.line(format!("memory = {memory} }}\n[devices.controller]"));
    draw.maybe("process_time", &["0 ns", "1 ps", "40 ns"]);
    draw.maybe_number("contexts", &["1", "2", "7", "64"]);
    if !coherent {
        return;
    }
    draw.line("[devices.coherence]\nclass = \"hdm-db\"");
    let ways = draw.between(1, 6);
    let drawn = draw.pick(&["1", "1", "2", "5", "16"]);
    let sets = sets.unwrap_or(drawn);
    let lines = ways * sets.parse::<usize>().expect("a number of sets");
    let mut filter = format!("lines = {lines}");
    if draw.one_in(2) {
        filter += &format!(", ways = {ways}");
    }
    key(draw, &mut filter, 2, "block", &["1", "2", "3", "4"]);
    let times = ["0 ns", "1 ps", "2 ns", "30 ns"];
    key(draw, &mut filter, 2, "lookup_time", &times);
    key(draw, &mut filter, 2, "writes", &["1", "1", "2", "9"]);
    if draw.one_in(3) {
        filter += ", eager = true";
    }
    draw.line(format!("filter = {{ {filter} }}"));
    let mut kind = victim::CATALOG[draw.below(victim::CATALOG.len())].name;
    if draw.one_in(4) {
        kind = "block-length";
    }
    let params = match kind {
        "block-length" => draw.pick(&[
            "",
            ", max_lines = 2",
            ", aligned = false",
            ", max_lines = 3, aligned = false",
        ]),
        _ => "",
    };
    draw.line(format!("victim = {{ kind = \"{kind}\"{params} }}"));
}
