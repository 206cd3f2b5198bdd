//! The memory of `cxlab vm`: the analytic form's stages and stations, applied to each miss of a guest.
//!
//! A request takes the constant stages of its path, to the picosecond. It waits where a direction of a link still sends
//! earlier messages, for the time of these in full flits. The medium is simulated with its state. Requests of several
//! guests meet in the links and devices that they share. Memory of a region that several guests have is shared
//! (`shares`); of class HDM-DB, its device keeps their caches coherent (`coherent`). Of an accelerator, only the memory
//! is modelled, as its host reaches it. Left out: credits, sharing of flits between the classes of messages, errors of
//! links, and traffic of hosts that are no guests.

mod coherent;
mod shares;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cxlab_analytic::{ConstantStages, MessageClass, Wire};
use cxlab_device::{DeviceParams, WriteCompletion};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, Hpa, SimTime};
use cxlab_host::AddressMap;
use cxlab_memory::{Completion, FaultList, MediumSite, MemoryBackend, MemoryRequest, RunContext};
use cxlab_plan::routes::{Route, Router};
use cxlab_plan::{DeviceKind, Plan, Problem};
use cxlab_scenario::{HostKind, LocalMemoryParams, MediumChoice};

use super::wire;
use coherent::Home;
use shares::SharedMemories;

pub use coherent::SnoopCounts;
pub use shares::{SharedLine, SharedRegion};

/// Accesses in the medium of the host's own memory at once: the default of a device's controller.
const LOCAL_CONTEXTS: u32 = 256;
/// A line of memory, as one of the guests sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestLine {
    /// The guest with the line, by number among the hosts that are guests.
    pub guest: usize,
    /// Whether it is CXL memory. Its address is then one of the plan's.
    pub is_cxl: bool,
    /// Byte address of the line, in the plan or in the guest's own memory.
    pub address: u64,
}

/// Completion time of a request that is not completed yet.
const OPEN: u64 = u64::MAX;

/// A host's own memory where the scenario gives it none (*assumed*).
pub fn default_local() -> LocalMemoryParams {
    LocalMemoryParams {
        capacity: Bytes(1 << 30),
        latency: cxlab_engine::units::Picos::from_nanos(5),
        memory: MediumChoice::default(),
    }
}

/// A station on a path, and the time that a message occupies it.
#[derive(Clone, Copy)]
struct Stop {
    station: usize,
    busy_ps: u64,
}

/// One direction of a path, for one class of messages.
#[derive(Clone, Default)]
struct Leg {
    constant_ps: u64,
    stops: Vec<Stop>,
}

/// A device, or the host's own memory, as a guest sees it: its routes for reads and writes, and its medium.
struct Pool {
    name: String,
    there: [Leg; 2],
    back: [Leg; 2],
    /// Number of the pool's medium.
    medium: usize,
    /// Capacity in bytes; addresses are taken modulo it.
    capacity: u64,
}

/// The pools that a guest sees.
struct PoolView {
    map: Arc<AddressMap>,
    /// The guest's pools, among those of all guests.
    pools: Range<usize>,
    /// By device; 0 where the guest does not reach it.
    pool_of: Vec<usize>,
}

/// A plan's memory as some of its hosts see it: guest 0 is the first of them.
pub struct PlanMemory {
    hosts: usize,
    guests: Vec<PoolView>,
    pools: Vec<Pool>,
    media: Vec<Queue>,
    /// By medium: the home of its lines, where its device keeps them coherent.
    homes: Vec<Option<Home>>,
    /// Snoops that each guest has answered.
    snoops: Vec<SnoopCounts>,
    shares: SharedMemories,
    /// By station: until when it is busy.
    busy: Vec<u64>,
    /// By ticket: its pool, whether it writes, and when it was done.
    requests: Vec<(usize, bool, u64)>,
    free: Vec<u32>,
    now: u64,
    /// Errors of media that cannot continue.
    faults: FaultList,
}

