//! What `cxlab attach` asks for, against the event engine on the same program's exact execution.
//!
//! A program runs a second time, under QEMU's user mode, which tells every instruction and access
//! (`recorder`). What the first caches of its threads lack runs on the event engine twice: with all memory being
//! the host's own, and with memory where it was placed. The difference is what the engine says that
//! CXL memory costs. The same execution goes through the model of `cxlab attach`: whole, with every
//! miss known, and in samples, as it sees a program. So each of its assumptions has an error.
//!
//! Both sides have one machine: the time of an instruction, the last level cache, the latency of local
//! memory, the reorder buffer, and the misses and lines of a stream in flight at once. Each thread has a processor
//! core of its own; threads share the last level cache, links and memory. What is compared is the sum of the times
//! in which threads compute or wait for memory, as CPU time is natively.
//!
//! Left out: scenarios with several hosts, instruction fetches, coherence between threads' first caches.

mod engine;
mod exact;
mod pages;
mod perf;
mod recorded;
mod recorder;
mod sampled;
mod thread;
mod turns;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod under_qemu;

use std::sync::Arc;

use cxlab_attach::estimate::Machine;
use cxlab_attach::fabric::Fabric;
use cxlab_attach::model::{Overlap, Step};
use cxlab_attach::placement::Placement;
use cxlab_engine::units::Bytes;
use cxlab_plan::{Plan, Problem};
use cxlab_system::analytic::PlanFabric;
use cxlab_system::run::RunError;
use serde::{Deserialize, Serialize};

use crate::program_fabric::ProgramFabric;
use engine::{EngineRun, simulate};
use exact::exact;
use recorded::RecordedExecution;
use recorder::{RecordedRun, Recorder};
use turns::OrderedRecorder;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use under_qemu::UnderQemu;

/// Size of the first cache, whose hits neither side models (*assumed*: that of current cores).
const FIRST_CACHE: Bytes = Bytes(32 << 10);
const FIRST_WAYS: u32 = 8;
/// Ways of the last level cache.
const LLC_WAYS: u32 = cxlab_attach::reuse::WAYS as u32;
/// Fraction of a program's time below which a delay counts as 0. Another order of steps changes a run by a few latencies.
const NEGLIGIBLE_DELAY: f64 = 1e-4;

/// The machine that both sides model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assumed {
    /// Latency of the machine's memory, in picoseconds.
    pub local_ps: u64,
    /// Time of an instruction that does not wait, in picoseconds.
    pub base_ps: u64,
    /// Bytes of last level cache.
    pub llc_bytes: u64,
    /// Memory-level parallelism: reorder buffer, misses, and lines of a stream.
    pub overlap: Overlap,
}

impl Assumed {
    fn local_ns(&self) -> f64 {
        self.local_ps as f64 / 1e3
    }

    fn base_ns(&self) -> f64 {
        self.base_ps as f64 / 1e3
    }

    /// Size of the last level cache, rounded to whole sets, at least one.
    fn last_level(&self) -> Bytes {
        let set = 64 * u64::from(LLC_WAYS);
        Bytes((self.llc_bytes / set).max(1) * set)
    }

    fn machine(&self) -> Machine {
        Machine {
            local_ns: self.local_ns(),
            wait_ns: self.local_ns(),
            here: None,
            base_ns: self.base_ns(),
        }
    }
}

/// Result of the event engine.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct EngineSide {
    /// Lines requested by loads and stores.
    pub misses: u64,
    /// Lines requested by the prefetcher.
    pub prefetches: u64,
    /// Time of the program with all memory local, in nanoseconds. With several threads, the sum of their times without
    /// waits for one another.
    pub local_ns: f64,
    /// Part of `local_ns` with a miss outstanding.
    pub local_outstanding_ns: f64,
    /// Time of the program with memory as placed.
    pub placed_ns: f64,
    /// `placed_ns` less `local_ns`.
    pub delay_ns: f64,
    /// `placed_ns` over `local_ns`.
    pub slowdown: f64,
}

/// Result of the model of `cxlab attach`, or of the attached run.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct ModelSide {
    /// Number of lines read from CXL memory.
    pub lines: f64,
    /// Number of latencies waited for.
    pub waits: f64,
    /// Time of the program with all memory local, by the model or measured natively.
    pub local_ns: f64,
    /// Requested delay, in nanoseconds.
    pub delay_ns: f64,
    /// `delay_ns` relative to the engine's, less 1, in per cent. 0 if both are less than a ten-thousandth of the program's
    /// time, and `None` if only the engine's is.
    pub error_percent: Option<f64>,
    /// `(local_ns + delay_ns) / local_ns`. It does not use the engine's result.
    pub slowdown: f64,
    /// `slowdown` over the engine's, less 1, in per cent.
    pub slowdown_error_percent: f64,
    /// Error of the slowdown in per cent if this side's delay is added to the engine's time with local memory. The
    /// difference to `slowdown_error_percent` is due to unequal times without delay.
    pub same_local_error_percent: f64,
}

