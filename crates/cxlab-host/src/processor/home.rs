//! The home agent: transactions of lines, one at a time for each line, and the last-level
//! cache with the directory.
//!
//! The table [`cxlab_protocol::coherence::cache_home`] decides the actions for a line; this module adds
//! time and capacity. In the table, cores and last-level cache are a single holder. Requests of cores for
//! lines that this holder may use are therefore served here, without the table.

use cxlab_agent::{Access, AccessKind, AccessOutcome, LOCAL};
use cxlab_engine::Ctx;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_memory::Slot;
use cxlab_protocol::coherence::cache_home::{CORES, Filter, Found, LineState, Peer};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::{LatencyStages, PortId};
use serde::{Deserialize, Serialize};

use super::caches::CoreState;
use super::devices::Uqids;
use super::failures::NOT_SENT;
use super::{ARRIVE, FINISH, NONE, Processor};

/// A directory entry: a line in the last-level cache, or a line that other caches hold.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct DirectoryEntry {
    /// The transaction that has the line, or `NONE`.
    pub(super) txn: u32,
    /// Possible holders of the line. The cores are holders while `data` is true. The filter may still name
    /// the cores after they have evicted the line silently.
    pub(super) filter: Filter,
    /// Whether the last-level cache has the line's data.
    pub(super) data: bool,
    /// Whether the data are newer than memory. During a transaction also whether modified data of cores or
    /// devices have been collected.
    pub(super) dirty: bool,
    /// Cores that hold the line, one bit each.
    pub(super) cores: u64,
}

impl Default for DirectoryEntry {
    fn default() -> Self {
        DirectoryEntry {
            txn: NONE,
            filter: Filter::Invalid,
            data: false,
            dirty: false,
            cores: 0,
        }
    }
}

/// The copy of a line that cores keep after a snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyAfterSnoop {
    /// A shared copy.
    Shared,
    /// A copy that agrees with memory, or with the last-level cache.
    Clean,
    /// Their copy, unchanged.
    AsItIs,
}

/// The purpose of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum TxnKind {
    /// None: the slot is free.
    Free,
    /// A core's load.
    Read,
    /// A core's store, which needs the line exclusively.
    Own,
    /// A core's flush of the line out of every cache.
    Flush,
    /// A core's write-back of the line, which may stay in its caches.
    WriteBack,
    /// A core's demotion of the line to the last-level cache.
    Demote,
    /// A device's request.
    Device(Request),
    /// A line that a device reads by DMA.
    DmaRead,
    /// A line that a device writes by DMA.
    DmaWrite,
    /// A line of a page that is copied.
    PageRead,
    /// A line of a page that is copied or zeroed.
    PageWrite,
    /// A line of the page table that the IOMMU reads.
    WalkRead,
    /// The recall of a directory entry from devices, for its eviction.
    Recall,
    /// A `BISnpInv` of the device that owns the line.
    BackInvalidate,
    /// A device's request for an address without memory. It has no directory entry.
    Missing(Request),
    /// A write of a line to memory.
    Evict,
}

/// A transaction of a line.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Txn {
    pub(super) line: LineAddr,
    pub(super) kind: TxnKind,
    pub(super) core: u16,
    pub(super) slot: Option<Slot>,
    /// State of the line in the table while the transaction has it.
    pub(super) state: LineState,
    /// Copy found in the cores, while the cores' response is in flight.
    pub(super) found: Option<Found>,
    /// The accesses that wait for the transaction, as a linked list.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Next transaction of the same line.
    pub(super) next: u32,
    /// For a write: the transaction that waits for it, or `NONE`.
    pub(super) parent: u32,
    /// The page walk of a core that waits for the transaction, or `NONE`.
    pub(super) walk: u32,
    /// For a write: whether a cache may still hold the line.
    pub(super) keeps: bool,
    /// Whether the device that owns the line is being told that the host takes it, and
    /// has not responded yet.
    pub(super) claiming: bool,
    /// The device that responded and keeps the line, and whether its value is poison.
    pub(super) snooped_holder: Option<(PortId, bool)>,
    /// Whether the data that a device has sent are only some bytes of the line.
    pub(super) partial: bool,
    /// Whether a core forwards its copy, which the table treats as a read.
    pub(super) forwarded: bool,
    /// Whether the device that owns the line has been told that the host takes it.
    pub(super) claimed: bool,
    /// Whether the line has no memory, and a response without data is pending.
    pub(super) missing: bool,
    /// The parts of the response to a read of HDM-DB memory that have arrived.
    pub(super) arrived_parts: u8,
    /// Whether the line is recalled from devices before the transaction continues.
    pub(super) recalls: bool,
    /// When the transaction reached the home agent, in picoseconds.
    pub(super) arrived: u64,
    /// Time that the transaction waited for entries of the write buffer and for the start of
    /// its read, in picoseconds.
    pub(super) waited_ps: u64,
    /// Start of the current such wait, in picoseconds.
    pub(super) since: u64,
    /// Number of write-buffer entries that the transaction has reserved.
    pub(super) places: u32,
    /// Time that memory took, in picoseconds.
    pub(super) media_ps: u64,
    /// Constant time to memory and back, in picoseconds.
    pub(super) round_trip_ps: u64,
    /// When the message to CXL memory was sent, until its response comes; `NOT_SENT` without one.
    pub(super) sent: u64,
    /// How the message to memory ended.
    pub(super) outcome: AccessOutcome,
    /// Whether the message has timed out and its response has not come: the tag is out of use.
    pub(super) late: bool,
    pub(super) device: u16,
    pub(super) hops: u16,
    /// For a device's request: the requesting device, its CQID (`tag`), and the stages of its latency.
    pub(super) peer: Peer,
    pub(super) source: PortId,
    /// Whether the request is a write of a line of the device's own memory.
    pub(super) writes_own: bool,
    /// Number by which devices know the transaction, or [`Uqids::NONE`].
    pub(super) uqid: u16,
    pub(super) tag: u32,
    pub(super) stages: LatencyStages,
}

