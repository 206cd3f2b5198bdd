//! What a user says of a fleet: the `[fleet]` table of a scenario.

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

/// A fleet of hosts in pods as the scenario describes one.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct FleetParams {
    /// Hosts in all; rounded up to whole pods. 1 to 1000000. Default 1000.
    #[schemars(range(min = 1, max = 1000000))]
    pub hosts: u32,
    /// Hosts that one scheduler places VMs on; rounded up to whole pods. 1 to 100000. Default 256
    /// (*assumed*; an Azure cluster is some hundreds of hosts).
    #[schemars(range(min = 1, max = 100000))]
    pub cluster: u32,
    /// Days of demand. 0.01 to 1000. Default 7.
    #[schemars(range(min = 0.01, max = 1000.0))]
    pub days: f64,
    /// Minutes between two points of the time series. 1 to 1440. Default 60.
    #[schemars(range(min = 1, max = 1440))]
    pub sample_minutes: u32,
    /// Every host.
    pub host: HostParams,
    /// Which VMs come when. Default: the generator.
    pub demand: DemandChoice,
    /// Which host a VM is placed on. Default balanced.
    pub placement: PlacementChoice,
    /// How much of a VM's memory is pool memory. Default: half (`static`).
    pub pool: PoolPolicyChoice,
    /// Which devices of the pool give it. Default even.
    pub spread: Spread,
    /// Pool memory is granted in slices of this size: a multiple of 1 MiB. Default 1 GiB (Pond,
    /// ASPLOS'23, section 4.1).
    pub slice: Bytes,
    /// How the guest sees pool memory. Default znuma.
    pub exposure: Exposure,
    /// Whether DRAM is searched for or given. Default needed.
    pub sizing: Sizing,
    /// Which hosts have the same DRAM where `sizing` is `needed`. Default fleet.
    pub sized: SizedFor,
    /// Which memory the placement fits into hosts. Default all.
    pub packs: Packs,
    /// How many VMs may lose how much where `sizing` is `needed`. Default: any number.
    pub slow: Option<Slow>,
    /// What finds VMs that lose too much and gives them local memory. Default: nothing does.
    pub monitor: Option<Monitor>,
    /// Rejected core-hours that are accepted beyond those rejected without a pool and with
    /// `host.dram`, as a part of all that is asked for. 0 to 1. Default 0.001 (*assumed*).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub slack: f64,
    /// Least local DRAM with a pool, as a part of what a host needs without one, where `sizing` is
    /// `needed`. 0 to 1. Default 0.5 (*assumed*; without it, policies that give pool memory freely
    /// would leave hosts none of their own).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub least_local: f64,
    /// What VMs lose when their memory is slower. Default: five classes after Pond.
    #[schemars(length(min = 1, max = 64))]
    pub sensitivity: Vec<SensitivityClass>,
    /// The part of its memory that a VM never touches: the least, the three quartiles and the
    /// largest over all VMs, each 0 to 1 and none less than the one before. Default 0, 0.25, 0.5,
    /// 0.75, 1: the median is Pond's (half of the VMs touch less than half of what they rent), the
    /// rest *assumed*.
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

/// Every host of the fleet.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct HostParams {
    /// Cores that VMs can have. 1 to 4096. Default 48 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub cores: u32,
    /// DRAM that VMs can have, without a pool: a multiple of 1 MiB. Default 224 GiB (*assumed*, so
    /// that the generator's VMs strand about what Pond found).
    pub dram: Bytes,
    /// Local DRAM with a pool, where `sizing` is `given`: a multiple of 1 MiB. Default: as `dram`.
    pub local: Option<Bytes>,
    /// Latency of a read of local DRAM, from issue to data. Default 85 ns (Pond, section 2: a
    /// NUMA-local read).
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

/// Which devices give pool memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Those with most free memory, so that all fill alike.
    #[default]
    Even,
    /// Those with the least latency for the host, and among them those with most free memory.
    Near,
}

/// How the guest sees pool memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// As a NUMA node without cores that it uses last, so that memory it never touches is pool
    /// memory as far as that goes (Pond, section 4.2).
    #[default]
    Znuma,
    /// Not at all: accesses go to pool memory in proportion to its size.
    Uniform,
}

/// Whether DRAM is searched for or given.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Sizing {
    /// The least DRAM with which no more is rejected than without a pool and with `host.dram`, but
    /// for `slack`: of hosts without pools, of hosts with pools, and of devices.
    #[default]
    Needed,
    /// `host.dram` without a pool; with a pool `host.local` and the capacity of the devices.
    Given,
}

/// Which hosts have the same DRAM, and which devices the same capacity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SizedFor {
    /// All of the fleet: the cluster that asks for most decides.
    #[default]
    Fleet,
    /// Those of a cluster; each is sized for its own VMs (Pond, section 6.1, recollected: the trace
    /// of each cluster is simulated, and savings are averaged over clusters).
    Cluster,
}

/// Which memory of VMs and hosts a placement sees.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Packs {
    /// All memory of VMs against `host.dram`, however it is divided, so that fleets with and without
    /// pools differ in what fits and not in what the placement prefers.
    #[default]
    All,
    /// The memory that the pool policy leaves local, against the local DRAM of hosts with pools
    /// (Pond, section 4.3, recollected: its scheduler gets the local and the pool part of a VM and
    /// packs the local part as all memory before).
    Local,
}

/// How many VMs may lose how much: DRAM is sized so that no more do (Pond's performance degradation
/// margin and tail percentage).
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Slow {
    /// Time that a VM may lose over its life, as a part of the time with local memory, in steps of
    /// 0.001. 0.001 to 1. Default 0.05 (Pond).
    #[schemars(range(min = 0.001, max = 1.0))]
    pub bound: f64,
    /// Part of VMs that may lose as much and more. 0 to 1. Default 0.02 (Pond).
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

/// Watches running VMs and mitigates what was predicted wrongly (Pond, section 4.2: the QoS
/// monitor). At every point of the time series (`sample_minutes`), a VM that loses more than
/// `bound` gets local DRAM for all its pool memory, if its host has as much free, and keeps it.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Monitor {
    /// Time that a VM may lose, as a part of the time with local memory. 0 to 10. Default 0.05
    /// (Pond's performance degradation margin).
    #[schemars(range(min = 0.0, max = 10.0))]
    pub bound: f64,
}

impl Default for Monitor {
    fn default() -> Self {
        Monitor { bound: 0.05 }
    }
}

impl FleetParams {
    /// Checks what the schema cannot.
    ///
    /// # Errors
    /// Every mistake, with its path below the fleet's own.
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
        if !rises
            || self
                .untouched
                .iter()
                .any(|part| !(0.0..=1.0).contains(part))
        {
            errors.push(ParamError::new(
                "untouched",
                "allowed: five numbers from 0 to 1, none less than the one before",
            ));
        }
        if self.span_s() < u64::from(self.sample_minutes) * 60 {
            errors.push(ParamError::new(
                "sample_minutes",
                format!(
                    "found {}; allowed: at most all of `days`",
                    self.sample_minutes
                ),
            ));
        }
        if self.span_s() / (u64::from(self.sample_minutes) * 60) > 100_000 {
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

    /// Seconds of demand.
    pub fn span_s(&self) -> u64 {
        (self.days * 86_400.0) as u64
    }
}
