//! Messages of the host to the attached memory, and the device's snoops of the host.

use cxlab_engine::Ctx;
use cxlab_engine::units::{LINE_BYTES, LineAddr};
use cxlab_link::{BufferId, Parcel};
use cxlab_protocol::coherence::cache_agent;
use cxlab_protocol::coherence::cache_message::HostResponse;
use cxlab_protocol::coherence::dcoh::{Action, Event};
use cxlab_protocol::coherence::fields::{GoState, MetaField, MetaValue};
use cxlab_protocol::coherence::message::{M2s, S2m, Snoop};
use cxlab_protocol::{CacheMeta, Channel, MemMeta, Message, Opcode};

use super::Accelerator;
use super::attached_memory::{MediumRequestKind, ReceivedMessage};
use super::dcoh::HOST;

impl Accelerator {
    /// Handles a message of the host for the device's memory.
    pub(super) fn host_message(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        let mut received = *received;
        let message = &mut received.message;
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        message.stages.device += self.params.ingress().0 as u32;
        let write = message.channel() == Channel::M2sRwd;
        if write && self.is_device_coherent() {
            return self.host_writes(ctx, &received);
        }
        let Some(attached_memory) = &mut self.attached_memory else {
            panic!("{:?} to a device without memory", message.opcode)
        };
        let number = attached_memory.number(line);
        if write {
            attached_memory.stats.host_writes += 1;
            let gone = message.meta.field() == MetaField::Meta0State
                && message.meta.value() == MetaValue::Invalid;
            match gone {
                true => attached_memory.bias.host_drops(number),
                false => attached_memory.host_takes(line),
            }
            self.ask_medium(ctx, MediumRequestKind::Host(received), line, true);
            return;
        }
        if attached_memory.is_kept_from_host(line) {
            return self.locks.hold_back(line, &received);
        }
        let locked = attached_memory.locked_until(line);
        if !self.host_waits(ctx, &received, line, locked) {
            self.host_reads(ctx, &received);
        }
    }

    /// Serves a host's request for a line that is not locked.
    pub(super) fn host_reads(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        if self.is_device_coherent() {
            return self.host_asks(ctx, received);
        }
        let message = &received.message;
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let slot = attached_memory.dmc.find(line);
        attached_memory.stats.host_reads += 1;
        attached_memory.host_takes(line);
        let dirty = slot.is_some_and(|slot| attached_memory.dmc.remove(slot).1.dirty);
        if dirty {
            self.ask_medium(ctx, MediumRequestKind::WriteBack, line, true);
        }
        self.changed(ctx, line);
        if message.opcode == Opcode::MemInv {
            // The host takes ownership of the line without its data.
            self.release(ctx, received);
            self.respond_to_host(ctx, message);
        } else {
            self.ask_medium(ctx, MediumRequestKind::Host(*received), line, false);
        }
    }

    pub(super) fn respond_to_host(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let mut response = *message;
        response.opcode = match message.channel() {
            Channel::M2sRwd => Opcode::Cmp,
            _ if message.opcode == Opcode::MemInv => Opcode::Cmp,
            _ => Opcode::MemData,
        };
        response.stages.device += self.params.egress().0 as u32;
        std::mem::swap(&mut response.source, &mut response.destination);
        (response.vc, response.hops) = (0, 0);
        // The device stores no metadata (CXL 3.1, tables 3-49 and 3-52).
        response.meta = MemMeta::NONE;
        self.roots.send(ctx, response);
    }

    /// Whether the device keeps the attached memory coherent by back-invalidation.
    pub(super) fn is_device_coherent(&self) -> bool {
        self.attached_memory
            .as_ref()
            .is_some_and(|attached_memory| attached_memory.dcoh.is_some())
    }

    /// Recalls a line that the host may hold; `entry` waits for the response.
    pub(super) fn back_invalidate(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        entry: u32,
        line: LineAddr,
    ) {
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let actions = attached_memory.step(line, entry, Event::LocalWrite);
        debug_assert!(
            matches!(actions.iter().next(), Some(Action::Snoop(Snoop::Inv, _))),
            "the host may hold {line:?}"
        );
        if let Some(dcoh) = &mut attached_memory.dcoh {
            dcoh.stats.snoops += 1;
        }
        let snoop = self.message(ctx, line, Snoop::Inv.opcode(), entry);
        self.roots.send(ctx, snoop);
    }

