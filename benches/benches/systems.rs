//! Whole systems, in requests a second by topology, size and threads. The time includes building.

use cxlab_benches as _;
use cxlab_tests::{plan, try_run};
use divan::Bencher;
use divan::counter::ItemsCount;

const REQUESTS: u64 = 100_000;

fn scenario(topology: &str, endpoints: usize, transmission: &str) -> String {
    format!(
        "name = \"bench\"\n\
         [measure]\nwarmup_requests = 0\nrequests = {REQUESTS}\n\
         [fabric]\nrouting = \"oblivious\"\ntopology = {topology}\n\
         link = {{ transmission = \"{transmission}\" }}\n\
         [[hosts]]\nname = \"host\"\ncount = {half}\nworkload = {{ kind = \"uniform\" }}\n\
         [[devices]]\nname = \"mem\"\ncount = {half}\n",
        half = endpoints / 2
    )
}

fn bench(bencher: Bencher, text: &str, threads: usize) {
    let plan = plan(text, &[]);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .bench(|| match try_run(&plan, threads) {
            Ok(report) => report.requests.completed,
            Err(error) => panic!("{error}"),
        });
}

/// Scale 16 (8 hosts, 8 devices): the systems that ESF measures.
#[divan::bench(sample_count = 10, args = ["spine-leaf", "fully-connected", "ring", "chain"])]
fn scale_16_flits(bencher: Bencher, kind: &str) {
    bench(
        bencher,
        &scenario(&format!("{{ kind = \"{kind}\" }}"), 16, "flit"),
        1,
    );
}

/// Scale 16 with packets instead of flits, which is what ESF's public simulator models.
#[divan::bench(sample_count = 10, args = ["spine-leaf", "fully-connected"])]
fn scale_16_packets(bencher: Bencher, kind: &str) {
    bench(
        bencher,
        &scenario(&format!("{{ kind = \"{kind}\" }}"), 16, "packet"),
        1,
    );
}

/// Four links a path at every size, so that only the size changes.
#[divan::bench(sample_count = 10, args = [16, 64, 256, 1024])]
fn spine_leaf_by_endpoints(bencher: Bencher, endpoints: usize) {
    let topology = format!(
        "{{ kind = \"spine-leaf\", leaves = {}, spines = 4 }}",
        endpoints / 4
    );
    bench(bencher, &scenario(&topology, endpoints, "flit"), 1);
}

/// A system of 256 endpoints on one and two threads.
#[divan::bench(sample_count = 10, args = [1, 2])]
fn spine_leaf_256_by_threads(bencher: Bencher, threads: usize) {
    let topology = "{ kind = \"spine-leaf\", leaves = 64, spines = 4 }";
    bench(bencher, &scenario(topology, 256, "flit"), threads);
}

fn main() {
    divan::main();
}
