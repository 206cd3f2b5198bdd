//! Programs of the NAS Parallel Benchmarks (NPB 3.4, OpenMP) with the shapes of class D, scaled
//! down: every side of a grid is divided by `shrink`, so that the working set is class D's divided
//! by the third power of `shrink`.
//!
//! `cg`, `ep`, `ft` and `mg` compute: their numbers are in simulated memory, and are checked bit
//! by bit against the same algorithm on plain arrays. `bt`, `sp` and `ua` are access-accurate:
//! their loops access the same arrays in the same order, but each update adds one to a number,
//! and arithmetic only takes its time. At the end, every number must have been updated as often
//! as the algorithm requires.
//!
//! Arithmetic takes time by NPB's own counts of floating-point operations. Loads and stores of
//! consecutive numbers are as wide as a line, as in vector code.
//!
//! # Left out
//! Initialisation (data are in memory when the run begins), verification by norms, ghost cells, and
//! variables in registers and on the stack.

mod cg;
mod ep;
mod ft;
mod grid;
mod mg;
mod solves;
mod ua;

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, aligned, needs_cores, phase, within};
use super::team::{Team, control_bytes};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::{entry, require};
use crate::program::Phase;
use crate::thread::{ExecutionPlace, Handle, Thread, ThreadContext, ThreadedKernel};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<Nas>(
    "nas",
    "threads: programs of the NAS Parallel Benchmarks at shapes of class D, made smaller",
);

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A program of the NAS Parallel Benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// Block-tridiagonal systems along the lines of a grid, in three directions.
    Bt,
    /// Conjugate gradients with a random sparse matrix.
    #[default]
    Cg,
    /// Pairs of Gaussian random numbers.
    Ep,
    /// Fourier transforms of a grid, in three directions.
    Ft,
    /// Multigrid V-cycles on a periodic cube.
    Mg,
    /// Pentadiagonal systems along the lines of a grid, in three directions.
    Sp,
    /// Heat transfer on an unstructured adaptive mesh.
    Ua,
}

/// A NAS program on the cores of a processor, with one phase, `run`. An operation is a cell, an
/// element, a nonzero of the matrix or a pair of random numbers, once in each iteration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nas {
    /// The program. Default `cg`.
    pub benchmark: Benchmark,
    /// Divisor of each side of class D's grids; the working set is that of CXL-ClusterSim's Table 3
    /// divided by the third power of this number. A power of two, 4 to 128. Default 16.
    pub shrink: u64,
    /// Number of iterations, 1 to 1000000. Default 1.
    pub iterations: u32,
    /// Floating-point operations of a core in a cycle, 1 to 1024. Default 4 (*assumed*: two units
    /// of 128 bits, as in ARM's NEON).
    pub flops: u32,
    /// Accesses of a thread in flight, as far as the core allows, 1 to 1024. Default 16.
    pub outstanding: u32,
    /// The memory of the arrays. Default `local`. An operating system places the pages
    /// by its own policy.
    pub data: Memory,
    /// Offset of the arrays in that memory. A multiple of 4 KiB.
    pub base: Bytes,
}

impl Default for Nas {
    fn default() -> Self {
        Nas {
            benchmark: Benchmark::Cg,
            shrink: 16,
            iterations: 1,
            flops: 4,
            outstanding: 16,
            data: Memory::Local,
            base: Bytes(0),
        }
    }
}

impl Nas {
    /// The working set of class D divided by the third power of `shrink`, in bytes, for
    /// programs without a grid.
    fn working_set(&self, gibibytes: u64) -> u64 {
        (gibibytes << 30) / self.shrink.pow(3)
    }

