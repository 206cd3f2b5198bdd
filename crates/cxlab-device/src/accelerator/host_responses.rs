//! Messages between the host and the host-memory cache: responses to the cache's requests, snoops
//! of the host, and the messages that the cache sends.

use cxlab_agent::{
    Access, AccessKind, AccessResponse, HOST_QUEUE, PROCESS, WaitingAccess, line_read_once,
    snooped_line_address, stages_of,
};
use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_agent::{Action, Event, Line, LineState, step};
use cxlab_protocol::coherence::cache_message::{HostResponse, Request, SnoopResponse};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;
use cxlab_protocol::{CacheMeta, Channel, Message, Opcode};

use super::attached_memory::ReceivedMessage;
use super::hmc::{LookupAttempt, NONE, TransactionEntry};
use super::translation::TranslationOutcome;
use super::{Accelerator, RETRY, StoreRequest};

/// When an access takes effect that a message completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EffectTime {
    /// Now, in the cached copy.
    Cached,
    /// Now, with the value that the host sent; the cache keeps no copy.
    Once,
    /// Earlier, when the host pulled its data or a snoop took its copy.
    Before,
    /// Never, because there is no memory at its address.
    Never,
}

impl Accelerator {
    pub(super) fn cache_message(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if message.channel() == Channel::H2dReq {
            self.snooped(ctx, message);
            return;
        }
        if self.ends_flush(message) {
            return;
        }
        let response = match message.opcode {
            // The host's response to a request for the attached memory.
            Opcode::MemRdFwd | Opcode::MemWrFwd => Some(HostResponse::Go(GoState::Invalid)),
            opcode => HostResponse::from_opcode(opcode, message.cache.granted()),
        };
        let Some(response) = response else {
            panic!("{:?} is not modelled", message.opcode)
        };
        self.apply(ctx, message.tag, Event::HostResponse(response), message);
    }

    /// Handles a snoop. The snoop waits while an atomic operation locks the line.
    pub(super) fn snooped(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let Some(snoop) = Snoop::from_cache_opcode(message.opcode) else {
            panic!("{:?} is no snoop", message.opcode)
        };
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let slot = self.cache.find(line);
        let locked = slot.map_or(0, |slot| self.cache[slot].locked_until_ps);
        let received = ReceivedMessage {
            message: *message,
            port: 0,
        };
        if self.host_waits(ctx, &received, line, locked) {
            return;
        }
        self.hmc.snoops += 1;
        let busy = match slot {
            Some(slot) => self.cache[slot].entry,
            None => self.leaving(line),
        };
        if busy != NONE {
            self.apply(ctx, busy, Event::Snp(snoop), message);
            return;
        }
        let held = slot.map_or(Line::I, |slot| self.cache[slot].line);
        let Some((next, actions)) = step(LineState::stable(held), Event::Snp(snoop)) else {
            panic!("a snoop in {held:?} breaks CXL.cache")
        };
        self.hmc.snooped_modified += u64::from(held == Line::M);
        for action in actions.iter() {
            match action {
                Action::SnoopResponse(response) => {
                    self.respond_to_snoop(ctx, line, response, 0, message)
                }
                Action::SnoopData => self.send(ctx, line, Opcode::D2hData, 0, message, false),
                _ => {}
            }
        }
        if let Some(slot) = slot {
            self.cache[slot].line = next.line;
            if next.line == Line::I {
                self.cache.remove(slot);
                self.changed(ctx, line);
            }
        }
    }

    /// Applies a message to an entry.
    ///
    /// # Panics
    /// If the table has no row for the message: the message violates the protocol, which is a bug of the simulator.
    pub(super) fn apply(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        event: Event,
        message: &Message,
    ) {
        let entry = &mut self.transactions.entries[id as usize];
        assert!(entry.used, "a message for a CQID that is free");
        let Some((next, actions)) = step(entry.state, event) else {
            panic!("{event:?} in {:?} breaks CXL.cache", entry.state)
        };
        let line = entry.line;
        entry.state = next;
        if matches!(event, Event::Snp(_)) {
            entry.snoop = message.cache.uqid;
        }
        match (event, next.line) {
            (Event::HostResponse(_), Line::IsD | Line::IeD) => self.hw_threads.filled(0, line),
            (Event::Snp(_), Line::IsDI) => self.load_before_it_leaves(id),
            _ => {}
        }
        for action in actions.iter() {
            self.act(ctx, id, action, Some(message));
        }
        if next.is_settled() {
            self.settle(ctx, id);
        }
    }

