//! A switch: forwards messages from port to port by their destination (port-based routing, CXL 3.1 section 7.7).
//! PCIe-style virtual switches, whose messages go down and up a tree, route in the same way with fewer paths.
//!
//! A message crosses a switch in this order; the last column is the stage of the request:
//!
//! | what | where | stage |
//! |---|---|---|
//! | `port_delay` and `fec_delay` of the input | `cxlab-link` | `port` |
//! | `switching_time` | the wire of the input | `switch` |
//! | wait for the output's wire, or for a credit | here | `switch_queue`, `credits` |
//! | serialization and propagation | `cxlab-link` | `link` |
//! | `port_delay` of the output | `cxlab-link` | `port` |
//!
//! # What is modelled
//! - Switching time: a pipeline of constant length after each input. `Plan::ingress` (`cxlab-plan/src/delays.rs`)
//!   adds it to the wire of each input.
//! - Input buffers with credits for each message class and virtual channel. An input buffer's credit goes
//!   back when its message leaves for the output link.
//! - At each output, one queue for each input, class and virtual channel, so a blocked output stalls no
//!   message for another output.
//! - Arbitration of each output.
//! - The choice of the output among the routing's candidates, by their congestion.
//!
//! # What is left out
//! Crossbar limits inside the switch: every output can take one message from any input at once.

mod local;
mod output;
mod params;

use std::sync::Arc;

use cxlab_engine::list::NONE;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::SimTime;
use cxlab_engine::{Ctx, KeptPayload};
use cxlab_link::{Blocked, BufferId, LinkPort, LostMessages, Parcel, WaitTimes};
use cxlab_protocol::{Channel, LongStage, Message, PortId};

use self::local::LocalRouting;
use self::output::{NO_QUEUE, OutputPort, OutputQueue, PendingMessage, claim_list};
pub use self::params::{Arbitration, SwitchParams, SwitchPreset};
use crate::routing::RoutingTables;

/// Configuration of a switch.
pub struct SwitchConfig {
    /// Parameters of the switch.
    pub params: SwitchParams,
    /// Number of the switch in the routing tables.
    pub index: usize,
    /// By endpoint of the fabric: whether its memory is HDM-D, to which M2S Req keeps its order.
    pub hdm_d: Arc<[bool]>,
    /// One port for each link, numbered as in the routing tables.
    pub ports: Vec<LinkPort>,
    /// Routing tables of the fabric.
    pub tables: Arc<RoutingTables>,
    /// Number of virtual channels of the switch's links: at least that of the tables.
    pub virtual_channels: u8,
    /// Random stream of the switch, for random routing.
    pub rng: StreamRng,
}

/// The oldest message of one input, class and virtual channel that waits for an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueHead {
    /// The buffer at the far end for which the message waits.
    pub buffer: BufferId,
    /// The message's slot in the slab. Together with the time of arrival it identifies the message.
    slot: u32,
    /// When the message arrived.
    arrived: SimTime,
}

/// The switch component. Fields that every message needs come first.
#[repr(C)]
pub struct Switch {
    outputs: Vec<OutputPort>,
    switching_ps: u32,
    arbitration: Arbitration,
    /// Number of virtual channels of a link.
    vcs: u8,
    /// Messages received and forwarded since the start of the run.
    received: u64,
    forwarded: u64,
    routing: LocalRouting,
    /// Messages that wait for an output, and free slots.
    slab: Vec<PendingMessage>,
    /// The first free slot of the slab, or [`NONE`].
    free: u32,
    /// Messages taken out of the engine while the switch moves to another thread or its state is saved,
    /// with their indices in the slab.
    inside: Vec<(u32, Message)>,
    rng: StreamRng,
}

save_state!(Switch {
    values: slab, free, inside, received, forwarded;
    states: outputs, rng;
    built: switching_ps, arbitration, routing, vcs;
} then check_lists);

