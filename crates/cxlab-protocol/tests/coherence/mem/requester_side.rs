//! The moves of the requesters.

use cxlab_protocol::coherence::block::{BlockResponse, BlockResponses, BlockSnoop};
use cxlab_protocol::coherence::message::{KeptCopy, M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{self, Event};

use super::{Broken, Model, Move, Moves, Outcome, Pending, Property, World};
use crate::checker::{Data, accepted, altered, bound, check};

impl Model {
    pub(super) fn requester(
        &self,
        state: requester::LineState,
        event: Event,
    ) -> Result<Option<(requester::LineState, requester::Actions)>, ()> {
        let table = |row, on| self.tables.requester.row(row, on);
        let step = requester::step_with(state, event, table);
        altered(step, || requester::step(state, event))
    }

    /// A message that must be accepted arrives at a requester.
    pub(super) fn arrives(&self, world: &World, a: usize, l: usize, event: Event) -> Outcome {
        let step = self.requester(world.wires[l][a].state, event);
        let step = accepted(step)?;
        self.act(world, a, l, step)
    }

    pub(super) fn act(
        &self,
        world: &World,
        a: usize,
        l: usize,
        (next, actions): (requester::LineState, requester::Actions),
    ) -> Outcome {
        let mut world = *world;
        world.wires[l][a].state = next;
        for action in actions.iter() {
            let wire = &mut world.wires[l][a];
            match action {
                requester::Action::Send(M2s::BiRsp(kept)) => {
                    self.answer(&mut world, a, l, kept)?;
                }
                requester::Action::Send(M2s::MemWr(value)) => {
                    let full = wire.write.replace((value, wire.copy)).is_some();
                    bound(!full)?;
                }
                requester::Action::Send(M2s::BiConflict) => {
                    bound(!std::mem::replace(&mut wire.conflict, true))?;
                    if matches!(wire.block, 1 | 2 | 5 | 6) {
                        self.separate(&mut world, a)?;
                    }
                }
                requester::Action::Send(request) => {
                    bound(wire.request.replace(request).is_none())?;
                }
                requester::Action::Fill => wire.copy = std::mem::take(&mut wire.arrived),
                requester::Action::Drop => wire.copy = Data::None,
                requester::Action::CompleteLoad => {
                    wire.pending
                        .complete(&[Pending::Load, Pending::LoadShared])?;
                    check(wire.copy == Data::Fresh, Property::LoadValue)?;
                }
                requester::Action::CompleteLoadOnce => {
                    wire.pending.complete(&[Pending::LoadOnce])?;
                    let data = std::mem::take(&mut wire.arrived);
                    let good = matches!(data, Data::Fresh | Data::Recent);
                    check(good, Property::LoadValue)?;
                }
                requester::Action::CompleteStore => {
                    wire.pending.complete(&[Pending::Store])?;
                    check(wire.copy == Data::Fresh, Property::LoadValue)?;
                    self.supersede(&mut world, l);
                    world.wires[l][a].copy = Data::Fresh;
                }
                requester::Action::CompleteFlush => wire.pending.complete(&[Pending::Flush])?,
            }
        }
        Ok(world)
    }

    pub(super) fn block(&self, world: &World, a: usize) -> Option<BlockSnoop> {
        let blocks = [world.wires[0][a].block, world.wires[1][a].block];
        if blocks == [0, 0] {
            return None;
        }
        let mut snoop = BlockSnoop::new(Snoop::Inv, 2)?;
        if blocks.iter().any(|&b| matches!(b, 3 | 4)) {
            snoop.conflict();
        }
        for l in 0..2 {
            match blocks[usize::from(l)] {
                2 | 4 => snoop.respond(l, KeptCopy::Invalid),
                5 => snoop.respond(l, KeptCopy::Shared),
                6 => snoop.respond(l, KeptCopy::Exclusive),
                _ => continue,
            };
        }
        Some(snoop)
    }

    pub(super) fn set_block(&self, world: &mut World, a: usize, snoop: &BlockSnoop) {
        for l in 0..2_u8 {
            let block = &mut world.wires[usize::from(l)][a].block;
            let answered = snoop.has_responded(l);
            *block = match (snoop.is_done(), snoop.is_individual()) {
                (true, _) => 0,
                (false, true) => 3 + u8::from(answered),
                // The copy kept is reported when both lines are answered.
                (false, false) if matches!(*block, 5 | 6) => *block,
                (false, false) => 1 + u8::from(answered),
            };
        }
    }

    fn answer(
        &self,
        world: &mut World,
        a: usize,
        l: usize,
        kept: KeptCopy,
    ) -> Result<(), Property> {
        if !matches!(world.wires[l][a].block, 1 | 3) {
            return bound(world.wires[l][a].response.replace((kept, false)).is_none());
        }
        let mut snoop = self.block(world, a).ok_or(Property::ExactResponses)?;
        let answers = snoop.respond(l as u8, kept);
        self.set_block(world, a, &snoop);
        let block = &mut world.wires[l][a].block;
        *block = match (*block, kept) {
            (2, KeptCopy::Shared) => 5,
            (2, KeptCopy::Exclusive) => 6,
            (block, _) => block,
        };
        self.send_answers(world, a, answers)
    }

    pub(super) fn separate(&self, world: &mut World, a: usize) -> Result<(), Property> {
        let mut snoop = self.block(world, a).ok_or(Property::ExactResponses)?;
        let answers = snoop.conflict();
        self.set_block(world, a, &snoop);
        self.send_answers(world, a, answers)
    }

    fn send_answers(
        &self,
        world: &mut World,
        a: usize,
        sent: BlockResponses,
    ) -> Result<(), Property> {
        for answer in sent.iter() {
            match answer {
                BlockResponse::Line(l, kept) => {
                    let wire = &mut world.wires[usize::from(l)][a];
                    bound(wire.response.replace((kept, false)).is_none())?;
                }
                BlockResponse::Block(kept) => {
                    for wires in &mut world.wires {
                        bound(wires[a].response.replace((kept, true)).is_none())?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn requester_moves(&self, world: &World, a: usize, l: usize, out: &mut Moves) {
        let wire = &world.wires[l][a];
        for &event in self.config.operations {
            if let Ok(Some(step)) = self.requester(wire.state, event) {
                let mut asked = *world;
                asked.wires[l][a].pending = Pending::of(event);
                out.push((Move::Local(a, l, event), self.act(&asked, a, l, step)));
            }
        }
        if let Some((snoop, block)) = wire.snoop {
            let waits =
                self.config.broken == Broken::SnoopBehindRequest && !wire.state.line.is_stable();
            if block && l == 0 {
                out.push((Move::Snoop(a, l), self.take_block(world, a, snoop)));
            } else if !block && !waits {
                let mut next = *world;
                next.wires[l][a].snoop = None;
                let outcome = self.arrives(&next, a, l, Event::BiSnp(snoop));
                out.push((Move::Snoop(a, l), outcome));
            }
        }
        if let Some(completion) = wire.completion {
            let mut next = *world;
            next.wires[l][a].completion = None;
            next.wires[l][a].ack = next.wires[l][a].ack.min(1);
            let outcome = self.arrives(&next, a, l, Event::Response(completion));
            out.push((Move::Completion(a, l), outcome));
        }
        let passes = self.config.broken == Broken::AckPassesCompletion;
        if wire.ack == 1 || (wire.ack == 2 && passes) {
            let mut next = *world;
            next.wires[l][a].ack = 0;
            let outcome = self.arrives(&next, a, l, Event::Response(S2m::BiConflictAck));
            out.push((Move::Ack(a, l), outcome));
        }
        if wire.data != Data::None {
            let mut next = *world;
            let wire = &mut next.wires[l][a];
            let full = wire.arrived != Data::None;
            wire.arrived = std::mem::take(&mut wire.data);
            let outcome = match full {
                true => Err(Property::ExactResponses),
                false => self.arrives(&next, a, l, Event::Response(S2m::MemData)),
            };
            out.push((Move::Data(a, l), outcome));
        }
    }

    pub(super) fn take_block(&self, world: &World, a: usize, snoop: Snoop) -> Outcome {
        let mut next = *world;
        for wires in &mut next.wires {
            wires[a].snoop = None;
            wires[a].block = 1;
        }
        let next = self.arrives(&next, a, 0, Event::BiSnp(snoop))?;
        self.arrives(&next, a, 1, Event::BiSnp(snoop))
    }
}
