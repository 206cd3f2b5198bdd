//! The operating system of a processor's host, and its memory management units.
//!
//! Threads of the host and of its accelerators are one process with one page table. Programs on cores belong to the
//! same process or to others. Their addresses are virtual addresses of the process. Each core translates with a TLB,
//! and with page walks whose reads go through its caches; accelerators ask the IOMMU (see `devices`). A page that is
//! touched for the first time gets a frame by the placement policy, and the frame is zeroed line by line (see
//! `faults`). Pages move between nodes under the migration policy (see `moves`).
//!
//! # Left out
//! The kernel's own use of caches and cores: its time is that of the parameters, and its accesses are the
//! zeroing and copying of pages. Writes to page-table entries take no time of their own.

mod devices;
mod faults;
mod jobs;
mod moves;
mod params;
mod walks;

use std::collections::VecDeque;

use cxlab_agent::{Access as LineAccess, Slab};
use cxlab_cache::Statistic;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::probe::LatencyProbe;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, Picos};
use cxlab_os::ats::Iommu;
use cxlab_os::epochs::Epochs;
use cxlab_os::frames::{NodeKind, NodeSpec, NumaDistances};
use cxlab_os::policy::migration::Migration;
use cxlab_os::policy::placement::{Placement, PlacementChoice, PlacementPolicy};
use cxlab_os::space::{AreaOptions, TouchResult};
use cxlab_os::tlb::{Tlb, TlbParams, WalkCache};
use cxlab_os::{AddressSpace, FrameAllocator, NodeId, NodeSet, Page, PageAccess, Pasid, VirtAddr};
use cxlab_protocol::Message;
use cxlab_workload::Image;
use cxlab_workload::thread::Bases;

pub use params::{OsParams, PageChoice, ProcessParams};

use devices::DeviceWalk;
use faults::{PageWaiter, Task};
use jobs::Job;
use serde::{Deserialize, Serialize};
use walks::PendingWalk;

pub(super) use walks::Translated;

/// The process of the threads, and of all cores that no other process names.
const PROCESS: Pasid = Pasid(1);

/// Index of a process; processes are numbered from 1.
fn space_index(process: Pasid) -> usize {
    process.0 as usize - 1
}

/// Start of the workload's memories in its address space: 16 TiB for CXL memory, 16 TiB for memory of the
/// host. Mappings that the workload makes itself are above.
pub const VIRTUAL: Bases = Bases {
    cxl: 1 << 44,
    local: 1 << 45,
};

/// Most bytes of the CXL memory, and of the host's memory.
pub const MOST_PROMISED: u64 = 1 << 44;

/// Configuration of an operating system.
pub struct OsConfig {
    /// Parameters from the scenario.
    pub params: OsParams,
    /// NUMA nodes as the processor sees them.
    pub nodes: Vec<NodeSpec>,
    /// Distances between the nodes, row by row.
    pub distances: NumaDistances,
    /// Node of the processor's cores.
    pub home: NodeId,
    /// Node of each accelerator: that of its own memory, or the home node.
    pub devices: Vec<NodeId>,
    /// Bytes of the workload's memory, in the first process and in each of `params.processes`.
    pub heaps: Vec<u64>,
    /// Bytes of the workload's CXL memory.
    pub cxl: u64,
    /// Number of cores.
    pub cores: u32,
    /// Parameters of each core's TLB.
    pub tlb: TlbParams,
    /// Random stream for the replacement of translations.
    pub rng: StreamRng,
}

impl OsConfig {
    /// Checks whether an operating system can be built with this configuration.
    ///
    /// # Errors
    /// The parameter that does not fit.
    pub fn check(self) -> Result<(), ParamError> {
        Os::new(self).map(drop)
    }
}

/// Contents of a process's memory when a run begins, at virtual addresses.
pub struct PreparedMemory {
    /// The contents, by virtual address.
    pub image: Image,
    /// Addresses in the order in which their pages were touched first. Other pages follow by address.
    pub touched: Vec<Hpa>,
}

/// Memory management unit of a core.
struct Mmu {
    /// The process that the core runs.
    process: Pasid,
    tlb: Tlb,
    walk_cache: WalkCache,
    /// Number of walks in progress.
    walking: u32,
}

save_state!(Mmu {
    values: walking;
    states: tlb, walk_cache;
    built: process;
});

