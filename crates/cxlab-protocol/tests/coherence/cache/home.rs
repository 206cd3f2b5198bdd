//! The moves of the home agent and of the host's cores.

use cxlab_protocol::coherence::cache_agent::Line;
use cxlab_protocol::coherence::cache_home::{
    self, Action, CORES, CoreSnoopResult, Event, Filter, Operation, Peers, Phase,
};
use cxlab_protocol::coherence::cache_message::{HostResponse, Request};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;

use super::{Broken, Cores, Model, Move, Moves, Outcome, Pending, Property, Pulled, World};
use crate::checker::{Data, accepted, altered, bound, check, peer};

type Stepped = Option<(cache_home::LineState, cache_home::Actions)>;

impl Model {
    pub(super) fn home(&self, state: cache_home::LineState, event: Event) -> Result<Stepped, ()> {
        let table = |row, on, others| self.tables.home.row(row, (on, others));
        let step = cache_home::step_with(state, event, table);
        altered(step, || cache_home::step(state, event))
    }

    /// The home processes an event that must be accepted.
    fn home_takes(&self, world: World, l: usize, event: Event) -> Outcome {
        let step = self.home(world.home[l].state, event);
        let step = accepted(step)?;
        self.home_acts(world, l, event, step)
    }

    /// The home processes an event that may wait, if the table has a row for it.
    fn begins(&self, world: &World, l: usize, event: Event, step: Move, out: &mut Moves) {
        match self.home(world.home[l].state, event) {
            Ok(Some(found)) => out.push((step, self.home_acts(*world, l, event, found))),
            // The request can be accepted in another way, which must not hide the missing row.
            Ok(None)
                if self.config.victims
                    && matches!(
                        event,
                        Event::CleanEvictWanted(_) | Event::Request(_, Request::CleanEvict)
                    ) =>
            {
                out.push((step, Err(Property::AcceptsOperations)));
            }
            Ok(None) => {}
            Err(()) => out.push((step, Err(Property::ExactResponses))),
        }
    }

    fn home_acts(
        &self,
        mut world: World,
        l: usize,
        event: Event,
        (next, actions): (cache_home::LineState, cache_home::Actions),
    ) -> Outcome {
        let before = std::mem::replace(&mut world.home[l].state, next);
        for action in actions.iter() {
            let home = &mut world.home[l];
            match action {
                Action::Snoop(snoop, peers) => self.snoop(&mut world, l, snoop, peers)?,
                Action::SnoopCores(snoop) => {
                    check(snoop == self.asked(&world, l), Property::SnoopAsAsked)?;
                    bound(world.cores[l].snoop.replace(snoop).is_none())?;
                }
                Action::ReadMemory | Action::ReadLlc => home.buffer = home.memory,
                Action::WriteMemory => {
                    check(home.buffer == Data::Fresh, Property::DirtyDataKept)?;
                    check(home.memory != Data::Fresh, Property::ModifiedMeansDirty)?;
                    home.memory = home.buffer;
                }
                Action::WriteLlc => self.fill_cores(&mut world, l, Line::M)?,
                Action::FillLlc => self.fill_cores(&mut world, l, Line::E)?,
                Action::GrantCores(state) => self.grant_cores(&mut world, l, state)?,
                Action::Respond(peer, reply) => self.reply(&mut world, l, peer.index(), reply)?,
            }
        }
        if !next.is_busy() {
            world.home[l].buffer = Data::None;
        }
        check(obeys(before, event, next), Property::DirectoryObeys)?;
        Ok(world)
    }

    /// The snoop that the operation in flight requires of other holders.
    fn asked(&self, world: &World, l: usize) -> Snoop {
        let state = world.home[l].state;
        match (state.phase, state.requester) {
            (Phase::Snooping(Operation::EvictEntry), _) => Snoop::Inv,
            (_, CORES) => world.cores[l].pending.snoops(),
            (_, device) => world.wires[l][device.index()].pending.snoops(),
        }
    }

