//! `CacheFlushed`: a device whose threads have ended evicts all lines of host memory and informs
//! the host, which then no longer needs to snoop the device (CXL 3.1, section 3.2.4.2.20).

use cxlab_cache::Slot;
use cxlab_engine::Ctx;
use cxlab_engine::units::LineAddr;
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_agent::Line;
use cxlab_protocol::{Message, Opcode};
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::hmc::TransactionEntry;

#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub(super) enum FlushProgress {
    /// Threads are running, or their requests are outstanding.
    #[default]
    NotStarted,
    /// These lines have to be evicted; snoops may have invalidated some of them.
    Evicting(Vec<LineAddr>),
    /// `CacheFlushed` was sent with this CQID.
    Notified(u32),
    /// The host has responded.
    Done,
}

impl Accelerator {
    /// Whether the cache must be flushed and the host has not confirmed the flush.
    pub(super) fn owes_flush(&self) -> bool {
        self.params.cache.flush_at_end && self.flush != FlushProgress::Done
    }

    /// Continues the flush once the threads have ended. Lines are evicted while CQIDs are free;
    /// when all evictions are complete, the host is informed.
    pub(super) fn go_on_flushing(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if !self.owes_flush() || !self.hw_threads.is_done() {
            return;
        }
        if self.flush == FlushProgress::NotStarted
            && self.transactions.free.len() == self.transactions.entries.len()
        {
            self.flush =
                FlushProgress::Evicting(self.cache.iter().map(|(_, line, _)| line).collect());
        }
        while let FlushProgress::Evicting(lines) = &mut self.flush
            && !self.transactions.free.is_empty()
        {
            match lines.pop() {
                Some(line) => {
                    if let Some(slot) = self.cache.find(line) {
                        self.give_up(ctx, slot);
                    }
                }
                None if self.transactions.free.len() == self.transactions.entries.len() => {
                    self.tell_flushed(ctx)
                }
                None => return,
            }
        }
    }

    fn give_up(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) {
        let clean = self.cache[slot].line != Line::M;
        match clean && !self.params.cache.clean_evict {
            true => self.drop_clean(slot),
            false => self.evict(ctx, slot),
        }
    }

    fn tell_flushed(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(id) = self.transactions.free.pop() else {
            return;
        };
        self.transactions.entries[id as usize] = TransactionEntry {
            used: true,
            ..TransactionEntry::default()
        };
        self.flush = FlushProgress::Notified(id);
        let flushed = self.message(ctx, LineAddr(0), Opcode::CacheFlushed, id);
        self.roots.send(ctx, flushed);
    }

    /// Whether a message is the response to `CacheFlushed`, which ends the flush.
    pub(super) fn ends_flush(&mut self, message: &Message) -> bool {
        if self.flush != FlushProgress::Notified(message.tag) {
            return false;
        }
        assert_eq!(message.opcode, Opcode::Go, "the answer to CacheFlushed");
        self.transactions.entries[message.tag as usize].used = false;
        self.transactions.free.push(message.tag);
        self.flush = FlushProgress::Done;
        true
    }
}
