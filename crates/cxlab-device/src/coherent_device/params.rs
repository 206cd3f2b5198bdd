//! Parameters and construction of a device with device-managed coherence.

use std::fmt;

use cxlab_cache::{Geometry, GeometryError, MemoryBackend, VictimPolicy};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_link::LinkPort;
use cxlab_protocol::coherence::dcoh::Peer;
use cxlab_protocol::{DecoderTable, PortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capacity::DeviceChange;
use crate::controller::DeviceParams;
use crate::qos::QosConfig;

/// User parameters of a device's snoop filter.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct SnoopFilterParams {
    /// Number of entries: lines that caches may hold at once. 1 to 67108864, a multiple of the
    /// ways. Default 65536 (*assumed*: caches of 4 MiB in all).
    #[schemars(range(min = 1, max = 67_108_864))]
    pub lines: u32,
    /// Number of entries in a set. Default: all, a fully associative filter (ESF, section V-B).
    #[schemars(range(min = 1, max = 67_108_864))]
    pub ways: Option<u32>,
    /// Maximum number of lines that one snoop covers when entries are evicted: 1 (`BISnpInv`
    /// alone), 2, 4 (`BISnpInvBlk`, CXL 3.1 section 3.3.8.1), or 3, which CXL does not have, for
    /// the study of ESF, section V-C. The victim policy chooses the lines; only `block-length`
    /// chooses more than one. Default 4.
    #[schemars(range(min = 1, max = 4))]
    pub block: u8,
    /// How long a snoop for a request waits for snoops of the same kind to the same holder in one
    /// aligned block of at most `block` lines. Joined snoops leave as one `BISnpDataBlk`,
    /// `BISnpCurBlk` or `BISnpInvBlk` of 2 or 4 lines (CXL 3.1, section 3.3.8.1). A complete block
    /// leaves at once; with 0 ns only snoops of the same instant are joined. At most 1 us. Default:
    /// none, a request snoops its line alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<Picos>,
    /// Whether an eviction starts for every request that waits for an entry. A snoop of several
    /// lines then frees entries for later requests too (ESF, section V-C), and caches hold fewer
    /// lines. Otherwise only as many lines are evicted as requests wait. Default false.
    pub eager: bool,
    /// Time of a filter lookup, a pipeline that every message to the device passes. Default 2 ns
    /// (*assumed*: two cycles of an SRAM at 1 GHz).
    pub lookup_time: Picos,
    /// Maximum number of writes, and of responses to writes and conflicts, in the device. 1
    /// to 65536. Default 64 (*assumed*).
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
    /// The sets and ways of the filter.
    ///
    /// # Errors
    /// No lines, too many lines, or a number of lines that is no multiple of the ways.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let ways = self.ways.unwrap_or(self.lines);
        Geometry::set_associative(u64::from(self.lines), u64::from(ways))
    }

    /// Constant delay of every message behind the link, which the ports at the far end
    /// use as ingress time.
    pub fn ingress(&self, params: &DeviceParams) -> Picos {
        Picos(params.process_time.0 + self.lookup_time.0)
    }
}

/// Everything that a coherent device is built from.
pub struct CoherentConfig {
    /// Parameters of the controller.
    pub params: DeviceParams,
    /// Parameters of the snoop filter.
    pub filter: SnoopFilterParams,
    /// Victim policy for full sets of the filter.
    pub policy: Box<dyn VictimPolicy>,
    /// Random stream of the policy.
    pub policy_rng: StreamRng,
    /// One port for each link, in order.
    pub ports: Vec<LinkPort>,
    /// The medium behind the controller.
    pub backend: Box<dyn MemoryBackend>,
    /// Map of each host's addresses to device physical addresses.
    pub decoders: DecoderTable,
    /// Edge port of the device, the source of its snoops.
    pub port_id: PortId,
    /// Edge ports of the requesters that may hold lines of the device. At most 64.
    pub peers: Vec<PortId>,
    /// Load telemetry, if any.
    pub qos: Option<QosConfig>,
    /// Changes of the hosts' shares, in order of time; none without telemetry.
    pub shares: Vec<DeviceChange>,
    /// Whether the device records values of lines and turns of requests, for checkers.
    pub observe: bool,
}

/// Why a coherent device cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoherentError {
    /// The snoop filter has an illegal geometry.
    Filter(GeometryError),
    /// One snoop may cover an illegal number of lines.
    Block(u8),
    /// There are more requesters than a filter can distinguish.
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
