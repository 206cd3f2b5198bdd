//! A Type 3 device whose memory is HDM-DB: its coherency engine (DCOH) tracks in a snoop filter which
//! requesters may hold each line, and recalls copies by back-invalidation.
//!
//! The table [`cxlab_protocol::coherence::dcoh`] decides what happens to a line. This module adds the
//! timing and the bounded resources. Every message passes the controller and a filter lookup, as
//! constant pipelines behind the link. A line has at most one operation in flight, and requests to the
//! line wait in order of arrival. The filter is inclusive and indexed by device addresses; an entry is
//! pinned while its line is busy. A request that needs an entry in a full set waits, in order within
//! the set, while a victim chosen by the policy is snooped. Its time in the medium begins afterwards.
//!
//! # Waiting and progress
//! - M2S Req waits in the receive buffer for a context. The request keeps the context until its
//!   responses have been given to the link's transmitter. In a context the request waits for its line,
//!   for an entry, for snoops and for the medium.
//! - Only lines with an operation in flight pin entries, and an operation that has its entry needs no
//!   other. A line with queued requests releases its entry between two of them if lines of its set
//!   wait and no other entry can be evicted. So an entry eventually becomes free.
//! - A snoop for a request waits at most [`SnoopFilterParams::join`] for other snoops of its block,
//!   whatever else arrives.
//! - Snoops wait for credits of BISnp, which requesters free independently of M2S Req (CXL 3.1, table
//!   3-59), and for BIRsp, which is accepted at once.
//! - `MemWr` and `BIConflict` are accepted at once while fewer than [`SnoopFilterParams::writes`] are
//!   inside. Otherwise they wait in the receive buffer, and only until the medium accepts a write or
//!   NDR sends a response. The medium makes progress by itself and requesters always sink NDR, so this
//!   wait ends independently of M2S Req, BISnp and BIRsp, which is all that section 3.3.11 requires of
//!   RwD. The number of such messages is bounded by this buffer and the link's credits.
//! - The medium receives reads and writes in the order of the table's actions, through one
//!   queue: at most one read for each context, and the bounded writes. A read returns the
//!   data of earlier writes.
//!
//! `Cmp` of a write is sent when the write is queued in that order (its data are in the controller's
//! buffer), not when the medium has written.
//!
//! # Latency stages
//! Waiting for a context counts as `device_queue`, and waiting for the medium to accept as `media_queue`. Waiting for
//! the line, for an entry and for snoops of the line is `coherence`. The time from acceptance to the data is `media`,
//! and the pipelines are `device`. Both messages of a read's response carry all stages.
//!
//! # Order
//! Snoops and completions may be ready before data that were requested earlier, so no message is scheduled on the link
//! in advance: the end of a read costs a wake-up. Messages of one class leave through a port in the order in which they
//! were made, so `BIConflictAck` does not pass a completion (rule E6a of table 3-56).
//!
//! # Load
//! A device with [`CoherentConfig::qos`] reports its load in each completion and each `MemData` (DevLoad; CXL 3.1,
//! sections 3.3.4, 3.3.9 and 3.3.10). Its internal load is the number of requests and writes inside: in the receive
//! buffers, in a context, before or in the medium, or on their way out. Both messages of a read's response report the
//! same load, and count as one response. `BIConflictAck` completes no request; it reports light load.
//!
//! # Left out
//! An agent of the device's own, a cache in front of the medium (`Cmp-M`), reading the medium while
//! snoops are in flight, a bound on snoops in flight.

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
mod wait_log;

use std::collections::{BTreeMap, VecDeque};

use cxlab_cache::{Statistic, TagArray};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::{Dpa, Hpa, LINE_BYTES, LineAddr, Picos, SimTime};
use cxlab_link::{BufferId, LinkPort, Outbox, Parcel};
use cxlab_protocol::coherence::dcoh::{Actions, Event, Filter, LineState, Peer, step};
use cxlab_protocol::coherence::message::M2s;
use cxlab_protocol::{Channel, DecoderTable, DevLoad, Message, Opcode, PortId};

use crate::capacity::ChangeTimeline;
use crate::controller::DeviceStats;
use crate::qos::Telemetry;
use crate::waits::{DeviceWait, DeviceWaits};
use joins::{JOIN, SnoopJoiner};
use lines::{BusyLines, Contexts, SetQueue};
use medium::MediumQueue;
use serde::{Deserialize, Serialize};
use snoops::SnoopTags;

