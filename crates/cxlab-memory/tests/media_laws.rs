//! Laws that every medium of the catalog must obey.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{TimedRequest, drain, drive, medium, request, statistics};
use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_memory::{CATALOG, Medium, MediumSite, MemoryBackend, MemoryRequest};

const CAPACITY: u64 = 1 << 30;
/// The folder of curve files that samples name.
const CURVES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/curves");

/// Sample parameters for each medium. A plug-in needs a library, and has its own tests.
fn samples(kind: &str) -> Vec<&'static str> {
    match kind {
        "fixed" => vec![
            "{}",
            r#"{"banks": 4, "bank_cycle": "50 ns", "bandwidth": "4 GB/s", "queue": 8}"#,
        ],
        "dram" => vec![
            "{}",
            r#"{"grade": "DDR4-3200AA", "channels": 1, "ranks": 2, "bank_queue": 4, "page": {"kind": "capped", "idle": "50 ns"}}"#,
            r#"{"grade": "HBM3-6400", "channels": 4, "refresh": "per-bank", "write_done": "written"}"#,
            r#"{"ranks": 2, "rank_queue": 8, "rfm": 8, "hash": {"kind": "fold"}}"#,
            r#"{"grade": "HBM4-8000", "organization": "8Gb 8-high", "refresh": "per-bank"}"#,
            r#"{"grade": "LPDDR6-10667", "channels": 1}"#,
        ],
        "pmem" => vec![
            "{}",
            r#"{"mode": "simple"}"#,
            r#"{"mode": "simple", "write_done": "queued"}"#,
            r#"{"mode": "simple", "write_done": "queued", "combine": false, "queue": 4, "read_queue": 2, "pending_writes": 2}"#,
        ],
        "ssd" => vec!["{}", r#"{"buffer_reads": false, "buffer": "1 MiB"}"#],
        "dram-cache" => vec![
            r#"{"size": "1 MiB", "behind": {"kind": "pmem"}, "prefetch": {"kind": "stride"}}"#,
            r#"{"size": "1 MiB", "behind": {"kind": "fixed", "latency": "3 us"}, "dram": {"kind": "dram"}, "mshrs": 2}"#,
        ],
        "interleaved" => vec![
            r#"{"media": [{"kind": "dram", "channels": 1}], "copies": 4, "spread": "xor"}"#,
            r#"{"media": [{"kind": "pmem"}, {"kind": "fixed", "queue": 2}], "granularity": "4 KiB", "queue": 3}"#,
        ],
        "data-path" => vec![
            r#"{"read_bandwidth": "8 GB/s", "medium": {"kind": "dram"}}"#,
            r#"{"read_bandwidth": "8 GB/s", "write_bandwidth": "1 GB/s", "medium": {"kind": "fixed", "queue": 4}}"#,
        ],
        "curves" => vec![
            r#"{"file": "invented.csv", "measured_at": "device"}"#,
            r#"{"file": "invented.csv", "measured_at": "host", "minus": "50 ns", "queue": 100, "window": 10}"#,
        ],
        _ => Vec::new(),
    }
}

fn media() -> Vec<(String, Box<dyn Medium>)> {
    let mut all = Vec::new();
    for entry in CATALOG.iter().filter(|entry| entry.name != "plugin") {
        let samples = samples(entry.name);
        assert!(!samples.is_empty(), "no sample of `{}`", entry.name);
        for sample in samples {
            let built = medium(entry.name, &serde_json::from_str(sample).unwrap());
            let mut medium = built.unwrap_or_else(|e| panic!("{sample}: {e}"));
            let loaded = medium.load(Path::new(CURVES));
            loaded.unwrap_or_else(|e| panic!("{sample}: {e}"));
            medium.check(Bytes(CAPACITY)).unwrap();
            all.push((format!("{} {sample}", entry.name), medium));
        }
    }
    all
}

