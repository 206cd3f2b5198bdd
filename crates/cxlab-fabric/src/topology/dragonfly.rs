//! Dragonfly: groups of fully connected routers, with links between every two groups.
//!
//! After J. Kim, W. Dally, S. Scott, D. Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA
//! 2008. Left out: the paper's non-minimal (Valiant) routing for adversarial traffic.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, bounded, one_per_pair, within};
use super::{Placement, Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = entry::<Dragonfly>(
    "dragonfly",
    "groups of fully connected switches, with links between every two groups",
);

/// Switches `g0r0`, `g0r1`, ... (group and router). Each group has `routers_per_group` x `global_links`
/// global ports, at least as many as there are other groups. The ports are divided evenly among the other
/// groups, and remaining ports stay unused.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dragonfly {
    /// Number of groups, at least 2; by default as many as give a switch to each requester-device pair.
    #[schemars(range(min = 2, max = MAX_SWITCHES))]
    pub groups: Option<usize>,
    /// Number of switches of a group, all linked to each other. By default the fewest for which the largest
    /// dragonfly (one group more than a group has global ports) is large enough.
    #[schemars(range(min = 1, max = MAX_SWITCHES / 2))]
    pub routers_per_group: Option<usize>,
    /// Number of global links of each router. Default 1, *assumed*.
    #[schemars(range(min = 1, max = MAX_SWITCHES))]
    pub global_links: usize,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Default for Dragonfly {
    fn default() -> Self {
        Dragonfly {
            groups: None,
            routers_per_group: None,
            global_links: 1,
            placement: Placement::default(),
        }
    }
}

impl Topology for Dragonfly {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let (groups, routers, global) = self.shape(endpoints)?;
        let mut graph = FabricGraph::new(endpoints);
        graph.arrangement = Arrangement::Sectors { size: routers };
        for group in 0..groups {
            for router in 0..routers {
                graph.add_switch(format!("g{group}r{router}"), 0);
            }
        }
        for group in 0..groups {
            for a in 0..routers {
                for b in a + 1..routers {
                    graph.add_link(group * routers + a, group * routers + b);
                }
            }
        }
        // Global port k of a group leads to the group k mod (groups - 1) + 1 places on.
        let rounds = routers * global / (groups - 1);
        for a in 0..groups {
            for b in a + 1..groups {
                for round in 0..rounds {
                    let there = round * (groups - 1) + (b - a) - 1;
                    let back = round * (groups - 1) + (groups - (b - a)) - 1;
                    graph.add_link(a * routers + there / global, b * routers + back / global);
                }
            }
        }
        self.placement.attach_halves(&mut graph, groups * routers);
        Ok(graph)
    }
}

impl Dragonfly {
    /// Number of groups, of routers in a group, and of global links of a router.
    fn shape(&self, endpoints: &Endpoints) -> Result<(usize, usize, usize), ParamError> {
        let wanted = one_per_pair(endpoints, 2);
        let global = within("global_links", self.global_links, 1..=MAX_SWITCHES)?;
        let enough = |routers: &usize| match self.groups {
            Some(groups) => routers * global + 1 >= groups && routers * groups >= wanted,
            None => routers * (routers * global + 1) >= wanted,
        };
        let default = (1..MAX_SWITCHES).find(enough).unwrap_or(MAX_SWITCHES);
        let given = self.routers_per_group;
        let routers = bounded("routers_per_group", given, default, 1..=MAX_SWITCHES / 2)?;
        let most = (routers * global + 1).min(MAX_SWITCHES / routers);
        let default = wanted.div_ceil(routers);
        let groups = bounded("groups", self.groups, default, 2..=most.max(2))?;
        Ok((groups, routers, global))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_dragonfly_has_one_link_between_every_two_groups() {
        // a = 4 routers, h = 2 global links: 9 groups (Kim et al., section 3).
        let graph = Dragonfly {
            groups: Some(9),
            routers_per_group: Some(4),
            global_links: 2,
            ..Dragonfly::default()
        }
        .build(&Endpoints::numbered(8, 8))
        .unwrap();
        assert_eq!(graph.links.len(), 9 * 6 + 36);
        let mut global = vec![0; 36];
        for link in &graph.links[54..] {
            assert_ne!(link.a / 4, link.b / 4);
            global[link.a] += 1;
            global[link.b] += 1;
        }
        assert!(global.iter().all(|links| *links == 2), "{global:?}");
    }

    #[test]
    fn more_groups_than_global_ports_reach_are_refused() {
        let dragonfly = Dragonfly {
            groups: Some(6),
            routers_per_group: Some(4),
            ..Dragonfly::default()
        };
        let error = dragonfly.build(&Endpoints::numbered(8, 8)).unwrap_err();
        assert_eq!(error.to_string(), "`groups`: found 6; allowed: 2 to 5");
    }
}
