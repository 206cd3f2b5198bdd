//! A state of the network, and its encoding in a few words.

use cxlab_protocol::coherence::dcoh::{self, Filter, Operation, Peers, Phase};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{Kept, M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{self, Event, Held, Line};

use super::{MAX_AGENTS, MAX_LINES, Model, Property, check, peer};
use crate::search::System;

/// The age of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Data {
    #[default]
    None,
    Fresh,
    Recent,
    Stale,
}

impl Data {
    pub const ALL: [Data; 4] = [Data::None, Data::Fresh, Data::Recent, Data::Stale];
}

/// One requester's line, and the messages in flight for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    pub state: requester::LineState,
    pub copy: Data,
    pub arrived: Data,
    pub request: Option<M2s>,
    pub at_head: bool,
    pub write: Option<(MetaValue, Data)>,
    pub conflict: bool,
    pub response: Option<(Kept, bool)>,
    pub snoop: Option<(Snoop, bool)>,
    pub completion: Option<S2m>,
    /// 0 none, 1 free to arrive, 2 behind a completion.
    pub ack: u8,
    pub data: Data,
    /// 0 none. Responses buffered for the block: 1 unanswered, 2, 5 and 6 answered `BIRspI`,
    /// `BIRspS` and `BIRspE`. Responses sent one by one: 3 unanswered, 4 answered.
    pub block: u8,
    /// The operation that the processor waits for.
    pub pending: Pending,
}

/// A pending operation of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pending {
    #[default]
    Nothing,
    Load,
    LoadShared,
    LoadOnce,
    Store,
    Flush,
    /// A read by the device's own agent.
    LocalRead,
    LocalWrite,
}

impl Pending {
    const ALL: [Pending; 8] = [
        Pending::Nothing,
        Pending::Load,
        Pending::LoadShared,
        Pending::LoadOnce,
        Pending::Store,
        Pending::Flush,
        Pending::LocalRead,
        Pending::LocalWrite,
    ];

    pub(super) fn of(event: Event) -> Pending {
        match event {
            Event::Load => Pending::Load,
            Event::LoadShared => Pending::LoadShared,
            Event::LoadOnce => Pending::LoadOnce,
            Event::Store => Pending::Store,
            Event::Flush => Pending::Flush,
            _ => Pending::Nothing,
        }
    }

    pub(super) fn complete(&mut self, what: &[Pending]) -> Result<(), Property> {
        check(
            what.contains(&std::mem::take(self)),
            Property::ExactResponses,
        )
    }
}

/// The DCOH's line and its medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Home {
    pub state: dcoh::LineState,
    pub medium: Data,
    pub read: Data,
    pub pending: Pending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct World {
    pub wires: [[Wire; MAX_AGENTS]; MAX_LINES],
    pub home: [Home; MAX_LINES],
}

const COMPLETIONS: [Option<S2m>; 5] = [
    None,
    Some(S2m::Cmp),
    Some(S2m::CmpS),
    Some(S2m::CmpE),
    Some(S2m::CmpM),
];

const REQUESTS: [Option<M2s>; 8] = [
    None,
    Some(M2s::MemRdData),
    Some(M2s::MemRdShared),
    Some(M2s::MemRdOwn),
    Some(M2s::MemRdCur),
    Some(M2s::MemInvOwn),
    Some(M2s::MemInvFlush),
    Some(M2s::MemClnEvct),
];

const HELDS: [Held; 7] = [
    Held::Nothing,
    Held::AwaitAck(Snoop::Inv),
    Held::AwaitAck(Snoop::Data),
    Held::AwaitAck(Snoop::Cur),
    Held::Deferred(Snoop::Inv),
    Held::Deferred(Snoop::Data),
    Held::Deferred(Snoop::Cur),
];

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
    pub(super) fn encode(&self) -> u64 {
        if *self == Wire::default() {
            return 0;
        }
        let mut p = Pack(0, 0);
        p.put(self.state.line as u64, 5);
        p.put(place(&HELDS, &self.state.held), 3);
        p.put(self.copy as u64, 2);
        p.put(self.arrived as u64, 2);
        p.put(place(&REQUESTS, &self.request), 3);
        p.put(u64::from(self.at_head), 1);
        let (write, data) = match self.write {
            None => (0, Data::None),
            Some((MetaValue::Invalid, data)) => (1, data),
            Some((MetaValue::Shared, data)) => (2, data),
            Some((MetaValue::Any, data)) => (3, data),
        };
        p.put(write, 2);
        p.put(data as u64, 2);
        p.put(u64::from(self.conflict), 1);
        p.put(
            self.response
                .map_or(0, |(kept, block)| 1 + kept as u64 + 3 * u64::from(block)),
            3,
        );
        p.put(
            self.snoop
                .map_or(0, |(snoop, block)| 1 + snoop as u64 + 3 * u64::from(block)),
            3,
        );
        p.put(place(&COMPLETIONS, &self.completion), 3);
        p.put(u64::from(self.ack), 2);
        p.put(self.data as u64, 2);
        p.put(u64::from(self.block), 3);
        p.put(self.pending as u64, 3);
        p.0
    }

    pub(super) fn decode(word: u64) -> Wire {
        if word == 0 {
            return Wire::default();
        }
        let mut p = Pack(word, 0);
        Wire {
            state: requester::LineState {
                line: Line::ALL[p.get(5)],
                held: HELDS[p.get(3)],
            },
            copy: Data::ALL[p.get(2)],
            arrived: Data::ALL[p.get(2)],
            request: REQUESTS[p.get(3)],
            at_head: p.get(1) == 1,
            write: {
                let value = p.get(2);
                let data = Data::ALL[p.get(2)];
                match value {
                    0 => None,
                    1 => Some((MetaValue::Invalid, data)),
                    2 => Some((MetaValue::Shared, data)),
                    _ => Some((MetaValue::Any, data)),
                }
            },
            conflict: p.get(1) == 1,
            response: match p.get(3) {
                0 => None,
                i => Some((Kept::ALL[(i - 1) % 3], i > 3)),
            },
            snoop: match p.get(3) {
                0 => None,
                i => Some((Snoop::ALL[(i - 1) % 3], i > 3)),
            },
            completion: COMPLETIONS[p.get(3)],
            ack: p.get(2) as u8,
            data: Data::ALL[p.get(2)],
            block: p.get(3) as u8,
            pending: Pending::ALL[p.get(3)],
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.state.is_settled()
            && self.request.is_none()
            && self.write.is_none()
            && !self.conflict
            && self.response.is_none()
            && self.snoop.is_none()
            && self.completion.is_none()
            && self.ack == 0
            && self.data == Data::None
            && self.block == 0
    }

    pub(super) fn is_loading_once(&self) -> bool {
        matches!(self.state.line, Line::IcAD | Line::IcA | Line::IcD)
    }

    pub(super) fn has_copy(&self) -> bool {
        matches!(
            self.state.line,
            Line::S | Line::E | Line::M | Line::SmA | Line::MsA | Line::MeA
        )
    }
}

