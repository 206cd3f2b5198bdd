//! A caching requester, links, and a device that responds by a script.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, BytesPerSec, Dpa, Hpa, LineAddr, Picos, SimTime};
use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Simulation, Stop, Wire};
use cxlab_host::{
    AddressMap, AddressWindow, CacheParams, CachingConfig, CachingRequester, Observation,
    RequestAgent, RequestRow, RequesterConfig, RequesterParams,
};
use cxlab_link::{
    BufferId, CreditTable, LinkParams, LinkPort, Outbox, PacketHeader, Parcel, PortConfig,
    Transmission,
};
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{CacheMeta, LatencyStages, LongStage, MemMeta, Message, Opcode, PortId};
use cxlab_workload::{MemOp, OpKind, OpSource};

use crate::home::Home;

/// A link on which every message takes 1 ns, and the flight 1 ns.
pub fn link(credits: u8) -> LinkParams {
    LinkParams {
        transmission: Transmission::Packet,
        bandwidth: Some(BytesPerSec(64_000_000_000)),
        packet: PacketHeader {
            header: Bytes(64),
            data_header: Bytes(0),
            staging: Bytes(0),
        },
        propagation: Picos(1_000),
        port_delay: Picos(0),
        credits: CreditTable {
            m2s_req: Some(credits.into()),
            m2s_rwd: Some(credits.into()),
            s2m_ndr: Some(credits.into()),
            s2m_drs: Some(credits.into()),
            s2m_bisnp: Some(credits.into()),
            m2s_birsp: Some(credits.into()),
            ..CreditTable::default()
        },
        ..LinkParams::default()
    }
}

pub fn end(params: &LinkParams, port: u16, egress: Picos) -> LinkPort {
    LinkPort::new(
        params,
        &PortConfig {
            port,
            egress,
            ingress: Picos::ZERO,
            vcs: 1,
            windows: params.windows(Picos::ZERO),
            seed: 1,
            name: "test",
        },
    )
}

/// The wire to port `peer_port` of component `peer`, with its least latency.
pub fn wire(peer: usize, peer_port: usize) -> Wire {
    Wire {
        peer: ComponentId::from(peer),
        peer_port: peer_port as u16,
        min_latency: Picos(1_000),
    }
}

pub struct List(pub VecDeque<MemOp>);

cxlab_engine::cannot_save!(List, "a list of a test");

impl OpSource for List {
    fn next_op(&mut self, _rng: &mut StreamRng) -> Option<MemOp> {
        self.0.pop_front()
    }
}

/// A load of line `line`.
pub fn read(line: u64) -> MemOp {
    MemOp {
        hpa: Hpa(64 * line),
        kind: OpKind::Read,
        lines: 1,
        not_before: SimTime::ZERO,
        dependent: false,
    }
}

/// A store to line `line`.
pub fn write(line: u64) -> MemOp {
    MemOp {
        kind: OpKind::Write,
        ..read(line)
    }
}

/// The same operation, not before a time in nanoseconds.
pub fn at(nanoseconds: u64, op: MemOp) -> MemOp {
    MemOp {
        not_before: SimTime(nanoseconds * 1_000),
        ..op
    }
}

/// First line of the second device. The first device is HDM-DB, the second HDM-H.
pub const HDM_H: u64 = 1024;
/// Times of an access to the cache, and of processing, in picoseconds.
pub const CACHE: u64 = 5_000;
pub const PROCESS: u64 = 3_000;
/// Round trip of an idle system: a message and a flight each way.
pub const TRIP: u64 = PROCESS + CACHE + 4_000;
/// First edge port of a device; requesters are numbered from 0.
pub const DEVICE: u16 = 100;

pub fn params(outstanding: u32) -> RequesterParams {
    RequesterParams {
        process_time: Picos(PROCESS),
        outstanding,
        ..RequesterParams::default()
    }
}

pub fn cache(lines: u64, ways: u32) -> CacheParams {
    CacheParams {
        ways,
        access_time: Picos(CACHE),
        ..CacheParams::of_size(Bytes(64 * lines))
    }
}

