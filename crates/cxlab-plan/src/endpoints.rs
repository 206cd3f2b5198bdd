//! Naming and numbering of hosts and devices, and which host reaches which devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_device::{DeviceChange, DeviceChangeKind};
use cxlab_engine::units::Picos;
use cxlab_fabric::graph::{Endpoints, FabricGraph};
use cxlab_fabric::routing::RoutingTables;
use cxlab_fabric::routing::vcs::{self, VcsHierarchy};
use cxlab_host::AddressMap;
use cxlab_protocol::{DecoderTable, PortId};
use cxlab_scenario::{FabricKind, Scenario};

use crate::problem::{Problem, Problems, unknown};

/// A host, resolved.
pub struct PlannedHost {
    /// Name of the host, unique in the system.
    pub name: String,
    /// Index of its group in the scenario's list of hosts.
    pub group: usize,
    /// The device that owns each address, as this host sees it.
    pub map: Arc<AddressMap>,
    /// When its workload begins, measured from the beginning of the workloads of hosts
    /// present from the start.
    pub joins: Picos,
    /// When the host stops issuing requests, if an event says so.
    pub leaves: Option<Picos>,
}

impl PlannedHost {
    /// Numbers of the devices in the host's address map, in a system of `hosts` hosts. A device is
    /// listed once for each window that it is in.
    pub(crate) fn targets(&self, hosts: usize) -> impl Iterator<Item = usize> {
        let windows = self.map.windows().iter();
        let targets = windows.flat_map(|window| &window.targets);
        targets.map(move |target| usize::from(target.0) - hosts)
    }
}

/// The kind of a device, with the index of its group in the scenario's list of such devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// A Type 3 device: index into the scenario's `devices`.
    Memory(usize),
    /// An accelerator: index into the scenario's `accelerators`.
    Accelerator(usize),
}

/// A device, resolved.
pub struct PlannedDevice {
    /// Name of the device, unique in the system.
    pub name: String,
    /// Kind and group of the device.
    pub group: DeviceKind,
    /// The mapping from each host's addresses to this device; empty if no host reaches the device.
    pub decoders: DecoderTable,
    /// Changes of the mapping, of shares and of viral while the workloads run, in order of time.
    pub changes: Vec<DeviceChange>,
}

impl PlannedDevice {
    /// Changes of the hosts' shares while the workloads run, in order of time.
    pub fn share_changes(&self) -> Vec<DeviceChange> {
        let shares = self.changes.iter().copied();
        let shares = shares.filter(|change| matches!(change.kind, DeviceChangeKind::Share(_)));
        shares.collect()
    }

    /// When the device first goes into viral for some host, measured from the
    /// beginning of the workloads.
    pub fn viral(&self) -> Option<Picos> {
        let mut changes = self.changes.iter();
        let first = changes.find(|change| matches!(change.kind, DeviceChangeKind::Viral(_)));
        first.map(|change| change.at)
    }

    /// Index of its group in the scenario's list of Type 3 devices; `None` for an accelerator.
    pub fn memory(&self) -> Option<usize> {
        match self.group {
            DeviceKind::Memory(group) => Some(group),
            DeviceKind::Accelerator(_) => None,
        }
    }

    /// Index of its group in the scenario's list of accelerators; `None` for a Type 3 device.
    pub fn accelerator(&self) -> Option<usize> {
        match self.group {
            DeviceKind::Memory(_) => None,
            DeviceKind::Accelerator(group) => Some(group),
        }
    }
}

/// When a host's workload begins and ends.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Presence {
    pub(crate) joins: Option<Picos>,
    pub(crate) leaves: Option<Picos>,
}

/// Names of hosts and devices in order, each with its group.
#[derive(Default)]
pub(crate) struct NamedGroups {
    pub(crate) names: Endpoints,
    pub(crate) host_group: Vec<usize>,
    pub(crate) device_group: Vec<usize>,
    /// Number of the first accelerator among the devices.
    pub(crate) first_accelerator: usize,
}