fn phase_code(phase: Phase) -> u64 {
    match phase {
        Phase::Idle => 0,
        Phase::Snooping(o) => 1 + o as u64,
        Phase::Reading(o) => 10 + o as u64,
    }
}

fn phase_of(code: usize) -> Phase {
    match code {
        0 => Phase::Idle,
        1..=9 => Phase::Snooping(Operation::ALL[code - 1]),
        _ => Phase::Reading(Operation::ALL[code - 10]),
    }
}

impl Home {
    /// Encodes the state, with requester `a` renamed to `names[a]`.
    pub(super) fn encode(&self, names: &[u8; MAX_AGENTS]) -> u64 {
        let rename = |peers: Peers| {
            let renamed = peers
                .iter()
                .fold(0, |set, peer| set | 1 << names[peer.index()]);
            renamed as u64
        };
        let (kind, holders) = match self.state.filter {
            Filter::Invalid => (0, 0),
            Filter::Shared(peers) => (1, rename(peers)),
            Filter::Any(peer) => (2, rename(Peers::only(peer))),
        };
        let mut p = Pack(0, 0);
        p.put(kind, 2);
        p.put(holders, 3);
        p.put(rename(self.state.waiting), 3);
        p.put(phase_code(self.state.phase), 5);
        let asker = match self.state.phase {
            Phase::Idle
            | Phase::Snooping(
                Operation::EvictEntry | Operation::LocalRead | Operation::LocalWrite,
            )
            | Phase::Reading(Operation::LocalRead) => 0,
            _ => names[self.state.requester.index()],
        };
        p.put(u64::from(asker), 2);
        p.put(self.medium as u64, 2);
        p.put(self.read as u64, 2);
        p.put(self.pending as u64, 3);
        p.0
    }

    pub(super) fn decode(word: u64) -> Home {
        let mut p = Pack(word, 0);
        let kind = p.get(2);
        let holders = Peers(p.get(3) as u64);
        Home {
            state: dcoh::LineState {
                filter: match kind {
                    0 => Filter::Invalid,
                    1 => Filter::Shared(holders),
                    _ => Filter::Any(peer(holders.0.trailing_zeros() as usize)),
                },
                waiting: Peers(p.get(3) as u64),
                phase: phase_of(p.get(5)),
                requester: peer(p.get(2)),
            },
            medium: Data::ALL[p.get(2)],
            read: Data::ALL[p.get(2)],
            pending: Pending::ALL[p.get(3)],
        }
    }
}

/// The names under which a state may be encoded: all orders of one, two or three requesters.
const ORDERS: [&[[u8; MAX_AGENTS]]; MAX_AGENTS + 1] = [
    &[],
    &[[0, 1, 2]],
    &[[0, 1, 2], [1, 0, 2]],
    &[
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ],
];

const WORDS: usize = MAX_LINES * (MAX_AGENTS + 1);
pub type Code = [u64; WORDS];

impl Model {
    /// The smallest encoding among the states that differ only by the names of requesters and lines.
    pub fn code(&self, world: &World) -> Code {
        let (agents, lines) = (self.config.agents, self.config.lines);
        let wires = world.wires.map(|wires| wires.map(|wire| wire.encode()));
        let mut best = [u64::MAX; WORDS];
        for names in ORDERS[agents] {
            for first in 0..lines {
                let mut code = [0; WORDS];
                for l in 0..lines {
                    let from = (l + first) % lines;
                    let to = l * (agents + 1);
                    for a in 0..agents {
                        code[to + usize::from(names[a])] = wires[from][a];
                    }
                    code[to + agents] = world.home[from].encode(names);
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
        let (agents, lines) = (self.config.agents, self.config.lines);
        let mut world = self.start();
        for l in 0..lines {
            let from = l * (agents + 1);
            for a in 0..agents {
                world.wires[l][a] = Wire::decode(code[from + a]);
            }
            world.home[l] = Home::decode(code[from + agents]);
        }
        world
    }
}