    fn snoop(
        &self,
        world: &mut World,
        l: usize,
        snoop: Snoop,
        peers: Peers,
    ) -> Result<(), Property> {
        check(snoop == self.asked(world, l), Property::SnoopAsAsked)?;
        for peer in peers.iter() {
            let wire = &mut world.wires[l][peer.index()];
            bound(!wire.is_snooped())?;
            check(!wire.is_pulled(), Property::NoSnoopBesidePull)?;
            wire.snoop = Some(snoop);
            wire.behind = wire.response.is_some();
        }
        Ok(())
    }

    fn reply(
        &self,
        world: &mut World,
        l: usize,
        a: usize,
        reply: HostResponse,
    ) -> Result<(), Property> {
        let alone = world.home[l].state.filter.holders() == Peers::only(peer(a));
        let gone = self.is_gone(world, l);
        let current = world.home[l].memory == Data::Fresh;
        let buffer = world.home[l].buffer;
        let wire = &mut world.wires[l][a];
        if let HostResponse::Data | HostResponse::ErrorData = reply {
            let missing = reply == HostResponse::ErrorData;
            check(missing == self.config.missing, Property::FailsAsMissing)?;
            bound(wire.data == Data::None)?;
            wire.data = if missing { Data::Stale } else { buffer };
            return check(wire.data != Data::None, Property::StateMatchesData);
        }
        check(!wire.is_snooped(), Property::NoGoBesideSnoop)?;
        bound(wire.response.replace(reply).is_none())?;
        let as_asked = match (wire.pending, reply) {
            (_, HostResponse::Go(GoState::Error) | HostResponse::GoErrWritePull) => {
                self.config.missing
            }
            (Pending::LoadShared, HostResponse::Go(state)) => state == GoState::Shared,
            (Pending::Load, HostResponse::Go(GoState::Shared)) => !alone,
            _ => true,
        };
        check(as_asked, Property::GrantAsAsked)?;
        // A write of a part of the line needs the rest in memory.
        let part = matches!(
            reply,
            HostResponse::WritePull | HostResponse::FastGoWritePull
        );
        check(!part || current, Property::DirtyDataKept)?;
        let flushed = wire.pending == Pending::Flush && !self.config.missing;
        check(!flushed || gone && current, Property::FlushReachesAll)
    }

    /// Whether no cache holds the line and the directory has no holder.
    fn is_gone(&self, world: &World, l: usize) -> bool {
        let mut wires = world.wires[l].iter();
        wires.all(|wire| !wire.has_copy() || wire.is_evicted())
            && world.cores[l].line == Line::I
            && world.home[l].state.filter == Filter::Invalid
    }

    /// The last-level cache takes the line from the home's buffer.
    fn fill_cores(&self, world: &mut World, l: usize, line: Line) -> Result<(), Property> {
        let data = world.home[l].buffer;
        let cores = &mut world.cores[l];
        check(cores.line == Line::I, Property::SingleWriter)?;
        check(data == Data::Fresh, Property::DirtyDataKept)?;
        (cores.line, cores.copy) = (line, data);
        Ok(())
    }

    fn grant_cores(&self, world: &mut World, l: usize, state: GoState) -> Result<(), Property> {
        let data = world.home[l].buffer;
        let cores = &mut world.cores[l];
        cores.copy = data;
        cores.line = match state {
            GoState::Shared => Line::S,
            GoState::Exclusive => Line::E,
            GoState::Modified => Line::M,
            GoState::Invalid | GoState::Error => return Err(Property::ExactResponses),
        };
        check(data == Data::Fresh, Property::LoadValue)?;
        match std::mem::take(&mut cores.pending) {
            Pending::Load => Ok(()),
            Pending::Store => self.store_in_cores(world, l),
            _ => Err(Property::ExactResponses),
        }
    }

