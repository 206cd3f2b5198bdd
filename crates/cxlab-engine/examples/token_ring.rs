//! A token ring on 1, 2 and 4 threads.
//!
//! ```text
//! cargo run --release -p cxlab-engine --example token_ring
//! ```
//! The example fails where the order digest depends on the number of threads, or where the throughput
//! differs from its formula by more than three standard deviations. The ring has one token and so one
//! event at a time: more threads do not make this model faster.

#[path = "models/token_ring.rs"]
mod model;

use std::process::ExitCode;

use cxlab_engine::units::SimTime;
use model::{STATIONS, expected, simulate};

const SEED: u64 = 1;
/// Simulated time: 20 ms.
const UNTIL: SimTime = SimTime(20_000_000_000);

fn main() -> ExitCode {
    let (mean, deviation) = expected(UNTIL);
    println!("{STATIONS} stations; formula: {mean:.0} +- {deviation:.0} frames in 20 ms");
    println!(" threads | frames | frames/ms |           digest | agrees");
    println!("---------|--------|-----------|------------------|-------");
    let mut agree = true;
    let mut first = None;
    for threads in [1, 2, 4] {
        let found = simulate(threads, UNTIL, SEED);
        let digest = found.outcome.digest;
        let agrees = found.agrees(UNTIL) && digest == *first.get_or_insert(digest);
        println!(
            " {threads:7} | {:6} | {:9.1} | {digest:016x} | {}",
            found.total(),
            found.total() as f64 / 20.0,
            if agrees { "yes" } else { "no" }
        );
        agree &= agrees;
    }
    if agree {
        return ExitCode::SUCCESS;
    }
    eprintln!("a digest depends on the threads, or the throughput differs from its formula");
    ExitCode::FAILURE
}
