//! An M/M/1 queue beside its closed formulas.
//!
//! ```text
//! cargo run --release -p cxlab-engine --example mm1
//! ```
//! The table has the mean number of jobs in the system and the mean time of a job there. The example
//! fails where a simulated mean differs from its formula by more than the half width of the confidence
//! interval of 99 %.

#[path = "models/mm1.rs"]
mod model;

use std::process::ExitCode;

use model::simulate;

const SEED: u64 = 1;

fn main() -> ExitCode {
    println!("      |     number in system      |    time in system (us)    |");
    println!(" load | formula  simulated        | formula  simulated        | agrees");
    println!("------|---------------------------|---------------------------|-------");
    let mut agree = true;
    for load in [0.3, 0.5, 0.7, 0.8, 0.9] {
        let found = simulate(load, SEED);
        let (number, time) = (found.number_in_system, found.time_in_system);
        println!(
            " {load:4.2} | {:7.3}  {:7.3} +- {:6.3} | {:7.3}  {:7.3} +- {:6.3} | {}",
            found.expected_number(),
            number.mean,
            number.error,
            found.expected_time(),
            time.mean,
            time.error,
            if found.agrees() { "yes" } else { "no" }
        );
        agree &= found.agrees();
    }
    if agree {
        return ExitCode::SUCCESS;
    }
    eprintln!("a mean differs from its formula by more than its statistical error");
    ExitCode::FAILURE
}
