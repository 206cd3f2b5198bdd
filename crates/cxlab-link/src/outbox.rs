//! What an endpoint has to send through one port, and what of it waits.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_protocol::{Channel, Message};
use serde::{Deserialize, Serialize};

use crate::credit::Buffer;
use crate::parcel::Parcel;
use crate::port::LinkPort;
use crate::transmitter::Blocked;

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct Waiting {
    message: Message,
    /// When it could have gone if the link had been free.
    ready: SimTime,
    /// For how long its buffer had been starved when it came.
    starved: u64,
}

impl Waiting {
    /// Its buffer at the far end.
    fn buffer(&self) -> Buffer {
        Buffer::of(self.message.channel(), self.message.vc)
    }
}

/// The outgoing queue of an endpoint's port: messages keep their order within a
/// [queue](Channel::queue), and of
/// several classes the head that was ready first goes first, among those that have a credit.
///
/// A message whose time is known before it comes (the answer of a medium with a fixed latency)
/// is sent ahead of that time if nothing waits: it takes its place on the wire, and no event
/// marks the moment. Messages of one port must be offered in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// Apart from the rest, because most of the time nothing waits.
    queues: Box<[VecDeque<Waiting>; Channel::COUNT]>,
    /// Classes that have something waiting.
    occupied: u16,
    /// All messages wait in the queue of the first class, so that none overtakes another.
    in_order: bool,
    len: u32,
    /// The wake-up that is pending, to ask for no second one.
    wake: Option<SimTime>,
}

save_state!(Outbox {
    values: queues, occupied, len, wake;
    built: in_order;
});

impl Outbox {
    /// A queue in which a message that waits for credits also stops those of other classes.
    pub fn in_order() -> Self {
        Outbox {
            in_order: true,
            ..Outbox::default()
        }
    }

    /// How many messages wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sends a message that is ready at `ready` (now or later), or keeps it until it can go. Its
    /// wait is noted in its stages. When the link alone is missing, the owner is woken with
    /// `token` and calls [`Outbox::wake`]; when credits are missing, it calls [`Outbox::pump`]
    /// on their arrival. `sent` is told of each message that goes, and when it leaves.
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

    /// Sends the answer that `change` makes of a request, as [`Outbox::offer`] does: of what has arrived
    /// where none is given. It is changed where it lies in the end: a copy of what was just written
    /// would wait for the writes.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "as `offer`, and what changes")]
    pub fn offer_answer(
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
        let answer = |ctx: &Ctx<'_, Parcel>| {
            let Some(mut answer) = request.copied().or(ctx.received().message) else {
                unreachable!("what is answered has arrived");
            };
            change(&mut answer);
            answer
        };
        if self.len > 0 {
            self.keep(ctx, port, answer(ctx), ready);
            self.pump_waiting(ctx, port, token, |_, leaves| sent(leaves));
            return;
        }
        let went = match request {
            None => port.pass_on(ctx, channel, 0, ready, &change),
            Some(request) => port.send_as(ctx, request, channel, 0, ready, &change),
        };
        match went {
            Ok(leaves) => sent(leaves),
            Err(why) => self.keep_blocked(ctx, port, token, answer(ctx), ready, why),
        }
    }

    /// Keeps a message that cannot go now.
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
                // What is ready later does not wait before.
                let from = ready.max(ctx.now());
                port.starve(from, Buffer::of(message.channel(), message.vc));
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
        port.feed(ctx.now());
        let class = match self.in_order {
            true => 0,
            false => message.channel().queue().index(),
        };
        let from = ready.max(ctx.now());
        let starved = port.starved_ps(from, Buffer::of(message.channel(), message.vc));
        self.queues[class].push_back(Waiting {
            message,
            ready,
            starved,
        });
        self.occupied |= 1 << class;
        self.len += 1;
    }

    /// The wake-up that was asked for has come: sends what can go.
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

    /// Sends what can go now, and tells of each message that went.
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
        port.feed(now);
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
            let note = |sent: &mut Message| waited.note(stage, sent);
            match port.send(ctx, message, message.vc, now, note) {
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
                    port.starve(now, buffer);
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

    /// Among these classes, the one whose head was ready first.
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

    /// Forgets all that waits, and tells of each message.
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
