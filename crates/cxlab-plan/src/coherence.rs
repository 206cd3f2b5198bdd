//! Checks systems with device-coherent (HDM-DB) memory.

use cxlab_device::WriteCompletion;
use cxlab_engine::units::Picos;
use cxlab_link::Transmission;
use cxlab_protocol::Channel;
use cxlab_protocol::coherence::dcoh::Peer;
use cxlab_scenario::{DeviceGroup, HostKind, Scenario};
use cxlab_workload::Workload;

use crate::endpoints::{PlannedDevice, PlannedHost};
use crate::links::PlannedLink;
use crate::problem::{Problem, Problems};

/// Longest lookup time of a snoop filter.
const LONGEST_LOOKUP: Picos = Picos(1_000_000_000);

/// Longest time that a snoop may be delayed to be joined with others of its block.
const LONGEST_JOIN: Picos = Picos(1_000_000);

/// Checks hosts, devices and links of a system with HDM-DB memory. Returns for each host whether
/// the host reaches such memory.
pub(crate) fn check(
    scenario: &Scenario,
    hosts: &[PlannedHost],
    devices: &[PlannedDevice],
    links: &[PlannedLink],
) -> Result<Vec<bool>, Vec<Problem>> {
    let mut problems = Problems::default();
    for (at, group) in scenario.devices.iter().enumerate() {
        if group.is_hdm_db() {
            check_device(&format!("devices[{at}]"), group, &mut problems);
        }
    }
    let narrow = links.iter().any(|link| {
        link.params.transmission == Transmission::Flit
            && !link.params.flit_format().carries(Channel::S2mBisnp)
    });
    if let Some(class) = scenario.back_invalidation().filter(|_| narrow) {
        problems.refuse(
            class,
            "\"hdm-db\" over links with 68 B flits, which carry no back-invalidation (CXL 3.1 section 4.2)",
            "256 B flits (generation 6 and 7) or packets",
        );
    }
    let is_hdm_db = |group: &usize| scenario.devices[*group].is_hdm_db();
    let class_of = |device: &PlannedDevice| device.memory().filter(is_hdm_db);
    let Some(group) = devices.iter().find_map(class_of) else {
        return problems.into_result(vec![false; hosts.len()]);
    };
    let most = Peer::MAX_COUNT;
    if hosts.len() > most {
        problems.refuse(
            format!("devices[{group}].coherence.class"),
            format_args!("\"hdm-db\" in a system of {} hosts", hosts.len()),
            format_args!("at most {most}, as many as a snoop filter can tell apart"),
        );
    }
    let mut told = vec![false; scenario.hosts.len()];
    let mut caching = Vec::with_capacity(hosts.len());
    for host in hosts {
        let mut targets = host.targets(hosts.len());
        let needs = targets.any(|device| class_of(&devices[device]).is_some());
        caching.push(needs);
        if !needs || told[host.group] {
            continue;
        }
        let (path, name) = (format!("hosts[{}]", host.group), &host.name);
        match &scenario.hosts[host.group].kind {
            HostKind::Requester(issue) if issue.cache.is_some() => continue,
            HostKind::Core(_) => problems.refuse(
                format!("{path}.core"),
                format_args!(
                    "a core, but \"{name}\" reaches memory of class hdm-db, which the caches of cores \
                     cannot hold"
                ),
                "issue = { cache = { size = ... } }",
            ),
            HostKind::Requester(_) | HostKind::Processor(_) => problems.refuse(
                format!("{path}.issue"),
                format_args!("no cache, but \"{name}\" reaches memory of class hdm-db"),
                "with cache = { size = ... }",
            ),
        }
        told[host.group] = true;
    }
    problems.into_result(caching)
}

/// Checks a device that keeps its memory coherent.
fn check_device(path: &str, group: &DeviceGroup, problems: &mut Problems) {
    let victim = group.coherence.victim.build();
    problems.built(&format!("{path}.coherence.victim"), victim);
    let mut fields = problems.below(path);
    if group.controller.write_completion != WriteCompletion::Accepted {
        fields.refuse(
            "controller.write_completion",
            "\"written\" of a device with class = \"hdm-db\"",
            "\"accepted\" (it orders writes, reads and snoops of a line when it accepts them), or class = \
             \"hdm-h\"",
        );
    }
    let filter = &group.coherence.filter;
    if let Err(error) = filter.geometry() {
        let path = format!("{path}.coherence.filter.lines");
        problems.push(Problem::new(path, error.to_string()));
    }
    let mut fields = problems.below(format!("{path}.coherence.filter"));
    if let Some(join) = filter.join {
        fields.time("join", join, LONGEST_JOIN);
        if filter.block < 2 {
            let found = "with `block = 1`, so that no snoop covers several lines";
            fields.refuse("join", found, "with `block` of 2 to 4");
        }
    }
    fields.time("lookup_time", filter.lookup_time, LONGEST_LOOKUP);
}

/// Checks the parameters that depend on whether a host's cache is coherent: victim policies other than
/// `lru` need a coherent cache; in-order issue and requests of several lines need one that is not.
pub(crate) fn check_policies(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    hosts: &[PlannedHost],
    caching: &[bool],
) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    for (at, group) in scenario.hosts.iter().enumerate() {
        let members = hosts.iter().zip(caching);
        let members = members.filter(|(host, _)| host.group == at);
        let coherent = members.clone().find(|(_, caching)| **caching);
        if workloads[at].request_lines() > 1
            && let Some((host, _)) = coherent
        {
            let path = format!("hosts[{at}].workload.request");
            let name = &host.name;
            let found = format_args!("more than 64 B, but the cache of \"{name}\" is coherent");
            problems.refuse(path, found, "32 B, 64 B");
        }
        let Some(issue) = group.requester() else {
            continue;
        };
        if issue.in_order
            && let Some((host, _)) = coherent
        {
            problems.refuse(
                format!("hosts[{at}].issue.in_order"),
                format_args!("true, but the cache of \"{}\" is coherent", host.name),
                "false, as its responses to snoops must pass its requests",
            );
        }
        let Some(policy) = issue.cache.as_ref().and_then(|cache| cache.policy.as_ref()) else {
            continue;
        };
        let path = format!("hosts[{at}].issue.cache.policy");
        if problems.built(&path, policy.build()).is_none() {
            continue;
        }
        if let Some((host, _)) = members.clone().find(|(_, caching)| !**caching)
            && policy.kind != "lru"
        {
            let (kind, name) = (&policy.kind, &host.name);
            problems.refuse(
                format!("{path}.kind"),
                format_args!("\"{kind}\", but \"{name}\" reaches no memory of class hdm-db"),
                "\"lru\", as its cache is not coherent",
            );
        }
    }
    problems.into_result(())
}
