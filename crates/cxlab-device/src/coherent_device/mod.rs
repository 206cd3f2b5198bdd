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
//! - Snoops for requests wait for others of their block at most [`SnoopFilterParams::join`], whatever comes.
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
//! # Load
//! A device with [`CoherentConfig::qos`] says in each completion and each `MemData` how loaded it is (DevLoad; CXL 3.1,
//! sections 3.3.4, 3.3.9 and 3.3.10). Its internal load is the number of requests and writes inside: in the receive
//! buffers, in a context, before or in the medium, or on their way out. Both messages of a read's response say the same,
//! and count as one response. `BIConflictAck` completes no request; it says light load.
//!
//! # Left out
//! An agent of the device's own, a cache in front of the medium (`Cmp-M`), reading the medium while
//! snoops are out, a bound on snoops that are out.

mod entries;
mod incoming;
mod joins;
mod lines;
mod medium;
mod operations;
mod outgoing;
mod params;
mod snoops;
mod stats;
mod turns;

use std::collections::{BTreeMap, VecDeque};

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::{Dpa, Hpa, LINE_BYTES, LineAddr, Picos, SimTime};
use cxlab_link::{Buffer, LinkPort, Outbox, Parcel};
use cxlab_memory::{Completion, MemoryBackend, Statistic, TagArray};
use cxlab_protocol::coherence::dcoh::{Actions, Event, Filter, LineState, Peer, step};
use cxlab_protocol::coherence::message::M2s;
use cxlab_protocol::{Channel, DecoderTable, DevLoad, Message, Opcode, PortId};

use crate::capacity::Timeline;
use crate::memory_device::DeviceStats;
use crate::qos::Telemetry;
use crate::waits::{DeviceWait, DeviceWaits};
use joins::{JOIN, Joins};
use lines::{BusyLines, Contexts, SetQueue};
use serde::{Deserialize, Serialize};
use snoops::SnoopTags;

pub use params::{CoherentConfig, CoherentError, SnoopFilterParams};
pub use stats::DcohStats;
pub use turns::{Turn, WaitsFor};

/// Token of the wake-up for the medium; ports use their number.
const MEDIUM: u32 = u32::MAX;
/// Token of the wake-up for a change of a host's share.
const SHARES: u32 = u32::MAX - 1;

/// A port, and what waits to go out through it.
struct Port {
    link: LinkPort,
    outbox: Outbox,
    /// Whose the responses are that wait, without data and with data: a request, or `NONE` for an
    /// answer to RwD.
    owners: [VecDeque<u32>; 2],
}

save_state!(Port {
    values: owners;
    states: link, outbox;
});

/// A message in a receive buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Arrived {
    message: Message,
    port: u16,
    at: SimTime,
}

/// The next thing for the medium to do: read for a request, or write if that is `NONE`.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Access {
    request: u32,
    dpa: Dpa,
}

/// Answers to writes and conflicts.
#[derive(Default, Serialize, Deserialize)]
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
    /// Whether every request that waits for an entry has something evicted for it.
    eager: bool,
    port_id: PortId,
    ports: Vec<Port>,
    decoders: DecoderTable,
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
    /// Snoops that wait for others of their block, where they are joined.
    joins: Option<Joins>,
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
    turns: Option<Vec<Turn>>,
    telemetry: Option<Box<Telemetry>>,
    /// How the shares of hosts change.
    timeline: Timeline,
    stats: DeviceStats,
    waits: DeviceWaits,
    coherence: DcohStats,
}

save_state!(CoherentDevice {
    values: ready, requests, writes, answers, accesses, writes_queued, write_numbers, next_write, ending, medium_wake, values, turns, telemetry, stats, waits, coherence;
    sized: peer_ports, sets;
    states: ports, filter, lines, contexts, snoops, joins, backend, timeline;
    built: pipeline, block, eager, port_id, decoders, peers, peer_numbers, write_limit, first_write, done;
} then catch_up);