    /// Performs an action of the table for an entry.
    pub(super) fn act(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        action: Action,
        message: Option<&Message>,
    ) {
        let TransactionEntry {
            line, slot, snoop, ..
        } = self.transactions.entries[id as usize];
        match (action, message) {
            (Action::Send(request), _) => self.ask(ctx, id, line, request),
            (Action::SnoopResponse(response), Some(message)) => {
                self.respond_to_snoop(ctx, line, response, id, message);
            }
            (Action::SnoopData, Some(message)) => {
                let mut to = *message;
                to.cache.uqid = snoop;
                let data = self.response_to(ctx, line, Opcode::D2hData, id, &to, false);
                let locked = slot.map_or(0, |slot| self.cache[slot].locked_until_ps);
                self.send_unlocked(ctx, data, locked);
            }
            (Action::WriteData, Some(message)) => {
                let partial = self.pulled(id);
                let mut data = self.response_to(ctx, line, Opcode::D2hData, id, message, false);
                data.cache = data.cache.with(CacheMeta::BYTE_ENABLES, partial);
                self.roots.send(ctx, data);
            }
            (Action::EvictData | Action::BogusData, Some(message)) => {
                let bogus = action == Action::BogusData;
                self.send(ctx, line, Opcode::D2hData, id, message, bogus);
            }
            (Action::CompleteStore, None) => {
                // A push of a line that the cache owns is stored in the cache, and the line is evicted.
                if let Some(waiter) = self.take_first(id) {
                    self.hw_threads.used(0, line);
                    self.perform(&waiter.access, true);
                    let completes = ctx.now() + self.cycles(self.params.cache.hit_cycles);
                    let response = AccessResponse::by_cache(SimTime(waiter.begun), completes);
                    self.over(ctx, &waiter.access, response);
                }
            }
            (Action::CompleteLoad | Action::CompleteStore, Some(message)) => {
                self.complete(ctx, id, message, EffectTime::Cached);
            }
            // A load that fills the cache took effect when a snoop took its copy.
            (Action::CompleteLoadOnce, Some(message)) if slot.is_none() => {
                self.complete(ctx, id, message, EffectTime::Once);
            }
            (Action::CompleteFlush, _) if self.transactions.entries[id as usize].flip => {
                self.flipped(line)
            }
            (
                Action::CompleteLoadOnce | Action::CompleteWrite | Action::CompleteFlush,
                Some(message),
            ) => {
                self.complete(ctx, id, message, EffectTime::Before);
            }
            (Action::Fail, Some(message)) => self.complete(ctx, id, message, EffectTime::Never),
            (Action::Drop, _) if slot.is_some() => self.changed(ctx, line),
            (Action::Drop | Action::Fill, _) => {}
            (_, None) => unreachable!("only a message leads to {action:?}"),
        }
    }

    /// Performs a load whose granted copy a snoop takes before the data arrive. The load that
    /// requested the copy precedes the snoop in the order of the line. It therefore reads the
    /// current value of the line, and completes with the data.
    fn load_before_it_leaves(&mut self, id: u32) {
        let TransactionEntry {
            line, asked, first, ..
        } = self.transactions.entries[id as usize];
        if asked {
            let access = self.transactions.waiters.get(first).access;
            self.hw_threads.used(0, line);
            self.transactions.entries[id as usize].poison = self.perform(&access, false);
        }
    }

    /// Performs a load on the value that the host sent, unless the value is poison, in which case the result is true.
    fn perform_once(&mut self, access: &Access, id: u32, message: &Message) -> bool {
        let poison = message.cache.has(CacheMeta::POISON);
        if !poison {
            let there = line_read_once(self.port_id, id);
            let hpa = Hpa(there.0 + access.hpa.0 % LINE_BYTES);
            self.hw_threads.perform(&Access { hpa, ..*access });
        }
        poison
    }

    /// Completes the access that an entry was made for, and the pushes sent along with it.
    fn complete(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        message: &Message,
        effect: EffectTime,
    ) {
        let Some(first) = self.take_first(id) else {
            return;
        };
        self.answered(ctx, id, first, message, effect);
        for _ in 0..std::mem::take(&mut self.transactions.entries[id as usize].with) {
            if let Some(next) = self.take_next(id) {
                self.answered(ctx, id, next, message, effect);
            }
        }
    }

