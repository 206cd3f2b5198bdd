//! The edges that a loop processes, in order, loaded ahead of the loop as
//! an out-of-order core does.
//!
//! Three loads depend on each other: the range of a vertex's neighbours, a neighbour, and the
//! data that the kernel keeps for the neighbour. Each of the three runs ahead by a window of
//! its own, across vertices, because most vertices have few neighbours. The loop always
//! awaits the oldest load.

use std::collections::VecDeque;

use super::Run;
use crate::thread::{Handle, Value};

/// Vertices whose ranges of neighbours are loaded ahead (*assumed*).
const VERTICES_AHEAD: usize = 8;

/// The next item of a loop over some vertices and their edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A vertex with its degree; its edges follow.
    Vertex { vertex: u64, degree: u64 },
    /// An edge of the last vertex: its index among all edges, its target vertex, and the
    /// data loaded for it.
    Edge { edge: u64, to: u64, value: u64 },
}

enum Near<'t> {
    Vertex(u64, u64),
    Edge(u64, Value<'t>),
}

enum Far<'t> {
    Vertex(u64, u64),
    Edge(u64, u64, Option<Value<'t>>),
}

/// The ranges of neighbours of some vertices, loaded ahead.
pub(super) struct Rows<'t, V> {
    t: &'t Handle,
    offsets: u64,
    vertices: V,
    ahead: VecDeque<(u64, Value<'t>, Value<'t>)>,
}

impl<'t, V: Iterator<Item = u64>> Rows<'t, V> {
    pub(super) fn new(t: &'t Handle, run: &Run, vertices: V) -> Rows<'t, V> {
        Rows {
            t,
            offsets: run.offsets,
            vertices,
            ahead: VecDeque::with_capacity(VERTICES_AHEAD),
        }
    }

    /// The next vertex, the index of its first neighbour, and the index after its last neighbour.
    pub(super) async fn next(&mut self) -> Option<(u64, u64, u64)> {
        while self.ahead.len() < VERTICES_AHEAD
            && let Some(vertex) = self.vertices.next()
        {
            let at = self.offsets + 8 * vertex;
            let row = (vertex, self.t.load(at), self.t.load(at + 8));
            self.ahead.push_back(row);
        }
        let (vertex, first, end) = self.ahead.pop_front()?;
        Some((vertex, first.await, end.await))
    }
}

/// The edges of some vertices, each with the data that the kernel keeps for it. `kept`
/// returns the address and the size of the data from the edge's index and its target vertex,
/// or `None` for no data.
pub(super) struct Edges<'t, V, K> {
    t: &'t Handle,
    neighbours: u64,
    window: usize,
    rows: Rows<'t, V>,
    /// Edges of the latest vertex whose neighbours have not been loaded.
    open: std::ops::Range<u64>,
    near: VecDeque<Near<'t>>,
    far: VecDeque<Far<'t>>,
    kept: K,
}

impl<'t, V, K> Edges<'t, V, K>
where
    V: Iterator<Item = u64>,
    K: Fn(u64, u64) -> Option<(u64, u8)>,
{
    pub(super) fn new(t: &'t Handle, run: &Run, vertices: V, kept: K) -> Edges<'t, V, K> {
        let window = run.params.outstanding as usize;
        Edges {
            t,
            neighbours: run.neighbours,
            window,
            rows: Rows::new(t, run, vertices),
            open: 0..0,
            near: VecDeque::with_capacity(window),
            far: VecDeque::with_capacity(window),
            kept,
        }
    }

    /// Returns the next vertex or edge; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Item> {
        while self.far.len() < self.window {
            self.look_ahead().await;
            match self.near.pop_front() {
                Some(Near::Vertex(vertex, degree)) => {
                    self.far.push_back(Far::Vertex(vertex, degree));
                }
                Some(Near::Edge(edge, to)) => {
                    let to = to.await;
                    let kept = (self.kept)(edge, to);
                    let value = kept.map(|(addr, size)| self.t.load_sized(addr, size));
                    self.far.push_back(Far::Edge(edge, to, value));
                }
                None => break,
            }
        }
        Some(match self.far.pop_front()? {
            Far::Vertex(vertex, degree) => Item::Vertex { vertex, degree },
            Far::Edge(edge, to, value) => {
                let value = match value {
                    Some(value) => value.await,
                    None => 0,
                };
                Item::Edge { edge, to, value }
            }
        })
    }

    /// Issues loads of neighbours up to the window.
    async fn look_ahead(&mut self) {
        while self.near.len() < self.window {
            if let Some(edge) = self.open.next() {
                let load = self.t.load_sized(self.neighbours + 4 * edge, 4);
                self.near.push_back(Near::Edge(edge, load));
            } else if let Some((vertex, first, end)) = self.rows.next().await {
                self.open = first..end;
                self.near.push_back(Near::Vertex(vertex, end - first));
            } else {
                break;
            }
        }
    }

    /// Skips the remaining edges of the vertex; their loads have been useless.
    pub(super) fn skip(&mut self) {
        while let Some(Far::Edge(..)) = self.far.front() {
            self.far.pop_front();
        }
        if !self.far.is_empty() {
            return;
        }
        while let Some(Near::Edge(..)) = self.near.front() {
            self.near.pop_front();
        }
        if self.near.is_empty() {
            self.open = 0..0;
        }
    }
}

/// A sorted list of neighbours, loaded ahead, of which the first can be examined and removed.
pub(super) struct List<'t> {
    t: &'t Handle,
    addr: u64,
    left: std::ops::Range<u64>,
    ahead: VecDeque<Value<'t>>,
    window: usize,
    first: Option<u64>,
}

impl<'t> List<'t> {
    /// The list of the neighbours at these indices.
    pub(super) fn new(t: &'t Handle, run: &Run, places: std::ops::Range<u64>) -> List<'t> {
        List {
            t,
            addr: run.neighbours,
            left: places,
            ahead: VecDeque::new(),
            window: run.params.outstanding as usize,
            first: None,
        }
    }

    /// The first neighbour that has not been removed; `None` at the end.
    pub(super) async fn first(&mut self) -> Option<u64> {
        if self.first.is_none() {
            while self.ahead.len() < self.window
                && let Some(place) = self.left.next()
            {
                self.ahead
                    .push_back(self.t.load_sized(self.addr + 4 * place, 4));
            }
            self.first = Some(self.ahead.pop_front()?.await);
        }
        self.first
    }

    /// Removes the first neighbour.
    pub(super) fn take(&mut self) {
        self.first = None;
    }
}
