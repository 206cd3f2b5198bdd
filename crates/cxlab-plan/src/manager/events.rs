//! The events that the fabric manager and the hosts carry out, in order of time.

use std::collections::BTreeMap;

use cxlab_engine::units::Picos;
use cxlab_fabric::manager::GrantPolicyChoice;
use cxlab_scenario::{EventParams, FabricManagerParams, RegionGroup, Scenario, Sharing};

use super::account::{Account, Holding, Holdings, Step, wrong};
use super::commands;
use super::pools::BlockPool;
use crate::endpoints::{NamedGroups, Presence};
use crate::limits::LONGEST_WINDOW;
use crate::problem::{Problem, Problems};
use crate::regions::{devices_of, hosts_of};

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
    pub(crate) fn of(scenario: &'a Scenario, named: &'a NamedGroups) -> Account<'a> {
        let members = scenario.regions.iter().map(|region| {
            let hosts = hosts_of(scenario, named, region).unwrap_or_default();
            let devices = devices_of(scenario, named, region).unwrap_or_default();
            (hosts, devices)
        });
        let members: Vec<(Vec<usize>, Vec<usize>)> = members.collect();
        let regions = scenario.regions.iter().zip(&members).enumerate();
        let pooled = regions.filter(|(_, (region, _))| region.sharing == Sharing::Pooled);
        let pools = pooled.map(|(at, (region, (hosts, devices)))| {
            (
                at,
                BlockPool::new(hosts.clone(), devices.len(), region.capacity),
            )
        });
        let params = bounded(scenario.manager());
        let mut problems = Problems::default();
        let policy = problems.built("fabric_manager.policy", params.policy.build());
        let policy = policy.map_or_else(|| GrantPolicyChoice::default().build(), Ok);
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
            let held = held.map(|host| (((at, 0), *host), Holding::Yes));
            self.now.held.extend(held);
        }
        for (at, binding) in self.params.unbound.clone().iter().enumerate() {
            let path = format!("fabric_manager.unbound[{at}]");
            match self.binding(&path, &binding.host, &binding.device) {
                Ok(place) if self.now.bound.insert(place, Holding::No).is_some() => {
                    let found = format_args!("`{}` and `{}` again", binding.host, binding.device);
                    self.problems.refuse(path, found, "each pair once");
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
                self.answer_of_memory(at, commands::ADD, place, 0, Picos::ZERO);
            }
            EventParams::Release {
                region,
                host,
                forced,
                ..
            } => {
                let place = self.whole_memory(&path, region, host)?;
                if self.now.region(((place.0, 0), place.1)) != Holding::Yes {
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
                if self.now.device(place) != Holding::No {
                    return Err(wrong(
                        &path,
                        at,
                        format!("\"bind\" of `{host}` to `{device}`, which it is bound to"),
                        "\"bind\" after an \"unbind\" has ended, or of fabric_manager.unbound",
                    ));
                }
                let (host, device) = place;
                let has = Holding::Yes;
                self.step(now, Step::Bind { host, device, has });
                self.answer_of_device(at, commands::BIND, place, Picos::ZERO);
            }
            EventParams::Unbind {
                host,
                device,
                option,
                ..
            } => self.unbind_by(&path, at, (host, device), *option)?,
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
            EventParams::HostJoins { host, .. } => self.join(&path, at, host)?,
            EventParams::HostLeaves { host, .. } => self.leave(&path, at, host)?,
            EventParams::LinkDown { .. }
            | EventParams::LinkUp { .. }
            | EventParams::SwitchDown { .. }
            | EventParams::SwitchUp { .. }
            | EventParams::DeviceRemoved { .. }
            | EventParams::Viral { .. } => {}
        }
        Ok(())
    }

    /// A host's workload begins.
    fn join(&mut self, path: &str, at: Picos, name: &str) -> Result<(), Problem> {
        let host = self.host(&format!("{path}.host"), name)?;
        let presence = &mut self.presence[host];
        if presence.joins.is_some() || presence.leaves.is_some() {
            let found = format!("\"host-joins\" of `{name}`, which has joined or left before");
            let allowed = "each host joins once, and then leaves once";
            return Err(wrong(path, at, found, allowed));
        }
        presence.joins = Some(at);
        Ok(())
    }

    /// A host's workload ends, and the host gives up all its memory of regions.
    fn leave(&mut self, path: &str, at: Picos, name: &str) -> Result<(), Problem> {
        let host = self.host(&format!("{path}.host"), name)?;
        let presence = &mut self.presence[host];
        if presence.leaves.is_some() {
            let found = format!("\"host-leaves\" of `{name}`, which has left before");
            return Err(wrong(path, at, found, "each host leaves once"));
        }
        presence.leaves = Some(at);
        let held = |region: &usize| {
            let has = self.now.region(((*region, 0), host));
            !self.pools.contains_key(region) && has == Holding::Yes
        };
        let held: Vec<usize> = (0..self.members.len()).filter(held).collect();
        for region in held {
            self.release(at, (region, host), false);
        }
        let now = at + self.params.command_time;
        for region in self.pools.keys().copied().collect::<Vec<usize>>() {
            let pool = self.pools.get_mut(&region);
            let blocks = pool.map_or_else(Vec::new, |pool| pool.leave(now, host));
            self.take_back(at, (region, host), &blocks);
        }
        Ok(())
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
