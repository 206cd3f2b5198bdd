//! Reading scenario files.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

use cxlab_plan::load::{self, Loaded, Mistakes};
use cxlab_plan::{Externals, Files};
use cxlab_scenario::diagnostics::nearest;

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

/// Reads, checks and resolves a scenario.
pub(super) fn load(args: &ScenarioArgs) -> Result<Result<Loaded, Mistakes>, Failure> {
    if args.trust_plugins {
        cxlab_plugin::trust::trust_all();
    }
    let text = read(&args.scenario)?;
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
