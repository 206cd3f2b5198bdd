//! A device with one link to each peer, or one link to a hub with all peers. A message takes 1 ns
//! on a link and 1 ns on its wire.

use std::collections::VecDeque;

use cxlab_cache::{VictimPolicy, victim};
use cxlab_device::{
    CoherentConfig, CoherentDevice, DeviceParams, QosConfig, QosParams, SnoopFilterParams,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, Picos, SimTime};
use cxlab_engine::{Component, Ctx, Monitor, Simulation, Wire};
use cxlab_link::{LinkPort, Parcel};
use cxlab_memory::fixed::FixedParams;
use cxlab_memory::{Medium, MediumSite};
use cxlab_protocol::coherence::dcoh::Filter;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, Snoop};
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{DecoderTable, DeviceDecoder, MemMeta, Message, Opcode, PortId};
use cxlab_testkit::{Endpoint, credits, end, link, wire};

use crate::cache::Cache;

/// Time of a message on the link and the wire, in picoseconds.
pub const WAY: u64 = 2_000;
/// Times of the controller and of a filter lookup.
pub const PROCESS: u64 = 5_000;
pub const LOOKUP: u64 = 700;
/// Time from a peer to the device's agent.
pub const THERE: u64 = WAY + PROCESS + LOOKUP;
/// Time of an access in the medium.
pub const MEDIUM: u64 = 46_000;
/// Edge port of the device; peers have 20, 21 and so on.
pub const DEVICE: PortId = PortId(7);

pub fn peer_id(number: usize) -> PortId {
    PortId(20 + number as u16)
}

/// Parameters of a system, besides its peers.
pub struct Setup {
    pub params: DeviceParams,
    pub filter: SnoopFilterParams,
    pub policy: Box<dyn VictimPolicy>,
    pub medium: FixedParams,
    pub credits: u8,
    pub targets: u32,
    pub seed: u64,
    /// Whether all peers share one link of the device.
    pub hub: bool,
    /// Load telemetry of the device, if any.
    pub qos: Option<QosParams>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            params: DeviceParams {
                process_time: Picos(PROCESS),
                contexts: 16,
                ..DeviceParams::default()
            },
            filter: SnoopFilterParams {
                lines: 8,
                lookup_time: Picos(LOOKUP),
                ..SnoopFilterParams::default()
            },
            policy: victim::build("fifo").unwrap(),
            medium: FixedParams {
                latency: Picos(MEDIUM),
                ..FixedParams::default()
            },
            credits: 32,
            targets: 1,
            seed: 1,
            hub: false,
            qos: None,
        }
    }
}

impl Setup {
    /// The interleave set; the device is its last target.
    pub fn window(&self) -> InterleaveSet {
        InterleaveSet::new(Hpa(0), Bytes(1 << 20), Bytes(256), self.targets).unwrap()
    }
}

/// A system with a device, which is the last component, and a port for each peer.
pub fn system(setup: Setup, peers: usize, node: impl Fn(usize, LinkPort) -> Node) -> System {
    let params = link(credits(setup.credits));
    let decoder = DeviceDecoder::whole(setup.window(), setup.targets - 1);
    let ingress = setup.filter.ingress(&setup.params);
    let far = if setup.hub { Picos::ZERO } else { ingress };
    let end = |port, ingress| end(&params, port, Picos::ZERO, ingress);
    let mut nodes: Vec<Node> = (0..peers).map(|number| node(number, end(0, far))).collect();
    let ports = if setup.hub { 1 } else { peers };
    let device = CoherentDevice::new(CoherentConfig {
        params: setup.params,
        filter: setup.filter,
        policy: setup.policy,
        policy_rng: StreamRng::new(setup.seed, "policy"),
        ports: (0..ports as u16)
            .map(|port| end(port, Picos::ZERO))
            .collect(),
        backend: setup.medium.backend(MediumSite::alone(Bytes(1 << 30), 1)),
        decoders: DecoderTable::common(vec![decoder]),
        port_id: DEVICE,
        peers: (0..peers).map(peer_id).collect(),
        qos: setup.qos.map(|params| QosConfig {
            thresholds: params.thresholds(1, 0, 256),
            params,
            edge_ports: usize::from(peer_id(peers).0),
            shares: Vec::new(),
        }),
        shares: Vec::new(),
        observe: true,
    });
    let mut wires: Vec<Vec<Wire>> = (0..peers).map(|port| vec![wire(peers, port)]).collect();
    let mut fan: Vec<Wire> = (0..peers).map(|peer| wire(peer, 0)).collect();
    if setup.hub {
        let ends = (0..peers as u16).map(|port| end(port, Picos::ZERO));
        let ends = ends.chain([end(peers as u16, ingress)]);
        nodes.push(Node::Hub(ends.map(Endpoint::new).collect()));
        fan.push(wire(peers + 1, 0));
        wires.push(fan);
        wires.push(vec![wire(peers, peers)]);
    } else {
        wires.push(fan);
    }
    nodes.push(Node::Device(Box::new(device.unwrap())));
    System {
        simulation: Simulation::new(nodes, wires),
    }
}

pub struct System {
    pub simulation: Simulation<Node>,
}

impl System {
    pub fn run(&mut self, until: SimTime) {
        self.simulation.run(1, until, &Monitor::default());
    }

    pub fn device(&self) -> &CoherentDevice {
        match self.simulation.components().last() {
            Some(Node::Device(device)) => device,
            _ => panic!("the last component is the device"),
        }
    }

