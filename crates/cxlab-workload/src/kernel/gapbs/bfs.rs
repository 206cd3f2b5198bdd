//! Direction-optimizing breadth-first search (Beamer, Asanović and Patterson, SC 2012; `bfs.cc`).
//!
//! In a top-down step, each vertex of the frontier claims its neighbours without parent by
//! compare-and-exchange. In a bottom-up step, used while the frontier is large, each vertex
//! without parent searches for one neighbour in the frontier. The parent entry of a vertex without
//! parent is its negated degree, so that the number of edges of the next frontier is known when
//! the vertex is claimed.

use std::collections::VecDeque;

use super::Run;
use super::edges::{Edges, Item, Rows};
use super::worker::Worker;
use crate::image::Image;
use crate::thread::Value;

/// The search changes to bottom-up when the frontier has more than 1/`ALPHA` of the
/// remaining edges, and back when the frontier has at most 1/`BETA` of the vertices (`alpha`
/// and `beta` of GAPBS).
const ALPHA: u64 = 15;
const BETA: u64 = 18;

const PARENT: usize = 0;
const QUEUE: usize = 1;
const FRONT: usize = 2;
const NEXT: usize = 3;

/// Bytes of the arrays: parents and queue with 4 B for each vertex, and two sets of vertices
/// with a bit each.
pub(super) fn arrays(n: u64) -> Vec<u64> {
    vec![4 * n, 4 * n, 8 * n.div_ceil(64), 8 * n.div_ceil(64)]
}

/// Whether a parent entry is negative: the vertex has no parent.
fn is_free(parent: u64) -> bool {
    (parent as u32).cast_signed() < 0
}

pub(super) async fn run(worker: &mut Worker<'_>) {
    let (t, run) = (worker.t, worker.run);
    let source = run.source();
    begin(worker).await;
    let mut left = t.load(run.offsets + 8 * run.n).await;
    let mut scout = degree(worker, source).await;
    if worker.is_first() {
        worker.store(worker.at(PARENT, source, 4), source as u32);
        let mut found = worker.nothing_found(QUEUE);
        worker.find(&mut found, source).await;
        worker.append(&mut found).await;
    }
    worker.team.barrier().await;
    let mut frontier = 0..worker.queue_end().await;
    worker.team.barrier().await;
    while !frontier.is_empty() {
        if scout > left / ALPHA {
            set_of(worker, frontier.clone()).await;
            let (mut front, mut next) = (FRONT, NEXT);
            let mut awake = frontier.end - frontier.start;
            loop {
                let before = awake;
                awake = towards(worker, front, next).await;
                (front, next) = (next, front);
                if awake < before && awake <= run.n / BETA {
                    break;
                }
            }
            queue_of(worker, front).await;
            scout = 1;
        } else {
            left -= scout;
            scout = away(worker, frontier.clone()).await;
        }
        frontier = frontier.end..worker.queue_end().await;
        worker.team.barrier().await;
    }
}

/// Initialises all vertices as having no parent.
async fn begin(worker: &mut Worker<'_>) {
    let shares = worker.share_vertices();
    while let Some(part) = shares.next(worker.t).await {
        let mut rows = Rows::new(worker.t, worker.run, part);
        while let Some((vertex, first, end)) = rows.next().await {
            let degree = (end - first).max(1) as u32;
            worker.store(worker.at(PARENT, vertex, 4), degree.wrapping_neg());
        }
    }
    worker.team.barrier().await;
}

async fn degree(worker: &Worker<'_>, vertex: u64) -> u64 {
    let at = worker.run.offsets + 8 * vertex;
    let (first, end) = (worker.t.load(at), worker.t.load(at + 8));
    end.await - first.await
}

