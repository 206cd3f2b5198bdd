//! What a user says of a core and of its host's own memory: the single home of the defaults.

use cxlab_engine::units::{Bytes, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A level of a core's private caches: write-back, write-allocate, least recently used.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// Capacity: a multiple of `ways` lines of 64 B.
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 8.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Time of an access, hit or miss, after the level before it has missed.
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
    /// Time of a cycle. At least 1 ps. Default 333 ps: 3 GHz (*assumed*).
    pub cycle: Picos,
    /// Loads, stores and flushes issued in a cycle at most. 1 to 64. Default 2 (*assumed*: two
    /// load/store ports).
    #[schemars(range(min = 1, max = 64))]
    pub width: u32,
    /// Loads, stores and flushes in flight at once, from the oldest that has not completed. 1 to
    /// 65536; 1 is an in-order core that waits for every access. Default 256 (load queue of
    /// CXL-SSD-Sim, Table I). A recorded program (`cxlab attach --verify`) counts instructions.
    #[schemars(range(min = 1, max = 65536))]
    pub window: u32,
    /// Private caches, nearest first; 1 to 4. Default: 64 KiB and 512 KiB (CXL-SSD-Sim, Table I),
    /// 8 ways, 4 and 14 cycles of 333 ps (*assumed*: load-to-use latencies of current cores).
    pub caches: Vec<CacheLevel>,
    /// Lines asked for from memory at once (MSHRs of the last private cache). 1 to 65536.
    /// Default 20 (gem5's classic L2).
    #[schemars(range(min = 1, max = 65536))]
    pub misses: u32,
    /// Lines asked for from memory at once where a stream prefetcher asks for some of them, within
    /// pages of 4 KiB and as far ahead. Misses go on when both this and `misses` have room. 0 to
    /// 65536. Default 0: no prefetcher.
    #[schemars(range(max = 65536))]
    pub prefetch: u32,
    /// Lines on their way back to memory, evicted or flushed, beyond which no miss begins. 1 to
    /// 65536. Default 256 (L2 write buffers of CXL-SSD-Sim, Table I).
    #[schemars(range(min = 1, max = 65536))]
    pub writebacks: u32,
    /// Time between the last private cache and a CXL root port, there and back; all of it passes before the
    /// port. Default 78 ns: with the look into the caches that of a requester, 84 ns.
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
    /// Lines asked for at once, by program and prefetcher.
    pub fn fills(&self) -> u32 {
        self.misses.max(self.prefetch)
    }

    /// Time of a look into every cache.
    pub fn lookup(&self) -> Picos {
        Picos(self.caches.iter().map(|level| level.access_time.0).sum())
    }

    /// Constant time before a CXL link: the look into the caches and the way to the root port.
    pub fn egress(&self) -> Picos {
        self.lookup() + self.process_time
    }
}
