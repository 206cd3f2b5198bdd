//! Checks the parameters of processors and accelerators, and finds the host of each accelerator.

use cxlab_device::{AcceleratorKind, AcceleratorParams};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use cxlab_fabric::graph::FabricGraph;
use cxlab_host::{CacheLevel, DirectoryParams, Inclusion, ProcessorParams, RequesterParams};
use cxlab_os::ats::Atc;
use cxlab_scenario::diagnostics::nearest;
use cxlab_scenario::{AcceleratorGroup, HostGroup, Scenario};
use cxlab_workload::Workload;

use super::limits::{LONGEST_DELAY, check_time, whole_sets};
use super::{PlannedHost, Problem};

/// Most cores of a processor: the directory has a bit for each.
const MOST_CORES: u32 = 64;
/// Most processing elements of an accelerator.
const MOST_ELEMENTS: u32 = 1024;
/// Most cycles of a constant delay of an accelerator.
const MOST_CYCLES: u32 = 1_000_000;
/// Most operations outstanding, and most cache misses outstanding.
const MOST_OUTSTANDING: u32 = 4096;
/// Most memory of a host's own, in bytes.
const MOST_OWN: u64 = 1 << 50;
/// Unit in which the operating system allocates memory, in bytes.
const PAGE: u64 = 4096;

/// Collects the problems of the fields below one path of the scenario.
struct Checker<'a> {
    path: String,
    problems: &'a mut Vec<Problem>,
}

impl Checker<'_> {
    fn refuse(&mut self, field: &str, found: impl std::fmt::Display, allowed: &str) {
        self.problems.push(Problem::new(
            format!("{}.{field}", self.path),
            format!("found {found}; allowed: {allowed}"),
        ));
    }

    fn count(&mut self, field: &str, found: u32, most: u32) {
        if found == 0 || found > most {
            self.refuse(field, found, &format!("1 to {most}"));
        }
    }

    fn at_most(&mut self, field: &str, found: u32, most: u32) {
        if found > most {
            self.refuse(field, found, &format!("0 to {most}"));
        }
    }

    fn time(&mut self, field: &str, found: Picos) {
        let path = format!("{}.{field}", self.path);
        check_time(&path, found, LONGEST_DELAY, self.problems);
    }

    fn cycle(&mut self, found: Picos) {
        if found == Picos::ZERO || found > Picos::from_nanos(1000) {
            self.refuse("cycle", found, "1 ps to 1 us");
        }
    }

    fn array(&mut self, field: &str, size: Bytes, ways: u32) {
        if ways == 0 || ways > 1 << 16 {
            self.refuse(&format!("{field}.ways"), ways, "1 to 65536");
            return;
        }
        let set = u64::from(ways) * LINE_BYTES;
        if size.0 == 0 || !size.0.is_multiple_of(set) || size.0 > 1 << 32 {
            let allowed = format!("{}, up to 4 GiB", whole_sets(size, ways));
            self.refuse(&format!("{field}.size"), size, &allowed);
        }
    }

    fn power_of_two(&mut self, field: &str, found: Bytes, least: u64, most: u64) {
        if !found.0.is_power_of_two() || !(least..=most).contains(&found.0) {
            let allowed = format!("powers of two from {} to {}", Bytes(least), Bytes(most));
            self.refuse(field, found, &allowed);
        }
    }
}

/// Checks the processors and accelerators of a scenario. `workloads` has the workload of every host
/// group, in order, or fewer entries if some could not be built.
pub(crate) fn check(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    problems: &mut Vec<Problem>,
) {
    let complete = workloads.len() == scenario.hosts.len();
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        let threads = complete && workloads[at].needs_threads();
        match &group.processor {
            Some(processor) => {
                check_processor(&format!("{path}.processor"), processor, problems);
                check_host(&path, group, problems);
            }
            None if threads => problems.push(Problem::new(
                format!("{path}.workload.kind"),
                format!(
                    "found \"{}\" on a host without a processor; allowed: with processor = {{}}, \
                     which runs its threads",
                    group.workload.kind
                ),
            )),
            None if !group.nodes.is_empty() => problems.push(Problem::new(
                format!("{path}.nodes"),
                "found NUMA nodes on a host without a processor; allowed: with processor = {}",
            )),
            None => {}
        }
    }
    for (at, group) in scenario.accelerators.iter().enumerate() {
        let path = format!("accelerators[{at}].device");
        check_accelerator(&path, &group.device, problems);
        if let Err(error) = Atc::new(&group.device.atc, StreamRng::new(0, "atc")) {
            problems.push(Problem::of_param(&format!("{path}.atc"), error));
        }
        let latency = group.device.atc.cache.latency;
        check_time(
            &format!("{path}.atc.cache.latency"),
            latency,
            LONGEST_DELAY,
            problems,
        );
        check_pcie(at, group, problems);
        if let Some(choice) = &group.device.cache.prefetch
            && let Err(error) = choice.build()
        {
            problems.push(Problem::of_param(&format!("{path}.cache.prefetch"), error));
        }
    }
}

