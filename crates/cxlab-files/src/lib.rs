//! Files that appear under their names only when they are complete.
//!
//! A [`WholeFile`] is written beside its destination under a unique name (`O_EXCL`), synced to
//! disk, and renamed; then the folder is synced. A reader of the destination sees either the old
//! file or the complete new one. If the destination is a link, the rename replaces the link and
//! does not follow it.
//!
//! Files that belong together are replaced together: see [`Folder`].
//!
//! An unfinished file is locked, so that [`sweep`] can tell it from a file
//! whose process was killed.

mod folder;
pub mod input;

pub use folder::Folder;

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Names of unfinished files are this prefix, the name of the destination, this infix,
/// and a random end.
const BEGINS: &str = ".cxlab-";
const GOES_ON: &str = ".partial-";

/// An unfinished file. If it is dropped before it is published, it is removed.
#[derive(Debug)]
pub struct WholeFile {
    file: NamedTempFile,
    destination: PathBuf,
}

impl WholeFile {
    /// Begins the file that will become `destination`.
    ///
    /// # Errors
    /// Errors of the file system, and a destination that is not a regular file.
    pub fn create(destination: &Path) -> io::Result<WholeFile> {
        refuse_special(destination)?;
        let Some(name) = destination.file_name() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "is not the name of a file to write",
            ));
        };
        let folder = folder_of(destination);
        let mut prefix = OsString::from(BEGINS);
        prefix.push(name);
        prefix.push(GOES_ON);
        loop {
            let mut builder = tempfile::Builder::new();
            builder.prefix(&prefix);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let file = builder.tempfile_in(folder);
            let file = file.map_err(|error| in_folder(folder, error.kind()))?;
            file.as_file().lock()?;
            // Between creation and lock, a sweep may have removed the file as a left one.
            if file.path().exists() {
                return Ok(WholeFile {
                    file,
                    destination: destination.to_owned(),
                });
            }
        }
    }

    /// The path of the file until it is published.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Opens another handle of the same file.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn handle(&self) -> io::Result<File> {
        self.file.as_file().try_clone()
    }

    /// Syncs the file to disk and keeps it unpublished. Returns its path and its destination.
    fn keep(mut self) -> io::Result<(PathBuf, PathBuf)> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        let (_, path) = self.file.keep().map_err(|error| error.error)?;
        Ok((path, self.destination))
    }

    /// Syncs the file to disk and gives it its name.
    ///
    /// # Errors
    /// Errors of the file system. The destination is then unchanged, unless only
    /// syncing its folder failed.
    pub fn publish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.as_file().sync_all()?;
        refuse_special(&self.destination)?;
        self.file
            .persist(&self.destination)
            .map_err(|error| error.error)?;
        sync_folder(folder_of(&self.destination))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The error of a file that cannot be made in a folder. It does not name the file, which users do not know.
fn in_folder(folder: &Path, kind: io::ErrorKind) -> io::Error {
    let folder = folder.display();
    let message = match kind {
        io::ErrorKind::NotFound => format!("the folder {folder} does not exist"),
        kind => format!("{kind} in the folder {folder}"),
    };
    io::Error::new(kind, message)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Syncs a folder to disk, which makes renames in it durable. Some file systems cannot do that,
/// which is no error.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// The kind of a path that is neither a regular file nor a link.
fn kind(file: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file.is_fifo() {
            return "a FIFO";
        }
        if file.is_socket() {
            return "a socket";
        }
    }
    match file.is_dir() {
        true => "a folder",
        false => "a device",
    }
}

fn refuse_special(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if found.is_file() || found.is_symlink() {
        return Ok(());
    }
    let message = format!("found {}; allowed: the name of a regular file", kind(found));
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Whether a path is a special file of the system, such as `/dev/stdout` or a shell's pipe. Such a
/// file is written to and never replaced.
pub fn is_special(path: &Path) -> bool {
    let named = path.starts_with("/dev") || path.starts_with("/proc/self/fd");
    named && std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Writes a file that has its name only when it is complete and on disk. A [special
/// file](is_special) is written to directly.
///
/// # Errors
/// Errors of the file system, and a destination that is not a regular file. The old file is then
/// unchanged, unless only syncing its folder failed.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    if is_special(path) {
        let mut special = File::options().write(true).open(path)?;
        return special.write_all(content).and_then(|()| special.flush());
    }
    let mut file = WholeFile::create(path)?;
    file.write_all(content)?;
    file.publish()
}

/// Removes the unfinished files that killed processes have left in a folder.
///
/// # Errors
/// When the folder cannot be read, or a file in it cannot be removed.
pub fn sweep(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !is_ours(&entry.file_name()) || !entry.file_type()?.is_file() {
            continue;
        }
        // A file that this user may not open is not ours, and a locked file is still being written.
        let Ok(file) = File::options().write(true).open(entry.path()) else {
            continue;
        };
        if file.try_lock().is_ok() {
            match std::fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(BEGINS) && name.contains(GOES_ON)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().into_owned()
        };
        entries.map(name).collect()
    }

    #[test]
    fn a_file_appears_whole_and_nothing_partial_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write_whole(&path, b"{}").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        let mut second = WholeFile::create(&path).unwrap();
        second.write_all(b"cut").unwrap();
        drop(second);
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        assert_eq!(names(folder.path()), ["report.json"]);
        assert!(write_whole(&folder.path().join("missing/report.json"), b"{}").is_err());
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let null = Path::new("/dev/null");
        assert!(is_special(null));
        write_whole(null, b"{}").unwrap();
        assert!(is_special(null));
        assert!(write_whole(Path::new("/dev/full"), b"{}").is_err());
        assert!(is_special(Path::new("/dev/full")));
        assert!(WholeFile::create(null).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_replaced_and_what_it_points_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, b"mine").unwrap();
        let path = folder.path().join("report.json");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        write_whole(&path, b"{}").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        assert!(path.symlink_metadata().unwrap().is_file());
        // A link to a device is not a special file of the system.
        let link = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        write_whole(&link, b"{}").unwrap();
        assert_eq!(std::fs::read(&link).unwrap(), b"{}");
    }

    #[test]
    fn a_folder_is_no_place_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::create_dir(&path).unwrap();
        let error = write_whole(&path, b"{}").unwrap_err();
        assert!(error.to_string().contains("found a folder"), "{error}");
    }

    #[test]
    fn what_was_left_is_swept_and_what_is_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let left = folder.path().join(".cxlab-report.json.partial-left");
        let own = folder.path().join("notes.partial-1");
        for file in [&left, &own] {
            std::fs::write(file, b"x").unwrap();
        }
        let writing = WholeFile::create(&path).unwrap();
        sweep(folder.path()).unwrap();
        assert!(!left.exists() && own.exists() && writing.path().exists());
        writing.publish().unwrap();
        assert!(path.exists());
    }
}
