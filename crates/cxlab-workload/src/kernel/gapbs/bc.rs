//! Betweenness centrality of all vertices for shortest paths from one source (Brandes 2001; Madduri
//! et al., IPDPS 2009; `bc.cc`).
//!
//! Forwards, a search counts the shortest paths to each vertex and marks the edges on such
//! paths, with a bit for each edge. Backwards, level by level, each vertex sums up the
//! dependencies of its successors. GAPBS counts paths in doubles; here they are whole numbers,
//! added by atomic operations.

use std::collections::VecDeque;

use super::Run;
use super::edges::{Edges, Item};
use super::worker::Worker;
use crate::image::Image;
use crate::thread::{Value, Window};

const DEPTH: usize = 0;
const PATHS: usize = 1;
const QUEUE: usize = 2;
const DEPENDS: usize = 3;
const ON_PATH: usize = 4;

/// The depth of a vertex that has not been reached.
const FAR: u32 = u32::MAX;

/// Bytes of the arrays: depths, paths, queue and dependencies with 4, 8, 4 and 4 B for each vertex;
/// a bit for each edge.
pub(super) fn arrays(n: u64, edges: u64) -> Vec<u64> {
    vec![4 * n, 8 * n, 4 * n, 4 * n, 8 * edges.div_ceil(64)]
}

pub(super) async fn run(worker: &mut Worker<'_>) {
    let run = worker.run;
    begin(worker).await;
    let mut levels = vec![0, worker.queue_end().await];
    worker.team.barrier().await;
    loop {
        let depth = levels.len() as u32 - 1;
        let (first, end) = (levels[levels.len() - 2], levels[levels.len() - 1]);
        forwards(worker, first..end, depth).await;
        let next = worker.queue_end().await;
        worker.team.barrier().await;
        if next == end {
            break;
        }
        levels.push(next);
    }
    // The last level has no successors.
    for level in levels.windows(2).rev().skip(1) {
        backwards(worker, level[0]..level[1]).await;
    }
    debug_assert!(levels.len() as u64 <= run.n + 1);
}

async fn begin(worker: &mut Worker<'_>) {
    let (t, run) = (worker.t, worker.run);
    for vertex in worker.team.part(run.n) {
        worker.store(worker.at(DEPTH, vertex, 4), FAR);
        drop(t.store(worker.at(PATHS, vertex, 8), 0));
        worker.store(worker.at(DEPENDS, vertex, 4), 0);
        if vertex % 16 == 15 {
            t.fence().await;
        }
    }
    let edges = t.load(run.offsets + 8 * run.n).await;
    for word in worker.team.part(edges.div_ceil(64)) {
        drop(t.store(worker.at(ON_PATH, word, 8), 0));
        if word % 64 == 63 {
            t.fence().await;
        }
    }
    worker.team.barrier().await;
    if worker.is_first() {
        let source = run.source();
        worker.store(worker.at(DEPTH, source, 4), 0);
        drop(t.store(worker.at(PATHS, source, 8), 1));
        let mut found = worker.nothing_found(QUEUE);
        worker.find(&mut found, source).await;
        worker.append(&mut found).await;
    }
    worker.team.barrier().await;
}

/// Searches from the vertices of one level to those of the next.
async fn forwards(worker: &mut Worker<'_>, level: std::ops::Range<u64>, depth: u32) {
    let (t, run) = (worker.t, worker.run);
    let (depths, limit) = (run.arrays[DEPTH], run.params.outstanding as usize);
    let shares = worker.share(level.end - level.start);
    let mut found = worker.nothing_found(QUEUE);
    while let Some(part) = shares.next(worker.t).await {
        let vertices = worker
            .load_all(QUEUE, level.start + part.start..level.start + part.end)
            .await;
        let of_neighbour = |_, to| Some((depths + 4 * to, 4));
        let mut edges = Edges::new(t, run, vertices.into_iter(), of_neighbour);
        let mut claims: VecDeque<(u64, u64, u64, Value<'_>)> = VecDeque::with_capacity(limit);
        let mut posted = Window::new(limit);
        let (mut paths, mut count) = (0, 0);
        loop {
            let item = edges.next().await;
            let most = if item.is_some() { limit } else { 1 };
            while claims.len() >= most
                && let Some((edge, to, paths, was)) = claims.pop_front()
            {
                let was = was.await as u32;
                if was == FAR {
                    worker.find(&mut found, to).await;
                }
                if was == FAR || was == depth {
                    add_path(worker, &mut posted, edge, to, paths).await;
                }
            }
            match item {
                Some(Item::Vertex { vertex, .. }) => {
                    paths = t.load(worker.at(PATHS, vertex, 8)).await;
                }
                Some(Item::Edge { edge, to, value }) => {
                    count += 1;
                    if value as u32 == FAR {
                        let claim = worker.swap_if(depths + 4 * to, FAR, depth);
                        claims.push_back((edge, to, paths, claim));
                    } else if value as u32 == depth {
                        add_path(worker, &mut posted, edge, to, paths).await;
                    }
                }
                None => break,
            }
        }
        posted.drain().await;
        t.count(count);
    }
    worker.append(&mut found).await;
    worker.team.barrier().await;
}

/// Marks an edge as part of a shortest path, and adds the paths through it to its target vertex.
async fn add_path<'t>(
    worker: &Worker<'t>,
    posted: &mut Window<Value<'t>>,
    edge: u64,
    to: u64,
    paths: u64,
) {
    // Threads set bits of the same words; each bit is set only once, so that adding sets it.
    posted.room().await;
    posted.add(
        worker
            .t
            .fetch_add(worker.at(ON_PATH, edge / 64, 8), 1 << (edge % 64)),
    );
    posted.room().await;
    posted.add(worker.t.fetch_add(worker.at(PATHS, to, 8), paths));
}

