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

/// A group of hosts: its requests and their targets.
struct Group<'a> {
    name: &'a str,
    count: usize,
    issue: String,
    workload: String,
    more: String,
}

fn hosts(draw: &mut Draw, group: &Group<'_>) {
    let Group {
        name,
        count,
        issue,
        workload,
        more,
    } = group;
    draw.line(format!(
        "\n[[hosts]]\nname = \"{name}\"\ncount = {count}\nissue = {{ {issue} }}\nworkload = {{ {workload} }}\n{more}"
    ));
}

fn mix(draw: &mut Draw) -> String {
    let ratio = draw.pick(&["1.0", "1.0", "0.7", "0.5", "0.0"]);
    format!("read_ratio = {ratio}")
}

fn uniform(draw: &mut Draw) -> String {
    format!("kind = \"uniform\", {}", mix(draw))
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

fn region(draw: &mut Draw, name: &str, devices: &str, hosts: &str) {
    draw.line(format!(
        "\n[[regions]]\nname = \"{name}\"\ncapacity = \"3 GiB\"\ndevices = [{devices}]\nhosts = [{hosts}]"
    ));
}

fn fabric(draw: &mut Draw, topology: &str, link: &str, routing: &[&str], more: &str) {
    let routing = draw.pick(routing);
    draw.line(format!(
        "\n[fabric]\n{topology}\nrouting = \"{routing}\"\n{link}\n{more}"
    ));
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

const ROUTINGS: [&str; 4] = ["shortest", "oblivious", "random", "adaptive"];

/// Draws the scenario of a seed.
pub fn scenario(seed: u64) -> String {
    let mut draw = Draw::new(seed, "analytic");
    let draw = &mut draw;
    draw.line(format!("name = \"analytic-{seed}\"\nseed = {}", seed + 1));
    draw.line("[measure]\nwarmup_requests = 20000\nrequests = 20000");
    match family(seed) {
        "light" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes} }}"),
                &ROUTINGS,
                "",
            );
            let group = Group {
                name: "h",
                count: draw.between(1, 8),
                issue: format!("outstanding = {}", draw.between(1, 8)),
                workload: uniform(draw),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, memory) = (draw.between(1, 8), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "full link" => {
            let lanes = lanes(draw);
            let topology = match draw.below(2) {
                0 => "topology = { kind = \"direct\" }".to_owned(),
                _ => "topology = { kind = \"chain\", switches = 1 }".to_owned(),
            };
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes} }}"),
                &ROUTINGS,
                "",
            );
            let direct = topology.contains("direct");
            let pace = match draw.one_in(2) {
                true => format!(", issue_interval = \"{} ps\"", draw.between(600, 20_000)),
                false => String::new(),
            };
            let group = Group {
                name: "h",
                count: if direct { 1 } else { draw.between(1, 6) },
                issue: format!("outstanding = {}{pace}", draw.pick(&["64", "256", "512"])),
                workload: uniform(draw),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, memory) = (draw.between(1, 4), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "few credits" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            let few = |draw: &mut Draw| draw.pick(&["4", "8", "16", "32"]).to_owned();
            let credits = format!(
                "credits = {{ m2s_req = {}, m2s_rwd = {}, s2m_ndr = {}, s2m_drs = {} }}",
                few(draw),
                few(draw),
                few(draw),
                few(draw)
            );
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes}, {credits} }}"),
                &ROUTINGS,
                "",
            );
            let group = Group {
                name: "h",
                count: draw.between(1, 6),
                issue: format!("outstanding = {}", draw.pick(&["8", "32", "64", "128"])),
                workload: uniform(draw),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, memory) = (draw.between(1, 6), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "flit errors" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            let rate = draw.pick(&["0.001", "0.01", "0.03", "0.1"]);
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes}, flit_error_rate = {rate} }}"),
                &ROUTINGS,
                "",
            );
            let group = Group {
                name: "h",
                count: draw.between(1, 6),
                issue: format!("outstanding = {}", draw.pick(&["1", "8", "64", "256"])),
                workload: uniform(draw),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, memory) = (draw.between(1, 6), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "hot device" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes} }}"),
                &ROUTINGS,
                "",
            );
            for (name, most) in [("hot", 6), ("victim", 3)] {
                let group = Group {
                    name,
                    count: draw.between(1, most),
                    issue: format!("outstanding = {}", draw.pick(&["16", "64", "256"])),
                    workload: uniform(draw),
                    more: String::new(),
                };
                hosts(draw, &group);
            }
            let rate = draw.pick(&["2 GB/s", "5 GB/s", "10 GB/s"]);
            devices(
                draw,
                "slow",
                1,
                &format!(
                    "capacity = \"64 GiB\"\nmemory = {{ kind = \"fixed\", latency = \"50 ns\", bandwidth = \"{rate}\" }}"
                ),
            );
            let (count, memory) = (draw.between(1, 3), fixed(draw));
            devices(
                draw,
                "d",
                count,
                &format!("capacity = \"64 GiB\"\n{memory}"),
            );
            let all = draw.one_in(2);
            region(
                draw,
                "hot",
                if all { "\"slow\", \"d\"" } else { "\"slow\"" },
                "\"hot\"",
            );
            region(draw, "cold", "\"d\"", "\"victim\"");
        }
        "tornado on a ring" => {
            let count = draw.between(3, 8);
            let lanes = lanes(draw);
            fabric(
                draw,
                &format!(
                    "topology = {{ kind = \"ring\", switches = {count}, placement = \"paired\" }}"
                ),
                &format!("link = {{ {lanes} }}"),
                &["shortest", "adaptive"],
                "",
            );
            let (outstanding, ratio) = (draw.pick(&["16", "64", "128"]), mix(draw));
            let memory = fixed(draw);
            for host in 0..count {
                let group = Group {
                    name: &format!("h{host}"),
                    count: 1,
                    issue: format!("outstanding = {outstanding}"),
                    workload: format!("kind = \"uniform\", {ratio}"),
                    more: String::new(),
                };
                hosts(draw, &group);
            }
            devices(draw, "d", count, &memory);
            let away = draw.between(1, count / 2);
            for host in 0..count {
                let device = (host + away) % count;
                region(
                    draw,
                    &format!("r{host}"),
                    &format!("\"d{device}\""),
                    &format!("\"h{host}\""),
                );
            }
        }
        "mesh and torus" => {
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
                "",
            );
            let count = draw.between(4, 12);
            let group = Group {
                name: "h",
                count,
                issue: format!("outstanding = {}", draw.pick(&["16", "64", "128"])),
                workload: uniform(draw),
                more: String::new(),
            };
            hosts(draw, &group);
            let memory = fixed(draw);
            devices(draw, "d", count, &memory);
        }
        "parking lot" => {
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
                "",
            );
            let ratio = mix(draw);
            for host in 0..count {
                let group = Group {
                    name: &format!("h{host}"),
                    count: 1,
                    issue: format!("outstanding = {}", draw.pick(&["64", "128", "256"])),
                    workload: format!("kind = \"uniform\", {ratio}"),
                    more: String::new(),
                };
                hosts(draw, &group);
            }
            let memory = fixed(draw);
            devices(draw, "d", 1, &memory);
        }
        "rated beside saturating" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes} }}"),
                &ROUTINGS,
                "",
            );
            for name in ["fast", "rated"] {
                let pace = match name {
                    "rated" => format!(", issue_interval = \"{} ns\"", draw.between(20, 400)),
                    _ => String::new(),
                };
                let group = Group {
                    name,
                    count: draw.between(1, 4),
                    issue: format!("outstanding = {}{pace}", draw.pick(&["32", "128", "256"])),
                    workload: uniform(draw),
                    more: String::new(),
                };
                hosts(draw, &group);
            }
            let (count, memory) = (draw.between(1, 4), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "DRAM, random lines" | "DRAM, streams" => {
            let topology = match draw.below(2) {
                0 => "topology = { kind = \"direct\" }".to_owned(),
                _ => "topology = { kind = \"chain\", switches = 1 }".to_owned(),
            };
            fabric(draw, &topology, "link = { lanes = 16 }", &ROUTINGS, "");
            let pace = match draw.one_in(2) {
                true => format!(", issue_interval = \"{} ps\"", draw.between(1_000, 20_000)),
                false => String::new(),
            };
            let ratio = mix(draw);
            let streams = family(seed) == "DRAM, streams";
            let kind = match streams {
                true => draw.pick(&[
                    "kind = \"stream\", footprint = \"64 MiB\", private = true",
                    "kind = \"stride\", stride = \"4 KiB\", footprint = \"64 MiB\", private = true",
                    "kind = \"hot-cold\", footprint = \"64 MiB\"",
                ]),
                false => "kind = \"uniform\"",
            };
            let group = Group {
                name: "h",
                count: match topology.contains("direct") {
                    true => 1,
                    false => draw.between(1, 4),
                },
                issue: format!(
                    "outstanding = {}{pace}",
                    draw.pick(&["4", "16", "64", "256"])
                ),
                workload: format!("{kind}, {ratio}"),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, channels) = (draw.between(1, 2), draw.pick(&["1", "2", "4"]));
            devices(
                draw,
                "d",
                count,
                &format!("memory = {{ kind = \"dram\", channels = {channels} }}"),
            );
        }
        "private cache" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes} }}"),
                &ROUTINGS,
                "",
            );
            let size = draw.pick(&["16 KiB", "64 KiB", "256 KiB"]);
            let footprint = draw.pick(&["32 KiB", "128 KiB", "512 KiB", "4 MiB"]);
            let kind = draw.pick(&["uniform", "zipf", "hot-cold", "stream"]);
            let ratio = mix(draw);
            let group = Group {
                name: "h",
                count: draw.between(1, 4),
                issue: format!(
                    "outstanding = {}, cache = {{ size = \"{size}\" }}",
                    draw.pick(&["4", "16", "64"])
                ),
                workload: format!("kind = \"{kind}\", footprint = \"{footprint}\", {ratio}"),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, memory) = (draw.between(1, 4), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "finite sources" => {
            let (topology, lanes) = (topology(draw), lanes(draw));
            fabric(
                draw,
                &topology,
                &format!("link = {{ {lanes} }}"),
                &ROUTINGS,
                "",
            );
            for (name, requests) in [("short", draw.between(100, 15_000)), ("endless", 0)] {
                let group = Group {
                    name,
                    count: draw.between(1, 3),
                    issue: format!("outstanding = {}", draw.pick(&["8", "64", "256"])),
                    workload: uniform(draw),
                    more: match requests {
                        0 => String::new(),
                        requests => format!("requests = {requests}"),
                    },
                };
                hosts(draw, &group);
            }
            let (count, memory) = (draw.between(1, 4), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        "half duplex and packets" => {
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
                "",
            );
            let group = Group {
                name: "h",
                count: draw.between(1, 4),
                issue: format!("outstanding = {}", draw.pick(&["1", "16", "64", "256"])),
                workload: uniform(draw),
                more: String::new(),
            };
            hosts(draw, &group);
            let (count, memory) = (draw.between(1, 4), fixed(draw));
            devices(draw, "d", count, &memory);
        }
        _ => {
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
                let group = Group {
                    name: &format!("h{host}"),
                    count: 1,
                    issue: format!(
                        "outstanding = {}{pace}",
                        draw.pick(&["1", "16", "64", "256"])
                    ),
                    workload: uniform(draw),
                    more: String::new(),
                };
                hosts(draw, &group);
            }
            let of_dram = draw.one_in(4);
            let memory = match of_dram {
                true => "memory = { kind = \"dram\" }".to_owned(),
                false => fixed(draw),
            };
            for device in 0..shape.devices {
                devices(draw, &format!("d{device}"), 1, &memory);
            }
        }
    }
    std::mem::take(&mut draw.text)
}
