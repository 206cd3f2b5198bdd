//! Back-invalidation: a Type 2 device snoops the host for a line of its HDM-DB memory
//! (CXL 3.1, section 3.3.11).
//!
//! The host holds a line of such memory while one of its caches has a copy. It requests a line from the
//! device only when none has. A line that devices hold over CXL.cache without data on the die is
//! recalled first. An outstanding request therefore means that the host holds no copy, and the rules
//! for a snoop are short:
//!
//! - A request for the line is outstanding and its completion has not arrived: the host sends
//!   `BIConflict`, because it cannot know whether the device saw the request before it sent the snoop. If
//!   `BIConflictAck` arrives before the completion, the device had not seen the request, and the host
//!   responds with `BIRspI` (figure 3-22). Otherwise the line is in flight, and is invalidated when it has
//!   arrived (figure 3-23).
//! - A write of the line is outstanding: the snoop waits for the write.
//! - Otherwise a transaction of the home agent invalidates the line, in its turn, and writes modified data
//!   first. An earlier transaction that finds no copy and has to request the line responds to the snoop,
//!   because the device serves such a request only after the response.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::CORES;
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{KeptCopy, M2s};
use cxlab_protocol::{MemMeta, Message, Opcode, PortId};
use serde::{Deserialize, Serialize};

use super::Processor;
use super::tokens::ARRIVE;
use super::transactions::{NOT_SENT, Txn, TxnKind};

/// Bit of `MemoryAccess::arrived_parts`: the completion of a request has come.
const COMPLETED: u8 = 1;
/// Bit of `MemoryAccess::arrived_parts`: the data of a request have come.
const DATA_ARRIVED: u8 = 2;
/// Both parts of a response with data.
const ALL_PARTS: u8 = COMPLETED | DATA_ARRIVED;

/// The event for which a snoop without a response waits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
enum SnoopWait {
    /// `BIConflictAck`, because of this transaction's request.
    Conflict(u32),
    /// Completion of a write of the line.
    Write,
    /// The end of a transaction that invalidates the line.
    Leaves(u32),
}

/// A snoop without a response.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct PendingSnoop {
    line: LineAddr,
    device: PortId,
    tag: u32,
    stage: SnoopWait,
}

impl Processor {
    #[inline]
    pub(super) fn is_hdm_db(&self, line: LineAddr) -> bool {
        if self.accelerators.coherent.is_empty() {
            return false;
        }
        let owner = self.memory.owner(line);
        owner.is_some_and(|device| self.accelerators.coherent.contains(&device))
    }

    /// Whether a transaction must recall its line from devices before it continues. This is so if devices
    /// hold the line, no cache on the die has its data, and the transaction may have to request the data
    /// from the device that owns the line.
    pub(super) fn must_recall(&self, txn: &Txn) -> bool {
        if self.accelerators.coherent.is_empty() || txn.state.is_busy() {
            return false;
        }
        let reads = match txn.kind {
            TxnKind::Read
            | TxnKind::Own
            | TxnKind::DmaRead
            | TxnKind::PageRead
            | TxnKind::WalkRead => true,
            TxnKind::Device(request) => matches!(
                request,
                Request::RdShared | Request::RdAny | Request::RdOwn | Request::RdCurr
            ),
            _ => false,
        };
        let Some(slot) = txn.slot.filter(|_| reads) else {
            return false;
        };
        let way = &self.home.llc[slot];
        let on_die = way.data || way.cores != 0;
        !on_die && !txn.state.filter.holders().without(CORES).is_empty() && self.is_hdm_db(txn.line)
    }

    /// The message to the device for a transaction's line of HDM-DB memory. Only a miss of a core, which
    /// fills a cache on the die, may be granted a modified line.
    pub(super) fn coherent_message(txn: &Txn, write: bool) -> M2s {
        match (write, txn.memory.claiming) {
            (true, _) if txn.memory.keeps => M2s::MemWr(MetaValue::Any),
            (true, _) => M2s::MemWr(MetaValue::Invalid),
            (false, true) if txn.kind == TxnKind::Flush => M2s::MemInvFlush,
            (false, true) => M2s::MemInvOwn,
            (false, false) if txn.is_miss() => M2s::MemRdOwn,
            (false, false) => M2s::MemRdData,
        }
    }

    /// Handles one part of the response to a read of HDM-DB memory. Returns whether the other part has arrived,
    /// too. After `Cmp-M` the host has to write the line at some time, because
    /// memory has an older value.
    pub(super) fn has_all_parts(&mut self, message: &Message) -> bool {
        let txn = &mut self.home.txns[message.tag];
        if txn.memory.claiming || txn.kind == TxnKind::Evict {
            return true;
        }
        txn.memory.arrived_parts |= match message.channel().carries_data() {
            true => DATA_ARRIVED,
            false => COMPLETED,
        };
        let is_complete = txn.memory.arrived_parts == ALL_PARTS;
        if message.opcode == Opcode::CmpM
            && let Some(slot) = txn.slot
        {
            self.home.llc[slot].dirty = true;
        }
        if is_complete {
            self.home.txns[message.tag].memory.arrived_parts = 0;
        }
        is_complete
    }

