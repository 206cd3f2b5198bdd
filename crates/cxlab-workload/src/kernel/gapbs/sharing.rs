//! How the graph gets into memory, and how hosts share it without coherence between them.
//!
//! The allocator's threads write the graph with stores, each thread its part, and flush every line
//! (CLFLUSH). After a barrier, when all writes have reached memory, one thread sets the flag and
//! flushes it. A reader flushes the flag's line and loads it again, until the flag is set. A reader
//! has never cached a line of the graph before, so none of its copies is stale. A file system like
//! FAMFS and the modified GAPBS of CXL-ClusterSim do the same with one mapping on `/dev/dax`.

use cxlab_engine::units::{Hpa, LINE_BYTES};

use super::worker::Worker;
use super::{Loading, Run};
use crate::image::Image;
use crate::thread::Window;

/// The value of the flag when the graph is complete.
const THERE: u64 = 1;
/// Polls of the flag before a reader gives up. The kernel's check then reports a wrong result.
const MOST_LOOKS: u32 = 100_000;

/// The address and the bytes of both arrays, each of which begins a line.
fn arrays(run: &Run) -> [(u64, Vec<u8>); 2] {
    let graph = run.graph();
    let offsets = graph.offsets.iter().flat_map(|at| at.to_le_bytes());
    let neighbours = graph.neighbours.iter().flat_map(|to| to.to_le_bytes());
    [
        (run.offsets, offsets.collect()),
        (run.neighbours, neighbours.collect()),
    ]
}

/// Writes the graph to memory before the run begins.
pub(super) fn prepare(run: &Run, image: &Image) {
    for (first, bytes) in arrays(run) {
        image.write_bytes(Hpa(first), &bytes);
    }
}

/// Writes the graph or waits for it, as the parameters say.
pub(super) async fn load(worker: &mut Worker<'_>) {
    match worker.run.params.loading {
        Loading::Prepared => {}
        Loading::Allocator => write(worker).await,
        Loading::Reader => wait(worker).await,
    }
}

async fn write(worker: &mut Worker<'_>) {
    let (t, run) = (worker.t, worker.run);
    let mut window = Window::new(run.params.outstanding as usize);
    for (first, bytes) in arrays(run) {
        let lines = (bytes.len() as u64).div_ceil(LINE_BYTES);
        let part = worker.team.part(lines);
        for line in part.clone() {
            let at = line * LINE_BYTES;
            let end = (at + LINE_BYTES).min(bytes.len() as u64);
            window.room().await;
            window.add(t.write_range(first + at, &bytes[at as usize..end as usize]));
        }
        for line in part {
            window.room().await;
            window.add(t.flush(first + line * LINE_BYTES));
        }
    }
    window.drain().await;
    worker.team.barrier().await;
    if worker.is_first() {
        t.store(run.flag, THERE).await;
        t.flush(run.flag).await;
    }
    worker.team.barrier().await;
}

async fn wait(worker: &mut Worker<'_>) {
    let (t, run) = (worker.t, worker.run);
    if worker.is_first() {
        for _ in 0..MOST_LOOKS {
            t.flush(run.flag).await;
            if t.load(run.flag).await == THERE {
                break;
            }
            t.compute(run.params.poll_cycles).await;
        }
    }
    worker.team.barrier().await;
}
