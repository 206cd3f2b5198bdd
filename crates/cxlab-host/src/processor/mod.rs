//! A multi-core processor: threads and programs on cores with private caches, a shared last-level cache, the
//! home agent of the host's own memory, memory controllers on NUMA nodes, and root ports.
//!
//! # What is modelled, and how
//! Requests of cores reach the home agent after their private caches and the mesh. The home agent
//! takes one transaction of a line at a time; others wait in order of arrival. On the die it acts
//! at once: when it serves a line it takes or shares the copies of other cores in that instant,
//! and the time of the snoop, of the last-level cache and of memory lies before its answer. Cores
//! see the answer one mesh crossing later. Devices are asked with messages (see `devices`).
//!
//! The last-level cache is inclusive, so that a line that makes room there leaves every private
//! cache; or it holds what private caches evict, and a directory of its own size tracks what they
//! hold (see `llc`). Modified lines go back to memory off the critical path.
//!
//! With an operating system, threads use virtual addresses (see `os`).
//!
//! # Left out
//! Instruction fetch, speculation, hardware prefetchers, contention in the mesh, the order in
//! which a core's stores become visible (each is done when it holds the line).

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
    Access, AccessKind, AddressMap, Answer, Ending, Failure, LaneProgram, Lanes, LanesConfig,
    Overtaking, Poison, RequestRow, RequesterStats, RootPorts, SharedWindows, Ticket, Turn,
    Versions,
};
use cxlab_engine::Ctx;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::save_state;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::{Buffer, LinkPort, Parcel};
use cxlab_memory::{GeometryError, Statistic};
use cxlab_protocol::{Channel, Message, Opcode, PortId};
use cxlab_workload::{Image, Phase, thread::Thread};
use serde::{Deserialize, Serialize};

use crate::local::{LocalConfig, LocalMemory, Returned};
use admission::Admission;
use back_invalidation::Snooped;
use caches::{CoreCaches, Held, Level};
use devices::Uqids;
use flushed::Flushed;
use home::{Behind, Txn};
use io::Io;
use llc::Llc;
use os::{Os, Translated};
use writes::WriteBuffer;

pub use os::{MOST_PROMISED, OsConfig, OsParams, PageChoice, Prepared, ProcessParams, VIRTUAL};
pub use params::{
    Cluster, DeviceEvictions, DirectoryParams, Inclusion, LlcParams, ProcessorParams,
};
pub use presets::Preset;
pub use stats::ProcessorStats;

/// Page faults that an access of a core meets at most: the first touch or a sample, and the move
/// that a sample may lead to.
pub const MOST_FAULTS: u32 = 2;

/// What a processor is built from.
pub struct ProcessorConfig {
    /// Its cores, caches and distances.
    pub params: ProcessorParams,
    /// Its number among the requesters.
    pub number: u16,
    /// Its edge port.
    pub port_id: PortId,
    /// Its links, one for each root port.
    pub ports: Vec<LinkPort>,
    /// The root port towards each edge port; empty when there is one root port.
    pub port_to: Vec<u16>,
    /// First edge port of a device: devices are numbered from there.
    pub first_device: u16,
    /// Which device owns an address.
    pub map: Arc<AddressMap>,
    /// Its own memory: a controller for each NUMA node, by ascending addresses.
    pub nodes: Vec<LocalConfig>,
    /// Edge ports of its accelerators.
    pub devices: Vec<PortId>,
    /// Those whose own memory is HDM-DB.
    pub device_coherent: Vec<PortId>,
    /// The operating system, and memory as the workload has prepared it, at virtual addresses; none
    /// where addresses are physical.
    pub os: Option<(OsConfig, Prepared)>,
    /// What it runs: threads, each with the core that it is bound to.
    pub threads: Vec<(u16, Thread)>,
    /// What it runs besides: programs, each on a core without threads.
    pub programs: Vec<(u16, LaneProgram)>,
    /// The phases of the threads' kernel, and those of the programs.
    pub phases: Vec<Phase>,
    /// The memory of its coherence domain.
    pub image: Image,
    /// What of it other hosts map too; none where their values are nothing to it.
    pub shared: Option<SharedWindows>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
    /// The versions of the lines of its coherence domain, where they are checked.
    pub versions: Option<Versions>,
    /// The lines of its coherence domain whose value is poison, where memory may give such.
    pub poison: Option<Poison>,
    /// Whether messages to memory may be denied, or fail.
    pub may_fail: bool,
}