impl Switch {
    /// Builds the switch component.
    pub fn new(config: SwitchConfig) -> Self {
        let vcs = config.virtual_channels;
        let buffers = BufferId::table_len(vcs);
        let ports = config.ports.len();
        let outputs = config.ports.into_iter().map(|link| OutputPort {
            wake: SimTime::NEVER,
            line_time: link.transmitter.line_time_ps(),
            first: NO_QUEUE,
            last: NO_QUEUE,
            queues: Vec::with_capacity(8),
            queue_of: Vec::new(),
            inputs: ports as u16,
            waiting_for: vec![0; buffers],
            link,
        });
        Switch {
            routing: LocalRouting::new(&config.tables, config.index, ports, config.hdm_d),
            vcs,
            switching_ps: config.params.switching_time.0 as u32,
            arbitration: config.params.arbitration,
            outputs: outputs.collect(),
            slab: Vec::new(),
            free: NONE,
            inside: Vec::new(),
            rng: config.rng,
            received: 0,
            forwarded: 0,
        }
    }

    /// Checks after a restore that each slot of the slab is in at most one list, and that the slots in
    /// queues are those of the saved messages.
    fn check_lists(&mut self) -> Result<(), StateError> {
        let mut queued = vec![false; self.slab.len()];
        let queues = self.outputs.iter().flat_map(|out| &out.queues);
        let queues_are_lists = queues
            .map(|queue| queue.head)
            .all(|head| claim_list(&self.slab, head, &mut queued));
        let mut used = queued.clone();
        let are_lists = queues_are_lists && claim_list(&self.slab, self.free, &mut used);
        // Each message takes one of the slots in queues, and none remains.
        let all_queued = (self.inside.iter())
            .all(|(slot, _)| queued.get_mut(*slot as usize).is_some_and(std::mem::take));
        let has_turns = self.outputs.iter().all(OutputPort::has_turns);
        match are_lists && all_queued && has_turns && !queued.contains(&true) {
            true => Ok(()),
            false => Err(StateError::new(
                "the messages that wait in a switch of the state do not fit its queues",
            )),
        }
    }

    /// Number of messages in the switch.
    pub fn in_flight(&self) -> u64 {
        self.received - self.forwarded
    }

