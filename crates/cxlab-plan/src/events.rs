//! Checks events: they are in order of time, and apply only to hosts that support them.

use std::collections::BTreeSet;

use cxlab_engine::units::Picos;
use cxlab_scenario::{HostGroup, Scenario, Sharing};

use super::Problem;
use super::endpoints::Named;
use super::limits::{LONGEST_WINDOW, check_time};
use super::regions::hosts_of;

/// Checks all events, apart from their effect on the memory of hosts.
pub(crate) fn check(scenario: &Scenario, named: &Named, problems: &mut Vec<Problem>) {
    check_times(scenario, problems);
    check_hosts(scenario, named, problems);
}

/// Checks that events are in order of time, and that no time is too long.
fn check_times(scenario: &Scenario, problems: &mut Vec<Problem>) {
    if let Some(params) = &scenario.fabric_manager {
        let times = [
            ("command_time", params.command_time),
            ("host_time", params.host_time),
            ("scrub_time", params.scrub_time),
        ];
        for (field, time) in times {
            let path = format!("fabric_manager.{field}");
            check_time(&path, time, LONGEST_WINDOW, problems);
        }
        let reset = params.reset_time;
        check_time("fabric_manager.reset_time", reset, LONGEST_WINDOW, problems);
        if reset == Picos::ZERO {
            problems.push(Problem::new(
                "fabric_manager.reset_time",
                format!("found {reset}; allowed: 1 ps to {LONGEST_WINDOW}"),
            ));
        }
    }
    let mut before = Picos::ZERO;
    for (number, event) in scenario.events.iter().enumerate() {
        let (path, at) = (format!("events[{number}].at"), event.at());
        check_time(&path, at, LONGEST_WINDOW, problems);
        if at < before {
            problems.push(Problem::new(
                path,
                format!("found {at} behind an event at {before}; allowed: events in order of time"),
            ));
        }
        before = before.max(at);
    }
}

/// Hosts whose memory changes are requesters without caches, or processors that need none of it; those
/// that come and go themselves, or ask for memory, are requesters.
fn check_hosts(scenario: &Scenario, named: &Named, problems: &mut Vec<Problem>) {
    let mut known = BTreeSet::new();
    let mut check = |host: usize, part: Option<&str>, why: String, allowed: &str| {
        let group = named.host_group[host];
        if let Some(part) = part
            && known.insert(group)
        {
            problems.push(Problem::new(
                format!("hosts[{group}].{part}"),
                format!(
                    "found `{part}` on `{}`, {why}; allowed: requesters without caches, with `issue` \
                     alone{allowed}",
                    named.names.requesters[host]
                ),
            ));
        }
    };
    let of = |host: usize| &scenario.hosts[named.host_group[host]];
    for region in &scenario.regions {
        let pooled = region.sharing == Sharing::Pooled;
        let changes = !region.initially_added || pooled || region.sharing == Sharing::Moving;
        for host in hosts_of(scenario, named, region).unwrap_or_default() {
            let here = (region.name.as_str(), named.names.requesters[host].as_str());
            let mut events = scenario.events.iter();
            let mut is_here = || {
                events.any(|event| {
                    let of = event.capacity();
                    of.is_some_and(|(_, region, host)| (region, host) == here)
                })
            };
            if !changes && !is_here() {
                continue;
            }
            let (part, allowed) = match pooled {
                true => (keeps_lines(of(host)), ""),
                false => (
                    needs_its_memory(scenario, of(host)),
                    ", and processors that run patterns, traces or programs, without `os` and \
                     accelerators",
                ),
            };
            let why = format!("whose memory of region `{}` comes or goes", region.name);
            check(host, part, why, allowed);
        }
    }
    let manager = scenario.fabric_manager.iter();
    let unbound = manager.flat_map(|params| &params.unbound);
    let unbound = unbound.map(|binding| binding.host.as_str());
    let bound = scenario.events.iter().filter_map(|one| one.whole_host());
    for name in unbound.chain(bound) {
        let mut names = named.names.requesters.iter();
        if let Some(host) = names.position(|one| one == name) {
            let why = "which joins, leaves, is bound or unbound".to_owned();
            check(host, keeps_lines(of(host)), why, "");
        }
    }
}

/// The part of a host that cannot do without memory that goes.
pub(crate) fn needs_its_memory(scenario: &Scenario, group: &HostGroup) -> Option<&'static str> {
    if group.processor.is_none() {
        return keeps_lines(group);
    }
    if !scenario.accelerators.is_empty() {
        return Some("processor");
    }
    if group.os.is_some() {
        return Some("os");
    }
    // What is not in the catalog, as kernels from outside, may compute on anything.
    let workload = group.workload.build();
    let needs_none = workload.is_ok_and(|workload| !workload.needs_threads());
    (!needs_none).then_some("workload")
}

/// The part of a host that may keep lines which are no longer its own, and has no machine checks.
pub(crate) fn keeps_lines(group: &HostGroup) -> Option<&'static str> {
    match group {
        HostGroup {
            processor: Some(_), ..
        } => None,
        HostGroup { core: Some(_), .. } => Some("core"),
        HostGroup { issue, .. } if issue.cache.is_some() => Some("issue.cache"),
        _ => None,
    }
}
