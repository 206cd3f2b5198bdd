//! A state of the CXL.cache network, and its encoding in a few words.

use cxlab_protocol::coherence::cache_agent::{self, Line};
use cxlab_protocol::coherence::cache_home::{
    self, CORES, Collected, Filter, Forward, Operation, Peer, Peers, Phase,
};
use cxlab_protocol::coherence::cache_message::{Answer, Reply, Request};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;

use super::operation::{Evicting, Pending, Pulled};
use super::{MAX_DEVICES, MAX_LINES, Model};
pub use crate::model::Data;

/// One device's line, and the messages in flight for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    pub state: cache_agent::LineState,
    pub copy: Data,
    pub arrived: Data,
    /// The message on D2H Req.
    pub request: Option<Request>,
    /// The message on D2H Rsp.
    pub answer: Option<Answer>,
    /// The data on D2H Data for a snoop.
    pub forwarded: Data,
    /// The data on D2H Data for a pull.
    pub pulled: Option<(Pulled, Data)>,
    /// The message on H2D Req.
    pub snoop: Option<Snoop>,
    /// The snoop was sent after the message on H2D Rsp.
    pub behind: bool,
    /// The message on H2D Rsp.
    pub response: Option<Reply>,
    /// The data on H2D Data.
    pub data: Data,
    pub pending: Pending,
    pub evicting: Evicting,
    /// The cores had the line when the device's `WrCur` was served.
    pub hit: bool,
    /// A read-modify-write locks the line.
    pub kept: bool,
    /// The snoop has arrived and waits for the locked line.
    pub parked: bool,
    /// Position of the request in the home's queue, from 1; 0 before the request has arrived.
    pub place: u8,
    /// Number of other requests that the home has begun since the request arrived.
    pub passed: u8,
}

/// The home's line, its buffer and the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Home {
    pub state: cache_home::LineState,
    pub buffer: Data,
    pub memory: Data,
}

/// The host's cores, as one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cores {
    /// State of the line: I, S, E or M.
    pub line: Line,
    pub copy: Data,
    pub snoop: Option<Snoop>,
    /// Pending operation: `Nothing`, `Load` or `Store`.
    pub pending: Pending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct World {
    pub wires: [[Wire; MAX_DEVICES]; MAX_LINES],
    pub home: [Home; MAX_LINES],
    pub cores: [Cores; MAX_LINES],
    /// By device: 1 while `CacheFlushed` is in flight, 2 while its `GO` is.
    pub flushed: [u8; MAX_DEVICES],
}

const RESPONSES: [Option<Reply>; 12] = [
    None,
    Some(Reply::Go(GoState::Invalid)),
    Some(Reply::Go(GoState::Shared)),
    Some(Reply::Go(GoState::Exclusive)),
    Some(Reply::Go(GoState::Modified)),
    Some(Reply::WritePull),
    Some(Reply::GoWritePull),
    Some(Reply::GoWritePullDrop),
    Some(Reply::FastGoWritePull),
    Some(Reply::ExtCmp),
    Some(Reply::Go(GoState::Error)),
    Some(Reply::GoErrWritePull),
];

const SNOOPS: [Option<Snoop>; 4] = [None, Some(Snoop::Inv), Some(Snoop::Data), Some(Snoop::Cur)];

fn place<T: PartialEq + std::fmt::Debug>(all: &[T], item: &T) -> u64 {
    match all.iter().position(|x| x == item) {
        Some(i) => i as u64,
        None => panic!("{item:?} has no code"),
    }
}

struct Pack(u64, u32);

impl Pack {
    fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(value < 1 << bits);
        self.0 |= value << self.1;
        self.1 += bits;
    }

    fn get(&mut self, bits: u32) -> usize {
        let value = (self.0 >> self.1) & ((1 << bits) - 1);
        self.1 += bits;
        value as usize
    }
}

impl Wire {
    fn encode(&self, flushed: u8) -> u64 {
        let mut p = Pack(0, 0);
        p.put(self.state.line as u64, 5);
        p.put(place(&SNOOPS, &self.state.owes), 2);
        p.put(self.copy as u64, 2);
        p.put(self.arrived as u64, 2);
        p.put(self.request.map_or(0, |r| 1 + r as u64), 4);
        p.put(self.answer.map_or(0, |a| 1 + a as u64), 3);
        p.put(self.forwarded as u64, 2);
        let (kind, data) = match self.pulled {
            None => (0, Data::None),
            Some((pulled, data)) => (1 + pulled as u64, data),
        };
        p.put(kind, 3);
        p.put(data as u64, 2);
        p.put(place(&SNOOPS, &self.snoop), 2);
        p.put(u64::from(self.behind), 1);
        p.put(place(&RESPONSES, &self.response), 4);
        p.put(self.data as u64, 2);
        p.put(self.pending as u64, 4);
        p.put(self.evicting as u64, 2);
        p.put(u64::from(self.hit), 1);
        p.put(u64::from(flushed), 2);
        p.put(u64::from(self.kept), 1);
        p.put(u64::from(self.parked), 1);
        p.put(u64::from(self.place), 2);
        p.put(u64::from(self.passed), 2);
        p.0
    }

