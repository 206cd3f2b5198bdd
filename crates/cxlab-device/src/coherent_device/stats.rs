//! What the coherence of a device counted.

use cxlab_engine::units::Picos;
use cxlab_protocol::coherence::message::M2s;
use serde::{Deserialize, Serialize};

/// What a device's DCOH and snoop filter counted since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct DcohStats {
    /// `MemRdData`.
    pub reads_data: u64,
    /// `MemRd`, Shared.
    pub reads_shared: u64,
    /// `MemRd`, Any.
    pub reads_own: u64,
    /// `MemRd`, Invalid, SnpCur.
    pub reads_current: u64,
    /// `MemInv`, Any.
    pub upgrades: u64,
    /// `MemInv`, Invalid.
    pub flushes: u64,
    /// `MemClnEvct`.
    pub clean_evictions: u64,
    /// `MemWr`.
    pub writebacks: u64,
    /// `BIConflict`.
    pub conflicts: u64,
    /// Requests that need an entry and found their line's when their turn came.
    pub filter_hits: u64,
    /// Requests that need an entry and found none of their line.
    pub filter_misses: u64,
    /// Entries evicted, by lines.
    pub evictions: u64,
    /// Snoop messages sent, by `Snoop`.
    pub snoops: [u64; 3],
    /// Snoop messages for several lines.
    pub block_snoops: u64,
    /// Those among them that join snoops for requests.
    pub joined_snoops: u64,
    /// Answers to snoops for several lines at once, by `Kept`.
    pub block_answers: [u64; 3],
    /// Copies that snoop answers gave up: a line in several holders counts for each.
    pub invalidated: u64,
    /// Requests that waited for their line, and how long in all.
    pub line_waits: u64,
    /// As above.
    pub line_wait: Picos,
    /// Requests that waited for an entry, and how long in all.
    pub entry_waits: u64,
    /// As above.
    pub entry_wait: Picos,
    /// Requests that waited for snoops of their own line, and how long in all.
    pub snoop_waits: u64,
    /// As above.
    pub snoop_wait: Picos,
    /// Entries in use, now.
    pub entries: u32,
    /// Most entries in use at once.
    pub peak_entries: u32,
}

impl DcohStats {
    /// Time that requests spent in the stage `coherence`.
    pub fn coherence(&self) -> Picos {
        Picos(self.line_wait.0 + self.entry_wait.0 + self.snoop_wait.0)
    }

    /// Requests on M2S Req.
    pub fn requests(&self) -> u64 {
        self.reads_data
            + self.reads_shared
            + self.reads_own
            + self.reads_current
            + self.upgrades
            + self.flushes
            + self.clean_evictions
    }

    pub(super) fn count(&mut self, message: M2s) {
        match message {
            M2s::MemRdData => self.reads_data += 1,
            M2s::MemRdShared => self.reads_shared += 1,
            M2s::MemRdOwn => self.reads_own += 1,
            M2s::MemRdCur => self.reads_current += 1,
            M2s::MemInvOwn => self.upgrades += 1,
            M2s::MemInvFlush => self.flushes += 1,
            M2s::MemClnEvct => self.clean_evictions += 1,
            M2s::MemWr(_) => self.writebacks += 1,
            M2s::BiConflict => self.conflicts += 1,
            M2s::BiRsp(_) => {}
        }
    }
}
