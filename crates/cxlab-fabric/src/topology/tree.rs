//! A tree of switches with the endpoints at its leaves.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, bounded, one_per_pair, within};
use super::{Placement, Topology, entry};
use crate::graph::{Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = entry::<Tree>(
    "tree",
    "a tree of switches, all leaves equally deep, endpoints at the leaves",
);

/// Leaves `leaf0`, `leaf1`, ..., inner switches `node1.0` (level and number), and `root`. All leaves are
/// equally deep, and children are spread evenly, so an inner switch has `arity` children or fewer. A split
/// placement puts requesters on the leaves under the first half of the root's children.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tree {
    /// Most children of a switch, at least 2. Default 2.
    #[schemars(range(min = 2, max = MAX_SWITCHES / 2))]
    pub arity: usize,
    /// Number of leaves, at least 2; by default one for each requester-device pair.
    #[schemars(range(min = 2, max = MAX_SWITCHES / 2))]
    pub leaves: Option<usize>,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            arity: 2,
            leaves: None,
            placement: Placement::default(),
        }
    }
}

impl Topology for Tree {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let most = MAX_SWITCHES / 2;
        let leaves = bounded("leaves", self.leaves, one_per_pair(endpoints, 2), 2..=most)?;
        let arity = within("arity", self.arity, 2..=most)?;
        let mut graph = FabricGraph::new(endpoints);
        // The switches of the current level, each with the number of leaves under it.
        let mut row: Vec<(usize, usize)> = (0..leaves)
            .map(|i| (graph.add_switch(format!("leaf{i}"), 0), 1))
            .collect();
        let mut level = 0;
        let mut middle = 0;
        while row.len() > 1 {
            level += 1;
            let parents = row.len().div_ceil(arity);
            if parents == 1 {
                middle = row[..row.len() / 2].iter().map(|(_, leaves)| leaves).sum();
            }
            let mut above = Vec::with_capacity(parents);
            for p in 0..parents {
                let name = if parents == 1 {
                    "root".into()
                } else {
                    format!("node{level}.{p}")
                };
                let parent = graph.add_switch(name, level);
                let children = &row[p * row.len() / parents..(p + 1) * row.len() / parents];
                for (child, _) in children {
                    graph.add_link(*child, parent);
                }
                above.push((parent, children.iter().map(|(_, leaves)| leaves).sum()));
            }
            row = above;
        }
        let edge: Vec<usize> = (0..leaves).collect();
        self.placement.attach(&mut graph, &edge, middle);
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_leaves_make_a_binary_tree_of_equal_depth_whose_left_half_holds_requesters() {
        let graph = Tree {
            leaves: Some(7),
            ..Tree::default()
        }
        .build(&Endpoints::numbered(6, 8))
        .unwrap();
        let names: Vec<_> = graph
            .switches
            .iter()
            .skip(7)
            .map(|s| s.name.as_str())
            .collect();
        let inner = [
            "node1.0", "node1.1", "node1.2", "node1.3", "node2.0", "node2.1", "root",
        ];
        assert_eq!(names, inner);
        assert_eq!(graph.links.len(), graph.switches.len() - 1);
        let requesters: Vec<_> = graph.attachments[..6].iter().map(|a| a.switch).collect();
        assert_eq!(requesters, [0, 0, 1, 1, 2, 2]);
        let devices: Vec<_> = graph.attachments[6..].iter().map(|a| a.switch).collect();
        assert_eq!(devices, [3, 3, 4, 4, 5, 5, 6, 6]);
    }
}
