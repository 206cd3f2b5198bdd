//! The fabric manager: its commands among the events, carried out one after the other against what
//! each host has at the time. What comes of it is known before the run: what each device does and
//! when, and the response to each command.
//!
//! A device serves a host's memory of a region while the host has it (by `add` and `release`) and is
//! bound to the device (by `bind` and `unbind`). What is released is scrubbed when no host has it any
//! more, and nobody has it again before; what is unbound stays as it is.

use std::collections::BTreeMap;

use cxlab_device::{CapacityChange, CapacityEvent, Change, DeviceChange, Share};
use cxlab_engine::units::Picos;
use cxlab_protocol::PortId;

use super::address::RegionDecoder;
use super::endpoints::{Named, unknown};
use super::limits::LONGEST_WINDOW;
use super::regions::{devices_of, hosts_of};
use super::{PlannedCommand, Problem, Response};
use crate::scenario::{
    EventParams, FabricManagerParams, RegionGroup, Scenario, Sharing, UnbindOption,
};

/// Whether a host has something: memory of a region, or a device that it is bound to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Has {
    No,
    /// It is giving it up.
    Leaving,
    Yes,
}

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A host comes to have a region's memory, or to have it no more.
    Hold {
        region: usize,
        host: usize,
        has: Has,
    },
    /// The same with the binding to a device.
    Bind {
        host: usize,
        device: usize,
        has: Has,
    },
    /// A host's memory of a region is scrubbed.
    Scrub { region: usize, host: usize },
    /// A host's share of a device changes.
    Share { device: usize, share: Share },
}

/// When a host's workload begins and ends.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Presence {
    pub(super) joins: Option<Picos>,
    pub(super) leaves: Option<Picos>,
}

/// What hosts have.
#[derive(Clone, Default, Debug)]
struct Holdings {
    /// By region and host; nothing where nothing is said.
    held: BTreeMap<(usize, usize), Has>,
    /// By host and device; bound where nothing is said.
    bound: BTreeMap<(usize, usize), Has>,
}

/// What the fabric manager's commands come to.
pub(super) struct Account<'a> {
    scenario: &'a Scenario,
    named: &'a Named,
    params: FabricManagerParams,
    /// By region: its hosts and its devices.
    members: Vec<(Vec<usize>, Vec<usize>)>,
    /// Before the first event, and now.
    first: Holdings,
    now: Holdings,
    /// By region, and host where each has memory of its own: until when it is being scrubbed.
    dirty: BTreeMap<(usize, Option<usize>), Picos>,
    /// By device and host: what is allocated to it, and its limit, in 256ths.
    shares: BTreeMap<(usize, usize), (u16, Option<u16>)>,
    /// By device: when an event takes it out.
    removed: BTreeMap<usize, Picos>,
    /// What is still to come, by time and in order.
    coming: BTreeMap<(Picos, u64), Step>,
    next: u64,
    /// What has happened, in order.
    steps: Vec<(Picos, Step)>,
    pub(super) presence: Vec<Presence>,
    pub(super) commands: Vec<PlannedCommand>,
    pub(super) problems: Vec<Problem>,
}

