//! Placement on a fixed set of nodes, without fallback.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FirstTouch, Placement, PlacementPolicy, State, entry, named, set};
use crate::frames::{NodePreference, NodeSet};

/// `MPOL_BIND`: the node of the set with space that is nearest to the toucher (since Linux 2.6.26).
pub(super) const ENTRY: Entry<Box<dyn PlacementPolicy>> = entry::<Bind>(
    "bind",
    "the nearest of these nodes, and no others: when they are full, memory is out",
);

/// Parameters of `bind`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Bind {
    /// The nodes, by number.
    nodes: Vec<u16>,
}

impl PlacementPolicy for Bind {
    fn check(&self, nodes: NodeSet) -> Result<(), ParamError> {
        named("nodes", &self.nodes, nodes)
    }

    fn state(&self, _nodes: NodeSet) -> Placement {
        let allowed = set(&self.nodes);
        Placement(State::Bind(BindState { allowed }))
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct BindState {
    allowed: NodeSet,
}

impl BindState {
    pub(super) fn place(&self, touch: FirstTouch) -> NodePreference {
        NodePreference {
            from: touch.by,
            first: NodeSet::NONE,
            allowed: self.allowed,
        }
    }
}
