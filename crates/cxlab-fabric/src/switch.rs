//! A switch: routes messages from port to port by their destination (port-based routing, CXL 3.1
//! section 7.7), or down and up a tree (PCIe-style virtual switches route the same way, with
//! fewer paths).
//!
//! # What is modelled
//! Switching time (a pipeline of constant length behind each input), input buffers with credits
//! for each message class and virtual channel, one queue for each input, class and virtual
//! channel at each output (so a blocked output holds nothing else back), arbitration of each
//! output, and a choice of the output among the routing's candidates by their congestion. An
//! input buffer's credit goes back when its message leaves for the output link.
//!
//! # What is left out
//! Crossbar limits inside the switch: every output can take one message from any input at once.

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{Blocked, Buffer, LinkPort, Parcel};
use cxlab_protocol::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::routing::RoutingTables;

/// Who goes first at an output.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The inputs take turns.
    #[default]
    RoundRobin,
    /// The message whose transaction was issued first.
    Age,
}

/// What a user says of a switch.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchParams {
    /// Time through the switch from input to output. Default 20 ns (ESF Table III).
    pub switching_time: Picos,
    /// Who goes first at an output. Default round-robin.
    pub arbitration: Arbitration,
    /// Ports that a switch has at most; a system that needs more is refused. Default: no limit.
    #[schemars(range(min = 2, max = 65535))]
    pub max_ports: Option<u16>,
}

impl Default for SwitchParams {
    fn default() -> Self {
        SwitchParams {
            switching_time: Picos::from_nanos(20),
            arbitration: Arbitration::RoundRobin,
            max_ports: None,
        }
    }
}

/// What a switch is built from.
pub struct SwitchConfig {
    /// Its parameters.
    pub params: SwitchParams,
    /// Its number in the routing tables.
    pub index: usize,
    /// Endpoints of the fabric.
    pub endpoints: usize,
    /// One port for each link, numbered as in the routing tables.
    pub ports: Vec<LinkPort>,
    /// Where messages go.
    pub tables: Arc<RoutingTables>,
    /// Its random stream, for random routing.
    pub rng: StreamRng,
}

const NIL: u32 = u32::MAX;
const CHOICE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Waiting {
    message: Message,
    /// The virtual channel it arrived on; `message.vc` is that of its next link.
    vc_in: u8,
    arrived: u64,
    next: u32,
}

/// Messages from one input, of one class and virtual channel, to one output, oldest first.
#[derive(Clone, Copy)]
struct Queue {
    input: u16,
    buffer: Buffer,
    head: u32,
    tail: u32,
}

/// An output and what waits for it.
struct Output {
    link: LinkPort,
    /// Queues that hold something, in the order in which they may go.
    queues: VecDeque<Queue>,
    waiting: u32,
    wake: SimTime,
    line_time: u64,
}

/// The switch component.
pub struct Switch {
    index: usize,
    switching_ps: u32,
    arbitration: Arbitration,
    tables: Arc<RoutingTables>,
    /// By destination: the only output, or [`CHOICE`] where there are several.
    only: Vec<u16>,
    /// Whether messages change their virtual channel at all.
    climbs: bool,
    outputs: Vec<Output>,
    slab: Vec<Waiting>,
    free: u32,
    rng: StreamRng,
    /// Messages received and forwarded, ever.
    received: u64,
    forwarded: u64,
}

impl Switch {
    /// Builds the component.
    pub fn new(config: SwitchConfig) -> Self {
        let outputs = config.ports.into_iter().map(|link| Output {
            line_time: link.transmitter.line_time_ps(),
            link,
            queues: VecDeque::with_capacity(8),
            waiting: 0,
            wake: SimTime::NEVER,
        });
        let only = (0..config.endpoints).map(|destination| {
            match config.tables.candidates(config.index, destination) {
                [output] => *output,
                _ => CHOICE,
            }
        });
        Switch {
            only: only.collect(),
            climbs: config.tables.virtual_channels() > 1,
            index: config.index,
            switching_ps: config.params.switching_time.0 as u32,
            arbitration: config.params.arbitration,
            tables: config.tables,
            outputs: outputs.collect(),
            slab: Vec::new(),
            free: NIL,
            rng: config.rng,
            received: 0,
            forwarded: 0,
        }
    }

    /// Messages inside the switch.
    pub fn in_flight(&self) -> u64 {
        self.received - self.forwarded
    }

