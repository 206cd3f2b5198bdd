//! From a scenario file to a plan, with every mistake located in the file.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

use cxlab_system::diagnostics::{
    Diagnostic, Diagnostics, Document, nearest, render, to_json, validate,
};
use cxlab_system::plan::{Files, Plan, Problem};
use cxlab_system::scenario::{self, Scenario};

use super::ScenarioArgs;
use super::failure::Failure;

/// Mistakes, and the document they are in.
pub(super) struct Mistakes {
    diagnostics: Diagnostics,
    document: Document,
}

impl Mistakes {
    /// As a user reads them.
    pub(super) fn render(&self) -> String {
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut text = render(&self.diagnostics, &self.document, color);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// As a program reads them.
    pub(super) fn json(&self) -> String {
        format!("{:#}\n", to_json(&self.diagnostics, &self.document))
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        Failure::Mistake(mistakes.render())
    }
}

/// A scenario that was read and resolved.
pub(super) struct Loaded {
    pub(super) plan: Plan,
    pub(super) document: Document,
}

impl Loaded {
    /// Turns problems found later into mistakes in the file.
    pub(super) fn mistakes(&self, problems: Vec<Problem>) -> Mistakes {
        Mistakes {
            diagnostics: located(problems),
            document: self.document.clone(),
        }
    }
}

/// Scenario files are small; a larger file is something else.
const MAX_BYTES: u64 = 16 << 20;
/// Most files of a folder that are compared with a missing one.
const MOST_ENTRIES: usize = 4096;

fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let hint = near_file(path)
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        Failure::mistake(format!(
            "{shown}: the scenario cannot be read: {error}{hint}"
        ))
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(Failure::mistake(format!(
            "{shown}: is a folder; allowed: a scenario file (TOML)"
        )));
    }
    let mut bytes = Vec::new();
    // Bounded, because a device has no size to look at.
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::mistake(format!(
            "{shown}: is larger than 16 MiB; allowed: a scenario file (TOML) of at most 16 MiB"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (before, after) = error.as_bytes().split_at(at);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let found = after.first().copied().unwrap_or_default();
        Failure::mistake(format!(
            "{shown}:{line}: found byte {found:#04x} at offset {at}; allowed: TOML, which is UTF-8 text"
        ))
    })
}

/// A scenario beside a missing one whose name is near.
fn near_file(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.take(MOST_ENTRIES);
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml") && name != wanted)
        .collect();
    names.sort_unstable();
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}

/// What was found wrong after reading. Each message names its key, also where the file does not
/// have it and only an ancestor can be shown.
fn located(problems: Vec<Problem>) -> Diagnostics {
    let mut diagnostics = Diagnostics::new();
    for Problem { path, message } in problems {
        let message = if path.is_empty() {
            message
        } else {
            format!("`{path}`: {message}")
        };
        diagnostics.push(Diagnostic::new(path, message));
    }
    diagnostics
}

/// Reads, checks and resolves a scenario.
pub(super) fn load(args: &ScenarioArgs) -> Result<Result<Loaded, Mistakes>, Failure> {
    let text = read(&args.scenario)?;
    let name = args.scenario.display().to_string();
    let mut document = match Document::parse(&name, &text) {
        Ok(document) => document,
        Err(diagnostics) => {
            return Ok(Err(Mistakes {
                diagnostics,
                document: Document::unparsed(&name, &text),
            }));
        }
    };
    let mut diagnostics = Diagnostics::new();
    for assignment in &args.set {
        if let Err(refused) = document.set(assignment) {
            diagnostics.extend(refused);
        }
    }
    diagnostics.extend(validate(&document, &scenario::schema()));
    if !diagnostics.is_empty() {
        return Ok(Err(Mistakes {
            diagnostics,
            document,
        }));
    }
    let scenario: Scenario = match serde_json::from_value(document.value().clone()) {
        Ok(scenario) => scenario,
        Err(error) => {
            // The schema accepts only what the types accept (tests/fuzz_scenario.rs), so this
            // is for what slips through: better without a line than not at all.
            let diagnostics = located(vec![Problem {
                path: String::new(),
                message: error.to_string(),
            }]);
            return Ok(Err(Mistakes {
                diagnostics,
                document,
            }));
        }
    };
    let scenario_dir = args
        .scenario
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default();
    let files = Files {
        scenario_dir,
        trace_override: args.trace_file.clone(),
    };
    if files.trace_override.is_some()
        && !scenario
            .hosts
            .iter()
            .any(|group| group.workload.kind == "trace")
    {
        return Err(Failure::mistake(
            "--trace-file: found no host with a workload of kind \"trace\" in the scenario; allowed: \
             with at least one",
        ));
    }
    match Plan::new(scenario, files) {
        Ok(plan) => Ok(Ok(Loaded { plan, document })),
        Err(problems) => Ok(Err(Mistakes {
            diagnostics: located(problems),
            document,
        })),
    }
}
