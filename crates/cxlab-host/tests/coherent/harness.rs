//! A caching requester, links, and a device that responds by a script.

use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, LineAddr, Picos, SimTime};
use cxlab_engine::{Component, Ctx, Monitor, Simulation, Stop};
use cxlab_host::{
    CacheParams, CachingConfig, CachingRequester, Observation, RequestAgent, RequestRow,
    RequesterConfig, RequesterParams,
};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::coherence::requester::Line;
use cxlab_protocol::{CacheMeta, LongStage, MemMeta, Message, Opcode, PortId};
use cxlab_testkit::{self as kit, Endpoint, Operations, Schedule, end, link, wire};
use cxlab_workload::{MemOp, OpSource};

use crate::home::Home;

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
    let source = Box::new(Operations(ops));
    with_source(number, params, cache, credits, source, false)
}

/// A requester whose operations come from `source`. If it is `snooped`, another program has caches above.
pub fn with_source(
    number: u16,
    params: RequesterParams,
    cache: CacheParams,
    credits: u8,
    source: Box<dyn OpSource>,
    snooped: bool,
) -> CachingRequester {
    let egress = params.process_time + cache.access_time;
    CachingRequester::new(CachingConfig {
        requester: RequesterConfig {
            steps: Vec::new(),
            partial: false,
            values: false,
            joins_after: Picos::ZERO,
            leaves_after: None,
            params,
            number,
            port_id: PortId(number),
            ports: vec![end(&link(kit::credits(credits)), 0, egress, Picos::ZERO)],
            port_to: vec![],
            first_device: DEVICE,
            map: kit::memory(2, HDM_H, DEVICE),
            source,
            rng: StreamRng::new(1, "host"),
            limit: None,
            log: true,
        },
        cache,
        classes: vec![CoherenceClass::HdmDb, CoherenceClass::HdmH],
        policy: None,
        policy_rng: StreamRng::new(1, "policy"),
        snooped,
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
        lines,
        ..Message::new(
            opcode,
            Hpa(64 * line),
            7_000 + line as u32,
            PortId(DEVICE),
            PortId(0),
            SimTime(0),
        )
    }
}

/// A device that responds by a script and sends snoops at set times.
pub struct Peer {
    pub endpoint: Endpoint,
    pub script: Script,
    /// Snoops to send, with their times in nanoseconds.
    pub snoops: Vec<(u64, Message)>,
    pub due: Schedule<Message>,
    pub seen: Vec<(u64, Message)>,
}

const OUTBOX: u32 = 1;

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
                    peer.due.at(ctx, time * 1_000, snoop);
                }
            }
            Node::Home(_) => {}
        }
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            Node::Host(host) => host.receive(ctx, port, parcel),
            Node::Peer(peer) => {
                peer.endpoint.link.receive(parcel);
                if let Some(message) = parcel.message {
                    peer.endpoint.release(ctx, &message);
                    peer.seen.push((ctx.now().0, message));
                    for Reply(after, mut reply) in (peer.script)(&message) {
                        reply.stages.add(LongStage::Media, after);
                        peer.due.at(ctx, ctx.now().0 + after, reply);
                    }
                }
                peer.endpoint.pump(ctx, OUTBOX);
            }
            Node::Home(home) => home.receive(ctx, port, parcel),
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Host(host) => host.wake(ctx, token),
            Node::Peer(peer) if token == OUTBOX => peer.endpoint.wake(ctx, OUTBOX),
            Node::Peer(peer) => {
                while let Some(message) = peer.due.next(ctx.now()) {
                    peer.endpoint.send(ctx, OUTBOX, message);
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
    pub fn line(&self, line: u64) -> Line {
        self.host().line(LineAddr(line))
    }
    /// Checks the messages received from the requester: opcodes and lines.
    #[track_caller]
    pub fn has_sent(&self, expected: &[(Opcode, u64)]) {
        assert_eq!(self.sent(), expected);
    }
    /// Latency of each operation, in the order of issue.
    pub fn latencies(&self) -> Vec<u64> {
        let mut rows = self.rows.clone();
        rows.sort_by_key(|row| row.id);
        let latencies = rows.iter().map(|row| row.completed_ps - row.issued_ps);
        latencies.collect()
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
        endpoint: Endpoint::new(end(&link(kit::credits(128)), 0, Picos::ZERO, Picos::ZERO)),
        script,
        snoops: snoops.to_vec(),
        due: Schedule::new(0),
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
