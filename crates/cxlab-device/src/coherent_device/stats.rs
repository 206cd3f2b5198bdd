//! Counters of a device's coherence.

use cxlab_engine::units::Picos;
use cxlab_protocol::coherence::message::M2s;
use serde::{Deserialize, Serialize};

/// Counters of a device's DCOH and snoop filter since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct DcohStats {
    /// `MemRdData` requests.
    pub reads_data: u64,
    /// `MemRd` requests with MetaValue Shared.
    pub reads_shared: u64,
    /// `MemRd` requests with MetaValue Any, for ownership.
    pub reads_own: u64,
    /// `MemRd` requests with MetaValue Invalid and SnpCur.
    pub reads_current: u64,
    /// `MemInv` requests with MetaValue Any, for ownership.
    pub upgrades: u64,
    /// `MemInv` requests with MetaValue Invalid.
    pub flushes: u64,
    /// `MemClnEvct` requests.
    pub clean_evictions: u64,
    /// `MemWr` messages.
    pub writebacks: u64,
    /// `BIConflict` messages.
    pub conflicts: u64,
    /// Requests that need an entry, and whose line had one when their turn came.
    pub filter_hits: u64,
    /// Requests that need an entry, and whose line had none.
    pub filter_misses: u64,
    /// Lines whose entries were evicted.
    pub evictions: u64,
    /// Snoop messages sent, by `Snoop`.
    pub snoops: [u64; 3],
    /// Snoop messages for several lines.
    pub block_snoops: u64,
    /// Block snoops that join snoops for requests.
    pub joined_snoops: u64,
    /// Responses to snoops for several lines at once, by `Kept`.
    pub block_answers: [u64; 3],
    /// Copies invalidated by snoops: a line with several holders counts for each.
    pub invalidated: u64,
    /// Requests that waited for their line.
    pub line_waits: u64,
    /// Total time of `line_waits`.
    pub line_wait: Picos,
    /// Requests that waited for an entry.
    pub entry_waits: u64,
    /// Total time of `entry_waits`.
    pub entry_wait: Picos,
    /// Requests that waited for snoops of their own line.
    pub snoop_waits: u64,
    /// Total time of `snoop_waits`.
    pub snoop_wait: Picos,
    /// Entries in use at present.
    pub entries: u32,
    /// Maximum number of entries in use at once.
    pub peak_entries: u32,
}

impl DcohStats {
    /// Total time of requests in the stage `coherence`.
    pub fn coherence(&self) -> Picos {
        Picos(self.line_wait.0 + self.entry_wait.0 + self.snoop_wait.0)
    }

    /// Number of requests on M2S Req.
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
