//! What a user says of an accelerator: the single home of the defaults. Times are in cycles of
//! the device, so that its clock alone turns an FPGA into an ASIC (Cohet, section VI-A2).

use cxlab_engine::choice;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_memory::prefetch::{self, PrefetchPolicy};
use cxlab_os::ats::AtcParams;
use cxlab_protocol::coherence::hold::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice!(
    /// A prefetcher of the catalog, for lines.
    LinePrefetchChoice,
    prefetch::CATALOG,
    Box<dyn PrefetchPolicy>
);

impl Eq for LinePrefetchChoice {}

/// How an accelerator reaches the host's memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum AcceleratorKind {
    /// A CXL Type 1 device: a coherent cache of host memory over CXL.cache, and DMA over CXL.io.
    #[default]
    Type1,
    /// A PCIe device: CXL.io alone, so no cache of host memory and no memory that the host reaches
    /// over CXL.mem. Its threads have DMA, registers, interrupts, and the device's own buffers;
    /// workloads that would load or store host memory are refused, and a run whose threads do so
    /// all the same ends with an error. Of `cache` only `request_cycles` and `response_cycles` mean anything: the
    /// pipelines between link and engine. `dmc` and the other parameters of `cache` have no effect;
    /// `prefetch` is refused.
    Pcie,
}

/// The request with which a load that misses asks the host (CXL 3.1, sections 3.2.4.2.6 to 3.2.4.2.9).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[allow(clippy::enum_variant_names)] // They are opcodes.
pub enum LoadRequest {
    /// A copy in any state that the host gives.
    #[default]
    RdAny,
    /// A shared copy.
    RdShared,
    /// The value, which the device uses once and does not cache.
    RdCurr,
}

/// The request with which a store that misses asks the host (CXL 3.1, sections 3.2.4.2.7 to 3.2.4.2.19). Only
/// `RdOwn` brings the line into the cache. Stores to a line that the cache holds, and atomic operations, are as with
/// `RdOwn`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
pub enum StoreRequest {
    /// Ownership of the line, with its data; `RdOwnNoData` for a store of a whole line.
    #[default]
    RdOwn,
    /// Whole lines are written into the host's last-level cache; smaller stores ask with `RdOwn`.
    ItoMWr,
    /// Whole lines are written into the host's last-level cache if the host's caches have them, else into memory;
    /// smaller stores ask with `RdOwn`.
    WrCur,
    /// Stores are written to memory, and each is over when memory has it.
    WrInv,
    /// Stores are written to memory, weakly ordered; `WOWrInvF` for whole lines. The device sends the data at
    /// `Fast_GO_WritePull` and takes the store for done at `ExtCmp`, as a device without Fast_GO does (section
    /// 3.2.4.5.6). For a line of its own memory (HDM-D) that the host may hold it asks so too, and writes it itself at
    /// `MemWrFwd` (figure 3-39).
    WOWrInv,
}

/// The cache of host memory of a Type 1 or Type 2 device (HMC).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct HmcParams {
    /// Capacity: a multiple of `ways` lines of 64 B. Default 128 KiB (Cohet, Table I).
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 4 (Cohet, Table I).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Cycles from an element's access to its answer, when the cache has the line. Default 46:
    /// 115 ns at 400 MHz (Cohet, section VI-B2).
    pub hit_cycles: u32,
    /// Requests to the host under way at once (CQIDs). 1 to 4096. Default 128 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub misses: u32,
    /// Cycles from an element's access to the link, when the cache does not have the line.
    /// Default 100 (*assumed*).
    pub request_cycles: u32,
    /// Cycles from the link to the element. Default 100 (*assumed*).
    pub response_cycles: u32,
    /// Whether a clean line that makes room is announced (`CleanEvictNoData`), which keeps the host's
    /// directory exact and takes a request, or dropped silently. Default true.
    pub clean_evict: bool,
    /// Whether an exclusive line that makes room is offered to the host with its data (`CleanEvict` in place of
    /// `CleanEvictNoData`). A host whose `processor.llc.device_evictions` is `llc` takes them, another answers
    /// `GO_WritePull_Drop`. Without effect unless `clean_evict` is true. Default false.
    pub clean_evict_data: bool,
    /// What a load that misses asks the host for. Prefetches that `RdCurr` would not keep ask for `RdAny`. Default
    /// `RdAny`.
    pub load_request: LoadRequest,
    /// What a store that misses asks the host for. Default `RdOwn`.
    pub store_request: StoreRequest,
    /// Whether the device gives up all lines and says `CacheFlushed` when its threads have ended, so that the host
    /// needs no longer snoop it (CXL 3.1, section 3.2.4.2.20). The run lasts until the host has answered. Default
    /// false.
    pub flush_at_end: bool,
    /// What fetches lines of host memory ahead of the elements: `stride` is the multi-stride
    /// prefetcher of Cohet, section V-B2. It takes at most half of the requests under way. Default
    /// none.
    pub prefetch: Option<LinePrefetchChoice>,
}