pub use params::{CoherentConfig, CoherentError, SnoopFilterParams};
pub use stats::DcohStats;
pub use wait_log::{WaitLogEntry, WaitsFor};

/// Token of the wake-up for the medium; ports use their number.
const MEDIUM: u32 = u32::MAX;
/// Token of the wake-up for a change of a host's share.
const SHARES: u32 = u32::MAX - 1;

/// A port with its queued messages.
struct Port {
    link: LinkPort,
    outbox: Outbox,
    /// Owners of the queued responses, without data and with data: a request, or `NONE` for a response to RwD.
    owners: [VecDeque<u32>; 2],
}

save_state!(Port {
    values: owners;
    states: link, outbox;
});

/// A message in a receive buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct BufferedMessage {
    message: Message,
    port: u16,
    at: SimTime,
}

/// Counts of responses to writes and conflicts.
#[derive(Default, Serialize, Deserialize)]
struct ResponseCounts {
    /// Responses to writes and conflicts that have not been sent.
    waiting: u32,
    /// Requests and writes whose last response has been sent, ever.
    sent: u64,
}

/// The requesters (peers), by number.
struct PeerTable {
    ids: Vec<PortId>,
    /// Number of each peer, by its edge port.
    numbers: Vec<Option<Peer>>,
    /// Port through which each peer's last message came; its snoops leave through it.
    ports: Vec<u16>,
}

save_state!(PeerTable {
    sized: ports;
    built: ids, numbers;
});

/// Messages in the receive buffers of M2S Req and RwD, in order of arrival.
#[derive(Serialize, Deserialize)]
struct ReceiveBuffers {
    requests: VecDeque<BufferedMessage>,
    writes: VecDeque<BufferedMessage>,
}

/// The coherent device component.
pub struct CoherentDevice {
    pipeline: u32,
    block: u8,
    /// Whether an eviction starts for every request that waits for an entry.
    eager: bool,
    port_id: PortId,
    ports: Vec<Port>,
    decoders: DecoderTable,
    peers: PeerTable,
    filter: TagArray<Filter>,
    sets: Vec<SetQueue>,
    lines: BusyLines,
    contexts: Contexts,
    snoops: SnoopTags,
    /// Snoops that wait to be joined with others of their block.
    joins: Option<SnoopJoiner>,
    /// Busy lines that got an entry, whose request continues.
    ready: VecDeque<u32>,
    buffers: ReceiveBuffers,
    answers: ResponseCounts,
    write_limit: u32,
    medium: MediumQueue,
    values: Option<BTreeMap<LineAddr, u16>>,
    turns: Option<Vec<WaitLogEntry>>,
    telemetry: Option<Box<Telemetry>>,
    /// Changes of the hosts' shares.
    timeline: ChangeTimeline,
    stats: DeviceStats,
    waits: DeviceWaits,
    coherence: DcohStats,
}

save_state!(CoherentDevice {
    values: ready, buffers, answers, values, turns, telemetry, stats, waits, coherence;
    sized: sets;
    states: ports, peers, filter, lines, contexts, snoops, joins, medium, timeline;
    built: pipeline, block, eager, port_id, decoders, write_limit;
} then catch_up);

