//! Random systems for checks of the analytic form: a family for each property that makes a system
//! hard, and a family that mixes them. A seed gives the same system on every machine.

use crate::swarm::{Draw, shape};

/// Names of the families, in the order of their numbers.
pub const FAMILIES: [&str; 15] = [
    "light",
    "full link",
    "few credits",
    "flit errors",
    "hot device",
    "tornado on a ring",
    "mesh and torus",
    "parking lot",
    "rated beside saturating",
    "DRAM, random lines",
    "DRAM, streams",
    "private cache",
    "finite sources",
    "half duplex and packets",
    "anything",
];

/// The family of a seed.
pub fn family(seed: u64) -> &'static str {
    FAMILIES[seed as usize % FAMILIES.len()]
}

/// Draws a topology.
fn topology(draw: &mut Draw) -> String {
    let placement = draw.pick(&["split", "paired"]);
    let shape = match draw.below(7) {
        0 => format!("kind = \"chain\", switches = {}", draw.between(1, 4)),
        1 => format!(
            "kind = \"tree\", arity = 2, leaves = {}",
            draw.between(2, 6)
        ),
        2 => format!("kind = \"ring\", switches = {}", draw.between(3, 6)),
        3 => format!(
            "kind = \"mesh\", dimensions = {}",
            draw.pick(&["[2, 2]", "[3, 2]", "[3, 3]"])
        ),
        4 => format!(
            "kind = \"spine-leaf\", leaves = {}, spines = {}",
            draw.between(2, 4),
            draw.between(1, 3)
        ),
        5 => format!(
            "kind = \"fully-connected\", switches = {}",
            draw.between(2, 5)
        ),
        _ => "kind = \"dragonfly\", groups = 3, routers_per_group = 2, global_links = 1".to_owned(),
    };
    format!("topology = {{ {shape}, placement = \"{placement}\" }}")
}

fn hosts(draw: &mut Draw, name: &str, count: usize, issue: &str, workload: &str) {
    draw.line(format!(
        "\n[[hosts]]\nname = \"{name}\"\ncount = {count}\nissue = {{ {issue} }}\nworkload = {{ {workload} }}"
    ));
}

fn mix(draw: &mut Draw) -> String {
    let ratio = draw.pick(&["1.0", "1.0", "0.7", "0.5", "0.0"]);
    format!("read_ratio = {ratio}")
}

/// Up to `most` hosts that access memory uniformly at random.
fn uniform(draw: &mut Draw, name: &str, most: usize, outstanding: &[&str], more: &str) {
    let count = draw.between(1, most);
    uniform_hosts(draw, name, count, outstanding, more);
}

/// Hosts with one of these numbers of requests in flight, and `more` keys of `issue`.
fn uniform_hosts(draw: &mut Draw, name: &str, count: usize, outstanding: &[&str], more: &str) {
    let outstanding = draw.pick(outstanding);
    let workload = format!("kind = \"uniform\", {}", mix(draw));
    let issue = format!("outstanding = {outstanding}{more}");
    hosts(draw, name, count, &issue, &workload);
}

fn fixed(draw: &mut Draw) -> String {
    let latency = draw.pick(&["20 ns", "46 ns", "100 ns"]);
    match draw.below(3) {
        0 => format!("memory = {{ kind = \"fixed\", latency = \"{latency}\" }}"),
        _ => {
            let rate = draw.pick(&["10 GB/s", "25 GB/s", "38.4 GB/s", "60 GB/s"]);
            format!(
                "memory = {{ kind = \"fixed\", latency = \"{latency}\", bandwidth = \"{rate}\" }}"
            )
        }
    }
}

fn devices(draw: &mut Draw, name: &str, count: usize, memory: &str) {
    draw.line(format!(
        "\n[[devices]]\nname = \"{name}\"\ncount = {count}\n{memory}"
    ));
}

/// Up to `most` devices with a fixed latency.
fn fixed_devices(draw: &mut Draw, most: usize) {
    let (count, memory) = (draw.between(1, most), fixed(draw));
    devices(draw, "d", count, &memory);
}

fn region(draw: &mut Draw, name: &str, devices: &str, hosts: &str) {
    draw.line(format!(
        "\n[[regions]]\nname = \"{name}\"\ncapacity = \"3 GiB\"\ndevices = [{devices}]\nhosts = [{hosts}]"
    ));
}

const ROUTINGS: [&str; 4] = ["shortest", "oblivious", "random", "adaptive"];