    /// One of its ports, for link statistics.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        &mut self.outputs[port as usize].link
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        for output in &mut self.outputs {
            output.link.transmitter.reset_stats(now);
        }
    }

    /// A parcel arrives from a link.
    #[inline]
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let output = &mut self.outputs[port as usize];
        if output.link.receive(parcel) && output.waiting > 0 {
            self.transmit(ctx, port as usize);
        }
        if let Some(message) = &parcel.message {
            self.route(ctx, port, message);
        }
    }

    /// An output's link has room again.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.outputs[token as usize].wake = SimTime::NEVER;
        self.transmit(ctx, token as usize);
    }

    fn route(&mut self, ctx: &mut Ctx<'_, Parcel>, input: u16, message: &Message) {
        let mut message = *message;
        self.received += 1;
        message.stages.switch += self.switching_ps;
        message.hops += 1;
        let vc_in = message.vc;
        let output = self.choose(ctx.now(), &message);
        if self.climbs {
            message.vc += u8::from(self.tables.vc_increment(self.index, input, output));
        }
        let out = &mut self.outputs[output as usize];
        if out.queues.is_empty() {
            match out.link.send(ctx, &mut message) {
                Ok(()) => {
                    self.forwarded += 1;
                    let buffer = Buffer::of(message.channel(), vc_in);
                    self.outputs[input as usize].link.release(ctx, buffer);
                    return;
                }
                Err(Blocked::Until(time)) => wake_output(ctx, out, output, time),
                Err(Blocked::Credits) => {}
            }
            let _ = self.enqueue(ctx.now(), input, output, vc_in, message);
        } else {
            // What waits already was tried, so only the first of its class and virtual channel
            // can go past it.
            if self.enqueue(ctx.now(), input, output, vc_in, message) {
                self.transmit(ctx, output as usize);
            }
        }
    }

    /// The output for a message, among the routing's candidates.
    #[inline]
    fn choose(&mut self, now: SimTime, message: &Message) -> u16 {
        let destination = message.destination.0 as usize;
        let only = self.only[destination];
        if only != CHOICE {
            return only;
        }
        let candidates = self.tables.candidates(self.index, destination);
        self.tables.kind().pick(
            candidates,
            self.index,
            message.source.0 as usize,
            destination,
            || self.rng.next_u64(),
            |port| self.outputs[port as usize].congestion(now),
        )
    }

    /// Puts a message into its queue; true when it is the first of its class and virtual channel
    /// that waits for the output.
    fn enqueue(
        &mut self,
        now: SimTime,
        input: u16,
        output: u16,
        vc_in: u8,
        message: Message,
    ) -> bool {
        let waiting = Waiting {
            message,
            vc_in,
            arrived: now.0,
            next: NIL,
        };
        let at = if self.free == NIL {
            self.slab.push(waiting);
            (self.slab.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.slab[at as usize].next;
            self.slab[at as usize] = waiting;
            at
        };
        let out = &mut self.outputs[output as usize];
        out.waiting += 1;
        let buffer = Buffer::of(message.channel(), message.vc);
        let mut first = true;
        for queue in &mut out.queues {
            if queue.buffer == buffer {
                first = false;
                if queue.input == input {
                    self.slab[queue.tail as usize].next = at;
                    queue.tail = at;
                    return false;
                }
            }
        }
        out.queues.push_back(Queue {
            input,
            buffer,
            head: at,
            tail: at,
        });
        first
    }

    /// Sends what waits for an output, as far as link and credits allow.
    fn transmit(&mut self, ctx: &mut Ctx<'_, Parcel>, output: usize) {
        let now = ctx.now();
        // A bit for each class and virtual channel that was found blocked.
        let mut closed = 0u64;
        let mut until = SimTime::NEVER;
        loop {
            if let Some(time) = self.outputs[output].link.transmitter.closed_until(now) {
                if !self.outputs[output].queues.is_empty() {
                    until = until.min(time);
                }
                break;
            }
            let Some(at) = self.pick(output, closed) else {
                break;
            };
            let out = &mut self.outputs[output];
            let queue = out.queues[at];
            let head = &self.slab[queue.head as usize];
            let (mut message, vc_in, next) = (head.message, head.vc_in, head.next);
            message.stages.queue += now.0 - head.arrived;
            match out.link.send(ctx, &mut message) {
                Ok(()) => {
                    out.waiting -= 1;
                    self.forwarded += 1;
                    self.slab[queue.head as usize].next = self.free;
                    self.free = queue.head;
                    // The queue goes to the end of the turn, or away when it is empty.
                    let _ = if at == 0 {
                        out.queues.pop_front()
                    } else {
                        out.queues.remove(at)
                    };
                    if next != NIL {
                        out.queues.push_back(Queue {
                            head: next,
                            ..queue
                        });
                    }
                    let buffer = Buffer::of(message.channel(), vc_in);
                    self.outputs[queue.input as usize].link.release(ctx, buffer);
                }
                Err(Blocked::Credits) => closed |= 1 << queue.buffer.0,
                Err(Blocked::Until(time)) => {
                    closed |= 1 << queue.buffer.0;
                    until = until.min(time);
                }
            }
        }
        wake_output(ctx, &mut self.outputs[output], output as u16, until);
    }

    /// The queue that goes next, among those whose class and virtual channel may go.
    #[inline]
    fn pick(&self, output: usize, closed: u64) -> Option<usize> {
        let mut open = self.outputs[output]
            .queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| closed >> queue.buffer.0 & 1 == 0);
        match self.arbitration {
            Arbitration::RoundRobin => open.next().map(|(at, _)| at),
            Arbitration::Age => open
                .min_by_key(|(_, queue)| {
                    let head = &self.slab[queue.head as usize].message;
                    (head.issued_ps, head.source, head.tag)
                })
                .map(|(at, _)| at),
        }
    }
}

impl Output {
    /// How long a line sent now would roughly wait, in picoseconds: what the wire is promised,
    /// what waits here, and what waits (or is on its way) at the far end.
    fn congestion(&self, now: SimTime) -> u64 {
        let lines = u64::from(self.waiting) + u64::from(self.link.transmitter.unreturned());
        self.link.transmitter.backlog_ps(now) + lines * self.line_time
    }
}

fn wake_output(ctx: &mut Ctx<'_, Parcel>, output: &mut Output, number: u16, time: SimTime) {
    if time < output.wake {
        output.wake = time;
        ctx.wake_at(time, u32::from(number));
    }
}