/// A top-down step from the frontier. Returns the number of edges of the claimed vertices.
async fn away(worker: &mut Worker<'_>, frontier: std::ops::Range<u64>) -> u64 {
    let (t, run) = (worker.t, worker.run);
    let (parents, limit) = (run.arrays[PARENT], run.params.outstanding as usize);
    let shares = worker.share(frontier.end - frontier.start);
    let (mut scout, mut found) = (0, worker.nothing_found(QUEUE));
    while let Some(part) = shares.next(worker.t).await {
        let places = frontier.start + part.start..frontier.start + part.end;
        let vertices = worker.load_all(QUEUE, places).await;
        let parent = |_, to| Some((parents + 4 * to, 4));
        let mut edges = Edges::new(t, run, vertices.into_iter(), parent);
        // Claims in flight: the vertex, the expected parent entry, and the entry found.
        let mut claims: VecDeque<(u64, u64, Value<'_>)> = VecDeque::with_capacity(limit);
        let (mut from, mut count) = (0, 0);
        loop {
            let item = edges.next().await;
            let most = if item.is_some() { limit } else { 1 };
            while claims.len() >= most
                && let Some((vertex, expected, was)) = claims.pop_front()
            {
                if was.await == expected {
                    worker.find(&mut found, vertex).await;
                    scout += u64::from((expected as u32).wrapping_neg());
                }
            }
            match item {
                Some(Item::Vertex { vertex, .. }) => from = vertex,
                Some(Item::Edge { to, value, .. }) => {
                    count += 1;
                    if is_free(value) {
                        let claim = worker.swap_if(parents + 4 * to, value as u32, from as u32);
                        claims.push_back((to, value, claim));
                    }
                }
                None => break,
            }
        }
        t.count(count);
    }
    worker.append(&mut found).await;
    worker.team.sum(scout).await
}

/// A bottom-up step: vertices without parent search for one in the frontier. Returns how
/// many have found one.
async fn towards(worker: &mut Worker<'_>, front: usize, next: usize) -> u64 {
    let (t, run) = (worker.t, worker.run);
    let (parents, set) = (run.arrays[PARENT], run.arrays[front]);
    let shares = worker.share_vertices();
    let mut awake = 0;
    while let Some(part) = shares.next(worker.t).await {
        let loaded = worker.load_all(PARENT, part.clone()).await;
        let pairs = part
            .clone()
            .zip(loaded)
            .filter(|(_, parent)| is_free(*parent));
        let free: Vec<u64> = pairs.map(|(vertex, _)| vertex).collect();
        let word = |_, to: u64| Some((set + 8 * (to / 64), 8));
        let mut edges = Edges::new(t, run, free.into_iter(), word);
        // A part is 64 vertices: one word of the set, which no other thread writes.
        let (mut bits, mut from, mut count) = (0u64, 0, 0);
        while let Some(item) = edges.next().await {
            match item {
                Item::Vertex { vertex, .. } => from = vertex,
                Item::Edge { to, value, .. } => {
                    count += 1;
                    if value >> (to % 64) & 1 == 1 {
                        worker.store(parents + 4 * from, to as u32);
                        bits |= 1 << (from % 64);
                        edges.skip();
                    }
                }
            }
        }
        drop(t.store(run.arrays[next] + 8 * (part.start / 64), bits));
        awake += u64::from(bits.count_ones());
        t.count(count);
    }
    worker.team.sum(awake).await
}

/// Makes the set of the vertices in a range of the queue.
async fn set_of(worker: &mut Worker<'_>, places: std::ops::Range<u64>) {
    let (t, words) = (worker.t, worker.run.n.div_ceil(64));
    for word in worker.team.part(words) {
        drop(t.store(worker.at(FRONT, word, 8), 0));
    }
    worker.team.barrier().await;
    let mine = worker.team.part(places.end - places.start);
    let mut at = places.start + mine.start;
    while at < places.start + mine.end {
        let end = (at + 64).min(places.start + mine.end);
        for vertex in worker.load_all(QUEUE, at..end).await {
            // Several threads set bits of one word; each bit is set only once, so
            // that adding sets it.
            drop(t.fetch_add(worker.at(FRONT, vertex / 64, 8), 1 << (vertex % 64)));
        }
        t.fence().await;
        at = end;
    }
    worker.team.barrier().await;
}

/// Appends the vertices of a set to the queue.
async fn queue_of(worker: &mut Worker<'_>, set: usize) {
    let mut found = worker.nothing_found(QUEUE);
    for word in worker.team.part(worker.run.n.div_ceil(64)) {
        let mut bits = worker.t.load(worker.at(set, word, 8)).await;
        while bits != 0 {
            let vertex = 64 * word + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            worker.find(&mut found, vertex).await;
        }
    }
    worker.append(&mut found).await;
    worker.team.barrier().await;
}

/// Checks that the parent of each vertex with a path to the source is a neighbour that is one edge
/// nearer to the source, and that the other vertices have no parent (GAPBS's own check).
pub(super) fn check(run: &Run, image: &Image) -> Result<(), String> {
    let (graph, source) = (run.graph(), run.source());
    let distances = graph.distances(source);
    for vertex in 0..run.n {
        let parent = run.word(image, PARENT, vertex);
        let right = match distances[vertex as usize] {
            None => is_free(parent.into()),
            Some(0) => u64::from(parent) == vertex,
            Some(far) => {
                let nearer = distances.get(parent as usize).copied().flatten();
                nearer == Some(far - 1) && graph.of(vertex).binary_search(&parent).is_ok()
            }
        };
        if !right {
            return Err(format!(
                "bfs: vertex {vertex}, {:?} edges from {source}, has parent {}",
                distances[vertex as usize],
                parent.cast_signed()
            ));
        }
    }
    Ok(())
}
