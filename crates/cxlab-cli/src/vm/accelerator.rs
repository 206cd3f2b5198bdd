//! Commands of a guest's accelerator on the event engine.
//!
//! Each command runs on the scenario's own system: the host's processor, the accelerator's processing elements and
//! caches, links and memory. Memory begins with the bytes of the guest's pages. A thread of the host first takes the
//! lines that the guest's caches hold, then stores the command and rings the doorbell, from where time counts. An
//! element loads the command, and all elements run the function's work-groups in turn.
//!
//! Pages of the guest's own memory have places in the host's memory in the order of their virtual addresses; pages of
//! windows have their addresses in the plan. Where the host has an operating system (`hosts[].os`), the elements'
//! addresses are translated by the accelerator's translation cache (ATC).

mod command;

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cxlab_engine::Monitor;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::Bytes;
use cxlab_plan::Plan;
use cxlab_system::report::Report;
use cxlab_vm::device::{CommandResult, Executor, Launch};
use cxlab_workload::thread::{ExecutionPlace, Thread, ThreadContext, ThreadedKernel};
use cxlab_workload::{Image, Phase, Workload, WorkloadError, WorkloadForm};
use serde_json::Value;

use super::super::external::run_external;
use super::super::failure::Failure;
use command::Command;

/// Name of the phase.
const NAME: &str = "command";
/// Counters of the device, by their names in reports of runs.
const COUNTERS: [&str; 9] = [
    "hmc_hits",
    "hmc_misses",
    "hmc_upgrades",
    "hmc_snoops",
    "dmc_hits",
    "dmc_misses",
    "bias_flips",
    "atc_hits",
    "atc_misses",
];

/// The accelerator of a host, on the event engine.
#[derive(Clone)]
pub(super) struct Accelerator<'a> {
    plan: &'a Plan,
    elements: u64,
    register_ps: (u64, u64),
    limit: Duration,
}

impl<'a> Accelerator<'a> {
    /// The accelerator of the plan's host. Measures the time of an access to a register.
    ///
    /// # Errors
    /// A plan with several hosts or accelerators.
    pub(super) fn new(plan: &'a Plan, limit: Duration) -> Result<Accelerator<'a>, Failure> {
        let mistake = |what: &str, found: usize| {
            Err(Failure::mistake(format!(
                "`{what}`: found {found}; allowed in a guest with an accelerator: 1"
            )))
        };
        if plan.hosts.len() != 1 {
            return mistake("hosts", plan.hosts.len());
        }
        let mut own = plan.accelerators_of(0);
        let elements = match (own.next(), own.count()) {
            (Some((_, group)), 0) => u64::from(group.device.elements),
            (_, more) => return mistake("accelerators", more + 1),
        };
        let windows = plan.hosts[0].map.windows().len();
        if plan.has_os(0) && windows > 1 {
            return Err(Failure::mistake(format!(
                "`devices`: found {windows} windows of CXL memory; allowed in a guest with an accelerator: the \
                 accelerator's alone, or no hosts[0].os, whose pages would be in any of them"
            )));
        }
        let mut accelerator = Accelerator {
            plan,
            elements,
            register_ps: (0, 0),
            limit,
        };
        let probe = Arc::new(Probe::default());
        let probed = accelerator.simulate(OfferedThreads(Arc::clone(&probe)));
        probed.map_err(Failure::mistake)?;
        accelerator.register_ps = probe.register_ps();
        Ok(accelerator)
    }

    /// Runs a workload on the plan's system.
    fn simulate(&self, workload: impl Workload + 'static) -> Result<Report, String> {
        let monitor = Monitor::default();
        let (ended, end) = sync_channel::<()>(1);
        let report = std::thread::scope(|scope| {
            let (monitor, limit) = (&monitor, self.limit);
            scope.spawn(move || {
                if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    monitor.interrupt();
                }
            });
            let report = run_external(self.plan, workload, monitor, |group| {
                group.beside = None;
                if let Some(os) = &mut group.os {
                    // The guest has placed its pages.
                    (os.placement, os.migration) = Default::default();
                }
                Ok(())
            });
            drop(ended);
            report
        });
        let report = report.map_err(|error| error.to_string())?;
        match monitor.is_interrupted() {
            true => Err(format!(
                "the command was not simulated after {} s (--timeout)",
                self.limit.as_secs()
            )),
            false => Ok(report),
        }
    }
}

