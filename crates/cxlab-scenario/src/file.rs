//! Reading a scenario file, with bounds.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::diagnostics::nearest;

/// Scenario files are small; a larger file is something else.
const MAX_BYTES: u64 = 16 << 20;
/// Most files of a folder that are compared with a missing one.
const MOST_ENTRIES: usize = 4096;

/// Reads the text of a scenario file.
///
/// # Errors
/// The file cannot be read, is a folder, is larger than 16 MiB or is no UTF-8: named with what is allowed.
pub fn read_text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let hint = near_file(path)
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        format!("{shown}: the scenario cannot be read: {error}{hint}")
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(format!(
            "{shown}: is a folder; allowed: a scenario file (TOML)"
        ));
    }
    let mut bytes = Vec::new();
    // Bounded, because a device has no size to look at.
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "{shown}: is larger than 16 MiB; allowed: a scenario file (TOML) of at most 16 MiB"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (before, after) = error.as_bytes().split_at(at);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let found = after.first().copied().unwrap_or_default();
        format!(
            "{shown}:{line}: found byte {found:#04x} at offset {at}; allowed: TOML, which is UTF-8 text"
        )
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
