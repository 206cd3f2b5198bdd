//! A Type 3 device: a controller in front of a medium, HDM-H (the host manages coherence; the
//! device answers every request and looks at no metadata).
//!
//! A request arrives through the controller's pipeline (a constant time), waits in the receive
//! buffer until the medium accepts it, and is answered when the medium is done: reads with
//! `MemData` (S2M DRS), writes with `Cmp` (S2M NDR). The buffer's credit goes back when the
//! request enters the medium; a context is held until the response has left, and their number
//! is bounded, so a blocked response path holds requests back all the way to their requesters.

use std::collections::VecDeque;

use cxlab_engine::Ctx;
use cxlab_engine::units::{Dpa, Picos, SimTime};
use cxlab_link::{Blocked, Buffer, LinkPort, Parcel};
use cxlab_memory::{Completion, MemoryBackend, MemoryRequest};
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{Channel, Message, Opcode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user says of a device's controller.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceParams {
    /// Time of a request in the controller. Default 40 ns (ESF Table III, device controller
    /// process time).
    pub process_time: Picos,
    /// Requests in the device at once, from acceptance by the medium until their response has
    /// left. 1 to 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub contexts: u32,
}

impl Default for DeviceParams {
    fn default() -> Self {
        DeviceParams {
            process_time: Picos::from_nanos(40),
            contexts: 256,
        }
    }
}

/// What a device counted since measurement began.
#[derive(Clone, Copy, Default, Debug)]
pub struct DeviceStats {
    /// Lines read.
    pub reads: u64,
    /// Lines written.
    pub writes: u64,
    /// Requests accepted from the link, ever.
    pub accepted: u64,
    /// Responses sent, ever.
    pub answered: u64,
}

#[derive(Clone, Copy)]
struct Context {
    message: Message,
    /// When the medium accepted it, or finished it.
    since: SimTime,
}

/// What a device is built from.
pub struct DeviceConfig {
    /// Controller.
    pub params: DeviceParams,
    /// One port for each link, in order.
    pub ports: Vec<LinkPort>,
    /// The medium.
    pub backend: Box<dyn MemoryBackend>,
    /// The window of host physical addresses that this device has a share of; `None` when no
    /// host addresses it.
    pub decoder: Option<InterleaveSet>,
    /// This device's number among the window's targets.
    pub target: u32,
}

/// The Type 3 device component.
pub struct MemoryDevice {
    controller: u32,
    ports: Vec<LinkPort>,
    backend: Box<dyn MemoryBackend>,
    decoder: Option<InterleaveSet>,
    target: u32,
    contexts: Vec<Context>,
    free: Vec<u32>,
    /// Which port a context answers through.
    port_of: Vec<u16>,
    /// Requests in the receive buffers, in order of arrival, with their port and arrival.
    waiting: VecDeque<(Message, u16, SimTime)>,
    /// Responses that wait for a link, by port and class.
    outgoing: Vec<[VecDeque<u32>; 2]>,
    /// The wake-up that is pending for each port, to ask for no second one.
    port_wake: Vec<SimTime>,
    backend_wake: SimTime,
    done: Vec<Completion>,
    stats: DeviceStats,
}

/// Token of the wake-up for the medium; ports use their number.
const BACKEND: u32 = u32::MAX;

impl MemoryDevice {
    /// Builds the component.
    pub fn new(config: DeviceConfig) -> Self {
        let contexts = config.params.contexts as usize;
        let empty = Context {
            message: Message {
                hpa: Default::default(),
                issued_ps: 0,
                stages: Default::default(),
                tag: 0,
                source: Default::default(),
                destination: Default::default(),
                opcode: Opcode::Cmp,
                vc: 0,
                hops: 0,
            },
            since: SimTime::ZERO,
        };
        let ports = config.ports.len();
        MemoryDevice {
            controller: config.params.process_time.0 as u32,
            ports: config.ports,
            backend: config.backend,
            decoder: config.decoder,
            target: config.target,
            contexts: vec![empty; contexts],
            free: (0..contexts as u32).rev().collect(),
            port_of: vec![0; contexts],
            waiting: VecDeque::with_capacity(256),
            outgoing: (0..ports)
                .map(|_| {
                    [
                        VecDeque::with_capacity(contexts),
                        VecDeque::with_capacity(contexts),
                    ]
                })
                .collect(),
            port_wake: vec![SimTime::NEVER; ports],
            backend_wake: SimTime::NEVER,
            done: Vec::with_capacity(16),
            stats: DeviceStats::default(),
        }
    }

    /// What was counted.
    pub fn stats(&self) -> DeviceStats {
        self.stats
    }

    /// Requests inside the device: buffered, in the medium, or waiting to be answered.
    pub fn in_flight(&self) -> u64 {
        (self.waiting.len() + self.contexts.len() - self.free.len()) as u64
    }

