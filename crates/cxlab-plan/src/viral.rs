//! Viral: which devices an event puts into viral, for which hosts, and when (CXL 3.1, section 12.4).
//!
//! Viral belongs to a virtual hierarchy: a host and its parts of devices. An event of a host reaches
//! all devices of the host. An event of a device affects all parts of the device at once, reaches the
//! hosts of these parts, and from each host all its devices. Other hosts' parts of those devices are
//! not affected (section 12.4.1: a virtual switch, and a logical device, go into viral by themselves).
//!
//! The indication travels in flits of its own, which no message delays. On each link it takes the
//! time of the smallest unit that a receiver can use, plus the constant delays of links and
//! switches. So the indication arrives before any message that was sent after it ("The Viral
//! indication must arrive before any data that may have been affected by the error"). Only a reset
//! ends viral, and the model has no such reset.

use std::collections::BTreeMap;

use cxlab_device::{DeviceChange, DeviceChangeKind};
use cxlab_engine::units::Picos;
use cxlab_fabric::routing::{PortPeer, RoutingTables};
use cxlab_link::{LinkParams, Transmission};
use cxlab_memory::Medium;
use cxlab_protocol::PortId;
use cxlab_scenario::Scenario;

use crate::endpoints::{NamedGroups, PlannedDevice, PlannedHost};
use crate::events::needs_its_memory;
use crate::failures;
use crate::links::{End, PlannedLink};
use crate::problem::{Problem, Problems, unknown};

/// Whether some event puts a component into viral.
fn has_any(scenario: &Scenario) -> bool {
    scenario.events.iter().any(|event| event.viral().is_some())
}

/// Checks the names in events, and that the other components can handle dropped writes.
pub(crate) fn check(scenario: &Scenario, named: &NamedGroups, problems: &mut Problems) {
    let names: Vec<String> = named.names.names().map(str::to_owned).collect();
    for (number, event) in scenario.events.iter().enumerate() {
        if let Some(component) = event.viral()
            && !names.iter().any(|name| name == component)
        {
            let path = format!("events[{number}].component");
            problems.push(unknown(path, component, "a host or a device", &names));
        }
    }
    if !has_any(scenario) {
        return;
    }
    let mut wrong = |path: String, found: &str, allowed: &str| {
        let found = format_args!("{found} beside events of kind \"viral\"");
        problems.refuse(path, found, allowed);
    };
    for (at, group) in scenario.hosts.iter().enumerate() {
        if let Some(part) = needs_its_memory(scenario, group) {
            wrong(
                format!("hosts[{at}].{part}"),
                &format!("`{part}`"),
                "requesters without caches, with `issue` alone, and processors that run patterns, traces or programs, \
                 without `os` and accelerators",
            );
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        if group.is_hdm_db() {
            let path = format!("devices[{at}].coherence.class");
            wrong(path, "\"hdm-db\"", "\"hdm-h\"");
        }
        if group.media_errors.is_some() {
            let path = format!("devices[{at}].media_errors");
            let allowed = "none (a dropped write does not repair a line)";
            wrong(path, "media errors", allowed);
        }
    }
    if !scenario.accelerators.is_empty() {
        let path = "accelerators[0]".to_owned();
        wrong(path, "an accelerator", "hosts and Type 3 devices");
    }
    if failures::has_any(scenario) {
        let path = "events".to_owned();
        wrong(
            path,
            "events by which components fail",
            "fabrics that stay whole (the indication would have to find its way)",
        );
    }
}

/// The part of the system that indications travel through.
pub(crate) struct Fabric<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) tables: &'a RoutingTables,
    pub(crate) links: &'a [PlannedLink],
    pub(crate) hosts: &'a [PlannedHost],
}

