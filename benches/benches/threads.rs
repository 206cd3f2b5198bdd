//! Kernels made of threads: the simulator's cost of an operation apart from its timing, and of
//! an access to a large memory.

use cxlab_benches as _;
use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;
use cxlab_workload::Image;
use cxlab_workload::thread::{Handle, NextAction, Thread, ThreadOp, Window};
use divan::Bencher;
use divan::counter::ItemsCount;

const OPERATIONS: u64 = 100_000;

/// Runs the operations of a thread in order, with up to 16 in flight.
fn run(mut thread: Thread, image: &Image) {
    let mut under_way = VecDeque::with_capacity(16);
    loop {
        match thread.next_op() {
            NextAction::Op(token, op, _) => under_way.push_back((token, op)),
            NextAction::Blocked | NextAction::Finished if under_way.is_empty() => return,
            NextAction::Blocked | NextAction::Finished => {
                let Some((token, op)) = under_way.pop_front() else {
                    return;
                };
                let value = match op {
                    ThreadOp::Load { addr, .. } | ThreadOp::Atomic { addr, .. } => {
                        op.perform(image, Hpa(addr))
                    }
                    _ => 0,
                };
                thread.complete(token, value);
            }
        }
    }
}

/// Atomic operations, each of which completes before the next begins.
#[divan::bench]
fn one_by_one(bencher: Bencher) {
    let image = Image::new();
    bencher
        .counter(ItemsCount::new(OPERATIONS))
        .bench_local(|| {
            let thread = Thread::new(|t: Handle| async move {
                for turn in 0..OPERATIONS {
                    t.fetch_add(turn % 512 * 8, 1).await;
                }
            });
            run(thread, &image);
        });
}

/// Loads with up to 16 in flight.
#[divan::bench]
fn sixteen_at_a_time(bencher: Bencher) {
    let image = Image::new();
    bencher
        .counter(ItemsCount::new(OPERATIONS))
        .bench_local(|| {
            let thread = Thread::new(|t: Handle| async move {
                let mut window = Window::new(16);
                for turn in 0..OPERATIONS {
                    window.room().await;
                    window.add(t.load(turn % 512 * 8));
                }
                window.drain().await;
            });
            run(thread, &image);
        });
}

/// Additions to random words of a memory of `mebibytes` MiB.
#[divan::bench(args = [1, 128])]
fn memory(bencher: Bencher, mebibytes: u64) {
    let image = Image::new();
    let words = mebibytes << 17;
    for page in (0..words).step_by(512) {
        image.write(Hpa(page * 8), 8, 1);
    }
    let mut draw = StreamRng::new(1, "words");
    bencher
        .counter(ItemsCount::new(OPERATIONS))
        .bench_local(|| {
            (0..OPERATIONS).for_each(|_| {
                image.fetch_add(Hpa(draw.below(words) * 8), 8, 1);
            })
        });
}

fn main() {
    divan::main();
}
