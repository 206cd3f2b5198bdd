//! Responses, and the actions that the protocol table demands for a line.

use cxlab_engine::Ctx;
use cxlab_engine::units::Hpa;
use cxlab_link::Parcel;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::coherence::message::{M2s, S2m};
use cxlab_protocol::coherence::requester::{Action, Actions, Event, Line, LineState, step};
use cxlab_protocol::{DevLoad, LatencyStages, MemMeta, Message, Opcode};

use super::entries::{EntryKind, NONE};
use super::{CachingRequester, Observation, access_event, local_step};
use cxlab_agent::{HOST_QUEUE, STAGE_NAMES, StageTimes, stages_of};

impl CachingRequester {
    /// Handles a response on NDR or DRS.
    pub(super) fn respond(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let number = message.tag;
        assert!(
            self.entries.is_in_use(number),
            "a response to a request that was never made"
        );
        let entry = self.entries.get_mut(number);
        assert_eq!(
            Hpa(entry.line.0 * 64),
            message.hpa,
            "a response carries its request's address"
        );
        let Some(response) = S2m::from_opcode(message.opcode) else {
            panic!("{:?} is no response to a requester", message.opcode)
        };
        if response == S2m::MemData {
            entry.data = message.data;
        }
        let before = entry.state;
        if response == S2m::BiConflictAck && self.holds_acknowledgement(number) {
            self.proceed(ctx, number);
            return;
        }
        let Some((next, actions)) = step(before, Event::Response(response)) else {
            panic!("{response:?} has no row in {before:?}")
        };
        self.entries.get_mut(number).state = next;
        if self.throttle.is_some() {
            self.report_load(ctx, message, response);
        }
        if response == S2m::BiConflictAck && !before.line.is_stable() && !actions.is_empty() {
            self.coherence.early_conflicts += 1;
        }
        self.perform(ctx, number, &actions, Some(message));
        self.settle(ctx, number, Some(message));
    }

    /// Passes the load that a response reports to the throttle (CXL 3.1, section 3.3.4.2). `BIConflictAck`
    /// is ignored, because it completes no request.
    #[inline(never)]
    fn report_load(&mut self, ctx: &Ctx<'_, Parcel>, message: &Message, response: S2m) {
        if response == S2m::BiConflictAck {
            return;
        }
        let (throttle, issued) = (self.throttle.as_mut(), self.issuer.issued());
        let load = DevLoad::of(message);
        if let Some(interval) =
            throttle.and_then(|throttle| throttle.observe(ctx.now(), load, issued))
        {
            self.issuer.set_interval(self.interval_ps.max(interval));
        }
    }

    /// Lets the waiting accesses continue while the line is settled. Without waiting accesses
    /// the entry is released. A snoop of the caches above comes first.
    pub(super) fn settle(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        message: Option<&Message>,
    ) {
        if self.entries.get(number).snoop_reason.is_some() {
            self.proceed(ctx, number);
            return;
        }
        while self.entries.get(number).state.is_settled() {
            if self.entries.get(number).first == NONE {
                self.release(ctx, number);
                return;
            }
            self.request(ctx, number, message);
        }
    }

