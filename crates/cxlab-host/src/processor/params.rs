//! What a user says of a processor: the single home of the defaults.

use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::presets::Preset;
use crate::core::CacheLevel;

/// Whether the last-level cache includes the private ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// A line that a private cache or a device holds has its place in it, with the directory beside
    /// its tag. A line that makes room leaves every private cache.
    #[default]
    Inclusive,
    /// It holds what private caches have evicted; lines that cores read pass it by. A directory of
    /// its own size tracks what private caches and devices hold (Intel's servers since
    /// Skylake-SP).
    NonInclusive,
}

/// The directory beside a non-inclusive cache. An entry that makes room takes its line from every
/// private cache and device.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DirectoryParams {
    /// Lines that it tracks: a multiple of `ways`. Default: one and a half for each line of the
    /// second private caches (Skylake-SP: 12 ways of 2,048 sets for 16,384 lines of a core; Yan et
    /// al., "Attack Directories, Not Caches", IEEE S&P 2019).
    pub entries: Option<u32>,
    /// Entries of a set. 1 to 65536. Default 12 (the same).
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

/// The shared last-level cache.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct LlcParams {
    /// Capacity: a multiple of `ways` lines of 64 B. Default 96 MiB (Cohet, Table I).
    pub size: Bytes,
    /// Lines of a set. 1 to 65536. Default 12 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub ways: u32,
    /// Time of an access at the home agent, hit or miss: directory and data. Default 20 ns
    /// (*assumed*).
    pub access_time: Picos,
    /// Lines that the home agent reads from memory at once, for cores and devices together: the MSHRs of the
    /// cache. Others wait there, in order of arrival. 1 to 4096. Default: no limit (*assumed*: a server's
    /// agents hold more than its cores ask for).
    #[schemars(range(min = 1, max = 4096))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<u32>,
    /// Lines that the home agent has on their way to memory at once. A request that may write to memory, or
    /// needs the place of a modified line, waits until one is free; other requests go on. With
    /// `non-inclusive`, what requests in progress make leave comes on top. 2 to 65536. Default 256
    /// (*assumed*: 32 entries in the write queue of each of eight channels).
    #[schemars(range(min = 2, max = 65536))]
    pub write_buffer: u32,
    /// Whether it includes the private caches. Default inclusive.
    pub inclusion: Inclusion,
    /// The directory of a non-inclusive cache; an inclusive one has it beside its tags.
    pub directory: DirectoryParams,
    /// Where modified lines go that devices evict from their caches of host memory (`DirtyEvict`).
    /// Default `memory`.
    pub device_evictions: DeviceEvictions,
    /// Whether the home agent tells a Type 3 device of a core's miss before it has looked into directory and cache
    /// (`MemSpecRd`; CXL 3.1, section 3.5.3.1), so that the device reads the line meanwhile. What the caches have was
    /// read for nothing. Default false.
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

/// Where a modified line goes that a device evicts. CXL leaves it to the host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceEvictions {
    /// To memory.
    #[default]
    Memory,
    /// Into the last-level cache, where Intel's data direct I/O puts what devices write by DMA.
    Llc,
}

