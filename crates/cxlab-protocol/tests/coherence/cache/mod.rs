//! The network model of CXL.cache: devices that cache host memory, and the host with its home agent
//! and its cores, for one or two lines.
//!
//! Order: messages are not ordered, except that a snoop does not pass an earlier message on H2D Rsp to the same line
//! and device. Every other pair of messages, also of one channel and one line, may arrive in either order.
//!
//! Blocking: D2H Req waits at the home while its line is busy. All other messages are accepted as
//! soon as they arrive; a table that cannot accept one breaks the property `ChannelsSink`.
//!
//! Queues: a device has at most one message per line in flight on each channel, and the home at
//! most one per line and device. A second one breaks the property `QueueBounds`.
//!
//! Data are modelled as in the model of HDM-DB: `Fresh` is the value of the last store. A write
//! that the host pulls takes effect when the device sends its data.
//!
//! A configuration with [`Waits`] also follows which access waits for which. Each store is a
//! read-modify-write that locks its line until the device unlocks it. Requests queue at the home in the
//! order of their arrival, and the accesses that overtake a waiting request are counted (`BoundedWaiting`).

mod check;
mod device;
pub mod exploration;
mod flows;
mod home;
mod mutation;
mod operation;
mod state;
mod waiting;

use cxlab_protocol::coherence::cache_agent::{self, Event};
use cxlab_protocol::coherence::cache_home::{self, Others};

use crate::checker::{Data, Network, Property, System, Table, age, finish};
pub use operation::{Evicting, Pending, Pulled};
pub use state::{Cores, Home, WORDS, Wire, World};
pub use waiting::Waits;

pub const MAX_DEVICES: usize = 2;
pub const MAX_LINES: usize = 2;

/// Rules that can be broken, to show that they are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    Nothing,
    /// A snoop passes earlier messages on H2D Rsp.
    SnoopPassesGo,
    /// A device answers a snoop only when it has no outstanding request.
    SnoopBehindRequest,
    /// Data of a device wait at the home while one of its requests waits there.
    DataBehindRequest,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub devices: usize,
    pub lines: usize,
    pub operations: &'static [Event],
    /// The host's cores load, store, write back and drop lines.
    pub cores: bool,
    /// The home may want the data of clean evictions.
    pub victims: bool,
    /// Devices may send `CacheFlushed`.
    pub flushes: bool,
    /// The directory may evict entries.
    pub evictions: bool,
    /// There is no memory at the addresses of the lines.
    pub missing: bool,
    /// States that differ by the names of devices and lines count once.
    pub reduced: bool,
    pub broken: Broken,
    /// If given, the model follows which access waits for which, by these arbitration rules.
    pub waits: Option<Waits>,
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

/// A transition between two states. Numbers are device and line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    Local(usize, usize, Event),
    Request(usize, usize),
    RequestWanted(usize, usize),
    SnoopResponse(usize, usize),
    SnoopData(usize, usize),
    PulledData(usize, usize),
    Snoop(usize, usize),
    /// A snoop finds its line locked, and waits.
    SnoopWaits(usize, usize),
    /// The read-modify-write that locked the line is over.
    Unlock(usize, usize),
    /// A request arrives at the home and is queued.
    Arrive(usize, usize),
    Response(usize, usize),
    Data(usize, usize),
    CoreLoad(usize),
    CoreStore(usize),
    CoreDrop(usize),
    CoreWriteBack(usize),
    CoresAnswer(usize),
    ReadDone(usize),
    Written(usize),
    EvictEntry(usize),
    CacheFlushed(usize),
    FlushTaken(usize),
    FlushDone(usize),
}

pub type Outcome = Result<World, Property>;

/// The transitions that are possible in a state. A transition that breaks a property has `Err`.
pub type Moves = Vec<(Move, Outcome)>;

/// Rows of both tables.
pub struct Tables {
    pub agent: Table<cache_agent::Row, cache_agent::RowCondition>,
    pub home: Table<cache_home::Row, (cache_home::RowCondition, Others)>,
}

impl Tables {
    /// The rows, with the condition and view of the other holders, that no search has used.
    pub fn unused(&self) -> Vec<String> {
        let mut unused = Vec::new();
        for (r, row) in cache_agent::ROWS.iter().enumerate() {
            let cells = row.on.iter().filter(|&&on| !self.agent.is_used(r, on));
            unused.extend(cells.map(|on| format!("{} on {on:?}", row.name)));
        }
        for (r, row) in cache_home::ROWS.iter().enumerate() {
            for (on, others) in mutation::cells(row) {
                if !self.home.is_used(r, (on, others)) {
                    unused.push(format!("{} on {on:?}, others {others:?}", row.name));
                }
            }
        }
        unused
    }
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
            agent: Table::of(cache_agent::ROWS),
            home: Table::of(cache_home::ROWS),
        }
    }
}

impl Model {
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let devices = self.config.devices;
        (0..self.config.lines).flat_map(move |l| (0..devices).map(move |a| (a, l)))
    }

    /// All values of a line.
    fn values(world: &mut World, l: usize) -> impl Iterator<Item = &mut Data> {
        let home = &mut world.home[l];
        world.wires[l].iter_mut().flat_map(Wire::values).chain([
            &mut home.memory,
            &mut home.buffer,
            &mut world.cores[l].copy,
        ])
    }

    /// A store makes every other value of the line old.
    fn supersede(&self, world: &mut World, l: usize) {
        age(Model::values(world, l), Data::Fresh, Data::Recent);
    }

    /// Merges old values that no load may return any more, so that they count as one state.
    fn forget(&self, world: &mut World) {
        for l in 0..self.config.lines {
            if !world.wires[l].iter().any(Wire::is_loading_once) {
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
        self.config.lines * (self.config.devices + 1)
    }

    fn start(&self) -> World {
        let home = Home {
            memory: Data::Fresh,
            ..Home::default()
        };
        World {
            wires: [[Wire::default(); MAX_DEVICES]; MAX_LINES],
            home: [home; MAX_LINES],
            cores: [Cores::default(); MAX_LINES],
            flushed: [0; MAX_DEVICES],
        }
    }

    fn encode(&self, world: &World) -> [u64; WORDS] {
        self.code(world)
    }

    fn decode(&self, code: &[u64]) -> World {
        self.world(code)
    }

    fn is_quiet(&self, world: &World) -> bool {
        let lines = 0..self.config.lines;
        self.pairs().all(|(a, l)| world.wires[l][a].is_quiet())
            && lines.clone().all(|l| !world.home[l].state.is_busy())
            && lines.clone().all(|l| world.cores[l].snoop.is_none())
            && lines
                .clone()
                .all(|l| world.cores[l].pending == Pending::Nothing)
            && world.flushed == [0; MAX_DEVICES]
    }

    fn drains(&self, step: Move) -> bool {
        !matches!(
            step,
            Move::Local(..)
                | Move::CoreLoad(_)
                | Move::CoreStore(_)
                | Move::CoreDrop(_)
                | Move::CoreWriteBack(_)
                | Move::EvictEntry(_)
                | Move::CacheFlushed(_)
        )
    }

    fn moves(&self, world: &World, out: &mut Moves) {
        out.clear();
        for (a, l) in self.pairs() {
            self.device_moves(world, a, l, out);
            self.waiting_moves(world, a, l, out);
            self.home_moves_for(world, a, l, out);
        }
        for l in 0..self.config.lines {
            self.home_moves(world, l, out);
        }
        for a in 0..self.config.devices {
            self.flush_moves(world, a, out);
        }
        finish(out, |next| self.forget(next), |next| self.check(next));
    }
}
