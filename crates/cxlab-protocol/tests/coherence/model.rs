//! The network model: caching requesters and one DCOH, joined by the six channels of CXL.mem, for
//! one or two lines. One call of [`Model::moves`] lists all that can happen next.
//!
//! What is ordered (CXL 3.1, section 3.4): nothing, except that a `BIConflictAck` does not pass an
//! earlier completion of the same line (rule E6a of table 3-56). Every other pair of messages,
//! also of one channel and one line, may arrive in either order.
//!
//! What may block (section 3.3.11, tables 3-58 and 3-59): M2S Req waits at the DCOH while its line
//! is busy or no entry of the filter is free. All other messages are taken as soon as they arrive;
//! a table that cannot take one breaks the property `ChannelsSink`.
//!
//! Each requester has at most one request, one write, one conflict and one snoop response a line
//! in flight, and the DCOH one snoop, one completion, one acknowledgement and one data message a
//! line and requester. A second one breaks the property `QueueBounds`, so these are the queues
//! that agents must have; credits below them only delay messages, which is explored anyway.
//!
//! Data are followed by what is known of them: `Fresh` is the value of the last store. A load must
//! return it. A load that does not cache is not ordered with stores that happen while its answer
//! is under way; it may return a value that was fresh at some time since it was asked (`Recent`).

use cxlab_protocol::coherence::block::{Answer, BlockSnoop};
use cxlab_protocol::coherence::dcoh::{self, Filter, Operation, Peer, Peers, Phase};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{Kept, M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{self, Event, Held, Line};

pub const MAX_AGENTS: usize = 3;
pub const MAX_LINES: usize = 2;

/// What is checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Property {
    /// A line has one holder that may write, or any number that may read.
    SingleWriter,
    /// A load returns the last store; a store changes the current value.
    LoadValue,
    /// A state in which something is under way has a next step that is not a new operation.
    NoDeadlock,
    /// From every state all that is under way can end without new operations.
    Progress,
    /// Each request gets exactly its responses.
    ExactResponses,
    /// Who has a copy is in the snoop filter.
    InclusiveFilter,
    /// The current value is in memory, in a modified copy, or on its way to memory.
    DirtyDataKept,
    /// A line without anything under way takes every operation.
    AcceptsOperations,
    /// A cache has data for exactly the states that have a copy.
    StateMatchesData,
    /// When a flush completes at the device, no cache holds the line and memory is current.
    FlushReachesAll,
    /// No queue holds more than its bound.
    QueueBounds,
    /// Responses, writes, conflicts, snoops and their answers are taken when they arrive.
    ChannelsSink,
    /// The filter has no more lines than entries.
    FilterCapacity,
    /// After a write or a clean eviction the filter says what its MetaValue said.
    MetadataObeyed,
    /// A modified copy differs from memory.
    ModifiedMeansDirty,
    /// A read for sharing is granted Shared; one that may own is granted Exclusive if nobody else
    /// holds the line.
    GrantAsAsked,
}

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Data {
    #[default]
    None,
    Fresh,
    Recent,
    Stale,
}

impl Data {
    const ALL: [Data; 4] = [Data::None, Data::Fresh, Data::Recent, Data::Stale];
}

/// When the owner of the filter evicts entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evictions {
    Anytime,
    /// When a request waits for an entry and none is free.
    WhenFull,
}

/// Rules of the channels that can be broken, to see that they are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    Nothing,
    /// `BIConflictAck` passes completions.
    AckPassesCompletion,
    /// Writes wait at the DCOH while a request waits there.
    WriteBehindRequest,
    /// Conflicts wait at the DCOH while a request waits there.
    ConflictBehindRequest,
    /// Snoop responses wait at the DCOH while a request waits there.
    ResponseBehindRequest,
    /// A requester takes a snoop only when it has no request under way.
    SnoopBehindRequest,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub agents: usize,
    pub lines: usize,
    pub entries: usize,
    pub operations: &'static [Event],
    pub local_agent: bool,
    pub dirty_medium: bool,
    pub evictions: Evictions,
    pub blocks: bool,
    /// Requests pass one queue of one place at the DCOH, whose head blocks all others.
    pub one_request_queue: bool,
    pub broken: Broken,
}

