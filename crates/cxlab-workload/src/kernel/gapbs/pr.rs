//! PageRank (`pr.cc`): each vertex pulls the contributions of its neighbours, and updates its own
//! contribution at once, as in a Gauss-Seidel step. The kernel ends when scores change by less than
//! [`TOLERANCE`] in all, or after [`MOST_ROUNDS`] rounds.

use cxlab_engine::units::Hpa;

use super::Run;
use super::edges::{Edges, Item, Rows};
use super::worker::Worker;
use crate::image::Image;

/// The fraction of its score that a vertex contributes to its neighbours (`kDamp`).
const DAMP: f32 = 0.85;
/// GAPBS's defaults (`-t`, `-i`).
const TOLERANCE: f64 = 1e-4;
const MOST_ROUNDS: u32 = 20;

const SCORE: usize = 0;
const GIVEN: usize = 1;
const CHANGE: usize = 2;

/// Bytes of the arrays: scores and contributions to each neighbour, 4 B each; and the change of
/// scores in the last round.
pub(super) fn arrays(n: u64) -> Vec<u64> {
    vec![4 * n, 4 * n, 8]
}

fn number(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(super) async fn run(worker: &mut Worker<'_>) {
    let run = worker.run;
    let base = (1.0 - DAMP) / run.n as f32;
    begin(worker).await;
    for _ in 0..MOST_ROUNDS {
        let change = round(worker, base).await;
        let change = worker.team.sum_f64(change).await;
        if worker.is_first() {
            drop(worker.t.store(worker.at(CHANGE, 0, 8), change.to_bits()));
        }
        if change < TOLERANCE {
            break;
        }
    }
}

/// Sets all scores to the same value.
async fn begin(worker: &mut Worker<'_>) {
    let score = 1.0 / worker.run.n as f32;
    let shares = worker.share_vertices();
    while let Some(part) = shares.next(worker.t).await {
        let mut rows = Rows::new(worker.t, worker.run, part);
        while let Some((vertex, first, end)) = rows.next().await {
            let given = score / (end - first) as f32;
            worker.store(worker.at(SCORE, vertex, 4), score.to_bits());
            worker.store(worker.at(GIVEN, vertex, 4), given.to_bits());
        }
    }
    worker.team.barrier().await;
}

/// Executes one round and returns by how much this thread changed scores.
async fn round(worker: &mut Worker<'_>, base: f32) -> f64 {
    let (t, run) = (worker.t, worker.run);
    let given = run.arrays[GIVEN];
    let shares = worker.share_vertices();
    let mut change = 0.0;
    while let Some(part) = shares.next(worker.t).await {
        let of_neighbour = |_, to| Some((given + 4 * to, 4));
        let mut edges = Edges::new(t, run, part, of_neighbour);
        // Number, degree and sum so far of the vertex whose neighbours are being summed up.
        let mut open: Option<(u64, u64, f32)> = None;
        let mut count = 0;
        loop {
            let item = edges.next().await;
            if let Some(Item::Edge { value, .. }) = item {
                count += 1;
                if let Some((_, _, sum)) = &mut open {
                    *sum += number(value);
                }
                continue;
            }
            if let Some((vertex, degree, sum)) = open.take() {
                let at = worker.at(SCORE, vertex, 4);
                let old = number(worker.load(at).await);
                let new = base + DAMP * sum;
                change += f64::from((new - old).abs());
                worker.store(at, new.to_bits());
                worker.store(given + 4 * vertex, (new / degree as f32).to_bits());
            }
            match item {
                Some(Item::Vertex { vertex, degree }) => open = Some((vertex, degree, 0.0)),
                _ => break,
            }
        }
        t.count(count);
    }
    change
}

/// Checks that one more round, on all scores at once, changes them by less than [`DAMP`] times the
/// change of the last round. That round used, for each edge, the contribution of a vertex before or
/// after the vertex's own change, and a vertex contributes [`DAMP`] of its score in all. The only
/// further difference is rounding, whose bound is added.
pub(super) fn check(run: &Run, image: &Image) -> Result<(), String> {
    let graph = run.graph();
    let score = |vertex: u64| f64::from(f32::from_bits(run.word(image, SCORE, vertex)));
    let base = f64::from((1.0 - DAMP) / run.n as f32);
    let (mut differ, mut rounding) = (0.0, 0.0);
    for vertex in 0..run.n {
        let row = graph.of(vertex);
        let gives = |to: &u32| {
            let to = u64::from(*to);
            score(to) / graph.of(to).len() as f64
        };
        let pulled: f64 = row.iter().map(gives).sum();
        let expected = base + f64::from(DAMP) * pulled;
        differ += (score(vertex) - expected).abs();
        rounding += expected * (row.len() + 4) as f64 * f64::from(f32::EPSILON);
    }
    let change = f64::from_bits(image.read(Hpa(run.arrays[CHANGE]), 8));
    let most = f64::from(DAMP) * change + rounding;
    if differ <= most && change.is_finite() {
        return Ok(());
    }
    Err(format!(
        "pr: one more round changes scores by {differ}, more than {most}, after one that changed them by {change}"
    ))
}