impl Default for HmcParams {
    fn default() -> Self {
        HmcParams {
            size: Bytes(128 << 10),
            ways: 4,
            hit_cycles: 46,
            misses: 128,
            request_cycles: 100,
            response_cycles: 100,
            clean_evict: true,
            clean_evict_data: false,
            load_request: LoadRequest::default(),
            store_request: StoreRequest::default(),
            flush_at_end: false,
            prefetch: None,
        }
    }
}

/// The cache of a Type 2 device's own memory (DMC). Hits take as long as in the cache of host memory.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DmcParams {
    /// Capacity: a multiple of `ways` lines of 64 B. Default 32 KiB (*assumed*).
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 4 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Modified lines that have left the cache and that the medium has not accepted. A fill that must
    /// evict a modified line waits for a place. Lines that the host takes come on top, at most one for each
    /// credit of M2S Req. 1 to 65536. Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub write_buffer: u32,
}

impl Default for DmcParams {
    fn default() -> Self {
        DmcParams {
            size: Bytes(32 << 10),
            ways: 4,
            write_buffer: 16,
        }
    }
}

/// An accelerator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct AcceleratorParams {
    /// How it reaches the host's memory. Default `type1`.
    pub kind: AcceleratorKind,
    /// Time of a cycle. At least 1 ps. Default 2.5 ns: 400 MHz (Cohet, section VI-A1).
    pub cycle: Picos,
    /// Processing elements. 1 to 1024. Default 1.
    #[schemars(range(min = 1, max = 1024))]
    pub elements: u32,
    /// Operations of an element outstanding at once. 1 to 4096. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub window: u32,
    /// Cycles that an element spends on an atomic operation beside its access: it reads the
    /// request, computes, and answers. Default 20 (*assumed*).
    pub atomic_cycles: u32,
    /// The cache of host memory, and the pipelines before and behind the link, which DMA and
    /// registers pass too.
    pub cache: HmcParams,
    /// The cache of its own memory, where it has any.
    pub dmc: DmcParams,
    /// What an entry of the bias table of its own memory covers: 64 B to 4 KiB, a power of two.
    /// Default 4 KiB (bias is kept by page; the specification's example is a bit for each page of
    /// 4 KiB, CXL 3.1, section 2.2.2, from recollection). 64 B is a device that knows each line.
    pub bias_page: Bytes,
    /// Cycles from an access to the device's own buffers to its answer. Default 4 (*assumed*).
    pub buffer_cycles: u32,
    /// The DMA engine.
    pub dma: DmaParams,
    /// Its address translation cache, where its host has an operating system.
    pub atc: AtcParams,
    /// Who has a line after an atomic operation: no key of scenarios, for tests that break the rule.
    #[serde(skip)]
    pub turns: Turns,
}

impl Default for AcceleratorParams {
    fn default() -> Self {
        AcceleratorParams {
            kind: AcceleratorKind::Type1,
            cycle: Picos(2_500),
            elements: 1,
            window: 256,
            atomic_cycles: 20,
            cache: HmcParams::default(),
            dmc: DmcParams::default(),
            bias_page: Bytes(4096),
            buffer_cycles: 4,
            dma: DmaParams::default(),
            atc: AtcParams::default(),
            turns: Turns::default(),
        }
    }
}

impl AcceleratorParams {
    /// Constant time before its link.
    pub fn egress(&self) -> Picos {
        Picos(u64::from(self.cache.request_cycles) * self.cycle.0)
    }

    /// Constant time behind its link.
    pub fn ingress(&self) -> Picos {
        Picos(u64::from(self.cache.response_cycles) * self.cycle.0)
    }
}

/// A DMA engine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DmaParams {
    /// Cycles from a descriptor's arrival to its first transaction on the link. Default 600
    /// (*assumed*).
    pub setup_cycles: u32,
    /// Cycles from the last byte's arrival to the descriptor's completion. Default 200
    /// (*assumed*).
    pub completion_cycles: u32,
    /// Cycles between the beginnings of two descriptors. Default 28 (*assumed*).
    pub descriptor_cycles: u32,
    /// Bytes that the engine moves in a cycle. Default 64 B (512-bit datapath).
    pub width: Bytes,
    /// Read requests under way at once (tags). 1 to 1024. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 1024))]
    pub tags: u32,
    /// Most bytes of a read request: 64 B to 4 KiB, a power of two. Default 512 B.
    pub read_request: Bytes,
    /// Most bytes of a transaction's payload: 64 B to 512 B, a power of two. Default 256 B.
    pub payload: Bytes,
}

impl Default for DmaParams {
    fn default() -> Self {
        DmaParams {
            setup_cycles: 600,
            completion_cycles: 200,
            descriptor_cycles: 28,
            width: Bytes(64),
            tags: 256,
            read_request: Bytes(512),
            payload: Bytes(256),
        }
    }
}