impl PlanMemory {
    /// The memory of a plan's hosts.
    ///
    /// # Errors
    /// Plans that the analytic form does not cover, except for memory of class HDM-DB with two or more hosts.
    pub fn new(plan: &Plan, hosts: &[usize], seed: u64) -> Result<PlanMemory, Vec<Problem>> {
        super::refuse_of_guests(plan)?;
        let shares = SharedMemories::new(plan, hosts);
        shares.check(plan, hosts)?;
        plan.rehearse_media()?;
        let router = Router::new(plan);
        let services = services(plan);
        let mut memory = PlanMemory {
            faults: FaultList::default(),
            hosts: plan.hosts.len(),
            guests: Vec::new(),
            pools: Vec::new(),
            media: Vec::new(),
            homes: Vec::new(),
            snoops: vec![SnoopCounts::default(); hosts.len()],
            shares,
            busy: vec![0; services.len()],
            requests: Vec::new(),
            free: Vec::new(),
            now: 0,
        };
        // By device: its medium, once one of the hosts reaches it.
        let mut media = vec![None; plan.devices.len()];
        for host in hosts {
            let first = memory.pools.len();
            let mut pool_of = vec![0; plan.devices.len()];
            memory.local(plan, *host, seed)?;
            for device in 0..plan.devices.len() {
                let Some(mut pool) = remote(plan, &router, &services, (*host, device)) else {
                    continue;
                };
                pool.medium = match media[device] {
                    Some(medium) => medium,
                    None => memory.device(plan, device, seed)?,
                };
                media[device] = Some(pool.medium);
                pool_of[device] = memory.pools.len();
                memory.pools.push(pool);
            }
            memory.guests.push(PoolView {
                map: Arc::clone(&plan.hosts[*host].map),
                pools: first..memory.pools.len(),
                pool_of,
            });
        }
        Ok(memory)
    }

    fn stuck(&self, pool: usize) -> String {
        let name = &self.pools[pool].name;
        match self.faults.first() {
            Some((_, what)) => format!("{name} ({what})"),
            None => name.clone(),
        }
    }

    /// Constant time of a read of each of a guest's pools, without the medium's, in picoseconds.
    pub fn constant_ps(&self, guest: usize) -> Vec<u64> {
        let both = |pool: &Pool| pool.there[0].constant_ps + pool.back[0].constant_ps;
        let pools = &self.pools[self.guests[guest].pools.clone()];
        pools.iter().map(both).collect()
    }

    /// Adds a host's own memory.
    fn local(&mut self, plan: &Plan, host: usize, seed: u64) -> Result<(), Vec<Problem>> {
        let context = plan.media_context(self.faults.clone());
        let (mut pool, backend) = local(plan, host, seed, context)?;
        pool.medium = self.media.len();
        self.pools.push(pool);
        let queue = Queue::new(backend, &own_memory_controller());
        self.media.push(queue);
        self.homes.push(None);
        Ok(())
    }

    /// Adds a device's medium.
    fn device(&mut self, plan: &Plan, device: usize, seed: u64) -> Result<usize, Vec<Problem>> {
        let name = &plan.devices[device].name;
        let site = |capacity| MediumSite {
            capacity,
            rng: StreamRng::new(seed, &format!("{name}/medium")),
            context: plan.media_context(self.faults.clone()),
        };
        let (queue, home) = match plan.devices[device].group {
            DeviceKind::Memory(number) => {
                let group = &plan.scenario.devices[number];
                let backend = plan.media.devices[number].backend(site(group.capacity));
                let home = match group.is_hdm_db() {
                    true => Some(Home::new(plan, device, seed)?),
                    false => None,
                };
                (Queue::new(backend, &group.controller), home)
            }
            DeviceKind::Accelerator(number) => {
                let (Some(memory), Some(medium)) = (
                    &plan.scenario.accelerators[number].memory,
                    &plan.media.accelerators[number],
                ) else {
                    unreachable!("`remote` has found its memory")
                };
                let backend = medium.backend(site(memory.capacity));
                (Queue::new(backend, &own_memory_controller()), None)
            }
        };
        self.media.push(queue);
        self.homes.push(home);
        Ok(self.media.len() - 1)
    }

    /// The pool of a line, among those of all guests, and the line's address in it.
    fn locate(&self, line: GuestLine) -> Option<(usize, u64)> {
        let guest = self.guests.get(line.guest)?;
        if !line.is_cxl {
            return Some((guest.pools.start, line.address));
        }
        let (port, dpa) = guest.map.locate(Hpa(line.address))?;
        let pool = guest.pool_of[port.0 as usize - self.hosts];
        (pool > 0).then_some((pool, dpa.0))
    }

    /// Records the completions of a medium.
    fn settle(&mut self, done: &mut Vec<(u32, u64)>) {
        for (ticket, at) in done.drain(..) {
            if ticket == NOBODY {
                continue;
            }
            let (pool, write, _) = self.requests[ticket as usize];
            let leg = &self.pools[pool].back[usize::from(write)];
            self.requests[ticket as usize].2 = travel(&mut self.busy, leg, at);
        }
    }
}

