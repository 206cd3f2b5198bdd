//! A chain: switches in a row.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, bounded, one_per_pair};
use super::{Placement, Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> =
    entry::<Chain>("chain", "switches in a row, each linked to the next");

/// Switches `sw0`, `sw1`, ... in a row.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Chain {
    /// Number of switches; by default one for each requester-device pair.
    #[schemars(range(min = 1, max = MAX_SWITCHES))]
    pub switches: Option<usize>,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Topology for Chain {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let default = one_per_pair(endpoints, 1);
        let switches = bounded("switches", self.switches, default, 1..=MAX_SWITCHES)?;
        let mut graph = FabricGraph::new(endpoints);
        graph.arrangement = Arrangement::Line;
        for i in 0..switches {
            graph.add_switch(format!("sw{i}"), 0);
        }
        for i in 1..switches {
            graph.add_link(i - 1, i);
        }
        self.placement.attach_halves(&mut graph, switches);
        Ok(graph)
    }
}
