//! STREAM (McCalpin, version 5.10) with OpenMP's static schedule: every core has a part of each
//! array, and all cores meet at a barrier between two loops.
//!
//! The arrays are in memory when the run begins, as after STREAM's own first loop. In that loop all
//! threads go through their parts of the three arrays concurrently, which determines the placement
//! of the pages. STREAM fills each array with one value; here the values of `a` differ, so that the
//! check detects misplaced elements.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, aligned, doubles, phase, within};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::{entry, require};
use crate::program::Phase;
use crate::thread::{
    ExecutionPlace, Handle, LoadedRange, Thread, ThreadContext, ThreadedKernel, Window,
};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<StreamThreads>(
    "stream-threads",
    "threads: STREAM's loops on all cores of a processor, arrays placed by its pages' policy",
);

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of an element, a double.
pub(super) const ELEMENT: u64 = 8;
/// The factor of scale and triad.
pub(super) const SCALAR: f64 = 3.0;
/// Most repeats of the loops.
const MAX_REPEATS: u32 = 1_000_000;

/// One of STREAM's loops over the arrays `a`, `b`, `c`, with a constant `s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// `c = a`.
    Copy,
    /// `b = s c`.
    Scale,
    /// `c = a + b`.
    Add,
    /// `a = b + s c`.
    Triad,
}

impl Loop {
    /// STREAM's loops, in its order.
    pub(super) const ALL: [Loop; 4] = [Loop::Copy, Loop::Scale, Loop::Add, Loop::Triad];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Loop::Copy => "copy",
            Loop::Scale => "scale",
            Loop::Add => "add",
            Loop::Triad => "triad",
        }
    }

    /// The arrays that are loaded, and the array that is stored: 0, 1, 2 for `a`, `b`, `c`.
    pub(super) const fn arrays(self) -> (&'static [usize], usize) {
        match self {
            Loop::Copy => (&[0], 2),
            Loop::Scale => (&[2], 1),
            Loop::Add => (&[0, 1], 2),
            Loop::Triad => (&[1, 2], 0),
        }
    }

    fn compute(self, operands: &[f64]) -> f64 {
        match (self, operands) {
            (Loop::Scale, [x, ..]) => SCALAR * x,
            (Loop::Add, [x, y, ..]) => x + y,
            (Loop::Triad, [x, y, ..]) => x + SCALAR * y,
            (_, [x, ..]) => *x,
            (_, []) => 0.0,
        }
    }
}

/// STREAM on the cores of a processor. Each loop is a phase of its name. An operation is
/// `access / 8` elements, loads and store together.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamThreads {
    /// Bytes of each of the three arrays: a multiple of 4 KiB up to 64 GiB. Default 8 MiB.
    pub array: Bytes,
    /// The loops to run, in order; the sequence runs `repeats` times. Default all four.
    pub loops: Vec<Loop>,
    /// The number of times that the loops run, 1 to 1000000. Default 1.
    pub repeats: u32,
    /// Bytes of one load or store: 8 B (scalar), 16 B, 32 B or 64 B (vectors). Default 64 B.
    pub access: Bytes,
    /// Accesses to one array that a thread has in flight, as far as the core allows.
    /// 1 to 4096. Default 16.
    pub outstanding: u32,
    /// The memory of the arrays. Default `local`. An operating system places the pages
    /// by its own policy.
    pub data: Memory,
    /// Offset of the first array in that memory. A multiple of 4 KiB.
    pub base: Bytes,
}

impl Default for StreamThreads {
    fn default() -> Self {
        StreamThreads {
            array: Bytes(8 << 20),
            loops: Loop::ALL.to_vec(),
            repeats: 1,
            access: Bytes(LINE_BYTES),
            outstanding: 16,
            data: Memory::Local,
            base: Bytes(0),
        }
    }
}

impl Workload for StreamThreads {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("stream-threads")
    }

    fn check(&self) -> Result<(), ParamError> {
        aligned("array", self.array, 4096)?;
        within("array", self.array.0, 4096, 64 << 30)?;
        within("loops", self.loops.len() as u64, 1, 16)?;
        within("repeats", self.repeats.into(), 1, MAX_REPEATS.into())?;
        within("outstanding", self.outstanding.into(), 1, 4096)?;
        let known = [8, 16, 32, 64].contains(&self.access.0);
        require(known, "access", self.access, "8 B, 16 B, 32 B, 64 B")?;
        aligned("base", self.base, 4096)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        // The line after the arrays is the barrier's counter.
        let bytes = 3 * self.array.0 + LINE_BYTES;
        let need = MemoryNeed::of_data(self.data, self.base, "array", bytes);
        let first = need.place_for(ctx)?;
        let named = |each: &Loop| {
            let (loads, _) = each.arrays();
            phase(each.name(), (loads.len() as u64 + 1) * self.access.0)
        };
        Ok(Box::new(Arc::new(Run {
            params: self.clone(),
            first,
            cores: ctx.cores as u64,
            seed: ctx.draws,
            phases: self.loops.iter().map(named).collect(),
        })))
    }
}

struct Run {
    params: StreamThreads,
    first: u64,
    cores: u64,
    /// Seed of the order in which threads first access their pages.
    seed: u64,
    phases: Vec<Phase>,
}

