//! STREAM (McCalpin, version 5.10): copy, scale, add and triad over three arrays.
//!
//! The order is that of STREAM: all four kernels, then all four again. The first phase fills the
//! arrays, as STREAM does. Left out: the loop with which STREAM measures the resolution of its
//! clock. STREAM fills each array with one value; here the values of `a` differ, so that the
//! check detects misplaced elements.

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, phase, share, whole_lines, within};
use super::stream_threads::{ELEMENT, Loop, SCALAR};
use crate::error::WorkloadError;
use crate::params::{entry, require};
use crate::program::{Action, Phase, Program, Step, StepDependency};
use crate::workload::{SourceContext, Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<StreamKernels>(
    "stream-kernels",
    "STREAM's copy, scale, add and triad, executed on a core",
);

/// The number of elements in a line.
const LINE_ELEMENTS: u64 = LINE_BYTES / ELEMENT;
/// Most repeats: a program has at most 256 phases, of which one is `init` and four
/// belong to each repeat.
const MAX_REPEATS: u64 = 63;

/// STREAM's four kernels (McCalpin) over three arrays of doubles, on a core. Phases: `init`,
/// `copy`, `scale`, `add`, `triad`; those of the second repeat are `copy-2` and so on. An operation
/// is `access / 8` elements.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamKernels {
    /// Elements of each of the three arrays, 8 B each: a multiple of 8, 8 to 268435456. All
    /// cores of the host group divide them. With the default, the arrays have 8 MiB
    /// together (CXL-SSD-Sim: 8 MB).
    pub elements: u64,
    /// The number of times that the four kernels run, 1 to 63. STREAM runs them 10 times
    /// and discards the first repeat; here the phase `init` has accessed the arrays
    /// before the first repeat.
    pub repeats: u32,
    /// Bytes of one load or store: 8 B (scalar), 16 B, 32 B or 64 B (vectors).
    pub access: Bytes,
    /// Core cycles from the last operand to the result of scale, add and triad. The default
    /// is the latency of an addition, a multiplication or a fused multiply-add on Intel
    /// Skylake (Fog, Instruction tables).
    pub cycles: u32,
    /// The memory of the arrays.
    pub data: Memory,
    /// Offset of the first array in that memory. A multiple of 64 B.
    pub base: Bytes,
}

impl Default for StreamKernels {
    fn default() -> Self {
        StreamKernels {
            elements: 349_520,
            repeats: 1,
            access: Bytes(ELEMENT),
            cycles: 4,
            data: Memory::Cxl,
            base: Bytes(0),
        }
    }
}

impl Workload for StreamKernels {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Program("stream-kernels")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("elements", self.elements, LINE_ELEMENTS, 1 << 28)?;
        let whole = self.elements.is_multiple_of(LINE_ELEMENTS);
        require(whole, "elements", self.elements, "multiples of 8")?;
        within("repeats", u64::from(self.repeats), 1, MAX_REPEATS)?;
        let known = [8, 16, 32, 64].contains(&self.access.0);
        require(known, "access", self.access, "8 B, 16 B, 32 B, 64 B")?;
        whole_lines("base", self.base)
    }

    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        self.check()?;
        let bytes = self.elements * ELEMENT;
        let need = MemoryNeed::of_data(self.data, self.base, "elements", 3 * bytes);
        let start = need.place(ctx)?;
        let (first, lines) = share("elements", self.elements / LINE_ELEMENTS, ctx)?;
        let elements = (lines * LINE_ELEMENTS) as usize;
        let slice = start + first * LINE_BYTES;
        Ok(Box::new(Run {
            bases: [slice, slice + bytes, slice + 2 * bytes],
            arrays: std::array::from_fn(|_| vec![0.0; elements]),
            wide: (self.access.0 / ELEMENT) as usize,
            cycles: self.cycles,
            phases: phases(self.repeats, self.access.0 / ELEMENT),
            phase: 0,
            element: 0,
            accesses: 0,
        }))
    }
}

const A: usize = 0;

/// The loop of a phase; `None` for `init`, which stores to all arrays.
fn loop_of(phase: usize) -> Option<Loop> {
    Some(Loop::ALL[phase.checked_sub(1)? % Loop::ALL.len()])
}

