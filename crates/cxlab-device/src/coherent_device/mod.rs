//! A Type 3 device whose memory is HDM-DB: its coherency engine (DCOH) knows in a snoop filter who
//! may hold each line, and takes copies back by back-invalidation.
//!
//! What is done about a line is decided by the table [`cxlab_protocol::coherence::dcoh`]; this is
//! the time and the room around it. Every message passes the controller and a look into the filter
//! as constant pipelines behind the link. A line has at most one operation under way, and requests
//! to it wait in order of arrival. The filter is inclusive and indexed by device addresses; its
//! entry is pinned while the line is busy. A request that needs an entry of a full set waits, in
//! order within the set, while a victim of the policy is snooped; its time in the medium begins
//! afterwards.
//!
//! # What waits for what
//! - M2S Req waits in the receive buffer for a context, and keeps it until its responses have been
//!   given to the link's transmitter. In a context it waits for its line, for an entry, for snoops
//!   and for the medium.
//! - Entries are pinned only by lines whose operation is under way, and an operation that has its
//!   entry needs no other. A line with a queue of requests gives its entry up between two of them
//!   when lines of its set wait and nothing else can leave. So an entry becomes free in the end.
//! - Snoops wait for credits of BISnp, which requesters free whatever M2S Req does (CXL 3.1, table
//!   3-59), and for BIRsp, which is taken at once.
//! - `MemWr` and `BIConflict` are taken at once while fewer than [`SnoopFilterParams::writes`] are
//!   inside. Otherwise they wait in the receive buffer, and only for the medium to accept a write
//!   or for NDR to take an answer. The medium works by itself and requesters always sink NDR, so
//!   this wait ends whatever M2S Req, BISnp and BIRsp do, which is all that section 3.3.11 asks of
//!   RwD. Their number is bounded by this buffer and the link's credits.
//! - The medium is given reads and writes in the order of the table's actions, through one queue:
//!   at most a read a context and the bounded writes. A read returns what earlier writes left.
//!
//! `Cmp` of a write is sent when the write has its place in that order (its data are in the
//! controller's buffer), not when the medium has written.
//!
//! # Latency stages
//! Waiting for a context or for the medium to accept is `queue`; for the line, an entry and the
//! snoops of the line `coherence`; from acceptance to the data `media`; the pipelines `device`. Both
//! messages of a read's response carry all of it.
//!
//! # Order
//! Snoops and completions may be ready before data that were asked for earlier, so nothing is sent
//! ahead of its time: the end of a read costs a wake-up. Messages of one class leave through a
//! port in the order in which they were made, so `BIConflictAck` does not pass a completion (rule
//! E6a of table 3-56).
//!
//! # Left out
//! An agent of the device's own, a cache in front of the medium (`Cmp-M`), reading the medium while
//! snoops are out, a bound on snoops that are out.

mod lines;
mod params;
mod snoops;
mod stats;

use std::collections::{BTreeMap, VecDeque};

use cxlab_engine::Ctx;
use cxlab_engine::units::{Dpa, Hpa, LINE_BYTES, LineAddr, Picos, SimTime};
use cxlab_link::{Buffer, LinkPort, Outbox, Parcel};
use cxlab_memory::{Block, Completion, MemoryBackend, MemoryRequest, Room, Slot, TagArray};
use cxlab_protocol::coherence::dcoh::{
    Action, Actions, Event, Filter, LineState, Operation, Peer, Peers, step,
};
use cxlab_protocol::coherence::message::{Kept, M2s, S2m, Snoop};
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{Channel, LatencyStages, MemMeta, Message, PortId};

use crate::memory_device::DeviceStats;
use lines::{BusyLines, Contexts, NONE, Request, SetQueue};
use snoops::SnoopTags;

pub use params::{CoherentConfig, CoherentError, SnoopFilterParams};
pub use stats::DcohStats;

/// Token of the wake-up for the medium; ports use their number.
const MEDIUM: u32 = u32::MAX;

/// A port, and what waits to go out through it.
struct Port {
    link: LinkPort,
    outbox: Outbox,
    /// Whose the responses are that wait, without data and with data: a request, or `NONE` for an
    /// answer to RwD.
    owners: [VecDeque<u32>; 2],
}