    fn program(&self, seed: u64, cores: u64) -> Box<dyn Program> {
        match self.benchmark {
            Benchmark::Bt => Box::new(solves::Solves::block_tridiagonal(self, cores)),
            Benchmark::Sp => Box::new(solves::Solves::pentadiagonal(self, cores)),
            Benchmark::Cg => Box::new(cg::ConjugateGradients::new(self, seed)),
            Benchmark::Ep => Box::new(ep::Pairs::new(self, cores)),
            Benchmark::Ft => Box::new(ft::Transforms::new(self, seed)),
            Benchmark::Mg => Box::new(mg::Multigrid::new(self, seed)),
            Benchmark::Ua => Box::new(ua::Mesh::new(self, seed)),
        }
    }
}

type RunningKernel<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One of the programs, for a given number of cores.
trait Program: Send + Sync {
    /// Bytes of each array, in the order in which the program first accesses them.
    fn arrays(&self) -> Vec<u64>;

    /// Writes the initial contents of the arrays.
    fn prepare(&self, memory: &Arrays<'_>);

    /// Executes the part of one thread.
    fn run<'a>(&'a self, worker: &'a mut Worker<'_>) -> RunningKernel<'a>;

    /// Checks the final contents of the arrays.
    fn check(&self, memory: &Arrays<'_>) -> Result<(), String>;
}

impl Workload for Nas {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("nas")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("shrink", self.shrink, 4, 128)?;
        let known = self.shrink.is_power_of_two();
        require(known, "shrink", self.shrink, "powers of two")?;
        within("iterations", self.iterations.into(), 1, 1_000_000)?;
        within("flops", self.flops.into(), 1, 1024)?;
        within("outstanding", self.outstanding.into(), 1, 1024)?;
        aligned("base", self.base, PAGE)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        needs_cores(ctx)?;
        let cores = ctx.cores as u64;
        let program = self.program(ctx.seed, cores);
        let mut bytes = 0;
        let places = program.arrays().into_iter().map(|array| {
            let at = bytes;
            bytes += array.next_multiple_of(PAGE);
            (at, array)
        });
        let mut places: Vec<(u64, u64)> = places.collect();
        let all = bytes + control_bytes(cores).next_multiple_of(PAGE);
        let need = MemoryNeed::of_data(self.data, self.base, "shrink", all);
        let first = need.place_for(ctx)?;
        places.iter_mut().for_each(|(at, _)| *at += first);
        Ok(Box::new(Arc::new(Run {
            params: self.clone(),
            program,
            places,
            control: first + bytes,
            cores,
            phases: [phase("run", 0)],
        })))
    }
}

struct Run {
    params: Nas,
    program: Box<dyn Program>,
    /// First address and bytes of each array.
    places: Vec<(u64, u64)>,
    control: u64,
    cores: u64,
    phases: [Phase; 1],
}

/// The arrays in memory, for accesses that take no simulated time.
struct Arrays<'a> {
    image: &'a Image,
    places: &'a [(u64, u64)],
    cores: u64,
}

impl Arrays<'_> {
    fn write_bytes(&self, array: usize, bytes: &[u8]) {
        self.image.write_bytes(Hpa(self.places[array].0), bytes);
    }

    fn write(&self, array: usize, first: u64, numbers: &[f64]) {
        let at = self.places[array].0 + 8 * first;
        self.image.write_bytes(Hpa(at), &bytes_of(numbers));
    }

    fn word(&self, array: usize, at: u64) -> u64 {
        self.image.read(Hpa(self.places[array].0 + 8 * at), 8)
    }

    /// Checks that an array has these numbers, bit by bit.
    fn hold(&self, what: &str, array: usize, expected: &[f64]) -> Result<(), String> {
        for (at, number) in (0..).zip(expected) {
            let found = self.word(array, at);
            if found != number.to_bits() {
                let found = f64::from_bits(found);
                return Err(format!("{what}: number {at} is {found}, not {number}"));
            }
        }
        Ok(())
    }

    /// Checks that the first `words` words of an array have this value.
    fn count(&self, what: &str, array: usize, words: u64, expected: u64) -> Result<(), String> {
        for at in 0..words {
            let found = self.word(array, at);
            if found != expected {
                return Err(format!(
                    "{what}: number {at} was updated {found} times, not {expected}"
                ));
            }
        }
        Ok(())
    }
}

