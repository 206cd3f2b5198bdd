//! Type 3 devices and accelerators.

use cxlab_device::{
    AcceleratorParams, AttachedMemoryClass, DeviceParams, MediaErrorParams, QosParams,
    SnoopFilterParams,
};
use cxlab_engine::catalog::with_preset;
use cxlab_engine::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::choice::{MediumChoice, VictimChoice};
use crate::links::LinkTable;
use crate::parts::DevicePreset;

/// Some equal accelerators.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorGroup {
    /// The accelerator's name; with `count` over 1 they are called name0, name1, ...
    pub name: String,
    /// How many. 1 to 4095. Default 1.
    #[serde(default = "crate::defaults::one")]
    #[schemars(range(min = 1, max = 4095))]
    pub count: u32,
    /// The host whose memory the accelerator works on, by name. Default: the first host.
    #[serde(default)]
    pub host: Option<String>,
    /// Processing elements, cache and engines.
    #[serde(default)]
    pub device: AcceleratorParams,
    /// Device-attached memory, which hosts reach over CXL.mem: a Type 2 device. Default: none.
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
    /// Coherence of the memory: `hdm-d` (kept by the host, with bias) or `hdm-db` (by the device,
    /// with back-invalidation). Default `hdm-d`.
    #[serde(default)]
    pub class: AttachedMemoryClass,
}

impl AcceleratorGroup {
    /// Whether the accelerators keep their memory coherent by back-invalidation.
    pub fn is_hdm_db(&self) -> bool {
        let memory = self.memory.as_ref();
        memory.is_some_and(|memory| memory.class == AttachedMemoryClass::HdmDb)
    }
}

/// Some equal Type 3 devices.
// `remote`: as for `DeviceMemoryParams`.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct DeviceGroup {
    /// The device's name; with `count` over 1 the devices are called name0, name1, ...
    pub name: String,
    /// A part whose values become the defaults of all other keys. Default: none, so the defaults below apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<DevicePreset>,
    /// How many. 1 to 4095. Default 1.
    #[serde(default = "crate::defaults::one")]
    #[schemars(range(min = 1, max = 4095))]
    pub count: u32,
    /// Parameters of the device's links that differ from `fabric.edge_link`, as in the tables of `fabric.links`. A
    /// named link of the topology or of `fabric.overrides` takes precedence. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkTable>,
    /// Capacity of each: a multiple of 256 MiB, the unit of an HDM decoder (CXL 3.1 section
    /// 8.2.4.20). Default 16 GiB, or what the medium holds where that is less.
    #[serde(default = "default_capacity")]
    pub capacity: Bytes,
    /// The device's controller: its times and contexts.
    #[serde(default)]
    pub controller: DeviceParams,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
    /// Coherence of the device's memory. Default: the hosts.
    #[serde(default)]
    pub coherence: CoherenceParams,
    /// A multi-logical device with at most this number of logical devices, each bound to one host:
    /// 1 to 16 (CXL 3.1 section 2.5). Default: none, a device that tells any number of hosts apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub logical_devices: Option<u32>,
    /// A G-FAM device (GFD): its link to a PBR switch is a PBR link and carries PBR flits, whose messages have the
    /// 12-bit IDs by which it tells hosts apart (CXL 3.1 sections 2.8 and 7.7.6.9). Default: no, and its link carries
    /// HBR messages as a host's does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub g_fam: bool,
    /// QoS telemetry: the device reports its load (DevLoad) in each response. Default: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<QosParams>,
    /// Lines of the medium that cannot be read: reads return poison until the line is written. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<MediaErrorParams>,
}

/// Coherence class of a device's memory (CXL 3.1 section 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum CoherenceClassChoice {
    /// Host-only coherent: the device responds and never snoops.
    #[default]
    HdmH,
    /// Device-coherent using back-invalidation: the device's DCOH tracks in a snoop filter which
    /// hosts hold its lines. Hosts that reach the device need a cache.
    HdmDb,
}

/// Coherence class and snoop filter of a device.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct CoherenceParams {
    /// `hdm-h` or `hdm-db`. Default `hdm-h`.
    pub class: CoherenceClassChoice,
    /// The snoop filter, with `hdm-db`.
    pub filter: SnoopFilterParams,
    /// Which entry the snoop filter evicts when it is full, with `hdm-db`. Default
    /// `{ kind = "lru" }`.
    pub victim: VictimChoice,
}

impl DeviceGroup {
    /// Whether the devices keep their memory coherent by back-invalidation.
    pub fn is_hdm_db(&self) -> bool {
        self.coherence.class == CoherenceClassChoice::HdmDb
    }
}

fn default_capacity() -> Bytes {
    Bytes(16 << 30)
}

/// Reads and writes a type whose field `capacity` depends by default on its field `memory`.
macro_rules! capacity_by_medium {
    ($type:ident, $read:path) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $type::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = $read(deserializer)?;
                let said = given.get("capacity").is_some();
                let read = $type::deserialize(given);
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

capacity_by_medium!(DeviceMemoryParams, Value::deserialize);
capacity_by_medium!(DeviceGroup, with_preset::<DevicePreset, D>);
