//! Naming and numbering of hosts and devices, and which host reaches which devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_device::DeviceChange;
use cxlab_engine::units::Picos;
use cxlab_fabric::graph::{Endpoints, FabricGraph};
use cxlab_fabric::routing::RoutingTables;
use cxlab_fabric::routing::vcs::{self, VcsHierarchy};
use cxlab_host::AddressMap;
use cxlab_protocol::{DecoderTable, PortId};
use cxlab_scenario::diagnostics::nearest;
use cxlab_scenario::{FabricKind, Scenario};

use super::manager::Presence;
use super::{DeviceKind, PlannedDevice, PlannedHost, Problem};

/// Names of hosts and devices in order, each with its group.
pub(crate) struct Named {
    pub(crate) names: Endpoints,
    pub(crate) host_group: Vec<usize>,
    pub(crate) device_group: Vec<usize>,
    /// Number of the first accelerator among the devices.
    pub(crate) first_accelerator: usize,
}

/// Gives every host and device its name.
pub(crate) fn name_all(scenario: &Scenario, problems: &mut Vec<Problem>) -> Named {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut expand = |list: &str, at: usize, name: &str, count: u32| -> Vec<String> {
        let path = format!("{list}[{at}].name");
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            problems.push(Problem::new(
                &path,
                format!("found {name:?}; allowed: 1 to 64 letters, digits, `-` and `_`"),
            ));
        }
        let names: Vec<String> = if count == 1 {
            vec![name.to_owned()]
        } else {
            (0..count).map(|i| format!("{name}{i}")).collect()
        };
        for name in &names {
            if let Some(other) = seen.insert(name.clone(), path.clone()) {
                problems.push(Problem::new(
                    &path,
                    format!(
                        "found `{name}`, a name that `{other}` has already; allowed: a new name"
                    ),
                ));
                break;
            }
        }
        names
    };
    let mut named = Named {
        names: Endpoints::default(),
        host_group: Vec::new(),
        device_group: Vec::new(),
        first_accelerator: 0,
    };
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
        problems.push(Problem::new(
            "devices",
            "found no devices and no accelerators; allowed: at least one of either",
        ));
    }
    if named.names.len() > PortId::MAX_COUNT {
        problems.push(Problem::new(
            "hosts",
            format!(
                "found {} hosts and devices, which need as many edge ports; allowed: at most {} \
                 (12-bit PIDs, CXL 3.1 section 7.7.6)",
                named.names.len(),
                PortId::MAX_COUNT
            ),
        ));
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
    named: &Named,
) -> Result<Vec<Vec<usize>>, Vec<Problem>> {
    let first = named.names.requesters.len();
    match scenario.fabric.kind {
        FabricKind::SingleVcs | FabricKind::MultipleVcs => vcs_reach(scenario, graph, named),
        FabricKind::Pbr => {
            if !scenario.fabric.bindings.is_empty() {
                return Err(vec![Problem::new(
                    "fabric.bindings",
                    "found bindings with kind = \"pbr\"; allowed: none, or kind = \"multiple-vcs\" (only \
                     virtual CXL switches have bindings)",
                )]);
            }
            if graph.direct.is_empty() && !may_have_islands(scenario) {
                // The tables refuse an unreachable pair only if an endpoint has no path at all, so
                // every pair of switches with endpoints is checked.
                check_pairs(scenario, graph, tables, named)?;
                let all: Vec<usize> = (0..named.names.devices.len()).collect();
                return Ok(vec![all; first]);
            }
            Ok((0..first)
                .map(|host| {
                    tables
                        .reachable(host)
                        .into_iter()
                        .map(|device| device - first)
                        .collect()
                })
                .collect())
        }
    }
}

fn check_pairs(
    scenario: &Scenario,
    graph: &FabricGraph,
    tables: &RoutingTables,
    named: &Named,
) -> Result<(), Vec<Problem>> {
    let first = named.names.requesters.len();
    let mut problems = Vec::new();
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
                return Err(problems);
            }
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

