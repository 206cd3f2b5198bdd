//! The run: warm-up, measurement, and the laws that every run must hold.
//!
//! Windows end at looks. Looks are spaced by simulated time (a microsecond at first, then a
//! sixteenth of the time so far), so where a window ends depends on the system and the seed and
//! on nothing else.

use std::time::{Duration, Instant};

use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Monitor, Outcome, Stop};
use cxlab_host::{Processor, RequestRow};

use crate::plan::{Plan, Problem};
use crate::report::{self, Report};
use crate::system::{Node, Notes, System};

/// How a run is executed; none of it changes the result.
pub struct RunOptions<'a> {
    /// Seed of every random stream.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Progress and interruption.
    pub monitor: &'a Monitor,
    /// Takes the rows of completed requests, if they are wanted: all of the run, those of the
    /// warm-up too (they complete up to the report's `warmup_ns`).
    pub rows: Option<&'a mut dyn FnMut(Vec<RequestRow>) -> std::io::Result<()>>,
}

/// Why a run has no report.
#[derive(Debug)]
pub enum RunError {
    /// The user's mistake.
    Problems(Vec<Problem>),
    /// Rows could not be written.
    Rows(std::io::Error),
    /// A law of the simulator does not hold: our own mistake.
    Law(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Problems(problems) => {
                let messages: Vec<String> = problems
                    .iter()
                    .map(|problem| format!("{}: {}", problem.path, problem.message))
                    .collect();
                f.write_str(&messages.join("\n"))
            }
            RunError::Rows(error) => write!(f, "the request log cannot be written: {error}"),
            RunError::Law(what) => write!(
                f,
                "internal error, please report it with the scenario and the seed: {what}"
            ),
        }
    }
}

impl std::error::Error for RunError {}

/// Requests that are measured when the scenario does not say.
const DEFAULT_REQUESTS: u64 = 100_000;
/// The first look.
const FIRST_LOOK: u64 = 1_000_000;

/// What ends a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// So many requests have completed since it began.
    Requests(u64),
    /// So much time has passed since it began.
    Time(Picos),
    /// Nothing is left to do.
    End,
}

/// The windows of a plan, defaults resolved.
pub(crate) fn windows(plan: &Plan) -> (Until, Until) {
    let measure = &plan.scenario.measure;
    let finite = plan
        .hosts
        .iter()
        .all(|host| plan.scenario.hosts[host.group].requests.is_some() || plan.is_finite(host));
    let window = match (measure.requests, measure.duration) {
        (Some(requests), _) => Until::Requests(requests),
        (None, Some(duration)) => Until::Time(duration),
        (None, None) if finite => Until::End,
        (None, None) => Until::Requests(DEFAULT_REQUESTS),
    };
    let warmup = match (measure.warmup_requests, measure.warmup_time, window) {
        (Some(requests), _, _) => Until::Requests(requests),
        (None, Some(time), _) => Until::Time(time),
        (None, None, Until::Requests(requests)) => Until::Requests(requests / 10),
        (None, None, _) => Until::Requests(0),
    };
    (warmup, window)
}

/// Requests that the run will complete, for a progress bar; `None` when that is not known.
pub fn expected_requests(plan: &Plan) -> Option<u64> {
    match windows(plan) {
        (Until::Requests(warmup), Until::Requests(requests)) => Some(warmup + requests),
        (_, Until::End) => plan
            .hosts
            .iter()
            .map(|host| plan.scenario.hosts[host.group].requests)
            .sum(),
        _ => None,
    }
}

struct Runner<'p, 'a> {
    plan: &'p Plan,
    system: System,
    options: RunOptions<'a>,
    outcome: Option<Outcome>,
    now: SimTime,
    /// When the workloads began.
    begun: SimTime,
}