/// Requests in bursts, pauses, streams, and a hot set.
fn traffic(seed: u64, count: usize) -> Vec<TimedRequest> {
    let mut rng = StreamRng::new(seed, "traffic");
    let mut list = Vec::new();
    let (mut at, mut line) = (0, 0);
    while list.len() < count {
        let gap = [0, 2_000, 50_000, 3_000_000][rng.below(4) as usize];
        let kind = rng.below(3);
        let lines = [1, 1, 4, 64][rng.below(4) as usize];
        let writes = [0.0, 0.3, 1.0][rng.below(3) as usize];
        for _ in 0..1 + rng.below(60) {
            line = match kind {
                0 => line + u64::from(lines),
                1 => rng.below(256) * 64,
                _ => rng.below(CAPACITY / 64),
            } % (CAPACITY / 64 - 64);
            list.push((at, line * 64, lines, rng.chance(writes)));
            at += rng.below(2 * gap + 1);
        }
    }
    list.truncate(count);
    list
}

/// The time at which each request was done. The owner wakes up at each event, and every
/// `step` if given.
fn run(medium: &dyn Medium, requests: &[TimedRequest], step: Option<u64>) -> Vec<u64> {
    let mut memory = medium.backend(MediumSite::alone(Bytes(CAPACITY), 3));
    drive(memory.as_mut(), requests, step).done
}

#[test]
fn every_request_is_done_once_in_order_and_not_before_it_came() {
    for (name, medium) in media() {
        let requests = traffic(11, 1_500);
        let ends = run(medium.as_ref(), &requests, None);
        for ((at, ..), end) in requests.iter().zip(&ends) {
            assert_ne!(*end, u64::MAX, "{name}: a request was lost");
            assert!(end >= at, "{name}: {end} is before {at}");
        }
    }
}

#[test]
fn the_same_site_gives_the_same_times() {
    for (name, medium) in media() {
        let requests = traffic(12, 800);
        let runs = [0, 1].map(|_| run(medium.as_ref(), &requests, None));
        assert_eq!(runs[0], runs[1], "{name}");
    }
}

#[test]
fn looking_more_often_changes_nothing() {
    for (name, medium) in media() {
        let requests = traffic(13, 400);
        let lazy = run(medium.as_ref(), &requests, None);
        let eager = run(medium.as_ref(), &requests, Some(7_300));
        assert_eq!(lazy, eager, "{name}");
    }
}

#[test]
fn a_constant_idle_read_is_what_an_idle_read_takes() {
    for (name, medium) in media() {
        let Some(expected) = medium.idle_read_ps() else {
            continue;
        };
        let ends = run(medium.as_ref(), &[(5_000, 192, 1, false)], None);
        assert_eq!(ends, [5_000 + expected], "{name}");
    }
}

#[test]
fn statistics_keep_their_names_and_none_comes_twice() {
    for (name, medium) in media() {
        let mut memory = medium.backend(MediumSite::alone(Bytes(CAPACITY), 3));
        let names = |memory: &dyn MemoryBackend, now: u64| {
            let list = statistics(memory, now);
            assert!(list.iter().all(|one| one.value.is_finite()), "{name}");
            list.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        let before = names(memory.as_ref(), 0);
        memory.begin_measurement(SimTime(1_000));
        if memory.can_accept(SimTime(1_000), true) {
            memory.enqueue(SimTime(1_000), request(0, 64, 1, true));
        }
        memory.advance(SimTime(2_000_000), &mut Vec::new());
        let after = names(memory.as_ref(), 2_000_000);
        assert_eq!(before, after, "{name}");
        let mut unique = after.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), after.len(), "{name}: {after:?}");
    }
}

#[test]
fn every_medium_is_found_by_its_name() {
    for entry in CATALOG {
        let found = find(CATALOG, entry.name).map(|found| found.summary);
        assert_eq!(found, Some(entry.summary));
    }
}

