//! Statistics of a processor's caches and its home agent.

use cxlab_cache::Statistic;
use serde::{Deserialize, Serialize};

/// Counts of `BISnpInv` of Type 2 devices.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct BackInvalidationStats {
    /// Snoops.
    pub snoops: u64,
    /// Snoops that met an outstanding request for their line (`BIConflict`).
    pub conflicts: u64,
    /// Conflicts in which the device had not seen the host's request before its snoop.
    pub early_conflicts: u64,
}

/// Counts since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct ProcessorStats {
    /// Accesses that hit in the first private cache.
    pub l1_hits: u64,
    /// Accesses that hit in the second private cache.
    pub l2_hits: u64,
    /// Accesses that merged with an outstanding request for their line.
    pub merged: u64,
    /// Transactions of cores at the home agent.
    pub core_requests: u64,
    /// Transactions that found their line in the last-level cache.
    pub llc_hits: u64,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Transactions that waited for an entry of the write buffer while they had their line.
    pub write_waits: u64,
    /// Sum of these waits, in picoseconds.
    pub write_wait_ps: u64,
    /// Lines evicted from the last-level cache.
    pub llc_evictions: u64,
    /// Entries evicted from the directory of a non-inclusive cache.
    pub directory_evictions: u64,
    /// Directory evictions that invalidated copies in private caches.
    pub back_invalidations: u64,
    /// Transactions in which the home agent had to snoop cores.
    pub core_snoops: u64,
    /// CXL.cache requests of devices.
    pub device_requests: u64,
    /// Requests by which a Type 2 device took a line of its own memory from the host.
    pub bias_requests: u64,
    /// Bias requests that write the line (`MemWrFwd`).
    pub bias_writes: u64,
    /// Snoops sent to devices.
    pub device_snoops: u64,
    /// Back-invalidation by Type 2 devices.
    pub back_invalidation: BackInvalidationStats,
    /// `MemSpecRd` sent.
    pub speculative_reads: u64,
    /// Lines for which the directory removed a device that sent `CacheFlushed`.
    pub flushed_lines: u64,
    /// Lines that devices read or wrote by DMA.
    pub dma_lines: u64,
    /// Interrupts raised by devices.
    pub interrupts: u64,
    /// Accesses that met a poisoned line, and poisoned reads of page tables and of moving pages.
    pub machine_checks: u64,
    /// Lines that did not reach memory, or may not have reached it.
    pub lost_write_backs: u64,
}

impl ProcessorStats {
    /// Appends statistics of failures and denials, by name.
    pub(super) fn list_failures(&self, list: &mut Vec<Statistic>) {
        let counts = [
            ("machine_checks", self.machine_checks as f64),
            ("lost_write_backs", self.lost_write_backs as f64),
        ];
        Statistic::append(list, "", &counts);
    }

    /// Appends statistics of waits for the write buffer, by name: their number and mean time.
    pub(super) fn list_waits(&self, list: &mut Vec<Statistic>) {
        let mean_ns = self.write_wait_ps as f64 / 1e3 / self.write_waits.max(1) as f64;
        let counts = [
            ("write_waits", self.write_waits as f64),
            ("write_wait_ns", mean_ns),
        ];
        Statistic::append(list, "", &counts);
    }

    /// Appends statistics of devices with HDM-DB memory, by name.
    pub(super) fn list_back_invalidation(&self, list: &mut Vec<Statistic>) {
        let stats = &self.back_invalidation;
        let counts = [
            ("bi_snoops", stats.snoops as f64),
            ("bi_conflicts", stats.conflicts as f64),
            ("bi_early_conflicts", stats.early_conflicts as f64),
        ];
        Statistic::append(list, "", &counts);
    }

    /// Appends statistics of caches and home agent, by name. `directory` says whether the directory
    /// has a size of its own.
    pub(super) fn list(&self, list: &mut Vec<Statistic>, directory: bool) {
        let counts = [
            ("l1_hits", self.l1_hits),
            ("l2_hits", self.l2_hits),
            ("merged", self.merged),
            ("core_requests", self.core_requests),
            ("llc_hits", self.llc_hits),
            ("memory_reads", self.memory_reads),
            ("memory_writes", self.memory_writes),
            ("llc_evictions", self.llc_evictions),
            ("core_snoops", self.core_snoops),
            ("device_requests", self.device_requests),
            ("bias_requests", self.bias_requests),
            ("bias_writes", self.bias_writes),
            ("device_snoops", self.device_snoops),
            ("flushed_lines", self.flushed_lines),
            ("speculative_reads", self.speculative_reads),
            ("dma_lines", self.dma_lines),
            ("interrupts", self.interrupts),
            ("directory_evictions", self.directory_evictions),
            ("back_invalidations", self.back_invalidations),
        ];
        let counts = counts.map(|(name, value)| (name, value as f64));
        let shared = counts.len() - if directory { 0 } else { 2 };
        Statistic::append(list, "", &counts[..shared]);
    }
}
