//! The graph: Kronecker edges as Graph500 and GAPBS draw them, stored in compressed sparse rows.

use cxlab_engine::rng::StreamRng;

/// Probabilities of the four quarters of a Kronecker edge: Graph500, and GAPBS (`generator.h`).
/// The fourth is 0.05.
const A: f64 = 0.57;
const B: f64 = 0.19;
const C: f64 = 0.19;

/// An undirected graph without loops and without parallel edges. The neighbours of each vertex
/// are in ascending order.
pub(super) struct Graph {
    /// By vertex, the index of its first neighbour; one entry more than vertices.
    pub(super) offsets: Vec<u64>,
    /// The neighbours of all vertices, one list after the other.
    pub(super) neighbours: Vec<u32>,
}

impl Graph {
    /// Makes a Kronecker graph of 2^`scale` vertices from `degree` edges for each vertex. The
    /// vertices are permuted, both directions of an edge are kept, and loops and repetitions are
    /// dropped, as in GAPBS (`MakeRMatEL`, `SquishGraph`).
    pub(super) fn kronecker(scale: u32, degree: u32, seed: u64) -> Graph {
        let vertices = 1usize << scale;
        let mut rng = StreamRng::new(seed, "gapbs/kronecker");
        let mut names: Vec<u32> = (0..vertices as u32).collect();
        for last in (1..vertices).rev() {
            names.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); vertices];
        for _ in 0..vertices as u64 * u64::from(degree) {
            let (from, to) = edge(scale, &mut rng);
            let (from, to) = (names[from], names[to]);
            if from != to {
                rows[from as usize].push(to);
                rows[to as usize].push(from);
            }
        }
        let mut graph = Graph {
            offsets: vec![0],
            neighbours: Vec::new(),
        };
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            graph.neighbours.extend(row);
            graph.offsets.push(graph.neighbours.len() as u64);
        }
        graph
    }

    /// The number of vertices.
    pub(super) fn vertices(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// The neighbours of a vertex.
    pub(super) fn of(&self, vertex: u64) -> &[u32] {
        let (first, end) = (
            self.offsets[vertex as usize],
            self.offsets[vertex as usize + 1],
        );
        &self.neighbours[first as usize..end as usize]
    }

    /// A vertex with neighbours, drawn from the seed as GAPBS draws sources; 0 if
    /// no vertex has neighbours.
    pub(super) fn source(&self, seed: u64) -> u64 {
        if self.neighbours.is_empty() {
            return 0;
        }
        let mut rng = StreamRng::new(seed, "gapbs/source");
        loop {
            let vertex = rng.below(self.vertices());
            if !self.of(vertex).is_empty() {
                return vertex;
            }
        }
    }

    /// By vertex, the number of edges from `source`; `None` if there is no path.
    pub(super) fn distances(&self, source: u64) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.vertices() as usize];
        distances[source as usize] = Some(0);
        let mut reached = vec![source];
        let mut next = 0;
        while next < reached.len() {
            let vertex = reached[next];
            next += 1;
            let further = distances[vertex as usize].map(|far| far + 1);
            for &neighbour in self.of(vertex) {
                if distances[neighbour as usize].is_none() {
                    distances[neighbour as usize] = further;
                    reached.push(neighbour.into());
                }
            }
        }
        distances
    }

    /// By vertex, the vertex with the smallest number in its component.
    pub(super) fn components(&self) -> Vec<u32> {
        let mut found = vec![u32::MAX; self.vertices() as usize];
        for first in 0..self.vertices() as u32 {
            if found[first as usize] != u32::MAX {
                continue;
            }
            found[first as usize] = first;
            let mut open = vec![first];
            while let Some(vertex) = open.pop() {
                for &neighbour in self.of(vertex.into()) {
                    if found[neighbour as usize] == u32::MAX {
                        found[neighbour as usize] = first;
                        open.push(neighbour);
                    }
                }
            }
        }
        found
    }
}

/// Draws the two vertices of one edge, before the vertices are permuted.
fn edge(scale: u32, rng: &mut StreamRng) -> (usize, usize) {
    let (mut from, mut to) = (0, 0);
    for _ in 0..scale {
        let at = rng.unit();
        (from, to) = (2 * from, 2 * to);
        if at >= A + B + C {
            (from, to) = (from + 1, to + 1);
        } else if at >= A + B {
            from += 1;
        } else if at >= A {
            to += 1;
        }
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_go_both_ways_once_and_never_back_to_their_vertex() {
        for (scale, degree) in [(0, 3), (1, 2), (6, 4), (9, 16)] {
            let graph = Graph::kronecker(scale, degree, 3);
            assert_eq!(graph.vertices(), 1 << scale);
            for vertex in 0..graph.vertices() {
                let row = graph.of(vertex);
                assert!(row.is_sorted_by(|a, b| a < b), "{row:?}");
                for &neighbour in row {
                    assert_ne!(u64::from(neighbour), vertex);
                    assert!(graph.of(neighbour.into()).contains(&(vertex as u32)));
                }
            }
        }
    }

    /// A Kronecker graph is skewed: with the probabilities of the quarters, a few vertices have
    /// most of the edges.
    #[test]
    fn a_tenth_of_the_vertices_has_more_than_half_of_the_edges() {
        let graph = Graph::kronecker(10, 16, 1);
        let mut degrees: Vec<usize> = (0..1024).map(|vertex| graph.of(vertex).len()).collect();
        degrees.sort_unstable();
        let most: usize = degrees[1024 - 102..].iter().sum();
        assert!(
            2 * most > graph.neighbours.len(),
            "{most} of {}",
            graph.neighbours.len()
        );
        // Repetitions are dropped: fewer than both directions of all edges remain, but more
        // than half of that.
        assert!((1024 * 16..2 * 1024 * 16).contains(&graph.neighbours.len()));
    }

    #[test]
    fn distances_differ_by_at_most_one_along_an_edge_and_components_agree_with_them() {
        let graph = Graph::kronecker(8, 2, 5);
        let source = graph.source(5);
        assert!(!graph.of(source).is_empty());
        let (distances, components) = (graph.distances(source), graph.components());
        for vertex in 0..graph.vertices() {
            let here = distances[vertex as usize];
            let together = components[vertex as usize] == components[source as usize];
            assert_eq!(here.is_some(), together);
            for &neighbour in graph.of(vertex) {
                let there = distances[neighbour as usize];
                assert!(here.zip(there).is_none_or(|(a, b)| a.abs_diff(b) <= 1));
            }
        }
    }
}
