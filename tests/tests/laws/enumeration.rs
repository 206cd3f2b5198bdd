//! Enumeration over links: its time by the formula, its accesses by the log of an untimed run, and
//! workloads that it does not affect.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, SimTime};
use cxlab_plan::{End, Plan};
use cxlab_protocol::io::enumerate::{
    Access, EnumerationLog, Goal, Phase, Region, Target, enumerate,
};
use cxlab_protocol::io::space::{DeviceType, FunctionSpec};
use cxlab_protocol::io::tlp::{Framing, Kind, Tlp};
use cxlab_protocol::io::tree::{ComponentBelow, RootComplex};
use cxlab_system::report::{EnumerationReport, Report};
use cxlab_tests::{measured_by_workloads, plan, plan_with, scenario, shipped, try_run};
use cxlab_workload::{MemOp, OpKind, OpSource, SourceContext, Workload, WorkloadError};
use serde_json::Value;

use crate::documents;

const GIB: u64 = 1 << 30;
const HOST_BRIDGE: Hpa = Hpa(1 << 44);

fn run(plan: &Plan) -> Report {
    try_run(plan, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn of_first(report: &Report) -> &EnumerationReport {
    report.hosts[0].enumeration.as_ref().unwrap()
}

/// Accesses of the software of `scenarios/enumeration.toml` to an untimed hierarchy that is built
/// by hand: two expanders and a Type 2 device behind one switch.
fn log() -> EnumerationLog {
    let device = |kind| ComponentBelow::endpoint(FunctionSpec::endpoint(kind, GIB));
    let kinds = [DeviceType::Type3, DeviceType::Type3, DeviceType::Type2];
    let mut bridge = RootComplex::one(HOST_BRIDGE, [ComponentBelow::switch(kinds.map(device))]);
    let region = |base: u64, targets: &[usize], host_only| Region {
        base: Hpa(base * GIB),
        size: Bytes(targets.len() as u64 * GIB),
        granularity: Bytes(256),
        targets: targets.to_vec(),
        host_only,
        lock: false,
    };
    let goal = Goal {
        mmio_base: Hpa(1 << 45),
        mmio_bytes: GIB,
        max_read_request: 512,
        regions: vec![region(0, &[0, 1], true), region(2, &[2], false)],
    };
    enumerate(&mut bridge, &goal).unwrap()
}

/// Component that responds to an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    RootComplex,
    Switch,
    Expander,
    Accelerator,
}

fn on_bus(bus: u8) -> At {
    // Bus 0 is the root port, then follow the upstream port, the downstream ports,
    // and a bus for each device.
    match bus {
        0 => At::RootComplex,
        1 | 2 => At::Switch,
        3 | 4 => At::Expander,
        _ => At::Accelerator,
    }
}

fn who(log: &EnumerationLog, access: &Access) -> At {
    match access.target {
        Target::Config(to, _) => on_bus(to.bus),
        Target::Memory(at) if at.0 & !0xffff == HOST_BRIDGE.0 => At::RootComplex,
        Target::Memory(at) => {
            let holds = |bar: &cxlab_protocol::io::enumerate::Bar| {
                (bar.base.0..bar.base.0 + bar.bytes).contains(&at.0)
            };
            let mut functions = log.functions.iter();
            let found = functions.find(|found| found.bars.iter().any(holds));
            on_bus(found.unwrap().bdf.bus)
        }
    }
}

/// Constants of a system, in picoseconds.
struct Constants {
    software: u64,
    register: u64,
    host: u64,
    expander: u64,
    accelerator: u64,
    switching: u64,
    crossing: u64,
    framing: Framing,
    /// Time of a byte on the wire.
    byte: u64,
}

impl Constants {
    fn of(plan: &Plan, framing: Framing, byte: u64) -> Constants {
        let scenario = &plan.scenario;
        let params = scenario.enumeration.as_ref().unwrap();
        let (host, gpu) = (&scenario.hosts[0], &scenario.accelerators[0].device);
        Constants {
            software: params.software_time.0,
            register: params.register_time.0,
            host: host.egress().0 + host.ingress().0,
            expander: scenario.devices[0].controller.process_time.0,
            accelerator: gpu.egress().0 + gpu.ingress().0,
            switching: scenario.fabric.switch.switching_time.0,
            crossing: scenario.fabric.link.crossing_ps(),
            framing,
            byte,
        }
    }

    /// Time of a single packet on an idle link.
    fn link(&self, kind: Kind, bytes: u32) -> u64 {
        let bytes = u64::from(Tlp::new(kind, bytes).wire_bytes(self.framing));
        let on_wire = match self.framing {
            Framing::NonFlit => bytes,
            // Of the 256 bytes of a flit, 236 are for packets.
            Framing::Flit => (bytes * 256).div_ceil(236),
        };
        on_wire * self.byte + self.crossing
    }

    /// Time from the start of an access until the software continues.
    fn time(&self, at: At, access: &Access) -> u64 {
        let (request, bytes) = match (access.target, access.write) {
            (Target::Config(..), false) => (Kind::CfgRd, 0),
            (Target::Config(..), true) => (Kind::CfgWr, 4),
            (Target::Memory(_), false) => (Kind::MemRd, 0),
            (Target::Memory(_), true) => return self.software,
        };
        // On bus 2, numbers without a port give no response.
        let nobody = access.value == 0xffff_ffff && matches!(at, At::Switch) && !access.write;
        let (completion, back) = match access.write || nobody && is_identity(access) {
            true => (Kind::Cpl, 0),
            false => (Kind::CplD, 4),
        };
        let round = self.link(request, bytes) + self.link(completion, back) + self.switching;
        let far = match at {
            At::RootComplex => return self.software + self.register,
            At::Switch => self.host + round,
            At::Expander => self.host + self.expander + 2 * round,
            At::Accelerator => self.host + self.accelerator + 2 * round,
        };
        self.software + far + self.register
    }
}

fn is_identity(access: &Access) -> bool {
    matches!(access.target, Target::Config(_, 0))
}

fn accesses(report: &EnumerationReport, phase: usize) -> [u64; 4] {
    let found = &report.phases[phase].accesses;
    [
        found.config_reads,
        found.config_writes,
        found.memory_reads,
        found.memory_writes,
    ]
}

#[test]
fn the_time_is_the_sum_over_all_accesses_of_the_constants_on_their_way() {
    let log = log();
    assert_eq!(log.functions.len(), 8);
    for (link, framing) in [
        ("transmission=\"packet\"", Framing::NonFlit),
        ("transmission=\"flit\"", Framing::Flit),
    ] {
        // Exactly 10 ps a byte.
        let link = format!("fabric.link={{ {link}, bandwidth = \"100 GB/s\" }}");
        let times = "enumeration={ software_time = \"83 ns\", register_time = \"131 ns\" }";
        let plan = plan(&shipped("enumeration"), &[&link, times]);
        let constants = Constants::of(&plan, framing, 10);
        let report = run(&plan);
        let found = of_first(&report);
        let mut all = 0;
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(accesses(found, number), log.count(phase), "{phase:?}");
            let of_phase = log.accesses.iter().filter(|access| access.phase == phase);
            let sum: u64 = of_phase
                .map(|access| constants.time(who(&log, access), access))
                .sum();
            assert_eq!(found.phases[number].name, phase.name());
            let took_ns = found.phases[number].duration_ns;
            assert_eq!(took_ns, sum as f64 / 1e3, "{phase:?}");
            all += sum;
        }
        assert_eq!(found.duration_ns, all as f64 / 1e3);
        assert_eq!((found.functions, found.devices), (8, 3));
        assert!(report.extent.enumeration_ns.unwrap() >= found.duration_ns);
        assert!(report.extent.warmup_ns >= report.extent.enumeration_ns.unwrap());
    }
}

