//! What a processor measured of its caches and its home agent.

use cxlab_memory::Statistic;
use serde::{Deserialize, Serialize};

/// Counts since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct ProcessorStats {
    /// Accesses that the first private cache answered.
    pub l1_hits: u64,
    /// Accesses that the second private cache answered.
    pub l2_hits: u64,
    /// Accesses that found their line asked for by an earlier one.
    pub merged: u64,
    /// Transactions of cores at the home agent.
    pub core_requests: u64,
    /// Transactions that found their line in the last-level cache.
    pub llc_hits: u64,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Transactions that waited for a place in the write buffer, with their line.
    pub write_waits: u64,
    /// How long, together.
    pub write_wait_ps: u64,
    /// Lines that made room in the last-level cache.
    pub llc_evictions: u64,
    /// Entries that made room in the directory of a non-inclusive cache.
    pub directory_evictions: u64,
    /// Of those, the ones whose line private caches lost.
    pub back_invalidations: u64,
    /// Transactions in which the home agent had to ask cores for their copies.
    pub core_snoops: u64,
    /// Requests of devices.
    pub device_requests: u64,
    /// Those by which a Type 2 device took a line of its own memory from the host.
    pub bias_requests: u64,
    /// Of those, the ones that write the line (`MemWrFwd`).
    pub bias_writes: u64,
    /// Snoops of devices.
    pub device_snoops: u64,
    /// `BISnpInv` of Type 2 devices.
    pub bi_snoops: u64,
    /// Those that met a request for their line: `BIConflict`.
    pub bi_conflicts: u64,
    /// Those conflicts in which the device had not looked at the request before.
    pub bi_early_conflicts: u64,
    /// `MemSpecRd` sent.
    pub speculative_reads: u64,
    /// Lines of which the directory forgot a device that said `CacheFlushed`.
    pub flushed_lines: u64,
    /// Lines that devices read or wrote by DMA.
    pub dma_lines: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Accesses that met a poisoned line, and reads of page tables and of pages that move.
    pub machine_checks: u64,
    /// Lines that did not reach memory, or of which that is not known.
    pub lost_write_backs: u64,
}

impl ProcessorStats {
    /// By name: what failures and denials did.
    pub fn list_failures(&self) -> [Statistic; 2] {
        let list = [
            ("machine_checks", self.machine_checks),
            ("lost_write_backs", self.lost_write_backs),
        ];
        list.map(|(name, value)| Statistic {
            name: name.to_owned(),
            value: value as f64,
        })
    }

    /// By name: what waited for a place in the write buffer, and how long on average.
    pub fn list_waits(&self) -> [Statistic; 2] {
        let mean_ns = self.write_wait_ps as f64 / 1e3 / self.write_waits.max(1) as f64;
        let list = [
            ("write_waits", self.write_waits as f64),
            ("write_wait_ns", mean_ns),
        ];
        list.map(|(name, value)| Statistic {
            name: name.to_owned(),
            value,
        })
    }

    /// By name: what devices with HDM-DB memory asked for.
    pub fn list_back_invalidation(&self) -> [Statistic; 3] {
        let list = [
            ("bi_snoops", self.bi_snoops),
            ("bi_conflicts", self.bi_conflicts),
            ("bi_early_conflicts", self.bi_early_conflicts),
        ];
        list.map(|(name, value)| Statistic {
            name: name.to_owned(),
            value: value as f64,
        })
    }

    /// By name; `directory`: whether there is a directory of its own size.
    pub fn list(&self, directory: bool) -> Vec<Statistic> {
        let list = [
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
        ];
        let own = [
            ("directory_evictions", self.directory_evictions),
            ("back_invalidations", self.back_invalidations),
        ];
        let own = own.into_iter().filter(|_| directory);
        let list = list.into_iter().chain(own);
        list.map(|(name, value)| Statistic {
            name: name.to_owned(),
            value: value as f64,
        })
        .collect()
    }
}