/// Arrival time of a message that leaves at `from` and occupies the stations on its path.
fn travel(busy: &mut [u64], leg: &Leg, from: u64) -> u64 {
    let mut waited = 0;
    for stop in &leg.stops {
        let free = &mut busy[stop.station];
        let at = (from + waited).max(*free);
        waited = at - from;
        *free = at + stop.busy_ps;
    }
    from + waited + leg.constant_ps
}

impl PlanMemory {
    /// The names of a guest's pools. Pool 0 is its own memory; others are devices, which are the same for all guests.
    pub fn pools(&self, guest: usize) -> Vec<String> {
        let pools = &self.pools[self.guests[guest].pools.clone()];
        pools.iter().map(|pool| pool.name.clone()).collect()
    }

    /// The pool of a line, by its guest's numbers; `None` outside all memory.
    pub fn pool_of(&self, line: GuestLine) -> Option<usize> {
        let first = self.guests.get(line.guest)?.pools.start;
        self.locate(line).map(|(pool, _)| pool - first)
    }

    /// Issues a request for a line of a pool; returns the request's number. Requests come in the order of their times;
    /// a late request, of a processor that lags behind, travels from its own time and enters
    /// the medium now at the earliest.
    pub fn issue(&mut self, at_ps: u64, line: GuestLine, write: bool) -> u32 {
        let (pool, address) = self.locate(line).unwrap_or((0, 0));
        let ticket = self.ticket(pool, write);
        let one = &self.pools[pool];
        let at = travel(&mut self.busy, &one.there[usize::from(write)], at_ps);
        self.media[one.medium].come(ComingRequest {
            at,
            ticket,
            dpa: Dpa(address % one.capacity),
            write,
        });
        ticket
    }

    /// Number of a new request.
    fn ticket(&mut self, pool: usize, write: bool) -> u32 {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.requests.push((0, false, OPEN));
            self.requests.len() as u32 - 1
        });
        self.requests[ticket as usize] = (pool, write, OPEN);
        ticket
    }

    /// Memory that guests share.
    pub fn shared_regions(&self) -> &[SharedRegion] {
        &self.shares.regions
    }

    /// Number of the shared memory behind each of a guest's windows, if any.
    pub fn shared_windows(&self, guest: usize) -> &[Option<usize>] {
        &self.shares.windows[guest]
    }

    /// The line in memory that guests share; `None` for a line of a guest's own.
    pub fn shared(&self, line: GuestLine) -> Option<SharedLine> {
        if !line.is_cxl || self.shares.regions.is_empty() {
            return None;
        }
        let windows = self.guests.get(line.guest)?.map.windows().iter();
        let numbers = &self.shares.windows[line.guest];
        let inside = |base: u64, size: u64| line.address.wrapping_sub(base) < size;
        let mut found = windows.zip(numbers);
        let (window, number) = found.find(|(window, _)| inside(window.base.0, window.size.0))?;
        Some(SharedLine {
            memory: (*number)?,
            offset: line.address - window.base.0,
            coherent: self.shares.regions[(*number)?].coherent,
        })
    }

    /// Time of the next event, in picoseconds, if there is one.
    pub fn next_ps(&self) -> Option<u64> {
        self.media.iter().filter_map(Queue::next).min()
    }

    /// Handles all events up to a time, in picoseconds.
    pub fn advance(&mut self, to_ps: u64) {
        self.now = self.now.max(to_ps);
        let mut done = Vec::new();
        for medium in 0..self.media.len() {
            self.media[medium].until(self.now, &mut done);
            self.settle(&mut done);
        }
    }

    /// Completion time of a request, in picoseconds, once it is certain.
    pub fn known(&self, ticket: u32) -> Option<u64> {
        Some(self.requests[ticket as usize].2).filter(|at| *at != OPEN)
    }

    /// Completion time of a request that has completed; the request's number is then free.
    pub fn done(&mut self, ticket: u32) -> Option<u64> {
        let at = self.requests[ticket as usize].2;
        if at > self.now {
            return None;
        }
        self.free.push(ticket);
        Some(at)
    }

    /// Advances the request's medium until the request is done; its number is then free. No other request may be issued
    /// before that time.
    ///
    /// # Errors
    /// The name of a pool whose medium never completes the request, with the reason if there is one.
    pub fn finish(&mut self, ticket: u32) -> Result<u64, String> {
        let pool = self.requests[ticket as usize].0;
        let medium = self.pools[pool].medium;
        let mut done = Vec::new();
        // A request of a processor that is behind in time arrives at once.
        self.media[medium].enter();
        while self.requests[ticket as usize].2 == OPEN {
            let next = self.media[medium].next();
            let next = next.ok_or_else(|| self.stuck(pool))?;
            self.media[medium].until(next, &mut done);
            self.settle(&mut done);
        }
        self.free.push(ticket);
        Ok(self.requests[ticket as usize].2)
    }
}

