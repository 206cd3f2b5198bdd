//! Memory media behind one trait. The crate knows addresses and time, but no messages.

mod completion_queue;
pub mod curves;
pub mod data_path;
mod deferred;
pub mod dram;
pub mod fixed;
pub mod interleaved;
mod nested;
pub mod page_cache;
pub mod plugin;
pub mod pmem;
mod split_requests;
pub mod ssd;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod testing;

#[cfg(test)]
extern crate self as cxlab_memory;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Picos, SimTime};

pub use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
pub use deferred::DeferredMedium;
pub use nested::NestedMedium;

/// The surroundings of a medium: its device and its run.
pub struct MediumSite {
    /// The device's capacity.
    pub capacity: Bytes,
    /// The medium's own random stream.
    pub rng: StreamRng,
    /// Settings and fault list that all media of a run share.
    pub context: RunContext,
}

impl MediumSite {
    /// A site for a test or benchmark of a single medium.
    pub fn alone(capacity: Bytes, seed: u64) -> MediumSite {
        MediumSite {
            capacity,
            rng: StreamRng::new(seed, "medium"),
            context: RunContext::default(),
        }
    }
}

/// Settings and fault list that all media of a run share.
#[derive(Clone, Default, Debug)]
pub struct RunContext {
    /// Base folder for relative paths of the scenario. Default: the current folder of the process.
    pub folder: PathBuf,
    /// The list in which a medium reports a fatal fault.
    pub faults: FaultList,
}

/// Fatal faults of the media of a run. A medium is silent after its fault, so the run must check
/// this list before it takes silence for the end of all work.
#[derive(Clone, Default, Debug)]
pub struct FaultList(Arc<Mutex<Vec<(SimTime, String)>>>);

impl FaultList {
    /// Reports that a medium cannot continue after `at`, for the reason `what`.
    pub fn report(&self, at: SimTime, what: String) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push((at, what));
    }

    /// The first fault in simulated time, with its reason.
    pub fn first(&self) -> Option<(SimTime, String)> {
        let faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().min().cloned()
    }
}

/// A file whose content decides the behaviour of a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    /// Name of the parameter that refers to the file.
    pub field: String,
    /// Path of the file as written in the parameter.
    pub path: PathBuf,
}

/// A note on a parameter of a medium: what the medium does that its author may not expect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediumNote {
    /// Name of the parameter.
    pub field: String,
    /// What the medium does.
    pub message: String,
}

impl MediumNote {
    /// A note on one parameter.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> MediumNote {
        MediumNote {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// A checked set of parameters from which a device's backend is built.
pub trait Medium: Send + Sync {
    /// Reads the files of the parameters, relative to `folder`. It must be called once, before the other methods.
    ///
    /// # Errors
    /// The parameter whose file cannot be read or is wrong, with the line of the file.
    fn load(&mut self, _folder: &Path) -> Result<(), ParamError> {
        Ok(())
    }
    /// Checks the parameters against the capacity of the device.
    ///
    /// # Errors
    /// The parameter that does not fit the capacity, and the allowed values.
    fn check(&self, _capacity: Bytes) -> Result<(), ParamError> {
        Ok(())
    }
    /// The largest capacity that the medium supports, if its parameters limit it.
    fn largest(&self) -> Option<Bytes> {
        None
    }
    /// Builds a new backend. [`Medium::check`] must have accepted the capacity before.
    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend>;
    /// Whether [`MemoryBackend::warm`] is supported, which sampled runs need.
    fn can_be_warmed(&self) -> bool {
        true
    }
    /// Whether the medium has state that [`MemoryBackend::warm`] changes.
    fn keeps_state(&self) -> bool {
        true
    }
    /// Time of the slowest operation that ordinary requests start without waiting for its end, such as a program of
    /// flash. Later requests may wait for it, and warming leaves it out. Erases are not counted.
    fn slowest(&self) -> Picos {
        Picos::ZERO
    }
    /// Whether the latency of a request depends on the load by more than its waits for banks and buses.
    /// Waits at one load then do not tell those at another.
    fn latency_follows_load(&self) -> bool {
        false
    }
    /// Whether the content survives a loss of power; `None` if only a part of it does.
    fn is_persistent(&self) -> Option<bool> {
        Some(false)
    }
    /// The files whose content decides the behaviour of the medium.
    fn files(&self) -> Vec<InputFile> {
        Vec::new()
    }
    /// Whether building a backend runs code that the scenario names, such as a shared library. Making
    /// a plan never does so.
    fn runs_code(&self) -> bool {
        false
    }
    /// Notes on the parameters. `outstanding` is the most requests that the owner keeps in the medium,
    /// if it has a bound.
    fn notes(&self, _outstanding: Option<u32>) -> Vec<MediumNote> {
        Vec::new()
    }
    /// Checks that a backend can be built, before a run relies on it. In contrast to
    /// [`Medium::check`] this runs code that the scenario names.
    ///
    /// # Errors
    /// The parameter that is wrong.
    fn rehearse(&self, _capacity: Bytes, _context: &RunContext) -> Result<(), ParamError> {
        Ok(())
    }
    /// Latency of a single read on an idle medium in picoseconds, if it is constant.
    fn idle_read_ps(&self) -> Option<u64>;
}

/// Every medium that a scenario can name.
pub static CATALOG: &[Entry<Box<dyn Medium>>] = &[
    fixed::ENTRY,
    dram::ENTRY,
    pmem::ENTRY,
    ssd::ENTRY,
    page_cache::ENTRY,
    interleaved::ENTRY,
    curves::ENTRY,
    data_path::ENTRY,
    plugin::ENTRY,
];
