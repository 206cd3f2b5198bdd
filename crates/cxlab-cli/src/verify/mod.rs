//! What `cxlab attach` asks for, against the event engine on the same program's exact execution.
//!
//! A program runs a second time, under QEMU's user mode, which tells every instruction and access
//! (`recorder`). What its first cache lacks runs on the event engine twice: with all memory being
//! the host's own, and with memory where it was placed. The difference is what the engine says that
//! CXL memory costs. The same execution goes through the model of `cxlab attach`: whole, with every
//! miss known, and in samples, as it sees a program. So each of its assumptions has an error.
//!
//! Both sides have one machine: the time of an instruction, the last level cache, the latency of local
//! memory, the reorder buffer, and the misses and lines of a stream in flight at once.
//!
//! Left out: programs with several threads, scenarios with several hosts, instruction fetches.

mod pages;
mod perf;
mod recorded;
mod recorder;
mod sampled;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod under_qemu;

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_attach::estimate::{Estimate, Machine};
use cxlab_attach::fabric::{Answer, Demand, Fabric, under_way};
use cxlab_attach::model::{Overlap, PoolUse, Step, WindowUse};
use cxlab_attach::placement::Placement;
use cxlab_engine::Monitor;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_host::{CacheLevel, CoreParams, RequesterParams};
use cxlab_plan::{Externals, Plan, Problem};
use cxlab_scenario::{HostGroup, HostKind, Measure};
use cxlab_system::analytic::PlanFabric;
use cxlab_system::run::{RunError, RunOptions, run};
use cxlab_workload::Workload;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::program_fabric::ProgramFabric;
use recorded::{Recorded, Replayed};
use recorder::Recorder;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use under_qemu::UnderQemu;

/// The first cache, which neither side looks into (*assumed*: that of current cores).
const FIRST_CACHE: Bytes = Bytes(32 << 10);
const FIRST_WAYS: u32 = 8;
/// Ways of the last level cache.
const LLC_WAYS: u32 = cxlab_attach::reuse::WAYS as u32;
/// Lines on their way back to memory (the default of cores).
const WRITEBACKS: u32 = 256;
/// Time between two questions to the fabric, in nanoseconds of the program's time.
const ASK_NS: f64 = 1e6;
/// How often load and delay are brought to agree.
const ROUNDS: usize = 8;
/// Fraction of a program's time below which a delay counts as none: another order of steps shifts a run by
/// a few latencies.
const NOTHING: f64 = 1e-4;
/// The workload's name.
const NAME: &str = "recorded";

/// The machine that both sides have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assumed {
    /// Latency of its own memory, in picoseconds.
    pub local_ps: u64,
    /// Time of an instruction that waits for nothing, in picoseconds.
    pub base_ps: u64,
    /// Bytes of last level cache.
    pub llc_bytes: u64,
    /// Limits on what overlaps: reorder buffer, misses and lines of a stream.
    pub overlap: Overlap,
}

impl Assumed {
    fn local_ns(&self) -> f64 {
        self.local_ps as f64 / 1e3
    }

    fn base_ns(&self) -> f64 {
        self.base_ps as f64 / 1e3
    }

    /// The last level cache in whole sets, one at least.
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

/// What the event engine says.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct EngineSide {
    /// Lines asked for by loads and stores.
    pub misses: u64,
    /// Lines asked for by the prefetcher.
    pub prefetches: u64,
    /// Time of the program with all memory local.
    pub local_ns: f64,
    /// The part of it in which the program waits for memory, or computes meanwhile.
    pub local_outstanding_ns: f64,
    /// Time of the program with memory where it was placed.
    pub placed_ns: f64,
    /// `placed_ns` less `local_ns`.
    pub delay_ns: f64,
    /// `placed_ns` over `local_ns`.
    pub slowdown: f64,
}

/// What the model of `cxlab attach` says, or the attached run.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct ModelSide {
    /// Number of lines read from CXL memory.
    pub lines: f64,
    /// Latencies waited for.
    pub waits: f64,
    /// Time of the program with all memory local: by the model, or natively used.
    pub local_ns: f64,
    /// Delay asked for.
    pub delay_ns: f64,
    /// `delay_ns` over the engine's, less 1, in per cent; 0 where both are less than a ten-thousandth of the
    /// program's time, and none where only the engine's is.
    pub error_percent: Option<f64>,
    /// `local_ns` and `delay_ns` over `local_ns`: this side's answer, with nothing of the engine's in it.
    pub slowdown: f64,
    /// `slowdown` over the engine's, less 1, in per cent.
    pub slowdown_error_percent: f64,
    /// The same where this side's delay comes to the engine's time with local memory, and not to its own: what is left
    /// of the error when the times without delay are alike.
    pub same_local_error_percent: f64,
}

