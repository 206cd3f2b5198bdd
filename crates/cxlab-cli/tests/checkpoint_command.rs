//! `cxlab run --checkpoint` and `--restore` as users type them: a run that is killed goes on, and what
//! does not fit is refused with exit code 2.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Folder, command, cxlab};
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

/// A report without what may differ between identical runs.
fn report(out: &Path) -> Value {
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    let mut report: Value = serde_json::from_str(&text).unwrap();
    report["wall_seconds"] = Value::Null;
    report["events_per_second"] = Value::Null;
    report["requests"]["per_wall_second"] = Value::Null;
    report
}

const SAMPLED: &str = "--set=measure.sampling={ every = 4000 }";

const LENGTH: &str = "--set=measure.requests=500000";

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_one_that_never_was() {
    let folder = Folder::new("killed");
    let base = folder.file("base.toml", BASE.as_bytes());
    let (whole, out, state) = (
        folder.path("whole"),
        folder.path("out"),
        folder.path("state"),
    );
    let done = cxlab(&[&"run", &base, &LENGTH, &"--out", &whole, &"--quiet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);

    let modified = || {
        std::fs::metadata(&state)
            .and_then(|found| found.modified())
            .ok()
    };
    for kill in 0..3 {
        let before = modified();
        let mut run = command(&[&"run", &base, &LENGTH, &"--out", &out, &"--quiet"]);
        run.arg("--checkpoint").arg(&state);
        run.args(["--checkpoint-every", "40000 requests"]);
        run.args(["--threads", if kill == 1 { "2" } else { "1" }]);
        if before.is_some() {
            run.arg("--restore").arg(&state);
        }
        let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        // Until it has written a checkpoint, or has come to its end.
        while modified() == before && child.try_wait().unwrap().is_none() {
            assert!(
                began.elapsed() < Duration::from_secs(300),
                "no checkpoint comes"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nothing to kill when it has ended.
        let _ = child.kill();
        child.wait().unwrap();
    }
    let done = cxlab(&[
        &"run",
        &base,
        &LENGTH,
        &"--out",
        &out,
        &"--quiet",
        &"--restore",
        &state,
    ]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(report(&out), report(&whole));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Folder::new("refused");
    let base = folder.file("base.toml", BASE.as_bytes());
    let state = folder.path("state");
    let out = folder.path("out");
    let run = |arguments: &[&str]| {
        let mut run = command(&[&"run", &base, &"--out", &out, &"--quiet"]);
        common::finish(run.args(arguments))
    };
    let path = state.to_str().unwrap();
    let saved = run(&["--checkpoint", path, "--checkpoint-every", "warm-up"]);
    assert_eq!(saved.code, Some(0), "{}", saved.stderr);
    let damaged = folder.path("damaged");
    let mut bytes = std::fs::read(&state).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let (damaged, missing) = (damaged.to_str().unwrap(), folder.path("missing"));
    let (missing, text) = (missing.to_str().unwrap(), base.to_str().unwrap());
    let rows: &[(&[&str], &str)] = &[
        (&["--checkpoint-every", "1 ms"], "--checkpoint <FILE>"),
        (
            &["--checkpoint", path, "--checkpoint-every", "10"],
            "found `10`; allowed: a simulated time from 1 us",
        ),
        (
            &["--checkpoint", path, "--checkpoint-every", "0 requests"],
            "requests from 100",
        ),
        (
            &["--checkpoint", path, "--mode", "analytic"],
            "--checkpoint: found with --mode analytic",
        ),
        (
            &["--restore", path, "--mode", "analytic"],
            "--restore: found with --mode analytic",
        ),
        (
            &["--restore", path, "--requests"],
            "--requests: found with --restore",
        ),
        (
            &["--restore", path, "--seed", "8"],
            "found a checkpoint of a run with seed 7",
        ),
        (
            &["--restore", path, "--set=fabric.link.lanes=8"],
            "found a checkpoint of another system",
        ),
        (
            &["--restore", path, "--set=measure.warmup_requests=51"],
            "another warm-up than the one that has ended in it",
        ),
        (
            &["--restore", damaged],
            "the state is damaged: its hash differs",
        ),
        (&["--restore", text], "this is not a saved state of cxlab"),
        (&["--restore", "/dev/zero"], "found no regular file"),
        (
            &["--checkpoint", text],
            "found a file that is no checkpoint",
        ),
        (
            &["--checkpoint", path, "--checkpoint-every", "1 ps"],
            "allowed: a simulated time from 1 us",
        ),
        (
            &["--checkpoint", path, SAMPLED],
            "`measure.sampling`: found in a run with checkpoints; allowed: without them",
        ),
        (
            &["--restore", path, SAMPLED],
            "`measure.sampling`: found in a run with checkpoints; allowed: without them",
        ),
        (
            &["--requests", SAMPLED],
            "`measure.sampling`: found in a run with a request log",
        ),
        (&["--restore", missing], "the checkpoint cannot be read"),
    ];
    for (arguments, message) in rows {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(message),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
    // A file is no folder, which is found before the run.
    let nowhere = folder.path("base.toml/state");
    let unwritable = run(&[
        "--checkpoint",
        nowhere.to_str().unwrap(),
        "--checkpoint-every",
        "1 s",
    ]);
    assert_eq!(unwritable.code, Some(1), "{}", unwritable.stderr);
    assert_eq!(std::fs::read(&base).unwrap(), BASE.as_bytes());
    let taken_up = run(&["--restore", path, "--threads", "3"]);
    assert_eq!(taken_up.code, Some(0), "{}", taken_up.stderr);
}

#[test]
fn ranks_without_mpi_are_refused() {
    if cfg!(feature = "mpi") {
        return;
    }
    let folder = Folder::new("ranks");
    let base = folder.file("base.toml", BASE.as_bytes());
    let mut run = command(&[&"run", &base]);
    let refused = common::finish(run.env("OMPI_COMM_WORLD_SIZE", "2"));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("found 2 ranks with a build that has no MPI")
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_whose_checkpoints_cannot_be_written_goes_on_and_says_so() {
    let folder = Folder::new("full");
    let base = folder.file("base.toml", BASE.as_bytes());
    let (whole, out) = (folder.path("whole"), folder.path("out"));
    let done = cxlab(&[&"run", &base, &"--out", &whole, &"--quiet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let mut run = command(&[&"run", &base, &"--out", &out, &"--quiet"]);
    let every = ["--checkpoint-every", "100 requests"];
    let done = common::finish(run.args(["--checkpoint", "/dev/full"]).args(every));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let said: Vec<&str> = done.stderr.lines().collect();
    let [first, last] = said[..] else {
        panic!("{said:?}");
    };
    assert!(
        first.starts_with("warning: --checkpoint /dev/full: "),
        "{first}"
    );
    assert!(first.ends_with("; the run goes on"), "{first}");
    assert!(
        last.contains("of the run's checkpoints could not be written"),
        "{last}"
    );
    assert_eq!(report(&out), report(&whole));
}

#[test]
#[cfg(unix)]
fn a_run_that_is_asked_to_stop_writes_a_checkpoint() {
    let folder = Folder::new("asked");
    let base = folder.file("base.toml", BASE.as_bytes());
    let [whole, out, state] = ["whole", "out", "state"].map(|name| folder.path(name));
    let done = cxlab(&[&"run", &base, &LENGTH, &"--out", &whole, &"--quiet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for signal in ["-INT", "-TERM"] {
        let mut run = command(&[&"run", &base, &LENGTH, &"--out", &out, &"--quiet"]);
        run.arg("--checkpoint").arg(&state);
        run.args(["--checkpoint-every", "100 requests"]);
        let child = run.stderr(Stdio::piped()).spawn().unwrap();
        // The first checkpoint says that it runs.
        while !state.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = std::process::Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let stopped = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
        assert_eq!(stopped.status.code(), Some(130), "{said}");
        assert!(said.contains("goes on from the last checkpoint"), "{said}");
        let partial = report(&out);
        let rest = cxlab(&[
            &"run",
            &base,
            &LENGTH,
            &"--out",
            &out,
            &"--quiet",
            &"--restore",
            &state,
        ]);
        assert_eq!(rest.code, Some(0), "{}", rest.stderr);
        assert_eq!(partial["partial"], Value::Bool(true));
        assert_eq!(report(&out), report(&whole));
        std::fs::remove_file(&state).unwrap();
    }
}
