//! Files that a scenario names, for reading.
//!
//! Everything that a simulation reads is opened here, so that a program decides in one place what
//! that can be: all files (the default), those below one folder ([`confine`]), or, where there is
//! no file system, bytes in memory ([`provide`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static PROVIDED: Mutex<BTreeMap<PathBuf, Arc<[u8]>>> = Mutex::new(BTreeMap::new());

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// A regular file: it has an end, and opening it does not block.
    pub is_file: bool,
    /// The path leads to a folder.
    pub is_dir: bool,
    /// Size in bytes.
    pub bytes: u64,
}

/// A file, open for reading.
#[derive(Debug)]
pub struct Input(Source);

#[derive(Debug)]
enum Source {
    File(File),
    Bytes(Cursor<Arc<[u8]>>),
}

/// From now on this process opens no file outside of `folder`, whatever links lead there.
///
/// # Errors
/// The folder cannot be found, or the process is confined already.
pub fn confine(folder: &Path) -> io::Result<()> {
    let folder = folder.canonicalize()?;
    FOLDER.set(folder).map_err(|_| {
        let message = "the process is confined to a folder already";
        io::Error::new(io::ErrorKind::AlreadyExists, message)
    })
}

/// Makes bytes known as a file. They stand for `path`, and for all paths with the same last part.
pub fn provide(path: PathBuf, bytes: Arc<[u8]>) {
    let mut provided = PROVIDED.lock().unwrap_or_else(PoisonError::into_inner);
    provided.insert(path, bytes);
}

/// Forgets all bytes that were provided.
pub fn forget() {
    let mut provided = PROVIDED.lock().unwrap_or_else(PoisonError::into_inner);
    provided.clear();
}

fn provided(path: &Path) -> Option<Arc<[u8]>> {
    let provided = PROVIDED.lock().unwrap_or_else(PoisonError::into_inner);
    let same_name = || {
        let mut all = provided.iter();
        all.find(|(known, _)| known.file_name() == path.file_name())
            .map(|(_, bytes)| bytes)
    };
    provided.get(path).or_else(same_name).cloned()
}

fn allowed(path: &Path) -> io::Result<PathBuf> {
    let Some(folder) = FOLDER.get() else {
        return Ok(path.to_owned());
    };
    let found = path.canonicalize()?;
    match found.starts_with(folder) {
        true => Ok(found),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is outside of the folder that is served",
        )),
    }
}

/// Opens a file.
///
/// # Errors
/// Those of the file system, and paths outside of the folder of [`confine`].
pub fn open(path: &Path) -> io::Result<Input> {
    if let Some(bytes) = provided(path) {
        return Ok(Input(Source::Bytes(Cursor::new(bytes))));
    }
    let file = File::open(allowed(path)?).map_err(here)?;
    Ok(Input(Source::File(file)))
}

/// What a path leads to.
///
/// # Errors
/// The path cannot be opened, as [`open`] says.
pub fn kind(path: &Path) -> io::Result<Kind> {
    if let Some(bytes) = provided(path) {
        return Ok(Kind {
            is_file: true,
            is_dir: false,
            bytes: bytes.len() as u64,
        });
    }
    let found = std::fs::metadata(allowed(path)?).map_err(here)?;
    Ok(Kind {
        is_file: found.is_file(),
        is_dir: found.is_dir(),
        bytes: found.len(),
    })
}

/// Names of the entries of a folder, in any order.
///
/// # Errors
/// The path cannot be opened, as [`open`] says.
pub fn names(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let entries = std::fs::read_dir(allowed(folder)?).map_err(here)?;
    entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect()
}

/// An error of the file system; that there is none is said in the words of a page.
fn here(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Unsupported => {
            let message = "there is no such file; in a browser, drop it on the page";
            io::Error::new(io::ErrorKind::NotFound, message)
        }
        _ => error,
    }
}

impl Input {
    /// What was opened.
    ///
    /// # Errors
    /// The file system cannot say.
    pub fn kind(&self) -> io::Result<Kind> {
        match &self.0 {
            Source::File(file) => file.metadata().map(|found| Kind {
                is_file: found.is_file(),
                is_dir: found.is_dir(),
                bytes: found.len(),
            }),
            Source::Bytes(bytes) => Ok(Kind {
                is_file: true,
                is_dir: false,
                bytes: bytes.get_ref().len() as u64,
            }),
        }
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Source::File(file) => file.read(bytes),
            Source::Bytes(cursor) => cursor.read(bytes),
        }
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.0 {
            Source::File(file) => file.seek(to),
            Source::Bytes(cursor) => cursor.seek(to),
        }
    }
}
