//! Laws of a processor's last-level cache: latency of each kind of hit, capacity, and which lines
//! are evicted or invalidated, for inclusive and non-inclusive caches.
#![allow(clippy::unwrap_used)]

use cxlab_tests::rows;
use cxlab_tests::script::{self, Script};
use cxlab_workload::thread::{Bases, ExecutionPlace, Thread};

/// Lines that each core loads or stores one after the other. Each core begins long after the
/// previous one has ended, or all begin together.
#[derive(Clone)]
struct Chase {
    by_core: Vec<Vec<u64>>,
    stores: bool,
    together: bool,
}

impl Script for Chase {
    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let ExecutionPlace::Core { core } = place else {
            return Vec::new();
        };
        let (lines, stores) = (self.by_core[core].clone(), self.stores);
        let turn = if self.together { 0 } else { core as u32 };
        let base = bases.local;
        vec![Thread::new(move |t| async move {
            t.compute(1_000_000 * turn).await;
            for line in lines {
                match stores {
                    true => t.store(base + 64 * line, line).await,
                    false => t.load(base + 64 * line).await,
                };
            }
        })]
    }
}

/// Lines of the caches, each fully associative: L1, L2, and the last-level cache.
const L1: u64 = 4;
const L2: u64 = 16;
const LLC: u64 = 32;

const INCLUSIVE: &str = "inclusion = \"inclusive\"";
const NON_INCLUSIVE: &str =
    "inclusion = \"non-inclusive\", directory = { entries = 64, ways = 64 }";

/// Latencies in order of completion, and the processor's counters by name.
fn simulate(llc: &str, chase: Chase) -> (Vec<u64>, impl Fn(&str) -> u64) {
    let cores = chase.by_core.len();
    simulate_beside(llc, chase, cores, "[[devices]]\nname = \"memory\"\n")
}

/// Like [`simulate`], with any script and with devices.
fn simulate_beside(
    llc: &str,
    script: impl Script,
    cores: usize,
    devices: &str,
) -> (Vec<u64>, impl Fn(&str) -> u64) {
    let text = format!(
        "name = \"llc\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n[[hosts]]\nname = \"host\"\n\
         workload = {{ kind = \"external\", name = \"script\" }}\nnodes = [{{ capacity = \"1 MiB\" }}]\n\
         [hosts.processor]\ncores = {}\nmesh_time = \"7 ns\"\nsnoop_time = \"23 ns\"\n\
         l1 = {{ size = \"256 B\", ways = 4, access_time = \"1 ns\" }}\n\
         l2 = {{ size = \"1 KiB\", ways = 16, access_time = \"4 ns\" }}\n\
         llc = {{ size = \"{} B\", ways = {LLC}, access_time = \"11 ns\", {llc} }}\n{devices}",
        cores,
        64 * LLC,
    );
    let plan = script::plan(&text, script);
    let (report, rows) = rows(&plan, 1);
    let latencies = rows.iter().map(|row| row.completed_ps - row.issued_ps);
    let latencies = latencies.collect();
    let counts = report.hosts[0].processor.clone();
    (latencies, move |name| counts[name].as_f64().unwrap() as u64)
}

/// A device stores to a line and evicts it. Long after that, a core loads the line.
#[derive(Clone)]
struct Evicts;

impl Script for Evicts {
    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let line = bases.local;
        match place {
            ExecutionPlace::Element { .. } => vec![Thread::new(move |t| async move {
                t.store(line, 1).await;
                t.demote(line).await;
            })],
            ExecutionPlace::Core { .. } => vec![Thread::new(move |t| async move {
                t.compute(1_000_000).await;
                t.load(line).await;
            })],
        }
    }
}

#[test]
fn what_a_device_evicts_goes_where_the_processor_is_said_to_put_it() {
    let miss = miss();
    for inclusion in [INCLUSIVE, NON_INCLUSIVE] {
        for (place, latency, writes) in [("memory", miss, 1), ("llc", LLC_HIT, 0)] {
            let llc = format!("{inclusion}, device_evictions = \"{place}\"");
            let device = "[[accelerators]]\nname = \"device\"\n";
            let (latencies, count) = simulate_beside(&llc, Evicts, 1, device);
            assert_eq!(latencies.last(), Some(&latency), "{llc}");
            assert_eq!(count("memory_writes"), writes, "{llc}");
        }
    }
}

fn loads(lines: Vec<u64>) -> Chase {
    Chase {
        by_core: vec![lines],
        stores: false,
        together: false,
    }
}

fn laps(lines: u64, laps: u64) -> Chase {
    loads((0..laps).flat_map(|_| 0..lines).collect())
}

const L1_HIT: u64 = 1_000;
const L2_HIT: u64 = 5_000;
const LLC_HIT: u64 = 5_000 + 2 * 7_000 + 11_000;
const SNOOPED: u64 = LLC_HIT + 23_000;

/// Latency of a miss: that of the first load.
fn miss() -> u64 {
    let (latencies, _) = simulate(INCLUSIVE, loads(vec![0]));
    latencies[0]
}

#[test]
fn hits_take_what_lies_on_their_way() {
    let miss = miss();
    assert!(miss > LLC_HIT);
    // Line 0 leaves L1 for four other lines, then L2 for sixteen.
    let lines: Vec<u64> = [0, 0].into_iter().chain(1..=L1).chain([0]).collect();
    let more: Vec<u64> = lines.iter().copied().chain(1..=L2).chain([0]).collect();
    for llc in [INCLUSIVE, NON_INCLUSIVE] {
        let (latencies, _) = simulate(llc, loads(more.clone()));
        assert_eq!(latencies[0], miss, "{llc}");
        assert_eq!(latencies[1], L1_HIT, "{llc}");
        assert_eq!(latencies[lines.len() - 1], L2_HIT, "{llc}");
        assert_eq!(latencies.last(), Some(&LLC_HIT), "{llc}");
    }
}