/// A command of the FM API: its name and opcode (CXL 3.1, section 7.6.7).
type Name = (&'static str, u16);
const BIND: Name = ("Bind vPPB", 0x5201);
const UNBIND: Name = ("Unbind vPPB", 0x5202);
const SET_ALLOCATED: Name = ("Set QoS Allocated BW", 0x5407);
const SET_LIMIT: Name = ("Set QoS BW Limit", 0x5409);
const ADD: Name = ("Initiate Dynamic Capacity Add", 0x5604);
const RELEASE: Name = ("Initiate Dynamic Capacity Release", 0x5605);

/// Whether what hosts have changes, or is not all there from the beginning.
pub(super) fn changes_capacity(scenario: &Scenario) -> bool {
    let whole = |region: &RegionGroup| region.initially_added && region.sharing != Sharing::Moving;
    let changes = |event: &EventParams| match event {
        EventParams::HostLeaves { .. } => !scenario.regions.is_empty(),
        EventParams::Bind { .. } | EventParams::Unbind { .. } => true,
        other => other.capacity().is_some(),
    };
    let unbound = |params: &FabricManagerParams| !params.unbound.is_empty();
    scenario.events.iter().any(changes)
        || !scenario.regions.iter().all(whole)
        || scenario.fabric_manager.as_ref().is_some_and(unbound)
}

impl<'a> Account<'a> {
    /// Carries out all events that are the fabric manager's or a host's; those that cannot be are
    /// problems.
    pub(super) fn of(scenario: &'a Scenario, named: &'a Named) -> Account<'a> {
        let members = scenario.regions.iter().map(|region| {
            let hosts = hosts_of(scenario, named, region).unwrap_or_default();
            let devices = devices_of(scenario, named, region).unwrap_or_default();
            (hosts, devices)
        });
        let mut account = Account {
            scenario,
            named,
            params: bounded(scenario.manager()),
            members: members.collect(),
            first: Holdings::default(),
            now: Holdings::default(),
            dirty: BTreeMap::new(),
            shares: BTreeMap::new(),
            removed: BTreeMap::new(),
            coming: BTreeMap::new(),
            next: 0,
            steps: Vec::new(),
            presence: vec![Presence::default(); named.names.requesters.len()],
            commands: Vec::new(),
            problems: Vec::new(),
        };
        account.begin();
        account.first = account.now.clone();
        for (number, event) in scenario.events.iter().enumerate() {
            if let Err(problem) = account.happen(number, event) {
                account.problems.push(problem);
            }
        }
        account.catch_up(Picos(u64::MAX));
        account
    }

    /// What is so before the first event.
    fn begin(&mut self) {
        for (at, region) in self.scenario.regions.iter().enumerate() {
            let hosts = &self.members[at].0;
            let first = match (region.initially_added, region.sharing) {
                (false, _) => 0,
                (true, Sharing::Moving) => 1,
                (true, Sharing::Exclusive | Sharing::Shared) => hosts.len(),
            };
            let held = hosts.iter().take(first);
            self.now
                .held
                .extend(held.map(|host| ((at, *host), Has::Yes)));
        }
        for (at, binding) in self.params.unbound.clone().iter().enumerate() {
            let path = format!("fabric_manager.unbound[{at}]");
            match self.binding(&path, &binding.host, &binding.device) {
                Ok(place) if self.now.bound.insert(place, Has::No).is_some() => {
                    self.problems.push(Problem::new(
                        path,
                        format!(
                            "found `{}` and `{}` again; allowed: each pair once",
                            binding.host, binding.device
                        ),
                    ));
                }
                Ok(_) => {}
                Err(problem) => self.problems.push(problem),
            }
        }
        for (device, name) in self.named.names.devices.iter().enumerate() {
            let gone = self.scenario.events.iter().find_map(|event| match event {
                EventParams::DeviceRemoved { at, device } if device == name => Some(*at),
                _ => None,
            });
            self.removed.extend(gone.map(|at| (device, at)));
            if device < self.named.first_accelerator
                && let Some(qos) = &self.scenario.devices[self.named.device_group[device]].qos
            {
                for share in &qos.shares {
                    if let Ok(host) = self.host("", &share.host) {
                        let parts = (share.allocated, share.limit);
                        self.shares.insert((device, host), parts);
                    }
                }
            }
        }
    }

    fn happen(&mut self, number: usize, event: &EventParams) -> Result<(), Problem> {
        let path = format!("events[{number}]");
        let at = event.at().min(LONGEST_WINDOW);
        let now = at + self.params.command_time;
        self.catch_up(now);
        match event {
            EventParams::Add { region, host, .. } => {
                let place = self.memory(&path, region, host)?;
                self.add(&path, at, place)?;
                self.answer_of_memory(at, ADD, place, Picos::ZERO);
            }
            EventParams::Release {
                region,
                host,
                forced,
                ..
            } => {
                let place = self.memory(&path, region, host)?;
                if self.now.region(place) != Has::Yes {
                    return Err(wrong(
                        &path,
                        at,
                        format!("\"release\" of `{region}`, which `{host}` does not have"),
                        "\"release\" of what a host has from the beginning or by an earlier event",
                    ));
                }
                self.release(at, place, *forced);
            }
            EventParams::Bind { host, device, .. } => {
                let place = self.binding(&path, host, device)?;
                if self.now.device(place) != Has::No {
                    return Err(wrong(
                        &path,
                        at,
                        format!("\"bind\" of `{host}` to `{device}`, which it is bound to"),
                        "\"bind\" after an \"unbind\" has ended, or of fabric_manager.unbound",
                    ));
                }
                let (host, device) = place;
                let has = Has::Yes;
                self.step(now, Step::Bind { host, device, has });
                self.answer_of_device(at, BIND, place, Picos::ZERO);
            }
            EventParams::Unbind {
                host,
                device,
                option,
                ..
            } => {
                let place = self.binding(&path, host, device)?;
                if self.now.device(place) != Has::Yes {
                    return Err(wrong(
                        &path,
                        at,
                        format!("\"unbind\" of `{host}` from `{device}`, which it is not bound to"),
                        "\"unbind\" of a host that is bound",
                    ));
                }
                let more = match option {
                    UnbindOption::ManagedHotRemove => self.params.host_time,
                    UnbindOption::SurpriseHotRemove => Picos::ZERO,
                };
                self.unbind(now, place, *option == UnbindOption::ManagedHotRemove);
                self.answer_of_device(at, UNBIND, place, more);
            }
            EventParams::SetQos {
                device,
                host,
                allocated,
                limit,
                ..
            } => self.set_share(&path, at, (device, host), (*allocated, *limit))?,
            EventParams::HostJoins { host, .. } => {
                let host = self.host(&format!("{path}.host"), host)?;
                let name = &self.named.names.requesters[host];
                let presence = &mut self.presence[host];
                if presence.joins.is_some() || presence.leaves.is_some() {
                    return Err(wrong(
                        &path,
                        at,
                        format!("\"host-joins\" of `{name}`, which has joined or left before"),
                        "each host joins once, and then leaves once",
                    ));
                }
                presence.joins = Some(at);
            }
            EventParams::HostLeaves { host, .. } => {
                let host = self.host(&format!("{path}.host"), host)?;
                let name = &self.named.names.requesters[host];
                let presence = &mut self.presence[host];
                if presence.leaves.is_some() {
                    return Err(wrong(
                        &path,
                        at,
                        format!("\"host-leaves\" of `{name}`, which has left before"),
                        "each host leaves once",
                    ));
                }
                presence.leaves = Some(at);
                let has = |region: &usize| self.now.region((*region, host)) == Has::Yes;
                let held: Vec<usize> = (0..self.members.len()).filter(has).collect();
                for region in held {
                    self.release(at, (region, host), false);
                }
            }
            EventParams::LinkDown { .. }
            | EventParams::LinkUp { .. }
            | EventParams::SwitchDown { .. }
            | EventParams::DeviceRemoved { .. } => {}
        }
        Ok(())
    }

    /// The host comes to have memory of a region.
    fn add(&mut self, path: &str, at: Picos, place: (usize, usize)) -> Result<(), Problem> {
        let now = at + self.params.command_time;
        let (region, host) = (
            &self.scenario.regions[place.0],
            &self.named.names.requesters[place.1],
        );
        let name = &region.name;
        if self.presence[place.1].leaves.is_some() {
            return Err(wrong(
                path,
                at,
                format!("\"add\" of `{name}` to `{host}`, which has left"),
                "\"add\" to a host that is there",
            ));
        }
        if self.now.region(place) != Has::No {
            return Err(wrong(
                path,
                at,
                format!("\"add\" of `{name}`, which `{host}` has already"),
                "\"add\" after a \"release\", or of a region with initially_added = false",
            ));
        }
        let others = self.now.held.iter();
        let other = others.filter(|((of, _), has)| *of == place.0 && **has != Has::No);
        if let (Sharing::Moving, Some(((_, other), _))) = (region.sharing, other.last()) {
            let other = &self.named.names.requesters[*other];
            return Err(wrong(
                path,
                at,
                format!("\"add\" of `{name}` to `{host}` while `{other}` has it"),
                "\"add\" after its \"release\" (a moving region has one host at a time)",
            ));
        }
        let until = self.dirty.get(&self.memory_of(place)).copied();
        if let Some(until) = until.filter(|until| *until > now) {
            return Err(wrong(
                path,
                at,
                format!(
                    "\"add\" of `{name}`, in force at {now} while it is scrubbed until {until}"
                ),
                "\"add\" that is in force when the memory is scrubbed",
            ));
        }
        let (region, host) = place;
        let has = Has::Yes;
        self.step(now, Step::Hold { region, host, has });
        Ok(())
    }

    /// The host loses memory of a region that it has: at once, or when it has given it up.
    fn release(&mut self, at: Picos, place: (usize, usize), forced: bool) {
        let now = at + self.params.command_time;
        let (region, host) = place;
        let hold = |has| Step::Hold { region, host, has };
        let more = match forced {
            true => Picos::ZERO,
            false => self.params.host_time,
        };
        if forced {
            self.step(now, hold(Has::No));
        } else {
            self.step(now, hold(Has::Leaving));
            self.later(now + more, hold(Has::No));
        }
        self.answer_of_memory(at, RELEASE, place, more);
    }

    /// The same with the binding to a device.
    fn unbind(&mut self, now: Picos, (host, device): (usize, usize), managed: bool) {
        let bind = |has| Step::Bind { host, device, has };
        if managed {
            self.step(now, bind(Has::Leaving));
            self.later(now + self.params.host_time, bind(Has::No));
        } else {
            self.step(now, bind(Has::No));
        }
    }

    fn set_share(
        &mut self,
        path: &str,
        at: Picos,
        (device_name, host_name): (&str, &str),
        (allocated, limit): (Option<u16>, Option<u16>),
    ) -> Result<(), Problem> {
        if (allocated, limit) == (None, None) {
            return Err(Problem::new(
                format!("{path}.kind"),
                "found \"set-qos\" with neither `allocated` nor `limit`; allowed: at least one of them",
            ));
        }
        let host = self.host(&format!("{path}.host"), host_name)?;
        let device = self.device(&format!("{path}.device"), device_name)?;
        let qos = &self.scenario.devices[self.named.device_group[device]].qos;
        if qos.as_ref().and_then(|qos| qos.bandwidth).is_none() {
            return Err(Problem::new(
                format!("{path}.device"),
                format!(
                    "found `{device_name}`, which has no `qos` with `bandwidth`; allowed: devices with \
                     both, whose fractions shares are"
                ),
            ));
        }
        let before = self.shares.get(&(device, host)).copied();
        let (mut share, mut most) = before.unwrap_or((0, None));
        share = allocated.unwrap_or(share);
        most = limit.or(most);
        let shares = self.shares.iter();
        let others = shares.filter(|((of, one), _)| *of == device && *one != host);
        let sum = others.map(|(_, (allocated, _))| allocated).sum::<u16>() + share;
        if sum > 256 {
            return Err(Problem::new(
                format!("{path}.allocated"),
                format!(
                    "found {sum} of 256 allocated on `{device_name}` in all at {at}; allowed: at most 256"
                ),
            ));
        }
        if let Some(most) = most.filter(|most| *most < share) {
            return Err(Problem::new(
                format!("{path}.limit"),
                format!("found {most}; allowed: at least what is allocated then, {share}"),
            ));
        }
        self.shares.insert((device, host), (share, most));
        let step = Step::Share {
            device,
            share: Share {
                host: PortId(host as u16),
                allocated: share,
                limit: most,
            },
        };
        self.step(at + self.params.command_time, step);
        for (part, name) in [(allocated, SET_ALLOCATED), (limit, SET_LIMIT)] {
            if part.is_some() {
                self.answer_of_device(at, name, (host, device), Picos::ZERO);
            }
        }
        Ok(())
    }

    /// Makes happen what comes up to a time.
    fn catch_up(&mut self, now: Picos) {
        while let Some(entry) = self.coming.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), step) = entry.remove_entry();
            self.step(at, step);
        }
    }

    /// Lets something happen later.
    fn later(&mut self, at: Picos, step: Step) {
        self.coming.insert((at, self.next), step);
        self.next += 1;
    }

    /// Makes a step happen, with what follows from it.
    fn step(&mut self, at: Picos, step: Step) {
        self.steps.push((at, step));
        match step {
            Step::Hold { region, host, has } => {
                self.now.held.insert((region, host), has);
                let memory = self.memory_of((region, host));
                let mut hosts = self.members[region].0.iter();
                let is_free = match memory.1 {
                    Some(_) => has == Has::No,
                    None => hosts.all(|one| self.now.region((region, *one)) == Has::No),
                };
                if is_free {
                    let clean = at + self.params.scrub_time;
                    self.dirty.insert(memory, clean);
                    self.later(clean, Step::Scrub { region, host });
                }
            }
            Step::Bind { host, device, has } => {
                self.now.bound.insert((host, device), has);
            }
            Step::Scrub { .. } | Step::Share { .. } => {}
        }
    }

    /// Whose memory a host's of a region is: its own, or that of all its hosts.
    fn memory_of(&self, (region, host): (usize, usize)) -> (usize, Option<usize>) {
        let own = self.scenario.regions[region].sharing == Sharing::Exclusive;
        (region, own.then_some(host))
    }

    /// The response to a command about a host's memory of a region, that takes so much more time.
    fn answer_of_memory(&mut self, at: Picos, name: Name, place: (usize, usize), more: Picos) {
        let (region, host) = place;
        let of = format!(
            "{}, {}",
            self.scenario.regions[region].name, self.named.names.requesters[host]
        );
        let devices = self.members[region].1.clone();
        self.answer(at, name, of, &devices, more);
    }

    /// The same of a command about a host and a device.
    fn answer_of_device(&mut self, at: Picos, name: Name, place: (usize, usize), more: Picos) {
        let (host, device) = place;
        let names = &self.named.names;
        let of = format!("{}, {}", names.requesters[host], names.devices[device]);
        self.answer(at, name, of, &[device], more);
    }

    fn answer(&mut self, at: Picos, name: Name, of: String, devices: &[usize], more: Picos) {
        let in_force = at + self.params.command_time;
        let gone = |device: &&usize| self.removed.get(device).is_some_and(|at| *at <= in_force);
        let response = match devices.iter().find(gone) {
            None => Response::Success,
            Some(device) => Response::None(self.named.names.devices[*device].clone()),
        };
        self.commands.push(PlannedCommand {
            name: name.0,
            opcode: name.1,
            of,
            issued: at,
            done: in_force + more,
            response,
        });
    }

    /// The region and the host of that name.
    fn memory(&self, path: &str, region: &str, host: &str) -> Result<(usize, usize), Problem> {
        let mut regions = self.scenario.regions.iter();
        let Some(at) = regions.position(|one| one.name == region) else {
            let regions = self.scenario.regions.iter();
            let known: Vec<String> = regions.map(|region| region.name.clone()).collect();
            let path = format!("{path}.region");
            return Err(match known.is_empty() {
                true => Problem::new(
                    path,
                    format!(
                        "found `{region}` in a scenario without regions; allowed: with [[regions]]"
                    ),
                ),
                false => unknown(path, region, "a region", &known),
            });
        };
        let all = &self.named.names.requesters;
        let of_region = &self.members[at].0;
        match of_region.iter().find(|one| all[**one] == host) {
            Some(host) => Ok((at, *host)),
            None => {
                let known: Vec<String> = of_region.iter().map(|host| all[*host].clone()).collect();
                let what = format!("a host of region `{region}`");
                Err(unknown(format!("{path}.host"), host, &what, &known))
            }
        }
    }

    /// The host and the device of that name, of which it can have memory.
    fn binding(&self, path: &str, host: &str, device: &str) -> Result<(usize, usize), Problem> {
        let device_path = format!("{path}.device");
        if self.scenario.regions.is_empty() {
            return Err(Problem::new(
                device_path,
                format!(
                    "found `{device}` in a scenario without regions; allowed: with [[regions]]"
                ),
            ));
        }
        let place = (
            self.host(&format!("{path}.host"), host)?,
            self.device(&device_path, device)?,
        );
        let mut members = self.members.iter();
        if members.any(|(hosts, devices)| hosts.contains(&place.0) && devices.contains(&place.1)) {
            return Ok(place);
        }
        Err(Problem::new(
            device_path,
            format!(
                "found `{device}`, of which no region gives `{host}` memory; allowed: devices of the \
                 host's regions"
            ),
        ))
    }

    fn host(&self, path: &str, name: &str) -> Result<usize, Problem> {
        let all = &self.named.names.requesters;
        let found = all.iter().position(|one| one == name);
        found.ok_or_else(|| unknown(path.to_owned(), name, "a host", all))
    }

    fn device(&self, path: &str, name: &str) -> Result<usize, Problem> {
        let all = &self.named.names.devices[..self.named.first_accelerator];
        if all.is_empty() {
            return Err(Problem::new(
                path,
                format!("found `{name}`; allowed: a Type 3 device, of which there is none"),
            ));
        }
        let found = all.iter().position(|one| one == name);
        found.ok_or_else(|| unknown(path.to_owned(), name, "a Type 3 device", all))
    }

    /// What each device does, in order of time.
    pub(super) fn timelines(&self, extents: &[RegionDecoder]) -> Vec<Vec<DeviceChange>> {
        let mut timelines = vec![Vec::new(); self.named.names.devices.len()];
        let extents = match changes_capacity(self.scenario) {
            true => extents,
            false => &[],
        };
        let mut now = self.first.clone();
        let mut served = vec![Has::Yes; extents.len()];
        let mut serve = |now: &Holdings, at: Picos, concerns: &dyn Fn(&RegionDecoder) -> bool| {
            let mut changes = Vec::new();
            for (extent, served) in extents.iter().zip(&mut served) {
                let has = now.of(extent);
                let event = match (*served, has) {
                    (before, has) if before == has || !concerns(extent) => continue,
                    // What it gives up before it is bound it never had.
                    (Has::No, Has::Leaving) => continue,
                    (_, Has::Yes) => CapacityEvent::Add,
                    (_, Has::Leaving) => CapacityEvent::Leave,
                    (_, Has::No) => CapacityEvent::Release,
                };
                *served = has;
                changes.push((extent.device, extent.change(at, event)));
            }
            changes
        };
        let mut tell = |changes: Vec<(usize, DeviceChange)>| {
            for (device, change) in changes {
                timelines[device].push(change);
            }
        };
        tell(serve(&now, Picos::ZERO, &|_| true));
        for (at, step) in &self.steps {
            let at = *at;
            match *step {
                Step::Hold { region, host, has } => {
                    now.held.insert((region, host), has);
                    let concerns = |one: &RegionDecoder| (one.region, one.host) == (region, host);
                    tell(serve(&now, at, &concerns));
                }
                Step::Bind { host, device, has } => {
                    now.bound.insert((host, device), has);
                    let concerns = |one: &RegionDecoder| (one.host, one.device) == (host, device);
                    tell(serve(&now, at, &concerns));
                }
                Step::Scrub { region, host } => {
                    let here = |one: &&RegionDecoder| (one.region, one.host) == (region, host);
                    let scrubbed = extents.iter().filter(here);
                    let scrub =
                        |one: &RegionDecoder| (one.device, one.change(at, CapacityEvent::Scrub));
                    tell(scrubbed.map(scrub).collect());
                }
                Step::Share { device, share } => {
                    let what = Change::Share(share);
                    tell(vec![(device, DeviceChange { at, what })]);
                }
            }
        }
        timelines
    }
}

