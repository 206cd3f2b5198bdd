//! A ring: switches in a circle.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, bounded, one_per_pair};
use super::{Placement, Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = entry::<Ring>(
    "ring",
    "switches in a circle, each linked to its two neighbours",
);

/// Fewest switches of a circle without a doubled link.
const LEAST: usize = 3;

/// Switches `sw0`, `sw1`, ... in a circle. A split placement puts requesters on one arc and devices on the other.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ring {
    /// Number of switches, at least 3; by default one for each requester-device pair.
    #[schemars(range(min = LEAST, max = MAX_SWITCHES))]
    pub switches: Option<usize>,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Topology for Ring {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let default = one_per_pair(endpoints, LEAST);
        let switches = bounded("switches", self.switches, default, LEAST..=MAX_SWITCHES)?;
        let mut graph = FabricGraph::new(endpoints);
        graph.arrangement = Arrangement::Circle;
        for i in 0..switches {
            graph.add_switch(format!("sw{i}"), 0);
        }
        for i in 0..switches {
            graph.add_link(i, (i + 1) % switches);
        }
        self.placement.attach_halves(&mut graph, switches);
        Ok(graph)
    }
}
