//! The moves of the devices.

use cxlab_protocol::coherence::cache_agent::{self, Action, Event, Line};
use cxlab_protocol::coherence::cache_message::HostResponse;

use super::{Broken, Evicting, Model, Move, Moves, Outcome, Pending, Property, Pulled, World};
use crate::checker::{Data, accepted, altered, bound, check};

type Stepped = Option<(cache_agent::LineState, cache_agent::Actions)>;

impl Model {
    fn agent(&self, state: cache_agent::LineState, event: Event) -> Result<Stepped, ()> {
        let table = |row, on| self.tables.agent.row(row, on);
        let step = cache_agent::step_with(state, event, table);
        altered(step, || cache_agent::step(state, event))
    }

    pub(super) fn takes(&self, state: cache_agent::LineState, event: Event) -> bool {
        matches!(self.agent(state, event), Ok(Some(_)))
    }

    /// A message that must be accepted arrives at a device.
    fn arrives(&self, world: &World, a: usize, l: usize, event: Event) -> Outcome {
        let step = self.agent(world.wires[l][a].state, event);
        let step = accepted(step)?;
        self.act(world, a, l, step)
    }

    fn act(
        &self,
        world: &World,
        a: usize,
        l: usize,
        (next, actions): (cache_agent::LineState, cache_agent::Actions),
    ) -> Outcome {
        let mut world = *world;
        let before = std::mem::replace(&mut world.wires[l][a].state, next).line;
        if next.is_settled() && actions.iter().all(|action| action != Action::EvictData) {
            world.wires[l][a].evicting = Evicting::Nothing;
        }
        for action in actions.iter() {
            let wire = &mut world.wires[l][a];
            let completes = matches!(
                action,
                Action::CompleteLoad
                    | Action::CompleteLoadOnce
                    | Action::CompleteStore
                    | Action::CompleteWrite
                    | Action::CompleteFlush
            );
            check(!completes || !self.config.missing, Property::FailsAsMissing)?;
            match action {
                Action::Send(request) => {
                    bound(wire.request.replace(request).is_none())?;
                    wire.evicting = Evicting::of(request);
                    check(wire.pending.asks(request), Property::RequestAsAsked)?;
                }
                Action::SnoopResponse(answer) => bound(wire.answer.replace(answer).is_none())?,
                Action::SnoopData => {
                    bound(wire.forwarded == Data::None)?;
                    wire.forwarded = wire.copy;
                }
                Action::WriteData => {
                    bound(wire.pulled.is_none())?;
                    if self.config.missing {
                        wire.pulled = Some((Pulled::ForNothing, Data::Stale));
                        continue;
                    }
                    let pulled = Pulled::of(wire.pending);
                    self.supersede(&mut world, l);
                    world.wires[l][a].pulled = Some((pulled, Data::Fresh));
                }
                Action::EvictData => {
                    let pulled = std::mem::take(&mut wire.evicting).pulled();
                    bound(wire.pulled.replace((pulled, wire.copy)).is_none())?;
                }
                Action::BogusData => {
                    wire.evicting = Evicting::Nothing;
                    bound(wire.pulled.replace((Pulled::Bogus, Data::Stale)).is_none())?;
                }
                Action::Fill => wire.copy = std::mem::take(&mut wire.arrived),
                Action::Drop => wire.copy = Data::None,
                Action::CompleteLoad => {
                    wire.pending
                        .complete(&[Pending::Load, Pending::LoadShared])?;
                    check(wire.copy == Data::Fresh, Property::LoadValue)?;
                }
                Action::CompleteLoadOnce => {
                    let asked: &[Pending] = match before {
                        Line::IcD => &[Pending::LoadOnce],
                        _ => &[Pending::Load, Pending::LoadShared],
                    };
                    wire.pending.complete(asked)?;
                    let data = std::mem::take(&mut wire.arrived);
                    let good = matches!(data, Data::Fresh | Data::Recent);
                    check(good, Property::LoadValue)?;
                }
                Action::CompleteStore => {
                    let whole = wire.pending != Pending::Store;
                    wire.pending
                        .complete(&[Pending::Store, Pending::StoreLine, Pending::Push])?;
                    check(whole || wire.copy == Data::Fresh, Property::LoadValue)?;
                    self.supersede(&mut world, l);
                    let wire = &mut world.wires[l][a];
                    wire.copy = Data::Fresh;
                    wire.kept = !whole && self.config.waits.is_some() && next.line == Line::M;
                }
                Action::CompleteWrite => {
                    wire.pending.complete(&[
                        Pending::WriteOwn,
                        Pending::WriteCurrent,
                        Pending::WriteThrough,
                        Pending::WriteWeakly,
                        Pending::Push,
                    ])?;
                }
                Action::CompleteFlush => wire.pending.complete(&[Pending::Flush])?,
                Action::Fail => {
                    check(self.config.missing, Property::FailsAsMissing)?;
                    wire.arrived = Data::None;
                    let asked = std::mem::take(&mut wire.pending) != Pending::Nothing;
                    check(asked, Property::ExactResponses)?;
                }
            }
        }
        Ok(world)
    }

