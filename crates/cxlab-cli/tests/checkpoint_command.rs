//! `cxlab run --checkpoint` and `--restore` as users type them: a run that is killed goes on, and what
//! does not fit is refused with exit code 2.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;

use common::{BASE, Folder, Output, finish, signal, until};
use serde_json::Value;

/// The report in a folder, without what may differ between identical runs.
fn report(folder: &Folder, out: &str) -> Value {
    let mut report = folder.json(&format!("{out}/report.json"));
    report["wall_seconds"] = Value::Null;
    report["events_per_second"] = Value::Null;
    report["requests"]["per_wall_second"] = Value::Null;
    report
}

const SAMPLED: &str = "--set=measure.sampling={ every = 4000 }";

/// A run of some length.
const RUN: &str = "run base.toml --set=measure.requests=500000 --quiet";

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_one_that_never_was() {
    let folder = Folder::with_base("killed");
    folder.cxlab(&format!("{RUN} --out whole")).ends(0);
    let state = folder.path("state");
    let modified = || std::fs::metadata(&state).and_then(|found| found.modified());
    for threads in [1, 2, 1] {
        let before = modified().ok();
        let every = "--checkpoint state --checkpoint-every '40000 requests'";
        let mut run = folder.command(&format!("{RUN} --out out {every} --threads {threads}"));
        if before.is_some() {
            run.args(["--restore", "state"]);
        }
        let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
        // Until it has written a checkpoint, or has come to its end.
        until("a checkpoint", || {
            modified().ok() != before || child.try_wait().unwrap().is_some()
        });
        // Nothing to kill when it has ended.
        let _ = child.kill();
        child.wait().unwrap();
    }
    let rest = format!("{RUN} --out out --restore state");
    folder.cxlab(&rest).ends(0);
    assert_eq!(report(&folder, "out"), report(&folder, "whole"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Folder::with_base("refused");
    let run = |arguments: &[&str]| {
        let mut run = folder.command("run base.toml --out out --quiet");
        finish(run.args(arguments))
    };
    run(&["--checkpoint", "state", "--checkpoint-every", "warm-up"]).ends(0);
    let mut bytes = std::fs::read(folder.path("state")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    folder.file("damaged", &bytes);
    let rows: &[(&[&str], &str)] = &[
        (&["--checkpoint-every", "1 ms"], "--checkpoint <FILE>"),
        (
            &["--checkpoint", "state", "--checkpoint-every", "10"],
            "'10' for '--checkpoint-every <INTERVAL>': allowed: a simulated time from 1 us",
        ),
        (
            &["--checkpoint", "state", "--checkpoint-every", "0 requests"],
            "requests from 100",
        ),
        (
            &["--checkpoint", "state", "--mode", "analytic"],
            "--checkpoint: found with --mode analytic",
        ),
        (
            &["--restore", "state", "--mode", "analytic"],
            "--restore: found with --mode analytic",
        ),
        (
            &["--restore", "state", "--requests"],
            "--requests: found with --restore",
        ),
        (
            &["--restore", "state", "--seed", "8"],
            "found a checkpoint of a run with seed 7",
        ),
        (
            &["--restore", "state", "--set=fabric.link.lanes=8"],
            "found a checkpoint of another system",
        ),
        (
            &["--restore", "state", "--set=measure.warmup_requests=51"],
            "another warm-up than the one that has ended in it",
        ),
        (
            &["--restore", "damaged"],
            "the state is damaged: its hash differs",
        ),
        (
            &["--restore", "base.toml"],
            "this is not a saved state of cxlab",
        ),
        (&["--restore", "/dev/zero"], "found no regular file"),
        (
            &["--checkpoint", "base.toml"],
            "found a file that is no checkpoint",
        ),
        (
            &["--checkpoint", "state", "--checkpoint-every", "1 ps"],
            "allowed: a simulated time from 1 us",
        ),
        (
            &["--checkpoint", "state", SAMPLED],
            "`measure.sampling`: found in a run with checkpoints; allowed: without them",
        ),
        (
            &["--restore", "state", SAMPLED],
            "`measure.sampling`: found in a run with checkpoints; allowed: without them",
        ),
        (
            &["--requests", SAMPLED],
            "`measure.sampling`: found in a run with a request log",
        ),
        (&["--restore", "missing"], "the checkpoint cannot be read"),
    ];
    for (arguments, message) in rows {
        run(arguments).ends(2).says(&[message]);
    }
    // A file is no folder, which is found before the run.
    let nowhere = [
        "--checkpoint",
        "base.toml/state",
        "--checkpoint-every",
        "1 s",
    ];
    run(&nowhere).ends(1);
    assert_eq!(folder.text("base.toml"), BASE);
    run(&["--restore", "state", "--threads", "3"]).ends(0);
}

#[test]
fn ranks_without_mpi_are_refused() {
    if cfg!(feature = "mpi") {
        return;
    }
    let folder = Folder::with_base("ranks");
    let mut run = folder.command("run base.toml");
    let refused = finish(run.env("OMPI_COMM_WORLD_SIZE", "2"));
    let says = ["found 2 ranks with a build that has no MPI"];
    refused.ends(2).says(&says);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_whose_checkpoints_cannot_be_written_goes_on_and_says_so() {
    let folder = Folder::with_base("full");
    folder.cxlab("run base.toml --out whole --quiet").ends(0);
    let full = "--checkpoint /dev/full --checkpoint-every '100 requests'";
    let done = folder.cxlab(&format!("run base.toml --out out --quiet {full}"));
    let done = done.ends(0);
    let said: Vec<&str> = done.stderr.lines().collect();
    let [first, last] = said[..] else {
        panic!("{said:?}");
    };
    let begins = first.starts_with("warning: --checkpoint /dev/full: ");
    assert!(begins && first.ends_with("; the run goes on"), "{first}");
    let summary = "of the run's checkpoints could not be written";
    assert!(last.contains(summary), "{last}");
    assert_eq!(report(&folder, "out"), report(&folder, "whole"));
}

#[test]
#[cfg(unix)]
fn a_run_that_is_asked_to_stop_writes_a_checkpoint() {
    let folder = Folder::with_base("asked");
    folder.cxlab(&format!("{RUN} --out whole")).ends(0);
    for name in ["-INT", "-TERM"] {
        let every = "--checkpoint state --checkpoint-every '100 requests'";
        let mut run = folder.command(&format!("{RUN} --out out {every}"));
        let child = run.stderr(Stdio::piped()).spawn().unwrap();
        // The first checkpoint says that it runs.
        until("a checkpoint", || folder.path("state").exists());
        signal(&child, name);
        let stopped = Output::of(name, &child.wait_with_output().unwrap());
        let says = ["goes on from the last checkpoint"];
        stopped.ends(130).says(&says);
        assert_eq!(report(&folder, "out")["partial"], true);
        let rest = format!("{RUN} --out out --restore state");
        folder.cxlab(&rest).ends(0);
        assert_eq!(report(&folder, "out"), report(&folder, "whole"));
        std::fs::remove_file(folder.path("state")).unwrap();
    }
}