    fn decode(word: u64) -> (Wire, u8) {
        let mut p = Pack(word, 0);
        let mut wire = Wire {
            state: cache_agent::LineState {
                line: Line::ALL[p.get(5)],
                owes: SNOOPS[p.get(2)],
            },
            copy: Data::ALL[p.get(2)],
            arrived: Data::ALL[p.get(2)],
            request: match p.get(4) {
                0 => None,
                i => Some(Request::ALL[i - 1]),
            },
            answer: match p.get(3) {
                0 => None,
                i => Some(Answer::ALL[i - 1]),
            },
            forwarded: Data::ALL[p.get(2)],
            pulled: match (p.get(3), Data::ALL[p.get(2)]) {
                (0, _) => None,
                (kind, data) => Some((Pulled::ALL[kind - 1], data)),
            },
            snoop: SNOOPS[p.get(2)],
            behind: p.get(1) == 1,
            response: RESPONSES[p.get(4)],
            data: Data::ALL[p.get(2)],
            pending: Pending::ALL[p.get(4)],
            evicting: Evicting::ALL[p.get(2)],
            hit: p.get(1) == 1,
            ..Wire::default()
        };
        let flushed = p.get(2) as u8;
        wire.kept = p.get(1) == 1;
        wire.parked = p.get(1) == 1;
        wire.place = p.get(2) as u8;
        wire.passed = p.get(2) as u8;
        (wire, flushed)
    }

    pub fn is_quiet(&self) -> bool {
        let rest = Wire {
            state: cache_agent::LineState::stable(Line::I),
            copy: Data::None,
            ..*self
        };
        self.state.is_settled() && rest == Wire::default()
    }

    pub fn is_loading_once(&self) -> bool {
        matches!(self.state.line, Line::IcD | Line::IsDI)
    }

    pub fn has_copy(&self) -> bool {
        matches!(
            self.state.line,
            Line::S | Line::E | Line::M | Line::SmA | Line::MiA | Line::EiA
        )
    }

    /// Whether the home has answered an eviction of an exclusive line, so that the copy is not used any more.
    pub fn is_evicted(&self) -> bool {
        self.state.line == Line::EiA && self.response.is_some()
    }

    /// Whether a snoop of the line is outstanding at the device.
    pub fn is_snooped(&self) -> bool {
        self.snoop.is_some()
            || self.answer.is_some()
            || self.forwarded != Data::None
            || self.state.owes.is_some()
    }

    /// Whether data are pulled and have not arrived.
    pub fn is_pulled(&self) -> bool {
        self.pulled.is_some() || self.response.is_some_and(Reply::pulls)
    }

    /// All values for the line, to be made old.
    pub fn values(&mut self) -> impl Iterator<Item = &mut Data> {
        let pulled = self.pulled.as_mut().map(|(_, data)| data);
        [
            &mut self.copy,
            &mut self.arrived,
            &mut self.forwarded,
            &mut self.data,
        ]
        .into_iter()
        .chain(pulled)
    }
}

fn phase_code(phase: Phase) -> u64 {
    match phase {
        Phase::Idle => 0,
        Phase::Snooping(o) => 1 + o as u64,
        Phase::Reading(o) => 18 + o as u64,
        Phase::Pulling(o) => 35 + o as u64,
        Phase::Writing(o) => 52 + o as u64,
    }
}

fn phase_of(code: usize) -> Phase {
    let operation = |first: usize| Operation::ALL[code - first];
    match code {
        0 => Phase::Idle,
        1..=17 => Phase::Snooping(operation(1)),
        18..=34 => Phase::Reading(operation(18)),
        35..=51 => Phase::Pulling(operation(35)),
        _ => Phase::Writing(operation(52)),
    }
}

/// Bit of the cores in an encoded set of holders.
const CORES_BIT: u8 = MAX_DEVICES as u8;

/// Encodes holders, with device `a` renamed to `names[a]`.
fn pack_peers(peers: Peers, names: &[u8; MAX_DEVICES]) -> u64 {
    peers
        .iter()
        .fold(0, |set, peer| set | 1 << pack_peer(peer, names))
}

fn pack_peer(peer: Peer, names: &[u8; MAX_DEVICES]) -> u8 {
    match peer {
        CORES => CORES_BIT,
        device => names[device.index()],
    }
}

fn peer_of(place: usize) -> Peer {
    if place == usize::from(CORES_BIT) {
        CORES
    } else {
        Peer::new(place).unwrap()
    }
}

