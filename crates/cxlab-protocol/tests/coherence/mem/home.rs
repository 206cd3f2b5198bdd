//! The moves of the DCOH and of the owner of its filter.

use cxlab_protocol::coherence::dcoh::{self, Filter, Operation, Peers, Phase};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{M2s, S2m, Snoop};

use super::{Broken, Evictions, Model, Move, Moves, Outcome, Pending, Property, World};
use crate::checker::{Data, accepted, altered, bound, check, peer};

impl Model {
    pub(super) fn dcoh(
        &self,
        state: dcoh::LineState,
        event: dcoh::Event,
    ) -> Result<Option<(dcoh::LineState, dcoh::Actions)>, ()> {
        let table = |row, others| self.tables.dcoh.row(row, others);
        altered(dcoh::step_with(state, event, table), || {
            dcoh::step(state, event)
        })
    }

    /// The DCOH processes an event; `data` is the value that the message carries.
    pub(super) fn home_acts(
        &self,
        mut world: World,
        l: usize,
        event: dcoh::Event,
        (next, actions): (dcoh::LineState, dcoh::Actions),
        data: Data,
    ) -> Outcome {
        let before = world.home[l].state;
        world.home[l].state = next;
        let flushed = match (before.phase, event) {
            (Phase::Snooping(Operation::Flush), _) => !next.is_busy(),
            (_, dcoh::Event::Message(_, M2s::MemInvFlush)) => !next.is_busy(),
            _ => false,
        };
        if flushed {
            let gone = (0..self.config.agents).all(|a| world.wires[l][a].copy == Data::None);
            let current = world.home[l].medium == Data::Fresh;
            check(gone && current, Property::FlushReachesAll)?;
            check(next.filter == Filter::Invalid, Property::MetadataObeyed)?;
        }
        if let dcoh::Event::Message(peer, message) = event {
            let obeyed = match message {
                M2s::MemWr(MetaValue::Invalid) | M2s::MemClnEvct => {
                    !next.filter.holders().contains(peer)
                }
                M2s::MemWr(MetaValue::Shared) => next.filter == Filter::Shared(Peers::only(peer)),
                M2s::MemWr(MetaValue::Any) => next.filter == Filter::Any(peer),
                _ => true,
            };
            check(obeyed, Property::MetadataObeyed)?;
        }
        match event {
            dcoh::Event::LocalRead => world.home[l].pending = Pending::LocalRead,
            dcoh::Event::LocalWrite => world.home[l].pending = Pending::LocalWrite,
            _ => {}
        }
        let mut written = false;
        let read = world.home[l].read;
        for action in actions.iter() {
            let home = &mut world.home[l];
            match action {
                dcoh::Action::Snoop(snoop, peers) => {
                    for peer in peers.iter() {
                        let wire = &mut world.wires[l][peer.index()];
                        bound(wire.snoop.replace((snoop, false)).is_none())?;
                    }
                }
                dcoh::Action::ReadMedium => home.read = home.medium,
                dcoh::Action::WriteMedium => home.medium = data,
                dcoh::Action::WriteLocal => written = true,
                dcoh::Action::CompleteLocal => match std::mem::take(&mut home.pending) {
                    Pending::LocalRead => {
                        let good = matches!(read, Data::Fresh | Data::Recent);
                        check(good, Property::LoadValue)?;
                    }
                    Pending::LocalWrite => {
                        let good = written && home.medium == Data::Fresh;
                        check(good, Property::LoadValue)?;
                        self.supersede(&mut world, l);
                        world.home[l].medium = Data::Fresh;
                    }
                    _ => return Err(Property::ExactResponses),
                },
                dcoh::Action::Respond(peer, reply) => {
                    let wire = &mut world.wires[l][peer.index()];
                    match reply {
                        S2m::BiConflictAck => {
                            bound(wire.ack == 0)?;
                            wire.ack = 1 + u8::from(wire.completion.is_some());
                        }
                        S2m::MemData => {
                            bound(wire.data == Data::None)?;
                            wire.data = read;
                        }
                        completion => {
                            bound(wire.completion.replace(completion).is_none())?;
                            let alone = next.filter.holders() == Peers::only(peer);
                            let as_asked = match (wire.pending, completion) {
                                (Pending::LoadShared, S2m::CmpE) => false,
                                (Pending::Load, S2m::CmpS) => !alone,
                                _ => true,
                            };
                            check(as_asked, Property::GrantAsAsked)?;
                        }
                    }
                }
            }
        }
        if matches!(event, dcoh::Event::MediumData | dcoh::Event::MediumDirty) {
            world.home[l].read = Data::None;
        }
        if matches!(event, dcoh::Event::MediumDirty) {
            world.home[l].medium = Data::Stale;
        }
        Ok(world)
    }

    pub(super) fn home_takes(
        &self,
        world: World,
        l: usize,
        event: dcoh::Event,
        data: Data,
    ) -> Outcome {
        let step = self.dcoh(world.home[l].state, event);
        let step = accepted(step)?;
        self.home_acts(world, l, event, step, data)
    }

    pub(super) fn entries_used(&self, world: &World) -> usize {
        (0..self.config.lines)
            .filter(|&l| world.home[l].state.needs_entry())
            .count()
    }

    pub(super) fn lacks_entry(&self, world: &World, l: usize, request: M2s) -> bool {
        self.config.broken != Broken::NoWaitForEntry
            && Operation::of(request).is_some_and(Operation::allocates)
            && !world.home[l].state.needs_entry()
            && self.entries_used(world) >= self.config.entries
    }