/// Gives every host and device its name.
pub(crate) fn name_all(scenario: &Scenario, problems: &mut Problems) -> NamedGroups {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut expand = |list: &str, at: usize, name: &str, count: u32| {
        let path = format!("{list}[{at}].name");
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            let allowed = "1 to 64 letters, digits, `-` and `_`";
            problems.refuse(&path, format_args!("{name:?}"), allowed);
        }
        let names: Vec<String> = match count {
            1 => vec![name.to_owned()],
            _ => (0..count).map(|i| format!("{name}{i}")).collect(),
        };
        for name in &names {
            if let Some(other) = seen.insert(name.clone(), path.clone()) {
                let found = format_args!("`{name}`, a name that `{other}` has already");
                problems.refuse(&path, found, "a new name");
                break;
            }
        }
        names
    };
    let mut named = NamedGroups::default();
    for (at, group) in scenario.hosts.iter().enumerate() {
        let names = expand("hosts", at, &group.name, group.count);
        named.host_group.extend(names.iter().map(|_| at));
        named.names.requesters.extend(names);
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        let names = expand("devices", at, &group.name, group.count);
        named.device_group.extend(names.iter().map(|_| at));
        named.names.devices.extend(names);
    }
    named.first_accelerator = named.names.devices.len();
    for (at, group) in scenario.accelerators.iter().enumerate() {
        let names = expand("accelerators", at, &group.name, group.count);
        named.device_group.extend(names.iter().map(|_| at));
        named.names.devices.extend(names);
    }
    if named.names.devices.is_empty() {
        let found = "no devices and no accelerators";
        problems.refuse("devices", found, "at least one of either");
    }
    let (count, most) = (named.names.len(), PortId::MAX_COUNT);
    if count > most {
        problems.refuse(
            "hosts",
            format_args!("{count} hosts and devices, which need as many edge ports"),
            format_args!("at most {most} (12-bit PIDs, CXL 3.1 section 7.7.6)"),
        );
    }
    named
}

/// Whether parts of the fabric may be without a path between them. Regions then say which hosts
/// need which devices, and no component but hosts issues requests for memory.
pub(crate) fn may_have_islands(scenario: &Scenario) -> bool {
    !scenario.regions.is_empty() && scenario.accelerators.is_empty()
}

/// The devices that each host reaches: device numbers in ascending order, by host.
pub(crate) fn reach(
    scenario: &Scenario,
    graph: &FabricGraph,
    tables: &RoutingTables,
    named: &NamedGroups,
) -> Result<Vec<Vec<usize>>, Vec<Problem>> {
    let first = named.names.requesters.len();
    match scenario.fabric.kind {
        FabricKind::SingleVcs | FabricKind::MultipleVcs => vcs_reach(scenario, graph, named),
        FabricKind::Pbr => {
            if !scenario.fabric.bindings.is_empty() {
                return Err(vec![Problem::refused(
                    "fabric.bindings",
                    "bindings with kind = \"pbr\"",
                    "none, or kind = \"multiple-vcs\" (only virtual CXL switches have bindings)",
                )]);
            }
            if graph.direct.is_empty() && !may_have_islands(scenario) {
                // The tables refuse an unreachable pair only if an endpoint has no path at all, so
                // every pair of switches with endpoints is checked.
                check_pairs(scenario, graph, tables, named)?;
                let all: Vec<usize> = (0..named.names.devices.len()).collect();
                return Ok(vec![all; first]);
            }
            let reached = (0..first).map(|host| tables.reachable(host));
            Ok(numbered(reached, first))
        }
    }
}

