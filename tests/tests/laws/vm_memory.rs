//! Compares the memory of `cxlab vm` with the event engine: a guest's misses cost as much as the
//! same requests of a host in the same scenario.

use cxlab_cli::GuestMemory;
use cxlab_engine::rng::StreamRng;
use cxlab_plan::Plan;
use cxlab_system::analytic::PlanMemory;
use cxlab_tests::{assert_close, plan, report};
use cxlab_vm::memory::{GuestLineAddr, LineRequest, Memory};
use cxlab_vm::model::{Limits, Model, Processors, RecordResult};
use cxlab_vm::ring::Record;

/// One host, and one device behind a switch.
fn scenario(medium: &str, link: &str, outstanding: u32, workload: &str) -> String {
    format!(
        r#"
name = "one"
measure = {{ requests = 20000, warmup_requests = 2000 }}
fabric = {{ topology = {{ kind = "chain", switches = 1 }}, link = {link} }}
hosts = [{{ name = "host", issue = {{ outstanding = {outstanding} }}, workload = {workload} }}]
devices = [{{ name = "mem", capacity = "256 MiB", memory = {medium} }}]
"#
    )
}

fn model(plan: &Plan, misses: u32) -> Model<GuestMemory> {
    let limits = Limits {
        misses,
        writebacks: 256,
    };
    let memory = memory(plan, &[0]);
    Model::new(memory, &[Processors { count: 1, limits }])
}

/// The memory of guests on these hosts.
fn memory(plan: &Plan, hosts: &[usize]) -> GuestMemory {
    let memory = PlanMemory::new(plan, hosts, plan.scenario.seed);
    GuestMemory(memory.unwrap_or_else(|problems| panic!("{problems:?}")))
}

/// Latency of a load that meets no other, in picoseconds.
fn alone_ps(plan: &Plan, place: GuestLineAddr) -> Result<u64, cxlab_vm::memory::StuckBackend> {
    let mut memory = memory(plan, &[0]);
    let ticket = memory.issue(1_000_000, place, false);
    memory.finish(ticket).map(|at| at - 1_000_000)
}

/// Loads these lines one after another. Returns the mean wait of the second half, in nanoseconds.
fn loads(model: &mut Model<GuestMemory>, count: u64, line: impl Fn(u64) -> u64) -> f64 {
    let mut half = 0;
    for step in 0..count {
        if step == count / 2 {
            half = model.charged_ps(0);
        }
        let record = Record {
            // One picosecond of computing between the loads.
            at_ps: step,
            what: (line(step) * 64) | 1 << 63,
        };
        let done = model.alone(0, record);
        assert_eq!(done, Ok(()));
    }
    (model.charged_ps(0) - half) as f64 / (count - count / 2) as f64 / 1e3
}

const FIXED: &str = r#"{ kind = "fixed", latency = "80 ns" }"#;
const LINKS: [&str; 3] = [
    r#"{ generation = "6" }"#,
    r#"{ generation = "5", lanes = 4 }"#,
    r#"{ transmission = "packet", bandwidth = "7 GB/s" }"#,
];

