//! Device-managed coherence in whole systems: hosts with caches that share HDM-DB memory.
#![allow(clippy::unwrap_used)]

use cxlab_system::report::{DeviceCoherence, Report};
use cxlab_tests::{plan, try_run};

/// Three hosts on one device, a filter smaller than what they use, and an end.
fn scenario(victim: &str, filter_lines: u32, requests: u32) -> String {
    format!(
        "name = \"coherent\"\n\
         [measure]\nwarmup_requests = 0\n\
         [fabric]\ntopology = {{ kind = \"chain\", switches = 2 }}\n\
         [[hosts]]\nname = \"host\"\ncount = 3\nrequests = {requests}\n\
         issue = {{ outstanding = 8, cache = {{ size = \"16 KiB\", ways = 4 }} }}\n\
         workload = {{ kind = \"hot-cold\", footprint = \"96 KiB\", hot_footprint = 0.1, \
                       hot_accesses = 0.9, read_ratio = 0.6 }}\n\
         [[devices]]\nname = \"mem\"\n\
         coherence = {{ class = \"hdm-db\", filter = {{ lines = {filter_lines} }}, \
                        victim = {{ kind = \"{victim}\" }} }}\n"
    )
}

fn run(text: &str, threads: usize) -> Report {
    try_run(&plan(text, &[]), threads).unwrap()
}

fn dcoh(report: &Report) -> &DeviceCoherence {
    report.devices[0].coherence.as_ref().unwrap()
}

#[test]
fn every_access_completes_and_nothing_stays_inside_under_every_victim_policy() {
    for entry in cxlab_memory::victim::CATALOG {
        // Three caches of 256 lines against a filter of 128: copies are taken all the time.
        let report = run(&scenario(entry.name, 128, 3_000), 1);
        assert_eq!(report.requests.completed, 9_000, "{}", entry.name);
        let dcoh = dcoh(&report);
        assert!(dcoh.evictions > 1_000, "{}: {dcoh:?}", entry.name);
        assert!(dcoh.invalidated > 0 && dcoh.writebacks > 0 && dcoh.conflicts > 0);
        assert_eq!(dcoh.peak_entries, 128, "{}", entry.name);
        let taken: u64 = report
            .hosts
            .iter()
            .map(|host| host.coherence.as_ref().unwrap().invalidated)
            .sum();
        assert!(taken > 0 && taken <= dcoh.invalidated, "{}", entry.name);
    }
}

#[test]
fn a_filter_as_large_as_what_is_used_evicts_nothing() {
    let report = run(&scenario("lru", 1_536, 3_000), 1);
    let dcoh = dcoh(&report);
    assert_eq!(dcoh.evictions, 0);
    assert!(dcoh.snoops > 0, "hosts still take lines from each other");
}

#[test]
fn threads_do_not_change_a_coherent_system() {
    let text = scenario("lifo", 128, 2_000);
    let one = run(&text, 1);
    for threads in [2, 3] {
        let other = run(&text, threads);
        assert_eq!(one.digest, other.digest);
        assert_eq!(one.devices, other.devices);
        assert_eq!(one.hosts, other.hosts);
    }
}

#[test]
fn the_policy_of_a_coherent_cache_is_that_of_the_scenario() {
    let policy = |kind: &str| {
        let cache = format!("ways = 4, policy = {{ kind = \"{kind}\" }}");
        run(
            &scenario("lru", 1_536, 3_000).replace("ways = 4", &cache),
            1,
        )
    };
    let implied = run(&scenario("lru", 1_536, 3_000), 1);
    assert_eq!(policy("lru").digest, implied.digest);
    let mut digests: Vec<String> = Vec::new();
    for kind in ["lru", "fifo", "mru", "random"] {
        let report = policy(kind);
        assert_eq!(report.requests.completed, 9_000, "{kind}");
        digests.push(report.digest);
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 4, "each chooses others");
}
