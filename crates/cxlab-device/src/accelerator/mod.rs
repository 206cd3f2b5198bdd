//! An accelerator: processing elements that run threads, with a coherent cache of host memory (Type
//! 1 and Type 2 devices), a DMA engine, and local buffers.
//!
//! All delays of the accelerator are cycles of one clock. Each processing element begins at most
//! one access a cycle; the cache accepts one access of all processing elements a cycle. Requests to
//! the host pass a constant pipeline before the link, and responses another one after the link.

mod attached_memory;
mod bias;
mod dcoh;
mod failures;
mod flush;
mod hmc;
mod host_messages;
mod host_responses;
mod io;
mod locks;
mod params;
mod resource_queues;
mod translation;

use std::collections::VecDeque;

use cxlab_agent::{
    Access, AccessKind, AccessResponse, HwThreads, HwThreadsConfig, LineVersions, PROCESS,
    PoisonedLines, RequestAgent, RootPorts, ThreadAction, request_agent_fields,
};
use cxlab_cache::prefetch::{PrefetchPolicy, Prefetcher};
use cxlab_cache::{Geometry, GeometryError, Statistic, TagArray, victim};
use cxlab_engine::Ctx;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr, Picos, SimTime};
use cxlab_link::{LinkPort, Parcel};
use cxlab_os::ats::Atc;
use cxlab_protocol::{Channel, Message, Opcode, PortId};
use cxlab_workload::thread::{SCRATCH_BASE, Thread};
use cxlab_workload::{Image, Phase};

use io::DmaEngine;

use attached_memory::{AttachedMemory, ReceivedMessage};
use flush::FlushProgress;
use hmc::{CacheTransactions, CacheWay, HmcStats};
use locks::LineLocks;
use resource_queues::ResourceQueues;
use translation::{TranslationOutcome, Translator};

pub use attached_memory::{AttachedMemoryClass, AttachedMemoryConfig};
pub use bias::MOST_PASSED_FLIPS;
pub use params::{
    AcceleratorKind, AcceleratorParams, DmaParams, DmcParams, HmcParams, LinePrefetchChoice,
    LoadRequest, MOST_CYCLES, StoreRequest,
};

/// Everything that an accelerator is built from.
pub struct AcceleratorConfig {
    /// Parameters of processing elements, cache and engines.
    pub params: AcceleratorParams,
    /// Number of the accelerator among the requesters.
    pub number: u16,
    /// Edge port of the accelerator.
    pub port_id: PortId,
    /// Edge port of the host whose memory the accelerator accesses.
    pub host: PortId,
    /// Links of the accelerator.
    pub ports: Vec<LinkPort>,
    /// Memory of a Type 2 device.
    pub memory: Option<AttachedMemoryConfig>,
    /// Hardware prefetcher for lines of host memory, if any.
    pub prefetch: Option<Box<dyn PrefetchPolicy>>,
    /// Ranges of memory that may be prefetched: first line, and the line after the last.
    pub reach: Vec<(u64, u64)>,
    /// Whether the host has an operating system, so that addresses of threads are virtual.
    pub translates: bool,
    /// Random stream for the replacement of translations.
    pub rng: StreamRng,
    /// Threads, each on a processing element of its own.
    pub threads: Vec<Thread>,
    /// Phases of the threads' kernel.
    pub phases: Vec<Phase>,
    /// Memory of the coherence domain.
    pub image: Image,
    /// Whether to log a row for each completed request.
    pub log: bool,
    /// Versions of the coherence domain's lines, where they are checked.
    pub versions: Option<LineVersions>,
    /// Lines of the coherence domain whose value is poison, where memory may supply poison.
    pub poison: Option<PoisonedLines>,
}

/// Kinds of wake-up are in the bits from here on of a token; ports use their number.
const KIND_BITS: u32 = 26;
const OP: u32 = 1 << KIND_BITS;
const HW_THREAD: u32 = 2 << KIND_BITS;
const UNLOCK: u32 = 3 << KIND_BITS;
const RETRY: u32 = 4 << KIND_BITS;
const DMA: u32 = 5 << KIND_BITS;
const MEDIUM: u32 = 6 << KIND_BITS;
const VALUE: u32 = (1 << KIND_BITS) - 1;

