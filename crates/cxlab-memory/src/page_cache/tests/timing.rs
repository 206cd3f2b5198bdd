//! Closed forms, in picoseconds: look-up 4 ns, DRAM 46 ns, slow reads 3 us, slow writes 100 us.

use serde_json::json;

use super::*;

const LOOKUP: u64 = 4_000;
const DRAM: u64 = 46_000;
const READ: u64 = 3_000_000;
const WRITE: u64 = 100_000_000;
const MS: u64 = 1_000_000_000;

#[test]
fn a_miss_takes_the_slow_read_and_a_hit_the_dram() {
    let mut cache = cache(json!({}));
    let requests = [
        (0, 64, false),
        (MS, 128, false),
        (2 * MS, 192, true),
        (3 * MS, 4096, true),
    ];
    let ends = times(&mut cache, &requests);
    assert_eq!(ends[0], LOOKUP + READ);
    assert_eq!(ends[1] - MS, LOOKUP + DRAM);
    assert_eq!(ends[2] - 2 * MS, LOOKUP + DRAM);
    assert_eq!(ends[3] - 3 * MS, LOOKUP + READ, "write-allocate fetches");
    assert_eq!(statistic(&cache, "hits"), 2.0);
    assert_eq!(statistic(&cache, "misses"), 2.0);
    assert_eq!(statistic(&cache, "hit_ratio"), 0.5);
    assert_eq!(statistic(&cache, "fetched_lines"), 128.0);
}

#[test]
fn misses_to_one_page_share_a_fetch_or_each_goes_by_itself() {
    let all: Vec<_> = (0..64).map(|line| (line, line * 64, false)).collect();
    let mut merging = cache(json!({}));
    let ends = times(&mut merging, &all);
    assert!(ends.iter().all(|end| *end == LOOKUP + READ));
    assert_eq!(statistic(&merging, "fetches"), 1.0);
    assert_eq!(statistic(&merging, "merged"), 63.0);
    let mut alone = cache(json!({ "merge": false }));
    let ends = times(&mut alone, &all);
    assert_eq!(statistic(&alone, "fetches"), 64.0);
    assert_eq!(ends[0], LOOKUP + READ);
    let expected = 1 + LOOKUP + READ + DRAM;
    assert_eq!(ends[1], expected, "the page is in the DRAM already");
}

#[test]
fn a_full_fetch_and_too_few_fetches_hold_back_what_follows() {
    let mut narrow = cache(json!({ "targets": 2 }));
    let requests = [
        (0, 0, false),
        (0, 64, false),
        (0, 128, false),
        (0, 8192, false),
    ];
    let ends = times(&mut narrow, &requests);
    assert_eq!(ends[..2], [LOOKUP + READ; 2]);
    assert_eq!(ends[2], LOOKUP + READ + DRAM);
    assert_eq!(ends[3], LOOKUP + READ + READ, "in order");
    assert_eq!(statistic(&narrow, "stalled_ns"), READ as f64 / 1e3);
    let mut one = cache(json!({ "mshrs": 1 }));
    let requests = [(0, 0, false), (0, 4096, false), (0, 8192, false)];
    let ends = times(&mut one, &requests);
    assert_eq!(ends, [LOOKUP + READ, LOOKUP + 2 * READ, LOOKUP + 3 * READ]);
}

#[test]
fn a_dirty_page_leaves_out_of_the_way_of_the_miss() {
    // One frame: each page evicts the other.
    let small = json!({ "size": "4 KiB", "ways": 1 });
    let mut one = cache(small.clone());
    let requests = [(0, 0, true), (MS, 4096, false), (2 * MS, 0, false)];
    let ends = times(&mut one, &requests);
    assert_eq!(ends[1] - MS, LOOKUP + READ, "as if it were clean");
    assert_eq!(statistic(&one, "evictions_dirty"), 1.0);
    assert_eq!(statistic(&one, "evictions_clean"), 1.0);
    let written = statistic(&one, "written_back_lines");
    assert_eq!(written, 1.0, "a dirty sector is a line");

    // While the page is written, the buffer serves its lines but no others.
    let mut one = cache(small.clone());
    let soon = MS + READ + 10_000_000;
    let requests = [
        (0, 0, true),
        (MS, 4096, false),
        (soon, 0, false),
        (soon + 1_000, 64, false),
    ];
    let ends = times(&mut one, &requests);
    assert_eq!(ends[2] - soon, LOOKUP);
    assert_eq!(statistic(&one, "write_buffer_hits"), 1.0);
    let expected = MS + LOOKUP + DRAM + WRITE + READ;
    assert_eq!(ends[3], expected, "written, then fetched");

    // One buffer entry: a second dirty page waits for it.
    let mut one = cache(json!({ "size": "4 KiB", "ways": 1, "write_buffer": 1 }));
    let requests = [(0, 0, true), (MS, 4096, true), (2 * MS, 8192, false)];
    let ends = times(&mut one, &requests);
    assert_eq!(ends[2] - 2 * MS, LOOKUP + READ);
    let mut one = cache(json!({ "size": "4 KiB", "ways": 1, "write_buffer": 1 }));
    let requests = [(0, 0, true), (MS, 4096, true), (MS, 8192, false)];
    let ends = times(&mut one, &requests);
    assert_eq!(ends[2], MS + LOOKUP + DRAM + WRITE + READ);
}

