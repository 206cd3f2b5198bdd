//! Memory of devices that several hosts share: which host sees which memory,
//! and that no host sees more.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::{Bytes, Dpa, Hpa};
use cxlab_plan::Plan;
use cxlab_protocol::PortId;
use cxlab_tests::swarm::Draw;
use cxlab_tests::{plan, report, try_run};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
const UNIT: u64 = 256 << 20;

/// Device number and device address of a host's address, by the host's map. Also
/// checks that the device's decoders agree.
fn place(plan: &Plan, host: usize, hpa: u64) -> Option<(usize, u64)> {
    let (port, dpa) = plan.hosts[host].map.locate(Hpa(hpa))?;
    let device = usize::from(port.0) - plan.hosts.len();
    let decoders = &plan.devices[device].decoders;
    let host = PortId(host as u16);
    assert_eq!(decoders.decode(host, Hpa(hpa)), Some(dpa), "both agree");
    assert_eq!(decoders.encode(host, dpa), Some(Hpa(hpa)), "and back");
    Some((device, dpa.0))
}

const POOL: &str = r#"
name = "pool"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "a"
workload = { kind = "uniform", read_ratio = 0.5 }
requests = 500
[[hosts]]
name = "b"
workload = { kind = "uniform", read_ratio = 0.5 }
requests = 500
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
"#;

fn with(regions: &str) -> Plan {
    plan(&format!("{POOL}{regions}"), &[])
}

#[test]
fn exclusive_regions_follow_one_another_in_the_devices() {
    let plan = with("[[regions]]\nname = \"own\"\ncapacity = \"2 GiB\"\n");
    for host in 0..2 {
        assert_eq!(plan.hosts[host].map.span(), Bytes(2 * GIB));
        let first = host as u64 * GIB;
        for (hpa, expected) in [
            (0, Some((0, first))),
            (256, Some((1, first))),
            (512, Some((0, first + 256))),
            (2 * GIB - 64, Some((1, first + GIB - 64))),
            (2 * GIB, None),
        ] {
            assert_eq!(place(&plan, host, hpa), expected, "{host} {hpa:#x}");
        }
    }
}

#[test]
fn a_shared_region_is_one_memory_at_addresses_of_each_host() {
    let plan = with(
        "[[regions]]\nname = \"own\"\nhosts = [\"b\"]\ndevices = [\"d0\"]\ncapacity = \"1 GiB\"\n\
         [[regions]]\nname = \"all\"\nsharing = \"shared\"\ncapacity = \"1 GiB\"\n",
    );
    assert_eq!(place(&plan, 0, 64), Some((0, GIB + 64)));
    assert_eq!(place(&plan, 1, 64), Some((0, 64)), "its own comes first");
    assert_eq!(place(&plan, 1, GIB + 64), Some((0, GIB + 64)));
    assert_eq!(place(&plan, 1, GIB + 256), Some((1, 0)));
    // The first host has no address for the other's memory.
    let decoders = &plan.devices[0].decoders;
    assert_eq!(decoders.encode(PortId(0), Dpa(64)), None);
}

/// Two hosts, each with two root ports. They share a device with two heads, and
/// each has one of its own.
#[test]
fn hosts_that_reach_different_devices_share_one_with_several_heads() {
    let text = r#"
name = "heads"
[fabric.topology]
kind = "custom"
switches = []
links = [["a", "own0"], ["a", "pool"], ["b", "own1"], ["b", "pool"]]
[fabric]
[[hosts]]
name = "a"
workload = { kind = "stream", read_ratio = 0.5 }
requests = 300
[[hosts]]
name = "b"
workload = { kind = "stream", read_ratio = 0.5 }
requests = 300
[[devices]]
name = "own"
count = 2
capacity = "256 MiB"
[[devices]]
name = "pool"
capacity = "1 GiB"
"#;
    let plan = plan(text, &[]);
    // Without regions both hosts see the whole pool, after their own memory.
    for host in 0..2 {
        assert_eq!(place(&plan, host, 64), Some((host, 64)));
        assert_eq!(place(&plan, host, UNIT + 64), Some((2, 64)));
    }
    let report = try_run(&plan, 1).unwrap();
    assert_eq!(report.requests.completed, 600);
}

