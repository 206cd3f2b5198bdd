//! Errors of recording a program's accesses.

use std::fmt;
use std::io;
use std::process::ExitStatus;

use crate::error::TraceError;

/// Why a program could not be recorded.
#[derive(Debug)]
pub enum CaptureError {
    /// No command was given.
    NoCommand,
    /// Valgrind is not installed.
    NoValgrind,
    /// QEMU's user mode cannot be used; the text says why.
    NoQemu(String),
    /// The recorder cannot be started.
    Start(io::Error),
    /// The pipe for the recorder's output cannot be made.
    Pipe(io::Error),
    /// Waiting for the end of the command failed.
    Wait(io::Error),
    /// The command ended without a memory access; usually the command was not found.
    NothingRecorded {
        /// The command's exit status.
        exit: ExitStatus,
    },
    /// The recorder's output cannot be read, or the trace cannot be written.
    Trace(TraceError),
}

impl CaptureError {
    pub(super) fn from_spawn(error: io::Error) -> CaptureError {
        match error.kind() {
            io::ErrorKind::NotFound => CaptureError::NoValgrind,
            _ => CaptureError::Start(error),
        }
    }
}

impl From<TraceError> for CaptureError {
    fn from(error: TraceError) -> Self {
        CaptureError::Trace(error)
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::NoCommand => {
                f.write_str("found no command; allowed: PROGRAM [ARGUMENT ...]")
            }
            CaptureError::NoValgrind => f.write_str(
                "`valgrind` is not installed; install it with `apt-get install valgrind`, or the \
                 faster QEMU 7.2 with `apt-get install qemu-user`",
            ),
            CaptureError::NoQemu(why) => write!(f, "QEMU's user mode cannot be used: {why}"),
            CaptureError::Start(error) => write!(f, "cannot start the recording: {error}"),
            CaptureError::Pipe(error) => write!(f, "cannot make a pipe: {error}"),
            CaptureError::Wait(error) => write!(f, "cannot wait for the command: {error}"),
            CaptureError::NothingRecorded { exit } => write!(
                f,
                "the command ended without a memory access ({exit}): is it a program that can be run?"
            ),
            CaptureError::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CaptureError {}
