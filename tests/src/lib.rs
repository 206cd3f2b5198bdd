//! Helpers that cross-crate tests share: running a scenario given as text, drawing one at random,
//! threads that a test defines, and a queue with random arrivals.

pub mod arrivals;
pub mod checkpoint;
pub mod modules;
pub mod oracle;
pub mod script;
pub mod swarm;
pub mod systems;
pub mod turns;

use std::sync::Arc;

use cxlab_engine::units::SimTime;
use cxlab_engine::{Monitor, Stop};
use cxlab_host::RequestRow;
use cxlab_plan::{Externals, Files, Plan, Problem};
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::{Diagnostics, Document, render, validate};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, run};
use cxlab_system::system::{RecordOptions, System};
use cxlab_workload::Workload;

/// Settings of a system with one host and one device, whose memory is faster than any link. The
/// host sends more requests than any window holds.
pub const FAST: [&str; 5] = [
    "measure={ requests = 30_000 }",
    "hosts[0].issue.outstanding=4096",
    "hosts[0].workload.mix=\"regular\"",
    "devices[0].controller.contexts=8192",
    "devices[0].memory={ kind = \"fixed\", latency = \"10 ns\", queue = 8192 }",
];

/// Hosts at a device of 8 GB/s, each of which could use all of its bandwidth.
pub const THROTTLED: &str = r#"
name = "shared"
[measure]
warmup_time = "300 us"
duration = "400 us"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "h"
count = 3
issue = { outstanding = 128, throttle = {} }
workload = { kind = "uniform" }
[[devices]]
name = "pool"
memory = { kind = "fixed", bandwidth = "8 GB/s" }
[devices.qos]
bandwidth = "8 GB/s"
"#;