pub fn requester(
    number: u16,
    params: RequesterParams,
    cache: CacheParams,
    credits: u8,
    ops: VecDeque<MemOp>,
) -> CachingRequester {
    let size = Bytes(64 * HDM_H);
    let windows = (0..2).map(|device| {
        let base = Hpa(size.0 * device);
        AddressWindow {
            base,
            size,
            set: InterleaveSet::new(base, size, Bytes(256), 1).unwrap(),
            targets: vec![PortId(DEVICE + device as u16)],
            first: vec![Dpa(0)],
        }
    });
    let egress = params.process_time + cache.access_time;
    CachingRequester::new(CachingConfig {
        requester: RequesterConfig {
            steps: Vec::new(),
            partial: false,
            values: false,
            joins: Picos::ZERO,
            leaves: None,
            params,
            number,
            port_id: PortId(number),
            ports: vec![end(&link(credits), 0, egress)],
            port_to: vec![],
            first_device: DEVICE,
            map: Arc::new(AddressMap::new(windows.collect())),
            source: Box::new(List(ops)),
            rng: StreamRng::new(1, "host"),
            limit: None,
            log: true,
        },
        cache,
        classes: vec![CoherenceClass::HdmDb, CoherenceClass::HdmH],
        policy: None,
        policy_rng: StreamRng::new(1, "policy"),
        observe: true,
    })
    .unwrap()
}

/// A message of a device, after a delay from the message to which it responds, in picoseconds.
pub struct Reply(pub u64, pub Message);

/// The messages that a device sends when a message arrives.
pub type Script = Box<dyn FnMut(&Message) -> Vec<Reply> + Send>;

/// A response to a request.
pub fn respond(request: &Message, opcode: Opcode, data: u16) -> Message {
    Message {
        source: request.destination,
        destination: request.source,
        opcode,
        data,
        meta: MemMeta::NONE,
        cache: CacheMeta::NONE,
        hops: 0,
        ..*request
    }
}

/// A snoop of `lines` lines for requester 0.
pub fn snoop(opcode: Opcode, line: u64, lines: u8) -> Message {
    Message {
        hpa: Hpa(64 * line),
        issued_ps: 0,
        stages: LatencyStages::default(),
        tag: 7_000 + line as u32,
        source: PortId(DEVICE),
        destination: PortId(0),
        opcode,
        meta: MemMeta::NONE,
        cache: CacheMeta::NONE,
        lines,
        data: 0,
        vc: 0,
        hops: 0,
    }
}

/// A device that responds by a script and sends snoops at set times.
pub struct Peer {
    pub link: LinkPort,
    pub outbox: Outbox,
    pub script: Script,
    pub snoops: Vec<(u64, Message)>,
    pub due: BTreeMap<(u64, usize), Message>,
    pub count: usize,
    pub seen: Vec<(u64, Message)>,
}

const OUTBOX: u32 = 1;

impl Peer {
    fn schedule(&mut self, ctx: &mut Ctx<'_, Parcel>, time: u64, message: Message) {
        self.due.insert((time, self.count), message);
        self.count += 1;
        ctx.wake_at(SimTime(time), 0);
    }
}

#[allow(clippy::large_enum_variant)]
pub enum Node {
    Host(CachingRequester),
    Peer(Peer),
    Home(Home),
}