    /// Its ports, for link statistics.
    pub fn ports_mut(&mut self) -> &mut [LinkPort] {
        &mut self.ports
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.stats.reads = 0;
        self.stats.writes = 0;
        for port in &mut self.ports {
            port.transmitter.reset_stats(now);
        }
    }

    /// A parcel arrives from a link.
    #[inline]
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let credited = self.ports[port as usize].receive(parcel);
        if let Some(mut message) = parcel.message {
            message.stages.device += self.controller;
            message.hops += 1;
            self.stats.accepted += 1;
            self.waiting.push_back((message, port, ctx.now()));
            self.admit(ctx);
        }
        if credited {
            self.transmit(ctx, port);
        }
    }

    /// A wake-up for the medium or for a port.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token != BACKEND {
            self.port_wake[token as usize] = SimTime::NEVER;
            self.transmit(ctx, token as u16);
            return;
        }
        if ctx.now() == self.backend_wake {
            self.backend_wake = SimTime::NEVER;
        }
        let mut done = std::mem::take(&mut self.done);
        self.backend.advance(ctx.now(), &mut done);
        for completion in done.drain(..) {
            self.finish(ctx, completion);
        }
        self.done = done;
        self.admit(ctx);
    }

    /// Moves requests from the receive buffers into the medium, as far as it accepts them.
    fn admit(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some((message, port, arrived)) = self.waiting.front().copied() {
            let write = message.channel() == Channel::M2sRwd;
            if !self.backend.can_accept(write) {
                break;
            }
            let Some(id) = self.free.pop() else { break };
            self.waiting.pop_front();
            self.ports[port as usize].release(ctx, Buffer::of(message.channel(), message.vc));
            let dpa = match self.decoder.and_then(|set| set.decode(message.hpa)) {
                Some((target, dpa)) if target == self.target => dpa,
                _ => panic!(
                    "{:?} was routed to a device that does not own it",
                    message.hpa
                ),
            };
            self.accept(ctx.now(), id, message, port, arrived, dpa, write);
        }
        self.wake_backend(ctx);
    }

    #[allow(clippy::too_many_arguments)]
    fn accept(
        &mut self,
        now: SimTime,
        id: u32,
        mut message: Message,
        port: u16,
        arrived: SimTime,
        dpa: Dpa,
        write: bool,
    ) {
        message.stages.queue += (now - arrived).0;
        self.contexts[id as usize] = Context {
            message,
            since: now,
        };
        self.port_of[id as usize] = port;
        if write {
            self.stats.writes += 1;
        } else {
            self.stats.reads += 1;
        }
        self.backend.enqueue(now, MemoryRequest { id, dpa, write });
    }

    fn wake_backend(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(at) = self.backend.next_event()
            && at < self.backend_wake
        {
            self.backend_wake = at;
            ctx.wake_at(at.max(ctx.now()), BACKEND);
        }
    }

    /// The medium is done with a request: its response waits for the link.
    fn finish(&mut self, ctx: &mut Ctx<'_, Parcel>, completion: Completion) {
        let context = &mut self.contexts[completion.id as usize];
        let message = &mut context.message;
        message.stages.media += (ctx.now() - context.since).0;
        context.since = ctx.now();
        message.opcode = if message.channel() == Channel::M2sRwd {
            Opcode::Cmp
        } else {
            Opcode::MemData
        };
        std::mem::swap(&mut message.source, &mut message.destination);
        message.vc = 0;
        message.hops = 0;
        let class = usize::from(message.channel() == Channel::S2mDrs);
        let port = self.port_of[completion.id as usize];
        self.outgoing[port as usize][class].push_back(completion.id);
        self.transmit(ctx, port);
    }

    /// Sends waiting responses, the older class head first, as far as link and credits allow.
    fn transmit(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        let at = port as usize;
        let mut until = SimTime::NEVER;
        let mut open = [true; 2];
        let before = self.free.len();
        loop {
            let head = |class: usize| {
                let id = *self.outgoing[at][class].front()?;
                open[class].then(|| (self.contexts[id as usize].since, class, id))
            };
            let Some((since, class, id)) = head(0).into_iter().chain(head(1)).min() else {
                break;
            };
            let mut message = self.contexts[id as usize].message;
            message.stages.queue += (ctx.now() - since).0;
            match self.ports[at].send(ctx, &mut message) {
                Ok(()) => {
                    self.outgoing[at][class].pop_front();
                    self.free.push(id);
                    self.stats.answered += 1;
                }
                Err(Blocked::Credits) => open[class] = false,
                Err(Blocked::Until(time)) => {
                    open[class] = false;
                    until = until.min(time);
                }
            }
        }
        if until < self.port_wake[at] {
            self.port_wake[at] = until;
            ctx.wake_at(until, u32::from(port));
        }
        if before == 0 && !self.free.is_empty() && !self.waiting.is_empty() {
            self.admit(ctx);
        }
    }
}
