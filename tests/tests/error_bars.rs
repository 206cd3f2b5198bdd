//! Error estimates of runs: confidence intervals contain the long-run value as often
//! as stated, the warm-up is detected, a run stops at a precision, and a note reports
//! a window that has not settled.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cxlab_engine::Monitor;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, SimTime};
use cxlab_plan::{Externals, Files, Plan};
use cxlab_scenario::diagnostics::Document;
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};
use cxlab_tests::{plan, shipped};
use cxlab_workload::{MemOp, OpKind, OpSource, SourceContext, Workload, WorkloadError};

/// Reads that arrive at random: a Poisson stream, or bursts with
/// exponentially distributed lengths and pauses.
#[derive(Clone)]
struct Arrivals {
    /// Mean time between two reads of a burst, in picoseconds.
    gap: f64,
    /// Mean length of a burst and of the pause after it, in
    /// picoseconds. `None` for a Poisson stream.
    bursts: Option<(f64, f64)>,
}

struct Source {
    arrivals: Arrivals,
    now: f64,
    burst_ends: f64,
}

save_state!(Source {
    values: now, burst_ends;
    built: arrivals;
});

fn exponential(rng: &mut StreamRng, mean: f64) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        self.now += exponential(rng, self.arrivals.gap);
        if let Some((burst, silence)) = self.arrivals.bursts
            && self.now > self.burst_ends
        {
            self.now += exponential(rng, silence);
            self.burst_ends = self.now + exponential(rng, burst);
        }
        Some(MemOp {
            hpa: Hpa(64 * rng.below(1 << 20)),
            kind: OpKind::Read,
            not_before: SimTime(self.now as u64),
            dependent: false,
            lines: 1,
        })
    }
}

impl Workload for Arrivals {
    fn source(&self, _: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Source {
            arrivals: self.clone(),
            now: 0.0,
            burst_ends: 0.0,
        }))
    }
}

/// One host with random arrivals, and one device that serves a line in 4 ns.
fn queue(arrivals: Arrivals, measure: &str) -> Plan {
    let text = format!(
        r#"
name = "queue"
measure = {{ {measure} }}
[fabric]
topology = {{ kind = "direct" }}
[[hosts]]
name = "host"
issue = {{ outstanding = 65536 }}
workload = {{ kind = "external", name = "arrivals" }}
[[devices]]
name = "mem"
controller = {{ contexts = 65536 }}
memory = {{ kind = "fixed", latency = "50 ns", bandwidth = "16 GB/s", queue = 65536 }}
"#
    );
    let document = Document::parse("queue.toml", &text).unwrap();
    let scenario = serde_json::from_value(document.value().clone()).unwrap();
    let workload: Arc<dyn Workload> = Arc::new(arrivals);
    let externals = Externals::from([("arrivals".to_owned(), workload)]);
    Plan::with_externals(scenario, Files::default(), &externals).unwrap()
}

/// Poisson arrivals at 70 % of the device's rate: M/D/1.
fn poisson() -> Arrivals {
    Arrivals {
        gap: 4_000.0 / 0.7,
        bursts: None,
    }
}

/// Bursts of 1 us at 95 % of the device's rate, with pauses of the same length.
fn bursty() -> Arrivals {
    Arrivals {
        gap: 4_000.0 / 0.95,
        bursts: Some((1e6, 1e6)),
    }
}

