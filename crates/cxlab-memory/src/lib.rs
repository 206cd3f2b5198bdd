//! Memory media behind one trait, and the tag arrays of snoop filters and caches with their
//! victim policies. Addresses and time; no messages.

pub mod backend;
mod deferred;
pub mod dram;
mod finished;
pub mod fixed;
pub mod interleaved;
mod nested;
pub mod page_cache;
pub mod plugin;
pub mod pmem;
pub mod prefetch;
pub mod ssd;
pub mod tag_array;
pub mod victim;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Picos, SimTime};

pub use backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
pub use deferred::Deferred;
pub use nested::NestedMedium;
pub use tag_array::{Block, Filled, Geometry, GeometryError, Room, Slot, TagArray};
pub use victim::VictimPolicy;

/// Where a medium stands: what it needs to know of its device and its run.
pub struct Site {
    /// The device's capacity.
    pub capacity: Bytes,
    /// The medium's own stream of random numbers.
    pub rng: StreamRng,
    /// What all media of a run share.
    pub context: RunContext,
}

impl Site {
    /// For tests and benchmarks of a medium by itself.
    pub fn alone(capacity: Bytes, seed: u64) -> Site {
        Site {
            capacity,
            rng: StreamRng::new(seed, "medium"),
            context: RunContext::default(),
        }
    }
}

/// What all media of a run share.
#[derive(Clone, Default, Debug)]
pub struct RunContext {
    /// The folder that relative paths of the scenario start from; by default that of this process.
    pub folder: PathBuf,
    /// Where a medium says that it cannot go on.
    pub faults: Faults,
}

/// What media of a run have said that cannot go on. Such a medium is silent from then on, so that the run has to look
/// here before it takes silence for an end.
#[derive(Clone, Default, Debug)]
pub struct Faults(Arc<Mutex<Vec<(SimTime, String)>>>);

impl Faults {
    /// A medium cannot go on.
    pub fn tell(&self, at: SimTime, what: String) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push((at, what));
    }

    /// The first of them in simulated time: when it was, and what is wrong.
    pub fn first(&self) -> Option<(SimTime, String)> {
        let faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().min().cloned()
    }
}

/// A file whose content decides what a medium does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    /// The parameter that names it.
    pub field: String,
    /// The file, as the parameter says it.
    pub path: PathBuf,
}

/// What builds a backend for a device, from its parameters.
pub trait Medium: Send + Sync {
    /// Whether the medium can be built for a device of that capacity.
    ///
    /// # Errors
    /// The parameter that does not go with the capacity, and what is allowed.
    fn check(&self, _capacity: Bytes) -> Result<(), ParamError> {
        Ok(())
    }
    /// The largest capacity that the medium can be built for, where its parameters say one.
    fn largest(&self) -> Option<Bytes> {
        None
    }
    /// A fresh backend. Only after [`Medium::check`] agreed.
    fn backend(&self, site: Site) -> Box<dyn MemoryBackend>;
    /// Whether [`MemoryBackend::warm`] applies requests to its state, which sampled runs need.
    fn can_be_warmed(&self) -> bool {
        true
    }
    /// Whether [`MemoryBackend::warm`] changes anything.
    fn keeps_state(&self) -> bool {
        true
    }
    /// Time of the slowest operation that requests of ordinary traffic start and do not wait for, such as a
    /// program of flash: later requests meet it, and warming leaves it out. Erases are not counted.
    fn slowest(&self) -> Picos {
        Picos::ZERO
    }
    /// Whether what it holds outlives a loss of power: `None` where that is so of a part of it.
    fn is_persistent(&self) -> Option<bool> {
        Some(false)
    }
    /// The files whose content decides what the medium does.
    fn files(&self) -> Vec<InputFile> {
        Vec::new()
    }
    /// Makes sure that a backend can be had, before a run counts on it: runs code that the scenario names, which
    /// [`Medium::check`] does not.
    ///
    /// # Errors
    /// The parameter that is wrong.
    fn rehearse(&self, _capacity: Bytes, _context: &RunContext) -> Result<(), ParamError> {
        Ok(())
    }
    /// Time of one read alone on an idle medium, in picoseconds, where that is a constant.
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
    plugin::ENTRY,
];