/// The accelerator component.
pub struct Accelerator {
    params: AcceleratorParams,
    roots: RootPorts,
    hw_threads: HwThreads,
    thread_wake: Vec<u64>,
    host: PortId,
    port_id: PortId,
    cache: TagArray<CacheWay>,
    /// Time at which the cache accepts the next access.
    cache_free: u64,
    transactions: CacheTransactions,
    /// Accesses that wait for the cache's port, or for an entry or way of the cache.
    queues: ResourceQueues,
    /// Hardware threads that found no space for a translation, and accesses to be repeated later.
    blocked: Vec<u32>,
    postponed: VecDeque<(Access, u64)>,
    /// Accesses that wait for atomic operations.
    locks: LineLocks,
    /// Spinning operations, each with the line whose change it waits for.
    spinning: Vec<(LineAddr, Access)>,
    flush: FlushProgress,
    hmc: HmcStats,
    io: DmaEngine,
    attached_memory: Option<AttachedMemory>,
    prefetcher: Option<Box<dyn Prefetcher>>,
    /// The first access to host memory on a device without CXL.cache.
    refused: Option<Access>,
    /// The first access to an address without memory.
    stray: Option<Access>,
    /// Existing host memory and CXL memory: first line, and the line after the last.
    memory: Vec<(u64, u64)>,
    /// Address translation, where the host has an operating system.
    translator: Option<Translator>,
}

save_state!(Accelerator {
    values: cache_free, transactions, queues, blocked, postponed, spinning, flush, hmc, refused, stray;
    sized: thread_wake;
    states: roots, hw_threads, cache, locks, io, attached_memory, prefetcher, translator;
    built: params, host, port_id, memory;
});

/// Why an accelerator cannot be built.
#[derive(Debug)]
pub enum AcceleratorError {
    /// The cache has more lines than a tag array supports.
    Cache(GeometryError),
    /// A parameter of the address translation cache is illegal.
    Atc(ParamError),
}

impl From<GeometryError> for AcceleratorError {
    fn from(error: GeometryError) -> AcceleratorError {
        AcceleratorError::Cache(error)
    }
}

impl Accelerator {
    /// Builds the component.
    ///
    /// # Errors
    /// A cache with more lines than a tag array supports, or an illegal translation cache.
    pub fn new(config: AcceleratorConfig) -> Result<Accelerator, AcceleratorError> {
        let params = config.params;
        let mut translator = None;
        if config.translates {
            let atc = Atc::new(&params.atc, config.rng.substream("atc"));
            let atc = atc.map_err(AcceleratorError::Atc)?;
            translator = Some(Translator::new(atc, &params.atc.cache));
        }
        let geometry = |size: Bytes, ways: u32| {
            let ways = u64::from(ways.max(1));
            let sets = (size.0 / LINE_BYTES / ways).max(1);
            Geometry::set_associative(sets * ways, ways)
        };
        let hmc = geometry(params.cache.size, params.cache.ways)?;
        let dmc = geometry(params.dmc.size, params.dmc.ways)?;
        let Some(lru) = victim::build("lru") else {
            unreachable!("the catalog of victim policies has lru")
        };
        let attached_memory = config.memory.map(|memory| {
            let tags = TagArray::new(dmc, lru.as_ref(), StreamRng::new(0, "lru"));
            AttachedMemory::new(memory, tags, params.dmc.write_buffer)
        });
        Ok(Accelerator {
            cache: TagArray::new(hmc, lru.as_ref(), StreamRng::new(0, "lru")),
            cache_free: 0,
            transactions: CacheTransactions::new(params.cache.misses.max(2)),
            queues: ResourceQueues::default(),
            blocked: Vec::new(),
            postponed: VecDeque::new(),
            locks: LineLocks::new(params.arbitration),
            spinning: Vec::new(),
            flush: FlushProgress::default(),
            hmc: HmcStats::default(),
            io: DmaEngine::new(params.dma.tags),
            attached_memory,
            prefetcher: config.prefetch.map(|policy| policy.state()),
            refused: None,
            stray: None,
            memory: config.reach,
            translator,
            roots: RootPorts::new(config.ports, Vec::new(), usize::MAX),
            thread_wake: vec![u64::MAX; config.threads.len()],
            hw_threads: HwThreads::new(HwThreadsConfig {
                programs: Vec::new(),
                threads: config.threads,
                phases: config.phases,
                image: config.image,
                cycle: params.cycle,
                window: params.window,
                number: config.number,
                log: config.log,
                versions: config.versions,
                poison: config.poison,
            }),
            host: config.host,
            port_id: config.port_id,
            params,
        })
    }

    fn cycles(&self, count: u32) -> Picos {
        Picos(u64::from(count) * self.params.cycle.0)
    }

