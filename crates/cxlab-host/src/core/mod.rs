//! A core that runs a program. It takes steps in order into a window, several each cycle, and begins a step
//! when its data are available. Steps complete in any order and retire in order. The private caches request
//! missing lines from memory.
//!
//! Memory is CXL memory, through the root ports, and the host's own memory behind its controller. A
//! line that several steps access is requested once. Evicted modified lines and flushed lines are
//! written back. A step that accesses such a line before its write-back has completed is stalled, and
//! so are the steps after it. A flush is issued when every earlier step has begun, a fence when every
//! earlier step has completed.
//!
//! The core's request statistics count the requests that its memory sees: lines read for misses, and lines
//! written for flushes. [`CoreStats`] counts what the program sees.
//!
//! Left out: instruction fetch, address translation, speculation, coherence with other cores.

mod params;
mod prefetch;
mod stats;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use cxlab_agent::{
    AddressMap, CACHE, LOCAL, MEDIA, MEDIA_QUEUE, PROCESS, RequestAgent, RequestLedger, RequestRow,
    RootPorts, STAGE_NAMES, StageTimes, request_agent_fields, stages_of,
};
use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr, SimTime};
use cxlab_link::{LinkPort, Parcel};
use cxlab_memory::Statistic;
use cxlab_protocol::{CacheMeta, LatencyStages, MemMeta, Message, Opcode, PortId};
use cxlab_workload::{Action, After, LOCAL_BASE, Phase, Program, Step};
use serde::{Deserialize, Serialize};

use crate::cache::PrivateCache;
use crate::local::{CompletedRequest, LocalConfig, LocalMemory};
use prefetch::StreamTable;

pub use params::{CacheLevel, CoreParams};
pub use stats::{CoreStats, PhaseStats};

/// Configuration of a core.
pub struct CoreConfig {
    /// Limits and caches of the core.
    pub params: CoreParams,
    /// Number of the core among all requesters.
    pub number: u16,
    /// Edge port of the core.
    pub port_id: PortId,
    /// Links of the core, one for each root port.
    pub ports: Vec<LinkPort>,
    /// The root port towards each edge port; empty when there is one root port.
    pub port_to: Vec<u16>,
    /// Edge port of the first device; devices are numbered from there.
    pub first_device: u16,
    /// Map from addresses to the devices that own them.
    pub map: Arc<AddressMap>,
    /// The host's own memory, if any.
    pub local: Option<LocalConfig>,
    /// The program that the core runs.
    pub program: Box<dyn Program>,
    /// Random stream of the program.
    pub rng: StreamRng,
    /// Most steps to take from the program.
    pub limit: Option<u64>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
}

/// Wake-up tokens: ports use their number.
const ISSUE: u32 = u32::MAX;
const MEMORY: u32 = u32::MAX - 1;
const NIL: u32 = u32::MAX;
/// Completion time of a step that waits for memory.
const PENDING: u64 = u64::MAX;

/// A step in the window.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct WindowEntry {
    step: Step,
    /// When the step began, in picoseconds.
    begun: u64,
    /// When the step completes, in picoseconds; [`PENDING`] if that is not known yet.
    done: u64,
    /// Index of the next step that waits for the same line.
    next: u32,
    /// Index of the first step that waits for this step's data, and of the next one that waits for the
    /// same data as this step.
    waiters: u32,
    sibling: u32,
    /// Number of instructions of the program up to this step.
    position: u64,
}