/// Counts since measurement began.
#[derive(Default, Serialize, Deserialize)]
struct OsStats {
    tlb_hits: u64,
    tlb_misses: u64,
    walks: u64,
    walk_reads: u64,
    walk: LatencyProbe,
    faults: u64,
    fault: LatencyProbe,
    device_faults: u64,
    device_fault: LatencyProbe,
    hint_faults: u64,
    translations: u64,
    translation: LatencyProbe,
    translation_reads: u64,
    shootdowns: u64,
    promoted: u64,
    demoted: u64,
    refused: u64,
    moved: LatencyProbe,
}

/// Whether the migration policy scans. Scans stop without activity.
#[derive(Default, Serialize, Deserialize)]
struct ScanActivity {
    /// Number of activities so far, and the number at the last scan.
    activity: u64,
    seen: u64,
    scanning: bool,
}

/// The operating system and the translation units.
pub(super) struct Os {
    params: OsParams,
    /// Time from a miss in a core's TLB to the walk.
    tlb_latency: Picos,
    /// Address space of each process.
    spaces: Vec<AddressSpace>,
    frames: FrameAllocator,
    mappings: Vec<Box<dyn PlacementPolicy>>,
    migration: Box<dyn Migration>,
    migrates: bool,
    home: NodeId,
    devices: Vec<NodeId>,
    mmus: Vec<Mmu>,
    iommu: Iommu,
    /// Accesses of cores that use a translation, by epoch of invalidation.
    epochs: Epochs,
    walks: Vec<PendingWalk>,
    free_walks: Vec<u32>,
    device_walks: Slab<DeviceWalk>,
    /// Requests of devices that wait because every walker is busy.
    asked: VecDeque<Message>,
    tasks: Slab<Task>,
    jobs: Slab<Job>,
    /// Holders that have been notified that a page is present and have not found it yet.
    answered: Vec<PageWaiter>,
    /// Largest number of page faults of a single walk of a core.
    most_faults: u32,
    /// Number of pages that are moving under the migration policy.
    moves: u32,
    /// Ranges to be unmapped that wait for tasks of their pages: operation, address, bytes.
    unmaps: Vec<(u32, u64, u64)>,
    scans: ScanActivity,
    error: Option<String>,
    stats: OsStats,
}

save_state!(Os {
    values: walks, free_walks, device_walks, asked, tasks, jobs, answered, most_faults, moves, unmaps, scans, error, stats;
    states: spaces, frames, migration, mmus, iommu, epochs;
    built: params, tlb_latency, mappings, migrates, home, devices;
});

