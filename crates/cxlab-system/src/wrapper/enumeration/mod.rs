//! Enumeration as the first phase of a run: software on each host performs its accesses over the links of the
//! system. Every component responds from its own registers.
//!
//! During the phase each component is wrapped ([`Enumerating`]). Hosts and devices inside a wrapper are idle:
//! only their ports are used. Switches forward as usual. The wrapper takes out requests for a virtual
//! switch's registers, or chooses their route. When no access is left, the wrappers are removed, the
//! committed decoders are compared with the plan, and all components start. So the phase costs other phases
//! neither time nor a branch.
//!
//! Left out: other work of firmware (link training, ACPI), register accesses after the phase, hot plug.

mod answers;
mod host;
mod registers;
#[cfg(test)]
mod tests;

use cxlab_engine::Ctx;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{LinkPort, Parcel};
use cxlab_plan::{Hierarchy, Plan};
use cxlab_protocol::PortId;
use cxlab_protocol::io::enumerate::{EnumerationLog, Phase};
use cxlab_protocol::io::tree::{Function, RootComplex, Switch};

pub(crate) use host::Software;
pub(crate) use registers::{LogicalDevices, VirtualSwitches};

use super::tokens::CompletionWake;
use super::{Inner, Kind};

/// Role of a component while hosts enumerate.
#[allow(clippy::large_enum_variant)]
pub(crate) enum EnumerationRole {
    /// A host runs enumeration software.
    Host(Software),
    /// A switch responds for its virtual switches.
    Switch(VirtualSwitches),
    /// A device responds for its logical devices.
    Device(LogicalDevices),
}

/// A component while hosts enumerate.
pub struct Enumerating<N> {
    /// The component inside; absent only after it was taken out.
    node: Option<N>,
    part: EnumerationRole,
}

fn inside<N>(node: &mut Option<N>) -> &mut N {
    match node {
        Some(node) => node,
        None => unreachable!("a component is taken out when the phase is over"),
    }
}

impl<N: Inner> Enumerating<N> {
    pub(crate) fn node_mut(&mut self) -> &mut N {
        inside(&mut self.node)
    }

    /// Takes the component out, once.
    pub(crate) fn take(&mut self) -> Option<N> {
        self.node.take()
    }

    /// The part of the wrapper that holds results.
    pub(crate) fn into_part(self) -> EnumerationRole {
        self.part
    }

    pub(crate) fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        self.node_mut().port_mut(port)
    }

    /// Measurement begins after the phase.
    pub(crate) fn begin_measurement(&mut self, _now: SimTime) {}

    /// Number of accesses and messages that are still outstanding.
    pub(crate) fn in_flight(&self) -> u64 {
        match &self.part {
            EnumerationRole::Host(software) => software.holds(),
            EnumerationRole::Switch(switches) => {
                switches.answers.holds() + self.node.as_ref().map_or(0, Inner::in_flight)
            }
            EnumerationRole::Device(devices) => devices.answers.holds(),
        }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let EnumerationRole::Host(software) = &mut self.part {
            software.start(ctx);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let node = inside(&mut self.node);
        match &mut self.part {
            EnumerationRole::Host(software) => software.receive(ctx, node, port, parcel),
            EnumerationRole::Switch(switches) => switches.receive(ctx, node, port, parcel),
            EnumerationRole::Device(devices) => devices.receive(ctx, node, port, parcel),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let node = inside(&mut self.node);
        match &mut self.part {
            EnumerationRole::Host(software) => software.wake(ctx, node, token),
            EnumerationRole::Switch(switches) => switches.wake(ctx, node, token),
            EnumerationRole::Device(devices) => {
                if let Some(wake) = CompletionWake::of(token) {
                    devices.answers.wake(ctx, node, wake);
                }
            }
        }
    }
}

impl<N> SaveState for Enumerating<N> {
    fn save(&self, out: &mut StateWriter) {
        out.refuse("hosts that still enumerate");
    }

    fn restore(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::new("hosts still enumerate"))
    }
}

/// Result of a host's enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumerationResult {
    /// Accesses made and functions found.
    pub log: EnumerationLog,
    /// Duration from the beginning of the run.
    pub duration: Picos,
    /// Duration of each phase.
    pub phases: [Picos; Phase::ALL.len()],
}

/// The registers of all components after the phase, by host.
#[derive(Default)]
struct Registers {
    roots: Vec<RootComplex>,
    /// Registers by host and switch.
    switches: Vec<(PortId, usize, Switch)>,
    /// Registers by host and device.
    devices: Vec<(PortId, usize, Function)>,
}

