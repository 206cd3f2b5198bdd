//! Back-invalidation snoops and the responses to them.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr};
use cxlab_link::{BufferId, Parcel};
use cxlab_protocol::coherence::block::{BlockResponse, BlockResponses, BlockSnoop};
use cxlab_protocol::coherence::message::{KeptCopy, M2s, Snoop};
use cxlab_protocol::coherence::requester::{Action, Event, Line, LineState, step};
use cxlab_protocol::{CacheMeta, MemMeta, Message};
use serde::{Deserialize, Serialize};

use super::CachingRequester;
use super::entries::{EntryKind, NONE, TransactionEntry};
use super::stats::SnoopedState;

/// A snoop in service, with lines that have no response yet.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct PendingSnoop {
    message: Message,
    lines: BlockSnoop,
    /// Whether the snoop arrived as `BISnp*Blk`.
    is_block: bool,
}

/// The snoops in service, and those that wait.
pub(super) struct PendingSnoops {
    slab: Vec<Option<PendingSnoop>>,
    free: Vec<u32>,
    /// Snoops that wait for an entry, each with the port whose buffer it occupies.
    pub(super) delayed: VecDeque<(Message, u16)>,
}

save_state!(PendingSnoops {
    values: free, delayed;
    sized: slab;
});

impl PendingSnoops {
    pub(super) fn new(count: usize) -> Self {
        PendingSnoops {
            slab: vec![None; count],
            free: (0..count as u32).rev().collect(),
            delayed: VecDeque::new(),
        }
    }

    fn take(&mut self, snoop: PendingSnoop) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.slab[number as usize] = Some(snoop);
                number
            }
            None => unreachable!("every snoop but the newest has a line with an entry"),
        }
    }

    fn get_mut(&mut self, number: u32) -> &mut PendingSnoop {
        match &mut self.slab[number as usize] {
            Some(snoop) => snoop,
            None => unreachable!("an entry names a snoop that is in service"),
        }
    }

    fn give_back(&mut self, number: u32) {
        self.slab[number as usize] = None;
        self.free.push(number);
    }
}

/// The kind of a snoop, its lines, and whether it is a block snoop.
fn parse(message: &Message) -> (Snoop, BlockSnoop, bool) {
    let Some((kind, is_block)) = Snoop::from_opcode(message.opcode) else {
        panic!("{:?} is no snoop", message.opcode)
    };
    let count = if is_block { message.lines } else { 1 };
    match BlockSnoop::new(kind, count) {
        Some(lines) => (kind, lines, is_block),
        None => panic!(
            "a snoop of {count} lines; allowed: 1 to {}",
            BlockSnoop::MAX_LEN
        ),
    }
}

/// The line at `index` of a snoop.
fn line_at(message: &Message, index: u8) -> LineAddr {
    LineAddr(message.hpa.line().0 + u64::from(index))
}

impl CachingRequester {
    /// Handles a snoop that has arrived. A delayed snoop occupies its receive buffer until it is taken.
    pub(super) fn snoop(&mut self, ctx: &mut Ctx<'_, Parcel>, message: Message, port: u16) {
        if self.snoops.delayed.is_empty() && self.can_take(&message) {
            self.take(ctx, &message, port);
        } else {
            self.coherence.snoops_delayed += 1;
            self.snoops.delayed.push_back((message, port));
        }
    }

    /// Takes the delayed snoops that need not wait any longer, in order.
    #[inline]
    pub(super) fn take_delayed(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some((message, port)) = self.snoops.delayed.front().copied()
            && self.can_take(&message)
        {
            self.snoops.delayed.pop_front();
            self.take(ctx, &message, port);
        }
    }

    /// Whether an entry is free for each line that the snoop names and that is modified or in the caches above.
    fn can_take(&self, message: &Message) -> bool {
        let (kind, lines, _) = parse(message);
        let entered = (0..lines.len()).filter(|&index| {
            let slot = self.cache.find(line_at(message, index));
            slot.is_some_and(|slot| {
                let way = &self.cache[slot];
                way.entry == NONE && (way.line == Line::M || way.concerns_above(way.line, kind))
            })
        });
        entered.count() as u32 <= self.entries.room(EntryKind::Snoop)
    }

    fn take(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message, port: u16) {
        let (kind, lines, is_block) = parse(message);
        self.coherence.block_snoops += u64::from(is_block);
        let lookups = u64::from(lines.len());
        self.issuer.delay(ctx.now(), lookups * self.snoop_ps);
        let snoop = self.snoops.take(PendingSnoop {
            message: *message,
            lines,
            is_block,
        });
        for index in 0..lines.len() {
            self.snoop_line(ctx, snoop, index, kind, line_at(message, index));
        }
        self.roots.ports[port as usize].release(ctx, BufferId::of(message.channel(), message.vc));
    }

