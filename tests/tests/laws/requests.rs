//! The requests of CXL.cache that a device may choose among: the cache states that each leaves, and
//! the work that it causes in the host and in memory (CXL 3.1, section 3.2.4.2).

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use cxlab_system::report::Report;
use cxlab_tests::script::{self, Script};
use cxlab_tests::{report, rows, shipped};
use cxlab_workload::thread::{Bases, ExecutionPlace, Thread};

/// Lines of each of the two vectors: 32 KiB, a quarter of the device's cache.
const LINES: f64 = 512.0;

/// Report of a workload on an accelerator with these keys of its cache.
fn run(workload: &str, cache: &[&str], more: &[&str]) -> Report {
    let workload = format!("hosts[0].workload={{ {workload} }}");
    let cache = cache
        .iter()
        .map(|key| format!("accelerators[0].device.cache.{key}"));
    let mut set: Vec<String> = std::iter::once(workload).chain(cache).collect();
    set.extend(more.iter().map(|key| (*key).to_owned()));
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    report(&shipped("cohet-fpga"), &set)
}

/// `y = a x + y`: the cores fill both vectors, the device loads them and stores
/// `y`, and the cores read `y`.
fn axpy(cache: &[&str]) -> Report {
    run("kind = \"axpy\", elements = 4096", cache, &[])
}

fn device(report: &Report, name: &str) -> f64 {
    let value = report.accelerators[0].accelerator[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} is a number"))
}

fn host(report: &Report, name: &str) -> f64 {
    let value = report.hosts[0].processor[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} is a number"))
}

#[test]
fn a_line_that_is_read_once_is_in_no_cache() {
    let shared = axpy(&["load_request=\"RdShared\""]);
    assert_eq!(device(&shared, "hmc_misses"), 2.0 * LINES);
    // y is shared, then stored.
    assert_eq!(device(&shared, "hmc_upgrades"), LINES);
    let once = axpy(&["load_request=\"RdCurr\""]);
    assert_eq!(device(&once, "hmc_reads_once"), 2.0 * LINES);
    assert_eq!(device(&once, "hmc_upgrades"), 0.0);
    // y again, to store it.
    assert_eq!(device(&once, "hmc_misses"), 3.0 * LINES);
    // The cores keep their copies of a line that is only read once, so
    // the line is not written back.
    let less = host(&shared, "memory_writes") - host(&once, "memory_writes");
    assert_eq!(less, LINES);
}

#[test]
fn a_store_goes_where_its_request_says() {
    let once = "load_request=\"RdCurr\"";
    for (request, pushes, writes, memory_reads, memory_writes) in [
        // Into the last-level cache, from which the cores read the line.
        ("ItoMWr", LINES, 0.0, 2.0 * LINES, 0.0),
        // Into the last-level cache too, because a cache of the host has the line.
        ("WrCur", 0.0, LINES, 2.0 * LINES, 0.0),
        // The cores' modified line goes to memory, and then the device's write. The
        // cores read the line from memory.
        ("WrInv", 0.0, LINES, 3.0 * LINES, 2.0 * LINES),
        ("WOWrInv", 0.0, LINES, 3.0 * LINES, 2.0 * LINES),
    ] {
        let report = axpy(&[once, &format!("store_request=\"{request}\"")]);
        assert_eq!(device(&report, "hmc_pushes"), pushes, "{request}");
        assert_eq!(device(&report, "hmc_writes"), writes, "{request}");
        // It keeps no copy.
        assert_eq!(device(&report, "hmc_snoops"), 0.0, "{request}");
        assert_eq!(host(&report, "memory_reads"), memory_reads, "{request}");
        assert_eq!(host(&report, "memory_writes"), memory_writes, "{request}");
    }
}

