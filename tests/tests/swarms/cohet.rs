//! Random systems of processors and accelerators under threads that mix all operations. Values must be right, nothing
//! may be lost, no request may wait for ever, and the number of the machine's threads must not matter.
//!
//! A failure prints the command that replays its system.
#![allow(clippy::unwrap_used)]

mod stress;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cxlab_engine::Monitor;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::SimTime;
use cxlab_host::VIRTUAL;
use cxlab_plan::{Externals, Files, Plan};
use cxlab_protocol::coherence::line_arbitration::LineArbitration;
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::{Document, validate};
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};
use cxlab_tests::checkpoint;
use cxlab_tests::swarm::Swarm;
use stress::Stress;

/// Start of the host's own memory.
const LOCAL: u64 = 1 << 51;
/// Start of the host's own memory and of CXL memory, in a process.
const HEAP: u64 = VIRTUAL.local;
const CXL: u64 = VIRTUAL.cxl;

const SWARM: Swarm<'_> = Swarm {
    module: "cohet",
    scenario: |seed| draw(seed).text,
};

struct Drawn {
    text: String,
    stress: Stress,
}

fn pick<'a>(rng: &mut StreamRng, of: &[&'a str]) -> &'a str {
    of[rng.below(of.len() as u64) as usize]
}

/// Draws a system with caches so small that evictions are frequent.
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn draw(seed: u64) -> Drawn {
    let mut rng = StreamRng::new(seed, "cohet-swarm");
    let cores = 1 + rng.below(3);
    let devices = 1 + rng.below(3);
    let elements = 1 + rng.below(2);
    let mixed = rng.chance(0.15);
    let pcie: Vec<bool> = (0..devices)
        .map(|_| rng.chance(if mixed { 0.5 } else { 0.1 }))
        .collect();
    let type2 = rng.chance(0.5);
    let expander = rng.chance(0.5);
    let topology = pick(
        &mut rng,
        &[
            "{ kind = \"direct\" }",
            "{ kind = \"chain\", switches = 1 }",
            "{ kind = \"chain\", switches = 3 }",
        ],
    );
    let link = pick(
        &mut rng,
        &[
            "generation = \"5\"",
            "generation = \"6\"",
            "generation = \"6\", flit = \"256B-latency-optimized\"",
            "transmission = \"packet\"",
        ],
    );
    let between = match link.strip_suffix("-latency-optimized\"") {
        Some(standard) => format!("{standard}\""),
        None if link == "generation = \"5\"" => format!("{link}, flit = \"256B\""),
        None => link.to_owned(),
    };
    // CacheIDs, which several caching devices behind a switch need, exist only in 256 B flits.
    let link = match devices > 1 && topology.contains("switches") {
        true => &between,
        false => link,
    };
    let credit = 1 + rng.below(8);
    let credits: Vec<String> = [
        "d2h_req",
        "d2h_rsp",
        "d2h_data",
        "h2d_req",
        "h2d_rsp",
        "h2d_data",
        "io_posted",
        "io_non_posted",
        "io_completion",
        "m2s_req",
        "m2s_rwd",
        "s2m_ndr",
        "s2m_drs",
    ]
    .iter()
    .map(|class| format!("{class} = {}", credit + rng.below(4)))
    .collect();
    let credits = credits.join(", ");
    let policy = pick(&mut rng, &["1 KiB", "2 KiB", "4 KiB"]);
    let llc = cores * 4096;
    let memory = pick(&mut rng, &["{ kind = \"fixed\" }", "{ kind = \"dram\" }"]);
    let prefetch = match rng.chance(0.3) {
        true => "prefetch = { kind = \"stride\", degree = 4 }\n",
        false => "",
    };
    let mut text = format!(
        "name = \"swarm\"\n[fabric]\ntopology = {topology}\nlink = {{ {between}, credits = {{ {credits} }} }}\n\
         edge_link = {{ {link}, credits = {{ {credits} }} }}\n\
         [[hosts]]\nname = \"host\"\nworkload = {{ kind = \"external\", name = \"stress\" }}\n\
         nodes = [{{ capacity = \"64 MiB\", memory = {memory} }}, {{ capacity = \"64 MiB\", at = {{ socket = 1 }} }}]\n\
         [hosts.processor]\ncores = {cores}\nmisses = {}\nl1 = {{ size = \"512 B\", ways = 2, access_time = \"2 ns\" }}\n\
         l2 = {{ size = \"2 KiB\", ways = 4, access_time = \"5 ns\" }}\nllc = {{ size = \"{llc} B\", ways = 4 }}\n\
         snoop_time = \"{} ns\"\n",
        1 + rng.below(8),
        rng.below(60),
    );
    if expander {
        text += "[[devices]]\nname = \"memory\"\ncapacity = \"256 MiB\"\n";
    }
    for device in 0..devices {
        let pcie = pcie[device as usize];
        let kind = if pcie { "pcie" } else { "type1" };
        let prefetch = if pcie { "" } else { prefetch };
        text += &format!(
            "[[accelerators]]\nname = \"device{device}\"\n{}[accelerators.device]\nkind = \"{kind}\"\n\
             cycle = \"{} ps\"\nelements = {elements}\nwindow = {}\n\
             atc = {{ cache = {{ entries = 2, ways = 2 }}, requests = 2 }}\n\
             dma = {{ tags = {}, read_request = \"128 B\", payload = \"64 B\", setup_cycles = 20, completion_cycles = 5 }}\n\
             [accelerators.device.cache]\nsize = \"{policy}\"\nmisses = {}\nhit_cycles = 4\nrequest_cycles = {}\n\
             response_cycles = 6\n{prefetch}[accelerators.device.dmc]\nsize = \"1 KiB\"\n",
            match type2 && !pcie {
                true => "memory = { capacity = \"256 MiB\" }\n",
                false => "",
            },
            600 + 100 * rng.below(20),
            1 + rng.below(8),
            1 + rng.below(4),
            2 + rng.below(8),
            rng.below(12),
        );
    }
    let silent = rng.chance(0.3);
    if silent {
        text = text.replace("hit_cycles = 4", "hit_cycles = 4\nclean_evict = false");
    }
    // A separate stream keeps the rest of a seed's system unchanged.
    let mut rng_llc = StreamRng::new(seed, "cohet-swarm-llc");
    if rng_llc.chance(0.5) {
        text = non_inclusive(&text, cores, &mut rng_llc);
    }
    let page = pick(&mut rng_llc, &["64 B", "256 B", "4 KiB"]);
    text = text.replace(
        "[accelerators.device.cache]",
        &format!("bias_page = \"{page}\"\n[accelerators.device.cache]"),
    );
    if rng_llc.chance(0.3) {
        text = with_a_program(
            &text,
            cores,
            expander || (type2 && pcie.contains(&false)),
            &mut rng_llc,
        );
    }
    let mut rng_atc = StreamRng::new(seed, "cohet-swarm-atc");
    text = text.replace(
        "atc = { cache = { entries = 2, ways = 2 }, requests = 2 }",
        &format!(
            "atc = {{ cache = {{ entries = {0}, ways = {0} }}, requests = {1} }}",
            pick(&mut rng_atc, &["1", "2", "4", "8"]),
            1 + rng_atc.below(4),
        ),
    );
    if StreamRng::new(seed, "cohet-swarm-writes").chance(0.6) {
        text = few_places(&text, &mut StreamRng::new(seed, "cohet-swarm-places"));
    }
    let mut bases = vec![LOCAL, LOCAL + (64 << 20)];
    let own = type2 && pcie.contains(&false);
    if expander || own {
        bases.push(0);
    }
    if own && expander {
        bases.push(256 << 20);
    }
    let os = rng.chance(0.5);
    if os {
        let owners = pcie.iter().filter(|pcie| own && !**pcie).count() as u64;
        let nodes = 2 + u64::from(expander) + owners;
        let at = text.find("[hosts.processor]").unwrap();
        text.insert_str(at, &draw_os(&mut rng, nodes));
        bases = vec![HEAP, HEAP + (5 << 20)];
        if expander || own {
            bases.push(CXL + 4096);
        }
    }
    text = with_requests(&text, &mut StreamRng::new(seed, "cohet-swarm-requests"));
    let mut rng_ways = StreamRng::new(seed, "cohet-swarm-ways");
    if rng_ways.chance(0.3) {
        let far = if os { "100 ns" } else { "1 us" };
        text = with_two_ways(&text, topology, far, &mut rng_ways);
    }
    text = with_back_invalidation(&text, &mut StreamRng::new(seed, "cohet-swarm-class"));
    Drawn {
        text,
        stress: Stress {
            bases,
            operations: 150,
            coherent: pcie.iter().map(|pcie| !pcie).collect(),
            stride: if os { 4096 + 64 } else { 64 },
            maps: os,
            hot: StreamRng::new(seed, "cohet-swarm-hot").chance(0.25),
            readers: StreamRng::new(seed, "cohet-swarm-readers").chance(0.25),
        },
    }
}

