//! Memory of the hosts of a pool: a timeline that is computed independently of the simulator, and
//! the values that loads may return.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use cxlab_engine::units::{Hpa, SimTime};
use cxlab_engine::{Monitor, Stop};
use cxlab_host::{Failure, RequestRow};
use cxlab_plan::Plan;
use cxlab_scenario::{EventParams, PortAction, Sharing, UnbindOption};
use cxlab_system::system::{RecordOptions, System};

use crate::swarm::Draw;

/// A row for each request of a run that keeps values, with the values stored and loaded.
pub fn values(plan: &Plan, threads: usize) -> Vec<RequestRow> {
    let notes = RecordOptions {
        rows: true,
        values: true,
        states: false,
        arrivals: false,
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

/// Memory that the hosts of a random pool have, while the scenario's text is drawn.
#[derive(Default)]
pub struct Holdings {
    /// By region: which hosts have it.
    regions: Vec<Drawn>,
    /// With a fabric manager: time in picoseconds in which a host gives up memory, and time of a scrub.
    manager: Option<(u64, u64)>,
    /// By host and device: time from which the pair may be bound, or `None` while it is bound.
    unbound: Vec<Vec<Option<u64>>>,
    /// By host: whether the host has joined, and whether it has left.
    joined: Vec<bool>,
    left: Vec<bool>,
}

/// A region of the drawn scenario.
struct Drawn {
    held: Vec<bool>,
    /// Whether at most one host may have the region.
    moving: bool,
    /// Time from which hosts may be added.
    quiet: u64,
}

impl Holdings {
    /// Adds a region of all hosts.
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
        self.regions.push(Drawn {
            held: (0..hosts).map(first).collect(),
            moving,
            quiet: 0,
        });
    }

    /// Adds a fabric manager: commands take time, hosts are bound and unbound, and join and leave.
    pub fn manager(&mut self, draw: &mut Draw, hosts: usize, devices: usize) {
        let times = ["0 ns", "1 ps", "200 ns", "1 us"];
        let command = draw.pick(&times);
        let (host, scrub) = (draw.below(times.len()), draw.below(times.len()));
        let ps = [0, 1, 200_000, 1_000_000];
        draw.line(format!(
            "[fabric_manager]\ncommand_time = \"{command}\"\nhost_time = \"{}\"\nscrub_time = \"{}\"",
            times[host], times[scrub]
        ));
        self.manager = Some((ps[host], ps[scrub]));
        self.unbound = vec![vec![None; devices]; hosts];
        self.joined = vec![false; hosts];
        self.left = vec![false; hosts];
        if draw.one_in(3) {
            draw.line("unbound = [{ host = \"h0\", device = \"d0\" }]");
            self.unbound[0][0] = Some(0);
        }
    }

    /// Unbinds a host from a device, whose link goes down with the next line of the scenario.
    /// Returns whether a host was bound.
    pub fn unbind_with_link(&mut self, draw: &mut Draw, device: usize, at_ps: u64) -> bool {
        let mut hosts = self.unbound.iter_mut().enumerate();
        let Some((host, unbound)) = hosts.find(|(_, unbound)| unbound[device].is_none()) else {
            return false;
        };
        unbound[device] = Some(at_ps);
        draw.line(format!(
            "[[events]]\nat = \"{at_ps} ps\"\nkind = \"unbind\"\nhost = \"h{host}\"\ndevice = \"d{device}\"\n\
             option = \"wait-for-link-down\""
        ));
        true
    }

    /// Whether the pool has a fabric manager.
    pub fn is_managed(&self) -> bool {
        self.manager.is_some()
    }

    /// Writes an event at a time: a host loses its memory of a region, or gets it if that is
    /// possible. With a fabric manager, it may be any of the manager's events.
    pub fn event(&mut self, draw: &mut Draw, hosts: usize, at_ps: u64) {
        if let Some(times) = self.manager
            && draw.one_in(2)
        {
            return self.command(draw, hosts, at_ps, times);
        }
        let (region, host) = (draw.below(self.regions.len()), draw.below(hosts));
        let managed = self.manager.is_some();
        let forced = !managed || draw.one_in(2);
        let (host_time, scrub_time) = self.manager.unwrap_or_default();
        let Drawn {
            held,
            moving,
            quiet,
        } = &mut self.regions[region];
        let free = at_ps >= *quiet && !(managed && self.left[host]);
        let kind = match held[host] {
            true => "release",
            false if !free || *moving && held.contains(&true) => return,
            false => "add",
        };
        held[host] = !held[host];
        draw.line(format!(
            "[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\nregion = \"r{region}\"\nhost = \"h{host}\""
        ));
        if kind == "release" {
            if !forced {
                draw.line("forced = false");
            }
            let ends = at_ps + if forced { 0 } else { host_time };
            *quiet = (*quiet).max(ends + scrub_time);
        }
    }

    fn command(
        &mut self,
        draw: &mut Draw,
        hosts: usize,
        at_ps: u64,
        (host_time, scrub): (u64, u64),
    ) {
        let host = draw.below(hosts);
        let what = draw.below(6);
        let mut line = |kind: &str, rest: &str| {
            draw.line(format!(
                "[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\nhost = \"h{host}\"{rest}"
            ));
        };
        match what {
            0 if !self.left[host] && !self.joined[host] => {
                self.joined[host] = true;
                line("host-joins", "");
            }
            1 if !self.left[host] => {
                self.left[host] = true;
                line("host-leaves", "");
                for region in self.regions.iter_mut().filter(|one| one.held[host]) {
                    region.held[host] = false;
                    region.quiet = region.quiet.max(at_ps + host_time + scrub);
                }
            }
            _ => {
                let device = draw.below(self.unbound[host].len());
                let surprise = draw.one_in(2);
                let mut line = |kind: &str, rest: &str| {
                    draw.line(format!(
                        "[[events]]\nat = \"{at_ps} ps\"\nkind = \"{kind}\"\nhost = \"h{host}\"\n\
                         device = \"d{device}\"{rest}"
                    ));
                };
                match self.unbound[host][device] {
                    None if surprise => {
                        self.unbound[host][device] = Some(at_ps);
                        line("unbind", "\noption = \"surprise-hot-remove\"");
                    }
                    None => {
                        self.unbound[host][device] = Some(at_ps + host_time);
                        line("unbind", "");
                    }
                    Some(from) if at_ps >= from => {
                        self.unbound[host][device] = None;
                        line("bind", "");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// A span of time in which a device serves a host's memory of a region.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start of the span.
    pub since: u64,
    /// Time before which the host issues requests.
    pub issued: u64,
    /// Time before which the device accepts requests.
    pub ends: u64,
}

impl Span {
    /// Whether a request that is issued and completed at these times is certainly served.
    pub fn serves(&self, from: u64, to: u64) -> bool {
        self.since <= from && from < self.issued && to < self.ends
    }

    /// Whether a request that is issued and completed at these times may be served.
    pub fn may_serve(&self, from: u64, to: u64) -> bool {
        self.since <= to && from < self.issued
    }
}

/// Spans of time between begin and end events of a timeline. A span begins at time 0 or at an event.
#[derive(Default)]
struct Spans {
    since: Option<u64>,
    all: Vec<Span>,
}

impl Spans {
    fn begin(&mut self, at: u64) {
        assert!(self.since.replace(at).is_none(), "it has begun");
    }

    /// Ends the open span. Requests issued before are accepted for `grace` more.
    fn end(&mut self, at: u64, grace: u64) {
        self.all.push(Span {
            since: self.since.take().unwrap(),
            issued: at,
            ends: at + grace,
        });
    }

    fn done(mut self) -> Vec<Span> {
        if let Some(since) = self.since {
            let never = u64::MAX;
            self.all.push(Span {
                since,
                issued: never,
                ends: never,
            });
        }
        self.all
    }
}

/// A host gets memory of a region, or must give it up within a grace period.
#[derive(Clone, Copy)]
struct Change {
    at: u64,
    grace: u64,
    gets: bool,
    /// Number of the change's event.
    number: usize,
}

/// Whether a host has its memory of a region at the start, and its changes.
fn changes(plan: &Plan, region: usize, host: usize) -> (bool, Vec<Change>) {
    let (params, manager) = (&plan.scenario.regions[region], plan.scenario.manager());
    let first = params.initially_added && (params.sharing != Sharing::Moving || host == 0);
    let (region, host) = (&params.name, &plan.hosts[host].name);
    let (mut has, mut all) = (first, Vec::new());
    for (number, event) in plan.scenario.events.iter().enumerate() {
        let is = |of: &String, to: &String| (of, to) == (region, host);
        let grace = manager.host_time.0;
        let (gets, grace) = match event {
            EventParams::Add { region, host, .. } if is(region, host) => (true, 0),
            EventParams::Release {
                region,
                host,
                forced,
                ..
            } if is(region, host) => (false, if *forced { 0 } else { grace }),
            EventParams::HostLeaves { host: who, .. } if who == host && has => (false, grace),
            _ => continue,
        };
        assert!(has != gets, "{event:?}");
        has = gets;
        let at = event.at().0 + manager.command_time.0;
        all.push(Change {
            at,
            grace,
            gets,
            number,
        });
    }
    (first, all)
}

/// Spans in which a host has its memory of a region.
fn held(plan: &Plan, region: usize, host: usize) -> Vec<Span> {
    let (first, changes) = changes(plan, region, host);
    let mut spans = Spans::default();
    if first {
        spans.begin(0);
    }
    for change in changes {
        match change.gets {
            true => spans.begin(change.at),
            false => spans.end(change.at, change.grace),
        }
    }
    spans.done()
}

/// First time from `from` on at which the link of a device is down, derived from the events alone.
///
/// # Panics
/// If the link is never down.
fn link_is_down(plan: &Plan, device: &str, from: u64) -> u64 {
    let manager = plan.scenario.manager();
    let mut changes = Vec::new();
    for event in &plan.scenario.events {
        match event {
            EventParams::DeviceRemoved { at, device: one } if one == device => {
                changes.push((at.0, true));
            }
            EventParams::LinkDown { at, link, .. } if link.contains(&device.to_owned()) => {
                changes.push((at.0, true));
            }
            EventParams::LinkUp { at, link, .. } if link.contains(&device.to_owned()) => {
                changes.push((at.0, false));
            }
            EventParams::PortControl {
                at, link, action, ..
            } if link.contains(&device.to_owned()) => {
                let at = at.0 + manager.command_time.0;
                if *action == PortAction::ResetPpb {
                    changes.push((at, true));
                    changes.push((at + manager.reset_time.0, false));
                } else {
                    changes.push((at, *action == PortAction::AssertPerst));
                }
            }
            _ => {}
        }
    }
    changes.sort_by_key(|(at, _)| *at);
    let before = changes.iter().rfind(|(at, _)| *at <= from);
    if before.is_some_and(|(_, down)| *down) {
        return from;
    }
    let mut later = changes.iter().filter(|(at, down)| *at >= from && *down);
    later.next().unwrap().0
}

/// Spans in which a host is bound to a device.
fn bound(plan: &Plan, host: usize, device: usize) -> Vec<Span> {
    let manager = plan.scenario.manager();
    let (host, device) = (&plan.hosts[host].name, &plan.devices[device].name);
    let is = |of: &String, to: &String| (of, to) == (host, device);
    let mut spans = Spans::default();
    if !manager.unbound.iter().any(|one| is(&one.host, &one.device)) {
        spans.begin(0);
    }
    for event in &plan.scenario.events {
        let at = event.at().0 + manager.command_time.0;
        match event {
            EventParams::Bind { host, device, .. } if is(host, device) => spans.begin(at),
            EventParams::Unbind {
                host,
                device,
                option,
                ..
            } if is(host, device) => match option {
                UnbindOption::ManagedHotRemove => spans.end(at, manager.host_time.0),
                UnbindOption::SurpriseHotRemove => spans.end(at, 0),
                UnbindOption::WaitForLinkDown => {
                    spans.end(link_is_down(plan, device, at), 0);
                }
            },
            _ => {}
        }
    }
    spans.done()
}

/// Spans in which a device serves a host its memory of a region: the host has the memory and is bound.
pub fn spans(plan: &Plan, region: usize, host: usize, device: usize) -> Vec<Span> {
    let bound = bound(plan, host, device);
    let both = held(plan, region, host).into_iter().flat_map(|held| {
        let bound = bound.iter();
        bound.map(move |bound| Span {
            since: held.since.max(bound.since),
            issued: held.issued.min(bound.issued),
            ends: held.ends.min(bound.ends),
        })
    });
    // A span that begins when another ends accepts the requests issued before, as long as they may be late.
    both.filter(|span| span.since < span.ends).collect()
}

/// Number of the device that holds an address of a host.
pub fn device_of(plan: &Plan, host: usize, hpa: u64) -> usize {
    let (port, _) = plan.hosts[host].map.locate(Hpa(hpa)).unwrap();
    usize::from(port.0) - plan.hosts.len()
}

/// Checks that a request is not denied memory that its host has, and not served memory that it has not.
///
/// # Panics
/// If it is, with the scenario's text.
pub fn check_spans(plan: &Plan, row: &RequestRow, (denied, served): (bool, bool), text: &str) {
    let host = usize::from(row.requester);
    let device = device_of(plan, host, row.hpa);
    let spans = spans(plan, region_of(plan, row.hpa), host, device);
    let (from, to) = (row.issued_ps, row.completed_ps);
    let always = spans.iter().any(|span| span.serves(from, to));
    let never = !spans.iter().any(|span| span.may_serve(from, to));
    assert!(!denied || !always, "denied what it has: {row:?}\n{text}");
    assert!(!served || !never, "served what it has not: {row:?}\n{text}");
}

/// Checks that a host issues requests only while it is present: all of its requests, unless it leaves.
///
/// # Panics
/// If the host issues a request before it joins or after it leaves, or not all requests.
pub fn check_presence(plan: &Plan, rows: &[RequestRow], requests: usize) {
    for (number, host) in plan.hosts.iter().enumerate() {
        let own = rows
            .iter()
            .filter(|row| usize::from(row.requester) == number);
        let when = |wanted: fn(&EventParams) -> Option<&String>| {
            let mut events = plan.scenario.events.iter();
            let event = events.find(|event| wanted(event) == Some(&host.name));
            event.map(|event| event.at().0)
        };
        let joins = when(|event| match event {
            EventParams::HostJoins { host, .. } => Some(host),
            _ => None,
        });
        let leaves = when(|event| match event {
            EventParams::HostLeaves { host, .. } => Some(host),
            _ => None,
        });
        let (first, last) = (joins.unwrap_or(0), leaves.unwrap_or(u64::MAX));
        for row in own.clone() {
            assert!((first..=last).contains(&row.issued_ps), "{row:?}");
        }
        let count = own.count();
        assert!(count == requests || leaves.is_some() && count < requests);
    }
}

/// Region that holds an address of a host. In every host, regions follow one another.
pub fn region_of(plan: &Plan, hpa: u64) -> usize {
    let mut end = 0;
    let regions = plan.scenario.regions.iter();
    let mut ends = regions.map(|region| {
        end += region.capacity.0;
        end
    });
    ends.position(|end| hpa < end).unwrap()
}

/// Times at which the devices have scrubbed a host's memory of a region: `scrub` after the last
/// host with that memory loses it.
fn scrubs(plan: &Plan, region: usize, host: usize) -> Vec<u64> {
    let hosts = match plan.scenario.regions[region].sharing {
        Sharing::Exclusive | Sharing::Pooled => host..host + 1,
        Sharing::Shared | Sharing::Moving => 0..plan.hosts.len(),
    };
    let (mut have, mut all) = (0, Vec::new());
    for host in hosts {
        let (first, changes) = changes(plan, region, host);
        have += u32::from(first);
        all.extend(changes);
    }
    // Memory that a host gives up late is released before the events written for that time.
    all.sort_by_key(|one| (one.at + one.grace, one.grace == 0, one.number));
    let mut scrubs = Vec::new();
    for one in all {
        match one.gets {
            true => have += 1,
            false => have -= 1,
        }
        if have == 0 {
            let scrub_time = plan.scenario.manager().scrub_time.0;
            scrubs.push(one.at + one.grace + scrub_time);
        }
    }
    scrubs
}

/// Whether a store may take effect long after its host has released the memory, or never.
fn is_open(store: &RequestRow) -> bool {
    store.failure == Some(Failure::TimedOut)
}

/// Loads of a line must return the last stored value, and none from before a scrub. A store that
/// timed out may have taken effect at any time, or never.
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

/// Counts of a run that keeps values.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    /// Loads that returned what was stored.
    pub stored: usize,
    /// Loads of lines without a value.
    pub empty: usize,
    /// Scrubs of lines.
    pub scrubs: usize,
    /// Stores that timed out.
    pub open: usize,
}

/// Checks that no host loads released values, and that no store to memory that stays is lost.
///
/// # Panics
/// If a load returns a wrong value.
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
