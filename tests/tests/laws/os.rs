//! Laws of translation: the cost of TLB misses, ATC misses and page faults follows exactly from the
//! parameters, and migrated pages keep their values.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Hpa;
use cxlab_system::report::Report;
use cxlab_system::run::RunError;
use cxlab_tests::script::{self, Script};
use cxlab_tests::try_rows;
use cxlab_workload::Image;
use cxlab_workload::thread::{Bases, Direction, ExecutionPlace, Thread, scratch};

const PAGE: u64 = 4096;

type Counts = serde_json::Map<String, serde_json::Value>;

/// Loads one after the other, at offsets in memory that exists from the beginning.
#[derive(Clone)]
struct Loads {
    offsets: Vec<u64>,
    by: ExecutionPlace,
}

const CORE: ExecutionPlace = ExecutionPlace::Core { core: 0 };
const DEVICE: ExecutionPlace = ExecutionPlace::Element {
    accelerator: 0,
    element: 0,
};

impl Script for Loads {
    fn prepare(&self, bases: Bases, image: &Image) {
        for offset in &self.offsets {
            if offset % 64 == 0 {
                image.write(Hpa(bases.local + offset), 8, offset + 1);
            }
        }
    }

    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        if place != self.by {
            return Vec::new();
        }
        let (base, offsets) = (bases.local, self.offsets.clone());
        vec![Thread::new(move |t| async move {
            for offset in offsets {
                let found = t.load(base + offset).await;
                let is_right = found == offset + 1 || offset % 64 != 0;
                assert!(is_right, "the value is there");
            }
        })]
    }
}

fn text(os: &str, device: &str) -> String {
    format!(
        "name = \"os\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n[[hosts]]\nname = \"host\"\n\
         workload = {{ kind = \"external\", name = \"script\" }}\nnodes = [{{ capacity = \"64 MiB\" }}]\n\
         processor = {{ llc = {{ size = \"4 MiB\", ways = 16 }} }}\n{os}\n\
         [[accelerators]]\nname = \"device\"\n{device}\n"
    )
}

fn simulate(
    text: &str,
    workload: impl Script,
    threads: usize,
) -> Result<(Report, Vec<u64>), RunError> {
    simulate_seeded(text, workload, threads, 1)
}

fn simulate_seeded(
    text: &str,
    workload: impl Script,
    threads: usize,
    seed: u64,
) -> Result<(Report, Vec<u64>), RunError> {
    let (report, rows) = try_rows(&script::plan(text, workload), seed, threads)?;
    let latencies = rows.iter().map(|row| row.completed_ps - row.issued_ps);
    Ok((report, latencies.collect()))
}

fn latencies(os: &str, device: &str, offsets: &[u64], by: ExecutionPlace) -> Vec<u64> {
    let loads = Loads {
        offsets: offsets.to_vec(),
        by,
    };
    simulate(&text(os, device), loads, 1).unwrap().1
}

const SLOW_TLB: &str = "os = { tlb = { entries = 16, ways = 16, latency = \"3 ns\" } }";

#[test]
fn a_walk_of_a_core_is_its_reads_one_after_the_other() {
    // The entries of pages 0 and 1 are in one line, that of page 8 in the next.
    let offsets = [0, PAGE, 8 * PAGE, 8 * PAGE + 64];
    let physical = latencies("", "", &offsets, CORE);
    let virtual_ = latencies(SLOW_TLB, "", &offsets, CORE);
    let miss = physical[0];
    assert_eq!(physical, [miss; 4], "the medium takes as long for all");
    let (lookup, l1) = (3_000, 5 * 417);
    assert_eq!(virtual_[0], lookup + 4 * miss + miss, "four levels");
    // One level, in the first cache.
    assert_eq!(virtual_[1], lookup + l1 + miss);
    assert_eq!(virtual_[2], lookup + miss + miss, "one level, in memory");
    assert_eq!(virtual_[3], miss, "a hit runs beside the cache");
}

#[test]
fn a_large_page_saves_a_level_and_covers_what_follows() {
    let offsets = [0, PAGE, 300 * PAGE];
    let os = "os = { pages = \"large\", tlb = { entries = 16, ways = 16, latency = \"3 ns\" } }";
    let physical = latencies("", "", &offsets, CORE);
    let virtual_ = latencies(os, "", &offsets, CORE);
    assert_eq!(virtual_[0], 3_000 + 3 * physical[0] + physical[0]);
    assert_eq!(virtual_[1..], physical[1..]);
}