/// Adds a core that runs a pattern over the lines that the threads share. The core stores no values, so the values of
/// the threads are right if no cache keeps a copy that it should have lost.
fn with_a_program(text: &str, cores: u64, cxl: bool, rng: &mut StreamRng) -> String {
    let span = match cxl {
        true => pick(rng, &["local", "cxl", "all"]),
        false => "local",
    };
    let pattern = pick(rng, &["uniform", "pointer-chase", "stream"]);
    let text = text.replace(
        &format!("cores = {cores}\nmisses"),
        &format!(
            "cores = {}\nreorder = {}\nmisses",
            cores + 1,
            1 + rng.below(8)
        ),
    );
    text.replace(
        "[hosts.processor]",
        &format!(
            "beside = {{ workload = {{ kind = \"{pattern}\", footprint = \"1 KiB\", read_ratio = 0.5 }}, \
             requests = 200, span = \"{span}\" }}\n[hosts.processor]"
        ),
    )
}

/// Adds a victim cache of any size, and a directory that is often too small for the
/// lines of private caches and devices.
fn non_inclusive(text: &str, cores: u64, rng: &mut StreamRng) -> String {
    let inclusive = format!("llc = {{ size = \"{} B\", ways = 4 }}", cores * 4096);
    let ways = 1 + rng.below(8);
    let size = 64 * ways * (1 + rng.below(16));
    let directory = match rng.below(3) {
        0 => String::new(),
        _ => {
            let ways = 1 + rng.below(12);
            let entries = ways * (1 + rng.below(12));
            format!(", directory = {{ entries = {entries}, ways = {ways} }}")
        }
    };
    assert!(text.contains(&inclusive));
    text.replace(
        &inclusive,
        &format!(
            "llc = {{ size = \"{size} B\", ways = {ways}, inclusion = \"non-inclusive\"{directory} }}"
        ),
    )
}

