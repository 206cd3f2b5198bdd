//! The plan: a scenario resolved, numbered, checked and hashed. Every problem of a system is found
//! here, before any component exists.

mod accelerators;
mod address;
mod coherence;
mod copies;
mod cores;
mod credits;
mod endpoints;
pub mod enumeration;
mod events;
pub mod failures;
mod fleet;
mod inputs;
mod limits;
mod links;
pub mod load;
mod manager;
mod media;
mod media_errors;
mod os;
mod programs;
mod qos;
mod regions;
mod revision;
pub mod routes;
mod sampling;
mod sharing;
mod surprises;
mod unread;
mod viral;
pub mod windows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cxlab_agent::Access;
use cxlab_device::{DeviceChange, DeviceChangeKind};
use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::RoutingTables;
use cxlab_host::{AddressMap, VIRTUAL};
use cxlab_memory::Medium;
use cxlab_protocol::coherence::fields::CoherenceClass;
use cxlab_protocol::{DecoderTable, LatencyStages};
use cxlab_scenario::{
    AcceleratorGroup, BesideGroup, DeviceGroup, LinkClass, Note, Scenario, WorkloadChoice,
};
use cxlab_workload::pattern::External;
use cxlab_workload::thread::{Bases, ThreadContext, ThreadedKernel};
use cxlab_workload::{OpSource, Program, SourceContext, Workload, WorkloadError};
use inputs::Inputs;
use sha2::{Digest, Sha256};
use sharing::SharedPart;

pub use credits::CreditLimit;
pub use enumeration::Hierarchy;
pub use failures::{FailureChange, Failures, RoutingChange, RoutingState};
pub use fleet::PlannedFleet;
pub use links::{End, PlannedLink};
pub use manager::{PlannedPool, Sample};
pub use programs::PlannedProgram;

/// A mistake of the user: its place in the scenario and a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Path in the scenario, such as `fabric.topology.switches`.
    pub path: String,
    /// The problem, with the value found and the values allowed.
    pub message: String,
}

impl Problem {
    /// A problem of the value at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem {
            path: path.into(),
            message: message.into(),
        }
    }

    /// A parameter that an entry of a catalog refuses, below the entry's own path.
    pub fn of_param(path: &str, error: ParamError) -> Self {
        let joint = if error.field.starts_with('[') {
            ""
        } else {
            "."
        };
        let path = [path, error.field.as_str()].join(joint);
        Problem::new(path.trim_end_matches('.'), error.message)
    }
}

/// A host, resolved.
pub struct PlannedHost {
    /// Name of the host, unique in the system.
    pub name: String,
    /// Index of its group in the scenario's list of hosts.
    pub group: usize,
    /// The device that owns each address, as this host sees it.
    pub map: Arc<AddressMap>,
    /// When its workload begins, measured from the beginning of the workloads of hosts
    /// present from the start.
    pub joins: Picos,
    /// When the host stops issuing requests, if an event says so.
    pub leaves: Option<Picos>,
}

/// The kind of a device, with the index of its group in the scenario's list of such devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// A Type 3 device: index into the scenario's `devices`.
    Memory(usize),
    /// An accelerator: index into the scenario's `accelerators`.
    Accelerator(usize),
}

/// A device, resolved.
pub struct PlannedDevice {
    /// Name of the device, unique in the system.
    pub name: String,
    /// Kind and group of the device.
    pub group: DeviceKind,
    /// The mapping from each host's addresses to this device; empty if no host reaches the device.
    pub decoders: DecoderTable,
    /// Changes of the mapping, of shares and of viral while the workloads run, in order of time.
    pub changes: Vec<DeviceChange>,
}

impl PlannedDevice {
    /// Changes of the hosts' shares while the workloads run, in order of time.
    pub fn share_changes(&self) -> Vec<DeviceChange> {
        let shares = self.changes.iter().copied();
        let shares = shares.filter(|change| matches!(change.kind, DeviceChangeKind::Share(_)));
        shares.collect()
    }

