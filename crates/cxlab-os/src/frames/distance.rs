//! Distances between nodes, and the fallback order of each node.

use std::fmt;

use super::{MAX_NODES, NodeId};

/// Distance of a node from itself in a System Locality Information Table
/// (ACPI 6.5, section 5.2.17).
pub const LOCAL_DISTANCE: u8 = 10;

/// Distance of an unreachable node (same section).
pub const UNREACHABLE: u8 = 255;

/// Why a matrix is no table of distances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DistanceError {
    /// The matrix is not a square of 1 to 64 rows.
    Shape {
        /// Number of rows found.
        rows: usize,
        /// The first row of another length, if any.
        row: Option<usize>,
    },
    /// A value is illegal: the diagonal must be 10, other distances more.
    Value {
        /// Row of the value.
        from: usize,
        /// Column of the value.
        to: usize,
        /// The illegal value.
        found: u8,
    },
}

impl fmt::Display for DistanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DistanceError::Shape { rows, row: None } => {
                write!(f, "found {rows} nodes; allowed: 1 to {MAX_NODES}")
            }
            DistanceError::Shape {
                rows,
                row: Some(row),
            } => {
                write!(
                    f,
                    "row {row} does not have {rows} distances, one for each node"
                )
            }
            DistanceError::Value { from, to, found } if from == to => write!(
                f,
                "found distance {found} of node {from} from itself; it is {LOCAL_DISTANCE} by definition"
            ),
            DistanceError::Value { from, to, found } => write!(
                f,
                "found distance {found} from node {from} to node {to}; allowed: 11 to {UNREACHABLE}"
            ),
        }
    }
}

impl std::error::Error for DistanceError {}

/// Relative distances: 10 is local, 20 twice as far, 255 unreachable. Distances may be asymmetric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumaDistances {
    rows: Vec<Vec<u8>>,
}

impl NumaDistances {
    /// Distances as in a System Locality Information Table, row by row.
    ///
    /// # Errors
    /// The matrix is not square, or a value is not a distance.
    pub fn new(rows: Vec<Vec<u8>>) -> Result<NumaDistances, DistanceError> {
        let count = rows.len();
        if !(1..=MAX_NODES).contains(&count) {
            return Err(DistanceError::Shape {
                rows: count,
                row: None,
            });
        }
        for (from, row) in rows.iter().enumerate() {
            if row.len() != count {
                let row = Some(from);
                return Err(DistanceError::Shape { rows: count, row });
            }
            for (to, &found) in row.iter().enumerate() {
                let local = found == LOCAL_DISTANCE;
                if (from == to) != local || found < LOCAL_DISTANCE {
                    return Err(DistanceError::Value { from, to, found });
                }
            }
        }
        Ok(NumaDistances { rows })
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Always false: there is at least one node.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Distance between two nodes; [`UNREACHABLE`] for nodes that do not exist.
    pub fn get(&self, from: NodeId, to: NodeId) -> u8 {
        let row = self.rows.get(from.index());
        row.and_then(|row| row.get(to.index()))
            .copied()
            .unwrap_or(UNREACHABLE)
    }

    /// Fallback order of a node, nearest first, starting with the node itself: Linux's node
    /// order (`find_next_best_node` in `mm/page_alloc.c`). The cost of a node with processors
    /// is 1 higher, and so is that of a node with a lower number. Left out: the rotation of
    /// nodes at equal distance among the lists of different nodes (`node_load`). Unreachable
    /// nodes are not in the list.
    pub(super) fn zonelist(&self, from: NodeId, has_cpus: &[bool]) -> Vec<NodeId> {
        let cost = |to: NodeId| {
            let cpus = has_cpus.get(to.index()).copied().unwrap_or(false);
            u32::from(self.get(from, to)) + u32::from(to < from) + u32::from(cpus)
        };
        let mut list: Vec<NodeId> = (0..self.len())
            .map(|node| NodeId(node as u16))
            .filter(|to| self.get(from, *to) != UNREACHABLE)
            .collect();
        list.sort_by_key(|to| (*to != from, cost(*to), *to));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_nodes_come_first_and_those_without_processors_before_equals() {
        let rows = vec![
            vec![10, 20, 20, 17],
            vec![20, 10, 20, 255],
            vec![20, 20, 10, 20],
            vec![17, 20, 20, 10],
        ];
        let distances = NumaDistances::new(rows).unwrap();
        let numbers = |from| -> Vec<u16> {
            let list = distances.zonelist(NodeId(from), &[true, true, false, false]);
            list.iter().map(|node| node.0).collect()
        };
        assert_eq!(numbers(0), [0, 3, 2, 1]);
        assert_eq!(numbers(1), [1, 2, 0], "node 3 cannot be reached");
        assert_eq!(numbers(2), [2, 3, 0, 1]);
    }

    #[test]
    fn wrong_matrices_say_what_is_wrong() {
        let error = |rows| NumaDistances::new(rows).unwrap_err().to_string();
        assert!(error(vec![]).contains("1 to 64"));
        assert!(error(vec![vec![10, 20], vec![20]]).contains("row 1"));
        assert!(error(vec![vec![10, 10], vec![20, 10]]).contains("11 to 255"));
        assert!(error(vec![vec![12]]).contains("by definition"));
    }
}
