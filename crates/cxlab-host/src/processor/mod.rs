//! A multi-core processor: threads and programs on cores with private caches, a shared last-level cache,
//! the home agent of the host's own memory, memory controllers on NUMA nodes, and root ports.
//!
//! # What is modelled, and how
//! Requests of cores reach the home agent after their private caches and the mesh. The home agent serves
//! one transaction of a line at a time; others wait in order of arrival. On the die it acts at once: when
//! it serves a line, it invalidates or downgrades the copies of other cores in that instant. The times of
//! the snoop, of the last-level cache and of memory pass before its response. Cores see the response one
//! mesh crossing later. Devices are snooped with messages (see `devices`).
//!
//! The last-level cache is inclusive, so that a line evicted there is invalidated in every private cache.
//! Alternatively the cache holds the lines that private caches evict, and a directory of its own size
//! tracks the lines in private caches (see `llc`). Modified lines are written back off the critical path.
//!
//! With an operating system, threads use virtual addresses (see `os`).
//!
//! # Left out
//! Instruction fetch, speculation, hardware prefetchers, contention in the mesh, and the order in which a
//! core's stores become visible (each store completes when its core holds the line).

mod admission;
mod back_invalidation;
mod caches;
mod devices;
mod failures;
mod flushed;
mod home;
mod io;
mod llc;
mod memory;
mod os;
mod params;
mod presets;
mod serve;
mod stats;
mod stray;
mod writes;

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_agent::{
    Access, AccessKind, AccessOutcome, AccessResponse, AddressMap, Failure, FailureHandling,
    HwThreads, HwThreadsConfig, LineVersions, OvertakingCounter, PoisonedLines, RequestAgent,
    RootPorts, SharedWindows, ThreadAction, ThreadProgram, WaitTicket, request_agent_fields,
};
use cxlab_engine::Ctx;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::save_state;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::{LinkPort, Parcel};
use cxlab_memory::{GeometryError, Statistic};
use cxlab_protocol::{Channel, Message, Opcode, PortId};
use cxlab_workload::{Image, Phase, thread::Thread};
use serde::{Deserialize, Serialize};

use crate::local::{CompletedRequest, LocalConfig, LocalMemory};
use admission::Admission;
use back_invalidation::PendingSnoop;
use caches::{CoreCaches, CoreState, HitLevel};
use devices::Uqids;
use flushed::PendingCacheFlush;
use home::{Txn, WaitingAccess};
use io::HostIo;
use llc::Llc;
use os::{Os, Translated};
use writes::WriteBuffer;

pub use os::{
    MOST_PROMISED, OsConfig, OsParams, PageChoice, PreparedMemory, ProcessParams, VIRTUAL,
};
pub use params::{
    Cluster, DeviceEvictions, DirectoryParams, Inclusion, LlcParams, ProcessorParams,
};
pub use presets::ProcessorPreset;
pub use stats::ProcessorStats;

/// Most page faults of a single access of a core: a first touch or a sample, and the move after a sample.
pub const MOST_FAULTS: u32 = 2;

/// Configuration of a processor.
pub struct ProcessorConfig {
    /// Cores, caches and distances of the processor.
    pub params: ProcessorParams,
    /// Number of the processor among all requesters.
    pub number: u16,
    /// Edge port of the processor.
    pub port_id: PortId,
    /// Links of the processor, one for each root port.
    pub ports: Vec<LinkPort>,
    /// The root port towards each edge port; empty when there is one root port.
    pub port_to: Vec<u16>,
    /// Edge port of the first device; devices are numbered from there.
    pub first_device: u16,
    /// Map from addresses to the devices that own them.
    pub map: Arc<AddressMap>,
    /// The host's own memory: a controller for each NUMA node, by ascending addresses.
    pub nodes: Vec<LocalConfig>,
    /// Edge ports of the processor's accelerators.
    pub devices: Vec<PortId>,
    /// Edge ports of accelerators whose own memory is HDM-DB.
    pub device_coherent: Vec<PortId>,
    /// The operating system, and the memory that the workload has prepared at virtual addresses. `None` if
    /// addresses are physical.
    pub os: Option<(OsConfig, PreparedMemory)>,
    /// Threads to run, each with the core to which it is bound.
    pub threads: Vec<(u16, Thread)>,
    /// Programs to run, each on a core without threads.
    pub programs: Vec<(u16, ThreadProgram)>,
    /// Phases of the threads' kernel, then those of the programs.
    pub phases: Vec<Phase>,
    /// Memory of the coherence domain.
    pub image: Image,
    /// Windows of memory that other hosts map too; `None` if their values do not matter to this host.
    pub shared: Option<SharedWindows>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
    /// Versions of the lines of the coherence domain, if they are checked.
    pub versions: Option<LineVersions>,
    /// Poisoned lines of the coherence domain, if memory may return poison.
    pub poison: Option<PoisonedLines>,
    /// Whether messages to memory may be denied or fail.
    pub may_fail: bool,
}