impl Txn {
    pub(super) fn new(line: LineAddr, kind: TxnKind, core: u16) -> Txn {
        Txn {
            line,
            kind,
            core,
            slot: None,
            state: LineState::default(),
            found: None,
            first: NONE,
            last: NONE,
            next: NONE,
            parent: NONE,
            walk: NONE,
            keeps: false,
            claiming: false,
            snooped_holder: None,
            partial: false,
            forwarded: false,
            claimed: false,
            missing: false,
            arrived_parts: 0,
            recalls: false,
            arrived: 0,
            waited_ps: 0,
            since: 0,
            places: 0,
            media_ps: 0,
            round_trip_ps: 0,
            sent: NOT_SENT,
            outcome: AccessOutcome::Served,
            late: false,
            device: LOCAL,
            hops: 0,
            peer: CORES,
            source: PortId(0),
            writes_own: false,
            uqid: Uqids::NONE,
            tag: 0,
            stages: LatencyStages::default(),
        }
    }

    /// Whether a core's load or store waits for the line.
    pub(super) fn is_miss(&self) -> bool {
        matches!(self.kind, TxnKind::Read | TxnKind::Own)
    }
}

/// An access that waits for a transaction.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct WaitingAccess {
    pub(super) access: Access,
    pub(super) begun: u64,
    pub(super) next: u32,
}

