//! What a user says of the operating system: the single home of the defaults.

use cxlab_engine::units::{Bytes, Picos};
use cxlab_os::PageSize;
use cxlab_os::ats::IommuParams;
use cxlab_os::policy::migration::MigrationChoice;
use cxlab_os::policy::placement::PlacementChoice;
use cxlab_os::tlb::{TlbParams, WalkCacheParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::presets::Preset;

/// The size of a process's pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum PageChoice {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB where a mapping covers a whole one and a frame is free, 4 KiB elsewhere.
    Large,
}

impl PageChoice {
    /// The size.
    pub fn size(self) -> PageSize {
        match self {
            PageChoice::Small => PageSize::Small,
            PageChoice::Large => PageSize::Large,
        }
    }
}

/// A process of its own: cores that run programs in an address space with a page table of its own. It takes
/// frames from the same nodes as all others.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProcessParams {
    /// Its cores, by number from 0 on: at least one, and none that runs threads or belongs to another
    /// process.
    #[schemars(length(min = 1))]
    pub cores: Vec<u32>,
    /// Where a page goes that it touches for the first time. Default: as in `os`.
    #[serde(default)]
    pub placement: Option<PlacementChoice>,
    /// Bytes that are promised to it as memory of the host's own: a multiple of 4 KiB, up to 16 TiB. Default:
    /// as much as all nodes have.
    #[serde(default)]
    pub heap: Option<Bytes>,
}

/// An operating system on a host with a processor: its threads, and those of its accelerators, share
/// one process with one page table; programs may have others. Times are of what the kernel does beside the accesses to memory
/// that are simulated (walks, zeroing and copying of pages).
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct OsParams {
    /// Where a page goes that is touched for the first time. Default `{ kind = "first-touch" }`.
    pub placement: PlacementChoice,
    /// Placement of mappings that name one: the first has number 1. Default none.
    pub mappings: Vec<PlacementChoice>,
    /// Processes of their own. Cores that none of them names are of the first process, with the threads.
    /// Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessParams>,
    /// Which pages move, and when; of all processes. Default `{ kind = "none" }`.
    pub migration: MigrationChoice,
    /// The size of pages. Default `small`.
    pub pages: PageChoice,
    /// Bytes that are promised to the workload as memory of the host's own; frames come from any
    /// node that the placement allows. A multiple of 4 KiB, up to 16 TiB. Default: as much as all
    /// nodes have.
    pub heap: Option<Bytes>,
    /// Each core's second-level TLB; a lookup that hits runs beside the first cache's and takes no
    /// time of its own. Default: that of the processor's preset; without one 2048 entries in 16 ways, 2 ns
    /// before a walk (Golden Cove).
    pub tlb: Option<TlbParams>,
    /// Each core's page-walk cache.
    pub walk_cache: WalkCacheParams,
    /// Walks of a core at once. 1 to 64. Default 4 (Golden Cove, optimisation manual, 2.1.5).
    #[schemars(range(min = 1, max = 64))]
    pub walkers: u32,
    /// The IOMMU, which answers accelerators.
    pub iommu: IommuParams,
    /// A page fault of a core, beside zeroing the page. Default 500 ns (*assumed*: a minor fault of a
    /// current server takes some 1 us with it).
    pub fault_time: Picos,
    /// A page request of a device: event queue, worker, and response. Default 10 us (*assumed*; no
    /// measurement of a device with ATS and PRI is published for CXL).
    pub page_request_time: Picos,
    /// A system call (`mmap`, `munmap`). Default 200 ns (*assumed*).
    pub syscall_time: Picos,
    /// Interrupting every core to invalidate its TLB. Default 2 us (*assumed*, after Amit, USENIX ATC
    /// 2017: microseconds between two sockets).
    pub shootdown_time: Picos,
    /// What the kernel does for a page that moves, beside copying it and telling cores and devices.
    /// Default 1 us (*assumed*).
    pub move_time: Picos,
    /// Pages that move at once. 1 to 256. Default 4 (*assumed*).
    #[schemars(range(min = 1, max = 256))]
    pub moves: u32,
    /// Lines of a page that are copied or zeroed at once. 1 to 64. Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 64))]
    pub copy_lines: u32,
    /// Distance between a node of processors and one of CXL memory, as ACPI's SLIT has it: 10 times
    /// the latency over that of local memory. 11 to 127. Default 20 (Linux: `REMOTE_DISTANCE`).
    #[schemars(range(min = 11, max = 127))]
    pub cxl_distance: u8,
}

impl OsParams {
    /// Which of `processes` a core belongs to; `None` for the first process.
    pub fn process_of(&self, core: u32) -> Option<usize> {
        let names = |process: &ProcessParams| process.cores.contains(&core);
        self.processes.iter().position(names)
    }

    /// Each core's TLB, on a processor of that preset.
    pub fn tlb(&self, preset: Option<Preset>) -> TlbParams {
        let of_preset = || preset.map(Preset::tlb).unwrap_or_default();
        self.tlb.clone().unwrap_or_else(of_preset)
    }
}

impl Default for OsParams {
    fn default() -> Self {
        OsParams {
            placement: PlacementChoice::default(),
            mappings: Vec::new(),
            processes: Vec::new(),
            migration: MigrationChoice::default(),
            pages: PageChoice::Small,
            heap: None,
            tlb: None,
            walk_cache: WalkCacheParams::default(),
            walkers: 4,
            iommu: IommuParams::default(),
            fault_time: Picos::from_nanos(500),
            page_request_time: Picos::from_nanos(10_000),
            syscall_time: Picos::from_nanos(200),
            shootdown_time: Picos::from_nanos(2_000),
            move_time: Picos::from_nanos(1_000),
            moves: 4,
            copy_lines: 16,
            cxl_distance: 20,
        }
    }
}