fn check_host(path: &str, group: &HostGroup, problems: &mut Vec<Problem>) {
    let mut exclude = |field: &str, there: bool| {
        if there {
            problems.push(Problem::new(
                format!("{path}.{field}"),
                format!(
                    "found `{field}` and `processor`; allowed: one of them, which says how the \
                     host issues"
                ),
            ));
        }
    };
    exclude("core", group.core.is_some());
    exclude("issue", group.issue != RequesterParams::default());
    exclude("local", group.local.is_some());
    if group.nodes.is_empty() {
        problems.push(Problem::new(
            format!("{path}.nodes"),
            "found none; allowed: at least one NUMA node with a processor, such as \
             [{ capacity = \"1 GiB\" }]",
        ));
    }
    for (node, params) in group.nodes.iter().enumerate() {
        let capacity = params.capacity.0;
        let path = format!("{path}.nodes[{node}]");
        if capacity == 0 || !capacity.is_multiple_of(PAGE) || capacity > MOST_OWN {
            problems.push(Problem::new(
                format!("{path}.capacity"),
                format!(
                    "found {}; allowed: multiples of 4 KiB up to 1024 TiB",
                    params.capacity
                ),
            ));
        }
        let latency = params.latency;
        check_time(&format!("{path}.latency"), latency, LONGEST_DELAY, problems);
    }
    if group.own_memory().0 > MOST_OWN {
        problems.push(Problem::new(
            format!("{path}.nodes"),
            format!(
                "found {} in all; allowed: up to 1024 TiB",
                group.own_memory()
            ),
        ));
    }
}

fn check_processor(path: &str, params: &ProcessorParams, problems: &mut Vec<Problem>) {
    let mut check = Checker {
        path: path.to_owned(),
        problems,
    };
    check.count("cores", params.cores, MOST_CORES);
    check.count("window", params.window, MOST_OUTSTANDING);
    check.count("misses", params.misses, MOST_OUTSTANDING);
    check.cycle(params.cycle);
    let level = |check: &mut Checker<'_>, field: &str, level: &CacheLevel| {
        check.array(field, level.size, level.ways);
        check.time(&format!("{field}.access_time"), level.access_time);
    };
    level(&mut check, "l1", &params.l1);
    level(&mut check, "l2", &params.l2);
    check.array("llc", params.llc.size, params.llc.ways);
    if let Some(misses) = params.llc.misses {
        check.count("llc.misses", misses, MOST_OUTSTANDING);
    }
    for (field, time) in [
        ("llc.access_time", params.llc.access_time),
        ("mesh_time", params.mesh_time),
        ("snoop_time", params.snoop_time),
        ("root_port_time", params.root_port_time),
        ("io_time", params.io_time),
        ("home_interval", params.home_interval),
        ("column_time", params.column_time),
        ("row_time", params.row_time),
        ("socket_time", params.socket_time),
        ("interrupt_time", params.interrupt_time),
    ] {
        check.time(field, time);
    }
    check.power_of_two("payload", params.payload, 64, 512);
    if params.l2.size < params.l1.size {
        let allowed = format!("at least {}, as it includes the first", params.l1.size);
        check.refuse("l2.size", params.l2.size, &allowed);
    }
    check_directory(&mut check, params);
    let private = Bytes(params.l2.size.0 * u64::from(params.cores));
    if params.llc.inclusion == Inclusion::Inclusive && params.llc.size < private {
        let allowed = format!(
            "at least {private}, as it includes the private caches of {} cores, or any size with \
             inclusion = \"non-inclusive\"",
            params.cores
        );
        check.refuse("llc.size", params.llc.size, &allowed);
    }
}

fn check_directory(check: &mut Checker<'_>, params: &ProcessorParams) {
    let directory = &params.llc.directory;
    if params.llc.inclusion == Inclusion::Inclusive {
        if *directory != DirectoryParams::default() {
            check.refuse(
                "llc.directory",
                "a directory of its own size",
                "none with inclusion = \"inclusive\", whose directory lies beside its tags",
            );
        }
        return;
    }
    if directory.ways == 0 || directory.ways > 1 << 16 {
        check.refuse("llc.directory.ways", directory.ways, "1 to 65536");
        return;
    }
    let entries = params.directory_entries();
    let set = u64::from(directory.ways);
    if entries == 0 || !entries.is_multiple_of(set) || entries > 1 << 26 {
        let allowed = format!("multiples of {set}, the ways of a set, up to 67108864");
        check.refuse("llc.directory.entries", entries, &allowed);
    }
}