impl Processor {
    pub(super) fn open(&mut self, txn: Txn) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.txns[id as usize] = txn;
                id
            }
            None => {
                self.txns.push(txn);
                self.txns.len() as u32 - 1
            }
        }
    }

    pub(super) fn close(&mut self, id: u32) {
        let txn = &mut self.txns[id as usize];
        txn.kind = TxnKind::Free;
        match txn.late {
            false => self.free.push(id),
            true => self.out_of_use += 1,
        }
    }

    /// Sends a request of a core to the home agent on behalf of an access.
    pub(super) fn ask(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        core: u16,
        access: &Access,
        begun: SimTime,
    ) {
        let kind = match access.kind {
            AccessKind::Load | AccessKind::Prefetch => TxnKind::Read,
            AccessKind::LoadToStore | AccessKind::Store | AccessKind::Atomic | AccessKind::Push => {
                TxnKind::Own
            }
            AccessKind::Flush => TxnKind::Flush,
            AccessKind::WriteBack => TxnKind::WriteBack,
            AccessKind::Demote => TxnKind::Demote,
        };
        let line = access.line();
        let id = self.open(Txn::new(line, kind, core));
        if matches!(kind, TxnKind::Read | TxnKind::Own) {
            self.cores[core as usize].asking.push((line, id));
        }
        self.wait_behind(id, *access, begun);
        self.stats.core_requests += 1;
        let at = ctx.now() + self.params.lookup() + self.params.mesh_time;
        ctx.wake_at(at, ARRIVE | id);
    }

    /// Appends an access to those that wait for a transaction.
    pub(super) fn wait_behind(&mut self, id: u32, access: Access, begun: SimTime) {
        let entry = WaitingAccess {
            access,
            begun: begun.0,
            next: NONE,
        };
        let place = match self.free_behind.pop() {
            Some(place) => {
                self.behind[place as usize] = entry;
                place
            }
            None => {
                self.behind.push(entry);
                self.behind.len() as u32 - 1
            }
        };
        let txn = &mut self.txns[id as usize];
        match txn.last {
            NONE => txn.first = place,
            last => self.behind[last as usize].next = place,
        }
        txn.last = place;
    }

    /// Handles a transaction's arrival at the home agent.
    pub(super) fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        self.txns[id as usize].arrived = ctx.now().0;
        self.admit(ctx, id);
    }

    pub(super) fn queue_behind(&mut self, first: u32, id: u32) {
        let mut last = first;
        while self.txns[last as usize].next != NONE {
            last = self.txns[last as usize].next;
        }
        self.txns[last as usize].next = id;
    }

    /// Evicts a line from the directory and so from every private cache. The eviction happens at once,
    /// unless a device holds the line and must be snooped; then the result is true. An inclusive last-level
    /// cache loses the line too. A non-inclusive one stores the copy that cores had.
    pub(super) fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) -> bool {
        let line = self.llc.line(slot);
        match self.llc.is_victim_cache() {
            true => self.stats.directory_evictions += 1,
            false => self.stats.llc_evictions += 1,
        }
        if self.is_recalled(slot) {
            let id = self.open(Txn::new(line, TxnKind::Recall, 0));
            self.txns[id as usize].arrived = ctx.now().0;
            self.take(ctx, id, slot);
            return true;
        }
        let (dirty, any) = self.drop_copies(ctx, slot, NONE);
        if self.llc.is_victim_cache() {
            self.stats.back_invalidations += u64::from(any);
            self.keep(ctx, slot, dirty);
            self.llc.settle(slot);
            return false;
        }
        let (_, way) = self.llc.remove(slot);
        if dirty || way.dirty {
            self.write_memory(ctx, line, None, NONE, false);
        }
        false
    }

    /// Whether devices hold a line, so that it must be recalled before its eviction from the directory.
    pub(super) fn is_recalled(&self, slot: Slot) -> bool {
        !self.llc[slot].filter.holders().without(CORES).is_empty()
    }

    /// Stores a line in the last-level cache. A line evicted by this is written to memory if it is newer.
    pub(super) fn keep(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot, dirty: bool) {
        let Some(leaving) = self.llc.keep(slot, dirty) else {
            return;
        };
        self.stats.llc_evictions += 1;
        if leaving.dirty {
            self.write_memory(ctx, leaving.line, None, NONE, leaving.keeps);
        }
    }

    /// Invalidates a line in every core except `but`. Returns whether a core had it modified,
    /// and whether any had it.
    pub(super) fn drop_copies(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        slot: Slot,
        but: u32,
    ) -> (bool, bool) {
        let line = self.llc.line(slot);
        let mut left = self.llc[slot].cores;
        let (mut dirty, mut any) = (false, false);
        while left != 0 {
            let core = left.trailing_zeros();
            left &= left - 1;
            if core == but {
                continue;
            }
            let was = self.cores[core as usize].caches.drop_line(line);
            dirty |= was == CoreState::Modified;
            any |= was != CoreState::Invalid;
            self.llc[slot].cores &= !(1 << core);
        }
        if any {
            self.stats.core_snoops += 1;
            self.changed(ctx, line);
        }
        (dirty, any)
    }

    /// Downgrades the copies of a line in every core except `but` to `most`. Returns whether a core had it
    /// modified, and whether a core had it exclusively.
    pub(super) fn share_copies(
        &mut self,
        slot: Slot,
        but: u32,
        most: CopyAfterSnoop,
    ) -> (bool, bool) {
        let line = self.llc.line(slot);
        let mut left = self.llc[slot].cores;
        let (mut dirty, mut alone) = (false, false);
        while left != 0 {
            let core = left.trailing_zeros();
            left &= left - 1;
            if core == but {
                continue;
            }
            let caches = &mut self.cores[core as usize].caches;
            let was = match most {
                CopyAfterSnoop::Shared => caches.share(line),
                CopyAfterSnoop::Clean => caches.clean(line),
                CopyAfterSnoop::AsItIs => caches.held(line),
            };
            dirty |= was == CoreState::Modified;
            alone |= was >= CoreState::Exclusive;
        }
        if alone {
            self.stats.core_snoops += 1;
        }
        (dirty, alone)
    }

    /// Whether no transaction that arrived earlier waits for the line of this one.
    fn is_first_of_its_line(&self, id: u32) -> bool {
        let Txn { line, arrived, .. } = self.txns[id as usize];
        let waits = |other: &&Txn| {
            let kept = matches!(other.kind, TxnKind::Free | TxnKind::Evict | TxnKind::Recall);
            other.line == line && !kept && other.slot.is_none() && !other.late
        };
        // Transactions that have not arrived yet have no time.
        let mut waiting = self.txns.iter().filter(waits);
        self.txns[id as usize].kind == TxnKind::Recall
            || waiting.all(|other| other.arrived == 0 || other.arrived >= arrived)
    }

    /// Gives a transaction its line, and starts the lookup in directory and last-level cache.
    pub(super) fn take(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, slot: Slot) {
        debug_assert!(
            self.is_first_of_its_line(id),
            "a later one has the line before"
        );
        let way = &mut self.llc[slot];
        way.txn = id;
        let filter = way.filter;
        self.stats.llc_hits += u64::from(way.data);
        self.llc.pin(slot);
        let txn = &mut self.txns[id as usize];
        txn.slot = Some(slot);
        txn.state = LineState::idle(filter);
        if self.params.llc.speculative_reads {
            self.speculate(ctx, id);
        }
        ctx.wake_at(ctx.now() + self.params.llc.access_time, FINISH | id);
    }
}
