//! From a scenario file to a plan, with every mistake located in the file.

use std::io::IsTerminal;
use std::path::Path;

use cxlab_system::diagnostics::{Diagnostic, Diagnostics, Document, render, to_json, validate};
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
        Mistakes { diagnostics: located(problems), document: self.document.clone() }
    }
}

/// Scenario files are small; a larger file is something else.
const MAX_BYTES: u64 = 16 << 20;

fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .map_err(|error| Failure::mistake(format!("{shown}: cannot be read: {error}")))?
        .len();
    if size > MAX_BYTES {
        return Err(Failure::mistake(format!(
            "{shown}: {size} bytes are too many for a scenario (at most 16 MiB)"
        )));
    }
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::mistake(format!("{shown}: cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::mistake(format!("{shown}: is not UTF-8 text (byte {at})"))
    })
}

fn located(problems: Vec<Problem>) -> Diagnostics {
    let mut diagnostics = Diagnostics::new();
    for problem in problems {
        diagnostics.push(Diagnostic::new(problem.path, problem.message));
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
            return Ok(Err(Mistakes { diagnostics, document: Document::unparsed(&name, &text) }));
        }
    };
    for assignment in &args.set {
        if let Err(diagnostics) = document.set(assignment) {
            return Ok(Err(Mistakes { diagnostics, document }));
        }
    }
    let diagnostics = validate(&document, &scenario::schema());
    if !diagnostics.is_empty() {
        return Ok(Err(Mistakes { diagnostics, document }));
    }
    let scenario: Scenario = match serde_json::from_value(document.value().clone()) {
        Ok(scenario) => scenario,
        Err(error) => {
            // The schema accepts only what the types accept, up to what a schema cannot say.
            let diagnostics = located(vec![Problem { path: String::new(), message: error.to_string() }]);
            return Ok(Err(Mistakes { diagnostics, document }));
        }
    };
    let scenario_dir = args.scenario.parent().map(Path::to_path_buf).unwrap_or_default();
    let files = Files { scenario_dir, trace_override: args.trace_file.clone() };
    if files.trace_override.is_some()
        && !scenario.hosts.iter().any(|group| group.workload.kind == "trace")
    {
        return Err(Failure::mistake(
            "--trace-file: no host of the scenario has a workload of kind \"trace\"",
        ));
    }
    match Plan::new(scenario, files) {
        Ok(plan) => Ok(Ok(Loaded { plan, document })),
        Err(problems) => Ok(Err(Mistakes { diagnostics: located(problems), document })),
    }
}
