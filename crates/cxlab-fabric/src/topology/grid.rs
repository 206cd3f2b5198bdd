//! The grid of mesh and torus: switches at the points of a 2-D or 3-D grid.

use cxlab_engine::catalog::ParamError;

use super::size::{MAX_SWITCHES, one_per_pair};
use crate::graph::{Arrangement, Endpoints, FabricGraph};

/// Builds switches `sw0`, `sw1`, ..., numbered with the first dimension fastest and linked to the next one
/// in each dimension. `wrap` closes each dimension of 3 or more to a ring (in a dimension of 2 the two
/// switches are already linked).
pub(super) fn build(
    dimensions: Option<&[usize]>,
    wrap: bool,
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
        let endpoints = Endpoints::numbered(1, 1);
        for (x, y, z) in [(4, 4, 1), (3, 2, 5), (3, 3, 3)] {
            let mesh = build(Some(&[x, y, z]), false, &endpoints).unwrap();
            assert_eq!(
                mesh.links.len(),
                (x - 1) * y * z + x * (y - 1) * z + x * y * (z - 1)
            );
        }
        assert_eq!(
            build(Some(&[4, 4]), true, &endpoints).unwrap().links.len(),
            32
        );
        assert_eq!(
            build(Some(&[3, 3, 3]), true, &endpoints)
                .unwrap()
                .links
                .len(),
            81
        );
        assert!(build(Some(&[4, 0]), false, &endpoints).is_err());
        assert!(build(Some(&[usize::MAX, 2]), false, &endpoints).is_err());
        assert!(build(Some(&[4]), false, &endpoints).is_err());
    }
}
