//! Memory media from shared libraries, over the C ABI of `include/cxlab_medium.h`.
//!
//! A [`Medium`] runs in a process of its own, so that a library that crashes, ends the process or never returns
//! ends that one alone, and says so by the name of the function that it was in. [`Place::Here`] loads it into this
//! process instead, which is faster and as safe as the library is. The caller checks what a medium says.
//!
//! No library is run without a word of the user: [`trust`].
//!
//! All `unsafe` of cxlab for libraries is here. What cannot be checked is that the functions are what the header
//! says.

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

/// Nothing happens, `CXLAB_NEVER` in the header.
pub const NEVER: u64 = u64::MAX;

/// `struct cxlab_request`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// First byte, counted from the beginning of the device.
    pub address: u64,
    /// Comes back in the completion.
    pub id: u32,
    /// Lines of 64 bytes, 1 to 1,024.
    pub lines: u16,
    /// 1 for a write, 0 for a read.
    pub write: u16,
}

/// `struct cxlab_completion`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Completion {
    /// When it was done, in picoseconds.
    pub at: u64,
    /// Of the request.
    pub id: u32,
    /// 0.
    pub reserved: u32,
}

/// Why a library or a medium cannot be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PluginError {
    /// The library cannot be loaded, or is not of this interface.
    Library(String),
    /// The library refuses the configuration.
    Config(String),
}

/// A medium that cannot be used any more: what happened, in which function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken(pub String);

/// Where the code of a medium runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In this process.
    Here,
    /// In a process of its own, of which every call has to return within that real time.
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

/// A medium of a library.
pub struct Medium(Runs);

enum Runs {
    Here(library::Medium),
    Apart(process::Medium),
}

impl Medium {
    /// A new medium of so many bytes, from a library that [is trusted](trust::check).
    ///
    /// # Errors
    /// What is wrong with the library, or what it says of the configuration.
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

    /// Bytes that it reads and writes as a whole.
    pub fn granule(&self) -> u32 {
        match &self.0 {
            Runs::Here(medium) => medium.granule(),
            Runs::Apart(medium) => medium.granule(),
        }
    }

    /// Whether one more request can be taken.
    ///
    /// # Errors
    /// The medium's process has ended, or does not answer.
    pub fn can_accept(&self, now: u64, write: bool) -> Result<bool, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.can_accept(now, write)),
            Runs::Apart(medium) => medium.can_accept(now, write),
        }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// As [`Medium::can_accept`]; a process that ends in this call may be found by the next one.
    pub fn enqueue(&self, now: u64, request: &Request) -> Result<(), Broken> {
        match &self.0 {
            Runs::Here(medium) => {
                medium.enqueue(now, request);
                Ok(())
            }
            Runs::Apart(medium) => medium.enqueue(now, request),
        }
    }

    /// When something happens next, or [`NEVER`].
    ///
    /// # Errors
    /// As [`Medium::can_accept`].
    pub fn next_event(&self) -> Result<u64, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.next_event()),
            Runs::Apart(medium) => medium.next_event(),
        }
    }

    /// Writes completions into `done`; how many the library says it wrote.
    ///
    /// # Errors
    /// As [`Medium::can_accept`].
    pub fn advance(&self, now: u64, done: &mut [Completion; ROOM]) -> Result<usize, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.advance(now, done)),
            Runs::Apart(medium) => medium.advance(now, done),
        }
    }

    /// The statistic of that number, from 0 on.
    ///
    /// # Errors
    /// As [`Medium::can_accept`].
    pub fn statistic(&self, number: usize) -> Result<Option<(String, f64)>, Broken> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.statistic(number)),
            Runs::Apart(medium) => medium.statistic(number),
        }
    }
}

/// Completions that a library can hand out at once.
pub const ROOM: usize = 64;
