//! Parameters of a switch.

use cxlab_engine::catalog::Preset;
use cxlab_engine::units::Picos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// A switch preset: a switching time with a name.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchPreset {
    /// The switch of ESF (Table III): a switching time of 20 ns.
    Esf,
}

impl Preset for SwitchPreset {
    fn keys(&self) -> serde_json::Value {
        match self {
            SwitchPreset::Esf => serde_json::json!({ "switching_time": "20 ns" }),
        }
    }
}

/// Parameters of a switch in a scenario.
// `remote`: the code that serde derives reads and writes all fields; `with_preset` adds presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SwitchParams {
    /// A preset whose switching time becomes the default. Default: none.
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