    /// When the device first goes into viral for some host, measured from the
    /// beginning of the workloads.
    pub fn viral(&self) -> Option<Picos> {
        let mut changes = self.changes.iter();
        let first = changes.find(|change| matches!(change.kind, DeviceChangeKind::Viral(_)));
        first.map(|change| change.at)
    }

    /// Index of its group in the scenario's list of Type 3 devices; `None` for an accelerator.
    pub fn memory(&self) -> Option<usize> {
        match self.group {
            DeviceKind::Memory(group) => Some(group),
            DeviceKind::Accelerator(_) => None,
        }
    }
}

/// A command of the fabric manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedCommand {
    /// Name of the command in the specification.
    pub name: &'static str,
    /// Opcode in the FM API (CXL 3.1, section 7.6.7).
    pub opcode: u16,
    /// The objects that the command is about.
    pub of: String,
    /// When the command is issued, after the workloads begin.
    pub issued: Picos,
    /// When the command has taken effect, after the workloads begin.
    pub done: Picos,
    /// The response that the fabric manager receives.
    pub response: Response,
}

/// The response to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// The command was carried out.
    Success,
    /// The policy grants nothing.
    ResourcesExhausted,
    /// No response, because the device or switch with this name is gone.
    None(String),
}

impl Response {
    /// The response in words, for reports.
    pub fn describe(&self) -> String {
        match self {
            Response::Success => "success".to_owned(),
            Response::ResourcesExhausted => "resources exhausted".to_owned(),
            Response::None(device) => format!("none, {device} is gone"),
        }
    }
}

/// A system, ready to be built.
pub struct Plan {
    /// The scenario with all defaults filled in.
    pub scenario: Scenario,
    /// Hash of everything that can change a result except the seed.
    pub hash: String,
    /// The hash without the windows of warm-up and measurement: it covers all inputs of the
    /// state of a run.
    pub state_hash: String,
    /// The fabric's graph of switches, ports and endpoints.
    pub graph: FabricGraph,
    /// The fabric's routing tables.
    pub tables: Arc<RoutingTables>,
    /// Hosts, by number. The number is also the PID of the host's edge port.
    pub hosts: Vec<PlannedHost>,
    /// Devices, by number: Type 3 devices, then accelerators. Their PIDs follow the hosts'.
    pub devices: Vec<PlannedDevice>,
    /// Links, by their numbers.
    pub links: Vec<PlannedLink>,
    /// The classes of links that the scenario has, by number.
    pub link_classes: Vec<LinkClass>,
    /// Notes on surprising properties of the system, for the user.
    pub notes: Vec<Note>,
    /// Media, by device group.
    pub media: Vec<Box<dyn Medium>>,
    /// Whether any medium comes from a shared library.
    pub has_plugins: bool,
    /// Media of the hosts' own memory, by host group.
    pub local_media: Vec<Option<Box<dyn Medium>>>,
    /// Workloads, by host group.
    pub workloads: Vec<Box<dyn Workload>>,
    /// Media of Type 2 devices, by accelerator group.
    pub accelerator_media: Vec<Option<Box<dyn Medium>>>,
    /// Media of the NUMA nodes, by host group.
    pub node_media: Vec<Vec<Box<dyn Medium>>>,
    /// Second workload that runs beside the first one, by host group.
    pub beside: Vec<Option<Box<dyn Workload>>>,
    /// Number of the host of each accelerator.
    pub accelerator_hosts: Vec<usize>,
    /// By host: its parts of shared regions with values.
    pub shared: Vec<SharedPart>,
    /// By host: whether it reaches memory that devices keep coherent.
    pub caching: Vec<bool>,
    /// The hierarchy that each host enumerates; empty if the scenario does not enumerate.
    pub hierarchies: Vec<Hierarchy>,
    /// The commands of the fabric manager, in the order in which they are issued.
    pub commands: Vec<PlannedCommand>,
    /// Pooled regions, with the outcome of the hosts' demands.
    pub pools: Vec<PlannedPool>,
    /// Failures and repairs, if the scenario has any.
    pub failures: Option<Failures>,
    /// The fleet, if the scenario has one.
    pub fleet: Option<PlannedFleet>,
    /// The base of relative paths, and a trace from the command line.
    pub files: Files,
    /// Trace files of the workloads, with their metadata when the plan was made.
    pub inputs: Inputs,
    /// Load telemetry of devices and throttles of hosts.
    pub qos: qos::Qos,
}

