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

mod caches;
mod front_end;
mod memory_requests;
mod params;
mod prefetch;
mod stats;
mod window;

use std::cmp::Reverse;
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
use cxlab_protocol::{Message, Opcode, PortId};
use cxlab_workload::{Action, After, LOCAL_BASE, Phase, Program, Step};

use crate::local::{CompletedRequest, LocalConfig, LocalMemory};
use caches::CacheHierarchy;
use front_end::FrontEnd;
use memory_requests::{CoreRequest, MemoryRequests, RequestKind};
use prefetch::StreamTable;
use window::{NIL, PENDING, Window, WindowEntry};

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
/// The core component.
pub struct Core {
    params: CoreParams,
    port_id: PortId,
    first_device: u16,
    roots: RootPorts,
    map: Arc<AddressMap>,
    local: Option<LocalMemory>,
    front: FrontEnd,
    caches: CacheHierarchy,
    window: Window,
    requests: MemoryRequests,
    streams: StreamTable,
    /// Time of the pending wake-up for issuing, in picoseconds.
    wake: u64,
    returned: Vec<CompletedRequest>,
    ledger: RequestLedger,
    stats: CoreStats,
}

save_state!(Core {
    values: wake, stats;
    states: roots, local, front, caches, window, requests, streams, ledger;
    built: params, port_id, first_device, map, returned;
});