/// Two hosts that share a device with a snoop filter, an eighth of the shipped one, which takes
/// some hundred thousand requests to settle.
fn coherent(measure: &str) -> Plan {
    let set = [
        format!("measure={{ {measure} }}"),
        "hosts[0].issue.cache.size=\"32 KiB\"".to_owned(),
        "hosts[0].workload.footprint=\"512 KiB\"".to_owned(),
        "devices[0].coherence.filter.lines=512".to_owned(),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    plan(&shipped("device-coherent"), &set)
}

fn measured(plan: &Plan, seed: u64) -> Report {
    let options = RunOptions {
        seed,
        threads: 1.into(),
        monitor: &Monitor::default(),
        rows: None,
    };
    run(plan, options).unwrap()
}

/// Bandwidth and mean latency.
fn values(report: &Report) -> [f64; 2] {
    [report.bandwidth_gb_per_s.total, report.latency_ns.mean]
}

/// The notes on warm-up, window and precision.
fn said(report: &Report) -> Vec<&str> {
    let notes = report.notes.iter();
    let ours = notes.filter(|note| note.path.starts_with("measure"));
    ours.map(|note| note.message.as_str()).collect()
}

/// Number of runs whose intervals contain the true bandwidth and the true mean latency, and number
/// of runs that report that they have not settled.
fn inside(plan: &Plan, truth: [f64; 2], runs: u64) -> ([u64; 2], u64) {
    let (mut inside, mut notes) = ([0; 2], 0);
    for seed in 1..=runs {
        let report = measured(plan, seed);
        let widths = [report.ci95.total_gb_per_s, report.ci95.latency_ns];
        let wanted = values(&report).into_iter().zip(truth).zip(widths);
        for (count, ((value, truth), width)) in inside.iter_mut().zip(wanted) {
            *count += u64::from(width.is_some_and(|width| (value - truth).abs() <= width));
        }
        notes += u64::from(!said(&report).is_empty());
    }
    (inside, notes)
}

const WINDOW: &str = "warmup_requests = 20000, requests = 20000";
const LONG: &str = "warmup_requests = 20000, requests = 5000000";
/// With 200 runs, a true 95 % would miss the bounds in one of seven tests by
/// chance alone. With 600, hardly ever.
const RUNS: u64 = 600;

/// The long-run values come from a run that is 250 times as long, with its own seed. Its error is a
/// sixteenth of that of a run here.
#[test]
#[ignore = "slow: 1,800 runs and three long ones"]
fn of_100_runs_of_each_system_93_to_97_hold_the_long_run_value() {
    let systems = [
        ("M/D/1", queue(poisson(), WINDOW), queue(poisson(), LONG)),
        ("bursty", queue(bursty(), WINDOW), queue(bursty(), LONG)),
        ("coherent", coherent(WINDOW), coherent(LONG)),
    ];
    let mut wrong = Vec::new();
    for (name, short, long) in systems {
        let truth = values(&measured(&long, 1_000_003));
        let (found, notes) = inside(&short, truth, RUNS);
        println!("{name}: truth {truth:?}, inside {found:?} of {RUNS}, {notes} with notes");
        let bounds = RUNS * 93 / 100..=RUNS * 97 / 100;
        wrong.extend(found.into_iter().filter(|count| !bounds.contains(count)));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The rate of arrivals is known exactly. Of 60 intervals that contain it with a probability of 95
/// %, fewer than 52 do so in one of 400 such tests.
#[test]
fn intervals_hold_the_rate_of_arrivals() {
    let plan = queue(poisson(), "warmup_requests = 1000, requests = 9000");
    let ([inside, _], _) = inside(&plan, [64.0 * 0.7 / 4.0, 0.0], 60);
    assert!((52..=60).contains(&inside), "{inside}");
}

/// Sixteen nodes fill their last-level caches with modified lines for much longer than the
/// scenario's warm-up of 250 us, so the rate is still going to double.
#[test]
fn a_window_that_has_not_settled_says_so() {
    let set = [
        "hosts[0].count=16",
        "hosts[0].os.placement={ kind = \"bind\", nodes = [1] }",
        "devices[0].capacity=\"16 GiB\"",
    ];
    let report = measured(&plan(&shipped("cluster-stream"), &set), 1);
    let said = said(&report)
        .iter()
        .any(|note| note.contains("bandwidth") && note.contains("had not settled"));
    assert!(said, "{:?}", report.notes);
}

#[test]
fn a_settled_window_says_nothing() {
    for name in ["spine-leaf-16", "loaded-latency"] {
        let report = measured(&plan(&shipped(name), &["measure.warmup=\"auto\""]), 1);
        assert_eq!(said(&report), [""; 0], "{name}");
        assert!(report.ci95.total_gb_per_s.is_some() && report.ci95.latency_ns.is_some());
        assert!(report.settled_ns.is_some_and(|at| at <= report.warmup_ns));
    }
}

/// A private cache that holds the hot lines fills slowly, so a tenth of the
/// window is too short a warm-up.
#[test]
fn a_warm_up_that_is_found_is_longer_where_the_transient_is() {
    let text = |cache: &str| {
        format!(
            "name = \"fill\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n[[hosts]]\nname = \"host\"\n\
             issue = {{ outstanding = 4, {cache} }}\n\
             workload = {{ kind = \"uniform\", footprint = \"1 MiB\" }}\n[[devices]]\nname = \"mem\"\n"
        )
    };
    let filling = "cache = { size = \"1 MiB\", ways = 16 }";
    let measure = ["measure={ warmup = \"auto\", requests = 600000 }"];
    let with = measured(&plan(&text(filling), &measure), 1);
    let without = measured(&plan(&text(""), &measure), 1);
    let warmed =
        |report: &Report| report.warmup_ns * report.requests.completed as f64 / report.window_ns;
    assert!(warmed(&without) < 80_000.0, "{}", warmed(&without));
    assert!(warmed(&with) > 120_000.0, "{}", warmed(&with));
    assert_eq!(said(&with), [""; 0]);
}

#[test]
fn a_run_stops_at_a_precision_and_says_where_it_does_not_reach_it() {
    let wanted = queue(poisson(), "precision = \"2 %\"");
    let report = measured(&wanted, 1);
    let [bandwidth, latency] = values(&report);
    assert!(report.ci95.total_gb_per_s.unwrap() <= 0.02 * bandwidth);
    assert!(report.ci95.latency_ns.unwrap() <= 0.02 * latency);
    assert!(report.requests.completed < 1_000_000);
    assert_eq!(said(&report), [""; 0]);
    let short = queue(poisson(), "precision = \"0.1 %\", requests = 20_000");
    let report = measured(&short, 1);
    assert!(
        said(&report)[0].contains("0.1 %") || said(&report)[0].contains("1000 ppm"),
        "{:?}",
        report.notes
    );
    assert!(report.requests.completed >= 20_000);
}

#[test]
fn a_run_that_ends_by_itself_has_no_intervals_and_says_why() {
    let report = measured(&plan(&shipped("trace"), &[]), 1);
    assert_eq!(report.ci95.total_gb_per_s, None);
    assert!(report.ci95.reason.unwrap().contains("ended by itself"));
    let short = measured(
        &plan(
            &shipped("spine-leaf-16"),
            &["measure={ requests=800, warmup_requests=200 }"],
        ),
        1,
    );
    assert_eq!(short.ci95.latency_ns, None);
    assert!(short.ci95.reason.unwrap().contains("needs 16"));
}
