//! The operating systems of hosts: NUMA nodes with their distances, and the
//! memory promised to workloads.

use std::collections::BTreeSet;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, Picos};
use cxlab_host::{Cluster, MOST_PROMISED, OsConfig, ProcessorParams};
use cxlab_os::frames::{NodeKind, NodeSpec, NumaDistances, WatermarkParams};
use cxlab_os::{NodeId, PageSize};
use cxlab_protocol::PortId;
use cxlab_scenario::Scenario;
use cxlab_workload::{LOCAL_BASE, Workload};

use crate::cores::PAGE;
use crate::plan::Plan;
use crate::problem::{Problem, Problems};

/// Latency of local memory, in picoseconds, against which distances between clusters are measured
/// (*assumed*: an idle server's 90 ns).
const LOCAL_LATENCY: u64 = 90_000;

/// Checks what does not depend on the NUMA nodes.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let Some(os) = &group.os else { continue };
        let path = format!("hosts[{at}].os");
        if group.processor().is_none() {
            let found = "an operating system on a host without a processor";
            problems.refuse(&path, found, "with processor = {}");
        }
        let mut fields = problems.below(&path);
        let heaps = (os.processes.iter().enumerate())
            .map(|(number, process)| (format!("processes[{number}].heap"), process.heap));
        for (field, heap) in std::iter::once(("heap".to_owned(), os.heap)).chain(heaps) {
            if let Some(heap) = heap {
                fields.multiple(&field, heap, PAGE, MOST_PROMISED);
            }
        }
        for (field, found, range) in [
            ("walkers", os.walkers, [1, 64]),
            ("moves", os.moves, [1, 256]),
            ("copy_lines", os.copy_lines, [1, 64]),
            ("cxl_distance", os.cxl_distance.into(), [11, 127]),
        ] {
            fields.between(field, found, range);
        }
        for (node, params) in group.nodes.iter().enumerate() {
            if !params.capacity.0.is_multiple_of(PageSize::Large.bytes()) {
                problems.refuse(
                    format!("hosts[{at}].nodes[{node}].capacity"),
                    format_args!("{} with an operating system", params.capacity),
                    "multiples of 2 MiB",
                );
            }
        }
        let tlb = os.tlb.as_ref().map_or(Picos::ZERO, |tlb| tlb.latency);
        let mut fields = problems.below(path);
        for (field, time) in [
            ("fault_time", os.fault_time),
            ("page_request_time", os.page_request_time),
            ("syscall_time", os.syscall_time),
            ("shootdown_time", os.shootdown_time),
            ("move_time", os.move_time),
            ("tlb.latency", tlb),
            ("iommu.iotlb.latency", os.iommu.iotlb.latency),
            ("iommu.overhead", os.iommu.overhead),
        ] {
            fields.delay(field, time);
        }
    }
}

/// Checks that each process has cores of its own, on which programs run. `workloads` has the workload
/// of every host group, in order, or none if some could not be built.
pub(crate) fn check_processes(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    problems: &mut Problems,
) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let (Some(os), Some(processor)) = (&group.os, group.processor()) else {
            continue;
        };
        let threads = workloads.get(at).is_some_and(|one| one.needs_threads());
        let first_free = match threads {
            true => processor.cores.saturating_sub(group.cores_beside()),
            false => 0,
        };
        let mut taken = BTreeSet::new();
        for (number, process) in os.processes.iter().enumerate() {
            let path = format!("hosts[{at}].os.processes[{number}].cores");
            if process.cores.is_empty() {
                problems.refuse(&path, "a process without cores", "at least one core");
            }
            for (place, core) in process.cores.iter().enumerate() {
                let path = format!("{path}[{place}]");
                let cores = processor.cores;
                if *core >= cores {
                    let allowed = format_args!("less than {cores}, the number of cores");
                    problems.refuse(path, core, allowed);
                } else if *core < first_free {
                    let message = format!(
                        "found {core}, which runs threads; threads are of the first process. Allowed: cores \
                         that run programs or patterns, with `beside`"
                    );
                    problems.push(Problem::new(path, message));
                } else if !taken.insert(*core) {
                    let found = format_args!("{core}, which a process has already");
                    problems.refuse(path, found, "each core once");
                }
            }
        }
    }
}

impl Plan {
    /// Whether a host has an operating system.
    pub fn has_os(&self, host: usize) -> bool {
        self.scenario.hosts[self.hosts[host].group].os.is_some()
    }

    /// Bytes of the host's own memory that the operating system promises to the first process.
    pub(crate) fn heap(&self, host: usize) -> Bytes {
        let group = &self.scenario.hosts[self.hosts[host].group];
        let heap = group.os.as_ref().and_then(|os| os.heap);
        heap.unwrap_or_else(|| self.all_nodes(host))
    }

    /// Bytes of the host's own memory that the operating system promises to the process of a core.
    pub(crate) fn heap_of(&self, host: usize, core: u32) -> Bytes {
        let group = &self.scenario.hosts[self.hosts[host].group];
        let os = group.os.as_ref();
        match os.and_then(|os| Some(&os.processes[os.process_of(core)?])) {
            Some(process) => process.heap.unwrap_or_else(|| self.all_nodes(host)),
            None => self.heap(host),
        }
    }