fn peers_of(bits: usize) -> Peers {
    (0..=MAX_DEVICES)
        .filter(|place| bits >> place & 1 == 1)
        .fold(Peers::NONE, |peers, place| peers.with(peer_of(place)))
}

const COLLECTED: [Collected; 4] = [
    Collected::Nothing,
    Collected::CoresClean,
    Collected::CoresDirty,
    Collected::DeviceDirty,
];
const FORWARD: [Forward; 3] = [Forward::Nothing, Forward::AwaitData, Forward::AwaitAnswer];

fn encode_home(home: &Home, cores: &Cores, names: &[u8; MAX_DEVICES]) -> u64 {
    let state = &home.state;
    let (kind, holders) = match state.filter {
        Filter::Invalid => (0, Peers::NONE),
        Filter::Shared(peers) => (1, peers),
        Filter::Any(peer) => (2, Peers::only(peer)),
    };
    let asked = !matches!(
        state.phase,
        Phase::Idle | Phase::Snooping(Operation::EvictEntry)
    );
    let asker = if asked {
        pack_peer(state.requester, names)
    } else {
        0
    };
    let mut p = Pack(0, 0);
    p.put(kind, 2);
    p.put(pack_peers(holders, names), 3);
    p.put(pack_peers(state.waiting, names), 3);
    p.put(phase_code(state.phase), 7);
    p.put(u64::from(asker), 2);
    p.put(place(&COLLECTED, &state.collected), 2);
    p.put(place(&FORWARD, &state.forward), 2);
    p.put(home.buffer as u64, 2);
    p.put(home.memory as u64, 2);
    p.put(cores.line as u64, 2);
    p.put(cores.copy as u64, 2);
    p.put(place(&SNOOPS, &cores.snoop), 2);
    p.put(cores.pending as u64, 4);
    p.0
}

fn decode_home(word: u64) -> (Home, Cores) {
    let mut p = Pack(word, 0);
    let kind = p.get(2);
    let holders = peers_of(p.get(3));
    let home = Home {
        state: cache_home::LineState {
            filter: match kind {
                0 => Filter::Invalid,
                1 => Filter::Shared(holders),
                _ => Filter::Any(holders.iter().next().unwrap()),
            },
            waiting: peers_of(p.get(3)),
            phase: phase_of(p.get(7)),
            requester: peer_of(p.get(2)),
            collected: COLLECTED[p.get(2)],
            forward: FORWARD[p.get(2)],
        },
        buffer: Data::ALL[p.get(2)],
        memory: Data::ALL[p.get(2)],
    };
    let cores = Cores {
        line: Line::ALL[p.get(2)],
        copy: Data::ALL[p.get(2)],
        snoop: SNOOPS[p.get(2)],
        pending: Pending::ALL[p.get(4)],
    };
    (home, cores)
}

pub const WORDS: usize = MAX_LINES * (MAX_DEVICES + 1);
pub type Code = [u64; WORDS];

/// The names under which a state may be encoded: all orders of the devices.
const ORDERS: [[u8; MAX_DEVICES]; 2] = [[0, 1], [1, 0]];

impl Model {
    /// The smallest encoding among the states that differ only by the names of devices and lines.
    pub fn code(&self, world: &World) -> Code {
        let (devices, lines) = (self.config.devices, self.config.lines);
        let mut best = [u64::MAX; WORDS];
        for names in &ORDERS[..devices] {
            for first in 0..lines {
                let mut code = [0; WORDS];
                for l in 0..lines {
                    let from = (l + first) % lines;
                    let to = l * (devices + 1);
                    for a in 0..devices {
                        let flushed = if l == 0 { world.flushed[a] } else { 0 };
                        code[to + usize::from(names[a])] = world.wires[from][a].encode(flushed);
                    }
                    code[to + devices] = encode_home(&world.home[from], &world.cores[from], names);
                }
                if !self.config.reduced {
                    return code;
                }
                best = best.min(code);
            }
        }
        best
    }

    pub fn world(&self, code: &[u64]) -> World {
        let (devices, lines) = (self.config.devices, self.config.lines);
        let mut world = World {
            wires: [[Wire::default(); MAX_DEVICES]; MAX_LINES],
            home: [Home::default(); MAX_LINES],
            cores: [Cores::default(); MAX_LINES],
            flushed: [0; MAX_DEVICES],
        };
        for l in 0..lines {
            let from = l * (devices + 1);
            for a in 0..devices {
                let flushed;
                (world.wires[l][a], flushed) = Wire::decode(code[from + a]);
                if l == 0 {
                    world.flushed[a] = flushed;
                }
            }
            (world.home[l], world.cores[l]) = decode_home(code[from + devices]);
        }
        world
    }
}