/// A request to memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct CoreRequest {
    line: LineAddr,
    issued: u64,
    id: u64,
    kind: RequestKind,
    /// The steps that wait for the request, as indices in the window.
    first: u32,
    last: u32,
    /// Whether a waiting step stores to the line.
    dirty: bool,
    /// Whether the prefetcher sent the request.
    prefetch: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum RequestKind {
    Free,
    /// Reads a line for a miss.
    Fill,
    /// Writes a flushed line.
    Flush,
    /// Writes an evicted line.
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
    /// When the window has room for the held step, as far as that is known.
    room: u64,
    exhausted: bool,
    /// Whether the program ended by itself, and not by the limit of its steps.
    finished: bool,
    /// When the program began. The times of its steps count from here.
    begun: u64,
    /// Start of the cycle of the last issue, and the number of steps issued in it.
    cycle_start: u64,
    in_cycle: u32,
    wake: u64,
    caches: Vec<PrivateCache>,
    /// Time of a hit in each level, and of a lookup in all levels, in picoseconds.
    level_ps: Vec<u64>,
    lookup_ps: u64,
    /// The window, a ring buffer: a step's index is its number, from 0, modulo the window's size.
    window: Vec<WindowEntry>,
    oldest: u64,
    next: u64,
    /// Number of instructions of the program up to the next step.
    position: u64,
    /// Number of steps in the window that have not begun, and of those that wait for memory. `latest` is
    /// the latest known completion time of a step.
    waiting: u32,
    pending: u32,
    latest: u64,
    /// Steps whose data will be available, by time and number.
    ready: BinaryHeap<Reverse<(u64, u64)>>,
    /// Steps that have to wait for room in memory, in order.
    blocked: VecDeque<u64>,
    requests: Vec<CoreRequest>,
    free: Vec<u32>,
    streams: StreamTable,
    /// Number of outstanding fills that the prefetcher requested.
    prefetched: u32,
    /// Outstanding fills and write-backs. There are few, so a search is linear.
    fills: Vec<u32>,
    writebacks: Vec<u32>,
    /// Evicted lines that wait for a free request.
    evicted: VecDeque<LineAddr>,
    returned: Vec<CompletedRequest>,
    ledger: RequestLedger,
    stats: CoreStats,
}

save_state!(Core {
    values: left, held, room, exhausted, finished, begun, cycle_start, in_cycle, wake, oldest, next, position, prefetched, waiting, pending, latest, ready, blocked, free, fills, writebacks, evicted, stats;
    sized: window, requests;
    states: roots, local, program, rng, caches, streams, ledger;
    built: params, port_id, first_device, map, level_ps, lookup_ps, returned;
});

