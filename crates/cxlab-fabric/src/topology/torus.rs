//! A torus: a grid of switches whose dimensions are closed to rings.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Placement, Topology, build_from, grid, schema_of};
use crate::graph::{Endpoints, FabricGraph};

pub(super) const ENTRY: Entry<Box<dyn Topology>> = Entry {
    name: "torus",
    summary: "a mesh whose rows, columns and files are closed to rings",
    schema: schema_of::<Torus>,
    build: build_from::<Torus>,
};

/// Switches `sw0`, `sw1`, ... at the points of a grid, numbered with the first dimension fastest. A dimension
/// of length 2 has no second link.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Torus {
    /// Two or three lengths, such as `[4, 4]`. By default the nearly square grid with a switch for
    /// each requester-device pair.
    pub dimensions: Option<Vec<usize>>,
    /// Switches to which the endpoints attach.
    pub placement: Placement,
}

impl Topology for Torus {
    fn build(&self, endpoints: &Endpoints) -> Result<FabricGraph, ParamError> {
        let mut graph = grid::build(self.dimensions.as_deref(), true, endpoints)?;
        let switches = graph.switches.len();
        self.placement.attach_halves(&mut graph, switches);
        Ok(graph)
    }
}