#[test]
fn an_atc_miss_costs_the_link_and_the_reads_of_its_walk() {
    let device = "device = { atc = { cache = { entries = 1, ways = 1, latency = \"7 ns\" } } }";
    // Each load misses the ATC, which has one entry. The second access to page 0 hits the IOTLB.
    let offsets = [0, 8 * PAGE, 64, 8 * PAGE + 64, 128, 8 * PAGE + 65 * 64];
    let physical = latencies("", device, &offsets, DEVICE);
    let virtual_ = latencies("os = {}", device, &offsets, DEVICE);
    let line = physical[1];
    let waits: Vec<u64> = virtual_
        .iter()
        .map(|latency| latency - line - 7_000)
        .collect();
    // The home agent reads a line of the page table in the time of a core's miss,
    // less the path from the core.
    let core = latencies("", "", &[0], CORE)[0];
    let read = core - 15 * 417 - 2 * 10_000;
    assert_eq!(waits[0] - waits[1], 3 * read, "three levels less");
    assert_eq!(waits[1] - waits[2], read, "none at all: the IOTLB has it");
    assert_eq!((waits[3], waits[4]), (waits[2], waits[2]));
    // Walks of the IOMMU leave nothing in the last-level cache.
    assert_eq!(waits[5], waits[1]);
    // Two round trips through root complex and link, and the IOMMU.
    assert!(waits[2] > 2 * 100_000 + 25_000, "found {} ps", waits[2]);
}

/// A DMA transfer between the start of local memory and the device's buffers.
#[derive(Clone, Copy)]
struct Transfer {
    direction: Direction,
    bytes: u64,
}

impl Script for Transfer {
    fn prepare(&self, bases: Bases, image: &Image) {
        for at in (0..self.bytes).step_by(64) {
            image.write(Hpa(bases.local + at), 8, at);
        }
    }

    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let wanted = ExecutionPlace::Element {
            accelerator: 0,
            element: 0,
        };
        if place != wanted {
            return Vec::new();
        }
        let Transfer { direction, bytes } = *self;
        vec![Thread::new(move |t| async move {
            t.dma(direction, bases.local, scratch(0), bytes).await;
        })]
    }
}

/// Time of a transfer in picoseconds, and the accelerator's counters.
fn transfer(os: &str, atc: &str, direction: Direction, pages: u64) -> (u64, Counts) {
    let bytes = pages * PAGE;
    let device = format!("device = {{ {atc} }}");
    let transfer = Transfer { direction, bytes };
    let (report, _) = simulate(&text(os, &device), transfer, 1).unwrap();
    let time = (report.extent.sim_time_ns * 1000.0).round() as u64;
    (time, report.accelerators[0].accelerator.clone())
}

/// A DMA engine prefetches the translations of a descriptor. Whatever its length, the engine waits
/// only for the first translation, because the others arrive in time.
#[test]
fn dma_waits_for_its_first_translation_and_the_others_overlap_with_the_transfer() {
    for direction in [Direction::ToDevice, Direction::ToHost] {
        let (physical, _) = transfer("", "", direction, 1);
        let (virtual_, counts) = transfer("os = {}", "", direction, 1);
        let wait = virtual_ - physical;
        assert_eq!(counts["atc_misses"], 1.0);
        let reported = counts["atc_miss_ns"].as_f64().unwrap();
        assert_eq!(reported * 1000.0, wait as f64, "{direction:?}");
        assert_eq!(counts["dma_translation_stall_ns"], reported);

        // All pages of a transfer are requested at once, and arrive with the first one. That takes
        // somewhat longer, because the others read the same line of the page table.
        let (physical, _) = transfer("", "", direction, 8);
        let (virtual_, counts) = transfer("os = {}", "", direction, 8);
        assert_eq!(counts["atc_misses"], 8.0);
        assert_eq!(counts["dma_translation_stalls"], 1.0, "{direction:?}");
        let stalled = 1000.0 * counts["dma_translation_stall_ns"].as_f64().unwrap();
        assert_eq!((virtual_ - physical) as f64, stalled, "{direction:?}");
        assert!(stalled < 1.5 * wait as f64, "{direction:?}: {stalled} ps");

        // Longer than the prefetch limit: the rest is requested while pages are copied.
        let (physical, _) = transfer("", "", direction, 200);
        let (virtual_, counts) = transfer("os = {}", "", direction, 200);
        assert_eq!(counts["atc_misses"], 200.0);
        let late = virtual_ - physical - wait;
        assert!(late < wait, "{direction:?}: {late} ps beside {wait} ps");
    }
}

