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
use crate::scenario::{CapacityKind, EventParams, HostGroup, RegionGroup, Scenario, Sharing};

/// Whether what hosts have changes, or is not all there from the beginning.
pub(super) fn changes_capacity(scenario: &Scenario) -> bool {
    let whole = |region: &RegionGroup| region.initially_added && region.sharing != Sharing::Moving;
    let changes = |event: &EventParams| event.capacity().is_some();
    scenario.events.iter().any(changes) || !scenario.regions.iter().all(whole)
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
    check_times(scenario, problems);
    if !changes_capacity(scenario) {
        return;
    }
    let hosts = hosts_of_regions(scenario, named);
    check_hosts(scenario, named, &hosts, problems);
    let mut held = held_at_first(scenario, &hosts);
    for (at, event) in scenario.events.iter().enumerate() {
        let Some((kind, region, host)) = event.capacity() else {
            continue;
        };
        let change = Change {
            path: format!("events[{at}]"),
            at: event.at(),
            kind,
            region,
            host,
        };
        match change.place(scenario, named, &hosts) {
            Ok(place) => problems.extend(change.happen(scenario, named, &mut held, place)),
            Err(problem) => problems.push(problem),
        }
    }
}

/// Events are in order of time.
fn check_times(scenario: &Scenario, problems: &mut Vec<Problem>) {
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

/// A change of capacity, as it is written.
struct Change<'a> {
    path: String,
    at: Picos,
    kind: CapacityKind,
    region: &'a str,
    host: &'a str,
}

impl Change<'_> {
    /// The region and the host.
    fn place(
        &self,
        scenario: &Scenario,
        named: &Named,
        hosts: &[Vec<usize>],
    ) -> Result<(usize, usize), Problem> {
        let (path, name) = (&self.path, self.region);
        let mut regions = scenario.regions.iter();
        let Some(region) = regions.position(|region| region.name == name) else {
            let known: Vec<String> = (scenario.regions.iter())
                .map(|region| region.name.clone())
                .collect();
            let path = format!("{path}.region");
            return Err(match known.is_empty() {
                true => Problem::new(
                    path,
                    format!(
                        "found `{name}` in a scenario without regions; allowed: with [[regions]]"
                    ),
                ),
                false => unknown(path, name, "a region", &known),
            });
        };
        let all = &named.names.requesters;
        let of_region = &hosts[region];
        match of_region.iter().find(|host| all[**host] == self.host) {
            Some(host) => Ok((region, *host)),
            None => {
                let known: Vec<String> = of_region.iter().map(|host| all[*host].clone()).collect();
                let what = format!("a host of region `{name}`");
                let path = format!("{path}.host");
                Err(unknown(path, self.host, &what, &known))
            }
        }
    }

    /// Makes it happen to what is held, or says why it cannot.
    fn happen(
        &self,
        scenario: &Scenario,
        named: &Named,
        held: &mut Held,
        place: (usize, usize),
    ) -> Option<Problem> {
        let (region, host) = (self.region, self.host);
        let wrong = |found: String, allowed: &str| {
            let message = format!("found {found} at {}; allowed: {allowed}", self.at);
            Some(Problem::new(format!("{}.kind", self.path), message))
        };
        match self.kind {
            CapacityKind::Release if !held.remove(&place) => wrong(
                format!("\"release\" of `{region}`, which `{host}` does not have"),
                "\"release\" of what a host has from the beginning or by an earlier event",
            ),
            CapacityKind::Add if held.contains(&place) => wrong(
                format!("\"add\" of `{region}`, which `{host}` has already"),
                "\"add\" after a \"release\", or of a region with initially_added = false",
            ),
            CapacityKind::Add => {
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
            CapacityKind::Release => None,
        }
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
            let here = (region.name.as_str(), name.as_str());
            let is_here = |event: &EventParams| {
                event
                    .capacity()
                    .is_some_and(|(_, region, host)| (region, host) == here)
            };
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
pub(super) fn keeps_lines(group: &HostGroup) -> Option<&'static str> {
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
    if !changes_capacity(scenario) {
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
        let Some((kind, region, host)) = event.capacity() else {
            continue;
        };
        let kind = match kind {
            CapacityKind::Add => CapacityEvent::Add,
            CapacityKind::Release => CapacityEvent::Release,
        };
        let is_here = |one: &&RegionDecoder| {
            scenario.regions[one.region].name == region && named.names.requesters[one.host] == host
        };
        for one in extents.iter().filter(is_here) {
            timelines[one.device].push(one.at(event.at(), kind));
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
