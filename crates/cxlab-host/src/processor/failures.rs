//! A processor's handling of failed components, and of memory that is taken from its host: machine checks.
//!
//! A line that does not arrive, because a component has failed, is put into no cache. The accesses that
//! wait for it end with an error, which is a machine check unless the access was a prefetch. A line that
//! arrives as poison is cached like any other ([`cxlab_agent::PoisonedLines`]), and a load of it is a machine
//! check. A line that cannot be written is lost: its write-back ends by its timeout, or at the root port.
//!
//! Threads compute on the values of memory, so they must not continue without them: their process ends
//! (Linux sends it `SIGBUS`). Operations that have begun complete, nothing more begins, and the result is
//! not checked. The first machine check ends the process, and so does the first lost line of the host.
//! Programs and patterns, which compute on values of their own or on none, continue.
//!
//! The tag of a message that has timed out is that of its transaction. The tag stays out of use until the
//! response comes, if ever.

use cxlab_agent::{AccessKind, AccessOutcome, AccessResponse, Failure, FailureHandling};
use cxlab_cache::Slot;
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::Filter;
use cxlab_protocol::{Message, PortId};

use super::Processor;
use super::tokens::{NONE, OP};
use super::transactions::{NOT_SENT, Txn, TxnKind};

/// What ends the process of the threads.
pub(super) struct ProcessErrors {
    /// When a machine check ended the threads.
    pub(super) threads_ended: Option<SimTime>,
    /// Description of the first access to an address without memory.
    pub(super) stray: Option<String>,
    /// Whether messages to memory may be denied or fail.
    pub(super) may_fail: bool,
}

save_state!(ProcessErrors {
    values: threads_ended, stray;
    built: may_fail;
});

impl FailureHandling for Processor {
    fn first_device(&self) -> u16 {
        self.first_device
    }

    fn first_timeout(&self, timeout: Picos) -> Option<SimTime> {
        let first = self.home.txns.iter().map(|txn| txn.memory.sent).min()?;
        (first != NOT_SENT).then(|| SimTime(first) + timeout)
    }

    fn time_out(&mut self, ctx: &mut Ctx<'_, Parcel>, timeout: Picos) {
        for id in self.home.txns.numbers() {
            let txn = &mut self.home.txns[id];
            if txn.memory.sent == NOT_SENT || SimTime(txn.memory.sent) + timeout > ctx.now() {
                continue;
            }
            txn.memory.late = true;
            self.hw_threads.ledger.stats.timed_out_ever += 1;
            self.fail(ctx, id, Failure::TimedOut);
        }
    }

    fn is_late(&self, message: &Message) -> bool {
        self.home.txns[message.tag].memory.late
    }

    fn reuse_late(&mut self, tag: u32) {
        self.home.txns.reuse_late(tag);
    }

    fn not_sent(&mut self, tag: u32) {
        self.home.txns[tag].memory.sent = NOT_SENT;
    }

    fn end_cut_off(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32) {
        self.fail(ctx, tag, Failure::CutOff);
    }
}

impl Processor {
    /// When the threads were ended by a machine check, if they were.
    pub fn threads_ended(&self) -> Option<SimTime> {
        self.errors.threads_ended
    }

    /// Ends a message to CXL memory that has failed.
    fn fail(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, failure: Failure) {
        let owner = self.memory.owner(self.home.txns[id].line);
        let txn = &mut self.home.txns[id];
        txn.memory.outcome = AccessOutcome::Failed(failure);
        txn.memory.device = owner.map_or(u16::MAX, |PortId(port)| port - self.first_device);
        self.unserved(ctx, id);
        self.memory_answered(ctx, id);
    }

    /// Handles a message that the device denies because it has no decoder for the address.
    #[cold]
    #[inline(never)]
    pub(super) fn denied(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        self.home.txns[id].memory.outcome = AccessOutcome::Denied;
        self.hw_threads.ledger.stats.denied_ever += 1;
        self.unserved(ctx, id);
    }

    /// Accounts for a lost line, or for poison that the processor reads for itself. Accesses are
    /// handled by [`Processor::poisoned`].
    fn unserved(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = &self.home.txns[id];
        match txn.kind {
            TxnKind::Evict => {
                self.stats.lost_write_backs += 1;
                self.end_threads(ctx);
            }
            TxnKind::Read if txn.walk != NONE => self.machine_check(ctx),
            TxnKind::PageRead | TxnKind::WalkRead => self.machine_check(ctx),
            _ => {}
        }
    }

    /// Invalidates the line of a failed transaction in all caches of the host.
    #[cold]
    #[inline(never)]
    pub(super) fn give_up(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn, slot: Slot) {
        self.drop_copies(ctx, slot, NONE);
        self.home.llc.drop_data(slot);
        let way = &mut self.home.llc[slot];
        way.filter = Filter::Invalid;
        way.dirty = false;
        let core = &mut self.cores[txn.core];
        if txn.is_miss()
            && let Some(index) = core
                .outstanding
                .iter()
                .position(|(line, _)| *line == txn.line)
        {
            core.outstanding.swap_remove(index);
        }
    }

    /// Handles an access that meets a poisoned line.
    pub(super) fn poisoned(&mut self, ctx: &mut Ctx<'_, Parcel>, op: u32, kind: AccessKind) {
        if kind == AccessKind::Prefetch {
            return;
        }
        let thread = self.hw_threads.is_thread(self.hw_threads.thread_of(op));
        self.stats.machine_checks += 1;
        if thread {
            self.end_threads(ctx);
        }
    }

    /// Handles poison in a read of the operating system itself.
    pub(super) fn machine_check(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.stats.machine_checks += 1;
        self.end_threads(ctx);
    }

    /// Handles a device's report that one of its threads has met poison.
    pub(super) fn device_meets_poison(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self.errors.threads_ended.is_none() {
            self.errors.threads_ended = Some(ctx.now());
            self.end_processes(ctx);
        }
        self.end_threads(ctx);
    }

    fn end_threads(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        let Some(done) = self.hw_threads.end_threads(now) else {
            return;
        };
        if self.errors.threads_ended.is_none() {
            self.errors.threads_ended = Some(now);
            self.end_processes(ctx);
        }
        for op in self.take_handlers() {
            ctx.wake_at(now, OP | op);
        }
        for (op, time) in done {
            ctx.wake_at(time, OP | op);
        }
        for (_, access) in std::mem::take(&mut self.cores.spinning) {
            let begun = self.hw_threads.issued(access.op);
            let response = AccessResponse::by_cache_after(begun, now, now);
            if let Some(completes) = self.hw_threads.access_done(access.op, response) {
                ctx.wake_at(completes, OP | access.op);
            }
        }
    }
}
