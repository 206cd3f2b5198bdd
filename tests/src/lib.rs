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

use cxlab_engine::Monitor;
use cxlab_host::RequestRow;
use cxlab_plan::{Files, Plan};
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::{Document, render, validate};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, run};

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
    match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Parses a scenario with changes, as the command does.
///
/// # Panics
/// If the text has a mistake. The message is what a user would see.
fn scenario(text: &str, set: &[&str]) -> Scenario {
    let mut document = match Document::parse("scenario.toml", text) {
        Ok(document) => document,
        Err(diagnostics) => {
            panic!(
                "{}",
                render(
                    &diagnostics,
                    &Document::unparsed("scenario.toml", text),
                    false
                )
            )
        }
    };
    for assignment in set {
        if let Err(diagnostics) = document.set(assignment) {
            panic!("{}", render(&diagnostics, &document, false));
        }
    }
    let diagnostics = validate(&document, &cxlab_scenario::schema());
    if !diagnostics.is_empty() {
        panic!("{}", render(&diagnostics, &document, false));
    }
    match serde_json::from_value(document.value().clone()) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}"),
    }
}

/// Resolves a scenario with changes, as the command does.
///
/// # Panics
/// If the scenario has a mistake. The message is what a user would see.
pub fn plan(text: &str, set: &[&str]) -> Plan {
    let files = Files::of(root().join("scenarios"));
    match Plan::new(scenario(text, set), files) {
        Ok(plan) => plan,
        Err(problems) => panic!("{problems:?}"),
    }
}

/// The report of a run and a row for each of its requests.
///
/// # Panics
/// If the run fails.
pub fn rows(plan: &Plan, threads: usize) -> (Report, Vec<RequestRow>) {
    let mut rows = Vec::new();
    let mut keep = |mut more: Vec<RequestRow>| {
        rows.append(&mut more);
        Ok(())
    };
    let options = RunOptions {
        seed: plan.scenario.seed,
        threads: threads.into(),
        monitor: &Monitor::default(),
        rows: Some(&mut keep),
    };
    match run(plan, options) {
        Ok(report) => (report, rows),
        Err(error) => panic!("{error}"),
    }
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
    report.digest.clear();
    report.run.clear();
    report.plan_hash.clear();
    (report.enumeration_ns, report.warmup_ns, report.sim_time_ns) = (None, 0.0, 0.0);
    report.events = 0;
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
    match try_run(&plan(text, set), 1) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    }
}
