//! A file that appears under its name only when it is whole.
//!
//! It is written beside its destination under a temporary name and renamed by
//! [`PartialFile::publish`]; dropped before that, it is removed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Place, TraceError};

/// A file in the making.
pub(crate) struct PartialFile {
    file: Option<BufWriter<File>>,
    temporary: PathBuf,
    destination: PathBuf,
}

impl PartialFile {
    /// Starts the file that will be `destination`.
    pub fn create(destination: &Path) -> Result<PartialFile, TraceError> {
        let name = destination.file_name().ok_or_else(|| {
            TraceError::new(
                destination,
                Place::File,
                "",
                "is not the name of a file to write",
            )
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".partial-{}", std::process::id()));
        let temporary = destination.with_file_name(hidden);
        let file = File::create(&temporary)
            .map_err(|error| TraceError::io(&temporary, Place::File, "create the file", &error))?;
        let destination = destination.to_owned();
        Ok(PartialFile {
            file: Some(BufWriter::new(file)),
            temporary,
            destination,
        })
    }

    /// Gives the finished file its name.
    pub fn publish(mut self) -> Result<(), TraceError> {
        if let Some(file) = self.file.take() {
            let whole = file.into_inner().map_err(io::IntoInnerError::into_error);
            whole.and_then(|file| file.sync_all()).map_err(|error| {
                TraceError::io(&self.destination, Place::File, "finish writing", &error)
            })?;
        }
        std::fs::rename(&self.temporary, &self.destination)
            .map_err(|error| TraceError::io(&self.destination, Place::File, "name it", &error))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `publish` the temporary name no longer exists, and there is nothing to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
