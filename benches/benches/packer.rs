//! Packing of saturated traffic into flits, by the packer itself and by the table of its results.

use cxlab_benches as _;
use cxlab_protocol::Channel;
use cxlab_protocol::flit::{FlitFormat, FlitPacker, FlitPosition, OpenFlit};
use divan::Bencher;
use divan::counter::ItemsCount;

const FORMATS: [&str; 3] = ["68B", "256B", "256B-latency-optimized"];

fn format(name: &str) -> FlitFormat {
    match name {
        "68B" => FlitFormat::B68,
        "256B" => FlitFormat::B256,
        _ => FlitFormat::B256LatencyOptimized,
    }
}

/// Packs two responses with data for each without, and returns the number of flits.
fn pack<F>(
    flit: &mut F,
    place: impl Fn(&mut F, Channel) -> Option<FlitPosition>,
    close: impl Fn(&mut F) -> u32,
) -> u32 {
    let mut flits = 0;
    for number in 0..10_000 {
        let channel = match number % 3 {
            0 => Channel::S2mNdr,
            _ => Channel::S2mDrs,
        };
        while place(flit, channel).is_none() {
            flits += close(flit);
        }
    }
    flits
}

#[divan::bench(args = FORMATS)]
fn saturated_responses(bencher: Bencher, name: &str) {
    bencher.counter(ItemsCount::new(10_000u64)).bench(|| {
        let mut packer = FlitPacker::new(format(name));
        pack(&mut packer, FlitPacker::place, FlitPacker::close)
    });
}

#[divan::bench(args = FORMATS)]
fn saturated_responses_known(bencher: Bencher, name: &str) {
    bencher.counter(ItemsCount::new(10_000u64)).bench(|| {
        let mut flit = OpenFlit::new(format(name));
        pack(&mut flit, OpenFlit::place, OpenFlit::close)
    });
}

fn main() {
    divan::main();
}