#[test]
fn the_missed_sector_comes_first_where_it_is_asked_for_first() {
    // A page of 4 KiB takes 4.096 us more at 1 GB/s.
    let behind = json!({ "kind": "fixed", "latency": "3 us", "bandwidth": "1 GB/s", "banks": 64 });
    let ends = |first: bool| {
        let mut cache = cache(json!({ "behind": behind, "critical_first": first }));
        times(
            &mut cache,
            &[(0, 2048, false), (0, 0, false), (MS, 64, false)],
        )
    };
    let with = ends(true);
    assert_eq!(with[0], LOOKUP + READ);
    let (own, behind_it) = (64_000, 31 * 64_000);
    let expected = LOOKUP + READ + own + behind_it;
    assert_eq!(with[1], expected, "the first half comes last");
    assert_eq!(with[2] - MS, LOOKUP + DRAM, "all of the page came");
}

#[test]
fn by_sector_only_what_is_missed_is_fetched_and_whole_writes_fetch_nothing() {
    let mut cache = cache(json!({ "fetch": "sector" }));
    let requests = [
        (0, 0, true),
        (MS, 0, false),
        (2 * MS, 64, false),
        (3 * MS, 64, false),
    ];
    let ends = times(&mut cache, &requests);
    assert_eq!(ends[0], LOOKUP + DRAM);
    assert_eq!(ends[1] - MS, LOOKUP + DRAM);
    assert_eq!(ends[2] - 2 * MS, LOOKUP + READ);
    assert_eq!(ends[3] - 3 * MS, LOOKUP + DRAM);
    assert_eq!(statistic(&cache, "fetched_lines"), 1.0);
}

#[test]
fn misses_of_a_sector_share_its_fetch_beside_others_of_the_page() {
    let mut cache = cache(json!({ "fetch": "sector" }));
    let requests = [
        (0, 0, false),
        (1, 64, false),
        (2, 64, false),
        (3, 0, false),
        (4, 128, true),
    ];
    let ends = times(&mut cache, &requests);
    let read = LOOKUP + READ;
    assert_eq!(ends[..4], [read, 1 + read, 1 + read, read]);
    let expected = 4 + LOOKUP + DRAM;
    assert_eq!(ends[4], expected, "a whole write waits for nothing");
    assert_eq!(statistic(&cache, "fetches"), 2.0);
    assert_eq!(statistic(&cache, "merged"), 2.0);
}

#[test]
fn what_the_slow_medium_reads_and_writes_as_a_whole_is_fetched_and_written_so() {
    // Persistent memory has granules of 256 B: 4 lines.
    let behind = json!({ "kind": "pmem", "mode": "simple" });
    let mut cache = cache(json!({
        "fetch": "sector", "behind": behind, "size": "4 KiB", "ways": 1,
    }));
    let requests = [(0, 0, false), (MS, 64, true), (2 * MS, 4096, false)];
    times(&mut cache, &requests);
    assert_eq!(statistic(&cache, "fetched_lines"), 8.0);
    assert_eq!(statistic(&cache, "written_back_lines"), 4.0);
    assert_eq!(statistic(&cache, "behind.row_writes"), 1.0);
    assert_eq!(statistic(&cache, "behind.written_lines"), 4.0);
}

#[test]
fn fills_compete_with_hits_for_the_dram() {
    let dram = json!({ "kind": "fixed", "latency": "46 ns", "bandwidth": "6.4 GB/s" });
    let mut cache = cache(json!({ "dram": dram }));
    let (line, at) = (10_000, MS + LOOKUP + READ);
    // A hit that is looked up just after a page of 64 lines arrived waits for that page's fill.
    let requests = [
        (0, 0, false),
        (MS, 4096, false),
        (at - LOOKUP + 1, 0, false),
    ];
    let ends = times(&mut cache, &requests);
    assert_eq!(ends[2], at + 64 * line + DRAM);
}

#[test]
fn a_prefetched_page_is_there_or_on_its_way() {
    let mut cache = cache(json!({ "prefetch": { "kind": "next-page" } }));
    let late = READ / 2;
    let requests = [
        (0, 0, false),
        (late, 4096, false),
        (MS, 8192, false),
        (2 * MS, 1 << 19, false),
    ];
    let ends = times(&mut cache, &requests);
    let expected = LOOKUP + READ;
    assert_eq!(ends[1], expected, "it was asked for with the page before");
    assert_eq!(ends[2] - MS, LOOKUP + DRAM);
    assert_eq!(statistic(&cache, "prefetches"), 4.0);
    assert_eq!(statistic(&cache, "prefetches_useful"), 2.0);
    assert_eq!(statistic(&cache, "prefetches_late"), 1.0);
}

#[test]
fn prefetches_stay_in_the_device_and_leave_a_fetch_to_misses() {
    let mut cache = cache(json!({ "prefetch": { "kind": "next-page", "degree": 16 }, "mshrs": 4 }));
    times(&mut cache, &[(0, (1 << 20) - 4096, false)]);
    assert_eq!(statistic(&cache, "prefetches"), 0.0);
    let ends = times(&mut cache, &[(MS, 0, false), (MS, 1 << 19, false)]);
    let expected = LOOKUP + READ;
    assert_eq!(
        ends[1] - MS,
        expected,
        "at most two of four prefetch beside the first miss"
    );
}

#[test]
fn every_policy_and_both_media_work_together() {
    for policy in cxlab_cache::victim::CATALOG {
        for behind in ["fixed", "pmem"] {
            let mut cache = cache(json!({
                "policy": { "kind": policy.name },
                "behind": { "kind": behind },
                "dram": { "kind": "dram" }, "queue": 4096,
                "ways": 0,
            }));
            let all: Vec<_> = (0..2_000u64)
                .map(|n| (n * 100_000, n * n % 256 * 4096 + n % 64 * 64, n % 3 == 0))
                .collect();
            times(&mut cache, &all);
            let evicted = statistic(&cache, "evictions_dirty");
            assert!(evicted > 0.0, "{} {behind}", policy.name);
        }
    }
}