    /// The transaction whose request for a line is outstanding, without a completion.
    fn outstanding_request(&self, line: LineAddr) -> Option<u32> {
        let is_outstanding = |txn: &Txn| {
            txn.line == line
                && txn.memory.sent != NOT_SENT
                && txn.memory.arrived_parts & COMPLETED == 0
                && !matches!(txn.kind, TxnKind::Evict | TxnKind::Free)
        };
        let found = self.home.txns.iter().position(is_outstanding);
        found.map(|id| id as u32)
    }

    /// Handles a `BISnpInv` of a device for a line of its memory.
    pub(super) fn back_invalidated(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        debug_assert!(
            self.home.snooped.iter().all(|snooped| snooped.line != line),
            "a device asks once for a line at a time"
        );
        self.stats.back_invalidation.snoops += 1;
        let mut snooped = PendingSnoop {
            line,
            device: message.source,
            tag: message.tag,
            stage: SnoopWait::Write,
        };
        if let Some(id) = self.outstanding_request(line) {
            self.stats.back_invalidation.conflicts += 1;
            snooped.stage = SnoopWait::Conflict(id);
            self.home.snooped.push(snooped);
            self.respond_to_device(ctx, &snooped, M2s::BiConflict, id);
            return;
        }
        self.home.snooped.push(snooped);
        self.give_up_or_wait(ctx, self.home.snooped.len() - 1);
    }

    /// Invalidates the line of a snoop that meets no outstanding request, or waits for the write of the
    /// line. `index` is that of the snoop.
    fn give_up_or_wait(&mut self, ctx: &mut Ctx<'_, Parcel>, index: usize) {
        let line = self.home.snooped[index].line;
        if self.memory.writing.contains(&line) {
            self.home.snooped[index].stage = SnoopWait::Write;
        } else if self.home.llc.knows(line) {
            let mut txn = Txn::new(line, TxnKind::BackInvalidate, 0);
            txn.memory.device = self.home.snooped[index].device.0 - self.first_device;
            let id = self.home.txns.open(txn);
            self.home.snooped[index].stage = SnoopWait::Leaves(id);
            ctx.wake_at(ctx.now(), ARRIVE | id);
        } else {
            self.answer_snoop(ctx, index);
        }
    }

    /// Responds that the host holds no copy of a snooped line.
    fn answer_snoop(&mut self, ctx: &mut Ctx<'_, Parcel>, index: usize) {
        let snooped = self.home.snooped.swap_remove(index);
        self.respond_to_device(ctx, &snooped, M2s::BiRsp(KeptCopy::Invalid), snooped.tag);
    }

    fn respond_to_device(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        snooped: &PendingSnoop,
        m2s: M2s,
        tag: u32,
    ) {
        let (field, value, snoop) = m2s.fields();
        let message = Message {
            destination: snooped.device,
            meta: MemMeta::new(field, value, snoop),
            ..self.message(ctx, Hpa(snooped.line.0 * LINE_BYTES), m2s.opcode(), tag)
        };
        self.roots.send(ctx, message);
    }

    /// Handles `BIConflictAck`: the device has seen the conflict of its snoop with a request.
    pub(super) fn conflict_acknowledged(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let conflict = SnoopWait::Conflict(message.tag);
        let mut snooped = self.home.snooped.iter();
        let index = snooped.position(|snoop| snoop.line == line && snoop.stage == conflict);
        let Some(index) = index else {
            panic!("BIConflictAck of {line:?} answers no conflict")
        };
        match self.outstanding_request(line) {
            Some(_) => {
                self.stats.back_invalidation.early_conflicts += 1;
                self.answer_snoop(ctx, index);
            }
            None => self.give_up_or_wait(ctx, index),
        }
    }

    /// Responds to a waiting snoop of a line that the host is about to request: the
    /// host holds no copy of it.
    pub(super) fn answer_before_request(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let waits = |snoop: &PendingSnoop| {
            snoop.line == line && matches!(snoop.stage, SnoopWait::Leaves(_))
        };
        if let Some(index) = self.home.snooped.iter().position(waits) {
            self.answer_snoop(ctx, index);
        }
    }

    /// Lets a snoop continue that has waited for a write of its line.
    pub(super) fn go_on_with_snoop(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let waits = |snoop: &PendingSnoop| snoop.line == line && snoop.stage == SnoopWait::Write;
        if let Some(index) = self.home.snooped.iter().position(waits) {
            self.give_up_or_wait(ctx, index);
        }
    }

    /// Index of the snoop for which a transaction invalidates its line; `None` if it has had a response.
    pub(super) fn snoop_of(&self, id: u32) -> Option<usize> {
        let stage = SnoopWait::Leaves(id);
        self.home
            .snooped
            .iter()
            .position(|snoop| snoop.stage == stage)
    }

    /// Responds to the snoop for which a transaction has invalidated its line.
    pub(super) fn gave_up(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        if let Some(index) = self.snoop_of(id) {
            self.answer_snoop(ctx, index);
        }
    }
}