impl CoherentDevice {
    /// Builds the component.
    ///
    /// # Errors
    /// A filter of no legal geometry, snoops of no legal length, or more than 64 peers.
    pub fn new(config: CoherentConfig) -> Result<Self, CoherentError> {
        let (params, filter) = (config.params, config.filter);
        let mut decoders = config.decoders;
        let mut telemetry =
            (config.qos.as_ref()).map(|qos| Box::new(Telemetry::new(qos, config.ports.len())));
        let timeline = Timeline::new(config.shares, &mut decoders, telemetry.as_deref_mut());
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
            eager: filter.eager,
            port_id: config.port_id,
            ports: ports.collect(),
            decoders,
            peer_ports: vec![0; config.peers.len()],
            peers: config.peers,
            peer_numbers,
            sets: vec![SetQueue::EMPTY; geometry.sets() as usize],
            filter: TagArray::new(geometry, config.policy.as_ref(), config.policy_rng),
            lines: BusyLines::new(params.contexts),
            contexts: Contexts::new(params.contexts),
            snoops: SnoopTags::new(),
            joins: Joins::new(filter.join, filter.block),
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
            turns: config.observe.then(Vec::new),
            telemetry,
            timeline,
            stats: DeviceStats::default(),
            waits: DeviceWaits::default(),
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

    /// Responses with each load since measurement began, if it tells its load.
    pub fn told(&self) -> Option<[u64; DevLoad::ALL.len()]> {
        self.telemetry.as_ref().map(|telemetry| telemetry.told)
    }

    /// What the coherence counted.
    pub fn coherence_stats(&self) -> DcohStats {
        DcohStats {
            entries: self.filter.len(),
            ..self.coherence
        }
    }

    /// What is inside the device: messages buffered, requests under way, busy lines, snoops that are
    /// out, writes before the medium, messages that wait to leave. 0 when nothing is left to do.
    pub fn in_flight(&self) -> u64 {
        let buffered = self.requests.len() + self.writes.len();
        let under_way = self.contexts.len() + self.answers.waiting + self.writes_queued;
        let waiting: usize = self.ports.iter().map(|port| port.outbox.len()).sum();
        let inside = buffered + under_way as usize + self.lines.len() + self.snoops.len();
        (inside + waiting) as u64
    }

    /// What the medium kept about itself, up to `now`.
    pub fn medium_statistics(&self, now: SimTime) -> Vec<Statistic> {
        let mut list = Vec::new();
        self.backend.statistics(now, &mut list);
        list
    }

    /// One of its ports, for link statistics.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        &mut self.ports[port as usize].link
    }

    /// What the filter says of the line at this address of a host's; `None` if it does not lie
    /// here.
    pub fn holders(&self, host: PortId, hpa: Hpa) -> Option<Filter> {
        let line = self.decoders.decode(host, hpa)?.line();
        Some(match self.lines.find(line) {
            Some(busy) => self.lines.get(busy).state.filter,
            None => self.filter_of(self.filter.find(line)),
        })
    }

