//! The traffic sources of hosts: lines, programs, and the threads and programs of processors.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Bytes;
use cxlab_host::VIRTUAL;
use cxlab_scenario::{HostKind, SpanOf};
use cxlab_workload::thread::{Bases, NoThreads, ThreadContext, ThreadedKernel};
use cxlab_workload::{OpSource, Program, SourceContext, Workload, WorkloadError};

use crate::plan::Plan;
use crate::problem::{Problem, Problems};

/// The traffic source of a host.
pub enum Source {
    /// Requests for lines, issued by a requester.
    Lines(Box<dyn OpSource>),
    /// A program on a core.
    Program(Box<dyn Program>),
    /// Threads on a processor and its accelerators, with programs on its cores.
    Processor(Box<dyn ThreadedKernel>, Vec<PlannedProgram>),
}

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

/// The workload of a group of cores of a processor.
struct Runs<'a> {
    path: String,
    workload: &'a dyn Workload,
    cores: std::ops::Range<u32>,
    /// The memory that the workload addresses, and the path of the field that says so.
    span: (Option<SpanOf>, String),
    limit: Option<u64>,
}

impl Plan {
    /// The traffic source of every host, at its beginning.
    ///
    /// # Errors
    /// Workloads that do not fit the system.
    pub fn sources(&self, seed: u64) -> Result<Vec<Source>, Vec<Problem>> {
        let mut problems = Problems::default();
        let mut sources = Vec::new();
        let mut failed = vec![false; self.workloads.len()];
        let mut made = vec![0; self.workloads.len()];
        for (number, host) in self.hosts.iter().enumerate() {
            let requester = made[host.group];
            made[host.group] += 1;
            match self.source(number, requester, seed) {
                Ok(source) => sources.push(source),
                // All hosts of a group have the same problem.
                Err(_) if failed[host.group] => {}
                Err(problem) => {
                    failed[host.group] = true;
                    problems.push(problem);
                }
            }
        }
        problems.into_result(sources)
    }

    /// The traffic source of a host; `requester` is its number in its host group.
    fn source(&self, number: usize, requester: usize, seed: u64) -> Result<Source, Problem> {
        let host = &self.hosts[number];
        let group = &self.scenario.hosts[host.group];
        let local = group.local.as_ref();
        let context = SourceContext {
            span: host.map.span(),
            local: local.map_or(Bytes(0), |local| local.capacity),
            requester,
            requesters: group.count as usize,
            scenario_dir: &self.files.scenario_dir,
            trace_override: self.files.trace_override.as_deref(),
        };
        let workload = &self.workloads[host.group];
        let source = match &group.kind {
            HostKind::Processor(_) => return self.processor_source(number, requester, seed),
            HostKind::Core(_) => workload.program(&context).map(Source::Program),
            HostKind::Requester(_) => workload.source(&context).map(Source::Lines),
        };
        source.map_err(|error| self.workload_problem(host.group, error))
    }

    /// The traffic source of a processor; `requester` is its number in its host group.
    fn processor_source(
        &self,
        host: usize,
        requester: usize,
        seed: u64,
    ) -> Result<Source, Problem> {
        let at = self.hosts[host].group;
        let group = &self.scenario.hosts[at];
        let workload = self.workloads[at].as_ref();
        let cores = group.processor().map_or(0, |one| one.cores);
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
        let kernel = workload.threads(&self.thread_context(host, seed));
        let kernel = kernel.map_err(|error| self.workload_problem(at, error))?;
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
            let found = format_args!("{more} phases beside {phases}");
            let path = format!("{path}.beside");
            return Err(Problem::refused(path, found, "256 in all"));
        }
        Ok(Source::Processor(kernel, programs))
    }

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
            let found = "\"cxl\" on a host that reaches no CXL memory";
            return Err(Problem::refused(&runs.span.1, found, "\"local\""));
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

    /// The facts about a host's system that a threaded kernel receives.
    pub fn thread_context(&self, host: usize, seed: u64) -> ThreadContext {
        let planned = &self.hosts[host];
        let group = &self.scenario.hosts[planned.group];
        let accelerators = self.accelerators_of(host);
        let elements = accelerators.map(|(_, group)| group.device.elements);
        let (local, bases) = match self.has_os(host) {
            true => (self.heap(host), VIRTUAL),
            false => (group.own_memory(), Bases::PHYSICAL),
        };
        let cores = group.processor().map(|processor| processor.cores);
        let mut draws = StreamRng::new(seed, &format!("{}/threads", planned.name));
        ThreadContext {
            seed,
            draws: draws.next_u64(),
            span: planned.map.span(),
            local,
            bases,
            cores: cores.map_or(0, |cores| (cores - group.cores_beside()) as usize),
            accelerators: self.accelerators_of(host).count(),
            elements: elements.min().unwrap_or(0) as usize,
        }
    }

    /// The problem of a workload that does not fit the system, at the field of the host
    /// group that causes it.
    fn workload_problem(&self, group: usize, error: WorkloadError) -> Problem {
        self.problem_of(&format!("hosts[{group}].workload"), error)
    }

    /// The problem of the workload at `path`, at the field below it that causes the error.
    fn problem_of(&self, path: &str, error: WorkloadError) -> Problem {
        match error {
            WorkloadError::Param(error) => Problem::of_param(path, error),
            WorkloadError::Trace(error) if self.files.trace_override.is_some() => {
                Problem::new(path, format!("--trace-file: {error}"))
            }
            WorkloadError::Trace(error) => Problem::new(format!("{path}.path"), error.to_string()),
        }
    }
}
