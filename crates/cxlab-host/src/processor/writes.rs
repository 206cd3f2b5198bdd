//! The write buffer of the home agent: a bounded number of lines in flight to memory.
//!
//! A transaction reserves entries for its possible writes before it does anything. When it is over, it
//! returns the entries that it has not used. A device's eviction is therefore pulled only when an entry for
//! its data is free; until then it keeps its CQID. A request that needs a directory entry waits if a
//! modified line must be evicted for it. Both kinds wait in one queue, in order of arrival, and a request
//! that writes nothing passes them.
//!
//! # Progress
//! An entry becomes free when memory has accepted its line, or when the transaction that reserved it is
//! over. Memory waits for no transaction. A transaction with its entries waits for devices' responses
//! to snoops and for reads of memory, and neither needs an entry. So the entries needed by the first in
//! the queue become free.
//!
//! # Beyond the limit
//! In a non-inclusive cache, a line that is inserted may evict another at any time until its transaction is
//! over. A transaction enters such a directory only while an entry is free. The lines that the transactions
//! inside evict, at most three each, may exceed the limit.

use std::collections::VecDeque;

use cxlab_cache::Slot;
use cxlab_engine::Ctx;
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::{CORES, Filter};
use cxlab_protocol::coherence::cache_message::Request;
use serde::{Deserialize, Serialize};

use super::Processor;
use super::tokens::FINISH;
use super::transactions::{Txn, TxnKind};

/// A request that waits for entries of the write buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum WriteBufferWaiter {
    /// A transaction that has its line.
    Txn(u32),
    /// The first transaction without an entry in this set of the directory.
    Set(u32),
}

/// The entries of the write buffer.
#[derive(Serialize, Deserialize)]
pub(super) struct WriteBuffer {
    /// Number of entries.
    capacity: u32,
    /// Number of lines in flight to memory.
    open: u32,
    /// Number of entries reserved by transactions that have not written yet.
    reserved: u32,
    waiting: VecDeque<WriteBufferWaiter>,
    /// The set whose first transaction may take an entry now.
    turn: Option<u32>,
}

impl WriteBuffer {
    pub(super) fn new(capacity: u32) -> WriteBuffer {
        WriteBuffer {
            capacity,
            open: 0,
            reserved: 0,
            waiting: VecDeque::new(),
            turn: None,
        }
    }

    /// Whether this number of entries is free.
    fn has(&self, entries: u32) -> bool {
        self.open + self.reserved + entries <= self.capacity
    }

    /// Whether a request that has just arrived may take this number of entries.
    fn lets_pass(&self, entries: u32) -> bool {
        self.waiting.is_empty() && self.has(entries)
    }
}

impl Processor {
    /// Whether a transaction that has its line may continue because it has the entries that it may need.
    /// Otherwise the transaction waits and continues when they are free.
    pub(super) fn has_write_entries(&mut self, ctx: &Ctx<'_, Parcel>, id: u32) -> bool {
        let txn = &self.home.txns[id];
        let needs = self.entries_of(txn);
        if txn.write_entries >= needs {
            return true;
        }
        if self.home.writes.lets_pass(needs) {
            self.reserve(id, needs);
            return true;
        }
        self.home
            .writes
            .waiting
            .push_back(WriteBufferWaiter::Txn(id));
        self.home.txns[id].times.since = ctx.now().0;
        self.stats.write_waits += 1;
        false
    }

    fn reserve(&mut self, id: u32, entries: u32) {
        self.home.txns[id].write_entries = entries;
        self.home.writes.reserved += entries;
    }

    /// Whether a modified line of a set may be evicted from the directory now. Otherwise the set
    /// waits for a free entry.
    pub(super) fn may_evict(&mut self, set: u32) -> bool {
        if self.home.writes.turn.take_if(|turn| *turn == set).is_some()
            || self.home.writes.lets_pass(1)
        {
            return true;
        }
        if self.home.admission.waits_for_write(set) {
            self.home
                .writes
                .waiting
                .push_back(WriteBufferWaiter::Set(set));
        }
        false
    }

