//! Machine checks: an accelerator that consumes poison ends its threads and those of its host,
//! which form one process. The host's driver does so when it is informed of the error.
//!
//! The device informs the host by an interrupt, and the host informs its devices by a register
//! write, both on CXL.io. Operations that have begun complete, and no further operation begins.

use cxlab_agent::{
    Access, AccessOutcome, AccessResponse, Failure, MACHINE_CHECK, interrupt_address,
};
use cxlab_engine::Ctx;
use cxlab_link::Parcel;
use cxlab_protocol::Opcode;

use super::io::WRITE_TAGS;
use super::{Accelerator, OP};

impl Accelerator {
    /// Completes an access that consumed poison, now or later, and raises a machine check.
    pub(super) fn poisoned(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        mut response: AccessResponse,
    ) {
        response.outcome = AccessOutcome::Failed(Failure::Poisoned);
        self.over(ctx, access, response);
        self.machine_check(ctx);
    }

    /// Raises a machine check, because data read for a thread are poison.
    pub(super) fn machine_check(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.hmc.machine_checks += 1;
        let hpa = interrupt_address(MACHINE_CHECK);
        self.send_io(ctx, Opcode::MWr, hpa, WRITE_TAGS, 4, true);
        self.end_threads(ctx);
    }

    pub(super) fn end_threads(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        let Some(done) = self.hw_threads.end_threads(now) else {
            return;
        };
        for (op, time) in done {
            ctx.wake_at(time, OP | op);
        }
        for (_, access) in std::mem::take(&mut self.spinning) {
            let begun = self.hw_threads.issued(access.op);
            self.over(ctx, &access, AccessResponse::by_cache(begun, now));
        }
        for op in self.take_waiting() {
            ctx.wake_at(now, OP | op);
        }
    }
}
