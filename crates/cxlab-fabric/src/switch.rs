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

mod local;

use std::sync::Arc;

use cxlab_engine::catalog::Preset;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Ctx, Kept};
use cxlab_link::{Blocked, Buffer, LinkPort, Lost, Parcel, Waited};
use cxlab_protocol::{Channel, LongStage, Message, PortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::local::LocalRouting;
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

/// A switch by name.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchPreset {
    /// ESF's (Table III): a switching time of 20 ns.
    Esf,
}

impl Preset for SwitchPreset {
    fn keys(&self) -> serde_json::Value {
        match self {
            SwitchPreset::Esf => serde_json::json!({ "switching_time": "20 ns" }),
        }
    }
}

/// What a user says of a switch.
// `remote`: what serde derives reads and writes all fields; `with_preset` knows presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SwitchParams {
    /// A switch by name, whose time is the default. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<SwitchPreset>,
    /// Time from input to output in one direction, without the ports. Default 10 ns: of the 70 ns that a switch adds there and
    /// back at least, its two ports take 50 and its arbitration and network 20 (Li et al., "Pond", ASPLOS 2023, section 2,
    /// *recollection*).
    pub switching_time: Picos,
    /// Who goes first at an output. Default round-robin.
    pub arbitration: Arbitration,
    /// Ports that a switch has at most; a system that needs more is refused. Default: no limit.
    #[schemars(range(min = 2, max = 65535))]
    pub max_ports: Option<u16>,
}

cxlab_engine::with_preset!(SwitchParams, SwitchPreset);

impl Default for SwitchParams {
    fn default() -> Self {
        SwitchParams {
            preset: None,
            switching_time: Picos::from_nanos(10),
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
    /// By endpoint of the fabric: whether its memory is HDM-D, to which M2S Req keeps its order.
    pub hdm_d: Arc<[bool]>,
    /// One port for each link, numbered as in the routing tables.
    pub ports: Vec<LinkPort>,
    /// Where messages go.
    pub tables: Arc<RoutingTables>,
    /// Virtual channels of its links, at least those of the tables.
    pub virtual_channels: u8,
    /// Its random stream, for random routing.
    pub rng: StreamRng,
}

/// The oldest message of one input, class and virtual channel in front of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueHead {
    /// What it waits for a place in.
    pub buffer: Buffer,
    /// Where it lies: no two messages lie there that arrived at the same time.
    place: u32,
    /// When it arrived.
    arrived: SimTime,
}

const NIL: u32 = u32::MAX;

/// A message that waits where it arrived.
#[derive(Default, Serialize, Deserialize)]
struct Waiting {
    #[serde(skip)]
    kept: Kept,
    next: u32,
    arrived: SimTime,
    /// For how long its buffer had been starved when it came.
    starved: u64,
}

impl Waiting {
    /// What it is, as it arrived.
    #[inline(always)]
    fn message<'a>(&self, ctx: &'a Ctx<'_, Parcel>) -> &'a Message {
        match &ctx.kept(&self.kept).message {
            Some(message) => message,
            None => unreachable!("what waits is a message"),
        }
    }
}

/// Whether the places from `head` on, which are noted in `used`, are in no list before.
fn is_list(slab: &[Waiting], head: u32, used: &mut [bool]) -> bool {
    let mut at = head;
    while at != NIL {
        match used.get_mut(at as usize) {
            Some(place @ false) => *place = true,
            _ => return false,
        }
        at = slab[at as usize].next;
    }
    true
}

/// Messages from one input, of one class and virtual channel, to one output, oldest first.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Queue {
    input: u16,
    /// The queue whose turn is next, [`NO_QUEUE`] for the last one.
    after: u16,
    /// [`Buffer::place`] of the buffer.
    place: u16,
    /// The buffer at the far end of the output's link.
    buffer: Buffer,
    vc: u8,
    head: u32,
    tail: u32,
}

const NO_QUEUE: u16 = u16::MAX;

