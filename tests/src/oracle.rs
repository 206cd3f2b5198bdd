//! What hosts of a pool have and see: an account of the timeline that is independent of the
//! simulator's, and what loads may return.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use cxlab_engine::units::{Hpa, SimTime};
use cxlab_engine::{Monitor, Stop};
use cxlab_host::{Failure, RequestRow};
use cxlab_system::plan::Plan;
use cxlab_system::scenario::{CapacityKind, Sharing};
use cxlab_system::system::{Notes, System};

use crate::swarm::Draw;

/// A row for each request of a run that keeps values: what was stored and loaded.
pub fn values(plan: &Plan, threads: usize) -> Vec<RequestRow> {
    let notes = Notes {
        rows: true,
        values: true,
        states: false,
    };
    let mut system = System::build(plan, plan.scenario.seed, notes).unwrap();
    let simulation = &mut system.simulation;
    let outcome = simulation.run(threads, SimTime::NEVER, &Monitor::default());
    assert_eq!(outcome.stop, Stop::Exhausted);
    let mut rows = Vec::new();
    simulation.for_each_mut(|node| {
        if let Some(host) = node.host_mut() {
            rows.append(&mut host.take_rows());
        }
    });
    rows
}

/// What hosts of a random pool have, while its text is drawn.
#[derive(Default)]
pub struct Holdings {
    /// By region: which hosts have it, and whether one at most may.
    regions: Vec<(Vec<bool>, bool)>,
}

impl Holdings {
    /// One more region of all hosts.
    pub fn region(
        &mut self,
        draw: &mut Draw,
        hosts: usize,
        sharing: &str,
        added: bool,
        mib: usize,
    ) {
        let name = self.regions.len();
        draw.line(format!(
            "[[regions]]\nname = \"r{name}\"\nsharing = \"{sharing}\"\ncapacity = \"{mib} MiB\"\n\
             initially_added = {added}"
        ));
        let moving = sharing == "moving";
        let first = |host| added && (!moving || host == 0);
        self.regions.push(((0..hosts).map(first).collect(), moving));
    }

    /// At a time, a host that has its memory of a region loses it, or one that has not gets it, if it may.
    pub fn event(&mut self, draw: &mut Draw, hosts: usize, at_ps: u64) {
        let (region, host) = (draw.below(self.regions.len()), draw.below(hosts));
        let (held, moving) = &mut self.regions[region];
        let kind = match held[host] {
            true => "release",
            false if *moving && held.contains(&true) => return,
            false => "add",
        };
        held[host] = !held[host];
        draw.line(format!(
            "[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\nregion = \"r{region}\"\nhost = \"h{host}\""
        ));
    }
}

/// The spans of time in which a host has its memory of a region: from, and until.
pub fn spans(plan: &Plan, region: usize, host: usize) -> Vec<(u64, u64)> {
    let params = &plan.scenario.regions[region];
    let first = params.initially_added && (params.sharing != Sharing::Moving || host == 0);
    let mut spans = Vec::new();
    let mut since = first.then_some(0);
    for event in &plan.scenario.events {
        let (name, of) = (params.name.as_str(), plan.hosts[host].name.as_str());
        let at = event.at().0;
        match event.capacity() {
            Some((CapacityKind::Add, region, host)) if (region, host) == (name, of) => {
                since = Some(at);
            }
            Some((CapacityKind::Release, region, host)) if (region, host) == (name, of) => {
                spans.push((since.take().unwrap(), at));
            }
            _ => {}
        }
    }
    spans.extend(since.map(|since| (since, u64::MAX)));
    spans
}

/// The region that an address of a host's is in: its regions follow one another in all.
pub fn region_of(plan: &Plan, hpa: u64) -> usize {
    let mut end = 0;
    let regions = plan.scenario.regions.iter();
    let mut ends = regions.map(|region| {
        end += region.capacity.0;
        end
    });
    ends.position(|end| hpa < end).unwrap()
}

