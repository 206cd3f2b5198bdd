//! Links: the two components of each link, their ports, and the link's parameters.

use std::collections::BTreeMap;

use cxlab_device::AcceleratorKind;
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingTables};
use cxlab_link::LinkParams;
use cxlab_protocol::flit::FlitFormat;
use cxlab_scenario::{FabricKind, LinkClass, LinkOverride, Scenario};

use crate::endpoints::PlannedDevice;
use crate::problem::{Problem, Problems, did_you_mean};

/// One end of a link: a component's number among its kind, and its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A host's root port.
    Host(usize, u16),
    /// A device's port.
    Device(usize, u16),
    /// A switch's port.
    Switch(usize, u16),
}

impl End {
    /// Number of the component in a fabric of `hosts` hosts and `devices` devices, counted over
    /// hosts, devices and switches.
    pub(crate) fn component(self, hosts: usize, devices: usize) -> usize {
        match self {
            End::Host(host, _) => host,
            End::Device(device, _) => hosts + device,
            End::Switch(switch, _) => hosts + devices + switch,
        }
    }

    /// Whether the link ends at a switch.
    pub(crate) fn is_switch(self) -> bool {
        matches!(self, End::Switch(..))
    }
}

/// A link of the fabric, with both ends, class and parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedLink {
    /// One end. For a link with a switch and an endpoint this is the endpoint; between
    /// two endpoints, the host.
    pub a: End,
    /// The other end of the link.
    pub b: End,
    /// Index of its class in [`Plan::link_classes`](crate::Plan::link_classes).
    pub class: usize,
    /// The link's parameters, with overrides applied.
    pub params: LinkParams,
}

impl PlannedLink {
    /// Most bandwidth of the link in one direction, in GB/s of cache lines.
    pub(crate) fn gb_per_s(&self) -> f64 {
        // A line has 64 B, and 1 B/ps is 1,000 GB/s.
        64_000.0 / self.params.line_ps()
    }
}

/// Every link of the fabric without its class, and the name of the class if the topology gives one.
fn raw<'a>(graph: &'a FabricGraph, tables: &RoutingTables) -> Vec<(End, End, Option<&'a String>)> {
    let hosts = graph.endpoints.requesters.len();
    let endpoint = |number: usize, port: u16| match number.checked_sub(hosts) {
        None => End::Host(number, port),
        Some(device) => End::Device(device, port),
    };
    let attachments = graph.attachments.iter();
    let classes = attachments
        .filter_map(|attachment| Some((attachment.endpoint, attachment.class.as_ref()?)));
    let class_of: BTreeMap<usize, &String> = classes.collect();
    let mut links = Vec::new();
    for switch in 0..graph.switches.len() {
        for (port, peer) in tables.ports().of(switch).iter().enumerate() {
            let here = End::Switch(switch, port as u16);
            match *peer {
                PortPeer::Endpoint(number) => {
                    let class = class_of.get(&number).copied();
                    links.push((endpoint(number, 0), here, class));
                }
                PortPeer::Cut => {}
                PortPeer::Switch {
                    index,
                    port: far,
                    link,
                } => {
                    // Each link is listed once, though both of its ends are ports.
                    let is_end_a =
                        graph.links[link].a == switch && (index != switch || far > port as u16);
                    if is_end_a {
                        let class = graph.links[link].class.as_ref();
                        links.push((here, End::Switch(index, far), class));
                    }
                }
            }
        }
    }
    let mut next_port = vec![0u16; graph.endpoints.len()];
    for ends in &graph.direct {
        let mut take = |number: usize| {
            next_port[number] += 1;
            endpoint(number, next_port[number] - 1)
        };
        links.push((take(ends.0), take(ends.1), graph.direct_classes.get(ends)));
    }
    links
}

