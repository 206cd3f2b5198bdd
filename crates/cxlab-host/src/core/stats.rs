//! Statistics of the program that a core ran.

use cxlab_engine::units::{Picos, SimTime};
use serde::{Deserialize, Serialize};

/// Statistics of one phase of a program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct PhaseStats {
    /// Number of steps issued.
    pub issued: u64,
    /// Number of steps whose completion time is known.
    pub completed: u64,
    /// Number of completed operations of the program.
    pub operations: u64,
    /// When the phase's first step was issued.
    pub begin: SimTime,
    /// When the phase's last step so far completed.
    pub end: SimTime,
    /// Summed time from issue to completion of the phase's loads, in picoseconds.
    pub load_ps: u128,
    /// Number of loads whose completion time is known.
    pub loads: u64,
}

impl PhaseStats {
    /// Time from the phase's first issue to its last completion.
    pub fn time(&self) -> Picos {
        Picos(self.end.0.saturating_sub(self.begin.0))
    }
}

/// Statistics of a core since the run began.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct CoreStats {
    /// Number of loads issued.
    pub loads: u64,
    /// Number of stores issued.
    pub stores: u64,
    /// Number of flushes issued.
    pub flushes: u64,
    /// Number of flushes that found a modified line.
    pub flushes_dirty: u64,
    /// Number of loads and stores that hit in each cache level, nearest first.
    pub hits: Vec<u64>,
    /// Number of loads and stores that merged with an outstanding fill of their line.
    pub merged: u64,
    /// Number of loads and stores that missed and requested their line from memory.
    pub misses: u64,
    /// Number of lines that the prefetcher requested from memory.
    pub prefetches: u64,
    /// Time in which a step of the program waited for memory, however many did at once, in picoseconds.
    pub outstanding_ps: u64,
    /// Statistics of each phase of the program.
    pub phases: Vec<PhaseStats>,
}

/// Times of one of several threads of a program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadTimes {
    /// When the thread began.
    pub begin: SimTime,
    /// When its last step so far completed.
    pub end: SimTime,
    /// Time in between in which it waited for other threads.
    pub waited: Picos,
}

impl ThreadTimes {
    /// Time in which the thread computed or waited for memory.
    pub fn busy(&self) -> Picos {
        Picos(self.end.0.saturating_sub(self.begin.0 + self.waited.0))
    }
}