/// One requester's line and what is in flight for it.
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
    /// 0 none, 1 free to go, 2 behind a completion.
    pub ack: u8,
    pub data: Data,
    /// 0 none; 1 and 2 held together, unanswered and answered; 3 and 4 one by one.
    pub block: u8,
    /// What the processor waits for.
    pub pending: Pending,
}

/// An operation of the processor that is to be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pending {
    #[default]
    Nothing,
    Load,
    LoadShared,
    LoadOnce,
    Store,
    Flush,
    /// Of the device's own agent.
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

    fn of(event: Event) -> Pending {
        match event {
            Event::Load => Pending::Load,
            Event::LoadShared => Pending::LoadShared,
            Event::LoadOnce => Pending::LoadOnce,
            Event::Store => Pending::Store,
            Event::Flush => Pending::Flush,
            _ => Pending::Nothing,
        }
    }

    fn complete(&mut self, what: &[Pending]) -> Result<(), Property> {
        check(
            what.contains(&std::mem::take(self)),
            Property::ExactResponses,
        )
    }
}

/// The DCOH's line and its memory.
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

/// What happens between two states. Numbers are agent and line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    Local(usize, usize, Event),
    Request(usize, usize),
    ToHead(usize, usize),
    Write(usize, usize),
    Conflict(usize, usize),
    Response(usize, usize),
    Snoop(usize, usize),
    Completion(usize, usize),
    Ack(usize, usize),
    Data(usize, usize),
    Medium(usize),
    MediumDirty(usize),
    Evict(usize),
    EvictBlock,
    LocalRead(usize),
    LocalWrite(usize),
}

pub type Outcome = Result<World, Property>;

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