/// Makes all phases, in which an operation is `wide` elements.
fn phases(repeats: u32, wide: u64) -> Vec<Phase> {
    let named = move |each: Loop, repeat| {
        let name = match repeat {
            1 => each.name().to_owned(),
            _ => format!("{}-{repeat}", each.name()),
        };
        phase(&name, (each.arrays().0.len() as u64 + 1) * ELEMENT * wide)
    };
    let repeated = (1..=repeats).flat_map(|repeat| Loop::ALL.map(|each| named(each, repeat)));
    std::iter::once(phase("init", 0)).chain(repeated).collect()
}

/// The initial value of an element of `a`.
fn initial(element: usize) -> f64 {
    1.0 + (element % 1024) as f64 / 1024.0
}

struct Run {
    /// The first address of this core's part of each array.
    bases: [u64; 3],
    arrays: [Vec<f64>; 3],
    /// Number of elements of an access.
    wide: usize,
    cycles: u32,
    phases: Vec<Phase>,
    phase: usize,
    element: usize,
    /// Number of accesses already made for this element.
    accesses: usize,
}

save_state!(Run {
    values: phase, element, accesses;
    sized: arrays;
    built: bases, wide, cycles, phases;
});

impl Run {
    /// Executes the loop for the elements of one access.
    fn execute(&mut self) {
        let [a, b, c] = &mut self.arrays;
        for i in self.element..self.element + self.wide {
            match loop_of(self.phase) {
                None => (a[i], b[i], c[i]) = (initial(i), 2.0, 0.0),
                Some(Loop::Copy) => c[i] = a[i],
                Some(Loop::Scale) => b[i] = SCALAR * c[i],
                Some(Loop::Add) => c[i] = a[i] + b[i],
                Some(Loop::Triad) => a[i] = b[i] + SCALAR * c[i],
            }
        }
    }

    /// Advances to the next elements, and after the last ones to the next phase.
    fn go_on(&mut self) {
        self.accesses = 0;
        self.element += self.wide;
        if self.element == self.arrays[A].len() {
            self.element = 0;
            self.phase += 1;
        }
    }
}

impl Program for Run {
    fn next_step(&mut self, _: &mut StreamRng) -> Option<Step> {
        if self.phase == self.phases.len() {
            return None;
        }
        let each = loop_of(self.phase);
        // The phase `init` loads nothing, and stores to one array after the other.
        let (loads, stored) = each.map_or((&[][..], self.accesses), Loop::arrays);
        let array = loads.get(self.accesses).copied();
        let last = each.map_or(self.arrays.len() - 1, |_| loads.len());
        let first = self.bases[array.unwrap_or(stored)];
        let mut step = Step {
            phase: self.phase as u8,
            ends: self.accesses == last,
            ..Step::new(Hpa(first + self.element as u64 * ELEMENT), Action::Load)
        };
        if array.is_none() {
            step.action = Action::Store;
            if let Some(each) = each {
                step.after = StepDependency::Previous;
                step.cycles = if each == Loop::Copy { 0 } else { self.cycles };
            }
        }
        self.accesses += 1;
        if step.ends {
            self.execute();
            self.go_on();
        }
        Some(step)
    }

    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Computes each element by itself, as STREAM's check does for its single value.
    fn check(&self) -> Result<(), String> {
        if self.phase != self.phases.len() {
            return Err("STREAM has not finished".to_owned());
        }
        let repeats = (self.phases.len() - 1) / Loop::ALL.len();
        for element in 0..self.arrays[A].len() {
            let (mut a, mut b, mut c) = (initial(element), 2.0, 0.0);
            for _ in 0..repeats {
                c = a;
                b = SCALAR * c;
                c = a + b;
                a = b + SCALAR * c;
            }
            let found = self.arrays.each_ref().map(|array| array[element]);
            if found != [a, b, c] {
                return Err(format!(
                    "STREAM: element {element} of a, b, c is {found:?}, not {:?}",
                    [a, b, c]
                ));
            }
        }
        Ok(())
    }
}
