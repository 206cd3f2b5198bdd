//! Spine-leaf: two levels of switches, in which every leaf has a link to every spine.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, bounded, one_per_pair, within};
use super::{Placement, Topology, entry};
use crate::graph::{Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = entry::<SpineLeaf>(
    "spine-leaf",
    "two levels of switches, one link from every leaf to every spine",
);

/// Leaves `leaf0`, `leaf1`, ... to which the endpoints attach, and spines `spine0`, `spine1`, ... that join them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpineLeaf {
    /// Number of leaves; by default one for each requester-device pair, and at least 2.
    #[schemars(range(min = 1, max = MAX_SWITCHES / 2))]
    pub leaves: Option<usize>,
    /// Number of spines; by default computed from `oversubscription`.
    #[schemars(range(min = 1, max = MAX_SWITCHES / 2))]
    pub spines: Option<usize>,
    /// Edge ports of a leaf for each of its uplinks, if `spines` is not given. The number of spines is then
    /// the number of edge ports of the fullest leaf divided by this, rounded up. Default 2, *assumed*.
    #[schemars(range(min = 1, max = MAX_SWITCHES))]
    pub oversubscription: usize,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Default for SpineLeaf {
    fn default() -> Self {
        SpineLeaf {
            leaves: None,
            spines: None,
            oversubscription: 2,
            placement: Placement::default(),
        }
    }
}

impl Topology for SpineLeaf {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let half = MAX_SWITCHES / 2;
        let leaves = bounded("leaves", self.leaves, one_per_pair(endpoints, 2), 1..=half)?;
        let edge_ports = within("oversubscription", self.oversubscription, 1..=MAX_SWITCHES)?;
        let mut graph = FabricGraph::new(endpoints);
        for i in 0..leaves {
            graph.add_switch(format!("leaf{i}"), 0);
        }
        self.placement.attach_halves(&mut graph, leaves);
        let default = fullest(&graph).div_ceil(edge_ports).max(1);
        let spines = bounded("spines", self.spines, default, 1..=half)?;
        for i in 0..spines {
            let spine = graph.add_switch(format!("spine{i}"), 1);
            for leaf in 0..leaves {
                graph.add_link(leaf, spine);
            }
        }
        Ok(graph)
    }
}

/// Largest number of endpoints on one switch.
fn fullest(graph: &FabricGraph) -> usize {
    let mut ports = vec![0; graph.switches.len()];
    for attachment in &graph.attachments {
        ports[attachment.switch] += 1;
    }
    ports.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spines_follow_from_the_oversubscription_of_the_fullest_leaf() {
        // 16 requesters on 2 leaves make 8 edge ports each.
        for (oversubscription, spines) in [(1, 8), (2, 4), (3, 3), (100, 1)] {
            let graph = SpineLeaf {
                leaves: Some(4),
                oversubscription,
                ..SpineLeaf::default()
            }
            .build(&Endpoints::numbered(16, 16))
            .unwrap();
            assert_eq!(graph.switches.len(), 4 + spines);
            assert_eq!(graph.links.len(), 4 * spines);
        }
    }
}