    fn store_in_cores(&self, world: &mut World, l: usize) -> Result<(), Property> {
        let owned = matches!(world.cores[l].line, Line::E | Line::M);
        check(owned, Property::ExactResponses)?;
        check(world.cores[l].copy == Data::Fresh, Property::LoadValue)?;
        self.supersede(world, l);
        world.cores[l].line = Line::M;
        world.cores[l].copy = Data::Fresh;
        Ok(())
    }

    /// The moves by which messages of a device arrive at the home.
    pub(super) fn home_moves_for(&self, world: &World, a: usize, l: usize, out: &mut Moves) {
        let wire = &world.wires[l][a];
        if let (Some(request), false) = (wire.request, world.home[l].state.is_busy())
            && self.may_begin_request(world, a, l)
        {
            let mut next = *world;
            next.wires[l][a].request = None;
            if let Err(broken) = self.takes_turn(&mut next, a, l) {
                out.push((Move::Request(a, l), Err(broken)));
                return;
            }
            let event = match self.config.missing {
                true => Event::Missing(peer(a), request),
                false => Event::Request(peer(a), request),
            };
            self.begins(&next, l, event, Move::Request(a, l), out);
            if request == Request::CleanEvict && self.config.victims {
                let event = Event::CleanEvictWanted(peer(a));
                self.begins(&next, l, event, Move::RequestWanted(a, l), out);
            }
        }
        if let Some(answer) = wire.answer {
            let mut next = *world;
            next.wires[l][a].answer = None;
            let event = Event::SnoopResponse(peer(a), answer);
            out.push((Move::SnoopResponse(a, l), self.home_takes(next, l, event)));
        }
        let waits = self.config.broken == Broken::DataBehindRequest
            && self.pairs().any(|(b, l)| {
                b == a && world.wires[l][a].request.is_some() && world.home[l].state.is_busy()
            });
        if wire.forwarded != Data::None && !waits {
            let mut next = *world;
            next.home[l].buffer = std::mem::take(&mut next.wires[l][a].forwarded);
            let outcome = self.home_takes(next, l, Event::SnoopData);
            out.push((Move::SnoopData(a, l), outcome));
        }
        if let (Some((pulled, data)), false) = (wire.pulled, waits) {
            let mut next = *world;
            next.wires[l][a].pulled = None;
            next.home[l].buffer = data;
            let hit = std::mem::take(&mut next.wires[l][a].hit);
            let event = Event::PulledData(pulled == Pulled::Bogus);
            let outcome = self.home_takes(next, l, event).and_then(|next| {
                let into_llc = next.cores[l].line != Line::I;
                let right = match pulled {
                    Pulled::Bogus => true,
                    Pulled::ForLlc | Pulled::Victim => into_llc,
                    Pulled::ForMemory | Pulled::ForNothing => !into_llc,
                    Pulled::ForEither => into_llc == hit,
                };
                check(right, Property::WriteLands).map(|()| next)
            });
            out.push((Move::PulledData(a, l), outcome));
        }
    }

    /// The moves that start in the host itself.
    pub(super) fn home_moves(&self, world: &World, l: usize, out: &mut Moves) {
        let state = world.home[l].state;
        match state.phase {
            Phase::Reading(_) => {
                self.begins(world, l, Event::ReadDone, Move::ReadDone(l), out);
            }
            Phase::Writing(_) => self.begins(world, l, Event::Written, Move::Written(l), out),
            Phase::Idle
                if self.config.evictions
                    && state.filter != Filter::Invalid
                    && world.wires[l].iter().all(|wire| wire.place == 0) =>
            {
                self.begins(world, l, Event::EvictEntry, Move::EvictEntry(l), out);
            }
            _ => {}
        }
        if let Some(snoop) = world.cores[l].snoop {
            let mut next = *world;
            let found = answer_of_cores(&mut next, l, snoop);
            let asked = state.phase != Phase::Snooping(Operation::EvictEntry);
            if let (Some(wire), true) = (next.wires[l].get_mut(state.requester.index()), asked) {
                wire.hit =
                    found != CoreSnoopResult::Nothing && wire.pending == Pending::WriteCurrent;
            }
            let event = Event::CoresResponded(found);
            out.push((Move::CoresAnswer(l), self.home_takes(next, l, event)));
        }
        if self.config.cores {
            self.core_moves(world, l, out);
        }
    }