impl ModelSide {
    /// Adds the errors relative to the engine.
    fn compared(self, engine: &EngineSide) -> ModelSide {
        self.against(engine.local_ns, engine.delay_ns, engine.slowdown)
    }

    /// Adds the errors relative to a local time, a delay and a slowdown of the engine.
    fn against(self, engine_ns: f64, delay_ns: f64, engine_slowdown: f64) -> ModelSide {
        // A smaller delay counts as 0.
        let nothing = engine_ns * NEGLIGIBLE_DELAY;
        let error_percent = match (delay_ns.abs() < nothing, self.delay_ns < nothing) {
            (true, true) => Some(0.0),
            (true, false) => None,
            (false, _) => Some(100.0 * (self.delay_ns / delay_ns - 1.0)),
        };
        let over = |local_ns: f64| slowdown(local_ns, local_ns + self.delay_ns);
        let error = |slowdown: f64| 100.0 * (slowdown / engine_slowdown - 1.0);
        let own = over(self.local_ns);
        ModelSide {
            error_percent,
            slowdown: own,
            slowdown_error_percent: error(own),
            same_local_error_percent: error(over(engine_ns)),
            ..self
        }
    }

    /// Sums of the threads' lines, waits, times and delays.
    fn sum(threads: &[ModelSide]) -> ModelSide {
        let mut sum = ModelSide::default();
        for one in threads {
            sum.lines += one.lines;
            sum.waits += one.waits;
            sum.local_ns += one.local_ns;
            sum.delay_ns += one.delay_ns;
        }
        sum
    }
}

/// A program's time with its delay over its time without. A program of no time is not slower.
fn slowdown(local_ns: f64, placed_ns: f64) -> f64 {
    match local_ns > 0.0 {
        true => placed_ns / local_ns,
        false => 1.0,
    }
}

/// Result of a verification.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Verification {
    /// Name of the tool that executed the program.
    pub recorder: String,
    /// Number of instructions that the program executed.
    pub instructions: u64,
    /// Lines that missed a least-recently-used last level cache without prefetcher.
    pub misses: u64,
    /// The event engine on the exact execution.
    pub engine: EngineSide,
    /// The model with all misses known.
    pub exact: ModelSide,
    /// The model with samples, as `cxlab attach` takes them.
    pub sampled: ModelSide,
    /// Results of hardware that samples the addresses of misses, by sampling period.
    pub by_period: Vec<PeriodResult>,
    /// The attached run, over the CPU time that it used natively.
    pub run: Option<ModelSide>,
    /// The attached run, over the model's time for the priced code: without kernel and page table walks, as the engine's.
    pub run_modelled: Option<ModelSide>,
    /// Each thread of a program of several, in the order in which they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadResult>,
    /// The program of several threads from its beginning to its end, by the event engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_end: Option<ProgramTimes>,
    /// Reasons why a side has no delay.
    pub notes: Vec<String>,
    /// Possible reasons why a side has no delay.
    #[serde(skip)]
    why_nothing: String,
}

/// Result of sampled addresses.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct PeriodResult {
    /// Number of misses for one sample.
    pub period: u64,
    /// Slowdown and errors by the samples.
    #[serde(flatten)]
    pub side: ModelSide,
    /// Least slowdown of the samples' interval.
    pub least: f64,
    /// Largest slowdown of the samples' interval.
    pub most: f64,
}

/// Results of the event engine and of the model for a thread.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct ThreadResult {
    /// Number of the thread, from 0.
    pub thread: u64,
    /// Number of instructions that it executed.
    pub instructions: u64,
    /// Time of the thread with all memory local, without waits for other threads, in nanoseconds.
    pub local_ns: f64,
    /// Time of the thread with memory as placed, without waits for other threads, in nanoseconds.
    pub placed_ns: f64,
    /// `placed_ns` less `local_ns`.
    pub delay_ns: f64,
    /// `placed_ns` over `local_ns`.
    pub slowdown: f64,
    /// The model with all misses known.
    pub exact: ModelSide,
    /// The model with samples.
    pub sampled: ModelSide,
}

