//! The scenario: what the user wrote, as types. The single source of the JSON Schema; every
//! default lives in the structure that it belongs to.

mod choice;
pub mod diagnostics;
mod events;
pub mod file;
mod links;
mod note;
mod threads;

use std::borrow::Cow;
use std::collections::BTreeMap;

use cxlab_device::{
    AcceleratorParams, DeviceParams, MediaErrorParams, OwnMemoryClass, QosParams, SnoopFilterParams,
};
use cxlab_engine::units::{Bytes, Percent, Picos};
use cxlab_fabric::routing::deadlock::MAX_VIRTUAL_CHANNELS;
use cxlab_fabric::switch::SwitchParams;
use cxlab_fleet::FleetParams;
use cxlab_host::{Cluster, CoreParams, OsParams, ProcessorParams, RequesterParams};
use cxlab_link::LinkParams;
use cxlab_protocol::hdm::xor_maps;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use events::{
    CapacityKind, EventParams, FabricManagerParams, FailureParams, FailureRates, PortAction,
    RandomFailures, UnbindOption,
};

pub use links::{LinkClass, LinkOverride, LinkTable};

pub use choice::{MediumChoice, RoutingChoice, TopologyChoice, VictimChoice, WorkloadChoice};
pub use note::Note;
pub use threads::{LimitWord, ThreadLimit};

/// A CXL system, what runs on it, and how it is measured.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The scenario's name, in reports and pictures.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Seed of every random stream. Default 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Warm-up and measurement windows.
    #[serde(default)]
    pub measure: Measure,
    /// Switches, links and routing.
    pub fabric: Fabric,
    /// Requesters: hosts (or accelerators) that issue requests. At least one.
    #[schemars(length(min = 1))]
    pub hosts: Vec<HostGroup>,
    /// Type 3 memory devices. At least one, unless there are accelerators.
    #[serde(default)]
    pub devices: Vec<DeviceGroup>,
    /// Accelerators: Type 1 and Type 2 devices, and PCIe devices without CXL.cache. Default: none.
    #[serde(default)]
    pub accelerators: Vec<AcceleratorGroup>,
    /// How devices share the address space.
    #[serde(default)]
    pub address_map: AddressMapParams,
    /// Memory of Type 3 devices that is given to hosts, which see nothing else of them. Default:
    /// none, every host sees all of every device that it reaches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionGroup>,
    /// What happens while the workloads run, in order of time. Default: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventParams>,
    /// The fabric manager, which carries out commands among `events`. Default: none, commands are in
    /// force at the time that is written, and all else is as its parameters say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric_manager: Option<FabricManagerParams>,
    /// How hosts and the fabric deal with what fails, where something does. Default: as its parameters
    /// say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<FailureParams>,
    /// Hosts begin by enumerating what hangs below them, over CXL.io; their workloads begin
    /// together when the last of them is done. Default: they do not, all registers are as they
    /// should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enumeration: Option<EnumerationParams>,
    /// A fleet of pods, each as this scenario describes one, for `cxlab fleet`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetParams>,
    /// How the run is executed; never changes a result.
    #[serde(default)]
    pub execution: Execution,
}

fn default_seed() -> u64 {
    1
}

impl Scenario {
    /// The fabric manager; one whose commands take no time where the scenario says nothing of it.
    pub fn manager(&self) -> FabricManagerParams {
        let none = || FabricManagerParams {
            command_time: Picos::ZERO,
            ..FabricManagerParams::default()
        };
        self.fabric_manager.clone().unwrap_or_else(none)
    }

    /// Where it says first that a device keeps memory coherent by back-invalidation, if any does.
    pub fn back_invalidation(&self) -> Option<String> {
        let device = self.devices.iter().position(DeviceGroup::is_hdm_db);
        let accelerator = self
            .accelerators
            .iter()
            .position(AcceleratorGroup::is_hdm_db);
        device
            .map(|at| format!("devices[{at}].coherence.class"))
            .or_else(|| accelerator.map(|at| format!("accelerators[{at}].memory.class")))
    }
}