    /// A port of the switch, for link statistics.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        &mut self.outputs[port as usize].link
    }

    /// Resets the link statistics at the start of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        for output in &mut self.outputs {
            output.link.begin_measurement(now);
        }
    }

    /// Prefetches the state that a parcel needs which will arrive soon.
    #[inline]
    pub fn prefetch(&self, port: u16, parcel: &Parcel) {
        if let Some(input) = self.outputs.get(port as usize) {
            input.link.prefetch_credits(self.vcs);
        }
        if let Some(message) = &parcel.message {
            self.routing.prefetch(message.destination);
        }
    }

    /// Prefetches more for a parcel that will arrive sooner. Returns the output of its message, if known.
    #[inline]
    pub fn prefetch_next(&self, parcel: &Parcel) -> Option<u16> {
        let message = parcel.message.as_ref()?;
        let (source, destination) = (message.source, message.destination);
        let channel = message.channel();
        let output = self.routing.predict_output(source, destination, channel)?;
        self.outputs.get(output as usize)?.link.prefetch(self.vcs);
        Some(output)
    }

    /// Handles a parcel that has just arrived from a link.
    #[inline(always)]
    pub fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        if let Some(fields) = self.accept(ctx, port) {
            self.route(ctx, port, fields);
        }
    }

    /// Takes a parcel's credits, and sends messages that waited for them. Returns the routing fields of the
    /// parcel's message, if there is one.
    #[inline(always)]
    fn accept(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> Option<RoutingFields> {
        let Parcel { credits, message } = ctx.received();
        let (credits, fields) = (*credits, message.as_ref().map(RoutingFields::of));
        let output = &mut self.outputs[port as usize];
        if output.link.take_back(credits) && output.link.waiting > 0 {
            self.transmit_unless_closed(ctx, port as usize);
        }
        fields
    }

    /// Handles an output's wake-up: its link has room again.
    #[inline(always)]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.outputs[token as usize].wake = SimTime::NEVER;
        self.transmit(ctx, token as usize);
    }

    /// Chooses the output and the virtual channel of the message that arrived through `input`, and sends it.
    fn route(&mut self, ctx: &mut Ctx<'_, Parcel>, input: u16, fields: RoutingFields) {
        self.received += 1;
        let output = self.choose(ctx.now(), fields);
        let vc = self.routing.next_vc(input, output, fields.vc);
        self.forward(ctx, input, fields, output, vc);
    }

    /// Sends the message that arrived through `input` to `output` on virtual channel `vc`, now or later.
    #[inline(always)]
    fn forward(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        input: u16,
        fields: RoutingFields,
        output: u16,
        vc: u8,
    ) {
        let channel = fields.channel;
        let out = &mut self.outputs[output as usize];
        if out.link.waiting == 0 {
            let record = crossing(self.switching_ps, WaitTimes::default());
            match out.link.pass_on(ctx, channel, vc, ctx.now(), record) {
                Ok(_) => {
                    self.forwarded += 1;
                    let buffer = BufferId::of(channel, fields.vc);
                    self.outputs[input as usize].link.release(ctx, buffer);
                    return;
                }
                Err(Blocked::Until(time)) => out.wake_at(ctx, output, time),
                Err(Blocked::Credits) => {
                    out.link
                        .begin_starvation(ctx.now(), BufferId::of(channel, vc));
                }
            }
            self.enqueue(ctx, input, output, vc, channel);
        } else if self.enqueue(ctx, input, output, vc, channel) {
            // The queued messages have already been tried. Only the first of its class and virtual
            // channel can pass them.
            self.transmit_unless_closed(ctx, output as usize);
        }
    }

    /// Handles a parcel that has just arrived, in a fabric whose routing changes. `route` gives the
    /// output and the virtual channel of its message. Returns true if the message is lost because it has no route.
    pub fn arrive_routed(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: u16,
        route: Option<(u16, u8)>,
    ) -> bool {
        let Some(fields) = self.accept(ctx, port) else {
            return false;
        };
        self.received += 1;
        if let Some((output, vc)) = route {
            self.forward(ctx, port, fields, output, vc);
            return false;
        }
        self.forwarded += 1;
        let buffer = BufferId::of(fields.channel, fields.vc);
        self.outputs[port as usize].link.release(ctx, buffer);
        true
    }

    /// Number of ports of the switch.
    pub fn ports(&self) -> u16 {
        self.outputs.len() as u16
    }

    /// The heads of the queues with messages in front of an output, with the queues' numbers.
    pub fn heads(&self, output: u16) -> impl Iterator<Item = (usize, QueueHead)> {
        let queues = self.outputs[output as usize].queues.iter().enumerate();
        let occupied = queues.filter(|(_, queue)| queue.head != NONE);
        occupied.map(|(number, queue)| {
            let head = QueueHead {
                buffer: queue.buffer,
                slot: queue.head,
                arrived: self.slab[queue.head as usize].arrived,
            };
            (number, head)
        })
    }

    /// Number of messages that wait for an output.
    pub fn waiting(&self, output: u16) -> u32 {
        self.outputs[output as usize].link.waiting
    }

    /// Drops the messages that wait for an output, and counts them.
    pub fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, output: u16) -> LostMessages {
        self.lose(ctx, output, |_| true)
    }

    /// Drops the messages that wait for some of the virtual channels of any output, and counts them. Bit
    /// `n` of `vcs` is virtual channel `n`.
    pub fn discard_vcs(&mut self, ctx: &mut Ctx<'_, Parcel>, vcs: u8) -> LostMessages {
        let mut lost = LostMessages::default();
        for output in 0..self.ports() {
            if self.waiting(output) > 0 {
                lost += self.lose(ctx, output, |vc| vcs >> vc & 1 == 1);
            }
        }
        lost
    }

    /// Drops the messages in front of an output on the virtual channels for which `is_lost` is true.
    fn lose(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        output: u16,
        is_lost: impl Fn(u8) -> bool,
    ) -> LostMessages {
        let mut lost = LostMessages::default();
        let mut freed = Vec::new();
        let out = &mut self.outputs[output as usize];
        for queue in out.queues.iter_mut().filter(|queue| is_lost(queue.vc)) {
            let before = lost.messages;
            let mut slot = std::mem::replace(&mut queue.head, NONE);
            queue.tail = NONE;
            while slot != NONE {
                let pending = &mut self.slab[slot as usize];
                let message = pending.message(ctx);
                lost.count(message);
                freed.push((queue.input, BufferId::of(message.channel(), message.vc)));
                ctx.forget(std::mem::take(&mut pending.kept));
                let next_slot = std::mem::replace(&mut pending.next, self.free);
                self.free = slot;
                slot = next_slot;
            }
            out.waiting_for[queue.buffer_index as usize] -= (lost.messages - before) as u32;
        }
        out.link.waiting -= lost.messages as u32;
        // The queues that still have messages keep the order of their turns.
        let mut number = std::mem::replace(&mut out.first, NO_QUEUE);
        out.last = NO_QUEUE;
        while number != NO_QUEUE {
            let queue = out.queues[number as usize];
            if queue.head != NONE {
                out.append_turn(number);
            }
            number = queue.after;
        }
        self.forwarded += lost.messages;
        for (input, buffer) in freed {
            self.outputs[input as usize].link.release(ctx, buffer);
        }
        lost
    }

    /// Drops all queued messages of a switch that has failed. The wake-ups that its outputs requested do not come.
    pub fn discard_all(&mut self, ctx: &mut Ctx<'_, Parcel>) -> LostMessages {
        let mut lost = LostMessages::default();
        for output in 0..self.ports() {
            lost += self.discard(ctx, output);
            self.outputs[output as usize].wake = SimTime::NEVER;
        }
        lost
    }

    /// Calls `each` with the buffer of every queued message that arrived through `input`.
    pub fn buffered(&self, ctx: &Ctx<'_, Parcel>, input: u16, mut each: impl FnMut(BufferId)) {
        for out in &self.outputs {
            for queue in out.queues.iter().filter(|queue| queue.input == input) {
                let mut slot = queue.head;
                while slot != NONE {
                    let pending = &self.slab[slot as usize];
                    let message = pending.message(ctx);
                    each(BufferId::of(message.channel(), message.vc));
                    slot = pending.next;
                }
            }
        }
    }

    /// Takes the queued messages out of the engine ([`cxlab_engine::KeptPayloads::take_kept`]).
    pub fn take_kept(&mut self, take: &mut dyn FnMut(KeptPayload) -> Parcel) {
        for (slot, pending) in self.slab.iter_mut().enumerate() {
            if pending.kept.is_some()
                && let Some(message) = take(std::mem::take(&mut pending.kept)).message
            {
                self.inside.push((slot as u32, message));
            }
        }
    }

    /// Gives the messages back to the engine.
    pub fn restore_kept(&mut self, keep: &mut dyn FnMut(Parcel) -> KeptPayload) {
        for (slot, message) in self.inside.drain(..) {
            let parcel = Parcel {
                message: Some(message),
                ..Parcel::default()
            };
            self.slab[slot as usize].kept = keep(parcel);
        }
    }

    /// The output for a message, chosen among the routing's candidates.
    #[inline]
    fn choose(&mut self, now: SimTime, fields: RoutingFields) -> u16 {
        let (outputs, rng) = (&mut self.outputs, &mut self.rng);
        self.routing.pick(
            fields.source,
            fields.destination,
            fields.channel,
            || rng.next_u64(),
            |port| outputs[port as usize].congestion(now),
        )
    }

    /// Queues the message that has just arrived. Returns true if no other message of its class and virtual
    /// channel waits for the output.
    fn enqueue(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        input: u16,
        output: u16,
        vc: u8,
        channel: Channel,
    ) -> bool {
        if self.free == NONE {
            self.grow();
        }
        let slot = self.free;
        let link = &mut self.outputs[output as usize].link;
        link.end_starvation(ctx.now());
        let starved = link.starved_ps(ctx.now(), BufferId::of(channel, vc));
        let pending = &mut self.slab[slot as usize];
        self.free = pending.next;
        *pending = PendingMessage {
            kept: ctx.keep(),
            next: NONE,
            arrived: ctx.now(),
            starved,
        };
        let out = &mut self.outputs[output as usize];
        out.link.waiting += 1;
        let buffer = BufferId::of(channel.queue(), vc);
        let buffer_index = buffer.table_index(self.vcs);
        let queue_index = input as usize * BufferId::table_len(self.vcs) + buffer_index;
        let number = match out.queue_of.get(queue_index) {
            Some(number) if *number > 0 => *number - 1,
            _ => out.begin_queue(
                queue_index,
                OutputQueue {
                    input,
                    after: NO_QUEUE,
                    buffer_index: buffer_index as u16,
                    buffer,
                    vc,
                    head: NONE,
                    tail: NONE,
                },
            ),
        };
        let queue = &mut out.queues[number as usize];
        let tail = std::mem::replace(&mut queue.tail, slot);
        if queue.head == NONE {
            queue.head = slot;
            out.append_turn(number);
        } else {
            self.slab[tail as usize].next = slot;
        }
        let waiting_for = &mut out.waiting_for[buffer_index];
        *waiting_for += 1;
        *waiting_for == 1
    }

    /// Adds a free slot to the slab.
    #[cold]
    fn grow(&mut self) {
        self.free = self.slab.len() as u32;
        self.slab.push(PendingMessage {
            next: NONE,
            ..PendingMessage::default()
        });
    }

    /// Sends messages that wait for an output, unless its link accepts nothing now.
    #[inline]
    fn transmit_unless_closed(&mut self, ctx: &mut Ctx<'_, Parcel>, output: usize) {
        let out = &mut self.outputs[output];
        out.link.end_starvation(ctx.now());
        match out.link.transmitter.closed_until(ctx.now()) {
            Some(time) => out.wake_at(ctx, output as u16, time),
            None => self.transmit(ctx, output),
        }
    }

    /// Sends messages that wait for an output, as far as link and credits allow.
    fn transmit(&mut self, ctx: &mut Ctx<'_, Parcel>, output: usize) {
        let now = ctx.now();
        // A bit for each class and virtual channel that was found to be blocked.
        let mut closed = 0u128;
        let mut until = SimTime::NEVER;
        loop {
            let out = &mut self.outputs[output];
            if let Some(time) = out.link.transmitter.closed_until(now) {
                if out.link.waiting > 0 {
                    until = until.min(time);
                }
                break;
            }
            let Some(turn) = out.pick(self.arbitration, &self.slab, ctx, closed) else {
                break;
            };
            let queue = &mut out.queues[turn.queue as usize];
            let head = queue.head;
            let pending = &mut self.slab[head as usize];
            let message = pending.message(ctx);
            let (channel, vc) = (message.channel(), message.vc);
            let link = &mut out.link;
            let sent_to = BufferId::of(channel, queue.vc);
            let waited = link.waited(now, sent_to, pending.arrived, pending.starved);
            let record = crossing(self.switching_ps, waited);
            match link.send_kept(ctx, &mut pending.kept, channel, queue.vc, record) {
                Ok(()) => {
                    link.count_wait(waited);
                    let next_slot = std::mem::replace(&mut pending.next, self.free);
                    self.free = head;
                    queue.head = next_slot;
                    let input = queue.input;
                    out.link.waiting -= 1;
                    out.waiting_for[queue.buffer_index as usize] -= 1;
                    // The queue moves to the end of the turns, or is removed if it is empty.
                    out.remove_turn(turn);
                    if next_slot != NONE {
                        out.append_turn(turn.queue);
                    }
                    self.forwarded += 1;
                    let buffer = BufferId::of(channel, vc);
                    self.outputs[input as usize].link.release(ctx, buffer);
                }
                Err(Blocked::Credits) => {
                    link.begin_starvation(now, sent_to);
                    closed |= 1 << queue.buffer.0;
                }
                Err(Blocked::Until(time)) => {
                    closed |= 1 << queue.buffer.0;
                    until = until.min(time);
                }
            }
        }
        self.outputs[output].wake_at(ctx, output as u16, until);
    }
}

/// The fields of a message that determine its route through a switch.
#[derive(Clone, Copy)]
struct RoutingFields {
    source: PortId,
    destination: PortId,
    channel: Channel,
    /// Virtual channel on which the message arrived.
    vc: u8,
}

impl RoutingFields {
    #[inline(always)]
    fn of(message: &Message) -> RoutingFields {
        RoutingFields {
            source: message.source,
            destination: message.destination,
            channel: message.channel(),
            vc: message.vc,
        }
    }
}

/// Returns a function that records the crossing of a switch in a forwarded message.
#[inline]
fn crossing(switching_ps: u32, waited: WaitTimes) -> impl FnOnce(&mut Message) {
    move |message| {
        message.stages.switch += switching_ps;
        waited.add_to_stages(LongStage::SwitchQueue, message);
        message.hops += 1;
    }
}
