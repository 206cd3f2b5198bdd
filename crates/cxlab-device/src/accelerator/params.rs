//! User parameters of an accelerator, with all of their defaults. Times are in cycles of the
//! device, so that its clock alone turns an FPGA into an ASIC (Cohet, section VI-A2).

use cxlab_cache::prefetch::{self, PrefetchPolicy};
use cxlab_engine::choice;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_os::ats::AtcParams;
use cxlab_protocol::coherence::line_arbitration::LineArbitration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice!(
    /// A prefetcher of the catalog, for lines.
    LinePrefetchChoice,
    prefetch::CATALOG,
    Box<dyn PrefetchPolicy>
);

impl Eq for LinePrefetchChoice {}

/// Most cycles of a constant delay of an accelerator.
pub const MOST_CYCLES: u32 = 1_000_000;

/// How an accelerator accesses the host's memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum AcceleratorKind {
    /// A CXL Type 1 device: a coherent cache of host memory over CXL.cache, and DMA over CXL.io.
    #[default]
    Type1,
    /// A PCIe device: CXL.io alone, so neither a cache of host memory nor memory that the host
    /// accesses over CXL.mem. Its threads have DMA, registers, interrupts, and the device's local
    /// buffers. Workloads that would load or store host memory are refused; a run whose threads
    /// access it nevertheless ends with an error. Of `cache` only `request_cycles` and
    /// `response_cycles` have an effect: the pipelines between link and engine. `dmc` and the other
    /// parameters of `cache` have no effect; `prefetch` is refused.
    Pcie,
}

/// CXL.cache request of a load that misses (CXL 3.1, sections 3.2.4.2.6 to 3.2.4.2.9).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[allow(clippy::enum_variant_names)] // They are opcodes.
pub enum LoadRequest {
    /// Requests a copy in any state that the host grants.
    #[default]
    RdAny,
    /// Requests a shared copy.
    RdShared,
    /// Requests the value, which the device uses once and does not cache.
    RdCurr,
}

/// CXL.cache request of a store that misses (CXL 3.1, sections 3.2.4.2.7 to 3.2.4.2.19). Only
/// `RdOwn` brings the line into the cache. Stores to a cached line, and atomic operations,
/// behave as with `RdOwn`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
pub enum StoreRequest {
    /// Requests ownership of the line with its data; `RdOwnNoData` for a store of a whole line.
    #[default]
    RdOwn,
    /// Writes whole lines into the host's last-level cache; smaller stores use `RdOwn`.
    ItoMWr,
    /// Writes whole lines into the host's last-level cache if the host's caches have them, else
    /// into memory; smaller stores use `RdOwn`.
    WrCur,
    /// Writes stores to memory; each completes when memory has the data.
    WrInv,
    /// Writes stores to memory, weakly ordered; `WOWrInvF` for whole lines. The device sends the
    /// data at `Fast_GO_WritePull` and completes the store at `ExtCmp`, like a device without
    /// Fast_GO (section 3.2.4.5.6). The device also sends this request for a line of its own memory
    /// (HDM-D) that the host may hold, and writes the line itself at `MemWrFwd` (figure 3-39).
    WOWrInv,
}

/// The cache of host memory of a Type 1 or Type 2 device (HMC).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct HmcParams {
    /// Capacity: a multiple of `ways` lines of 64 B. Default 128 KiB (Cohet, Table I).
    pub size: Bytes,
    /// Number of lines in a set. 1 to 65536. Default 4 (Cohet, Table I).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Cycles from a processing element's access to its response on a hit. Default 46: 115 ns at
    /// 400 MHz (Cohet, section VI-B2).
    #[schemars(range(max = MOST_CYCLES))]
    pub hit_cycles: u32,
    /// Maximum number of outstanding requests to the host (CQIDs). 1 to 4096. Default 128 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub misses: u32,
    /// Cycles from a processing element's access to the link on a miss. Default 100 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub request_cycles: u32,
    /// Cycles from the link to the processing element. Default 100 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub response_cycles: u32,
    /// Whether the eviction of a clean line is reported (`CleanEvictNoData`), which keeps the
    /// host's directory exact and takes a request, or is silent. Default true.
    pub clean_evict: bool,
    /// Whether an evicted exclusive line is offered to the host with its data (`CleanEvict` in
    /// place of `CleanEvictNoData`). A host whose `processor.llc.device_evictions` is `llc`
    /// accepts the data, another responds with `GO_WritePull_Drop`. Without effect unless
    /// `clean_evict` is true. Default false.
    pub clean_evict_data: bool,
    /// Request of a load that misses. With `RdCurr`, prefetches use `RdAny`, because the device
    /// would not keep their lines. Default `RdAny`.
    pub load_request: LoadRequest,
    /// Request of a store that misses. Default `RdOwn`.
    pub store_request: StoreRequest,
    /// Whether the device evicts all lines and sends `CacheFlushed` when its threads have ended, so
    /// that the host no longer needs to snoop the device (CXL 3.1, section 3.2.4.2.20). The run
    /// lasts until the host has responded. Default false: no flush.
    pub flush_at_end: bool,
    /// Prefetcher for lines of host memory: `stride` is the multi-stride prefetcher of Cohet,
    /// section V-B2. Prefetches use at most half of the CQIDs. Default none: no prefetches.
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
    /// Number of lines in a set. 1 to 65536. Default 4 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Number of modified lines that have left the cache and that the medium has not accepted. A
    /// fill that must evict a modified line waits for a slot. Lines that the host requests come on
    /// top, at most one for each credit of M2S Req. 1 to 65536. Default 16 (*assumed*).
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