impl Core {
    /// Builds the core component.
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
        let requests = (params.fills() + params.writebacks) as usize;
        let free = CoreRequest {
            line: LineAddr(0),
            issued: 0,
            id: 0,
            kind: RequestKind::Free,
            first: NIL,
            last: NIL,
            dirty: false,
            prefetch: false,
        };
        let step = WindowEntry {
            step: Step::new(Hpa(0), Action::Load),
            begun: 0,
            done: 0,
            next: NIL,
            waiters: NIL,
            sibling: NIL,
            position: 0,
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
            room: 0,
            exhausted: false,
            finished: false,
            begun: 0,
            cycle_start: 0,
            in_cycle: 0,
            wake: u64::MAX,
            lookup_ps: level_ps.last().copied().unwrap_or(0),
            level_ps,
            caches,
            window: vec![step; params.window as usize],
            oldest: 0,
            next: 0,
            position: 0,
            waiting: 0,
            pending: 0,
            latest: 0,
            ready: BinaryHeap::with_capacity(params.window as usize),
            blocked: VecDeque::with_capacity(params.window as usize),
            requests: vec![free; requests],
            free: (0..requests as u32).rev().collect(),
            streams: StreamTable::default(),
            prefetched: 0,
            fills: Vec::with_capacity(params.fills() as usize),
            writebacks: Vec::with_capacity(params.writebacks as usize),
            evicted: VecDeque::with_capacity(params.fills() as usize),
            returned: Vec::new(),
            ledger: RequestLedger::new(config.number, config.log),
            stats,
            params,
        }
    }

    /// Statistics of the program.
    pub fn core_stats(&self) -> &CoreStats {
        &self.stats
    }

    /// Phases of the program.
    pub fn phases(&self) -> &[Phase] {
        self.program.phases()
    }

    /// Checks the result of the program, if it ended by itself and everything has completed.
    ///
    /// # Errors
    /// A description of what is wrong with the result.
    pub fn check(&self) -> Result<(), String> {
        match self.finished && self.is_done() {
            true => self.program.check(),
            false => Ok(()),
        }
    }

    /// Statistics of the memory backend of the host's own memory; `None` without such memory.
    pub fn local_statistics(&self, now: SimTime) -> Option<Vec<Statistic>> {
        self.local.as_ref().map(|local| local.statistics(now))
    }

    /// Handles the completed requests of the host's own memory.
    fn memory(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(local) = &mut self.local else { return };
        let mut returned = std::mem::take(&mut self.returned);
        local.wake(ctx, MEMORY, &mut returned);
        let way = 2 * local.latency_ps;
        for back in returned.drain(..) {
            let mut stages: StageTimes = [0; STAGE_NAMES.len()];
            stages[PROCESS] = way;
            stages[CACHE] = self.lookup_ps;
            stages[MEDIA_QUEUE] = back.queue_ps;
            stages[MEDIA] = back.media_ps;
            self.receive_response(ctx, back.tag, stages, 0, LOCAL);
        }
        self.returned = returned;
    }

    /// Begins and takes as many steps as the cycle, the window and memory allow. Requests a wake-up
    /// if only time is missing.
    fn issue(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.write_evicted(ctx);
        while let Some(number) = self.blocked.front().copied()
            && self.begin(ctx, number)
        {
            self.blocked.pop_front();
        }
        let mut next = self.take(ctx);
        self.begin_ready(ctx);
        if self.params.prefetch > 0 {
            self.prefetch(ctx);
        }
        if let Some(Reverse((time, _))) = self.ready.peek()
            && self.blocked.is_empty()
        {
            next = next.min(*time);
        }
        // Steps that wait for memory continue when memory responds.
        if next != PENDING && next < self.wake {
            self.wake = next;
            ctx.wake_at(SimTime(next), ISSUE);
        }
    }

    /// Begins the steps whose data are available.
    fn begin_ready(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        while self.blocked.is_empty()
            && let Some(Reverse((time, number))) = self.ready.peek().copied()
            && time <= now
        {
            self.ready.pop();
            if !self.begin(ctx, number) {
                self.blocked.push_back(number);
            }
        }
    }

    /// Takes steps into the window. Returns when the next step can be taken, or [`PENDING`] if that depends
    /// on memory or no step is left.
    fn take(&mut self, ctx: &mut Ctx<'_, Parcel>) -> u64 {
        let now = ctx.now().0;
        loop {
            self.begin_ready(ctx);
            if self.held.is_none() && !self.exhausted {
                if self.left > 0 {
                    self.left -= 1;
                    self.held = self.program.next_step(&mut self.rng);
                    self.finished = self.held.is_none();
                }
                self.exhausted = self.held.is_none();
            }
            let full = self.retire(now);
            let Some(step) = self.held else {
                return PENDING;
            };
            if !self.blocked.is_empty() {
                return PENDING;
            }
            let due = full.unwrap_or_else(|| self.due(&step));
            if due > now {
                return due;
            }
            (self.held, self.room) = (None, 0);
            if now > self.cycle_start {
                self.cycle_start = now;
                self.in_cycle = 0;
            }
            self.in_cycle += 1;
            self.enter(ctx, &step);
        }
    }

    /// Retires completed steps from the window. If the next step does not fit yet, returns when the
    /// oldest step completes.
    fn retire(&mut self, now: u64) -> Option<u64> {
        let next = self.held.map_or(self.position, |step| {
            self.position + u64::from(step.instructions)
        });
        while self.oldest < self.next {
            let oldest = self.place(self.oldest);
            let beyond = (next - oldest.position).checked_sub(self.window.len() as u64);
            if oldest.done > now {
                return beyond.map(|_| oldest.done);
            }
            if let (Some(beyond), Some(step)) = (beyond, self.held) {
                // The instructions that did not fit execute after the oldest step has completed.
                let computing = u64::from(step.cycles) * self.params.cycle.0;
                let rest = computing * beyond / u64::from(step.instructions.max(1));
                self.room = self.room.max(oldest.done + rest);
            }
            self.oldest += 1;
        }
        None
    }

    /// Index of a step in the window.
    fn place_of(&self, number: u64) -> u32 {
        (number % self.window.len() as u64) as u32
    }

    /// Number of the step at an index of the window.
    fn number_at(&self, place: u32) -> u64 {
        let size = self.window.len() as u64;
        let ahead = (u64::from(place) + size - self.oldest % size) % size;
        self.oldest + ahead
    }

    fn place(&self, number: u64) -> &WindowEntry {
        &self.window[self.place_of(number) as usize]
    }

    fn place_mut(&mut self, number: u64) -> &mut WindowEntry {
        let place = self.place_of(number);
        &mut self.window[place as usize]
    }

    /// When a step can be taken into the window; [`PENDING`] if it waits for steps whose
    /// completion time is not known.
    fn due(&self, step: &Step) -> u64 {
        let cycle = self.params.cycle.0;
        let slot = match self.in_cycle < self.params.width {
            true => self.cycle_start,
            false => self.cycle_start + cycle,
        };
        let computing = u64::from(step.cycles) * cycle;
        let computed = match step.after {
            After::Nothing | After::Back(_) => self.cycle_start + computing,
            // The step computes when its data are available, and does not block younger steps.
            After::Previous => 0,
            After::All if self.pending + self.waiting > 0 => return PENDING,
            After::All => self.latest.max(self.cycle_start) + computing,
        };
        if step.action == Action::Flush && self.waiting > 0 {
            return PENDING;
        }
        slot.max(computed)
            .max(self.room)
            .max(self.begun + step.not_before.0)
    }

    /// Puts a step into the window, and begins it if nothing is missing.
    fn enter(&mut self, ctx: &mut Ctx<'_, Parcel>, step: &Step) {
        let now = ctx.now().0;
        let number = self.next;
        let needed = self.needed(number, step.after);
        let data = needed.map_or(0, |needed| self.place(needed).done);
        let mut sibling = NIL;
        if let (Some(needed), PENDING) = (needed, data) {
            let place = self.place_of(number);
            sibling = std::mem::replace(&mut self.place_mut(needed).waiters, place);
        }
        self.next += 1;
        self.position += u64::from(step.instructions);
        let position = self.position;
        *self.place_mut(number) = WindowEntry {
            step: *step,
            begun: now,
            done: PENDING,
            next: NIL,
            waiters: NIL,
            sibling,
            position,
        };
        self.waiting += 1;
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
        if data == PENDING {
            return;
        }
        let begin = match step.after {
            After::Previous | After::Back(_) => self.when_computed(data, step),
            After::Nothing | After::All => now,
        };
        if begin > now {
            self.ready.push(Reverse((begin, number)));
        } else if !self.begin(ctx, number) {
            self.blocked.push_back(number);
        }
    }

    /// The step whose data a step needs, if that step may still be in the window.
    fn needed(&self, number: u64, after: After) -> Option<u64> {
        match after {
            After::Previous => number.checked_sub(1),
            After::Back(back) => number
                .checked_sub(u64::from(back))
                .filter(|needed| *needed >= self.oldest),
            After::Nothing | After::All => None,
        }
    }

    fn when_computed(&self, data: u64, step: &Step) -> u64 {
        match step.after {
            After::Back(_) => data,
            After::Previous | After::Nothing | After::All => {
                data + u64::from(step.cycles) * self.params.cycle.0
            }
        }
    }

    /// Begins a step of the window. Returns false if memory cannot accept its request yet.
    fn begin(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u64) -> bool {
        let Step { hpa, action, .. } = self.place(number).step;
        let line = hpa.line();
        let store = action == Action::Store;
        if action == Action::Flush {
            return self.begin_flush(ctx, number, line);
        }
        let begun = self.begin_access(ctx, number, line, store);
        if begun && self.params.prefetch > 0 {
            self.streams.note(line);
            self.prefetch(ctx);
        }
        begun
    }

    /// Begins a load or a store. Returns false if memory cannot accept its request yet.
    fn begin_access(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u64,
        line: LineAddr,
        store: bool,
    ) -> bool {
        let now = ctx.now().0;
        if let Some(level) = self.find(line, store) {
            self.stats.hits[level] += 1;
            self.begun(number, now);
            self.completes(number, now + self.level_ps[level]);
            return true;
        }
        let place = self.place_of(number);
        if let Some(request) = self.fill_of(line) {
            self.stats.merged += 1;
            self.begun(number, now);
            self.pending += 1;
            let request = &mut self.requests[request as usize];
            request.dirty |= store;
            let last = std::mem::replace(&mut request.last, place);
            match last {
                NIL => request.first = place,
                last => self.window[last as usize].next = place,
            }
            return true;
        }
        let misses = self.fills.len() as u32 - self.prefetched;
        let full = misses >= self.params.misses || self.fills.len() >= self.params.fills() as usize;
        if full || self.is_writing_back_most() || self.is_going_back(line) {
            return false;
        }
        self.stats.misses += 1;
        self.begun(number, now);
        self.pending += 1;
        let tag = self.request(ctx, line, RequestKind::Fill, place);
        self.requests[tag as usize].dirty = store;
        self.fills.push(tag);
        true
    }

    /// Requests the lines that the prefetcher proposes, as long as there is room.
    fn prefetch(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let most = self.params.prefetch;
        while self.fills.len() < most as usize
            && !self.is_writing_back_most()
            && let Some(line) = self.streams.next(most)
        {
            let hpa = Hpa(line.0 * 64);
            let cached = self.caches.iter().any(|cache| cache.has(line));
            let nowhere = hpa < LOCAL_BASE && self.map.owner(hpa).is_none();
            if cached || nowhere || self.fill_of(line).is_some() || self.is_going_back(line) {
                continue;
            }
            let tag = self.request(ctx, line, RequestKind::Fill, NIL);
            self.requests[tag as usize].prefetch = true;
            self.fills.push(tag);
            self.prefetched += 1;
            self.stats.prefetches += 1;
        }
    }

    /// Begins a flush. Returns false if memory cannot accept its write yet.
    fn begin_flush(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u64, line: LineAddr) -> bool {
        let now = ctx.now().0;
        if self.is_writing_back_most() || self.fill_of(line).is_some() || self.is_going_back(line) {
            return false;
        }
        let mut dirty = false;
        for cache in &mut self.caches {
            dirty |= cache.clean(line);
        }
        self.begun(number, now);
        if !dirty {
            self.completes(number, now + self.lookup_ps);
            return true;
        }
        self.stats.flushes_dirty += 1;
        self.pending += 1;
        let place = self.place_of(number);
        let tag = self.request(ctx, line, RequestKind::Flush, place);
        self.writebacks.push(tag);
        true
    }

    fn begun(&mut self, number: u64, now: u64) {
        self.place_mut(number).begun = now;
        self.waiting -= 1;
    }

    /// Sets the completion time of a step. A step that waits for its data begins then,
    /// or when it has computed.
    fn completes(&mut self, number: u64, done: u64) {
        let entry = self.place_mut(number);
        entry.done = done;
        let (step, begun) = (entry.step, entry.begun);
        self.latest = self.latest.max(done);
        let phase = &mut self.stats.phases[step.phase as usize];
        phase.completed += 1;
        phase.operations += u64::from(step.ends);
        phase.end = phase.end.max(SimTime(done));
        if step.action == Action::Load {
            phase.loads += 1;
            phase.load_ps += u128::from(done - begun);
        }
        let mut place = std::mem::replace(&mut self.place_mut(number).waiters, NIL);
        while place != NIL {
            let WindowEntry { step, sibling, .. } = self.window[place as usize];
            let waits = self.number_at(place);
            self.ready
                .push(Reverse((self.when_computed(done, &step), waits)));
            place = sibling;
        }
    }

    /// The level in which a line hits. The line is then in all nearer levels too.
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

    /// Inserts a line into a level. A modified line that is evicted goes to the next level.
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

    /// Whether the limit of outstanding write-backs is reached.
    fn is_writing_back_most(&self) -> bool {
        self.writebacks.len() + self.evicted.len() >= self.params.writebacks as usize
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

    /// Writes evicted lines to memory as long as there are free requests.
    fn write_evicted(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while !self.evicted.is_empty() && self.writebacks.len() < self.params.writebacks as usize {
            let Some(line) = self.evicted.pop_front() else {
                return;
            };
            let tag = self.request(ctx, line, RequestKind::Evict, NIL);
            self.ledger.stats.writebacks += 1;
            self.writebacks.push(tag);
        }
    }

    /// Sends a request to memory, and returns its tag.
    fn request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        kind: RequestKind,
        place: u32,
    ) -> u32 {
        let now = ctx.now();
        let Some(tag) = self.free.pop() else {
            unreachable!("there are as many requests as misses and write-backs");
        };
        let hpa = Hpa(line.0 * 64);
        let write = kind != RequestKind::Fill;
        self.requests[tag as usize] = CoreRequest {
            line,
            issued: now.0,
            id: self.ledger.issued(),
            kind,
            first: place,
            last: place,
            dirty: false,
            prefetch: false,
        };
        if kind != RequestKind::Evict {
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
        let Some(device) = self.map.owner(hpa) else {
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
                cache: CacheMeta::NONE,
                lines: 1,
                data: 0,
            },
        );
        tag
    }

    /// Handles the response of memory to a request.
    fn receive_response(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        tag: u32,
        stages: StageTimes,
        hops: u16,
        device: u16,
    ) {
        let now = ctx.now();
        let request = self.requests[tag as usize];
        assert!(
            request.kind != RequestKind::Free,
            "an answer to a request that was never made"
        );
        self.requests[tag as usize].kind = RequestKind::Free;
        self.free.push(tag);
        let under_way = match request.kind {
            RequestKind::Fill => &mut self.fills,
            _ => &mut self.writebacks,
        };
        if let Some(at) = under_way.iter().position(|other| *other == tag) {
            under_way.swap_remove(at);
        }
        if request.kind == RequestKind::Fill {
            self.prefetched -= u32::from(request.prefetch);
            for level in (0..self.caches.len()).rev() {
                self.insert(level, request.line, request.dirty && level == 0);
            }
        }
        let mut place = request.first;
        while place != NIL {
            self.pending -= 1;
            let next = self.window[place as usize].next;
            self.completes(self.number_at(place), now.0);
            place = next;
        }
        if request.kind == RequestKind::Evict {
            return;
        }
        self.ledger.check_stages(&stages, now.0 - request.issued);
        self.ledger.leave(now, request.issued);
        let row = RequestRow {
            requester: 0,
            device,
            id: request.id,
            write: request.kind == RequestKind::Flush,
            hpa: request.line.0 * 64,
            issued_ps: request.issued,
            completed_ps: now.0,
            hops,
            stages,
            denied: false,
            failure: None,
            value: 0,
        };
        self.ledger.complete(ctx, row, false);
    }
}

impl RequestAgent for Core {
    request_agent_fields!(roots, ledger);

    fn in_flight(&self) -> u64 {
        (self.requests.len() - self.free.len() + self.evicted.len()) as u64
    }

    fn is_done(&self) -> bool {
        let open = self.waiting + self.pending;
        self.exhausted && self.held.is_none() && open == 0 && self.in_flight() == 0
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.begun = ctx.now().0;
        self.cycle_start = self.begun;
        self.issue(ctx);
    }

    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, _port: u16, message: &Message) {
        let stages = stages_of(&message.stages, self.params.process_time.0, self.lookup_ps);
        let device = message.source.0 - self.first_device;
        self.receive_response(ctx, message.tag, stages, message.hops + 1, device);
    }

    /// Handles a wake-up: for issuing, the host's own memory, or a port.
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
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

    fn issue_pending(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issue(ctx);
    }

    /// Resets the statistics of the host's own memory. Those of the program's phases cover the whole run.
    fn reset_statistics(&mut self, now: SimTime) {
        if let Some(local) = &mut self.local {
            local.begin_measurement(now);
        }
    }

    fn end_measurement(&mut self, now: SimTime) {
        if let Some(local) = &mut self.local {
            local.catch_up(now);
        }
    }
}
