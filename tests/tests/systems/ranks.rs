//! A run on several ranks has exactly the report of a run in one process. The ranks are threads
//! here, and `make test-mpi` starts processes.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Picos;
use cxlab_engine::{LocalRank, Monitor, Ranks};
use cxlab_plan::Plan;
use cxlab_system::checkpoint::{Checkpoint, CheckpointInterval, Checkpoints};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, describe_division, division, run_ranked};
use cxlab_tests::checkpoint::{Temporary, go_on, timeless};
use cxlab_tests::{plan, shipped, try_run};

/// Runs a plan on this many ranks and returns the result of the first. The others have none.
fn on_ranks(
    plan: &Plan,
    size: usize,
    write: Option<(CheckpointInterval, &std::path::Path)>,
    restore: Option<&[u8]>,
) -> Result<Report, RunError> {
    std::thread::scope(|scope| {
        let ranks = LocalRank::several(size).into_iter();
        let runs: Vec<_> = ranks
            .map(|mut rank| {
                scope.spawn(move || {
                    let monitor = Monitor::default();
                    let options = RunOptions {
                        seed: plan.scenario.seed,
                        threads: 1.into(),
                        monitor: &monitor,
                        rows: None,
                    };
                    let restore = restore.map(|bytes| Checkpoint::of("saved", bytes.to_vec()));
                    let checkpoints = Checkpoints {
                        write,
                        restore: restore.transpose().map_err(RunError::Checkpoint)?,
                        ..Checkpoints::default()
                    };
                    let first = rank.rank() == 0;
                    let division = division(plan, plan.scenario.seed, size)?;
                    let report = run_ranked(plan, options, checkpoints, &mut rank, division)?;
                    assert_eq!(report.is_some(), first);
                    Ok::<_, RunError>(report)
                })
            })
            .collect();
        let mut reports = runs.into_iter().map(|run| run.join().unwrap());
        let first = reports.next().unwrap()?;
        reports.try_for_each(|report| report.map(|_| ()))?;
        Ok(timeless(first.unwrap()))
    })
}

fn alone(plan: &Plan) -> Report {
    timeless(try_run(plan, 1).unwrap())
}

const SHORT: &str = "measure={ requests = 1500, warmup_requests = 300 }";

#[test]
fn a_report_does_not_depend_on_how_many_ranks_made_it() {
    for name in [
        "spine-leaf-16",
        "torus-16",
        "multiple-vcs",
        "device-coherent",
        "dynamic-capacity",
        "duplex",
        "enumeration",
        "core-stream",
        "cohet-fpga",
    ] {
        let plan = plan(&shipped(name), &[SHORT]);
        let expected = alone(&plan);
        for ranks in [1, 2, 4] {
            match on_ranks(&plan, ranks, None, None) {
                Ok(report) => assert!(report == expected, "{name} on {ranks} ranks"),
                Err(RunError::Ranks(why)) => assert!(ranks > 1, "{name}: {why}"),
                Err(error) => panic!("{name} on {ranks} ranks: {error}"),
            }
        }
    }
}

#[test]
fn failures_at_random_do_not_depend_on_how_many_ranks_there_are() {
    let plan = plan(
        &shipped("failure-year"),
        &[
            "measure={ duration = \"900 us\" }",
            "failures.random.until=\"800 us\"",
            "failures.random.switches.mtbf=\"400 us\"",
            "fabric.virtual_channels=2",
        ],
    );
    let expected = alone(&plan);
    let failures = expected.failures.unwrap();
    assert!(failures.routing_changes > 20, "{failures:?}");
    for ranks in [2, 3] {
        let found = on_ranks(&plan, ranks, None, None).unwrap();
        assert!(found == expected, "{ranks} ranks");
    }
    goes_on(&plan);
}

#[test]
fn what_ranks_saved_goes_on_without_them_and_the_other_way_round() {
    goes_on(&plan(&shipped("spine-leaf-16"), &[SHORT]));
    // Threads that compute report their history, which grows.
    let longer = "measure={ requests = 15000, warmup_requests = 3000 }";
    goes_on(&plan(&shipped("cluster-stream"), &[longer]));
}

fn goes_on(plan: &Plan) {
    let expected = alone(plan);
    for every in [
        CheckpointInterval::Simulated(Picos(1_300_000)),
        CheckpointInterval::Requests(500),
        CheckpointInterval::WarmUp,
    ] {
        let file = Temporary::default();
        let report = on_ranks(plan, 2, Some((every, &file.0)), None).unwrap();
        assert!(report == expected, "{every:?}");
        let bytes = std::fs::read(&file.0).unwrap();
        let report = on_ranks(plan, 4, None, Some(&bytes)).unwrap();
        assert!(report == expected, "{every:?}");
        assert!(go_on(plan, 2, bytes).unwrap() == expected, "{every:?}");
    }
}

#[test]
fn more_ranks_than_parts_are_refused() {
    let plan = plan(&shipped("direct"), &[SHORT]);
    match division(&plan, 1, 99) {
        Err(RunError::Ranks(why)) => assert!(why.starts_with("found 99 ranks; allowed: 1 to")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sampled_runs_are_refused_on_ranks() {
    let plan = plan(&shipped("spine-leaf-16"), &["measure={ sampling = {} }"]);
    match on_ranks(&plan, 2, None, None) {
        Err(RunError::Problems(problems)) => {
            let [problem] = &problems[..] else {
                panic!("{problems:?}")
            };
            assert_eq!(problem.path, "measure.sampling");
            let told = &problem.message;
            assert!(told.contains("allowed: in one process"), "{told}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lookahead_is_told_and_a_short_one_warned_of() {
    let long = plan(&shipped("spine-leaf-16"), &[]);
    let told = describe_division(&division(&long, 1, 2).unwrap());
    assert!(told.contains("2 ranks, lookahead"), "{told}");
    assert!(!told.contains("warning"), "{told}");
    let set = [
        "fabric.link.propagation=\"2 ps\"",
        "fabric.link.port_delay=\"0 ns\"",
        "fabric.link.fec_delay=\"0 ns\"",
        "fabric.switch.switching_time=\"0 ns\"",
        "devices[0].controller.process_time=\"0 ns\"",
        "hosts[0].issue.process_time=\"0 ns\"",
    ];
    let short = plan(&shipped("spine-leaf-16"), &set);
    let told = describe_division(&division(&short, 1, 2).unwrap());
    assert!(told.contains("warning"), "{told}");
}
