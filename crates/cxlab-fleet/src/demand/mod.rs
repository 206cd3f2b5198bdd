//! Demand for virtual machines (VMs): the catalog of its sources.

mod csv;
mod generator;
pub(crate) use generator::normal;
mod lifetime;

use std::path::Path;

use cxlab_engine::catalog::Entry;
use cxlab_engine::choice;
use cxlab_engine::rng::StreamRng;

pub use csv::{Csv, Table};
pub use generator::{Generator, MemoryPerCore, WeightedCores};
pub use lifetime::{Lifetimes, Point};

/// A VM as its demand requests it.
#[derive(Clone, PartialEq, Debug)]
pub struct VmRequest {
    /// Arrival time in seconds. 0 for VMs that run at the beginning.
    pub start_s: u64,
    /// Departure time in seconds, after `start_s`.
    pub end_s: u64,
    /// Number of cores, 1 or more.
    pub cores: u32,
    /// Memory in MiB, 1 or more.
    pub memory_mib: u32,
    /// Share of time lost at the reference latency, if it is known.
    pub loss: Option<f64>,
    /// Share of its memory that the VM never touches, if it is known.
    pub untouched: Option<f64>,
}

/// A cluster, as its demand depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterDemand {
    /// Number of the cluster, from 0.
    pub index: usize,
    /// Number of clusters in the fleet.
    pub of: usize,
    /// Total number of cores of its hosts.
    pub cores: u64,
    /// Number of cores of one host. No VM requests more.
    pub host_cores: u32,
    /// Length of the demand, in seconds.
    pub span_s: u64,
}

/// The message of demand that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DemandError(pub String);

impl std::fmt::Display for DemandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DemandError {}

/// A source of demand.
pub trait Demand: std::fmt::Debug + Send + Sync {
    /// Reads the files that the source needs. Relative paths start from `folder`.
    ///
    /// # Errors
    /// A file that cannot be read, or a mistake in it, with its line and column.
    fn open(&mut self, folder: &Path) -> Result<(), DemandError> {
        let _ = folder;
        Ok(())
    }

    /// The VMs of a cluster in the order of their starts, all of which are before `span_s`.
    fn asks(&self, cluster: &ClusterDemand, rng: &mut StreamRng) -> Vec<VmRequest>;

    /// Largest memory per core that a VM requests, in MiB.
    fn most_mib_per_core(&self) -> f64;

    /// Bytes of the file that was read, for the hash of a study.
    fn content(&self) -> &[u8] {
        &[]
    }
}

/// All sources of demand, in the order of `cxlab list`.
pub static CATALOG: &[Entry<Box<dyn Demand>>] = &[generator::ENTRY, csv::ENTRY];

choice!(
    /// A source of demand from the catalog.
    DemandChoice,
    CATALOG,
    Box<dyn Demand>
);

impl Default for DemandChoice {
    fn default() -> Self {
        DemandChoice {
            kind: "generator".to_owned(),
            params: serde_json::Map::new(),
        }
    }
}
