//! Connected components by sampling (Afforest: Sutton, Ben-Nun and Barak, IPDPS 2018; `cc.cc`).
//! Links to two neighbours of each vertex join most of the largest component; then only vertices
//! outside of this component process their other neighbours.

use std::collections::BTreeMap;

use cxlab_engine::rng::StreamRng;

use super::Run;
use super::edges::{Edges, Item, Rows};
use super::worker::Worker;
use crate::image::Image;
use crate::kernel::team::in_order;
use crate::thread::Value;

/// Neighbours of each vertex that are linked first (`neighbor_rounds`).
const ROUNDS: u64 = 2;
/// Number of vertices sampled to find the largest component (`num_samples`).
const SAMPLES: u64 = 1024;

/// The array of both algorithms for components: 4 B for each vertex.
pub(super) const COMPONENT: usize = 0;

pub(super) async fn run(worker: &mut Worker<'_>) {
    begin(worker).await;
    for round in 0..ROUNDS {
        link_one_each(worker, round).await;
        compress(worker).await;
    }
    let largest = sample(worker).await;
    link_the_others(worker, largest).await;
    compress(worker).await;
}

/// Makes each vertex a component of its own.
pub(super) async fn begin(worker: &mut Worker<'_>) {
    for vertex in worker.team.part(worker.run.n) {
        worker.store(worker.at(COMPONENT, vertex, 4), vertex as u32);
        if vertex % 64 == 63 {
            worker.t.fence().await;
        }
    }
    worker.team.barrier().await;
}

/// Makes each vertex point to the root of its component.
pub(super) async fn compress(worker: &mut Worker<'_>) {
    let components = worker.run.arrays[COMPONENT];
    let shares = worker.share_vertices();
    while let Some(part) = shares.next(worker.t).await {
        let load = |vertex| (vertex, worker.load(components + 4 * vertex));
        let loads: Vec<(u64, Value<'_>)> = part.map(load).collect();
        let mut above = Vec::with_capacity(loads.len());
        for (vertex, load) in loads {
            let one = load.await;
            above.push((vertex, one, worker.load(components + 4 * one)));
        }
        for (vertex, mut one, load) in above {
            let mut next = load.await;
            while one != next {
                worker.store(components + 4 * vertex, next as u32);
                one = next;
                next = worker.load(components + 4 * one).await;
            }
        }
    }
    worker.team.barrier().await;
}

/// Links each vertex to its neighbour number `round`, if it has that many.
async fn link_one_each(worker: &mut Worker<'_>, round: u64) {
    let run = worker.run;
    let shares = worker.share_vertices();
    while let Some(part) = shares.next(worker.t).await {
        let mut rows = Rows::new(worker.t, run, part);
        let mut neighbours = Vec::new();
        while let Some((vertex, first, end)) = rows.next().await {
            if first + round < end {
                let at = run.neighbours + 4 * (first + round);
                neighbours.push((vertex, worker.load(at)));
            }
        }
        worker.t.count(neighbours.len() as u32);
        for (vertex, neighbour) in neighbours {
            link(worker, vertex, neighbour.await).await;
        }
    }
    worker.team.barrier().await;
}

/// The most frequent component among sampled vertices.
async fn sample(worker: &mut Worker<'_>) -> u64 {
    let run = worker.run;
    let mut largest = 0;
    if worker.is_first() {
        let mut rng = StreamRng::new(run.seed, "gapbs/sample");
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..SAMPLES / 64 {
            let load = |_| worker.load(worker.at(COMPONENT, rng.below(run.n), 4));
            for component in in_order((0..64).map(load)).await {
                *counts.entry(component).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        largest = most.map_or(0, |(component, _)| component);
    }
    worker.team.sum(largest).await
}

/// Links the vertices that are not in the largest component to their remaining neighbours.
async fn link_the_others(worker: &mut Worker<'_>, largest: u64) {
    let (t, run) = (worker.t, worker.run);
    let shares = worker.share_vertices();
    while let Some(part) = shares.next(worker.t).await {
        let loaded = worker.load_all(COMPONENT, part.clone()).await;
        let pairs = part
            .zip(loaded)
            .filter(|(_, component)| *component != largest);
        let others: Vec<u64> = pairs.map(|(vertex, _)| vertex).collect();
        let mut edges = Edges::new(t, run, others.into_iter(), |_, _| None);
        let (mut from, mut seen, mut count) = (0, 0, 0);
        while let Some(item) = edges.next().await {
            match item {
                Item::Vertex { vertex, .. } => (from, seen) = (vertex, 0),
                Item::Edge { to, .. } => {
                    count += 1;
                    seen += 1;
                    if seen > ROUNDS {
                        link(worker, from, to).await;
                    }
                }
            }
        }
        t.count(count);
    }
    worker.team.barrier().await;
}

/// Joins the components of two vertices: the root of the component with the higher number then
/// points to the other component.
async fn link(worker: &Worker<'_>, one: u64, other: u64) {
    let components = worker.run.arrays[COMPONENT];
    let at = |vertex: u64| components + 4 * vertex;
    let both = (worker.load(at(one)), worker.load(at(other)));
    let (mut one, mut other) = (both.0.await, both.1.await);
    while one != other {
        let (low, high) = (one.min(other), one.max(other));
        let above = worker.load(at(high)).await;
        if above == low {
            return;
        }
        if above == high && worker.swap_if(at(high), high as u32, low as u32).await == high {
            return;
        }
        let above = worker.load(at(high)).await;
        one = worker.load(at(above)).await;
        other = worker.load(at(low)).await;
    }
}

/// Checks that two vertices have the same component exactly if there is a path between them.
pub(super) fn check(run: &Run, image: &Image) -> Result<(), String> {
    let expected = run.graph().components();
    let mut names: BTreeMap<u32, u32> = BTreeMap::new();
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    for (vertex, component) in (0..).zip(expected) {
        let found = run.word(image, COMPONENT, vertex);
        let name = *names.entry(component).or_insert(found);
        let user = *used.entry(found).or_insert(component);
        if (name, user) != (found, component) {
            return Err(format!(
                "components: vertex {vertex}, which has a path to {component}, is in component {found}; \
                 {component} is in {name}"
            ));
        }
    }
    Ok(())
}
