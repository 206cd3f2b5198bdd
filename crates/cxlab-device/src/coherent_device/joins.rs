//! Snoops for requests that leave as one `BISnp*Blk` (CXL 3.1, section 3.3.8.1).
//!
//! A snoop for a request waits, for at most a constant time, for snoops of the same kind to the
//! same holder in one aligned block of lines. A block with a snoop for each of its lines leaves at
//! once. When the time has passed, the snoops of an incomplete block leave as the largest aligned
//! blocks of 2 or 4 lines that they form, and as single lines. BISnp messages are not ordered among
//! themselves or against other messages (section 3.3.11), so the wait is a delay like that of the
//! link, and it ends by itself.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr, Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::dcoh::{Peer, Peers};
use cxlab_protocol::coherence::message::Snoop;
use serde::{Deserialize, Serialize};

use super::{CoherentDevice, dpa_of};

/// Token of the wake-up for snoops whose time has passed.
pub(super) const JOIN: u32 = u32::MAX - 2;

enum JoinOutcome {
    /// The snoop is the first of its block, which leaves at this time.
    First(SimTime),
    /// The snoop waits with others of its block.
    Waits,
    /// The snoop completes its block, which leaves now.
    Completes(JoinedSnoop),
}

/// Snoops of one kind to one holder for lines of one block.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct JoinedSnoop {
    kind: Snoop,
    peer: Peer,
    /// The first line of the block.
    block: LineAddr,
    /// Bit mask of the block's lines that are snooped.
    lines: u8,
    /// When the block leaves, complete or not.
    due: SimTime,
}

/// The snoops that wait for others of their block.
pub(super) struct SnoopJoiner {
    /// How long the first snoop of a block waits.
    window: Picos,
    /// Lines of a block: 2 or 4.
    size: u8,
    /// Blocks in the order in which they are due.
    waiting: VecDeque<JoinedSnoop>,
}

save_state!(SnoopJoiner {
    values: waiting;
    built: window, size;
});

impl SnoopJoiner {
    /// Joins snoops within `window` to at most `most` lines. `None` if snoops are not joined.
    pub(super) fn new(window: Option<Picos>, most: u8) -> Option<SnoopJoiner> {
        let size = if most >= 4 { 4 } else { most & 2 };
        let window = window.filter(|_| size > 1)?;
        Some(SnoopJoiner {
            window,
            size,
            waiting: VecDeque::with_capacity(64),
        })
    }

    fn add(&mut self, now: SimTime, kind: Snoop, peer: Peer, line: LineAddr) -> JoinOutcome {
        let block = LineAddr(line.0 & !u64::from(self.size - 1));
        let line_bit = 1 << (line.0 - block.0);
        let joins =
            |snoop: &JoinedSnoop| (snoop.block, snoop.peer, snoop.kind) == (block, peer, kind);
        let Some(index) = self.waiting.iter().rposition(joins) else {
            let due = now + self.window;
            self.waiting.push_back(JoinedSnoop {
                kind,
                peer,
                block,
                lines: line_bit,
                due,
            });
            return JoinOutcome::First(due);
        };
        let found = &mut self.waiting[index];
        found.lines |= line_bit;
        if found.lines < (1 << self.size) - 1 {
            return JoinOutcome::Waits;
        }
        let complete = *found;
        self.waiting.remove(index);
        JoinOutcome::Completes(complete)
    }

    fn pop(&mut self, now: SimTime) -> Option<JoinedSnoop> {
        let is_due = self.waiting.front().is_some_and(|snoop| snoop.due <= now);
        is_due.then(|| self.waiting.pop_front()).flatten()
    }
}

impl CoherentDevice {
    /// Snoops the holders `peers` of a line for a request: at once, or joined with
    /// snoops for neighbouring lines.
    pub(super) fn snoop_for_request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kind: Snoop,
        line: LineAddr,
        peers: Peers,
    ) {
        for peer in peers.iter() {
            let Some(joins) = &mut self.joins else {
                return self.snoop(ctx, kind, line, 1, peers);
            };
            match joins.add(ctx.now(), kind, peer, line) {
                JoinOutcome::First(due) => ctx.wake_at(due, JOIN),
                JoinOutcome::Waits => {}
                JoinOutcome::Completes(block) => self.send_joined(ctx, &block),
            }
        }
    }

    pub(super) fn send_due(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        while let Some(due) = self.joins.as_mut().and_then(|joins| joins.pop(now)) {
            self.send_joined(ctx, &due);
        }
    }

    /// Sends the snoops of a block as the largest aligned blocks that they form.
    fn send_joined(&mut self, ctx: &mut Ctx<'_, Parcel>, joined: &JoinedSnoop) {
        let JoinedSnoop { kind, peer, .. } = *joined;
        let mut left = joined.lines;
        while left > 0 {
            let index = left.trailing_zeros() as u8;
            let first = LineAddr(joined.block.0 + u64::from(index));
            let mut lines = if index == 0 { 4 } else { 2 - index % 2 };
            while lines > 1 && !self.is_block(left >> index, first, lines) {
                lines /= 2;
            }
            left &= !(((1 << lines) - 1) << index);
            self.coherence.joined_snoops += u64::from(lines > 1);
            self.snoop(ctx, kind, first, lines, Peers::only(peer));
        }
    }

    /// Whether the first `lines` lines all have snoops, and are contiguous in
    /// the holder's addresses too.
    fn is_block(&self, snooped: u8, first: LineAddr, lines: u8) -> bool {
        let all = (1 << lines) - 1;
        let bytes = Bytes(u64::from(lines) * LINE_BYTES);
        snooped & all == all && self.decoders.is_contiguous(dpa_of(first), bytes)
    }
}
