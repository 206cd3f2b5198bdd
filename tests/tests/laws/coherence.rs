//! Device-managed coherence in whole systems: hosts with caches that share HDM-DB memory.
#![allow(clippy::unwrap_used)]

use cxlab_system::report::{DeviceCoherence, Report};
use cxlab_tests::{plan, try_run};

/// A system of three hosts on one device, with a filter smaller than their working set, that ends.
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
    for entry in cxlab_cache::victim::CATALOG {
        // Three caches of 256 lines and a filter of 128 entries: the
        // filter evicts lines all the time.
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

/// Hosts and devices with two paths between them, one of which takes far longer.
const TWO_WAYS: &str = "name = \"two-ways\"\n\
     [measure]\nwarmup_requests = 0\n\
     [fabric]\ntopology = { kind = \"spine-leaf\", leaves = 4, spines = 2 }\n\
     [fabric.links.far]\npropagation = \"2 us\"\n\
     [[fabric.overrides]]\nbetween = [\"leaf*\", \"spine1\"]\nlink = \"far\"\n\
     [[hosts]]\nname = \"host\"\ncount = 4\nrequests = 3000\n\
     issue = { outstanding = 64, cache = { size = \"4 KiB\", ways = 4 } }\n\
     workload = { kind = \"uniform\", footprint = \"16 KiB\", read_ratio = 0.5 }\n\
     [[devices]]\nname = \"mem\"\ncount = 4\n\
     coherence = { class = \"hdm-db\", filter = { lines = 32 }, victim = { kind = \"lifo\" } }\n";

/// Number of lines that the links at `spine` carried.
fn lines_by(report: &Report, spine: &str) -> u64 {
    let links = report.links.iter();
    let beside = links.filter(|link| link.name.contains(spine));
    beside.map(|link| link.payload_bytes / 64).sum()
}

#[test]
fn responses_keep_their_order_where_data_choose_among_ways() {
    // Without that order a BIConflictAck would overtake an earlier Cmp, and
    // the host would not recognise it.
    for routing in ["random", "adaptive"] {
        for seed in 1..4 {
            let set = [
                format!("fabric.routing=\"{routing}\""),
                format!("seed={seed}"),
            ];
            let set: Vec<&str> = set.iter().map(String::as_str).collect();
            let report = try_run(&plan(TWO_WAYS, &set), 1).unwrap();
            assert_eq!(report.requests.completed, 12_000, "{routing}, seed {seed}");
            let conflicts = report.devices.iter().map(|device| {
                let dcoh = device.coherence.as_ref().unwrap();
                dcoh.conflicts
            });
            assert!(conflicts.sum::<u64>() > 100, "{routing}, seed {seed}");
            let (near, far) = (lines_by(&report, "spine0"), lines_by(&report, "spine1"));
            assert!(near > 0 && far > 0, "{routing} {seed}: {near} {far} lines");
        }
    }
}

#[test]
fn threads_do_not_change_a_coherent_system() {
    let text = scenario("lifo", 128, 2_000);
    let one = run(&text, 1);
    for threads in [2, 3] {
        let other = run(&text, threads);
        assert_eq!(one.provenance.digest, other.provenance.digest);
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
    assert_eq!(policy("lru").provenance.digest, implied.provenance.digest);
    let mut digests: Vec<String> = Vec::new();
    for kind in ["lru", "fifo", "mru", "random"] {
        let report = policy(kind);
        assert_eq!(report.requests.completed, 9_000, "{kind}");
        digests.push(report.provenance.digest);
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 4, "each chooses others");
}

/// A host that loads a line once invalidates no other copy, and needs no entry of the filter.
#[test]
fn loads_that_cache_nothing_take_no_copy_and_no_entry() {
    let alone = |request: &str| {
        let text = format!(
            "name = \"once\"\n[measure]\nwarmup_requests = 0\n\
             [fabric]\ntopology = {{ kind = \"chain\", switches = 1 }}\n\
             [[hosts]]\nname = \"reader\"\nrequests = 2048\n\
             issue = {{ outstanding = 8, cache = {{ size = \"64 KiB\", ways = 4, load_request = \"{request}\" }} }}\n\
             workload = {{ kind = \"stream\", footprint = \"32 KiB\", read_ratio = 1.0 }}\n\
             [[devices]]\nname = \"mem\"\n\
             coherence = {{ class = \"hdm-db\", filter = {{ lines = 1024 }} }}\n"
        );
        run(&text, 1)
    };
    // 512 lines, four times: a cache that keeps them requests each once.
    for request in ["MemRdData", "MemRd-SnpData"] {
        let report = alone(request);
        assert_eq!(dcoh(&report).requests, 512, "{request}");
        assert_eq!(dcoh(&report).peak_entries, 512, "{request}");
    }
    let report = alone("MemRd-SnpCur");
    assert_eq!(dcoh(&report).requests, 2048);
    assert_eq!(dcoh(&report).peak_entries, 0);
    // A writer has 64 lines. A reader that loads them now and then takes them
    // away or not, by its request.
    let beside = |request: &str| {
        let text = format!(
            "name = \"once\"\n[measure]\nwarmup_requests = 0\n\
             [fabric]\ntopology = {{ kind = \"chain\", switches = 1 }}\n\
             [[hosts]]\nname = \"writer\"\nrequests = 20000\n\
             issue = {{ outstanding = 1, cache = {{ size = \"64 KiB\", ways = 4 }} }}\n\
             workload = {{ kind = \"stream\", footprint = \"4 KiB\", read_ratio = 0.0 }}\n\
             [[hosts]]\nname = \"reader\"\nrequests = 200\n\
             issue = {{ outstanding = 1, cache = {{ size = \"64 KiB\", ways = 4, load_request = \"{request}\" }} }}\n\
             workload = {{ kind = \"stream\", footprint = \"4 KiB\", read_ratio = 1.0 }}\n\
             [[devices]]\nname = \"mem\"\n\
             coherence = {{ class = \"hdm-db\", filter = {{ lines = 1024 }} }}\n"
        );
        run(&text, 1)
    };
    let (kept, once) = (beside("MemRdData"), beside("MemRd-SnpCur"));
    let taken = |report: &Report| report.hosts[0].coherence.as_ref().unwrap().upgrades;
    assert!(taken(&kept) > 60, "{}", taken(&kept));
    assert_eq!(taken(&once), 0, "the writer keeps what it has");
    assert_eq!(dcoh(&once).invalidated, 0);
    // Each load asks for what the writer has.
    assert!(dcoh(&once).snoops >= 199);
}

/// A reader of consecutive lines, all of which a writer owns.
fn neighbours(request: &str, filter: &str) -> String {
    format!(
        "name = \"neighbours\"\n[measure]\nwarmup_requests = 0\n\
         [fabric]\ntopology = {{ kind = \"chain\", switches = 1 }}\n\
         [[hosts]]\nname = \"writer\"\nrequests = 20000\n\
         issue = {{ outstanding = 16, cache = {{ size = \"64 KiB\", ways = 4 }} }}\n\
         workload = {{ kind = \"stream\", footprint = \"32 KiB\", read_ratio = 0.0 }}\n\
         [[hosts]]\nname = \"reader\"\nrequests = 4000\n\
         issue = {{ outstanding = 16, cache = {{ size = \"64 KiB\", ways = 4, load_request = \"{request}\" }} }}\n\
         workload = {{ kind = \"stream\", footprint = \"32 KiB\", read_ratio = 1.0 }}\n\
         [[devices]]\nname = \"mem\"\n\
         coherence = {{ class = \"hdm-db\", filter = {{ lines = 1024, {filter} }} }}\n"
    )
}

#[test]
fn joined_snoops_are_fewer_and_take_the_same_copies() {
    for request in ["MemRdData", "MemRd-SnpData", "MemRd-SnpCur"] {
        let of = |filter: &str| run(&neighbours(request, filter), 1);
        let alone = of("block = 4");
        assert_eq!(dcoh(&alone).joined_snoops, None);
        for join in ["0 ns", "20 ns", "200 ns"] {
            let joined = of(&format!("join = \"{join}\""));
            assert_eq!(joined.requests.completed, 24_000);
            let (few, all) = (dcoh(&joined), dcoh(&alone));
            let span = |report: &Report| report.hosts[1].latency_ns.mean;
            println!(
                "{request}, {join}: {} of {} snoops, {:.1} of {:.1} ns",
                few.snoops,
                all.snoops,
                span(&joined),
                span(&alone)
            );
            assert_eq!(few.requests, all.requests, "{request}, {join}");
            // A flit brings several requests at once, but not always four.
            let most = if join == "0 ns" { 1.0 } else { 0.3 };
            let left = few.snoops as f64 / all.snoops as f64;
            assert!(left < most, "{request}, {join}: {left}");
            let most = 1.0 + if join == "0 ns" { 0.001 } else { 0.01 };
            let longer = span(&joined) / span(&alone);
            assert!(longer < most, "{request}, {join}: {longer}");
        }
    }
}
