//! Sampled runs: functional warming leaves the same state in caches and media as a run, intervals
//! contain the value of the full run, and results do not depend on threads.
#![allow(clippy::unwrap_used)]

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, SimTime};
use cxlab_plan::Plan;
use cxlab_system::report::Report;
use cxlab_tests::arrivals::{Arrivals, measured, queue, values};
use cxlab_tests::checkpoint::timeless;
use cxlab_tests::{plan, report};
use cxlab_workload::{MemOp, OpKind, OpSource, SourceContext, Workload, WorkloadError};

/// One host with a private cache of 256 KiB that accesses a footprint in order, repeatedly.
fn in_order(footprint: &str, measure: &str) -> Report {
    let text = format!(
        "name = \"order\"\nmeasure = {{ {measure} }}\n[fabric]\ntopology = {{ kind = \"direct\" }}\n\
         [[hosts]]\nname = \"host\"\nissue = {{ cache = {{ size = \"256 KiB\" }} }}\n\
         workload = {{ kind = \"stream\", footprint = \"{footprint}\" }}\n[[devices]]\nname = \"mem\"\n"
    );
    report(&text, &[])
}

#[test]
fn windows_find_the_private_cache_as_a_run_leaves_it() {
    let measure = "warmup_requests = 8000, requests = 200000, sampling = { every = 10000, detailed = 500, warmup = 100 }";
    let fits = in_order("256 KiB", measure);
    assert_eq!(fits.requests.cache_hits, fits.requests.completed);
    let large = in_order("512 KiB", measure);
    assert_eq!(large.requests.cache_hits, 0);
    let sampling = large.extent.sampling.unwrap();
    assert!((18..=20).contains(&sampling.units), "{sampling:?}");
    let requests = sampling.requests;
    let all = 200_000 - 10_600..=200_000;
    assert!(all.contains(&requests), "{requests}");
    assert_eq!(sampling.measured, large.requests.completed);
    assert_eq!(sampling.warmed + sampling.detailed, requests + 8_000);
    assert!(sampling.detailed < 20 * 1_000, "{sampling:?}");
}

/// A mix of hits and misses in a private cache, in a DRAM cache, and in flash below it.
fn cached(measure: &str) -> Plan {
    let text = format!(
        r#"
name = "cached"
measure = {{ {measure} }}
[fabric]
topology = {{ kind = "direct" }}
[[hosts]]
name = "host"
issue = {{ outstanding = 8, cache = {{ size = "64 KiB" }} }}
workload = {{ kind = "hot-cold", footprint = "4 MiB", read_ratio = 0.8 }}
[[devices]]
name = "ssd"
capacity = "256 MiB"
memory = {{ kind = "dram-cache", size = "1 MiB", dram = {{ kind = "fixed" }}, behind = {{ kind = "ssd", fill = 0.5 }} }}
"#
    );
    plan(&text, &[])
}

/// Two hosts of different speed, each with a private cache, that share DRAM.
fn private(measure: &str) -> Plan {
    let text = format!(
        r#"
name = "private"
measure = {{ {measure} }}
[fabric]
topology = {{ kind = "spine-leaf" }}
[[hosts]]
name = "fast"
issue = {{ outstanding = 32, cache = {{ size = "256 KiB" }} }}
workload = {{ kind = "zipf", footprint = "4 MiB" }}
[[hosts]]
name = "slow"
issue = {{ outstanding = 4, cache = {{ size = "64 KiB" }} }}
workload = {{ kind = "hot-cold", footprint = "2 MiB" }}
[[devices]]
name = "mem"
count = 2
memory = {{ kind = "dram" }}
"#
    );
    plan(&text, &[])
}

fn poisson(measure: &str) -> Plan {
    queue(Arrivals::poisson(), 65_536, measure)
}

fn bursty(measure: &str) -> Plan {
    queue(Arrivals::bursty(), 65_536, measure)
}

/// Numbers of intervals of seeds 1 to `seeds` that contain the true
/// bandwidth and the true mean latency.
fn inside(plan: &Plan, truth: [f64; 2], seeds: u64) -> [u64; 2] {
    let mut inside = [0; 2];
    for seed in 1..=seeds {
        let report = measured(plan, seed, 1);
        let widths = [report.ci95.total_gb_per_s, report.ci95.latency_ns];
        for (at, value) in values(&report).into_iter().enumerate() {
            inside[at] += u64::from((value - truth[at]).abs() <= widths[at].unwrap());
        }
    }
    inside
}

/// The rate of arrivals is known, although most arrivals are skipped. Of 20 intervals that contain
/// it with a probability of 95 %, fewer than 15 do so in one of 3,000 such tests.
#[test]
fn arrivals_that_are_passed_over_do_not_change_their_rate() {
    let plan = poisson(
        "warmup_requests = 1000, requests = 400000, sampling = { every = 10000, detailed = 500, warmup = 500 }",
    );
    let [bandwidth, _] = inside(&plan, [64.0 * 0.7 / 4.0, 0.0], 20);
    assert!((15..=20).contains(&bandwidth), "{bandwidth}");
}

const FULL: &str = "warmup_requests = 100000, requests = 1500000";
const SAMPLED: &str = "warmup_requests = 100000, requests = 1500000, sampling = { every = 50000, detailed = 1000, warmup = 1000 }";

/// As above, chance alone misses the bounds once in 3,000 tests.
#[test]
fn intervals_of_sampled_runs_hold_what_the_full_run_measures() {
    let truth = values(&measured(&private(FULL), 1_000_003, 1));
    let found = inside(&private(SAMPLED), truth, 20);
    let is_held = found.iter().all(|count| (15..=20).contains(count));
    assert!(is_held, "{found:?}");
}

