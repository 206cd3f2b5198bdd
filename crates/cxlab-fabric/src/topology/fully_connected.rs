//! A fully connected fabric: a link between every two switches.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{bounded, one_per_pair};
use super::{Placement, Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> =
    entry::<FullyConnected>("fully-connected", "a link between every two switches");

/// Most switches. *Assumed*, to bound memory: 1,024 switches already have 523,776 links.
const MOST: usize = 1024;

/// Switches `sw0`, `sw1`, ..., each linked to every other.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FullyConnected {
    /// Number of switches; by default one for each requester-device pair.
    #[schemars(range(min = 1, max = MOST))]
    pub switches: Option<usize>,
    /// Switches to which the endpoints attach; `paired` by default, since this topology has no middle.
    pub placement: Placement,
}

impl Default for FullyConnected {
    fn default() -> Self {
        FullyConnected {
            switches: None,
            placement: Placement::Paired,
        }
    }
}

impl Topology for FullyConnected {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let default = one_per_pair(endpoints, 1);
        let switches = bounded("switches", self.switches, default, 1..=MOST)?;
        let mut graph = FabricGraph::new(endpoints);
        graph.arrangement = Arrangement::Circle;
        for i in 0..switches {
            graph.add_switch(format!("sw{i}"), 0);
        }
        for a in 0..switches {
            for b in a + 1..switches {
                graph.add_link(a, b);
            }
        }
        self.placement.attach_halves(&mut graph, switches);
        Ok(graph)
    }
}
