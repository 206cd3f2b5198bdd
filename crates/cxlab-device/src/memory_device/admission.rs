//! Requests on their way into the medium: admission, denial, and reads before their request arrives.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Dpa, Hpa, SimTime};
use cxlab_link::{BufferId, Parcel};
use cxlab_protocol::{CacheMeta, Message, Opcode, PortId};

use super::{MemoryDevice, Request};
use crate::controller::line_request;
use crate::speculation::SpeculativeRead;
use crate::waits::DeviceWait;

/// A request that the device is about to accept.
#[derive(Clone, Copy)]
pub(super) struct IncomingRequest<'a> {
    /// The message, if it was buffered; `None` for the message that has just arrived, which need not be copied.
    pub(super) waited: Option<&'a Message>,
    pub(super) hpa: Hpa,
    pub(super) source: PortId,
    pub(super) buffer: BufferId,
    pub(super) write: bool,
    /// Whether the data written or read are poison.
    pub(super) poison: bool,
    pub(super) lines: u8,
    pub(super) port: u16,
    /// When the request arrived.
    pub(super) since: SimTime,
    /// Total time in which the medium had refused requests at arrival, if the request was buffered.
    pub(super) refused_ps: u64,
}

impl<'a> IncomingRequest<'a> {
    #[inline(always)]
    pub(super) fn of(message: &Message, port: u16, since: SimTime) -> IncomingRequest<'a> {
        let channel = message.channel();
        IncomingRequest {
            waited: None,
            hpa: message.hpa,
            source: message.source,
            buffer: BufferId::of(channel, message.vc),
            write: message.writes(),
            poison: false,
            lines: message.lines,
            port,
            since,
            refused_ps: 0,
        }
    }

    /// A request taken from the receive buffer.
    pub(super) fn waited(request: &'a Request) -> IncomingRequest<'a> {
        IncomingRequest {
            waited: Some(&request.message),
            refused_ps: request.refused_ps,
            poison: request.message.cache.has(CacheMeta::POISON),
            ..IncomingRequest::of(&request.message, request.port, request.since)
        }
    }

    pub(super) fn message(&self, ctx: &Ctx<'_, Parcel>) -> Message {
        match self.waited.copied().or(ctx.received().message) {
            Some(message) => message,
            None => unreachable!("what is taken has arrived"),
        }
    }
}

impl MemoryDevice {
    /// Moves requests from the receive buffers into the medium, as far as it accepts them.
    pub(super) fn admit_waiting(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some(request) = self.waiting.front().copied() {
            if !self.admit(ctx, IncomingRequest::waited(&request)) {
                break;
            }
            self.waiting.pop_front();
        }
        self.wake_medium(ctx);
    }

    /// Moves a request into the medium, and returns whether that was possible. Denied and dropped
    /// requests also leave the buffer.
    #[inline]
    pub(super) fn admit(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        mut incoming: IncomingRequest<'_>,
    ) -> bool {
        let now = ctx.now();
        let write = incoming.write;
        if !self.has_context(ctx) {
            self.waits.end_refusal(now);
            return false;
        }
        let decoded = self.decoders.decode(incoming.source, incoming.hpa);
        let leaving = || self.timeline.decode_leaving(&incoming.message(ctx));
        let Some(dpa) = decoded.or_else(leaving) else {
            self.deny(ctx, incoming);
            return true;
        };
        if write && self.persistent && self.timeline.is_viral(incoming.source) {
            self.drop_write(ctx, incoming);
            return true;
        }
        let is_read_already = match &self.optional {
            Some(optional) if !write => optional.speculations.has(dpa),
            _ => false,
        };
        if !is_read_already && !self.backend.can_accept(now, write) {
            self.waits.refuse(now);
            return false;
        }
        let waited = self.end_wait(now, incoming);
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        if write {
            self.stats.writes += 1;
        } else {
            self.stats.reads += 1;
        }
        self.contexts += 1;
        if self.optional.is_some() {
            match self.apply_optional_state(ctx, incoming, dpa, waited) {
                Some(poison) => incoming.poison = poison,
                None => return true,
            }
        }
        let id = self.next_id();
        let request = line_request(id, dpa, write);
        let posted = write && self.completes_writes_on_acceptance;
        if posted {
            self.backend.defer();
        }
        match self.backend.enqueue(now, request) {
            Some(done) => self.answer(ctx, incoming, waited, (done - now).0, done),
            None => {
                self.remember(ctx, id, dpa, incoming, waited, posted);
                if posted {
                    self.posted += 1;
                    let request = self.requests[id as usize];
                    let (request, no_wait) =
                        (IncomingRequest::waited(&request), DeviceWait::default());
                    self.answer(ctx, request, no_wait, 0, now);
                }
            }
        }
        true
    }

