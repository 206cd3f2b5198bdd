//! What a device with device-managed coherence is built from.

use std::fmt;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_link::LinkPort;
use cxlab_memory::{Geometry, GeometryError, MemoryBackend, VictimPolicy};
use cxlab_protocol::coherence::dcoh::Peer;
use cxlab_protocol::{DecoderTable, PortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capacity::DeviceChange;
use crate::memory_device::DeviceParams;
use crate::qos::QosConfig;

/// What a user says of a device's snoop filter.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct SnoopFilterParams {
    /// Entries: lines that caches may hold at once. 1 to 67108864, a multiple of the ways.
    /// Default 65536 (*assumed*: caches of 4 MiB in all).
    #[schemars(range(min = 1, max = 67_108_864))]
    pub lines: u32,
    /// Entries of a set. Default: all, a fully associative filter (ESF, section V-B).
    #[schemars(range(min = 1, max = 67_108_864))]
    pub ways: Option<u32>,
    /// Most lines that one snoop may cover when entries are evicted: 1 (`BISnpInv` alone), 2, 4
    /// (`BISnpInvBlk`, CXL 3.1 section 3.3.8.1), or 3, which CXL does not have, for the study of
    /// ESF, section V-C. The victim policy chooses the lines; only `block-length` chooses more
    /// than one. Default 4.
    #[schemars(range(min = 1, max = 4))]
    pub block: u8,
    /// How long a snoop for a request waits for snoops of the same kind to the same holder in one aligned block of at most
    /// `block` lines, with which it leaves as one `BISnpDataBlk`, `BISnpCurBlk` or `BISnpInvBlk` of 2 or 4 lines (CXL 3.1,
    /// section 3.3.8.1). A complete block leaves at once; with 0 ns only snoops of the same moment are joined. At most
    /// 1 us. Default: none, a request snoops its line alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<Picos>,
    /// Whether every request that waits for an entry has a snoop sent for it. A snoop of several
    /// lines then frees entries for later requests too (ESF, section V-C), and caches hold less.
    /// Without, only as many lines are evicted as requests wait. Default false.
    pub eager: bool,
    /// Time of a look into the filter, a pipeline that every message to the device passes.
    /// Default 2 ns (*assumed*: two cycles of an SRAM at 1 GHz).
    pub lookup_time: Picos,
    /// Writes, and answers to writes and conflicts, that the device holds at once. 1 to 65536.
    /// Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub writes: u32,
}

impl Default for SnoopFilterParams {
    fn default() -> Self {
        SnoopFilterParams {
            lines: 65_536,
            ways: None,
            block: 4,
            join: None,
            eager: false,
            lookup_time: Picos::from_nanos(2),
            writes: 64,
        }
    }
}

impl SnoopFilterParams {
    /// Its sets and ways.
    ///
    /// # Errors
    /// No lines, too many, or a number that is no multiple of the ways.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let ways = self.ways.unwrap_or(self.lines);
        Geometry::set_associative(u64::from(self.lines), u64::from(ways))
    }

    /// Constant time of every message behind the link: what the far end's ports have as ingress.
    pub fn ingress(&self, params: &DeviceParams) -> Picos {
        Picos(params.process_time.0 + self.lookup_time.0)
    }
}

/// What a coherent device is built from.
pub struct CoherentConfig {
    /// Controller.
    pub params: DeviceParams,
    /// Snoop filter.
    pub filter: SnoopFilterParams,
    /// Which line of a full set of the filter leaves.
    pub policy: Box<dyn VictimPolicy>,
    /// The random stream of the policy.
    pub policy_rng: StreamRng,
    /// One port for each link, in order.
    pub ports: Vec<LinkPort>,
    /// The medium.
    pub backend: Box<dyn MemoryBackend>,
    /// Where each host's addresses lie in this device.
    pub decoders: DecoderTable,
    /// Its own edge port, the source of its snoops.
    pub port_id: PortId,
    /// The edge ports of the requesters that may hold its lines. At most 64.
    pub peers: Vec<PortId>,
    /// Telemetry, if it tells its load.
    pub qos: Option<QosConfig>,
    /// How the shares of hosts change, in order of time; none without telemetry.
    pub shares: Vec<DeviceChange>,
    /// Whether it keeps the values that writes carry and reads return, and the turns of requests, for checkers.
    pub observe: bool,
}

/// A coherent device that cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoherentError {
    /// The snoop filter has no such geometry.
    Filter(GeometryError),
    /// The lines that one snoop may cover.
    Block(u8),
    /// More requesters than a filter can tell apart.
    Peers(usize),
}

impl fmt::Display for CoherentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoherentError::Filter(error) => error.fmt(f),
            CoherentError::Block(lines) => {
                write!(f, "found snoops of {lines} lines; allowed: 1 to 4")
            }
            CoherentError::Peers(count) => {
                let most = Peer::MAX_COUNT;
                write!(f, "found {count} requesters; allowed: at most {most}")
            }
        }
    }
}

impl std::error::Error for CoherentError {}

impl From<GeometryError> for CoherentError {
    fn from(error: GeometryError) -> Self {
        CoherentError::Filter(error)
    }
}