/// Warm-up and measurement windows. Each ends at the first look after its condition is met; looks
/// are spaced by simulated time, so windows do not depend on how a run is executed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// `"auto"`: warm up until total bandwidth and mean latency have settled, by MSER
    /// (docs/guide/error-bars.md); at least for a tenth of the window that is measured, at most for as long as
    /// that. Default: `"auto"` where neither `warmup_requests` nor `warmup_time` is given, all workloads are
    /// endless, and there are no events; otherwise a tenth of `requests`, and none where that is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Warmup>,
    /// Warm up until this many requests have completed in the whole system, instead.
    pub warmup_requests: Option<u64>,
    /// Warm up for this long, instead.
    pub warmup_time: Option<Picos>,
    /// Measure until this many requests have completed in the whole system, and then to where requests in
    /// flight are as old as they were at the beginning (docs/guide/error-bars.md). Default: 100,000 and 20 mean
    /// latencies, when neither `duration` is given nor every workload ends by itself.
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// Measure for this long, instead.
    pub duration: Option<Picos>,
    /// Stop as soon as the 95 % confidence intervals of total bandwidth and mean latency are at most
    /// this part of their value to each side. `requests` or `duration` is the longest window then.
    /// Default: none, and 10,000,000 requests where it is given without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Percent>,
    /// Measure windows far apart in detail, and apply the requests between them to caches, buffers and
    /// mappings without time (docs/guide/sampling.md). `warmup_requests` and `requests` count both kinds; not
    /// with `warmup`, `warmup_time` or `duration`. Default: none, all is simulated in detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
}

/// How a run is sampled, in requests of the whole system.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Requests from one unit to the next. At least twice `warmup` and `detailed` together. Default
    /// 100,000.
    pub every: u64,
    /// Requests that are measured in each unit. At least 10. Default 1,000.
    #[schemars(range(min = 10))]
    pub detailed: u64,
    /// Requests that are simulated in detail before those, and are not measured: they fill the queues.
    /// Default 1,000.
    pub warmup: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            every: 100_000,
            detailed: 1_000,
            warmup: 1_000,
        }
    }
}

/// How a warm-up ends.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// When total bandwidth and mean latency have settled.
    Auto,
}

/// How switches route.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum FabricKind {
    /// Port-based routing (CXL 3.x): any topology, every requester reaches every device.
    #[default]
    Pbr,
    /// PCIe-style switches with one virtual CXL switch each: a tree below one host.
    SingleVcs,
    /// PCIe-style switches with several virtual CXL switches: trees side by side; each device is
    /// bound to one host.
    MultipleVcs,
}

/// A revision of the CXL specification.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Debug,
)]
pub enum Revision {
    /// CXL 2.0, of November 2020.
    #[serde(rename = "2.0")]
    V2_0,
    /// CXL 3.0, of August 2022.
    #[serde(rename = "3.0")]
    V3_0,
    /// CXL 3.1, of November 2023.
    #[serde(rename = "3.1")]
    V3_1,
    /// CXL 3.2, of December 2024.
    #[serde(rename = "3.2")]
    V3_2,
    /// CXL 4.0, of November 2025.
    #[serde(rename = "4.0")]
    V4_0,
}

impl Revision {
    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Revision::V2_0 => "2.0",
            Revision::V3_0 => "3.0",
            Revision::V3_1 => "3.1",
            Revision::V3_2 => "3.2",
            Revision::V4_0 => "4.0",
        }
    }
}

