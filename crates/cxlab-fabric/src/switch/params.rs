//! Parameters of a switch.

use cxlab_engine::catalog::Part;
use cxlab_engine::units::Picos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Which queue of an output sends first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The queues of the inputs take turns.
    #[default]
    RoundRobin,
    /// The queue whose head belongs to the transaction issued first.
    Age,
}

/// Parts that a switch may be.
static PARTS: &[Part] = &[
    Part {
        name: "esf",
        summary: "The switch of ESF: a switching time of 20 ns.",
        source: "Table III of the paper.",
        validated: "Compared with the paper's figures (`cxlab reproduce esf`).",
        keys: || json!({ "switching_time": "20 ns" }),
    },
    Part {
        name: "cxl-dmsim",
        summary: "The switch of CXL-DMSim: 100 ns in each direction.",
        source: "A parameter that its authors fitted to hardware (arXiv 2411.02282, as quoted).",
        validated: "Not validated: no measurement of that hardware is public.",
        keys: || json!({ "switching_time": "100 ns" }),
    },
    Part {
        name: "melody-switch",
        summary: "A CXL 2.0 switch behind which an expander of 250 ns is read in 600 ns, host and two links included.",
        source: "Melody, ASPLOS 2025, about 600 ns, less 250 ns of directly attached expanders there and less the ports and the wire of one link; half of the rest in each direction, *fitted*.",
        validated: "One row of docs/explain/hardware.md, the fitted one.",
        keys: || json!({ "switching_time": "147 ns" }),
    },
    Part {
        name: "beluga-switch",
        summary: "A CXL 2.0 switch behind which a host reads 64 B in 750 ns, which may contain software.",
        source: "Beluga, SIGMOD 2026 (arXiv 2511.20172), 750 ns, less what `melody-switch` names, *fitted*.",
        validated: "One row of docs/explain/hardware.md, the fitted one.",
        keys: || json!({ "switching_time": "222 ns" }),
    },
];

cxlab_engine::preset! {
    /// A switch with a name.
    SwitchPreset, PARTS
}

/// Parameters of a switch in a scenario.
// `remote`: the code that serde derives reads and writes all fields; `with_preset` adds presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SwitchParams {
    /// A part whose values become the defaults. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<SwitchPreset>,
    /// Time from input to output in one direction, without the ports. Default 10 ns. Of the 70 ns that a
    /// switch adds at least there and back, its two ports take 50 ns, and arbitration and network 20 ns (Li
    /// et al., "Pond", ASPLOS 2023, section 2, *recollection*).
    pub switching_time: Picos,
    /// Arbitration among the queues of an output. Default round-robin.
    pub arbitration: Arbitration,
    /// Most ports of a switch; a system that needs more is refused. Default: no limit.
    #[schemars(range(min = 2, max = 65535))]
    pub max_ports: Option<u16>,
}

cxlab_engine::with_preset!(SwitchParams, SwitchPreset);

impl Default for SwitchParams {
    fn default() -> Self {
        SwitchParams {
            preset: None,
            switching_time: Picos::from_nanos(10),
            arbitration: Arbitration::RoundRobin,
            max_ports: None,
        }
    }
}
