//! Connected components by hooking and shortcutting (Shiloach and Vishkin; Bader's variant, `cc_sv.cc`).

use super::cc::{COMPONENT, begin, compress};
use super::edges::{Edges, Item};
use super::worker::Worker;

pub(super) async fn run(worker: &mut Worker<'_>) {
    begin(worker).await;
    loop {
        let hooked = hook(worker).await;
        if worker.team.sum(hooked.into()).await == 0 {
            return;
        }
        compress(worker).await;
    }
}

/// Hooks the component with the higher number below the lower one, if it is its own root. Returns
/// whether this thread hooked any component.
async fn hook(worker: &mut Worker<'_>) -> bool {
    let (t, run) = (worker.t, worker.run);
    let components = run.arrays[COMPONENT];
    let shares = worker.share_vertices();
    let mut hooked = false;
    while let Some(part) = shares.next(worker.t).await {
        let of_neighbour = |_, to| Some((components + 4 * to, 4));
        let mut edges = Edges::new(t, run, part, of_neighbour);
        let (mut from, mut count) = (0, 0);
        while let Some(item) = edges.next().await {
            let value = match item {
                Item::Vertex { vertex, .. } => {
                    from = vertex;
                    continue;
                }
                Item::Edge { value, .. } => value,
            };
            count += 1;
            let mine = worker.load(components + 4 * from).await;
            if mine == value {
                continue;
            }
            let (low, high) = (mine.min(value), mine.max(value));
            if worker.load(components + 4 * high).await == high {
                hooked = true;
                worker.store(components + 4 * high, low as u32);
            }
        }
        t.count(count);
    }
    hooked
}