/// What the workload of a run measured, without enumeration.
fn measured(plan: &Plan) -> Report {
    measured_by_workloads(run(plan))
}

/// Asserts that two measurements are equal.
fn assert_alike(with: &Report, without: &Report, what: &str) {
    let [with, without] = [with, without].map(|report| serde_json::to_value(report).unwrap());
    let mut different = Vec::new();
    differences(&with, &without, "", &mut different);
    assert!(different.is_empty(), "{what}: {different:#?}");
}

/// Collects the paths at which two values differ.
fn differences(a: &Value, b: &Value, path: &str, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            for ((key, a), (other, b)) in a.iter().zip(b) {
                assert_eq!(key, other);
                differences(a, b, &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (number, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{number}]"), found);
            }
        }
        _ if a == b => {}
        _ => found.push(format!("{path}: {a} and {b}")),
    }
}

/// Shipped systems of each kind of host, with settings that let their registers
/// express the interleave. None has DRAM, which would be refreshed at other moments
/// of a workload that begins later.
const SYSTEMS: &[(&str, &[&str])] = &[
    ("direct", &[]),
    ("enumeration", &[]),
    ("single-vcs", &["address_map.ways=2"]),
    ("multiple-vcs", &["address_map.ways=1"]),
    ("ring-16", &["address_map.ways=8"]),
    ("trace", &[]),
    (
        "core-stream",
        &[
            "devices[0].memory={ kind = \"fixed\" }",
            "hosts[0].local.memory={ kind = \"fixed\" }",
        ],
    ),
    ("device-coherent", &[]),
    ("type123-pbr", &[]),
    (
        "processor-trace",
        &[
            "devices[0].memory={ kind = \"fixed\" }",
            "hosts[0].nodes[0].memory={ kind = \"fixed\" }",
        ],
    ),
];