fn fabric(draw: &mut Draw, topology: &str, link: &str, routing: &[&str]) {
    let routing = draw.pick(routing);
    draw.line(format!(
        "\n[fabric]\n{topology}\nrouting = \"{routing}\"\n{link}"
    ));
}

/// A fabric of any topology and lanes.
fn any_fabric(draw: &mut Draw) {
    let (topology, lanes) = (topology(draw), lanes(draw));
    fabric(draw, &topology, &format!("link = {{ {lanes} }}"), &ROUTINGS);
}

/// A link without a switch, or one switch.
fn one_link(draw: &mut Draw) -> &'static str {
    match draw.below(2) {
        0 => "topology = { kind = \"direct\" }",
        _ => "topology = { kind = \"chain\", switches = 1 }",
    }
}

/// An interval between two requests of this range, half of the time.
fn pace(draw: &mut Draw, least_ps: usize) -> String {
    match draw.one_in(2) {
        true => format!(
            ", issue_interval = \"{} ps\"",
            draw.between(least_ps, 20_000)
        ),
        false => String::new(),
    }
}

/// Keys of a link's lanes, in one line.
fn lanes(draw: &mut Draw) -> String {
    lane_keys(draw).join(", ")
}

fn lane_keys(draw: &mut Draw) -> Vec<String> {
    let generation = draw.pick(&["5", "6", "6"]);
    let lanes = draw.pick(&["2", "4", "8", "16"]);
    let mut keys = vec![
        format!("generation = \"{generation}\""),
        format!("lanes = {lanes}"),
    ];
    if generation == "5" {
        keys.push("flit = \"256B\"".to_owned());
    }
    keys
}

/// Draws the scenario of a seed.
pub fn scenario(seed: u64) -> String {
    let mut draw = Draw::new(seed, "analytic");
    let draw = &mut draw;
    draw.line(format!("name = \"analytic-{seed}\"\nseed = {}", seed + 1));
    draw.line("[measure]\nwarmup_requests = 20000\nrequests = 20000");
    match family(seed) {
        "light" => {
            any_fabric(draw);
            let some = ["1", "2", "3", "4", "5", "6", "7", "8"];
            uniform(draw, "h", 8, &some, "");
            fixed_devices(draw, 8);
        }
        "full link" => full_link(draw),
        "few credits" => few_credits(draw),
        "flit errors" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            let rate = draw.pick(&["0.001", "0.01", "0.03", "0.1"]);
            let link = format!("link = {{ {lanes}, flit_error_rate = {rate} }}");
            fabric(draw, &topology, &link, &ROUTINGS);
            uniform(draw, "h", 6, &["1", "8", "64", "256"], "");
            fixed_devices(draw, 6);
        }
        "hot device" => hot_device(draw),
        "tornado on a ring" => tornado(draw),
        "mesh and torus" => grid(draw),
        "parking lot" => parking_lot(draw),
        "rated beside saturating" => {
            any_fabric(draw);
            uniform(draw, "fast", 4, &["32", "128", "256"], "");
            let pace = format!(", issue_interval = \"{} ns\"", draw.between(20, 400));
            uniform(draw, "rated", 4, &["32", "128", "256"], &pace);
            fixed_devices(draw, 4);
        }
        "DRAM, random lines" => dram(draw, &["kind = \"uniform\""]),
        "DRAM, streams" => dram(
            draw,
            &[
                "kind = \"stream\", footprint = \"64 MiB\", private = true",
                "kind = \"stride\", stride = \"4 KiB\", footprint = \"64 MiB\", private = true",
                "kind = \"hot-cold\", footprint = \"64 MiB\"",
            ],
        ),
        "private cache" => private_cache(draw),
        "finite sources" => {
            any_fabric(draw);
            let requests = draw.between(100, 15_000);
            uniform(draw, "short", 3, &["8", "64", "256"], "");
            draw.line(format!("requests = {requests}"));
            uniform(draw, "endless", 3, &["8", "64", "256"], "");
            fixed_devices(draw, 4);
        }
        "half duplex and packets" => packets(draw),
        _ => anything(draw),
    }
    std::mem::take(&mut draw.text)
}

fn full_link(draw: &mut Draw) {
    let lanes = lanes(draw);
    let topology = one_link(draw);
    fabric(draw, topology, &format!("link = {{ {lanes} }}"), &ROUTINGS);
    let pace = pace(draw, 600);
    let count = match topology.contains("direct") {
        true => 1,
        false => draw.between(1, 6),
    };
    uniform_hosts(draw, "h", count, &["64", "256", "512"], &pace);
    fixed_devices(draw, 4);
}