impl Os {
    /// Builds the operating system, with the workload's memory promised.
    ///
    /// # Errors
    /// The parameter that does not fit.
    pub(super) fn new(config: OsConfig) -> Result<Os, ParamError> {
        let OsConfig { params, rng, .. } = config;
        let of_frames = |error: &dyn std::fmt::Display| ParamError::new("nodes", error.to_string());
        let mut frames = FrameAllocator::new(&config.nodes, config.distances)
            .map_err(|error| of_frames(&error))?;
        let nodes = frames.nodes();
        let policy = |path: &str, choice: &PlacementChoice| {
            let policy = choice.build().map_err(|error| below(path, error))?;
            policy.check(nodes).map_err(|error| below(path, error))?;
            Ok(policy)
        };
        let mut placements = vec![policy("placement", &params.placement)?];
        for (number, process) in params.processes.iter().enumerate() {
            let path = format!("processes[{number}].placement");
            let choice = process.placement.as_ref().unwrap_or(&params.placement);
            placements.push(policy(&path, choice)?);
        }
        let mut mappings = Vec::new();
        for (number, choice) in params.mappings.iter().enumerate() {
            mappings.push(policy(&format!("mappings[{number}]"), choice)?);
        }
        let migration = params
            .migration
            .build()
            .map_err(|error| below("migration", error))?;
        migration
            .check(&frames)
            .map_err(|error| below("migration", error))?;
        let migration = migration.state(&frames);
        let no_memory = |error: &dyn std::fmt::Display| ParamError::new("heap", error.to_string());
        let options = AreaOptions {
            writable: true,
            pages: params.pages.size(),
        };
        let mut spaces = Vec::new();
        let numbers = (PROCESS.0..).map(Pasid);
        for ((process, placement), heap) in numbers.zip(placements).zip(&config.heaps) {
            let placement = placement.state(nodes);
            let mut space = AddressSpace::new(process, config.home, placement, &mut frames)
                .map_err(|error| no_memory(&error))?;
            if *heap > 0 {
                space
                    .mmap_at(VirtAddr(VIRTUAL.local), *heap, options, None)
                    .map_err(|error| no_memory(&error))?;
            }
            if config.cxl > 0 {
                let bound = cxl_placement(&config.nodes, nodes);
                space
                    .mmap_at(VirtAddr(VIRTUAL.cxl), config.cxl, options, bound)
                    .map_err(|error| no_memory(&error))?;
            }
            spaces.push(space);
        }
        let mmu = |core| {
            let rng = rng.substream(&format!("core{core}"));
            Ok(Mmu {
                process: params
                    .process_of(core)
                    .map_or(PROCESS, |number| Pasid(PROCESS.0 + 1 + number as u32)),
                tlb: Tlb::new(&config.tlb, rng.substream("tlb"))
                    .map_err(|error| below("tlb", error))?,
                walk_cache: WalkCache::new(&params.walk_cache, rng.substream("walk_cache"))
                    .map_err(|error| below("walk_cache", error))?,
                walking: 0,
            })
        };
        let mmus: Result<Vec<Mmu>, ParamError> = (0..config.cores).map(mmu).collect();
        Ok(Os {
            iommu: Iommu::new(&params.iommu, rng.substream("iommu"))
                .map_err(|error| below("iommu", error))?,
            migrates: migration.next_scan() != cxlab_engine::units::SimTime::NEVER,
            spaces,
            frames,
            mappings,
            migration,
            home: config.home,
            devices: config.devices,
            mmus: mmus?,
            epochs: Epochs::default(),
            walks: Vec::new(),
            free_walks: Vec::new(),
            device_walks: Slab::default(),
            asked: VecDeque::new(),
            tasks: Slab::default(),
            jobs: Slab::default(),
            answered: Vec::new(),
            most_faults: 0,
            moves: 0,
            unmaps: Vec::new(),
            scans: ScanActivity::default(),
            error: None,
            stats: OsStats::default(),
            tlb_latency: config.tlb.latency,
            params,
        })
    }

    /// Loads the prepared memory, as the process on the home node would: the pages at virtual addresses go
    /// to physical ones in `image`.
    ///
    /// # Errors
    /// Too little memory, or an address that was not promised.
    pub(super) fn load(
        &mut self,
        prepared: &PreparedMemory,
        image: &Image,
    ) -> Result<(), ParamError> {
        let touched = prepared.touched.iter();
        let touched = touched.map(|Hpa(hpa)| Hpa(hpa & !(PAGE_BYTES - 1)));
        for Hpa(page) in touched.chain(prepared.image.pages()) {
            let start = VirtAddr(page);
            let access = PageAccess::Write;
            let touched = self.spaces[0].touch(start, access, self.home, &mut self.frames);
            let mapping = match touched {
                Ok(TouchResult::Placed(mapping, node)) => {
                    let page = Page::around(PROCESS, start, mapping.frame.size);
                    self.migration.placed(page, node);
                    mapping
                }
                Ok(TouchResult::Present(mapping) | TouchResult::Hinted(mapping)) => mapping,
                Err(error) => return Err(ParamError::new("heap", error.to_string())),
            };
            let to = Hpa(mapping.frame.base.0 + start.offset_in(mapping.frame.size));
            copy_page(&prepared.image, Hpa(page), image, to);
        }
        Ok(())
    }

    /// Memory of the first process, at virtual addresses.
    pub(super) fn view(&self, image: &Image) -> Image {
        let view = Image::new();
        let space = &self.spaces[0];
        for (page, _) in space.pages(&self.frames) {
            let Some(mapping) = space.table().lookup(page.start) else {
                continue;
            };
            for offset in (0..page.size.bytes()).step_by(4096) {
                let from = Hpa(mapping.frame.base.0 + offset);
                copy_page(image, from, &view, Hpa(page.start.0 + offset));
            }
        }
        view
    }

    /// An error of the process, if it made one.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Largest number of page faults of a single walk of a core.
    pub(super) fn most_faults(&self) -> u32 {
        self.most_faults
    }

    /// Number of walks, faults, moves and unmaps in progress.
    pub(super) fn in_flight(&self) -> u64 {
        let walks = self.walks.len() - self.free_walks.len() + self.device_walks.len();
        (walks + self.tasks.len() + self.unmaps.len()) as u64
    }

