//! Check, draw and run a scenario that is a text. Results are JSON, in the forms of the command.

use cxlab_engine::{Monitor, Threads};
use cxlab_host::RequestRow;
use cxlab_plan::load::{self, Loaded, Mistakes};
use cxlab_plan::windows::expected_requests;
use cxlab_plan::{Externals, Files};
use cxlab_system::report::Report;
use cxlab_system::run::{RunError, RunOptions, run};
use cxlab_system::{picture, table};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::slowest::Slowest;

const NAME: &str = "scenario.toml";
/// Requests of a run whose stages are kept: the slowest ones.
const SLOWEST: usize = 100;

/// What a user changes for a run.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Changes as of `--set`: `path.to.key=value`.
    pub set: Vec<String>,
    /// Seed of every random stream. Default: the scenario's.
    pub seed: Option<u64>,
}

impl Settings {
    /// Reads settings from JSON.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(text: &str) -> Result<Settings, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// Why there is no result: JSON with `mistakes`, as `cxlab check --format json` prints them, or `error`.
#[derive(Debug)]
pub struct LabError(pub String);

impl From<Mistakes> for LabError {
    fn from(mistakes: Mistakes) -> LabError {
        let text = mistakes.render(false);
        LabError(json!({ "mistakes": entries(&mistakes), "text": text }).to_string())
    }
}

fn failed(why: &str) -> LabError {
    LabError(json!({ "error": why }).to_string())
}

fn entries(mistakes: &Mistakes) -> Value {
    serde_json::from_str(&mistakes.json()).unwrap_or_default()
}

fn resolve(text: &str, set: &[String]) -> Result<Loaded, Mistakes> {
    let document = load::read(NAME, text, set)?;
    load::resolve(document, Files::default(), &Externals::new())
}

/// The JSON Schema of scenarios.
pub fn schema() -> String {
    cxlab_scenario::schema().to_string()
}

/// Every mistake of a scenario, and notes where it has none.
pub fn check(text: &str) -> String {
    let (mistakes, notes) = match resolve(text, &[]) {
        Err(mistakes) => (entries(&mistakes), json!([])),
        Ok(loaded) => (json!([]), entries(&loaded.warnings())),
    };
    json!({ "mistakes": mistakes, "notes": notes }).to_string()
}

/// The system as SVG. With a report, links are coloured by their use.
///
/// # Errors
/// The scenario's mistakes, and a text that is no report.
pub fn draw(text: &str, report: Option<&str>) -> Result<String, LabError> {
    let loaded = resolve(text, &[])?;
    let report = report.map(serde_json::from_str::<Report>).transpose();
    let report = report.map_err(|error| failed(&format!("the report cannot be read: {error}")))?;
    Ok(picture::svg(&loaded.plan, report.as_ref()))
}

/// Progress of a run, as the page shows it: the requests that have completed, of how many where that is
/// known, and the simulated time in nanoseconds.
pub fn progress(monitor: &Monitor, expected: Option<u64>) -> String {
    json!({
        "completed": monitor.work(),
        "expected": expected,
        "simulated_ns": monitor.time().0 as f64 / 1e3,
        "fraction": expected.map(|all| (monitor.work() as f64 / all.max(1) as f64).min(1.0)),
    })
    .to_string()
}

/// Runs a scenario: JSON with the report, the table that the command prints, the picture, and the slowest
/// requests. `begin` learns before the run how many requests are expected, if that is known.
///
/// # Errors
/// The scenario's mistakes, or an error of cxlab.
pub fn simulate(
    text: &str,
    settings: &Settings,
    monitor: &Monitor,
    begin: impl FnOnce(Option<u64>),
) -> Result<String, LabError> {
    let loaded = resolve(text, &settings.set)?;
    let plan = &loaded.plan;
    begin(expected_requests(plan));
    let mut slowest = Slowest::new(SLOWEST);
    let mut rows = |rows: Vec<RequestRow>| {
        slowest.add(&rows);
        Ok(())
    };
    let options = RunOptions {
        seed: settings.seed.unwrap_or(plan.scenario.seed),
        threads: Threads::Exactly(1),
        monitor,
        rows: Some(&mut rows),
    };
    let report = match run(plan, options) {
        Ok(report) => report,
        Err(RunError::Fault(report, _)) => *report,
        Err(RunError::Problems(problems)) => return Err(loaded.mistakes(problems).into()),
        Err(error) => return Err(failed(&error.to_string())),
    };
    Ok(json!({
        "summary": table::summary(plan, &report),
        "picture": picture::svg(plan, Some(&report)),
        "slowest": slowest.json(report.extent.warmup_ns),
        "report": report,
    })
    .to_string())
}