/// Kinds of wake-up, in the upper bits of a token; ports use their number.
const KIND_BITS: u32 = 26;
const NODE: u32 = 1 << KIND_BITS;
const OP: u32 = 2 << KIND_BITS;
const HW_THREAD: u32 = 3 << KIND_BITS;
const ARRIVE: u32 = 4 << KIND_BITS;
const FINISH: u32 = 5 << KIND_BITS;
const COMING: u32 = 6 << KIND_BITS;
const GOING: u32 = 7 << KIND_BITS;
const WALK: u32 = 8 << KIND_BITS;
const TASK: u32 = 9 << KIND_BITS;
const IOMMU: u32 = 10 << KIND_BITS;
const SCAN: u32 = 11 << KIND_BITS;
const VALUE: u32 = (1 << KIND_BITS) - 1;

const NONE: u32 = u32::MAX;

/// A core with its private caches.
struct ProcessorCore {
    caches: CoreCaches,
    /// Lines that the core has requested from the home agent, with their transactions.
    asking: Vec<(LineAddr, u32)>,
    /// Accesses and hardware threads that wait for room in `asking`, in order.
    waiting: VecDeque<(CoreWaiter, WaitTicket)>,
    turns: OvertakingCounter,
    /// Whether the first that waited is being served now.
    serving: bool,
    /// Whether a hardware thread of the core waits for a page walker.
    full: bool,
}

/// An access or a hardware thread that waits for room among a core's outstanding requests.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum CoreWaiter {
    /// An access that has begun, with its start: its core's requests were all in use when its
    /// physical address became known.
    Access(Access, SimTime),
    /// A hardware thread whose next access has not begun.
    HwThread(u32),
}

impl ProcessorCore {
    fn wait(&mut self, waiter: CoreWaiter) {
        let ticket = self.turns.wait(self.waiting.len());
        self.waiting.push_back((waiter, ticket));
    }

    /// Removes the first that waits, to be served.
    fn serve(&mut self) {
        if let Some((_, ticket)) = self.waiting.pop_front() {
            self.turns.serve(ticket);
        }
    }
}

save_state!(ProcessorCore {
    values: asking, waiting, turns, serving, full;
    states: caches;
});

/// The processor component.
pub struct Processor {
    params: ProcessorParams,
    port_id: PortId,
    first_device: u16,
    roots: RootPorts,
    map: Arc<AddressMap>,
    hw_threads: HwThreads,
    core_of: Vec<u16>,
    /// Time of each hardware thread's pending wake-up, so that no second one is requested.
    lane_wake: Vec<u64>,
    cores: Vec<ProcessorCore>,
    llc: Llc,
    nodes: Vec<LocalMemory>,
    /// Accelerators, by their number as holders of lines.
    devices: Vec<PortId>,
    /// Accelerators that keep their own memory coherent.
    device_coherent: Vec<PortId>,
    /// Snoops of these accelerators without a response.
    snooped: Vec<PendingSnoop>,
    io: HostIo,
    uqids: Uqids,
    /// First address that has not been allocated to a thread.
    mapped: u64,
    /// When the home agent accepts the next request of a device, in picoseconds.
    home_free: u64,
    txns: Vec<Txn>,
    free: Vec<u32>,
    behind: Vec<WaitingAccess>,
    free_behind: Vec<u32>,
    writes: WriteBuffer,
    /// Number of lines being read from memory, and the transactions that wait for a read.
    open_reads: u32,
    unread: VecDeque<u32>,
    /// Transactions that wait for directory entries.
    admission: Admission,
    returned: Vec<CompletedRequest>,
    /// Lines of CXL memory with a write in flight, and the reads that wait for it.
    writing: Vec<LineAddr>,
    held_reads: Vec<(LineAddr, u32)>,
    /// Responses that grant devices lines of their own memory with a write in flight.
    held_grants: Vec<Message>,
    /// Bias flips by software that wait for writes of their pages: address, device, tag and operation.
    held_flips: Vec<(u64, u16, u32, u32)>,
    /// Devices whose `CacheFlushed` has no response yet.
    flushed: Vec<PendingCacheFlush>,
    /// Spinning operations, each with the line whose change it waits for.
    spinning: Vec<(LineAddr, Access)>,
    /// The operating system, which translates addresses, if there is one.
    os: Option<Box<Os>>,
    /// Memory that other hosts map too.
    shared: Option<SharedWindows>,
    /// Number of transactions that are over and whose tag is out of use.
    out_of_use: u64,
    /// When a machine check ended the threads.
    threads_ended: Option<SimTime>,
    /// Description of the first access to an address without memory.
    stray: Option<String>,
    may_fail: bool,
    /// Memory of the coherence domain, which threads and accelerators share.
    image: Image,
    stats: ProcessorStats,
}