/// Runs a plan.
///
/// # Errors
/// [`RunError`]; an interruption is not an error but a report marked partial.
pub fn run(plan: &Plan, options: RunOptions<'_>) -> Result<Report, RunError> {
    let began = Instant::now();
    let (warmup, window) = windows(plan);
    let notes = Notes {
        rows: options.rows.is_some(),
        values: false,
    };
    let system = System::build(plan, options.seed, notes).map_err(RunError::Problems)?;
    let seed = options.seed;
    let mut runner = Runner {
        plan,
        system,
        options,
        outcome: None,
        now: SimTime::ZERO,
        begun: SimTime::ZERO,
    };
    let mut stop = runner.enumerate()?;
    if stop != Stop::Interrupted
        && warmup != Until::Requests(0)
        && warmup != Until::Time(Picos::ZERO)
    {
        stop = runner.until(warmup)?;
    }
    let mut start = runner.now;
    if stop == Stop::Exhausted {
        check_drained(&runner.system)?;
        return Err(RunError::Problems(vec![Problem {
            path: "measure".to_owned(),
            message: format!(
                "the workloads ended during the warm-up, at {} ns: nothing is left to measure",
                start.0 as f64 / 1e3
            ),
        }]));
    }
    if stop == Stop::Interrupted {
        start = SimTime::ZERO;
    } else {
        runner
            .system
            .simulation
            .for_each_mut(|node| node.begin_measurement(start));
        stop = runner.until(window)?;
    }
    let end = runner.now;
    runner.system.simulation.for_each_mut(|node| {
        if let Node::Host(host) = node {
            host.end_measurement(end);
        }
    });
    let outcome = match runner.outcome {
        Some(outcome) => outcome,
        None => return Err(RunError::Law("nothing was run".to_owned())),
    };
    if stop == Stop::Exhausted {
        check_drained(&runner.system)?;
        check_kernels(&runner.system)?;
    }
    let context = report::Context {
        plan,
        seed,
        outcome: &outcome,
        enumeration: (!runner.system.enumerated.is_empty()).then_some(runner.begun),
        start,
        end,
        partial: stop == Stop::Interrupted,
        wall: began.elapsed(),
    };
    report::assemble(&mut runner.system, &context).map_err(RunError::Law)
}

impl Runner<'_, '_> {
    /// The first phase, where the scenario has it.
    fn enumerate(&mut self) -> Result<Stop, RunError> {
        let (threads, monitor) = (self.options.threads, self.options.monitor);
        let outcome = self.system.enumerate(self.plan, threads, monitor);
        let Some(outcome) = outcome.map_err(RunError::Law)? else {
            return Ok(Stop::TimeLimit);
        };
        self.now = outcome.end;
        self.begun = outcome.end;
        self.outcome = Some(outcome);
        Ok(match outcome.stop {
            Stop::Interrupted => Stop::Interrupted,
            Stop::Exhausted | Stop::TimeLimit => Stop::TimeLimit,
        })
    }

    /// Runs to the end of a window that begins now.
    fn until(&mut self, window: Until) -> Result<Stop, RunError> {
        let limit = match window {
            Until::Time(span) => SimTime(self.now.0.saturating_add(span.0)),
            Until::Requests(_) | Until::End => SimTime::NEVER,
        };
        let begun = self.completed();
        loop {
            let step = FIRST_LOOK.max((self.now.0 - self.begun.0) / 16);
            let look = SimTime(self.now.0.saturating_add(step)).min(limit);
            let simulation = &mut self.system.simulation;
            let outcome = simulation.run(self.options.threads, look, self.options.monitor);
            self.now = outcome.end;
            self.outcome = Some(outcome);
            self.hand_over_rows()?;
            self.check_access()?;
            self.check_processes()?;
            if outcome.stop != Stop::TimeLimit {
                return Ok(outcome.stop);
            }
            let enough = match window {
                Until::Requests(requests) => self.completed() - begun >= requests,
                Until::Time(_) => look >= limit,
                Until::End => false,
            };
            if enough {
                return Ok(Stop::TimeLimit);
            }
        }
    }

