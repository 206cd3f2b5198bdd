//! Edges of windows: lockstep does not bias rates, and the report says
//! where Little's law does not hold.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Picos;
use cxlab_engine::{LocalRank, Monitor, Ranks};
use cxlab_plan::Plan;
use cxlab_system::checkpoint::{CheckpointInterval, Checkpoints};
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, division, run_ranked};
use cxlab_tests::checkpoint::{go_on, run_saved, timeless};
use cxlab_tests::{plan, report, shipped, try_run};

/// Hosts that begin at once, and devices whose latency of 10 us is much longer than the waits of
/// requests for each other. All requests of all hosts complete in one burst every latency.
const LOCKSTEP: &str = r#"
name = "lockstep"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "host"
workload = { kind = "uniform" }
[[devices]]
name = "mem"
count = 16
memory = { kind = "fixed", latency = "10 us", queue = 65536 }
controller = { contexts = 65536 }
"#;

fn lockstep(hosts: u64, outstanding: u64, measure: &str) -> Plan {
    let set = [
        format!("hosts[0].count={hosts}"),
        format!("hosts[0].issue.outstanding={outstanding}"),
        format!("measure={{ {measure} }}"),
    ];
    plan(LOCKSTEP, &set.each_ref().map(String::as_str))
}

fn measured(plan: &Plan) -> Report {
    timeless(try_run(plan, 1).unwrap())
}

/// Relative deviation of rate times mean latency from the requests in flight.
fn law(report: &Report) -> f64 {
    report.littles_law.rate_times_latency / report.littles_law.in_flight - 1.0
}

/// The notes on edges.
fn said(report: &Report) -> Vec<&str> {
    let notes = report
        .provenance
        .notes
        .iter()
        .map(|note| note.message.as_str());
    let ours = |note: &&str| note.contains("Little") || note.contains("mean latencies long");
    notes.filter(ours).collect()
}

/// With `N` requests always in flight the rate is `N` over the latency, which a host with one
/// outstanding request measures. Waits in the fabric add at most 4 ns to 10,249 ns.
#[test]
fn hosts_in_lockstep_have_the_rate_of_their_requests_in_flight() {
    let alone = measured(&lockstep(1, 1, "requests = 1000")).latency_ns.mean;
    let windows = [
        "",
        "requests = 30000",
        "requests = 50000",
        "requests = 70001",
    ];
    for (hosts, outstanding) in [(16, 64), (64, 64), (256, 4), (256, 16)] {
        for window in windows {
            let report = measured(&lockstep(hosts, outstanding, window));
            let expected = (hosts * outstanding * 64) as f64 / alone;
            let error = report.bandwidth_gb_per_s.total / expected - 1.0;
            let case = format!("{hosts} x {outstanding}, {window}");
            assert!(error.abs() < 0.006, "{case}: {:+.2} %", 100.0 * error);
            assert!(law(&report).abs() < 0.0051, "{case}: {}", law(&report));
            let is_told = said(&report).iter().any(|note| note.contains("Little"));
            assert!(!is_told, "{case}");
        }
    }
}

/// A hundred thousand requests would be six latencies of 16,384 requests in flight.
#[test]
fn a_window_whose_length_is_left_open_has_twenty_latencies() {
    let report = measured(&lockstep(256, 64, ""));
    let latencies = report.extent.window_ns / report.latency_ns.mean;
    assert!((20.0..23.0).contains(&latencies), "{latencies}");
    assert_eq!(said(&report), [""; 0]);
    let few = measured(&lockstep(16, 16, ""));
    let completed = few.requests.completed;
    assert!(completed < 110_000, "{completed}");
}

