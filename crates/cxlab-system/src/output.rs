//! Writing files whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where a file is written before it has its name.
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

/// Writes a file so that it has its name only when it is whole and on disk.
///
/// # Errors
/// Whatever the file system says; nothing of that name is left then, or what was there before.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let partial = temporary(path);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let result = written.and_then(|()| std::fs::rename(&partial, path));
    if result.is_err() {
        // What is left has a name that says it is partial; removing it is a courtesy.
        let _ = std::fs::remove_file(&partial);
    }
    result
}

/// Makes sure before a long run that its results can be written.
///
/// # Errors
/// The folder cannot be made, or a file in it cannot be created.
pub fn prepare_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let probe = dir.join(".cxlab-probe");
    File::create(&probe)?;
    std::fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_nothing_partial_stays() {
        let dir = std::env::temp_dir().join(format!("cxlab-output-{}", std::process::id()));
        prepare_dir(&dir).unwrap();
        let path = dir.join("report.json");
        write_whole(&path, b"{}").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        assert!(!temporary(&path).exists());
        assert!(write_whole(&dir.join("missing/report.json"), b"{}").is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