/// Every link of the fabric. `classes` are the link classes of the scenario. Links of PCIe devices
/// carry sync headers, because they are not CXL links. Links between switches with port-based
/// routing carry the flits of PBR links.
///
/// # Errors
/// Overrides that match no link.
pub(crate) fn list(
    scenario: &Scenario,
    graph: &FabricGraph,
    tables: &RoutingTables,
    classes: &[LinkClass],
    devices: &[PlannedDevice],
) -> Result<Vec<PlannedLink>, Vec<Problem>> {
    let endpoints = &graph.endpoints;
    let name = |end: End| match end {
        End::Host(host, _) => endpoints.requesters[host].as_str(),
        End::Device(device, _) => endpoints.devices[device].as_str(),
        End::Switch(switch, _) => graph.switches[switch].name.as_str(),
    };
    let is_pcie_device = |end: End| match end {
        End::Device(number, _) => kind(scenario, &devices[number]) == Some(AcceleratorKind::Pcie),
        End::Host(..) | End::Switch(..) => false,
    };
    let edge = usize::from(scenario.fabric.edge_link.is_some());
    let class_of_device = |number: usize| {
        let group = devices[number].memory();
        let is_of_group = |class: &LinkClass| class.devices.is_some() && class.devices == group;
        classes.iter().position(is_of_group).unwrap_or(edge)
    };
    let class_named = |name: &String| {
        let has_name = |class: &LinkClass| class.name.as_ref() == Some(name);
        classes.iter().position(has_name)
    };
    let overrides = &scenario.fabric.overrides;
    let (mut matched, mut used) = (vec![false; overrides.len()], vec![false; overrides.len()]);
    let mut links = Vec::new();
    for (a, b, given_class) in raw(graph, tables) {
        let mut class = match (a, b) {
            (End::Switch(..), End::Switch(..)) => 0,
            (End::Device(device, _), _) | (_, End::Device(device, _)) => class_of_device(device),
            _ => edge,
        };
        class = given_class.and_then(class_named).unwrap_or(class);
        let mut last_match = None;
        for (number, link_override) in overrides.iter().enumerate() {
            if link_override.matches(name(a), name(b)) {
                matched[number] = true;
                last_match = Some(number);
            }
        }
        if let Some(number) = last_match {
            used[number] = true;
            class = class_named(&overrides[number].link).unwrap_or(class);
        }
        let mut params = classes[class].params.clone();
        if is_pcie_device(a) || is_pcie_device(b) {
            params.sync_header_bypass = Some(false);
        }
        if pbr_link(scenario, devices, (a, b)).is_some() && params.flit_format() == FlitFormat::B256
        {
            params.flit = Some(FlitFormat::B256Pbr);
        }
        links.push(PlannedLink {
            a,
            b,
            class,
            params,
        });
    }
    let unused = (0..overrides.len()).filter(|number| !used[*number]);
    let problem = |number: usize| unmatched(graph, number, &overrides[number], matched[number]);
    unused.map(problem).collect::<Problems>().into_result(links)
}

/// The problem of override `number`, which no link has. `matched` says whether some link matches it.
fn unmatched(
    graph: &FabricGraph,
    number: usize,
    link_override: &LinkOverride,
    matched: bool,
) -> Problem {
    let components = || {
        let switches = graph.switches.iter().map(|switch| switch.name.as_str());
        graph.endpoints.names().chain(switches)
    };
    let [a, b] = &link_override.between;
    let is_unknown =
        |name: &&String| !name.contains('*') && components().all(|component| component != **name);
    let reason = match link_override.between.iter().find(is_unknown) {
        _ if matched => "later overrides take all links between them".to_owned(),
        Some(name) => {
            let hint = did_you_mean(name, components());
            format!("nothing is called `{name}`{hint}")
        }
        None => "no link joins them".to_owned(),
    };
    Problem::refused(
        format!("fabric.overrides[{number}].between"),
        format_args!("`{a}` and `{b}`, and {reason}"),
        "the two ends of a link, by names in which `*` stands for any characters",
    )
}

/// The two kinds of PBR links (CXL 3.1, section 7.7.6.9). Both carry PBR flits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PbrLink {
    /// Between PBR switches.
    InterSwitch,
    /// Between a PBR switch and this G-FAM device. Messages in both directions stay in PBR format
    /// (tables 7-92 and 7-98).
    Gfd(usize),
}

/// The kind of a PBR link; `None` for another link. Links of hosts and of other devices carry HBR
/// messages, which the edge switch converts.
pub(crate) fn pbr_link(
    scenario: &Scenario,
    devices: &[PlannedDevice],
    (a, b): (End, End),
) -> Option<PbrLink> {
    if scenario.fabric.kind != FabricKind::Pbr {
        return None;
    }
    match (a, b) {
        (End::Switch(..), End::Switch(..)) => Some(PbrLink::InterSwitch),
        (End::Device(device, _), End::Switch(..)) | (End::Switch(..), End::Device(device, _)) => {
            let group = &scenario.devices[devices[device].memory()?];
            group.g_fam.then_some(PbrLink::Gfd(device))
        }
        _ => None,
    }
}

/// The kind of an accelerator; `None` for a Type 3 device.
fn kind(scenario: &Scenario, device: &PlannedDevice) -> Option<AcceleratorKind> {
    let group = device.accelerator()?;
    Some(scenario.accelerators[group].device.kind)
}

/// Number of devices behind switches that cache the memory of `host`. `host_of` gives the
/// host of each accelerator.
pub(crate) fn caching_behind(
    scenario: &Scenario,
    links: &[PlannedLink],
    devices: &[PlannedDevice],
    host_of: &[usize],
    host: usize,
) -> usize {
    let memory_devices = devices.len() - host_of.len();
    let caches = |device: usize| {
        let kind = kind(scenario, &devices[device]);
        kind.is_some_and(|kind| kind != AcceleratorKind::Pcie)
    };
    let is_counted = |link: &&PlannedLink| match (link.a, link.b) {
        (End::Device(device, _), End::Switch(..)) => {
            caches(device) && host_of[device - memory_devices] == host
        }
        _ => false,
    };
    links.iter().filter(is_counted).count()
}
