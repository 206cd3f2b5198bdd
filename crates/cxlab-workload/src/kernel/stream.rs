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

use super::common::{Memory, Need, share, whole_lines, within};
use crate::error::WorkloadError;
use crate::params::entry;
use crate::program::{Action, After, Phase, Program, Step};
use crate::workload::{SourceContext, Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<StreamKernels>(
    "stream-kernels",
    "STREAM's copy, scale, add and triad, executed on a core",
);

/// Bytes of an element, a double.
const ELEMENT: u64 = 8;
/// The number of elements in a line.
const LINE_ELEMENTS: u64 = LINE_BYTES / ELEMENT;
/// The factor of scale and triad.
const SCALAR: f64 = 3.0;
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
        if !self.elements.is_multiple_of(LINE_ELEMENTS) {
            let message = format!("found {}; allowed: multiples of 8", self.elements);
            return Err(ParamError::new("elements", message));
        }
        within("repeats", u64::from(self.repeats), 1, MAX_REPEATS)?;
        if ![8, 16, 32, 64].contains(&self.access.0) {
            let message = format!("found {}; allowed: 8 B, 16 B, 32 B, 64 B", self.access);
            return Err(ParamError::new("access", message));
        }
        whole_lines("base", self.base)
    }

    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        self.check()?;
        let bytes = self.elements * ELEMENT;
        let need = Need {
            memory_field: "data",
            memory: self.data,
            size_field: "elements",
            base: self.base.0,
            bytes: 3 * bytes,
        };
        let start = need.place(ctx)?;
        let (first, lines) = share("elements", self.elements / LINE_ELEMENTS, ctx)?;
        let elements = (lines * LINE_ELEMENTS) as usize;
        let slice = start + first * LINE_BYTES;
        Ok(Box::new(Run {
            bases: [slice, slice + bytes, slice + 2 * bytes],
            arrays: [
                vec![0.0; elements],
                vec![0.0; elements],
                vec![0.0; elements],
            ],
            wide: (self.access.0 / ELEMENT) as usize,
            cycles: self.cycles,
            phases: phases(self.repeats, self.access.0 / ELEMENT),
            phase: 0,
            element: 0,
            accesses: 0,
        }))
    }
}

/// One of STREAM's loops: which arrays it loads and stores.
struct Loop {
    name: &'static str,
    /// Indices of the arrays loaded, then of those stored.
    arrays: &'static [usize],
    /// How many of `arrays` are loaded.
    loads: usize,
    /// Whether the loop does arithmetic, which takes `cycles`.
    computes: bool,
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

const INIT: Loop = Loop {
    name: "init",
    arrays: &[A, B, C],
    loads: 0,
    computes: false,
};

const LOOPS: [Loop; 4] = [
    Loop {
        name: "copy",
        arrays: &[A, C],
        loads: 1,
        computes: false,
    },
    Loop {
        name: "scale",
        arrays: &[C, B],
        loads: 1,
        computes: true,
    },
    Loop {
        name: "add",
        arrays: &[A, B, C],
        loads: 2,
        computes: true,
    },
    Loop {
        name: "triad",
        arrays: &[B, C, A],
        loads: 2,
        computes: true,
    },
];

/// The loop that a phase executes.
fn loop_of(phase: usize) -> &'static Loop {
    match phase {
        0 => &INIT,
        _ => &LOOPS[(phase - 1) % LOOPS.len()],
    }
}

/// Makes all phases, in which an operation is `wide` elements.
fn phases(repeats: u32, wide: u64) -> Vec<Phase> {
    let init = Phase {
        name: INIT.name.to_owned(),
        bytes: Bytes(0),
    };
    let repeated = (1..=repeats).flat_map(|repeat| {
        LOOPS.iter().map(move |each| Phase {
            name: match repeat {
                1 => each.name.to_owned(),
                _ => format!("{}-{repeat}", each.name),
            },
            bytes: Bytes(each.arrays.len() as u64 * ELEMENT * wide),
        })
    });
    std::iter::once(init).chain(repeated).collect()
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
            match (self.phase, self.phase.wrapping_sub(1) % LOOPS.len()) {
                (0, _) => (a[i], b[i], c[i]) = (initial(i), 2.0, 0.0),
                (_, 0) => c[i] = a[i],
                (_, 1) => b[i] = SCALAR * c[i],
                (_, 2) => c[i] = a[i] + b[i],
                _ => a[i] = b[i] + SCALAR * c[i],
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
        let (each, access) = (loop_of(self.phase), self.accesses);
        let hpa = Hpa(self.bases[each.arrays[access]] + self.element as u64 * ELEMENT);
        let phase = self.phase as u8;
        self.accesses += 1;
        let ends = self.accesses == each.arrays.len();
        if ends {
            self.execute();
            self.go_on();
        }
        let step = Step::new(hpa, Action::Load);
        if access < each.loads {
            return Some(Step {
                phase,
                ends,
                ..step
            });
        }
        let after = match each.loads {
            0 => After::Nothing,
            _ => After::Previous,
        };
        Some(Step {
            action: Action::Store,
            after,
            cycles: if each.computes { self.cycles } else { 0 },
            phase,
            ends,
            ..step
        })
    }

    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Computes each element by itself, as STREAM's check does for its single value.
    fn check(&self) -> Result<(), String> {
        if self.phase != self.phases.len() {
            return Err("STREAM has not finished".to_owned());
        }
        let repeats = (self.phases.len() - 1) / LOOPS.len();
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