    /// Counters of the cache, the engines and the attached memory.
    pub fn counts(&self, now: SimTime) -> Vec<Statistic> {
        let hmc = &self.hmc;
        let memory = self.attached_memory.as_ref();
        let bias_flips = memory.map_or(0, |memory| memory.bias.stats.flips);
        let memory_stats = memory.map(|memory| memory.stats).unwrap_or_default();
        let list = [
            ("hmc_hits", hmc.hits),
            ("hmc_misses", hmc.misses),
            ("hmc_merged", hmc.merged),
            ("hmc_upgrades", hmc.upgrades),
            ("hmc_dirty_evictions", hmc.dirty_evictions),
            ("hmc_clean_evictions", hmc.clean_evictions),
            ("hmc_pushes", hmc.pushes),
            ("machine_checks", hmc.machine_checks),
            ("hmc_reads_once", hmc.reads_once),
            ("hmc_writes", hmc.writes),
            ("hmc_prefetches", hmc.prefetches),
            ("hmc_snoops", hmc.snoops),
            ("hmc_snooped_modified", hmc.snooped_modified),
            ("dma_descriptors", self.io.descriptors_done),
            ("dma_bytes_read", self.io.bytes_read),
            ("dma_bytes_written", self.io.bytes_written),
            ("dmc_hits", memory_stats.dmc_hits),
            ("dmc_misses", memory_stats.dmc_misses),
            ("dmc_write_waits", memory_stats.dmc_write_waits),
            ("bias_flips", bias_flips),
            ("host_reads", memory_stats.host_reads),
            ("host_writes", memory_stats.host_writes),
        ];
        let counts = list.map(|(name, value)| (name, value as f64));
        let mut list = Vec::new();
        Statistic::append(&mut list, "", &counts);
        if let Some(attached_memory) = &self.attached_memory {
            attached_memory.statistics(now, &mut list);
        }
        if let Some(translator) = &self.translator {
            translator.list(&mut list);
        }
        list
    }

    /// The hardware threads of the accelerator.
    pub fn hw_threads(&self) -> &HwThreads {
        &self.hw_threads
    }

    /// The first access to host memory on a device without CXL.cache. Its thread does not continue.
    pub fn refused(&self) -> Option<Access> {
        self.refused
    }

    /// The first access to an address without memory. The access has failed, and its thread has ended.
    pub fn stray(&self) -> Option<Access> {
        self.stray
    }

    /// Maximum number of accesses that overtook one message of the host, if any did, which is a violation.
    pub fn overtaken(&self) -> Option<u32> {
        (self.locks.most_overtaken > 0).then_some(self.locks.most_overtaken)
    }

    /// Maximum number of host messages that were served while one access was first in the queue of
    /// a line locked by an atomic operation.
    pub fn most_host_turns(&self) -> u32 {
        self.locks.most_host_turns
    }

    /// Maximum number of accesses that overtook a waiting processing element at the port of the cache.
    pub fn most_passed_ports(&self) -> u64 {
        self.queues.port_turns.most_overtaken()
    }

    /// Maximum number of accesses that allocated a CQID before one line of a page that flips to device bias.
    pub fn most_passed_flips(&self) -> u32 {
        let memory = self.attached_memory.as_ref();
        memory.map_or(0, |memory| memory.bias.most_passed)
    }

    /// Maximum number of Translation Requests that one access waited for.
    pub fn most_translation_requests(&self) -> u32 {
        self.translator
            .as_ref()
            .map_or(0, Translator::most_requests)
    }

    /// Schedules a wake-up of a hardware thread, unless an earlier one is scheduled.
    fn wake_hw_thread(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize, time: SimTime) {
        if time.0 < self.thread_wake[hw_thread] {
            self.thread_wake[hw_thread] = time.0;
            ctx.wake_at(time, HW_THREAD | hw_thread as u32);
        }
    }

    fn run(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) {
        loop {
            match self.hw_threads.next_action(ctx, hw_thread) {
                ThreadAction::Access(access) => {
                    if !self.access(ctx, &access) {
                        return;
                    }
                }
                ThreadAction::Other(op, operation) => self.io_op(ctx, op, operation),
                ThreadAction::Completes(op, time) => ctx.wake_at(time, OP | op),
                ThreadAction::NotBefore(time) => {
                    self.wake_hw_thread(ctx, hw_thread, time);
                    return;
                }
                ThreadAction::Waits | ThreadAction::Ended => return,
            }
        }
    }

    /// Begins an access; false when the access must wait.
    fn access(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access) -> bool {
        let now = ctx.now();
        if access.addr >= SCRATCH_BASE {
            self.hw_threads.access_begun(access, now);
            self.buffered(ctx, access, now);
            return true;
        }
        if self.params.kind == AcceleratorKind::Pcie {
            // The thread does not continue. The system's executor checks for this case and ends the run.
            self.refused.get_or_insert(*access);
            return false;
        }
        let hw_thread = self.hw_threads.thread_of(access.op);
        if !self.has_port(ctx, hw_thread) {
            return false;
        }
        let begins = self.use_port(ctx, access, hw_thread as u32);
        self.wake_port(ctx);
        begins
    }

