//! Placement on preferred nodes, with fallback to all others.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FirstTouch, Placement, PlacementPolicy, State, entry, named, set};
use crate::frames::{NodeId, NodePreference, NodeSet};

/// `MPOL_PREFERRED` with one node, `MPOL_PREFERRED_MANY` with several.
pub(super) const ENTRY: Entry<Box<dyn PlacementPolicy>> = entry::<Preferred>(
    "preferred",
    "these nodes while they have room, then their neighbours",
);

/// Parameters of `preferred`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Preferred {
    /// The nodes, by number. With a single node, fallback is in the order of distance from that
    /// node. With several, the node nearest to the toucher comes first.
    nodes: Vec<u16>,
}

impl PlacementPolicy for Preferred {
    fn check(&self, nodes: NodeSet) -> Result<(), ParamError> {
        named("nodes", &self.nodes, nodes)
    }

    fn state(&self, nodes: NodeSet) -> Placement {
        let single = match self.nodes[..] {
            [node] => Some(NodeId(node)),
            _ => None,
        };
        let first = set(&self.nodes);
        Placement(State::Preferred(PreferredState {
            single,
            first,
            nodes,
        }))
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PreferredState {
    single: Option<NodeId>,
    first: NodeSet,
    nodes: NodeSet,
}

impl PreferredState {
    pub(super) fn place(&self, touch: FirstTouch) -> NodePreference {
        NodePreference {
            from: self.single.unwrap_or(touch.by),
            first: self.first,
            allowed: self.nodes,
        }
    }
}
