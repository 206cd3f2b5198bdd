//! Parameters of a core and its caches in a scenario: the single home of their defaults.

use cxlab_engine::units::{Bytes, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A level of a core's private caches: write-back, write-allocate, least recently used.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// Capacity: a multiple of `ways` lines of 64 B.
    pub size: Bytes,
    /// Number of lines in a set. 1 to 65536. Default 8 (*assumed*).
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Time of an access, hit or miss, after the previous level has missed.
    pub access_time: Picos,
}

fn eight() -> u32 {
    8
}

/// A processor core that runs a program: it issues in order, completes out of order within a
/// window, and retires in order.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct CoreParams {
    /// Clock period. At least 1 ps. Default 333 ps: 3 GHz (*assumed*).
    pub cycle: Picos,
    /// Most loads, stores and flushes issued per cycle. 1 to 64. Default 2 (*assumed*:
    /// two load/store ports).
    #[schemars(range(min = 1, max = 64))]
    pub width: u32,
    /// Most loads, stores and flushes in flight, counted from the oldest that has not completed. 1 to
    /// 65536; 1 is an in-order core that waits for every access. Default 256 (load queue of CXL-SSD-Sim,
    /// Table I). For a recorded program (`cxlab attach --verify`) the window counts instructions.
    #[schemars(range(min = 1, max = 65536))]
    pub window: u32,
    /// Private caches, nearest first; 1 to 4. Default: 64 KiB and 512 KiB (CXL-SSD-Sim, Table I),
    /// 8 ways, 4 and 14 cycles of 333 ps (*assumed*: load-to-use latencies of current cores).
    pub caches: Vec<CacheLevel>,
    /// Outstanding lines requested from memory (MSHRs of the last private cache). 1 to 65536. Default
    /// 20 (gem5's classic L2).
    #[schemars(range(min = 1, max = 65536))]
    pub misses: u32,
    /// Outstanding lines requested from memory if a stream prefetcher requests some of them, and the
    /// prefetch distance in lines, within pages of 4 KiB. A miss needs room under both this limit and
    /// `misses`. 0 to 65536. Default 0: no prefetcher.
    #[schemars(range(max = 65536))]
    pub prefetch: u32,
    /// Outstanding write-backs to memory, of evicted and flushed lines, beyond which no miss begins. 1 to
    /// 65536. Default 256 (L2 write buffers of CXL-SSD-Sim, Table I).
    #[schemars(range(min = 1, max = 65536))]
    pub writebacks: u32,
    /// Time between the last private cache and a CXL root port, there and back; all of it passes before the
    /// port. Default 78 ns: with the cache lookups this equals a requester's 84 ns.
    pub process_time: Picos,
}

impl Default for CoreParams {
    fn default() -> Self {
        let level = |kib: u64, cycles: u64| CacheLevel {
            size: Bytes(kib << 10),
            ways: eight(),
            access_time: Picos(cycles * 333),
        };
        CoreParams {
            cycle: Picos(333),
            width: 2,
            window: 256,
            caches: vec![level(64, 4), level(512, 14)],
            misses: 20,
            prefetch: 0,
            writebacks: 256,
            process_time: Picos::from_nanos(78),
        }
    }
}

impl CoreParams {
    /// Most outstanding fills of program and prefetcher together.
    pub fn fills(&self) -> u32 {
        self.misses.max(self.prefetch)
    }

    /// Time of a lookup in every cache level.
    pub fn lookup(&self) -> Picos {
        Picos(self.caches.iter().map(|level| level.access_time.0).sum())
    }

    /// Constant time before a CXL link: the cache lookups and the process time.
    pub fn egress(&self) -> Picos {
        self.lookup() + self.process_time
    }
}