/// Adds two paths between leaves, one of them far longer. Messages that may take either path
/// overtake others by whole round trips.
fn with_two_ways(text: &str, topology: &str, far: &str, rng: &mut StreamRng) -> String {
    let routing = pick(rng, &["oblivious", "random", "adaptive"]);
    let placement = pick(rng, &["split", "paired"]);
    let ways = format!(
        "{{ kind = \"spine-leaf\", leaves = 2, spines = 2, placement = \"{placement}\" }}\nrouting = \"{routing}\""
    );
    // Keeps the edge links of the system without switches, except for the flits (see CacheIDs above).
    let old = "edge_link = { generation = \"5\", credits";
    let new = "edge_link = { generation = \"5\", flit = \"256B\", credits";
    text.replace(topology, &ways).replace(old, new)
        + &format!(
            "[fabric.links.far]\npropagation = \"{far}\"\n[[fabric.overrides]]\n\
             between = [\"leaf*\", \"spine0\"]\nlink = \"far\"\n"
        )
}

/// Adds memory that some of its devices keep coherent, if the links carry back-invalidation.
fn with_back_invalidation(text: &str, rng: &mut StreamRng) -> String {
    const MEMORY: &str = "memory = { capacity = \"256 MiB\" }\n";
    if text.contains("generation = \"5\", credits") || !rng.chance(0.7) {
        return text.to_owned();
    }
    let mut parts = text.split(MEMORY);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        made += match rng.chance(0.8) {
            true => "memory = { capacity = \"256 MiB\", class = \"hdm-db\" }\n",
            false => MEMORY,
        };
        made += part;
    }
    let credits = format!(
        "s2m_bisnp = {}, m2s_birsp = {}, s2m_drs",
        1 + rng.below(4),
        1 + rng.below(4)
    );
    made.replace("s2m_drs", &credits)
}

