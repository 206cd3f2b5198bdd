//! A named pipe in a folder of its own, removed when dropped.
//!
//! Valgrind and QEMU's plugin open the pipe by its name. A name is also the only way to pass a pipe
//! to a child in safe Rust that leaves the command its standard streams.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::import::Input;

/// A named pipe in a folder of its own.
pub(super) struct NamedPipe {
    folder: PathBuf,
    path: PathBuf,
}

impl NamedPipe {
    /// Makes a folder that only this user can enter, for the pipe.
    pub fn plan() -> io::Result<NamedPipe> {
        // The number is used only in names, so that several captures in one process do not collide.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cxlab-capture-{}-{number}", std::process::id());
        let folder = std::path::absolute(std::env::temp_dir())?.join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join("accesses");
        Ok(NamedPipe { folder, path })
    }

    /// Makes the pipe in the folder.
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

    /// Opens the reading end, and a handle that keeps the pipe from ending until it is dropped.
    pub fn open(&self) -> io::Result<(Input, File)> {
        // On Linux, opening a pipe for reading and writing never blocks. With a writer, opening it
        // for reading does not block either.
        let keeper = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let reader = File::open(&self.path)?;
        Ok((BufReader::with_capacity(1 << 16, Box::new(reader)), keeper))
    }

    /// The folder, for further files of the recording.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of the pipe.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The argument that makes Valgrind write its log to the pipe. Valgrind reads `%` as an escape.
    pub fn log_file_argument(&self) -> String {
        format!(
            "--log-file={}",
            self.path.to_string_lossy().replace('%', "%%")
        )
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        // The folder is temporary; a failure to remove it has no consequence.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