/// The dependency that an edge to a successor adds to its vertex.
fn dependency(paths: u64, of_successor: u64, depends: f32) -> f32 {
    (paths as f64 / of_successor as f64) as f32 * (1.0 + depends)
}

/// Computes the dependencies of the vertices of one level from those of the next.
async fn backwards(worker: &mut Worker<'_>, level: std::ops::Range<u64>) {
    let (t, run) = (worker.t, worker.run);
    let (on_path, limit) = (run.arrays[ON_PATH], run.params.outstanding as usize);
    let shares = worker.share(level.end - level.start);
    while let Some(part) = shares.next(worker.t).await {
        let vertices = worker
            .load_all(QUEUE, level.start + part.start..level.start + part.end)
            .await;
        let bit = |edge: u64, _| Some((on_path + 8 * (edge / 64), 8));
        let mut edges = Edges::new(t, run, vertices.into_iter(), bit);
        // Number, paths, and sum so far of the vertex whose dependencies are being summed up.
        let mut open: Option<(u64, u64, f32)> = None;
        let mut successors: VecDeque<(Value<'_>, Value<'_>)> = VecDeque::with_capacity(limit);
        let mut count = 0;
        loop {
            let item = edges.next().await;
            if let Some(Item::Edge { edge, to, value }) = item {
                count += 1;
                if value >> (edge % 64) & 1 == 1 {
                    let paths = t.load(worker.at(PATHS, to, 8));
                    successors.push_back((paths, worker.load(worker.at(DEPENDS, to, 4))));
                }
                if successors.len() < limit {
                    continue;
                }
            }
            let ends = !matches!(item, Some(Item::Edge { .. }));
            if let Some((vertex, paths, sum)) = &mut open {
                let most = if ends { 1 } else { limit };
                while successors.len() >= most
                    && let Some((of_successor, depends)) = successors.pop_front()
                {
                    let depends = f32::from_bits(depends.await as u32);
                    *sum += dependency(*paths, of_successor.await, depends);
                }
                if ends {
                    worker.store(worker.at(DEPENDS, *vertex, 4), sum.to_bits());
                }
            }
            match item {
                Some(Item::Vertex { vertex, .. }) => {
                    open = Some((vertex, t.load(worker.at(PATHS, vertex, 8)).await, 0.0));
                }
                Some(Item::Edge { .. }) => {}
                None => break,
            }
        }
        t.count(count);
    }
    worker.team.barrier().await;
}

/// Checks the result against Brandes's algorithm in sequence. Each vertex adds in the order of its
/// neighbours, so the results must be equal bit by bit.
pub(super) fn check(run: &Run, image: &Image) -> Result<(), String> {
    let (graph, source) = (run.graph(), run.source());
    let distances = graph.distances(source);
    let mut order: Vec<u64> = (0..run.n).collect();
    order.retain(|vertex| distances[*vertex as usize].is_some());
    order.sort_by_key(|vertex| distances[*vertex as usize]);
    let is_next = |from: u64, to: u32| {
        let further = distances[from as usize].map(|far| far + 1);
        distances[to as usize] == further
    };
    let mut paths = vec![0u64; run.n as usize];
    paths[source as usize] = 1;
    for &vertex in &order {
        for &to in graph.of(vertex) {
            if is_next(vertex, to) {
                paths[to as usize] = paths[to as usize].wrapping_add(paths[vertex as usize]);
            }
        }
    }
    let mut depends = vec![0f32; run.n as usize];
    for &vertex in order.iter().rev() {
        let successors = graph.of(vertex).iter().filter(|to| is_next(vertex, **to));
        let each = successors.map(|to| {
            let to = *to as usize;
            dependency(paths[vertex as usize], paths[to], depends[to])
        });
        depends[vertex as usize] = each.fold(0.0, |sum, one| sum + one);
    }
    for vertex in 0..run.n {
        let found = f32::from_bits(run.word(image, DEPENDS, vertex));
        let expected = depends[vertex as usize];
        if found.to_bits() != expected.to_bits() {
            return Err(format!(
                "bc: vertex {vertex} is depended on {found}, not {expected}"
            ));
        }
    }
    Ok(())
}