fn check_accelerator(path: &str, params: &AcceleratorParams, problems: &mut Vec<Problem>) {
    let mut check = Checker {
        path: path.to_owned(),
        problems,
    };
    check.cycle(params.cycle);
    check.count("elements", params.elements, MOST_ELEMENTS);
    check.count("window", params.window, MOST_OUTSTANDING);
    check.at_most("atomic_cycles", params.atomic_cycles, MOST_CYCLES);
    check.at_most("buffer_cycles", params.buffer_cycles, MOST_CYCLES);
    let cache = &params.cache;
    check.array("cache", cache.size, cache.ways);
    check.count("cache.misses", cache.misses, MOST_OUTSTANDING);
    check.array("dmc", params.dmc.size, params.dmc.ways);
    check.power_of_two("bias_page", params.bias_page, 64, 4096);
    for (field, found) in [
        ("cache.hit_cycles", cache.hit_cycles),
        ("cache.request_cycles", cache.request_cycles),
        ("cache.response_cycles", cache.response_cycles),
        ("dma.setup_cycles", params.dma.setup_cycles),
        ("dma.completion_cycles", params.dma.completion_cycles),
        ("dma.descriptor_cycles", params.dma.descriptor_cycles),
    ] {
        check.at_most(field, found, MOST_CYCLES);
    }
    check.count("dma.tags", params.dma.tags, 1024);
    check.power_of_two("dma.width", params.dma.width, 1, 4096);
    check.power_of_two("dma.read_request", params.dma.read_request, 64, 4096);
    check.power_of_two("dma.payload", params.dma.payload, 64, 512);
}

/// Refuses memory reached over CXL.mem and a prefetcher on PCIe devices: they have no CXL.mem and
/// no cache of host memory.
fn check_pcie(at: usize, group: &AcceleratorGroup, problems: &mut Vec<Problem>) {
    if group.device.kind != AcceleratorKind::Pcie {
        return;
    }
    if let Some(memory) = &group.memory {
        problems.push(Problem::new(
            format!("accelerators[{at}].memory"),
            format!(
                "found memory of {} on a device with kind = \"pcie\"; allowed: none (the host would \
                 reach it over CXL.mem; the device's own buffers need no parameter)",
                memory.capacity
            ),
        ));
    }
    if group.device.cache.prefetch.is_some() {
        problems.push(Problem::new(
            format!("accelerators[{at}].device.cache.prefetch"),
            "found a prefetcher on a device with kind = \"pcie\"; allowed: none (it has no cache of \
             host memory)",
        ));
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
    let mut problems = Vec::new();
    let mut before = vec![0; hosts.len()];
    for (kind, host) in kinds.zip(of) {
        let number = before[*host];
        before[*host] += 1;
        let group = hosts[*host].group;
        let path = format!("hosts[{group}].workload");
        if kind == AcceleratorKind::Pcie
            && let Some(error) = workloads[group].needs_cxl_cache(number)
        {
            let problem = Problem::of_param(&path, error);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// The host of each accelerator, indexed by the number of the accelerator.
pub(crate) fn hosts(
    scenario: &Scenario,
    graph: &FabricGraph,
    hosts: &[PlannedHost],
) -> Result<Vec<usize>, Vec<Problem>> {
    let mut problems = Vec::new();
    let names = &graph.endpoints;
    let memory: usize = scenario
        .devices
        .iter()
        .map(|group| group.count as usize)
        .sum();
    for endpoint in names.requesters.len() + memory..names.len() {
        let heads = graph
            .direct
            .iter()
            .filter(|(_, device)| *device == endpoint);
        if heads.count() > 1 {
            problems.push(Problem::new(
                "fabric.topology.links",
                format!(
                    "found accelerator `{}` linked to several hosts; allowed: one (only Type 3 devices \
                     have several heads)",
                    names.name(endpoint)
                ),
            ));
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
            let name = group.host.clone().unwrap_or_default();
            let hint = nearest(&name, names.requesters.iter().map(String::as_str))
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            problems.push(Problem::new(
                path,
                format!("found `{name}`, which is not a host; allowed: the name of a host{hint}"),
            ));
            continue;
        };
        if scenario.hosts[hosts[number].group].processor.is_none() {
            problems.push(Problem::new(
                path,
                format!(
                    "found `{}`, a host without a processor; allowed: a host with processor = {{}}, \
                     whose memory the accelerator works on",
                    hosts[number].name
                ),
            ));
        }
        of.extend((0..group.count).map(|_| number));
    }
    if problems.is_empty() {
        Ok(of)
    } else {
        Err(problems)
    }
}