/// Root folder of the repository.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a scenario in `scenarios/`.
///
/// # Panics
/// If there is no scenario of that name.
pub fn shipped(name: &str) -> String {
    let path = root().join("scenarios").join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Parses a scenario with changes, as the command does.
///
/// # Panics
/// If the text has a mistake. The message is what a user would see.
pub fn scenario(text: &str, set: &[&str]) -> Scenario {
    const NAME: &str = "scenario.toml";
    let expect_none = |diagnostics: &Diagnostics, document: &Document| {
        let shown = || render(diagnostics, document, false);
        assert!(diagnostics.is_empty(), "{}", shown());
    };
    let mut document = Document::parse(NAME, text).unwrap_or_else(|diagnostics| {
        expect_none(&diagnostics, &Document::unparsed(NAME, text));
        unreachable!("there are diagnostics")
    });
    for assignment in set {
        if let Err(wrong) = document.set(assignment) {
            expect_none(&wrong, &document);
        }
    }
    let wrong = validate(&document, &cxlab_scenario::schema());
    expect_none(&wrong, &document);
    serde_json::from_value(document.value().clone()).unwrap_or_else(|error| panic!("{error}"))
}

/// Resolves a scenario with changes, as the command does.
///
/// # Panics
/// If the scenario has a mistake. The message is what a user would see.
pub fn plan(text: &str, set: &[&str]) -> Plan {
    let files = Files::of(root().join("scenarios"));
    Plan::new(scenario(text, set), files).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The plan of a scenario with external workloads of these names.
///
/// # Panics
/// If the scenario has a mistake.
pub fn plan_with<const N: usize>(
    scenario: Scenario,
    workloads: [(&str, Arc<dyn Workload>); N],
) -> Plan {
    let externals = workloads.map(|(name, workload)| (name.to_owned(), workload));
    Plan::with_externals(scenario, Files::default(), &Externals::from(externals))
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// What is wrong with a scenario whose text has no mistake.
pub fn problems(text: &str, set: &[&str]) -> Vec<Problem> {
    let planned = Plan::new(scenario(text, set), Files::default());
    planned.err().unwrap_or_default()
}

/// The report of a run and a row for each of its requests.
///
/// # Panics
/// If the run fails.
pub fn rows(plan: &Plan, threads: usize) -> (Report, Vec<RequestRow>) {
    try_rows(plan, plan.scenario.seed, threads).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`rows`], with a seed.
///
/// # Errors
/// The errors of [`run`].
pub fn try_rows(
    plan: &Plan,
    seed: u64,
    threads: usize,
) -> Result<(Report, Vec<RequestRow>), RunError> {
    let mut rows = Vec::new();
    let mut keep = |mut more: Vec<RequestRow>| {
        rows.append(&mut more);
        Ok(())
    };
    let options = RunOptions {
        seed,
        threads: threads.into(),
        monitor: &Monitor::default(),
        rows: Some(&mut keep),
    };
    let report = run(plan, options)?;
    Ok((report, rows))
}

/// Expects the same events on other numbers of threads.
///
/// # Panics
/// If a run has another digest.
#[track_caller]
pub fn assert_threads(plan: &Plan, digest: &str, threads: impl IntoIterator<Item = usize>) {
    for threads in threads {
        let found = rows(plan, threads).0.provenance.digest;
        assert_eq!(found, digest, "{threads} threads");
    }
}

/// Expects a number within a part of another one, which is not zero.
///
/// # Panics
/// If it is farther away.
#[track_caller]
pub fn assert_close(found: f64, expected: f64, within: f64, what: impl std::fmt::Display) {
    let percent = 100.0 * (found / expected - 1.0);
    assert!(
        percent.abs() <= 100.0 * within,
        "{what}: found {found:.4}, expected {expected:.4}, off by {percent:.2} %"
    );
}

/// A system after its run to the end, and the run's digest.
///
/// # Panics
/// If the system cannot be built, or has no end.
pub fn run_down(plan: &Plan) -> (System, String) {
    let system = System::build(plan, plan.scenario.seed, RecordOptions::default());
    let mut system = system.unwrap_or_else(|error| panic!("{error:?}"));
    let simulation = &mut system.simulation;
    let outcome = simulation.run(1, SimTime::NEVER, &Monitor::default());
    assert_eq!(outcome.stop, Stop::Exhausted);
    (system, format!("{:016x}", outcome.digest))
}

/// The text of an event of a link between two devices or switches.
pub fn link(at_ps: u64, kind: &str, a: &str, b: &str) -> String {
    format!("\n[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\nlink = [\"{a}\", \"{b}\"]\n")
}

/// The text of an event of a device or switch (`what`) of that name.
pub fn gone(at_ps: u64, kind: &str, what: &str, name: &str) -> String {
    format!("\n[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\n{what} = \"{name}\"\n")
}

/// Runs a plan with its own seed.
///
/// # Errors
/// The errors of [`run`].
pub fn try_run(plan: &Plan, threads: usize) -> Result<Report, RunError> {
    watched_run(plan, threads, &Monitor::default())
}

/// Like [`try_run`], with a monitor.
///
/// # Errors
/// The errors of [`run`].
pub fn watched_run(plan: &Plan, threads: usize, monitor: &Monitor) -> Result<Report, RunError> {
    let options = RunOptions {
        seed: plan.scenario.seed,
        threads: threads.into(),
        monitor,
        rows: None,
    };
    run(plan, options)
}

/// The part of a report that workloads measured, without enumeration and without times of the machine.
pub fn measured_by_workloads(report: Report) -> Report {
    let mut report = checkpoint::timeless(report);
    for host in &mut report.hosts {
        host.enumeration = None;
    }
    report.provenance.digest.clear();
    report.provenance.run.clear();
    report.provenance.plan_hash.clear();
    (
        report.extent.enumeration_ns,
        report.extent.warmup_ns,
        report.extent.sim_time_ns,
    ) = (None, 0.0, 0.0);
    report.extent.events = 0;
    report
}

/// Index of a stage in a row.
///
/// # Panics
/// If there is no stage of that name.
pub fn stage(name: &str) -> usize {
    let place = cxlab_host::STAGE_NAMES.iter().position(|one| *one == name);
    place.unwrap_or_else(|| panic!("{name} is not a stage"))
}

/// Runs a scenario with changes on one thread.
///
/// # Panics
/// If the scenario has a mistake or the run breaks a law.
pub fn report(text: &str, set: &[&str]) -> Report {
    try_run(&plan(text, set), 1).unwrap_or_else(|error| panic!("{error}"))
}