/// Switches, links and routing.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// Port-based routing or PCIe-style virtual switches. Default pbr.
    #[serde(default)]
    pub kind: FabricKind,
    /// The revision of the CXL specification that all components have: what it has not is refused. Default: none; the
    /// scenario may use all that cxlab models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// Which switches there are and who is linked to whom.
    pub topology: TopologyChoice,
    /// Which of several paths a message takes. Default shortest.
    #[serde(default)]
    pub routing: RoutingChoice,
    /// The most virtual channels of a link between switches, 1 to 8. They are an extension: CXL has none that would keep messages
    /// of one class from waiting in a circle. With 1, a fabric whose shortest paths would let them has up*/down* paths, which may
    /// be longer. Default 8.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 8))]
    pub virtual_channels: u8,
    /// Every switch.
    #[serde(default)]
    pub switch: SwitchParams,
    /// Every link, unless `edge_link` says otherwise for those of hosts and devices.
    #[serde(default)]
    pub link: LinkParams,
    /// Links of endpoints, to switches and without. Default: as `link`.
    #[serde(default)]
    pub edge_link: Option<LinkParams>,
    /// Named links: tables of what differs from `link`. What a table does not say is as in `link`,
    /// but `bandwidth` where it says `generation` or `lanes`, `sync_header_bypass` where it says `generation` or `bandwidth`, and `flit` where it says `generation` or
    /// `transmission`. The link list of a custom topology and `overrides` refer to them. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, LinkTable>,
    /// Which links, by the components at their ends, have the parameters of a named link. Of several
    /// that match a link the last one holds. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<LinkOverride>,
    /// Multiple VCS: which host each device is bound to, by names. Default: devices take turns
    /// over hosts.
    #[serde(default)]
    pub bindings: Vec<Binding>,
}

/// A device bound to a host's virtual switch.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The device's name.
    pub device: String,
    /// The host's name.
    pub host: String,
}

/// Some equal hosts.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct HostGroup {
    /// The host's name; with `count` over 1 the hosts are called name0, name1, ...
    pub name: String,
    /// How many. 1 to 4095. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 4095))]
    pub count: u32,
    /// How they issue, where they have no `core`.
    #[serde(default)]
    pub issue: RequesterParams,
    /// A core with private caches that runs the workload as a program. Default: none, the host
    /// issues lines as `issue` says.
    #[serde(default)]
    pub core: Option<CoreParams>,
    /// Memory of the host's own, with `core`. Default: none.
    #[serde(default)]
    pub local: Option<LocalMemoryParams>,
    /// A multi-core processor that runs the workload, as threads or as a program on each core, and
    /// keeps its own memory coherent with its accelerators, instead of `core`. Default: none.
    #[serde(default)]
    pub processor: Option<ProcessorParams>,
    /// Memory of the host's own, with `processor`: a controller on each NUMA node. Their addresses
    /// follow one another from 2^51 on, in this order.
    #[serde(default)]
    pub nodes: Vec<NodeGroup>,
    /// An operating system, with `processor`: threads use virtual addresses, which cores and
    /// accelerators translate; pages are placed when they are touched, and move. Default: none,
    /// addresses are physical.
    #[serde(default)]
    pub os: Option<OsParams>,
    /// What they access.
    pub workload: WorkloadChoice,
    /// Requests that each host issues at most; steps of its program, where it has a core, and of each
    /// core's, where it has a processor. Default: as many as the workload has.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// With `processor`: the memory that patterns and traces address from 0 on. Default: `cxl` where
    /// the host reaches any, else `local`.
    #[serde(default)]
    pub span: Option<SpanOf>,
    /// With `processor` and a workload of threads: what the last of its cores run instead. Default:
    /// none.
    #[serde(default)]
    pub beside: Option<BesideGroup>,
}

/// The memory that sources of lines on a processor address from 0 on.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SpanOf {
    /// CXL memory.
    Cxl,
    /// The host's own: its NUMA nodes, or its process's heap.
    Local,
    /// CXL memory, and the host's own behind it.
    All,
}

/// Operations or programs on cores of a processor whose other cores run threads.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct BesideGroup {
    /// What each of the cores runs: a pattern, a trace, or a program.
    pub workload: WorkloadChoice,
    /// How many cores run it, the last ones. Default 1; at least one core is left.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub cores: u32,
    /// Steps of each at most. Default: as many as the workload has.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// The memory that patterns and traces address from 0 on. Default: as in the host group.
    #[serde(default)]
    pub span: Option<SpanOf>,
}

