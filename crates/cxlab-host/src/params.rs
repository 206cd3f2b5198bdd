//! Parameters of a requester in a scenario: the single home of their defaults.

use crate::throttle::ThrottleParams;
use cxlab_cache::victim::{self, VictimPolicy};
use cxlab_engine::choice;
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice!(
    /// Victim policy of a cache, from the catalog: which line of a full set is evicted.
    CachePolicyChoice,
    victim::CATALOG,
    Box<dyn VictimPolicy>
);

impl Eq for CachePolicyChoice {}

/// The request that a load sends if it misses in a coherent cache (CXL 3.1, table 3-39).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
pub enum LoadMiss {
    /// A shared or an exclusive copy, as the device chooses.
    #[default]
    MemRdData,
    /// A shared copy.
    #[serde(rename = "MemRd-SnpData")]
    MemRdSnpData,
    /// The current value, which is not cached: the holders keep their copies. The load occupies a way of
    /// its set while it is in flight.
    #[serde(rename = "MemRd-SnpCur")]
    MemRdSnpCur,
}

/// A private cache that filters a requester's own accesses.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct CacheParams {
    /// Capacity: a multiple of `ways` lines of 64 B.
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 8 (*assumed*).
    #[serde(default = "default_ways")]
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Time of an access, hit or miss. Default 12 ns (ESF Table III, cache access time).
    #[serde(default = "default_access_time")]
    pub access_time: Picos,
    /// Requests for absent or shared lines in flight at once (MSHRs), if the cache is coherent. 1 to
    /// 1048576. Default: as `outstanding`.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1048576))]
    pub mshrs: Option<u32>,
    /// Whether the eviction of a clean line of HDM-DB memory is announced with `MemClnEvct`, which keeps
    /// the device's snoop filter exact, or silent. Default true.
    #[serde(default = "default_clean_evict")]
    pub clean_evict: bool,
    /// The request that a load sends if it misses on HDM-DB memory. Default `MemRdData`.
    #[serde(default)]
    pub load_request: LoadMiss,
    /// Time for which each snooped line keeps a coherent cache from serving its own requester. Default 0 ns
    /// (*assumed*: the tags have a second port for snoops).
    #[serde(default)]
    pub snoop_time: Picos,
    /// Which line of a full set is evicted. If the cache is not coherent, only `lru`. With `block-length`,
    /// one line of the block is evicted. Default `{ kind = "lru" }`.
    #[serde(default)]
    pub policy: Option<CachePolicyChoice>,
}

impl CacheParams {
    /// A cache of the given size, with the default of every other parameter.
    pub fn of_size(size: Bytes) -> CacheParams {
        CacheParams {
            size,
            ways: default_ways(),
            access_time: default_access_time(),
            mshrs: None,
            clean_evict: default_clean_evict(),
            load_request: LoadMiss::default(),
            snoop_time: Picos::ZERO,
            policy: None,
        }
    }
}

fn default_clean_evict() -> bool {
    true
}

fn default_ways() -> u32 {
    8
}

fn default_access_time() -> Picos {
    Picos::from_nanos(12)
}

cxlab_engine::preset! {
    /// A requester with a name.
    RequesterPreset, crate::parts::PARTS
}

/// How a partial write (less than a line) goes to a device (CXL 3.1, table 3-41).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
pub enum PartialWrite {
    /// With byte enables in one more data slot; the device merges. The memory backend handles a partial
    /// write like a write of a whole line (*assumed*: a data mask). A memory with an error-correcting code
    /// over the whole line would read the line first.
    #[default]
    MemWrPtl,
    /// The host reads the line (`MemRdFill`, on the channel of writes), merges, and writes the whole line
    /// (`MemWr`), as a host with memory encryption must. Only in 256 B flits.
    MemRdFill,
}

impl PartialWrite {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == PartialWrite::default()
    }
}