/// Draws the requests of CXL.cache by which caches read, write and evict lines.
fn with_requests(text: &str, rng: &mut StreamRng) -> String {
    let load = pick(rng, &["RdAny", "RdAny", "RdShared", "RdCurr"]);
    let store = pick(
        rng,
        &["RdOwn", "RdOwn", "ItoMWr", "WrCur", "WrInv", "WOWrInv"],
    );
    let (data, flush, ahead) = (rng.chance(0.4), rng.chance(0.4), rng.chance(0.4));
    let evictions = pick(rng, &["memory", "llc"]);
    text.replace(
        "[accelerators.device.cache]\n",
        &format!(
            "[accelerators.device.cache]\nload_request = \"{load}\"\nstore_request = \"{store}\"\n\
             clean_evict_data = {data}\nflush_at_end = {flush}\n"
        ),
    )
    .replace(
        "llc = { ",
        &format!("llc = {{ device_evictions = \"{evictions}\", speculative_reads = {ahead}, "),
    )
}

/// Leaves few entries in the write buffers, and few parallel reads of memory.
fn few_places(text: &str, rng: &mut StreamRng) -> String {
    let pairs = [
        ("llc = { ", "write_buffer", 2 + rng.below(3), ", "),
        ("[hosts.processor]\n", "io_writes", 1 + rng.below(4), "\n"),
        (
            "[accelerators.device.dmc]\n",
            "write_buffer",
            1 + rng.below(2),
            "\n",
        ),
        ("llc = { ", "misses", 1 + rng.below(4), ", "),
    ];
    let mut text = text.to_owned();
    for (before, key, places, after) in pairs {
        assert!(text.contains(before), "{before}");
        text = text.replace(before, &format!("{before}{key} = {places}{after}"));
    }
    text
}

