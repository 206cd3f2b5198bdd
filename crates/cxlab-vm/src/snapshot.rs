//! Snapshots of waiting guests: a folder for each machine, in the cache folder.
//!
//! A folder gets its name only when it is complete. Runs never change it, because a guest's
//! writes to its memory are private.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Most snapshots in the cache folder. Each takes the memory that its guest has used, about 200 MB.
const MAX_SNAPSHOTS: usize = 8;

/// A saved guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    folder: PathBuf,
}

/// A snapshot under construction. It is removed if it is not finished.
#[derive(Debug)]
pub struct SnapshotDraft {
    folder: PathBuf,
    to: PathBuf,
}

/// A name that no other process and no other thread uses.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// A name that changes with each of the texts. The name of a machine is made of everything that its
/// guest can see until a program runs.
pub fn name<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    // FNV-1a over the parts, each with a terminator. That suffices to notice a change.
    let bytes = parts
        .into_iter()
        .flat_map(|part| part.bytes().chain([0xff]));
    fnv(bytes)
}

/// A word that changes with the bytes.
pub fn sum(bytes: &[u8]) -> String {
    fnv(bytes.iter().copied())
}

fn fnv(bytes: impl Iterator<Item = u8>) -> String {
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

impl Snapshot {
    /// Finds the snapshot of that name.
    pub fn find(cache: &Path, name: &str) -> Option<Snapshot> {
        let folder = cache.join("snapshots").join(name);
        let found = Snapshot { folder };
        // Updates the time of the last use, because the least recently used snapshots are removed.
        let file = fs::File::options().append(true).open(found.console());
        let _ = file.ok()?.set_modified(SystemTime::now());
        Some(found)
    }

    /// Folder with the guest's memory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of the state of its devices.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Path of its console output.
    pub fn console(&self) -> PathBuf {
        self.folder.join("console")
    }
}

impl SnapshotDraft {
    /// Begins a snapshot of that name.
    ///
    /// # Errors
    /// The error of the file system if the folder cannot be made.
    pub fn begin(cache: &Path, name: &str) -> io::Result<SnapshotDraft> {
        let all = cache.join("snapshots");
        clear(&all);
        let folder = all.join(format!("{name}.{}", unique()));
        fs::create_dir_all(&folder)?;
        Ok(SnapshotDraft {
            folder,
            to: all.join(name),
        })
    }

    /// Folder for the guest's memory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Completes the snapshot, which makes it visible to [`Snapshot::find`]. Removes
    /// the oldest snapshots beyond the limit.
    ///
    /// # Errors
    /// The error of the file system if the folder cannot be renamed.
    pub fn finish(self) -> io::Result<Snapshot> {
        match fs::rename(&self.folder, &self.to) {
            Ok(()) => {}
            // Another process was faster, and its guest is equal.
            Err(_) if self.to.join("console").exists() => {}
            Err(error) => return Err(error),
        }
        if let Some(all) = self.to.parent() {
            forget(all, &self.to);
        }
        Ok(Snapshot {
            folder: self.to.clone(),
        })
    }
}

impl Drop for SnapshotDraft {
    fn drop(&mut self) {
        // A finished snapshot has another name, so this removes only an unfinished one.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes unfinished snapshots of processes that were killed.
fn clear(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let path = entry.path();
        let maker = path
            .extension()
            .and_then(|end| end.to_str()?.split_once('-'));
        let gone = |process: &str| !Path::new("/proc").join(process).exists();
        if maker.is_some_and(|(process, _)| gone(process)) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Removes the least recently used snapshots beyond the limit, but not `except`.
fn forget(all: &Path, except: &Path) {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| path != except && path.extension().is_none())
        .filter_map(|path| {
            Some((
                fs::metadata(path.join("console")).ok()?.modified().ok()?,
                path,
            ))
        })
        .collect();
    found.sort();
    let most = MAX_SNAPSHOTS - 1;
    for (_, path) in &found[..found.len().saturating_sub(most)] {
        // A guest that uses the snapshot keeps its open files.
        let _ = fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn made(cache: &Path, name: &str) -> Snapshot {
        let making = SnapshotDraft::begin(cache, name).expect("a folder");
        fs::write(making.folder().join("console"), name).expect("a file");
        making.finish().expect("a name")
    }

    #[test]
    fn a_snapshot_is_found_when_it_is_finished_and_an_unfinished_one_goes() {
        let folder = folder();
        let making = SnapshotDraft::begin(folder.path(), "a").expect("a folder");
        fs::write(making.folder().join("console"), "half").expect("a file");
        assert_eq!(Snapshot::find(folder.path(), "a"), None);
        drop(making);
        let left = fs::read_dir(folder.path().join("snapshots")).expect("a folder");
        assert_eq!(left.count(), 0);
        let snapshot = made(folder.path(), "a");
        assert_eq!(Snapshot::find(folder.path(), "a"), Some(snapshot.clone()));
        // If a snapshot of that name is made again meanwhile, the first one stays.
        fs::write(snapshot.state(), "first").expect("a file");
        assert_eq!(made(folder.path(), "a"), snapshot);
        assert!(snapshot.state().exists());
    }

    #[test]
    fn those_that_were_not_used_for_longest_go() {
        let folder = folder();
        let old = |name: &str, seconds: u64| {
            let snapshot = made(folder.path(), name);
            let file = fs::File::options().append(true).open(snapshot.console());
            let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.expect("a file").set_modified(then).expect("a time");
        };
        for number in 0..MAX_SNAPSHOTS as u64 {
            old(&format!("s{number}"), 100 + number);
        }
        assert!(
            Snapshot::find(folder.path(), "s0").is_some(),
            "and used now"
        );
        made(folder.path(), "new");
        assert!(Snapshot::find(folder.path(), "s0").is_some());
        assert!(Snapshot::find(folder.path(), "s1").is_none());
        assert!(Snapshot::find(folder.path(), "new").is_some());
        let left = fs::read_dir(folder.path().join("snapshots")).expect("a folder");
        assert_eq!(left.count(), MAX_SNAPSHOTS);
    }

    #[test]
    fn what_a_process_left_that_is_gone_is_cleared_away() {
        let folder = folder();
        let all = folder.path().join("snapshots");
        // No process has a number as large as this.
        let left = all.join("a.4294967295-0");
        fs::create_dir_all(&left).expect("a folder");
        let other = SnapshotDraft::begin(folder.path(), "a").expect("a folder");
        let own = SnapshotDraft::begin(folder.path(), "a").expect("a folder");
        assert!(!left.exists() && own.folder().exists() && other.folder().exists());
    }

    #[test]
    fn names_differ_where_parts_do() {
        assert_ne!(name(["ab", "c"]), name(["a", "bc"]));
        assert_eq!(name(["a"]).len(), 16);
    }
}
