//! Folders of results: their names, and the files that are replaced together.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cxlab_files::{Folder, WholeFile};
use cxlab_system::output::{self, open_results};

use super::failure::Failure;

/// The request log's name.
pub(super) const REQUESTS: &str = "requests.parquet";

/// Files that a run, or runs of several seeds, may write.
pub(super) const RUN_FILES: [&str; 5] = [
    "report.json",
    "topology.svg",
    REQUESTS,
    "seeds.json",
    "seeds.svg",
];

/// Opens a folder for files of these names.
pub(super) fn open_folder(dir: &Path, names: &[&str]) -> Result<Folder, Failure> {
    if dir.is_file() {
        return Err(Failure::mistake(format!(
            "--out {}: is a file; allowed: a folder",
            dir.display()
        )));
    }
    open_results(dir, names).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::InvalidData => {
            Failure::mistake(format!("--out {}: {error}", dir.display()))
        }
        _ => Failure::Output(format!("{}: cannot be written to: {error}", dir.display())),
    })
}

/// Writes files, and removes all others of an earlier run.
pub(super) fn write_files(
    folder: &Folder,
    files: &[(&str, String)],
    log: Option<WholeFile>,
) -> Result<(), Failure> {
    replace(folder, files, log, &RUN_FILES)
}

/// Writes files, and removes files of an earlier run with one of `names`.
pub(super) fn replace(
    folder: &Folder,
    files: &[(impl AsRef<str>, String)],
    log: Option<WholeFile>,
    names: &[&str],
) -> Result<(), Failure> {
    let dir = folder.path();
    let failed = |path: &Path, error| Failure::Output(format!("{}: {error}", path.display()));
    let mut set: Vec<WholeFile> = log.into_iter().collect();
    for (name, content) in files {
        let name = name.as_ref();
        let file = output::begin(dir, name, content.as_bytes());
        set.push(file.map_err(|error| failed(&dir.join(name), error))?);
    }
    folder
        .replace(set, names)
        .map_err(|error| failed(dir, error))
}

/// A report as text.
pub(super) fn json(report: &impl serde::Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(report);
    let json = json.map(|json| json + "\n");
    json.map_err(|error| Failure::Internal(format!("the report cannot be serialized: {error}")))
}

/// A scenario's name as a folder's.
pub(super) fn file_name(name: &str) -> PathBuf {
    let clean = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    });
    let clean: String = clean.take(80).collect();
    let clean = clean.trim_matches('.');
    PathBuf::from(if clean.is_empty() { "scenario" } else { clean })
}
