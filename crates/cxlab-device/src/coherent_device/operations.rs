//! Requests: the operations on lines that are in flight, and the requests that wait for them.

use cxlab_cache::LineBlock;
use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::LongStage;
use cxlab_protocol::coherence::dcoh::{Action, Actions, Event, Filter, LineState, Operation};
use cxlab_protocol::coherence::message::{M2s, S2m};

use super::lines::{NONE, Request};
use super::medium::MediumAccess;
use super::outgoing::Response;
use super::wait_log::WaitsFor;
use super::{BufferedMessage, CoherentDevice, dpa_of, parse, row};

impl CoherentDevice {
    /// Allocates a context for a request, and begins the request if its line is not busy.
    pub(super) fn accept(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &BufferedMessage) {
        self.release(ctx, arrived);
        let now = ctx.now();
        let mut message = arrived.message;
        let opcode = parse(&message);
        self.stats.accepted += 1;
        self.coherence.count(opcode);
        self.record_wait(&mut message, now - arrived.at);
        let line = self.dpa(&message).line();
        let busy = self.lines.find(line);
        let request = self.contexts.take(Request {
            message,
            opcode,
            peer: self.peer(&message),
            port: arrived.port,
            since: now,
            line: NONE,
            data: 0,
            replies: replies(opcode),
            next: NONE,
        });
        let number = match busy {
            Some(number) => number,
            None => {
                let slot = self.filter.find(line);
                if let Some(slot) = slot {
                    self.filter.pin(slot);
                }
                let state = LineState::idle(self.filter_of(slot));
                self.lines.take(line, state, slot)
            }
        };
        self.contexts.get_mut(request).line = number;
        self.lines.append(number, &mut self.contexts, request);
        if busy.is_none() {
            self.settle(ctx, number);
        }
    }

    /// Continues with the queued requests of a line while the line is idle. When no request is
    /// left, the line is no longer busy.
    pub(super) fn settle(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        loop {
            let busy = *self.lines.get(number);
            if busy.state.is_busy() || busy.starved {
                return;
            }
            if let Some(slot) = busy.slot {
                let set = self.set_of(busy.line);
                let last = busy.first == NONE;
                if busy.evicted {
                    self.sets[set].evicting -= 1;
                    self.give_up_entry(ctx, number, slot);
                } else if busy.state.filter == Filter::Invalid
                    && (last || self.sets[set].waiting > 0)
                {
                    self.give_up_entry(ctx, number, slot);
                } else if last {
                    self.keep(slot, busy.state.filter);
                    self.filter.unpin(slot);
                    self.lines.give_back(number);
                    self.make_room(ctx, set);
                    return;
                } else if self.sets[set].needs_room() && !self.make_room(ctx, set) {
                    self.evict(ctx, LineBlock::single(busy.line));
                    return;
                }
            }
            let Some(request) = self.lines.next_asker(number, &self.contexts) else {
                self.lines.give_back(number);
                return;
            };
            let waited = self.wait_ends(ctx.now(), request);
            self.coherence.line_waits += u64::from(waited > Picos::ZERO);
            self.coherence.line_wait.0 += waited.0;
            if self.turns.is_some() {
                let message = self.contexts.get(request).message;
                self.log_wait(WaitsFor::Line(busy.line), &message, true);
            }
            self.begin(ctx, number);
        }
    }

    /// Begins the line's current request: allocates an entry if needed, and continues.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let busy = self.lines.get(number);
        let (line, slot, current_request) = (busy.line, busy.slot, busy.current_request);
        let operation = Operation::of(self.contexts.get(current_request).opcode);
        if operation.is_some_and(Operation::allocates) {
            if let Some(slot) = slot {
                self.coherence.filter_hits += 1;
                self.filter.touch(slot);
            } else {
                self.coherence.filter_misses += 1;
                if !self.find_entry(ctx, number, line) {
                    return;
                }
            }
        }
        self.request(ctx, number);
    }

    /// Applies the line's current request to the table.
    pub(super) fn request(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let current_request = self.contexts.get(self.lines.get(number).current_request);
        let event = Event::Message(current_request.peer, current_request.opcode);
        self.step(ctx, number, event);
    }

    /// Applies an event to the table and performs the resulting actions.
    pub(super) fn step(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, event: Event) {
        let busy = self.lines.get_mut(number);
        let (next, actions) = row(busy.state, event);
        busy.state = next;
        self.perform(ctx, number, &actions);
    }

    /// Performs the table's actions for a busy line and its current request.
    pub(super) fn perform(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, actions: &Actions) {
        let mut load = None;
        for action in actions.iter() {
            let busy = *self.lines.get(number);
            match action {
                Action::Snoop(kind, peers) => self.snoop_for_request(ctx, kind, busy.line, peers),
                Action::ReadMedium => {
                    self.snoops_end(ctx.now(), busy.current_request);
                    let values = self.values.as_ref();
                    let value = values.and_then(|values| values.get(&busy.line));
                    self.contexts.get_mut(busy.current_request).data = value.copied().unwrap_or(0);
                    self.medium.accesses.push_back(MediumAccess {
                        request: busy.current_request,
                        dpa: dpa_of(busy.line),
                    });
                }
                Action::Respond(_, opcode) => {
                    self.snoops_end(ctx.now(), busy.current_request);
                    let request = *self.contexts.get(busy.current_request);
                    let (port, owner) = (request.port, busy.current_request);
                    let host = request.message.source;
                    let data = match opcode {
                        S2m::MemData => request.data,
                        _ => 0,
                    };
                    let load = *load.get_or_insert_with(|| self.load(ctx.now(), host, port));
                    let response = Response { opcode, data, load };
                    self.reply(ctx, &request.message, port, response, owner);
                }
                Action::WriteMedium | Action::WriteLocal | Action::CompleteLocal => {
                    unreachable!("a write is no request, and the device has no agent")
                }
            }
        }
    }

    /// Counts the time that a request waited for snoops, if any.
    #[inline]
    pub(super) fn snoops_end(&mut self, now: SimTime, request: u32) {
        let waited = self.wait_ends(now, request);
        self.coherence.snoop_waits += u64::from(waited > Picos::ZERO);
        self.coherence.snoop_wait.0 += waited.0;
    }

    /// Ends a wait of a request in the coherency engine, and returns its length.
    #[inline]
    pub(super) fn wait_ends(&mut self, now: SimTime, request: u32) -> Picos {
        let request = self.contexts.get_mut(request);
        let waited = now - request.since;
        request.message.stages.add(LongStage::Coherence, waited.0);
        request.since = now;
        waited
    }
}

/// Number of responses to a request.
const fn replies(request: M2s) -> u8 {
    match request {
        M2s::MemRdData | M2s::MemRdShared | M2s::MemRdOwn | M2s::MemRdCur => 2,
        M2s::MemInvOwn
        | M2s::MemInvFlush
        | M2s::MemClnEvct
        | M2s::MemWr(_)
        | M2s::BiConflict
        | M2s::BiRsp(_) => 1,
    }
}
