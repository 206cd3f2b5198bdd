//! What a user says of a requester: the single home of its defaults.

use crate::throttle::ThrottleParams;
use cxlab_engine::catalog::Preset;
use cxlab_engine::choice;
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos};
use cxlab_memory::victim::{self, VictimPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice!(
    /// Which line of a full set of a cache leaves: a victim policy from the catalog.
    CachePolicyChoice,
    victim::CATALOG,
    Box<dyn VictimPolicy>
);

impl Eq for CachePolicyChoice {}

/// What a load that misses in a coherent cache asks the device for (CXL 3.1, table 3-39).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
pub enum LoadMiss {
    /// A shared or an exclusive copy, as the device chooses.
    #[default]
    MemRdData,
    /// A shared copy.
    #[serde(rename = "MemRd-SnpData")]
    MemRdSnpData,
    /// The current value, which nobody caches: the holders keep what they have. It takes a way of its set while it
    /// is in flight.
    #[serde(rename = "MemRd-SnpCur")]
    MemRdSnpCur,
}

/// A private cache that filters a requester's own accesses.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct CacheParams {
    /// Capacity: a multiple of `ways` lines of 64 B.
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 8.
    #[serde(default = "default_ways")]
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Time of an access, hit or miss. Default 12 ns (ESF Table III, cache access time).
    #[serde(default = "default_access_time")]
    pub access_time: Picos,
    /// Requests for absent or shared lines under way at once (MSHRs), where the cache is
    /// coherent. 1 to 1048576. Default: as `outstanding`.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1048576))]
    pub mshrs: Option<u32>,
    /// Whether a clean line of HDM-DB memory that makes room is announced with `MemClnEvct`,
    /// which keeps the device's snoop filter exact, or dropped silently. Default true.
    #[serde(default = "default_clean_evict")]
    pub clean_evict: bool,
    /// What a load that misses asks for of HDM-DB memory. Default `MemRdData`.
    #[serde(default)]
    pub load_request: LoadMiss,
    /// How long each line of a snoop keeps a coherent cache from taking accesses of its own
    /// requester. Default 0 ns (*assumed*: the tags have a second port for snoops).
    #[serde(default)]
    pub snoop_time: Picos,
    /// Which line of a full set leaves. Where the cache is not coherent: `lru` only. Of
    /// `block-length`, one line of the block leaves. Default `{ kind = "lru" }`.
    #[serde(default)]
    pub policy: Option<CachePolicyChoice>,
}

impl CacheParams {
    /// A cache of this size, the rest as by default.
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

/// A requester by name.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum RequesterPreset {
    /// ESF's (Table III): a process time of 10 ns.
    Esf,
}

impl Preset for RequesterPreset {
    fn keys(&self) -> serde_json::Value {
        match self {
            RequesterPreset::Esf => serde_json::json!({ "process_time": "10 ns" }),
        }
    }
}

/// How a write of less than a line goes to a device (CXL 3.1, table 3-41).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
pub enum PartialWrite {
    /// With byte enables, a data slot more: the device merges. Its medium takes it as a write of a line (*assumed*: a
    /// data mask); one with a code over the whole line would read it first.
    #[default]
    MemWrPtl,
    /// The host reads the line (`MemRdFill`, on the channel of writes), merges, and writes all of it (`MemWr`), as a
    /// host must that encrypts. Flits of 256 B alone.
    MemRdFill,
}

impl PartialWrite {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == PartialWrite::default()
    }
}

/// How a requester issues.
// `remote`: what serde derives reads and writes all fields; `with_preset` knows presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct RequesterParams {
    /// A requester by name, whose time is the default. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<RequesterPreset>,
    /// Time of a request in the host outside of its port, there and back: core, caches that miss, network on chip; all of it
    /// passes before the port. Default 84 ns: hosts of current expanders load from their own DRAM in 111 to 145 ns, the one of
    /// Vistara in 130 (Meta, ISCA 2026, Table VI), of which an idle DRAM has 46.
    pub process_time: Picos,
    /// Requests in flight at once. 1 to 1048576. Default 64 (*assumed*: the line fill buffers
    /// of a handful of cores).
    #[schemars(range(min = 1, max = 1048576))]
    pub outstanding: u32,
    /// Requests that wait for the link at once; when they are that many, nothing is issued.
    /// Default: as `outstanding`.
    #[schemars(range(min = 1, max = 1048576))]
    pub queue: Option<u32>,
    /// Whether requests reach the link in the order of their issue, so that a read waits behind a
    /// write that has no credits; over several root ports, nothing is issued while a request
    /// waits. Default false: reads and writes wait apart, as their channels (M2S Req and RwD) have
    /// credits of their own, and may overtake each other. Not where `cache` is coherent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// How a write of less than a line goes to the device, where the workload has such (`request = "32 B"`) and the
    /// host no `cache`. Default `MemWrPtl`.
    #[serde(skip_serializing_if = "PartialWrite::is_default")]
    pub partial_write: PartialWrite,
    /// Least time between two issues. Default 0 ns: as fast as requests complete.
    pub issue_interval: Picos,
    /// Issue at this rate of 64 B lines at most, instead of `issue_interval`.
    pub rate: Option<BytesPerSec>,
    /// A private cache. Default: none.
    pub cache: Option<CacheParams>,
    /// Throttling by what devices tell of their load. Default: none.
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
            cache: None,
            throttle: None,
        }
    }
}

impl RequesterParams {
    /// The issue interval in force, in picoseconds.
    pub fn interval_ps(&self) -> u64 {
        self.rate
            .map_or(self.issue_interval, |rate| rate.time_for(Bytes(LINE_BYTES)))
            .0
    }

    /// Constant time before the link: processing, and the cache's access on a miss.
    pub fn egress(&self) -> Picos {
        let cache = self
            .cache
            .as_ref()
            .map_or(Picos::ZERO, |cache| cache.access_time);
        self.process_time + cache
    }
}