/// Parameters of an accelerator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct AcceleratorParams {
    /// How the accelerator accesses the host's memory. Default `type1`.
    pub kind: AcceleratorKind,
    /// Length of a cycle. At least 1 ps. Default 2.5 ns: 400 MHz (Cohet, section VI-A1).
    pub cycle: Picos,
    /// Number of processing elements. 1 to 1024. Default 1.
    #[schemars(range(min = 1, max = 1024))]
    pub elements: u32,
    /// Maximum number of outstanding operations of a processing element. 1 to 4096. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub window: u32,
    /// Cycles that a processing element spends on an atomic operation beside its access: to read
    /// the request, to compute, and to respond. Default 20 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub atomic_cycles: u32,
    /// The cache of host memory, and the pipelines before and after the link, which DMA and registers pass too.
    pub cache: HmcParams,
    /// The cache of the device's own memory, if it has memory.
    pub dmc: DmcParams,
    /// Granularity of the bias table of the device's own memory: 64 B to 4 KiB, a power of two.
    /// Default 4 KiB (bias is kept by page; the specification's example is a bit for each page of 4
    /// KiB, CXL 3.1, section 2.2.2, from recollection). With 64 B the device tracks each line.
    pub bias_page: Bytes,
    /// Cycles from an access to the device's local buffers to its response. Default 4 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub buffer_cycles: u32,
    /// Parameters of the DMA engine.
    pub dma: DmaParams,
    /// Parameters of the address translation cache, for hosts with an operating system.
    pub atc: AtcParams,
    /// Order of accesses to a line after an atomic operation. Not a key of scenarios: for tests that break the rule.
    #[serde(skip)]
    pub arbitration: LineArbitration,
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
            arbitration: LineArbitration::default(),
        }
    }
}

impl AcceleratorParams {
    /// Constant delay before the device's link.
    pub fn egress(&self) -> Picos {
        Picos(u64::from(self.cache.request_cycles) * self.cycle.0)
    }

    /// Constant delay after the device's link.
    pub fn ingress(&self) -> Picos {
        Picos(u64::from(self.cache.response_cycles) * self.cycle.0)
    }
}

/// Parameters of a DMA engine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DmaParams {
    /// Cycles from a descriptor's arrival to its first transaction on the link. Default 600 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub setup_cycles: u32,
    /// Cycles from the arrival of the last byte to the descriptor's completion. Default 200 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub completion_cycles: u32,
    /// Minimum cycles between the starts of two descriptors. Default 28 (*assumed*).
    #[schemars(range(max = MOST_CYCLES))]
    pub descriptor_cycles: u32,
    /// Bytes that the engine moves in a cycle. Default 64 B (512-bit datapath).
    pub width: Bytes,
    /// Maximum number of outstanding read requests (tags). 1 to 1024. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 1024))]
    pub tags: u32,
    /// Maximum size of a read request: 64 B to 4 KiB, a power of two. Default 512 B: the value of
    /// Max_Read_Request_Size after a reset (PCIe 6.0, section 7.5.3.4).
    pub read_request: Bytes,
    /// Maximum payload of a transaction: 64 B to 512 B, a power of two. Default 256 B (*assumed*).
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
