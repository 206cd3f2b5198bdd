//! The memory of `cxlab vm` against the event engine: what a guest's misses cost is what the same
//! scenario's core pays for the same loads.

use cxlab_engine::rng::StreamRng;
use cxlab_system::analytic::PlanMemory;
use cxlab_system::plan::Plan;
use cxlab_tests::{plan, shipped};
use cxlab_vm::memory::Memory;
use cxlab_vm::model::{Limits, Model};
use cxlab_vm::ring::Record;

const CXL: u64 = 1 << 63;

fn memory(plan: &Plan) -> PlanMemory {
    match PlanMemory::new(plan, 0, plan.scenario.seed) {
        Ok(memory) => memory,
        Err(problems) => panic!("{problems:?}"),
    }
}

/// Dependent loads of random lines of 8 MiB; the mean wait in nanoseconds.
fn chase(plan: &Plan, base: u64, loads: u64) -> f64 {
    let limits = Limits {
        misses: 20,
        writebacks: 256,
    };
    let mut model = Model::new(memory(plan), limits, 1);
    let mut rng = StreamRng::new(1, "chase");
    for step in 0..loads {
        let record = Record {
            at_ps: step * 11_500,
            what: (base + rng.below(1 << 17) * 64) | CXL,
        };
        let done = model.record(0, record).and_then(|()| model.resume(0));
        assert_eq!(done, Ok(()));
    }
    model.charged_ps(0) as f64 / loads as f64 / 1e3
}

#[test]
fn x() {
    let plan = plan(&shipped("vm-pool"), &[]);
    let t = std::time::Instant::now();
    println!("{:?} {:?}", memory(&plan).pools(), memory(&plan).constant_ps());
    for (name, base) in [("dram", 0u64), ("cached", 512 << 20), ("ssd", 1 << 30)] {
        println!("{name} {} {:?}", chase(&plan, base, 20000), t.elapsed());
    }
}