/// The controller of memory that is no Type 3 device's.
fn own_memory_controller() -> DeviceParams {
    DeviceParams {
        contexts: LOCAL_CONTEXTS,
        write_completion: WriteCompletion::Written,
        ..DeviceParams::default()
    }
}

/// By station and message class: the time that a message occupies the station.
fn services(plan: &Plan) -> Vec<[u64; MessageClass::COUNT]> {
    let both = |link| {
        let service = service(&wire(plan, link));
        [service, service]
    };
    plan.links.iter().flat_map(both).collect()
}

fn service(wire: &Wire) -> [u64; MessageClass::COUNT] {
    // One message in a microsecond is no load.
    let rate = 1e-6;
    MessageClass::ALL.map(|class| {
        let mut rates = [0.0; MessageClass::COUNT];
        rates[class as usize] = rate;
        (wire.load(&rates).packed / rate).round() as u64
    })
}

/// A host's own memory, whose medium has no number yet. Of a processor with several NUMA nodes, only the first node counts.
fn local(
    plan: &Plan,
    host: usize,
    seed: u64,
    context: RunContext,
) -> Result<(Pool, Box<dyn MemoryBackend>), Vec<Problem>> {
    let planned = &plan.hosts[host];
    let group = &plan.scenario.hosts[planned.group];
    let site = |capacity| MediumSite {
        capacity,
        rng: StreamRng::new(seed, &format!("{}/local", planned.name)),
        context,
    };
    let (leg_ps, capacity, backend) = match (&group.kind, group.nodes.first()) {
        (HostKind::Processor(processor), Some(node)) => (
            processor.distance(node.at).0 + node.latency.0,
            node.capacity,
            plan.media.nodes[planned.group][0].backend(site(node.capacity)),
        ),
        _ => {
            let fallback = default_local();
            let params = group.local.as_ref().unwrap_or(&fallback);
            let backend = match &plan.media.local[planned.group] {
                Some(medium) => medium.backend(site(params.capacity)),
                None => {
                    let built = params.memory.build();
                    let path = format!("hosts[{}].local.memory", planned.group);
                    built
                        .map_err(|error| vec![Problem::of_param(&path, error)])?
                        .backend(site(params.capacity))
                }
            };
            (params.latency.0, params.capacity, backend)
        }
    };
    let leg = Leg {
        constant_ps: leg_ps,
        stops: Vec::new(),
    };
    let both = [leg.clone(), leg];
    let pool = Pool {
        name: "local".to_owned(),
        there: both.clone(),
        back: both,
        medium: 0,
        capacity: capacity.0.max(64),
    };
    Ok((pool, backend))
}

/// A device's pool, whose medium has no number yet; `None` if the host does not reach it, or it has none.
fn remote(
    plan: &Plan,
    router: &Router<'_>,
    services: &[[u64; MessageClass::COUNT]],
    (host, device): (usize, usize),
) -> Option<Pool> {
    let target = plan.hosts.len() + device;
    let (there, back) = (router.route(host, target)?, router.route(target, host)?);
    // Bytes of the device, and its constant times behind and before its link.
    let (capacity, arrives_ps, leaves_ps) = match plan.devices[device].group {
        DeviceKind::Memory(number) => {
            let group = &plan.scenario.devices[number];
            (group.capacity.0, group.controller.process_time.0, 0)
        }
        DeviceKind::Accelerator(number) => {
            let group = &plan.scenario.accelerators[number];
            let device = &group.device;
            let capacity = group.memory.as_ref()?.capacity.0;
            (capacity, device.ingress().0, device.egress().0)
        }
    };
    let leg = |way: &Route, class: MessageClass, more: u64| {
        let mut stages = ConstantStages::default();
        way.add_stages(plan, class, &mut stages);
        let stop = |visit: cxlab_analytic::Visit| {
            let busy = services[visit.station as usize][class as usize] as f64 * visit.share;
            Stop {
                station: visit.station as usize,
                busy_ps: busy.round() as u64,
            }
        };
        Leg {
            constant_ps: stages.total() + more,
            stops: way.visits(plan, class, None).map(stop).collect(),
        }
    };
    let both = |way: &Route, class: fn(bool) -> MessageClass, more: u64| {
        [false, true].map(|write| leg(way, class(write), more))
    };
    let before_ps = process_ps(plan, host) + arrives_ps;
    let behind_ps = leaves_ps + plan.scenario.hosts[plan.hosts[host].group].ingress().0;
    Some(Pool {
        name: plan.devices[device].name.clone(),
        there: both(&there, MessageClass::request, before_ps),
        back: both(&back, MessageClass::response, behind_ps),
        medium: 0,
        capacity,
    })
}

