//! Reading scenario files.

use std::io::IsTerminal;
use std::path::Path;

use cxlab_plan::load::{self, Loaded, Mistakes};
use cxlab_plan::{Externals, Files};
use cxlab_scenario::file::read_text;

use super::ScenarioArgs;
use super::failure::Failure;

/// Whether text for a stream has colours: on terminals that know them, of users who want them.
pub(super) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let set = |name: &str| std::env::var_os(name).unwrap_or_default();
    stream.is_terminal() && set("NO_COLOR").is_empty() && set("TERM") != "dumb"
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        Failure::Mistake(mistakes.render(is_coloured(&std::io::stderr())))
    }
}

/// Reads, checks and resolves a scenario with changes, or fails.
pub(super) fn changed(scenario: &Path, set: Vec<String>) -> Result<Loaded, Failure> {
    let args = ScenarioArgs {
        scenario: scenario.to_owned(),
        set,
        trust_plugins: false,
        trace_file: None,
    };
    load(&args)?.map_err(Failure::from)
}

/// Reads, checks and resolves a scenario.
pub(super) fn load(args: &ScenarioArgs) -> Result<Result<Loaded, Mistakes>, Failure> {
    if args.trust_plugins {
        cxlab_plugin::trust::trust_all();
    }
    let text = read_text(&args.scenario).map_err(Failure::mistake)?;
    let name = args.scenario.display().to_string();
    let document = match load::read(&name, &text, &args.set) {
        Ok(document) => document,
        Err(mistakes) => return Ok(Err(mistakes)),
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
    let loaded = load::resolve(document, files, &Externals::new());
    if let Ok(loaded) = &loaded
        && args.trace_file.is_some()
        && !loaded.plan.has_trace()
    {
        return Err(Failure::mistake(
            "--trace-file: found no host with a workload of kind \"trace\" in the scenario; allowed: \
             with at least one",
        ));
    }
    Ok(loaded)
}
