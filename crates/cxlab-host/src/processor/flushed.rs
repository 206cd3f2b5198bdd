//! `CacheFlushed`: a device reports that its cache has no lines any more (CXL 3.1, section 3.2.4.2.20).

use cxlab_cache::Slot;
use cxlab_engine::Ctx;
use cxlab_engine::units::LineAddr;
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::{Event, LineState, Peer, step};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::{Message, Opcode};
use serde::{Deserialize, Serialize};

use super::Processor;

/// A device that waits for the response to its `CacheFlushed`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PendingCacheFlush {
    message: Message,
    peer: Peer,
    /// Lines with a transaction in progress, whose entry still names the device as a holder.
    lines: Vec<LineAddr>,
}

impl Processor {
    /// Handles `CacheFlushed`: the directory removes the device from the holders of every line. Removal
    /// from a line with a transaction in progress waits for the transaction. The response waits for such
    /// lines, so that no snoop follows it.
    pub(super) fn device_flushed(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let peer = self.accelerators.peer_of(message.source);
        let (idle, busy) = self.home.llc.held_by(peer);
        for slot in idle {
            self.forget_holder(slot, peer);
            self.home.llc.settle(slot);
        }
        self.home.flushed.push(PendingCacheFlush {
            message: *message,
            peer,
            lines: busy,
        });
        self.complete_cache_flush(ctx);
    }

    /// Removes flushed devices from the holders of the line in this slot, whose transaction is over.
    pub(super) fn forget_flushed(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) {
        if self.home.flushed.is_empty() {
            return;
        }
        let line = self.home.llc.line(slot);
        let mut flushed = std::mem::take(&mut self.home.flushed);
        for &mut PendingCacheFlush {
            peer,
            ref mut lines,
            ..
        } in &mut flushed
        {
            if let Some(index) = lines.iter().position(|other| *other == line) {
                lines.swap_remove(index);
                if self.home.llc[slot].filter.holders().contains(peer) {
                    self.forget_holder(slot, peer);
                }
            }
        }
        self.home.flushed = flushed;
        self.complete_cache_flush(ctx);
    }

    fn forget_holder(&mut self, slot: Slot, peer: Peer) {
        let idle = LineState::idle(self.home.llc[slot].filter);
        let Some((next, _)) = step(idle, Event::CacheFlushed(peer)) else {
            unreachable!("an idle line can lose a holder")
        };
        self.stats.flushed_lines += 1;
        self.home.llc[slot].filter = next.filter;
    }

    fn complete_cache_flush(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let is_over = |flushed: &mut PendingCacheFlush| flushed.lines.is_empty();
        let over: Vec<PendingCacheFlush> = self.home.flushed.extract_if(.., is_over).collect();
        for PendingCacheFlush { message, .. } in over {
            let line = LineAddr(0);
            let (to, tag, stages) = (message.source, message.tag, message.stages);
            let state = GoState::Invalid;
            self.send_cache(ctx, to, line, Opcode::Go, tag, 0, state, stages, false);
        }
    }
}
