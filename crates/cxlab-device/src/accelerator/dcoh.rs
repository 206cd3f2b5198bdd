//! The coherency engine (DCOH) of a Type 2 device with HDM-DB memory.
//!
//! The table [`cxlab_protocol::coherence::dcoh`] decides what happens to a line, with the host
//! as the only holder. This module adds the timing and the bounded resources. The directory has
//! a bit for each line of the memory, so it never evicts. A line that the host may hold is
//! recalled by `BISnpInv`. Requests of the host for the line wait until the host has responded,
//! which the specification allows (CXL 3.1, section 3.3.11). The access that the line was
//! recalled for precedes such a request, so that a host with continuous requests cannot keep the
//! device from the line.
//!
//! A modified line of the cache in front of the medium is transferred to a host that requests
//! ownership without a write-back (`Cmp-M`).

use cxlab_engine::Ctx;
use cxlab_engine::units::{LINE_BYTES, LineAddr};
use cxlab_link::{BufferId, Parcel};
use cxlab_protocol::coherence::cache_agent;
use cxlab_protocol::coherence::cache_message::Reply;
use cxlab_protocol::coherence::dcoh::{
    Action, Actions, Event, Filter, LineState, Peer, Phase, step,
};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::{M2s, S2m, Snoop};
use cxlab_protocol::{CacheMeta, MemMeta, Message, Opcode};
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::own::{MediumRequestKind, OwnMemory, ReceivedMessage};

/// The host, the only possible holder of lines of the memory.
const HOST: Peer = match Peer::new(0) {
    Some(host) => host,
    None => unreachable!(),
};

/// A line with an outstanding operation.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct BusyLine {
    line: LineAddr,
    state: LineState,
    /// CQID of the entry that waits for the response to the snoop.
    entry: u32,
}

/// State of the engine beside the directory.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Dcoh {
    busy: Vec<BusyLine>,
    pub(super) stats: AcceleratorDcohStats,
}

/// Counters since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct AcceleratorDcohStats {
    /// `BISnpInv` messages sent.
    pub(super) snoops: u64,
    /// `BIConflict` messages of the host.
    pub(super) conflicts: u64,
    /// Modified lines transferred to the host without a write-back.
    pub(super) passed_modified: u64,
}

impl Dcoh {
    fn phase(&self, line: LineAddr) -> Phase {
        let busy = self.busy.iter().find(|busy| busy.line == line);
        busy.map_or(Phase::Idle, |busy| busy.state.phase)
    }

    /// Whether a line has been snooped and the host has not responded.
    pub(super) fn is_snooping(&self, line: LineAddr) -> bool {
        matches!(self.phase(line), Phase::Snooping(_))
    }

    /// Whether a line is being read for the host.
    pub(super) fn is_reading(&self, line: LineAddr) -> bool {
        matches!(self.phase(line), Phase::Reading(_))
    }
}

impl OwnMemory {
    /// Applies an event to a line and returns the actions of the table.
    ///
    /// # Panics
    /// If the table has no row for the event: a message violated the protocol, which is a
    /// bug of the simulator.
    fn step(&mut self, line: LineAddr, entry: u32, event: Event) -> Actions {
        let number = self.number(line);
        let Some(dcoh) = &mut self.dcoh else {
            unreachable!("only HDM-DB memory has an engine")
        };
        let at = dcoh.busy.iter().position(|busy| busy.line == line);
        let state = match at {
            Some(at) => dcoh.busy[at].state,
            None if self.bias.is_host(number) => LineState::idle(Filter::Any(HOST)),
            None => LineState::idle(Filter::Invalid),
        };
        let Some((next, actions)) = step(state, event) else {
            panic!("{event:?} in {state:?} breaks the coherence of HDM-DB memory")
        };
        match (at, next.is_busy()) {
            (Some(at), true) => dcoh.busy[at].state = next,
            (Some(at), false) => {
                dcoh.busy.swap_remove(at);
            }
            (None, true) => dcoh.busy.push(BusyLine {
                line,
                state: next,
                entry,
            }),
            (None, false) => {}
        }
        match next.filter {
            Filter::Invalid => self.bias.left(number),
            Filter::Any(_) | Filter::Shared(_) => self.bias.host_takes(number),
        }
        actions
    }
}