save_state!(Processor {
    values: mapped, home_free, txns, free, behind, free_behind, writes, open_reads, unread, admission, writing, held_reads, held_grants, held_flips, snooped, flushed, spinning, out_of_use, threads_ended, stray, stats;
    sized: lane_wake;
    states: roots, hw_threads, cores, llc, nodes, io, uqids, os, image;
    built: params, port_id, first_device, map, core_of, devices, device_coherent, shared, returned, may_fail;
});

/// The reason why a processor cannot be built.
#[derive(Debug)]
pub enum ProcessorError {
    /// A cache has more lines than a tag array can hold.
    Cache(GeometryError),
    /// A parameter of the operating system is invalid.
    Os(ParamError),
}

impl Processor {
    /// Builds the processor component.
    ///
    /// # Errors
    /// A cache with more lines than a tag array can hold, or an invalid operating system.
    pub fn new(config: ProcessorConfig) -> Result<Processor, ProcessorError> {
        let params = config.params;
        let (mut core_of, threads): (Vec<u16>, Vec<Thread>) = config.threads.into_iter().unzip();
        let (cores, programs): (Vec<u16>, Vec<ThreadProgram>) = config.programs.into_iter().unzip();
        core_of.extend(cores);
        let core = || {
            Ok(ProcessorCore {
                caches: CoreCaches::new(&params.l1, &params.l2)?,
                asking: Vec::with_capacity(params.misses as usize),
                waiting: VecDeque::new(),
                turns: OvertakingCounter::default(),
                serving: false,
                full: false,
            })
        };
        let cores: Result<Vec<ProcessorCore>, GeometryError> =
            (0..params.cores).map(|_| core()).collect();
        let most = (params.cores * params.misses) as usize;
        let mapped = config.nodes.first().map_or(0, |node| node.base.0);
        let os = match config.os {
            Some((os, prepared)) => {
                let mut os = Os::new(os).map_err(ProcessorError::Os)?;
                os.load(&prepared, &config.image)
                    .map_err(ProcessorError::Os)?;
                Some(Box::new(os))
            }
            None => None,
        };
        Ok(Processor {
            port_id: config.port_id,
            first_device: config.first_device,
            roots: RootPorts::new(config.ports, config.port_to, usize::MAX),
            map: config.map,
            lane_wake: vec![u64::MAX; core_of.len()],
            core_of,
            hw_threads: HwThreads::new(HwThreadsConfig {
                threads,
                programs,
                phases: config.phases,
                image: config.image.clone(),
                cycle: params.cycle,
                window: params.window,
                number: config.number,
                log: config.log,
                versions: config.versions,
                poison: config.poison,
            }),
            cores: cores.map_err(ProcessorError::Cache)?,
            llc: Llc::new(&params).map_err(ProcessorError::Cache)?,
            nodes: config
                .nodes
                .into_iter()
                .map(|node| LocalMemory::new(node, most))
                .collect(),
            io: HostIo::new(config.devices.len()),
            uqids: Uqids::new(),
            mapped,
            devices: config.devices,
            device_coherent: config.device_coherent,
            snooped: Vec::new(),
            home_free: 0,
            txns: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            behind: Vec::new(),
            free_behind: Vec::new(),
            writes: WriteBuffer::new(params.llc.write_buffer),
            open_reads: 0,
            unread: VecDeque::new(),
            admission: Admission::default(),
            returned: Vec::new(),
            writing: Vec::new(),
            held_reads: Vec::new(),
            held_grants: Vec::new(),
            held_flips: Vec::new(),
            flushed: Vec::new(),
            spinning: Vec::new(),
            os,
            shared: config.shared,
            out_of_use: 0,
            threads_ended: None,
            stray: None,
            may_fail: config.may_fail,
            image: config.image,
            stats: ProcessorStats::default(),
            params,
        })
    }