/// The traffic source of a host.
pub enum Source {
    /// Requests for lines, issued by a requester.
    Lines(Box<dyn OpSource>),
    /// A program on a core.
    Program(Box<dyn Program>),
    /// Threads on a processor and its accelerators, with programs on its cores.
    Processor(Box<dyn ThreadedKernel>, Vec<PlannedProgram>),
}

/// Files that a plan refers to.
#[derive(Clone, Default, Debug)]
pub struct Files {
    /// The folder against which relative paths of the scenario are resolved.
    pub scenario_dir: PathBuf,
    /// A trace from the command line, which replaces the scenario's.
    pub trace_override: Option<PathBuf>,
}

/// Workloads supplied by the program that runs the simulation, by the name in a scenario's
/// `{ kind = "external", name = ... }`. Their operations are not part of a plan's hash.
pub type Externals = BTreeMap<String, Arc<dyn Workload>>;

impl Plan {
    /// Resolves a scenario.
    ///
    /// # Errors
    /// All problems that could be found.
    pub fn new(scenario: Scenario, files: Files) -> Result<Plan, Vec<Problem>> {
        Plan::with_externals(scenario, files, &Externals::new())
    }

    /// Resolves a scenario whose workloads may be external ones.
    ///
    /// # Errors
    /// All problems that could be found.
    pub fn with_externals(
        scenario: Scenario,
        files: Files,
        externals: &Externals,
    ) -> Result<Plan, Vec<Problem>> {
        let mut problems = Vec::new();
        let endpoints = endpoints::name_all(&scenario, &mut problems);
        links::check(&scenario, &mut problems);
        address::check(&scenario, &mut problems);
        regions::check(&scenario, &endpoints, &mut problems);
        events::check(&scenario, &endpoints, &mut problems);
        let mut manager = manager::Account::of(&scenario, &endpoints);
        problems.append(&mut manager.problems);
        failures::check(&scenario, &mut problems);
        qos::check(&scenario, &endpoints, &mut problems);
        media_errors::check(&scenario, &mut problems);
        viral::check(&scenario, &endpoints, &mut problems);
        limits::check(&scenario, &mut problems);
        sampling::check_keys(&scenario, &mut problems);
        let media = build_choices(
            &mut problems,
            "devices",
            "memory",
            &scenario.devices,
            |group| {
                let medium = group.memory.build()?;
                medium.check(group.capacity)?;
                Ok(medium)
            },
        );
        let local_media = build_choices(
            &mut problems,
            "hosts",
            "local.memory",
            &scenario.hosts,
            |group| {
                let Some(local) = &group.local else {
                    return Ok(None);
                };
                let medium = local.memory.build()?;
                medium.check(local.capacity)?;
                Ok(Some(medium))
            },
        );
        let workloads = build_choices(
            &mut problems,
            "hosts",
            "workload",
            &scenario.hosts,
            |group| build_workload(&group.workload, externals),
        );
        let node_media = build_choices(&mut problems, "hosts", "nodes", &scenario.hosts, |group| {
            let mut media = Vec::new();
            for (at, node) in group.nodes.iter().enumerate() {
                let built = node.memory.build().and_then(|medium| {
                    medium.check(node.capacity)?;
                    Ok(medium)
                });
                media.push(built.map_err(|error| {
                    let field = format!("[{at}].memory.{}", error.field);
                    ParamError::new(field.trim_end_matches('.'), error.message)
                })?);
            }
            Ok(media)
        });
        let accelerator_media = build_choices(
            &mut problems,
            "accelerators",
            "memory.memory",
            &scenario.accelerators,
            |group| {
                let Some(memory) = &group.memory else {
                    return Ok(None);
                };
                let medium = memory.memory.build()?;
                medium.check(memory.capacity)?;
                Ok(Some(medium))
            },
        );
        let beside = build_choices(
            &mut problems,
            "hosts",
            "beside.workload",
            &scenario.hosts,
            |group| {
                let beside = group.beside.as_ref();
                let build = |beside: &BesideGroup| build_workload(&beside.workload, externals);
                beside.map(build).transpose()
            },
        );
        cores::check(&scenario, &workloads, &mut problems);
        accelerators::check(&scenario, &workloads, &mut problems);
        programs::check(&scenario, &workloads, &beside, &mut problems);
        os::check(&scenario, &mut problems);
        os::check_processes(&scenario, &workloads, &mut problems);
        enumeration::check(&scenario, &mut problems);
        let fleet = fleet::resolve(&scenario, &files, &mut problems);
        let topology = scenario
            .fabric
            .topology
            .build()
            .map_err(|error| problems.push(Problem::of_param("fabric.topology", error)));
        let (Ok(topology), true) = (topology, problems.is_empty()) else {
            return Err(problems);
        };
        let graph = topology
            .build(&endpoints.names)
            .map_err(|error| vec![Problem::of_param("fabric.topology", error)])?;
        let wrong = |path: &str, message: String| vec![Problem::new(path, message)];
        if let Some(allowed) = scenario.fabric.switch.max_ports {
            graph
                .check_ports(usize::from(allowed))
                .map_err(|error| wrong("fabric.switch.max_ports", error.to_string()))?;
        }
        let most = scenario.fabric.virtual_channels;
        let kind = scenario.fabric.routing.0;
        let tables = match endpoints::may_have_islands(&scenario) {
            true => RoutingTables::build_without(&graph, kind, most, |_| false),
            false => RoutingTables::build_within(&graph, kind, most),
        };
        let tables = tables.map_err(|error| wrong("fabric.topology", error.to_string()))?;
        let reach = endpoints::reach(&scenario, &graph, &tables, &endpoints)?;
        let maps = address::lay_out(&scenario, &endpoints, &graph, &reach, &manager)?;
        let hosts = endpoints.hosts(maps.host_maps, &manager.presence);
        let timelines = manager.timelines(&maps.extents);
        let pools = manager.pools();
        let commands = manager.commands;
        let shared = sharing::parts(&scenario, &hosts, &workloads, &maps.extents);
        failures::check_shared(&scenario, &shared).map_err(|problem| vec![problem])?;
        let mut devices = endpoints.devices(maps.decoders, timelines);
        let link_classes = scenario.fabric.link_classes();
        let links = links::list(&scenario, &graph, &tables, &link_classes, &devices)?;
        links::check_flits(&scenario, &links, &link_classes, &devices)?;
        links::check_virtual_channels(&scenario, &tables)?;
        let virals = viral::Fabric {
            scenario: &scenario,
            tables: &tables,
            links: &links,
            hosts: &hosts,
        };
        virals.spread(&mut devices, &media)?;
        let caching = coherence::check(&scenario, &hosts, &devices, &links)?;
        coherence::check_policies(&scenario, &workloads, &hosts, &caching)?;
        let runs = workloads.iter().chain(beside.iter().flatten());
        let trace = files.trace_override.as_deref();
        let built = media::Built {
            scenario: &scenario,
            devices: &media,
            local: &local_media,
            nodes: &node_media,
            accelerators: &accelerator_media,
        };
        let libraries = built.files(&files.scenario_dir)?;
        let has_plugins = !libraries.is_empty();
        let traces = runs.filter_map(|workload| workload.file(&files.scenario_dir, trace));
        let read = (libraries, traces.collect());
        let ([hash, state_hash], inputs) = hashes(&scenario, read, fleet.as_ref());
        let mut notes = notes(&devices);
        notes.extend(links::notes(&link_classes, &links));
        notes.extend(surprises::notes(&scenario, &hosts, &devices, &workloads));
        notes.extend(copies::note(&scenario, &hosts, &devices, &shared));
        let tables = Arc::new(tables);
        let fabric = failures::Fabric {
            scenario: &scenario,
            named: &endpoints,
            graph: &graph,
            tables: &tables,
            links: &links,
            reach: &reach,
        };
        let failures = fabric
            .failures(&mut notes)
            .map_err(|problem| vec![problem])?;
        let accelerator_hosts = accelerators::hosts(&scenario, &graph, &hosts)?;
        accelerators::check_access(&scenario, &workloads, &hosts, &accelerator_hosts)?;
        links::check_cache_ids(
            &scenario,
            &links,
            &link_classes,
            &devices,
            &accelerator_hosts,
        )?;
        links::check_fills(&scenario, &workloads, &links)?;
        let resolved = enumeration::Resolved {
            scenario: &scenario,
            graph: &graph,
            tables: &tables,
            hosts: &hosts,
            devices: &devices,
            reach: &reach,
            accelerator_hosts: &accelerator_hosts,
        };
        let hierarchies = resolved.hierarchies()?;
        let mut plan = Plan {
            scenario,
            hash,
            state_hash,
            graph,
            tables,
            hosts,
            devices,
            links,
            link_classes,
            notes,
            media,
            has_plugins,
            local_media,
            workloads,
            accelerator_media,
            node_media,
            beside,
            accelerator_hosts,
            shared,
            caching,
            hierarchies,
            commands,
            pools,
            failures,
            fleet,
            files,
            inputs,
            qos: qos::Qos::default(),
        };
        limits::check_round_trip(&plan.scenario, plan.longest_path().unwrap_or(1))?;
        revision::check(&plan)?;
        plan.check_os()?;
        sampling::check(&plan)?;
        plan.sources(plan.scenario.seed).map(drop)?;
        limits::check_window(&plan)?;
        plan.notes.extend(credits::notes(&plan));
        plan.qos = qos::Qos::of(&plan)?;
        Ok(plan)
    }

