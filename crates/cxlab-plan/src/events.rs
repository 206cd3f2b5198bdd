//! Checks events: they are in order of time, and apply only to hosts that support them.

use std::collections::BTreeSet;

use cxlab_engine::units::Picos;
use cxlab_scenario::{HostGroup, HostKind, Scenario, Sharing};

use crate::endpoints::NamedGroups;
use crate::limits::LONGEST_WINDOW;
use crate::problem::Problems;
use crate::regions::hosts_of;

/// Checks all events, apart from their effect on the memory of hosts.
pub(crate) fn check(scenario: &Scenario, named: &NamedGroups, problems: &mut Problems) {
    check_times(scenario, problems);
    check_hosts(scenario, named, problems);
}

/// Checks that events are in order of time, and that no time is too long.
fn check_times(scenario: &Scenario, problems: &mut Problems) {
    if let Some(params) = &scenario.fabric_manager {
        let mut fields = problems.below("fabric_manager");
        for (field, time) in [
            ("command_time", params.command_time),
            ("host_time", params.host_time),
            ("scrub_time", params.scrub_time),
            ("reset_time", params.reset_time),
        ] {
            fields.time(field, time, LONGEST_WINDOW);
        }
        if params.reset_time == Picos::ZERO {
            let allowed = format_args!("1 ps to {LONGEST_WINDOW}");
            fields.refuse("reset_time", Picos::ZERO, allowed);
        }
    }
    let mut before = Picos::ZERO;
    for (number, event) in scenario.events.iter().enumerate() {
        let at = event.at();
        let mut fields = problems.below(format!("events[{number}]"));
        fields.time("at", at, LONGEST_WINDOW);
        if at < before {
            let found = format_args!("{at} behind an event at {before}");
            fields.refuse("at", found, "events in order of time");
        }
        before = before.max(at);
    }
}

/// Checks hosts: those whose memory changes are requesters without caches, or processors that do
/// not need this memory; those that join, leave, are bound or unbound, or have a pooled region are requesters.
fn check_hosts(scenario: &Scenario, named: &NamedGroups, problems: &mut Problems) {
    let mut known = BTreeSet::new();
    let mut check = |host: usize, part: Option<&str>, why: String, allowed: &str| {
        let group = named.host_group[host];
        if let Some(part) = part
            && known.insert(group)
        {
            problems.refuse(
                format!("hosts[{group}].{part}"),
                format_args!("`{part}` on `{}`, {why}", named.names.requesters[host]),
                format_args!("requesters without caches, with `issue` alone{allowed}"),
            );
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
    if group.processor().is_none() {
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
    match &group.kind {
        HostKind::Processor(_) => None,
        HostKind::Core(_) => Some("core"),
        HostKind::Requester(issue) => issue.cache.as_ref().map(|_| "issue.cache"),
    }
}