/// The device loads 8,192 lines of memory three times, four times the capacity of its cache.
#[test]
fn a_host_takes_the_data_of_clean_lines_if_it_wants_them() {
    let unit = "kind = \"load-store-unit\", tier = \"memory\", lines = 8192, repeats = 3";
    let reads = |data: bool, to: &str| {
        let cache = ["clean_evict=true", &format!("clean_evict_data={data}")];
        let to = format!("hosts[0].processor.llc.device_evictions=\"{to}\"");
        let report = run(unit, &cache, &[&to]);
        assert!(device(&report, "hmc_clean_evictions") > 16_000.0);
        (host(&report, "memory_reads"), host(&report, "llc_hits"))
    };
    let dropped = reads(false, "memory");
    assert_eq!(reads(false, "llc"), dropped);
    assert_eq!(reads(true, "memory"), dropped, "GO_WritePull_Drop");
    let (memory, llc) = reads(true, "llc");
    assert_eq!(memory + llc, dropped.0 + dropped.1);
    assert!(memory < 0.8 * dropped.0, "{memory} of {}", dropped.0);
}

#[test]
fn a_flushed_cache_is_empty_and_the_directory_knows() {
    for (clean_evict, forgotten) in [(false, LINES), (true, 0.0)] {
        let report = axpy(&["flush_at_end=true", &format!("clean_evict={clean_evict}")]);
        let (clean, dirty) = (
            device(&report, "hmc_clean_evictions"),
            device(&report, "hmc_dirty_evictions"),
        );
        let snooped = device(&report, "hmc_snooped_modified");
        // Lines of y that cores read before their eviction are shared then, and evicted clean.
        assert_eq!(clean, LINES + snooped);
        assert_eq!(dirty, LINES - snooped);
        // If the cache drops lines of x silently, the host does not know of the evictions.
        assert_eq!(host(&report, "flushed_lines"), forgotten);
        assert_eq!(report.requests.in_flight_at_end, 0);
    }
    let report = axpy(&[]);
    assert_eq!(host(&report, "flushed_lines"), 0.0);
}

/// Value that the reader below has loaded.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// The first device increments a line that its cache owns. The second device reads the line once.
#[derive(Clone)]
struct Counting;

impl Script for Counting {
    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let line = bases.local;
        match place {
            ExecutionPlace::Element { accelerator: 0, .. } => {
                vec![Thread::new(move |t| async move {
                    for count in 1..400 {
                        t.store(line, count).await;
                    }
                })]
            }
            ExecutionPlace::Element { .. } => vec![Thread::new(move |t| async move {
                t.compute(4_000).await;
                LOADED.store(t.load(line).await, Ordering::Relaxed);
            })],
            ExecutionPlace::Core { .. } => Vec::new(),
        }
    }
}

/// The owner continues to store while its value is in flight. The read returns the value
/// at the time of the snoop.
#[test]
fn a_line_that_is_read_once_has_the_value_that_was_sent() {
    let text = "name = \"once\"\n[fabric]\ntopology = { kind = \"direct\" }\n[[hosts]]\nname = \"host\"\n\
         workload = { kind = \"external\", name = \"script\" }\nnodes = [{ capacity = \"1 MiB\" }]\n\
         processor = { cores = 1 }\n\
         [[accelerators]]\nname = \"holder\"\n[[accelerators]]\nname = \"reader\"\n\
         device = { cache = { load_request = \"RdCurr\" } }\n";
    let plan = script::plan(text, Counting);
    let (report, found) = rows(&plan, 1);
    let load = found.iter().find(|row| row.requester == 2).unwrap();
    let stores = |until: u64| {
        let own = found.iter().filter(|row| row.requester == 1);
        own.filter(|row| row.completed_ps <= until).count() as u64
    };
    let loaded = LOADED.load(Ordering::Relaxed);
    let (before, after) = (stores(load.issued_ps), stores(load.completed_ps));
    let is_between = before < loaded && loaded + 2 < after;
    assert!(is_between, "{before}, {loaded}, {after}");
    assert_eq!(rows(&plan, 2).0.provenance.digest, report.provenance.digest);
    assert_eq!(LOADED.load(Ordering::Relaxed), loaded);
}
