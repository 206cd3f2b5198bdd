//! Which virtual machines (VMs) come when: the catalog of demand.

mod csv;
mod generator;
pub(crate) use generator::normal;
mod lifetime;

use std::path::Path;

use cxlab_engine::catalog::Entry;
use cxlab_engine::choice;
use cxlab_engine::rng::StreamRng;

pub use csv::{Csv, Table};
pub use generator::{Generator, MemoryPerCore, Weighted};
pub use lifetime::{Lifetimes, Point};

/// What a VM asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    /// When it comes, in seconds; 0 for those that are there at the beginning.
    pub start_s: u64,
    /// When it goes, in seconds; after `start_s`.
    pub end_s: u64,
    /// Cores, 1 or more.
    pub cores: u32,
    /// Memory in MiB, 1 or more.
    pub memory_mib: u32,
    /// Part of time lost at the reference latency, where it is known.
    pub loss: Option<f64>,
    /// The part of its memory that it never touches, where it is known.
    pub untouched: Option<f64>,
}

/// The cluster whose demand is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterDemand {
    /// Its number.
    pub index: usize,
    /// How many clusters there are.
    pub of: usize,
    /// Cores of its hosts in all.
    pub cores: u64,
    /// Cores of one host: no VM that asks for more is made.
    pub host_cores: u32,
    /// Seconds of demand.
    pub span_s: u64,
}

/// Demand that cannot be read.
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
    /// Reads what it needs; relative paths start from `folder`.
    ///
    /// # Errors
    /// A file that cannot be read, or a mistake in it, with its line and column.
    fn open(&mut self, folder: &Path) -> Result<(), DemandError> {
        let _ = folder;
        Ok(())
    }

    /// The VMs of a cluster in the order of their starts; all start before `span_s`.
    fn asks(&self, cluster: &ClusterDemand, rng: &mut StreamRng) -> Vec<Ask>;

    /// The most memory for a core that any VM asks for, in MiB.
    fn most_mib_per_core(&self) -> f64;

    /// Bytes of a file that it has read, for the hash of a study.
    fn content(&self) -> &[u8] {
        &[]
    }
}

/// Every kind of demand, in the order of `cxlab list`.
pub const CATALOG: &[Entry<Box<dyn Demand>>] = &[generator::ENTRY, csv::ENTRY];

choice!(
    /// A kind of demand from the catalog.
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