impl Holdings {
    fn region(&self, place: (usize, usize)) -> Has {
        self.held.get(&place).copied().unwrap_or(Has::No)
    }

    fn device(&self, place: (usize, usize)) -> Has {
        self.bound.get(&place).copied().unwrap_or(Has::Yes)
    }

    /// Whether the device serves an extent to its host.
    fn of(&self, extent: &RegionDecoder) -> Has {
        let region = self.region((extent.region, extent.host));
        region.min(self.device((extent.host, extent.device)))
    }
}

impl RegionDecoder {
    fn change(&self, at: Picos, event: CapacityEvent) -> DeviceChange {
        let what = Change::Capacity(CapacityChange {
            event,
            host: PortId(self.host as u16),
            decoder: self.decoder,
        });
        DeviceChange { at, what }
    }
}

/// Times that are too long are refused elsewhere; here they must only not overflow.
fn bounded(params: FabricManagerParams) -> FabricManagerParams {
    FabricManagerParams {
        command_time: params.command_time.min(LONGEST_WINDOW),
        host_time: params.host_time.min(LONGEST_WINDOW),
        scrub_time: params.scrub_time.min(LONGEST_WINDOW),
        ..params
    }
}

/// An event that cannot happen.
fn wrong(path: &str, at: Picos, found: String, allowed: &str) -> Problem {
    let message = format!("found {found} at {at}; allowed: {allowed}");
    Problem::new(format!("{path}.kind"), message)
}
