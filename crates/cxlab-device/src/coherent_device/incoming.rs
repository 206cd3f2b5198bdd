//! Messages that are always accepted: writes, conflicts and responses to snoops.

use cxlab_engine::Ctx;
use cxlab_engine::units::LineAddr;
use cxlab_link::Parcel;
use cxlab_protocol::coherence::dcoh::{Action, Event, Filter, LineState, Peer};
use cxlab_protocol::coherence::message::{KeptCopy, M2s};
use cxlab_protocol::{DevLoad, Message};

use super::lines::NONE;
use super::medium::MediumAccess;
use super::outgoing::Response;
use super::{BufferedMessage, CoherentDevice, parse, row};

impl CoherentDevice {
    pub(super) fn snoop_answered(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        peer: Peer,
    ) {
        let Some((kept, block)) = KeptCopy::from_opcode(message.opcode) else {
            panic!("{:?} is no answer to a snoop", message.opcode)
        };
        let count = if block { message.lines } else { 1 };
        self.coherence.block_answers[kept as usize] += u64::from(block);
        let first = self.dpa(message).line();
        self.snoops.answered(message.tag, peer, first, count);
        for line in (first.0..first.0 + u64::from(count)).map(LineAddr) {
            let Some(number) = self.lines.find(line) else {
                unreachable!("a line that is snooped is busy")
            };
            self.coherence.invalidated += u64::from(kept == KeptCopy::Invalid);
            self.step(ctx, number, Event::Message(peer, M2s::BiRsp(kept)));
            self.settle(ctx, number);
        }
    }

    /// Accepts a `MemWr` or a `BIConflict`.
    pub(super) fn write(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &BufferedMessage) {
        self.release(ctx, arrived);
        let mut message = arrived.message;
        let opcode = parse(&message);
        self.coherence.count(opcode);
        self.stats.accepted += u64::from(opcode != M2s::BiConflict);
        self.record_wait(&mut message, ctx.now() - arrived.at);
        let dpa = self.dpa(&message);
        let busy = self.lines.find(dpa.line());
        let slot = match busy {
            Some(number) => self.lines.get(number).slot,
            None => self.filter.find(dpa.line()),
        };
        let state = match busy {
            Some(number) => self.lines.get(number).state,
            None => LineState::idle(self.filter_of(slot)),
        };
        let (next, actions) = row(state, Event::Message(self.peer(&message), opcode));
        match (busy, slot) {
            (Some(number), _) => self.lines.get_mut(number).state = next,
            (None, Some(slot)) if next.filter == Filter::Invalid => {
                self.filter.remove(slot);
                self.entry_freed(ctx, self.set_of(dpa.line()));
            }
            (None, Some(slot)) if next.filter != state.filter => self.keep(slot, next.filter),
            (None, _) => assert_eq!(next.filter, state.filter, "a holder has an entry"),
        }
        for action in actions.iter() {
            match action {
                Action::WriteMedium => {
                    if let Some(values) = &mut self.values {
                        values.insert(dpa.line(), message.data);
                    }
                    self.medium.writes_queued += 1;
                    self.medium
                        .accesses
                        .push_back(MediumAccess { request: NONE, dpa });
                }
                Action::Respond(_, reply) => {
                    self.answers.waiting += 1;
                    let load = match opcode {
                        M2s::BiConflict => DevLoad::Light,
                        _ => self.load(ctx.now(), message.source, arrived.port),
                    };
                    let response = Response {
                        opcode: reply,
                        data: 0,
                        load,
                    };
                    self.reply(ctx, &message, arrived.port, response, NONE);
                }
                Action::Snoop(..)
                | Action::ReadMedium
                | Action::WriteLocal
                | Action::CompleteLocal => unreachable!("no row of a write or a conflict does so"),
            }
        }
    }
}
