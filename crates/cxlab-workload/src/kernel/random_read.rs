//! The latency of random reads: a core follows pointers along one random cycle through every place
//! of the footprint, as in `lat_mem_rd` and membench.
//!
//! The cycle is drawn with Sattolo's algorithm. The pointers are first stored in ascending order of
//! addresses and then followed: each load needs the data of the load before it.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, phase, share, whole_lines, within};
use crate::error::WorkloadError;
use crate::params::{entry, require};
use crate::program::{Action, Phase, Program, Step, StepDependency};
use crate::workload::{SourceContext, Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<RandomRead>(
    "random-read",
    "pointers followed round a random cycle, executed on a core: latency of reads",
);

/// Most pointers of one kernel: 1 GiB of the simulator's memory.
const MAX_POINTERS: u64 = 1 << 28;

/// Most loads of one kernel.
const MAX_READS: u64 = 1 << 40;

/// Reads at random places on a core; each read needs the data of the preceding one. Phases: `init`
/// (the pointers are stored), `warm-up`, `read`. An operation is one load of 8 B.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomRead {
    /// Bytes of the area with the pointers, which the cores divide: at least two pointers for each
    /// core, and at most 268435456 pointers. The default is that of CXL-SSD-Sim.
    pub footprint: Bytes,
    /// Distance between pointers in bytes. A multiple of 64 B.
    pub stride: Bytes,
    /// Measured loads of each core, 1 to 1099511627776. Default: one lap of its cycle.
    pub reads: Option<u64>,
    /// Laps before the measured loads, in a phase of their own; with 0, that phase has no steps.
    pub warm_up: u32,
    /// Core cycles of computing before each load, in addition to the load's latency.
    pub cycles: u32,
    /// The memory of the pointers.
    pub data: Memory,
    /// Offset of the footprint in that memory. A multiple of 64 B.
    pub base: Bytes,
}

impl Default for RandomRead {
    fn default() -> Self {
        RandomRead {
            footprint: Bytes(8 << 20),
            stride: Bytes(LINE_BYTES),
            reads: None,
            warm_up: 1,
            cycles: 0,
            data: Memory::Cxl,
            base: Bytes(0),
        }
    }
}

impl Workload for RandomRead {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Program("random-read")
    }

    fn check(&self) -> Result<(), ParamError> {
        whole_lines("stride", self.stride)?;
        within("stride", self.stride.0, LINE_BYTES, 1 << 40)?;
        let pointers = self.footprint.0 / self.stride.0;
        let [least, most] = [2, MAX_POINTERS].map(|pointers| Bytes(pointers * self.stride.0));
        let enough = (2..=MAX_POINTERS).contains(&pointers);
        let allowed = format_args!("{least} to {most}");
        require(enough, "footprint", self.footprint, allowed)?;
        within("reads", self.reads.unwrap_or(1), 1, MAX_READS)?;
        whole_lines("base", self.base)
    }

    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        self.check()?;
        let need = MemoryNeed::of_data(self.data, self.base, "footprint", self.footprint.0);
        let start = need.place(ctx)?;
        let total = self.footprint.0 / self.stride.0;
        let (first, pointers) = share("footprint", total, ctx)?;
        let enough = total / (ctx.requesters.max(1) as u64) >= 2;
        let allowed = "two pointers for each core";
        require(enough, "footprint", self.footprint, allowed)?;
        Ok(Box::new(Run {
            first: start + first * self.stride.0,
            stride: self.stride.0,
            pointers,
            next: Vec::new(),
            phases: [phase("init", 0), phase("warm-up", 8), phase("read", 8)],
            ends: [
                pointers,
                u64::from(self.warm_up) * pointers,
                self.reads.unwrap_or(pointers),
            ],
            phase: 0,
            done: 0,
            at: 0,
            cycles: self.cycles,
            sum: 0,
        }))
    }
}

struct Run {
    first: u64,
    stride: u64,
    pointers: u64,
    /// For each place, the place that its pointer points to. Drawn at the first step.
    next: Vec<u32>,
    phases: [Phase; 3],
    /// Number of steps of each phase.
    ends: [u64; 3],
    phase: usize,
    /// Steps of the current phase that have been handed out.
    done: u64,
    /// The place that is loaded next.
    at: u32,
    cycles: u32,
    /// Sum of the places loaded, with which the check detects wrong ones.
    sum: u64,
}

save_state!(Run {
    values: next, phase, done, at, sum;
    built: first, stride, pointers, phases, ends, cycles;
});

/// Draws a cycle through all numbers below `n`, each cycle with the
/// same probability (Sattolo 1986).
fn sattolo(n: u64, rng: &mut StreamRng) -> Vec<u32> {
    let mut next: Vec<u32> = (0..n as u32).collect();
    for last in (1..next.len()).rev() {
        next.swap(last, rng.below(last as u64) as usize);
    }
    next
}

impl Program for Run {
    fn next_step(&mut self, rng: &mut StreamRng) -> Option<Step> {
        if self.next.is_empty() {
            self.next = sattolo(self.pointers, rng);
        }
        while self.done == *self.ends.get(self.phase)? {
            self.phase += 1;
            self.done = 0;
        }
        let place = match self.phase {
            0 => self.done,
            _ => u64::from(self.at),
        };
        let step = Step {
            phase: self.phase as u8,
            ends: true,
            ..Step::new(Hpa(self.first + place * self.stride), Action::Store)
        };
        self.done += 1;
        if self.phase == 0 {
            return Some(step);
        }
        self.sum = self.sum.wrapping_add(place);
        self.at = self.next[place as usize];
        Some(Step {
            action: Action::Load,
            after: StepDependency::Previous,
            cycles: self.cycles,
            ..step
        })
    }

    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Each whole lap loads every place once, so its sum is known. The loads of the last,
    /// partial lap are repeated.
    fn check(&self) -> Result<(), String> {
        if self.phase != self.phases.len() {
            return Err("the pointers have not been followed to the end".to_owned());
        }
        let mut seen = vec![false; self.next.len()];
        let mut place = 0;
        for _ in 0..self.pointers {
            if std::mem::replace(&mut seen[place], true) {
                return Err(format!("the cycle of pointers comes to {place} twice"));
            }
            place = self.next[place] as usize;
        }
        let loads = self.ends[1] + self.ends[2];
        let lap = self.pointers * (self.pointers - 1) / 2;
        let mut sum = (loads / self.pointers).wrapping_mul(lap);
        for _ in 0..loads % self.pointers {
            sum = sum.wrapping_add(place as u64);
            place = self.next[place] as usize;
        }
        if (place as u64, sum) != (u64::from(self.at), self.sum) {
            return Err(format!(
                "after {loads} loads the pointers led to {} (sum {}), not to {place} (sum {sum})",
                self.at, self.sum
            ));
        }
        Ok(())
    }
}
