//! What stands for media of shared libraries on systems that are not Unix: an error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Broken, Completion, Place, PluginError, ROOM, Request};

/// A program that runs media, which is never used.
#[derive(Clone, Debug)]
pub struct Host {
    /// The executable file.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
}

/// Sets the program that runs media, which is never used.
pub fn host(_: Host) {}

/// Serves no medium; the exit code of a mistake.
pub fn serve(_: &[OsString]) -> u8 {
    2
}

/// A medium that a library has created: there is none.
#[derive(Debug)]
pub enum Medium {}

impl Medium {
    /// Refuses to create a medium.
    ///
    /// # Errors
    /// Every library is refused.
    pub fn create(_: &Path, _: (&str, u64, u64), _: Place) -> Result<Medium, PluginError> {
        let message = "media in shared libraries run on Linux and macOS only";
        Err(PluginError::Library(message.to_owned()))
    }

    /// Bytes that the medium reads and writes at a time.
    pub fn granule(&self) -> u32 {
        match *self {}
    }

    /// Whether the medium can accept one more request.
    ///
    /// # Errors
    /// Never, as there is no medium.
    pub fn can_accept(&self, _: u64, _: bool) -> Result<bool, Broken> {
        match *self {}
    }

    /// Passes a request to the medium.
    ///
    /// # Errors
    /// Never, as there is no medium.
    pub fn enqueue(&self, _: u64, _: &Request) -> Result<(), Broken> {
        match *self {}
    }

    /// The time of the medium's next event.
    ///
    /// # Errors
    /// Never, as there is no medium.
    pub fn next_event(&self) -> Result<u64, Broken> {
        match *self {}
    }

    /// Advances the medium.
    ///
    /// # Errors
    /// Never, as there is no medium.
    pub fn advance(&self, _: u64, _: &mut [Completion; ROOM]) -> Result<usize, Broken> {
        match *self {}
    }

    /// Starts the statistics anew.
    ///
    /// # Errors
    /// Never, as there is no medium.
    pub fn begin_measurement(&self, _: u64) -> Result<(), Broken> {
        match *self {}
    }

    /// A statistic by number.
    ///
    /// # Errors
    /// Never, as there is no medium.
    pub fn statistic(&self, _: usize) -> Result<Option<(String, f64)>, Broken> {
        match *self {}
    }
}
