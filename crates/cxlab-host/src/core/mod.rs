//! A core that runs a program. It takes steps in order into a window, several each cycle, and begins a step
//! when its data are available. Steps complete in any order and retire in order. The private caches request
//! missing lines from memory.
//!
//! A program of several threads runs on as many hardware threads (`hw_thread`). Each has its own window, limits
//! and prefetcher; they share caches, links and the host's own memory. A thread that comes to a point of
//! synchronization waits there for another one.
//!
//! Memory is CXL memory, through the root ports, and the host's own memory behind its controller. A line that several
//! steps access is requested once. Evicted modified lines and flushed lines are written back. A step that accesses such
//! a line before its write-back has completed is stalled, and so are the steps after it. A flush is issued when every
//! earlier step has begun, a fence when every earlier step has completed.
//!
//! The core's request statistics count the requests that its memory sees: lines read for misses, and lines
//! written for flushes. [`CoreStats`] counts what the program sees.
//!
//! Left out: instruction fetch, address translation, speculation, coherence with other cores
//! and between the hardware threads of this one.

mod caches;
mod front_end;
mod hw_thread;
mod memory_requests;
mod params;
mod prefetch;
mod shared;
mod stats;
mod window;

use std::sync::Arc;

use cxlab_agent::{
    AddressMap, CACHE, LOCAL, MEDIA, MEDIA_QUEUE, PROCESS, RequestAgent, RequestLedger, RequestRow,
    RootPorts, STAGE_NAMES, StageTimes, request_agent_fields, stages_of,
};
use cxlab_cache::Statistic;
use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_link::{LinkPort, Parcel};
use cxlab_protocol::{Message, PortId};
use cxlab_workload::{MOST_THREADS, Phase, Program};

use crate::local::{CompletedRequest, LocalConfig, LocalMemory};
use caches::CacheHierarchy;
use front_end::RunningProgram;
use hw_thread::HwThread;
use memory_requests::{MemoryRequests, RequestKind};
use shared::{CoreShared, MEMORY};
use window::{NIL, PENDING, Window};

pub use params::{CacheLevel, CoreParams};
pub use stats::{CoreStats, PhaseStats, ThreadTimes};

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

/// Wake-up token for issuing. Ports use their number.
const ISSUE: u32 = u32::MAX;

/// The core component.
pub struct Core {
    first_device: u16,
    shared: CoreShared,
    threads: Vec<HwThread>,
    /// Time of the pending wake-up for issuing, in picoseconds.
    wake: u64,
    returned: Vec<CompletedRequest>,
}

save_state!(Core {
    values: wake;
    states: shared, threads;
    built: first_device, returned;
});

impl Core {
    /// Builds the core component.
    ///
    /// # Panics
    /// If the program has no thread or more than [`MOST_THREADS`].
    pub fn new(config: CoreConfig) -> Self {
        let params = config.params;
        let threads = config.program.threads();
        assert!(
            (1..=MOST_THREADS).contains(&threads),
            "a core with a program of {threads} threads"
        );
        let requests = (params.fills() + params.writebacks) as usize * threads;
        let stats = CoreStats {
            hits: vec![0; params.caches.len()],
            phases: vec![PhaseStats::default(); config.program.phases().len()],
            ..CoreStats::default()
        };
        let numbers = 0..threads as u16;
        Core {
            first_device: config.first_device,
            threads: numbers
                .map(|number| HwThread::new(&params, number, config.limit))
                .collect(),
            shared: CoreShared {
                port_id: config.port_id,
                roots: RootPorts::new(config.ports, config.port_to, requests),
                map: config.map,
                local: config.local.map(|local| LocalMemory::new(local, requests)),
                caches: CacheHierarchy::new(&params.caches),
                requests: MemoryRequests::new(&params, threads as u32),
                running: RunningProgram {
                    program: config.program,
                    rng: config.rng,
                },
                points: vec![0; threads],
                moved: false,
                ledger: RequestLedger::new(config.number, config.log),
                stats,
                params,
            },
            wake: u64::MAX,
            returned: Vec::new(),
        }
    }

    /// Statistics of the program.
    pub fn core_stats(&self) -> &CoreStats {
        &self.shared.stats
    }

    /// Times of each thread of the program.
    pub fn thread_times(&self) -> Vec<ThreadTimes> {
        self.threads.iter().map(HwThread::times).collect()
    }

    /// Phases of the program.
    pub fn phases(&self) -> &[Phase] {
        self.shared.running.program.phases()
    }

    /// Checks the result of the program, if it ended by itself and everything has completed.
    ///
    /// # Errors
    /// A description of what is wrong with the result.
    pub fn check(&self) -> Result<(), String> {
        let finished = self.threads.iter().all(|thread| thread.front.finished);
        match finished && self.is_done() {
            true => self.shared.running.program.check(),
            false => Ok(()),
        }
    }

    /// Statistics of the memory backend of the host's own memory; `None` without such memory.
    pub fn local_statistics(&self, now: SimTime) -> Option<Vec<Statistic>> {
        self.shared
            .local
            .as_ref()
            .map(|local| local.statistics(now))
    }