    /// Threads of a PCIe device may not load or store host memory.
    fn check_access(&self) -> Result<(), RunError> {
        let nodes = self.system.simulation.components().iter();
        let accelerators = nodes.filter_map(|node| match node {
            Node::Host(host) => host.accelerator(),
            _ => None,
        });
        let wrong = accelerators
            .enumerate()
            .find_map(|(number, accelerator)| accelerator.refused().map(|access| (number, access)));
        match wrong {
            Some((number, access)) => Err(RunError::Problems(vec![
                self.plan.refused_access(number, &access),
            ])),
            None => Ok(()),
        }
    }

    /// A process that did what no process may is the workload's mistake.
    fn check_processes(&self) -> Result<(), RunError> {
        for (host, node) in self.plan.hosts.iter().zip(self.system.issuers()) {
            if let Some(error) = node.processor().and_then(Processor::error) {
                return Err(RunError::Problems(vec![Problem {
                    path: format!("hosts[{}].workload", host.group),
                    message: format!("found a process that cannot go on: {error}"),
                }]));
            }
        }
        Ok(())
    }

    fn completed(&self) -> u64 {
        let hosts = self.system.simulation.components().iter();
        hosts
            .map(|node| match node {
                Node::Host(host) => host.stats().completed_ever,
                _ => 0,
            })
            .sum()
    }

    fn take_rows(&mut self) -> Vec<RequestRow> {
        let mut rows = Vec::new();
        self.system.simulation.for_each_mut(|node| {
            if let Node::Host(host) = node {
                rows.append(&mut host.take_rows());
            }
        });
        rows
    }

    /// Hands over the rows of this step, in order of completion.
    fn hand_over_rows(&mut self) -> Result<(), RunError> {
        if self.options.rows.is_none() {
            return Ok(());
        }
        let mut rows = self.take_rows();
        rows.sort_unstable_by_key(|row| (row.completed_ps, row.requester, row.id));
        match &mut self.options.rows {
            Some(sink) if !rows.is_empty() => sink(rows).map_err(RunError::Rows),
            _ => Ok(()),
        }
    }
}

/// When no event is left, nothing may be left inside: else requests were lost or are deadlocked.
fn check_drained(system: &System) -> Result<(), RunError> {
    let mut held = Vec::new();
    for (number, node) in system.simulation.components().iter().enumerate() {
        let done = match node {
            Node::Host(host) => host.is_done(),
            _ => node.holds() == 0,
        };
        if !done {
            held.push(format!("component {number} holds {}", node.holds()));
        }
    }
    if held.is_empty() {
        return check_denied(system);
    }
    held.truncate(8);
    Err(RunError::Law(format!(
        "requests never completed: {}",
        held.join(", ")
    )))
}

/// What devices denied, hosts were denied.
fn check_denied(system: &System) -> Result<(), RunError> {
    let nodes = system.simulation.components().iter();
    let (mut by_devices, mut of_hosts) = (0, 0);
    for node in nodes {
        match node {
            Node::Device(device) => by_devices += device.stats().denied_ever,
            Node::Host(host) => of_hosts += host.stats().denied_ever,
            _ => {}
        }
    }
    match by_devices == of_hosts {
        true => Ok(()),
        false => Err(RunError::Law(format!(
            "devices denied {by_devices} requests, hosts were denied {of_hosts}"
        ))),
    }
}

/// When their threads have all ended, kernels check what they have computed.
fn check_kernels(system: &System) -> Result<(), RunError> {
    let hosts = system.simulation.components().iter();
    for (domain, node) in system.domains.iter().zip(hosts) {
        let Some(domain) = domain else { continue };
        let process = match node {
            Node::Host(host) => host.processor().and_then(Processor::process_image),
            _ => None,
        };
        domain
            .kernel
            .check(process.as_ref().unwrap_or(&domain.image))
            .map_err(|wrong| RunError::Law(format!("the result of the kernel: {wrong}")))?;
    }
    Ok(())
}

/// Wall time as seconds, never zero.
pub(crate) fn seconds(wall: Duration) -> f64 {
    wall.as_secs_f64().max(1e-9)
}