/// A program of several threads from its beginning to its end, with waits of threads for one another.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct ProgramTimes {
    /// Time with all memory local.
    pub local_ns: f64,
    /// Time with memory as placed.
    pub placed_ns: f64,
    /// `placed_ns` over `local_ns`.
    pub slowdown: f64,
}

/// Measurements and requested delay of an attached run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NativeRun {
    /// Lines read or written.
    pub lines: f64,
    /// Latencies waited for.
    pub waits: f64,
    /// CPU time of the program without the cost of attaching, in nanoseconds.
    pub cpu_ns: f64,
    /// The model's time for the priced code with all memory local, in nanoseconds.
    pub modelled_ns: f64,
    /// Requested delay, in nanoseconds.
    pub delay_ns: f64,
}

impl Verification {
    /// Adds the attached run of the same program.
    #[must_use]
    pub fn with_run(self, run: NativeRun) -> Verification {
        let over = |local_ns: f64| {
            let side = ModelSide {
                lines: run.lines,
                waits: run.waits,
                local_ns,
                delay_ns: run.delay_ns,
                ..ModelSide::default()
            };
            Some(side.compared(&self.engine))
        };
        let mut verified = Verification {
            run: over(run.cpu_ns),
            run_modelled: over(run.modelled_ns),
            ..self
        };
        verified.explain("this run", run.delay_ns);
        verified
    }

    /// Adds a note with the reason if a side has no delay.
    fn explain(&mut self, name: &str, delay_ns: f64) {
        if delay_ns == 0.0 {
            let note = format!("{name} has no delay: {}", self.why_nothing);
            self.notes.push(note);
        }
    }
}

/// Error of a verification.
#[derive(Debug)]
pub enum VerifyError {
    /// A mistake of the user, or an unsupported feature.
    Mistake(String),
    /// Mistakes of the scenario.
    Problems(Vec<Problem>),
    /// Failure of the run on the engine.
    Run(RunError),
}

impl From<RunError> for VerifyError {
    fn from(error: RunError) -> VerifyError {
        match error {
            RunError::Problems(problems) => VerifyError::Problems(problems),
            other => VerifyError::Run(other),
        }
    }
}

/// An execution of a program, which reports instructions and mappings to a listener.
pub trait Execution {
    /// Runs the program to its end, and returns the name of the tool that executed it.
    ///
    /// # Errors
    /// The program cannot be started or traced.
    fn run(self, listener: &mut dyn Listener) -> Result<String, VerifyError>;
}

/// Receives the events of an execution. Threads are numbered in the order in which they begin; the first one exists
/// from the start.
pub trait Listener {
    /// Memory is mapped: address of the first byte, and of the byte behind the last.
    fn map(&mut self, start: u64, end: u64);
    /// Memory is unmapped: address of the first byte, and of the byte behind the last.
    fn unmap(&mut self, start: u64, end: u64);
    /// Another thread begins. Returns false if there are too many.
    fn thread(&mut self) -> bool;
    /// A thread executes an instruction. Returns false after the program has exceeded a limit.
    fn instruction(&mut self, thread: usize, step: &Step) -> bool;
    /// A thread reaches a synchronization point for which other threads may wait. Points of all threads are numbered from 1.
    fn point(&mut self, thread: usize, number: u64);
    /// A thread continues after a synchronization point of another thread, which was reported before.
    fn behind(&mut self, thread: usize, number: u64);
    /// A thread enters or leaves a system call. In a call it may report nothing for long.
    fn away(&mut self, thread: usize, away: bool);
    /// A thread has ended at its last synchronization point, where the word at `address` was cleared (0 for none).
    fn end(&mut self, thread: usize, address: u64);
}

