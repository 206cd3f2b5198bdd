//! The scenario: what the user wrote, as types. The single source of the JSON Schema; every
//! default lives in the structure that it belongs to.

mod address_space;
mod choice;
mod defaults;
mod devices;
pub mod diagnostics;
mod events;
mod fabric;
pub mod file;
mod hosts;
pub mod keys;
mod links;
mod measure;
mod note;
mod parts;
mod threads;

use cxlab_engine::units::Picos;
use cxlab_fleet::FleetParams;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use address_space::{AddressMapParams, Arithmetic, RegionGroup, Sharing};
pub use choice::{MediumChoice, RoutingChoice, TopologyChoice, VictimChoice, WorkloadChoice};
pub use devices::{
    AcceleratorGroup, CoherenceClassChoice, CoherenceParams, DeviceGroup, DeviceMemoryParams,
};
pub use events::{
    CapacityKind, EventParams, FabricManagerParams, FailureParams, FailureRates, PortAction,
    RandomFailures, UnbindOption,
};
pub use fabric::{Binding, Fabric, FabricKind, Revision};
pub use hosts::{BesideGroup, HostGroup, HostKind, LocalMemoryParams, NodeGroup, SpanOf};
pub use links::{LinkClass, LinkOverride, LinkTable};
pub use measure::{Execution, Measure, Sampling, Warmup};
pub use note::Note;
pub use parts::DevicePreset;
pub use threads::{LimitWord, ThreadLimit};

/// A CXL system, what runs on it, and how it is measured.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The scenario's name, in reports and pictures.
    pub name: String,
    /// Purpose of the scenario.
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
    /// Hosts, which issue requests. At least one.
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
    /// Memory of Type 3 devices that is assigned to hosts, which see no other memory of these
    /// devices. Default: none, every host sees all of every device that it reaches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionGroup>,
    /// Events while the workloads run, in order of time. Default: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventParams>,
    /// The fabric manager, which carries out commands among `events`. Default: none, commands are in
    /// force at the time that is written, and all else is as its parameters say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric_manager: Option<FabricManagerParams>,
    /// How hosts and the fabric deal with failures, and failures at random. Default: as its parameters say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<FailureParams>,
    /// Hosts first enumerate the components below them over CXL.io; all workloads begin together
    /// when the last host has finished. Default: none, all registers are set from the beginning.
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
    /// Reads a scenario that [`schema`] accepts.
    ///
    /// # Errors
    /// The first value that the types do not accept.
    pub fn from_value(value: serde_json::Value) -> serde_json::Result<Self> {
        serde_json::from_value(value)
    }

    /// The scenario with all its defaults.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Parameters of the fabric manager; if the scenario has none, its commands take no time.
    pub fn manager(&self) -> FabricManagerParams {
        let none = || FabricManagerParams {
            command_time: Picos::ZERO,
            ..FabricManagerParams::default()
        };
        self.fabric_manager.clone().unwrap_or_else(none)
    }

    /// Path of the first device that keeps memory coherent by back-invalidation, if there is one.
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

/// Enumeration: software on each host discovers ports and devices and programs their registers (`docs/reference/cxl-io.md`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct EnumerationParams {
    /// Time that software takes before each access, up to its departure to a root port. Default
    /// 100 ns (*assumed*: some hundred instructions).
    pub software_time: Picos,
    /// Time from a request's arrival at a function, after the constant times of the component,
    /// until its completion is ready. Default 100 ns (*assumed*: registers are reached through a
    /// slow internal bus, and products do not publish the time).
    pub register_time: Picos,
    /// Host bridges of each host, 1 to 16 and no more than it has root ports. Root port `i`, in the
    /// order of the host's links, belongs to host bridge `i` modulo this number, and a window over
    /// devices of several host bridges interleaves these bridges. Default 1.
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

/// The JSON Schema of a scenario.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), "cxlab scenario".into());
    }
    schema
}
