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

mod accelerators;
mod admission;
mod back_invalidation;
mod caches;
mod cores;
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
mod tokens;
mod transactions;
mod writes;

use std::sync::Arc;

use cxlab_agent::{
    AddressMap, FailureHandling, HostSharedMemory, HwThreads, HwThreadsConfig, LineVersions,
    PoisonedLines, RequestAgent, RootPorts, ThreadProgram, request_agent_fields,
};
use cxlab_cache::{GeometryError, Statistic};
use cxlab_engine::Ctx;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_link::{LinkPort, Parcel};
use cxlab_protocol::{Channel, Message, Opcode, PortId};
use cxlab_workload::{Image, Phase, thread::Thread};

use crate::local::LocalConfig;
use accelerators::Accelerators;
use cores::Cores;
use failures::ProcessErrors;
use home::HomeAgent;
use io::HostIo;
use memory::Memory;
use os::Os;
use tokens::{ARRIVE, COMING, FINISH, GOING, HW_THREAD, IOMMU, NODE, OP, SCAN, TASK, VALUE, WALK};

pub use os::{
    MOST_PROMISED, OsConfig, OsParams, PageChoice, PreparedMemory, ProcessParams, VIRTUAL,
};
pub use params::{
    Cluster, DeviceEvictions, DirectoryParams, Inclusion, LlcParams, ProcessorParams,
    ProcessorPreset,
};
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
    pub shared: Option<HostSharedMemory>,
    /// Whether to keep a row for each completed request.
    pub log: bool,
    /// Versions of the lines of the coherence domain, if they are checked.
    pub versions: Option<LineVersions>,
    /// Poisoned lines of the coherence domain, if memory may return poison.
    pub poison: Option<PoisonedLines>,
    /// Whether messages to memory may be denied or fail.
    pub may_fail: bool,
}

/// The processor component.
pub struct Processor {
    params: ProcessorParams,
    port_id: PortId,
    first_device: u16,
    roots: RootPorts,
    hw_threads: HwThreads,
    cores: Cores,
    home: HomeAgent,
    memory: Memory,
    accelerators: Accelerators,
    io: HostIo,
    /// The operating system, which translates addresses, if there is one.
    os: Option<Box<Os>>,
    errors: ProcessErrors,
    /// Memory of the coherence domain, which threads and accelerators share.
    image: Image,
    stats: ProcessorStats,
}

save_state!(Processor {
    values: stats;
    states: roots, hw_threads, cores, home, memory, io, os, errors, image;
    built: params, port_id, first_device, accelerators;
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
            cores: Cores::new(&params, core_of).map_err(ProcessorError::Cache)?,
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
            home: HomeAgent::new(&params).map_err(ProcessorError::Cache)?,
            memory: Memory::new(config.nodes, config.map, config.shared, most),
            io: HostIo::new(config.devices.len(), mapped),
            accelerators: Accelerators {
                ports: config.devices,
                coherent: config.device_coherent,
            },
            os,
            errors: ProcessErrors {
                threads_ended: None,
                stray: None,
                may_fail: config.may_fail,
            },
            image: config.image,
            stats: ProcessorStats::default(),
            params,
        })
    }

    /// All statistics of caches, home agent, memory and operating system, by name.
    pub fn counts(&self, now: SimTime) -> Vec<Statistic> {
        let mut list = Vec::new();
        self.stats.list(&mut list, self.home.llc.is_victim_cache());
        self.stats.list_waits(&mut list);
        if self.errors.may_fail {
            self.stats.list_failures(&mut list);
            list.extend(self.errors.threads_ended.map(|time| Statistic {
                name: "threads_ended_ns".to_owned(),
                value: time.0 as f64 / 1e3,
            }));
        }
        if !self.accelerators.coherent.is_empty() {
            self.stats.list_back_invalidation(&mut list);
        }
        for (number, node) in self.memory.nodes.iter().enumerate() {
            for statistic in node.statistics(now) {
                let name = format!("node{number}.{}", statistic.name);
                list.push(Statistic { name, ..statistic });
            }
        }
        if let Some(os) = &self.os {
            os.list(&mut list);
        }
        list
    }

    /// An error of the process, such as an access to memory that it does not have.
    pub fn error(&self) -> Option<&str> {
        let stray = self.errors.stray.as_deref();
        stray.or_else(|| self.os.as_ref()?.error())
    }

    /// Largest number of page faults of a single access of a core.
    pub fn most_faults(&self) -> u32 {
        self.os.as_deref().map_or(0, Os::most_faults)
    }

    /// Largest number of times that later accesses overtook one that waited for an outstanding request of its core.
    pub fn most_passed_misses(&self) -> u64 {
        self.cores.most_overtaken()
    }

    /// Largest number of times that later transactions overtook one that waited for a directory entry.
    pub fn most_passed_entries(&self) -> u64 {
        self.home.admission.most_overtaken()
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
}

impl RequestAgent for Processor {
    request_agent_fields!(roots, hw_threads.ledger);

    fn in_flight(&self) -> u64 {
        let os = self.os.as_ref().map_or(0, |os| os.in_flight());
        self.hw_threads.in_flight() + self.home.txns.in_flight() + os
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
            HW_THREAD => self.thread_wakes(ctx, value as usize),
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
        for node in &mut self.memory.nodes {
            node.begin_measurement(now);
        }
        if let Some(os) = &mut self.os {
            os.begin_measurement();
        }
        self.stats = ProcessorStats::default();
    }

    fn end_measurement(&mut self, now: SimTime) {
        for node in &mut self.memory.nodes {
            node.catch_up(now);
        }
    }

    fn failure_handling(&mut self) -> Option<&mut dyn FailureHandling> {
        Some(self)
    }
}