/// When the devices scrub a host's memory of a region: whenever the last one that has it loses it.
fn scrubs(plan: &Plan, region: usize, host: usize) -> Vec<u64> {
    let params = &plan.scenario.regions[region];
    let hosts = 0..plan.hosts.len();
    let first = |one: usize| params.sharing != Sharing::Moving || one == 0;
    let mut held: Vec<bool> = hosts
        .map(|one| params.initially_added && first(one))
        .collect();
    let mut scrubs = Vec::new();
    for event in &plan.scenario.events {
        let Some((kind, name, of)) = event.capacity() else {
            continue;
        };
        if name != params.name {
            continue;
        }
        let mut names = plan.hosts.iter().map(|host| &host.name);
        let one = names.position(|name| name == of).unwrap();
        held[one] = kind == CapacityKind::Add;
        let lost = match params.sharing {
            Sharing::Exclusive => one == host,
            Sharing::Shared | Sharing::Moving => !held.contains(&true),
        };
        if kind == CapacityKind::Release && lost {
            scrubs.push(event.at().0);
        }
    }
    scrubs
}

/// Whether a store may take effect long after its host has given it up, or never.
fn is_open(store: &RequestRow) -> bool {
    store.failure == Some(Failure::TimedOut)
}

/// Loads of a line return what was stored there last, and nothing from before a scrub. A store
/// that timed out may have been made at any time, or not.
fn check_line(stores: &[&RequestRow], loads: &[&RequestRow], scrubs: &[u64]) -> usize {
    let scrubbed = |from: u64, to: u64| scrubs.iter().any(|at| from <= *at && *at <= to);
    let mut own = 0;
    for load in loads {
        let (from, to) = (load.issued_ps, load.completed_ps);
        let mut certain = stores.iter().filter(|store| !is_open(store));
        if load.value == 0 {
            let lost =
                |store: &&&RequestRow| store.completed_ps <= from && !scrubbed(store.issued_ps, to);
            assert!(certain.find(lost).is_none(), "lost before {load:?}");
            continue;
        }
        let store = stores.iter().find(|store| store.value == load.value);
        let store = store.expect("what is loaded was stored there");
        own += 1;
        assert!(store.issued_ps < to, "{store:?} {load:?}");
        if is_open(store) {
            continue;
        }
        assert!(!scrubbed(store.completed_ps, from), "{store:?} {load:?}");
        let newer = |other: &&&RequestRow| {
            other.issued_ps >= store.completed_ps && other.completed_ps <= from
        };
        assert!(certain.find(newer).is_none(), "{store:?} {load:?}");
    }
    own
}

/// What was seen in a run that keeps values.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    /// Loads that returned what was stored.
    pub stored: usize,
    /// Loads of lines that held nothing.
    pub empty: usize,
    /// Scrubs of lines.
    pub scrubs: usize,
    /// Stores that timed out.
    pub open: usize,
}

/// Checks that nobody loads what was released, and that no store to what stays is lost.
///
/// # Panics
/// If a load returns what it must not.
pub fn check_values(plan: &Plan, rows: &[RequestRow]) -> Seen {
    let mut seen = Seen::default();
    let mut lines: BTreeMap<_, (Vec<&RequestRow>, Vec<&RequestRow>)> = BTreeMap::new();
    for row in rows {
        let failed = row.denied || row.failure.is_some();
        assert!(row.write || !failed || row.value == 0, "{row:?}");
        if failed && !(row.write && is_open(row)) {
            continue;
        }
        seen.open += usize::from(is_open(row));
        let host = usize::from(row.requester);
        let region = region_of(plan, row.hpa);
        let exclusive = plan.scenario.regions[region].sharing == Sharing::Exclusive;
        let place = plan.hosts[host].map.locate(Hpa(row.hpa)).unwrap();
        let line = lines.entry((place, region, exclusive.then_some(host)));
        let (stores, loads) = line.or_default();
        if row.write { stores } else { loads }.push(row);
    }
    for ((_, region, host), (stores, loads)) in &lines {
        let scrubs = scrubs(plan, *region, host.unwrap_or(0));
        let own = check_line(stores, loads, &scrubs);
        seen.stored += own;
        seen.empty += loads.len() - own;
        seen.scrubs += scrubs.len();
    }
    seen
}