/// The initial values of an element of `a`, `b` and `c`.
fn initial(element: u64) -> [f64; 3] {
    [1.0 + (element % 1024) as f64 / 1024.0, 2.0, 0.0]
}

impl Run {
    fn array(&self, number: usize) -> u64 {
        self.first + number as u64 * self.params.array.0
    }

    /// The numbers of the accesses that belong to a core.
    fn part(&self, core: u64) -> Range<u64> {
        let all = self.params.array.0 / self.params.access.0;
        all * core / self.cores..all * (core + 1) / self.cores
    }

    /// The order of first accesses in STREAM's first loop: each thread goes through its parts of
    /// all arrays page by page, and for each page the order of the threads is drawn from the seed.
    fn first_touches(&self) -> Vec<Hpa> {
        let mut rng = StreamRng::new(self.seed, "stream-threads/first-touch");
        let mut touches = Vec::new();
        let pages = self.params.array.0.div_ceil(self.cores * PAGE);
        for page in 0..pages {
            let mut cores: Vec<u64> = (0..self.cores).collect();
            while !cores.is_empty() {
                let core = cores.swap_remove(rng.below(cores.len() as u64) as usize);
                let part = self.part(core);
                let at = part.start * self.params.access.0 + page * PAGE;
                if at < part.end * self.params.access.0 {
                    touches.extend((0..3).map(|array| Hpa(self.array(array) + at)));
                }
            }
        }
        touches
    }

    async fn work(&self, t: &Handle, core: u64) {
        let mut round = 0;
        for _ in 0..self.params.repeats {
            for (number, each) in self.params.loops.iter().enumerate() {
                t.mark(number as u8);
                self.pass(t, *each, self.part(core)).await;
                round += 1;
                self.barrier(t, round).await;
            }
        }
    }

    /// Executes one loop over a part of the arrays. Loads are issued ahead of the stores.
    async fn pass(&self, t: &Handle, each: Loop, part: Range<u64>) {
        let wide = self.params.access.0;
        let (from, to) = each.arrays();
        let limit = self.params.outstanding as usize;
        let mut loads: VecDeque<(u64, Vec<LoadedRange>)> = VecDeque::with_capacity(limit);
        let mut stores = Window::new(limit);
        let mut next = part.start;
        while next < part.end || !loads.is_empty() {
            if next < part.end && loads.len() < limit {
                let load = |array: &usize| t.read_range(self.array(*array) + next * wide, wide);
                loads.push_back((next, from.iter().map(load).collect()));
                next += 1;
                continue;
            }
            let Some((at, operands)) = loads.pop_front() else {
                break;
            };
            let mut loaded = Vec::with_capacity(operands.len());
            for operand in operands {
                loaded.push(operand.await);
            }
            let result = combine(each, &loaded);
            stores.room().await;
            stores.add(t.write_range(self.array(to) + at * wide, &result));
            t.count(1);
        }
        stores.drain().await;
    }

    /// Waits until every core has reached this barrier; `round` counts the barriers from 1.
    async fn barrier(&self, t: &Handle, round: u64) {
        let count = self.array(3);
        t.fetch_add(count, 1).await;
        let mut seen = t.load(count).await;
        while seen < round * self.cores {
            seen = t.await_change(count, seen).await;
        }
    }
}

/// The bytes that a loop stores for the bytes that it has loaded.
fn combine(each: Loop, loaded: &[Vec<u8>]) -> Vec<u8> {
    let (Some(x), y) = (loaded.first(), loaded.last()) else {
        return Vec::new();
    };
    let second = doubles(y.unwrap_or(x));
    let results = doubles(x).zip(second).map(|(x, y)| each.compute(&[x, y]));
    results.flat_map(f64::to_le_bytes).collect()
}

impl ThreadedKernel for Arc<Run> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        for element in 0..self.params.array.0 / ELEMENT {
            for (array, value) in initial(element).into_iter().enumerate() {
                let hpa = Hpa(self.array(array) + element * ELEMENT);
                image.write(hpa, ELEMENT as u8, value.to_bits());
            }
        }
        image.write(Hpa(self.array(3)), 8, 0);
    }

    fn first_touches(&self) -> Vec<Hpa> {
        Run::first_touches(self)
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let ExecutionPlace::Core { core } = place else {
            return Vec::new();
        };
        let run = Arc::clone(self);
        vec![Thread::new(move |t| async move {
            run.work(&t, core as u64).await;
        })]
    }

    fn can_run_again(&self) -> bool {
        true
    }

    /// Computes each element by itself, as STREAM's check does for its single value.
    fn check(&self, image: &Image) -> Result<(), String> {
        for element in 0..self.params.array.0 / ELEMENT {
            let mut values = initial(element);
            for _ in 0..self.params.repeats {
                for each in &self.params.loops {
                    let (from, to) = each.arrays();
                    let operands: Vec<f64> = from.iter().map(|array| values[*array]).collect();
                    values[to] = each.compute(&operands);
                }
            }
            let found = [0, 1, 2].map(|array| {
                let hpa = Hpa(self.array(array) + element * ELEMENT);
                f64::from_bits(image.read(hpa, ELEMENT as u8))
            });
            if found != values {
                return Err(format!(
                    "element {element} of a, b, c is {found:?}, not {values:?}"
                ));
            }
        }
        Ok(())
    }
}