#[test]
fn translations_of_dma_are_bounded_by_requests_and_by_the_cache() {
    let direction = Direction::ToDevice;
    let (physical, _) = transfer("", "", direction, 8);
    let (all, _) = transfer("os = {}", "", direction, 8);
    let one_by_one = [
        "atc = { requests = 1 }",
        "atc = { cache = { entries = 1, ways = 1 } }",
    ];
    for atc in one_by_one {
        let (time, counts) = transfer("os = {}", atc, direction, 8);
        assert_eq!(counts["atc_misses"], 8.0, "{atc}");
        // A page of 4 KiB takes less time than two round trips through root complex and link.
        assert_eq!(counts["dma_translation_stalls"], 8.0, "{atc}");
        // Bytes of the previous page arrive while the engine waits.
        let stalled = 8000.0 * counts["dma_translation_stall_ns"].as_f64().unwrap();
        let longer = (time - physical) as f64;
        assert!(longer <= stalled + 1.0, "{atc}: {stalled} ps");
        assert!(time - physical > 3 * (all - physical), "{atc}: {time} ps");
    }
}

#[test]
fn a_page_fault_takes_its_time_and_zeroes_the_page() {
    // An offset that is not prepared is in an untouched page.
    let touch = |by: ExecutionPlace, os: &str| {
        let loads = Loads {
            offsets: vec![PAGE * 2 + 8],
            by,
        };
        let (report, _) = simulate(&text(os, ""), loads, 1).unwrap();
        report.hosts[0].processor.clone()
    };
    let os = "os = { copy_lines = 4, fault_time = \"300 ns\", page_request_time = \"2 us\" }";
    // 64 lines with four in flight, each as long as the home agent takes.
    let zero = 16.0 * 20.0;
    let core = touch(CORE, os);
    assert_eq!(core["page_faults"], 1.0);
    assert_eq!(core["page_fault_ns"], 300.0 + zero);
    let device = touch(DEVICE, os);
    assert_eq!(device["page_requests"], 1.0);
    assert_eq!(device["page_request_ns"], 2000.0 + zero);
    // The page and four levels of tables. The root existed before.
    let used = |report: &serde_json::Map<String, serde_json::Value>| {
        report["numa0.cpu.used_bytes"].as_f64().unwrap()
    };
    assert_eq!((used(&core), used(&device)), (5.0 * 4096.0, 5.0 * 4096.0));
}

#[test]
fn a_process_that_touches_what_it_has_not_ends_the_run() {
    for by in [CORE, DEVICE] {
        let loads = Loads {
            offsets: vec![(1 << 30) + 8],
            by,
        };
        let error = simulate(&text("os = { heap = \"1 GiB\" }", ""), loads, 1);
        let Err(RunError::Problems(problems)) = error else {
            panic!("the run ends with the workload's mistake")
        };
        assert_eq!(problems[0].path, "hosts[0].workload");
        let text = "no memory is mapped at 0x200040000000";
        let message = &problems[0].message;
        assert!(message.contains(text), "{message}");
    }
}

const TIERED: &str = "name = \"tiered\"\n[fabric]\ntopology = { kind = \"chain\", switches = 1 }\n\
    [[hosts]]\nname = \"host\"\nnodes = [{ capacity = \"64 MiB\" }]\n\
    workload = { kind = \"hot-pages\", memory = \"1 MiB\", operations = 3000, workers = \"all\" }\n\
    processor = { cores = 2, l2 = { size = \"64 KiB\", ways = 4, access_time = \"5 ns\" }, llc = { size = \"256 KiB\", ways = 16 } }\n\
    [hosts.os]\nplacement = { kind = \"preferred\", nodes = [1] }\n\
    migration = { kind = \"tpp\", scan_period = \"50 us\", window = \"10 ms\" }\n\
    [[devices]]\nname = \"expander\"\ncapacity = \"256 MiB\"\n\
    [[accelerators]]\nname = \"xpu\"\nmemory = { capacity = \"256 MiB\" }\n";