/// An output and what waits for it.
struct Output {
    /// Queues that hold something, in the order in which they may go: the first and the last.
    first: u16,
    last: u16,
    wake: SimTime,
    line_time: u64,
    /// Queues that ever held something.
    queues: Vec<Queue>,
    /// By input and [`Buffer::place`]: the queue's number plus one. Empty before anything waits: few of a
    /// large switch's outputs hold up anything, and for all of them this grows with the square of its ports.
    queue_of: Vec<u16>,
    /// Inputs of the switch.
    inputs: u16,
    /// By [`Buffer::place`]: messages that wait.
    waiting_for: Vec<u32>,
    link: LinkPort,
}

save_state!(Output {
    values: first, last, wake, queues;
    sized: waiting_for;
    states: link;
    built: line_time, queue_of, inputs;
} then find_queues);

/// The switch component. What is looked at for each message lies first.
#[repr(C)]
pub struct Switch {
    outputs: Vec<Output>,
    switching_ps: u32,
    arbitration: Arbitration,
    /// Virtual channels of a link.
    vcs: u8,
    /// Messages received and forwarded, ever.
    received: u64,
    forwarded: u64,
    routing: LocalRouting,
    slab: Vec<Waiting>,
    free: u32,
    /// Messages that are not kept at the time, by their places in the slab.
    inside: Vec<(u32, Message)>,
    rng: StreamRng,
}

save_state!(Switch {
    values: slab, free, inside, received, forwarded;
    states: outputs, rng;
    built: switching_ps, arbitration, routing, vcs;
} then check_lists);

impl Switch {
    /// Builds the component.
    pub fn new(config: SwitchConfig) -> Self {
        let vcs = config.virtual_channels;
        let buffers = Buffer::places(vcs);
        let ports = config.ports.len();
        let outputs = config.ports.into_iter().map(|link| Output {
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
            free: NIL,
            inside: Vec::new(),
            rng: config.rng,
            received: 0,
            forwarded: 0,
        }
    }

    /// Checks after a restore that each place of the slab is in one list at most, and that the places in
    /// queues are those of the messages inside.
    fn check_lists(&mut self) -> Result<(), StateError> {
        let mut queued = vec![false; self.slab.len()];
        let queues = self.outputs.iter().flat_map(|out| &out.queues);
        let whole = queues
            .map(|queue| queue.head)
            .all(|head| is_list(&self.slab, head, &mut queued));
        let mut used = queued.clone();
        let whole = whole && is_list(&self.slab, self.free, &mut used);
        // Each message takes one of the places in queues, and none is left.
        let taken = (self.inside.iter())
            .all(|(at, _)| queued.get_mut(*at as usize).is_some_and(std::mem::take));
        let turns = self.outputs.iter().all(Output::has_turns);
        match whole && taken && turns && !queued.contains(&true) {
            true => Ok(()),
            false => Err(StateError::new(
                "the messages that wait in a switch of the state do not fit its queues",
            )),
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
            output.link.begin_measurement(now);
        }
    }

    /// A parcel will arrive soon.
    #[inline]
    pub fn fetch(&self, port: u16, parcel: &Parcel) {
        if let Some(input) = self.outputs.get(port as usize) {
            input.link.fetch_credits(self.vcs);
        }
        if let Some(message) = &parcel.message {
            self.routing.fetch(message.destination);
        }
    }

    /// It will arrive sooner still; returns where it will go on, if that is known.
    #[inline]
    pub fn fetch_next(&self, parcel: &Parcel) -> Option<u16> {
        let message = parcel.message.as_ref()?;
        let (source, destination) = (message.source, message.destination);
        let channel = message.channel();
        let output = self.routing.foresee(source, destination, channel)?;
        self.outputs.get(output as usize)?.link.fetch(self.vcs);
        Some(output)
    }

    /// A parcel has arrived from a link.
    #[inline(always)]
    pub fn arrive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        if let Some(head) = self.accept(ctx, port) {
            self.route(ctx, port, head);
        }
    }

    /// Takes a parcel's credits, on which something may have waited; returns what its message is.
    #[inline(always)]
    fn accept(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> Option<Head> {
        let Parcel { credits, message } = ctx.received();
        let (credits, head) = (*credits, message.as_ref().map(Head::of));
        let output = &mut self.outputs[port as usize];
        if output.link.take_back(credits) && output.link.waiting > 0 {
            self.transmit_unless_closed(ctx, port as usize);
        }
        head
    }

    /// An output's link has room again.
    #[inline(always)]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.outputs[token as usize].wake = SimTime::NEVER;
        self.transmit(ctx, token as usize);
    }

