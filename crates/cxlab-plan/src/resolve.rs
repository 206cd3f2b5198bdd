//! From a scenario to a plan: all checks, in the order in which their problems are reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cxlab_engine::catalog::ParamError;
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::RoutingTables;
use cxlab_fabric::topology::Topology;
use cxlab_memory::Medium;
use cxlab_scenario::{HostGroup, Note, Scenario, WorkloadChoice};
use cxlab_workload::pattern::External;
use cxlab_workload::{InletWorkload, Workload};

use crate::endpoints::{NamedGroups, PlannedDevice};
use crate::fleet::PlannedFleet;
use crate::inputs::{Files, hashes};
use crate::manager::Account;
use crate::media::PlannedMedia;
use crate::plan::Plan;
use crate::problem::{Problem, Problems};
use crate::qos::Qos;
use crate::{
    accelerators, address, coherence, copies, cores, credits, endpoints, enumeration, events,
    external, failures, fleet, limits, link_checks, links, media, media_errors, os, processors,
    programs, qos, regions, revision, sampling, sharing, surprises, viral, windows,
};

/// Workloads supplied by the program that runs the simulation, by the name in a scenario's
/// `{ kind = "external", name = ... }`. Their operations are not part of a plan's hash.
pub type Externals = BTreeMap<String, Arc<dyn Workload>>;

/// The entries of catalogs that a scenario chooses.
struct Entries {
    media: PlannedMedia,
    /// Workloads, by host group.
    workloads: Vec<Box<dyn Workload>>,
    /// Second workloads, by host group.
    beside: Vec<Option<Box<dyn Workload>>>,
    fleet: Option<PlannedFleet>,
    topology: Option<Box<dyn Topology>>,
}

impl Entries {
    /// Builds the entries, and checks what depends on them alone.
    fn new(
        scenario: &Scenario,
        files: &Files,
        externals: &Externals,
        problems: &mut Problems,
    ) -> Entries {
        let hosts = &scenario.hosts;
        let folder = files.scenario_dir.as_path();
        let devices = build_all(problems, "devices", "memory", &scenario.devices, |group| {
            media::build(&group.memory, group.capacity, folder)
        });
        let local = build_all(problems, "hosts", "local.memory", hosts, |group| {
            let local = group.local.as_ref();
            let built = local.map(|local| media::build(&local.memory, local.capacity, folder));
            built.transpose()
        });
        let workloads = build_all(problems, "hosts", "workload", hosts, |group| {
            match group.external {
                true => Ok(Box::new(InletWorkload {
                    depth: group.port_depth(),
                }) as Box<dyn Workload>),
                false => build_workload(&group.workload, externals),
            }
        });
        let nodes = build_all(problems, "hosts", "nodes", hosts, |group| {
            build_nodes(group, folder)
        });
        let groups = &scenario.accelerators;
        let accelerators = build_all(problems, "accelerators", "memory.memory", groups, |group| {
            let memory = group.memory.as_ref();
            let built = memory.map(|memory| media::build(&memory.memory, memory.capacity, folder));
            built.transpose()
        });
        let beside = build_all(problems, "hosts", "beside.workload", hosts, |group| {
            let beside = group.beside.as_ref();
            let built = beside.map(|beside| build_workload(&beside.workload, externals));
            built.transpose()
        });
        let known = workloads.get(..hosts.len()).unwrap_or_default();
        let known_beside = beside.get(..hosts.len()).unwrap_or_default();
        cores::check(scenario, known, problems);
        processors::check(scenario, known, problems);
        accelerators::check(scenario, problems);
        programs::check(scenario, known, known_beside, problems);
        os::check(scenario, problems);
        os::check_processes(scenario, known, problems);
        enumeration::check(scenario, problems);
        let fleet = fleet::resolve(scenario, files, problems);
        let topology = problems.built("fabric.topology", scenario.fabric.topology.build());
        Entries {
            media: PlannedMedia {
                devices,
                local,
                nodes,
                accelerators,
            },
            workloads,
            beside,
            fleet,
            topology,
        }
    }
}

