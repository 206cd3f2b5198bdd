//! The fabric: switches, links, routing, and bindings of virtual switches.

use std::collections::BTreeMap;

use cxlab_fabric::routing::deadlock::MAX_VIRTUAL_CHANNELS;
use cxlab_fabric::switch::SwitchParams;
use cxlab_link::LinkParams;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{RoutingChoice, TopologyChoice};
use crate::links::{LinkOverride, LinkTable};

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
    /// Name of the revision in scenarios.
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
    /// The revision of the CXL specification that all components have: features of later revisions
    /// are refused. Default: none; the scenario may use all that cxlab models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The switches, and the links between components.
    pub topology: TopologyChoice,
    /// Which of several paths a message takes. Default shortest.
    #[serde(default)]
    pub routing: RoutingChoice,
    /// The most virtual channels of a link between switches, 1 to 8. They are an extension of CXL
    /// against deadlock among messages of one class. With 1, a fabric whose shortest paths could
    /// deadlock uses up*/down* paths, which may be longer. Default 8.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 8))]
    pub virtual_channels: u8,
    /// Parameters of every switch.
    #[serde(default)]
    pub switch: SwitchParams,
    /// Parameters of every link; for links of hosts and devices, `edge_link` replaces them.
    #[serde(default)]
    pub link: LinkParams,
    /// Parameters of the links of endpoints, to a switch or to another endpoint. Default: as `link`.
    #[serde(default)]
    pub edge_link: Option<LinkParams>,
    /// Named links: tables of parameters that differ from `link`. A missing key has its value in `link`, except `bandwidth`
    /// beside `generation` or `lanes`, `sync_header_bypass` beside `generation` or `bandwidth`, and `flit` beside `generation` or
    /// `transmission`. The link list of a custom topology and `overrides` refer to them. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, LinkTable>,
    /// Which links, by the components at their ends, have the parameters of a named link. If
    /// several match a link, the last one applies. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<LinkOverride>,
    /// Multiple VCS: which host each device is bound to, by names. Default: devices go round over hosts.
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

fn eight() -> u8 {
    MAX_VIRTUAL_CHANNELS
}