impl ModelSide {
    /// What is compared with the engine.
    fn compared(self, engine: &EngineSide) -> ModelSide {
        // Less than this of the program's time is nothing.
        let nothing = engine.local_ns * NOTHING;
        let error_percent = match (engine.delay_ns.abs() < nothing, self.delay_ns < nothing) {
            (true, true) => Some(0.0),
            (true, false) => None,
            (false, _) => Some(100.0 * (self.delay_ns / engine.delay_ns - 1.0)),
        };
        let over = |local_ns: f64| slowdown(local_ns, local_ns + self.delay_ns);
        let error = |slowdown: f64| 100.0 * (slowdown / engine.slowdown - 1.0);
        let own = over(self.local_ns);
        ModelSide {
            error_percent,
            slowdown: own,
            slowdown_error_percent: error(own),
            same_local_error_percent: error(over(engine.local_ns)),
            ..self
        }
    }
}

/// A program's time with its delay over its time without. A program of no time is not slower.
fn slowdown(local_ns: f64, placed_ns: f64) -> f64 {
    match local_ns > 0.0 {
        true => placed_ns / local_ns,
        false => 1.0,
    }
}

/// What was found.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Verified {
    /// What ran the program.
    pub recorder: String,
    /// Number of instructions that the program executed.
    pub instructions: u64,
    /// Lines that missed the last level cache, of a least-recently-used one without prefetcher.
    pub misses: u64,
    /// The event engine on the exact execution.
    pub engine: EngineSide,
    /// The model, told of every miss.
    pub exact: ModelSide,
    /// The model, told of samples, as `cxlab attach` sees them.
    pub sampled: ModelSide,
    /// What hardware that samples the addresses of misses would say, by the number of misses for one sample.
    pub by_period: Vec<ByPeriod>,
    /// The attached run, over the CPU time that it used natively.
    pub run: Option<ModelSide>,
    /// The same, over the time that the model says for what it priced: as on the engine's machine, there is no kernel
    /// in it, and finding pages takes no time.
    pub run_modelled: Option<ModelSide>,
    /// Why there is no delay, where somebody has none.
    pub notes: Vec<String>,
    /// Why there may be none.
    #[serde(skip)]
    why_nothing: String,
}

/// What samples of addresses say.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct ByPeriod {
    /// Number of misses for one sample.
    pub period: u64,
    /// What they say.
    #[serde(flatten)]
    pub side: ModelSide,
    /// Least slowdown that they allow.
    pub least: f64,
    /// Largest such slowdown.
    pub most: f64,
}

/// What an attached run measured and asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NativeRun {
    /// Lines read or written.
    pub lines: f64,
    /// Latencies waited for.
    pub waits: f64,
    /// CPU time of the program, without what attaching took, in nanoseconds.
    pub cpu_ns: f64,
    /// Time that the model says for what had a price, with all memory local, in nanoseconds.
    pub modelled_ns: f64,
    /// Delay asked for, in nanoseconds.
    pub delay_ns: f64,
}

impl Verified {
    /// With the attached run of the same program beside it.
    #[must_use]
    pub fn with_run(self, run: NativeRun) -> Verified {
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
        let mut verified = Verified {
            run: over(run.cpu_ns),
            run_modelled: over(run.modelled_ns),
            ..self
        };
        verified.explain("this run", run.delay_ns);
        verified
    }

    /// No delay is said with its reason.
    fn explain(&mut self, name: &str, delay_ns: f64) {
        if delay_ns == 0.0 {
            let note = format!("{name} has no delay: {}", self.why_nothing);
            self.notes.push(note);
        }
    }
}

