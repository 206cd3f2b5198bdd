//! A core that runs a program: it issues steps in order, some each cycle, lets them complete in
//! any order within a window, and retires them in order; its private caches ask memory for what
//! they lack.
//!
//! Memory is CXL memory, over the root ports, and the host's own memory below its controller. A
//! line that several steps want is asked for once. Modified lines that make room, and flushed
//! ones, are written back; a step that wants such a line before memory has it waits.
//!
//! What counts as a request of the host here is what its memory sees: a line read for a miss, or
//! written for a flush. What the program saw is in [`CoreStats`].
//!
//! Left out: instruction fetch, address translation, speculation, prefetching, coherence with
//! other cores.

mod local;
mod params;
mod stats;

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, LineAddr, SimTime};
use cxlab_link::{Buffer, LinkPort, Parcel};
use cxlab_memory::Statistic;
use cxlab_protocol::{LatencyStages, MemMeta, Message, Opcode, PortId};
use cxlab_workload::{Action, After, LOCAL_BASE, Phase, Program, Step};

use crate::address_map::AddressMap;
use crate::cache::PrivateCache;
use crate::ledger::Ledger;
use crate::root_ports::RootPorts;
use crate::stats::{CACHE, LOCAL, MEDIA, PROCESS, QUEUE};
use crate::stats::{RequestRow, RequesterStats, STAGE_NAMES, Stages, stages_of};

pub use local::LocalConfig;
use local::{LocalMemory, Returned};
pub use params::{CacheLevel, CoreParams};
pub use stats::{CoreStats, PhaseStats};

/// What a core is built from.
pub struct CoreConfig {
    /// Its limits and caches.
    pub params: CoreParams,
    /// Its number among the requesters.
    pub number: u16,
    /// Its edge port.
    pub port_id: PortId,
    /// Its links, one for each root port, and which of them leads to each edge port.
    pub ports: Vec<LinkPort>,
    /// The root port towards each edge port; empty when there is one root port.
    pub port_to: Vec<u16>,
    /// First edge port of a device: devices are numbered from there.
    pub first_device: u16,
    /// Which device owns an address.
    pub map: Arc<AddressMap>,
    /// The host's own memory.
    pub local: Option<LocalConfig>,
    /// What it runs.
    pub program: Box<dyn Program>,
    /// Its random stream.
    pub rng: StreamRng,
    /// Steps to take from the program at most.
    pub limit: Option<u64>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
}

/// Wake-up tokens: ports use their number.
const ISSUE: u32 = u32::MAX;
const MEMORY: u32 = u32::MAX - 1;
const NIL: u32 = u32::MAX;
/// Of a step that waits for memory.
const PENDING: u64 = u64::MAX;

/// A step in the window.
#[derive(Clone, Copy)]
struct InFlight {
    issued: u64,
    /// When it completes, [`PENDING`] while memory has not answered.
    done: u64,
    /// The next step that waits for the same line.
    next: u32,
    phase: u8,
    load: bool,
    ends: bool,
}

/// A request to memory.
#[derive(Clone, Copy)]
struct Request {
    line: LineAddr,
    issued: u64,
    id: u64,
    kind: Kind,
    /// The steps that wait for it, places in the window.
    first: u32,
    last: u32,
    /// Whether one of them stores.
    dirty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Free,
    /// Reads a line for a miss.
    Fill,
    /// Writes a flushed line.
    Flush,
    /// Writes a line that made room.
    Evict,
}

/// The core component.
pub struct Core {
    params: CoreParams,
    port_id: PortId,
    first_device: u16,
    roots: RootPorts,
    map: Arc<AddressMap>,
    local: Option<LocalMemory>,
    program: Box<dyn Program>,
    rng: StreamRng,
    left: u64,
    held: Option<Step>,
    exhausted: bool,
    /// The cycle of the last issue, and how many were issued in it.
    cycle_start: u64,
    in_cycle: u32,
    wake: u64,
    caches: Vec<PrivateCache>,
    /// Time until the answer of each level, and of a look into all.
    level_ps: Vec<u64>,
    lookup_ps: u64,
    /// The window, a ring: steps are numbered from 0, and lie at their number modulo its size.
    window: Vec<InFlight>,
    oldest: u64,
    next: u64,
    /// Steps in the window that wait for memory, and the latest time that any other is done.
    pending: u32,
    latest: u64,
    requests: Vec<Request>,
    free: Vec<u32>,
    /// Fills and write-backs under way: few, so they are searched one by one.
    fills: Vec<u32>,
    writebacks: Vec<u32>,
    /// Lines that made room and wait for a free request.
    evicted: VecDeque<LineAddr>,
    returned: Vec<Returned>,
    ledger: Ledger,
    stats: CoreStats,
}

