//! Events: changes of capacity while the workloads run, checked against what each host has at the
//! time, and turned into what each device does.

use std::collections::BTreeSet;

use cxlab_device::{CapacityChange, CapacityEvent};
use cxlab_engine::units::Picos;
use cxlab_protocol::PortId;

use super::Problem;
use super::address::RegionDecoder;
use super::endpoints::{Named, unknown};
use super::limits::{LONGEST_WINDOW, check_time};
use super::regions::hosts_of;
use crate::scenario::{EventKind, EventParams, HostGroup, RegionGroup, Scenario, Sharing};

/// Whether what hosts have changes, or is not all there from the beginning.
pub(super) fn has_any(scenario: &Scenario) -> bool {
    let whole = |region: &RegionGroup| region.initially_added && region.sharing != Sharing::Moving;
    !scenario.events.is_empty() || !scenario.regions.iter().all(whole)
}

/// What hosts have of regions: pairs of region and host.
type Held = BTreeSet<(usize, usize)>;

/// The hosts of each region; a region with a name that is none has none.
fn hosts_of_regions(scenario: &Scenario, named: &Named) -> Vec<Vec<usize>> {
    let regions = scenario.regions.iter();
    regions
        .map(|region| hosts_of(scenario, named, region).unwrap_or_default())
        .collect()
}

/// What hosts have before the first event.
fn held_at_first(scenario: &Scenario, hosts: &[Vec<usize>]) -> Held {
    let mut held = Held::new();
    for (at, region) in scenario.regions.iter().enumerate() {
        let first = match (region.initially_added, region.sharing) {
            (false, _) => 0,
            (true, Sharing::Moving) => 1,
            (true, Sharing::Exclusive | Sharing::Shared) => hosts[at].len(),
        };
        held.extend(hosts[at].iter().take(first).map(|host| (at, *host)));
    }
    held
}

/// Checks all events, one mistake each.
pub(super) fn check(scenario: &Scenario, named: &Named, problems: &mut Vec<Problem>) {
    if !has_any(scenario) {
        return;
    }
    let hosts = hosts_of_regions(scenario, named);
    check_hosts(scenario, named, &hosts, problems);
    let mut held = held_at_first(scenario, &hosts);
    let mut before = Picos::ZERO;
    for (at, event) in scenario.events.iter().enumerate() {
        let path = format!("events[{at}]");
        check_time(&format!("{path}.at"), event.at, LONGEST_WINDOW, problems);
        if event.at < before {
            problems.push(Problem::new(
                format!("{path}.at"),
                format!(
                    "found {} behind an event at {before}; allowed: events in order of time",
                    event.at
                ),
            ));
        }
        before = before.max(event.at);
        match place(scenario, named, &hosts, &path, event) {
            Ok(place) => problems.extend(change(scenario, named, &mut held, &path, event, place)),
            Err(problem) => problems.push(problem),
        }
    }
}

/// The region and the host of an event.
fn place(
    scenario: &Scenario,
    named: &Named,
    hosts: &[Vec<usize>],
    path: &str,
    event: &EventParams,
) -> Result<(usize, usize), Problem> {
    let mut regions = scenario.regions.iter();
    let Some(region) = regions.position(|region| region.name == event.region) else {
        let known: Vec<String> = (scenario.regions.iter())
            .map(|region| region.name.clone())
            .collect();
        let path = format!("{path}.region");
        return Err(match known.is_empty() {
            true => Problem::new(
                path,
                format!(
                    "found `{}` in a scenario without regions; allowed: with [[regions]]",
                    event.region
                ),
            ),
            false => unknown(path, &event.region, "a region", &known),
        });
    };
    let all = &named.names.requesters;
    let of_region = &hosts[region];
    match of_region.iter().find(|host| all[**host] == event.host) {
        Some(host) => Ok((region, *host)),
        None => {
            let known: Vec<String> = of_region.iter().map(|host| all[*host].clone()).collect();
            let what = format!("a host of region `{}`", event.region);
            let path = format!("{path}.host");
            Err(unknown(path, &event.host, &what, &known))
        }
    }
}