fn check_pairs(
    scenario: &Scenario,
    graph: &FabricGraph,
    tables: &RoutingTables,
    named: &NamedGroups,
) -> Result<(), Vec<Problem>> {
    let first = named.names.requesters.len();
    let mut problems = Problems::default();
    for host in 0..first {
        for device in named.names.device_range() {
            if let Err(error) = tables.require(graph, host, device) {
                let allowed = "allowed: a path from every host to every device, or [[regions]] that no gap crosses";
                let text = match scenario.accelerators.is_empty() {
                    true => format!("{error}; {allowed}"),
                    false => error.to_string(),
                };
                problems.push(Problem::new("fabric.topology", text));
            }
            if problems.len() == 8 {
                return problems.into_result(());
            }
        }
    }
    problems.into_result(())
}

fn vcs_reach(
    scenario: &Scenario,
    graph: &FabricGraph,
    named: &NamedGroups,
) -> Result<Vec<Vec<usize>>, Vec<Problem>> {
    let first = named.names.requesters.len();
    let mut problems = Problems::default();
    let mut bindings = Vec::new();
    for (at, binding) in scenario.fabric.bindings.iter().enumerate() {
        let path = format!("fabric.bindings[{at}]");
        let mut number = |key: &str, name: &str, what: &str, known: &[String]| {
            let found = known.iter().position(|one| one == name);
            if found.is_none() {
                problems.push(unknown(format!("{path}.{key}"), name, what, known));
            }
            found
        };
        let device = number("device", &binding.device, "a device", &named.names.devices);
        let host = number("host", &binding.host, "a host", &named.names.requesters);
        let binding = device.zip(host);
        bindings.extend(binding.map(|(device, host)| (first + device, host)));
    }
    problems.into_result(())?;
    let hierarchy = match scenario.fabric.kind {
        FabricKind::SingleVcs if !bindings.is_empty() => {
            return Err(vec![Problem::refused(
                "fabric.bindings",
                "bindings with kind = \"single-vcs\"",
                "none (a single virtual CXL switch has one host), or kind = \"multiple-vcs\"",
            )]);
        }
        FabricKind::SingleVcs => VcsHierarchy::Single,
        FabricKind::MultipleVcs | FabricKind::Pbr => VcsHierarchy::Multiple(bindings),
    };
    let path = match scenario.fabric.bindings.is_empty() {
        true => "fabric.kind",
        false => "fabric.bindings",
    };
    let reach = vcs::check(graph, &hierarchy);
    let reach = reach.map_err(|error| Problem::new(path, error.to_string()))?;
    Ok(numbered(reach, first))
}

/// Numbers among the devices for numbers among the endpoints, of which `first` is the first device.
fn numbered(reach: impl IntoIterator<Item = Vec<usize>>, first: usize) -> Vec<Vec<usize>> {
    let of_host = |devices: Vec<usize>| devices.into_iter().map(|device| device - first).collect();
    reach.into_iter().map(of_host).collect()
}

impl NamedGroups {
    pub(crate) fn hosts(
        &self,
        maps: Vec<Arc<AddressMap>>,
        presence: &[Presence],
    ) -> Vec<PlannedHost> {
        let names = self.names.requesters.iter().zip(&self.host_group);
        let all = names.zip(maps.into_iter().zip(presence));
        let hosts = all.map(|((name, group), (map, presence))| PlannedHost {
            name: name.clone(),
            group: *group,
            map,
            joins: presence.joins.unwrap_or(Picos::ZERO),
            leaves: presence.leaves,
        });
        hosts.collect()
    }

    pub(crate) fn devices(
        &self,
        decoders: Vec<DecoderTable>,
        timelines: Vec<Vec<DeviceChange>>,
    ) -> Vec<PlannedDevice> {
        let kind = |(number, group): (usize, &usize)| match number < self.first_accelerator {
            true => DeviceKind::Memory(*group),
            false => DeviceKind::Accelerator(*group),
        };
        let kinds = self.device_group.iter().enumerate().map(kind);
        let all = self.names.devices.iter().zip(kinds);
        let all = all.zip(decoders.into_iter().zip(timelines));
        let devices = all.map(|((name, group), (decoders, changes))| PlannedDevice {
            name: name.clone(),
            group,
            decoders,
            changes,
        });
        devices.collect()
    }
}
