//! Parameters of a processor in a scenario: the single home of their defaults.

use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::CacheLevel;

/// Whether the last-level cache includes the private ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// Every line of a private cache or a device also has an entry in the last-level cache, with the
    /// directory beside its tag. A line evicted from there is invalidated in every private cache.
    #[default]
    Inclusive,
    /// The last-level cache holds the lines that private caches have evicted; lines that cores read
    /// bypass it. A directory of its own size tracks the lines of private caches and devices (Intel's
    /// servers since Skylake-SP).
    NonInclusive,
}

/// The directory beside a non-inclusive cache. The eviction of an entry invalidates its line in every
/// private cache and device.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DirectoryParams {
    /// Lines that the directory tracks: a multiple of `ways`. Default: one and a half for each line of the
    /// second private caches (Skylake-SP: 12 ways of 2,048 sets for 16,384 lines of a core; Yan et al.,
    /// "Attack Directories, Not Caches", IEEE S&P 2019).
    pub entries: Option<u32>,
    /// Entries of a set. 1 to 65536. Default 12 (same source).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
}

impl Default for DirectoryParams {
    fn default() -> Self {
        DirectoryParams {
            entries: None,
            ways: 12,
        }
    }
}

/// Parameters of the shared last-level cache.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct LlcParams {
    /// Capacity: a multiple of `ways` lines of 64 B. Default 96 MiB (Cohet, Table I).
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 12 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Time of an access at the home agent, hit or miss: directory and data. Default 20 ns (*assumed*).
    pub access_time: Picos,
    /// Lines that the home agent reads from memory at once, for cores and devices together: the MSHRs of
    /// the cache. Further reads wait there, in order of arrival. 1 to 4096. Default: no limit (*assumed*: a
    /// server's agents hold more than its cores request).
    #[schemars(range(min = 1, max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<u32>,
    /// Lines that the home agent writes to memory at once. A request that may write to memory, or that
    /// evicts a modified line, waits until an entry is free; other requests continue. With `non-inclusive`,
    /// lines evicted by requests in progress exceed the limit. 2 to 65536. Default 256 (*assumed*: 32
    /// entries in the write queue of each of eight channels).
    #[schemars(range(min = 2, max = 65536))]
    pub write_buffer: u32,
    /// Whether the last-level cache includes the private caches. Default inclusive.
    pub inclusion: Inclusion,
    /// The directory of a non-inclusive cache. An inclusive cache has its directory beside the tags.
    pub directory: DirectoryParams,
    /// Destination of modified lines of host memory that devices evict from their caches
    /// (`DirtyEvict`). Default `memory`.
    pub device_evictions: DeviceEvictions,
    /// Whether the home agent tells a Type 3 device of a core's miss before the lookup in directory and
    /// cache (`MemSpecRd`; CXL 3.1, section 3.5.3.1), so that the device reads the line meanwhile. If the
    /// line is cached, that read is wasted. Default false.
    pub speculative_reads: bool,
}

impl Default for LlcParams {
    fn default() -> Self {
        LlcParams {
            size: Bytes(96 << 20),
            ways: 12,
            access_time: Picos::from_nanos(20),
            misses: None,
            write_buffer: 256,
            inclusion: Inclusion::default(),
            directory: DirectoryParams::default(),
            device_evictions: DeviceEvictions::default(),
            speculative_reads: false,
        }
    }
}

/// Destination of a modified line that a device evicts. CXL leaves the choice to the host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceEvictions {
    /// The line is written to memory.
    #[default]
    Memory,
    /// The line goes into the last-level cache, as DMA writes of devices do under Intel's data direct I/O.
    Llc,
}

/// A processor preset: the parameters of a known processor.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorPreset {
    /// The ARM node of CXL-ClusterSim.
    Gem5Arm,
    /// The RISC-V node of CXL-ClusterSim.
    Gem5Riscv,
    /// The x86 node of CXL-ClusterSim.
    #[serde(rename = "gem5-x86")]
    Gem5X86,
    /// A socket of Intel's fourth or fifth Xeon.
    SapphireRapids,
    /// A socket of AMD's fifth EPYC.
    #[serde(rename = "zen5")]
    Zen5,
}

