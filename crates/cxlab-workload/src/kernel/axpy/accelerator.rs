//! The accelerator's threads of AXPY: the processing elements and the copy engine.

use std::sync::Arc;

use super::{COMPUTE, Job, Model, own, register, vector};
use crate::kernel::common::doubles;
use crate::thread::{Direction, Handle, LoadedRange, Window};

/// A chunk whose operands are in flight.
struct Chunk<'t> {
    y_addr: u64,
    count: u64,
    x: LoadedRange<'t>,
    y: LoadedRange<'t>,
}

/// The thread of a processing element, which computes every `elements`-th chunk.
pub(super) async fn run(job: Arc<Job>, element: u64, t: Handle) {
    t.mark(COMPUTE);
    t.mmio_await(0, register::RUN, 0).await;
    let x = t.mmio_read(0, register::X).await;
    let y = t.mmio_read(0, register::Y).await;
    let n = t.mmio_read(0, register::N).await;
    let a = f64::from_bits(t.mmio_read(0, register::A).await);
    let mut under_way = std::collections::VecDeque::new();
    let mut stores = Window::new(job.params.chunks as usize);
    let mine = job.chunks().skip(element as usize).step_by(job.elements);
    for (first, count) in mine.filter(|(first, _)| *first < n) {
        if under_way.len() as u64 == job.params.chunks
            && let Some(chunk) = under_way.pop_front()
        {
            stores.room().await;
            stores.add(compute(&job, &t, a, chunk).await);
        }
        if job.params.model == Model::Unified {
            fetch(&job, &t, first * 8).await;
            fetch(&job, &t, job.vector + first * 8).await;
        }
        let y_addr = y + first * 8;
        under_way.push_back(Chunk {
            y_addr,
            count,
            x: t.read_range(x + first * 8, count * 8),
            y: match job.params.own_y {
                true => t.read_range_to_store(y_addr, count * 8),
                false => t.read_range(y_addr, count * 8),
            },
        });
    }
    for chunk in under_way {
        stores.room().await;
        stores.add(compute(&job, &t, a, chunk).await);
    }
    stores.drain().await;
    if t.fetch_add(own::FINISHED, 1).await + 1 == job.elements as u64 {
        t.mmio_write(0, register::FAULT, 0).await;
        t.interrupt(vector::ATTENTION).await;
    }
}

/// Waits for a chunk's operands, computes the chunk, and issues its store.
async fn compute<'t>(
    job: &Job,
    t: &'t Handle,
    a: f64,
    chunk: Chunk<'t>,
) -> crate::thread::Value<'t> {
    let (x, y) = (chunk.x.await, chunk.y.await);
    t.compute(job.params.cycles).await;
    let sums = doubles(&x).zip(doubles(&y)).map(|(x, y)| a * x + y);
    let bytes: Vec<u8> = sums.flat_map(f64::to_le_bytes).collect();
    t.count(chunk.count as u32);
    t.write_range(chunk.y_addr, &bytes)
}

/// Waits until the page at an offset into the vectors is in the accelerator's memory. The first
/// element that needs the page requests it from the host.
async fn fetch(job: &Job, t: &Handle, offset: u64) {
    let page = offset / job.params.page.0;
    let here = register::PAGES + page as u32;
    if t.mmio_read(0, here).await == 1 {
        return;
    }
    if t.compare_exchange(own::PAGES + page * 8, 0, 1).await == 0 {
        let mut turn = t.mmio_read(0, register::TURN).await;
        while t.compare_exchange(own::ASKING, 0, 1).await != 0 {
            turn = t.mmio_await(0, register::TURN, turn).await;
        }
        t.mmio_write(0, register::FAULT, page + 1).await;
        t.interrupt(vector::ATTENTION).await;
        t.mmio_await(0, here, 0).await;
        t.store(own::ASKING, 0).await;
        let turn = t.mmio_read(0, register::TURN).await;
        t.mmio_write(0, register::TURN, turn + 1).await;
    } else {
        t.mmio_await(0, here, 0).await;
    }
}

/// The thread of the copy engine: executes the commands that the host writes to its registers.
pub(super) async fn copy(job: Arc<Job>, t: Handle) {
    let page = job.params.page.0;
    for done in 0..copies(&job) {
        t.mmio_await(0, register::COPY, done).await;
        let host = t.mmio_read(0, register::COPY_HOST).await;
        let device = t.mmio_read(0, register::COPY_DEVICE).await;
        let bytes = t.mmio_read(0, register::COPY_BYTES).await;
        let direction = match t.mmio_read(0, register::COPY_OUT).await {
            0 => Direction::ToDevice,
            _ => Direction::ToHost,
        };
        t.dma(direction, host, device, bytes).await;
        t.interrupt(vector::COPIED).await;
        if job.params.model == Model::Unified && direction == Direction::ToDevice {
            let page = (device - own::VECTORS) / page;
            t.mmio_write(0, register::PAGES + page as u32, 1).await;
        }
    }
}

/// The number of copies in the whole run.
fn copies(job: &Job) -> u64 {
    match job.params.model {
        Model::Cohet => 0,
        Model::Explicit => 3,
        Model::Unified => 3 * (job.vector / job.params.page.0),
    }
}