    fn answered(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        waiter: WaitingAccess,
        message: &Message,
        effect: EffectTime,
    ) {
        let WaitingAccess { access, begun, .. } = waiter;
        let now = ctx.now();
        let mut completes = now;
        if access.kind == AccessKind::Atomic {
            completes += self.cycles(self.params.atomic_cycles);
            if let Some(slot) = self.transactions.entries[id as usize].slot {
                self.cache[slot].locked_until_ps = completes.0;
            }
        }
        if effect == EffectTime::Cached {
            self.hw_threads.filled(0, access.line());
        }
        let poisoned = match effect {
            EffectTime::Cached => self.perform(&access, true),
            EffectTime::Once => self.perform_once(&access, id, message),
            EffectTime::Before => {
                std::mem::take(&mut self.transactions.entries[id as usize].poison)
            }
            EffectTime::Never => {
                self.stray.get_or_insert(access);
                true
            }
        };
        if !poisoned && self.hw_threads.waits_on(&access) {
            if effect == EffectTime::Cached {
                self.spin(ctx, &access);
                return;
            }
            // There is no copy in the cache, so no snoop will announce the next change: the access must be repeated.
            self.end_translation(ctx, access.epoch);
            let epoch = Access::NO_EPOCH;
            self.postponed
                .push_back((Access { epoch, ..access }, begun));
            return;
        }
        let total = completes.0 - begun;
        let pipelines = (self.params.egress() + self.params.ingress()).0 + (completes - now).0;
        let mut stages = stages_of(&message.stages, pipelines.min(total), 0);
        let sum: u64 = stages.iter().sum();
        if sum <= total {
            stages[HOST_QUEUE] += total - sum;
        } else {
            // The access waited for the request of another access, which began earlier.
            stages = Default::default();
            stages[HOST_QUEUE] = total;
        }
        debug_assert!(stages[PROCESS] <= total);
        let response = AccessResponse {
            begun: SimTime(begun),
            completes,
            device: cxlab_agent::LOCAL,
            hops: message.hops,
            stages,
            outcome: cxlab_agent::AccessOutcome::Served,
        };
        if poisoned {
            self.poisoned(ctx, &access, response);
            return;
        }
        self.over(ctx, &access, response);
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
    }

    /// Ends the transaction of an entry and repeats the accesses that wait for the line.
    fn settle(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let TransactionEntry {
            line,
            state,
            slot,
            first,
            flip,
            asked,
            ..
        } = self.transactions.entries[id as usize];
        assert!(
            !asked || flip || leaves(self.transactions.waiters.get(first).access.kind),
            "an access that asked for {line:?} is answered and goes away empty"
        );
        match slot {
            Some(slot) => {
                self.cache[slot].entry = NONE;
                self.cache[slot].line = state.line;
                if state.line != Line::I {
                    self.hw_threads.filled(0, line);
                }
                self.cache.unpin(slot);
                if state.line == Line::I {
                    self.cache.remove(slot);
                }
            }
            None => self.transactions.leaving.retain(|other| *other != id),
        }
        self.transactions.entries[id as usize].used = false;
        self.transactions.free.push(id);
        self.flip_in_turn(ctx);
        let mut waiter = first;
        while waiter != NONE {
            let WaitingAccess {
                access,
                begun,
                next,
            } = self.transactions.waiters.take(waiter);
            let how = match waiter == first && flip && self.is_device_coherent() {
                // The host's next request waits for the access that the line was recalled for.
                true => LookupAttempt::InTurn,
                false => LookupAttempt::Again,
            };
            waiter = next;
            self.again_as(ctx, access, SimTime(begun), how);
        }
        if flip {
            self.flip_settles(ctx, line);
        }
        self.retry(ctx);
        self.go_on_flushing(ctx);
    }

    /// Repeats the lookup of an access that waited.
    pub(super) fn again(&mut self, ctx: &mut Ctx<'_, Parcel>, access: Access, begun: SimTime) {
        self.again_as(ctx, access, begun, LookupAttempt::Again);
    }

    fn again_as(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: Access,
        begun: SimTime,
        how: LookupAttempt,
    ) {
        if access.addr >= cxlab_workload::thread::SCRATCH_BASE {
            return self.buffered(ctx, &access, begun);
        }
        let mut access = access;
        if self.translator.is_some() && access.epoch == Access::NO_EPOCH {
            if self.translate(ctx, &mut access, begun, false) != TranslationOutcome::Now {
                return;
            }
            self.hw_threads.translated(&access);
        }
        self.look_again(ctx, access, begun, how);
    }

    /// Serves waiting accesses after a CQID or a way has become free.
    pub(super) fn retry(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.serve_waiters(ctx);
        for _ in 0..self.postponed.len() {
            if let Some((access, begun)) = self.postponed.pop_front() {
                self.again(ctx, access, SimTime(begun));
            }
        }
        let mut blocked = std::mem::take(&mut self.blocked);
        for hw_thread in blocked.drain(..) {
            self.wake_hw_thread(ctx, hw_thread as usize, ctx.now());
        }
        if self.blocked.is_empty() {
            self.blocked = blocked;
        }
        self.go_on_flipping(ctx);
    }