    /// The holders of a line that the device knows.
    pub fn holders(&self, line: u64) -> Option<Filter> {
        self.device().holders(PortId(0), Hpa(64 * line))
    }

    /// Messages that a scripted peer received, with their times.
    pub fn seen(&self, peer: usize) -> &[(u64, Message)] {
        match self.simulation.component(peer) {
            Node::Script(script) => &script.seen,
            _ => panic!("a scripted peer"),
        }
    }

    /// Messages that scripted peers received, in order of time: picoseconds, peer, opcode, first
    /// line, number of lines.
    pub fn chart(&self) -> Vec<(u64, usize, Opcode, u64, u8)> {
        let mut chart = Vec::new();
        for peer in 0..self.simulation.components().len() - 1 {
            let seen = self.seen(peer).iter();
            chart.extend(seen.map(|(at, m)| (*at, peer, m.opcode, m.hpa.0 / 64, m.lines)));
        }
        chart.sort_by_key(|(at, peer, ..)| (*at, *peer));
        chart
    }
}

/// A component of a test.
#[allow(clippy::large_enum_variant)]
pub enum Node {
    Script(Script),
    Cache(Cache),
    Device(Box<CoherentDevice>),
    /// Forwards between its first ports and its last, with unbounded buffers.
    Hub(Vec<Endpoint>),
}

impl Component for Node {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        match self {
            Node::Script(script) => script.start(ctx),
            Node::Cache(cache) => cache.start(ctx),
            Node::Device(_) | Node::Hub(_) => {}
        }
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            Node::Script(script) => script.receive(ctx, parcel),
            Node::Cache(cache) => cache.receive(ctx, parcel),
            Node::Device(device) => device.receive(ctx, port, parcel),
            Node::Hub(ends) => forward(ends, ctx, port, parcel),
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Script(script) => script.wake(ctx, token),
            Node::Cache(cache) => cache.wake(ctx, token),
            Node::Device(device) => device.wake(ctx, token),
            Node::Hub(ends) => ends[token as usize].wake(ctx, token),
        }
    }
}

/// Token of the wake-ups of a peer's link.
pub const PORT: u32 = 0;

fn forward(ends: &mut [Endpoint], ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
    let device = ends.len() - 1;
    ends[usize::from(port)].credits(ctx, u32::from(port), parcel);
    if let Some(message) = parcel.message {
        ends[usize::from(port)].release(ctx, &message);
        let to = match usize::from(port) {
            from if from < device => device,
            _ => (0..device)
                .find(|number| peer_id(*number) == message.destination)
                .unwrap(),
        };
        ends[to].send(ctx, to as u32, message);
    }
}

/// Messages that a scripted peer sends in response to a message.
pub type React = fn(&Message) -> Vec<Message>;

/// Sends messages at given times, and responds.
pub struct Script {
    number: usize,
    endpoint: Endpoint,
    plan: VecDeque<(u64, Message)>,
    react: React,
    seen: Vec<(u64, Message)>,
}

const PLAN: u32 = 1;

impl Script {
    pub fn new(number: usize, link: LinkPort, plan: &[(u64, Message)], react: React) -> Self {
        Script {
            number,
            endpoint: Endpoint::new(link),
            plan: plan.iter().copied().collect(),
            react,
            seen: vec![],
        }
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for (at, _) in &self.plan {
            ctx.wake_at(SimTime(*at), PLAN);
        }
    }

    fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, message: Message) {
        let message = Message {
            issued_ps: ctx.now().0,
            source: peer_id(self.number),
            ..message
        };
        self.endpoint.send(ctx, PORT, message);
    }

    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, parcel: &Parcel) {
        self.endpoint.credits(ctx, PORT, parcel);
        if let Some(message) = parcel.message {
            self.endpoint.release(ctx, &message);
            check_response(ctx.now(), &message);
            self.seen.push((ctx.now().0, message));
            for answer in (self.react)(&message) {
                self.send(ctx, answer);
            }
        }
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token == PLAN {
            let (_, message) = self.plan.pop_front().unwrap();
            self.send(ctx, message);
        } else {
            self.endpoint.wake(ctx, PORT);
        }
    }
}

/// Checks a response: its stages sum to the time since its request was issued, its source is the
/// device, and it returns no metadata.
pub fn check_response(now: SimTime, message: &Message) {
    assert_eq!(
        message.stages.total(),
        now - SimTime(message.issued_ps),
        "{message:?}"
    );
    assert_eq!((message.source, message.vc), (DEVICE, 0));
    // The device stores no metadata (CXL 3.1, tables 3-49 and 3-52).
    assert_eq!(message.meta, MemMeta::NONE, "{message:?}");
}

/// A message of a peer, with the line's number as tag.
pub fn message(what: M2s, line: u64) -> Message {
    let (field, value, snoop) = what.fields();
    Message {
        meta: MemMeta::new(field, value, snoop),
        ..Message::new(
            what.opcode(),
            Hpa(64 * line),
            line as u32,
            PortId(0),
            DEVICE,
            SimTime(0),
        )
    }
}

/// The response to a snoop, for one line or a block like the snoop.
pub fn answer(snoop: &Message, kept: KeptCopy) -> Message {
    let block = Snoop::from_opcode(snoop.opcode).unwrap().1;
    Message {
        opcode: match block {
            true => kept.block_opcode(),
            false => kept.opcode(),
        },
        hpa: snoop.hpa,
        tag: snoop.tag,
        lines: snoop.lines,
        ..message(M2s::BiRsp(kept), 0)
    }
}
