//! Parameters of a fleet: the `[fleet]` table of a scenario.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::demand::DemandChoice;
use crate::placement::PlacementChoice;
use crate::policy::PoolPolicyChoice;
use crate::sensitivity::{SensitivityClass, default_classes};

/// One MiB, the unit of memory in this crate.
pub const MIB: u64 = 1 << 20;

/// A fleet of hosts in pods, as the scenario describes it.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct FleetParams {
    /// Total number of hosts, rounded up to whole pods. 1 to 1000000. Default 1000.
    #[schemars(range(min = 1, max = 1000000))]
    pub hosts: u32,
    /// Number of hosts on which one scheduler places VMs, rounded up to whole pods. 1 to 100000.
    /// Default 256 (*assumed*; an Azure cluster is some hundreds of hosts).
    #[schemars(range(min = 1, max = 100000))]
    pub cluster: u32,
    /// Days of demand. 0.01 to 1000. Default 7.
    #[schemars(range(min = 0.01, max = 1000.0))]
    pub days: f64,
    /// Minutes between two sampling points of the time series. 1 to 1440. Default 60.
    #[schemars(range(min = 1, max = 1440))]
    pub sample_minutes: u32,
    /// Parameters of each host.
    pub host: HostParams,
    /// Source of the VMs. Default: the generator.
    pub demand: DemandChoice,
    /// Placement of VMs on hosts. Default balanced.
    pub placement: PlacementChoice,
    /// Policy that decides how much of a VM's memory is pool memory. Default: half (`static`).
    pub pool: PoolPolicyChoice,
    /// Which devices provide pool memory. Default even.
    pub spread: Spread,
    /// Granularity of pool memory: a multiple of 1 MiB. Default
    /// 1 GiB (Pond, ASPLOS'23, section 4.1).
    pub slice: Bytes,
    /// How the guest sees pool memory. Default znuma.
    pub exposure: Exposure,
    /// Whether the amount of DRAM is searched for or given. Default needed.
    pub sizing: Sizing,
    /// Which hosts have the same amount of DRAM if `sizing` is `needed`. Default fleet.
    pub sized: SizedFor,
    /// Which memory the placement packs into hosts. Default all.
    pub packs: Packs,
    /// How many VMs may be slow if `sizing` is `needed`. Default: any number.
    pub slow: Option<Slow>,
    /// Monitor that gives local memory to VMs that lose too much time. Default: none.
    pub monitor: Option<Monitor>,
    /// Rejected core-hours that are accepted beyond those rejected without a pool and with
    /// `host.dram`, as a share of all requested core-hours. 0 to 1. Default 0.001 (*assumed*).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub slack: f64,
    /// Least local DRAM with a pool, as a share of the DRAM that a host needs without one, if
    /// `sizing` is `needed`. 0 to 1. Default 0.5 (*assumed*; without it, policies that give pool
    /// memory freely would leave hosts no local DRAM).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub least_local: f64,
    /// Classes of VMs by the time that they lose with slower
    /// memory. Default: five classes after Pond.
    #[schemars(length(min = 1, max = 64))]
    pub sensitivity: Vec<SensitivityClass>,
    /// Share of its memory that a VM never touches: the least, the three quartiles and the
    /// largest over all VMs, each 0 to 1 and none less than the one before. Default 0, 0.25, 0.5,
    /// 0.75, 1. The median is Pond's (half of the VMs touch less than half of the memory that
    /// they rent), and the rest is *assumed*.
    #[schemars(length(min = 5, max = 5))]
    pub untouched: Vec<f64>,
    /// Memory traffic of a core of a VM. Default 1 GB/s (*assumed*).
    pub traffic: BytesPerSec,
}

impl Default for FleetParams {
    fn default() -> Self {
        FleetParams {
            hosts: 1000,
            cluster: 256,
            days: 7.0,
            sample_minutes: 60,
            host: HostParams::default(),
            demand: DemandChoice::default(),
            placement: PlacementChoice::default(),
            pool: PoolPolicyChoice::default(),
            spread: Spread::default(),
            slice: Bytes(1 << 30),
            exposure: Exposure::default(),
            sizing: Sizing::default(),
            sized: SizedFor::default(),
            packs: Packs::default(),
            slow: None,
            monitor: None,
            slack: 0.001,
            least_local: 0.5,
            sensitivity: default_classes(),
            untouched: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            traffic: BytesPerSec(1_000_000_000),
        }
    }
}

/// Parameters of each host of the fleet.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct HostParams {
    /// Cores for VMs. 1 to 4096. Default 48 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub cores: u32,
    /// DRAM for VMs without a pool: a multiple of 1 MiB. Default 224 GiB (*assumed*, so that the
    /// generator's VMs strand about as much memory as Pond found).
    pub dram: Bytes,
    /// Local DRAM with a pool, if `sizing` is `given`: a multiple of 1 MiB. Default: as `dram`.
    pub local: Option<Bytes>,
    /// Latency of a read of local DRAM, from issue to data. Default 85 ns (a
    /// NUMA-local read in Pond, section 2).
    pub local_latency: Picos,
}

impl Default for HostParams {
    fn default() -> Self {
        HostParams {
            cores: 48,
            dram: Bytes(224 << 30),
            local: None,
            local_latency: Picos::from_nanos(85),
        }
    }
}

