//! Reading one report for a comparison.

use std::path::Path;

use cxlab_system::report::{FORMAT, with_current_names};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// A report, and what identifies its run.
#[derive(Serialize, Debug)]
pub(super) struct ReadReport {
    pub(super) path: String,
    pub(super) scenario: String,
    pub(super) plan_hash: String,
    pub(super) seed: u64,
    pub(super) version: String,
    pub(super) partial: bool,
    /// Whether the analytic form made the report.
    pub(super) analytic: bool,
    /// Number of runs whose means these are, if `--seeds` made the report; `seed` is that of the first.
    pub(super) seeds: Option<usize>,
    #[serde(skip)]
    pub(super) value: Value,
}

impl ReadReport {
    /// What made the report.
    pub(super) fn kind(&self) -> &'static str {
        match (self.seeds, self.analytic) {
            (Some(_), _) => "a report of several seeds",
            (None, true) => "a report of the analytic form",
            (None, false) => "a report of a run",
        }
    }
}

/// Reads a report of a run or of several seeds, or that of a folder.
///
/// # Errors
/// The file cannot be read, is no report, or has names of a later version.
pub(super) fn report(path: &Path) -> Result<ReadReport, Failure> {
    let [of_run, of_seeds] = ["report.json", "seeds.json"].map(|name| path.join(name));
    let path = match path.is_dir() {
        true if of_seeds.exists() && !of_run.exists() => of_seeds,
        true => of_run,
        false => path.to_path_buf(),
    };
    let shown = path.display().to_string();
    let mistake = |what: String| {
        Failure::mistake(format!(
            "{shown}: {what}; allowed: the report.json or seeds.json that `cxlab run` wrote, or its folder"
        ))
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| mistake(format!("cannot be read: {error}")))?;
    let value: Value = serde_json::from_str(&with_current_names(&text))
        .map_err(|error| mistake(format!("found no JSON in line {}", error.line())))?;
    let text_of = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let runs = value.get("quantities").and(value.get("runs"));
    let runs = runs.and_then(Value::as_array);
    let of_seed = runs.and_then(|runs| runs.first()).unwrap_or(&value);
    let (Some(scenario), Some(plan_hash), Some(version), Some(seed)) = (
        text_of("scenario"),
        text_of("plan_hash"),
        text_of("version"),
        of_seed.get("seed").and_then(Value::as_u64),
    ) else {
        return Err(mistake(
            "found no report: `scenario`, `plan_hash`, `seed` or `version` is missing".to_owned(),
        ));
    };
    let format = value.get("format").and_then(Value::as_u64).unwrap_or(1);
    if format > u64::from(FORMAT) {
        return Err(Failure::mistake(format!(
            "{shown}: found format {format}, of cxlab {version}; allowed: up to {FORMAT}"
        )));
    }
    Ok(ReadReport {
        analytic: text_of("mode").as_deref() == Some("analytic"),
        seeds: runs.map(Vec::len),
        partial: value
            .get("partial")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        path: shown,
        scenario,
        plan_hash,
        seed,
        version,
        value,
    })
}