impl CoherentDevice {
    /// Builds the component.
    ///
    /// # Errors
    /// An illegal geometry of the filter, an illegal length of snoops, or more than 64 peers.
    pub fn new(config: CoherentConfig) -> Result<Self, CoherentError> {
        let (params, filter) = (config.params, config.filter);
        let mut decoders = config.decoders;
        let mut telemetry =
            (config.qos.as_ref()).map(|qos| Box::new(Telemetry::new(qos, config.ports.len())));
        let timeline = ChangeTimeline::new(config.shares, &mut decoders, telemetry.as_deref_mut());
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
            peers: PeerTable {
                ports: vec![0; config.peers.len()],
                ids: config.peers,
                numbers: peer_numbers,
            },
            sets: vec![SetQueue::EMPTY; geometry.sets() as usize],
            filter: TagArray::new(geometry, config.policy.as_ref(), config.policy_rng),
            lines: BusyLines::new(params.contexts),
            contexts: Contexts::new(params.contexts),
            snoops: SnoopTags::new(),
            joins: SnoopJoiner::new(filter.join, filter.block),
            ready: VecDeque::new(),
            buffers: ReceiveBuffers {
                requests: VecDeque::with_capacity(256),
                writes: VecDeque::with_capacity(256),
            },
            answers: ResponseCounts::default(),
            write_limit: filter.writes,
            medium: MediumQueue::new(config.backend, params.contexts),
            values: config.observe.then(BTreeMap::new),
            turns: config.observe.then(Vec::new),
            telemetry,
            timeline,
            stats: DeviceStats::default(),
            waits: DeviceWaits::default(),
            coherence: DcohStats::default(),
        })
    }

    /// Counters as of a device without coherence. `reads` and `writes` are those of the medium, `accepted` counts
    /// requests and writes, and `answered` those whose last response has been sent.
    pub fn stats(&self) -> DeviceStats {
        DeviceStats {
            answered: self.answers.sent,
            ..self.stats
        }
    }

    /// Number of responses with each load since measurement began, if the device has telemetry.
    pub fn reported_loads(&self) -> Option<[u64; DevLoad::ALL.len()]> {
        self.telemetry.as_ref().map(|telemetry| telemetry.reported)
    }

    /// Counters of the coherency engine and the snoop filter.
    pub fn coherence_stats(&self) -> DcohStats {
        DcohStats {
            entries: self.filter.len(),
            ..self.coherence
        }
    }

    /// Number of items in the device: buffered messages, requests in contexts, busy lines, snoops
    /// in flight, writes before the medium, messages queued to leave. 0 when no work is left.
    pub fn in_flight(&self) -> u64 {
        let buffered = self.buffers.requests.len() + self.buffers.writes.len();
        let under_way = self.contexts.len() + self.answers.waiting + self.medium.writes_queued;
        let waiting: usize = self.ports.iter().map(|port| port.outbox.len()).sum();
        let inside = buffered + under_way as usize + self.lines.len() + self.snoops.len();
        (inside + waiting) as u64
    }

    /// The medium's own statistics, up to `now`.
    pub fn medium_statistics(&self, now: SimTime) -> Vec<Statistic> {
        let mut list = Vec::new();
        self.medium.backend.statistics(now, &mut list);
        list
    }

    /// One of the device's ports, for link statistics.
    pub fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        &mut self.ports[port as usize].link
    }

    /// The filter's state of the line at this address of a host; `None` if the device does not map the address.
    pub fn holders(&self, host: PortId, hpa: Hpa) -> Option<Filter> {
        let line = self.decoders.decode(host, hpa)?.line();
        Some(match self.lines.find(line) {
            Some(busy) => self.lines.get(busy).state.filter,
            None => self.filter_of(self.filter.find(line)),
        })
    }

    /// The value last written to the line at this address of a host, 0 before any write. `None` if
    /// the device does not map the address or keeps no values.
    pub fn value(&self, host: PortId, hpa: Hpa) -> Option<u16> {
        let dpa = self.decoders.decode(host, hpa)?;
        let values = self.values.as_ref()?;
        Some(values.get(&dpa.line()).copied().unwrap_or(0))
    }

    /// Resets the statistics at the beginning of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.medium.backend.begin_measurement(now);
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

    /// How long requests waited in the receive buffers and before the medium, since measurement
    /// began. A request that waited in both counts twice.
    pub fn waits(&self) -> &DeviceWaits {
        &self.waits
    }

    /// Adds the wait in the receive buffer to a message's latency stages and to the statistics.
    fn record_wait(&mut self, message: &mut Message, waited: Picos) {
        let waited = DeviceWait {
            controller: waited.0,
            medium: 0,
        };
        waited.add_to_stages(message);
        self.waits.count(waited);
    }

    /// Starts the device when the run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.timeline.begin(ctx.now());
        self.await_share(ctx);
    }

    fn await_share(&self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some(next) = self.timeline.next() {
            ctx.wake_at(next, SHARES);
        }
    }

    /// Skips the changes of shares that were made before the restored state was saved: telemetry has them.
    fn catch_up(&mut self) -> Result<(), StateError> {
        self.timeline.catch_up(&mut self.decoders)
    }

    #[cold]
    fn change_shares(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let telemetry = self.telemetry.as_deref_mut();
        self.timeline
            .apply(ctx.now(), &mut self.decoders, None, telemetry);
        self.await_share(ctx);
    }

    /// Reports to telemetry which ports have messages that wait for credits, after any change of that.
    #[inline]
    fn check_backpressure(&mut self, now: SimTime) {
        if let Some(telemetry) = &mut self.telemetry {
            let ports = self.ports.iter().map(|port| (&port.link, &port.outbox));
            telemetry.check_backpressure(now, ports);
        }
    }

    /// The load to report in a response to a host through a port.
    #[inline]
    fn load(&mut self, now: SimTime, host: PortId, port: u16) -> DevLoad {
        let Some(telemetry) = &mut self.telemetry else {
            return DevLoad::Light;
        };
        let buffered = self.buffers.requests.len() + self.buffers.writes.len();
        let writing = self.medium.writing();
        let writes = self.answers.waiting + self.medium.writes_queued + writing;
        let inside = buffered as u32 + self.contexts.len() + writes;
        telemetry.answer(now, host, port, inside)
    }

    /// Handles a parcel that arrives from a link.
    #[inline]
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let credited = self.ports[port as usize].link.receive(parcel);
        if let Some(mut message) = parcel.message {
            message.stages.device += self.pipeline;
            let arrived = BufferedMessage {
                message,
                port,
                at: ctx.now(),
            };
            let peer = self.peer(&message);
            self.peers.ports[peer.index()] = port;
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
                        self.log_wait(line, &message, false);
                    }
                    self.buffers.requests.push_back(arrived);
                }
                Channel::M2sRwd => self.buffers.writes.push_back(arrived),
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
        self.check_backpressure(ctx.now());
    }

    /// Handles a wake-up for the medium, for joined snoops, for a change of shares, or for a port.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match token {
            MEDIUM => self.wake_medium(ctx),
            SHARES => self.change_shares(ctx),
            JOIN => self.send_due(ctx),
            port => self.pump(ctx, port as u16, true),
        }
        self.check_backpressure(ctx.now());
    }

    fn wake_medium(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        if now == self.medium.wake {
            self.medium.wake = SimTime::NEVER;
        }
        let mut done = std::mem::take(&mut self.medium.done);
        self.medium.backend.advance(now, &mut done);
        for completion in done.drain(..) {
            if completion.id < self.medium.first_write {
                self.medium_read(ctx, completion.id);
            } else {
                self.medium.write_numbers.push(completion.id);
            }
        }
        self.medium.done = done;
        while let Some((at, request)) = self.medium.ending.front().copied()
            && at <= now
        {
            self.medium.ending.pop_front();
            self.medium_read(ctx, request);
        }
        self.go_on(ctx);
    }

    /// Continues all work that has become possible.
    fn go_on(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        loop {
            while let Some(busy) = self.ready.pop_front() {
                self.request(ctx, busy);
                self.settle(ctx, busy);
            }
            self.fill_medium(ctx.now());
            if let Some(write) = self.buffers.writes.front().copied()
                && self.answers.waiting.max(self.medium.writes_queued) < self.write_limit
            {
                self.buffers.writes.pop_front();
                self.write(ctx, &write);
            } else if let Some(request) = self.buffers.requests.front().copied()
                && self.contexts.has_room()
            {
                self.buffers.requests.pop_front();
                self.accept(ctx, &request);
            } else {
                break;
            }
        }
        let ending = self.medium.ending.front().map(|(at, _)| *at);
        let next = [self.medium.backend.next_event(), ending];
        let next = next.into_iter().flatten().min();
        // A medium that has not been advanced for a while may have work that is due now.
        if let Some(at) = next.map(|at| at.max(ctx.now()))
            && at < self.medium.wake
        {
            self.medium.wake = at;
            ctx.wake_at(at, MEDIUM);
        }
    }

    #[inline]
    fn peer(&self, message: &Message) -> Peer {
        match self.peers.numbers.get(usize::from(message.source.0)) {
            Some(Some(peer)) => *peer,
            _ => panic!("{:?} is no requester of this device", message.source),
        }
    }

    #[inline]
    fn dpa(&self, message: &Message) -> Dpa {
        match self.decoders.decode(message.source, message.hpa) {
            Some(dpa) => dpa,
            None => panic!("{message:?} was routed to a device that does not own it"),
        }
    }

    /// Frees the receive buffer of a message and returns its credit.
    #[inline]
    fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, arrived: &BufferedMessage) {
        let buffer = BufferId::of(arrived.message.channel(), arrived.message.vc);
        self.ports[arrived.port as usize].link.release(ctx, buffer);
    }
}

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

/// The table's row for a state and an event. Every legal event has one.
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