#[test]
fn a_chase_fits_as_far_as_the_caches_hold_different_lines() {
    let miss = miss();
    // Latency of every load of the last lap, by the number of lines of a lap.
    let steps = |llc: &str, lines: u64| {
        let (latencies, _) = simulate(llc, laps(lines, 3));
        let last = &latencies[2 * lines as usize..];
        let is_even = last.iter().all(|one| *one == last[0]);
        assert!(is_even, "{llc}, {lines} lines: {last:?}");
        last[0]
    };
    for (lines, inclusive, non_inclusive) in [
        (L1, L1_HIT, L1_HIT),
        (L1 + 1, L2_HIT, L2_HIT),
        (L2, L2_HIT, L2_HIT),
        (L2 + 1, LLC_HIT, LLC_HIT),
        (LLC, LLC_HIT, LLC_HIT),
        (LLC + 1, miss, LLC_HIT),
        (L2 + LLC, miss, LLC_HIT),
        (L2 + LLC + 1, miss, miss),
    ] {
        assert_eq!(steps(INCLUSIVE, lines), inclusive, "{lines} lines");
        assert_eq!(steps(NON_INCLUSIVE, lines), non_inclusive, "{lines} lines");
    }
}

#[test]
fn as_many_lines_are_read_from_memory_at_once_as_the_cache_has_mshrs() {
    // Five nanoseconds in the controller each way, and a read of the media.
    const READ: u64 = 2 * 5_000 + 46_000;
    let miss = miss();
    for (mshrs, at_once) in [("", 64), (", misses = 1", 1), (", misses = 3", 3)] {
        let all = Chase {
            by_core: (0..8).map(|core| vec![core]).collect(),
            stores: false,
            together: true,
        };
        // An inclusive cache of this size has no room for eight cores.
        let llc = format!("{NON_INCLUSIVE}{mshrs}");
        let (latencies, count) = simulate(&llc, all);
        let expected: Vec<u64> = (0..8).map(|at| miss + at / at_once * READ).collect();
        assert_eq!(latencies, expected, "{mshrs}");
        assert_eq!(count("memory_reads"), 8);
    }
}

#[test]
fn only_what_no_cache_has_room_for_is_written_to_memory() {
    for (llc, room) in [(INCLUSIVE, LLC), (NON_INCLUSIVE, L2 + LLC)] {
        let stores = Chase {
            by_core: vec![(0..80).collect()],
            stores: true,
            together: false,
        };
        let (_, count) = simulate(llc, stores);
        assert_eq!(count("memory_writes"), 80 - room, "{llc}");
    }
}

#[test]
fn what_cores_read_passes_a_non_inclusive_cache_by_and_its_evictions_take_nothing_from_them() {
    // Loads one line more than L2 and the last-level cache hold together, and then the lines of L2.
    let total = L2 + LLC + 1;
    let again: Vec<u64> = (0..total).chain(total - L2..total).collect();
    let (latencies, count) = simulate(NON_INCLUSIVE, loads(again));
    assert!(latencies[total as usize..].iter().all(|one| *one <= L2_HIT));
    assert_eq!(count("llc_hits"), 0);
    assert_eq!(count("llc_evictions"), 1);
    assert_eq!(count("directory_evictions"), 0);
    // No other cache holds lines of L2, so as many loads as L2 has lines evict none.
    let (_, count) = simulate(NON_INCLUSIVE, laps(L2, 2));
    assert_eq!(count("llc_evictions") + count("llc_hits"), 0);
}

#[test]
fn a_directory_that_has_no_room_takes_lines_from_the_private_caches() {
    const ENTRIES: u64 = 8;
    let small = "inclusion = \"non-inclusive\", directory = { entries = 8, ways = 8 }";
    let (latencies, count) = simulate(small, laps(ENTRIES, 3));
    let later = &latencies[ENTRIES as usize..];
    assert!(later.iter().all(|one| *one <= L2_HIT), "{later:?}");
    assert_eq!(count("back_invalidations"), 0);
    // With one more line, each load finds that its line was evicted
    // from L2 to the last-level cache.
    let lines = ENTRIES + 1;
    let (latencies, count) = simulate(small, laps(lines, 3));
    let later = &latencies[lines as usize..];
    assert!(later.iter().all(|one| *one == LLC_HIT), "{later:?}");
    assert_eq!(count("back_invalidations"), 3 * lines - ENTRIES);
    assert_eq!(count("directory_evictions"), 3 * lines - ENTRIES);
}

#[test]
fn a_line_that_only_other_cores_have_is_handed_over_by_one_of_them() {
    let by_cores = |cores| Chase {
        by_core: vec![vec![0]; cores],
        stores: false,
        together: false,
    };
    let miss = miss();
    let (latencies, _) = simulate(INCLUSIVE, by_cores(2));
    assert_eq!(latencies, [miss, SNOOPED], "the first has it alone");
    // The third core is decisive: lines that cores share are in no other cache.
    let (latencies, count) = simulate(NON_INCLUSIVE, by_cores(3));
    assert_eq!(latencies, [miss, SNOOPED, SNOOPED]);
    assert_eq!(count("memory_reads"), 1);
}
