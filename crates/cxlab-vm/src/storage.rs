//! Persistent CXL memory: the contents of a window in a file of this machine. A guest maps the
//! file, and finds the contents again in its next run.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Granularity at which a new file gets holes, in bytes. Pieces that are all zero take no space.
const HOLE_BYTES: usize = 1 << 20;

/// File with a window's contents, locked for this process while the value lives.
#[derive(Debug)]
pub struct Storage {
    path: PathBuf,
    /// Whether the file was just created.
    pub fresh: bool,
    _file: File,
}

/// Reason why the storage cannot be used.
#[derive(thiserror::Error, Debug)]
pub enum StorageError {
    /// The size of the file differs from that of the window.
    #[error(
        "found {found} bytes, of another window; allowed: {wanted} bytes, or no file, which is then made"
    )]
    Size {
        /// Size of the file, in bytes.
        found: u64,
        /// Size of the window, in bytes.
        wanted: u64,
    },
    /// Another run uses the file.
    #[error("another run uses it")]
    Used,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Storage {
    /// Path of the file, for QEMU.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file at `path`. If it does not exist, creates it with the contents of a saved guest's window, `like`.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn open(path: &Path, like: &Path) -> Result<Storage, StorageError> {
        let fresh = !path.exists();
        if fresh {
            let unfinished = path.with_extension(format!("pmem-{}", crate::snapshot::unique()));
            let made = copy(like, &unfinished).and_then(|()| fs::rename(&unfinished, path));
            made.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        }
        let file = File::options().read(true).write(true).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StorageError::Used,
            TryLockError::Error(error) => StorageError::System(error),
        })?;
        let (found, wanted) = (fs::metadata(path)?.len(), fs::metadata(like)?.len());
        if found != wanted {
            return Err(StorageError::Size { found, wanted });
        }
        Ok(Storage {
            path: path.to_owned(),
            fresh,
            _file: file,
        })
    }
}

/// Copies a file, with holes where there are only zeros.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = File::create_new(to)?;
    let mut piece = vec![0; HOLE_BYTES];
    let mut at = 0;
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return to.set_len(at);
        }
        if piece[..count].iter().any(|byte| *byte != 0) {
            to.seek(SeekFrom::Start(at))?;
            to.write_all(&piece[..count])?;
        }
        at += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_and_are_of_one_run_at_a_time_and_of_one_window() {
        let folder = tempfile::tempdir().expect("a folder");
        let like = folder.path().join("window0.memory");
        let mut bytes = vec![0; 3 * HOLE_BYTES + 5];
        bytes[HOLE_BYTES + 7] = 9;
        fs::write(&like, &bytes).expect("a file");
        let path = folder.path().join("host-mem.pmem");
        let first = Storage::open(&path, &like).expect("storage");
        assert!(first.fresh);
        assert_eq!(fs::read(&path).expect("a file"), bytes);
        assert!(matches!(
            Storage::open(&path, &like),
            Err(StorageError::Used)
        ));
        drop(first);
        bytes[0] = 1;
        fs::write(&path, &bytes).expect("a file");
        let second = Storage::open(&path, &like).expect("storage");
        assert!(!second.fresh);
        assert_eq!(fs::read(second.path()).expect("a file"), bytes);
        drop(second);
        fs::write(&like, [0; 8]).expect("a file");
        let other = Storage::open(&path, &like);
        assert!(
            matches!(other, Err(StorageError::Size { wanted: 8, .. })),
            "{other:?}"
        );
        let left = fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(left, 2, "nothing unfinished");
    }
}
