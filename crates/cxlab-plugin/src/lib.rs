//! Memory backends from shared libraries, through the C interface of `include/cxlab_medium.h`.
//!
//! A [`Medium`] runs in a process of its own. A library that crashes, exits or never returns
//! therefore ends only that process, and the error names the function in which that happened.
//! [`Place::Here`] loads the library into this process instead, which is faster, and only as safe
//! as the library. The caller checks the values that a medium returns.
//!
//! A library runs only with the user's permission: see [`trust`].
//!
//! All `unsafe` code of cxlab for libraries is in this crate. One thing cannot be checked: that the
//! library's functions are as the header declares them.

mod library;
mod process;
mod ring;
mod serve;
pub mod trust;

use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use library::ABI;
pub use process::{Host, host};
pub use serve::serve;

/// The time of an event that never happens, `CXLAB_NEVER` in the header.
pub const NEVER: u64 = u64::MAX;

/// A read or write request to a medium, `struct cxlab_request` of the header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Address of the first byte, counted from the beginning of the device.
    pub address: u64,
    /// Identifier of the request, which its completion returns.
    pub id: u32,
    /// Number of lines of 64 bytes, 1 to 1,024.
    pub lines: u16,
    /// 1 for a write, 0 for a read.
    pub write: u16,
}

/// The completion of a request, `struct cxlab_completion` of the header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Completion {
    /// Time of completion in picoseconds.
    pub at: u64,
    /// Identifier of the completed request.
    pub id: u32,
    /// Unused, always 0.
    pub reserved: u32,
}

/// Why a library or one of its media cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PluginError {
    /// The library cannot be loaded, or does not have this interface.
    Library(String),
    /// The library rejects the configuration.
    Config(String),
}

/// The error of a medium that failed while in use: in which function, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken(pub String);

/// The process in which the code of a medium runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the calling process.
    Here,
    /// In a process of its own, in which every call must return within this real time.
    Apart(Duration),
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PluginError::Library(why) | PluginError::Config(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PluginError {}

/// A medium that a library has created.
pub struct Medium(Runs);

enum Runs {
    Here(library::Medium),
    Apart(process::Medium),
}

impl Medium {
    /// Creates a medium of `capacity` bytes from a library that [is trusted](trust::check).
    ///
    /// # Errors
    /// Says what is wrong with the library, or what the library says about the configuration.
    pub fn create(
        library: &Path,
        (config, capacity, seed): (&str, u64, u64),
        place: Place,
    ) -> Result<Medium, PluginError> {
        trust::check(library)?;
        Ok(Medium(match place {
            Place::Here => {
                let library = library::Library::open(library)?;
                Runs::Here(library.create(config, capacity, seed)?)
            }
            Place::Apart(patience) => {
                let settings = (config, capacity, seed);
                Runs::Apart(process::Medium::create(library, settings, patience)?)
            }
        }))
    }

    /// Bytes that the medium reads and writes at a time.
    pub fn granule(&self) -> u32 {
        match &self.0 {
            Runs::Here(medium) => medium.granule(),
            Runs::Apart(medium) => medium.granule(),
        }
    }

    /// Whether the medium can accept one more request at time `now`.
    ///
    /// # Errors
    /// When the medium's process has ended or does not respond.
    pub fn can_accept(&self, now: u64, write: bool) -> Result<bool, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.can_accept(now, write)),
            Runs::Apart(medium) => medium.can_accept(now, write),
        }
    }

    /// Passes a request to the medium.
    ///
    /// # Errors
    /// Those of [`Medium::can_accept`]. A process that ends during this call may be detected only
    /// by the next call.
    pub fn enqueue(&self, now: u64, request: &Request) -> Result<(), Broken> {
        match &self.0 {
            Runs::Here(medium) => {
                medium.enqueue(now, request);
                Ok(())
            }
            Runs::Apart(medium) => medium.enqueue(now, request),
        }
    }

    /// The time of the medium's next event, or [`NEVER`].
    ///
    /// # Errors
    /// When the medium's process has ended or does not respond.
    pub fn next_event(&self) -> Result<u64, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.next_event()),
            Runs::Apart(medium) => medium.next_event(),
        }
    }

    /// Advances the medium to time `now`, writes its completions to `done`, and returns how many the
    /// library claims to have written.
    ///
    /// # Errors
    /// When the medium's process has ended or does not respond.
    pub fn advance(&self, now: u64, done: &mut [Completion; ROOM]) -> Result<usize, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.advance(now, done)),
            Runs::Apart(medium) => medium.advance(now, done),
        }
    }

    /// Starts the statistics anew at time `now`. The statistics of a library without
    /// `begin_measurement` continue to count from the start of the run.
    ///
    /// # Errors
    /// Those of [`Medium::can_accept`]. A process that ends during this call may be detected only
    /// by the next call.
    pub fn begin_measurement(&self, now: u64) -> Result<(), Broken> {
        match &self.0 {
            Runs::Here(medium) => {
                medium.begin_measurement(now);
                Ok(())
            }
            Runs::Apart(medium) => medium.begin_measurement(now),
        }
    }

    /// The name and value of a statistic by number, from 0; `None` after the last.
    ///
    /// # Errors
    /// When the medium's process has ended or does not respond.
    pub fn statistic(&self, number: usize) -> Result<Option<(String, f64)>, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.statistic(number)),
            Runs::Apart(medium) => medium.statistic(number),
        }
    }
}

/// Most completions that a library can return from one call.
pub const ROOM: usize = 64;