/// Builds the media of a host's NUMA nodes.
fn build_nodes(group: &HostGroup, folder: &Path) -> Result<Vec<Box<dyn Medium>>, ParamError> {
    let nodes = group.nodes.iter().enumerate().map(|(at, node)| {
        media::build(&node.memory, node.capacity, folder).map_err(|error| {
            let field = format!("[{at}].memory.{}", error.field);
            ParamError::new(field.trim_end_matches('.'), error.message)
        })
    });
    nodes.collect()
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
fn build_all<G, B>(
    problems: &mut Problems,
    list: &str,
    field: &str,
    groups: &[G],
    build: impl Fn(&G) -> Result<B, ParamError>,
) -> Vec<B> {
    let mut built = Vec::with_capacity(groups.len());
    for (at, group) in groups.iter().enumerate() {
        built.extend(problems.built(&format!("{list}[{at}].{field}"), build(group)));
    }
    built
}

/// The trace files that workloads read.
fn traces<'a>(
    workloads: impl Iterator<Item = &'a Box<dyn Workload>>,
    files: &Files,
) -> Vec<PathBuf> {
    let trace = files.trace_override.as_deref();
    let traces = workloads.filter_map(|workload| workload.file(&files.scenario_dir, trace));
    traces.collect()
}

/// Checks the parameters that depend neither on entries of catalogs nor on the fabric, and carries out
/// the fabric manager's commands.
fn check_parameters<'a>(
    scenario: &'a Scenario,
    named: &'a NamedGroups,
    problems: &mut Problems,
) -> Account<'a> {
    link_checks::check(scenario, problems);
    address::check(scenario, problems);
    regions::check(scenario, named, problems);
    events::check(scenario, named, problems);
    let mut manager = Account::of(scenario, named);
    problems.append(&mut manager.problems);
    failures::check(scenario, problems);
    qos::check(scenario, named, problems);
    media_errors::check(scenario, problems);
    viral::check(scenario, named, problems);
    limits::check(scenario, problems);
    external::check(scenario, problems);
    sampling::check_keys(scenario, problems);
    manager
}