    /// Statistics of caches and home agent.
    pub fn processor_stats(&self) -> &ProcessorStats {
        &self.stats
    }

    /// All statistics of caches, home agent, memory and operating system, by name.
    pub fn counts(&self, now: SimTime) -> Vec<Statistic> {
        let mut list = self.stats.list(self.llc.is_victim_cache());
        list.extend(self.stats.list_waits());
        if self.may_fail {
            list.extend(self.stats.list_failures());
            list.extend(self.threads_ended.map(|at| Statistic {
                name: "threads_ended_ns".to_owned(),
                value: at.0 as f64 / 1e3,
            }));
        }
        if !self.device_coherent.is_empty() {
            list.extend(self.stats.list_back_invalidation());
        }
        for (number, node) in self.nodes.iter().enumerate() {
            for one in node.statistics(now) {
                let name = format!("node{number}.{}", one.name);
                list.push(Statistic { name, ..one });
            }
        }
        if let Some(os) = &self.os {
            os.list(&mut list);
        }
        list
    }

    /// An error of the process, such as an access to memory that it does not have.
    pub fn error(&self) -> Option<&str> {
        let stray = self.stray.as_deref();
        stray.or_else(|| self.os.as_ref()?.error())
    }

    /// Largest number of page faults of a single access of a core.
    pub fn most_faults(&self) -> u32 {
        self.os.as_deref().map_or(0, Os::most_faults)
    }

    /// Largest number of times that later accesses overtook one that waited for an
    /// outstanding request of its core.
    pub fn most_passed_misses(&self) -> u64 {
        let cores = self.cores.iter().map(|core| core.turns.most_overtaken());
        cores.max().unwrap_or(0)
    }

    /// Largest number of times that later transactions overtook one that waited for a directory entry.
    pub fn most_passed_entries(&self) -> u64 {
        self.admission.most_overtaken()
    }

    /// Memory of the process at virtual addresses; `None` if addresses are physical.
    pub fn process_image(&self) -> Option<Image> {
        let os = self.os.as_ref()?;
        Some(os.view(self.hw_threads.image()))
    }

    /// The hardware threads.
    pub fn hw_threads(&self) -> &HwThreads {
        &self.hw_threads
    }

    /// Begins the operations that a hardware thread can begin.
    fn run(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize) {
        loop {
            match self.hw_threads.next_action(ctx, hw_thread) {
                ThreadAction::Access(access) => {
                    if !self.access(ctx, hw_thread, &access) {
                        return;
                    }
                }
                ThreadAction::Other(op, operation) => self.io_op(ctx, op, operation),
                ThreadAction::Completes(op, at) => {
                    ctx.wake_at(at, OP | op);
                }
                ThreadAction::NotBefore(at) => {
                    if at.0 < self.lane_wake[hw_thread] {
                        self.lane_wake[hw_thread] = at.0;
                        ctx.wake_at(at, HW_THREAD | hw_thread as u32);
                    }
                    return;
                }
                ThreadAction::Waits | ThreadAction::Ended => return,
            }
        }
    }

    /// Begins an access. Returns false if its core has no room for another request or page walk.
    fn access(&mut self, ctx: &mut Ctx<'_, Parcel>, hw_thread: usize, access: &Access) -> bool {
        let now = ctx.now();
        let number = self.core_of[hw_thread];
        let mut access = *access;
        self.active(ctx);
        match self.translate(ctx, number, &mut access, now, true) {
            Translated::Now => {}
            Translated::Waits => return true,
            Translated::Full => {
                self.cores[number as usize].full = true;
                return false;
            }
        }
        self.issue(ctx, number, access, now, true)
    }

