//! Guests that wait, saved: a folder for each machine, in the cache folder.
//!
//! A folder appears under its name when it is whole. Runs never change it: what a guest writes to its
//! memory stays its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Most machines that are kept; each takes what its guest has used of its memory, some 200 MB.
const MOST: usize = 8;

/// A guest that was saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    folder: PathBuf,
}

/// A snapshot that is being made. It goes when it is not finished.
#[derive(Debug)]
pub struct Making {
    folder: PathBuf,
    to: PathBuf,
}

/// A name that no other process and no other thread has.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// A name for texts, which changes with each of them: of a machine, from everything that its guest could
/// see until a program runs.
pub fn name<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    // FNV-1a over the parts, each with its end, which is enough to notice a change.
    let bytes = parts
        .into_iter()
        .flat_map(|part| part.bytes().chain([0xff]));
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

impl Snapshot {
    /// The snapshot of that name, if there is one.
    pub fn find(cache: &Path, name: &str) -> Option<Snapshot> {
        let folder = cache.join("snapshots").join(name);
        let found = Snapshot { folder };
        // Used now: others go before it.
        let file = fs::File::options().append(true).open(found.console());
        let _ = file.ok()?.set_modified(SystemTime::now());
        Some(found)
    }

    /// The folder, with the guest's memory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The state of its devices.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// What it had said.
    pub fn console(&self) -> PathBuf {
        self.folder.join("console")
    }
}

impl Making {
    /// Begins a snapshot of that name.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn begin(cache: &Path, name: &str) -> io::Result<Making> {
        let all = cache.join("snapshots");
        clear(&all);
        let folder = all.join(format!("{name}.{}", unique()));
        fs::create_dir_all(&folder)?;
        Ok(Making {
            folder,
            to: all.join(name),
        })
    }

    /// The folder, for the guest's memory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it: from now on it is found. The oldest go where there are too many.
    ///
    /// # Errors
    /// It cannot be given its name.
    pub fn finish(self) -> io::Result<Snapshot> {
        match fs::rename(&self.folder, &self.to) {
            Ok(()) => {}
            // Another process was faster; its guest is the same.
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

impl Drop for Making {
    fn drop(&mut self) {
        // It has another name where it was finished.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what processes left that were killed while they made a snapshot.
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

/// Removes the snapshots that were not used for longest, except one.
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
    let most = MOST - 1;
    for (_, path) in &found[..found.len().saturating_sub(most)] {
        // A guest that uses it keeps what it has open.
        let _ = fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            Folder(std::env::temp_dir().join(format!("cxlab-snapshots-{}", unique())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn made(cache: &Path, name: &str) -> Snapshot {
        let making = Making::begin(cache, name).expect("a folder");
        fs::write(making.folder().join("console"), name).expect("a file");
        making.finish().expect("a name")
    }

    #[test]
    fn a_snapshot_is_found_when_it_is_finished_and_an_unfinished_one_goes() {
        let folder = Folder::new();
        let making = Making::begin(&folder.0, "a").expect("a folder");
        fs::write(making.folder().join("console"), "half").expect("a file");
        assert_eq!(Snapshot::find(&folder.0, "a"), None);
        drop(making);
        let left = fs::read_dir(folder.0.join("snapshots")).expect("a folder");
        assert_eq!(left.count(), 0);
        let snapshot = made(&folder.0, "a");
        assert_eq!(Snapshot::find(&folder.0, "a"), Some(snapshot.clone()));
        // Made again meanwhile: the first stays.
        fs::write(snapshot.state(), "first").expect("a file");
        assert_eq!(made(&folder.0, "a"), snapshot);
        assert!(snapshot.state().exists());
    }

    #[test]
    fn those_that_were_not_used_for_longest_go() {
        let folder = Folder::new();
        let old = |name: &str, seconds: u64| {
            let snapshot = made(&folder.0, name);
            let file = fs::File::options().append(true).open(snapshot.console());
            let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.expect("a file").set_modified(then).expect("a time");
        };
        for number in 0..MOST as u64 {
            old(&format!("s{number}"), 100 + number);
        }
        assert!(Snapshot::find(&folder.0, "s0").is_some(), "and used now");
        made(&folder.0, "new");
        assert!(Snapshot::find(&folder.0, "s0").is_some());
        assert!(Snapshot::find(&folder.0, "s1").is_none());
        assert!(Snapshot::find(&folder.0, "new").is_some());
        let left = fs::read_dir(folder.0.join("snapshots")).expect("a folder");
        assert_eq!(left.count(), MOST);
    }

    #[test]
    fn what_a_process_left_that_is_gone_is_cleared_away() {
        let folder = Folder::new();
        let all = folder.0.join("snapshots");
        // Numbers of processes are smaller.
        let left = all.join("a.4294967295-0");
        fs::create_dir_all(&left).expect("a folder");
        let other = Making::begin(&folder.0, "a").expect("a folder");
        let own = Making::begin(&folder.0, "a").expect("a folder");
        assert!(!left.exists() && own.folder().exists() && other.folder().exists());
    }

    #[test]
    fn names_differ_where_parts_do() {
        assert_ne!(name(["ab", "c"]), name(["a", "bc"]));
        assert_eq!(name(["a"]).len(), 16);
    }
}