#[test]
fn the_bandwidth_of_one_device_is_shared_by_the_hosts_that_have_a_part_of_it() {
    let memory = "memory = { kind = \"fixed\", bandwidth = \"8 GB/s\" }\ncapacity";
    let base = POOL.replace("count = 2\ncapacity", memory);
    let text = format!("{base}[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n");
    let set = [
        "measure={ duration = \"40 us\" }",
        "devices[0].controller.write_completion=\"written\"",
        "hosts[0].requests=1000000",
        "hosts[1].requests=1000000",
    ];
    let report = report(&text, &set);
    let total = report.bandwidth_gb_per_s.total;
    assert!((7.9..=8.0).contains(&total), "{total} GB/s of 8");
    for host in &report.hosts {
        let share = host.completed as f64 / report.requests.completed as f64;
        assert!((0.49..=0.51).contains(&share), "{}: {share}", host.name);
    }
}

/// Random regions on random devices for random hosts. Those that do not fit are refused.
fn random(seed: u64) -> String {
    let mut draw = Draw::new(seed, "pooling");
    let (hosts, devices) = (draw.between(1, 4), draw.between(1, 4));
    draw.line("name = \"random\"\n[fabric]\ntopology = { kind = \"chain\", switches = 1 }");
    for host in 0..hosts {
        draw.line(format!(
            "[[hosts]]\nname = \"h{host}\"\nworkload = {{ kind = \"uniform\", read_ratio = 0.5 }}\nrequests = 40"
        ));
    }
    for device in 0..devices {
        draw.line(format!(
            "[[devices]]\nname = \"d{device}\"\ncapacity = \"16 GiB\""
        ));
    }
    let mut region = |name: &str, host: Option<usize>| {
        let mut members: Vec<usize> = (0..devices).filter(|_| draw.one_in(2)).collect();
        if members.is_empty() {
            members.extend(0..devices);
        }
        let names: Vec<String> = members.iter().map(|at| format!("\"d{at}\"")).collect();
        let share = UNIT * draw.between(1, 3) as u64;
        let whose = host.map_or(String::new(), |host| format!("hosts = [\"h{host}\"]\n"));
        let sharing = draw.pick(&["exclusive", "shared"]);
        draw.line(format!(
            "[[regions]]\nname = \"{name}\"\n{whose}devices = [{}]\nsharing = \"{sharing}\"\ncapacity = \"{} B\"",
            names.join(", "),
            share * members.len() as u64
        ));
    };
    for host in 0..hosts {
        region(&format!("first{host}"), Some(host));
    }
    region("all", None);
    region("more", None);
    draw.text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn hosts_meet_in_shared_regions_and_nowhere_else(seed in 0u64..10_000, at in 0u64..1 << 20) {
        let text = random(seed);
        let plan = plan(&text, &[]);
        let region = |name: &str| {
            let mut regions = plan.scenario.regions.iter();
            regions.find(|region| region.name == name).unwrap()
        };
        let size = |name: &str| region(name).capacity.0;
        let shared = |name: &str| region(name).sharing == cxlab_scenario::Sharing::Shared;
        // The regions of a host are in the order of the scenario.
        let spot = |host: usize, number: usize| {
            let first = size(&format!("first{host}"));
            let (base, bytes) = match number {
                0 => (0, first),
                1 => (first, size("all")),
                _ => (first + size("all"), size("more")),
            };
            base + at * 64 % bytes
        };
        let hosts = plan.hosts.len();
        for one in 0..hosts {
            for other in 0..hosts {
                for (a, b) in (0..9).map(|pair| (pair / 3, pair % 3)) {
                    let (here, there) = (spot(one, a), spot(other, b));
                    let same = place(&plan, one, here) == place(&plan, other, there);
                    let name = ["", "all", "more"][a];
                    let meet = one == other && a == b || a > 0 && a == b && shared(name);
                    assert_eq!(same, meet, "h{one} {here:#x}, h{other} {there:#x}\n{text}");
                }
            }
        }
        try_run(&plan, 1).unwrap();
    }
}
