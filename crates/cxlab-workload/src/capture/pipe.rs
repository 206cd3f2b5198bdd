//! A named pipe in a folder of its own, removed when dropped.
//!
//! Valgrind and QEMU's plugin take it by name, and a name is the one way to pass a pipe to a child in
//! safe Rust that leaves the command its standard streams.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::import::Input;

/// A named pipe.
pub(super) struct NamedPipe {
    folder: PathBuf,
    path: PathBuf,
}

impl NamedPipe {
    /// A folder that only we can enter, where the pipe will be.
    pub fn plan() -> io::Result<NamedPipe> {
        // Only a name, so that captures in one process do not collide.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cxlab-capture-{}-{number}", std::process::id());
        let folder = std::path::absolute(std::env::temp_dir())?.join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join("accesses");
        Ok(NamedPipe { folder, path })
    }

    /// Makes the pipe.
    pub fn make(&self) -> io::Result<()> {
        let made = Command::new("mkfifo")
            .arg("-m")
            .arg("600")
            .arg(&self.path)
            .status()?;
        match made.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("mkfifo: {made}"))),
        }
    }

    /// The reading end, and a handle that keeps the pipe from ending until it is dropped.
    pub fn open(&self) -> io::Result<(Input, File)> {
        // On Linux opening a pipe for both reading and writing never waits for another process;
        // with a writer there, opening it for reading does not wait either.
        let keeper = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let reader = File::open(&self.path)?;
        Ok((BufReader::with_capacity(1 << 16, Box::new(reader)), keeper))
    }

    /// The folder, for what goes with the pipe.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The pipe's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The argument that sends Valgrind's log here; Valgrind reads `%` in it as an escape.
    pub fn log_file_argument(&self) -> String {
        format!(
            "--log-file={}",
            self.path.to_string_lossy().replace('%', "%%")
        )
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        // Nothing depends on it: the folder is temporary and ours.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