impl Fabric<'_> {
    /// Adds the viral changes of each device. `media` has the medium of each device group.
    ///
    /// # Errors
    /// Media of which only a part is persistent.
    pub(crate) fn spread(
        &self,
        devices: &mut [PlannedDevice],
        media: &[Box<dyn Medium>],
    ) -> Result<(), Problem> {
        if !has_any(self.scenario) {
            return Ok(());
        }
        for (group, medium) in media.iter().enumerate() {
            if medium.is_persistent().is_none() {
                return Err(Problem::refused(
                    format!("devices[{group}].memory"),
                    "volatile and persistent media in one device beside events of kind \"viral\"",
                    "media of one kind",
                ));
            }
        }
        let of_host: Vec<Vec<usize>> = self.hosts.iter().map(|host| self.devices(host)).collect();
        let times = self.times();
        let mut found: BTreeMap<(usize, usize), Picos> = BTreeMap::new();
        let mut enter = |device: usize, host: usize, at: Picos| {
            let known = found.entry((device, host)).or_insert(at);
            *known = at.min(*known);
        };
        for event in &self.scenario.events {
            let Some(name) = event.viral() else { continue };
            let mut hosts = Vec::new();
            if let Some(host) = self.hosts.iter().position(|host| host.name == name) {
                hosts.push((host, event.at()));
            }
            if let Some(device) = devices.iter().position(|device| device.name == name) {
                for (host, own) in of_host.iter().enumerate() {
                    if own.contains(&device) {
                        enter(device, host, event.at());
                        hosts.push((host, event.at() + self.time(&times, host, device)));
                    }
                }
            }
            for (host, at) in hosts {
                for device in &of_host[host] {
                    enter(*device, host, at + self.time(&times, host, *device));
                }
            }
        }
        for ((device, host), at) in found {
            let kind = DeviceChangeKind::Viral(PortId(host as u16));
            devices[device].changes.push(DeviceChange { at, kind });
        }
        for device in devices {
            device.changes.sort_by_key(|change| change.at);
        }
        Ok(())
    }

    fn devices(&self, host: &PlannedHost) -> Vec<usize> {
        let mut devices: Vec<usize> = host.targets(self.hosts.len()).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The time that an indication takes on each link.
    fn times(&self) -> Times {
        let mut times = Times::default();
        for link in self.links {
            let time = unit_ps(&link.params);
            if let (End::Host(host, _), End::Device(device, _)) = (link.a, link.b) {
                times.direct.insert((host, device), time);
            }
            for end in [link.a, link.b] {
                if let End::Switch(switch, port) = end {
                    times.switched.insert((switch, port), time);
                }
            }
        }
        times
    }

    /// The time that an indication takes from a host to a device, or back.
    fn time(&self, times: &Times, host: usize, device: usize) -> Picos {
        let Some((mut switch, mut port)) = self.tables.ports().edge(host) else {
            return Picos(times.direct.get(&(host, device)).copied().unwrap_or(0));
        };
        let cross = |switch, port| times.switched.get(&(switch, port)).copied().unwrap_or(0);
        let mut time = cross(switch, port);
        let there = self.hosts.len() + device;
        while let Some(next) = self.tables.candidates(switch, there).first() {
            port = *next;
            time += self.scenario.fabric.switch.switching_time.0 + cross(switch, port);
            match self.tables.ports().of(switch)[usize::from(port)] {
                PortPeer::Switch { index, .. } => switch = index,
                PortPeer::Endpoint(_) | PortPeer::Cut => break,
            }
        }
        Picos(time)
    }
}

/// The time that an indication takes on each link, in picoseconds.
#[derive(Default)]
struct Times {
    /// By host and device with a direct link.
    direct: BTreeMap<(usize, usize), u64>,
    /// By switch and port of the link.
    switched: BTreeMap<(usize, u16), u64>,
}

/// Transmission time of the smallest unit that a receiver can use, in picoseconds.
fn unit_ps(params: &LinkParams) -> u64 {
    let bytes = match params.transmission {
        Transmission::Flit => {
            let format = params.flit_format();
            format.bytes() / u64::from(format.halves())
        }
        Transmission::Packet => params.packet.sizes().into_iter().min().unwrap_or(0),
    };
    let wire = u128::from(bytes) * 1_000_000_000_000 / u128::from(params.rate().0.max(1));
    params.crossing_ps() + wire as u64
}
