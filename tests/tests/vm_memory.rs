//! The memory of `cxlab vm` against the event engine: what a guest's misses cost is what the same
//! scenario's host pays for the same requests.

use cxlab_engine::rng::StreamRng;
use cxlab_system::analytic::PlanMemory;
use cxlab_system::plan::Plan;
use cxlab_tests::{plan, report};
use cxlab_vm::memory::{Memory, Place};
use cxlab_vm::model::{Limits, Model, Processors};
use cxlab_vm::ring::Record;

/// One host, one device behind a switch.
fn scenario(medium: &str, link: &str, outstanding: u32, workload: &str) -> String {
    format!(
        r#"
name = "one"
measure = {{ requests = 20000, warmup_requests = 2000 }}
fabric = {{ topology = {{ kind = "chain", switches = 1 }}, link = {link} }}
hosts = [{{ name = "host", issue = {{ outstanding = {outstanding} }}, workload = {workload} }}]
devices = [{{ name = "mem", capacity = "256 MiB", memory = {medium} }}]
"#
    )
}

fn model(plan: &Plan, misses: u32) -> Model<PlanMemory> {
    let limits = Limits {
        misses,
        writebacks: 256,
    };
    match PlanMemory::new(plan, &[0], plan.scenario.seed) {
        Ok(memory) => Model::new(memory, &[Processors { count: 1, limits }]),
        Err(problems) => panic!("{problems:?}"),
    }
}

/// Loads of these lines, one after another; the mean wait in nanoseconds, of the second half.
fn loads(model: &mut Model<PlanMemory>, count: u64, line: impl Fn(u64) -> u64) -> f64 {
    let mut half = 0;
    for step in 0..count {
        if step == count / 2 {
            half = model.charged_ps(0);
        }
        let record = Record {
            // A picosecond of computing between them.
            at_ps: step,
            what: (line(step) * 64) | 1 << 63,
        };
        let done = model.alone(0, record);
        assert_eq!(done, Ok(()));
    }
    (model.charged_ps(0) - half) as f64 / (count - count / 2) as f64 / 1e3
}

const FIXED: &str = r#"{ kind = "fixed", latency = "80 ns" }"#;
const LINKS: [&str; 3] = [
    "{}",
    r#"{ generation = "5", lanes = 4 }"#,
    r#"{ transmission = "packet", bandwidth = "7 GB/s" }"#,
];

#[test]
fn a_load_alone_takes_what_the_engine_says_to_the_picosecond() {
    for link in LINKS {
        let text = scenario(FIXED, link, 1, r#"{ kind = "uniform", read_ratio = 1.0 }"#);
        let engine = report(&text, &[]);
        let plan = plan(&text, &[]);
        let mut memory = match PlanMemory::new(&plan, &[0], 1) {
            Ok(memory) => memory,
            Err(problems) => panic!("{problems:?}"),
        };
        let ticket = memory.issue(1_000_000, Place::cxl(12_345 * 64), false);
        let took = memory.finish(ticket).map(|at| at - 1_000_000);
        assert_eq!(
            took,
            Ok((engine.latency_ns.min * 1e3).round() as u64),
            "{link}"
        );
    }
}

/// The engine's host has a constant medium and the next load in the same picosecond.
#[test]
fn dependent_loads_of_dram_take_what_the_engine_says() {
    let text = scenario(
        r#"{ kind = "dram" }"#,
        "{}",
        1,
        r#"{ kind = "uniform", read_ratio = 1.0 }"#,
    );
    let engine = report(&text, &[]).latency_ns.mean;
    let plan = plan(&text, &[]);
    let rng = std::cell::RefCell::new(StreamRng::new(3, "lines"));
    let lines = (256 << 20) / 64;
    let ours = loads(&mut model(&plan, 20), 20_000, |_| {
        rng.borrow_mut().below(lines)
    });
    assert!(
        (ours / engine - 1.0).abs() < 0.02,
        "{ours} ns, engine {engine} ns"
    );
}

/// A walk through an array keeps as many lines under way as there are MSHRs; the engine's host as
/// many requests. Where the link is full, it is its packed flits that count in both.
#[test]
fn a_stream_gets_the_bandwidth_that_the_engine_gives_as_many_requests() {
    for link in LINKS {
        for misses in [4, 16, 128] {
            let workload = r#"{ kind = "stream", read_ratio = 1.0 }"#;
            let text = scenario(FIXED, link, misses, workload);
            let engine = report(&text, &[]).bandwidth_gbps.total;
            let plan = plan(&text, &[]);
            let mean = loads(&mut model(&plan, misses), 40_000, |step| step);
            let ours = 64.0 / mean;
            let text = format!("{link}, {misses}: {ours:.2} GB/s, engine {engine:.2} GB/s");
            assert!((ours / engine - 1.0).abs() < 0.01, "{text}");
        }
    }
}
