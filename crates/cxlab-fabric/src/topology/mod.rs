//! The catalog of topologies: the number of switches, the links between them, and the attachment of each
//! endpoint. Each entry is one file, whose parameters are the home of its defaults.

mod chain;
mod custom;
mod direct;
mod dragonfly;
mod fully_connected;
mod grid;
mod mesh;
mod placement;
mod ring;
mod ring_star;
mod size;
mod spine_leaf;
mod torus;
mod tree;

use cxlab_engine::catalog::{Entry, ParamError};

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
pub const CATALOG: &[Entry<Box<dyn Topology>>] = &[
    direct::ENTRY,
    chain::ENTRY,
    tree::ENTRY,
    ring::ENTRY,
    ring_star::ENTRY,
    mesh::ENTRY,
    torus::ENTRY,
    spine_leaf::ENTRY,
    fully_connected::ENTRY,
    dragonfly::ENTRY,
    custom::ENTRY,
];

/// The `schema` function of an entry with parameters `P`.
fn schema_of<P: schemars::JsonSchema>(
    generator: &mut schemars::SchemaGenerator,
) -> schemars::Schema {
    P::json_schema(generator)
}

/// The `build` function of an entry with parameters `P`.
fn build_from<P: Topology + serde::de::DeserializeOwned + 'static>(
    params: &serde_json::Value,
) -> Result<Box<dyn Topology>, ParamError> {
    Ok(Box::new(cxlab_engine::catalog::read_params::<P>(params)?))
}