/// A message in a receive buffer.
#[derive(Clone, Copy)]
struct Arrived {
    message: Message,
    port: u16,
    at: SimTime,
}

/// The next thing for the medium to do: read for a request, or write if that is `NONE`.
#[derive(Clone, Copy)]
struct Access {
    request: u32,
    dpa: Dpa,
}

/// Answers to writes and conflicts.
#[derive(Default)]
struct Answers {
    /// Those that have not been sent.
    waiting: u32,
    /// Responses sent, ever, those to requests included.
    sent: u64,
}

/// The coherent device component.
pub struct CoherentDevice {
    pipeline: u32,
    block: u8,
    port_id: PortId,
    ports: Vec<Port>,
    decoder: Option<InterleaveSet>,
    target: u32,
    peers: Vec<PortId>,
    /// The peer's number, by edge port.
    peer_numbers: Vec<Option<Peer>>,
    /// The port through which each peer was last heard, through which it is snooped.
    peer_ports: Vec<u16>,
    filter: TagArray<Filter>,
    sets: Vec<SetQueue>,
    lines: BusyLines,
    contexts: Contexts,
    snoops: SnoopTags,
    /// Lines that have got an entry and whose request goes on.
    ready: VecDeque<u32>,
    /// Messages in the receive buffers of M2S Req and RwD, in order of arrival.
    requests: VecDeque<Arrived>,
    writes: VecDeque<Arrived>,
    answers: Answers,
    write_limit: u32,
    backend: Box<dyn MemoryBackend>,
    accesses: VecDeque<Access>,
    /// Writes that the medium has not accepted.
    writes_queued: u32,
    /// Free numbers of writes in the medium, above those of requests, and the next unused one.
    write_numbers: Vec<u32>,
    next_write: u32,
    first_write: u32,
    /// Reads whose end is known.
    ending: VecDeque<(SimTime, u32)>,
    medium_wake: SimTime,
    done: Vec<Completion>,
    values: Option<BTreeMap<LineAddr, u16>>,
    stats: DeviceStats,
    coherence: DcohStats,
}

impl CoherentDevice {
    /// Builds the component.
    ///
    /// # Errors
    /// A filter of no legal geometry, snoops of no legal length, or more than 64 peers.
    pub fn new(config: CoherentConfig) -> Result<Self, CoherentError> {
        let (params, filter) = (config.params, config.filter);
        let geometry = filter.geometry()?;
        if !(1..=4).contains(&filter.block) {
            return Err(CoherentError::Block(filter.block));
        }
        let ids = config.peers.iter().map(|id| usize::from(id.0) + 1);
        let mut peer_numbers = vec![None; ids.max().unwrap_or(0)];
        for (number, id) in config.peers.iter().enumerate() {
            let peer = Peer::new(number).ok_or(CoherentError::Peers(config.peers.len()))?;
            peer_numbers[usize::from(id.0)] = Some(peer);
        }
        let ports = config.ports.into_iter().map(|link| Port {
            link,
            outbox: Outbox::default(),
            owners: [VecDeque::new(), VecDeque::new()],
        });
        Ok(CoherentDevice {
            pipeline: filter.ingress(&params).0 as u32,
            block: filter.block,
            port_id: config.port_id,
            ports: ports.collect(),
            decoder: config.decoder,
            target: config.target,
            peer_ports: vec![0; config.peers.len()],
            peers: config.peers,
            peer_numbers,
            sets: vec![SetQueue::EMPTY; geometry.sets() as usize],
            filter: TagArray::new(geometry, config.policy.as_ref(), config.policy_rng),
            lines: BusyLines::new(params.contexts),
            contexts: Contexts::new(params.contexts),
            snoops: SnoopTags::new(),
            ready: VecDeque::new(),
            requests: VecDeque::with_capacity(256),
            writes: VecDeque::with_capacity(256),
            answers: Answers::default(),
            write_limit: filter.writes,
            backend: config.backend,
            accesses: VecDeque::with_capacity(256),
            writes_queued: 0,
            write_numbers: Vec::new(),
            next_write: params.contexts,
            first_write: params.contexts,
            ending: VecDeque::with_capacity(256),
            medium_wake: SimTime::NEVER,
            done: Vec::with_capacity(16),
            values: config.observe.then(BTreeMap::new),
            stats: DeviceStats::default(),
            coherence: DcohStats::default(),
        })
    }