/// Draws an operating system whose pages migrate all the time, with tiny TLBs.
fn draw_os(rng: &mut StreamRng, nodes: u64) -> String {
    let placement = pick(rng, &["first-touch", "local", "interleave", "preferred"]);
    let placement = match placement {
        "interleave" => "{ kind = \"interleave\", nodes = [0, 1] }".to_owned(),
        "preferred" => format!("{{ kind = \"preferred\", nodes = [{}] }}", rng.below(nodes)),
        kind => format!("{{ kind = \"{kind}\" }}"),
    };
    let moves = rng.chance(0.7);
    // Pages of 2 MiB that migrate back and forth take too long.
    let large = !moves && rng.chance(0.3);
    let migration = match moves {
        // Every page of a fast node is demoted, and two touches promote it again.
        true => format!(
            "{{ kind = \"tpp\", slow = [{}], scan_period = \"{} us\", window = \"1 ms\", demote_scale = {} }}",
            1 + rng.below(nodes - 1),
            2 + rng.below(20),
            pick(rng, &["200", "10000"]),
        ),
        false => "{ kind = \"none\" }".to_owned(),
    };
    format!(
        "[hosts.os]\nplacement = {placement}\nmappings = [{{ kind = \"interleave\", nodes = [1, 0] }}]\nmigration = {migration}\n\
         pages = \"{}\"\ntlb = {{ entries = 2, ways = 2 }}\nwalk_cache = {{ level4 = 0, level3 = 1, level2 = 1 }}\n\
         walkers = {}\niommu = {{ walkers = {}, iotlb = {{ entries = 1, ways = 1 }} }}\nmoves = {}\ncopy_lines = {}\n\
         fault_time = \"20 ns\"\npage_request_time = \"100 ns\"\nshootdown_time = \"{} ns\"\nmove_time = \"1 ns\"\n",
        if large { "large" } else { "small" },
        1 + rng.below(3),
        1 + rng.below(2),
        1 + rng.below(4),
        1 + rng.below(8),
        rng.below(200),
    )
}

fn planned(seed: u64, arbitration: LineArbitration) -> Result<Plan, String> {
    planned_as(seed, arbitration, draw(seed))
}

fn planned_as(seed: u64, arbitration: LineArbitration, drawn: Drawn) -> Result<Plan, String> {
    let Drawn { text, stress } = drawn;
    let document = Document::parse("swarm.toml", &text).map_err(|why| format!("{why:?}"))?;
    let wrong = validate(&document, &cxlab_scenario::schema());
    if !wrong.is_empty() {
        return Err(format!("{wrong:?}\n{text}"));
    }
    let mut scenario: Scenario =
        serde_json::from_value(document.value().clone()).map_err(|why| why.to_string())?;
    let mut externals = Externals::new();
    externals.insert("stress".to_owned(), Arc::new(stress));
    scenario.seed = seed;
    for accelerator in &mut scenario.accelerators {
        accelerator.device.arbitration = arbitration;
    }
    Plan::with_externals(scenario, Files::default(), &externals)
        .map_err(|problems| format!("{problems:?}\n{text}"))
}

/// A time that no system here needs. A run that has not ended by then never ends.
const LONGEST: SimTime = SimTime(100_000_000_000);

fn simulate(seed: u64, threads: usize, arbitration: LineArbitration) -> Result<Report, String> {
    simulate_plan(&planned(seed, arbitration)?, seed, threads)
}

fn simulate_plan(plan: &Plan, seed: u64, threads: usize) -> Result<Report, String> {
    let monitor = Monitor::default();
    let options = RunOptions {
        seed,
        threads: threads.into(),
        monitor: &monitor,
        rows: None,
    };
    let done = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if monitor.time() > LONGEST {
                    monitor.interrupt();
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        let report = catch_unwind(AssertUnwindSafe(|| run(plan, options)));
        done.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        report
    });
    let report = report.unwrap_or_else(|why| resume_unwind(why));
    let text = || draw(seed).text;
    if monitor.is_interrupted() {
        let time = monitor.time();
        return Err(format!(
            "it goes on without an end, at {time:?}\n{}",
            text()
        ));
    }
    report.map_err(|why| format!("{why}\n{}", text()))
}

fn check(seed: u64) {
    let first = simulate(seed, 1, LineArbitration::HostFirst)
        .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    assert!(first.requests.completed > 100, "seed {seed} does something");
    if seed.is_multiple_of(4) {
        let other = simulate(seed, 2, LineArbitration::HostFirst)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(
            first.provenance.digest, other.provenance.digest,
            "seed {seed}: threads change it"
        );
    }
    if seed % 4 == 1 {
        let plan = planned(seed, LineArbitration::HostFirst)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        checkpoint::check(&plan, &checkpoint::timeless(first), seed);
    }
}

