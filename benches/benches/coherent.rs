//! Coherent operations over CXL.cache on Cohet's testbed: kernels of threads with real values.
//! The time includes building and checking.

use cxlab_benches as _;
use cxlab_tests::{plan, shipped, try_run};
use divan::Bencher;
use divan::counter::ItemsCount;

fn bench(bencher: Bencher, workload: &str, operations: u64) {
    let workload = format!("hosts[0].workload={{ {workload} }}");
    let plan = plan(&shipped("cohet-fpga"), &[&workload]);
    bencher
        .counter(ItemsCount::new(operations))
        .bench(|| match try_run(&plan, 1) {
            Ok(report) => report.requests.completed,
            Err(error) => panic!("{error}"),
        });
}

/// Remote atomic operations on one word, on consecutive words, and on random words in 64 MiB.
#[divan::bench(sample_count = 5, args = ["central", "stride1", "rand"])]
fn atomics(bencher: Bencher, pattern: &str) {
    let operations = 200_000;
    let tent = format!(
        "kind = \"circus-tent\", pattern = \"{pattern}\", iterations = {operations}, pes = 1"
    );
    bench(bencher, &tent, operations);
}

/// Loads of the calibration, including the host's work to prepare them.
#[divan::bench(sample_count = 5, args = ["hmc", "llc", "memory"])]
fn loads(bencher: Bencher, tier: &str) {
    let unit = format!(
        "kind = \"load-store-unit\", tier = \"{tier}\", lines = 1024, repeats = 100, outstanding = 64"
    );
    bench(bencher, &unit, 102_400);
}

fn main() {
    divan::main();
}