    /// The traffic source of every host, at its beginning.
    ///
    /// # Errors
    /// Workloads that do not fit the system.
    pub fn sources(&self, seed: u64) -> Result<Vec<Source>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut sources = Vec::new();
        let mut failed = vec![false; self.workloads.len()];
        let mut made = vec![0; self.workloads.len()];
        for (number, host) in self.hosts.iter().enumerate() {
            let requester = made[host.group];
            made[host.group] += 1;
            let group = &self.scenario.hosts[host.group];
            let context = SourceContext {
                span: host.map.span(),
                local: group
                    .local
                    .as_ref()
                    .map_or(Bytes(0), |local| local.capacity),
                requester,
                requesters: group.count as usize,
                scenario_dir: &self.files.scenario_dir,
                trace_override: self.files.trace_override.as_deref(),
            };
            let workload = &self.workloads[host.group];
            let source = match (&group.processor, &group.core) {
                (Some(_), _) => {
                    match self.processor_source(number, requester, seed) {
                        Ok(source) => sources.push(source),
                        Err(_) if failed[host.group] => {}
                        Err(problem) => {
                            failed[host.group] = true;
                            problems.push(problem);
                        }
                    }
                    continue;
                }
                (None, Some(_)) => workload.program(&context).map(Source::Program),
                (None, None) => workload.source(&context).map(Source::Lines),
            };
            match source {
                Ok(source) => sources.push(source),
                Err(error) if !failed[host.group] => {
                    failed[host.group] = true;
                    problems.push(self.workload_problem(host.group, error));
                }
                Err(_) => {}
            }
        }
        if problems.is_empty() {
            Ok(sources)
        } else {
            Err(problems)
        }
    }

    /// The facts about a host's system that a threaded kernel receives.
    pub fn thread_context(&self, host: usize, seed: u64) -> ThreadContext {
        let planned = &self.hosts[host];
        let group = &self.scenario.hosts[planned.group];
        let processor = group.processor.as_ref();
        let elements = self
            .accelerators_of(host)
            .map(|(_, group)| group.device.elements);
        let (local, bases) = match self.has_os(host) {
            true => (self.heap(host), VIRTUAL),
            false => (group.own_memory(), Bases::PHYSICAL),
        };
        let mut draws = StreamRng::new(seed, &format!("{}/threads", planned.name));
        ThreadContext {
            seed,
            draws: draws.next_u64(),
            span: planned.map.span(),
            local,
            bases,
            cores: processor.map_or(0, |processor| {
                (processor.cores - group.cores_beside()) as usize
            }),
            accelerators: self.accelerators_of(host).count(),
            elements: elements.min().unwrap_or(0) as usize,
        }
    }

    /// The accelerators of a host: device numbers and scenario parameters.
    pub fn accelerators_of(&self, host: usize) -> impl Iterator<Item = (usize, &AcceleratorGroup)> {
        let all = self.devices.iter().enumerate();
        let accelerators = all.filter_map(|(number, device)| match device.group {
            DeviceKind::Accelerator(group) => Some((number, &self.scenario.accelerators[group])),
            DeviceKind::Memory(_) => None,
        });
        let hosts = self.accelerator_hosts.iter();
        accelerators
            .zip(hosts)
            .filter_map(move |(accelerator, of)| (*of == host).then_some(accelerator))
    }

    /// Whether a host of the group reaches memory that devices keep coherent.
    pub fn is_coherent(&self, group: usize) -> bool {
        let hosts = self.hosts.iter().zip(&self.caching);
        hosts
            .into_iter()
            .any(|(host, caching)| host.group == group && *caching)
    }

    /// Whether a host of the group reaches a device that reports its load.
    pub fn is_told_load(&self, group: usize) -> bool {
        let hosts = self.hosts.iter().filter(|host| host.group == group);
        let mut targets = hosts
            .flat_map(|host| host.map.windows())
            .flat_map(|window| &window.targets);
        targets.any(|target| {
            let device = &self.devices[usize::from(target.0) - self.hosts.len()];
            let memory = self.memory_group(device);
            memory.is_some_and(|memory| memory.qos.is_some())
        })
    }

    /// Whether the hosts of the group run threads.
    pub fn runs_threads(&self, group: usize) -> bool {
        self.workloads[group].needs_threads()
    }

    /// Whether a host of the group has an accelerator.
    pub fn has_accelerator(&self, group: usize) -> bool {
        let mut hosts = self.accelerator_hosts.iter();
        hosts.any(|host| self.hosts[*host].group == group)
    }

    /// Whether an accelerator of the group translates virtual addresses.
    pub fn translates(&self, group: usize) -> bool {
        let all = self.devices.iter().filter_map(|device| match device.group {
            DeviceKind::Accelerator(group) => Some(group),
            DeviceKind::Memory(_) => None,
        });
        let mut all = all.zip(&self.accelerator_hosts);
        all.any(|(of, host)| of == group && self.has_os(*host))
    }

    /// The problem of a run in which a thread of a device without CXL.cache accesses host memory.
    /// `number` is the device's number among the accelerators.
    pub fn refused_access(&self, number: usize, access: &Access) -> Problem {
        let (group, name) = self.accelerator(number);
        Problem::new(
            format!("accelerators[{group}].device.kind"),
            format!(
                "found \"pcie\", and a thread on `{name}` asks for {:?} at {:#x} of host memory, which \
                 needs CXL.cache; allowed: \"type1\", or threads that use DMA",
                access.kind, access.addr
            ),
        )
    }

    /// The group and the name of an accelerator.
    fn accelerator(&self, number: usize) -> (usize, &str) {
        let mut accelerators = self.devices.iter().filter_map(|device| match device.group {
            DeviceKind::Accelerator(group) => Some((group, device.name.as_str())),
            DeviceKind::Memory(_) => None,
        });
        accelerators.nth(number).unwrap_or_default()
    }

    /// The problem of a request that waited for too long. `issuer` is the number of a host, or of
    /// an accelerator counted after the hosts.
    pub fn too_long(&self, issuer: usize) -> Problem {
        let (path, name) = match self.hosts.get(issuer) {
            Some(host) => (format!("hosts[{}]", host.group), host.name.as_str()),
            None => {
                let (group, name) = self.accelerator(issuer - self.hosts.len());
                (format!("accelerators[{group}]"), name)
            }
        };
        let longest = LatencyStages::LONGEST.0 as f64 / 1e12;
        Problem::new(
            path,
            format!(
                "found a request of `{name}` that spent more than {longest:.4} s in one place; allowed: less, so \
                 faster media and links, or fewer requests at once"
            ),
        )
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

    /// Whether the memory of hosts changes while the workloads run, or is not
    /// complete from the beginning.
    pub fn changes_capacity(&self) -> bool {
        manager::changes_capacity(&self.scenario)
    }

    /// Whether lines of some device may be poisoned.
    pub fn has_media_errors(&self) -> bool {
        media_errors::has_any(&self.scenario)
    }

    /// Whether the system changes while the workloads run: memory of hosts, presence
    /// of hosts, or failures.
    pub fn has_events(&self) -> bool {
        self.changes_capacity()
            || !self.scenario.events.is_empty()
            || failures::has_any(&self.scenario)
    }

    /// The commands of the fabric manager, in the order in which they are issued.
    pub fn commands(&self) -> &[PlannedCommand] {
        &self.commands
    }

    /// Pooled regions, with the outcome of the hosts' demands.
    pub fn pools(&self) -> &[PlannedPool] {
        &self.pools
    }

    /// Failures and repairs, if the scenario has any.
    pub fn failures(&self) -> Option<&Failures> {
        self.failures.as_ref()
    }

    /// Number of virtual channels of each link.
    pub fn virtual_channels(&self) -> u8 {
        let failures = self.failures.as_ref();
        failures.map_or(self.tables.virtual_channels(), |all| all.virtual_channels)
    }

    /// The name of the routing.
    pub fn routing_name(&self) -> &'static str {
        self.scenario.fabric.routing.name()
    }

    /// Number of links on the longest path between a host and a device it
    /// reaches, in either direction.
    pub fn longest_path(&self) -> Option<u32> {
        let first = self.hosts.len();
        let devices = first..first + self.devices.len();
        (0..first)
            .flat_map(|host| {
                devices.clone().filter_map(move |device| {
                    let there = self.tables.hops(host, device)?;
                    Some(there.max(self.tables.hops(device, host)?))
                })
            })
            .max()
    }

    /// Whether a host's workload ends by itself.
    pub fn is_finite(&self, host: &PlannedHost) -> bool {
        let workload = &self.workloads[host.group];
        let group = &self.scenario.hosts[host.group];
        let limited = group
            .beside
            .as_ref()
            .is_some_and(|one| one.requests.is_some());
        let beside = self.beside[host.group].as_ref();
        (workload.is_finite() || workload.needs_threads())
            && beside.is_none_or(|one| limited || one.is_finite())
    }

    /// By device: the class of coherence of its memory.
    pub fn classes(&self) -> Vec<CoherenceClass> {
        let devices = self.devices.iter();
        devices
            .map(|device| match self.memory_group(device) {
                Some(group) if group.is_hdm_db() => CoherenceClass::HdmDb,
                _ => CoherenceClass::HdmH,
            })
            .collect()
    }

    /// The accelerators, which issue requests as hosts do.
    pub fn accelerators(&self) -> &[PlannedDevice] {
        &self.devices[self.devices.len() - self.accelerator_hosts.len()..]
    }

    /// The files beside the scenario.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Whether any workload replays a file.
    pub fn has_trace(&self) -> bool {
        let trace = self.files.trace_override.as_deref();
        let mut workloads = self.workloads.iter().chain(self.beside.iter().flatten());
        workloads.any(|one| one.file(&self.files.scenario_dir, trace).is_some())
    }

    /// By endpoint, hosts first: whether its memory is HDM-D, which only accelerators may have.
    pub fn hdm_d(&self) -> impl Iterator<Item = bool> {
        let hosts = self.hosts.iter().map(|_| false);
        let devices = self.devices.iter().map(|device| match device.group {
            DeviceKind::Accelerator(group) => !self.scenario.accelerators[group].is_hdm_db(),
            DeviceKind::Memory(_) => false,
        });
        hosts.chain(devices)
    }

    /// The scenario's parameters of a Type 3 device; `None` for an accelerator.
    pub fn memory_group(&self, device: &PlannedDevice) -> Option<&DeviceGroup> {
        device.memory().map(|group| &self.scenario.devices[group])
    }

    /// The sum of the devices' capacities.
    pub fn capacity(&self) -> Bytes {
        let sizes = self
            .devices
            .iter()
            .filter_map(|device| self.memory_group(device))
            .map(|group| group.capacity.0);
        Bytes(sizes.sum())
    }

    /// Number of the component at the end of a link, counted over hosts, devices and switches.
    pub fn component(&self, end: End) -> usize {
        match end {
            End::Host(host, _) => host,
            End::Device(device, _) => self.hosts.len() + device,
            End::Switch(switch, _) => self.hosts.len() + self.devices.len() + switch,
        }
    }

    /// The name of a component at the end of a link.
    pub fn end_name(&self, end: End) -> &str {
        match end {
            End::Host(host, _) => &self.hosts[host].name,
            End::Device(device, _) => &self.devices[device].name,
            End::Switch(switch, _) => &self.graph.switches[switch].name,
        }
    }
}