    fn all_nodes(&self, host: usize) -> Bytes {
        let planned = &self.hosts[host];
        let own = self.scenario.hosts[planned.group].own_memory().0;
        let all = own.saturating_add(planned.map.span().0);
        Bytes(all.min(MOST_PROMISED))
    }

    /// The parameters of a host's operating system; `None` if addresses are physical.
    pub fn os_config(&self, host: usize, seed: u64) -> Option<OsConfig> {
        let planned = &self.hosts[host];
        let group = &self.scenario.hosts[planned.group];
        let (os, processor) = (group.os.clone()?, group.processor()?);
        let mut nodes = Vec::new();
        let mut base = LOCAL_BASE.0;
        for node in &group.nodes {
            nodes.push(NodeSpec {
                kind: NodeKind::Cpu,
                base: Hpa(base),
                capacity: node.capacity,
                watermarks: WatermarkParams::default(),
            });
            base += node.capacity.0;
        }
        let port = |device: usize| PortId((self.hosts.len() + device) as u16);
        let accelerators = self.accelerators_of(host).map(|(device, _)| port(device));
        let accelerators: Vec<PortId> = accelerators.collect();
        let home = nearest(processor, group.nodes.iter().map(|node| node.at));
        let mut devices = vec![home; accelerators.len()];
        for window in planned.map.windows() {
            let node = NodeId(nodes.len() as u16);
            let owner = match window.targets[..] {
                [target] => accelerators.iter().position(|one| *one == target),
                _ => None,
            };
            if let Some(owner) = owner {
                devices[owner] = node;
            }
            nodes.push(NodeSpec {
                kind: match owner {
                    Some(_) => NodeKind::Xpu,
                    None => NodeKind::Memory,
                },
                base: window.base,
                capacity: window.size,
                watermarks: WatermarkParams::default(),
            });
        }
        let clusters: Vec<Cluster> = group.nodes.iter().map(|node| node.at).collect();
        let row = |from: usize| {
            let to = |to: usize| distance(processor, &clusters, os.cxl_distance, from, to);
            (0..nodes.len()).map(to).collect()
        };
        let processes = os.processes.iter();
        let heaps = processes.map(|process| process.heap.unwrap_or_else(|| self.all_nodes(host)).0);
        // The rows have the right length, with 10 for the distance of each node to itself.
        let distances = NumaDistances::new((0..nodes.len()).map(row).collect()).ok()?;
        Some(OsConfig {
            nodes,
            distances,
            home,
            devices,
            heaps: std::iter::once(self.heap(host).0).chain(heaps).collect(),
            cxl: planned.map.span().0.min(MOST_PROMISED),
            cores: processor.cores,
            tlb: os.tlb(processor.preset),
            rng: StreamRng::new(seed, &format!("{}/os", planned.name)),
            params: os,
        })
    }

    /// Checks every operating system against the nodes of its host.
    pub(crate) fn check_os(&self) -> Result<(), Vec<Problem>> {
        let wrong = |host: usize| {
            let path = format!("hosts[{}]", self.hosts[host].group);
            match self.os_config(host, self.scenario.seed) {
                Some(config) => {
                    let error = config.check().err()?;
                    Some(Problem::of_param(&format!("{path}.os"), error))
                }
                None => Some(Problem::refused(
                    format!("{path}.nodes"),
                    "more than 64 NUMA nodes with those of CXL memory",
                    "up to 64 with an operating system",
                )),
            }
        };
        let hosts = (0..self.hosts.len()).filter(|host| self.has_os(*host));
        let mut problems: Vec<Problem> = hosts.filter_map(wrong).collect();
        problems.dedup_by(|a, b| a.path == b.path);
        Problems::from_iter(problems).into_result(())
    }
}

/// The node with the lowest latency from a processor's cores; the first one of equals.
fn nearest(processor: &ProcessorParams, nodes: impl Iterator<Item = Cluster>) -> NodeId {
    let far = |(_, at): &(u16, Cluster)| processor.distance(*at);
    let node = (0..).zip(nodes).min_by_key(far);
    NodeId(node.map_or(0, |(number, _)| number))
}

/// The distance between two nodes in the units of ACPI's SLIT.
fn distance(
    processor: &ProcessorParams,
    clusters: &[Cluster],
    cxl: u8,
    from: usize,
    to: usize,
) -> u8 {
    if from == to {
        return 10;
    }
    let (Some(from), Some(to)) = (clusters.get(from), clusters.get(to)) else {
        let both = from >= clusters.len() && to >= clusters.len();
        return if both { 2 * cxl - 10 } else { cxl };
    };
    let there = ProcessorParams {
        at: *from,
        ..processor.clone()
    };
    let latency = LOCAL_LATENCY + 2 * there.distance(*to).0;
    (10 * latency / LOCAL_LATENCY).clamp(11, 254) as u8
}