impl Accelerator {
    /// Whether the device keeps its own memory coherent by back-invalidation.
    pub(super) fn is_device_coherent(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.dcoh.is_some())
    }

    /// Recalls a line that the host may hold; `entry` waits for the response.
    pub(super) fn back_invalidate(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        entry: u32,
        line: LineAddr,
    ) {
        let Some(own) = &mut self.own else { return };
        let actions = own.step(line, entry, Event::LocalWrite);
        debug_assert!(
            matches!(actions.iter().next(), Some(Action::Snoop(Snoop::Inv, _))),
            "the host may hold {line:?}"
        );
        if let Some(dcoh) = &mut own.dcoh {
            dcoh.stats.snoops += 1;
        }
        let snoop = self.message(ctx, line, Snoop::Inv.opcode(), entry);
        self.roots.send(ctx, snoop);
    }

    /// Handles the host's response to a snoop: the waiting access continues, and then a
    /// request of the host.
    pub(super) fn snoop_answered(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let request = request_of(message);
        let Some(own) = &mut self.own else { return };
        let asked = own.dcoh.as_ref().and_then(|dcoh| {
            let busy = dcoh.busy.iter().find(|busy| busy.line == line)?;
            Some(busy.entry)
        });
        let Some(entry) = asked else {
            panic!("{:?} answers no snoop", message.opcode)
        };
        own.step(line, entry, Event::Message(HOST, request));
        let left = cache_agent::Event::Reply(Reply::Go(GoState::Invalid));
        self.apply(ctx, entry, left, message);
        self.wake_held_back(ctx, line);
    }

    /// Handles a host message that never waits for a line: a write, or a conflict.
    pub(super) fn host_writes(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        let message = &received.message;
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let request = request_of(message);
        let Some(own) = &mut self.own else { return };
        let actions = own.step(line, 0, Event::Message(HOST, request));
        if request == M2s::BiConflict {
            if let Some(dcoh) = &mut own.dcoh {
                dcoh.stats.conflicts += 1;
            }
            self.release(ctx, received);
            for action in actions.iter() {
                self.reply(ctx, message, action);
            }
            return;
        }
        // The completion follows from the medium.
        own.stats.host_writes += 1;
        self.ask_medium(ctx, MediumRequestKind::Host(*received), line, true);
    }

    /// Handles a request of the host for an idle line.
    pub(super) fn host_asks(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        let message = &received.message;
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let request = request_of(message);
        let Some(own) = &mut self.own else { return };
        own.stats.host_reads += 1;
        let actions = own.step(line, 0, Event::Message(HOST, request));
        let slot = own.dmc.find(line).filter(|_| request != M2s::MemInvFlush);
        let dirty = slot.is_some_and(|slot| own.dmc.remove(slot).1.dirty);
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
                    self.reply(ctx, message, action);
                }
            }
        }
    }

    /// Handles the data of a line read for the host, from the medium or, if modified, from the
    /// cache in front of it.
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
        let Some(own) = &mut self.own else { return };
        let actions = own.step(line, 0, event);
        for action in actions.iter() {
            self.reply(ctx, message, action);
        }
        self.wake_held_back(ctx, line);
    }

    fn reply(&mut self, ctx: &mut Ctx<'_, Parcel>, to: &Message, action: Action) {
        let Action::Reply(_, reply) = action else {
            unreachable!("{action:?} follows no message of the host")
        };
        let mut answer = Message {
            opcode: reply.opcode(),
            source: to.destination,
            destination: to.source,
            meta: MemMeta::NONE,
            cache: CacheMeta::NONE,
            vc: 0,
            hops: 0,
            ..*to
        };
        answer.stages.device += self.params.egress().0 as u32;
        if let (S2m::CmpM, Some(own)) = (reply, &mut self.own)
            && let Some(dcoh) = &mut own.dcoh
        {
            dcoh.stats.passed_modified += 1;
        }
        self.roots.send(ctx, answer);
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