    fn route(&mut self, ctx: &mut Ctx<'_, Parcel>, input: u16, head: Head) {
        self.received += 1;
        let output = self.choose(ctx.now(), head);
        let vc = self.routing.next_vc(input, output, head.vc);
        self.forward(ctx, input, head, output, vc);
    }

    /// Sends the message that came through `input` out of `output` on that virtual channel, now or
    /// later.
    #[inline(always)]
    fn forward(&mut self, ctx: &mut Ctx<'_, Parcel>, input: u16, head: Head, output: u16, vc: u8) {
        let out = &mut self.outputs[output as usize];
        if out.link.waiting == 0 {
            let note = crossed(self.switching_ps, Waited::default());
            match out.link.pass_on(ctx, head.channel, vc, ctx.now(), note) {
                Ok(_) => {
                    self.forwarded += 1;
                    let buffer = Buffer::of(head.channel, head.vc);
                    self.outputs[input as usize].link.release(ctx, buffer);
                    return;
                }
                Err(Blocked::Until(time)) => wake_output(ctx, out, output, time),
                Err(Blocked::Credits) => {
                    out.link.starve(ctx.now(), Buffer::of(head.channel, vc));
                }
            }
            self.enqueue(ctx, input, output, vc, head.channel);
        } else if self.enqueue(ctx, input, output, vc, head.channel) {
            // What waited already was tried, so only the first of its class and virtual channel
            // can go past it.
            self.transmit_unless_closed(ctx, output as usize);
        }
    }

    /// A parcel has arrived from a link, in a fabric whose routing changes: `way` says by which output
    /// and on which virtual channel its message goes on. Without a way it is lost; true then.
    pub fn arrive_routed(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        port: u16,
        way: Option<(u16, u8)>,
    ) -> bool {
        let Some(head) = self.accept(ctx, port) else {
            return false;
        };
        self.received += 1;
        if let Some((output, vc)) = way {
            self.forward(ctx, port, head, output, vc);
            return false;
        }
        self.forwarded += 1;
        let buffer = Buffer::of(head.channel, head.vc);
        self.outputs[port as usize].link.release(ctx, buffer);
        true
    }

    /// How many ports it has.
    pub fn ports(&self) -> u16 {
        self.outputs.len() as u16
    }

    /// The queues in front of an output that hold something, by number.
    pub fn heads(&self, output: u16) -> impl Iterator<Item = (usize, QueueHead)> {
        let queues = self.outputs[output as usize].queues.iter().enumerate();
        let held = queues.filter(|(_, queue)| queue.head != NIL);
        held.map(|(number, queue)| {
            let head = QueueHead {
                buffer: queue.buffer,
                place: queue.head,
                arrived: self.slab[queue.head as usize].arrived,
            };
            (number, head)
        })
    }

    /// Messages that wait for an output.
    pub fn waiting(&self, output: u16) -> u32 {
        self.outputs[output as usize].link.waiting
    }