    /// Handles `MemSpecRd`: the medium reads the line if it is free.
    #[cold]
    #[inline(never)]
    pub(super) fn speculate(&mut self, ctx: &mut Ctx<'_, Parcel>, incoming: IncomingRequest<'_>) {
        let now = ctx.now();
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        let Some(dpa) = self.decoders.decode(incoming.source, incoming.hpa) else {
            return;
        };
        // Buffered requests have priority over speculative reads.
        let busy = !self.waiting.is_empty() || !self.backend.can_accept(now, false);
        let speculations = &mut self.optional.get_or_insert_default().speculations;
        if busy || speculations.has(dpa) {
            return;
        }
        self.stats.speculative_reads += 1;
        let id = self.next_id();
        let speculative_read = match self.backend.enqueue(now, line_request(id, dpa, false)) {
            Some(done) => SpeculativeRead::Ready(done),
            None => {
                let request = Request {
                    message: incoming.message(ctx),
                    port: incoming.port,
                    since: now,
                    refused_ps: 0,
                    answered: true,
                };
                self.keep(id, request);
                self.posted += 1;
                self.wake_medium(ctx);
                SpeculativeRead::InMedium(id)
            }
        };
        let speculations = &mut self.optional.get_or_insert_default().speculations;
        speculations.begin(dpa, speculative_read);
    }

    /// Serves a read whose line was read speculatively, or is being read.
    fn claim(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        speculative_read: SpeculativeRead,
        dpa: Dpa,
        incoming: IncomingRequest<'_>,
        waited: DeviceWait,
    ) {
        let now = ctx.now();
        match speculative_read {
            SpeculativeRead::Ready(done) => {
                let (id, ready) = (self.next_id(), done.max(now));
                self.remember(ctx, id, dpa, incoming, waited, false);
                self.free.push(id);
                let request = self.requests[id as usize];
                let (request, no_wait) = (IncomingRequest::waited(&request), DeviceWait::default());
                self.answer(ctx, request, no_wait, (ready - now).0, ready);
            }
            SpeculativeRead::InMedium(id) => {
                // From now on the medium's completion belongs to this request.
                self.free.push(id);
                self.posted -= 1;
                self.remember(ctx, id, dpa, incoming, waited, false);
            }
        }
    }

    /// Handles the medium's acceptance of a request on a device with media errors or speculative
    /// reads. Returns whether the data written or read are poison; `None` if the line was read
    /// speculatively, so that the request does not need the medium.
    #[cold]
    #[inline(never)]
    fn apply_optional_state(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        incoming: IncomingRequest<'_>,
        dpa: Dpa,
        waited: DeviceWait,
    ) -> Option<bool> {
        let optional = self.optional.as_mut()?;
        let poison = match (&mut optional.errors, incoming.write) {
            (None, _) => false,
            (Some(errors), true) => errors.take_write(dpa, &incoming.message(ctx)),
            (Some(errors), false) => errors.read(dpa),
        };
        let speculative_read = optional.speculations.take(dpa);
        let Some(speculative_read) = speculative_read.filter(|_| !incoming.write) else {
            return Some(poison);
        };
        let incoming = IncomingRequest { poison, ..incoming };
        self.claim(ctx, speculative_read, dpa, incoming, waited);
        None
    }

    /// Ends a request's wait and returns its length: zero for a request that has just arrived,
    /// since no other is queued.
    #[inline]
    fn end_wait(&mut self, now: SimTime, incoming: IncomingRequest<'_>) -> DeviceWait {
        if incoming.waited.is_none() {
            return DeviceWait::default();
        }
        self.waits.end_refusal(now);
        let waited = self.waits.waited(now, incoming.since, incoming.refused_ps);
        self.waits.count(waited);
        waited
    }

    /// Denies a request whose address no decoder of its host maps.
    #[cold]
    #[inline(never)]
    fn deny(&mut self, ctx: &mut Ctx<'_, Parcel>, incoming: IncomingRequest<'_>) {
        let waited = self.end_wait(ctx.now(), incoming);
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        self.stats.denied_ever += 1;
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.denied(incoming.source);
        }
        let opcode = if incoming.write {
            self.stats.denied_writes += 1;
            Opcode::Cmp
        } else {
            self.stats.denied_reads += 1;
            Opcode::MemDataNxm
        };
        self.contexts += 1;
        let change = |response: &mut Message| {
            response.opcode = opcode;
            response.lines = Message::DENIED;
            waited.add_to_stages(response);
        };
        let now = ctx.now();
        self.respond(ctx, incoming, opcode.channel(), now, change);
    }

    /// Drops a write of a host in viral, and completes it (CXL 3.1, section 12.4.2: "drop writes to
    /// the persistent HDM ranges", "always return a Completion response").
    #[cold]
    #[inline(never)]
    fn drop_write(&mut self, ctx: &mut Ctx<'_, Parcel>, incoming: IncomingRequest<'_>) {
        let now = ctx.now();
        let waited = self.end_wait(now, incoming);
        let link = &mut self.ports[incoming.port as usize].link;
        link.release(ctx, incoming.buffer);
        self.stats.writes += 1;
        self.stats.dropped_writes += 1;
        self.contexts += 1;
        self.answer(ctx, incoming, waited, 0, now);
    }
}