fn one() -> u32 {
    1
}

fn eight() -> u8 {
    MAX_VIRTUAL_CHANNELS
}

impl HostGroup {
    /// Number of cores beside those of the processor, which run no threads.
    pub fn cores_beside(&self) -> u32 {
        self.beside.as_ref().map_or(0, |beside| beside.cores)
    }

    /// Constant time before its links.
    pub fn egress(&self) -> Picos {
        match (&self.processor, &self.core) {
            (Some(processor), _) => processor.root_port_time,
            (None, Some(core)) => core.egress(),
            (None, None) => self.issue.egress(),
        }
    }

    /// Constant time behind its links.
    pub fn ingress(&self) -> Picos {
        match &self.processor {
            Some(processor) => processor.root_port_time,
            None => Picos::ZERO,
        }
    }

    /// Memory of its own.
    pub fn own_memory(&self) -> Bytes {
        let nodes = self.nodes.iter().map(|node| node.capacity.0);
        let local = self.local.as_ref().map_or(0, |local| local.capacity.0);
        Bytes(nodes.fold(local, u64::saturating_add))
    }
}

/// Memory of a host's own, below its memory controller.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct LocalMemoryParams {
    /// Capacity: a multiple of 4 KiB. Its addresses begin at 2^51.
    pub capacity: Bytes,
    /// One way between the last private cache and the memory controller. Default 39 ns: an idle load takes
    /// 130 ns, as on the host of Vistara (Meta, ISCA 2026, Table VI).
    #[serde(default = "default_local_latency")]
    pub latency: Picos,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
}

fn default_local_latency() -> Picos {
    Picos::from_nanos(39)
}

/// A NUMA node: a memory controller with its medium, in a cluster of the processor.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NodeGroup {
    /// Capacity: a multiple of 4 KiB.
    pub capacity: Bytes,
    /// Where it lies. Default socket 0, column 0, row 0.
    #[serde(default)]
    pub at: Cluster,
    /// One way through the memory controller. Default 5 ns (*assumed*).
    #[serde(default = "default_node_latency")]
    pub latency: Picos,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
}

fn default_node_latency() -> Picos {
    Picos::from_nanos(5)
}

/// Some equal accelerators.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorGroup {
    /// The accelerator's name; with `count` over 1 they are called name0, name1, ...
    pub name: String,
    /// How many. 1 to 4095. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 4095))]
    pub count: u32,
    /// The host whose memory it works on, by name. Default: the first host.
    #[serde(default)]
    pub host: Option<String>,
    /// Its elements, cache and engines.
    #[serde(default)]
    pub device: AcceleratorParams,
    /// Memory of its own, which hosts reach over CXL.mem: a Type 2 device. Default: none.
    #[serde(default)]
    pub memory: Option<DeviceMemoryParams>,
}

/// The memory of a Type 2 device.
// `remote`: what serde derives reads and writes all fields; the traits below know the capacity's default.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct DeviceMemoryParams {
    /// Capacity: a multiple of 256 MiB, the unit of an HDM decoder (CXL 3.1 section 8.2.4.20).
    /// Default 16 GiB, or what the medium holds where that is less.
    #[serde(default = "default_capacity")]
    pub capacity: Bytes,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
    /// Who keeps it coherent: `hdm-d` (the host, with bias) or `hdm-db` (the device, by back-invalidation). Default
    /// `hdm-d`.
    #[serde(default)]
    pub class: OwnMemoryClass,
}

impl AcceleratorGroup {
    /// Whether it has memory that it keeps coherent by back-invalidation.
    pub fn is_hdm_db(&self) -> bool {
        let memory = self.memory.as_ref();
        memory.is_some_and(|memory| memory.class == OwnMemoryClass::HdmDb)
    }
}