    /// Loses what waits for an output.
    pub fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, output: u16) -> Lost {
        self.lose(ctx, output, |_| true)
    }

    /// Loses the messages that wait for a place on one of these virtual channels of any output; bit `n` is
    /// virtual channel `n`.
    pub fn discard_channels(&mut self, ctx: &mut Ctx<'_, Parcel>, channels: u8) -> Lost {
        let mut lost = Lost::default();
        for output in 0..self.ports() {
            if self.waiting(output) > 0 {
                lost += self.lose(ctx, output, |vc| channels >> vc & 1 == 1);
            }
        }
        lost
    }

    /// Loses the messages in front of an output that wait for a virtual channel which `is_lost` names.
    fn lose(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        output: u16,
        is_lost: impl Fn(u8) -> bool,
    ) -> Lost {
        let mut lost = Lost::default();
        let mut freed = Vec::new();
        let out = &mut self.outputs[output as usize];
        for queue in out.queues.iter_mut().filter(|queue| is_lost(queue.vc)) {
            let before = lost.messages;
            let mut at = std::mem::replace(&mut queue.head, NIL);
            queue.tail = NIL;
            while at != NIL {
                let waiting = &mut self.slab[at as usize];
                let message = waiting.message(ctx);
                lost.count(message);
                freed.push((queue.input, Buffer::of(message.channel(), message.vc)));
                ctx.forget(std::mem::take(&mut waiting.kept));
                let next = std::mem::replace(&mut waiting.next, self.free);
                self.free = at;
                at = next;
            }
            out.waiting_for[queue.place as usize] -= (lost.messages - before) as u32;
        }
        out.link.waiting -= lost.messages as u32;
        // The queues that still hold something keep the order of their turns.
        let mut at = std::mem::replace(&mut out.first, NO_QUEUE);
        out.last = NO_QUEUE;
        while at != NO_QUEUE {
            let queue = out.queues[at as usize];
            if queue.head != NIL {
                out.append_turn(at);
            }
            at = queue.after;
        }
        self.forwarded += lost.messages;
        for (input, buffer) in freed {
            self.outputs[input as usize].link.release(ctx, buffer);
        }
        lost
    }

    /// Loses all that waits, as the switch has failed. Wake-ups that it asked for do not come.
    pub fn discard_all(&mut self, ctx: &mut Ctx<'_, Parcel>) -> Lost {
        let mut lost = Lost::default();
        for output in 0..self.ports() {
            lost += self.discard(ctx, output);
            self.outputs[output as usize].wake = SimTime::NEVER;
        }
        lost
    }

    /// Tells the buffer of each message inside that came through `input`.
    pub fn buffered(&self, ctx: &Ctx<'_, Parcel>, input: u16, mut each: impl FnMut(Buffer)) {
        for out in &self.outputs {
            for queue in out.queues.iter().filter(|queue| queue.input == input) {
                let mut at = queue.head;
                while at != NIL {
                    let waiting = &self.slab[at as usize];
                    let message = waiting.message(ctx);
                    each(Buffer::of(message.channel(), message.vc));
                    at = waiting.next;
                }
            }
        }
    }

    /// Takes in the messages that wait ([`cxlab_engine::Component::take_in`]).
    pub fn take_in(&mut self, take: &mut dyn FnMut(Kept) -> Parcel) {
        for (at, waiting) in self.slab.iter_mut().enumerate() {
            if waiting.kept.is_some()
                && let Some(message) = take(std::mem::take(&mut waiting.kept)).message
            {
                self.inside.push((at as u32, message));
            }
        }
    }

    /// Keeps them again.
    pub fn put_back(&mut self, keep: &mut dyn FnMut(Parcel) -> Kept) {
        for (at, message) in self.inside.drain(..) {
            let parcel = Parcel {
                message: Some(message),
                ..Parcel::default()
            };
            self.slab[at as usize].kept = keep(parcel);
        }
    }

    /// The output for a message, among the routing's candidates.
    #[inline]
    fn choose(&mut self, now: SimTime, head: Head) -> u16 {
        let (outputs, rng) = (&mut self.outputs, &mut self.rng);
        self.routing.pick(
            head.source,
            head.destination,
            head.channel,
            || rng.next_u64(),
            |port| outputs[port as usize].congestion(now),
        )
    }

    /// Puts the message that has arrived, of that class, into its queue; true when it is the first of its
    /// class and virtual channel that waits for the output.
    fn enqueue(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        input: u16,
        output: u16,
        vc: u8,
        channel: Channel,
    ) -> bool {
        if self.free == NIL {
            self.grow();
        }
        let waiting = self.free;
        let link = &mut self.outputs[output as usize].link;
        link.feed(ctx.now());
        let starved = link.starved_ps(ctx.now(), Buffer::of(channel, vc));
        let place = &mut self.slab[waiting as usize];
        self.free = place.next;
        *place = Waiting {
            kept: ctx.keep(),
            next: NIL,
            arrived: ctx.now(),
            starved,
        };
        let out = &mut self.outputs[output as usize];
        out.link.waiting += 1;
        let buffer = Buffer::of(channel.queue(), vc);
        let place = buffer.place(self.vcs);
        let at = input as usize * Buffer::places(self.vcs) + place;
        let number = match out.queue_of.get(at) {
            Some(number) if *number > 0 => *number - 1,
            _ => out.begin_queue(
                at,
                Queue {
                    input,
                    after: NO_QUEUE,
                    place: place as u16,
                    buffer,
                    vc,
                    head: NIL,
                    tail: NIL,
                },
            ),
        };
        let queue = &mut out.queues[number as usize];
        let tail = std::mem::replace(&mut queue.tail, waiting);
        if queue.head == NIL {
            queue.head = waiting;
            out.append_turn(number);
        } else {
            self.slab[tail as usize].next = waiting;
        }
        let waiting_for = &mut out.waiting_for[place];
        *waiting_for += 1;
        *waiting_for == 1
    }

    /// Makes a place for one more message than ever before.
    #[cold]
    fn grow(&mut self) {
        self.free = self.slab.len() as u32;
        self.slab.push(Waiting {
            next: NIL,
            ..Waiting::default()
        });
    }

    /// Sends what waits for an output, unless its link takes nothing at all now.
    #[inline]
    fn transmit_unless_closed(&mut self, ctx: &mut Ctx<'_, Parcel>, output: usize) {
        let out = &mut self.outputs[output];
        out.link.feed(ctx.now());
        match out.link.transmitter.closed_until(ctx.now()) {
            Some(time) => wake_output(ctx, out, output as u16, time),
            None => self.transmit(ctx, output),
        }
    }

    /// Sends what waits for an output, as far as link and credits allow.
    fn transmit(&mut self, ctx: &mut Ctx<'_, Parcel>, output: usize) {
        let now = ctx.now();
        // A bit for each class and virtual channel that was found blocked.
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
            let waiting = &mut self.slab[head as usize];
            let message = waiting.message(ctx);
            let (channel, vc) = (message.channel(), message.vc);
            let link = &mut out.link;
            let sent_to = Buffer::of(channel, queue.vc);
            let waited = link.waited(now, sent_to, waiting.arrived, waiting.starved);
            let note = crossed(self.switching_ps, waited);
            match link.send_kept(ctx, &mut waiting.kept, channel, queue.vc, note) {
                Ok(()) => {
                    link.count_wait(waited);
                    let next = std::mem::replace(&mut waiting.next, self.free);
                    self.free = head;
                    queue.head = next;
                    let input = queue.input;
                    out.link.waiting -= 1;
                    out.waiting_for[queue.place as usize] -= 1;
                    // The queue goes to the end of the turn, or away when it is empty.
                    out.remove_turn(turn);
                    if next != NIL {
                        out.append_turn(turn.queue);
                    }
                    self.forwarded += 1;
                    let buffer = Buffer::of(channel, vc);
                    self.outputs[input as usize].link.release(ctx, buffer);
                }
                Err(Blocked::Credits) => {
                    link.starve(now, sent_to);
                    closed |= 1 << queue.buffer.0;
                }
                Err(Blocked::Until(time)) => {
                    closed |= 1 << queue.buffer.0;
                    until = until.min(time);
                }
            }
        }
        wake_output(ctx, &mut self.outputs[output], output as u16, until);
    }
}