/// Verifies an execution under a plan, whose one host is the program.
///
/// # Errors
/// [`VerifyError`].
pub fn verify(
    plan: &Plan,
    placement: Placement,
    assumed: Assumed,
    execution: impl Execution,
) -> Result<Verification, VerifyError> {
    check(plan)?;
    let seed = plan.scenario.seed;
    let fabric = PlanFabric::new(plan, seed).map_err(VerifyError::Problems)?;
    let nearest_ns = fabric.unloaded_ns();
    let mut fabric = ProgramFabric(fabric);
    let pools = fabric.pools().len();
    let pool_of = |offset: u64| fabric.pool_of(offset);
    let recorder = Recorder::new(assumed, placement, pools, &pool_of);
    let recorder =
        recorder.map_err(|error| VerifyError::Mistake(format!("last level cache: {error}")))?;
    let mut turns = OrderedRecorder::new(recorder);
    let ran_by = execution.run(&mut turns)?;
    if let Some(too_many) = turns.too_many() {
        return Err(VerifyError::Mistake(too_many.message()));
    }
    let RecordedRun {
        recorded,
        windows,
        parts,
        misses,
        sampling,
    } = turns.finish().finish();
    let recorded = Arc::new(recorded);
    let threads = recorded.threads.len();
    let local = simulate(plan, &assumed, &recorded, false)?;
    let placed = simulate(plan, &assumed, &recorded, true)?;
    let engine = EngineSide {
        misses: placed.misses,
        prefetches: placed.prefetches,
        local_ns: local.time_ns,
        local_outstanding_ns: local.outstanding_ns,
        placed_ns: placed.time_ns,
        delay_ns: placed.time_ns - local.time_ns,
        slowdown: slowdown(local.time_ns, placed.time_ns),
    };
    let exact = exact(&windows, threads, &assumed, &mut fabric);
    let sampled = sampled::ask(parts, threads, &assumed, &mut fabric);
    let by_thread = by_thread(&recorded, [&local, &placed], &exact, &sampled);
    let to_end = (threads > 1).then(|| ProgramTimes {
        local_ns: local.to_end_ns,
        placed_ns: placed.to_end_ns,
        slowdown: slowdown(local.to_end_ns, placed.to_end_ns),
    });
    let exact = ModelSide::sum(&exact).compared(&engine);
    let sampled = ModelSide::sum(&sampled).compared(&engine);
    let (mut by_period, mut notes) = (Vec::new(), Vec::new());
    for period in perf::PERIODS {
        match sampling.price(period, &engine, &assumed, placement, &mut fabric) {
            Ok(found) => by_period.push(found),
            Err(why) => notes.push(format!("sampled addresses, 1 of {period}: {why}")),
        }
    }
    let nearest_ns = nearest_ns.into_iter().skip(1);
    let nearest_ns = nearest_ns.fold(f64::INFINITY, f64::min);
    let why_nothing = if recorded.pages.iter().all(Option::is_none) {
        format!(
            "none of the program's {} pages lies in CXL memory ({placement})",
            recorded.pages.len()
        )
    } else if misses == 0 {
        format!(
            "no line misses a last level cache of {}",
            assumed.last_level()
        )
    } else if nearest_ns <= assumed.local_ns() {
        "the scenario's memory is not slower than this machine's".to_owned()
    } else {
        "it found no wait for CXL memory that computing does not hide".to_owned()
    };
    let mut verified = Verification {
        recorder: ran_by,
        instructions: recorded.threads.iter().map(|one| one.instructions).sum(),
        misses,
        engine,
        exact,
        sampled,
        by_period,
        run: None,
        run_modelled: None,
        threads: by_thread,
        to_end,
        notes,
        why_nothing,
    };
    let delays = [
        ("the event engine", engine.delay_ns),
        ("the model, every miss known,", exact.delay_ns),
        ("the model, in samples,", sampled.delay_ns),
    ];
    delays
        .iter()
        .for_each(|(name, delay_ns)| verified.explain(name, *delay_ns));
    Ok(verified)
}

/// Results of each of several threads, by the engine's two runs and by the model.
fn by_thread(
    recorded: &RecordedExecution,
    [local, placed]: [&EngineRun; 2],
    exact: &[ModelSide],
    sampled: &[ModelSide],
) -> Vec<ThreadResult> {
    let times = local.threads.iter().zip(&placed.threads).enumerate();
    let one = |(thread, (local_ns, placed_ns)): (usize, (&f64, &f64))| {
        let (local_ns, placed_ns) = (*local_ns, *placed_ns);
        let (delay_ns, slowdown) = (placed_ns - local_ns, slowdown(local_ns, placed_ns));
        let compared = |side: ModelSide| side.against(local_ns, delay_ns, slowdown);
        ThreadResult {
            thread: thread as u64,
            instructions: recorded.threads[thread].instructions,
            local_ns,
            placed_ns,
            delay_ns,
            slowdown,
            exact: compared(exact[thread]),
            sampled: compared(sampled[thread]),
        }
    };
    times.map(one).collect()
}

/// Refuses an unsupported plan before the program runs.
///
/// # Errors
/// [`VerifyError::Mistake`].
pub fn check(plan: &Plan) -> Result<(), VerifyError> {
    let hosts = plan.hosts.len();
    if hosts != 1 {
        return Err(VerifyError::Mistake(format!(
            "--verify: found a scenario with {hosts} hosts; allowed: 1, which is the program"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