    pub(super) fn begin_measurement(&mut self) {
        self.stats = OsStats::default();
    }

    pub(super) fn list(&self, list: &mut Vec<Statistic>) {
        let stats = &self.stats;
        let sum = |bytes: fn(&AddressSpace) -> u64| self.spaces.iter().map(bytes).sum::<u64>();
        let counts = [
            ("tlb_hits", stats.tlb_hits as f64),
            ("tlb_misses", stats.tlb_misses as f64),
            ("page_walks", stats.walks as f64),
            ("page_walk_reads", stats.walk_reads as f64),
            ("page_walk_ns", stats.walk.mean_ns()),
            ("page_faults", stats.faults as f64),
            ("page_fault_ns", stats.fault.mean_ns()),
            ("page_requests", stats.device_faults as f64),
            ("page_request_ns", stats.device_fault.mean_ns()),
            ("hint_faults", stats.hint_faults as f64),
            ("ats_translations", stats.translations as f64),
            ("ats_translation_ns", stats.translation.mean_ns()),
            ("ats_walk_reads", stats.translation_reads as f64),
            ("tlb_shootdowns", stats.shootdowns as f64),
            ("pages_promoted", stats.promoted as f64),
            ("pages_demoted", stats.demoted as f64),
            ("moves_refused", stats.refused as f64),
            ("page_move_ns", stats.moved.mean_ns()),
            ("resident_bytes", sum(AddressSpace::resident_bytes) as f64),
            ("promised_bytes", sum(AddressSpace::promised_bytes) as f64),
        ];
        Statistic::append(list, "", &counts);
        for node in self.frames.nodes().iter() {
            let Some(spec) = self.frames.spec(node) else {
                continue;
            };
            let used = spec.capacity.0 - self.frames.free_bytes(node);
            let kind = match spec.kind {
                NodeKind::Cpu => "cpu",
                NodeKind::Xpu => "xpu",
                NodeKind::Memory => "memory",
            };
            list.push(Statistic {
                name: format!("numa{}.{kind}.used_bytes", node.0),
                value: used as f64,
            });
        }
        if self.spaces.len() > 1 {
            self.list_processes(list);
        }
    }

    /// Appends the resident bytes of each process on each node.
    fn list_processes(&self, list: &mut Vec<Statistic>) {
        for space in &self.spaces {
            let mut bytes = vec![0; self.frames.nodes().iter().count()];
            for (page, node) in space.pages(&self.frames) {
                bytes[node.index()] += page.size.bytes();
            }
            for (node, bytes) in bytes.iter().enumerate() {
                list.push(Statistic {
                    name: format!("process{}.numa{node}.resident_bytes", space.pasid().0),
                    value: *bytes as f64,
                });
            }
        }
    }
}

fn needed(access: &LineAccess) -> PageAccess {
    match access.kind.writes() {
        true => PageAccess::Write,
        false => PageAccess::Read,
    }
}

/// Time from `begun` to `now`, both in picoseconds.
fn since(begun: u64, now: u64) -> Picos {
    Picos(now - begun)
}

const PAGE_BYTES: u64 = 4096;

fn copy_page(from_image: &Image, from: Hpa, to_image: &Image, to: Hpa) {
    let mut bytes = [0; PAGE_BYTES as usize];
    from_image.read_bytes(from, &mut bytes);
    if bytes.iter().any(|byte| *byte != 0) {
        to_image.write_bytes(to, &bytes);
    }
}

/// Placement of memory that the workload wants as CXL memory: bound to the nodes of CXL memory.
fn cxl_placement(specs: &[NodeSpec], nodes: NodeSet) -> Option<Placement> {
    let cxl = |node: &NodeId| {
        let spec = specs.get(node.index());
        spec.is_some_and(|spec| spec.kind != NodeKind::Cpu && spec.capacity.0 > 0)
    };
    let names: Vec<u16> = nodes.iter().filter(cxl).map(|node| node.0).collect();
    let entry = cxlab_engine::catalog::find(cxlab_os::policy::placement::CATALOG, "bind")?;
    let policy = (entry.build)(&serde_json::json!({ "nodes": names })).ok()?;
    Some(policy.state(nodes))
}

/// Prefixes the field of an error in a nested parameter.
fn below(field: &str, error: ParamError) -> ParamError {
    let field = match error.field.is_empty() {
        true => field.to_owned(),
        false => format!("{field}.{}", error.field),
    };
    ParamError::new(field, error.message)
}