    /// Handles the host's response to a snoop: the waiting access continues, and then a request of the host.
    pub(super) fn snoop_answered(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let request = request_of(message);
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let asked = attached_memory
            .dcoh
            .as_ref()
            .and_then(|dcoh| dcoh.entry_of(line));
        let Some(entry) = asked else {
            panic!("{:?} answers no snoop", message.opcode)
        };
        attached_memory.step(line, entry, Event::Message(HOST, request));
        let left = cache_agent::Event::HostResponse(HostResponse::Go(GoState::Invalid));
        self.apply(ctx, entry, left, message);
        self.wake_held_back(ctx, line);
    }

    /// Handles a host message that never waits for a line: a write, or a conflict.
    fn host_writes(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        let message = &received.message;
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let request = request_of(message);
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let actions = attached_memory.step(line, 0, Event::Message(HOST, request));
        if request == M2s::BiConflict {
            if let Some(dcoh) = &mut attached_memory.dcoh {
                dcoh.stats.conflicts += 1;
            }
            self.release(ctx, received);
            for action in actions.iter() {
                self.reply_to_host(ctx, message, action);
            }
            return;
        }
        // The completion follows from the medium.
        attached_memory.stats.host_writes += 1;
        self.ask_medium(ctx, MediumRequestKind::Host(*received), line, true);
    }

    /// Handles a request of the host for an idle line.
    fn host_asks(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        let message = &received.message;
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let request = request_of(message);
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        attached_memory.stats.host_reads += 1;
        let actions = attached_memory.step(line, 0, Event::Message(HOST, request));
        let slot = attached_memory
            .dmc
            .find(line)
            .filter(|_| request != M2s::MemInvFlush);
        let dirty = slot.is_some_and(|slot| attached_memory.dmc.remove(slot).1.dirty);
        let passes = dirty && request == M2s::MemRdOwn;
        if dirty && !passes {
            self.ask_medium(ctx, MediumRequestKind::WriteBack, line, true);
        }
        self.changed(ctx, line);
        for action in actions.iter() {
            match action {
                Action::ReadMedium if passes => self.pass_modified(ctx, received),
                Action::ReadMedium => {
                    self.ask_medium(ctx, MediumRequestKind::Host(*received), line, false)
                }
                action => {
                    self.release(ctx, received);
                    self.reply_to_host(ctx, message, action);
                }
            }
        }
    }

    /// Handles the data of a line read for the host, from the medium or, if modified, from the cache in front of it.
    pub(super) fn read_for_host(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        modified: bool,
    ) {
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let event = match modified {
            true => Event::MediumDirty,
            false => Event::MediumData,
        };
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let actions = attached_memory.step(line, 0, event);
        for action in actions.iter() {
            self.reply_to_host(ctx, message, action);
        }
        self.wake_held_back(ctx, line);
    }

    fn reply_to_host(&mut self, ctx: &mut Ctx<'_, Parcel>, to: &Message, action: Action) {
        let Action::Respond(_, s2m) = action else {
            unreachable!("{action:?} follows no message of the host")
        };
        let mut response = Message {
            opcode: s2m.opcode(),
            source: to.destination,
            destination: to.source,
            meta: MemMeta::NONE,
            cache: CacheMeta::NONE,
            vc: 0,
            hops: 0,
            ..*to
        };
        response.stages.device += self.params.egress().0 as u32;
        if let (S2m::CmpM, Some(attached_memory)) = (s2m, &mut self.attached_memory)
            && let Some(dcoh) = &mut attached_memory.dcoh
        {
            dcoh.stats.passed_modified += 1;
        }
        self.roots.send(ctx, response);
    }

    /// Frees the receive buffer of a message and returns its credit.
    pub(super) fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        let buffer = BufferId::of(received.message.channel(), received.message.vc);
        self.roots.ports[usize::from(received.port)].release(ctx, buffer);
    }
}

/// The message in terms of the table, which treats a partial write as a write.
///
/// # Panics
/// If no host sends such a message.
fn request_of(message: &Message) -> M2s {
    let opcode = match message.opcode {
        Opcode::MemWrPtl => Opcode::MemWr,
        opcode => opcode,
    };
    let meta = message.meta;
    let Some(request) = M2s::from_fields(opcode, meta.field(), meta.value(), meta.snoop()) else {
        panic!("{opcode:?} ({meta:?}) is not modelled")
    };
    request
}
