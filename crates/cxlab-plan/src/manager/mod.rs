//! The fabric manager: carries out its commands, one after another, on the memory that each host
//! has at the time. The outcome is known before the run: each device's changes with their times,
//! and the response to each command.
//!
//! A device serves a host's memory of a region while the host has it (by `add` and `release`) and
//! is bound to the device (by `bind` and `unbind`). The policy grants blocks of a pooled region
//! when hosts' demands arrive. Released memory is scrubbed when no host has it any more, and no
//! host gets it before that. Unbinding does not change the memory.

mod commands;
mod names;
mod pools;
mod ports;
mod timelines;

use std::collections::BTreeMap;

use cxlab_device::HostShare;
use cxlab_engine::units::Picos;
use cxlab_fabric::manager::{GrantPolicy, GrantPolicyChoice};
use cxlab_scenario::{
    EventParams, FabricManagerParams, RegionGroup, Scenario, Sharing, UnbindOption,
};

use self::pools::BlockPool;
pub use self::pools::{PlannedPool, Sample};
use super::address::RegionDecoder;
use super::endpoints::Named;
use super::limits::LONGEST_WINDOW;
use super::regions::{devices_of, hosts_of};
use super::{PlannedCommand, Problem};

/// Whether a host has memory of a region, or is bound to a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Has {
    No,
    /// The host is giving the memory or the device up.
    Leaving,
    Yes,
}

/// Number of a region, and of its block if the region is pooled; otherwise 0.
type Part = (usize, u32);

/// A scheduled change of the hosts' memory.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A host gets, gives up or loses a region's memory.
    Hold { part: Part, host: usize, has: Has },
    /// A host is bound to a device, prepares for unbinding, or is unbound.
    Bind {
        host: usize,
        device: usize,
        has: Has,
    },
    /// A host's memory of a region is scrubbed.
    Scrub { part: Part, host: usize },
    /// A host's share of a device changes.
    Share { device: usize, share: HostShare },
}

/// When a host's workload begins and ends.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Presence {
    pub(crate) joins: Option<Picos>,
    pub(crate) leaves: Option<Picos>,
}

/// The memory that hosts have, and the devices that they are bound to.
#[derive(Clone, Default, Debug)]
struct Holdings {
    /// By part of a region and host: whether the host has the part. A host without an entry
    /// does not have it.
    held: BTreeMap<(Part, usize), Has>,
    /// By host and device: whether the host is bound. Missing entries mean that it is.
    bound: BTreeMap<(usize, usize), Has>,
}