    /// Looks up the line of an access whose physical address is known. If the access has not begun before
    /// (`fresh`), it is refused with false when its core has no room for another request.
    fn issue(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: u16,
        mut access: Access,
        begun: SimTime,
        fresh: bool,
    ) -> bool {
        let (line, kind) = (access.line(), access.kind);
        if matches!(
            kind,
            AccessKind::Flush | AccessKind::WriteBack | AccessKind::Demote
        ) {
            self.begin(&mut access, begun, fresh);
            self.ask(ctx, number, &access, begun);
            return true;
        }
        let core = &mut self.cores[number as usize];
        let turn = std::mem::take(&mut core.serving);
        if self.waits_for_place(number, line, kind.owns(), turn) {
            if !fresh {
                self.begin(&mut access, begun, false);
                self.cores[number as usize].wait(CoreWaiter::Access(access, begun));
                return true;
            }
            let hw_thread = self.hw_threads.thread_of(access.op) as u32;
            let core = &mut self.cores[number as usize];
            let waits = |one: &CoreWaiter| matches!(one, CoreWaiter::HwThread(other) if *other == hw_thread);
            if !core.waiting.iter().any(|(one, _)| waits(one)) {
                core.wait(CoreWaiter::HwThread(hw_thread));
            }
            return false;
        }
        self.begin(&mut access, begun, fresh);
        self.look(ctx, number, &access, begun);
        true
    }

    /// Whether a core has its largest number of outstanding requests.
    fn is_at_miss_limit(&self, number: u16) -> bool {
        self.cores[number as usize].asking.len() >= self.params.misses as usize
    }

    /// Whether an access of a core would need a request and has to wait for it. That is so if the core has
    /// its largest number of outstanding requests, or if others wait and it is not the access's turn.
    fn waits_for_place(&self, number: u16, line: LineAddr, owns: bool, turn: bool) -> bool {
        let core = &self.cores[number as usize];
        if !self.is_at_miss_limit(number) && (turn || core.waiting.is_empty()) {
            return false;
        }
        let enough = match owns {
            true => CoreState::Exclusive,
            false => CoreState::Shared,
        };
        core.caches.held(line) < enough && !core.asking.iter().any(|(other, _)| *other == line)
    }

    /// Looks up the line of an access that has begun.
    fn look(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, access: &Access, begun: SimTime) {
        let (line, kind) = (access.line(), access.kind);
        let core = &mut self.cores[number as usize];
        if let Some(level) = core.caches.access(line, kind.owns()) {
            self.hit(ctx, access, level, begun);
            return;
        }
        if !self.merge(number, access, begun) {
            self.cores[number as usize].turns.take();
            self.ask(ctx, number, access, begun);
        }
    }

    /// Merges an access with its core's outstanding request for the same line. Returns
    /// false if there is none.
    pub(super) fn merge(&mut self, number: u16, access: &Access, begun: SimTime) -> bool {
        let mut asked = self.cores[number as usize].asking.iter();
        let asked = asked.find(|(other, _)| *other == access.line());
        let Some((_, txn)) = asked.copied() else {
            return false;
        };
        self.wait_behind(txn, *access, begun);
        self.stats.merged += 1;
        true
    }

    /// Begins an access whose physical address is known.
    fn begin(&mut self, access: &mut Access, now: SimTime, fresh: bool) {
        match fresh {
            true => self.hw_threads.access_begun(access, now),
            false => self.hw_threads.translated(access),
        }
        self.use_translation(access, fresh);
    }