#[test]
fn workloads_measure_the_same_with_and_without_enumeration() {
    for (name, set) in SYSTEMS {
        let measure = "measure={ warmup_requests = 200, requests = 2000 }";
        let mut set = [&[measure], *set].concat();
        let text = shipped(name).replace("\n[enumeration]\n", "\n");
        let without = measured(&plan(&text, &set));
        set.push("enumeration={}");
        let with = measured(&plan(&text, &set));
        assert!(with.requests.completed > 0, "{name}");
        assert_alike(&with, &without, name);
    }
}

/// Devices, host bridges and address maps of a host without a switch. XOR chooses only among host
/// bridges, so its systems have one bridge for each device.
const HOST_BRIDGES: &[(u32, u32, &str)] = &[
    (4, 2, "granularity = \"256 B\""),
    (4, 4, "granularity = \"4 KiB\""),
    (4, 4, "arithmetic = \"xor\""),
    (8, 4, "granularity = \"512 B\""),
    (3, 3, "granularity = \"256 B\""),
    (6, 3, "granularity = \"1 KiB\""),
    (12, 6, "granularity = \"256 B\""),
    (6, 6, "arithmetic = \"xor\""),
    (16, 16, "granularity = \"256 B\""),
];

#[test]
fn workloads_measure_the_same_over_several_host_bridges() {
    for (devices, host_bridges, map) in HOST_BRIDGES {
        let mut set = vec![
            "measure={ warmup_requests = 200, requests = 2000 }".to_owned(),
            format!("devices[0].count={devices}"),
            format!("address_map={{ {map} }}"),
        ];
        let text = shipped("direct");
        let planned =
            |set: &[String]| plan(&text, &set.iter().map(String::as_str).collect::<Vec<_>>());
        let without = measured(&planned(&set));
        set.push(format!("enumeration={{ host_bridges = {host_bridges} }}"));
        let whole = run(&planned(&set));
        let found = of_first(&whole);
        // A root port for each device, however many host bridges there are.
        assert_eq!(found.functions, 2 * found.devices);
        // A decoder with seven writes in each host bridge and device,
        // and the write that enables it.
        let decode = accesses(found, Phase::Decode as usize);
        assert_eq!(decode[3], 8 * u64::from(devices + host_bridges));
        let with = measured(&planned(&set));
        assert_alike(&with, &without, &format!("{devices} over {host_bridges}"));
    }
}

/// Loads lines of the first device, each at a given time.
struct Timed;

struct Lines(u64);

cxlab_engine::cannot_save!(Lines, "operations of a test");

impl OpSource for Lines {
    fn next_op(&mut self, _: &mut StreamRng) -> Option<MemOp> {
        self.0 += 1;
        (self.0 <= 100).then(|| MemOp {
            hpa: Hpa(64 * 97 * self.0),
            kind: OpKind::Read,
            lines: 1,
            not_before: SimTime(self.0 * 1_357_911),
            dependent: false,
            write_back: false,
        })
    }
}

impl Workload for Timed {
    fn source(&self, _: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Lines(0)))
    }
    fn is_finite(&self) -> bool {
        true
    }
}

fn timed(issuer: &str, enumerates: bool) -> Plan {
    let enumeration = if enumerates { "enumeration = {}" } else { "" };
    let text = format!(
        r#"
name = "timed"
{enumeration}
[fabric]
topology = {{ kind = "direct" }}
[[hosts]]
name = "host"
workload = {{ kind = "external", name = "timed" }}
{issuer}
[[devices]]
name = "mem"
"#
    );
    plan_with(scenario(&text, &[]), [("timed", Arc::new(Timed))])
}

#[test]
fn times_of_operations_count_from_when_the_workload_begins() {
    for issuer in [
        "",
        "core = {}",
        "processor = { cores = 1 }\nnodes = [{ capacity = \"64 MiB\" }]",
    ] {
        let with = measured(&timed(issuer, true));
        let without = measured(&timed(issuer, false));
        assert_eq!(with.requests.completed, 100, "{issuer}");
        assert!(
            with.extent.window_ns > 135_791.1,
            "{issuer}: {}",
            with.extent.window_ns
        );
        assert_alike(&with, &without, issuer);
    }
}