/// Ends the phase: checks the result of each host. `parts` are the parts of all wrappers, by component.
///
/// # Errors
/// A law that does not hold.
pub(crate) fn finish(
    parts: Vec<(usize, EnumerationRole)>,
    plan: &Plan,
) -> Result<Vec<EnumerationResult>, String> {
    let (hosts, devices) = (plan.hosts.len(), plan.devices.len());
    let mut registers = Registers::default();
    let mut enumerated = Vec::new();
    for (number, part) in parts {
        match part {
            EnumerationRole::Host(software) => {
                let name = &plan.hosts[number].name;
                let done = software.result();
                let (done, root) =
                    done.map_err(|error| format!("host {name} did not enumerate: {error}"))?;
                enumerated.push(done);
                registers.roots.push(root);
            }
            EnumerationRole::Switch(switches) => {
                let all = switches.registers.into_iter();
                let all = all.map(|(host, one)| (host, number - hosts - devices, one));
                registers.switches.extend(all);
            }
            EnumerationRole::Device(logical) => {
                let all = logical.registers.into_iter();
                let all = all.map(|(host, one)| (host, number - hosts, one));
                registers.devices.extend(all);
            }
        }
    }
    for (host, (hierarchy, done)) in plan.hierarchies.iter().zip(&enumerated).enumerate() {
        check(plan, host, hierarchy, done, &registers)
            .map_err(|wrong| format!("enumeration of host {}: {wrong}", plan.hosts[host].name))?;
    }
    Ok(enumerated)
}

/// Interleaving rounds at either end of a region that are compared.
const TURNS: u64 = 4;

/// Checks the laws of a host's enumeration. The host made the same accesses as the same software without
/// simulated time. Its committed decoders map every address as the plan does.
fn check(
    plan: &Plan,
    host: usize,
    hierarchy: &Hierarchy,
    done: &EnumerationResult,
    registers: &Registers,
) -> Result<(), String> {
    if done.log != hierarchy.log {
        let (there, here) = (&hierarchy.log.accesses, &done.log.accesses);
        let same = here.iter().zip(there).take_while(|(a, b)| a == b).count();
        return Err(format!(
            "access {same} of {} is {:?}, without a clock {:?}",
            here.len(),
            here.get(same),
            there.get(same)
        ));
    }
    let id = PortId(host as u16);
    let switches = hierarchy.switches.iter().filter_map(|planned| {
        let mut known = registers.switches.iter();
        let found = known.find(|(of, number, _)| (*of, *number) == (id, planned.switch));
        found.map(|(_, _, switch)| switch.clone())
    });
    let devices = hierarchy.devices.iter().filter_map(|planned| {
        let mut known = registers.devices.iter();
        let found = known.find(|(of, number, _)| (*of, *number) == (id, *planned));
        found.map(|(_, _, function)| function.clone())
    });
    let root = registers.roots[host].assembled(switches, devices);
    let tables = root.tables();
    let planned = plan.hosts[host].map.windows();
    for (region, window) in planned.iter().enumerate() {
        let of_goal = &hierarchy.goal.regions[region];
        let fixed = tables.window(of_goal.base, of_goal.size);
        if fixed.map(|fixed| of_goal.set(fixed)) != Some(Ok(window.set)) {
            return Err(format!("region {region} is not the plan's window"));
        }
        match hierarchy.goal.mismatch(region, &root, TURNS) {
            Ok(None) => {}
            Ok(Some(hpa)) => {
                return Err(format!(
                    "the HDM decoders take {:#x} of region {region} elsewhere than the plan",
                    hpa.0
                ));
            }
            Err(error) => return Err(format!("region {region}: {error}")),
        }
    }
    Ok(())
}

/// Wraps the components of a system whose hosts enumerate. `make` makes a component of a wrapper.
pub(crate) fn wrap<N: Inner>(
    nodes: Vec<N>,
    plan: &Plan,
    constants: &Constants<'_>,
    make: impl Fn(Box<Enumerating<N>>) -> N,
) -> Vec<N> {
    let Some(params) = &plan.scenario.enumeration else {
        return nodes;
    };
    let (hosts, devices) = (plan.hosts.len(), plan.devices.len());
    let wrapped = nodes.into_iter().enumerate().map(|(number, mut node)| {
        let part = if number < hosts {
            let constant = (constants.host)(number);
            EnumerationRole::Host(Software::new(plan, number, params, constant))
        } else if number < hosts + devices {
            let constant = (constants.device)(number - hosts);
            let time = params.register_time;
            EnumerationRole::Device(LogicalDevices::new(plan, number - hosts, constant, time))
        } else if matches!(node.kind(), Kind::Switch(_)) {
            let constant = plan.scenario.fabric.switch.switching_time;
            let (of, time) = (number - hosts - devices, params.register_time);
            EnumerationRole::Switch(VirtualSwitches::new(plan, of, constant, time))
        } else {
            return node;
        };
        let node = Some(node);
        make(Box::new(Enumerating { node, part }))
    });
    wrapped.collect()
}

/// Constant times of components that are part of the delay of the wires at them, in sum over both directions.
pub(crate) struct Constants<'a> {
    /// Constant time of each host.
    pub(crate) host: &'a dyn Fn(usize) -> Picos,
    /// Constant time of each device.
    pub(crate) device: &'a dyn Fn(usize) -> Picos,
}