/// Seeds 1 to 100 are the same on any machine, so chance decided once. The standard deviation of
/// the count is 2.2. Fewer than 88 intervals that contain the value with a probability of 95 %
/// occur once in 600 such tests.
#[test]
#[ignore = "slow: 400 sampled runs and four full ones"]
fn of_100_seeds_95_hold_what_the_full_run_measures() {
    type Make = fn(&str) -> Plan;
    // Millions of requests of the full run and of the sampled one.
    let systems: [(&str, Make, [u32; 2], &str); 4] = [
        (
            "private caches",
            private,
            [5, 2],
            "every = 20000, detailed = 500, warmup = 2000",
        ),
        (
            "flash behind DRAM",
            cached,
            [8, 4],
            "every = 100000, detailed = 2000, warmup = 1000",
        ),
        (
            "M/D/1",
            poisson,
            [20, 2],
            "every = 20000, detailed = 500, warmup = 1000",
        ),
        (
            "bursty",
            bursty,
            [20, 2],
            "every = 20000, detailed = 500, warmup = 1000",
        ),
    ];
    let mut wrong = Vec::new();
    for (name, make, millions, sampling) in systems {
        let [full, short] =
            millions.map(|all| format!("warmup_requests = 300000, requests = {all}000000"));
        let truth = values(&measured(&make(&full), 1_000_003, 1));
        let short = format!("{short}, sampling = {{ {sampling} }}");
        let found = inside(&make(&short), truth, 100);
        println!("{name}: full run {truth:?}, inside {found:?} of 100");
        wrong.extend(found.into_iter().filter(|count| *count < 88));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_sampled_run_is_the_same_on_any_number_of_threads() {
    let plan = private(
        "warmup_requests = 2000, requests = 300000, sampling = { every = 15000, detailed = 500, warmup = 500 }",
    );
    let bare = |threads| timeless(measured(&plan, 7, threads));
    let one = bare(1);
    assert!(one.extent.sampling.as_ref().unwrap().units >= 18);
    assert!(one.ci95.total_gb_per_s.is_some());
    assert_eq!(bare(2), one);
    assert_eq!(bare(3), one);
    assert_ne!(measured(&plan, 8, 1).latency_ns, one.latency_ns);
}

/// Of each 10,000 reads the first 1,000 are dependent and take nearly all of the time.
#[derive(Clone)]
struct Rounds;

struct RoundsSource {
    taken: u64,
}

save_state!(RoundsSource { values: taken; });

impl OpSource for RoundsSource {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        self.taken += 1;
        Some(MemOp {
            hpa: Hpa(64 * rng.below(1 << 20)),
            kind: OpKind::Read,
            not_before: SimTime::ZERO,
            dependent: self.taken % 10_000 < 1_000,
            lines: 1,
            write_back: false,
        })
    }
}

impl Workload for Rounds {
    fn source(&self, _: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(RoundsSource { taken: 0 }))
    }
}

/// Windows cover each position in a part equally often: also its ends,
/// and where the system is slow.
#[test]
fn a_slow_beginning_of_each_part_is_measured_as_often_as_the_rest() {
    let part = queue(
        Rounds,
        16,
        "warmup_requests = 10000, requests = 5000000, sampling = { every = 10000, detailed = 100, warmup = 1000 }",
    );
    let full = queue(Rounds, 16, "warmup_requests = 10000, requests = 200000");
    let all = measured(&full, 1, 1);
    let found = measured(&part, 1, 1);
    let off = found.bandwidth_gb_per_s.total / all.bandwidth_gb_per_s.total - 1.0;
    let width = found.ci95.total_gb_per_s.unwrap() / all.bandwidth_gb_per_s.total;
    assert!(off.abs() < 2.0 * width && width < 0.2, "{off} +- {width}");
}

#[test]
fn a_sampled_run_stops_at_a_precision() {
    let measure = "warmup_requests = 50000, precision = \"2 %\", sampling = { every = 20000 }";
    let report = measured(&private(measure), 1, 1);
    let [bandwidth, latency] = values(&report);
    assert!(report.ci95.total_gb_per_s.unwrap() <= 0.02 * bandwidth);
    assert!(report.ci95.latency_ns.unwrap() <= 0.02 * latency);
    let sampling = report.extent.sampling.unwrap();
    assert!(sampling.requests < 10_000_000, "{sampling:?}");
    assert!(sampling.units >= 32, "{sampling:?}");
}

/// The estimated time of all requests equals that of the full run. Unknown values are absent.
#[test]
fn the_time_of_all_requests_is_estimated() {
    let ending = |sampling: &str| {
        let text = format!(
            "name = \"end\"\n{sampling}\n[fabric]\ntopology = {{ kind = \"direct\" }}\n[[hosts]]\n\
             name = \"host\"\nrequests = 400000\nissue = {{ cache = {{ size = \"64 KiB\" }} }}\n\
             workload = {{ kind = \"hot-cold\", footprint = \"1 MiB\" }}\n[[devices]]\nname = \"mem\"\n\
             memory = {{ kind = \"dram\" }}\n"
        );
        report(&text, &[])
    };
    let full = ending("");
    let part = ending("measure = { sampling = { every = 5000, detailed = 500, warmup = 500 } }");
    let sampling = part.extent.sampling.unwrap();
    assert_eq!(sampling.requests, 400_000);
    let (time, width) = (sampling.time_ns.unwrap(), sampling.time_ci95_ns.unwrap());
    let apart = (time - full.extent.window_ns).abs();
    assert!(
        apart <= 2.0 * width,
        "{time} {width} {}",
        full.extent.window_ns
    );
    assert!(width < 0.05 * time);
    assert!(part.devices[0].medium.is_empty() && !full.devices[0].medium.is_empty());
    assert!(part.time_series.reads.is_empty() && !full.time_series.reads.is_empty());
}