/// Kinds of wake-up, in the upper bits of a token; ports use their number.
const KIND_BITS: u32 = 26;
const NODE: u32 = 1 << KIND_BITS;
const OP: u32 = 2 << KIND_BITS;
const LANE: u32 = 3 << KIND_BITS;
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

/// A core's private part.
struct Core {
    caches: CoreCaches,
    /// Lines that it has asked the home agent for, and the transactions.
    asking: Vec<(LineAddr, u32)>,
    /// What waits for a place in `asking`, in order.
    waiting: VecDeque<(Waiting, Ticket)>,
    turns: Overtaking,
    /// The first that waited has its turn now.
    serving: bool,
    /// Whether a lane of it waits for a walk.
    full: bool,
}

/// What waits for a place among the lines that a core asks for.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Waiting {
    /// An access whose address was known only when there was none, and when it began.
    Access(Access, SimTime),
    /// A lane whose next access has not begun.
    Lane(u32),
}

impl Core {
    fn wait(&mut self, what: Waiting) {
        let ticket = self.turns.wait(self.waiting.len());
        self.waiting.push_back((what, ticket));
    }

    /// The first that waits has its turn.
    fn serve(&mut self) {
        if let Some((_, ticket)) = self.waiting.pop_front() {
            self.turns.serve(ticket);
        }
    }
}