/// Some equal Type 3 devices.
// `remote`: as for `DeviceMemoryParams`.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct DeviceGroup {
    /// The device's name; with `count` over 1 the devices are called name0, name1, ...
    pub name: String,
    /// How many. 1 to 4095. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 4095))]
    pub count: u32,
    /// Capacity of each: a multiple of 256 MiB, the unit of an HDM decoder (CXL 3.1 section
    /// 8.2.4.20). Default 16 GiB, or what the medium holds where that is less.
    #[serde(default = "default_capacity")]
    pub capacity: Bytes,
    /// The controller.
    #[serde(default)]
    pub controller: DeviceParams,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
    /// Who keeps its memory coherent. Default: the hosts.
    #[serde(default)]
    pub coherence: CoherenceParams,
    /// A multi-logical device with at most so many logical devices, each bound to one host: 1 to 16
    /// (CXL 3.1 section 2.5). Default: none, a device that tells any number of hosts apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub logical_devices: Option<u32>,
    /// A G-FAM device (GFD): its link to a PBR switch is a PBR link and carries PBR flits, whose messages have the
    /// 12-bit IDs by which it tells hosts apart (CXL 3.1 sections 2.8 and 7.7.6.9). Default: no, and its link carries
    /// HBR messages as a host's does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub g_fam: bool,
    /// It tells hosts how loaded it is, with each answer. Default: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<QosParams>,
    /// Lines of its medium that cannot be read and are answered with poison until they are written. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<MediaErrorParams>,
}

/// Who uses a region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Each host has memory of its own, which no other sees (pooling).
    #[default]
    Exclusive,
    /// All hosts see the same memory. The device keeps their caches coherent if it is hdm-db;
    /// otherwise their software must.
    Shared,
    /// One memory, which one host at a time has: at first the first of the region's hosts, and
    /// later whoever an event adds it to.
    Moving,
    /// Blocks of 256 MiB on one device each, every one of which one host at a time has. A host is
    /// granted as many as it needs (`demand`), by `fabric_manager.policy`; at first none has any.
    Pooled,
}

/// Memory of Type 3 devices that is given to hosts.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct RegionGroup {
    /// The region's name.
    pub name: String,
    /// What each host gets, or what all share: a multiple of 256 MiB on each device.
    pub capacity: Bytes,
    /// Who uses it. Default exclusive.
    #[serde(default)]
    pub sharing: Sharing,
    /// The devices that it is interleaved over: names of devices, or of groups of them. Default: all
    /// Type 3 devices.
    #[serde(default)]
    pub devices: Vec<String>,
    /// The hosts that get it: names of hosts, or of groups of them. Default: all.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether they have it from the beginning. Otherwise it is addresses without memory behind
    /// them until an event adds it. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub initially_added: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Who keeps a device's memory coherent (CXL 3.1 section 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum CoherenceClassChoice {
    /// Host-only coherent: the device answers and never snoops.
    #[default]
    HdmH,
    /// Device-coherent using back-invalidation: the device's DCOH tracks who holds its lines in a
    /// snoop filter. Hosts that reach it need a cache.
    HdmDb,
}

/// A device's part in coherence.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct CoherenceParams {
    /// `hdm-h` or `hdm-db`. Default `hdm-h`.
    pub class: CoherenceClassChoice,
    /// The snoop filter, with `hdm-db`.
    pub filter: SnoopFilterParams,
    /// Which line the snoop filter gives up when it is full, with `hdm-db`. Default
    /// `{ kind = "lru" }`.
    pub victim: VictimChoice,
}

impl DeviceGroup {
    /// Whether its memory is kept coherent by back-invalidation.
    pub fn is_hdm_db(&self) -> bool {
        self.coherence.class == CoherenceClassChoice::HdmDb
    }
}

fn default_capacity() -> Bytes {
    Bytes(16 << 30)
}