/// Builds a workload, or finds the external one of this name.
fn build_workload(
    choice: &WorkloadChoice,
    externals: &Externals,
) -> Result<Box<dyn Workload>, ParamError> {
    let name = choice.params.get("name").and_then(|name| name.as_str());
    match name.and_then(|name| externals.get(name)) {
        Some(offered) if choice.kind == External::KIND => Ok(Box::new(Arc::clone(offered))),
        _ => choice.build(),
    }
}

/// Builds each group's catalog entry, and reports the parameters that the catalog refuses.
fn build_choices<G, B>(
    problems: &mut Vec<Problem>,
    list: &str,
    field: &str,
    groups: &[G],
    build: impl Fn(&G) -> Result<B, ParamError>,
) -> Vec<B> {
    let mut built = Vec::with_capacity(groups.len());
    for (at, group) in groups.iter().enumerate() {
        match build(group) {
            Ok(one) => built.push(one),
            Err(error) => {
                problems.push(Problem::of_param(&format!("{list}[{at}].{field}"), error));
            }
        }
    }
    built
}

/// Hashes of everything that can change a result except the seed: version, scenario without its
/// name and execution, and the content of trace files, of libraries and of a fleet's demand. The
/// second hash leaves out the windows as well.
fn hashes(
    scenario: &Scenario,
    (libraries, traces): (Vec<PathBuf>, Vec<PathBuf>),
    fleet: Option<&PlannedFleet>,
) -> ([String; 2], Inputs) {
    let mut value = serde_json::to_value(scenario).unwrap_or_default();
    let mut text = |without: &[&str]| {
        if let Some(object) = value.as_object_mut() {
            for key in without {
                object.remove(*key);
            }
        }
        value.to_string()
    };
    let texts = [
        text(&["name", "description", "seed", "execution"]),
        text(&["measure"]),
    ];
    let mut hashers = texts.map(|text| {
        let mut hasher = Sha256::new();
        hasher.update(env!("CARGO_PKG_VERSION"));
        hasher.update(text);
        hasher
    });
    for path in &libraries {
        inputs::hash(&mut hashers, path);
    }
    let inputs = Inputs::new(traces);
    for path in inputs.paths() {
        inputs::hash(&mut hashers, path);
    }
    if let Some(fleet) = fleet {
        for hasher in &mut hashers {
            hasher.update(fleet.demand.content());
        }
    }
    let hashes = hashers.map(|hasher| {
        let bytes = hasher.finalize();
        bytes[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    });
    (hashes, inputs)
}

fn notes(devices: &[PlannedDevice]) -> Vec<Note> {
    let mut notes = Vec::new();
    if devices
        .iter()
        .flat_map(|device| device.decoders.decoders())
        .any(|decoder| !decoder.set.is_expressible())
    {
        notes.push(Note::new(
            "address_map",
            "the interleave set has more ways or a coarser level than HDM decoder registers can \
             express (16 ways, 16 KiB); it is simulated by the same arithmetic",
        ));
    }
    notes
}
