//! The messages that an endpoint sends through one port, and the queues of those that wait.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_protocol::{Channel, Message};
use serde::{Deserialize, Serialize};

use crate::credit::BufferId;
use crate::parcel::Parcel;
use crate::port::LinkPort;
use crate::transmitter::Blocked;

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct PendingMessage {
    message: Message,
    /// When the message could have been sent if the link had been free.
    ready: SimTime,
    /// How long the message's buffer had been starved when it was queued, in picoseconds.
    starved: u64,
}

impl PendingMessage {
    /// The message's buffer at the far end.
    fn buffer(&self) -> BufferId {
        BufferId::of(self.message.channel(), self.message.vc)
    }
}

/// The outgoing queues of an endpoint's port. Messages keep their order within a [queue](Channel::queue).
/// Among the heads of several queues that have a credit, the head that was ready first goes first.
///
/// The time of a message may be known in advance (the response of a memory backend with a fixed latency).
/// Such a message is sent ahead of its time if nothing waits: its time on the wire is reserved, and no
/// event marks the moment. Messages of one port must be offered in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// Boxed apart from the other fields, because most of the time nothing waits.
    queues: Box<[VecDeque<PendingMessage>; Channel::COUNT]>,
    /// Bit mask of the classes whose queue is not empty.
    occupied: u16,
    /// Whether all messages wait in the queue of the first class, so that none overtakes another.
    in_order: bool,
    len: u32,
    /// Time of the pending wake-up, so that no second one is requested.
    wake: Option<SimTime>,
}

save_state!(Outbox {
    values: queues, occupied, len, wake;
    built: in_order;
});

impl Outbox {
    /// Creates a queue in which a message that waits for credits also stalls those of other classes.
    pub fn in_order() -> Self {
        Outbox {
            in_order: true,
            ..Outbox::default()
        }
    }

    /// Number of messages that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the queues of all classes are empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sends a message that is ready at `ready` (now or later), or queues it until it can be sent. The wait
    /// is added to the message's stages. If only the wire is missing, the owner is woken with `token` and
    /// calls [`Outbox::wake`]. If credits are missing, the owner calls [`Outbox::pump`] when they arrive.
    /// `sent` is called for each message that is sent, with the time at which it leaves.
    #[inline(always)]
    pub fn offer(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: &mut LinkPort,
        token: u32,
        message: Message,
        ready: SimTime,
        mut sent: impl FnMut(&Message, SimTime),
    ) {
        if self.len > 0 {
            self.keep(ctx, port, message, ready);
            self.pump_waiting(ctx, port, token, sent);
            return;
        }
        match port.send(ctx, &message, message.vc, ready, |_| {}) {
            Ok(leaves) => sent(&message, leaves),
            Err(why) => self.keep_blocked(ctx, port, token, message, ready, why),
        }
    }

