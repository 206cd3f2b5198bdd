//! The network model: caching requesters and one DCOH, joined by the six channels of CXL.mem, for
//! one or two lines. One call of [`Model::moves`] lists all possible next steps.
//!
//! Order (CXL 3.1, section 3.4): messages are not ordered, except that a `BIConflictAck` does not
//! pass an earlier completion of the same line (rule E6a of table 3-56). Every other pair of
//! messages, also of one channel and one line, may arrive in either order.
//!
//! Blocking (section 3.3.11, tables 3-58 and 3-59): M2S Req waits at the DCOH while its line is
//! busy or no entry of the filter is free. All other messages are accepted as soon as they arrive;
//! a table that cannot accept one breaks the property `ChannelsSink`.
//!
//! Queues: each requester has at most one request, one write, one conflict and one snoop response per
//! line in flight. The DCOH has at most one snoop, one completion, one acknowledgement and one data
//! message per line and requester. A second one breaks the property `QueueBounds`, so agents need these
//! queues. Fewer credits than that only delay messages, and the exploration covers delays anyway.
//!
//! Data are modelled by their age: `Fresh` is the value of the last store. A load must return it. A
//! load that does not cache is not ordered with stores that happen while its response is in flight;
//! it may return a value that was fresh at some time since its request (`Recent`).

mod check;
pub mod exploration;
mod flows;
mod home;
mod mutation;
mod requester_side;
mod state;

use cxlab_protocol::coherence::dcoh;
use cxlab_protocol::coherence::requester::{self, Event};

use crate::checker::{Data, MAX_AGENTS, Network, Property, System, Table, age, finish};

pub use state::{Home, Pending, WORDS, Wire, World};

pub const MAX_LINES: usize = 2;

/// When the owner of the filter evicts entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evictions {
    Anytime,
    /// When a request waits for an entry and none is free.
    WhenFull,
}

/// Rules of the channels that can be broken, to show that they are needed.
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
    /// A requester accepts a snoop only when it has no outstanding request.
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
    /// Snoops of one kind to one requester for both lines may be joined into one block snoop, while
    /// neither has arrived.
    pub joins: bool,
    /// Requests pass a queue with one entry at the DCOH, whose head blocks all others.
    pub one_request_queue: bool,
    /// States that differ by the names of requesters and lines count once.
    pub reduced: bool,
    pub broken: Broken,
}

impl Config {
    /// The same network without one of its rules.
    pub const fn breaking(self, name: &'static str, broken: Broken) -> Config {
        Config {
            name,
            broken,
            ..self
        }
    }
}

/// A transition between two states. Numbers are agent and line.
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

/// The transitions that are possible in a state. A transition that breaks a property has `Err`.
pub type Moves = Vec<(Move, Outcome)>;

/// Rows of both tables.
pub struct Tables {
    pub requester: Table<requester::Row, requester::RowCondition>,
    pub dcoh: Table<dcoh::Row, dcoh::Others>,
}

pub struct Model {
    pub config: Config,
    pub tables: Tables,
}

impl Network for Model {
    type Config = Config;
    type Tables = Tables;

    fn new(config: Config, tables: Tables) -> Model {
        Model { config, tables }
    }

    fn into_tables(self) -> Tables {
        self.tables
    }

    fn unaltered() -> Tables {
        Tables {
            requester: Table::of(requester::ROWS),
            dcoh: Table::of(dcoh::ROWS),
        }
    }
}

impl Model {
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let agents = self.config.agents;
        (0..self.config.lines).flat_map(move |l| (0..agents).map(move |a| (a, l)))
    }

    /// All values of a line.
    fn values(world: &mut World, l: usize) -> impl Iterator<Item = &mut Data> {
        let home = &mut world.home[l];
        world.wires[l]
            .iter_mut()
            .flat_map(Wire::values)
            .chain([&mut home.medium, &mut home.read])
    }

    /// A store makes every other value of the line old.
    fn supersede(&self, world: &mut World, l: usize) {
        age(Model::values(world, l), Data::Fresh, Data::Recent);
    }

    /// Merges old values that no load may return any more, so that they count as one state.
    fn forget(&self, world: &mut World) {
        for l in 0..self.config.lines {
            let reads_once = world.home[l].pending == Pending::LocalRead
                || world.wires[l].iter().any(Wire::is_loading_once);
            if !reads_once {
                age(Model::values(world, l), Data::Recent, Data::Stale);
            }
        }
    }
}

impl System for Model {
    type World = World;
    type Code = [u64; WORDS];
    type Move = Move;

    fn name(&self) -> &'static str {
        self.config.name
    }

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

    fn encode(&self, world: &World) -> [u64; WORDS] {
        self.code(world)
    }

    fn decode(&self, code: &[u64]) -> World {
        self.world(code)
    }

    fn is_quiet(&self, world: &World) -> bool {
        self.pairs().all(|(a, l)| world.wires[l][a].is_quiet())
            && (0..self.config.lines).all(|l| !world.home[l].state.is_busy())
    }

    fn drains(&self, step: Move) -> bool {
        match step {
            Move::Local(..) | Move::LocalRead(_) | Move::LocalWrite(_) => false,
            Move::Evict(_) | Move::EvictBlock => self.config.evictions == Evictions::WhenFull,
            _ => true,
        }
    }

    fn moves(&self, world: &World, out: &mut Moves) {
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
        finish(out, |next| self.forget(next), |next| self.check(next));
    }
}