    /// Whether the host's own caches may have to write to memory when they evict a line. A line that
    /// devices hold is recalled by a transaction instead.
    pub(super) fn eviction_writes(&self, slot: Slot) -> bool {
        let way = &self.home.llc[slot];
        way.dirty || way.filter == Filter::Any(CORES)
    }

    /// Counts a line that is written to memory, in an entry of transaction `by` if it has reserved one.
    pub(super) fn write_opens(&mut self, by: Option<u32>) {
        self.home.writes.open += 1;
        if let Some(by) = by {
            let entries = &mut self.home.txns[by].write_entries;
            self.home.writes.reserved -= u32::from(*entries > 0);
            *entries = entries.saturating_sub(1);
        }
        debug_assert!(
            self.home.llc.is_victim_cache() || self.home.writes.has(0),
            "a line that is written has an entry"
        );
    }

    /// Returns the unused entries of a transaction that is over.
    pub(super) fn return_entries(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let entries = std::mem::take(&mut self.home.txns[id].write_entries);
        if entries > 0 {
            self.home.writes.reserved -= entries;
            self.serve_writes(ctx);
        }
    }

    /// Frees the entry of a line that memory has accepted.
    pub(super) fn write_closes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.home.writes.open -= 1;
        self.serve_writes(ctx);
    }

    /// Gives entries to the waiting requests, in order.
    fn serve_writes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some(first) = self.home.writes.waiting.front().copied() {
            let entries = match first {
                WriteBufferWaiter::Txn(id) => self.entries_of(&self.home.txns[id]),
                WriteBufferWaiter::Set(_) => 1,
            };
            if !self.home.writes.has(entries) {
                return;
            }
            self.home.writes.waiting.pop_front();
            match first {
                WriteBufferWaiter::Txn(id) => {
                    self.reserve(id, entries);
                    let txn = &mut self.home.txns[id];
                    let waited = ctx.now().0 - txn.times.since;
                    txn.times.waited_ps += waited;
                    self.stats.write_wait_ps += waited;
                    ctx.wake_at(ctx.now(), FINISH | id);
                }
                WriteBufferWaiter::Set(set) => {
                    self.home.admission.write_waited(set);
                    self.home.writes.turn = Some(set);
                    self.serve_set(ctx, set);
                    self.home.writes.turn = None;
                }
            }
        }
    }

    /// Most lines that a transaction which has its line writes to memory. Lines that go into the
    /// last-level cache do not count.
    fn entries_of(&self, txn: &Txn) -> u32 {
        let Some(slot) = txn.slot else { return 0 };
        let filter = txn.state.filter;
        let owned = u32::from(matches!(filter, Filter::Any(_)));
        let modified = u32::from(owned > 0 || self.home.llc[slot].dirty);
        match txn.kind {
            TxnKind::Read if filter == Filter::Any(CORES) => 0,
            TxnKind::Read => owned,
            _ if self.must_recall(txn) => owned,
            TxnKind::Flush | TxnKind::WriteBack | TxnKind::Recall | TxnKind::BackInvalidate => {
                modified
            }
            TxnKind::Device(request) => match request {
                Request::RdShared | Request::RdAny => owned,
                Request::RdOwnNoData | Request::ClFlush => modified,
                Request::DirtyEvict | Request::WrCur => 1,
                // The line that a snoop brings, and the data that the device writes.
                Request::WrInv | Request::WoWrInv | Request::WoWrInvF => 1 + modified,
                Request::RdCurr
                | Request::RdOwn
                | Request::ItoMWr
                | Request::CleanEvict
                | Request::CleanEvictNoData
                | Request::DirtyEvictPush => 0,
            },
            TxnKind::DmaRead
            | TxnKind::DmaWrite
            | TxnKind::PageRead
            | TxnKind::PageWrite
            | TxnKind::WalkRead
            | TxnKind::Own
            | TxnKind::Demote
            | TxnKind::Evict
            | TxnKind::Missing(_)
            | TxnKind::Free => 0,
        }
    }
}
