//! Interleaved placement over nodes, evenly or by weight.

use cxlab_engine::catalog::{Entry, ParamError, refused};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FirstTouch, Placement, PlacementPolicy, State, entry, named};
use crate::frames::{NodeId, NodePreference, NodeSet};

/// `MPOL_INTERLEAVE`.
pub(super) const INTERLEAVE: Entry<Box<dyn PlacementPolicy>> = entry::<Interleave>(
    "interleave",
    "nodes in turns; a full node is helped out by its neighbours",
);

/// `MPOL_WEIGHTED_INTERLEAVE` (Linux 6.9, `/sys/kernel/mm/mempolicy/weighted_interleave`).
pub(super) const WEIGHTED: Entry<Box<dyn PlacementPolicy>> = entry::<Weighted>(
    "weighted-interleave",
    "nodes in turns, so many pages each, in the proportion of their bandwidth",
);

/// Index that selects the node of a page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
enum Order {
    /// Number of first touches so far (Linux: the policy of a process).
    #[default]
    Touch,
    /// Number of the page in its mapping (Linux: the policy of a mapping).
    Offset,
}

/// Parameters of `interleave`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Interleave {
    /// The nodes, by number, in the order of interleaving (Linux uses ascending order).
    nodes: Vec<u16>,
    /// Index that selects the node. Default `touch`.
    #[serde(default)]
    order: Order,
}

/// Parameters of `weighted-interleave`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Weighted {
    /// The nodes, by number.
    nodes: Vec<u16>,
    /// Consecutive pages on each node, in the order of `nodes`. 1 to 255.
    weights: Vec<u8>,
    /// Index that selects the node. Default `touch`.
    #[serde(default)]
    order: Order,
}

impl PlacementPolicy for Interleave {
    fn check(&self, nodes: NodeSet) -> Result<(), ParamError> {
        named("nodes", &self.nodes, nodes)
    }

    fn state(&self, nodes: NodeSet) -> Placement {
        let turns = self.nodes.iter().map(|node| (NodeId(*node), 1));
        InterleaveState::start(turns, self.order, nodes)
    }
}

impl PlacementPolicy for Weighted {
    fn check(&self, nodes: NodeSet) -> Result<(), ParamError> {
        named("nodes", &self.nodes, nodes)?;
        let (found, expected) = (self.weights.len(), self.nodes.len());
        if found != expected {
            let text = format!("found {found} weights for {expected} nodes");
            return Err(ParamError::new("weights", text));
        }
        if self.weights.contains(&0) {
            return Err(refused("weights", 0, "1 to 255"));
        }
        Ok(())
    }

    fn state(&self, nodes: NodeSet) -> Placement {
        let weights = self.weights.iter().copied();
        let turns = self.nodes.iter().map(|node| NodeId(*node)).zip(weights);
        InterleaveState::start(turns, self.order, nodes)
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct InterleaveState {
    /// Nodes of one round, each as often as its weight.
    round: Vec<NodeId>,
    order: Order,
    touches: u64,
    nodes: NodeSet,
}

impl InterleaveState {
    fn start(turns: impl Iterator<Item = (NodeId, u8)>, order: Order, nodes: NodeSet) -> Placement {
        let repeat = |(node, weight)| std::iter::repeat_n(node, usize::from(weight));
        Placement(State::Turns(InterleaveState {
            round: turns.flat_map(repeat).collect(),
            order,
            touches: 0,
            nodes,
        }))
    }

    pub(super) fn place(&mut self, touch: FirstTouch) -> NodePreference {
        let number = match self.order {
            Order::Touch => self.touches,
            Order::Offset => touch.index,
        };
        self.touches += 1;
        let turn = (number % self.round.len().max(1) as u64) as usize;
        NodePreference {
            from: self.round.get(turn).copied().unwrap_or(touch.by),
            first: NodeSet::NONE,
            allowed: self.nodes,
        }
    }
}
