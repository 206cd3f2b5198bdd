//! Runs that are saved at a random time and resumed in another
//! system, on another number of threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use cxlab_engine::Monitor;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_plan::Plan;
use cxlab_system::checkpoint::{Checkpoint, CheckpointInterval, Checkpoints};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, run_with};

/// A report without what may differ between identical runs.
pub fn timeless(mut report: Report) -> Report {
    report.extent.wall_seconds = 0.0;
    report.extent.events_per_second = 0.0;
    report.requests.per_wall_second = 0.0;
    report
}

/// A temporary file of a test, which is removed when dropped.
pub struct Temporary(pub PathBuf);

impl Default for Temporary {
    fn default() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cxlab-checkpoint-{}-{number}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A test that did not write the file has nothing to remove.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a plan with its own seed, and saves or restores it according to `checkpoints`.
///
/// # Errors
/// The errors of [`run_with`].
pub fn try_run(
    plan: &Plan,
    threads: usize,
    checkpoints: Checkpoints<'_>,
) -> Result<Report, RunError> {
    watched_run(plan, threads, checkpoints, &Monitor::default())
}

/// Like [`try_run`], with a monitor.
///
/// # Errors
/// The errors of [`run_with`].
pub fn watched_run(
    plan: &Plan,
    threads: usize,
    checkpoints: Checkpoints<'_>,
    monitor: &Monitor,
) -> Result<Report, RunError> {
    let options = RunOptions {
        seed: plan.scenario.seed,
        threads: threads.into(),
        monitor,
        rows: None,
    };
    run_with(plan, options, checkpoints).map(timeless)
}

/// Runs a plan that saves checkpoints. Returns its report and its last checkpoint,
/// or `None` if it wrote none.
///
/// # Errors
/// The errors of [`run_with`].
pub fn run_saved(
    plan: &Plan,
    threads: usize,
    every: CheckpointInterval,
) -> Result<(Report, Option<Vec<u8>>), RunError> {
    let file = Temporary::default();
    let checkpoints = Checkpoints {
        write: Some((every, &file.0)),
        ..Checkpoints::default()
    };
    let report = try_run(plan, threads, checkpoints)?;
    Ok((report, std::fs::read(&file.0).ok()))
}

/// Resumes a run from a checkpoint.
///
/// # Errors
/// The errors of [`run_with`].
pub fn go_on(plan: &Plan, threads: usize, bytes: Vec<u8>) -> Result<Report, RunError> {
    let checkpoint = Checkpoint::of("saved", bytes).map_err(RunError::Checkpoint)?;
    let checkpoints = Checkpoints {
        restore: Some(checkpoint),
        ..Checkpoints::default()
    };
    try_run(plan, threads, checkpoints)
}

/// Saves a run at a time drawn from `seed` and resumes it from there. Both the saved run and the
/// resumed run must end as expected.
///
/// # Panics
/// If one of them ends differently.
pub fn check(plan: &Plan, expected: &Report, seed: u64) {
    let mut rng = StreamRng::new(seed, "checkpoint");
    let whole = expected.extent.sim_time_ns - expected.extent.enumeration_ns.unwrap_or(0.0);
    // For at most two latencies a window may search its end, and nothing is saved meanwhile. A few
    // requests may take less time than that.
    let rest = (whole - 2.0 * expected.latency_ns.mean).max(whole / 4.0);
    let total = (rest * 1e3) as u64;
    // At 10 % to 90 % of the remaining time.
    let span = (total / 10 + rng.below((total * 8 / 10).max(1))).max(1);
    let [before, after] = [0; 2].map(|_| 1 + rng.below(3) as usize);
    let what = format!("saved every {span} ps on {before} threads, then on {after}");
    let every = CheckpointInterval::Simulated(Picos(span));
    let saved = run_saved(plan, before, every);
    let (report, bytes) = saved.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report == *expected, "{what}: saving changed the report");
    let Some(bytes) = bytes else {
        panic!("{what}: no checkpoint was written")
    };
    let report = go_on(plan, after, bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let digests = [&report.provenance.digest, &expected.provenance.digest];
    assert!(
        report == *expected,
        "{what}: the report is another one: {digests:?}"
    );
}