/// The simulation of the fabric manager's commands over time.
pub(crate) struct Account<'a> {
    scenario: &'a Scenario,
    named: &'a Named,
    params: FabricManagerParams,
    /// By region: the numbers of its hosts and of its devices.
    members: Vec<(Vec<usize>, Vec<usize>)>,
    /// Holdings before the first event; `now` has the current ones.
    first: Holdings,
    now: Holdings,
    /// End of scrubbing, by part of a region, and by host if each host has memory of its own.
    dirty: BTreeMap<(Part, Option<usize>), Picos>,
    /// Pooled regions, by number of the region.
    pools: BTreeMap<usize, BlockPool>,
    policy: Box<dyn GrantPolicy>,
    /// By device and host: allocated bandwidth and limit, in 256ths.
    shares: BTreeMap<(usize, usize), (u16, Option<u16>)>,
    /// By host and device: the time until which their unbinding waits for a link to go down.
    waits: BTreeMap<(usize, usize), Picos>,
    /// By device: the time at which an event removes it.
    removed: BTreeMap<usize, Picos>,
    /// The time of the last event.
    clock: Picos,
    /// Scheduled steps, by time and sequence number.
    coming: BTreeMap<(Picos, u64), Step>,
    next: u64,
    /// Completed steps, in order of time.
    steps: Vec<(Picos, Step)>,
    pub(crate) presence: Vec<Presence>,
    pub(crate) commands: Vec<PlannedCommand>,
    pub(crate) problems: Vec<Problem>,
}
/// Whether the memory of hosts changes, or is not complete from the beginning.
pub(crate) fn changes_capacity(scenario: &Scenario) -> bool {
    let whole = |region: &RegionGroup| {
        let always = [Sharing::Exclusive, Sharing::Shared];
        region.initially_added && always.contains(&region.sharing)
    };
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
    /// Carries out all events of the fabric manager and of hosts. Events that cannot be
    /// carried out become problems.
    pub(crate) fn of(scenario: &'a Scenario, named: &'a Named) -> Account<'a> {
        let members = scenario.regions.iter().map(|region| {
            let hosts = hosts_of(scenario, named, region).unwrap_or_default();
            let devices = devices_of(scenario, named, region).unwrap_or_default();
            (hosts, devices)
        });
        let members: Vec<(Vec<usize>, Vec<usize>)> = members.collect();
        let regions = scenario.regions.iter().zip(&members).enumerate();
        let pooled = regions.filter(|(_, (region, _))| region.sharing == Sharing::Pooled);
        let pools = pooled.map(|(at, (region, (hosts, devices)))| {
            let pool = BlockPool::new(hosts.clone(), devices.len(), region.capacity);
            (at, pool)
        });
        let params = bounded(scenario.manager());
        let mut problems = Vec::new();
        let policy = params.policy.build().or_else(|error| {
            problems.push(Problem::of_param("fabric_manager.policy", error));
            GrantPolicyChoice::default().build()
        });
        let policy = match policy {
            Ok(policy) => policy,
            Err(error) => unreachable!("the default policy has no parameters: {error}"),
        };
        let mut account = Account {
            scenario,
            named,
            params,
            pools: pools.collect(),
            policy,
            members,
            first: Holdings::default(),
            now: Holdings::default(),
            dirty: BTreeMap::new(),
            shares: BTreeMap::new(),
            waits: BTreeMap::new(),
            removed: BTreeMap::new(),
            clock: Picos::ZERO,
            coming: BTreeMap::new(),
            next: 0,
            steps: Vec::new(),
            presence: vec![Presence::default(); named.names.requesters.len()],
            commands: Vec::new(),
            problems,
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

    /// Sets the holdings before the first event.
    fn begin(&mut self) {
        for (at, region) in self.scenario.regions.iter().enumerate() {
            let hosts = &self.members[at].0;
            let first = match (region.initially_added, region.sharing) {
                (false, _) | (true, Sharing::Pooled) => 0,
                (true, Sharing::Moving) => 1,
                (true, Sharing::Exclusive | Sharing::Shared) => hosts.len(),
            };
            let held = hosts.iter().take(first);
            self.now
                .held
                .extend(held.map(|host| (((at, 0), *host), Has::Yes)));
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
        // Events out of order are refused elsewhere; here, time does not go back.
        self.clock = self.clock.max(event.at().min(LONGEST_WINDOW));
        let at = self.clock;
        let now = at + self.params.command_time;
        self.catch_up(now);
        match event {
            EventParams::Add { region, host, .. } => {
                let place = self.whole_memory(&path, region, host)?;
                self.add(&path, at, place)?;
                self.answer_of_memory(at, commands::ADD, place, Picos::ZERO);
            }
            EventParams::Release {
                region,
                host,
                forced,
                ..
            } => {
                let place = self.whole_memory(&path, region, host)?;
                if self.now.region(((place.0, 0), place.1)) != Has::Yes {
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
                self.answer_of_device(at, commands::BIND, place, Picos::ZERO);
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
                self.refuse_waiting(&path, at, place)?;
                let more = match option {
                    UnbindOption::ManagedHotRemove => self.params.host_time,
                    UnbindOption::SurpriseHotRemove => Picos::ZERO,
                    UnbindOption::WaitForLinkDown => {
                        return self.unbind_with_link(&path, at, place);
                    }
                };
                self.unbind(now, place, *option == UnbindOption::ManagedHotRemove);
                self.answer_of_device(at, commands::UNBIND, place, more);
            }
            EventParams::SetLdAllocations {
                device,
                host,
                region,
                capacity,
                ..
            } => {
                let place = self.memory(&path, region, host)?;
                self.allocate(&path, at, place, device, *capacity)?;
            }
            EventParams::PortControl { link, action, .. } => self.control_port(at, link, *action),
            EventParams::SetQos {
                device,
                host,
                allocated,
                limit,
                ..
            } => self.set_share(&path, at, (device, host), (*allocated, *limit))?,
            EventParams::Demand {
                host,
                region,
                capacity,
                ..
            } => {
                let place = self.memory(&path, region, host)?;
                self.demand(&path, at, place, *capacity)?;
            }
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
                let has = |region: &usize| self.now.region(((*region, 0), host)) == Has::Yes;
                let pooled = |region: &usize| self.pools.contains_key(region);
                let has = |region: &usize| !pooled(region) && has(region);
                let held: Vec<usize> = (0..self.members.len()).filter(has).collect();
                for region in held {
                    self.release(at, (region, host), false);
                }
                for region in self.pools.keys().copied().collect::<Vec<usize>>() {
                    let pool = self.pools.get_mut(&region);
                    let blocks = pool.map_or_else(Vec::new, |pool| pool.leave(now, host));
                    self.take_back(at, (region, host), &blocks);
                }
            }
            EventParams::LinkDown { .. }
            | EventParams::LinkUp { .. }
            | EventParams::SwitchDown { .. }
            | EventParams::SwitchUp { .. }
            | EventParams::DeviceRemoved { .. }
            | EventParams::Viral { .. } => {}
        }
        Ok(())
    }

    /// Carries out the scheduled steps up to `now`.
    fn catch_up(&mut self, now: Picos) {
        while let Some(entry) = self.coming.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), step) = entry.remove_entry();
            self.step(at, step);
        }
    }

    /// Schedules a step.
    fn later(&mut self, at: Picos, step: Step) {
        self.coming.insert((at, self.next), step);
        self.next += 1;
    }

    /// Carries out a step, with its consequences.
    fn step(&mut self, at: Picos, step: Step) {
        self.steps.push((at, step));
        match step {
            Step::Hold { part, host, has } => {
                self.now.held.insert((part, host), has);
                let memory = self.memory_of((part, host));
                let mut hosts = self.members[part.0].0.iter();
                let is_free = match memory.1 {
                    Some(_) => has == Has::No,
                    None => hosts.all(|one| self.now.region((part, *one)) == Has::No),
                };
                if is_free {
                    if let Some(pool) = self.pools.get_mut(&part.0) {
                        pool.release(part.1);
                    }
                    let clean = at + self.params.scrub_time;
                    self.dirty.insert(memory, clean);
                    self.later(clean, Step::Scrub { part, host });
                }
            }
            Step::Bind { host, device, has } => {
                self.now.bound.insert((host, device), has);
            }
            Step::Scrub { part, .. } => {
                if let Some(pool) = self.pools.get_mut(&part.0) {
                    pool.scrubbed(at, part.1);
                }
            }
            Step::Share { .. } => {}
        }
    }

    /// The memory behind a host's part of a region: the host's own, or (`None`) common
    /// to all its hosts.
    fn memory_of(&self, (part, host): (Part, usize)) -> (Part, Option<usize>) {
        let own = match self.scenario.regions[part.0].sharing {
            Sharing::Exclusive | Sharing::Pooled => true,
            Sharing::Shared | Sharing::Moving => false,
        };
        (part, own.then_some(host))
    }

    /// All blocks of a pooled region that a host has at some time, in the order of the first grant;
    /// `None` if the region is not pooled.
    pub(crate) fn blocks(&self, region: usize, host: usize) -> Option<Vec<u32>> {
        self.pools.get(&region).map(|pool| pool.ever(host))
    }

    /// The outcome of the pooled regions.
    pub(crate) fn pools(&mut self) -> Vec<PlannedPool> {
        let pools = std::mem::take(&mut self.pools).into_iter();
        let policy = &self.params.policy.kind;
        pools
            .map(|(region, pool)| pool.finish(&self.scenario.regions[region].name, policy))
            .collect()
    }
}

impl Holdings {
    fn region(&self, place: (Part, usize)) -> Has {
        self.held.get(&place).copied().unwrap_or(Has::No)
    }

    fn device(&self, place: (usize, usize)) -> Has {
        self.bound.get(&place).copied().unwrap_or(Has::Yes)
    }

    /// Whether the device serves the memory of a decoder to its host.
    fn of(&self, extent: &RegionDecoder) -> Has {
        let region = self.region((extent.part(), extent.host));
        region.min(self.device((extent.host, extent.device)))
    }
}

/// Limits times to a range that cannot overflow; times that are too long are refused elsewhere.
fn bounded(params: FabricManagerParams) -> FabricManagerParams {
    FabricManagerParams {
        command_time: params.command_time.min(LONGEST_WINDOW),
        host_time: params.host_time.min(LONGEST_WINDOW),
        scrub_time: params.scrub_time.min(LONGEST_WINDOW),
        ..params
    }
}

/// The problem of an event that cannot happen.
fn wrong(path: &str, at: Picos, found: String, allowed: &str) -> Problem {
    let message = format!("found {found} at {at}; allowed: {allowed}");
    Problem::new(format!("{path}.kind"), message)
}
