//! Checks the parameters of cores and of the hosts' own memory.

use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use cxlab_host::{CoreParams, RequesterParams};
use cxlab_scenario::Scenario;
use cxlab_workload::Workload;

use super::Problem;
use super::limits::{LONGEST_DELAY, check_time, whole_sets};

/// Most private cache levels of a core.
const MOST_LEVELS: usize = 4;
/// Most entries of a structure of a core that is simulated entry by entry.
const MOST_ENTRIES: u32 = 1 << 16;
/// Most memory of a host's own, in bytes.
const MOST_LOCAL: Bytes = Bytes(1 << 50);
/// Unit in which the operating system allocates memory, in bytes.
const PAGE: u64 = 4096;

/// Checks the cores of a scenario. `workloads` has the workload of every host group, in order, or
/// fewer entries if some could not be built.
pub(crate) fn check(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    problems: &mut Vec<Problem>,
) {
    let complete = workloads.len() == scenario.hosts.len();
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        match &group.core {
            Some(core) => {
                check_core(&format!("{path}.core"), core, problems);
                if group.issue != RequesterParams::default() {
                    problems.push(Problem::new(
                        format!("{path}.issue"),
                        "found `issue` and `core`; allowed: one of them, which says how the host \
                         issues",
                    ));
                }
            }
            None if complete && workloads[at].needs_core() && group.processor.is_none() => problems.push(Problem::new(
                format!("{path}.workload"),
                format!(
                    "found \"{}\" on a host without a core; allowed: with core = {{}}, which runs \
                     it as a program, or processor = {{}}",
                    group.workload.kind
                ),
            )),
            None => {}
        }
        let Some(local) = &group.local else { continue };
        let path = format!("{path}.local");
        if group.core.is_none() {
            problems.push(Problem::new(
                &path,
                "found memory of its own on a host without a core; allowed: with core = {}",
            ));
        }
        let capacity = local.capacity;
        if capacity.0 == 0 || !capacity.0.is_multiple_of(PAGE) || capacity > MOST_LOCAL {
            problems.push(Problem::new(
                format!("{path}.capacity"),
                format!("found {capacity}; allowed: multiples of 4 KiB up to 1024 TiB"),
            ));
        }
        let latency = local.latency;
        check_time(&format!("{path}.latency"), latency, LONGEST_DELAY, problems);
    }
}

fn check_core(path: &str, core: &CoreParams, problems: &mut Vec<Problem>) {
    let mut refuse = |field: &str, found: String, allowed: &str| {
        problems.push(Problem::new(
            format!("{path}.{field}"),
            format!("found {found}; allowed: {allowed}"),
        ));
    };
    if core.cycle == Picos::ZERO || core.cycle > LONGEST_DELAY {
        let allowed = format!("1 ps to {LONGEST_DELAY}");
        refuse("cycle", core.cycle.to_string(), &allowed);
    }
    for (field, found, most) in [
        ("width", core.width, 64),
        ("window", core.window, MOST_ENTRIES),
        ("misses", core.misses, MOST_ENTRIES),
        ("writebacks", core.writebacks, MOST_ENTRIES),
    ] {
        if found == 0 || found > most {
            refuse(field, found.to_string(), &format!("1 to {most}"));
        }
    }
    if core.prefetch > MOST_ENTRIES {
        let found = core.prefetch.to_string();
        refuse("prefetch", found, &format!("0 to {MOST_ENTRIES}"));
    }
    let levels = core.caches.len();
    if levels == 0 || levels > MOST_LEVELS {
        refuse("caches", format!("{levels} levels"), "1 to 4 levels");
    }
    for (level, cache) in core.caches.iter().enumerate() {
        let set = u64::from(cache.ways) * LINE_BYTES;
        if set == 0 || cache.size.0 == 0 || !cache.size.0.is_multiple_of(set) {
            let allowed = whole_sets(cache.size, cache.ways);
            refuse(
                &format!("caches[{level}].size"),
                cache.size.to_string(),
                &allowed,
            );
        }
        if cache.ways == 0 || cache.ways > MOST_ENTRIES {
            let field = format!("caches[{level}].ways");
            refuse(&field, cache.ways.to_string(), "1 to 65536");
        }
    }
    for (level, cache) in core.caches.iter().enumerate() {
        let field = format!("{path}.caches[{level}].access_time");
        check_time(&field, cache.access_time, LONGEST_DELAY, problems);
    }
    let field = format!("{path}.process_time");
    check_time(&field, core.process_time, LONGEST_DELAY, problems);
}