/// Media whose warming is complete. For DRAM the rows stay as they were, and for queued writes
/// the queue does.
const WARMED: [(&str, &str); 10] = [
    ("fixed", "{}"),
    ("pmem", "{}"),
    (
        "pmem",
        r#"{"buffer_lines": 4, "ait_blocks": 16, "dimms": 2}"#,
    ),
    ("pmem", r#"{"mode": "simple"}"#),
    (
        "ssd",
        r#"{"channels": 2, "ways": 2, "planes": 2, "pages": 16, "page": "16 KiB", "buffer": "256 KiB", "fill": 0.9, "overwrite": 0.5}"#,
    ),
    (
        "ssd",
        r#"{"channels": 2, "ways": 1, "planes": 1, "pages": 16, "page": "16 KiB", "buffer": "128 KiB", "fill": 0.9, "mapping_cache": "64 KiB", "buffer_reads": false}"#,
    ),
    (
        "dram-cache",
        r#"{"size": "256 KiB", "dram": {"kind": "fixed"}, "behind": {"kind": "ssd", "channels": 2, "ways": 2, "planes": 2, "pages": 16, "fill": 0.9}}"#,
    ),
    (
        "dram-cache",
        r#"{"size": "256 KiB", "dram": {"kind": "fixed"}, "behind": {"kind": "pmem", "mode": "simple"}, "fetch": "sector", "ways": 4, "policy": {"kind": "cflru"}}"#,
    ),
    (
        "dram-cache",
        r#"{"size": "512 KiB", "dram": {"kind": "fixed"}, "behind": {"kind": "fixed", "latency": "3 us"}, "prefetch": {"kind": "next-page"}}"#,
    ),
    (
        "interleaved",
        r#"{"media": [{"kind": "pmem"}, {"kind": "fixed"}], "granularity": "4 KiB"}"#,
    ),
];

/// Runs a single request until all of its consequences have ended. Returns the time of its
/// completion, and that end.
fn alone(memory: &mut dyn MemoryBackend, now: u64, request: MemoryRequest) -> [u64; 2] {
    assert!(memory.can_accept(SimTime(now), request.write));
    let known = memory.enqueue(SimTime(now), request);
    let (done, end) = drain(memory);
    let at = known.unwrap_or_else(|| done[0].at);
    [at.0, end.max(at).0]
}

#[test]
fn what_was_warmed_takes_as_long_as_what_was_run_one_by_one() {
    for (kind, sample) in WARMED {
        let medium = medium(kind, &serde_json::from_str(sample).unwrap()).unwrap();
        assert_eq!(medium.keeps_state(), kind != "fixed");
        assert!(medium.can_be_warmed());
        let capacity = Bytes(CAPACITY / 4);
        let checked = medium.check(capacity);
        checked.unwrap_or_else(|e| panic!("{sample}: {e}"));
        let backend = || medium.backend(MediumSite::alone(capacity, 3));
        let (mut run, mut warmed, mut untouched) = (backend(), backend(), backend());
        let mut now = 0;
        let mut all = traffic(7, 30_000);
        // Requests of one line to a region that is larger than each cache; half of them go to a
        // part of it.
        for (at, dpa, lines, _) in &mut all {
            *dpa %= if *at % 2 == 0 { 1 << 18 } else { 1 << 23 };
            *lines = 1;
        }
        let (before, probes) = all.split_at(26_000);
        let request = |(_, dpa, lines, write): TimedRequest| request(0, dpa, lines, write);
        for one in before.iter().copied().map(request) {
            [_, now] = alone(run.as_mut(), now + 1_000_000, one);
            warmed.warm(one);
        }
        let mut differs = 0;
        let mut ends = [now; 3];
        // The last lines are still in row buffers.
        let last = before.iter().rev().take(16);
        let last = last.map(|one| (one.0, one.1, one.2, false));
        let probes = last.chain(probes.iter().copied());
        for (number, one) in probes.map(request).enumerate() {
            let mut times = [0; 3];
            for (at, memory) in [&mut run, &mut warmed, &mut untouched]
                .into_iter()
                .enumerate()
            {
                let since = ends[at] + 1_000_000;
                let [done, end] = alone(memory.as_mut(), since, one);
                times[at] = done - since;
                ends[at] = end;
            }
            assert_eq!(times[0], times[1], "{kind} {sample}: probe {number}");
            differs += u32::from(times[0] != times[2]);
        }
        assert!(
            differs > 0 || kind == "fixed",
            "{kind} {sample}: what was before does not matter"
        );
    }
}
