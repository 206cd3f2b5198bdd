//! A star of rings: circles of switches around one hub.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, bounded, one_per_pair, within};
use super::{Placement, Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = entry::<RingStar>(
    "ring-star",
    "a star of rings: one switch of each ring is linked to a hub",
);

/// Fewest rings with a way through the hub.
const LEAST_RINGS: usize = 2;
/// Fewest switches of a circle without a doubled link.
const LEAST_SWITCHES: usize = 3;

/// Switches `r0s0`, `r0s1`, ... (ring, and place on it), and `hub`. The hub is linked to place 0 of each ring
/// and has no endpoints. A split placement puts requesters on the first half of the rings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RingStar {
    /// Number of rings, at least 2; by default as many as give a switch to each requester-device pair.
    #[schemars(range(min = LEAST_RINGS))]
    pub rings: Option<usize>,
    /// Number of switches of each ring, at least 3. Default 4, *assumed*.
    #[schemars(range(min = LEAST_SWITCHES))]
    pub switches_per_ring: usize,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Default for RingStar {
    fn default() -> Self {
        RingStar {
            rings: None,
            switches_per_ring: 4,
            placement: Placement::default(),
        }
    }
}

impl Topology for RingStar {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let around = MAX_SWITCHES - 1;
        let (length, most) = (self.switches_per_ring, around / LEAST_RINGS);
        let length = within("switches_per_ring", length, LEAST_SWITCHES..=most)?;
        let default = one_per_pair(endpoints, 1).div_ceil(length);
        let rings = bounded("rings", self.rings, default, LEAST_RINGS..=around / length)?;
        let mut graph = FabricGraph::new(endpoints);
        let size = length;
        graph.arrangement = Arrangement::Rings { rings, size };
        for ring in 0..rings {
            for place in 0..length {
                graph.add_switch(format!("r{ring}s{place}"), 0);
            }
        }
        let hub = graph.add_switch("hub", 1);
        for ring in 0..rings {
            let first = ring * length;
            for place in 0..length {
                graph.add_link(first + place, first + (place + 1) % length);
            }
            graph.add_link(first, hub);
        }
        let edge: Vec<usize> = (0..hub).collect();
        self.placement.attach(&mut graph, &edge, rings / 2 * length);
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rings_of_four_meet_in_the_hub_and_requesters_are_on_the_first() {
        let graph = RingStar {
            rings: Some(3),
            ..RingStar::default()
        }
        .build(&Endpoints::numbered(4, 8))
        .unwrap();
        let hub = graph.switches.len() - 1;
        assert_eq!(graph.switches[hub].name, "hub");
        let (to_hub, on_rings): (Vec<_>, Vec<_>) =
            graph.links.iter().partition(|link| link.b == hub);
        let linked: Vec<_> = to_hub
            .iter()
            .map(|link| graph.switches[link.a].name.as_str())
            .collect();
        assert_eq!(linked, ["r0s0", "r1s0", "r2s0"]);
        assert_eq!(on_rings.len(), 3 * 4);
        assert!(on_rings.iter().all(|link| link.a / 4 == link.b / 4));
        let switches: Vec<_> = graph.attachments.iter().map(|a| a.switch).collect();
        assert_eq!(switches, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn rings_that_are_too_short_too_few_or_too_many_are_refused() {
        let error = |rings, switches_per_ring| {
            let star = RingStar {
                rings: Some(rings),
                switches_per_ring,
                ..RingStar::default()
            };
            let built = star.build(&Endpoints::numbered(2, 2));
            built.unwrap_err().to_string()
        };
        assert_eq!(
            error(2, 2),
            "`switches_per_ring`: found 2; allowed: 3 to 2047"
        );
        assert_eq!(error(1, 4), "`rings`: found 1; allowed: 2 to 1023");
        assert_eq!(error(1024, 4), "`rings`: found 1024; allowed: 2 to 1023");
    }
}