fn peer(a: usize) -> Peer {
    Peer::new(a).unwrap()
}

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
    fn encode(&self) -> u64 {
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

    fn decode(word: u64) -> Wire {
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

    fn is_quiet(&self) -> bool {
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

    fn is_loading_once(&self) -> bool {
        matches!(self.state.line, Line::IcAD | Line::IcA | Line::IcD)
    }

    fn has_copy(&self) -> bool {
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
    /// With requester `a` called `names[a]`.
    fn encode(&self, names: &[u8; MAX_AGENTS]) -> u64 {
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

    fn decode(word: u64) -> Home {
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

/// Rows of both tables, of which some may be missing, whole or for one of their events.
pub struct Tables {
    pub requester: Vec<requester::Row>,
    pub dcoh: Vec<dcoh::Row>,
    pub no_requester_row: Option<(usize, Option<requester::On>)>,
    pub no_dcoh_row: Option<(usize, Option<dcoh::Others>)>,
}

impl Tables {
    pub fn unaltered() -> Tables {
        Tables {
            requester: requester::ROWS.to_vec(),
            dcoh: dcoh::ROWS.to_vec(),
            no_requester_row: None,
            no_dcoh_row: None,
        }
    }

    fn requester(&self, row: usize, on: requester::On) -> Option<&requester::Row> {
        let missing = self
            .no_requester_row
            .is_some_and(|(r, only)| r == row && only.is_none_or(|only| only == on));
        (!missing).then(|| &self.requester[row])
    }

    fn dcoh(&self, row: usize, others: dcoh::Others) -> Option<&dcoh::Row> {
        let missing = self
            .no_dcoh_row
            .is_some_and(|(r, only)| r == row && only.is_none_or(|only| only == others));
        (!missing).then(|| &self.dcoh[row])
    }
}

/// Names under which the requesters of a state may be told, all orders of one, two or three.
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

pub const WORDS: usize = MAX_LINES * (MAX_AGENTS + 1);
pub type Code = [u64; WORDS];

pub struct Model {
    pub config: Config,
    pub tables: Tables,
}

impl Model {
    pub fn new(config: Config, tables: Tables) -> Model {
        Model { config, tables }
    }

    pub fn start(&self) -> World {
        let home = Home {
            medium: Data::Fresh,
            ..Home::default()
        };
        World {
            wires: [[Wire::default(); MAX_AGENTS]; MAX_LINES],
            home: [home; MAX_LINES],
        }
    }

    pub fn words(&self) -> usize {
        self.config.lines * (self.config.agents + 1)
    }

    /// The smallest code of the states that differ by the names of requesters and lines.
    pub fn encode(&self, world: &World) -> Code {
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
                best = best.min(code);
            }
        }
        best
    }

    pub fn decode(&self, code: &[u64]) -> World {
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

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let agents = self.config.agents;
        (0..self.config.lines).flat_map(move |l| (0..agents).map(move |a| (a, l)))
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self, world: &World) -> bool {
        self.pairs().all(|(a, l)| world.wires[l][a].is_quiet())
            && (0..self.config.lines).all(|l| !world.home[l].state.is_busy())
    }

    /// Whether the move ends what is under way, instead of beginning something.
    pub fn drains(&self, step: Move) -> bool {
        match step {
            Move::Local(..) | Move::LocalRead(_) | Move::LocalWrite(_) => false,
            Move::Evict(_) | Move::EvictBlock => self.config.evictions == Evictions::WhenFull,
            _ => true,
        }
    }

    fn requester(
        &self,
        state: requester::LineState,
        event: Event,
    ) -> Result<Option<(requester::LineState, requester::Actions)>, ()> {
        let altered = requester::step_with(state, event, |row, on| self.tables.requester(row, on));
        match altered {
            Some(next) => Ok(Some(next)),
            None if requester::step(state, event).is_some() => Ok(None),
            None => Err(()),
        }
    }

    fn dcoh(
        &self,
        state: dcoh::LineState,
        event: dcoh::Event,
    ) -> Result<Option<(dcoh::LineState, dcoh::Actions)>, ()> {
        match dcoh::step_with(state, event, |row, others| self.tables.dcoh(row, others)) {
            Some(next) => Ok(Some(next)),
            None if dcoh::step(state, event).is_some() => Ok(None),
            None => Err(()),
        }
    }

    /// A message that must be taken arrives at a requester.
    fn arrives(&self, world: &World, a: usize, l: usize, event: Event) -> Outcome {
        let state = world.wires[l][a].state;
        match self.requester(state, event) {
            Ok(Some((next, actions))) => self.act(world, a, l, next, actions),
            Ok(None) => Err(Property::ChannelsSink),
            Err(()) => Err(Property::ExactResponses),
        }
    }

    fn act(
        &self,
        world: &World,
        a: usize,
        l: usize,
        next: requester::LineState,
        actions: requester::Actions,
    ) -> Outcome {
        let mut world = *world;
        world.wires[l][a].state = next;
        for action in actions.iter() {
            let wire = &mut world.wires[l][a];
            match action {
                requester::Action::Send(M2s::BiRsp(kept)) => {
                    self.answer(&mut world, a, l, kept)?;
                }
                requester::Action::Send(M2s::MemWr(value)) => {
                    let full = wire.write.replace((value, wire.copy)).is_some();
                    bound(!full)?;
                }
                requester::Action::Send(M2s::BiConflict) => {
                    bound(!std::mem::replace(&mut wire.conflict, true))?;
                    if matches!(wire.block, 1 | 2) {
                        self.separate(&mut world, a)?;
                    }
                }
                requester::Action::Send(request) => {
                    bound(wire.request.replace(request).is_none())?;
                }
                requester::Action::Fill => wire.copy = std::mem::take(&mut wire.arrived),
                requester::Action::Drop => wire.copy = Data::None,
                requester::Action::CompleteLoad => {
                    wire.pending
                        .complete(&[Pending::Load, Pending::LoadShared])?;
                    check(wire.copy == Data::Fresh, Property::LoadValue)?;
                }
                requester::Action::CompleteLoadOnce => {
                    wire.pending.complete(&[Pending::LoadOnce])?;
                    let data = std::mem::take(&mut wire.arrived);
                    let good = matches!(data, Data::Fresh | Data::Recent);
                    check(good, Property::LoadValue)?;
                }
                requester::Action::CompleteStore => {
                    wire.pending.complete(&[Pending::Store])?;
                    check(wire.copy == Data::Fresh, Property::LoadValue)?;
                    self.supersede(&mut world, l);
                    world.wires[l][a].copy = Data::Fresh;
                }
                requester::Action::CompleteFlush => wire.pending.complete(&[Pending::Flush])?,
            }
        }
        Ok(world)
    }

    fn block(&self, world: &World, a: usize) -> Option<BlockSnoop> {
        let blocks = [world.wires[0][a].block, world.wires[1][a].block];
        if blocks == [0, 0] {
            return None;
        }
        let mut snoop = BlockSnoop::new(Snoop::Inv, 2)?;
        if blocks.iter().any(|&b| b > 2) {
            snoop.conflict();
        }
        for l in 0..2 {
            if matches!(blocks[usize::from(l)], 2 | 4) {
                snoop.answer(l, Kept::Invalid);
            }
        }
        Some(snoop)
    }

    fn set_block(&self, world: &mut World, a: usize, snoop: &BlockSnoop) {
        for l in 0..2_u8 {
            world.wires[usize::from(l)][a].block = match snoop.is_done() {
                true => 0,
                false => 1 + u8::from(snoop.has_answered(l)) + 2 * u8::from(snoop.is_individual()),
            };
        }
    }

    fn answer(&self, world: &mut World, a: usize, l: usize, kept: Kept) -> Result<(), Property> {
        if !matches!(world.wires[l][a].block, 1 | 3) {
            return bound(world.wires[l][a].response.replace((kept, false)).is_none());
        }
        let Some(mut snoop) = self.block(world, a) else {
            return Err(Property::ExactResponses);
        };
        let answers = snoop.answer(l as u8, kept);
        self.set_block(world, a, &snoop);
        self.send_answers(world, a, answers)
    }

    fn separate(&self, world: &mut World, a: usize) -> Result<(), Property> {
        let Some(mut snoop) = self.block(world, a) else {
            return Err(Property::ExactResponses);
        };
        let answers = snoop.conflict();
        self.set_block(world, a, &snoop);
        self.send_answers(world, a, answers)
    }

    fn send_answers(
        &self,
        world: &mut World,
        a: usize,
        answers: cxlab_protocol::coherence::block::Answers,
    ) -> Result<(), Property> {
        for answer in answers.iter() {
            match answer {
                Answer::Line(l, kept) => {
                    let wire = &mut world.wires[usize::from(l)][a];
                    bound(wire.response.replace((kept, false)).is_none())?;
                }
                Answer::Block(kept) => {
                    for wires in &mut world.wires {
                        bound(wires[a].response.replace((kept, true)).is_none())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A store makes every other value of the line old.
    fn supersede(&self, world: &mut World, l: usize) {
        let old = |data: &mut Data| {
            if *data == Data::Fresh {
                *data = Data::Recent;
            }
        };
        for wire in &mut world.wires[l] {
            old(&mut wire.copy);
            old(&mut wire.arrived);
            old(&mut wire.data);
            if let Some((_, data)) = &mut wire.write {
                old(data);
            }
        }
        old(&mut world.home[l].medium);
        old(&mut world.home[l].read);
    }

    /// Values that nobody may return any more are all alike.
    fn forget(&self, world: &mut World) {
        for l in 0..self.config.lines {
            if world.home[l].pending == Pending::LocalRead
                || world.wires[l].iter().any(Wire::is_loading_once)
            {
                continue;
            }
            let old = |data: &mut Data| {
                if *data == Data::Recent {
                    *data = Data::Stale;
                }
            };
            for wire in &mut world.wires[l] {
                old(&mut wire.copy);
                old(&mut wire.arrived);
                old(&mut wire.data);
                if let Some((_, data)) = &mut wire.write {
                    old(data);
                }
            }
            old(&mut world.home[l].medium);
            old(&mut world.home[l].read);
        }
    }

    /// The DCOH acts on an event; `data` is what the message carries.
    fn home_acts(
        &self,
        world: &mut World,
        l: usize,
        event: dcoh::Event,
        next: dcoh::LineState,
        actions: dcoh::Actions,
        data: Data,
    ) -> Result<(), Property> {
        let before = world.home[l].state;
        world.home[l].state = next;
        let flushed = match (before.phase, event) {
            (Phase::Snooping(Operation::Flush), _) => !next.is_busy(),
            (_, dcoh::Event::Message(_, M2s::MemInvFlush)) => !next.is_busy(),
            _ => false,
        };
        if flushed {
            let gone = (0..self.config.agents).all(|a| world.wires[l][a].copy == Data::None);
            let current = world.home[l].medium == Data::Fresh;
            check(gone && current, Property::FlushReachesAll)?;
            check(next.filter == Filter::Invalid, Property::MetadataObeyed)?;
        }
        if let dcoh::Event::Message(peer, message) = event {
            let obeyed = match message {
                M2s::MemWr(MetaValue::Invalid) | M2s::MemClnEvct => {
                    !next.filter.holders().contains(peer)
                }
                M2s::MemWr(MetaValue::Shared) => next.filter == Filter::Shared(Peers::only(peer)),
                M2s::MemWr(MetaValue::Any) => next.filter == Filter::Any(peer),
                _ => true,
            };
            check(obeyed, Property::MetadataObeyed)?;
        }
        match event {
            dcoh::Event::LocalRead => world.home[l].pending = Pending::LocalRead,
            dcoh::Event::LocalWrite => world.home[l].pending = Pending::LocalWrite,
            _ => {}
        }
        let mut written = false;
        let read = world.home[l].read;
        for action in actions.iter() {
            let home = &mut world.home[l];
            match action {
                dcoh::Action::Snoop(snoop, peers) => {
                    for peer in peers.iter() {
                        let wire = &mut world.wires[l][peer.index()];
                        bound(wire.snoop.replace((snoop, false)).is_none())?;
                    }
                }
                dcoh::Action::ReadMedium => home.read = home.medium,
                dcoh::Action::WriteMedium => home.medium = data,
                dcoh::Action::WriteLocal => written = true,
                dcoh::Action::CompleteLocal => match std::mem::take(&mut home.pending) {
                    Pending::LocalRead => {
                        let good = matches!(read, Data::Fresh | Data::Recent);
                        check(good, Property::LoadValue)?;
                    }
                    Pending::LocalWrite => {
                        let good = written && home.medium == Data::Fresh;
                        check(good, Property::LoadValue)?;
                        self.supersede(world, l);
                        world.home[l].medium = Data::Fresh;
                    }
                    _ => return Err(Property::ExactResponses),
                },
                dcoh::Action::Reply(peer, reply) => {
                    let wire = &mut world.wires[l][peer.index()];
                    match reply {
                        S2m::BiConflictAck => {
                            bound(wire.ack == 0)?;
                            wire.ack = 1 + u8::from(wire.completion.is_some());
                        }
                        S2m::MemData => {
                            bound(wire.data == Data::None)?;
                            wire.data = read;
                        }
                        completion => {
                            bound(wire.completion.replace(completion).is_none())?;
                            let alone = next.filter.holders() == Peers::only(peer);
                            let as_asked = match (wire.pending, completion) {
                                (Pending::LoadShared, S2m::CmpE) => false,
                                (Pending::Load, S2m::CmpS) => !alone,
                                _ => true,
                            };
                            check(as_asked, Property::GrantAsAsked)?;
                        }
                    }
                }
            }
        }
        if matches!(event, dcoh::Event::MediumData | dcoh::Event::MediumDirty) {
            world.home[l].read = Data::None;
        }
        if matches!(event, dcoh::Event::MediumDirty) {
            world.home[l].medium = Data::Stale;
        }
        Ok(())
    }

    fn home_takes(
        &self,
        world: &mut World,
        l: usize,
        event: dcoh::Event,
        data: Data,
    ) -> Result<(), Property> {
        match self.dcoh(world.home[l].state, event) {
            Ok(Some((next, actions))) => self.home_acts(world, l, event, next, actions, data),
            Ok(None) => Err(Property::ChannelsSink),
            Err(()) => Err(Property::ExactResponses),
        }
    }

    fn entries_used(&self, world: &World) -> usize {
        (0..self.config.lines)
            .filter(|&l| world.home[l].state.needs_entry())
            .count()
    }

    fn lacks_entry(&self, world: &World, l: usize, request: M2s) -> bool {
        Operation::of(request).is_some_and(Operation::allocates)
            && !world.home[l].state.needs_entry()
            && self.entries_used(world) >= self.config.entries
    }

    /// Whether a request is at the DCOH and cannot go on.
    fn request_waits(&self, world: &World) -> bool {
        self.pairs().any(|(a, l)| {
            let wire = &world.wires[l][a];
            let there = !self.config.one_request_queue || wire.at_head;
            wire.request.is_some_and(|request| {
                there && (world.home[l].state.is_busy() || self.lacks_entry(world, l, request))
            })
        })
    }

    /// All that can happen next. What is not possible in a state is not listed; `Err` is a broken
    /// property.
    pub fn moves(&self, world: &World, out: &mut Vec<(Move, Outcome)>) {
        out.clear();
        for (a, l) in self.pairs() {
            self.requester_moves(world, a, l, out);
            self.home_moves_for(world, a, l, out);
        }
        for l in 0..self.config.lines {
            self.home_moves(world, l, out);
        }
        for (_, outcome) in out.iter_mut() {
            if let Ok(next) = outcome {
                self.forget(next);
                if let Err(broken) = self.check(next) {
                    *outcome = Err(broken);
                }
            }
        }
    }

    fn requester_moves(&self, world: &World, a: usize, l: usize, out: &mut Vec<(Move, Outcome)>) {
        let wire = &world.wires[l][a];
        for &event in self.config.operations {
            if let Ok(Some((next, actions))) = self.requester(wire.state, event) {
                let mut asked = *world;
                asked.wires[l][a].pending = Pending::of(event);
                out.push((
                    Move::Local(a, l, event),
                    self.act(&asked, a, l, next, actions),
                ));
            }
        }
        if let Some((snoop, block)) = wire.snoop {
            let waits =
                self.config.broken == Broken::SnoopBehindRequest && !wire.state.line.is_stable();
            if block && l == 0 {
                out.push((Move::Snoop(a, l), self.take_block(world, a, snoop)));
            } else if !block && !waits {
                let mut next = *world;
                next.wires[l][a].snoop = None;
                let outcome = self.arrives(&next, a, l, Event::BiSnp(snoop));
                out.push((Move::Snoop(a, l), outcome));
            }
        }
        if let Some(completion) = wire.completion {
            let mut next = *world;
            next.wires[l][a].completion = None;
            next.wires[l][a].ack = next.wires[l][a].ack.min(1);
            let outcome = self.arrives(&next, a, l, Event::Response(completion));
            out.push((Move::Completion(a, l), outcome));
        }
        let passes = self.config.broken == Broken::AckPassesCompletion;
        if wire.ack == 1 || (wire.ack == 2 && passes) {
            let mut next = *world;
            next.wires[l][a].ack = 0;
            let outcome = self.arrives(&next, a, l, Event::Response(S2m::BiConflictAck));
            out.push((Move::Ack(a, l), outcome));
        }
        if wire.data != Data::None {
            let mut next = *world;
            let wire = &mut next.wires[l][a];
            let full = wire.arrived != Data::None;
            wire.arrived = std::mem::take(&mut wire.data);
            let outcome = match full {
                true => Err(Property::ExactResponses),
                false => self.arrives(&next, a, l, Event::Response(S2m::MemData)),
            };
            out.push((Move::Data(a, l), outcome));
        }
    }

    fn take_block(&self, world: &World, a: usize, snoop: Snoop) -> Outcome {
        let mut next = *world;
        for wires in &mut next.wires {
            wires[a].snoop = None;
            wires[a].block = 1;
        }
        let next = self.arrives(&next, a, 0, Event::BiSnp(snoop))?;
        self.arrives(&next, a, 1, Event::BiSnp(snoop))
    }

    fn home_moves_for(&self, world: &World, a: usize, l: usize, out: &mut Vec<(Move, Outcome)>) {
        let wire = &world.wires[l][a];
        let peer = peer(a);
        let behind = |rule| self.config.broken == rule && self.request_waits(world);
        if let Some(request) = wire.request {
            if self.config.one_request_queue && !wire.at_head {
                if self.pairs().all(|(a, l)| !world.wires[l][a].at_head) {
                    let mut next = *world;
                    next.wires[l][a].at_head = true;
                    out.push((Move::ToHead(a, l), Ok(next)));
                }
            } else if !world.home[l].state.is_busy() && !self.lacks_entry(world, l, request) {
                let event = dcoh::Event::Message(peer, request);
                let mut next = *world;
                next.wires[l][a].request = None;
                next.wires[l][a].at_head = false;
                let outcome = match self.dcoh(world.home[l].state, event) {
                    Ok(Some((state, actions))) => Some(
                        self.home_acts(&mut next, l, event, state, actions, Data::None)
                            .map(|()| next),
                    ),
                    Ok(None) => None,
                    Err(()) => Some(Err(Property::ExactResponses)),
                };
                if let Some(outcome) = outcome {
                    out.push((Move::Request(a, l), outcome));
                }
            }
        }
        if let (Some((value, data)), false) = (wire.write, behind(Broken::WriteBehindRequest)) {
            let mut next = *world;
            next.wires[l][a].write = None;
            let event = dcoh::Event::Message(peer, M2s::MemWr(value));
            let outcome = self.home_takes(&mut next, l, event, data).map(|()| next);
            out.push((Move::Write(a, l), outcome));
        }
        if wire.conflict && !behind(Broken::ConflictBehindRequest) {
            let mut next = *world;
            next.wires[l][a].conflict = false;
            let event = dcoh::Event::Message(peer, M2s::BiConflict);
            let outcome = self
                .home_takes(&mut next, l, event, Data::None)
                .map(|()| next);
            out.push((Move::Conflict(a, l), outcome));
        }
        if let (Some((kept, block)), false) = (wire.response, behind(Broken::ResponseBehindRequest))
        {
            let event = dcoh::Event::Message(peer, M2s::BiRsp(kept));
            let mut next = *world;
            next.wires[l][a].response = None;
            if !block {
                let outcome = self
                    .home_takes(&mut next, l, event, Data::None)
                    .map(|()| next);
                out.push((Move::Response(a, l), outcome));
            } else if l == 0 {
                next.wires[1][a].response = None;
                let outcome = self
                    .home_takes(&mut next, 0, event, Data::None)
                    .and_then(|()| self.home_takes(&mut next, 1, event, Data::None))
                    .map(|()| next);
                out.push((Move::Response(a, l), outcome));
            }
        }
    }

    fn begins(
        &self,
        world: &World,
        l: usize,
        event: dcoh::Event,
        step: Move,
        out: &mut Vec<(Move, Outcome)>,
    ) {
        if let Ok(Some((state, actions))) = self.dcoh(world.home[l].state, event) {
            let mut next = *world;
            let outcome = self
                .home_acts(&mut next, l, event, state, actions, Data::None)
                .map(|()| next);
            out.push((step, outcome));
        }
    }

    fn home_moves(&self, world: &World, l: usize, out: &mut Vec<(Move, Outcome)>) {
        let home = &world.home[l];
        if let Phase::Reading(operation) = home.state.phase {
            self.begins(world, l, dcoh::Event::MediumData, Move::Medium(l), out);
            if self.config.dirty_medium && operation == Operation::Own {
                self.begins(
                    world,
                    l,
                    dcoh::Event::MediumDirty,
                    Move::MediumDirty(l),
                    out,
                );
            }
        }
        if home.state.is_busy() {
            return;
        }
        if self.config.local_agent {
            self.begins(world, l, dcoh::Event::LocalRead, Move::LocalRead(l), out);
            self.begins(world, l, dcoh::Event::LocalWrite, Move::LocalWrite(l), out);
        }
        let evicts = match self.config.evictions {
            Evictions::Anytime => true,
            Evictions::WhenFull => self.pairs().any(|(a, l)| {
                let wire = &world.wires[l][a];
                let there = !self.config.one_request_queue || wire.at_head;
                wire.request
                    .is_some_and(|request| there && self.lacks_entry(world, l, request))
            }),
        };
        if !evicts {
            return;
        }
        self.begins(world, l, dcoh::Event::EvictEntry, Move::Evict(l), out);
        if self.config.blocks && l == 0 && !world.home[1].state.is_busy() {
            let mut both = Vec::new();
            self.begins(
                world,
                0,
                dcoh::Event::EvictEntry,
                Move::EvictBlock,
                &mut both,
            );
            if let Some((_, Ok(one))) = both.pop() {
                self.begins(
                    &one,
                    1,
                    dcoh::Event::EvictEntry,
                    Move::EvictBlock,
                    &mut both,
                );
                if let Some((_, Ok(mut two))) = both.pop() {
                    for a in 0..self.config.agents {
                        if two.wires.iter().all(|wires| wires[a].snoop.is_some()) {
                            for wires in &mut two.wires {
                                wires[a].snoop = Some((Snoop::Inv, true));
                            }
                        }
                    }
                    out.push((Move::EvictBlock, Ok(two)));
                }
            }
        }
    }

    /// The properties of a state by itself.
    pub fn check(&self, world: &World) -> Result<(), Property> {
        for l in 0..self.config.lines {
            self.check_line(world, l)?;
        }
        check(
            self.entries_used(world) <= self.config.entries,
            Property::FilterCapacity,
        )
    }

    fn check_line(&self, world: &World, l: usize) -> Result<(), Property> {
        let home = &world.home[l];
        let wires = &world.wires[l][..self.config.agents];
        let writers = wires
            .iter()
            .filter(|w| matches!(w.state.line, Line::E | Line::M | Line::MeA))
            .count();
        let holders = wires.iter().filter(|w| w.has_copy()).count();
        check(
            writers == 0 || (writers == 1 && holders == 1),
            Property::SingleWriter,
        )?;
        let mut kept = home.medium == Data::Fresh;
        for (a, wire) in wires.iter().enumerate() {
            let line = wire.state.line;
            check(
                !line.is_stable() || wire.pending == Pending::Nothing,
                Property::ExactResponses,
            )?;
            check(
                line != Line::M || home.medium != Data::Fresh,
                Property::ModifiedMeansDirty,
            )?;
            let data_held = matches!(line, Line::IsA | Line::ImA | Line::IcA);
            check(
                wire.has_copy() == (wire.copy != Data::None)
                    && data_held == (wire.arrived != Data::None),
                Property::StateMatchesData,
            )?;
            let granted = matches!(wire.completion, Some(S2m::CmpS | S2m::CmpE | S2m::CmpM));
            let owned = matches!(wire.completion, Some(S2m::CmpE | S2m::CmpM))
                || matches!(line, Line::E | Line::M | Line::ED | Line::MD | Line::MeA);
            let holds = granted || owned || wire.has_copy() || matches!(line, Line::SD);
            let peer = peer(a);
            check(
                (!holds || home.state.filter.holders().contains(peer))
                    && (!owned || home.state.filter == Filter::Any(peer)),
                Property::InclusiveFilter,
            )?;
            kept |= matches!(wire.write, Some((_, Data::Fresh)));
            kept |= line == Line::M && wire.copy == Data::Fresh;
            kept |= matches!(line, Line::ImAD | Line::ImA | Line::MD)
                && (wire.data == Data::Fresh || wire.arrived == Data::Fresh);
            self.check_operations(wire)?;
        }
        check(kept, Property::DirtyDataKept)?;
        let takes = |event| matches!(self.dcoh(home.state, event), Ok(Some(_)));
        if matches!(home.state.phase, Phase::Reading(_)) && home.pending == Pending::Nothing {
            let asker = &wires[home.state.requester.index()];
            check(
                asker.pending != Pending::Store || takes(dcoh::Event::MediumDirty),
                Property::AcceptsOperations,
            )?;
        }
        if !home.state.is_busy() {
            check(home.pending == Pending::Nothing, Property::ExactResponses)?;
            let held = home.state.filter != Filter::Invalid;
            check(
                (!held || takes(dcoh::Event::EvictEntry))
                    && takes(dcoh::Event::LocalRead)
                    && takes(dcoh::Event::LocalWrite),
                Property::AcceptsOperations,
            )?;
        }
        Ok(())
    }

    fn check_operations(&self, wire: &Wire) -> Result<(), Property> {
        if !wire.state.is_settled() {
            return Ok(());
        }
        let wanted: &[Event] = match wire.state.line {
            Line::I => &[
                Event::Load,
                Event::LoadShared,
                Event::LoadOnce,
                Event::Store,
                Event::Flush,
            ],
            Line::M => &[Event::Load, Event::Store, Event::Evict],
            _ => &[
                Event::Load,
                Event::Store,
                Event::Evict,
                Event::EvictSilently,
            ],
        };
        let all = wanted
            .iter()
            .all(|&event| matches!(self.requester(wire.state, event), Ok(Some(_))));
        check(all, Property::AcceptsOperations)
    }
}

fn check(holds: bool, property: Property) -> Result<(), Property> {
    if holds { Ok(()) } else { Err(property) }
}

fn bound(holds: bool) -> Result<(), Property> {
    check(holds, Property::QueueBounds)
}
