//! Checks the parameters of accelerators, and finds the host of each.

use cxlab_device::{AcceleratorKind, AcceleratorParams, MOST_CYCLES};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Picos;
use cxlab_fabric::graph::FabricGraph;
use cxlab_os::ats::Atc;
use cxlab_scenario::{AcceleratorGroup, Scenario};
use cxlab_workload::Workload;

use crate::endpoints::PlannedHost;
use crate::problem::{Fields, Problem, Problems, did_you_mean};
use crate::processors::{LONGEST_CYCLE, MOST_OUTSTANDING, check_array};

const MOST_ELEMENTS: u32 = 1024;

pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    for (at, group) in scenario.accelerators.iter().enumerate() {
        let path = format!("accelerators[{at}].device");
        let device = &group.device;
        check_accelerator(problems.below(&path), device);
        let atc = Atc::new(&device.atc, StreamRng::new(0, "atc"));
        problems.built(&format!("{path}.atc"), atc);
        let latency = device.atc.cache.latency;
        problems.below(&path).delay("atc.cache.latency", latency);
        check_pcie(at, group, problems);
        if let Some(choice) = &device.cache.prefetch {
            problems.built(&format!("{path}.cache.prefetch"), choice.build());
        }
    }
}

fn check_accelerator(mut fields: Fields<'_>, params: &AcceleratorParams) {
    fields.between("cycle", params.cycle, [Picos(1), LONGEST_CYCLE]);
    fields.count("elements", params.elements, MOST_ELEMENTS);
    fields.count("window", params.window, MOST_OUTSTANDING);
    fields.at_most("atomic_cycles", params.atomic_cycles, MOST_CYCLES);
    fields.at_most("buffer_cycles", params.buffer_cycles, MOST_CYCLES);
    let cache = &params.cache;
    check_array(&mut fields, "cache", cache.size, cache.ways);
    fields.count("cache.misses", cache.misses, MOST_OUTSTANDING);
    check_array(&mut fields, "dmc", params.dmc.size, params.dmc.ways);
    fields.power_of_two("bias_page", params.bias_page, 64, 4096);
    for (field, found) in [
        ("cache.hit_cycles", cache.hit_cycles),
        ("cache.request_cycles", cache.request_cycles),
        ("cache.response_cycles", cache.response_cycles),
        ("dma.setup_cycles", params.dma.setup_cycles),
        ("dma.completion_cycles", params.dma.completion_cycles),
        ("dma.descriptor_cycles", params.dma.descriptor_cycles),
    ] {
        fields.at_most(field, found, MOST_CYCLES);
    }
    fields.count("dma.tags", params.dma.tags, 1024);
    fields.power_of_two("dma.width", params.dma.width, 1, 4096);
    fields.power_of_two("dma.read_request", params.dma.read_request, 64, 4096);
    fields.power_of_two("dma.payload", params.dma.payload, 64, 512);
}

/// Refuses memory reached over CXL.mem and a prefetcher on PCIe devices: they have no CXL.mem and
/// no cache of host memory.
fn check_pcie(at: usize, group: &AcceleratorGroup, problems: &mut Problems) {
    if group.device.kind != AcceleratorKind::Pcie {
        return;
    }
    if let Some(memory) = &group.memory {
        problems.refuse(
            format!("accelerators[{at}].memory"),
            format_args!("memory of {} on a device with kind = \"pcie\"", memory.capacity),
            "none (the host would reach it over CXL.mem; the device's own buffers need no parameter)",
        );
    }
    if group.device.cache.prefetch.is_some() {
        problems.refuse(
            format!("accelerators[{at}].device.cache.prefetch"),
            "a prefetcher on a device with kind = \"pcie\"",
            "none (it has no cache of host memory)",
        );
    }
}

/// Refuses workloads whose threads on a PCIe device would have to load or store host memory.
pub(crate) fn check_access(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    hosts: &[PlannedHost],
    of: &[usize],
) -> Result<(), Vec<Problem>> {
    let groups = scenario.accelerators.iter();
    let kinds = groups.flat_map(|group| (0..group.count).map(|_| group.device.kind));
    let mut problems = Problems::default();
    let mut before = vec![0; hosts.len()];
    for (kind, host) in kinds.zip(of) {
        let number = before[*host];
        before[*host] += 1;
        let group = hosts[*host].group;
        let path = format!("hosts[{group}].workload");
        if kind == AcceleratorKind::Pcie
            && let Some(error) = workloads[group].needs_cxl_cache(number)
        {
            problems.push_once(Problem::of_param(&path, error));
        }
    }
    problems.into_result(())
}

/// The host of each accelerator, indexed by the number of the accelerator.
pub(crate) fn hosts(
    scenario: &Scenario,
    graph: &FabricGraph,
    hosts: &[PlannedHost],
) -> Result<Vec<usize>, Vec<Problem>> {
    let mut problems = Problems::default();
    let names = &graph.endpoints;
    let memories = scenario.devices.iter().map(|group| group.count as usize);
    let first = names.requesters.len() + memories.sum::<usize>();
    for endpoint in first..names.len() {
        let is_head = |link: &&(usize, usize)| link.1 == endpoint;
        if graph.direct.iter().filter(is_head).count() > 1 {
            let name = names.name(endpoint);
            problems.refuse(
                "fabric.topology.links",
                format_args!("accelerator `{name}` linked to several hosts"),
                "one (only Type 3 devices have several heads)",
            );
        }
    }
    let mut of = Vec::new();
    for (at, group) in scenario.accelerators.iter().enumerate() {
        let path = format!("accelerators[{at}].host");
        let number = match &group.host {
            None => Some(0),
            Some(name) => names.requesters.iter().position(|known| known == name),
        };
        let Some(number) = number else {
            let name = group.host.as_deref().unwrap_or_default();
            let hint = did_you_mean(name, names.requesters.iter().map(String::as_str));
            let found = format_args!("`{name}`, which is not a host");
            problems.refuse(path, found, format_args!("the name of a host{hint}"));
            continue;
        };
        if scenario.hosts[hosts[number].group].processor().is_none() {
            problems.refuse(
                path,
                format_args!("`{}`, a host without a processor", hosts[number].name),
                "a host with processor = {}, whose memory the accelerator works on",
            );
        }
        of.extend((0..group.count).map(|_| number));
    }
    problems.into_result(of)
}