save_state!(Core {
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
    lanes: Lanes,
    core_of: Vec<u16>,
    /// When each lane's wake-up comes, to ask for no second one.
    lane_wake: Vec<u64>,
    cores: Vec<Core>,
    llc: Llc,
    nodes: Vec<LocalMemory>,
    /// Its accelerators, by their number as holders of lines.
    devices: Vec<PortId>,
    /// Those that keep their own memory coherent.
    device_coherent: Vec<PortId>,
    /// Snoops of them that have not been answered.
    snooped: Vec<Snooped>,
    io: Io,
    uqids: Uqids,
    /// The first address that no thread has been given.
    mapped: u64,
    /// When the home agent takes the next request of a device.
    home_free: u64,
    txns: Vec<Txn>,
    free: Vec<u32>,
    behind: Vec<Behind>,
    free_behind: Vec<u32>,
    writes: WriteBuffer,
    /// Lines that are being read from memory, and transactions that wait to.
    open_reads: u32,
    unread: VecDeque<u32>,
    /// Transactions that wait for entries of the directory.
    admission: Admission,
    returned: Vec<Returned>,
    /// Lines of CXL memory that are being written, and reads that wait for that.
    writing: Vec<LineAddr>,
    held_reads: Vec<(LineAddr, u32)>,
    /// Answers that give devices lines of their own memory which are being written.
    held_grants: Vec<Message>,
    /// Flips of bias by software that wait for writes of their pages: address, device, tag and operation.
    held_flips: Vec<(u64, u16, u32, u32)>,
    /// Devices whose `CacheFlushed` has no answer yet.
    flushed: Vec<Flushed>,
    /// Spinning operations, and the line that each waits for a change of.
    spinning: Vec<(LineAddr, Access)>,
    /// Translation, where there is an operating system.
    os: Option<Box<Os>>,
    /// Memory that other hosts map too.
    shared: Option<SharedWindows>,
    /// Transactions that are over and whose tag is out of use.
    out_of_use: u64,
    /// When a machine check ended its threads.
    threads_ended: Option<SimTime>,
    /// The first access to where there is no memory.
    stray: Option<String>,
    may_fail: bool,
    /// The memory of its coherence domain, which its threads and its accelerators share.
    image: Image,
    stats: ProcessorStats,
}

save_state!(Processor {
    values: mapped, home_free, txns, free, behind, free_behind, writes, open_reads, unread, admission, writing, held_reads, held_grants, held_flips, snooped, flushed, spinning, out_of_use, threads_ended, stray, stats;
    sized: lane_wake;
    states: roots, lanes, cores, llc, nodes, io, uqids, os, image;
    built: params, port_id, first_device, map, core_of, devices, device_coherent, shared, returned, may_fail;
});

/// Why a processor cannot be built.
#[derive(Debug)]
pub enum ProcessorError {
    /// A cache of more lines than a tag array holds.
    Cache(GeometryError),
    /// A parameter of the operating system.
    Os(ParamError),
}

impl Processor {
    /// Builds the component.
    ///
    /// # Errors
    /// A cache of more lines than a tag array holds, or an operating system that cannot be.
    pub fn new(config: ProcessorConfig) -> Result<Processor, ProcessorError> {
        let params = config.params;
        let (mut core_of, threads): (Vec<u16>, Vec<Thread>) = config.threads.into_iter().unzip();
        let (cores, programs): (Vec<u16>, Vec<LaneProgram>) = config.programs.into_iter().unzip();
        core_of.extend(cores);
        let core = || {
            Ok(Core {
                caches: CoreCaches::new(&params.l1, &params.l2)?,
                asking: Vec::with_capacity(params.misses as usize),
                waiting: VecDeque::new(),
                turns: Overtaking::default(),
                serving: false,
                full: false,
            })
        };
        let cores: Result<Vec<Core>, GeometryError> = (0..params.cores).map(|_| core()).collect();
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
            lanes: Lanes::new(LanesConfig {
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
            io: Io::new(config.devices.len()),
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

    /// What was measured of its threads' requests.
    pub fn stats(&self) -> &RequesterStats {
        &self.lanes.ledger.stats
    }

    /// What its caches and home agent did.
    pub fn processor_stats(&self) -> &ProcessorStats {
        &self.stats
    }

    /// What its caches, its home agent and its memory kept about themselves.
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

    /// What its process did that no process may, such as touching memory that it has not.
    pub fn error(&self) -> Option<&str> {
        let stray = self.stray.as_deref();
        stray.or_else(|| self.os.as_ref()?.error())
    }

    /// The most page faults that one access of a core has met.
    pub fn most_faults(&self) -> u32 {
        self.os.as_deref().map_or(0, Os::most_faults)
    }

    /// The most often that an access was overtaken by later ones while it waited for one of its core's misses.
    pub fn most_passed_misses(&self) -> u64 {
        let cores = self.cores.iter().map(|core| core.turns.most_overtaken());
        cores.max().unwrap_or(0)
    }

    /// The most often that a transaction was overtaken by later ones while it waited for an entry of the
    /// directory.
    pub fn most_passed_entries(&self) -> u64 {
        self.admission.most_overtaken()
    }

    /// The memory of its process at virtual addresses; `None` where addresses are physical.
    pub fn process_image(&self) -> Option<Image> {
        let os = self.os.as_ref()?;
        Some(os.view(self.lanes.image()))
    }

    /// Its threads.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Operations and transactions under way.
    pub fn in_flight(&self) -> u64 {
        let os = self.os.as_ref().map_or(0, |os| os.in_flight());
        let transactions = (self.txns.len() - self.free.len()) as u64 - self.out_of_use;
        self.lanes.in_flight() + transactions + os
    }

    /// Requests in flight.
    pub fn requests_in_flight(&self) -> u64 {
        self.lanes.ledger.in_flight()
    }

    /// Summed age, at `now`, of the requests in flight.
    pub fn age_ps(&self, now: SimTime) -> u128 {
        self.lanes.ledger.age_ps(now)
    }

    /// Whether every thread has ended and nothing is under way.
    pub fn is_done(&self) -> bool {
        self.lanes.is_done() && self.in_flight() == 0
    }

    /// Its ports, for link statistics.
    pub fn ports_mut(&mut self) -> &mut [LinkPort] {
        &mut self.roots.ports
    }

    /// Takes the rows logged since the last call.
    pub fn take_rows(&mut self) -> Vec<RequestRow> {
        self.lanes.ledger.take_rows()
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.lanes.ledger.begin_measurement(now);
        self.roots.begin_measurement(now);
        for node in &mut self.nodes {
            node.begin_measurement(now);
        }
        if let Some(os) = &mut self.os {
            os.begin_measurement();
        }
        self.stats = ProcessorStats::default();
    }

    /// Measurement ends: the memory controllers have done what they do up to then.
    pub fn end_measurement(&mut self, now: SimTime) {
        for node in &mut self.nodes {
            node.catch_up(now);
        }
    }

    /// The run begins.
    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for lane in 0..self.lanes.len() {
            self.run(ctx, lane);
        }
    }

    /// A parcel arrives from a link.
    #[inline]
    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let link = &mut self.roots.ports[port as usize];
        let credited = link.receive(parcel);
        if let Some(mut message) = parcel.message {
            message.hops += 1;
            let io = message.channel().is_io();
            if !io {
                link.release(ctx, Buffer::of(message.channel(), message.vc));
            }
            if message.channel() == Channel::D2hReq {
                self.active(ctx);
            }
            match message.channel() {
                Channel::D2hReq | Channel::D2hRsp | Channel::D2hData => {
                    self.cache_message(ctx, &message);
                }
                _ if io => self.io_arrives(ctx, port, &message),
                Channel::S2mBisnp => self.back_invalidated(ctx, &message),
                _ if message.opcode == Opcode::BiConflictAck => {
                    self.conflict_acknowledged(ctx, &message);
                }
                _ => self.fetched(ctx, &message),
            }
        }
        if credited {
            self.roots.pump(ctx, port);
        }
    }

    /// A wake-up.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let value = token & VALUE;
        match token & !VALUE {
            NODE => self.wake_node(ctx, value as usize),
            OP => self.op_done(ctx, value),
            LANE => {
                let lane = value as usize;
                if self.lane_wake[lane] <= ctx.now().0 {
                    self.lane_wake[lane] = u64::MAX;
                }
                self.run(ctx, lane);
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

    /// Begins what a lane can begin.
    fn run(&mut self, ctx: &mut Ctx<'_, Parcel>, lane: usize) {
        loop {
            match self.lanes.turn(ctx, lane) {
                Turn::Access(access) => {
                    if !self.access(ctx, lane, &access) {
                        return;
                    }
                }
                Turn::Other(op, what) => self.io_op(ctx, op, what),
                Turn::Completes(op, at) => {
                    ctx.wake_at(at, OP | op);
                }
                Turn::NotBefore(at) => {
                    if at.0 < self.lane_wake[lane] {
                        self.lane_wake[lane] = at.0;
                        ctx.wake_at(at, LANE | lane as u32);
                    }
                    return;
                }
                Turn::Waits | Turn::Ended => return,
            }
        }
    }

    /// Begins an access; false when its core has asked for as many lines as it may.
    fn access(&mut self, ctx: &mut Ctx<'_, Parcel>, lane: usize, access: &Access) -> bool {
        let now = ctx.now();
        let number = self.core_of[lane];
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

    /// An access whose physical address is known looks for its line. `fresh`: it has not begun
    /// before; then it is refused, by false, when its core has asked for as many lines as it may.
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
                self.cores[number as usize].wait(Waiting::Access(access, begun));
                return true;
            }
            let lane = self.lanes.lane_of(access.op) as u32;
            let core = &mut self.cores[number as usize];
            let waits = |one: &Waiting| matches!(one, Waiting::Lane(other) if *other == lane);
            if !core.waiting.iter().any(|(one, _)| waits(one)) {
                core.wait(Waiting::Lane(lane));
            }
            return false;
        }
        self.begin(&mut access, begun, fresh);
        self.look(ctx, number, &access, begun);
        true
    }

    /// Whether a core has asked for as many lines as it may.
    fn asks_for_most(&self, number: u16) -> bool {
        self.cores[number as usize].asking.len() >= self.params.misses as usize
    }

    /// Whether an access of a core would have to ask for a line, and may not yet: the core has asked
    /// for as many as it may, or others wait for that and it is not the access's turn.
    fn waits_for_place(&self, number: u16, line: LineAddr, owns: bool, turn: bool) -> bool {
        let core = &self.cores[number as usize];
        if !self.asks_for_most(number) && (turn || core.waiting.is_empty()) {
            return false;
        }
        let enough = match owns {
            true => Held::Exclusive,
            false => Held::Shared,
        };
        core.caches.held(line) < enough && !core.asking.iter().any(|(other, _)| *other == line)
    }

    /// An access that has begun looks for its line.
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

    /// Whether a core has asked for the line of an access. Then the access waits for that.
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

    /// An access begins, with its physical address.
    fn begin(&mut self, access: &mut Access, now: SimTime, fresh: bool) {
        match fresh {
            true => self.lanes.access_begun(access, now),
            false => self.lanes.translated(access),
        }
        self.use_translation(access, fresh);
    }

    /// A private cache has the line.
    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, level: Level, begun: SimTime) {
        let now = ctx.now();
        let time = match level {
            Level::L1 => {
                self.stats.l1_hits += 1;
                self.params.l1.access_time
            }
            Level::L2 => {
                self.stats.l2_hits += 1;
                self.params.lookup()
            }
        };
        let holder = self.holder_of(access);
        self.lanes.used(holder, access.line());
        let answer = Answer::by_cache_after(begun, now, now + time);
        self.take_effect(ctx, access, answer);
    }

    /// The core that an access is of.
    fn holder_of(&self, access: &Access) -> u16 {
        self.core_of[self.lanes.lane_of(access.op)]
    }

    /// An access takes effect now, while its core holds the line, and is over then or later.
    fn take_effect(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, answer: Answer) {
        if self.lanes.consumes_poison(access) {
            let ending = Ending::Failed(Failure::Poisoned);
            self.over(ctx, access, Answer { ending, ..answer });
            self.poisoned(ctx, access.op, access.kind);
            return;
        }
        self.lanes.perform(access);
        if access.kind.writes() {
            let holder = self.holder_of(access);
            self.lanes.written(Some(holder), access.line());
        }
        if self.lanes.waits_on(access) {
            self.spinning.push((access.line(), *access));
            self.end_translation(ctx, access);
            return;
        }
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
        self.over(ctx, access, answer);
    }

    /// An access is over, now or later.
    fn over(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, answer: Answer) {
        self.end_translation(ctx, access);
        if let Some(at) = self.lanes.access_done(access.op, answer) {
            ctx.wake_at(at.max(ctx.now()), OP | access.op);
        }
    }

    /// A line may have another value now: who spins on it looks again.
    fn changed(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        if self.spinning.is_empty() {
            return;
        }
        let (mut look, keep): (Vec<_>, Vec<_>) =
            self.spinning.drain(..).partition(|(on, _)| *on == line);
        self.spinning = keep;
        for (_, access) in look.drain(..) {
            let begun = self.lanes.issued(access.op);
            let number = self.core_of[self.lanes.lane_of(access.op)];
            if self.os.is_some() {
                self.access_again(ctx, number, &access, begun);
                continue;
            }
            match self.cores[number as usize].caches.access(line, false) {
                Some(_) => {
                    let at = ctx.now() + self.params.l1.access_time;
                    self.lanes.used(number, line);
                    self.take_effect(ctx, &access, Answer::by_cache(begun, at));
                }
                None => self.ask(ctx, number, &access, begun),
            }
        }
    }

    /// An operation is complete.
    fn op_done(&mut self, ctx: &mut Ctx<'_, Parcel>, op: u32) {
        let lane = self.lanes.lane_of(op);
        self.lanes.complete(ctx, op);
        self.run(ctx, lane);
    }
}
