//! Checks the parameters of processors and of their NUMA nodes.

use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use cxlab_host::{DirectoryParams, Inclusion, ProcessorParams};
use cxlab_scenario::{HostGroup, HostKind, Scenario};
use cxlab_workload::Workload;

use crate::cores::{MOST_OWN, PAGE, refuse_excluded};
use crate::problem::{Fields, Problems, whole_sets};

/// Most cores of a processor: the directory has a bit for each.
const MOST_CORES: u32 = 64;
/// Most operations outstanding, and most cache misses outstanding.
pub(crate) const MOST_OUTSTANDING: u32 = 4096;
pub(crate) const LONGEST_CYCLE: Picos = Picos::from_nanos(1000);
const MOST_WAYS: u32 = 1 << 16;

/// Checks the processors of a scenario. `workloads` has the workload of every host group, in order,
/// or none if some could not be built.
pub(crate) fn check(scenario: &Scenario, workloads: &[Box<dyn Workload>], problems: &mut Problems) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        if let HostKind::Processor(processor) = &group.kind {
            check_processor(problems.below(format!("{path}.processor")), processor);
            refuse_excluded(&path, group, "processor", problems);
            check_nodes(&path, group, problems);
        } else if workloads.get(at).is_some_and(|one| one.needs_threads()) {
            problems.refuse(
                format!("{path}.workload.kind"),
                format_args!("\"{}\" on a host without a processor", group.workload.kind),
                "with processor = {}, which runs its threads",
            );
        } else if !group.nodes.is_empty() {
            let found = "NUMA nodes on a host without a processor";
            problems.refuse(format!("{path}.nodes"), found, "with processor = {}");
        }
    }
}

fn check_nodes(path: &str, group: &HostGroup, problems: &mut Problems) {
    if group.nodes.is_empty() {
        let allowed = "at least one NUMA node with a processor, such as [{ capacity = \"1 GiB\" }]";
        problems.refuse(format!("{path}.nodes"), "none", allowed);
    }
    for (node, params) in group.nodes.iter().enumerate() {
        let mut fields = problems.below(format!("{path}.nodes[{node}]"));
        fields.multiple("capacity", params.capacity, PAGE, MOST_OWN);
        fields.delay("latency", params.latency);
    }
    let all = group.own_memory();
    if all.0 > MOST_OWN {
        let allowed = format_args!("up to {}", Bytes(MOST_OWN));
        let found = format_args!("{all} in all");
        problems.refuse(format!("{path}.nodes"), found, allowed);
    }
}

fn check_processor(mut fields: Fields<'_>, params: &ProcessorParams) {
    fields.count("cores", params.cores, MOST_CORES);
    fields.count("window", params.window, MOST_OUTSTANDING);
    fields.count("misses", params.misses, MOST_OUTSTANDING);
    fields.between("cycle", params.cycle, [Picos(1), LONGEST_CYCLE]);
    for (field, level) in [("l1", &params.l1), ("l2", &params.l2)] {
        check_array(&mut fields, field, level.size, level.ways);
        fields.delay(&format!("{field}.access_time"), level.access_time);
    }
    check_array(&mut fields, "llc", params.llc.size, params.llc.ways);
    if let Some(misses) = params.llc.misses {
        fields.count("llc.misses", misses, MOST_OUTSTANDING);
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
        fields.delay(field, time);
    }
    fields.power_of_two("payload", params.payload, 64, 512);
    if params.l2.size < params.l1.size {
        let least = params.l1.size;
        let allowed = format_args!("at least {least}, as it includes the first");
        fields.refuse("l2.size", params.l2.size, allowed);
    }
    check_directory(&mut fields, params);
    let private = Bytes(params.l2.size.0 * u64::from(params.cores));
    if params.llc.inclusion == Inclusion::Inclusive && params.llc.size < private {
        let allowed = format_args!(
            "at least {private}, as it includes the private caches of {} cores, or any size with \
             inclusion = \"non-inclusive\"",
            params.cores
        );
        fields.refuse("llc.size", params.llc.size, allowed);
    }
}

/// Checks size and ways of a cache of up to 4 GiB.
pub(crate) fn check_array(fields: &mut Fields<'_>, field: &str, size: Bytes, ways: u32) {
    if ways == 0 || ways > MOST_WAYS {
        fields.count(&format!("{field}.ways"), ways, MOST_WAYS);
        return;
    }
    let set = u64::from(ways) * LINE_BYTES;
    if size.0 == 0 || !size.0.is_multiple_of(set) || size.0 > 1 << 32 {
        let allowed = format_args!("{}, up to 4 GiB", whole_sets(size, ways));
        fields.refuse(&format!("{field}.size"), size, allowed);
    }
}

fn check_directory(fields: &mut Fields<'_>, params: &ProcessorParams) {
    let directory = &params.llc.directory;
    if params.llc.inclusion == Inclusion::Inclusive {
        if *directory != DirectoryParams::default() {
            fields.refuse(
                "llc.directory",
                "a directory of its own size",
                "none with inclusion = \"inclusive\", whose directory lies beside its tags",
            );
        }
        return;
    }
    if directory.ways == 0 || directory.ways > MOST_WAYS {
        fields.count("llc.directory.ways", directory.ways, MOST_WAYS);
        return;
    }
    let entries = params.directory_entries();
    let set = u64::from(directory.ways);
    if entries == 0 || !entries.is_multiple_of(set) || entries > 1 << 26 {
        let allowed = format_args!("multiples of {set}, the ways of a set, up to 67108864");
        fields.refuse("llc.directory.entries", entries, allowed);
    }
}
