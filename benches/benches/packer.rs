//! Packing saturated traffic into flits.

use cxlab_protocol::Channel;
use cxlab_protocol::flit::{FlitFormat, FlitPacker};
use divan::Bencher;
use divan::counter::ItemsCount;

#[divan::bench(args = ["68B", "256B", "256B-latency-optimized"])]
fn saturated_responses(bencher: Bencher, format: &str) {
    let format = match format {
        "68B" => FlitFormat::B68,
        "256B" => FlitFormat::B256,
        _ => FlitFormat::B256LatencyOptimized,
    };
    bencher.counter(ItemsCount::new(10_000u64)).bench(|| {
        let mut packer = FlitPacker::new(format);
        for number in 0..10_000 {
            let channel = if number % 3 == 0 {
                Channel::S2mNdr
            } else {
                Channel::S2mDrs
            };
            while packer.place(channel).is_none() {
                packer.close();
            }
        }
        packer.counters().flits
    });
}

fn main() {
    divan::main();
}