    /// The value that was last written to the line at this address of a host's, 0 before any write.
    /// `None` if it does not lie here or no values are kept.
    pub fn value(&self, host: PortId, hpa: Hpa) -> Option<u16> {
        let dpa = self.decoders.decode(host, hpa)?;
        let values = self.values.as_ref()?;
        Some(values.get(&dpa.line()).copied().unwrap_or(0))
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.backend.begin_measurement(now);
        self.stats.reads = 0;
        self.stats.writes = 0;
        self.waits.reset();
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.begin_measurement();
        }
        self.coherence = DcohStats {
            peak_entries: self.filter.len(),
            ..DcohStats::default()
        };
        for port in &mut self.ports {
            port.link.begin_measurement(now);
        }
    }

    /// How long requests waited in the receive buffers and before the medium, since measurement began. A
    /// request that waited in both counts twice.
    pub fn waits(&self) -> &DeviceWaits {
        &self.waits
    }

    /// Notes how long a message has waited in its receive buffer.
    fn note_wait(&mut self, message: &mut Message, waited: Picos) {
        let waited = DeviceWait {
            controller: waited.0,
            medium: 0,
        };
        waited.note(message);
        self.waits.count(waited);
    }

    /// The run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.timeline.begin(ctx.now());
        self.await_share(ctx);
    }

    fn await_share(&self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(next) = self.timeline.next() {
            ctx.wake_at(next, SHARES);
        }
    }

    /// Forgets the changes of shares that were made before the state was saved: telemetry has them.
    fn catch_up(&mut self) -> Result<(), StateError> {
        self.timeline.catch_up(&mut self.decoders)
    }

    /// Makes the changes of shares that are due.
    #[cold]
    fn change_shares(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let telemetry = self.telemetry.as_deref_mut();
        self.timeline
            .apply(ctx.now(), &mut self.decoders, None, telemetry);
        self.await_share(ctx);
    }

    /// Tells telemetry at which ports messages wait for credits, after anything that may have changed it.
    #[inline]
    fn note_backpressure(&mut self, now: SimTime) {
        if let Some(telemetry) = &mut self.telemetry {
            let ports = self.ports.iter().map(|port| (&port.link, &port.outbox));
            telemetry.look_at(now, ports);
        }
    }

    /// The load that a response to a host says, which leaves through a port.
    #[inline]
    fn load(&mut self, now: SimTime, host: PortId, port: u16) -> DevLoad {
        let Some(telemetry) = &mut self.telemetry else {
            return DevLoad::Light;
        };
        let buffered = self.requests.len() + self.writes.len();
        let writing = self.next_write - self.first_write - self.write_numbers.len() as u32;
        let writes = self.answers.waiting + self.writes_queued + writing;
        let inside = buffered as u32 + self.contexts.len() + writes;
        telemetry.answer(now, host, port, inside)
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
            if let Some(telemetry) = &mut self.telemetry
                && message.channel() != Channel::M2sBirsp
                && message.opcode != Opcode::BiConflict
            {
                telemetry.received(message.source);
            }
            match message.channel() {
                Channel::M2sReq => {
                    if self.turns.is_some() {
                        let line = WaitsFor::Line(self.dpa(&message).line());
                        self.log_turn(line, &message, false);
                    }
                    self.requests.push_back(arrived);
                }
                Channel::M2sRwd => self.writes.push_back(arrived),
                Channel::M2sBirsp => {
                    self.release(ctx, &arrived);
                    self.snoop_answered(ctx, &message, peer);
                }
                Channel::S2mNdr
                | Channel::S2mDrs
                | Channel::S2mBisnp
                | Channel::D2hReq
                | Channel::D2hRsp
                | Channel::D2hData
                | Channel::H2dReq
                | Channel::H2dRsp
                | Channel::H2dData
                | Channel::IoPosted
                | Channel::IoNonPosted
                | Channel::IoCompletion => {
                    panic!("{:?} was routed to a device", message.opcode)
                }
            }
            self.go_on(ctx);
        }
        if credited && !self.ports[port as usize].outbox.is_empty() {
            self.pump(ctx, port, false);
        }
        self.note_backpressure(ctx.now());
    }

    /// A wake-up for the medium, for snoops to be joined, for a change of shares, or for a port.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match token {
            MEDIUM => self.wake_medium(ctx),
            SHARES => self.change_shares(ctx),
            JOIN => self.send_due(ctx),
            port => self.pump(ctx, port as u16, true),
        }
        self.note_backpressure(ctx.now());
    }

    /// The medium may be done with something.
    fn wake_medium(&mut self, ctx: &mut Ctx<'_, Parcel>) {
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
        let next = next.into_iter().flatten().min();
        // A medium that has not been asked for a while may have something to do at once.
        if let Some(at) = next.map(|at| at.max(ctx.now()))
            && at < self.medium_wake
        {
            self.medium_wake = at;
            ctx.wake_at(at, MEDIUM);
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

    /// Where the line of a message lies in this device.
    #[inline]
    fn dpa(&self, message: &Message) -> Dpa {
        match self.decoders.decode(message.source, message.hpa) {
            Some(dpa) => dpa,
            None => panic!("{message:?} was routed to a device that does not own it"),
        }
    }

    /// A message has left its receive buffer.
    #[inline]
    fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &Arrived) {
        let buffer = Buffer::of(arrived.message.channel(), arrived.message.vc);
        self.ports[arrived.port as usize].link.release(ctx, buffer);
    }
}

/// The message that a requester sent.
fn parse(message: &Message) -> M2s {
    let meta = message.meta;
    match M2s::from_fields(message.opcode, meta.field(), meta.value(), meta.snoop()) {
        Some(what) => what,
        None => panic!(
            "{:?} with {meta:?} is no request to HDM-DB memory",
            message.opcode
        ),
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
