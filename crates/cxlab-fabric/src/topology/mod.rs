//! The catalog of topologies: the number of switches, the links between them, and the attachment of each
//! endpoint. An entry's file has its parameters, the home of its defaults.

mod chain;
mod custom;
mod direct;
mod dragonfly;
mod fully_connected;
mod grid;
mod placement;
mod ring;
mod ring_star;
mod size;
mod spine_leaf;
mod tree;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::graph::{Endpoints, FabricGraph};
use placement::Placement;

/// An arrangement of switches, links and endpoints.
pub trait Topology: std::fmt::Debug + Send + Sync {
    /// Builds the fabric for these endpoints.
    ///
    /// # Errors
    /// A [`ParamError`] if the parameters do not fit the endpoints.
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError>;
}

/// Every topology, in the order of `cxlab list`.
pub static CATALOG: &[Entry<Box<dyn Topology>>] = &[
    direct::ENTRY,
    chain::ENTRY,
    tree::ENTRY,
    ring::ENTRY,
    ring_star::ENTRY,
    grid::MESH,
    grid::TORUS,
    spine_leaf::ENTRY,
    fully_connected::ENTRY,
    dragonfly::ENTRY,
    custom::ENTRY,
];

/// The entry of a topology with parameters `P`.
const fn entry<P: Topology + JsonSchema + DeserializeOwned + 'static>(
    name: &'static str,
    summary: &'static str,
) -> Entry<Box<dyn Topology>> {
    Entry {
        name,
        summary,
        schema: P::json_schema,
        build: |params| Ok(Box::new(read_params::<P>(params)?)),
    }
}
