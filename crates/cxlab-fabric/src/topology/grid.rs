//! Mesh and torus: switches at the points of a 2-D or 3-D grid. The dimensions of a torus are closed to rings.

use cxlab_engine::catalog::{Entry, ParamError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::size::{MAX_SWITCHES, one_per_pair};
use super::{Placement, Topology, entry};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

pub(super) const MESH: Entry<Box<dyn Topology>> = entry::<Mesh>(
    "mesh",
    "a 2-D or 3-D grid of switches, each linked to its neighbours",
);

pub(super) const TORUS: Entry<Box<dyn Topology>> = entry::<Torus>(
    "torus",
    "a mesh whose rows, columns and files are closed to rings",
);

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
        build(self.dimensions.as_deref(), false, self.placement, endpoints)
    }
}

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
        build(self.dimensions.as_deref(), true, self.placement, endpoints)
    }
}

/// Builds switches `sw0`, `sw1`, ..., numbered with the first dimension fastest and linked to the next one
/// in each dimension. `wrap` closes each dimension of 3 or more to a ring (in a dimension of 2 the two
/// switches are already linked).
fn build(
    dimensions: Option<&[usize]>,
    wrap: bool,
    placement: Placement,
    endpoints: &Endpoints,
) -> Result<FabricGraph, ParamError> {
    let dimensions = match dimensions {
        Some(given) => checked(given)?,
        None => near_square(one_per_pair(endpoints, 1))?,
    };
    let mut graph = FabricGraph::new(endpoints);
    graph.arrangement = Arrangement::Grid(dimensions.clone());
    for i in 0..dimensions.iter().product() {
        graph.add_switch(format!("sw{i}"), 0);
    }
    for i in 0..graph.switches.len() {
        let mut stride = 1;
        for length in &dimensions {
            let position = i / stride % length;
            if position + 1 < *length {
                graph.add_link(i, i + stride);
            } else if wrap && *length > 2 {
                graph.add_link(i, i - position * stride);
            }
            stride *= length;
        }
    }
    let switches = graph.switches.len();
    placement.attach_halves(&mut graph, switches);
    Ok(graph)
}

/// Checks that there are two or three dimensions whose product is an allowed number of switches.
fn checked(given: &[usize]) -> Result<Vec<usize>, ParamError> {
    let switches = given
        .iter()
        .try_fold(1_usize, |product, length| product.checked_mul(*length));
    match switches {
        Some(1..=MAX_SWITCHES) if (2..=3).contains(&given.len()) => Ok(given.to_vec()),
        _ => Err(ParamError::new(
            "dimensions",
            format!("{given:?} is not 2 or 3 lengths whose product is from 1 to {MAX_SWITCHES}"),
        )),
    }
}

/// The flattest rectangle with nearly equal sides that has room for `switches` switches.
fn near_square(switches: usize) -> Result<Vec<usize>, ParamError> {
    let side = switches.isqrt();
    let width = if side * side == switches {
        side
    } else {
        side + 1
    };
    checked(&[width, switches.div_ceil(width)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_near_square_and_hold_every_pair() {
        let cases = [
            (1, [1, 1]),
            (2, [2, 1]),
            (5, [3, 2]),
            (7, [3, 3]),
            (16, [4, 4]),
            (17, [5, 4]),
        ];
        for (switches, dimensions) in cases {
            assert_eq!(near_square(switches).unwrap(), dimensions);
        }
    }

    #[test]
    fn a_grid_has_the_links_of_its_formula() {
        let built = |lengths: &[usize], wrap| {
            let endpoints = Endpoints::numbered(1, 1);
            build(Some(lengths), wrap, Placement::Paired, &endpoints)
        };
        let links = |lengths: &[usize], wrap| built(lengths, wrap).unwrap().links.len();
        for (x, y, z) in [(4, 4, 1), (3, 2, 5), (3, 3, 3)] {
            let expected = (x - 1) * y * z + x * (y - 1) * z + x * y * (z - 1);
            assert_eq!(links(&[x, y, z], false), expected, "{x} x {y} x {z}");
        }
        assert_eq!(links(&[4, 4], true), 32);
        assert_eq!(links(&[3, 3, 3], true), 81);
        for lengths in [&[4, 0][..], &[usize::MAX, 2], &[4]] {
            assert!(built(lengths, false).is_err(), "{lengths:?}");
        }
    }
}