/// A multi-core processor: cores with private caches, a shared last-level cache whose home agent
/// keeps the host's own memory coherent with every core and every CXL.cache device, and memory
/// controllers on NUMA nodes.
// `remote`: the code that serde derives reads and writes all fields; the macro below adds presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct ProcessorParams {
    /// A preset whose parameters become the defaults of all others. Default: none, so
    /// the defaults below apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<ProcessorPreset>,
    /// Cores that run threads. 1 to 64. Default 1.
    #[schemars(range(min = 1, max = 64))]
    pub cores: u32,
    /// Clock period of a core. At least 1 ps. Default 417 ps: 2.4 GHz (Cohet, section VI-A4).
    pub cycle: Picos,
    /// Outstanding operations of a thread. 1 to 4096. Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub window: u32,
    /// Steps of a program, or operations of a source of lines, in flight, counted from the oldest that has
    /// not completed. 1 to 65536; 1 is an in-order core that waits for every access. Default 192 (the load
    /// queue of Golden Cove; stores count too here).
    #[schemars(range(min = 1, max = 65536))]
    pub reorder: u32,
    /// Outstanding lines that a core has requested from the home agent. 1 to 4096. Default 48 (*assumed*:
    /// L2 fill buffers of a current server core).
    #[schemars(range(min = 1, max = 4096))]
    pub misses: u32,
    /// First private cache. Default 48 KiB, 12 ways, 5 cycles of 417 ps (Golden Cove).
    pub l1: CacheLevel,
    /// Second private cache, which includes the first. Default 2 MiB, 16 ways, 10
    /// further cycles (Golden Cove).
    pub l2: CacheLevel,
    /// The shared last-level cache.
    pub llc: LlcParams,
    /// Time of one direction between a core's second cache and the home agent. Default 10 ns (*assumed*).
    pub mesh_time: Picos,
    /// Time in which the home agent snoops other cores. Default 20 ns (*assumed*).
    pub snoop_time: Picos,
    /// Time of one direction between a root port's link layer and the home agent: root complex and mesh.
    /// Default 10 ns (*assumed*).
    pub root_port_time: Picos,
    /// Time of one direction of a CXL.io transaction through the root complex: I/O memory management,
    /// ordering, mesh. Default 100 ns (*assumed*: PCIe reads of Xeon memory take some 500 ns in all,
    /// Neugebauer et al., SIGCOMM 2018).
    pub io_time: Picos,
    /// Lines of a device's DMA writes in the root complex and at the home agent at once. A further write
    /// stays in the receive buffer of the root port and keeps its credit; reads of the device wait behind
    /// it. A write of more lines enters alone. 1 to 2048. Default 1024 (*assumed*: more than a x16 link of
    /// generation 6 carries in 500 ns).
    #[schemars(range(min = 1, max = 2048))]
    pub io_writes: u32,
    /// Least time between two device requests that the home agent accepts. Default 2 ns (*assumed*).
    pub home_interval: Picos,
    /// Time of one direction between neighbouring clusters of a row. Default 2 ns (*assumed*).
    pub column_time: Picos,
    /// Time of one direction between neighbouring clusters of a column. Default 7.5 ns (*assumed*).
    pub row_time: Picos,
    /// Time of one direction between sockets. Default 35 ns (*assumed*: a hop over UPI).
    pub socket_time: Picos,
    /// Time from an interrupt's arrival until the thread that waits for it continues.
    /// Default 1 us (*assumed*).
    pub interrupt_time: Picos,
    /// Most bytes of a completion that the root complex sends (Max_Payload_Size): 64 B to 512 B, a power
    /// of two. Default 256 B (*assumed*).
    pub payload: Bytes,
    /// The cluster of cores, home agent and root ports. Default socket 0, column 0, row 0.
    pub at: Cluster,
}

impl Default for ProcessorParams {
    fn default() -> Self {
        let level = |kib: u64, ways, cycles: u64| CacheLevel {
            size: Bytes(kib << 10),
            ways,
            access_time: Picos(cycles * 417),
        };
        ProcessorParams {
            preset: None,
            cores: 1,
            cycle: Picos(417),
            window: 64,
            reorder: 192,
            misses: 48,
            l1: level(48, 12, 5),
            l2: level(2048, 16, 10),
            llc: LlcParams::default(),
            mesh_time: Picos::from_nanos(10),
            snoop_time: Picos::from_nanos(20),
            root_port_time: Picos::from_nanos(10),
            io_time: Picos::from_nanos(100),
            io_writes: 1024,
            home_interval: Picos::from_nanos(2),
            column_time: Picos::from_nanos(2),
            row_time: Picos(7_500),
            socket_time: Picos::from_nanos(35),
            interrupt_time: Picos::from_nanos(1000),
            payload: Bytes(256),
            at: Cluster::default(),
        }
    }
}

cxlab_engine::with_preset!(ProcessorParams, ProcessorPreset);

/// Location of a cluster (sub-NUMA clustering): its socket, and its column and row in the socket's grid.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Number of the socket. Default 0.
    pub socket: u8,
    /// Column in the socket's grid. Default 0.
    pub column: u8,
    /// Row in the socket's grid. Default 0.
    pub row: u8,
}

impl ProcessorParams {
    /// Time of one direction between the home agent and the memory controller of a cluster. A path between
    /// sockets continues from column 0 and row 0 of the other socket.
    pub fn distance(&self, to: Cluster) -> Picos {
        let home = self.at;
        let (columns, rows, sockets) = if to.socket == home.socket {
            (
                to.column.abs_diff(home.column),
                to.row.abs_diff(home.row),
                0,
            )
        } else {
            (to.column, to.row, 1)
        };
        Picos(
            u64::from(columns) * self.column_time.0
                + u64::from(rows) * self.row_time.0
                + sockets * self.socket_time.0,
        )
    }

    /// Number of lines that the directory of a non-inclusive cache tracks.
    pub fn directory_entries(&self) -> u64 {
        let ways = u64::from(self.llc.directory.ways.max(1));
        let lines = self.l2.size.0 / LINE_BYTES * u64::from(self.cores);
        match self.llc.directory.entries {
            Some(entries) => entries.into(),
            None => (lines + lines / 2).next_multiple_of(ways).max(ways),
        }
    }

    /// Time of a lookup in both private caches.
    pub fn lookup(&self) -> Picos {
        self.l1.access_time + self.l2.access_time
    }
}
