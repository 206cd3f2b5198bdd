//! Where the report of an attached run goes. What it needs is opened before the program runs, which may
//! rename and link files meanwhile.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cxlab_system::output::write_whole;

use super::super::harmless;
use super::super::results::open_folder;
use super::Failure;

/// An open folder, which stays the same if the program renames it. Files are always created anew in it;
/// links of the same name are not followed.
pub(super) struct Folder {
    open: File,
    /// Lock that keeps other runs from writing to the folder.
    locked: cxlab_files::Folder,
}

impl Folder {
    pub(super) fn open(dir: &Path, names: &[&str]) -> Result<Folder, Failure> {
        let locked = open_folder(dir, names)?;
        let open = File::open(dir).map_err(|error| {
            Failure::Output(format!("{}: cannot be written to: {error}", dir.display()))
        })?;
        Ok(Folder { open, locked })
    }

    /// The path of a file in it, as the user named the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.locked.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let base = PathBuf::from(format!("/proc/self/fd/{}", self.open.as_raw_fd()));
        write_whole(&base.join(name), text.as_bytes())
            .map_err(|error| Failure::Output(format!("{}: {error}", self.path(name).display())))
    }
}

/// Destination of the report for users.
pub(super) enum Page {
    Nowhere,
    /// Standard error, which is shared with the program.
    Errors,
    /// A terminal, a pipe, or the target of a link, to which the report is appended.
    Stream(File, PathBuf),
    /// A file of this name in a folder, which stays the same if the program renames it.
    File {
        folder: File,
        name: OsString,
        shown: PathBuf,
    },
}

impl Page {
    /// Opens the destination of the report before the program runs.
    pub(super) fn open(path: Option<&Path>, quiet: bool) -> Result<Page, Failure> {
        let Some(path) = path else {
            return Ok(if quiet { Page::Nowhere } else { Page::Errors });
        };
        let failed = |why: String| Failure::mistake(format!("--report {}: {why}", path.display()));
        if std::fs::metadata(path).is_ok_and(|found| found.is_dir()) {
            return Err(failed(
                "found a folder; allowed: a file to write".to_owned(),
            ));
        }
        // The target of a link such as /dev/stderr is written to, and the link is kept.
        let kind = std::fs::symlink_metadata(path).map(|found| found.file_type());
        if kind.is_ok_and(|kind| !kind.is_file()) {
            let open = std::fs::OpenOptions::new().append(true).open(path);
            let open = open.map_err(|error| failed(error.to_string()))?;
            return Ok(Page::Stream(open, path.to_owned()));
        }
        let Some(name) = path.file_name() else {
            return Err(failed("is not the name of a file to write".to_owned()));
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")));
        Ok(Page::File {
            folder: folder.map_err(|error| failed(format!("its folder: {error}")))?,
            name: name.to_owned(),
            shown: path.to_owned(),
        })
    }

    pub(super) fn write(self, text: &str) -> Result<(), Failure> {
        let text = harmless(text);
        let (written, shown) = match self {
            Page::Nowhere => return Ok(()),
            Page::Errors => {
                // A closed standard error is no failure.
                let _ = std::io::stderr().write_all(text.as_bytes());
                return Ok(());
            }
            Page::Stream(mut file, shown) => (file.write_all(text.as_bytes()), shown),
            Page::File {
                folder,
                name,
                shown,
            } => {
                let base = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
                (write_whole(&base.join(name), text.as_bytes()), shown)
            }
        };
        written.map_err(|error| Failure::Output(format!("{}: {error}", shown.display())))
    }
}