impl Component for Node {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        match self {
            Node::Host(host) => host.start(ctx),
            Node::Peer(peer) => {
                for (time, snoop) in std::mem::take(&mut peer.snoops) {
                    peer.schedule(ctx, time, snoop);
                }
            }
            Node::Home(_) => {}
        }
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            Node::Host(host) => host.receive(ctx, port, parcel),
            Node::Peer(peer) => {
                peer.link.receive(parcel);
                if let Some(message) = parcel.message {
                    peer.link
                        .release(ctx, BufferId::of(message.channel(), message.vc));
                    peer.seen.push((ctx.now().0, message));
                    for Reply(after, mut reply) in (peer.script)(&message) {
                        reply.stages.add(LongStage::Media, after);
                        peer.schedule(ctx, ctx.now().0 + after, reply);
                    }
                }
                peer.outbox.pump(ctx, &mut peer.link, OUTBOX, |_, _| {});
            }
            Node::Home(home) => home.receive(ctx, port, parcel),
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Host(host) => host.wake(ctx, token),
            Node::Peer(peer) if token == OUTBOX => {
                peer.outbox.wake(ctx, &mut peer.link, OUTBOX, |_, _| {});
            }
            Node::Peer(peer) => {
                let now = ctx.now();
                while let Some(entry) = peer.due.first_entry()
                    && entry.key().0 <= now.0
                {
                    let message = entry.remove();
                    peer.outbox
                        .offer(ctx, &mut peer.link, OUTBOX, message, now, |_, _| {});
                }
            }
            Node::Home(home) => home.wake(ctx, token),
        }
    }
}

/// The results of a scripted run.
pub struct Ran {
    pub rows: Vec<RequestRow>,
    pub observed: Vec<Observation>,
    simulation: Simulation<Node>,
}

impl Ran {
    pub fn host(&self) -> &CachingRequester {
        let Node::Host(host) = self.simulation.component(0) else {
            panic!("a host")
        };
        host
    }
    /// Messages received from the requester, with their times of arrival.
    pub fn seen(&self) -> &[(u64, Message)] {
        let Node::Peer(peer) = self.simulation.component(1) else {
            panic!("a peer")
        };
        &peer.seen
    }
    /// Opcodes and lines of the messages received from the requester.
    pub fn sent(&self) -> Vec<(Opcode, u64)> {
        let seen = self.seen().iter();
        seen.map(|(_, message)| (message.opcode, message.hpa.0 / 64))
            .collect()
    }
    /// Arrival of the first message with this opcode.
    pub fn time_of(&self, opcode: Opcode) -> u64 {
        let mut seen = self.seen().iter();
        seen.find(|(_, message)| message.opcode == opcode)
            .unwrap()
            .0
    }
    pub fn line(&self, line: u64) -> cxlab_protocol::coherence::requester::Line {
        self.host().line(LineAddr(line))
    }
    /// Latency of each operation, in the order of issue.
    pub fn latencies(&self) -> Vec<u64> {
        let mut rows: Vec<&RequestRow> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.id);
        rows.iter()
            .map(|row| row.completed_ps - row.issued_ps)
            .collect()
    }
    pub fn row(&self, id: u64) -> &RequestRow {
        self.rows.iter().find(|row| row.id == id).unwrap()
    }
}

/// Runs a requester against a device until everything has completed.
pub fn run(
    params: RequesterParams,
    cache: CacheParams,
    ops: &[MemOp],
    snoops: &[(u64, Message)],
    script: Script,
) -> Ran {
    let host = requester(0, params, cache, 128, ops.iter().copied().collect());
    let peer = Peer {
        link: end(&link(128), 0, Picos::ZERO),
        outbox: Outbox::default(),
        script,
        snoops: snoops
            .iter()
            .map(|(time, message)| (time * 1_000, *message))
            .collect(),
        due: BTreeMap::new(),
        count: 0,
        seen: vec![],
    };
    let nodes = vec![Node::Host(host), Node::Peer(peer)];
    let wires = vec![vec![wire(1, 0)], vec![wire(0, 0)]];
    let mut simulation = Simulation::new(nodes, wires);
    let outcome = simulation.run(1, SimTime(1_000_000_000), &Monitor::default());
    assert_eq!(outcome.stop, Stop::Exhausted);
    let Node::Host(host) = simulation.component_mut(0) else {
        panic!("a host")
    };
    assert!(host.is_done(), "everything has completed");
    assert_eq!(host.in_flight(), 0);
    let (rows, observed) = (host.take_rows(), host.take_observations());
    assert_eq!(rows.len(), ops.len());
    Ran {
        rows,
        observed,
        simulation,
    }
}
