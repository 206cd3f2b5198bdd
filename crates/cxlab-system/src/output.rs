//! Folders of results.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use cxlab_files::{Folder, WholeFile};
use sha2::{Digest, Sha256};

pub use cxlab_files::{is_special, write_whole};

/// Bytes that must fit before a long run begins: about what a small report takes.
const PROBE_BYTES: usize = 1 << 16;

/// Checks before a long run that its results can be written, and removes unfinished files of a killed run.
///
/// # Errors
/// The folder cannot be made, or a file in it cannot be created and written.
pub fn prepare_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    cxlab_files::sweep(dir)?;
    probe(dir)
}

/// Checks that a file of [`PROBE_BYTES`] can be written in a folder.
fn probe(dir: &Path) -> io::Result<()> {
    // The file is removed when it is dropped, and its name is unique.
    let mut probe = WholeFile::create(&dir.join(".cxlab-probe"))?;
    probe.write_all(&[0; PROBE_BYTES])?;
    probe.flush()
}

/// As [`prepare_dir`], with a lock on the folder against other processes. Files of these names must
/// be results of cxlab, which will be replaced.
///
/// # Errors
/// As [`prepare_dir`]; [`io::ErrorKind::WouldBlock`] where another process has the folder, and
/// [`io::ErrorKind::InvalidData`] where a file of these names is no result of cxlab.
pub fn open_results(dir: &Path, names: &[&str]) -> io::Result<Folder> {
    let folder = Folder::open(dir)?;
    probe(dir)?;
    for name in names {
        if !is_result(&dir.join(name))? {
            let message = format!(
                "found `{name}`, which cxlab did not write; allowed: a folder without, or another one"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
    Ok(folder)
}

/// Whether results may replace a file: it has results, is empty, or is missing.
fn is_result(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        // Writing it will say what it is.
        Ok(found) if !found.is_file() => return Ok(true),
        Ok(found) if found.len() == 0 => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let mut file = File::open(path)?;
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    Read::by_ref(&mut file).take(4096).read_to_end(&mut head)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(1 << 16)))?;
    file.take(1 << 16).read_to_end(&mut tail)?;
    let has = |bytes: &[u8], what: &str| bytes.windows(what.len()).any(|at| at == what.as_bytes());
    let extension = path.extension().and_then(|name| name.to_str());
    Ok(match extension {
        Some("json") => {
            let ours = ["\"version\": \"", "\"asked\": "];
            head.starts_with(b"{") && (ours.iter().any(|key| has(&head, key) || has(&tail, key)))
        }
        Some("svg") => {
            let ours = "font-family=\"sans-serif\"";
            let drawn = head.starts_with(b"<svg xmlns=") && has(&head, ours);
            drawn || has(&tail, "<!-- cxlab run ")
        }
        Some("parquet") => head.starts_with(b"PAR1") && has(&tail, "issued_ps"),
        _ => true,
    })
}

/// The ID of a run, a hash of `parts`, which identify its inputs and results: 16 hexadecimal
/// digits. All files of a run have it, so that files of two runs are not confused.
pub fn run_id(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A picture that carries the ID of its run.
pub fn stamped(svg: &str, run: &str) -> String {
    format!("{}\n<!-- cxlab run {run} -->\n", svg.trim_end())
}

/// Writes a result to a temporary name; the returned file gets its own name later.
///
/// # Errors
/// The file cannot be made or written.
pub fn begin(dir: &Path, name: &str, content: &[u8]) -> io::Result<WholeFile> {
    let mut file = WholeFile::create(&dir.join(name))?;
    file.write_all(content)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_told_from_results() {
        let dir = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        for (name, text, ours) in [
            ("report.json", "{\n  \"version\": \"0.1.0\"", true),
            ("report.json", "", true),
            ("report.json", "{ \"name\": \"my own\" }", false),
            ("report.json", "notes", false),
            (
                "topology.svg",
                "<svg xmlns=\"x\" font-family=\"sans-serif\">",
                true,
            ),
            ("topology.svg", "<svg>mine</svg>", false),
            ("requests.parquet", "PAR1 issued_ps PAR1", true),
            ("requests.parquet", "PAR1 mine PAR1", false),
        ] {
            let path = dir.path().join(name);
            assert!(std::fs::write(&path, text).is_ok());
            let found = is_result(&path);
            assert!(found.is_ok_and(|found| found == ours), "{name}: {text}");
        }
        assert!(is_result(&dir.path().join("missing.json")).is_ok_and(|found| found));
    }

    #[test]
    fn an_id_tells_parts_apart() {
        assert_ne!(run_id(&["ab", "c"]), run_id(&["a", "bc"]));
        assert_eq!(run_id(&["ab", "c"]).len(), 16);
    }
}
