//! Placement: the node of a page that is touched for the first time.
//!
//! A policy names the node to begin with and the nodes that may help out; the allocator goes down
//! that node's list of neighbours ([`crate::frames::Frames::allocate`]). That is the division of
//! Linux's memory policies (`set_mempolicy(2)`, `mm/mempolicy.c`). Adding a policy is a new file,
//! its `mod`, and its line in [`CATALOG`].

mod bind;
mod interleave;
mod near;
mod preferred;

#[cfg(test)]
mod laws;

use cxlab_engine::catalog::{Entry, ParamError};
use serde::{Deserialize, Serialize};

use crate::frames::{NodeId, NodeSet, Preference};

/// The first touch of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The node of the processor or accelerator that touches.
    pub by: NodeId,
    /// The node of the processor on which the process runs, which handles the fault.
    pub home: NodeId,
    /// The number of the page in its mapping, counted in pages of its size.
    pub index: u64,
}

/// A policy at work in one process or one mapping.
pub trait Placement: Send {
    /// Where the page should go.
    fn place(&mut self, touch: Touch) -> Preference;
    /// All that it is: a mapping's policy begins while a system runs, so that no other is there to be
    /// restored.
    fn saved(&self) -> PlacementState;
}

/// A policy at work as it is saved.
#[derive(Clone, Serialize, Deserialize)]
pub struct PlacementState(State);

/// One for each kind.
#[derive(Clone, Serialize, Deserialize)]
enum State {
    Near(near::NearState),
    Preferred(preferred::PreferredState),
    Bind(bind::BindState),
    Turns(interleave::Turns),
}

impl PlacementState {
    /// The policy that was saved.
    pub fn policy(self) -> Box<dyn Placement> {
        match self.0 {
            State::Near(state) => Box::new(state),
            State::Preferred(state) => Box::new(state),
            State::Bind(state) => Box::new(state),
            State::Turns(state) => Box::new(state),
        }
    }
}

/// A policy with its parameters.
pub trait PlacementPolicy: Send + Sync {
    /// Whether the policy can be used with these nodes.
    ///
    /// # Errors
    /// The parameter that names another node, or does not fit.
    fn check(&self, _nodes: NodeSet) -> Result<(), ParamError> {
        Ok(())
    }
    /// What it remembers. Only after [`PlacementPolicy::check`] agreed.
    fn state(&self, nodes: NodeSet) -> Box<dyn Placement>;
}

/// Every placement policy that a scenario can name.
pub static CATALOG: &[Entry<Box<dyn PlacementPolicy>>] = &[
    near::FIRST_TOUCH,
    near::LOCAL,
    interleave::INTERLEAVE,
    interleave::WEIGHTED,
    preferred::ENTRY,
    bind::ENTRY,
];

cxlab_engine::choice!(
    /// A placement policy and its parameters: a table with `kind`.
    PlacementChoice, CATALOG, Box<dyn PlacementPolicy>
);

impl Default for PlacementChoice {
    fn default() -> Self {
        PlacementChoice {
            kind: near::FIRST_TOUCH.name.to_owned(),
            params: serde_json::Map::new(),
        }
    }
}

/// The named nodes; all must exist, and one at least must be named.
fn named(field: &str, names: &[u16], nodes: NodeSet) -> Result<(), ParamError> {
    if names.is_empty() {
        return Err(ParamError::new(field, "must name at least one node"));
    }
    match names.iter().find(|name| !nodes.contains(NodeId(**name))) {
        Some(name) => {
            let known: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
            let known = known.join(", ");
            let text = format!("node {name} is none of {known}");
            Err(ParamError::new(field, text))
        }
        None => Ok(()),
    }
}

/// A set of nodes by their numbers.
fn set(names: &[u16]) -> NodeSet {
    names.iter().map(|name| NodeId(*name)).collect()
}