/// What a switch needs to know of a message to send it on.
#[derive(Clone, Copy)]
struct Head {
    source: PortId,
    destination: PortId,
    channel: Channel,
    /// The virtual channel that it came on.
    vc: u8,
}

impl Head {
    #[inline(always)]
    fn of(message: &Message) -> Head {
        Head {
            source: message.source,
            destination: message.destination,
            channel: message.channel(),
            vc: message.vc,
        }
    }
}

/// What a switch notes in a message that it forwards.
#[inline]
fn crossed(switching_ps: u32, waited: Waited) -> impl FnOnce(&mut Message) {
    move |message| {
        message.stages.switch += switching_ps;
        waited.note(LongStage::SwitchQueue, message);
        message.hops += 1;
    }
}

/// A queue that may go, and the one whose turn is before it.
#[derive(Clone, Copy)]
struct Turn {
    queue: u16,
    before: u16,
}

impl Output {
    /// Numbers its queues, which were restored.
    fn find_queues(&mut self) -> Result<(), StateError> {
        let buffers = self.waiting_for.len();
        self.queue_of.clear();
        if !self.queues.is_empty() {
            self.queue_of.resize(self.places(), 0);
        }
        for (number, queue) in self.queues.iter().enumerate() {
            let at = usize::from(queue.input) * buffers + usize::from(queue.place);
            match self.queue_of.get_mut(at) {
                Some(place @ 0) => *place = number as u16 + 1,
                _ => return Err(StateError::of_length("queues", at, self.queue_of.len())),
            }
        }
        Ok(())
    }