/// The graph of the fabric and its routing tables.
fn build_fabric(
    scenario: &Scenario,
    named: &NamedGroups,
    topology: &dyn Topology,
) -> Result<(FabricGraph, Arc<RoutingTables>), Vec<Problem>> {
    let graph = topology.build(&named.names);
    let graph = graph.map_err(|error| Problem::of_param("fabric.topology", error))?;
    if let Some(allowed) = scenario.fabric.switch.max_ports {
        let checked = graph.check_ports(usize::from(allowed));
        checked.map_err(|error| Problem::new("fabric.switch.max_ports", error.to_string()))?;
    }
    let most = scenario.fabric.virtual_channels;
    let kind = scenario.fabric.routing.0;
    let tables = match endpoints::may_have_islands(scenario) {
        true => RoutingTables::build_without(&graph, kind, most, |_| false),
        false => RoutingTables::build_within(&graph, kind, most),
    };
    let tables = tables.map_err(|error| Problem::new("fabric.topology", error.to_string()))?;
    Ok((graph, Arc::new(tables)))
}

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
        let mut problems = Problems::default();
        let endpoints = endpoints::name_all(&scenario, &mut problems);
        let manager = check_parameters(&scenario, &endpoints, &mut problems);
        let entries = Entries::new(&scenario, &files, externals, &mut problems);
        problems.into_result(())?;
        let Some(topology) = entries.topology else {
            unreachable!("a topology that cannot be built is a problem")
        };
        let (media, workloads, beside) = (entries.media, entries.workloads, entries.beside);
        let (graph, tables) = build_fabric(&scenario, &endpoints, topology.as_ref())?;
        let reach = endpoints::reach(&scenario, &graph, &tables, &endpoints)?;
        let maps = address::lay_out(&scenario, &endpoints, &graph, &reach, &manager)?;
        let hosts = endpoints.hosts(maps.host_maps, &manager.presence);
        let timelines = manager.timelines(&maps.extents);
        let (pools, commands) = manager.finish();
        let shared = sharing::parts(&scenario, &hosts, &workloads, &maps.extents);
        failures::check_shared(&scenario, &shared)?;
        let mut devices = endpoints.devices(maps.decoders, timelines);
        let link_classes = scenario.link_classes();
        let links = links::list(&scenario, &graph, &tables, &link_classes, &devices)?;
        link_checks::check_flits(&scenario, &links, &link_classes, &devices)?;
        link_checks::check_virtual_channels(&scenario, &tables)?;
        let virals = viral::Fabric {
            scenario: &scenario,
            tables: &tables,
            links: &links,
            hosts: &hosts,
        };
        virals.spread(&mut devices, &media.devices)?;
        let caching = coherence::check(&scenario, &hosts, &devices, &links)?;
        coherence::check_policies(&scenario, &workloads, &hosts, &caching)?;
        let of_media = media.files(&scenario, &files.scenario_dir)?;
        let has_plugins = media.run_code(&scenario);
        let runs = workloads.iter().chain(beside.iter().flatten());
        let traces = traces(runs, &files);
        let demand = entries.fleet.as_ref().map(|fleet| fleet.demand.content());
        let ([hash, state_hash], inputs) = hashes(&scenario, (of_media, traces), demand);
        let mut notes = Vec::from_iter(inexpressible(&devices));
        notes.extend(media.notes(&scenario));
        notes.extend(link_checks::notes(&link_classes, &links));
        notes.extend(surprises::notes(&scenario, &hosts, &devices, &workloads));
        notes.extend(copies::note(&scenario, &hosts, &devices, &shared));
        let fabric = failures::Fabric {
            scenario: &scenario,
            named: &endpoints,
            graph: &graph,
            tables: &tables,
            links: &links,
            reach: &reach,
        };
        let failures = fabric.failures(&mut notes)?;
        let accelerator_hosts = accelerators::hosts(&scenario, &graph, &hosts)?;
        accelerators::check_access(&scenario, &workloads, &hosts, &accelerator_hosts)?;
        let of_host = &accelerator_hosts;
        link_checks::check_cache_ids(&scenario, &links, &link_classes, &devices, of_host)?;
        link_checks::check_fills(&scenario, &workloads, &links)?;
        let resolved = enumeration::ResolvedFabric {
            scenario: &scenario,
            graph: &graph,
            tables: &tables,
            hosts: &hosts,
            devices: &devices,
            reach: &reach,
            accelerator_hosts: &accelerator_hosts,
        };
        let hierarchies = resolved.hierarchies()?;
        let plan = Plan {
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
            workloads,
            beside,
            accelerator_hosts,
            shared,
            caching,
            hierarchies,
            commands,
            pools,
            failures,
            fleet: entries.fleet,
            files,
            inputs,
            qos: Qos::default(),
        };
        plan.complete()
    }

    /// Checks the whole plan, and resolves what depends on all of it.
    fn complete(mut self) -> Result<Plan, Vec<Problem>> {
        limits::check_round_trip(&self.scenario, self.longest_path().unwrap_or(1))?;
        revision::check(&self)?;
        self.check_os()?;
        self.check_external_events()?;
        sampling::check(&self)?;
        self.sources(self.scenario.seed).map(drop)?;
        windows::check(&self)?;
        let credits = credits::notes(&self);
        self.notes.extend(credits);
        self.qos = Qos::of(&self)?;
        Ok(self)
    }
}

/// A note on interleave sets that decoder registers cannot express.
fn inexpressible(devices: &[PlannedDevice]) -> Option<Note> {
    let decoders = devices.iter().map(|device| device.decoders.decoders());
    let is_wide = decoders
        .flatten()
        .any(|decoder| !decoder.set.is_expressible());
    is_wide.then(|| {
        Note::new(
            "address_map",
            "the interleave set has more ways or a coarser level than HDM decoder registers can \
             express (16 ways, 16 KiB); it is simulated by the same arithmetic",
        )
    })
}