    /// Handles the completed requests of the host's own memory.
    fn memory(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(local) = &mut self.shared.local else {
            return;
        };
        let mut returned = std::mem::take(&mut self.returned);
        local.wake(ctx, MEMORY, &mut returned);
        let round_trip_ps = 2 * local.latency_ps;
        for request in returned.drain(..) {
            let mut stages: StageTimes = [0; STAGE_NAMES.len()];
            stages[PROCESS] = round_trip_ps;
            stages[CACHE] = self.shared.caches.lookup_ps;
            stages[MEDIA_QUEUE] = request.queue_ps;
            stages[MEDIA] = request.media_ps;
            self.receive_response(ctx, request.tag, stages, 0, LOCAL);
        }
        self.returned = returned;
    }

    /// Lets the hardware threads issue what they can. Requests a wake-up if only time is missing.
    fn issue(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Core {
            shared, threads, ..
        } = self;
        shared.write_evicted(ctx);
        let next = match &mut threads[..] {
            [only_thread] => {
                only_thread.issue(shared, ctx);
                only_thread.next
            }
            threads => issue_all(threads, shared, ctx),
        };
        if next != PENDING && next < self.wake {
            self.wake = next;
            ctx.wake_at(SimTime(next), ISSUE);
        }
    }

    /// Completes a request to memory, and the steps that wait for it.
    fn receive_response(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        tag: u32,
        stages: StageTimes,
        hops: u16,
        device: u16,
    ) {
        let now = ctx.now();
        let request = self.shared.requests.list[tag as usize];
        assert!(
            request.kind != RequestKind::Free,
            "a response to a request that was never made"
        );
        self.shared.requests.list[tag as usize].kind = RequestKind::Free;
        self.shared.requests.free.push(tag);
        let outstanding = match request.kind {
            RequestKind::Fill => &mut self.shared.requests.fills,
            _ => &mut self.shared.requests.writebacks,
        };
        if let Some(index) = outstanding.iter().position(|other| *other == tag) {
            outstanding.swap_remove(index);
        }
        if request.kind == RequestKind::Fill {
            let sender = &mut self.threads[usize::from(request.thread)];
            sender.fills -= 1;
            sender.prefetched -= u32::from(request.prefetch);
            sender.has_progressed = true;
            let evicted = &mut self.shared.requests.evicted;
            self.shared
                .caches
                .fill(request.line, request.dirty, evicted);
        }
        let size = Window::entries_for(self.shared.params.window);
        let one_thread = self.threads.len() == 1;
        let mut index = request.first;
        while index != NIL {
            // Indices count through the windows of all threads.
            let (thread, index_in_window) = match one_thread {
                true => (0, index),
                false => (index / size, index % size),
            };
            let thread = &mut self.threads[thread as usize];
            self.shared.stats.outstanding_ps += thread.window.end_wait(now.0);
            let next_index = self.shared.requests.next[index as usize];
            let number = thread.window.number_at(index_in_window);
            thread.completes(&mut self.shared, number, now.0);
            index = next_index;
        }
        if request.kind == RequestKind::Evict {
            return;
        }
        self.shared
            .ledger
            .check_stages(&stages, now.0 - request.issued);
        self.shared.ledger.leave(now, request.issued);
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
        self.shared.ledger.complete(ctx, row, false);
    }
}

/// Lets each of several threads issue what it can. Returns when the next one can go on, or [`PENDING`].
fn issue_all(threads: &mut [HwThread], shared: &mut CoreShared, ctx: &mut Ctx<'_, Parcel>) -> u64 {
    let now = ctx.now().0;
    loop {
        shared.moved = false;
        for thread in threads.iter_mut() {
            if thread.may_issue(shared, now) {
                thread.issue(shared, ctx);
            }
        }
        // Threads before one that has moved may have waited for it.
        if !shared.moved {
            break;
        }
    }
    let next = threads.iter().map(|thread| thread.next).min();
    next.unwrap_or(PENDING)
}

impl RequestAgent for Core {
    request_agent_fields!(shared.roots, shared.ledger);

    fn in_flight(&self) -> u64 {
        self.shared.requests.in_flight()
    }

    fn is_done(&self) -> bool {
        self.threads.iter().all(HwThread::is_done) && self.in_flight() == 0
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        for thread in &mut self.threads {
            thread.start(now);
        }
        self.issue(ctx);
    }

    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, _port: u16, message: &Message) {
        let stages = stages_of(
            &message.stages,
            self.shared.params.process_time.0,
            self.shared.caches.lookup_ps,
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
            port => self.shared.roots.wake(ctx, port),
        }
        self.issue(ctx);
    }

    fn issue_pending(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.issue(ctx);
    }

    /// Resets the statistics of the host's own memory. Those of the program's phases cover the whole run.
    fn reset_statistics(&mut self, now: SimTime) {
        if let Some(local) = &mut self.shared.local {
            local.begin_measurement(now);
        }
    }

    fn end_measurement(&mut self, now: SimTime) {
        if let Some(local) = &mut self.shared.local {
            local.catch_up(now);
        }
    }
}