    /// Repeats the lookups of operations that spin on a line, because its value may have changed.
    pub(super) fn changed(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        if self.spinning.is_empty() {
            return;
        }
        let (look, keep): (Vec<_>, Vec<_>) =
            self.spinning.drain(..).partition(|(on, _)| *on == line);
        self.spinning = keep;
        for (_, access) in look {
            self.postponed
                .push_back((access, self.hw_threads.issued(access.op).0));
        }
        ctx.wake_at(ctx.now(), RETRY);
    }

    fn ask(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, line: LineAddr, request: Request) {
        if self.transactions.entries[id as usize].flip && self.is_device_coherent() {
            return self.back_invalidate(ctx, id, line);
        }
        let push = request == Request::DirtyEvictPush;
        let opcode = match self.transactions.entries[id as usize].flip {
            true => self.opcode_of_flip(id),
            false => request.opcode(),
        };
        match request {
            Request::ItoMWr | Request::DirtyEvictPush => self.hmc.pushes += 1,
            Request::RdCurr => self.hmc.reads_once += 1,
            Request::WrCur | Request::WrInv | Request::WoWrInv | Request::WoWrInvF => {
                self.hmc.writes += 1;
            }
            _ => {}
        }
        let request = Message {
            cache: CacheMeta::NONE.with(CacheMeta::PUSH, push),
            ..self.message(ctx, line, opcode, id)
        };
        self.roots.send(ctx, request);
    }

    /// The request that recalls a line of the attached memory from the host. The response
    /// to a request for ownership is MemRdFwd (CXL 3.1, figure 3-42). The response to a weakly ordered
    /// write is MemWrFwd, and no data cross the link (figure 3-39).
    fn opcode_of_flip(&self, id: u32) -> Opcode {
        let TransactionEntry { asked, first, .. } = self.transactions.entries[id as usize];
        if !asked || self.params.cache.store_request != StoreRequest::WOWrInv {
            return Opcode::RdOwnNoData;
        }
        let access = self.transactions.waiters.get(first).access;
        match (access.kind, access.is_whole()) {
            (AccessKind::Store, true) => Opcode::WoWrInvF,
            (AccessKind::Store, false) => Opcode::WoWrInv,
            _ => Opcode::RdOwnNoData,
        }
    }

    /// A CXL.cache message to the host.
    pub(super) fn message(
        &self,
        ctx: &Ctx<'_, Parcel>,
        line: LineAddr,
        opcode: Opcode,
        tag: u32,
    ) -> Message {
        Message::new(
            opcode,
            Hpa(line.0 * LINE_BYTES),
            tag,
            self.port_id,
            self.host,
            ctx.now(),
        )
    }

    /// Responds to a snoop. A snoop that leaves the line in the cache reads the line's current value.
    fn respond_to_snoop(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        response: SnoopResponse,
        tag: u32,
        snoop: &Message,
    ) {
        if response.keeps() {
            let there = snooped_line_address(self.port_id, snoop.cache.uqid);
            let here = Hpa(line.0 * LINE_BYTES);
            self.hw_threads.image().copy(here, there, LINE_BYTES);
        }
        self.send(ctx, line, response.opcode(), tag, snoop, false);
    }

    /// Sends a response to a message of the host, with the UQID of that message.
    fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        opcode: Opcode,
        tag: u32,
        to: &Message,
        bogus: bool,
    ) {
        let response = self.response_to(ctx, line, opcode, tag, to, bogus);
        self.roots.send(ctx, response);
    }

    fn response_to(
        &self,
        ctx: &Ctx<'_, Parcel>,
        line: LineAddr,
        opcode: Opcode,
        tag: u32,
        to: &Message,
        bogus: bool,
    ) -> Message {
        let value = matches!(
            opcode,
            Opcode::D2hData | Opcode::RspVHitV | Opcode::RspVFwdV
        );
        let poison = value && !bogus && self.hw_threads.is_poison(line);
        Message {
            destination: to.source,
            cache: CacheMeta::of(to.cache.uqid)
                .with(CacheMeta::BOGUS, bogus)
                .with(CacheMeta::POISON, poison),
            ..self.message(ctx, line, opcode, tag)
        }
    }
}

/// Whether an access evicts the line first, and then looks up the line again for its remaining work.
fn leaves(kind: AccessKind) -> bool {
    matches!(
        kind,
        AccessKind::Flush | AccessKind::WriteBack | AccessKind::Demote
    )
}