    /// What was counted, as by a device without coherence: `reads` and `writes` are those of the
    /// medium, `accepted` are requests and writes, `answered` those whose last response has been
    /// sent.
    pub fn stats(&self) -> DeviceStats {
        DeviceStats {
            answered: self.answers.sent,
            ..self.stats
        }
    }

    /// What the coherence counted.
    pub fn coherence_stats(&self) -> DcohStats {
        DcohStats {
            entries: self.filter.len(),
            ..self.coherence
        }
    }

    /// Requests and writes inside the device: buffered, under way, or waiting to be answered; and
    /// the snoops that are out.
    pub fn in_flight(&self) -> u64 {
        let buffered = self.requests.len() + self.writes.len();
        let under_way = self.contexts.len() + self.answers.waiting + self.writes_queued;
        let waiting: usize = self.ports.iter().map(|port| port.outbox.len()).sum();
        let inside = buffered + under_way as usize + self.lines.len() + self.snoops.len();
        (inside + waiting) as u64
    }

    /// One of its ports, for link statistics.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        &mut self.ports[port as usize].link
    }

    /// What the filter says of the line at this address; `None` if this device does not own it.
    pub fn holders(&self, hpa: Hpa) -> Option<Filter> {
        let (target, dpa) = self.decoder.and_then(|set| set.decode(hpa))?;
        let line = dpa.line();
        (target == self.target).then(|| match self.lines.find(line) {
            Some(busy) => self.lines.get(busy).state.filter,
            None => self.filter_of(self.filter.find(line)),
        })
    }

    /// The value that was last written to the line at this address, 0 before any write. `None` if
    /// this device does not own it or keeps no values.
    pub fn value(&self, hpa: Hpa) -> Option<u16> {
        let (target, dpa) = self.decoder.and_then(|set| set.decode(hpa))?;
        let values = self.values.as_ref().filter(|_| target == self.target)?;
        Some(values.get(&dpa.line()).copied().unwrap_or(0))
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.stats.reads = 0;
        self.stats.writes = 0;
        self.coherence = DcohStats {
            peak_entries: self.filter.len(),
            ..DcohStats::default()
        };
        for port in &mut self.ports {
            port.link.transmitter.reset_stats(now);
        }
    }

    /// A parcel arrives from a link.
    #[inline]
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let credited = self.ports[port as usize].link.receive(parcel);
        if let Some(mut message) = parcel.message {
            message.stages.device += self.pipeline;
            let arrived = Arrived {
                message,
                port,
                at: ctx.now(),
            };
            let peer = self.peer(&message);
            self.peer_ports[peer.index()] = port;
            match message.channel() {
                Channel::M2sReq => self.requests.push_back(arrived),
                Channel::M2sRwd => self.writes.push_back(arrived),
                Channel::M2sBirsp => {
                    self.release(ctx, &arrived);
                    self.snoop_answered(ctx, &message, peer);
                }
                Channel::S2mNdr | Channel::S2mDrs | Channel::S2mBisnp => {
                    panic!("{:?} was routed to a device", message.opcode)
                }
            }
            self.go_on(ctx);
        }
        if credited && !self.ports[port as usize].outbox.is_empty() {
            self.pump(ctx, port, false);
        }
    }

    /// A wake-up for the medium or for a port.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token != MEDIUM {
            self.pump(ctx, token as u16, true);
            return;
        }
        let now = ctx.now();
        if now == self.medium_wake {
            self.medium_wake = SimTime::NEVER;
        }
        let mut done = std::mem::take(&mut self.done);
        self.backend.advance(now, &mut done);
        for completion in done.drain(..) {
            if completion.id < self.first_write {
                self.medium_read(ctx, completion.id);
            } else {
                self.write_numbers.push(completion.id);
            }
        }
        self.done = done;
        while let Some((at, request)) = self.ending.front().copied()
            && at <= now
        {
            self.ending.pop_front();
            self.medium_read(ctx, request);
        }
        self.go_on(ctx);
    }

    /// Does what has become possible.
    fn go_on(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        loop {
            while let Some(busy) = self.ready.pop_front() {
                self.request(ctx, busy);
                self.settle(ctx, busy);
            }
            self.fill_medium(ctx.now());
            if let Some(write) = self.writes.front().copied()
                && self.answers.waiting.max(self.writes_queued) < self.write_limit
            {
                self.writes.pop_front();
                self.write(ctx, &write);
            } else if let Some(request) = self.requests.front().copied()
                && self.contexts.has_room()
            {
                self.requests.pop_front();
                self.accept(ctx, &request);
            } else {
                break;
            }
        }
        let ending = self.ending.front().map(|(at, _)| *at);
        let next = [self.backend.next_event(), ending];
        if let Some(at) = next.into_iter().flatten().min()
            && at < self.medium_wake
        {
            self.medium_wake = at;
            ctx.wake_at(at.max(ctx.now()), MEDIUM);
        }
    }

    /// Who sent a message.
    #[inline]
    fn peer(&self, message: &Message) -> Peer {
        match self.peer_numbers.get(usize::from(message.source.0)) {
            Some(Some(peer)) => *peer,
            _ => panic!("{:?} is no requester of this device", message.source),
        }
    }

    /// Where a line lies in this device.
    #[inline]
    fn dpa(&self, hpa: Hpa) -> Dpa {
        match self.decoder.and_then(|set| set.decode(hpa)) {
            Some((target, dpa)) if target == self.target => dpa,
            _ => panic!("{hpa:?} was routed to a device that does not own it"),
        }
    }

    /// A message has left its receive buffer.
    #[inline]
    fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &Arrived) {
        let buffer = Buffer::of(arrived.message.channel(), arrived.message.vc);
        self.ports[arrived.port as usize].link.release(ctx, buffer);
    }

    /// A request gets a context, and begins if its line is not busy.
    fn accept(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &Arrived) {
        self.release(ctx, arrived);
        let now = ctx.now();
        let mut message = arrived.message;
        let what = parse(&message);
        self.stats.accepted += 1;
        self.coherence.count(what);
        message.stages.queue += (now - arrived.at).0;
        let line = self.dpa(message.hpa).line();
        let busy = self.lines.find(line);
        let request = self.contexts.take(Request {
            message,
            what,
            peer: self.peer(&message),
            port: arrived.port,
            since: now,
            line: NONE,
            data: 0,
            replies: replies(what),
            next: NONE,
        });
        let number = match busy {
            Some(number) => number,
            None => {
                let slot = self.filter.find(line);
                if let Some(slot) = slot {
                    self.filter.pin(slot);
                }
                let state = LineState::idle(self.filter_of(slot));
                self.lines.take(line, state, slot)
            }
        };
        self.contexts.get_mut(request).line = number;
        self.lines.append(number, &mut self.contexts, request);
        if busy.is_none() {
            self.settle(ctx, number);
        }
    }

    fn filter_of(&self, slot: Option<Slot>) -> Filter {
        slot.map_or(Filter::Invalid, |slot| self.filter[slot])
    }

    /// While a line is idle, the requests that wait for it go on; when none does, it is no longer
    /// busy.
    fn settle(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        loop {
            let busy = *self.lines.get(number);
            if busy.state.is_busy() || busy.starved {
                return;
            }
            if let Some(slot) = busy.slot {
                let set = self.set_of(busy.line);
                let last = busy.first == NONE;
                if busy.evicted {
                    self.sets[set].evicting -= 1;
                    self.give_up_entry(ctx, number, slot);
                } else if busy.state.filter == Filter::Invalid
                    && (last || self.sets[set].waiting > 0)
                {
                    self.give_up_entry(ctx, number, slot);
                } else if last {
                    self.keep(slot, busy.state.filter);
                    self.filter.unpin(slot);
                    self.lines.give_back(number);
                    self.make_room(ctx, set);
                    return;
                } else if self.sets[set].needs_room() && !self.make_room(ctx, set) {
                    self.evict(ctx, Block::single(busy.line));
                    return;
                }
            }
            let Some(request) = self.lines.next_asker(number, &self.contexts) else {
                self.lines.give_back(number);
                return;
            };
            let waited = self.wait_ends(ctx.now(), request);
            self.coherence.line_waits += u64::from(waited > Picos::ZERO);
            self.coherence.line_wait.0 += waited.0;
            self.begin(ctx, number);
        }
    }

    /// The time that a request waited in the coherence agent.
    #[inline]
    fn wait_ends(&mut self, now: SimTime, request: u32) -> Picos {
        let request = self.contexts.get_mut(request);
        let waited = now - request.since;
        request.message.stages.coherence += waited.0;
        request.since = now;
        waited
    }

    /// The request whose turn it is gets an entry if it needs one, and goes on.
    fn begin(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let busy = *self.lines.get(number);
        let allocates =
            Operation::of(self.contexts.get(busy.asker).what).is_some_and(Operation::allocates);
        match busy.slot {
            Some(slot) if allocates => {
                self.coherence.filter_hits += 1;
                self.filter.touch(slot);
            }
            None if allocates => {
                self.coherence.filter_misses += 1;
                let set = self.set_of(busy.line);
                if self.sets[set].waiting > 0 || self.filter.room(busy.line) != Room::Free {
                    self.sets[set].append(&mut self.lines, number);
                    self.make_room(ctx, set);
                    return;
                }
                self.take_entry(number);
            }
            _ => {}
        }
        self.request(ctx, number);
    }

    /// The request whose turn it is is given to the table.
    fn request(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let asker = self.contexts.get(self.lines.get(number).asker);
        let event = Event::Message(asker.peer, asker.what);
        self.step(ctx, number, event);
    }

    /// Gives an event to the table and does what it says.
    fn step(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, event: Event) {
        let busy = self.lines.get_mut(number);
        let (next, actions) = row(busy.state, event);
        busy.state = next;
        self.perform(ctx, number, &actions);
    }

    /// Does what the table says about a busy line and the request whose turn it is.
    fn perform(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, actions: &Actions) {
        for action in actions.iter() {
            let busy = *self.lines.get(number);
            match action {
                Action::Snoop(kind, peers) => self.snoop(ctx, kind, busy.line, 1, peers),
                Action::ReadMedium => {
                    self.snoops_end(ctx.now(), busy.asker);
                    let values = self.values.as_ref();
                    let value = values.and_then(|values| values.get(&busy.line));
                    self.contexts.get_mut(busy.asker).data = value.copied().unwrap_or(0);
                    self.accesses.push_back(Access {
                        request: busy.asker,
                        dpa: dpa_of(busy.line),
                    });
                }
                Action::Reply(_, response) => {
                    self.snoops_end(ctx.now(), busy.asker);
                    let request = *self.contexts.get(busy.asker);
                    let data = match response {
                        S2m::MemData => request.data,
                        _ => 0,
                    };
                    let (port, owner) = (request.port, busy.asker);
                    self.reply(ctx, &request.message, port, response, data, owner);
                }
                Action::WriteMedium | Action::WriteLocal | Action::CompleteLocal => {
                    unreachable!("a write is no request, and the device has no agent")
                }
            }
        }
    }

    /// What a request waited for snoops, if it did.
    #[inline]
    fn snoops_end(&mut self, now: SimTime, request: u32) {
        let waited = self.wait_ends(now, request);
        self.coherence.snoop_waits += u64::from(waited > Picos::ZERO);
        self.coherence.snoop_wait.0 += waited.0;
    }

    /// Sends a response. `owner` is the request that it answers.
    fn reply(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        to: &Message,
        port: u16,
        response: S2m,
        data: u16,
        owner: u32,
    ) {
        let message = Message {
            source: to.destination,
            destination: to.source,
            opcode: response.opcode(),
            meta: MemMeta::NONE,
            lines: 1,
            data,
            vc: 0,
            hops: 0,
            ..*to
        };
        let with_data = usize::from(response == S2m::MemData);
        self.ports[port as usize].owners[with_data].push_back(owner);
        self.offer(ctx, port, message);
    }

    fn offer(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, message: Message) {
        let now = ctx.now();
        let port = &mut self.ports[number as usize];
        let sent = sent(&mut port.owners, &mut self.contexts, &mut self.answers);
        let (link, token) = (&mut port.link, u32::from(number));
        port.outbox.offer(ctx, link, token, message, now, sent);
    }

    /// Sends what waits, as far as link and credits allow, and uses the room that it leaves.
    fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, woken: bool) {
        let port = &mut self.ports[number as usize];
        let sent = sent(&mut port.owners, &mut self.contexts, &mut self.answers);
        let (link, token) = (&mut port.link, u32::from(number));
        if woken {
            port.outbox.wake(ctx, link, token, sent);
        } else {
            port.outbox.pump(ctx, link, token, sent);
        }
        if !self.requests.is_empty() || !self.writes.is_empty() {
            self.go_on(ctx);
        }
    }

    /// Snoops these holders of some lines.
    fn snoop(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kind: Snoop,
        first: LineAddr,
        lines: u8,
        peers: Peers,
    ) {
        let hpa = self.hpa(first);
        for peer in peers.iter() {
            self.coherence.snoops[kind as usize] += 1;
            self.coherence.block_snoops += u64::from(lines > 1);
            let message = Message {
                hpa,
                issued_ps: ctx.now().0,
                stages: LatencyStages::default(),
                tag: self.snoops.take(peer, first, lines),
                source: self.port_id,
                destination: self.peers[peer.index()],
                opcode: if lines > 1 {
                    kind.block_opcode()
                } else {
                    kind.opcode()
                },
                meta: MemMeta::NONE,
                lines,
                data: 0,
                vc: 0,
                hops: 0,
            };
            self.offer(ctx, self.peer_ports[peer.index()], message);
        }
    }

    /// The address of a line of this device.
    fn hpa(&self, line: LineAddr) -> Hpa {
        match &self.decoder {
            Some(set) => set.encode(self.target, dpa_of(line)),
            None => unreachable!("nobody addresses this device"),
        }
    }

    /// A holder has answered a snoop.
    fn snoop_answered(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message, peer: Peer) {
        let Some((kept, block)) = Kept::from_opcode(message.opcode) else {
            panic!("{:?} is no answer to a snoop", message.opcode)
        };
        let count = if block { message.lines } else { 1 };
        let first = self.dpa(message.hpa).line();
        self.snoops.answered(message.tag, peer, first, count);
        for line in (first.0..first.0 + u64::from(count)).map(LineAddr) {
            let Some(number) = self.lines.find(line) else {
                unreachable!("a line that is snooped is busy")
            };
            self.coherence.invalidated += u64::from(kept == Kept::Invalid);
            self.step(ctx, number, Event::Message(peer, M2s::BiRsp(kept)));
            self.settle(ctx, number);
        }
    }

    /// A `MemWr` or a `BIConflict` is taken.
    fn write(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &Arrived) {
        self.release(ctx, arrived);
        let mut message = arrived.message;
        let what = parse(&message);
        self.coherence.count(what);
        self.stats.accepted += u64::from(what != M2s::BiConflict);
        message.stages.queue += (ctx.now() - arrived.at).0;
        let dpa = self.dpa(message.hpa);
        let busy = self.lines.find(dpa.line());
        let slot = match busy {
            Some(number) => self.lines.get(number).slot,
            None => self.filter.find(dpa.line()),
        };
        let state = match busy {
            Some(number) => self.lines.get(number).state,
            None => LineState::idle(self.filter_of(slot)),
        };
        let (next, actions) = row(state, Event::Message(self.peer(&message), what));
        match (busy, slot) {
            (Some(number), _) => self.lines.get_mut(number).state = next,
            (None, Some(slot)) if next.filter == Filter::Invalid => {
                self.filter.remove(slot);
                self.entry_freed(ctx, self.set_of(dpa.line()));
            }
            (None, Some(slot)) if next.filter != state.filter => self.keep(slot, next.filter),
            (None, _) => assert_eq!(next.filter, state.filter, "a holder has an entry"),
        }
        for action in actions.iter() {
            match action {
                Action::WriteMedium => {
                    if let Some(values) = &mut self.values {
                        values.insert(dpa.line(), message.data);
                    }
                    self.writes_queued += 1;
                    self.accesses.push_back(Access { request: NONE, dpa });
                }
                Action::Reply(_, response) => {
                    self.answers.waiting += 1;
                    self.reply(ctx, &message, arrived.port, response, 0, NONE);
                }
                Action::Snoop(..)
                | Action::ReadMedium
                | Action::WriteLocal
                | Action::CompleteLocal => unreachable!("no row of a write or a conflict does so"),
            }
        }
    }

    /// Gives the medium what it accepts, in order.
    fn fill_medium(&mut self, now: SimTime) {
        while let Some(Access { request, dpa }) = self.accesses.front().copied()
            && self.backend.can_accept(now, request == NONE)
        {
            self.accesses.pop_front();
            if request == NONE {
                self.stats.writes += 1;
                self.writes_queued -= 1;
                let id = self.write_numbers.pop().unwrap_or_else(|| {
                    self.next_write += 1;
                    self.next_write - 1
                });
                let write = true;
                if self
                    .backend
                    .enqueue(now, MemoryRequest { id, dpa, write })
                    .is_some()
                {
                    self.write_numbers.push(id);
                }
            } else {
                self.stats.reads += 1;
                let reader = self.contexts.get_mut(request);
                reader.message.stages.queue += (now - reader.since).0;
                reader.since = now;
                let (id, write) = (request, false);
                if let Some(at) = self.backend.enqueue(now, MemoryRequest { id, dpa, write }) {
                    self.ending.push_back((at, request));
                }
            }
        }
    }

    /// The medium has read for a request.
    fn medium_read(&mut self, ctx: &mut Ctx<'_, Parcel>, request: u32) {
        let reader = self.contexts.get_mut(request);
        reader.message.stages.media += (ctx.now() - reader.since).0;
        reader.since = ctx.now();
        let number = reader.line;
        self.step(ctx, number, Event::MediumData);
        self.settle(ctx, number);
    }

    #[inline]
    fn set_of(&self, line: LineAddr) -> usize {
        self.filter.geometry().set_of(line) as usize
    }

    /// Keeps what is known of a line's holders.
    fn keep(&mut self, slot: Slot, filter: Filter) {
        if self.filter[slot] != filter {
            self.filter[slot] = filter;
            self.filter.set_owner(slot, filter.holders().0);
        }
    }

    /// A line takes a free entry.
    fn take_entry(&mut self, number: u32) {
        let busy = self.lines.get_mut(number);
        let slot = self.filter.insert(busy.line, Filter::Invalid);
        busy.slot = Some(slot);
        self.filter.pin(slot);
        self.coherence.peak_entries = self.coherence.peak_entries.max(self.filter.len());
    }

    /// A busy line without holders gives its entry up.
    fn give_up_entry(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, slot: Slot) {
        let busy = self.lines.get_mut(number);
        busy.slot = None;
        busy.evicted = false;
        let (line, _) = self.filter.remove(slot);
        self.entry_freed(ctx, self.set_of(line));
    }

    /// A free entry of a set goes to the first line that waits for one.
    fn entry_freed(&mut self, ctx: &mut Ctx<'_, Parcel>, set: usize) {
        if let Some(number) = self.sets[set].pop(&mut self.lines) {
            self.take_entry(number);
            let waited = self.wait_ends(ctx.now(), self.lines.get(number).asker);
            self.coherence.entry_waits += 1;
            self.coherence.entry_wait.0 += waited.0;
            self.ready.push_back(number);
        }
    }

    /// Evicts entries of a set while more lines wait for one than are being taken away; false if
    /// all entries are pinned.
    fn make_room(&mut self, ctx: &mut Ctx<'_, Parcel>, set: usize) -> bool {
        while self.sets[set].needs_room() {
            let waiting = self.lines.get(self.sets[set].first).line;
            match self.filter.room(waiting) {
                Room::Evict(block) => self.evict(ctx, self.trim(block)),
                Room::Pinned => return false,
                Room::Free => unreachable!("a free entry goes to the line that waits"),
            }
        }
        true
    }

    /// What of a block one snoop may cover: its lines must be neighbours for the requester too.
    fn trim(&self, block: Block) -> Block {
        let most = u32::from(self.block);
        let mut trimmed = block;
        if block.lines > most {
            let aligned = block.lines.is_power_of_two()
                && block.first.0.is_multiple_of(u64::from(block.lines));
            trimmed.lines = if aligned { 1 << most.ilog2() } else { most };
            trimmed.first = if aligned {
                LineAddr(block.victim.0 & !u64::from(trimmed.lines - 1))
            } else {
                LineAddr(
                    block
                        .first
                        .0
                        .max((block.victim.0 + 1).saturating_sub(u64::from(most))),
                )
            };
        }
        let last = LineAddr(trimmed.first.0 + u64::from(trimmed.lines - 1));
        let span = u64::from(trimmed.lines - 1) * LINE_BYTES;
        if span > 0 && self.hpa(last).0 != self.hpa(trimmed.first).0 + span {
            return Block::single(block.victim);
        }
        trimmed
    }

    /// Takes the entries of lines of the same holders away; they are idle, or busy without an
    /// operation.
    fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, block: Block) {
        let mut holders = None;
        for line in block.iter() {
            let number = match self.lines.find(line) {
                Some(number) => number,
                None => {
                    let Some(slot) = self.filter.find(line) else {
                        unreachable!("a victim has an entry")
                    };
                    self.filter.pin(slot);
                    self.lines
                        .take(line, LineState::idle(self.filter[slot]), Some(slot))
                }
            };
            let busy = self.lines.get_mut(number);
            let (next, actions) = row(busy.state, Event::EvictEntry);
            busy.state = next;
            busy.evicted = true;
            self.sets[self.filter.geometry().set_of(line) as usize].evicting += 1;
            self.coherence.evictions += 1;
            for action in actions.iter() {
                let Action::Snoop(kind, peers) = action else {
                    unreachable!("an eviction only snoops")
                };
                let before = *holders.get_or_insert((kind, peers));
                assert_eq!(
                    before,
                    (kind, peers),
                    "lines of a block have the same holders"
                );
            }
        }
        if let Some((kind, peers)) = holders {
            self.snoop(ctx, kind, block.first, block.lines as u8, peers);
        }
    }
}

