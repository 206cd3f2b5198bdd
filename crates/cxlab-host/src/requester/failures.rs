//! A requester's handling of failures: timeouts of its requests, late responses, and devices that are cut
//! off. The owner calls these methods, so a requester pays nothing for them in a system without failures.
//!
//! A request without a response ends when it times out (CXL.mem transaction timeout, CXL 3.1, section 12.3,
//! *recollection*). Its tag stays out of use until the response comes, if ever. Another tag replaces it, so
//! as many requests may be in flight as before.

use cxlab_agent::{
    Failure, FailureHandling, HOST_QUEUE, PROCESS, RequestRow, STAGE_NAMES, StageTimes,
};
use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::{Message, PortId};

use super::{RequestSlot, RequestSlotKind, Requester};

impl FailureHandling for Requester {
    fn first_device(&self) -> u16 {
        self.first_device
    }

    fn first_timeout(&self, timeout: Picos) -> Option<SimTime> {
        let requests = self
            .slots
            .iter()
            .filter(|slot| slot.kind == RequestSlotKind::Request);
        let first = requests.map(|slot| slot.issued_ps).min()?;
        Some(SimTime(first) + timeout)
    }

    fn time_out(&mut self, ctx: &mut Ctx<'_, Parcel>, timeout: Picos) {
        for tag in 0..self.slots.len() {
            let slot = self.slots[tag];
            if slot.kind == RequestSlotKind::Request
                && SimTime(slot.issued_ps) + timeout <= ctx.now()
            {
                self.slots[tag].kind = RequestSlotKind::Late;
                self.retired_slots += 1;
                self.replace();
                self.ledger.leave(ctx.now(), slot.issued_ps);
                self.ledger.stats.timed_out_ever += 1;
                self.fail(ctx, slot, Failure::TimedOut);
            }
        }
        self.issue(ctx);
    }

    fn is_late(&self, message: &Message) -> bool {
        self.slots[message.tag as usize].kind == RequestSlotKind::Late
    }

    fn reuse_late(&mut self, tag: u32) {
        self.slots[tag as usize].kind = RequestSlotKind::Free;
        self.spare.push(tag);
    }

    fn not_sent(&mut self, tag: u32) {
        let slot = &mut self.slots[tag as usize];
        if slot.kind.is_counted() {
            slot.kind = RequestSlotKind::CutOff;
        }
    }

    fn end_cut_off(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32) {
        let slot = self.free_slot(ctx.now(), tag);
        if slot.kind.is_counted() {
            self.fail(ctx, slot, Failure::CutOff);
        }
        self.issue(ctx);
    }
}

impl Requester {
    /// Adds a slot in place of one whose response is late.
    fn replace(&mut self) {
        let tag = match self.spare.pop() {
            Some(tag) => {
                self.retired_slots -= 1;
                tag
            }
            None => {
                let mut slot = self.slots[0];
                slot.kind = RequestSlotKind::Free;
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.free.push(tag);
    }

    /// Ends a request without a response.
    fn fail(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: RequestSlot, failure: Failure) {
        let mut stages: StageTimes = [0; STAGE_NAMES.len()];
        let total = ctx.now().0 - slot.issued_ps;
        stages[PROCESS] = total.min(self.process_ps);
        stages[HOST_QUEUE] = total - stages[PROCESS];
        let owner = self.map.owner(slot.hpa);
        let row = RequestRow {
            device: owner.map_or(u16::MAX, |PortId(port)| port - self.first_device),
            failure: Some(failure),
            value: self.stored(&slot),
            ..slot.row(ctx.now(), stages)
        };
        self.ledger.complete(ctx, row, false);
        if slot.multi_line != 0 {
            self.line_done(ctx.now(), slot.multi_line, false);
        }
    }
}
