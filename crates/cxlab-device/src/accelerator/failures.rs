//! What an accelerator does that meets poison: a machine check ends its threads and those of its host, which are one
//! process, as the host's driver does that hears of it.
//!
//! The device tells the host by an interrupt, the host its devices by a write to a register, both on CXL.io. What
//! threads have begun completes, and nothing more begins.

use cxlab_agent::{Access, Answer, Ending, Failure, MACHINE_CHECK, interrupt_address};
use cxlab_engine::Ctx;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use cxlab_protocol::Opcode;

use super::io::WRITE_TAGS;
use super::{Accelerator, OP};

impl Accelerator {
    /// An access to poison is over, now or later.
    pub(super) fn poisoned(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, answer: Answer) {
        let ending = Ending::Failed(Failure::Poisoned);
        self.over(ctx, access, Answer { ending, ..answer });
        self.machine_check(ctx);
    }

    /// As `poisoned`, of an access that the cache answers.
    pub(super) fn poisoned_hit(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        begun: SimTime,
        at: SimTime,
    ) {
        self.poisoned(ctx, access, Answer::by_cache(begun, at));
    }

    /// What the device reads for a thread is poison.
    pub(super) fn machine_check(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.hmc.machine_checks += 1;
        let hpa = interrupt_address(MACHINE_CHECK);
        self.send_io(ctx, Opcode::MWr, hpa, WRITE_TAGS, 4, true);
        self.end_threads(ctx);
    }

    /// The process of the threads ends.
    pub(super) fn end_threads(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        let Some(done) = self.lanes.end_threads(now) else {
            return;
        };
        for (op, at) in done {
            ctx.wake_at(at, OP | op);
        }
        for (_, access) in std::mem::take(&mut self.spinning) {
            let begun = self.lanes.issued(access.op);
            self.over(ctx, &access, Answer::by_cache(begun, now));
        }
        for op in self.take_waiting() {
            ctx.wake_at(now, OP | op);
        }
    }
}
