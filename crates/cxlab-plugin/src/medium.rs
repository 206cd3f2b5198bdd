//! A medium, in this process or in one of its own.

use std::path::Path;

use crate::{Completion, MediumFailure, MediumProcess, PluginError, ROOM, Request};
use crate::{library, process, trust};

/// A medium that a library has created. Calls fail when its process has ended or does not respond. A process that
/// ends during a call without an answer may be detected only by the next call.
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
        place: MediumProcess,
    ) -> Result<Medium, PluginError> {
        trust::check(library)?;
        Ok(Medium(match place {
            MediumProcess::Here => {
                let library = library::Library::open(library)?;
                Runs::Here(library.create(config, capacity, seed)?)
            }
            MediumProcess::Apart(patience) => {
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
    pub fn can_accept(&self, now: u64, write: bool) -> Result<bool, MediumFailure> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.can_accept(now, write)),
            Runs::Apart(medium) => medium.can_accept(now, write),
        }
    }

    /// Passes a request to the medium, without an answer.
    pub fn enqueue(&self, now: u64, request: &Request) -> Result<(), MediumFailure> {
        match &self.0 {
            Runs::Here(medium) => {
                medium.enqueue(now, request);
                Ok(())
            }
            Runs::Apart(medium) => medium.enqueue(now, request),
        }
    }

    /// The time of the medium's next event, or [`NEVER`](crate::NEVER).
    pub fn next_event(&self) -> Result<u64, MediumFailure> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.next_event()),
            Runs::Apart(medium) => medium.next_event(),
        }
    }

    /// Advances the medium to time `now`, writes its completions to `done`, and returns how many the
    /// library claims to have written.
    pub fn advance(&self, now: u64, done: &mut [Completion; ROOM]) -> Result<usize, MediumFailure> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.advance(now, done)),
            Runs::Apart(medium) => medium.advance(now, done),
        }
    }

    /// Starts the statistics anew at time `now`, without an answer. The statistics of a library without
    /// `begin_measurement` continue to count from the start of the run.
    pub fn begin_measurement(&self, now: u64) -> Result<(), MediumFailure> {
        match &self.0 {
            Runs::Here(medium) => {
                medium.begin_measurement(now);
                Ok(())
            }
            Runs::Apart(medium) => medium.begin_measurement(now),
        }
    }

    /// The name and value of a statistic by number, from 0; `None` after the last.
    pub fn statistic(&self, number: usize) -> Result<Option<(String, f64)>, MediumFailure> {
        match &self.0 {
            Runs::Here(medium) => Ok(medium.statistic(number)),
            Runs::Apart(medium) => medium.statistic(number),
        }
    }
}
