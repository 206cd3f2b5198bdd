//! Programs on the cores of processors: patterns, traces, and kernels without threads.

use cxlab_engine::units::Bytes;
use cxlab_scenario::{Scenario, SpanOf};
use cxlab_workload::op::SourceContext;
use cxlab_workload::thread::NoThreads;
use cxlab_workload::{Program, Workload};

use super::{Plan, Problem, Source};

/// Most entries of a reorder window.
const MOST_REORDER: u32 = 1 << 16;

/// The program of one core.
pub struct PlannedProgram {
    /// Number of the core in its processor.
    pub core: u16,
    /// The program that the core executes.
    pub program: Box<dyn Program>,
    /// End of CXL memory in the program's address space; the host's own memory follows.
    pub cxl_end: u64,
    /// Most steps that the program executes.
    pub limit: Option<u64>,
}

/// Checks the workloads that only processors can run, and the distribution of cores.
pub(crate) fn check(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    beside: &[Option<Box<dyn Workload>>],
    problems: &mut Vec<Problem>,
) {
    let hosts = scenario.hosts.len();
    let complete = workloads.len() == hosts && beside.len() == hosts;
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        let Some(processor) = &group.processor else {
            let given = [
                ("span", group.span.is_some()),
                ("beside", group.beside.is_some()),
            ];
            for (field, _) in given.iter().filter(|(_, there)| *there) {
                problems.push(Problem::new(
                    format!("{path}.{field}"),
                    format!(
                        "found `{field}` on a host without a processor; allowed: with processor = {{}}"
                    ),
                ));
            }
            continue;
        };
        if processor.reorder == 0 || processor.reorder > MOST_REORDER {
            problems.push(Problem::new(
                format!("{path}.processor.reorder"),
                format!("found {}; allowed: 1 to {MOST_REORDER}", processor.reorder),
            ));
        }
        if !complete {
            continue;
        }
        let threads = workloads[at].needs_threads();
        let lines = |workload: &dyn Workload| !workload.needs_threads() && !workload.needs_core();
        if threads && group.requests.is_some() {
            problems.push(Problem::new(
                format!("{path}.requests"),
                "found `requests` with a workload of threads, which end by themselves; allowed: with \
                 patterns, traces and programs",
            ));
        }
        if group.span.is_some() && !lines(workloads[at].as_ref()) {
            refuse_span(&path, &group.workload.kind, problems);
        }
        let (Some(beside), Some(runs)) = (&group.beside, &beside[at]) else {
            continue;
        };
        let path = format!("{path}.beside");
        if !threads {
            problems.push(Problem::new(
                &path,
                format!(
                    "found `beside` with \"{}\", which runs on every core; allowed: with a workload \
                     of threads, such as \"circus-tent\"",
                    group.workload.kind
                ),
            ));
        }
        if runs.needs_threads() {
            problems.push(Problem::new(
                format!("{path}.workload.kind"),
                format!(
                    "found \"{}\", which is made of threads; allowed: patterns, traces and programs",
                    beside.workload.kind
                ),
            ));
        } else if beside.span.is_some() && !lines(runs.as_ref()) {
            refuse_span(&path, &beside.workload.kind, problems);
        }
        if beside.cores == 0 || beside.cores >= processor.cores {
            let allowed = match processor.cores {
                1 => "a processor of 2 cores or more, as one is left to the threads".to_owned(),
                cores => format!("1 to {}, as one core is left to the threads", cores - 1),
            };
            problems.push(Problem::new(
                format!("{path}.cores"),
                format!("found {}; allowed: {allowed}", beside.cores),
            ));
        }
    }
}

fn refuse_span(path: &str, kind: &str, problems: &mut Vec<Problem>) {
    problems.push(Problem::new(
        format!("{path}.span"),
        format!(
            "found `span` with \"{kind}\", which says itself where its data lie; allowed: with \
             patterns and traces"
        ),
    ));
}

