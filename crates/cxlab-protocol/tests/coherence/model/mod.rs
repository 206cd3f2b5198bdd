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

mod check;
mod home;
mod requester_side;
mod state;

use cxlab_protocol::coherence::dcoh::{self, Peer};
use cxlab_protocol::coherence::requester::{self, Event};

use crate::search::System;

pub use state::{Code, Data, Home, Pending, Wire, World};

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
    /// Requests that need an entry of the filter do not wait for one.
    NoWaitForEntry,
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
    /// Snoops of one kind to one requester for both lines may become one for a block, as long as neither has arrived.
    pub joins: bool,
    /// Requests pass one queue of one place at the DCOH, whose head blocks all others.
    pub one_request_queue: bool,
    /// States that differ by the names of requesters and lines count once.
    pub reduced: bool,
    pub broken: Broken,
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
    Join(usize),
    LocalRead(usize),
    LocalWrite(usize),
}

pub type Outcome = Result<World, Property>;

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

pub struct Model {
    pub config: Config,
    pub tables: Tables,
}

impl Model {
    pub fn new(config: Config, tables: Tables) -> Model {
        Model { config, tables }
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let agents = self.config.agents;
        (0..self.config.lines).flat_map(move |l| (0..agents).map(move |a| (a, l)))
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
}

impl System for Model {
    type World = World;
    type Code = Code;
    type Move = Move;
    type Property = Property;

    const DEADLOCK: Property = Property::NoDeadlock;
    const NO_PROGRESS: Property = Property::Progress;

    fn words(&self) -> usize {
        self.config.lines * (self.config.agents + 1)
    }

    fn start(&self) -> World {
        let home = Home {
            medium: Data::Fresh,
            ..Home::default()
        };
        World {
            wires: [[Wire::default(); MAX_AGENTS]; MAX_LINES],
            home: [home; MAX_LINES],
        }
    }

    fn encode(&self, world: &World) -> Code {
        self.code(world)
    }

    fn decode(&self, code: &[u64]) -> World {
        self.world(code)
    }

    /// Whether nothing is under way.
    fn is_quiet(&self, world: &World) -> bool {
        self.pairs().all(|(a, l)| world.wires[l][a].is_quiet())
            && (0..self.config.lines).all(|l| !world.home[l].state.is_busy())
    }

    /// Whether the move ends what is under way, instead of beginning something.
    fn drains(&self, step: Move) -> bool {
        match step {
            Move::Local(..) | Move::LocalRead(_) | Move::LocalWrite(_) => false,
            Move::Evict(_) | Move::EvictBlock => self.config.evictions == Evictions::WhenFull,
            _ => true,
        }
    }

    /// All that can happen next. What is not possible in a state is not listed; `Err` is a broken
    /// property.
    fn moves(&self, world: &World, out: &mut Vec<(Move, Outcome)>) {
        out.clear();
        for (a, l) in self.pairs() {
            self.requester_moves(world, a, l, out);
            self.home_moves_for(world, a, l, out);
        }
        for l in 0..self.config.lines {
            self.home_moves(world, l, out);
        }
        if self.config.joins {
            self.join(world, out);
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
}

fn peer(a: usize) -> Peer {
    Peer::new(a).unwrap()
}

fn check(holds: bool, property: Property) -> Result<(), Property> {
    if holds { Ok(()) } else { Err(property) }
}

fn bound(holds: bool) -> Result<(), Property> {
    check(holds, Property::QueueBounds)
}
