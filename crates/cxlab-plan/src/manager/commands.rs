//! The fabric manager's commands: the effect of each, and its response.

use cxlab_device::HostShare;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_protocol::PortId;
use cxlab_scenario::{Sharing, UnbindOption};

use super::account::{Account, Holding, Step, wrong};
use super::pools::Outcome;
use super::response::{PlannedCommand, Response};
use crate::extents::DECODER_UNIT;
use crate::problem::{Problem, unknown};

/// A command of the FM API: its name and opcode (CXL 3.1, section 7.6.7).
pub(crate) type Name = (&'static str, u16);
pub(crate) const PORT_CONTROL: Name = ("Physical Port Control", 0x5102);
pub(crate) const BIND: Name = ("Bind vPPB", 0x5201);
pub(crate) const UNBIND: Name = ("Unbind vPPB", 0x5202);
pub(crate) const SET_LD_ALLOCATIONS: Name = ("Set LD Allocations", 0x5402);
pub(crate) const SET_ALLOCATED: Name = ("Set QoS Allocated BW", 0x5407);
pub(crate) const SET_LIMIT: Name = ("Set QoS BW Limit", 0x5409);
pub(crate) const ADD: Name = ("Initiate Dynamic Capacity Add", 0x5604);
pub(crate) const RELEASE: Name = ("Initiate Dynamic Capacity Release", 0x5605);

impl Account<'_> {
    /// Gives a host memory of a region.
    pub(crate) fn add(
        &mut self,
        path: &str,
        at: Picos,
        place: (usize, usize),
    ) -> Result<(), Problem> {
        let now = at + self.params.command_time;
        let (part, has) = ((place.0, 0), Holding::Yes);
        let (name, host) = self.names(place);
        let wrong = |found: String, allowed: &str| Err(wrong(path, at, found, allowed));
        if self.presence[place.1].leaves.is_some() {
            let found = format!("\"add\" of `{name}` to `{host}`, which has left");
            return wrong(found, "\"add\" to a host that is there");
        }
        if self.now.region((part, place.1)) != Holding::No {
            return wrong(
                format!("\"add\" of `{name}`, which `{host}` has already"),
                "\"add\" after a \"release\", or of a region with initially_added = false",
            );
        }
        let mut others = self.now.held.iter();
        let other = others.find(|(((of, _), _), has)| *of == place.0 && **has != Holding::No);
        let sharing = self.scenario.regions[place.0].sharing;
        if let (Sharing::Moving, Some(((_, other), _))) = (sharing, other) {
            let other = &self.named.names.requesters[*other];
            return wrong(
                format!("\"add\" of `{name}` to `{host}` while `{other}` has it"),
                "\"add\" after its \"release\" (a moving region has one host at a time)",
            );
        }
        let until = self.dirty.get(&self.memory_of((part, place.1))).copied();
        if let Some(until) = until.filter(|until| *until > now) {
            return wrong(
                format!("\"add\" of `{name}`, which is scrubbed until {until},"),
                "\"add\" that is in force when the memory is scrubbed",
            );
        }
        let host = place.1;
        self.step(now, Step::Hold { part, host, has });
        Ok(())
    }

    /// Sets how much of a pooled region a host needs from now on.
    pub(crate) fn demand(
        &mut self,
        path: &str,
        at: Picos,
        place: (usize, usize),
        capacity: Bytes,
    ) -> Result<(), Problem> {
        let (region, host) = place;
        let most = self.scenario.regions[region].capacity;
        self.check_blocks(path, at, "demand", place, capacity, most, "the region's")?;
        let Some(pool) = self.pools.get_mut(&region) else {
            unreachable!("a region with blocks is pooled")
        };
        let now = at + self.params.command_time;
        let needs = (capacity.0 / DECODER_UNIT) as u32;
        match pool.demand(now, host, needs, self.policy.as_ref()) {
            Outcome::Granted(blocks) => {
                for block in &blocks {
                    let (part, has) = ((region, *block), Holding::Yes);
                    self.step(now, Step::Hold { part, host, has });
                }
                self.answer_of_memory(at, ADD, place, blocks.len(), Picos::ZERO);
            }
            Outcome::Asked(blocks) => self.take_back(at, place, &blocks),
            Outcome::Nothing => {}
            Outcome::Refused => {
                self.answer_of_memory(at, ADD, place, 0, Picos::ZERO);
                if let Some(command) = self.commands.last_mut() {
                    command.response = Response::ResourcesExhausted;
                }
            }
        }
        Ok(())
    }

    /// Sets how much of a pooled region a logical device has on its device from now on.
    pub(crate) fn allocate(
        &mut self,
        path: &str,
        at: Picos,
        place: (usize, usize),
        device_name: &str,
        capacity: Bytes,
    ) -> Result<(), Problem> {
        let (region, host) = place;
        let path_of_device = format!("{path}.device");
        let device = self.device(&path_of_device, device_name)?;
        let devices = &self.members[region].1;
        let Some(number) = devices.iter().position(|one| *one == device) else {
            let all = &self.named.names.devices;
            let known: Vec<String> = devices.iter().map(|one| all[*one].clone()).collect();
            let name = &self.scenario.regions[region].name;
            let what = format!("a device of region `{name}`");
            return Err(unknown(path_of_device, device_name, &what, &known));
        };
        let group = &self.scenario.devices[self.named.device_group[device]];
        if group.logical_devices.is_none() {
            let found = format_args!("`{device_name}`, which has no logical devices");
            let allowed = "devices with `logical_devices`";
            return Err(Problem::refused(path_of_device, found, allowed));
        }
        let most = self.scenario.regions[region].capacity.0 / devices.len().max(1) as u64;
        let kind = "set-ld-allocations";
        self.check_blocks(path, at, kind, place, capacity, Bytes(most), "its device's")?;
        let Some(pool) = self.pools.get_mut(&region) else {
            unreachable!("a region with blocks is pooled")
        };
        let now = at + self.params.command_time;
        let wanted = (capacity.0 / DECODER_UNIT) as u32;
        let outcome = pool.allocate(now, host, number as u32, wanted);
        let (blocks, has) = match &outcome {
            Outcome::Granted(blocks) => (&blocks[..], Holding::Yes),
            Outcome::Asked(blocks) => (&blocks[..], Holding::No),
            Outcome::Nothing | Outcome::Refused => (&[][..], Holding::No),
        };
        for block in blocks {
            let part = (region, *block);
            self.step(now, Step::Hold { part, host, has });
        }
        let (region, host) = self.names(place);
        let of = format!("{device_name}, {host}, {capacity} of {region}");
        self.answer(at, SET_LD_ALLOCATIONS, of, &[device], Picos::ZERO);
        if let Some(command) = self.commands.last_mut()
            && matches!(outcome, Outcome::Refused)
            && command.response == Response::Success
        {
            command.response = Response::ResourcesExhausted;
        }
        Ok(())
    }

    /// Checks that an event may change a host's blocks of a pooled region.
    #[allow(clippy::too_many_arguments)]
    fn check_blocks(
        &self,
        path: &str,
        at: Picos,
        kind: &str,
        place: (usize, usize),
        capacity: Bytes,
        most: Bytes,
        whose: &str,
    ) -> Result<(), Problem> {
        let (region, host) = self.names(place);
        if !self.pools.contains_key(&place.0) {
            let found = format_args!("`{region}`, which is not pooled");
            let allowed = "regions with sharing = \"pooled\"";
            return Err(Problem::refused(format!("{path}.region"), found, allowed));
        }
        if self.presence[place.1].leaves.is_some() {
            let found = format!("\"{kind}\" of `{host}`, which has left");
            let allowed = format!("\"{kind}\" of a host that is there");
            return Err(wrong(path, at, found, &allowed));
        }
        if capacity > most || !capacity.0.is_multiple_of(DECODER_UNIT) {
            let unit = Bytes(DECODER_UNIT);
            let allowed = format_args!("multiples of {unit} up to {whose} {most}");
            let path = format!("{path}.capacity");
            return Err(Problem::refused(path, capacity, allowed));
        }
        Ok(())
    }

    /// Asks a host to give up blocks of a pooled region.
    pub(crate) fn take_back(&mut self, at: Picos, place: (usize, usize), blocks: &[u32]) {
        if blocks.is_empty() {
            return;
        }
        let now = at + self.params.command_time;
        let more = self.params.host_time;
        let (region, host) = place;
        for block in blocks {
            let part = (region, *block);
            let hold = |has| Step::Hold { part, host, has };
            self.step(now, hold(Holding::Leaving));
            self.later(now + more, hold(Holding::No));
        }
        self.answer_of_memory(at, RELEASE, place, blocks.len(), more);
    }

    /// Records the response to a command about a host's memory of a region, or about this number of
    /// blocks of a pooled one. The command takes `more` time than others.
    pub(crate) fn answer_of_memory(
        &mut self,
        at: Picos,
        name: Name,
        place: (usize, usize),
        blocks: usize,
        more: Picos,
    ) {
        let (region, host) = self.names(place);
        let of = match blocks {
            0 => format!("{region}, {host}"),
            blocks => format!("{region}, {host}, {}", Bytes(blocks as u64 * DECODER_UNIT)),
        };
        let devices = self.members[place.0].1.clone();
        self.answer(at, name, of, &devices, more);
    }

    /// Takes memory of a region away from a host: at once, or when the host has given it up.
    pub(crate) fn release(&mut self, at: Picos, place: (usize, usize), forced: bool) {
        let now = at + self.params.command_time;
        let (part, host) = ((place.0, 0), place.1);
        let hold = |has| Step::Hold { part, host, has };
        let mut more = Picos::ZERO;
        if forced {
            self.step(now, hold(Holding::No));
        } else {
            more = self.params.host_time;
            self.step(now, hold(Holding::Leaving));
            self.later(now + more, hold(Holding::No));
        }
        self.answer_of_memory(at, RELEASE, place, 0, more);
    }

    /// Unbinds a host from a device as the option of the command says.
    pub(crate) fn unbind_by(
        &mut self,
        path: &str,
        at: Picos,
        (host, device): (&str, &str),
        option: UnbindOption,
    ) -> Result<(), Problem> {
        let place = self.binding(path, host, device)?;
        if self.now.device(place) != Holding::Yes {
            let found = format!("\"unbind\" of `{host}` from `{device}`, which it is not bound to");
            return Err(wrong(path, at, found, "\"unbind\" of a host that is bound"));
        }
        self.refuse_waiting(path, at, place)?;
        let (managed, more) = match option {
            UnbindOption::ManagedHotRemove => (true, self.params.host_time),
            UnbindOption::SurpriseHotRemove => (false, Picos::ZERO),
            UnbindOption::WaitForLinkDown => return self.unbind_with_link(path, at, place),
        };
        self.unbind(at + self.params.command_time, place, managed);
        self.answer_of_device(at, UNBIND, place, more);
        Ok(())
    }

    /// Unbinds a host from a device: at once, or when the host has given the device up.
    fn unbind(&mut self, now: Picos, (host, device): (usize, usize), managed: bool) {
        let bind = |has| Step::Bind { host, device, has };
        if managed {
            self.step(now, bind(Holding::Leaving));
            self.later(now + self.params.host_time, bind(Holding::No));
        } else {
            self.step(now, bind(Holding::No));
        }
    }

    pub(crate) fn set_share(
        &mut self,
        path: &str,
        at: Picos,
        (device_name, host_name): (&str, &str),
        (allocated, limit): (Option<u16>, Option<u16>),
    ) -> Result<(), Problem> {
        if (allocated, limit) == (None, None) {
            let found = "\"set-qos\" with neither `allocated` nor `limit`";
            let allowed = "at least one of them";
            return Err(Problem::refused(format!("{path}.kind"), found, allowed));
        }
        let host = self.host(&format!("{path}.host"), host_name)?;
        let device = self.device(&format!("{path}.device"), device_name)?;
        let qos = &self.scenario.devices[self.named.device_group[device]].qos;
        if qos.as_ref().and_then(|qos| qos.bandwidth).is_none() {
            let found = format_args!("`{device_name}`, which has no `qos` with `bandwidth`");
            let allowed = "devices with both, whose fractions shares are";
            return Err(Problem::refused(format!("{path}.device"), found, allowed));
        }
        let before = self.shares.get(&(device, host)).copied();
        let (mut share, mut most) = before.unwrap_or((0, None));
        share = allocated.unwrap_or(share);
        most = limit.or(most);
        let shares = self.shares.iter();
        let others = shares.filter(|((of, one), _)| *of == device && *one != host);
        let sum = others.map(|(_, (allocated, _))| allocated).sum::<u16>() + share;
        if sum > 256 {
            let found = format_args!("{sum} of 256 allocated on `{device_name}` in all at {at}");
            let path = format!("{path}.allocated");
            return Err(Problem::refused(path, found, "at most 256"));
        }
        if let Some(most) = most.filter(|most| *most < share) {
            let allowed = format_args!("at least what is allocated then, {share}");
            return Err(Problem::refused(format!("{path}.limit"), most, allowed));
        }
        self.shares.insert((device, host), (share, most));
        let step = Step::Share {
            device,
            share: HostShare {
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

    /// Records the response to a command about a host and a device.
    pub(crate) fn answer_of_device(
        &mut self,
        at: Picos,
        name: Name,
        place: (usize, usize),
        more: Picos,
    ) {
        let (host, device) = place;
        let names = &self.named.names;
        let of = format!("{}, {}", names.requesters[host], names.devices[device]);
        self.answer(at, name, of, &[device], more);
    }

    pub(crate) fn answer(
        &mut self,
        at: Picos,
        name: Name,
        of: String,
        devices: &[usize],
        more: Picos,
    ) {
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
}