fn swarm(test: &str, seeds: Range<u64>) {
    SWARM.run(test, seeds, |seed, _| check(seed));
}

/// Back-invalidation meets requests before and after their device has processed them.
#[test]
fn snoops_meet_requests_early_and_late() {
    let seeds = (0..300).filter(|seed| draw(*seed).text.contains("class = \"hdm-db\""));
    let (mut early, mut late, mut passed) = (0.0, 0.0, 0.0);
    for seed in seeds.take(24) {
        let report =
            simulate(seed, 1, LineArbitration::HostFirst).unwrap_or_else(|why| panic!("{why}"));
        let host = |name: &str| report.hosts[0].processor[name].as_f64().unwrap();
        early += host("bi_early_conflicts");
        late += host("bi_conflicts") - host("bi_early_conflicts");
        let devices = report.accelerators.iter();
        passed += devices
            .filter_map(|device| device.accelerator.get("passed_modified")?.as_f64())
            .sum::<f64>();
    }
    let all = [early, late, passed];
    assert!(all.iter().all(|count| *count > 0.0), "{all:?}");
}

#[test]
fn values_are_right_in_random_systems() {
    swarm("values_are_right_in_random_systems", 0..150);
}

// Two tests, so that they run in parallel.
#[test]
#[ignore = "slow: run by make test-all"]
fn values_are_right_in_a_thousand_more_systems() {
    swarm("values_are_right_in_a_thousand_more_systems", 150..1300);
}

#[test]
#[ignore = "slow: run by make test-all"]
fn values_are_right_in_another_thousand_systems() {
    swarm("values_are_right_in_another_thousand_systems", 1300..2300);
}

/// Threads meet poison wherever it has spread. All of them must end.
#[test]
fn poison_ends_every_thread_of_a_system() {
    let memory = "[[devices]]\nname = \"memory\"\ncapacity = \"256 MiB\"\n";
    let (mut ended, mut at_devices) = (0, 0);
    for seed in 0..120 {
        let mut drawn = draw(seed);
        if !drawn.text.contains(memory) {
            continue;
        }
        let with = format!("{memory}media_errors = {{ rate = 0.2 }}\n");
        drawn.text = drawn.text.replace(memory, &with);
        let plan = planned_as(seed, LineArbitration::HostFirst, drawn).unwrap();
        let fails = |why| panic!("seed {seed}: {why}");
        let report = simulate_plan(&plan, seed, 1).unwrap_or_else(fails);
        if seed % 4 == 0 {
            let other = simulate_plan(&plan, seed, 2).unwrap_or_else(fails);
            assert_eq!(
                report.provenance.digest, other.provenance.digest,
                "seed {seed}"
            );
        }
        if seed % 4 == 1 {
            checkpoint::check(&plan, &checkpoint::timeless(report.clone()), seed);
        }
        let devices = report.accelerators.iter();
        let checks = devices.map(|one| one.accelerator["machine_checks"].as_f64().unwrap());
        let checks: f64 = checks.sum();
        ended += u32::from(report.hosts[0].processor.contains_key("threads_ended_ns"));
        at_devices += u32::from(checks > 0.0);
    }
    assert!(ended > 20 && at_devices > 5, "{ended}, {at_devices}");
}

/// With the rule of arbitration broken, a law of the run must report it.
#[test]
fn snoops_that_are_served_last_are_found() {
    let broken = |seed: &u64| match simulate(*seed, 1, LineArbitration::HostLast) {
        Ok(_) => false,
        Err(why) => {
            assert!(why.contains("bounded waiting"), "seed {seed}: {why}");
            true
        }
    };
    let hot = (0..60).filter(|seed| draw(*seed).stress.hot);
    let seeds: Vec<u64> = hot.collect();
    let found = seeds.iter().filter(|seed| broken(seed)).count();
    assert!(found > 0, "in one of {seeds:?}");
}
