//! Parameters of the operating system in a scenario: the single home of their defaults.

use cxlab_engine::units::{Bytes, Picos};
use cxlab_os::PageSize;
use cxlab_os::ats::IommuParams;
use cxlab_os::policy::migration::MigrationChoice;
use cxlab_os::policy::placement::PlacementChoice;
use cxlab_os::tlb::{TlbParams, WalkCacheParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::params::ProcessorPreset;

/// Page size of a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum PageChoice {
    /// Pages of 4 KiB.
    #[default]
    Small,
    /// Pages of 2 MiB where a mapping covers a whole one and a frame is free, and of 4 KiB elsewhere.
    Large,
}

impl PageChoice {
    /// The page size that is used where possible.
    pub fn size(self) -> PageSize {
        match self {
            PageChoice::Small => PageSize::Small,
            PageChoice::Large => PageSize::Large,
        }
    }
}

/// A further process: cores that run programs in an address space with its own page table. It takes frames
/// from the same nodes as all other processes.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProcessParams {
    /// Cores of the process, by number from 0 on. There must be at least one, and none that runs threads or
    /// belongs to another process.
    #[schemars(length(min = 1))]
    pub cores: Vec<u32>,
    /// Placement of a page that the process touches for the first time. Default: as in `os`.
    #[serde(default)]
    pub placement: Option<PlacementChoice>,
    /// Bytes that are promised to the process as memory of the host: a multiple of 4 KiB, up to 16 TiB.
    /// Default: the capacity of all nodes.
    #[serde(default)]
    pub heap: Option<Bytes>,
}

/// An operating system on a host with a processor. The threads of the host and of its accelerators share
/// one process with one page table; programs may have others. The times below are those of the kernel
/// besides the simulated memory accesses (walks, zeroing and copying of pages).
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct OsParams {
    /// Placement of a page that is touched for the first time. Default `{ kind = "first-touch" }`.
    pub placement: PlacementChoice,
    /// Placements for mappings that select one by number, from 1 on. Default: none.
    pub mappings: Vec<PlacementChoice>,
    /// Further processes. Cores that none of them names belong to the first process, with the threads.
    /// Default: no further process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessParams>,
    /// Which pages of all processes move, and when. Default `{ kind = "none" }`.
    pub migration: MigrationChoice,
    /// Page size. Default `small`.
    pub pages: PageChoice,
    /// Bytes that are promised to the workload as memory of the host; frames come from any node that the
    /// placement allows. A multiple of 4 KiB, up to 16 TiB. Default: the capacity of all nodes.
    pub heap: Option<Bytes>,
    /// Each core's second-level TLB. A lookup that hits runs in parallel with the first cache and takes no
    /// time of its own. Default: the TLB of the processor's preset; without a preset, 2048 entries in 16
    /// ways, and 2 ns before a walk (Golden Cove).
    pub tlb: Option<TlbParams>,
    /// Each core's page-walk cache.
    pub walk_cache: WalkCacheParams,
    /// Most walks of a core at once. 1 to 64. Default 4 (Golden Cove, optimisation manual, 2.1.5).
    #[schemars(range(min = 1, max = 64))]
    pub walkers: u32,
    /// The IOMMU, which translates for accelerators.
    pub iommu: IommuParams,
    /// Time of a page fault of a core, without zeroing the page. Default 500 ns (*assumed*: a minor fault
    /// of a current server takes some 1 us with it).
    pub fault_time: Picos,
    /// Time of a page request of a device: event queue, worker, and response. Default 10 us (*assumed*; no
    /// measurement of a device with ATS and PRI is published for CXL).
    pub page_request_time: Picos,
    /// Time of a system call (`mmap`, `munmap`). Default 200 ns (*assumed*).
    pub syscall_time: Picos,
    /// Time to interrupt every core to invalidate its TLB. Default 2 us (*assumed*, after Amit, USENIX ATC
    /// 2017: microseconds between two sockets).
    pub shootdown_time: Picos,
    /// Time of the kernel for a page that moves, without copying it and telling cores and devices.
    /// Default 1 us (*assumed*).
    pub move_time: Picos,
    /// Most pages that move at once. 1 to 256. Default 4 (*assumed*).
    #[schemars(range(min = 1, max = 256))]
    pub moves: u32,
    /// Most lines of a page that are copied or zeroed at once. 1 to 64. Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 64))]
    pub copy_lines: u32,
    /// Distance between a node of processors and one of CXL memory, as in ACPI's SLIT: 10 times the ratio
    /// of its latency to that of local memory. 11 to 127. Default 20 (Linux: `REMOTE_DISTANCE`).
    #[schemars(range(min = 11, max = 127))]
    pub cxl_distance: u8,
}

impl OsParams {
    /// Index in `processes` of the process of a core; `None` for the first process.
    pub fn process_of(&self, core: u32) -> Option<usize> {
        let names = |process: &ProcessParams| process.cores.contains(&core);
        self.processes.iter().position(names)
    }

    /// Parameters of each core's TLB, on a processor with the given preset.
    pub fn tlb(&self, preset: Option<ProcessorPreset>) -> TlbParams {
        let of_preset = || preset.map(ProcessorPreset::tlb).unwrap_or_default();
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
