//! A swarm of small random systems with device-managed coherence. Each is drawn from a
//! seed as the text of a scenario, run to its end under observation, and checked
//! against invariants of every memory (`oracle.rs`).
//!
//! A failure prints the command that replays it and the scenario.
#![allow(clippy::unwrap_used)]

mod oracle;
mod scenario;

use cxlab_system::report::Report;
use cxlab_tests::checkpoint::timeless;
use cxlab_tests::swarm::{Swarm, assert_every_topology};

use oracle::{Totals, Watched};
use scenario::scenario;

const SWARM: Swarm<'_> = Swarm {
    module: "coherent",
    scenario,
};

fn report(text: &str, threads: usize) -> Report {
    let plan = cxlab_tests::plan(text, &[]);
    match cxlab_tests::try_run(&plan, threads) {
        Ok(report) => timeless(report),
        Err(error) => panic!("{threads} threads: {error}"),
    }
}

fn check(seed: u64, text: &str) -> Totals {
    let plan = cxlab_tests::plan(text, &[]);
    let ended = Watched::new(&plan).run(seed, 1, seed.is_multiple_of(8));
    let expected = report(text, 1);
    // A run under observation is the run without.
    assert_eq!(expected.provenance.digest, ended.digest);
    let threads = 2 + (seed / 4 % 2) as usize;
    if seed % 4 == 1 {
        assert_eq!(report(text, threads), expected, "{threads} threads");
        let through = Watched::new(&plan).run_through(threads);
        let is_same = through.observations == ended.observations;
        assert!(is_same, "{threads} threads");
    }
    if seed % 4 == 2 {
        cxlab_tests::checkpoint::check(&plan, &expected, seed);
    }
    ended.totals
}

/// Checks enough systems that every kind of event occurs.
fn swarm(test: &str, seeds: std::ops::Range<u64>) {
    let mut totals = Totals::default();
    if SWARM.run(test, seeds, |seed, text| totals.merge(&check(seed, text))) {
        println!("{:#?}", totals.counts);
        let often = totals.counts.values().all(|count| *count > 10);
        assert!(often, "all of it happened often: {:#?}", totals.counts);
    }
}

#[test]
fn two_hundred_random_coherent_systems_are_one_memory() {
    swarm("two_hundred_random_coherent_systems_are_one_memory", 0..200);
}

#[test]
#[ignore = "takes minutes; `make test-all` runs it"]
fn two_thousand_more_random_coherent_systems_are_one_memory() {
    swarm(
        "two_thousand_more_random_coherent_systems_are_one_memory",
        200..2200,
    );
}

#[test]
fn the_swarm_draws_every_kind_of_coherent_system() {
    let all: String = (0..200).map(scenario).collect();
    let policies = cxlab_cache::victim::CATALOG.iter();
    for word in policies.map(|entry| entry.name).chain([
        "single-vcs",
        "multiple-vcs",
        "duplex = \"half\"",
        "packet",
        "flit = \"256B\"",
        "256B-latency-optimized",
        "flit_error_rate",
        "s2m_bisnp = 1,",
        "m2s_birsp = 1 ",
        "age",
        "adaptive",
        "oblivious",
        "routing = \"random\"",
        "fabric.links.far",
        "pointer-chase",
        "stride",
        "stream",
        "hot-cold",
        "contexts = 1",
        "writes = 1",
        "block = 3",
        "mshrs = 1",
        "clean_evict = false",
        "snoop_time = ",
        "load_request = \"MemRd-SnpData\"",
        "load_request = \"MemRd-SnpCur\"",
        "policy = { kind = \"mru\" }",
        "eager = true",
        "join = \"0 ns\"",
        "join = \"1 us\"",
        "qos = { optimal = 1",
        "backpressure_sample_interval",
        "throttle = { period = \"50 ns\"",
        "private = true",
        "edge_link",
        "count = 4",
        "name = \"own3\"",
        "sharing = \"shared\"",
    ]) {
        assert!(all.contains(word), "no system has `{word}`");
    }
    assert_every_topology(&all);
    let mixed = |seed: &u64| {
        let text = scenario(*seed);
        let classes = text.matches("hdm-db").count();
        classes < text.matches("[[devices]]").count()
    };
    assert!((0..200).filter(mixed).count() > 20, "HDM-H beside HDM-DB");
}
