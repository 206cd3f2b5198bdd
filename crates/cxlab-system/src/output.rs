//! Writing files whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a file is written before it has its name. Two processes that write the same file write
/// different ones, so that each name given is of one whole content.
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    path.with_file_name(name)
}

/// Whether something is there that is no regular file, such as `/dev/stdout` or a pipe: it is
/// written to, and never replaced by a file of its name.
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Writes a file so that it has its name only when it is whole and on disk.
///
/// # Errors
/// Whatever the file system says; nothing of that name is left then, or what was there before.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    if is_special(path) {
        let mut special = File::options().write(true).open(path)?;
        return special.write_all(content).and_then(|()| special.flush());
    }
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

/// Bytes that must fit before a long run begins: about what a small report takes.
const PROBE_BYTES: usize = 1 << 16;

/// Makes sure before a long run that its results can be written.
///
/// # Errors
/// The folder cannot be made, or a file in it cannot be created and written.
pub fn prepare_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    // Several threads may look at one folder at once.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let probe = temporary(&dir.join(format!("probe-{number}")));
    let written = std::fs::write(&probe, vec![0; PROBE_BYTES]);
    match std::fs::remove_file(&probe) {
        // The folder may refuse the file, and then there is none to remove.
        Err(_) if written.is_err() => written,
        removed => written.and(removed),
    }
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
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let null = Path::new("/dev/null");
        assert!(is_special(null));
        write_whole(null, b"{}").unwrap();
        assert!(is_special(null));
        assert!(write_whole(Path::new("/dev/full"), b"{}").is_err());
        assert!(is_special(Path::new("/dev/full")));
    }
}