/// Constant time from the last cache to the link.
fn process_ps(plan: &Plan, host: usize) -> u64 {
    let group = &plan.scenario.hosts[plan.hosts[host].group];
    match &group.kind {
        HostKind::Core(core) => core.process_time.0,
        HostKind::Requester(issue) => issue.process_time.0,
        HostKind::Processor(processor) => processor.root_port_time.0,
    }
}

/// A request on its way to a medium.
#[derive(Clone, Copy)]
struct ComingRequest {
    at: u64,
    ticket: u32,
    dpa: Dpa,
    write: bool,
}

/// A medium, the requests inside, and the requests on their way to it.
struct Queue {
    backend: Box<dyn MemoryBackend>,
    now: u64,
    /// Requests on their way, the earliest first.
    coming: VecDeque<ComingRequest>,
    /// By number in the medium.
    inside: Vec<u32>,
    free: Vec<u32>,
    /// Completions that the medium reported in advance, in order.
    told: VecDeque<Completion>,
    done: Vec<Completion>,
    /// Whether writes complete when the medium accepts them; and the writes accepted since the last call of `until`.
    posts: bool,
    posted: Vec<(u32, u64)>,
}

/// Stands for the ticket of a write that completed when it was accepted.
const POSTED: u32 = u32::MAX;
/// Stands for the ticket of a write whose completion concerns no guest.
const NOBODY: u32 = u32::MAX - 1;

impl Queue {
    fn new(backend: Box<dyn MemoryBackend>, controller: &DeviceParams) -> Queue {
        let contexts = controller.contexts;
        Queue {
            posts: controller.write_completion == WriteCompletion::Accepted,
            posted: Vec::new(),
            backend,
            now: 0,
            coming: VecDeque::new(),
            inside: vec![0; contexts as usize],
            free: (0..contexts).rev().collect(),
            told: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Sends a request on its route. Requests of several hosts may overtake each other.
    fn come(&mut self, one: ComingRequest) {
        let behind = self.coming.iter().rev();
        let behind = behind.take_while(|other| other.at > one.at).count();
        self.coming.insert(self.coming.len() - behind, one);
        if one.at <= self.now {
            self.enter();
        }
    }

    /// Time of the next event.
    fn next(&self) -> Option<u64> {
        let coming = self.coming.front().map(|first| first.at);
        let coming = coming.filter(|at| *at > self.now);
        let told = self.told.front().map(|first| first.at.0);
        let event = self.backend.next_event().map(|event| event.0);
        let posted = self.posted.first().map(|(_, at)| *at);
        [coming, told, event, posted].into_iter().flatten().min()
    }

    /// Handles all events up to a time; adds completed requests to `done`.
    fn until(&mut self, to: u64, done: &mut Vec<(u32, u64)>) {
        self.enter();
        done.append(&mut self.posted);
        while let Some(next) = self.next().filter(|next| *next <= to) {
            self.now = self.now.max(next);
            self.backend.advance(SimTime(self.now), &mut self.done);
            while let Some(first) = self.told.front().filter(|first| first.at.0 <= self.now) {
                self.done.push(*first);
                self.told.pop_front();
            }
            for completion in self.done.drain(..) {
                self.free.push(completion.id);
                match self.inside[completion.id as usize] {
                    POSTED => {}
                    ticket => done.push((ticket, completion.at.0)),
                }
            }
            self.enter();
            done.append(&mut self.posted);
        }
        self.now = self.now.max(to);
    }

    /// Passes requests that have arrived to the medium, as far as it accepts them.
    fn enter(&mut self) {
        while let Some(first) = self.coming.front().copied() {
            let accepted = first.at <= self.now
                && !self.free.is_empty()
                && self.backend.can_accept(SimTime(self.now), first.write);
            let id = if accepted { self.free.pop() } else { None };
            let Some(id) = id else { return };
            self.coming.pop_front();
            self.inside[id as usize] = match first.write && self.posts {
                true => {
                    self.posted.push((first.ticket, self.now));
                    POSTED
                }
                false => first.ticket,
            };
            let request = MemoryRequest {
                id,
                dpa: first.dpa,
                lines: 1,
                write: first.write,
            };
            if let Some(at) = self.backend.enqueue(SimTime(self.now), request) {
                self.told.push_back(Completion { id, at });
            }
        }
    }
}