/// The scenario fixes the length of this window: 22.5 bursts.
#[test]
fn a_window_that_may_not_move_says_by_how_much_littles_law_differs() {
    let report = measured(&lockstep(
        64,
        64,
        "warmup_time = \"25 us\", duration = \"230.6 us\"",
    ));
    assert!(law(&report).abs() > 0.01, "{}", law(&report));
    let [note] = said(&report)[..] else {
        panic!("{:?}", report.provenance.notes)
    };
    let expected = format!(
        "Little's law is {:+.1} % off at the edges of the window",
        100.0 * law(&report)
    );
    assert!(note.contains(&expected), "{note}");
    assert!(note.contains(&format!(
        "{:.1} requests are in flight",
        report.littles_law.in_flight
    )));
    // A window of 22 bursts has equal edges.
    let whole = measured(&lockstep(
        64,
        64,
        "warmup_time = \"25 us\", duration = \"225.478 us\"",
    ));
    assert!(law(&whole).abs() < 0.005, "{}", law(&whole));
    assert_eq!(said(&whole), [""; 0]);
}

#[test]
fn a_window_of_few_latencies_says_so_and_a_whole_program_does_not() {
    let report = measured(&lockstep(64, 64, "requests = 50000"));
    let latencies = report.extent.window_ns / report.latency_ns.mean;
    let expected = format!("the window is {latencies:.1} mean latencies long, below 20");
    let is_told = said(&report).iter().any(|note| note.contains(&expected));
    assert!(is_told, "{:?}", report.provenance.notes);
    let set = [
        "hosts[0].requests=30",
        "hosts[0].count=4",
        "hosts[0].issue.outstanding=8",
    ];
    let program = cxlab_tests::report(LOCKSTEP, &set);
    assert!(program.extent.window_ns / program.latency_ns.mean < 5.0);
    assert_eq!(said(&program), [""; 0]);
}

/// A run that starts empty has older requests in flight at its end than at its beginning, wherever
/// the window ends. The window waits for at most two latencies, and the report says what is left.
#[test]
fn edges_that_never_become_equal_end_the_window_with_a_note() {
    let set = [
        "measure={ requests = 10000, warmup_requests = 0 }",
        "hosts[0].issue.outstanding=64",
    ];
    let report = report(&shipped("spine-leaf-16"), &set);
    let latencies = report.extent.window_ns / report.latency_ns.mean;
    let requests = 10_000.0 / report.requests.completed as f64 * latencies;
    // The first sampling point is up to 1.5 latencies after the last request.
    assert!(latencies - requests < 4.0, "{latencies} for {requests}");
    assert!(law(&report) < -0.01, "{}", law(&report));
    let first = said(&report)[0];
    assert!(first.contains("together older"), "{first}");
}

#[test]
fn where_a_window_ends_does_not_depend_on_threads_ranks_or_checkpoints() {
    let plan = lockstep(32, 64, "warmup_requests = 3000, requests = 13000");
    let expected = measured(&plan);
    let law = law(&expected);
    assert!(law.abs() <= 0.001, "the window was not moved: {law}");
    for threads in [2, 3] {
        let found = timeless(try_run(&plan, threads).unwrap());
        assert!(found == expected, "{threads} threads");
    }
    let ranks = LocalRank::several(2).into_iter();
    let found = std::thread::scope(|scope| {
        let runs: Vec<_> = ranks
            .map(|mut rank| {
                let plan = &plan;
                scope.spawn(move || {
                    let options = RunOptions {
                        seed: plan.scenario.seed,
                        threads: 1.into(),
                        monitor: &Monitor::default(),
                        rows: None,
                    };
                    let size = rank.size();
                    let division = division(plan, plan.scenario.seed, size).unwrap();
                    run_ranked(plan, options, Checkpoints::default(), &mut rank, division).unwrap()
                })
            })
            .collect();
        runs.into_iter().find_map(|run| run.join().unwrap())
    });
    assert!(timeless(found.unwrap()) == expected);
    for every in [
        CheckpointInterval::Simulated(Picos(3_000_000)),
        CheckpointInterval::Requests(2_000),
        CheckpointInterval::WarmUp,
    ] {
        let (report, saved) = run_saved(&plan, 1, every).unwrap();
        assert!(report == expected, "{every:?}");
        let report = go_on(&plan, 2, saved.unwrap()).unwrap();
        assert!(report == expected, "{every:?}");
    }
}