/// The message that a requester sent.
fn parse(message: &Message) -> M2s {
    let meta = message.meta;
    match M2s::from_fields(message.opcode, meta.field, meta.value, meta.snoop) {
        Some(what) => what,
        None => panic!(
            "{:?} with {meta:?} is no request to HDM-DB memory",
            message.opcode
        ),
    }
}

/// How many responses a request has.
const fn replies(request: M2s) -> u8 {
    match request {
        M2s::MemRdData | M2s::MemRdShared | M2s::MemRdOwn | M2s::MemRdCur => 2,
        M2s::MemInvOwn
        | M2s::MemInvFlush
        | M2s::MemClnEvct
        | M2s::MemWr(_)
        | M2s::BiConflict
        | M2s::BiRsp(_) => 1,
    }
}

/// The row of the table, which every event that is legal has.
#[inline]
fn row(state: LineState, event: Event) -> (LineState, Actions) {
    match step(state, event) {
        Some(found) => found,
        None => panic!("{event:?} has no row in {state:?}"),
    }
}

#[inline]
const fn dpa_of(line: LineAddr) -> Dpa {
    Dpa(line.0 * LINE_BYTES)
}

/// What happens when a message has been given to the link: with the last response of a request its
/// context is free.
#[inline]
fn sent<'a>(
    owners: &'a mut [VecDeque<u32>; 2],
    contexts: &'a mut Contexts,
    answers: &'a mut Answers,
) -> impl FnMut(&Message, SimTime) + 'a {
    move |message, _| {
        let class = match message.channel() {
            Channel::S2mNdr => 0,
            Channel::S2mDrs => 1,
            Channel::S2mBisnp | Channel::M2sReq | Channel::M2sRwd | Channel::M2sBirsp => return,
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
