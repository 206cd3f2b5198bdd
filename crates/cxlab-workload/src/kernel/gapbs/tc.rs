//! Triangles (`tc.cc`): for each edge to a lower neighbour, the kernel counts the common neighbours
//! that are lower still, by merging both sorted lists. GAPBS first renumbers the vertices of skewed
//! graphs, in a graph of its own; here the shared graph is not changed.

use cxlab_engine::units::Hpa;

use super::Run;
use super::edges::{List, Rows};
use super::worker::Worker;
use crate::image::Image;

/// Index of the array with the number of triangles.
const TRIANGLES: usize = 0;

/// Bytes of the arrays: the number of triangles.
pub(super) fn arrays() -> Vec<u64> {
    vec![8]
}

pub(super) async fn run(worker: &mut Worker<'_>) {
    let (t, run) = (worker.t, worker.run);
    let shares = worker.share_vertices();
    let mut triangles = 0;
    while let Some(part) = shares.next(worker.t).await {
        let mut rows = Rows::new(t, run, part);
        while let Some((vertex, first, end)) = rows.next().await {
            triangles += of_vertex(worker, vertex, first..end).await;
        }
    }
    let all = worker.team.sum(triangles).await;
    if worker.is_first() {
        t.store(worker.at(TRIANGLES, 0, 8), all).await;
    }
}

/// The number of triangles whose highest vertex is `vertex`.
async fn of_vertex(worker: &Worker<'_>, vertex: u64, places: std::ops::Range<u64>) -> u64 {
    let (t, run) = (worker.t, worker.run);
    let mut lower = List::new(t, run, places.clone());
    let mut neighbours = Vec::new();
    while let Some(neighbour) = lower.first().await.filter(|one| *one < vertex) {
        neighbours.push(neighbour);
        lower.take();
    }
    t.count(neighbours.len() as u32);
    let mut triangles = 0;
    let mut rows = Rows::new(t, run, neighbours.into_iter());
    while let Some((neighbour, first, end)) = rows.next().await {
        let mut mine = List::new(t, run, places.clone());
        let mut theirs = List::new(t, run, first..end);
        while let Some(one) = theirs.first().await.filter(|one| *one < neighbour) {
            theirs.take();
            let mut other = mine.first().await;
            while other.is_some_and(|other| other < one) {
                mine.take();
                other = mine.first().await;
            }
            triangles += u64::from(other == Some(one));
        }
    }
    triangles
}

/// Checks the number of triangles by marks: for each vertex, its lower neighbours are marked, and
/// the lower neighbours of each of them are looked up.
pub(super) fn check(run: &Run, image: &Image) -> Result<(), String> {
    let graph = run.graph();
    let mut marked = vec![false; run.n as usize];
    let lower = |vertex: u64| {
        let below = move |one: &&u32| u64::from(**one) < vertex;
        graph.of(vertex).iter().take_while(below)
    };
    let mut expected = 0u64;
    for vertex in 0..run.n {
        lower(vertex).for_each(|one| marked[*one as usize] = true);
        for one in lower(vertex) {
            expected += lower((*one).into())
                .filter(|other| marked[**other as usize])
                .count() as u64;
        }
        lower(vertex).for_each(|one| marked[*one as usize] = false);
    }
    let found = image.read(Hpa(run.arrays[TRIANGLES]), 8);
    match found == expected {
        true => Ok(()),
        false => Err(format!("tc: found {found} triangles of {expected}")),
    }
}
