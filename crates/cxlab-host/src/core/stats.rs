//! What a core measured of the program it ran.

use cxlab_engine::units::{Picos, SimTime};
use serde::{Deserialize, Serialize};

/// What one phase of a program did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct PhaseStats {
    /// Steps issued.
    pub issued: u64,
    /// Steps whose completion is known.
    pub completed: u64,
    /// Operations of the program completed.
    pub operations: u64,
    /// When its first step was issued.
    pub begin: SimTime,
    /// When its last step so far completed.
    pub end: SimTime,
    /// Summed time from issue to completion of its loads, in picoseconds.
    pub load_ps: u128,
    /// Its loads.
    pub loads: u64,
}

impl PhaseStats {
    /// From its first issue to its last completion.
    pub fn time(&self) -> Picos {
        Picos(self.end.0.saturating_sub(self.begin.0))
    }
}

/// What a core did since the run began.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct CoreStats {
    /// Loads issued.
    pub loads: u64,
    /// Stores issued.
    pub stores: u64,
    /// Flushes issued.
    pub flushes: u64,
    /// Flushes that found a modified line.
    pub flushes_dirty: u64,
    /// Loads and stores that each level answered, nearest first.
    pub hits: Vec<u64>,
    /// Loads and stores that found their line asked for by an earlier one.
    pub merged: u64,
    /// Loads and stores that asked memory for their line.
    pub misses: u64,
    /// Lines that the prefetcher asked memory for.
    pub prefetches: u64,
    /// By phase.
    pub phases: Vec<PhaseStats>,
}