#[test]
fn a_load_alone_takes_what_the_engine_says_to_the_picosecond() {
    for link in LINKS {
        let text = scenario(FIXED, link, 1, r#"{ kind = "uniform", read_ratio = 1.0 }"#);
        let engine = report(&text, &[]);
        let plan = plan(&text, &[]);
        let took = alone_ps(&plan, GuestLineAddr::cxl(12_345 * 64));
        let expected = (engine.latency_ns.min * 1e3).round() as u64;
        assert_eq!(took, Ok(expected), "{link}");
    }
}

/// A processor's own memory, a device's, and an accelerator's, of a guest whose host has a `processor`: a load that misses
/// all caches takes the lookups, which the plugin charges, and what the model says.
#[test]
fn a_load_of_a_processor_alone_takes_what_the_engine_says_to_the_picosecond() {
    const DEVICE: &str = r#"devices = [{ name = "mem", capacity = "256 MiB", memory = { kind = "fixed", latency = "80 ns" } }]"#;
    const ACCELERATOR: &str = r#"accelerators = [{ name = "xpu", memory = { capacity = "256 MiB", memory = { kind = "fixed", latency = "80 ns" } } }]"#;
    for (span, devices) in [("local", DEVICE), ("cxl", DEVICE), ("cxl", ACCELERATOR)] {
        let text = format!(
            r#"
name = "one"
measure = {{ requests = 400, warmup_requests = 100 }}
{devices}
[fabric]
topology = {{ kind = "direct" }}
[[hosts]]
name = "host"
processor = {{ reorder = 1, llc = {{ size = "4 MiB", ways = 16 }}, at = {{ column = 1 }} }}
nodes = [{{ capacity = "256 MiB", latency = "7 ns", memory = {{ kind = "fixed", latency = "60 ns" }} }}]
workload = {{ kind = "uniform", read_ratio = 1.0 }}
span = "{span}"
"#
        );
        let engine = report(&text, &[]);
        let plan = plan(&text, &[]);
        let place = match span {
            "cxl" => GuestLineAddr::cxl(12_345 * 64),
            _ => GuestLineAddr::local(12_345 * 64),
        };
        let took = alone_ps(&plan, place);
        let host = plan.scenario.hosts[0].processor();
        let host = host.expect("it has one");
        let caches = host.lookup().0 + host.llc.access_time.0 + 2 * host.mesh_time.0;
        // Of 500 lines in 256 MiB none is asked for twice.
        let least = (engine.latency_ns.min * 1e3).round() as u64;
        let took = took.map(|took| took + caches);
        assert_eq!(took, Ok(least), "{span}, {devices}");
    }
}

/// The engine's host needs constant media, and issues the next load in the same picosecond.
#[test]
fn dependent_loads_of_dram_take_what_the_engine_says() {
    let workload = r#"{ kind = "uniform", read_ratio = 1.0 }"#;
    let text = scenario(r#"{ kind = "dram" }"#, "{}", 1, workload);
    let engine = report(&text, &[]).latency_ns.mean;
    let plan = plan(&text, &[]);
    let rng = std::cell::RefCell::new(StreamRng::new(3, "lines"));
    let lines = (256 << 20) / 64;
    let random = |_| rng.borrow_mut().below(lines);
    let ours = loads(&mut model(&plan, 20), 20_000, random);
    assert_close(ours, engine, 0.02, "ns");
}

/// A walk through an array keeps as many lines in flight as there are MSHRs, and the engine's host
/// as many requests. On a full link, packed flits determine the bandwidth of both.
#[test]
fn a_stream_gets_the_bandwidth_that_the_engine_gives_as_many_requests() {
    for link in LINKS {
        for misses in [4, 16, 128] {
            let workload = r#"{ kind = "stream", read_ratio = 1.0 }"#;
            let text = scenario(FIXED, link, misses, workload);
            let engine = report(&text, &[]).bandwidth_gb_per_s.total;
            let plan = plan(&text, &[]);
            let mean = loads(&mut model(&plan, misses), 40_000, |step| step);
            let what = format!("GB/s, {link}, {misses}");
            assert_close(64.0 / mean, engine, 0.01, what);
        }
    }
}

/// Two hosts with a region each of one device behind a switch. The first has this many requests in flight, and the
/// second runs a stream. The system has the parts of ESF, because with the defaults 64 requests just fill four lanes.
/// Then the order of two simultaneous requests decides 1 % of either's rate.
fn two_hosts(medium: &str, link: &str, first: (u32, &str), second: u32) -> String {
    let (outstanding, workload) = first;
    let link = link.replacen('{', "{ preset = \"esf\",", 1);
    format!(
        r#"
name = "two"
measure = {{ requests = 40000, warmup_requests = 4000 }}
fabric = {{ topology = {{ kind = "chain", switches = 1 }}, switch = {{ preset = "esf" }}, link = {link} }}
devices = [{{ name = "mem", capacity = "512 MiB", controller = {{ preset = "esf" }}, memory = {medium} }}]
regions = [{{ name = "own", capacity = "256 MiB" }}]
[[hosts]]
name = "first"
issue = {{ preset = "esf", outstanding = {outstanding} }}
workload = {workload}
[[hosts]]
name = "second"
issue = {{ preset = "esf", outstanding = {second} }}
workload = {{ kind = "stream", read_ratio = 1.0 }}
"#
    )
}

/// A guest's loads: number of MSHRs, and the line of each load.
type Guest<'a> = (u32, &'a dyn Fn(u64) -> u64);

/// Executes two guests' loads in the order of their times, until each has made this many. Returns
/// by guest the mean time of a load in nanoseconds while both were active.
fn both(plan: &Plan, guests: [Guest<'_>; 2], count: u64) -> [f64; 2] {
    let memory = memory(plan, &[0, 1]);
    let processors = guests.map(|(misses, _)| Processors {
        count: 1,
        limits: Limits {
            misses,
            writebacks: 256,
        },
    });
    let mut model = Model::new(memory, &processors);
    let mut steps = [0; 2];
    // After the first tenth.
    let mut from = [None; 2];
    while steps.iter().all(|steps| *steps < count) {
        let at = |lane: usize| (steps[lane] + model.charged_ps(lane), lane);
        let ready = (0..2).filter(|lane| !model.waits(*lane)).map(at).min();
        let until = ready.map_or(u64::MAX, |(at, _)| at);
        let taken = match (model.first(until), ready) {
            (Some((_, lane)), _) => match model.resume(lane) {
                Ok((_, taken)) => (lane, taken),
                Err(stuck) => panic!("{stuck}"),
            },
            (None, Some((_, lane))) => {
                let what = (guests[lane].1(steps[lane]) * 64) | 1 << 63;
                let at_ps = steps[lane];
                (lane, model.record(lane, Record { at_ps, what }))
            }
            (None, None) => panic!("nobody goes on"),
        };
        if let (lane, RecordResult::Whole) = taken {
            steps[lane] += 1;
            if steps.contains(&(count / 10)) && from[0].is_none() {
                from = [0, 1].map(|lane| Some((steps[lane], model.charged_ps(lane))));
            }
        }
    }
    [0, 1].map(|lane| {
        let (first, charged) = from[lane].unwrap_or_default();
        (model.charged_ps(lane) - charged) as f64 / (steps[lane] - first) as f64 / 1e3
    })
}

#[test]
fn two_streams_share_a_device_as_the_engines_hosts_do() {
    for link in LINKS {
        for misses in [16, 64] {
            let stream = r#"{ kind = "stream", read_ratio = 1.0 }"#;
            let text = two_hosts(FIXED, link, (misses, stream), misses);
            let engine = report(&text, &[]);
            let plan = plan(&text, &[]);
            let stream: Guest<'_> = (misses, &|step| step);
            let ours = both(&plan, [stream; 2], 40_000);
            for (host, mean) in engine.hosts.iter().zip(ours) {
                let rate = host.bandwidth_gb_per_s.total;
                let what = format!("GB/s, {link} {misses} {}", host.name);
                assert_close(64.0 / mean, rate, 0.005, what);
            }
        }
    }
}

/// With DRAM, latency in a bank depends on the order of arrival, and requests of the
/// engine's stream arrive in other picoseconds.
#[test]
fn a_chase_beside_a_stream_waits_as_the_engines_host_does() {
    let dram = r#"{ kind = "dram", channels = 1 }"#;
    for (medium, apart) in [(FIXED, 0.005), (dram, 0.03)] {
        for link in LINKS {
            for misses in [4, 16, 64] {
                let chase = r#"{ kind = "uniform", read_ratio = 1.0 }"#;
                let text = two_hosts(medium, link, (1, chase), misses);
                let engine = report(&text, &[]);
                let plan = plan(&text, &[]);
                let rng = std::cell::RefCell::new(StreamRng::new(3, "lines"));
                let lines = (256 << 20) / 64;
                let random = |_| rng.borrow_mut().below(lines);
                let guests: [Guest<'_>; 2] = [(1, &random), (misses, &|step| step % lines)];
                let [chase, stream] = both(&plan, guests, 200_000);
                let wait = engine.hosts[0].latency_ns.mean;
                let rate = engine.hosts[1].bandwidth_gb_per_s.total;
                let what = format!("{medium} {link} {misses}");
                assert_close(chase, wait, apart, format!("chase, ns, {what}"));
                assert_close(64.0 / stream, rate, apart, format!("stream, GB/s, {what}"));
            }
        }
    }
}

/// Two hosts that share a device of class HDM-DB, behind a switch.
const COHERENT: &str = r#"
name = "coherent"
measure = { requests = 2000, warmup_requests = 0 }
fabric = { topology = { kind = "chain", switches = 1 }, switch = { switching_time = "20 ns" }, edge_link = { generation = "6", port_delay = "12 ns" } }
[[hosts]]
name = "node"
count = 2
issue = { outstanding = 1, process_time = "7 ns", cache = { size = "64 KiB", ways = 8, access_time = "0 ns" } }
workload = { kind = "uniform", read_ratio = 1.0 }
[[devices]]
name = "mem"
capacity = "256 MiB"
coherence = { class = "hdm-db", filter = { lines = 4, ways = 4, lookup_time = "3 ns", block = 1 } }
controller = { process_time = "5 ns" }
memory = { kind = "fixed", latency = "80 ns" }
[[regions]]
name = "all"
capacity = "256 MiB"
sharing = "shared"
"#;

/// Two guests, and the time of the next request, which meets no other.
struct Alone {
    memory: GuestMemory,
    at_ps: u64,
}

impl Alone {
    fn new(plan: &Plan) -> Alone {
        let memory = memory(plan, &[0, 1]);
        Alone { memory, at_ps: 0 }
    }

    /// Latency of what a guest wants of a line, in picoseconds; `None` for a hit.
    fn demand(&mut self, guest: usize, line: u64, demand: LineRequest) -> Option<u64> {
        self.at_ps += 1_000_000_000;
        let at = self.at_ps;
        self.memory.advance(at);
        let place = GuestLineAddr::cxl(line * 64).at(guest);
        let (ticket, _) = self.memory.demand(at, place, demand)?;
        self.memory.finish(ticket).ok().map(|done| done - at)
    }
}

#[test]
fn a_coherent_load_alone_takes_what_the_engine_says_to_the_picosecond() {
    let engine = report(COHERENT, &[]);
    let plan = plan(COHERENT, &[]);
    let took = Alone::new(&plan).demand(0, 12_345, LineRequest::Load);
    assert_eq!(took, Some((engine.latency_ns.min * 1e3).round() as u64));
}

/// One way takes `way`, a filter lookup 3 ns and the medium 80 ns. What the other guest has changed is fetched by a
/// snoop, a write, its completion and a response to the snoop: four ways and two lookups.
#[test]
fn a_line_that_another_guest_has_changed_costs_its_snoop_and_write_back() {
    let plan = plan(COHERENT, &[]);
    let mut alone = Alone::new(&plan);
    let first = alone.demand(0, 1, LineRequest::Own).unwrap();
    assert_eq!(alone.demand(0, 1, LineRequest::Own), None, "a hit");
    let taken = alone.demand(1, 1, LineRequest::Load).unwrap();
    assert_eq!(alone.memory.snoops(0).written_back, 1);
    // It keeps a shared copy.
    assert_eq!(alone.memory.snoops(0).invalidated, 0);
    let ways = first - 80_000 - 3_000;
    let more = taken - first;
    // Messages with data are longer, and the host's and the device's own times are in the way to the device.
    let expected = 2 * ways + 2 * 3_000;
    assert!(
        more.abs_diff(expected) < 4_000,
        "{more} ps for {expected} ps; alone {first} ps"
    );
    let upgraded = alone.demand(0, 1, LineRequest::Own).unwrap();
    assert_eq!(alone.memory.snoops(1).invalidated, 1);
    assert!(upgraded < first + ways + 3_000, "no data: {upgraded} ps");
    assert_eq!(alone.demand(1, 1, LineRequest::Evict), None, "it has none");
}

#[test]
fn a_full_snoop_filter_takes_lines_from_guests_that_still_have_them() {
    let plan = plan(COHERENT, &[]);
    let mut alone = Alone::new(&plan);
    for line in 0..4 {
        assert!(alone.demand(0, line, LineRequest::Load).is_some());
    }
    assert_eq!(alone.memory.snoops(0).snoops, 0);
    assert!(alone.demand(1, 4, LineRequest::Load).is_some());
    // The least recently used.
    assert_eq!(alone.memory.snoops(0).invalidated, 1);
    assert!(alone.demand(0, 0, LineRequest::Load).is_some());
    assert_eq!(alone.demand(0, 3, LineRequest::Load), None);
}
