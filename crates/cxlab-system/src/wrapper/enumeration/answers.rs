//! Completions of a component: each leaves a fixed time after its request arrived, in the order of the requests.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{Outbox, Parcel};
use cxlab_protocol::Message;

use super::super::Inner;
use super::super::tokens::CompletionWake;

/// Messages that a component has to send.
pub(crate) struct PendingMessages {
    time: Picos,
    /// Time of departure, port, and message.
    pending: VecDeque<(SimTime, u16, Message)>,
    outboxes: Vec<Outbox>,
}

impl PendingMessages {
    /// An empty queue whose completions leave `time` after their requests.
    pub(crate) fn new(time: Picos) -> PendingMessages {
        PendingMessages {
            time,
            pending: VecDeque::new(),
            outboxes: Vec::new(),
        }
    }

    /// Number of messages that still have to be sent.
    pub(crate) fn holds(&self) -> u64 {
        let waiting: usize = self.outboxes.iter().map(Outbox::len).sum();
        (self.pending.len() + waiting) as u64
    }

    fn outbox(&mut self, port: u16) -> &mut Outbox {
        let place = usize::from(port);
        if self.outboxes.len() <= place {
            self.outboxes.resize(place + 1, Outbox::default());
        }
        &mut self.outboxes[place]
    }

    /// Sends a completion after the component's response time.
    pub(crate) fn answer(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, mut message: Message) {
        let at = SimTime(ctx.now().0 + self.time.0);
        message.stages.device += self.time.0 as u32;
        self.pending.push_back((at, port, message));
        ctx.wake_at(at, CompletionWake::Departure.token());
    }

    /// Sends a message now, or as soon as the port accepts it.
    pub(crate) fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        node: &mut impl Inner,
        port: u16,
        message: Message,
    ) {
        let now = ctx.now();
        let token = CompletionWake::Port(port).token();
        let link = node.port_mut(port);
        let outbox = self.outbox(port);
        outbox.offer(ctx, link, token, message, now, |_, _| {});
    }

    /// Sends queued messages after credits have arrived for a port.
    pub(crate) fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, node: &mut impl Inner, port: u16) {
        let token = CompletionWake::Port(port).token();
        let link = node.port_mut(port);
        self.outbox(port).pump(ctx, link, token, |_, _| {});
    }

    /// Handles a wake-up of this queue.
    pub(crate) fn wake(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        node: &mut impl Inner,
        wake: CompletionWake,
    ) {
        match wake {
            CompletionWake::Port(port) => {
                let link = node.port_mut(port);
                let outbox = self.outbox(port);
                outbox.wake(ctx, link, wake.token(), |_, _| {});
            }
            CompletionWake::Departure => {
                if let Some((_, port, message)) = self.pending.pop_front() {
                    self.send(ctx, node, port, message);
                }
            }
        }
    }
}
