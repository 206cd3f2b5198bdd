//! Sending of responses and snoops.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::dcoh::Peers;
use cxlab_protocol::coherence::message::{S2m, Snoop};
use cxlab_protocol::{CacheMeta, Channel, DevLoad, MemMeta, Message, PortId};

use super::lines::{Contexts, NONE};
use super::{CoherentDevice, ResponseCounts, dpa_of};

#[derive(Clone, Copy)]
pub(super) struct Response {
    pub(super) opcode: S2m,
    /// Value of the line in `MemData`.
    pub(super) data: u16,
    pub(super) load: DevLoad,
}

impl CoherentDevice {
    /// Sends a response. `owner` is the request that it belongs to, or `NONE` for
    /// a response to RwD.
    ///
    /// The device stores no metadata, so MetaField is No-Op in every response (CXL 3.1, tables 3-49
    /// and 3-52); the state of the line is in the opcode of the completion (table 3-50).
    pub(super) fn reply(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        to: &Message,
        port: u16,
        response: Response,
        owner: u32,
    ) {
        let message = Message {
            source: to.destination,
            destination: to.source,
            opcode: response.opcode.opcode(),
            meta: MemMeta::NONE,
            cache: CacheMeta::NONE,
            lines: response.load.lines(),
            data: response.data,
            vc: 0,
            hops: 0,
            ..*to
        };
        let with_data = usize::from(response.opcode == S2m::MemData);
        self.ports[port as usize].owners[with_data].push_back(owner);
        self.offer(ctx, port, message);
    }

    pub(super) fn offer(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, message: Message) {
        let now = ctx.now();
        let port = &mut self.ports[number as usize];
        let sent = sent(&mut port.owners, &mut self.contexts, &mut self.answers);
        let (link, token) = (&mut port.link, u32::from(number));
        port.outbox.offer(ctx, link, token, message, now, sent);
    }

    /// Sends queued messages as far as link and credits allow, and uses the
    /// space that becomes free.
    pub(super) fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, woken: bool) {
        let port = &mut self.ports[number as usize];
        let sent = sent(&mut port.owners, &mut self.contexts, &mut self.answers);
        let (link, token) = (&mut port.link, u32::from(number));
        if woken {
            port.outbox.wake(ctx, link, token, sent);
        } else {
            port.outbox.pump(ctx, link, token, sent);
        }
        if !self.buffers.requests.is_empty() || !self.buffers.writes.is_empty() {
            self.go_on(ctx);
        }
    }

    /// Snoops the holders `peers` of `lines` lines from `first` on.
    pub(super) fn snoop(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kind: Snoop,
        first: LineAddr,
        lines: u8,
        peers: Peers,
    ) {
        for peer in peers.iter() {
            let destination = self.peers.ids[peer.index()];
            self.coherence.snoops[kind as usize] += 1;
            self.coherence.block_snoops += u64::from(lines > 1);
            let opcode = match lines {
                1 => kind.opcode(),
                _ => kind.block_opcode(),
            };
            let hpa = self.hpa(destination, first);
            let tag = self.snoops.take(peer, first, lines);
            let message = Message {
                lines,
                ..Message::new(opcode, hpa, tag, self.port_id, destination, ctx.now())
            };
            self.offer(ctx, self.peers.ports[peer.index()], message);
        }
    }

    /// Host physical address by which a host knows a line of this device.
    fn hpa(&self, host: PortId, line: LineAddr) -> Hpa {
        match self.decoders.encode(host, dpa_of(line)) {
            Some(hpa) => hpa,
            None => unreachable!("{host:?} holds a line that it has no address for"),
        }
    }
}

/// Bookkeeping of a message that the link has accepted: the last response of a
/// request frees its context.
#[inline]
fn sent<'a>(
    owners: &'a mut [VecDeque<u32>; 2],
    contexts: &'a mut Contexts,
    answers: &'a mut ResponseCounts,
) -> impl FnMut(&Message, SimTime) + 'a {
    move |message, _| {
        let class = match message.channel() {
            Channel::S2mNdr => 0,
            Channel::S2mDrs => 1,
            _ => return,
        };
        match owners[class].pop_front() {
            Some(NONE) => {
                answers.waiting -= 1;
                let ack = S2m::from_opcode(message.opcode) == Some(S2m::BiConflictAck);
                answers.sent += u64::from(!ack);
            }
            Some(request) => answers.sent += u64::from(contexts.replied(request)),
            None => unreachable!("every response has an owner"),
        }
    }
}