    /// Whether the queues that hold something, and no others, have one turn each.
    fn has_turns(&self) -> bool {
        let mut waiting: Vec<bool> = (self.queues.iter().map(|queue| queue.head != NIL)).collect();
        let (mut at, mut last) = (self.first, NO_QUEUE);
        while at != NO_QUEUE {
            match waiting.get_mut(usize::from(at)) {
                Some(queue @ true) => *queue = false,
                _ => return false,
            }
            (last, at) = (at, self.queues[usize::from(at)].after);
        }
        last == self.last && !waiting.contains(&true)
    }

    /// Places for the numbers of queues.
    fn places(&self) -> usize {
        usize::from(self.inputs) * self.waiting_for.len()
    }

    /// A queue that is not there yet, whose number belongs at `at`; returns its number.
    #[cold]
    fn begin_queue(&mut self, at: usize, queue: Queue) -> u16 {
        if self.queue_of.is_empty() {
            self.queue_of = vec![0; self.places()];
        }
        let number = self.queues.len() as u16;
        self.queues.push(queue);
        self.queue_of[at] = number + 1;
        number
    }

    /// The turn that goes next, among those whose class and virtual channel may go.
    #[inline]
    fn pick(
        &self,
        arbitration: Arbitration,
        slab: &[Waiting],
        ctx: &Ctx<'_, Parcel>,
        closed: u128,
    ) -> Option<Turn> {
        if arbitration == Arbitration::RoundRobin && closed == 0 {
            return (self.first != NO_QUEUE).then_some(Turn {
                queue: self.first,
                before: NO_QUEUE,
            });
        }
        self.search(arbitration, slab, ctx, closed)
    }

    /// The same by a search through all turns.
    #[inline(never)]
    fn search(
        &self,
        arbitration: Arbitration,
        slab: &[Waiting],
        ctx: &Ctx<'_, Parcel>,
        closed: u128,
    ) -> Option<Turn> {
        let mut before = NO_QUEUE;
        let mut at = self.first;
        let mut oldest = None;
        while at != NO_QUEUE {
            let queue = &self.queues[at as usize];
            if closed >> queue.buffer.0 & 1 == 0 {
                let turn = Turn { queue: at, before };
                if arbitration == Arbitration::RoundRobin {
                    return Some(turn);
                }
                let head = slab[queue.head as usize].message(ctx);
                let age = (head.issued_ps, head.source, head.tag);
                if oldest.is_none_or(|(other, _)| age < other) {
                    oldest = Some((age, turn));
                }
            }
            (before, at) = (at, queue.after);
        }
        oldest.map(|(_, turn)| turn)
    }

    /// A queue's turn comes after all others.
    #[inline]
    fn append_turn(&mut self, number: u16) {
        self.queues[number as usize].after = NO_QUEUE;
        let last = std::mem::replace(&mut self.last, number);
        match last {
            NO_QUEUE => self.first = number,
            last => self.queues[last as usize].after = number,
        }
    }

    /// A queue has no turn any more.
    #[inline]
    fn remove_turn(&mut self, turn: Turn) {
        let after = self.queues[turn.queue as usize].after;
        match turn.before {
            NO_QUEUE => self.first = after,
            before => self.queues[before as usize].after = after,
        }
        if after == NO_QUEUE {
            self.last = turn.before;
        }
    }

    /// How long a line sent now would roughly wait, in picoseconds: what the wire is promised,
    /// what waits here, and what waits (or is on its way) at the far end.
    fn congestion(&mut self, now: SimTime) -> u64 {
        let lines = u64::from(self.link.waiting) + u64::from(self.link.unreturned());
        self.link.transmitter.backlog_ps(now) + lines * self.line_time
    }
}

#[inline]
fn wake_output(ctx: &mut Ctx<'_, Parcel>, output: &mut Output, number: u16, time: SimTime) {
    if time < output.wake {
        output.wake = time;
        ctx.wake_at(time, u32::from(number));
    }
}