fn vcs_reach(
    scenario: &Scenario,
    graph: &FabricGraph,
    named: &Named,
) -> Result<Vec<Vec<usize>>, Vec<Problem>> {
    let first = named.names.requesters.len();
    let mut problems = Vec::new();
    let mut bindings = Vec::new();
    for (at, binding) in scenario.fabric.bindings.iter().enumerate() {
        let device = named
            .names
            .devices
            .iter()
            .position(|name| *name == binding.device);
        let host = named
            .names
            .requesters
            .iter()
            .position(|name| *name == binding.host);
        match (device, host) {
            (Some(device), Some(host)) => bindings.push((first + device, host)),
            (device, host) => {
                let path = format!("fabric.bindings[{at}]");
                if device.is_none() {
                    let (name, known) = (&binding.device, &named.names.devices);
                    problems.push(unknown(format!("{path}.device"), name, "a device", known));
                }
                if host.is_none() {
                    let (name, known) = (&binding.host, &named.names.requesters);
                    problems.push(unknown(format!("{path}.host"), name, "a host", known));
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let hierarchy = match scenario.fabric.kind {
        FabricKind::SingleVcs if !bindings.is_empty() => {
            return Err(vec![Problem::new(
                "fabric.bindings",
                "found bindings with kind = \"single-vcs\"; allowed: none (a single virtual CXL switch \
                 has one host), or kind = \"multiple-vcs\"",
            )]);
        }
        FabricKind::SingleVcs => VcsHierarchy::Single,
        FabricKind::MultipleVcs | FabricKind::Pbr => VcsHierarchy::Multiple(bindings),
    };
    let path = if scenario.fabric.bindings.is_empty() {
        "fabric.kind"
    } else {
        "fabric.bindings"
    };
    let reach = vcs::check(graph, &hierarchy)
        .map_err(|error| vec![Problem::new(path, error.to_string())])?;
    Ok(reach
        .into_iter()
        .map(|devices| devices.into_iter().map(|device| device - first).collect())
        .collect())
}

/// The problem of a name that is not among the known ones, with a near name as a hint.
pub(crate) fn unknown(path: String, found: &str, what: &str, known: &[String]) -> Problem {
    let hint = nearest(found, known.iter().map(String::as_str))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    let allowed = some_of(known);
    Problem::new(
        path,
        format!("found `{found}`, which is not {what}; allowed: {allowed}{hint}"),
    )
}

/// The first few names of a list, for a message.
fn some_of(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(8)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > 8 {
        format!("{shown}, ...")
    } else {
        shown
    }
}

impl Named {
    pub(crate) fn hosts(
        &self,
        maps: Vec<Arc<AddressMap>>,
        presence: &[Presence],
    ) -> Vec<PlannedHost> {
        let names = self.names.requesters.iter().zip(&self.host_group);
        names
            .zip(maps.into_iter().zip(presence))
            .map(|((name, group), (map, presence))| PlannedHost {
                name: name.clone(),
                group: *group,
                map,
                joins: presence.joins.unwrap_or(Picos::ZERO),
                leaves: presence.leaves,
            })
            .collect()
    }

    pub(crate) fn devices(
        &self,
        decoders: Vec<DecoderTable>,
        timelines: Vec<Vec<DeviceChange>>,
    ) -> Vec<PlannedDevice> {
        let names = self
            .names
            .devices
            .iter()
            .zip(&self.device_group)
            .zip(decoders.into_iter().zip(timelines))
            .enumerate();
        names
            .map(
                |(number, ((name, group), (decoders, changes)))| PlannedDevice {
                    name: name.clone(),
                    group: match number < self.first_accelerator {
                        true => DeviceKind::Memory(*group),
                        false => DeviceKind::Accelerator(*group),
                    },
                    decoders,
                    changes,
                },
            )
            .collect()
    }
}