    /// Sends the response that `change` makes of `request`, or of the parcel just received if `request` is
    /// `None`, as [`Outbox::offer`] does. The response is changed in its final location, because copying
    /// data that was just written would stall until the writes complete.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "as `offer`, and what changes")]
    pub fn offer_response(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: &mut LinkPort,
        token: u32,
        request: Option<&Message>,
        channel: Channel,
        ready: SimTime,
        change: impl Fn(&mut Message),
        mut sent: impl FnMut(SimTime),
    ) {
        let response = |ctx: &Ctx<'_, Parcel>| {
            let Some(mut response) = request.copied().or(ctx.received().message) else {
                unreachable!("what is answered has arrived");
            };
            change(&mut response);
            response
        };
        if self.len > 0 {
            self.keep(ctx, port, response(ctx), ready);
            self.pump_waiting(ctx, port, token, |_, leaves| sent(leaves));
            return;
        }
        let departure = match request {
            None => port.pass_on(ctx, channel, 0, ready, &change),
            Some(request) => port.send_as(ctx, request, channel, 0, ready, &change),
        };
        match departure {
            Ok(leaves) => sent(leaves),
            Err(why) => self.keep_blocked(ctx, port, token, response(ctx), ready, why),
        }
    }

    /// Queues a message that cannot be sent now, and arranges for the next attempt.
    #[inline(never)]
    fn keep_blocked(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: &mut LinkPort,
        token: u32,
        message: Message,
        ready: SimTime,
        why: Blocked,
    ) {
        self.keep(ctx, port, message, ready);
        match why {
            Blocked::Until(time) => self.wake_at(ctx, token, time),
            Blocked::Credits => {
                // A message that becomes ready later does not wait before that time.
                let from = ready.max(ctx.now());
                port.begin_starvation(from, BufferId::of(message.channel(), message.vc));
            }
        }
    }

    #[inline(never)]
    fn keep(
        &mut self,
        ctx: &Ctx<'_, Parcel>,
        port: &mut LinkPort,
        message: Message,
        ready: SimTime,
    ) {
        port.end_starvation(ctx.now());
        let class = match self.in_order {
            true => 0,
            false => message.channel().queue().index(),
        };
        let from = ready.max(ctx.now());
        let starved = port.starved_ps(from, BufferId::of(message.channel(), message.vc));
        self.queues[class].push_back(PendingMessage {
            message,
            ready,
            starved,
        });
        self.occupied |= 1 << class;
        self.len += 1;
    }

    /// Handles the pending wake-up: sends the messages that can go.
    #[inline]
    pub fn wake(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: &mut LinkPort,
        token: u32,
        sent: impl FnMut(&Message, SimTime),
    ) {
        if self.wake == Some(ctx.now()) {
            self.wake = None;
        }
        self.pump(ctx, port, token, sent);
    }

    /// Sends the messages that can go now; `sent` is called for each.
    #[inline]
    pub fn pump(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: &mut LinkPort,
        token: u32,
        sent: impl FnMut(&Message, SimTime),
    ) {
        if self.len > 0 {
            self.pump_waiting(ctx, port, token, sent);
        }
    }

    fn pump_waiting(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: &mut LinkPort,
        token: u32,
        mut sent: impl FnMut(&Message, SimTime),
    ) {
        let now = ctx.now();
        port.end_starvation(now);
        let mut open = self.occupied;
        let mut until = SimTime::NEVER;
        while let Some((ready, class)) = self.oldest(open) {
            if ready > now {
                until = until.min(ready);
                break;
            }
            let Some(waiting) = self.queues[class].front() else {
                break;
            };
            let message = &waiting.message;
            let (buffer, stage) = (waiting.buffer(), port.stage());
            let waited = port.waited(now, buffer, ready, waiting.starved);
            let add_wait = |sent: &mut Message| waited.add_to_stages(stage, sent);
            match port.send(ctx, message, message.vc, now, add_wait) {
                Ok(leaves) => {
                    sent(message, leaves);
                    port.count_wait(waited);
                    self.queues[class].pop_front();
                    self.len -= 1;
                    if self.queues[class].is_empty() {
                        self.occupied &= !(1 << class);
                        open &= !(1 << class);
                    }
                }
                Err(Blocked::Credits) => {
                    port.begin_starvation(now, buffer);
                    open &= !(1 << class);
                }
                Err(Blocked::Until(time)) => {
                    open &= !(1 << class);
                    until = until.min(time);
                }
            }
        }
        if until < SimTime::NEVER {
            self.wake_at(ctx, token, until);
        }
    }

    /// Among these classes, the one whose head was ready first, with that time.
    #[inline]
    fn oldest(&self, mut classes: u16) -> Option<(SimTime, usize)> {
        let mut oldest = None;
        while classes != 0 {
            let class = classes.trailing_zeros() as usize;
            classes &= classes - 1;
            if let Some(head) = self.queues[class].front()
                && oldest.is_none_or(|(ready, _)| head.ready < ready)
            {
                oldest = Some((head.ready, class));
            }
        }
        oldest
    }

    /// Drops all queued messages; `lost` is called for each.
    pub fn discard(&mut self, mut lost: impl FnMut(&Message)) {
        for queue in self.queues.iter_mut() {
            queue.drain(..).for_each(|waiting| lost(&waiting.message));
        }
        (self.occupied, self.len) = (0, 0);
    }

    fn wake_at(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32, time: SimTime) {
        if self.wake.is_none_or(|pending| time < pending) {
            self.wake = Some(time);
            ctx.wake_at(time.max(ctx.now()), token);
        }
    }
}
