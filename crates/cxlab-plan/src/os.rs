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

use super::limits::{LONGEST_DELAY, check_time};
use super::{Plan, Problem};

/// Latency of local memory, in picoseconds, against which distances between clusters are measured
/// (*assumed*: an idle server's 90 ns).
const LOCAL_LATENCY: u64 = 90_000;
/// Unit in which the operating system allocates memory, in bytes.
const PAGE: u64 = 4096;

/// Checks what does not depend on the NUMA nodes.
pub(crate) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let Some(os) = &group.os else { continue };
        let path = format!("hosts[{at}].os");
        if group.processor.is_none() {
            problems.push(Problem::new(
                &path,
                "found an operating system on a host without a processor; allowed: with processor = {}",
            ));
        }
        let mut refuse = |field: &str, found: String, allowed: &str| {
            let message = format!("found {found}; allowed: {allowed}");
            problems.push(Problem::new(format!("{path}.{field}"), message));
        };
        let heaps = (os.processes.iter().enumerate())
            .map(|(number, process)| (format!("processes[{number}].heap"), process.heap));
        for (field, heap) in std::iter::once(("heap".to_owned(), os.heap)).chain(heaps) {
            if let Some(heap) = heap
                && (heap.0 == 0 || !heap.0.is_multiple_of(PAGE) || heap.0 > MOST_PROMISED)
            {
                refuse(&field, heap.to_string(), "multiples of 4 KiB up to 16 TiB");
            }
        }
        for (field, found, least, most) in [
            ("walkers", os.walkers, 1, 64),
            ("moves", os.moves, 1, 256),
            ("copy_lines", os.copy_lines, 1, 64),
            ("cxl_distance", os.cxl_distance.into(), 11, 127),
        ] {
            if !(least..=most).contains(&found) {
                refuse(field, found.to_string(), &format!("{least} to {most}"));
            }
        }
        for (node, params) in group.nodes.iter().enumerate() {
            let large = PageSize::Large.bytes();
            if !params.capacity.0.is_multiple_of(large) {
                problems.push(Problem::new(
                    format!("hosts[{at}].nodes[{node}].capacity"),
                    format!(
                        "found {} with an operating system; allowed: multiples of 2 MiB",
                        params.capacity
                    ),
                ));
            }
        }
        for (field, time) in [
            ("fault_time", os.fault_time),
            ("page_request_time", os.page_request_time),
            ("syscall_time", os.syscall_time),
            ("shootdown_time", os.shootdown_time),
            ("move_time", os.move_time),
            (
                "tlb.latency",
                os.tlb.as_ref().map_or(Picos::ZERO, |tlb| tlb.latency),
            ),
            ("iommu.iotlb.latency", os.iommu.iotlb.latency),
            ("iommu.overhead", os.iommu.overhead),
        ] {
            check_time(&format!("{path}.{field}"), time, LONGEST_DELAY, problems);
        }
    }
}

/// Checks that each process has cores of its own, on which programs run.
pub(crate) fn check_processes(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    problems: &mut Vec<Problem>,
) {
    let complete = workloads.len() == scenario.hosts.len();
    for (at, group) in scenario.hosts.iter().enumerate() {
        let (Some(os), Some(processor)) = (&group.os, &group.processor) else {
            continue;
        };
        let threads = complete && workloads[at].needs_threads();
        let first_free = match threads {
            true => processor.cores.saturating_sub(group.cores_beside()),
            false => 0,
        };
        let mut taken = BTreeSet::new();
        for (number, process) in os.processes.iter().enumerate() {
            let path = format!("hosts[{at}].os.processes[{number}].cores");
            if process.cores.is_empty() {
                problems.push(Problem::new(
                    &path,
                    "found a process without cores; allowed: at least one core",
                ));
            }
            for (place, core) in process.cores.iter().enumerate() {
                let path = format!("{path}[{place}]");
                if *core >= processor.cores {
                    let message = format!(
                        "found {core}; allowed: less than {}, the number of cores",
                        processor.cores
                    );
                    problems.push(Problem::new(path, message));
                } else if *core < first_free {
                    let message = format!(
                        "found {core}, which runs threads; threads are of the first process. Allowed: cores \
                         that run programs or patterns, with `beside`"
                    );
                    problems.push(Problem::new(path, message));
                } else if !taken.insert(*core) {
                    let message = format!(
                        "found {core}, which a process has already; allowed: each core once"
                    );
                    problems.push(Problem::new(path, message));
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

    /// Total memory of all nodes of a host.
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
        let (os, processor) = (group.os.clone()?, group.processor.as_ref()?);
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
        let accelerators: Vec<PortId> = self
            .accelerators_of(host)
            .map(|(device, _)| PortId((self.hosts.len() + device) as u16))
            .collect();
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
        // The rows have the right length, with 10 for the distance of each node to itself.
        let distances = NumaDistances::new((0..nodes.len()).map(row).collect()).ok()?;
        Some(OsConfig {
            nodes,
            distances,
            home,
            devices,
            heaps: std::iter::once(self.heap(host).0)
                .chain(
                    os.processes
                        .iter()
                        .map(|process| process.heap.unwrap_or_else(|| self.all_nodes(host)).0),
                )
                .collect(),
            cxl: planned.map.span().0.min(MOST_PROMISED),
            cores: processor.cores,
            tlb: os.tlb(processor.preset),
            rng: StreamRng::new(seed, &format!("{}/os", planned.name)),
            params: os,
        })
    }

    /// Checks every operating system against the nodes of its host.
    pub(crate) fn check_os(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for host in 0..self.hosts.len() {
            if !self.has_os(host) {
                continue;
            }
            let path = format!("hosts[{}].os", self.hosts[host].group);
            match self.os_config(host, self.scenario.seed) {
                Some(config) => {
                    if let Err(error) = config.check() {
                        problems.push(Problem::of_param(&path, error));
                    }
                }
                None => problems.push(Problem::new(
                    format!("hosts[{}].nodes", self.hosts[host].group),
                    "found more than 64 NUMA nodes with those of CXL memory; allowed: up to 64 with \
                     an operating system",
                )),
            }
        }
        problems.dedup_by(|a, b| a.path == b.path);
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
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