/// Which devices provide pool memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// The devices with most free memory, so that all fill evenly.
    #[default]
    Even,
    /// The devices with the least latency for the host, and among them those with most free memory.
    Near,
}

/// How the guest sees pool memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// As a NUMA node without cores that the guest uses last. Memory that the guest never touches
    /// is pool memory first (Pond, section 4.2).
    #[default]
    Znuma,
    /// Invisibly: accesses go to pool memory in proportion to its size.
    Uniform,
}

/// Whether the amount of DRAM is searched for or given.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Sizing {
    /// The least DRAM that rejects no more than hosts with `host.dram` and without a pool, plus
    /// `slack`: of hosts without pools, of hosts with pools, and of devices.
    #[default]
    Needed,
    /// `host.dram` without a pool, and `host.local` and the capacity of the devices with a pool.
    Given,
}

/// Which hosts have the same DRAM, and which devices the same capacity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SizedFor {
    /// All hosts of the fleet. The cluster with the largest need decides.
    #[default]
    Fleet,
    /// All hosts of a cluster. Each cluster is sized for its own VMs (Pond,
    /// section 6.1, recollected: the trace of each cluster is simulated,
    /// and savings are averaged over clusters).
    Cluster,
}

/// Which memory of VMs and hosts a placement packs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Packs {
    /// All memory of VMs against `host.dram`, however it is divided. Then fleets with and without
    /// pools differ in what fits, but not in what the placement prefers.
    #[default]
    All,
    /// The memory that the pool policy leaves local, against the local DRAM of hosts with pools
    /// (Pond, section 4.3, recollected: its scheduler receives the local and the pool part of a VM,
    /// and packs the local part as it packed all memory before).
    Local,
}

/// Limit on the number of slow VMs, for which DRAM is sized (Pond's
/// performance degradation margin and tail percentage).
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Slow {
    /// Time that a VM may lose over its life, as a share of the time with local memory, in steps of
    /// 0.001. 0.001 to 1. Default 0.05 (Pond).
    #[schemars(range(min = 0.001, max = 1.0))]
    pub bound: f64,
    /// Share of VMs that may lose as much or more. 0 to 1. Default 0.02 (Pond).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub part: f64,
}

impl Default for Slow {
    fn default() -> Self {
        Slow {
            bound: 0.05,
            part: 0.02,
        }
    }
}

/// Watches running VMs and corrects wrong predictions (Pond, section 4.2: the QoS monitor). At
/// every sampling point of the time series (`sample_minutes`), a VM that loses more than `bound`
/// gets local DRAM for all its pool memory, if its host has enough free, and keeps it.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Monitor {
    /// Time that a VM may lose, as a share of the time with local memory. 0 to 10.
    /// Default 0.05 (Pond's performance degradation margin).
    #[schemars(range(min = 0.0, max = 10.0))]
    pub bound: f64,
}

impl Default for Monitor {
    fn default() -> Self {
        Monitor { bound: 0.05 }
    }
}

impl FleetParams {
    /// Checks the constraints that the schema cannot express.
    ///
    /// # Errors
    /// Every mistake, with its path relative to the fleet.
    pub fn check(&self) -> Result<(), Vec<ParamError>> {
        let mut errors = Vec::new();
        let local = self.host.local.unwrap_or(self.host.dram);
        for (field, bytes) in [
            ("host.dram", self.host.dram),
            ("host.local", local),
            ("slice", self.slice),
        ] {
            if !bytes.0.is_multiple_of(MIB) || bytes.0 == 0 || bytes.0 >= 1 << 50 {
                errors.push(ParamError::new(
                    field,
                    format!("found {bytes}; allowed: a multiple of 1 MiB, below 1024 TiB"),
                ));
            }
        }
        if self.host.local.is_some() && self.sizing == Sizing::Needed {
            errors.push(ParamError::new(
                "host.local",
                "found with `sizing = \"needed\"`, which searches for it; allowed: with `sizing = \"given\"`",
            ));
        }
        if self.host.local_latency == Picos::ZERO {
            errors.push(ParamError::new(
                "host.local_latency",
                "found 0 ns; allowed: more",
            ));
        }
        let rises = self.untouched.windows(2).all(|pair| pair[0] <= pair[1]);
        let is_part = |part| (0.0..=1.0).contains(part);
        if !rises || !self.untouched.iter().all(is_part) {
            errors.push(ParamError::new(
                "untouched",
                "allowed: five numbers from 0 to 1, none less than the one before",
            ));
        }
        if self.span_s() < self.step_s() {
            let found = self.sample_minutes;
            errors.push(ParamError::new(
                "sample_minutes",
                format!("found {found}; allowed: at most all of `days`"),
            ));
        }
        if self.span_s() / self.step_s() > 100_000 {
            errors.push(ParamError::new(
                "sample_minutes",
                "allowed: at most 100000 points in `days`",
            ));
        }
        errors.extend(crate::sensitivity::check(&self.sensitivity));
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Length of the demand, in seconds.
    pub fn span_s(&self) -> u64 {
        (self.days * 86_400.0) as u64
    }

    /// Time between two sampling points, in seconds.
    pub(crate) fn step_s(&self) -> u64 {
        u64::from(self.sample_minutes) * 60
    }

    pub(crate) fn points(&self) -> usize {
        self.span_s().div_ceil(self.step_s()) as usize
    }
}
