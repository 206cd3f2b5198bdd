//! The write buffer of the home agent: a bounded number of lines on their way to memory.
//!
//! A transaction reserves places for what it may write before it does anything, and returns those that
//! it has not used when it is over. So a device's eviction is pulled when there is a place for its data;
//! until then it keeps its CQID. A request that needs an entry of the directory waits if a modified line
//! must leave for it. Both wait in one queue, in the order of their arrival; a request that writes nothing
//! passes them.
//!
//! # Why everything ends
//! A place becomes free when memory has taken its line, or when the transaction that has reserved it is over.
//! Memory waits for no transaction. A transaction with its places waits for devices' responses to snoops and
//! for reads of memory, and neither needs a place. So the places of the first in the queue become free.
//!
//! # Beyond the limit
//! In a non-inclusive cache a line that comes in may make another leave at any time until its
//! transaction is over. A transaction enters such a directory only while a place is free. What the
//! transactions inside make leave, at most three lines each, goes beyond the limit.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_link::Parcel;
use cxlab_memory::Slot;
use cxlab_protocol::coherence::cache_home::{CORES, Filter};
use cxlab_protocol::coherence::cache_message::Request;
use serde::{Deserialize, Serialize};

use super::home::{Txn, What};
use super::{FINISH, Processor};

/// A request that waits for places.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Waiting {
    /// A transaction that has its line.
    Txn(u32),
    /// The first transaction without an entry in this set of the directory.
    Set(u32),
}

/// The places.
#[derive(Serialize, Deserialize)]
pub(super) struct WriteBuffer {
    places: u32,
    /// Lines on their way to memory.
    open: u32,
    /// Places of transactions that have not written yet.
    reserved: u32,
    waiting: VecDeque<Waiting>,
    /// The set whose first transaction may take a place now.
    turn: Option<u32>,
}

impl WriteBuffer {
    pub(super) fn new(places: u32) -> WriteBuffer {
        WriteBuffer {
            places,
            open: 0,
            reserved: 0,
            waiting: VecDeque::new(),
            turn: None,
        }
    }

    /// Whether so many places are free.
    fn has(&self, places: u32) -> bool {
        self.open + self.reserved + places <= self.places
    }

    /// Whether a request that has just come may take so many places.
    fn lets_pass(&self, places: u32) -> bool {
        self.waiting.is_empty() && self.has(places)
    }
}

impl Processor {
    /// Whether a transaction that has its line may go on, because it has the places that it may need.
    /// Otherwise it goes on when they are free.
    pub(super) fn has_write_places(&mut self, ctx: &Ctx<'_, Parcel>, id: u32) -> bool {
        let txn = &self.txns[id as usize];
        let needs = self.places_of(txn);
        if txn.places >= needs {
            return true;
        }
        if self.writes.lets_pass(needs) {
            self.reserve(id, needs);
            return true;
        }
        self.writes.waiting.push_back(Waiting::Txn(id));
        self.txns[id as usize].since = ctx.now().0;
        self.stats.write_waits += 1;
        false
    }

    fn reserve(&mut self, id: u32, places: u32) {
        self.txns[id as usize].places = places;
        self.writes.reserved += places;
    }

    /// Whether a modified line of a set may leave the directory now. Otherwise the set has its turn when a
    /// place is free.
    pub(super) fn may_evict(&mut self, set: u32) -> bool {
        if self.writes.turn.take_if(|turn| *turn == set).is_some() || self.writes.lets_pass(1) {
            return true;
        }
        if self.admission.waits_for_write(set) {
            self.writes.waiting.push_back(Waiting::Set(set));
        }
        false
    }

    /// Whether memory may have to be written when the host's own caches give a line up. A line that
    /// devices hold is recalled by a transaction.
    pub(super) fn eviction_writes(&self, slot: Slot) -> bool {
        let way = &self.llc[slot];
        way.dirty || way.filter == Filter::Any(CORES)
    }

    /// A line goes to memory, in the place of a transaction if that has one.
    pub(super) fn write_opens(&mut self, by: Option<u32>) {
        self.writes.open += 1;
        if let Some(by) = by {
            let places = &mut self.txns[by as usize].places;
            self.writes.reserved -= u32::from(*places > 0);
            *places = places.saturating_sub(1);
        }
        debug_assert!(
            self.llc.is_victim_cache() || self.writes.has(0),
            "what writes has a place"
        );
    }

    /// A transaction is over: others may have the places that it has not used.
    pub(super) fn return_places(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let places = std::mem::take(&mut self.txns[id as usize].places);
        if places > 0 {
            self.writes.reserved -= places;
            self.serve_writes(ctx);
        }
    }

    /// Memory has taken a line.
    pub(super) fn write_closes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.writes.open -= 1;
        self.serve_writes(ctx);
    }

    /// Requests that wait for places get them, in order.
    fn serve_writes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some(first) = self.writes.waiting.front().copied() {
            let places = match first {
                Waiting::Txn(id) => self.places_of(&self.txns[id as usize]),
                Waiting::Set(_) => 1,
            };
            if !self.writes.has(places) {
                return;
            }
            self.writes.waiting.pop_front();
            match first {
                Waiting::Txn(id) => {
                    self.reserve(id, places);
                    let txn = &mut self.txns[id as usize];
                    let waited = ctx.now().0 - txn.since;
                    txn.waited_ps += waited;
                    self.stats.write_wait_ps += waited;
                    ctx.wake_at(ctx.now(), FINISH | id);
                }
                Waiting::Set(set) => {
                    self.admission.write_waited(set);
                    self.writes.turn = Some(set);
                    self.serve_set(ctx, set);
                    self.writes.turn = None;
                }
            }
        }
    }

    /// The most lines that a transaction which has its line writes to memory. What goes into the
    /// last-level cache is not written.
    fn places_of(&self, txn: &Txn) -> u32 {
        let Some(slot) = txn.slot else { return 0 };
        let filter = txn.state.filter;
        let owned = u32::from(matches!(filter, Filter::Any(_)));
        let modified = u32::from(owned > 0 || self.llc[slot].dirty);
        match txn.what {
            What::Read if filter == Filter::Any(CORES) => 0,
            What::Read => owned,
            _ if self.must_recall(txn) => owned,
            What::Flush | What::WriteBack | What::Recall | What::BackInvalidate => modified,
            What::Device(request) => match request {
                Request::RdShared | Request::RdAny => owned,
                Request::RdOwnNoData | Request::ClFlush => modified,
                Request::DirtyEvict | Request::WrCur => 1,
                // The line that a snoop brings, and what the device writes.
                Request::WrInv | Request::WoWrInv | Request::WoWrInvF => 1 + modified,
                Request::RdCurr
                | Request::RdOwn
                | Request::ItoMWr
                | Request::CleanEvict
                | Request::CleanEvictNoData
                | Request::DirtyEvictPush => 0,
            },
            What::DmaRead
            | What::DmaWrite
            | What::PageRead
            | What::PageWrite
            | What::WalkRead
            | What::Own
            | What::Demote
            | What::Evict
            | What::Missing(_)
            | What::Free => 0,
        }
    }
}
