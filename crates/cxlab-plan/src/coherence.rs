//! Checks systems with device-coherent (HDM-DB) memory.

use cxlab_device::WriteCompletion;
use cxlab_engine::units::Picos;
use cxlab_link::Transmission;
use cxlab_protocol::Channel;
use cxlab_protocol::coherence::dcoh::Peer;
use cxlab_scenario::Scenario;
use cxlab_workload::Workload;

use super::{DeviceKind, PlannedDevice, PlannedHost, PlannedLink, Problem};

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
    let mut problems = Vec::new();
    for (at, group) in scenario.devices.iter().enumerate() {
        let path = format!("devices[{at}].coherence");
        if group.is_hdm_db() {
            if let Err(error) = group.coherence.victim.build() {
                problems.push(Problem::of_param(&format!("{path}.victim"), error));
            }
            if group.controller.write_completion != WriteCompletion::Accepted {
                problems.push(Problem::new(
                    format!("devices[{at}].controller.write_completion"),
                    "found \"written\" of a device with class = \"hdm-db\"; allowed: \"accepted\" (it orders writes, reads \
                     and snoops of a line when it accepts them), or class = \"hdm-h\""
                        .to_owned(),
                ));
            }
            let filter = &group.coherence.filter;
            if let Err(error) = filter.geometry() {
                problems.push(Problem::new(
                    format!("{path}.filter.lines"),
                    error.to_string(),
                ));
            }
            if let Some(join) = filter.join {
                if join > LONGEST_JOIN {
                    problems.push(Problem::new(
                        format!("{path}.filter.join"),
                        format!("found {join}; allowed: at most {LONGEST_JOIN}"),
                    ));
                }
                if filter.block < 2 {
                    problems.push(Problem::new(
                        format!("{path}.filter.join"),
                        "found with `block = 1`, so that no snoop covers several lines; allowed: with `block` of 2 to 4"
                            .to_owned(),
                    ));
                }
            }
            if filter.lookup_time > LONGEST_LOOKUP {
                problems.push(Problem::new(
                    format!("{path}.filter.lookup_time"),
                    format!(
                        "found {}; allowed: at most {LONGEST_LOOKUP}",
                        filter.lookup_time
                    ),
                ));
            }
        }
    }
    let narrow = links.iter().any(|link| {
        link.params.transmission == Transmission::Flit
            && !link.params.flit_format().carries(Channel::S2mBisnp)
    });
    if let Some(class) = scenario.back_invalidation().filter(|_| narrow) {
        problems.push(Problem::new(
            class,
            "found \"hdm-db\" over links with 68 B flits, which carry no back-invalidation (CXL 3.1 \
             section 4.2); allowed: 256 B flits (generation 6 and 7) or packets",
        ));
    }
    let coherent = |device: usize| match devices[device].group {
        DeviceKind::Memory(group) => scenario.devices[group].is_hdm_db(),
        DeviceKind::Accelerator(_) => false,
    };
    let Some(first) = (0..devices.len()).find(|device| coherent(*device)) else {
        return if problems.is_empty() {
            Ok(vec![false; hosts.len()])
        } else {
            Err(problems)
        };
    };
    let DeviceKind::Memory(group) = devices[first].group else {
        return Ok(vec![false; hosts.len()]);
    };
    let class = format!("devices[{group}].coherence.class");
    if hosts.len() > Peer::MAX_COUNT {
        problems.push(Problem::new(
            &class,
            format!(
                "found \"hdm-db\" in a system of {} hosts; allowed: at most {}, as many as a snoop \
                 filter can tell apart",
                hosts.len(),
                Peer::MAX_COUNT
            ),
        ));
    }
    let mut told = vec![false; scenario.hosts.len()];
    let mut caching = Vec::with_capacity(hosts.len());
    for host in hosts {
        let targets = host.map.windows().iter().flat_map(|window| &window.targets);
        let mut devices = targets.map(|target| usize::from(target.0) - hosts.len());
        let needs = devices.any(coherent);
        caching.push(needs);
        if needs && scenario.hosts[host.group].core.is_some() && !told[host.group] {
            told[host.group] = true;
            problems.push(Problem::new(
                format!("hosts[{}].core", host.group),
                format!(
                    "found a core, but \"{}\" reaches memory of class hdm-db, which the caches of \
                     cores cannot hold; allowed: issue = {{ cache = {{ size = ... }} }}",
                    host.name
                ),
            ));
        }
        if needs && scenario.hosts[host.group].issue.cache.is_none() && !told[host.group] {
            told[host.group] = true;
            problems.push(Problem::new(
                format!("hosts[{}].issue", host.group),
                format!(
                    "found no cache, but \"{}\" reaches memory of class hdm-db; allowed: with \
                     cache = {{ size = ... }}",
                    host.name
                ),
            ));
        }
    }
    if problems.is_empty() {
        Ok(caching)
    } else {
        Err(problems)
    }
}

/// Checks the parameters that depend on whether a host's cache is coherent: victim policies other than
/// `lru` need a coherent cache; in-order issue and requests of several lines need one that is not.
pub(crate) fn check_policies(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    hosts: &[PlannedHost],
    caching: &[bool],
) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    for (at, group) in scenario.hosts.iter().enumerate() {
        let members = hosts
            .iter()
            .zip(caching)
            .filter(|(host, _)| host.group == at);
        let coherent = members.clone().find(|(_, caching)| **caching);
        if workloads[at].request_lines() > 1
            && let Some((host, _)) = coherent
        {
            problems.push(Problem::new(
                format!("hosts[{at}].workload.request"),
                format!(
                    "found more than 64 B, but the cache of \"{}\" is coherent; allowed: 32 B, 64 B",
                    host.name
                ),
            ));
        }
        if group.issue.in_order
            && let Some((host, _)) = coherent
        {
            problems.push(Problem::new(
                format!("hosts[{at}].issue.in_order"),
                format!(
                    "found true, but the cache of \"{}\" is coherent; allowed: false, as its \
                     responses to snoops must pass its requests",
                    host.name
                ),
            ));
        }
        let cache = group.issue.cache.as_ref();
        let Some(policy) = cache.and_then(|cache| cache.policy.as_ref()) else {
            continue;
        };
        let path = format!("hosts[{at}].issue.cache.policy");
        if let Err(error) = policy.build() {
            problems.push(Problem::of_param(&path, error));
            continue;
        }
        if let Some((host, _)) = members.clone().find(|(_, caching)| !**caching)
            && policy.kind != "lru"
        {
            problems.push(Problem::new(
                format!("{path}.kind"),
                format!(
                    "found \"{}\", but \"{}\" reaches no memory of class hdm-db; allowed: \"lru\", \
                     as its cache is not coherent",
                    policy.kind, host.name
                ),
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}