    /// Whether a request has arrived at the DCOH and cannot proceed.
    pub(super) fn request_waits(&self, world: &World) -> bool {
        self.pairs().any(|(a, l)| {
            let wire = &world.wires[l][a];
            let there = !self.config.one_request_queue || wire.at_head;
            wire.request.is_some_and(|request| {
                there && (world.home[l].state.is_busy() || self.lacks_entry(world, l, request))
            })
        })
    }

    pub(super) fn home_moves_for(&self, world: &World, a: usize, l: usize, out: &mut Moves) {
        let wire = &world.wires[l][a];
        let peer = peer(a);
        let behind = |rule| self.config.broken == rule && self.request_waits(world);
        if let Some(request) = wire.request {
            if self.config.one_request_queue && !wire.at_head {
                if self.pairs().all(|(a, l)| !world.wires[l][a].at_head) {
                    let mut next = *world;
                    next.wires[l][a].at_head = true;
                    out.push((Move::ToHead(a, l), Ok(next)));
                }
            } else if !world.home[l].state.is_busy() && !self.lacks_entry(world, l, request) {
                let event = dcoh::Event::Message(peer, request);
                let mut next = *world;
                next.wires[l][a].request = None;
                next.wires[l][a].at_head = false;
                match self.dcoh(world.home[l].state, event).transpose() {
                    Some(Ok(step)) => {
                        let outcome = self.home_acts(next, l, event, step, Data::None);
                        out.push((Move::Request(a, l), outcome));
                    }
                    Some(Err(())) => out.push((Move::Request(a, l), Err(Property::ExactResponses))),
                    None => {}
                }
            }
        }
        let message = |message| dcoh::Event::Message(peer, message);
        if let (Some((value, data)), false) = (wire.write, behind(Broken::WriteBehindRequest)) {
            let mut next = *world;
            next.wires[l][a].write = None;
            let outcome = self.home_takes(next, l, message(M2s::MemWr(value)), data);
            out.push((Move::Write(a, l), outcome));
        }
        if wire.conflict && !behind(Broken::ConflictBehindRequest) {
            let mut next = *world;
            next.wires[l][a].conflict = false;
            let outcome = self.home_takes(next, l, message(M2s::BiConflict), Data::None);
            out.push((Move::Conflict(a, l), outcome));
        }
        if let (Some((kept, block)), false) = (wire.response, behind(Broken::ResponseBehindRequest))
        {
            let event = message(M2s::BiRsp(kept));
            let mut next = *world;
            next.wires[l][a].response = None;
            if !block {
                let outcome = self.home_takes(next, l, event, Data::None);
                out.push((Move::Response(a, l), outcome));
            } else if l == 0 {
                next.wires[1][a].response = None;
                let outcome = self
                    .home_takes(next, 0, event, Data::None)
                    .and_then(|next| self.home_takes(next, 1, event, Data::None));
                out.push((Move::Response(a, l), outcome));
            }
        }
    }

    pub(super) fn begins(
        &self,
        world: &World,
        l: usize,
        event: dcoh::Event,
        step: Move,
        out: &mut Moves,
    ) {
        if let Ok(Some(found)) = self.dcoh(world.home[l].state, event) {
            out.push((step, self.home_acts(*world, l, event, found, Data::None)));
        }
    }

    /// Joins the snoops of both lines that have not arrived into one block snoop.
    pub(super) fn join(&self, world: &World, out: &mut Moves) {
        for a in 0..self.config.agents {
            let snoops = [world.wires[0][a].snoop, world.wires[1][a].snoop];
            if let [Some((kind, false)), Some((other, false))] = snoops
                && kind == other
            {
                let mut next = *world;
                for wires in &mut next.wires {
                    wires[a].snoop = Some((kind, true));
                }
                out.push((Move::Join(a), Ok(next)));
            }
        }
    }

    pub(super) fn home_moves(&self, world: &World, l: usize, out: &mut Moves) {
        let home = &world.home[l];
        if let Phase::Reading(operation) = home.state.phase {
            self.begins(world, l, dcoh::Event::MediumData, Move::Medium(l), out);
            if self.config.dirty_medium && operation == Operation::Own {
                self.begins(
                    world,
                    l,
                    dcoh::Event::MediumDirty,
                    Move::MediumDirty(l),
                    out,
                );
            }
        }
        if home.state.is_busy() {
            return;
        }
        if self.config.local_agent {
            self.begins(world, l, dcoh::Event::LocalRead, Move::LocalRead(l), out);
            self.begins(world, l, dcoh::Event::LocalWrite, Move::LocalWrite(l), out);
        }
        let evicts = match self.config.evictions {
            Evictions::Anytime => true,
            Evictions::WhenFull => self.pairs().any(|(a, l)| {
                let wire = &world.wires[l][a];
                let there = !self.config.one_request_queue || wire.at_head;
                wire.request
                    .is_some_and(|request| there && self.lacks_entry(world, l, request))
            }),
        };
        if !evicts {
            return;
        }
        self.begins(world, l, dcoh::Event::EvictEntry, Move::Evict(l), out);
        if self.config.blocks && l == 0 && !world.home[1].state.is_busy() {
            out.extend(self.evict_block(world).map(|to| (Move::EvictBlock, Ok(to))));
        }
    }

    /// The filter evicts both lines. A holder of both gets one snoop for the block.
    fn evict_block(&self, world: &World) -> Option<World> {
        let mut moves = Vec::new();
        let mut next = *world;
        for l in 0..2 {
            let event = dcoh::Event::EvictEntry;
            self.begins(&next, l, event, Move::EvictBlock, &mut moves);
            next = moves.pop()?.1.ok()?;
        }
        let waiting = next.home.map(|home| home.state.waiting);
        for peer in waiting[0].common(waiting[1]).iter() {
            for wires in &mut next.wires {
                wires[peer.index()].snoop = Some((Snoop::Inv, true));
            }
        }
        Some(next)
    }
}