impl Core {
    /// Builds the component.
    pub fn new(config: CoreConfig) -> Self {
        let params = config.params;
        let mut time = 0;
        let level_ps: Vec<u64> = params
            .caches
            .iter()
            .map(|level| {
                time += level.access_time.0;
                time
            })
            .collect();
        let caches: Vec<PrivateCache> = params
            .caches
            .iter()
            .map(|level| PrivateCache::of(level.size, level.ways))
            .collect();
        let requests = (params.misses + params.writebacks) as usize;
        let free = Request {
            line: LineAddr(0),
            issued: 0,
            id: 0,
            kind: Kind::Free,
            first: NIL,
            last: NIL,
            dirty: false,
        };
        let step = InFlight {
            issued: 0,
            done: 0,
            next: NIL,
            phase: 0,
            load: false,
            ends: false,
        };
        let stats = CoreStats {
            hits: vec![0; caches.len()],
            phases: vec![PhaseStats::default(); config.program.phases().len()],
            ..CoreStats::default()
        };
        Core {
            port_id: config.port_id,
            first_device: config.first_device,
            roots: RootPorts::new(config.ports, config.port_to, requests),
            map: config.map,
            local: config.local.map(|local| LocalMemory::new(local, requests)),
            program: config.program,
            rng: config.rng,
            left: config.limit.unwrap_or(u64::MAX),
            held: None,
            exhausted: false,
            cycle_start: 0,
            in_cycle: 0,
            wake: u64::MAX,
            lookup_ps: level_ps.last().copied().unwrap_or(0),
            level_ps,
            caches,
            window: vec![step; params.window as usize],
            oldest: 0,
            next: 0,
            pending: 0,
            latest: 0,
            requests: vec![free; requests],
            free: (0..requests as u32).rev().collect(),
            fills: Vec::with_capacity(params.misses as usize),
            writebacks: Vec::with_capacity(params.writebacks as usize),
            evicted: VecDeque::with_capacity(params.misses as usize),
            returned: Vec::new(),
            ledger: Ledger::new(config.number, config.log),
            stats,
            params,
        }
    }

    /// What its memory requests measured.
    pub fn stats(&self) -> &RequesterStats {
        &self.ledger.stats
    }

    /// What its program measured.
    pub fn core_stats(&self) -> &CoreStats {
        &self.stats
    }

    /// The phases of its program.
    pub fn phases(&self) -> &[Phase] {
        self.program.phases()
    }