impl Executor for Accelerator<'_> {
    fn elements(&self) -> u64 {
        self.elements
    }

    fn register_ps(&self) -> (u64, u64) {
        self.register_ps
    }

    fn execute(&mut self, launch: Launch) -> Result<CommandResult, String> {
        let command = Arc::new(Command::new(launch)?);
        let report = self.simulate(OfferedThreads(Arc::clone(&command)));
        let ended = command.ended()?;
        let report = report?;
        let counted = report.accelerators.first().map(|one| &one.accelerator);
        let count = |name: &str| {
            let value = counted?.get(name).and_then(Value::as_f64)?;
            Some((name.to_owned(), value as u64))
        };
        Ok(CommandResult {
            time_ps: ended.time_ps,
            pages: ended.pages,
            counts: COUNTERS.into_iter().filter_map(count).collect(),
        })
    }
}

/// Measured accesses to a register: issue and arrival of a store, and latency of a load.
#[derive(Default)]
struct Probe(Mutex<[u64; 3]>);

impl Probe {
    fn set(&self, at: usize, time: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[at] = time;
    }

    /// Time of an access in picoseconds: of the request, and of the round trip.
    fn register_ps(&self) -> (u64, u64) {
        let [issued, arrived, both] = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (arrived.saturating_sub(issued), both)
    }
}

impl Code for Probe {
    fn threads(self: Arc<Self>, _: &ThreadContext, place: ExecutionPlace) -> Vec<Thread> {
        match place {
            ExecutionPlace::Core { core: 0 } => vec![Thread::new(move |t| async move {
                self.set(0, t.time().await);
                t.mmio_write(0, command::START, 1).await;
                let begin = t.time().await;
                t.mmio_read(0, command::START).await;
                self.set(2, t.time().await - begin);
            })],
            ExecutionPlace::Element {
                accelerator: 0,
                element: 0,
            } => vec![Thread::new(move |t| async move {
                t.mmio_await(0, command::START, 0).await;
                self.set(1, t.time().await);
            })],
            _ => Vec::new(),
        }
    }
}

/// Threads whose code is in this crate.
trait Code: Send + Sync + 'static {
    /// Refuses a system that the threads do not support.
    ///
    /// # Errors
    /// Description of the unsupported part.
    fn check(&self, _ctx: &ThreadContext) -> Result<(), String> {
        Ok(())
    }
    /// Writes the initial contents of memory.
    fn prepare(&self, _ctx: &ThreadContext, _image: &Image) {}
    /// The threads of a core or a processing element.
    fn threads(self: Arc<Self>, ctx: &ThreadContext, place: ExecutionPlace) -> Vec<Thread>;
    /// Reads the contents of memory after all threads have ended.
    fn take(&self, _ctx: &ThreadContext, _image: &Image) {}
}

/// Threads as a workload of the scenario.
struct OfferedThreads<C>(Arc<C>);

impl<C: Code> Workload for OfferedThreads<C> {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("external")
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        let refused = |what: String| ParamError::new("name", what);
        self.0.check(ctx).map_err(refused)?;
        Ok(Box::new(BoundThreads {
            code: Arc::clone(&self.0),
            ctx: *ctx,
            phases: [Phase {
                name: NAME.to_owned(),
                bytes: Bytes(0),
            }],
        }))
    }
}

/// Threads of a system.
struct BoundThreads<C> {
    code: Arc<C>,
    ctx: ThreadContext,
    phases: [Phase; 1],
}

impl<C: Code> ThreadedKernel for BoundThreads<C> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        self.code.prepare(&self.ctx, image);
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        Arc::clone(&self.code).threads(&self.ctx, place)
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        self.code.take(&self.ctx, image);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