/// A thread of a program, with its team and the arrays.
struct Worker<'a> {
    t: &'a Handle,
    params: &'a Nas,
    places: &'a [(u64, u64)],
    team: Team<'a>,
}

impl<'a> Worker<'a> {
    /// The address of a number of 8 B in an array.
    fn at(&self, array: usize, number: u64) -> u64 {
        self.places[array].0 + 8 * number
    }

    /// Computes for the time of this many floating-point operations.
    async fn compute(&self, flops: u64) {
        let cycles = flops.div_ceil(self.params.flops.into());
        self.t.compute(cycles.min(u64::from(u32::MAX)) as u32).await;
    }

    fn outstanding(&self) -> usize {
        self.params.outstanding as usize
    }
}

/// The doubles in a sequence of bytes.
fn doubles(bytes: &[u8]) -> Vec<f64> {
    super::common::doubles(bytes).collect()
}

/// The bytes of doubles.
fn bytes_of(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_le_bytes()).collect()
}

/// The update of access-accurate programs: adds one to each word.
fn one_more(bytes: &[u8]) -> Vec<u8> {
    let words = bytes.as_chunks::<8>().0.iter();
    let words = words.map(|word| u64::from_le_bytes(*word).wrapping_add(1));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Ranges that are loaded ahead, in order. At least one range is in flight, and more as long as
/// their lines are fewer than the accesses that a thread may have in flight.
struct RangesAhead<'t, I> {
    t: &'t Handle,
    ranges: I,
    under_way: VecDeque<(crate::thread::LoadedRange<'t>, u64)>,
    lines: u64,
    limit: u64,
}

impl<'t, I: Iterator<Item = (u64, u64)>> RangesAhead<'t, I> {
    /// Makes the loader of ranges, each given by address and bytes.
    fn new(worker: &Worker<'t>, ranges: I) -> RangesAhead<'t, I> {
        RangesAhead {
            t: worker.t,
            ranges,
            under_way: VecDeque::new(),
            lines: 0,
            limit: worker.params.outstanding.into(),
        }
    }

    /// Returns the bytes of the next range; empty at the end.
    async fn next(&mut self) -> Vec<u8> {
        while self.lines < self.limit
            && let Some((addr, bytes)) = self.ranges.next()
        {
            let lines = bytes.div_ceil(LINE_BYTES);
            self.lines += lines;
            self.under_way
                .push_back((self.t.read_range(addr, bytes), lines));
        }
        match self.under_way.pop_front() {
            Some((load, lines)) => {
                self.lines -= lines;
                load.await
            }
            None => Vec::new(),
        }
    }
}

impl ThreadedKernel for Arc<Run> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        self.program.prepare(&self.arrays(image));
    }

    /// All pages in the order of the arrays, as the benchmarks initialise them.
    fn first_touches(&self) -> Vec<Hpa> {
        let first = self.places.first().map_or(self.control, |one| one.0);
        let end = self.control + control_bytes(self.cores);
        (first..end).step_by(PAGE as usize).map(Hpa).collect()
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let ExecutionPlace::Core { core } = place else {
            return Vec::new();
        };
        let run = Arc::clone(self);
        vec![Thread::new(move |t| async move {
            let mut worker = Worker {
                t: &t,
                params: &run.params,
                places: &run.places,
                team: Team::new(&t, core as u64, run.cores, run.control),
            };
            run.program.run(&mut worker).await;
        })]
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        self.program.check(&self.arrays(image))
    }
}

impl Run {
    fn arrays<'a>(&'a self, image: &'a Image) -> Arrays<'a> {
        Arrays {
            image,
            places: &self.places,
            cores: self.cores,
        }
    }
}