impl Plan {
    /// The traffic source of a processor; `requester` is its number in its host group.
    pub(crate) fn processor_source(
        &self,
        host: usize,
        requester: usize,
        seed: u64,
    ) -> Result<Source, Problem> {
        let at = self.hosts[host].group;
        let group = &self.scenario.hosts[at];
        let workload = self.workloads[at].as_ref();
        let cores = group.processor.as_ref().map_or(0, |one| one.cores);
        let path = format!("hosts[{at}]");
        if !workload.needs_threads() {
            let runs = Runs {
                path: format!("{path}.workload"),
                workload,
                cores: 0..cores,
                span: (group.span, format!("{path}.span")),
                limit: group.requests,
            };
            let programs = self.programs(host, requester, &runs)?;
            return Ok(Source::Processor(Box::new(NoThreads), programs));
        }
        let kernel = workload
            .threads(&self.thread_context(host, seed))
            .map_err(|error| self.workload_problem(at, error))?;
        let programs = match (&group.beside, &self.beside[at]) {
            (Some(beside), Some(workload)) => {
                let runs = Runs {
                    path: format!("{path}.beside.workload"),
                    workload: workload.as_ref(),
                    cores: cores - beside.cores..cores,
                    span: (beside.span, format!("{path}.beside.span")),
                    limit: beside.requests,
                };
                self.programs(host, requester, &runs)?
            }
            _ => Vec::new(),
        };
        let phases = kernel.phases().len();
        let more = programs.first().map_or(0, |one| one.program.phases().len());
        if phases + more > 256 {
            return Err(Problem::new(
                format!("{path}.beside"),
                format!("found {more} phases beside {phases}; allowed: 256 in all"),
            ));
        }
        Ok(Source::Processor(kernel, programs))
    }

    /// A program for each of the given cores.
    fn programs(
        &self,
        host: usize,
        requester: usize,
        runs: &Runs<'_>,
    ) -> Result<Vec<PlannedProgram>, Problem> {
        let group = &self.scenario.hosts[self.hosts[host].group];
        let context = self.thread_context(host, 0);
        let cxl = context.span.0;
        let of = match runs.span.0 {
            Some(of) => of,
            None if cxl > 0 => SpanOf::Cxl,
            None => SpanOf::Local,
        };
        if cxl == 0 && of == SpanOf::Cxl {
            return Err(Problem::new(
                &runs.span.1,
                "found \"cxl\" on a host that reaches no CXL memory; allowed: \"local\"",
            ));
        }
        let cores = runs.cores.len();
        let made = runs.cores.clone().enumerate().map(|(number, core)| {
            let local = match group.os {
                Some(_) => self.heap_of(host, core).0,
                None => context.local.0,
            };
            // A program addresses both memories; a source of lines addresses one span.
            let (span, cxl_end) = match of {
                _ if runs.workload.needs_core() => (cxl, u64::MAX),
                SpanOf::Cxl => (cxl, u64::MAX),
                SpanOf::Local => (local, 0),
                SpanOf::All => (cxl + local, cxl),
            };
            let context = SourceContext {
                span: Bytes(span),
                local: Bytes(local),
                requester: requester * cores + number,
                requesters: group.count as usize * cores,
                scenario_dir: &self.files.scenario_dir,
                trace_override: self.files.trace_override.as_deref(),
            };
            let program = runs.workload.program(&context);
            Ok(PlannedProgram {
                core: core as u16,
                program: program.map_err(|error| self.problem_of(&runs.path, error))?,
                cxl_end,
                limit: runs.limit,
            })
        });
        made.collect()
    }
}

/// The workload of a group of cores of a processor.
struct Runs<'a> {
    path: String,
    workload: &'a dyn Workload,
    cores: std::ops::Range<u32>,
    /// The memory that the workload addresses, and the path of the field that says so.
    span: (Option<SpanOf>, String),
    limit: Option<u64>,
}