    /// Begins an access that has the cache's port; false when the access must wait.
    fn use_port(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, hw_thread: u32) -> bool {
        let mut access = *access;
        match self.translate(ctx, &mut access, ctx.now(), true) {
            TranslationOutcome::Now => {}
            TranslationOutcome::Waits => {
                self.leave_queue(ctx, hw_thread);
                return true;
            }
            TranslationOutcome::Full => {
                self.leave_queue(ctx, hw_thread);
                self.blocked.push(hw_thread);
                return false;
            }
        }
        let begins = self.cached(ctx, &access);
        match begins {
            true => self.count_translation(),
            false => self.end_translation(ctx, access.epoch),
        }
        begins
    }

    /// Performs an access to the accelerator's local buffers.
    fn buffered(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, begun: SimTime) {
        let mut cycles = self.params.buffer_cycles;
        if access.kind == AccessKind::Atomic {
            cycles += self.params.atomic_cycles;
        }
        self.hw_threads.perform(access);
        if self.hw_threads.waits_on(access) {
            self.spin(ctx, access);
            return;
        }
        let completes = ctx.now() + self.cycles(cycles);
        self.over(ctx, access, AccessResponse::by_cache(begun, completes));
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
    }

    /// Suspends a spinning operation, which found the old value, until its line changes.
    fn spin(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access) {
        let epoch = Access::NO_EPOCH;
        self.spinning
            .push((access.line(), Access { epoch, ..*access }));
        self.end_translation(ctx, access.epoch);
    }

    /// Completes an access, now or later.
    fn over(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, mut response: AccessResponse) {
        let time = self.translation_time(access);
        response.completes += time;
        response.stages[PROCESS] += time.0;
        self.end_translation(ctx, access.epoch);
        if let Some(completes) = self.hw_threads.access_done(access.op, response) {
            ctx.wake_at(completes.max(ctx.now()), OP | access.op);
        }
    }
}

/// Whether a message is a request of the host to the attached memory.
fn is_to_memory(message: &Message) -> bool {
    match message.channel() {
        Channel::M2sRwd => true,
        Channel::M2sReq => !matches!(message.opcode, Opcode::MemRdFwd | Opcode::MemWrFwd),
        _ => false,
    }
}

impl RequestAgent for Accelerator {
    request_agent_fields!(roots, hw_threads.ledger);

    fn in_flight(&self) -> u64 {
        self.hw_threads.in_flight()
            + self.transactions.in_flight()
            + self.io.in_flight()
            + self.locks.in_flight()
            + self
                .attached_memory
                .as_ref()
                .map_or(0, AttachedMemory::in_flight)
    }

    fn is_done(&self) -> bool {
        self.hw_threads.is_done() && self.in_flight() == 0 && !self.owes_flush()
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for hw_thread in 0..self.hw_threads.len() {
            self.run(ctx, hw_thread);
        }
        self.go_on_flushing(ctx);
    }

    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message) {
        let mut message = *message;
        message.hops += 1;
        match message.channel() {
            _ if is_to_memory(&message) => {
                self.host_message(ctx, &ReceivedMessage { message, port });
            }
            Channel::M2sBirsp => self.snoop_answered(ctx, &message),
            Channel::IoPosted | Channel::IoNonPosted | Channel::IoCompletion => {
                self.io_message(ctx, &message);
            }
            _ => self.cache_message(ctx, &message),
        }
    }

    fn leaves_buffer(message: &Message) -> bool {
        !is_to_memory(message)
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let value = token & VALUE;
        match token & !VALUE {
            OP => {
                let hw_thread = self.hw_threads.thread_of(value);
                self.hw_threads.complete(ctx, value);
                self.run(ctx, hw_thread);
            }
            HW_THREAD => {
                let hw_thread = value as usize;
                if self.thread_wake[hw_thread] <= ctx.now().0 {
                    self.thread_wake[hw_thread] = u64::MAX;
                }
                self.run(ctx, hw_thread);
                self.pass_port(ctx, hw_thread);
            }
            UNLOCK => self.unlock(ctx),
            RETRY => self.retry(ctx),
            DMA => self.work(ctx),
            MEDIUM => self.medium_wakes(ctx),
            _ => self.roots.wake(ctx, token),
        }
        self.go_on_flushing(ctx);
    }

    fn reset_statistics(&mut self, now: SimTime) {
        self.hmc = HmcStats::default();
        self.io.begin_measurement();
        if let Some(translator) = &mut self.translator {
            translator.begin_measurement();
        }
        if let Some(attached_memory) = &mut self.attached_memory {
            attached_memory.begin_measurement(now);
        }
    }
}
