//! Enumeration by hosts.

use serde::{Deserialize, Serialize};

/// Accesses of a host's enumeration. Writes to memory are posted. Software waits for all other accesses.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, Debug)]
pub struct Accesses {
    /// Reads of configuration space.
    pub config_reads: u64,
    /// Writes to configuration space.
    pub config_writes: u64,
    /// Reads of registers in memory.
    pub memory_reads: u64,
    /// Writes to registers in memory.
    pub memory_writes: u64,
}

impl Accesses {
    /// Total number of accesses.
    pub fn total(&self) -> u64 {
        self.config_reads + self.config_writes + self.memory_reads + self.memory_writes
    }
}

/// A phase of a host's enumeration.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct EnumerationPhase {
    /// `scan`, `size`, `assign`, `discover` or `decode`.
    pub name: String,
    /// Duration of the phase.
    pub duration_ns: f64,
    /// Accesses made in the phase.
    pub accesses: Accesses,
}

/// A host's enumeration.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct EnumerationReport {
    /// Duration from the beginning of the run.
    pub duration_ns: f64,
    /// Functions found: ports and devices.
    pub functions: u64,
    /// Devices among them.
    pub devices: u64,
    /// Accesses made in all phases.
    pub accesses: Accesses,
    /// Phases, in order.
    pub phases: Vec<EnumerationPhase>,
}
