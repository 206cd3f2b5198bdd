//! Accesses to addresses without memory: an error of the program, which ends the run.
//!
//! Until the run ends, each such request receives the response of real hardware. A device's request over
//! CXL.cache receives `GO-Err`, data of all ones, or `GO_ERR_WritePull`, and has no effect (CXL 3.1,
//! section 3.2.4.2, tables 3-23 and 3-24). A core's access, and a read by DMA, ends as if memory had denied
//! it. Prefetches to such addresses are not errors.

use cxlab_agent::{Access, AccessKind, AccessOutcome};
use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::Message;
use cxlab_protocol::coherence::cache_home::{Action, Event, LineState, step};
use cxlab_protocol::coherence::cache_message::Request;

use super::Processor;
use super::tokens::FINISH;
use super::transactions::{Txn, TxnKind};

impl Processor {
    /// Records the first access to an address without memory.
    pub(super) fn stray(&mut self, hpa: Hpa) {
        let text = || format!("it asks for {:#x}, where there is no memory", hpa.0);
        self.errors.stray.get_or_insert_with(text);
    }

    /// Denies a transaction that would read or write an address without memory. The transaction continues without it.
    #[cold]
    #[inline(never)]
    pub(super) fn deny_as_missing(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = &mut self.home.txns[id];
        txn.memory.outcome = AccessOutcome::Denied;
        txn.memory.missing = true;
        let (hpa, is_miss) = (Hpa(txn.line.0 * LINE_BYTES), txn.is_miss());
        // Accesses of cores are reported when they end; prefetches are not errors.
        if !is_miss {
            self.stray(hpa);
        }
        ctx.wake_at(ctx.now(), FINISH | id);
    }

    /// Handles a denied access. It is an error of its program if the address has no memory, unless the
    /// access was a prefetch.
    #[cold]
    #[inline(never)]
    pub(super) fn access_denied(&mut self, access: &Access) {
        if access.kind != AccessKind::Prefetch && !self.memory.has(access.hpa) {
            self.stray(access.hpa);
        }
    }

    /// Handles a device's request for an address without memory.
    #[cold]
    #[inline(never)]
    pub(super) fn device_asks_for_nothing(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        request: Request,
    ) {
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let mut txn = Txn::new(line, TxnKind::Missing(request), 0);
        txn.request.peer = self.accelerators.peer_of(message.source);
        txn.request.source = message.source;
        txn.request.tag = message.tag;
        txn.stages = message.stages;
        txn.times.arrived = ctx.now().0;
        let id = self.home.txns.open(txn);
        ctx.wake_at(ctx.now() + self.params.llc.access_time, FINISH | id);
    }

    /// Responds to a request for an address without memory, as soon as the transaction has a UQID.
    pub(super) fn answer_missing(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, request: Request) {
        if self.name(id) {
            let peer = self.home.txns[id].request.peer;
            self.step_missing(ctx, id, Event::Missing(peer, request));
        }
    }

    /// Performs the table's actions for such a request. A write is over when its data have come.
    ///
    /// # Panics
    /// If the table has no row: the device evicts a line that it was never given, which is an error in cxlab.
    pub(super) fn step_missing(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, event: Event) {
        let before: LineState = self.home.txns[id].state;
        let Some((next, actions)) = step(before, event) else {
            panic!("{event:?} in {before:?} breaks CXL.cache")
        };
        self.home.txns[id].state = next;
        for action in actions.iter() {
            if let Action::Respond(_, reply) = action {
                self.reply(ctx, id, reply);
            }
        }
        if !next.is_busy() {
            let uqid = self.home.txns[id].request.uqid;
            self.home.txns.close(id);
            self.unname(ctx, uqid);
        }
    }
}