fn few_credits(draw: &mut Draw) {
    let (topology, lanes) = (topology(draw), lanes(draw));
    let few = ["4", "8", "16", "32"];
    let credits = ["m2s_req", "m2s_rwd", "s2m_ndr", "s2m_drs"];
    let credits = credits.map(|class| format!("{class} = {}", draw.pick(&few)));
    let credits = credits.join(", ");
    let link = format!("link = {{ {lanes}, credits = {{ {credits} }} }}");
    fabric(draw, &topology, &link, &ROUTINGS);
    uniform(draw, "h", 6, &["8", "32", "64", "128"], "");
    fixed_devices(draw, 6);
}

fn hot_device(draw: &mut Draw) {
    any_fabric(draw);
    uniform(draw, "hot", 6, &["16", "64", "256"], "");
    uniform(draw, "victim", 3, &["16", "64", "256"], "");
    let rate = draw.pick(&["2 GB/s", "5 GB/s", "10 GB/s"]);
    let slow = format!(
        "capacity = \"64 GiB\"\nmemory = {{ kind = \"fixed\", latency = \"50 ns\", bandwidth = \"{rate}\" }}"
    );
    devices(draw, "slow", 1, &slow);
    let (count, memory) = (draw.between(1, 3), fixed(draw));
    devices(
        draw,
        "d",
        count,
        &format!("capacity = \"64 GiB\"\n{memory}"),
    );
    let all = draw.one_in(2);
    let of_hot = if all { "\"slow\", \"d\"" } else { "\"slow\"" };
    region(draw, "hot", of_hot, "\"hot\"");
    region(draw, "cold", "\"d\"", "\"victim\"");
}

fn tornado(draw: &mut Draw) {
    let count = draw.between(3, 8);
    let lanes = lanes(draw);
    fabric(
        draw,
        &format!("topology = {{ kind = \"ring\", switches = {count}, placement = \"paired\" }}"),
        &format!("link = {{ {lanes} }}"),
        &["shortest", "adaptive"],
    );
    let outstanding = draw.pick(&["16", "64", "128"]);
    let issue = format!("outstanding = {outstanding}");
    let workload = format!("kind = \"uniform\", {}", mix(draw));
    let memory = fixed(draw);
    for host in 0..count {
        hosts(draw, &format!("h{host}"), 1, &issue, &workload);
    }
    devices(draw, "d", count, &memory);
    let away = draw.between(1, count / 2);
    for host in 0..count {
        let device = format!("\"d{}\"", (host + away) % count);
        region(draw, &format!("r{host}"), &device, &format!("\"h{host}\""));
    }
}

fn grid(draw: &mut Draw) {
    let kind = draw.pick(&["mesh", "torus"]);
    let dimensions = draw.pick(&["[2, 2]", "[3, 3]", "[4, 2]", "[2, 2, 2]", "[3, 3, 2]"]);
    let lanes = draw.pick(&["2", "4", "8"]);
    fabric(
        draw,
        &format!(
            "topology = {{ kind = \"{kind}\", dimensions = {dimensions}, placement = \"paired\" }}"
        ),
        &format!("link = {{ lanes = {lanes} }}\nedge_link = {{ lanes = 16 }}"),
        &ROUTINGS,
    );
    let count = draw.between(4, 12);
    uniform_hosts(draw, "h", count, &["16", "64", "128"], "");
    let memory = fixed(draw);
    devices(draw, "d", count, &memory);
}

fn parking_lot(draw: &mut Draw) {
    let switches = draw.between(2, 5);
    let arbitration = draw.pick(&["round-robin", "age"]);
    let lanes = lanes(draw);
    let names: Vec<String> = (0..switches).map(|at| format!("\"s{at}\"")).collect();
    let count = draw.between(2, 6);
    let mut links: Vec<String> = (1..switches)
        .map(|at| format!("[\"s{}\", \"s{at}\"]", at - 1))
        .collect();
    for host in 0..count {
        links.push(format!("[\"h{host}\", \"s{}\"]", draw.below(switches)));
    }
    links.push(format!("[\"d\", \"s{}\"]", switches - 1));
    fabric(
        draw,
        &format!(
            "topology = {{ kind = \"custom\", switches = [{}], links = [{}] }}",
            names.join(", "),
            links.join(", ")
        ),
        &format!("link = {{ {lanes} }}\nswitch = {{ arbitration = \"{arbitration}\" }}"),
        &["shortest"],
    );
    let workload = format!("kind = \"uniform\", {}", mix(draw));
    for host in 0..count {
        let outstanding = draw.pick(&["64", "128", "256"]);
        let issue = format!("outstanding = {outstanding}");
        hosts(draw, &format!("h{host}"), 1, &issue, &workload);
    }
    let memory = fixed(draw);
    devices(draw, "d", 1, &memory);
}