impl Core {
    /// Builds the core component.
    pub fn new(config: CoreConfig) -> Self {
        let params = config.params;
        let requests = (params.fills() + params.writebacks) as usize;
        let stats = CoreStats {
            hits: vec![0; params.caches.len()],
            phases: vec![PhaseStats::default(); config.program.phases().len()],
            ..CoreStats::default()
        };
        Core {
            port_id: config.port_id,
            first_device: config.first_device,
            roots: RootPorts::new(config.ports, config.port_to, requests),
            map: config.map,
            local: config.local.map(|local| LocalMemory::new(local, requests)),
            front: FrontEnd::new(config.program, config.rng, config.limit),
            caches: CacheHierarchy::new(&params.caches),
            window: Window::new(params.window),
            requests: MemoryRequests::new(&params),
            streams: StreamTable::default(),
            wake: u64::MAX,
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
        self.front.program.phases()
    }

    /// Checks the result of the program, if it ended by itself and everything has completed.
    ///
    /// # Errors
    /// A description of what is wrong with the result.
    pub fn check(&self) -> Result<(), String> {
        match self.front.finished && self.is_done() {
            true => self.front.program.check(),
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
            stages[CACHE] = self.caches.lookup_ps;
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
        while let Some(number) = self.window.blocked.front().copied()
            && self.begin(ctx, number)
        {
            self.window.blocked.pop_front();
        }
        let mut next = self.take(ctx);
        self.begin_ready(ctx);
        if self.params.prefetch > 0 {
            self.prefetch(ctx);
        }
        if let Some(Reverse((time, _))) = self.window.ready.peek()
            && self.window.blocked.is_empty()
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
        while self.window.blocked.is_empty()
            && let Some(Reverse((time, number))) = self.window.ready.peek().copied()
            && time <= now
        {
            self.window.ready.pop();
            if !self.begin(ctx, number) {
                self.window.blocked.push_back(number);
            }
        }
    }

    /// Takes steps into the window. Returns when the next step can be taken, or [`PENDING`] if that depends
    /// on memory or no step is left.
    fn take(&mut self, ctx: &mut Ctx<'_, Parcel>) -> u64 {
        let now = ctx.now().0;
        loop {
            self.begin_ready(ctx);
            self.front.hold();
            let full = self.retire(now);
            let Some(step) = self.front.held else {
                return PENDING;
            };
            if !self.window.blocked.is_empty() {
                return PENDING;
            }
            let due = full.unwrap_or_else(|| self.due(&step));
            if due > now {
                return due;
            }
            self.front.take(now);
            self.enter(ctx, &step);
        }
    }

    /// Retires completed steps from the window. If the next step does not fit yet, returns when the
    /// oldest step completes.
    fn retire(&mut self, now: u64) -> Option<u64> {
        let next = self.front.held.map_or(self.window.position, |step| {
            self.window.position + u64::from(step.instructions)
        });
        while self.window.oldest < self.window.next {
            let oldest = &self.window[self.window.oldest];
            let beyond = (next - oldest.position).checked_sub(self.window.size());
            if oldest.done > now {
                return beyond.map(|_| oldest.done);
            }
            if let (Some(beyond), Some(step)) = (beyond, self.front.held) {
                // The instructions that did not fit execute after the oldest step has completed.
                let computing = u64::from(step.cycles) * self.params.cycle.0;
                let rest = computing * beyond / u64::from(step.instructions.max(1));
                self.front.room = self.front.room.max(oldest.done + rest);
            }
            self.window.oldest += 1;
        }
        None
    }

    /// When a step can be taken into the window; [`PENDING`] if it waits for steps whose
    /// completion time is not known.
    fn due(&self, step: &Step) -> u64 {
        let cycle = self.params.cycle.0;
        let slot = match self.front.in_cycle < self.params.width {
            true => self.front.cycle_start,
            false => self.front.cycle_start + cycle,
        };
        let computing = u64::from(step.cycles) * cycle;
        let computed = match step.after {
            After::Nothing | After::Back(_) => self.front.cycle_start + computing,
            // The step computes when its data are available, and does not block younger steps.
            After::Previous => 0,
            After::All if self.window.pending + self.window.waiting > 0 => return PENDING,
            After::All => self.window.latest.max(self.front.cycle_start) + computing,
        };
        if step.action == Action::Flush && self.window.waiting > 0 {
            return PENDING;
        }
        slot.max(computed)
            .max(self.front.room)
            .max(self.front.begun + step.not_before.0)
    }

    /// Puts a step into the window, and begins it if nothing is missing.
    fn enter(&mut self, ctx: &mut Ctx<'_, Parcel>, step: &Step) {
        let now = ctx.now().0;
        let number = self.window.next;
        let needed = self.window.needed(number, step.after);
        let data = needed.map_or(0, |needed| self.window[needed].done);
        let mut sibling = NIL;
        if let (Some(needed), PENDING) = (needed, data) {
            let place = self.window.place_of(number);
            sibling = std::mem::replace(&mut self.window[needed].waiters, place);
        }
        self.window.next += 1;
        self.window.position += u64::from(step.instructions);
        let position = self.window.position;
        self.window[number] = WindowEntry {
            step: *step,
            begun: now,
            done: PENDING,
            next: NIL,
            waiters: NIL,
            sibling,
            position,
        };
        self.window.waiting += 1;
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
            self.window.ready.push(Reverse((begin, number)));
        } else if !self.begin(ctx, number) {
            self.window.blocked.push_back(number);
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
        let Step { hpa, action, .. } = self.window[number].step;
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
        if let Some(level) = self.caches.find(line, store, &mut self.requests.evicted) {
            self.stats.hits[level] += 1;
            self.window.begin(number, now);
            self.completes(number, now + self.caches.level_ps[level]);
            return true;
        }
        let place = self.window.place_of(number);
        if let Some(request) = self.requests.fill_of(line) {
            self.stats.merged += 1;
            self.window.begin(number, now);
            self.window.asked(now);
            let request = &mut self.requests.list[request as usize];
            request.dirty |= store;
            let last = std::mem::replace(&mut request.last, place);
            match last {
                NIL => request.first = place,
                last => self.window.entries[last as usize].next = place,
            }
            return true;
        }
        let misses = self.requests.fills.len() as u32 - self.requests.prefetched;
        let full = misses >= self.params.misses
            || self.requests.fills.len() >= self.params.fills() as usize;
        if full || self.requests.is_writing_back_most() || self.requests.is_going_back(line) {
            return false;
        }
        self.stats.misses += 1;
        self.window.begin(number, now);
        self.window.asked(now);
        let tag = self.request(ctx, line, RequestKind::Fill, place);
        self.requests.list[tag as usize].dirty = store;
        self.requests.fills.push(tag);
        true
    }

    /// Requests the lines that the prefetcher proposes, as long as there is room.
    fn prefetch(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let most = self.params.prefetch;
        while self.requests.fills.len() < most as usize
            && !self.requests.is_writing_back_most()
            && let Some(line) = self.streams.next(most)
        {
            let hpa = Hpa(line.0 * 64);
            let cached = self.caches.has(line);
            let nowhere = hpa < LOCAL_BASE && self.map.owner(hpa).is_none();
            if cached
                || nowhere
                || self.requests.fill_of(line).is_some()
                || self.requests.is_going_back(line)
            {
                continue;
            }
            let tag = self.request(ctx, line, RequestKind::Fill, NIL);
            self.requests.list[tag as usize].prefetch = true;
            self.requests.fills.push(tag);
            self.requests.prefetched += 1;
            self.stats.prefetches += 1;
        }
    }

    /// Begins a flush. Returns false if memory cannot accept its write yet.
    fn begin_flush(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u64, line: LineAddr) -> bool {
        let now = ctx.now().0;
        if self.requests.is_writing_back_most()
            || self.requests.fill_of(line).is_some()
            || self.requests.is_going_back(line)
        {
            return false;
        }
        let dirty = self.caches.clean(line);
        self.window.begin(number, now);
        if !dirty {
            self.completes(number, now + self.caches.lookup_ps);
            return true;
        }
        self.stats.flushes_dirty += 1;
        self.window.asked(now);
        let place = self.window.place_of(number);
        let tag = self.request(ctx, line, RequestKind::Flush, place);
        self.requests.writebacks.push(tag);
        true
    }

    /// Sets the completion time of a step. A step that waits for its data begins then,
    /// or when it has computed.
    fn completes(&mut self, number: u64, done: u64) {
        let entry = &mut self.window[number];
        entry.done = done;
        let (step, begun) = (entry.step, entry.begun);
        self.window.latest = self.window.latest.max(done);
        let phase = &mut self.stats.phases[step.phase as usize];
        phase.completed += 1;
        phase.operations += u64::from(step.ends);
        phase.end = phase.end.max(SimTime(done));
        if step.action == Action::Load {
            phase.loads += 1;
            phase.load_ps += u128::from(done - begun);
        }
        let mut place = std::mem::replace(&mut self.window[number].waiters, NIL);
        while place != NIL {
            let WindowEntry { step, sibling, .. } = self.window.entries[place as usize];
            let waits = self.window.number_at(place);
            self.window
                .ready
                .push(Reverse((self.when_computed(done, &step), waits)));
            place = sibling;
        }
    }

    /// Writes evicted lines to memory as long as there are free requests.
    fn write_evicted(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while !self.requests.evicted.is_empty()
            && self.requests.writebacks.len() < self.params.writebacks as usize
        {
            let Some(line) = self.requests.evicted.pop_front() else {
                return;
            };
            let tag = self.request(ctx, line, RequestKind::Evict, NIL);
            self.ledger.stats.writebacks += 1;
            self.requests.writebacks.push(tag);
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
        let Some(tag) = self.requests.free.pop() else {
            unreachable!("there are as many requests as misses and write-backs");
        };
        let hpa = Hpa(line.0 * 64);
        let write = kind != RequestKind::Fill;
        self.requests.list[tag as usize] = CoreRequest {
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
            local.send(ctx, MEMORY, tag, line.0, write, self.caches.lookup_ps);
            return tag;
        }
        let Some(device) = self.map.owner(hpa) else {
            panic!("{hpa:?} lies outside the memory that the plan gave the program");
        };
        self.roots.send(
            ctx,
            Message::new(
                if write { Opcode::MemWr } else { Opcode::MemRd },
                hpa,
                tag,
                self.port_id,
                device,
                now,
            ),
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
        let request = self.requests.list[tag as usize];
        assert!(
            request.kind != RequestKind::Free,
            "an answer to a request that was never made"
        );
        self.requests.list[tag as usize].kind = RequestKind::Free;
        self.requests.free.push(tag);
        let under_way = match request.kind {
            RequestKind::Fill => &mut self.requests.fills,
            _ => &mut self.requests.writebacks,
        };
        if let Some(at) = under_way.iter().position(|other| *other == tag) {
            under_way.swap_remove(at);
        }
        if request.kind == RequestKind::Fill {
            self.requests.prefetched -= u32::from(request.prefetch);
            let evicted = &mut self.requests.evicted;
            self.caches.fill(request.line, request.dirty, evicted);
        }
        let mut place = request.first;
        while place != NIL {
            self.stats.outstanding_ps += self.window.answered(now.0);
            let next = self.window.entries[place as usize].next;
            self.completes(self.window.number_at(place), now.0);
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
            shared: false,
        };
        self.ledger.complete(ctx, row, false);
    }
}

impl RequestAgent for Core {
    request_agent_fields!(roots, ledger);

    fn in_flight(&self) -> u64 {
        self.requests.in_flight()
    }

    fn is_done(&self) -> bool {
        let open = self.window.waiting + self.window.pending;
        self.front.exhausted && self.front.held.is_none() && open == 0 && self.in_flight() == 0
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.front.begun = ctx.now().0;
        self.front.cycle_start = self.front.begun;
        self.issue(ctx);
    }

    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, _port: u16, message: &Message) {
        let stages = stages_of(
            &message.stages,
            self.params.process_time.0,
            self.caches.lookup_ps,
        );
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
