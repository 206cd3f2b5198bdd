//! Errors that a user can cause with workloads and traces: each says where, what was found and what is allowed.

use std::fmt;
use std::path::{Path, PathBuf};

use cxlab_engine::catalog::ParamError;

/// Where in a file an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilePlace {
    /// The file as a whole.
    File,
    /// A line of a text file, from 1.
    Line(u64),
    /// A byte of a binary file, from 0 (of the decompressed contents where it is compressed).
    Offset(u64),
    /// A block of a `.cxlt` trace, with its number and its file offset.
    Block {
        /// The block's number, from 0.
        index: u64,
        /// The file offset of the block's first byte.
        offset: u64,
    },
}

/// A trace file that cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The trace file's path.
    pub path: PathBuf,
    /// Where in the file the error is.
    pub place: FilePlace,
    /// The name of the faulty field; empty when the error concerns no single field.
    pub field: &'static str,
    /// What is wrong, with the value found and what is allowed.
    pub message: String,
}

impl TraceError {
    /// Makes an error at a place of a file.
    pub fn new(
        path: &Path,
        place: FilePlace,
        field: &'static str,
        message: impl Into<String>,
    ) -> TraceError {
        TraceError {
            path: path.to_owned(),
            place,
            field,
            message: message.into(),
        }
    }

    /// Makes an error about a file as a whole.
    pub(crate) fn whole(
        path: &Path,
        field: &'static str,
        message: impl Into<String>,
    ) -> TraceError {
        TraceError::new(path, FilePlace::File, field, message)
    }

    /// The same error, with the format that the file was read as.
    pub(crate) fn read_as(mut self, format: &str) -> TraceError {
        self.message += &format!(" (read as format `{format}`)");
        self
    }

    /// Makes an error from an operating-system error on a file; `doing` completes "cannot ...".
    pub fn io(path: &Path, place: FilePlace, doing: &str, error: &std::io::Error) -> TraceError {
        TraceError::new(path, place, "", format!("cannot {doing}: {error}"))
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match self.place {
            FilePlace::File => write!(f, ": ")?,
            FilePlace::Line(line) => write!(f, ":{line}: ")?,
            FilePlace::Offset(offset) => write!(f, ": at byte {offset}: ")?,
            FilePlace::Block { index, offset } => write!(f, ": block {index} at byte {offset}: ")?,
        }
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TraceError {}

/// An error that keeps a workload from being bound to a system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadError {
    /// A parameter has a value that is not allowed or does not fit the system.
    Param(ParamError),
    /// A trace cannot be read or used.
    Trace(TraceError),
}

impl WorkloadError {
    /// An error about one named parameter.
    pub(crate) fn param(field: &str, message: impl Into<String>) -> WorkloadError {
        WorkloadError::Param(ParamError::new(field, message))
    }
}

impl From<ParamError> for WorkloadError {
    fn from(error: ParamError) -> Self {
        WorkloadError::Param(error)
    }
}

impl From<TraceError> for WorkloadError {
    fn from(error: TraceError) -> Self {
        WorkloadError::Trace(error)
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadError::Param(error) => error.fmt(f),
            WorkloadError::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WorkloadError {}