fn dram(draw: &mut Draw, kinds: &[&str]) {
    let topology = one_link(draw);
    fabric(draw, topology, "link = { lanes = 16 }", &ROUTINGS);
    let pace = pace(draw, 1_000);
    let ratio = mix(draw);
    let kind = match kinds {
        [kind] => kind,
        kinds => draw.pick(kinds),
    };
    let count = match topology.contains("direct") {
        true => 1,
        false => draw.between(1, 4),
    };
    let outstanding = draw.pick(&["4", "16", "64", "256"]);
    let issue = format!("outstanding = {outstanding}{pace}");
    hosts(draw, "h", count, &issue, &format!("{kind}, {ratio}"));
    let (count, channels) = (draw.between(1, 2), draw.pick(&["1", "2", "4"]));
    let memory = format!("memory = {{ kind = \"dram\", channels = {channels} }}");
    devices(draw, "d", count, &memory);
}

fn private_cache(draw: &mut Draw) {
    any_fabric(draw);
    let size = draw.pick(&["16 KiB", "64 KiB", "256 KiB"]);
    let footprint = draw.pick(&["32 KiB", "128 KiB", "512 KiB", "4 MiB"]);
    let kind = draw.pick(&["uniform", "zipf", "hot-cold", "stream"]);
    let ratio = mix(draw);
    let (count, outstanding) = (draw.between(1, 4), draw.pick(&["4", "16", "64"]));
    let issue = format!("outstanding = {outstanding}, cache = {{ size = \"{size}\" }}");
    let workload = format!("kind = \"{kind}\", footprint = \"{footprint}\", {ratio}");
    hosts(draw, "h", count, &issue, &workload);
    fixed_devices(draw, 4);
}

fn packets(draw: &mut Draw) {
    let duplex = draw.pick(&["half", "full"]);
    let rate = draw.pick(&["4 GB/s", "16 GB/s", "64 GB/s"]);
    let turn = draw.pick(&["0 ns", "1 ns", "5 ns"]);
    let half = match duplex {
        "half" => format!(", duplex = \"half\", turnaround = \"{turn}\""),
        _ => String::new(),
    };
    let switches = draw.between(1, 4);
    fabric(
        draw,
        &format!("topology = {{ kind = \"chain\", switches = {switches} }}"),
        &format!("link = {{ transmission = \"packet\", bandwidth = \"{rate}\"{half} }}"),
        &["shortest"],
    );
    uniform(draw, "h", 4, &["1", "16", "64", "256"], "");
    fixed_devices(draw, 4);
}

fn anything(draw: &mut Draw) {
    let (of_hosts, of_devices) = (draw.between(1, 8), draw.between(1, 8));
    let shape = shape(draw, of_hosts, of_devices);
    shape.write(draw);
    let credits = match draw.one_in(3) {
        true => {
            let few = draw.pick(&["8", "32"]);
            format!("credits = {{ m2s_req = {few}, s2m_drs = {few} }}")
        }
        false => String::new(),
    };
    let errors = match draw.one_in(4) {
        true => "flit_error_rate = 0.01",
        false => "",
    };
    let lanes = lane_keys(draw).join("\n");
    draw.line(format!("\n[fabric.link]\n{lanes}\n{credits}\n{errors}"));
    for host in 0..shape.hosts {
        let pace = match draw.one_in(3) {
            true => format!(", issue_interval = \"{} ns\"", draw.between(2, 200)),
            false => String::new(),
        };
        let outstanding = ["1", "16", "64", "256"];
        uniform_hosts(draw, &format!("h{host}"), 1, &outstanding, &pace);
    }
    let memory = match draw.one_in(4) {
        true => "memory = { kind = \"dram\" }".to_owned(),
        false => fixed(draw),
    };
    for device in 0..shape.devices {
        devices(draw, &format!("d{device}"), 1, &memory);
    }
}