    fn snoop_line(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        snoop: u32,
        index: u8,
        kind: Snoop,
        line: LineAddr,
    ) {
        let slot = self.cache.find(line);
        let number = self.entry_in_flight(line, slot);
        let state = match (number, slot) {
            (Some(number), _) => self.entries.get(number).state,
            (None, Some(slot)) => LineState::stable(self.cache[slot].line),
            (None, None) => LineState::stable(Line::I),
        };
        let found = if state.line.is_stable() && !state.is_settled() {
            SnoopedState::Busy
        } else {
            SnoopedState::of(state.line)
        };
        self.coherence.snooped[kind as usize][found as usize] += 1;
        if self.holds_snoop(ctx, slot, number, kind, (snoop, index)) {
            return;
        }
        let Some((next, actions)) = step(state, Event::BiSnp(kind)) else {
            panic!("a snoop of {line:?}, {kind:?}, has no row in {state:?}")
        };
        if next.is_settled() && number.is_none() {
            for action in actions.iter() {
                match action {
                    Action::Send(M2s::BiRsp(kept)) => {
                        self.respond_to_snoop(ctx, snoop, index, kept)
                    }
                    Action::Drop => self.coherence.invalidated += 1,
                    Action::Send(_)
                    | Action::Fill
                    | Action::CompleteLoad
                    | Action::CompleteLoadOnce
                    | Action::CompleteStore
                    | Action::CompleteFlush => {
                        unreachable!("a clean stable line is answered at once")
                    }
                }
            }
            match slot {
                Some(slot) if next.line == Line::I => {
                    self.cache.remove(slot);
                }
                Some(slot) => self.cache[slot].line = next.line,
                None => {}
            }
            return;
        }
        let number = match (number, slot) {
            (Some(number), _) => number,
            (None, Some(slot)) => {
                let number = self.entries.take(TransactionEntry {
                    slot: Some(slot),
                    ..self.entry(line, self.cache[slot], EntryKind::Snoop)
                });
                self.cache[slot].entry = number;
                self.cache.pin(slot);
                number
            }
            (None, None) => unreachable!("an absent line is answered at once"),
        };
        let entry = self.entries.get_mut(number);
        entry.state = next;
        entry.snoop = snoop;
        entry.snoop_index = index;
        self.perform(ctx, number, &actions, None);
    }

    /// Responds to the snoop for which an entry owes a response.
    pub(super) fn answer(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, kept: KeptCopy) {
        let entry = self.entries.get_mut(number);
        let snoop = std::mem::replace(&mut entry.snoop, NONE);
        let index = entry.snoop_index;
        self.respond_to_snoop(ctx, snoop, index, kept);
    }

    /// Makes a block snoop respond line by line, because the line of an entry is in conflict.
    pub(super) fn answer_singly(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let snoop = self.entries.get(number).snoop;
        let responses = self.snoops.get_mut(snoop).lines.conflict();
        self.send_responses(ctx, snoop, &responses);
    }

    fn respond_to_snoop(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        snoop: u32,
        index: u8,
        kept: KeptCopy,
    ) {
        let lines = &mut self.snoops.get_mut(snoop).lines;
        let responses = lines.respond(index, kept);
        let done = lines.is_done();
        self.send_responses(ctx, snoop, &responses);
        if done {
            self.snoops.give_back(snoop);
        }
    }

    /// Sends responses. They carry the tag, the time of issue and the stages of their snoop back.
    fn send_responses(&mut self, ctx: &mut Ctx<'_, Parcel>, snoop: u32, list: &BlockResponses) {
        let PendingSnoop {
            message, is_block, ..
        } = *self.snoops.get_mut(snoop);
        for block_response in list.iter() {
            let (index, lines, opcode) = match block_response {
                BlockResponse::Line(index, kept) => (index, 1, kept.opcode()),
                BlockResponse::Block(kept) if is_block => (0, message.lines, kept.block_opcode()),
                BlockResponse::Block(kept) => (0, 1, kept.opcode()),
            };
            let response = Message {
                hpa: Hpa(line_at(&message, index).0 * 64),
                source: self.port_id,
                destination: message.source,
                opcode,
                meta: MemMeta::NONE,
                cache: CacheMeta::NONE,
                lines,
                data: 0,
                vc: 0,
                hops: 0,
                ..message
            };
            self.roots.send(ctx, response);
        }
    }
}