/// A multi-core processor: cores with private caches, a shared last-level cache whose home agent
/// keeps the host's own memory coherent with every core and every CXL.cache device, and memory
/// controllers on NUMA nodes.
// `remote`: what serde derives reads and writes all fields; the traits below know presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct ProcessorParams {
    /// A processor by name, whose parameters are the defaults of all others. Default: none, those that
    /// are said here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Cores that run threads. 1 to 64. Default 1.
    #[schemars(range(min = 1, max = 64))]
    pub cores: u32,
    /// Time of a core's cycle. At least 1 ps. Default 417 ps: 2.4 GHz (Cohet, section VI-A4).
    pub cycle: Picos,
    /// Operations of a thread outstanding at once. 1 to 4096. Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub window: u32,
    /// Steps of a program, or operations of a source of lines, in flight from the oldest that is not
    /// complete. 1 to 65536; 1 is an in-order core that waits for every access. Default 192 (the load
    /// queue of Golden Cove; stores count too here).
    #[schemars(range(min = 1, max = 65536))]
    pub reorder: u32,
    /// Lines that a core asks for at once, until the home agent answers. 1 to 4096. Default 48 (*assumed*: L2 fill buffers of a
    /// current server core).
    #[schemars(range(min = 1, max = 4096))]
    pub misses: u32,
    /// First private cache. Default 48 KiB, 12 ways, 5 cycles of 417 ps (Golden Cove).
    pub l1: CacheLevel,
    /// Second private cache, which includes the first. Default 2 MiB, 16 ways, 10 cycles more
    /// (Golden Cove).
    pub l2: CacheLevel,
    /// The shared cache.
    pub llc: LlcParams,
    /// One way between a core's second cache and the home agent. Default 10 ns (*assumed*).
    pub mesh_time: Picos,
    /// Time in which the home agent snoops other cores. Default 20 ns (*assumed*).
    pub snoop_time: Picos,
    /// One way between a root port's link layer and the home agent: root complex and mesh.
    /// Default 10 ns (*assumed*).
    pub root_port_time: Picos,
    /// One way of a transaction of CXL.io through the root complex: I/O memory management, ordering,
    /// mesh. Default 100 ns (*assumed*: PCIe reads of Xeon memory take some 500 ns in all, Neugebauer
    /// et al., SIGCOMM 2018).
    pub io_time: Picos,
    /// Lines of a device's DMA writes in the root complex and at the home agent at once. Another write
    /// stays in the receive buffer of the root port and keeps its credit; reads of the device wait
    /// behind it. A write of more lines enters alone. 1 to 2048. Default 1024 (*assumed*: more than a x16 link of
    /// generation 6 brings in 500 ns).
    #[schemars(range(min = 1, max = 2048))]
    pub io_writes: u32,
    /// Least time between two requests of devices that the home agent takes. Default 2 ns
    /// (*assumed*).
    pub home_interval: Picos,
    /// Distance between neighbouring clusters in a row, one way. Default 2 ns (*assumed*).
    pub column_time: Picos,
    /// Distance between neighbouring clusters in a column, one way. Default 7.5 ns (*assumed*).
    pub row_time: Picos,
    /// Distance between sockets, one way. Default 35 ns (*assumed*: a hop over UPI).
    pub socket_time: Picos,
    /// From an interrupt's arrival to the thread that waits for it. Default 1 us (*assumed*).
    pub interrupt_time: Picos,
    /// Most bytes of a completion that the root complex sends (Max_Payload_Size): 64 B to 512 B, a
    /// power of two. Default 256 B.
    pub payload: Bytes,
    /// The cluster that cores, home agent and root ports belong to. Default socket 0, column 0,
    /// row 0.
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

cxlab_engine::with_preset!(ProcessorParams, Preset);

/// Where a cluster lies (sub-NUMA clustering): its socket, and its place in the socket's grid.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// The socket. Default 0.
    pub socket: u8,
    /// The column in its grid. Default 0.
    pub column: u8,
    /// The row in its grid. Default 0.
    pub row: u8,
}

impl ProcessorParams {
    /// One way between the home agent and the memory controller of a cluster. Between sockets the
    /// way begins at column 0 and row 0 of the other one.
    pub fn distance(&self, to: Cluster) -> Picos {
        let at = self.at;
        let (columns, rows, sockets) = if to.socket == at.socket {
            (to.column.abs_diff(at.column), to.row.abs_diff(at.row), 0)
        } else {
            (to.column, to.row, 1)
        };
        Picos(
            u64::from(columns) * self.column_time.0
                + u64::from(rows) * self.row_time.0
                + sockets * self.socket_time.0,
        )
    }

    /// Lines that the directory of a non-inclusive cache tracks.
    pub fn directory_entries(&self) -> u64 {
        let ways = u64::from(self.llc.directory.ways.max(1));
        let lines = self.l2.size.0 / LINE_BYTES * u64::from(self.cores);
        match self.llc.directory.entries {
            Some(entries) => entries.into(),
            None => (lines + lines / 2).next_multiple_of(ways).max(ways),
        }
    }

    /// Time of a look into both private caches.
    pub fn lookup(&self) -> Picos {
        self.l1.access_time + self.l2.access_time
    }
}