    /// Serves the first access that waits for a settled line: the access completes, or sends a request.
    pub(super) fn request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        message: Option<&Message>,
    ) {
        let entry = self.entries.get_mut(number);
        let write = self.accesses.get(entry.first).write;
        entry.begun = ctx.now().0;
        entry.messages_sent = 0;
        if entry.class == CoherenceClass::HdmH && entry.state.line == Line::I {
            // Data alone will come, and no other requester has the line.
            let line = if write { Line::MD } else { Line::ED };
            entry.state = LineState::stable(line);
            self.send_request(ctx, number, Opcode::MemRd, MemMeta::NONE, None);
            return;
        }
        let event = match entry.state.line {
            Line::I if !write => self.load_miss,
            _ => access_event(write),
        };
        let (next, actions) = local_step(entry.state, event);
        entry.state = next;
        self.perform(ctx, number, &actions, message);
    }

    /// Releases the entry of a settled line without waiting accesses. If the line has left the cache, a
    /// later miss may now request it again.
    fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let entry = self.entries.get(number);
        let (line, successor) = (entry.state.line, entry.successor);
        if let Some(slot) = entry.slot {
            if line == Line::I {
                self.cache.remove(slot);
            } else {
                let way = &mut self.cache[slot];
                way.line = line;
                way.entry = NONE;
                self.cache.unpin(slot);
            }
        }
        self.entries.give_back(number);
        if successor != NONE {
            self.entries.get_mut(successor).predecessor = NONE;
            self.request(ctx, successor, None);
        }
    }

    /// Performs the actions of the protocol table, after the entry has received its new state. `message` is
    /// the response that caused them.
    pub(super) fn perform(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        actions: &Actions,
        message: Option<&Message>,
    ) {
        for action in actions.iter() {
            match action {
                Action::Send(m2s) => self.send(ctx, number, m2s, message),
                Action::Fill => {
                    let entry = self.entries.get(number);
                    if let Some(slot) = entry.slot {
                        self.cache[slot].data = entry.data;
                    }
                }
                Action::Drop => {
                    let snooped = self.entries.get(number).snoop != NONE;
                    self.coherence.invalidated += u64::from(snooped);
                }
                Action::CompleteLoad => self.complete(ctx, number, false, message),
                Action::CompleteStore => self.complete(ctx, number, true, message),
                Action::CompleteLoadOnce => self.complete_once(ctx, number, message),
                Action::CompleteFlush => unreachable!("it is not asked for"),
            }
        }
    }

    /// Completes the first access with the arrived data, without caching the line. Accesses after it need
    /// a request of their own.
    fn complete_once(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, message: Option<&Message>) {
        let (Some(message), now) = (message, ctx.now()) else {
            unreachable!("a response completes it")
        };
        let entry = self.entries.get_mut(number);
        let (begun, data, line, device) = (entry.begun, entry.data, entry.line, entry.device);
        let access = self.accesses.pop(entry);
        let mut stages = stages_of(&message.stages, self.process_ps, self.cache_ps);
        stages[HOST_QUEUE] += begun - access.issued;
        self.observe(Observation {
            time: now,
            line,
            id: access.id,
            write: false,
            value: data,
            once: true,
        });
        self.coherence.loads_once += 1;
        self.close(
            ctx,
            &access,
            stages,
            message.hops,
            device.0 - self.first_device,
        );
    }

    /// Completes the first access, and the accesses after it that the copy can serve: loads, and stores
    /// if the line is modified.
    fn complete(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        modified: bool,
        message: Option<&Message>,
    ) {
        let now = ctx.now();
        loop {
            let entry = self.entries.get_mut(number);
            let (begun, messages_sent, device) = (entry.begun, entry.messages_sent, entry.device);
            let Some(slot) = entry.slot else {
                unreachable!("an access waits only for a line that has a way")
            };
            entry.messages_sent = 0;
            let is_shared = entry.state.line == Line::S;
            let mut access = self.accesses.pop(entry);
            access.shared = is_shared;
            self.cache[slot].above = self.above.is_some();
            let mut stages: StageTimes = [0; STAGE_NAMES.len()];
            let mut waited = now.0 - access.issued;
            if let (1.., Some(message)) = (messages_sent, message) {
                let messages_sent = u64::from(messages_sent);
                stages = stages_of(
                    &message.stages,
                    messages_sent * self.process_ps,
                    messages_sent * self.cache_ps,
                );
                waited = begun - access.issued;
            }
            stages[HOST_QUEUE] += waited;
            let hops = message.map_or(0, |message| message.hops);
            self.take_effect(now, slot, access.id, access.write);
            self.close(ctx, &access, stages, hops, device.0 - self.first_device);
            let next = self.entries.get(number).first;
            if next == NONE || (self.accesses.get(next).write && !modified) {
                return;
            }
        }
    }

    fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        m2s: M2s,
        message: Option<&Message>,
    ) {
        let (field, value, snoop) = m2s.fields();
        let meta = MemMeta::new(field, value, snoop);
        match m2s {
            M2s::BiRsp(kept) => self.answer(ctx, number, kept),
            M2s::BiConflict => {
                self.coherence.conflicts += 1;
                self.answer_singly(ctx, number);
                let conflict = self.message(ctx, number, m2s.opcode(), meta);
                self.roots.send(ctx, conflict);
            }
            M2s::MemWr(_) => self.write_back(ctx, number, meta),
            M2s::MemClnEvct => {
                let notice = self.message(ctx, number, m2s.opcode(), meta);
                self.roots.send(ctx, notice);
            }
            M2s::MemInvOwn => {
                self.coherence.upgrades += 1;
                self.send_request(ctx, number, m2s.opcode(), meta, message);
            }
            M2s::MemRdData
            | M2s::MemRdShared
            | M2s::MemRdOwn
            | M2s::MemRdCur
            | M2s::MemInvFlush => self.send_request(ctx, number, m2s.opcode(), meta, message),
        }
    }

    /// Sends a request for the first access that waits. It is the access's first request, or continues from
    /// the response to the previous one.
    fn send_request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u32,
        opcode: Opcode,
        meta: MemMeta,
        message: Option<&Message>,
    ) {
        let entry = self.entries.get_mut(number);
        let mut stages = LatencyStages::default();
        if let (1.., Some(message)) = (entry.messages_sent, message) {
            stages = message.stages;
            self.coherence.upgrades_lost += 1;
        }
        entry.messages_sent += 1;
        let issued_ps = self.accesses.get(entry.first).issued;
        let request = Message {
            issued_ps,
            stages,
            ..self.message(ctx, number, opcode, meta)
        };
        self.roots.send(ctx, request);
    }

    fn write_back(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, meta: MemMeta) {
        let entry = self.entries.get(number);
        let data = entry.slot.map_or(entry.data, |slot| self.cache[slot].data);
        let meta = match entry.class {
            CoherenceClass::HdmDb => meta,
            CoherenceClass::HdmH => MemMeta::NONE,
        };
        self.ledger.stats.writebacks += 1;
        self.coherence.snoop_writebacks += u64::from(entry.kind != EntryKind::Evict);
        let write = Message {
            data,
            ..self.message(ctx, number, Opcode::MemWr, meta)
        };
        self.roots.send(ctx, write);
    }

    /// A message about an entry's line that is issued now.
    fn message(
        &self,
        ctx: &Ctx<'_, Parcel>,
        number: u32,
        opcode: Opcode,
        meta: MemMeta,
    ) -> Message {
        let entry = self.entries.get(number);
        Message {
            meta,
            ..Message::new(
                opcode,
                Hpa(entry.line.0 * 64),
                number,
                self.port_id,
                entry.device,
                ctx.now(),
            )
        }
    }
}