/// Makes an event happen to what is held, or says why it cannot.
fn change(
    scenario: &Scenario,
    named: &Named,
    held: &mut Held,
    path: &str,
    event: &EventParams,
    place: (usize, usize),
) -> Option<Problem> {
    let (region, host) = (&event.region, &event.host);
    let wrong = |found: String, allowed: &str| {
        let message = format!("found {found} at {}; allowed: {allowed}", event.at);
        Some(Problem::new(format!("{path}.kind"), message))
    };
    match event.kind {
        EventKind::Release if !held.remove(&place) => wrong(
            format!("\"release\" of `{region}`, which `{host}` does not have"),
            "\"release\" of what a host has from the beginning or by an earlier event",
        ),
        EventKind::Add if held.contains(&place) => wrong(
            format!("\"add\" of `{region}`, which `{host}` has already"),
            "\"add\" after a \"release\", or of a region with initially_added = false",
        ),
        EventKind::Add => {
            let moving = scenario.regions[place.0].sharing == Sharing::Moving;
            let other = held.iter().find(|one| one.0 == place.0);
            if let (true, Some((_, other))) = (moving, other) {
                let other = &named.names.requesters[*other];
                return wrong(
                    format!("\"add\" of `{region}` to `{host}` while `{other}` has it"),
                    "\"add\" after its \"release\" (a moving region has one host at a time)",
                );
            }
            held.insert(place);
            None
        }
        EventKind::Release => None,
    }
}

/// Hosts whose memory changes are requesters without caches.
fn check_hosts(
    scenario: &Scenario,
    named: &Named,
    hosts: &[Vec<usize>],
    problems: &mut Vec<Problem>,
) {
    let mut known = BTreeSet::new();
    for (at, region) in scenario.regions.iter().enumerate() {
        let changes = !region.initially_added || region.sharing == Sharing::Moving;
        for host in &hosts[at] {
            let name = &named.names.requesters[*host];
            let is_here = |event: &EventParams| event.region == region.name && event.host == *name;
            let group = named.host_group[*host];
            if (changes || scenario.events.iter().any(is_here))
                && let Some(part) = keeps_lines(&scenario.hosts[group])
                && known.insert(group)
            {
                problems.push(Problem::new(
                    format!("hosts[{group}].{part}"),
                    format!(
                        "found `{part}` on `{name}`, whose memory of region `{}` comes or goes; \
                         allowed: requesters without caches, with `issue` alone",
                        region.name
                    ),
                ));
            }
        }
    }
}

/// The part of a host that may keep lines which are no longer its own.
fn keeps_lines(group: &HostGroup) -> Option<&'static str> {
    match group {
        HostGroup {
            processor: Some(_), ..
        } => Some("processor"),
        HostGroup { core: Some(_), .. } => Some("core"),
        HostGroup { issue, .. } if issue.cache.is_some() => Some("issue.cache"),
        _ => None,
    }
}

/// What each device does, in order of time.
pub(super) fn timelines(
    scenario: &Scenario,
    named: &Named,
    extents: &[RegionDecoder],
) -> Vec<Vec<CapacityChange>> {
    let mut timelines = vec![Vec::new(); named.names.devices.len()];
    if !has_any(scenario) {
        return timelines;
    }
    let hosts = hosts_of_regions(scenario, named);
    let held = held_at_first(scenario, &hosts);
    for one in extents {
        if !held.contains(&(one.region, one.host)) {
            timelines[one.device].push(one.at(Picos::ZERO, CapacityEvent::Release));
        }
    }
    for event in &scenario.events {
        let kind = match event.kind {
            EventKind::Add => CapacityEvent::Add,
            EventKind::Release => CapacityEvent::Release,
        };
        let is_here = |one: &&RegionDecoder| {
            scenario.regions[one.region].name == event.region
                && named.names.requesters[one.host] == event.host
        };
        for one in extents.iter().filter(is_here) {
            timelines[one.device].push(one.at(event.at, kind));
        }
    }
    timelines
}

impl RegionDecoder {
    fn at(&self, at: Picos, event: CapacityEvent) -> CapacityChange {
        CapacityChange {
            at,
            event,
            host: PortId(self.host as u16),
            decoder: self.decoder,
        }
    }
}
