//! Requests in the medium, and their responses.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::units::{Dpa, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::{CacheMeta, Channel, LongStage, MemMeta, Message, Opcode};

use super::admission::IncomingRequest;
use super::{MAX_DEPARTED, MemoryDevice, Request};
use crate::controller::DeviceStats;
use crate::waits::DeviceWait;

impl MemoryDevice {
    /// Stores a request until the medium is done with it.
    pub(super) fn remember(
        &mut self,
        ctx: &Ctx<'_, Parcel>,
        id: u32,
        dpa: Dpa,
        incoming: IncomingRequest<'_>,
        waited: DeviceWait,
        answered: bool,
    ) {
        let mut request = Request {
            message: incoming.message(ctx),
            port: incoming.port,
            since: ctx.now(),
            refused_ps: 0,
            answered,
        };
        waited.add_to_stages(&mut request.message);
        if incoming.poison {
            request.message.cache = request.message.cache.with(CacheMeta::POISON, true);
        }
        if let Some(values) = &mut self.values {
            values.access(dpa, &mut request.message);
        }
        self.keep(id, request);
    }

    #[inline]
    pub(super) fn next_id(&self) -> u32 {
        let free = self.free.last().copied();
        free.unwrap_or(self.requests.len() as u32)
    }

    /// Stores a request under the number of `next_id`.
    #[inline]
    pub(super) fn keep(&mut self, id: u32, request: Request) {
        if self.free.pop().is_some() {
            self.requests[id as usize] = request;
        } else {
            self.requests.push(request);
        }
    }

    /// Whether a context is free. If only responses that have not yet departed occupy the contexts,
    /// the device wakes when the first of them has left.
    #[inline]
    pub(super) fn has_context(&mut self, ctx: &mut Ctx<'_, Parcel>) -> bool {
        let mut first = SimTime::NEVER;
        let has_free = self.contexts < self.max_contexts;
        for port in &mut self.ports {
            // Departed responses are removed in batches, because the branch for a single one cannot
            // be predicted. The batches are small, so that the list stays short and cached.
            if has_free && port.leaving.len() < MAX_DEPARTED {
                continue;
            }
            while let Some(leaves) = port.leaving.front().copied() {
                if leaves > ctx.now() {
                    first = first.min(leaves);
                    break;
                }
                port.leaving.pop_front();
                self.contexts -= 1;
            }
        }
        if self.contexts < self.max_contexts {
            return true;
        }
        self.wake_at(ctx, first);
        false
    }

    /// Sends the response to a request that the medium finishes at `ready` (now or later). The
    /// request waited for `waited` before the medium, and took `media` picoseconds in it.
    #[inline]
    pub(super) fn answer(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        request: IncomingRequest<'_>,
        waited: DeviceWait,
        media: u64,
        ready: SimTime,
    ) {
        let opcode = if request.write {
            Opcode::Cmp
        } else {
            Opcode::MemData
        };
        let inside = self.contexts + self.posted + self.waiting.len() as u32;
        let lines = match &mut self.telemetry {
            None => request.lines,
            Some(telemetry) => telemetry
                .answer(ready, request.source, request.port, inside)
                .lines(),
        };
        let change = |response: &mut Message| {
            response.opcode = opcode;
            response.lines = lines;
            waited.add_to_stages(response);
            response.stages.add(LongStage::Media, media);
        };
        if request.poison {
            return self.respond_poison(ctx, request, waited, media, lines, ready);
        }
        self.respond(ctx, request, opcode.channel(), ready, change);
    }

    /// [`Self::answer`] for a request whose data are poison.
    #[cold]
    #[inline(never)]
    fn respond_poison(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        request: IncomingRequest<'_>,
        waited: DeviceWait,
        media: u64,
        lines: u8,
        ready: SimTime,
    ) {
        let opcode = match request.write {
            true => Opcode::Cmp,
            false => Opcode::MemData,
        };
        let change = |response: &mut Message| {
            response.opcode = opcode;
            response.lines = lines;
            response.cache = CacheMeta::NONE.with(CacheMeta::POISON, !request.write);
            waited.add_to_stages(response);
            response.stages.add(LongStage::Media, media);
        };
        self.respond(ctx, request, opcode.channel(), ready, change);
    }

    /// Sends the response that `change` makes of a request, in the class `channel`.
    ///
    /// The device stores no metadata, so MetaField is No-Op whatever the request had (CXL 3.1,
    /// tables 3-36, 3-49 and 3-52).
    #[inline(always)]
    pub(super) fn respond(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        request: IncomingRequest<'_>,
        channel: Channel,
        ready: SimTime,
        change: impl Fn(&mut Message),
    ) {
        let process_ps = self.process_ps;
        let turn = |message: &mut Message| {
            std::mem::swap(&mut message.source, &mut message.destination);
            message.vc = 0;
            message.hops = 0;
            message.meta = MemMeta::NONE;
            message.stages.device += process_ps;
            change(message);
        };
        let now = ctx.now();
        let token = u32::from(request.port);
        let port = &mut self.ports[request.port as usize];
        let sent = sent(now, &mut port.leaving, &mut self.contexts, &mut self.stats);
        port.outbox.offer_response(
            ctx,
            &mut port.link,
            token,
            request.waited,
            channel,
            ready,
            turn,
            sent,
        );
    }

    /// Sends queued responses as far as link and credits allow.
    pub(super) fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, woken: bool) {
        let full = self.contexts == self.max_contexts;
        let now = ctx.now();
        let port = &mut self.ports[number as usize];
        let mut sent = sent(now, &mut port.leaving, &mut self.contexts, &mut self.stats);
        let sent = move |_: &Message, leaves| sent(leaves);
        let token = u32::from(number);
        if woken {
            port.outbox.wake(ctx, &mut port.link, token, sent);
        } else {
            port.outbox.pump(ctx, &mut port.link, token, sent);
        }
        if full && !self.waiting.is_empty() {
            self.admit_waiting(ctx);
        }
    }
}

/// Bookkeeping of a sent response: its context becomes free when the response leaves.
#[inline]
fn sent<'a>(
    now: SimTime,
    leaving: &'a mut VecDeque<SimTime>,
    contexts: &'a mut u32,
    stats: &'a mut DeviceStats,
) -> impl FnMut(SimTime) + 'a {
    move |leaves| {
        stats.answered += 1;
        if leaves > now {
            leaving.push_back(leaves);
        } else {
            *contexts -= 1;
        }
    }
}