/// Lines that the host's prefetchers read beyond the end of a sequential run of reads, and that nobody uses.
/// They take bandwidth and requests in flight; operations that find prefetched lines are not modelled.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct OverfetchParams {
    /// Shortest run, in lines, that is read beyond its end. 1 to 64. Default 2 (*assumed*: a streamer that
    /// needs two lines to see a direction).
    #[schemars(range(min = 1, max = 64))]
    pub after: u32,
    /// Most lines beyond the end of a run. 1 to 64. Default 1.
    #[schemars(range(min = 1, max = 64))]
    pub beyond: u32,
    /// Aligned block that a prefetcher does not leave: a power of two from 128 B to 1 GiB. Default 4 KiB, a
    /// page (streamer of Intel's Optimization Reference Manual). 128 B with `after = 1` reads the second line
    /// of a pair beside the first, as its spatial prefetcher does, which also reads the first beside the second.
    pub within: Bytes,
}

impl Default for OverfetchParams {
    fn default() -> Self {
        OverfetchParams {
            after: 2,
            beyond: 1,
            within: Bytes(4096),
        }
    }
}

/// Parameters of a requester.
// `remote`: the code that serde derives reads and writes all fields; `with_preset` adds presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct RequesterParams {
    /// A part whose values become the defaults. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<RequesterPreset>,
    /// Time of a request in the host outside of its port, there and back: core, caches that miss, network
    /// on chip. All of it passes before the port. Default 84 ns. Hosts of current expanders load from their
    /// own DRAM in 111 to 145 ns. The host of Vistara takes 130 ns (Meta, ISCA 2026, Table VI), of which an
    /// idle DRAM takes 46 ns.
    pub process_time: Picos,
    /// Requests in flight at once. 1 to 1048576. Default 64 (*assumed*: the line fill buffers
    /// of a handful of cores).
    #[schemars(range(min = 1, max = 1048576))]
    pub outstanding: u32,
    /// Requests that may wait for the link at once. When this many wait, nothing is issued.
    /// Default: as `outstanding`.
    #[schemars(range(min = 1, max = 1048576))]
    pub queue: Option<u32>,
    /// Whether requests reach the link in the order of their issue, so that a read waits behind a write
    /// without credits. With several root ports, nothing is issued while a request waits. Default false:
    /// reads and writes wait separately, because their channels (M2S Req and RwD) have their own credits,
    /// and they may overtake each other. Not allowed if `cache` is coherent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// How a partial write goes to the device, if the workload has partial writes (`request = "32 B"`) and
    /// the host has no `cache`. Default `MemWrPtl`.
    #[serde(skip_serializing_if = "PartialWrite::is_default")]
    pub partial_write: PartialWrite,
    /// Least time between two issues. Default 0 ns: as fast as requests complete.
    pub issue_interval: Picos,
    /// Highest issue rate, in 64 B lines, instead of `issue_interval`.
    pub rate: Option<BytesPerSec>,
    /// Reads of lines that prefetchers fetch and that nothing uses. Default: none. Not together with `cache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overfetch: Option<OverfetchParams>,
    /// A private cache. Default: none.
    pub cache: Option<CacheParams>,
    /// Throttling by the load that devices report. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleParams>,
}

cxlab_engine::with_preset!(RequesterParams, RequesterPreset);

impl Default for RequesterParams {
    fn default() -> Self {
        RequesterParams {
            preset: None,
            process_time: Picos::from_nanos(84),
            outstanding: 64,
            queue: None,
            in_order: false,
            partial_write: PartialWrite::default(),
            issue_interval: Picos::ZERO,
            rate: None,
            overfetch: None,
            cache: None,
            throttle: None,
        }
    }
}

impl RequesterParams {
    /// The least time between two issues, in picoseconds.
    pub fn interval_ps(&self) -> u64 {
        self.rate
            .map_or(self.issue_interval, |rate| rate.time_for(Bytes(LINE_BYTES)))
            .0
    }

    /// Constant time before the link: processing, and the access of the cache on a miss.
    pub fn egress(&self) -> Picos {
        let cache = self
            .cache
            .as_ref()
            .map_or(Picos::ZERO, |cache| cache.access_time);
        self.process_time + cache
    }
}