    pub(super) fn device_moves(&self, world: &World, a: usize, l: usize, out: &mut Moves) {
        let wire = &world.wires[l][a];
        let operations = match world.flushed[a] {
            0 if self.may_begin_local(wire) => self.config.operations,
            _ => &[],
        };
        for &event in operations {
            if let Ok(Some(step)) = self.agent(wire.state, event) {
                let mut asked = *world;
                asked.wires[l][a].pending = Pending::of(event);
                // An operation that begins while a snoop is parked overtakes it.
                let outcome = check(!wire.parked, Property::BoundedWaiting)
                    .and_then(|()| self.act(&asked, a, l, step));
                out.push((Move::Local(a, l, event), outcome));
            }
        }
        let broken = self.config.broken;
        if let Some(snoop) = wire.snoop {
            let waits = broken == Broken::SnoopBehindRequest && !wire.state.is_settled();
            if (!wire.behind || broken == Broken::SnoopPassesGo) && !waits && !wire.kept {
                let mut next = *world;
                next.wires[l][a].snoop = None;
                next.wires[l][a].parked = false;
                next.wires[l][a].behind = false;
                let outcome = self.arrives(&next, a, l, Event::Snp(snoop));
                out.push((Move::Snoop(a, l), outcome));
            }
        }
        if let Some(response) = wire.response {
            let mut next = *world;
            next.wires[l][a].response = None;
            next.wires[l][a].behind = false;
            let outcome = self.arrives(&next, a, l, Event::HostResponse(response));
            out.push((Move::Response(a, l), outcome));
        }
        if wire.data != Data::None {
            let mut next = *world;
            let wire = &mut next.wires[l][a];
            let full = wire.arrived != Data::None;
            wire.arrived = std::mem::take(&mut wire.data);
            let outcome = match full {
                true => Err(Property::ExactResponses),
                false => self.arrives(&next, a, l, Event::HostResponse(self.data())),
            };
            out.push((Move::Data(a, l), outcome));
        }
    }

    /// The reply on H2D Data.
    fn data(&self) -> HostResponse {
        match self.config.missing {
            true => HostResponse::ErrorData,
            false => HostResponse::Data,
        }
    }

    /// The moves of `CacheFlushed`, which concerns all lines of a device.
    pub(super) fn flush_moves(&self, world: &World, a: usize, out: &mut Moves) {
        let wires = (0..self.config.lines).map(|l| &world.wires[l][a]);
        let mut next = *world;
        match world.flushed[a] {
            0 if self.config.flushes => {
                let empty = |wire: &super::Wire| {
                    wire.state == cache_agent::LineState::default() && wire.request.is_none()
                };
                if wires.clone().all(empty) {
                    next.flushed[a] = 1;
                    out.push((Move::CacheFlushed(a), Ok(next)));
                }
            }
            1 if (0..self.config.lines).all(|l| !world.home[l].state.is_busy()) => {
                next.flushed[a] = 2;
                out.push((Move::FlushTaken(a), self.forget_holder(next, a)));
            }
            2 => {
                next.flushed[a] = 0;
                out.push((Move::FlushDone(a), Ok(next)));
            }
            _ => {}
        }
    }
}
