//! Error estimates of runs: confidence intervals contain the long-run value as often
//! as stated, the warm-up is detected, a run stops at a precision, and a note reports
//! a window that has not settled.
#![allow(clippy::unwrap_used)]

use cxlab_plan::Plan;
use cxlab_system::report::Report;
use cxlab_tests::arrivals::{Arrivals, measured, values};
use cxlab_tests::{arrivals, plan, shipped};

fn queue(arrivals: Arrivals, measure: &str) -> Plan {
    arrivals::queue(arrivals, 65_536, measure)
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

fn once(plan: &Plan, seed: u64) -> Report {
    measured(plan, seed, 1)
}

/// The notes on warm-up, window and precision.
fn said(report: &Report) -> Vec<&str> {
    let notes = report.provenance.notes.iter();
    let ours = notes.filter(|note| note.path.starts_with("measure"));
    ours.map(|note| note.message.as_str()).collect()
}

/// Number of runs whose intervals contain the true bandwidth and the true mean latency, and number
/// of runs that report that they have not settled.
fn inside(plan: &Plan, truth: [f64; 2], runs: u64) -> ([u64; 2], u64) {
    let (mut inside, mut notes) = ([0; 2], 0);
    for seed in 1..=runs {
        let report = once(plan, seed);
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
        (
            "M/D/1",
            queue(Arrivals::poisson(), WINDOW),
            queue(Arrivals::poisson(), LONG),
        ),
        (
            "bursty",
            queue(Arrivals::bursty(), WINDOW),
            queue(Arrivals::bursty(), LONG),
        ),
        ("coherent", coherent(WINDOW), coherent(LONG)),
    ];
    let mut wrong = Vec::new();
    for (name, short, long) in systems {
        let truth = values(&once(&long, 1_000_003));
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
    let plan = queue(
        Arrivals::poisson(),
        "warmup_requests = 1000, requests = 9000",
    );
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
    let report = once(&plan(&shipped("cluster-stream"), &set), 1);
    let said = said(&report)
        .iter()
        .any(|note| note.contains("bandwidth") && note.contains("had not settled"));
    assert!(said, "{:?}", report.provenance.notes);
}

#[test]
fn a_settled_window_says_nothing() {
    for name in ["spine-leaf-16", "loaded-latency"] {
        let report = once(&plan(&shipped(name), &["measure.warmup=\"auto\""]), 1);
        assert_eq!(said(&report), [""; 0], "{name}");
        assert!(report.ci95.total_gb_per_s.is_some() && report.ci95.latency_ns.is_some());
        assert!(
            report
                .extent
                .settled_ns
                .is_some_and(|at| at <= report.extent.warmup_ns)
        );
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
    let with = once(&plan(&text(filling), &measure), 1);
    let without = once(&plan(&text(""), &measure), 1);
    let warmed = |report: &Report| {
        report.extent.warmup_ns * report.requests.completed as f64 / report.extent.window_ns
    };
    assert!(warmed(&without) < 80_000.0, "{}", warmed(&without));
    assert!(warmed(&with) > 120_000.0, "{}", warmed(&with));
    assert_eq!(said(&with), [""; 0]);
}

#[test]
fn a_run_stops_at_a_precision_and_says_where_it_does_not_reach_it() {
    let wanted = queue(Arrivals::poisson(), "precision = \"2 %\"");
    let report = once(&wanted, 1);
    let [bandwidth, latency] = values(&report);
    assert!(report.ci95.total_gb_per_s.unwrap() <= 0.02 * bandwidth);
    assert!(report.ci95.latency_ns.unwrap() <= 0.02 * latency);
    assert!(report.requests.completed < 1_000_000);
    assert_eq!(said(&report), [""; 0]);
    let short = queue(
        Arrivals::poisson(),
        "precision = \"0.1 %\", requests = 20_000",
    );
    let report = once(&short, 1);
    let first = said(&report)[0];
    assert!(
        first.contains("0.1 %") || first.contains("1000 ppm"),
        "{first}"
    );
    assert!(report.requests.completed >= 20_000);
}

#[test]
fn a_run_that_ends_by_itself_has_no_intervals_and_says_why() {
    let report = once(&plan(&shipped("trace"), &[]), 1);
    assert_eq!(report.ci95.total_gb_per_s, None);
    assert!(report.ci95.reason.unwrap().contains("ended by itself"));
    let short = once(
        &plan(
            &shipped("spine-leaf-16"),
            &["measure={ requests=800, warmup_requests=200 }"],
        ),
        1,
    );
    assert_eq!(short.ci95.latency_ns, None);
    assert!(short.ci95.reason.unwrap().contains("needs 16"));
}