#[test]
fn hot_pages_go_up_and_keep_their_values_on_any_number_of_threads() {
    // At its end the kernel checks every counter.
    let none = || Loads {
        offsets: Vec::new(),
        by: CORE,
    };
    let (one, _) = simulate(TIERED, none(), 1).unwrap();
    let host = &one.hosts[0].processor;
    let count = |name: &str| host[name].as_f64().unwrap();
    assert!(count("pages_promoted") > 50.0);
    assert!(count("hint_faults") > 2.0 * count("pages_promoted"));
    let nodes = ["numa0.cpu", "numa1.memory", "numa2.xpu"];
    let used = |node: &&str| count(&format!("{node}.used_bytes"));
    let used: f64 = nodes.iter().map(used).sum();
    let tables = used - count("resident_bytes");
    assert_eq!(count("resident_bytes"), f64::from(1 << 20));
    // Four levels of tables, and no frame is lost.
    assert_eq!(tables, 4.0 * 4096.0);
    let device = &one.accelerators[0].accelerator;
    let blocks = device["page_blocks"].as_f64().unwrap();
    // A device is blocked while a page moves.
    assert_eq!(blocks, count("pages_promoted"));
    assert!(device["page_block_ns"].as_f64().unwrap() > 3000.0);
    for threads in [2, 3] {
        let (more, _) = simulate(TIERED, none(), threads).unwrap();
        assert_eq!(more.provenance.digest, one.provenance.digest);
        assert_eq!(more.hosts[0].processor, *host);
    }
}

/// A core has at most four lines in flight, also if many accesses wait for one
/// page table walk and continue together.
#[test]
fn accesses_that_waited_for_a_translation_are_misses_like_others() {
    let text = r#"
name = "misses"
[measure]
warmup_requests = 0
[fabric]
topology = { kind = "direct" }
link = { generation = "6" }
[[hosts]]
name = "cpu"
nodes = [{ capacity = "64 MiB", memory = { kind = "fixed", latency = "400 ns" } }]
workload = { kind = "stream-threads", array = "1 MiB", loops = ["copy"], outstanding = 64 }
processor = { misses = 4, llc = { size = "64 KiB", ways = 16 }, l2 = { size = "16 KiB", ways = 8, access_time = "5 ns" }, l1 = { size = "8 KiB", ways = 8, access_time = "1 ns" } }
os = {}
[[devices]]
name = "mem"
capacity = "256 MiB"
"#;
    let report = cxlab_tests::report(text, &[]);
    // Copy loads one line and fetches another to store it. Each takes at least 400 ns.
    let lines = 2.0 * f64::from(1 << 20) / 64.0;
    let least_ns = lines / 4.0 * 400.0;
    let time_ns = report.extent.sim_time_ns;
    assert!(time_ns > least_ns, "{time_ns} ns, at least {least_ns} ns");
}

/// Random replacement of translations draws from a stream of the run's seed and of the component.
/// So another seed or another component has other misses.
#[test]
fn translation_caches_draw_from_the_seed_and_from_streams_of_their_own() {
    let random = r#"entries = 4, ways = 4, replacement = "random""#;
    let os = format!("os = {{ tlb = {{ {random} }}, walk_cache = {{ level2 = 0 }} }}");
    let device = format!("count = 2\ndevice = {{ atc = {{ cache = {{ {random} }} }} }}");
    let text = text(&os, &device).replace("processor = {", "processor = { cores = 2,");
    // Sixty accesses to six pages, of which a cache holds four.
    let offsets: Vec<u64> = (0..60).map(|access| access * 7 % 6 * PAGE).collect();
    let run = |by, seed| {
        let offsets = offsets.clone();
        simulate_seeded(&text, Loads { offsets, by }, 1, seed)
            .unwrap()
            .1
    };
    let (core, other_core) = (CORE, ExecutionPlace::Core { core: 1 });
    let other_device = ExecutionPlace::Element {
        accelerator: 1,
        element: 0,
    };
    for (one, other) in [(core, other_core), (DEVICE, other_device)] {
        assert_eq!(run(one, 1), run(one, 1));
        assert_ne!(run(one, 1), run(one, 2), "{one:?}: the seed counts");
        assert_ne!(
            run(one, 1),
            run(other, 1),
            "{one:?}, {other:?}: streams differ"
        );
    }
}