    /// Checks the result of a program that has finished.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        self.program.check()
    }

    /// What the medium of the host's own memory kept about itself; `None` without such memory.
    pub fn local_statistics(&self, now: SimTime) -> Option<Vec<Statistic>> {
        self.local.as_ref().map(|local| local.statistics(now))
    }

    /// Requests to memory in flight, write-backs included.
    pub fn in_flight(&self) -> u64 {
        (self.requests.len() - self.free.len() + self.evicted.len()) as u64
    }

    /// Requests in flight that count as requests.
    pub fn requests_in_flight(&self) -> u64 {
        self.ledger.in_flight()
    }

    /// Summed age, at `now`, of the requests in flight that count as requests.
    pub fn age_ps(&self, now: SimTime) -> u128 {
        self.ledger.age_ps(now)
    }

    /// Whether its program has finished and everything has completed.
    pub fn is_done(&self) -> bool {
        self.exhausted && self.held.is_none() && self.pending == 0 && self.in_flight() == 0
    }

    /// Its ports, for link statistics.
    pub fn ports_mut(&mut self) -> &mut [LinkPort] {
        &mut self.roots.ports
    }

    /// Takes the rows logged since the last call.
    pub fn take_rows(&mut self) -> Vec<RequestRow> {
        self.ledger.take_rows()
    }

    /// Measurement begins. The program's phases are measured from the beginning of the run.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.ledger.begin_measurement(now);
        self.roots.begin_measurement(now);
        if let Some(local) = &mut self.local {
            local.begin_measurement(now);
        }
    }

    /// The run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issue(ctx);
    }

    /// A parcel arrives from a link.
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let link = &mut self.roots.ports[port as usize];
        let credited = link.receive(parcel);
        if let Some(mut message) = parcel.message {
            message.hops += 1;
            link.release(ctx, Buffer::of(message.channel(), message.vc));
            let stages = stages_of(&message.stages, self.params.process_time.0, self.lookup_ps);
            let device = message.source.0 - self.first_device;
            self.answered(ctx, message.tag, stages, message.hops, device);
        }
        if credited {
            self.roots.pump(ctx, port);
        }
        self.issue(ctx);
    }

    /// A wake-up: to issue, for the host's own memory, or for a port.
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match token {
            ISSUE => {
                if ctx.now().0 == self.wake {
                    self.wake = u64::MAX;
                }
            }
            MEMORY => self.memory(ctx),
            port => self.roots.wake(ctx, port),
        }
        self.issue(ctx);
    }

    /// The host's own memory has something to do.
    fn memory(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(local) = &mut self.local else { return };
        let mut returned = std::mem::take(&mut self.returned);
        local.wake(ctx, MEMORY, &mut returned);
        let way = 2 * local.latency_ps;
        for back in returned.drain(..) {
            let mut stages: Stages = [0; STAGE_NAMES.len()];
            stages[PROCESS] = way;
            stages[CACHE] = self.lookup_ps;
            stages[QUEUE] = back.queue_ps;
            stages[MEDIA] = back.media_ps;
            self.answered(ctx, back.tag, stages, 0, LOCAL);
        }
        self.returned = returned;
    }

    /// Issues as many steps as the cycle, the window and memory allow, and asks to be woken when
    /// only time is missing.
    fn issue(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        self.write_evicted(ctx);
        loop {
            while self.oldest < self.next && self.place(self.oldest).done <= now {
                self.oldest += 1;
            }
            if self.held.is_none() && !self.exhausted {
                if self.left > 0 {
                    self.left -= 1;
                    self.held = self.program.next_step(&mut self.rng);
                }
                self.exhausted = self.held.is_none();
            }
            let Some(step) = self.held else { return };
            let due = if self.next - self.oldest == self.window.len() as u64 {
                self.place(self.oldest).done
            } else {
                self.due(&step)
            };
            if due > now {
                // What waits for memory goes on when memory has answered.
                if due != PENDING && due < self.wake {
                    self.wake = due;
                    ctx.wake_at(SimTime(due), ISSUE);
                }
                return;
            }
            if !self.begin(ctx, &step) {
                return;
            }
            self.held = None;
            if now > self.cycle_start {
                self.cycle_start = now;
                self.in_cycle = 0;
            }
            self.in_cycle += 1;
        }
    }

    fn place(&self, number: u64) -> &InFlight {
        &self.window[(number % self.window.len() as u64) as usize]
    }

    /// When a step may be issued; [`PENDING`] while it waits for a step that waits for memory.
    fn due(&self, step: &Step) -> u64 {
        let data = match step.after {
            After::Nothing => 0,
            After::Previous if self.next > 0 => self.place(self.next - 1).done,
            After::Previous => 0,
            After::All if self.pending > 0 => PENDING,
            After::All => self.latest,
        };
        if data == PENDING {
            return PENDING;
        }
        let cycle = self.params.cycle.0;
        let slot = match self.in_cycle < self.params.width {
            true => self.cycle_start,
            false => self.cycle_start + cycle,
        };
        let computed = data.max(self.cycle_start) + u64::from(step.cycles) * cycle;
        slot.max(computed).max(step.not_before.0)
    }

    /// Issues a step; false when memory cannot take what it needs yet.
    fn begin(&mut self, ctx: &mut Ctx<'_, Parcel>, step: &Step) -> bool {
        let line = step.hpa.line();
        let store = step.action == Action::Store;
        let now = ctx.now().0;
        if step.action == Action::Flush {
            return self.begin_flush(ctx, step, line);
        }
        if let Some(level) = self.find(line, store) {
            self.stats.hits[level] += 1;
            self.enter(step, now, now + self.level_ps[level]);
            return true;
        }
        if let Some(request) = self.fill_of(line) {
            self.stats.merged += 1;
            let place = self.enter(step, now, PENDING);
            let request = &mut self.requests[request as usize];
            request.dirty |= store;
            let last = std::mem::replace(&mut request.last, place);
            self.window[last as usize].next = place;
            return true;
        }
        let full = self.fills.len() == self.params.misses as usize
            || self.writebacks.len() + self.evicted.len() >= self.params.writebacks as usize;
        if full || self.is_going_back(line) {
            return false;
        }
        self.stats.misses += 1;
        let place = self.enter(step, now, PENDING);
        let tag = self.request(ctx, line, Kind::Fill, place);
        self.requests[tag as usize].dirty = store;
        self.fills.push(tag);
        true
    }

    /// Issues a flush.
    fn begin_flush(&mut self, ctx: &mut Ctx<'_, Parcel>, step: &Step, line: LineAddr) -> bool {
        let now = ctx.now().0;
        let full = self.writebacks.len() + self.evicted.len() >= self.params.writebacks as usize;
        if full || self.fill_of(line).is_some() || self.is_going_back(line) {
            return false;
        }
        let mut dirty = false;
        for cache in &mut self.caches {
            dirty |= cache.clean(line);
        }
        if !dirty {
            self.enter(step, now, now + self.lookup_ps);
            return true;
        }
        self.stats.flushes_dirty += 1;
        let place = self.enter(step, now, PENDING);
        let tag = self.request(ctx, line, Kind::Flush, place);
        self.writebacks.push(tag);
        true
    }

    /// The level that has a line, which is then in all levels before it too.
    fn find(&mut self, line: LineAddr, store: bool) -> Option<usize> {
        let first = self.caches.first_mut()?;
        if first.touch(line, store) {
            return Some(0);
        }
        let level = (1..self.caches.len()).find(|level| self.caches[*level].touch(line, false))?;
        for above in (0..level).rev() {
            self.insert(above, line, store && above == 0);
        }
        Some(level)
    }

    /// Takes a line into a level; what has to make room and was modified goes to the next level.
    fn insert(&mut self, level: usize, line: LineAddr, dirty: bool) {
        let mut out = self.caches[level].insert(line, dirty);
        for next in level + 1..self.caches.len() {
            let Some(line) = out else { return };
            if self.caches[next].touch(line, true) {
                return;
            }
            out = self.caches[next].insert(line, true);
        }
        self.evicted.extend(out);
    }

    fn fill_of(&self, line: LineAddr) -> Option<u32> {
        let mut fills = self.fills.iter();
        fills
            .find(|tag| self.requests[**tag as usize].line == line)
            .copied()
    }

    fn is_going_back(&self, line: LineAddr) -> bool {
        self.evicted.contains(&line)
            || self
                .writebacks
                .iter()
                .any(|tag| self.requests[*tag as usize].line == line)
    }

    /// A step enters the window; returns its place.
    fn enter(&mut self, step: &Step, now: u64, done: u64) -> u32 {
        let place = (self.next % self.window.len() as u64) as u32;
        self.next += 1;
        let entry = InFlight {
            issued: now,
            done,
            next: NIL,
            phase: step.phase,
            load: step.action == Action::Load,
            ends: step.ends,
        };
        self.window[place as usize] = entry;
        match step.action {
            Action::Load => self.stats.loads += 1,
            Action::Store => self.stats.stores += 1,
            Action::Flush => self.stats.flushes += 1,
        }
        let phase = &mut self.stats.phases[step.phase as usize];
        if phase.issued == 0 {
            phase.begin = SimTime(now);
        }
        phase.issued += 1;
        if done == PENDING {
            self.pending += 1;
        } else {
            self.latest = self.latest.max(done);
            self.completed(&entry, done);
        }
        place
    }

    /// Counts a step whose completion is known.
    fn completed(&mut self, step: &InFlight, done: u64) {
        let phase = &mut self.stats.phases[step.phase as usize];
        phase.completed += 1;
        phase.operations += u64::from(step.ends);
        phase.end = phase.end.max(SimTime(done));
        if step.load {
            phase.loads += 1;
            phase.load_ps += u128::from(done - step.issued);
        }
    }

    /// Lines that made room go to memory while there are free requests.
    fn write_evicted(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while !self.evicted.is_empty() && self.writebacks.len() < self.params.writebacks as usize {
            let Some(line) = self.evicted.pop_front() else {
                return;
            };
            let tag = self.request(ctx, line, Kind::Evict, NIL);
            self.ledger.stats.writebacks += 1;
            self.writebacks.push(tag);
        }
    }

    /// Sends a request to memory.
    fn request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        kind: Kind,
        place: u32,
    ) -> u32 {
        let now = ctx.now();
        let Some(tag) = self.free.pop() else {
            unreachable!("there are as many requests as misses and write-backs");
        };
        let hpa = Hpa(line.0 * 64);
        let write = kind != Kind::Fill;
        self.requests[tag as usize] = Request {
            line,
            issued: now.0,
            id: self.ledger.issued(),
            kind,
            first: place,
            last: place,
            dirty: false,
        };
        if kind != Kind::Evict {
            self.ledger.enter(now);
        }
        if hpa >= LOCAL_BASE {
            let Some(local) = &mut self.local else {
                unreachable!("the plan checked that the host has memory of its own");
            };
            debug_assert!(hpa.0 - LOCAL_BASE.0 < local.capacity.0);
            local.send(ctx, MEMORY, tag, line.0, write, self.lookup_ps);
            return tag;
        }
        let Some((device, _)) = self.map.locate(hpa) else {
            panic!("{hpa:?} lies outside the memory that the plan gave the program");
        };
        self.roots.send(
            ctx,
            Message {
                hpa,
                issued_ps: now.0,
                stages: LatencyStages::default(),
                tag,
                source: self.port_id,
                destination: device,
                opcode: if write { Opcode::MemWr } else { Opcode::MemRd },
                vc: 0,
                hops: 0,
                meta: MemMeta::NONE,
                lines: 1,
                data: 0,
            },
        );
        tag
    }

    /// Memory has answered a request.
    fn answered(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        tag: u32,
        stages: Stages,
        hops: u16,
        device: u16,
    ) {
        let now = ctx.now();
        let request = self.requests[tag as usize];
        assert!(
            request.kind != Kind::Free,
            "an answer to a request that was never made"
        );
        self.requests[tag as usize].kind = Kind::Free;
        self.free.push(tag);
        let under_way = match request.kind {
            Kind::Fill => &mut self.fills,
            _ => &mut self.writebacks,
        };
        if let Some(at) = under_way.iter().position(|other| *other == tag) {
            under_way.swap_remove(at);
        }
        if request.kind == Kind::Fill {
            for level in (0..self.caches.len()).rev() {
                self.insert(level, request.line, request.dirty && level == 0);
            }
        }
        let mut place = request.first;
        while place != NIL {
            let step = &mut self.window[place as usize];
            step.done = now.0;
            let step = *step;
            self.pending -= 1;
            self.completed(&step, now.0);
            place = step.next;
        }
        if request.kind == Kind::Evict {
            return;
        }
        assert_eq!(
            stages.iter().sum::<u64>(),
            now.0 - request.issued,
            "latency stages sum to the latency"
        );
        self.ledger.leave(now, request.issued);
        let row = RequestRow {
            requester: 0,
            device,
            id: request.id,
            write: request.kind == Kind::Flush,
            hpa: request.line.0 * 64,
            issued_ps: request.issued,
            completed_ps: now.0,
            hops,
            stages,
        };
        self.ledger.complete(ctx, row, false);
    }
}