/// Reads and writes a type with fields `capacity` and `memory`, of which the first depends by default on the
/// second.
macro_rules! capacity_by_medium {
    ($type:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $type::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given: Map<String, Value> = Map::deserialize(deserializer)?;
                let said = given.contains_key("capacity");
                let read = $type::deserialize(Value::Object(given));
                let mut read = read.map_err(serde::de::Error::custom)?;
                let medium = read.memory.build().ok();
                if let (false, Some(largest)) = (said, medium.and_then(|medium| medium.largest())) {
                    // Decoders know multiples of 256 MiB alone.
                    read.capacity = read.capacity.min(Bytes(largest.0 >> 28 << 28));
                }
                Ok(read)
            }
        }
    };
}

capacity_by_medium!(DeviceMemoryParams);
capacity_by_medium!(DeviceGroup);

/// How devices share the address space.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct AddressMapParams {
    /// Bytes of consecutive addresses on one device before the next takes over: 256 B to 16 KiB,
    /// a power of two (CXL 3.1 section 8.2.4.20.7). Default 256 B.
    pub granularity: Bytes,
    /// Devices that an address window is interleaved over: 2^k or 3 * 2^k, dividing the number of
    /// devices. Default: the largest that divides it, so all devices where that is possible.
    pub ways: Option<u32>,
    /// How a window chooses among its devices. Default `modulo`.
    pub arithmetic: Arithmetic,
    /// With `xor`: the XOR maps that the platform publishes (CXIMS structure of the CEDT), one for each bit of
    /// the ways, from the lowest on. The lowest bit of map `i` is bit `i` above the granularity. Default: those
    /// of Linux's test of the arithmetic, 0x2020900, 0x4041200, 0x1010400 and 0x800 for 256 B.
    pub xor_maps: Option<Vec<u64>>,
}

/// The interleave arithmetic of a window over host bridges (CFMWS of the CEDT; CXL 3.1 table 9-22).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// The bits above the granularity, and for a factor of three the rest of the address modulo three.
    #[default]
    Modulo,
    /// Each of these bits is the XOR of several address bits, so that strides reach all devices. A factor of three
    /// stays a modulo.
    Xor,
}

impl Default for AddressMapParams {
    fn default() -> Self {
        AddressMapParams {
            granularity: Bytes(256),
            ways: None,
            arithmetic: Arithmetic::Modulo,
            xor_maps: None,
        }
    }
}

impl AddressMapParams {
    /// The XOR maps; `None` where the arithmetic is modulo.
    pub fn xor_maps(&self) -> Option<Cow<'_, [u64]>> {
        match (self.arithmetic, &self.xor_maps) {
            (Arithmetic::Modulo, _) => None,
            (Arithmetic::Xor, Some(maps)) => Some(Cow::Borrowed(maps)),
            (Arithmetic::Xor, None) => Some(Cow::Owned(xor_maps(self.granularity).to_vec())),
        }
    }
}

/// Enumeration: software on each host finds out what there is and programs it (`docs/reference/cxl-io.md`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct EnumerationParams {
    /// What software does before each access, and until that is on its way to a root port. Default
    /// 100 ns (*assumed*: some hundred instructions).
    pub software_time: Picos,
    /// From a request's arrival at a function, behind the constant times of the component that it
    /// is in, until its completion is ready. Default 100 ns (*assumed*: registers lie behind a
    /// slow internal bus, and products do not publish the time).
    pub register_time: Picos,
    /// Host bridges of each host, 1 to 16 and no more than it has root ports. Root port `i`, in the order of the
    /// host's links, belongs to host bridge `i` modulo this number, and a window over devices of several host bridges
    /// takes them in turn. Default 1.
    pub host_bridges: u32,
}

impl Default for EnumerationParams {
    fn default() -> Self {
        EnumerationParams {
            software_time: Picos::from_nanos(100),
            register_time: Picos::from_nanos(100),
            host_bridges: 1,
        }
    }
}

/// How the run is executed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Execution {
    /// Threads at most: 1 to 256, or `auto` for as many as the process has processors. A run uses no
    /// more than make it faster. Default `auto`. The result is the same for every number.
    pub threads: ThreadLimit,
}

/// The JSON Schema of a scenario.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), "cxlab scenario".into());
    }
    schema
}
