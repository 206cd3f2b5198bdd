//! A queue with random arrivals: one host whose reads arrive at random, and one device that serves a line in
//! 4 ns. Its mean latency is known or takes long to find, so error estimates are tested with it.

use std::sync::Arc;

use cxlab_engine::Monitor;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, SimTime};
use cxlab_plan::Plan;
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};
use cxlab_workload::{MemOp, OpKind, OpSource, SourceContext, Workload, WorkloadError};

/// Reads that arrive at random: a Poisson stream, or bursts with exponentially distributed lengths and pauses.
#[derive(Clone)]
pub struct Arrivals {
    /// Mean time between two reads of a burst, in picoseconds.
    gap: f64,
    /// Mean length of a burst and of the pause after it, in picoseconds. `None` for a Poisson stream.
    burst: Option<f64>,
}

impl Arrivals {
    /// Poisson arrivals at 70 % of the device's rate: M/D/1.
    pub fn poisson() -> Arrivals {
        Arrivals {
            gap: 4_000.0 / 0.7,
            burst: None,
        }
    }

    /// Bursts of 1 us at 95 % of the device's rate, with pauses of the same length.
    pub fn bursty() -> Arrivals {
        Arrivals {
            gap: 4_000.0 / 0.95,
            burst: Some(1e6),
        }
    }
}

struct Source {
    arrivals: Arrivals,
    now: f64,
    burst_ends: f64,
}

save_state!(Source {
    values: now, burst_ends;
    built: arrivals;
});

fn exponential(rng: &mut StreamRng, mean: f64) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

impl OpSource for Source {
    fn next_op(&mut self, rng: &mut StreamRng) -> Option<MemOp> {
        self.now += exponential(rng, self.arrivals.gap);
        if let Some(mean) = self.arrivals.burst
            && self.now > self.burst_ends
        {
            self.now += exponential(rng, mean);
            self.burst_ends = self.now + exponential(rng, mean);
        }
        Some(MemOp {
            hpa: Hpa(64 * rng.below(1 << 20)),
            kind: OpKind::Read,
            not_before: SimTime(self.now as u64),
            dependent: false,
            lines: 1,
            write_back: false,
        })
    }
}

impl Workload for Arrivals {
    fn source(&self, _: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Source {
            arrivals: self.clone(),
            now: 0.0,
            burst_ends: 0.0,
        }))
    }
}

/// The host with these arrivals and `outstanding` requests in flight, and the device.
///
/// # Panics
/// If `measure` has a mistake.
pub fn queue(arrivals: impl Workload + 'static, outstanding: u32, measure: &str) -> Plan {
    let text = format!(
        r#"
name = "queue"
measure = {{ {measure} }}
[fabric]
topology = {{ kind = "direct" }}
[[hosts]]
name = "host"
issue = {{ outstanding = {outstanding} }}
workload = {{ kind = "external", name = "arrivals" }}
[[devices]]
name = "mem"
controller = {{ contexts = 65536 }}
memory = {{ kind = "fixed", latency = "50 ns", bandwidth = "16 GB/s", queue = 65536 }}
"#
    );
    crate::plan_with(
        crate::scenario(&text, &[]),
        [("arrivals", Arc::new(arrivals))],
    )
}

/// Runs a plan with a seed.
///
/// # Panics
/// If the run breaks a law.
pub fn measured(plan: &Plan, seed: u64, threads: usize) -> Report {
    let options = RunOptions {
        seed,
        threads: threads.into(),
        monitor: &Monitor::default(),
        rows: None,
    };
    run(plan, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Bandwidth and mean latency.
pub fn values(report: &Report) -> [f64; 2] {
    [report.bandwidth_gb_per_s.total, report.latency_ns.mean]
}
