//! Checks the parameters of cores, the memory of hosts with a core, and keys that exclude one another.

use cxlab_engine::units::Picos;
use cxlab_host::CoreParams;
use cxlab_scenario::{HostGroup, HostKind, Scenario};
use cxlab_workload::Workload;

use crate::problem::{Fields, LONGEST_DELAY, Problems};

/// Most private cache levels of a core.
const MOST_LEVELS: usize = 4;
/// Most entries of a structure of a core that is simulated entry by entry.
const MOST_ENTRIES: u32 = 1 << 16;
/// Most memory of a host's own, in bytes.
pub(crate) const MOST_OWN: u64 = 1 << 50;
/// Unit in which the operating system allocates memory, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// Checks the hosts with a core, and that no key that `core` excludes is beside it. `workloads` has the workload of
/// every host group, in order, or none if some could not be built.
pub(crate) fn check(scenario: &Scenario, workloads: &[Box<dyn Workload>], problems: &mut Problems) {
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        for kind in group.kinds() {
            if let HostKind::Core(core) = kind {
                check_core(problems.below(format!("{path}.core")), core);
            }
        }
        if group.requester().is_some() && workloads.get(at).is_some_and(|one| one.needs_core()) {
            problems.refuse(
                format!("{path}.workload"),
                format_args!("\"{}\" on a host without a core", group.workload.kind),
                "with core = {}, which runs it as a program, or processor = {}",
            );
        }
        refuse_excluded(&path, group, "core", problems);
        let Some(local) = &group.local else { continue };
        let path = format!("{path}.local");
        if !group.kinds().any(|kind| matches!(kind, HostKind::Core(_))) {
            let found = "memory of its own on a host without a core";
            problems.refuse(&path, found, "with core = {}");
        }
        let mut fields = problems.below(path);
        fields.multiple("capacity", local.capacity, PAGE, MOST_OWN);
        fields.delay("latency", local.latency);
    }
}

/// Refuses the keys of a host that `other` excludes.
pub(crate) fn refuse_excluded(path: &str, group: &HostGroup, other: &str, problems: &mut Problems) {
    for [found, _] in group.excluded().iter().filter(|pair| pair[1] == other) {
        problems.refuse(
            format!("{path}.{found}"),
            format_args!("`{found}` and `{other}`"),
            "one of them, which says how the host issues",
        );
    }
}

fn check_core(mut fields: Fields<'_>, core: &CoreParams) {
    fields.between("cycle", core.cycle, [Picos(1), LONGEST_DELAY]);
    fields.count("width", core.width, 64);
    fields.count("window", core.window, MOST_ENTRIES);
    fields.count("misses", core.misses, MOST_ENTRIES);
    fields.count("writebacks", core.writebacks, MOST_ENTRIES);
    fields.at_most("prefetch", core.prefetch, MOST_ENTRIES);
    let levels = core.caches.len();
    if levels == 0 || levels > MOST_LEVELS {
        fields.refuse("caches", format_args!("{levels} levels"), "1 to 4 levels");
    }
    for (level, cache) in core.caches.iter().enumerate() {
        let field = |name: &str| format!("caches[{level}].{name}");
        fields.whole_sets(&field("size"), cache.size, cache.ways);
        fields.count(&field("ways"), cache.ways, MOST_ENTRIES);
    }
    for (level, cache) in core.caches.iter().enumerate() {
        fields.delay(&format!("caches[{level}].access_time"), cache.access_time);
    }
    fields.delay("process_time", core.process_time);
}
