//! Placement: the node of a page that is touched for the first time.
//!
//! A policy names the first node to try and the nodes allowed as fallback. The allocator follows
//! the fallback order of that node ([`crate::frames::FrameAllocator::allocate`]). Linux's memory policies
//! make the same division (`set_mempolicy(2)`, `mm/mempolicy.c`). Adding a policy is a new file,
//! its `mod`, and its line in [`CATALOG`].

mod bind;
mod interleave;
mod near;
mod preferred;

#[cfg(test)]
mod laws;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frames::{NodeId, NodePreference, NodeSet};

/// The first touch of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstTouch {
    /// Node of the processor or accelerator that touches the page.
    pub by: NodeId,
    /// Node of the processor that runs the process and handles the fault.
    pub home: NodeId,
    /// Number of the page in its mapping, counted in pages of its size.
    pub index: u64,
}

/// The state of a policy in one process or one mapping. It is saved as a whole: a mapping's policy
/// is created during the run, so a restored system has no object to restore into.
#[derive(Clone, Serialize, Deserialize)]
pub struct Placement(State);

/// One variant for each kind of policy.
#[derive(Clone, Serialize, Deserialize)]
enum State {
    Near(near::NearState),
    Preferred(preferred::PreferredState),
    Bind(bind::BindState),
    Turns(interleave::InterleaveState),
}

impl Placement {
    /// Nodes for a page that is touched.
    pub fn place(&mut self, touch: FirstTouch) -> NodePreference {
        match &mut self.0 {
            State::Near(state) => state.place(touch),
            State::Preferred(state) => state.place(touch),
            State::Bind(state) => state.place(touch),
            State::Turns(state) => state.place(touch),
        }
    }
}

/// A policy with its parameters.
pub trait PlacementPolicy: Send + Sync {
    /// Checks that the policy can be used with these nodes.
    ///
    /// # Errors
    /// The parameter that names an unknown node or is illegal.
    fn check(&self, _nodes: NodeSet) -> Result<(), ParamError> {
        Ok(())
    }
    /// Initial state of the policy. Only after [`PlacementPolicy::check`] succeeded.
    fn state(&self, nodes: NodeSet) -> Placement;
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

/// The entry of the policy with parameters `P` in the catalog.
const fn entry<P>(name: &'static str, summary: &'static str) -> Entry<Box<dyn PlacementPolicy>>
where
    P: PlacementPolicy + DeserializeOwned + JsonSchema + 'static,
{
    Entry {
        name,
        summary,
        schema: P::json_schema,
        build: |params| Ok(Box::new(read_params::<P>(params)?)),
    }
}

/// Checks that all named nodes exist, and that at least one is named.
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

/// The set of nodes with these numbers.
fn set(names: &[u16]) -> NodeSet {
    names.iter().map(|name| NodeId(*name)).collect()
}
