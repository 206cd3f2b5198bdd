//! A mesh: a grid of switches.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Placement, Topology, build_from, grid, schema_of};
use crate::graph::{Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = Entry {
    name: "mesh",
    summary: "a 2-D or 3-D grid of switches, each linked to its neighbours",
    schema: schema_of::<Mesh>,
    build: build_from::<Mesh>,
};

/// Switches `sw0`, `sw1`, ... at the points of a grid, numbered with the first dimension fastest.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mesh {
    /// Two or three lengths, such as `[4, 4]`. By default the nearly square grid with a switch for
    /// each requester-device pair.
    pub dimensions: Option<Vec<usize>>,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Topology for Mesh {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let mut graph = grid::build(self.dimensions.as_deref(), false, endpoints)?;
        let switches = graph.switches.len();
        self.placement.attach_halves(&mut graph, switches);
        Ok(graph)
    }
}