    /// Completes an access that hits in a private cache.
    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, level: HitLevel, begun: SimTime) {
        let now = ctx.now();
        let time = match level {
            HitLevel::L1 => {
                self.stats.l1_hits += 1;
                self.params.l1.access_time
            }
            HitLevel::L2 => {
                self.stats.l2_hits += 1;
                self.params.lookup()
            }
        };
        let holder = self.holder_of(access);
        self.hw_threads.used(holder, access.line());
        let answer = AccessResponse::by_cache_after(begun, now, now + time);
        self.take_effect(ctx, access, answer);
    }

    /// The core to which an access belongs.
    fn holder_of(&self, access: &Access) -> u16 {
        self.core_of[self.hw_threads.thread_of(access.op)]
    }

    /// Lets an access take effect now, while its core holds the line. The access ends now or later.
    fn take_effect(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, answer: AccessResponse) {
        if self.hw_threads.consumes_poison(access) {
            let outcome = AccessOutcome::Failed(Failure::Poisoned);
            self.over(ctx, access, AccessResponse { outcome, ..answer });
            self.poisoned(ctx, access.op, access.kind);
            return;
        }
        self.hw_threads.perform(access);
        if access.kind.writes() {
            let holder = self.holder_of(access);
            self.hw_threads.written(Some(holder), access.line());
        }
        if self.hw_threads.waits_on(access) {
            self.spinning.push((access.line(), *access));
            self.end_translation(ctx, access);
            return;
        }
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
        self.over(ctx, access, answer);
    }

    /// Ends an access, now or later.
    fn over(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, answer: AccessResponse) {
        self.end_translation(ctx, access);
        if let Some(at) = self.hw_threads.access_done(access.op, answer) {
            ctx.wake_at(at.max(ctx.now()), OP | access.op);
        }
    }

    /// Retries the operations that spin on a line whose value may have changed.
    fn changed(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        if self.spinning.is_empty() {
            return;
        }
        let (mut look, keep): (Vec<_>, Vec<_>) =
            self.spinning.drain(..).partition(|(on, _)| *on == line);
        self.spinning = keep;
        for (_, access) in look.drain(..) {
            let begun = self.hw_threads.issued(access.op);
            let number = self.core_of[self.hw_threads.thread_of(access.op)];
            if self.os.is_some() {
                self.access_again(ctx, number, &access, begun);
                continue;
            }
            match self.cores[number as usize].caches.access(line, false) {
                Some(_) => {
                    let at = ctx.now() + self.params.l1.access_time;
                    self.hw_threads.used(number, line);
                    self.take_effect(ctx, &access, AccessResponse::by_cache(begun, at));
                }
                None => self.ask(ctx, number, &access, begun),
            }
        }
    }

    /// Completes an operation.
    fn op_done(&mut self, ctx: &mut Ctx<'_, Parcel>, op: u32) {
        let hw_thread = self.hw_threads.thread_of(op);
        self.hw_threads.complete(ctx, op);
        self.run(ctx, hw_thread);
    }
}

impl RequestAgent for Processor {
    request_agent_fields!(roots, hw_threads.ledger);

    fn in_flight(&self) -> u64 {
        let os = self.os.as_ref().map_or(0, |os| os.in_flight());
        let transactions = (self.txns.len() - self.free.len()) as u64 - self.out_of_use;
        self.hw_threads.in_flight() + transactions + os
    }

    fn is_done(&self) -> bool {
        self.hw_threads.is_done() && self.in_flight() == 0
    }

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for hw_thread in 0..self.hw_threads.len() {
            self.run(ctx, hw_thread);
        }
    }

    #[inline]
    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message) {
        let mut message = *message;
        message.hops += 1;
        if message.channel() == Channel::D2hReq {
            self.active(ctx);
        }
        match message.channel() {
            Channel::D2hReq | Channel::D2hRsp | Channel::D2hData => {
                self.cache_message(ctx, &message);
            }
            channel if channel.is_io() => self.io_arrives(ctx, port, &message),
            Channel::S2mBisnp => self.back_invalidated(ctx, &message),
            _ if message.opcode == Opcode::BiConflictAck => {
                self.conflict_acknowledged(ctx, &message);
            }
            _ => self.fetched(ctx, &message),
        }
    }

    #[inline(always)]
    fn leaves_buffer(message: &Message) -> bool {
        !message.channel().is_io()
    }

    #[inline]
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let value = token & VALUE;
        match token & !VALUE {
            NODE => self.wake_node(ctx, value as usize),
            OP => self.op_done(ctx, value),
            HW_THREAD => {
                let hw_thread = value as usize;
                if self.lane_wake[hw_thread] <= ctx.now().0 {
                    self.lane_wake[hw_thread] = u64::MAX;
                }
                self.run(ctx, hw_thread);
            }
            ARRIVE => self.arrive(ctx, value),
            FINISH => self.proceed(ctx, value),
            COMING => self.io_come(ctx),
            GOING => self.io_goes(ctx),
            WALK => self.walk_on(ctx, value),
            TASK => self.task_wakes(ctx, value),
            IOMMU => self.device_walk_on(ctx, value),
            SCAN => self.scan(ctx),
            _ => self.roots.wake(ctx, token),
        }
    }

    fn reset_statistics(&mut self, now: SimTime) {
        for node in &mut self.nodes {
            node.begin_measurement(now);
        }
        if let Some(os) = &mut self.os {
            os.begin_measurement();
        }
        self.stats = ProcessorStats::default();
    }

    fn end_measurement(&mut self, now: SimTime) {
        for node in &mut self.nodes {
            node.catch_up(now);
        }
    }

    fn failure_handling(&mut self) -> Option<&mut dyn FailureHandling> {
        Some(self)
    }
}