#[test]
fn enumeration_does_not_depend_on_threads() {
    for (name, set) in SYSTEMS {
        let set = [&["measure={ requests = 500 }", "enumeration={}"], *set].concat();
        let plan = plan(&shipped(name), &set);
        let [one, two] = [1, 2].map(|threads| try_run(&plan, threads).unwrap());
        let of = |report: &Report| -> Vec<_> {
            let hosts = report.hosts.iter();
            hosts
                .map(|host| host.enumeration.clone().unwrap())
                .collect()
        };
        assert_eq!(of(&one), of(&two), "{name}");
        let (one, two) = (
            (one.provenance.digest, one.extent.events),
            (two.provenance.digest, two.extent.events),
        );
        assert_eq!(one, two, "{name}");
    }
}

#[test]
fn what_hosts_send_each_other_takes_its_turn_on_a_link_that_they_share() {
    // Two hosts behind one switch each program a device behind
    // another. A single host finishes sooner.
    let text = |hosts: u32| {
        format!(
            r#"
name = "two"
enumeration = {{ software_time = "1 ns", register_time = "1 ns" }}
[fabric]
topology = {{ kind = "chain", switches = 2 }}
link = {{ lanes = 1, generation = "3", flit = "256B" }}
[[hosts]]
name = "host"
count = {hosts}
workload = {{ kind = "uniform" }}
requests = 10
[[devices]]
name = "mem"
capacity = "1 GiB"
"#
        )
    };
    let longest = |hosts: u32| {
        let report = run(&plan(&text(hosts), &[]));
        let all = report.hosts.iter();
        let all: Vec<f64> = all
            .map(|host| host.enumeration.as_ref().unwrap().duration_ns)
            .collect();
        assert_eq!(all.len(), hosts as usize);
        all.into_iter().fold(0.0, f64::max)
    };
    assert!(longest(8) > longest(1));
}

#[test]
fn hosts_that_share_devices_program_logical_devices_of_their_own() {
    let text = r#"
name = "pool"
enumeration = {}
[fabric]
topology = { kind = "chain", switches = 2 }
[[hosts]]
name = "a"
workload = { kind = "uniform" }
requests = 500
[[hosts]]
name = "b"
workload = { kind = "uniform" }
requests = 500
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
logical_devices = 2
[[regions]]
name = "own"
capacity = "2 GiB"
[[regions]]
name = "of-b"
capacity = "1 GiB"
hosts = ["b"]
devices = ["d1"]
"#;
    let report = run(&plan(text, &[]));
    let accesses = |host: usize| {
        let found = report.hosts[host].enumeration.as_ref().unwrap();
        assert_eq!((found.functions, found.devices), (6, 2));
        found.accesses.memory_writes
    };
    // One additional decoder in host bridge, switch and device, with seven writes each.
    assert_eq!(accesses(1), accesses(0) + 3 * 7);
}

#[test]
fn accesses_reach_devices_over_a_half_duplex_bus() {
    let set = [
        "fabric.link={ transmission = \"packet\", duplex = \"half\" }",
        "enumeration={}",
    ];
    let report = run(&plan(&shipped("enumeration"), &set));
    assert_eq!(of_first(&report).devices, 3);
}

#[test]
fn the_direct_system_has_root_ports_and_no_switch() {
    let plan = plan(&shipped("direct"), &["enumeration={}"]);
    let root_ports = plan.links.iter();
    let root_ports = root_ports.filter(|link| matches!(link.a, End::Host(0, _)));
    let root_ports = root_ports.count() as u64;
    let found = run(&plan);
    let found = of_first(&found);
    assert_eq!(found.functions - found.devices, root_ports);
}

/// The table of `docs/reference/cxl-io.md`.
fn table() -> String {
    let report = run(&plan(&shipped("enumeration"), &[]));
    let found = of_first(&report);
    let row = |name: &str, of: [u64; 4], duration_ns: f64| {
        let [a, b, c, d] = of;
        format!(
            "| {name} | {a} | {b} | {c} | {d} | {:.3} |\n",
            duration_ns / 1e3
        )
    };
    let mut text = String::from(
        "| phase | configuration reads | configuration writes | memory reads | memory writes | time, us |\n\
         |---|---|---|---|---|---|\n",
    );
    let mut all = [0; 4];
    for (number, phase) in found.phases.iter().enumerate() {
        let of = accesses(found, number);
        all.iter_mut().zip(of).for_each(|(sum, of)| *sum += of);
        text += &row(&phase.name, of, phase.duration_ns);
    }
    text + &row("all", all, found.duration_ns)
}

#[test]
fn the_document_shows_what_the_shipped_scenario_takes() {
    documents::compare("reference/cxl-io.md", &[("phase", table())]);
}