    fn core_moves(&self, world: &World, l: usize, out: &mut Moves) {
        let Cores {
            line,
            copy,
            pending,
            ..
        } = world.cores[l];
        if pending != Pending::Nothing {
            return;
        }
        if line != Line::I {
            let value = check(copy == Data::Fresh, Property::LoadValue);
            out.push((Move::CoreLoad(l), value.map(|()| *world)));
        }
        if matches!(line, Line::E | Line::M) {
            let mut next = *world;
            let outcome = self.store_in_cores(&mut next, l).map(|()| next);
            out.push((Move::CoreStore(l), outcome));
        }
        if matches!(line, Line::S | Line::E) {
            let mut next = *world;
            (next.cores[l].line, next.cores[l].copy) = (Line::I, Data::None);
            out.push((Move::CoreDrop(l), Ok(next)));
        }
        if world.home[l].state.is_busy() {
            return;
        }
        let mut next = *world;
        if line == Line::I {
            next.cores[l].pending = Pending::Load;
            self.begins(&next, l, Event::CoreRead, Move::CoreLoad(l), out);
        }
        if matches!(line, Line::I | Line::S) {
            next.cores[l].pending = Pending::Store;
            self.begins(&next, l, Event::CoreOwn, Move::CoreStore(l), out);
        }
        if line == Line::M {
            let mut next = *world;
            next.home[l].buffer = std::mem::take(&mut next.cores[l].copy);
            next.cores[l].line = Line::I;
            self.begins(&next, l, Event::CoreWriteBack, Move::CoreWriteBack(l), out);
        }
    }

    /// The home removes a device that was flushed from its directory.
    pub(super) fn forget_holder(&self, mut world: World, a: usize) -> Outcome {
        for l in 0..self.config.lines {
            world = self.home_takes(world, l, Event::CacheFlushed(peer(a)))?;
            let holders = world.home[l].state.filter.holders();
            check(!holders.contains(peer(a)), Property::FlushReachesAll)?;
        }
        Ok(world)
    }

    /// Whether an idle line accepts every event of the host itself.
    pub(super) fn home_accepts(&self, state: cache_home::LineState) -> bool {
        let takes = |event| matches!(self.home(state, event), Ok(Some(_)));
        let held = state.filter != Filter::Invalid;
        let written = state.filter != Filter::Any(CORES) || takes(Event::CoreWriteBack);
        takes(Event::CoreRead)
            && takes(Event::CoreOwn)
            && written
            && (!held || takes(Event::EvictEntry))
    }
}

/// The cores execute a snoop. Returns what they had.
fn answer_of_cores(world: &mut World, l: usize, snoop: Snoop) -> CoreSnoopResult {
    let cores = &mut world.cores[l];
    cores.snoop = None;
    let found = match cores.line {
        Line::I => return CoreSnoopResult::Nothing,
        Line::M => CoreSnoopResult::Dirty,
        _ => CoreSnoopResult::Clean,
    };
    world.home[l].buffer = cores.copy;
    match snoop {
        Snoop::Inv => (cores.line, cores.copy) = (Line::I, Data::None),
        Snoop::Data => cores.line = Line::S,
        Snoop::Cur => {}
    }
    found
}

/// Whether the directory after an event is as the event requires.
fn obeys(before: cache_home::LineState, event: Event, next: cache_home::LineState) -> bool {
    let holds = |peer| next.filter.holders().contains(peer);
    let evicted = |peer| next.is_busy() || !holds(peer);
    match (event, before.phase) {
        (Event::Request(peer, Request::CleanEvict | Request::CleanEvictNoData), _) => evicted(peer),
        (Event::CoreWriteBack, _) => evicted(CORES),
        (Event::PulledData(_), Phase::Pulling(_)) => !holds(before.requester),
        _ => true,
    }
}