/// Why nothing was found.
#[derive(Debug)]
pub enum VerifyError {
    /// The user's mistake, or what is not supported.
    Mistake(String),
    /// Mistakes of the scenario.
    Problems(Vec<Problem>),
    /// The run on the engine.
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

/// Something that runs: it tells a listener of its instructions and mappings.
pub trait Execution {
    /// Runs it to its end.
    ///
    /// # Errors
    /// The program cannot be started or traced.
    fn run(self, listener: &mut dyn Listener) -> Result<String, VerifyError>;
}

/// Who is told.
pub trait Listener {
    /// Memory is mapped: first byte, and the one behind the last.
    fn map(&mut self, start: u64, end: u64);
    /// Memory is unmapped: first byte, and the one behind the last.
    fn unmap(&mut self, start: u64, end: u64);
    /// An instruction is executed. False when there have been too many.
    fn instruction(&mut self, step: &Step) -> bool;
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
) -> Result<Verified, VerifyError> {
    check(plan)?;
    let seed = plan.scenario.seed;
    let fabric = PlanFabric::new(plan, seed).map_err(VerifyError::Problems)?;
    let nearest_ns = fabric.unloaded_ns();
    let mut fabric = ProgramFabric(fabric);
    let pools = fabric.pools().len();
    let pool_of = |offset: u64| fabric.pool_of(offset);
    let recorder = Recorder::new(assumed, placement, pools, &pool_of);
    let mut recorder =
        recorder.map_err(|error| VerifyError::Mistake(format!("last level cache: {error}")))?;
    let ran_by = execution.run(&mut recorder)?;
    let heard = recorder.finish();
    let recorded = Arc::new(heard.recorded);
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
    let exact = exact(&heard.windows, &assumed, &mut fabric).compared(&engine);
    let sampled = sampled::ask(heard.parts, &assumed, &mut fabric).compared(&engine);
    let (mut by_period, mut notes) = (Vec::new(), Vec::new());
    for period in perf::PERIODS {
        let samples = &heard.sampling;
        match samples.price(period, &engine, &assumed, placement, &mut fabric) {
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
    } else if heard.misses == 0 {
        format!(
            "no line misses a last level cache of {}",
            assumed.last_level()
        )
    } else if nearest_ns <= assumed.local_ns() {
        "the scenario's memory is not slower than this machine's".to_owned()
    } else {
        "it found no wait for CXL memory that computing does not hide".to_owned()
    };
    let mut verified = Verified {
        recorder: ran_by,
        instructions: recorded.instructions,
        misses: heard.misses,
        engine,
        exact,
        sampled,
        by_period,
        run: None,
        run_modelled: None,
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

/// What is not supported is said before the program runs.
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

/// What a run on the engine measured.
struct Ran {
    time_ns: f64,
    outstanding_ns: f64,
    misses: u64,
    prefetches: u64,
}

/// Runs what was recorded on the plan's system.
fn simulate(
    plan: &Plan,
    assumed: &Assumed,
    recorded: &Arc<Recorded>,
    placed: bool,
) -> Result<Ran, VerifyError> {
    let mut scenario = plan.scenario.clone();
    scenario.measure = Measure::default();
    become_program(&mut scenario.hosts[0], assumed, recorded.bytes())?;
    let workload: Arc<dyn Workload> = Arc::new(Replayed {
        recorded: Arc::clone(recorded),
        placed,
    });
    let externals: Externals = BTreeMap::from([(NAME.to_owned(), workload)]);
    let plan = Plan::with_externals(scenario, plan.files.clone(), &externals);
    let plan = plan.map_err(VerifyError::Problems)?;
    let monitor = Monitor::default();
    let report = run(
        &plan,
        RunOptions {
            seed: plan.scenario.seed,
            threads: cxlab_engine::Threads::Exactly(1),
            monitor: &monitor,
            rows: None,
        },
    )?;
    let core = report.hosts.first().and_then(|host| host.core.as_ref());
    let Some((core, phase)) = core.and_then(|core| Some((core, core.phases.first()?))) else {
        let text = "a run on a core without what the core measured".to_owned();
        return Err(VerifyError::Run(RunError::Law(text)));
    };
    Ok(Ran {
        time_ns: phase.time_ns,
        outstanding_ns: core.outstanding_ns,
        misses: core.misses,
        prefetches: core.prefetches.unwrap_or(0),
    })
}

/// Makes a host the machine that is assumed, with the recorded program.
fn become_program(group: &mut HostGroup, assumed: &Assumed, bytes: u64) -> Result<(), VerifyError> {
    let Overlap {
        window,
        misses,
        stream,
    } = assumed.overlap;
    let lines = |count: f64| (count.round() as u32).max(1);
    let process_time = match &group.kind {
        HostKind::Requester(issue) => issue.process_time,
        HostKind::Core(_) | HostKind::Processor(_) => RequesterParams::default().process_time,
    };
    group.kind = HostKind::Core(CoreParams {
        cycle: Picos(assumed.base_ps),
        // What an instruction takes says how many begin in a cycle.
        width: 64,
        window,
        caches: vec![CacheLevel {
            size: assumed.last_level(),
            ways: LLC_WAYS,
            access_time: Picos::ZERO,
        }],
        misses: lines(misses),
        prefetch: lines(stream),
        writebacks: WRITEBACKS,
        process_time,
    });
    group.requests = None;
    let way = assumed.local_ps / 4;
    let typed = |value: serde_json::Value| value.to_string();
    let local = typed(json!({
        "capacity": Bytes(bytes),
        "latency": Picos(way),
        "memory": {
            "kind": "fixed",
            "latency": Picos(assumed.local_ps - 2 * way),
            "queue": 65536,
        },
    }));
    let internal = |error: serde_json::Error| {
        VerifyError::Run(RunError::Law(format!(
            "the recorded program's host: {error}"
        )))
    };
    group.local = Some(serde_json::from_str(&local).map_err(internal)?);
    let workload = typed(json!({ "kind": "external", "name": NAME }));
    group.workload = serde_json::from_str(&workload).map_err(internal)?;
    Ok(())
}

/// What the model asks for when it is told of everything.
fn exact(windows: &[WindowUse], assumed: &Assumed, fabric: &mut dyn Fabric) -> ModelSide {
    let machine = assumed.machine();
    let mut side = ModelSide::default();
    let mut from = 0;
    let mut time = 0.0;
    for (at, window) in windows.iter().enumerate() {
        let own = Estimate::of([window].into_iter(), &machine, 1.0);
        time += own.map_or(0.0, |own| own.time_ns());
        if time < ASK_NS && at + 1 < windows.len() {
            continue;
        }
        let part = joined(&windows[from..=at]);
        if let Some(estimate) = Estimate::of([&part].into_iter(), &machine, 1.0) {
            let answers = settled(&estimate, &machine, assumed, fabric);
            let time_ns = estimate.time_ns();
            side.local_ns += time_ns;
            add(&mut side, &estimate, time_ns, &answers, &machine);
        }
        (from, time) = (at + 1, 0.0);
    }
    side
}

/// Windows that follow each other as one: a stream goes on from each to the next.
fn joined(windows: &[WindowUse]) -> WindowUse {
    let mut whole = WindowUse::default();
    for window in windows {
        whole.instructions += window.instructions;
        whole.seen += window.seen;
        whole.idle += window.idle;
        whole.blocks.extend_from_slice(&window.blocks);
        whole.pools.resize(window.pools.len(), PoolUse::default());
        for (sum, pool) in whole.pools.iter_mut().zip(&window.pools) {
            sum.waits += pool.waits;
            sum.reads += pool.reads;
            sum.writes += pool.writes;
        }
    }
    whole
}

/// Adds what so much CPU time asks for.
fn add(
    side: &mut ModelSide,
    estimate: &Estimate,
    cpu_ns: f64,
    answers: &[Answer],
    machine: &Machine,
) {
    side.delay_ns += cpu_ns * estimate.delay(answers, machine);
    for rate in &estimate.rates {
        side.lines += cpu_ns * rate.reads;
        side.waits += cpu_ns * rate.waits;
    }
}

/// What the fabric answers when the program is as slow as it makes it.
fn settled(
    estimate: &Estimate,
    machine: &Machine,
    assumed: &Assumed,
    fabric: &mut dyn Fabric,
) -> Vec<Answer> {
    let demand = |real_ns: f64| -> Vec<Demand> {
        cxlab_attach::estimate::demand(&estimate.rates, 1.0, real_ns)
    };
    let lines = under_way(&demand(1.0), assumed.overlap.stream);
    let undelayed = fabric.answer(&demand(1.0), lines);
    let mut answers = undelayed.clone();
    for _ in 0..ROUNDS {
        let real_ns = 1.0 + estimate.delay(&answers, machine);
        answers = fabric.answer(&demand(real_ns), lines);
        for (answer, undelayed) in answers.iter_mut().zip(&undelayed) {
            answer.stretch = undelayed.stretch;
        }
    }
    answers
}

#[cfg(test)]
mod tests;
