//! A half-duplex bus between two ports: one direction at a time, with an idle turnaround between.
//!
//! PCIe is full duplex; the bus exists for comparison with interconnects that are not (ESF section V-D).
//! Both directions share one wire, so the bus is a component of its own. Each end hands its messages over
//! at once (after 1 ps, which is subtracted from the wire's delay), and the bus sends them one after the
//! other. Messages keep their order within a class. A direction keeps the wire until none of its messages
//! can be sent, or until its burst is over and the other direction waits.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_link::{Blocked, BufferId, LinkPort, Parcel};
use cxlab_protocol::{Channel, Message};
use serde::{Deserialize, Serialize};

/// Configuration of a half-duplex bus.
pub struct BusConfig {
    /// The ports at the two ends.
    pub ports: [LinkPort; 2],
    /// Idle time when the direction changes, in picoseconds.
    pub turnaround_ps: u64,
    /// Most messages that a direction sends in a row while the other direction waits.
    pub burst: u16,
}

#[derive(Clone, Serialize, Deserialize)]
struct PendingMessage {
    message: Message,
    arrived: SimTime,
    /// How long the message's buffer had been starved when the message arrived, in picoseconds.
    starved: u64,
}

impl PendingMessage {
    fn buffer(&self) -> BufferId {
        BufferId::of(self.message.channel(), self.message.vc)
    }
}

/// The component of a half-duplex bus.
pub struct Bus {
    ports: [LinkPort; 2],
    turnaround_ps: u64,
    burst: u16,
    /// Messages queued for each port, by class.
    waiting: [[VecDeque<PendingMessage>; Channel::COUNT]; 2],
    /// Number of messages queued for each port.
    count: [u32; 2],
    /// The port to which the wire leads now, and the number of messages sent in that direction in a row.
    direction: usize,
    sent: u16,
    /// When the wire is free, in picoseconds.
    free: u64,
    /// Time of the earliest wake-up that was requested, or `SimTime::NEVER`.
    wake: SimTime,
}

save_state!(Bus {
    values: waiting, count, direction, sent, free, wake;
    states: ports;
    built: turnaround_ps, burst;
});

impl Bus {
    /// Builds the bus component.
    pub fn new(config: BusConfig) -> Self {
        let queues = || std::array::from_fn(|_| VecDeque::with_capacity(16));
        Bus {
            ports: config.ports,
            turnaround_ps: config.turnaround_ps,
            burst: config.burst,
            waiting: [queues(), queues()],
            count: [0, 0],
            direction: 0,
            sent: 0,
            free: 0,
            wake: SimTime::NEVER,
        }
    }

    /// Number of messages queued in the bus.
    pub fn in_flight(&self) -> u64 {
        u64::from(self.count[0] + self.count[1])
    }

    /// The two ports, for link statistics.
    pub fn ports_mut(&mut self) -> &mut [LinkPort] {
        &mut self.ports
    }

    /// Resets the link statistics at the start of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        for port in &mut self.ports {
            port.begin_measurement(now);
        }
    }

    /// Accepts a parcel from one end, and sends what can go.
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        self.ports[port as usize].receive(parcel);
        if let Some(message) = parcel.message {
            let (out, now) = (1 - port as usize, ctx.now());
            let mut pending = PendingMessage {
                message,
                arrived: now,
                starved: 0,
            };
            pending.starved = self.ports[out].starved_ps(now, pending.buffer());
            self.waiting[out][message.channel().queue().index()].push_back(pending);
            self.count[out] += 1;
        }
        self.transmit(ctx);
    }

    /// Handles a wake-up: the wire may be free again.
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, _token: u32) {
        if ctx.now() == self.wake {
            self.wake = SimTime::NEVER;
        }
        self.transmit(ctx);
    }

    /// Sends queued messages, as far as wire and credits allow.
    fn transmit(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        self.ports
            .iter_mut()
            .for_each(|port| port.end_starvation(ctx.now()));
        while self.count != [0, 0] {
            if self.free > now {
                self.wake_at(ctx, self.free);
                return;
            }
            let yields = self.sent >= self.burst && self.count[1 - self.direction] > 0;
            let preferred = if yields {
                1 - self.direction
            } else {
                self.direction
            };
            let ready = |out: usize| self.oldest_ready(out).map(|class| (out, class));
            let Some((out, class)) = ready(preferred).or_else(|| ready(1 - preferred)) else {
                return self.begin_starvation(ctx.now());
            };
            if out != self.direction {
                self.direction = out;
                self.sent = 0;
                self.free = self.free.max(now) + self.turnaround_ps;
                // Credits and queues may change while the wire turns around, so the choice is made again afterwards.
                continue;
            }
            if !self.send(ctx, out, class) {
                return;
            }
        }
    }

    /// The class whose head arrived first, among the heads that have a credit.
    fn oldest_ready(&self, out: usize) -> Option<usize> {
        (0..Channel::COUNT)
            .filter_map(|class| {
                let head = self.waiting[out][class].front()?;
                (self.ports[out].credits(head.buffer()) > 0).then_some((head.arrived, class))
            })
            .min()
            .map(|(_, class)| class)
    }

    /// Records that the wire is free and no queued message has a credit.
    fn begin_starvation(&mut self, now: SimTime) {
        for (queues, port) in self.waiting.iter().zip(&mut self.ports) {
            let heads = queues.iter().filter_map(VecDeque::front);
            heads.for_each(|head| port.begin_starvation(now, head.buffer()));
        }
    }

    /// Sends one message. Returns false if the link cannot accept it now.
    fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, out: usize, class: usize) -> bool {
        let now = ctx.now().0;
        let Some(head) = self.waiting[out][class].front() else {
            return false;
        };
        let (message, buffer) = (&head.message, head.buffer());
        let port = &mut self.ports[out];
        let waited = port.waited(ctx.now(), buffer, head.arrived, head.starved);
        let stage = port.stage();
        let add_wait = |sent: &mut Message| waited.add_to_stages(stage, sent);
        match port.send(ctx, message, message.vc, ctx.now(), add_wait) {
            Ok(_) => {
                port.count_wait(waited);
                self.waiting[out][class].pop_front();
                self.count[out] -= 1;
                self.sent = self.sent.saturating_add(1);
                self.free = now + self.ports[out].transmitter.backlog_ps(ctx.now());
                self.ports[1 - out].release(ctx, buffer);
                true
            }
            Err(Blocked::Until(time)) => {
                self.wake_at(ctx, time.0);
                false
            }
            Err(Blocked::Credits) => false,
        }
    }

    fn wake_at(&mut self, ctx: &mut Ctx<'_, Parcel>, time: u64) {
        if time < self.wake.0 {
            self.wake = SimTime(time);
            ctx.wake_at(SimTime(time), 0);
        }
    }
}
