//! CXL.cache and back-invalidation together: a device whose cache (HMC) holds a line of the host's
//! memory and whose own memory, kept coherent by its DCOH with a snoop filter, is cached by the
//! host and by the device itself (DMC).
//!
//! The two lines share only their agents, so a state consists of a state of each network. The
//! networks are joined by restrictions: the host's cache has room for one line that its cores
//! request, the device has one outstanding request of its own, and the host serves no request of
//! the device while one of the host's own is outstanding. Such waiting is allowed. The reverse
//! waiting is not allowed, and deadlocks.

use cxlab_protocol::coherence::cache_agent;
use cxlab_protocol::coherence::requester::{Event, Line};

use crate::cache::{self, exploration::ONE};
use crate::checker::{Network, Property, System, check_all, check_broken};
use crate::mem::{self, exploration::TWO};

const MEM: &[Event] = &[Event::Load, Event::Store, Event::Evict];

/// The host's cache, as a requester of the device's line.
const HOST: usize = 0;
/// The device's own cache, as a requester of the device's line.
const DMC: usize = 1;
/// The device's cache of host memory, as a requester of the host's line.
const HMC: usize = 0;
/// Index of the line in each network.
const LINE: usize = 0;

/// Additional waiting between requests and snoops, beyond what is always allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    Allowed,
    /// The host accepts no BISnp while a request of the device waits there.
    BisnpForRequest,
    /// The device accepts no M2S Req while its own request is outstanding.
    RequestForRequest,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Mem(mem::Move),
    Cache(cache::Move),
}

type World = (mem::World, cache::World);

struct Together {
    mem: mem::Model,
    cache: cache::Model,
    waiting: Waiting,
}

impl Together {
    fn new(waiting: Waiting) -> Together {
        let mem = mem::Config {
            name: "host cache and DMC",
            operations: MEM,
            local_agent: false,
            dirty_medium: false,
            reduced: false,
            ..TWO
        };
        Together {
            mem: mem::Model::new(mem, mem::Model::unaltered()),
            cache: cache::Model::new(ONE, cache::Model::unaltered()),
            waiting,
        }
    }

    /// Whether the restrictions that join the networks allow this move.
    fn allows(&self, (mem, cache): &World, step: Move) -> bool {
        let [host, dmc] = [HOST, DMC].map(|a| &mem.wires[LINE][a].state);
        let hmc = &cache.wires[LINE][HMC];
        let cores = &cache.cores[LINE];
        match step {
            Move::Mem(mem::Move::Local(HOST, ..)) => {
                let room = cores.line == cache_agent::Line::I;
                let idle = cores.pending == cache::Pending::Nothing;
                host.line != Line::I || room && idle
            }
            Move::Mem(mem::Move::Local(..)) => hmc.state.is_settled(),
            Move::Mem(mem::Move::Snoop(HOST, _)) => {
                self.waiting != Waiting::BisnpForRequest || hmc.request.is_none()
            }
            Move::Mem(mem::Move::Request(HOST, _)) => {
                self.waiting != Waiting::RequestForRequest || hmc.state.is_settled()
            }
            Move::Cache(cache::Move::Local(..)) => dmc.is_settled(),
            Move::Cache(cache::Move::CoreLoad(_) | cache::Move::CoreStore(_)) => {
                cores.line != cache_agent::Line::I || host.line == Line::I
            }
            Move::Cache(cache::Move::Request(..)) => host.is_settled(),
            _ => true,
        }
    }
}

impl System for Together {
    type World = World;
    type Code = Vec<u64>;
    type Move = Move;

    fn name(&self) -> &'static str {
        match self.waiting {
            Waiting::Allowed => "allowed waiting",
            Waiting::BisnpForRequest => "BISnp waits for a request of the device",
            Waiting::RequestForRequest => "M2S Req waits for a request of the device",
        }
    }

    fn words(&self) -> usize {
        self.mem.words() + self.cache.words()
    }

    fn start(&self) -> World {
        (self.mem.start(), self.cache.start())
    }

    fn encode(&self, (mem, cache): &World) -> Vec<u64> {
        let mem = &self.mem.encode(mem)[..self.mem.words()];
        [mem, &self.cache.encode(cache)[..self.cache.words()]].concat()
    }

    fn decode(&self, code: &[u64]) -> World {
        let (mem, cache) = code.split_at(self.mem.words());
        (self.mem.decode(mem), self.cache.decode(cache))
    }

    fn moves(&self, world: &World, out: &mut Vec<(Move, Result<World, Property>)>) {
        out.clear();
        let (mut mem, mut cache) = (Vec::new(), Vec::new());
        self.mem.moves(&world.0, &mut mem);
        self.cache.moves(&world.1, &mut cache);
        let mem = mem.into_iter();
        let mem = mem.map(|(step, to)| (Move::Mem(step), to.map(|to| (to, world.1))));
        let cache = cache.into_iter();
        let cache = cache.map(|(step, to)| (Move::Cache(step), to.map(|to| (world.0, to))));
        let all = mem.chain(cache);
        out.extend(all.filter(|(step, _)| self.allows(world, *step)));
    }

    fn drains(&self, step: Move) -> bool {
        match step {
            Move::Mem(step) => self.mem.drains(step),
            Move::Cache(step) => self.cache.drains(step),
        }
    }

    fn is_quiet(&self, world: &World) -> bool {
        self.mem.is_quiet(&world.0) && self.cache.is_quiet(&world.1)
    }
}

#[test]
fn every_property_holds_for_a_device_that_caches_and_is_cached() {
    check_all(&Together::new(Waiting::Allowed), 541754);
}

/// The device's request waits for the host's, which waits for the line's back-invalidation.
#[test]
fn back_invalidation_that_waits_for_a_request_of_the_device_deadlocks() {
    let together = Together::new(Waiting::BisnpForRequest);
    check_broken(&together, Property::NoDeadlock);
}

#[test]
fn requests_of_host_and_device_that_wait_for_each_other_deadlock() {
    let together = Together::new(Waiting::RequestForRequest);
    check_broken(&together, Property::NoDeadlock);
}
