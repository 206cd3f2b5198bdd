//! The event queue in the hold model (pop one, push one a little later) against a binary heap.

use cxlab_benches as _;
use cxlab_engine::queue::{EventKey, EventQueue, HeapQueue, Target, WheelQueue};
use cxlab_engine::rng::StreamRng;
use divan::Bencher;
use divan::counter::ItemsCount;

/// Payload of an event in a CXL system: about the size of a parcel.
type Item = [u64; 10];

const EVENTS: u64 = 100_000;

fn hold<Q: EventQueue<Item> + Default>(bencher: Bencher, pending: u64) {
    let mut queue = Q::default();
    let mut rng = StreamRng::new(1, "hold");
    let mut order = 0;
    let mut push = |queue: &mut Q, rng: &mut StreamRng, now: u64| {
        order += 1;
        // One hop on a PCIe link takes 50 to 114 ns.
        let time = now + 50_000 + rng.below(64_000);
        *queue.push(EventKey { time, order }, Target::port(0, 0)) = [order; 10];
    };
    for _ in 0..pending {
        push(&mut queue, &mut rng, 0);
    }
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        for _ in 0..EVENTS {
            if let Some(event) = queue.pop_before(u64::MAX) {
                divan::black_box(*queue.carried(event.place));
                queue.release(event.place);
                push(&mut queue, &mut rng, event.key.time);
            }
        }
    });
}

#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn wheel(bencher: Bencher, pending: u64) {
    hold::<WheelQueue<Item>>(bencher, pending);
}

#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn heap(bencher: Bencher, pending: u64) {
    hold::<HeapQueue<Item>>(bencher, pending);
}

fn main() {
    divan::main();
}
