//! A run that is saved and resumed ends exactly as the uninterrupted run. A run that cannot be
//! saved says so before it starts. A file that is not a checkpoint of this run is refused.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use cxlab_engine::Monitor;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_plan::Plan;
use cxlab_system::checkpoint::{Checkpoint, CheckpointError, CheckpointInterval, Checkpoints};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, run_with};
use cxlab_tests::checkpoint::{Temporary, check, go_on, run_saved, timeless, watched_run};
use cxlab_tests::{plan, root, shipped};
use sha2::{Digest, Sha256};

/// Names of the shipped scenarios, in order.
fn names() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("scenarios")).expect("scenarios/ is there");
    let paths = folder.map(|entry| entry.expect("a readable entry").path());
    let names = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".toml")?;
        Some(name.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn run(plan: &Plan) -> Report {
    timeless(cxlab_tests::try_run(plan, 1).unwrap())
}

#[test]
fn every_shipped_scenario_goes_on_from_a_random_time() {
    for (seed, name) in names().iter().enumerate() {
        let plan = plan(&shipped(name), &["measure={ requests = 3000 }"]);
        println!("{name}");
        check(&plan, &run(&plan), seed as u64);
    }
}

#[test]
fn every_workload_goes_on_from_a_random_time() {
    let kernels = [
        (
            "cohet-fpga",
            "kind = \"circus-tent\", interface = \"pcie\", iterations = 100",
        ),
        (
            "cohet-fpga",
            "kind = \"circus-tent\", pattern = \"scatter\", iterations = 100",
        ),
        (
            "cohet-fpga",
            "kind = \"axpy\", model = \"explicit\", elements = 1024",
        ),
        (
            "cohet-fpga",
            "kind = \"axpy\", model = \"unified\", elements = 1024",
        ),
        ("cohet-fpga", "kind = \"dma-transfers\", messages = 200"),
        (
            "cohet-pages",
            "kind = \"stream-threads\", array = \"32 KiB\"",
        ),
        (
            "cohet-pages",
            "kind = \"hot-pages\", memory = \"1 MiB\", operations = 3000, workers = \"all\"",
        ),
        (
            "core-stream",
            "kind = \"random-read\", footprint = \"64 KiB\"",
        ),
        ("core-stream", "kind = \"key-value\", operations = 60"),
        (
            "core-stream",
            "kind = \"hot-cold\", footprint = \"1 MiB\", read_ratio = 0.5",
        ),
    ];
    for (seed, (scenario, kernel)) in kernels.iter().enumerate() {
        let workload = format!("hosts[0].workload={{ {kernel} }}");
        let plan = plan(&shipped(scenario), &[workload.as_str()]);
        println!("{scenario} with {kernel}");
        check(&plan, &run(&plan), seed as u64);
    }
}

#[test]
fn a_host_knows_after_a_restore_which_devices_are_cut_off() {
    // The last device is cut off from 150 us on.
    let plain = shipped("failures");
    let processor = plain.replace(
        "issue = { outstanding = 16, rate = \"2 GB/s\" }",
        "processor = { cores = 2, llc = { size = \"8 MiB\", ways = 16 } }\n\
         nodes = [{ capacity = \"64 MiB\" }]",
    );
    assert_ne!(plain, processor);
    for text in [plain, processor] {
        let plan = plan(&text, &[]);
        let expected = run(&plan);
        let every = CheckpointInterval::Simulated(Picos(170_000_000));
        let (report, bytes) = run_saved(&plan, 1, every).unwrap();
        assert!(report == expected && expected.failures.unwrap().timed_out > 0);
        let report = go_on(&plan, 2, bytes.unwrap()).unwrap();
        assert!(
            report == expected,
            "{} {}",
            report.provenance.digest,
            expected.provenance.digest
        );
    }
}

#[test]
fn what_cannot_be_saved_says_so_before_the_run() {
    // Threads of this kernel exchange values that are in no memory of the system.
    let rpc = "hosts[0].workload={ kind = \"rpc\" }";
    let plan = plan(&shipped("cohet-fpga"), &[rpc]);
    let Err(RunError::Problems(problems)) = run_saved(&plan, 1, CheckpointInterval::WarmUp) else {
        panic!("saved")
    };
    assert_eq!(problems[0].path, "hosts[0]");
    let message = &problems[0].message;
    for part in [
        "a kernel whose threads share more than the memory",
        "docs/guide/checkpoints.md",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

const SMALL: &str = "spine-leaf-16";

fn small(measure: &str) -> Plan {
    let set = format!("measure={{ {measure} }}");
    plan(&shipped(SMALL), &[set.as_str()])
}

#[test]
fn one_warm_up_serves_many_measurements() {
    let first = small("requests = 800, warmup_requests = 400");
    let (_, bytes) = run_saved(&first, 1, CheckpointInterval::WarmUp).unwrap();
    let bytes = bytes.expect("it warms up");
    for measure in [
        "requests = 800, warmup_requests = 400",
        "requests = 2000, warmup_requests = 400",
        "duration = \"3 us\", warmup_requests = 400",
    ] {
        let other = small(measure);
        let report = go_on(&other, 2, bytes.clone()).unwrap();
        assert!(report == run(&other), "{measure}");
    }
}

#[test]
fn a_window_that_has_not_ended_may_end_elsewhere() {
    // Saved during the warm-up, and during the measurement.
    let first = small("duration = \"9 us\", warmup_time = \"3 us\"");
    let saved = |every| {
        let saved = run_saved(&first, 1, CheckpointInterval::Simulated(Picos(every)));
        saved.unwrap().1.unwrap()
    };
    let (warming, measuring) = (saved(7_000_000), saved(11_000_000));
    // Microseconds of the measurement and of the warm-up.
    for (bytes, duration, warmup, allowed) in [
        (&measuring, 9, 3, true),
        (&measuring, 20, 3, true),
        (&measuring, 7, 3, false),
        (&measuring, 9, 2, false),
        (&warming, 5, 3, true),
        (&warming, 3, 3, false),
    ] {
        let measure = format!("duration = \"{duration} us\", warmup_time = \"{warmup} us\"");
        let other = small(&measure);
        match go_on(&other, 1, bytes.clone()) {
            Ok(report) => assert!(allowed && report == run(&other), "{measure}"),
            Err(RunError::Problems(problems)) => {
                assert!(!allowed && problems[0].path == "measure", "{problems:?}");
            }
            Err(error) => panic!("{measure}: {error}"),
        }
    }
}

#[test]
fn each_kind_of_interval_writes_checkpoints_and_changes_nothing() {
    let plan = small("requests = 3000");
    let expected = run(&plan);
    for every in [
        CheckpointInterval::Requests(500),
        CheckpointInterval::Wall(Duration::from_micros(200)),
        CheckpointInterval::Simulated(Picos(1_700_000)),
        CheckpointInterval::WarmUp,
    ] {
        let (report, bytes) = run_saved(&plan, 2, every).unwrap();
        assert!(report == expected, "{every:?}");
        let report = go_on(&plan, 1, bytes.expect("a checkpoint")).unwrap();
        assert!(report == expected, "{every:?}");
    }
}

#[test]
fn a_run_that_goes_on_tells_of_what_was_done_before() {
    let plan = small("requests = 3000");
    let (_, bytes) = run_saved(&plan, 1, CheckpointInterval::Requests(1000)).unwrap();
    let [whole, rest] = [None, bytes].map(|bytes| {
        let checkpoint = bytes.map(|bytes| Checkpoint::of("saved", bytes).unwrap());
        let checkpoints = Checkpoints {
            restore: checkpoint,
            ..Checkpoints::default()
        };
        let monitor = Monitor::default();
        watched_run(&plan, 2, checkpoints, &monitor).unwrap();
        (monitor.untimed_work(), monitor.work())
    });
    assert_eq!(whole.0, 0);
    assert!(rest.0 >= 1000, "{rest:?}");
    assert_eq!(rest.1, whole.1);
}

#[test]
fn a_checkpoint_does_not_depend_on_how_many_threads_wrote_it() {
    for name in [
        "spine-leaf-16",
        "device-coherent",
        "cached-ssd",
        "cluster-stream",
    ] {
        let plan = plan(&shipped(name), &["measure={ requests = 2000 }"]);
        let every = CheckpointInterval::Simulated(Picos(1_500_000));
        let [one, three] = [1, 3].map(|threads| run_saved(&plan, threads, every).unwrap().1);
        assert!(one.is_some() && one == three, "{name}");
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused_with_what_differs() {
    let of = small("requests = 1000");
    let (_, bytes) = run_saved(&of, 1, CheckpointInterval::WarmUp).unwrap();
    let bytes = bytes.unwrap();
    for (change, message) in [
        ("seed=2", "found a checkpoint of a run with seed 1"),
        (
            "fabric.switch.switching_time=\"21 ns\"",
            "found a checkpoint of another system",
        ),
    ] {
        let other = plan(&shipped(SMALL), &["measure={ requests = 1000 }", change]);
        match go_on(&other, 1, bytes.clone()) {
            Err(RunError::Checkpoint(CheckpointError::Refused(why))) => {
                assert!(why.contains(message), "{why}");
            }
            other => panic!(
                "{change}: {:?}",
                other.map(|report| report.provenance.digest)
            ),
        }
    }
    // The number of threads and the name of the scenario do not matter.
    let set = [
        "measure={ requests = 1000 }",
        "name=other",
        "execution.threads=3",
    ];
    let same = plan(&shipped(SMALL), &set);
    assert!(go_on(&same, 3, bytes).is_ok());
}

/// Replaces the hash at the end by a valid one.
fn with_hash(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - 32;
    let hash = Sha256::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&hash);
    bytes
}

#[test]
fn no_damaged_checkpoint_is_taken_and_no_forged_one_ends_the_reader() {
    let measure = "measure={ requests = 300, warmup_requests = 100 }";
    let plan = plan(&shipped("direct"), &[measure]);
    let (_, bytes) = run_saved(&plan, 1, CheckpointInterval::WarmUp).unwrap();
    let bytes = bytes.unwrap();
    let mut rng = StreamRng::new(1, "damage");
    let mut read = 0;
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        damaged[at] ^= 1 << rng.below(8);
        for wrong in [damaged.clone(), bytes[..at].to_vec()] {
            assert!(Checkpoint::of("wrong", wrong).is_err(), "byte {at}");
        }
        // With a valid hash, the reader sees the damage. If the result is plausible it is
        // a state, and otherwise an error.
        let forged = match Checkpoint::of("forged", with_hash(damaged)) {
            Ok(forged) => forged,
            Err(error) => {
                let header = error.to_string();
                let is_known = header.contains("format") || header.contains("no saved");
                assert!(is_known, "{header}");
                continue;
            }
        };
        read += u32::from(forged.inspect(&plan, plan.scenario.seed).is_ok());
    }
    assert!((1..300).contains(&read), "{read} of 300 are states");
}

/// Interrupts a run with checkpoints after it has delivered rows `after` times. Returns its report and checkpoint.
fn interrupted(plan: &Plan, threads: usize, after: u32) -> (Report, Option<Vec<u8>>) {
    let file = Temporary::default();
    let monitor = Monitor::default();
    let mut left = after;
    let mut rows = |_| {
        left -= u32::from(left > 0);
        if left == 0 {
            monitor.interrupt();
        }
        Ok(())
    };
    let options = RunOptions {
        seed: plan.scenario.seed,
        threads: threads.into(),
        monitor: &monitor,
        rows: Some(&mut rows),
    };
    let hourly = CheckpointInterval::Wall(Duration::from_secs(3600));
    let checkpoints = Checkpoints {
        write: Some((hourly, &file.0)),
        ..Checkpoints::default()
    };
    let report = run_with(plan, options, checkpoints).unwrap();
    (report, std::fs::read(&file.0).ok())
}

#[test]
fn an_interrupted_run_leaves_a_checkpoint_from_which_it_goes_on() {
    let measure = "measure={ requests = 20000, warmup_requests = 2000 }";
    for (name, threads) in [
        ("spine-leaf-16", 1),
        ("spine-leaf-16", 2),
        ("cached-ssd", 1),
    ] {
        let plan = plan(&shipped(name), &[measure]);
        let expected = run(&plan);
        for after in 1..6 {
            let (report, bytes) = interrupted(&plan, threads, after);
            let what = format!("{name} on {threads} threads, interrupted after {after}");
            assert!(report.provenance.partial, "{what}");
            let report = go_on(&plan, 3 - threads, bytes.expect(&what)).unwrap();
            assert!(report == expected, "{what}: the report is another one");
        }
    }
}
