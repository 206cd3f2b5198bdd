//! Links: the two components of each link, their ports, and the link's parameters.

use std::collections::BTreeMap;

use cxlab_device::AcceleratorKind;
use cxlab_engine::units::{LINE_BYTES, Picos};
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingTables};
use cxlab_host::PartialWrite;
use cxlab_link::{Duplex, LinkParams, Transmission};
use cxlab_protocol::flit::FlitFormat;
use cxlab_scenario::diagnostics::nearest;
use cxlab_scenario::{FabricKind, LinkClass, Note, Scenario};
use cxlab_workload::Workload;
use serde_json::Value;

use super::{DeviceKind, Plan, PlannedDevice, Problem};

/// Longest delay of a link.
const LONGEST_DELAY: Picos = Picos(1_000_000_000);

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
    /// Index of its class in [`Plan::link_classes`].
    pub class: usize,
    /// The link's parameters, with overrides applied.
    pub params: LinkParams,
}

/// Checks the parameters of the scenario's links.
pub(crate) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let before = problems.len();
    for class in scenario.fabric.link_classes() {
        // A problem of `fabric.link` is also a problem of the links that inherit from it.
        if class.name.is_none() || problems.len() == before {
            check_one(&class.path, &class.params, problems);
        }
    }
    let simple = |name: &str| {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !name.is_empty() && name.chars().all(legal)
    };
    for name in scenario.fabric.links.keys().filter(|name| !simple(name)) {
        problems.push(Problem::new(
            "fabric.links",
            format!("found the name `{name}`; allowed: letters, digits, `-` and `_`"),
        ));
    }
    let given = scenario.fabric.overrides.iter().enumerate();
    for (at, one) in given {
        check_name(
            scenario,
            &format!("fabric.overrides[{at}].link"),
            &one.link,
            problems,
        );
    }
    for (at, name) in custom_names(scenario) {
        check_name(
            scenario,
            &format!("fabric.topology.links[{at}][2]"),
            name,
            problems,
        );
    }
}

/// The names of links that the list of a custom topology refers to, with their indices in the list.
fn custom_names(scenario: &Scenario) -> impl Iterator<Item = (usize, &str)> {
    let topology = &scenario.fabric.topology;
    let list = topology
        .params
        .get("links")
        .filter(|_| topology.kind == "custom");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.enumerate().filter_map(third)
}

/// The third word of an entry of a list, with the index of the entry.
fn third((at, link): (usize, &Value)) -> Option<(usize, &str)> {
    Some((at, link.get(2)?.as_str()?))
}

/// Checks that a link of this name exists.
fn check_name(scenario: &Scenario, path: &str, name: &str, problems: &mut Vec<Problem>) {
    let known = &scenario.fabric.links;
    if known.contains_key(name) {
        return;
    }
    let hint = nearest(name, known.keys().map(String::as_str))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let allowed = match names.as_slice() {
        [] => "a name in [fabric.links], which has none".to_owned(),
        names => names.join(", "),
    };
    problems.push(Problem::new(
        path,
        format!("found `{name}`; allowed: {allowed}{hint}"),
    ));
}

fn check_one(path: &str, link: &LinkParams, problems: &mut Vec<Problem>) {
    let mut wrong = |field: &str, message: String| {
        problems.push(Problem::new(format!("{path}.{field}"), message));
    };
    if let Some(rate) = link.bandwidth
        && !(1_000_000..=1_000_000_000_000_000).contains(&rate.0)
    {
        wrong(
            "bandwidth",
            format!("found {rate}; allowed: 1 MB/s to 1000 TB/s"),
        );
    }
    let has_sync_headers = link.generation.has_sync_headers() && link.bandwidth.is_none();
    if link.sync_header_bypass == Some(true) && !has_sync_headers {
        wrong(
            "sync_header_bypass",
            "found true; allowed: generation 3, 4 or 5 without `bandwidth` (generations 6 and 7 have no \
             sync headers, CXL 3.1 table 6-15)"
                .to_owned(),
        );
    }
    let spans = [
        ("propagation", link.propagation),
        ("port_delay", link.port_delay),
        ("fec_delay", link.fec_delay.unwrap_or(Picos::ZERO)),
        ("retimer_delay", link.retimer_delay),
        ("turnaround", link.turnaround),
    ];
    for (field, span) in spans {
        if span > LONGEST_DELAY {
            wrong(
                field,
                format!("found {span}; allowed: at most {LONGEST_DELAY}"),
            );
        }
    }
    // This check also keeps the sums below from overflowing.
    if spans.iter().any(|(_, span)| *span > LONGEST_DELAY) {
        return;
    }
    if link.crossing_ps() < 2 {
        wrong(
            "propagation",
            format!(
                "found {}, with ports and retimers {} ps; allowed: at least 2 ps together, or \
                 nothing would lie between cause and effect",
                link.propagation,
                link.crossing_ps()
            ),
        );
    }
    match link.transmission {
        Transmission::Packet => {
            for (field, size) in [
                ("header", link.packet.header),
                ("data_header", link.packet.data_header),
                ("staging", link.packet.staging),
            ] {
                if size.0 > 65536 {
                    let allowed = "allowed: at most 64 KiB";
                    wrong(
                        &format!("packet.{field}"),
                        format!("found {size}; {allowed}"),
                    );
                    return;
                }
            }
            if link.flit.is_some() {
                wrong(
                    "flit",
                    "found a flit format; allowed: none with transmission = \"packet\"".to_owned(),
                );
            }
        }
        Transmission::Flit => {
            if link.duplex == Duplex::Half {
                wrong(
                    "duplex",
                    "found \"half\"; allowed: \"full\", or transmission = \"packet\" (CXL flits \
                     exist on full-duplex PCIe only)"
                        .to_owned(),
                );
            }
            let flit_mode = link.generation >= cxlab_link::PcieGeneration::Gen6;
            if flit_mode && link.flit == Some(FlitFormat::B68) {
                wrong(
                    "flit",
                    "found 68B flits on generation 6 or 7; allowed there: the 256B formats of FLIT \
                     mode (68B ends with generation 5)"
                        .to_owned(),
                );
            }
        }
    }
    let rate = link.flit_error_rate.0;
    if !(0.0..=0.1).contains(&rate) {
        wrong(
            "flit_error_rate",
            format!("found {rate}; allowed: 0 to 0.1"),
        );
    }
    let unit_ps = link
        .rate()
        .time_for(cxlab_engine::units::Bytes(link.unit_bytes()))
        .0
        .max(1);
    let needed = link.retry_round_trip_ps().div_ceil(unit_ps) + 1;
    if rate > 0.0 && u64::from(link.replay_buffer_flits) < needed {
        wrong(
            "replay_buffer_flits",
            format!(
                "found {}; allowed: at least {needed}, to cover the round trip of {} ns (a smaller \
                 buffer would throttle the link, which is not modelled)",
                link.replay_buffer_flits,
                link.retry_round_trip_ps() as f64 / 1e3
            ),
        );
    }
}

/// Every link of the fabric without its class, and the name of the class if the topology gives one.
fn raw<'a>(graph: &'a FabricGraph, tables: &RoutingTables) -> Vec<(End, End, Option<&'a String>)> {
    let hosts = graph.endpoints.requesters.len();
    let endpoint = |number: usize, port: u16| match number.checked_sub(hosts) {
        None => End::Host(number, port),
        Some(device) => End::Device(device, port),
    };
    let attached: BTreeMap<usize, &String> = graph
        .attachments
        .iter()
        .filter_map(|one| Some((one.endpoint, one.class.as_ref()?)))
        .collect();
    let mut links = Vec::new();
    for switch in 0..graph.switches.len() {
        for (port, peer) in tables.ports().of(switch).iter().enumerate() {
            let here = End::Switch(switch, port as u16);
            match *peer {
                PortPeer::Endpoint(number) => {
                    links.push((endpoint(number, 0), here, attached.get(&number).copied()));
                }
                PortPeer::Cut => {}
                PortPeer::Switch {
                    index,
                    port: far,
                    link,
                } => {
                    let first =
                        graph.links[link].a == switch && (index != switch || far > port as u16);
                    if first {
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
    let is_pcie = |end: End| {
        let End::Device(number, _) = end else {
            return false;
        };
        match devices[number].group {
            DeviceKind::Accelerator(group) => {
                scenario.accelerators[group].device.kind == AcceleratorKind::Pcie
            }
            DeviceKind::Memory(_) => false,
        }
    };
    let edge = usize::from(scenario.fabric.edge_link.is_some());
    let numbered = |wanted: &String| {
        let is_it = |class: &LinkClass| class.name.as_ref() == Some(wanted);
        classes.iter().position(is_it)
    };
    let overrides = &scenario.fabric.overrides;
    let (mut matched, mut used) = (vec![false; overrides.len()], vec![false; overrides.len()]);
    let mut links = Vec::new();
    for (a, b, said) in raw(graph, tables) {
        let mut class = match (a, b) {
            (End::Switch(..), End::Switch(..)) => 0,
            _ => edge,
        };
        class = said.and_then(numbered).unwrap_or(class);
        let mut holds = None;
        for (at, one) in overrides.iter().enumerate() {
            if one.matches(name(a), name(b)) {
                matched[at] = true;
                holds = Some(at);
            }
        }
        if let Some(at) = holds {
            used[at] = true;
            class = numbered(&overrides[at].link).unwrap_or(class);
        }
        let mut params = classes[class].params.clone();
        if is_pcie(a) || is_pcie(b) {
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
    let components = || {
        let switches = graph.switches.iter().map(|switch| switch.name.as_str());
        endpoints.names().chain(switches)
    };
    let problem = |at: usize| {
        let [a, b] = &overrides[at].between;
        let unknown = |name: &&String| !name.contains('*') && components().all(|one| one != **name);
        let reason = match overrides[at].between.iter().find(unknown) {
            _ if matched[at] => "later overrides take all links between them".to_owned(),
            Some(name) => {
                let hint = nearest(name, components())
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default();
                format!("nothing is called `{name}`{hint}")
            }
            None => "no link joins them".to_owned(),
        };
        Problem::new(
            format!("fabric.overrides[{at}].between"),
            format!(
                "found `{a}` and `{b}`, and {reason}; allowed: the two ends of a link, by names in which \
                 `*` stands for any characters"
            ),
        )
    };
    let problems: Vec<Problem> = (0..overrides.len())
        .filter(|at| !used[*at])
        .map(problem)
        .collect();
    match problems.is_empty() {
        true => Ok(links),
        false => Err(problems),
    }
}

/// The two kinds of PBR links (CXL 3.1, section 7.7.6.9). Both carry PBR flits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PbrLink {
    /// Between PBR switches.
    InterSwitch,
    /// Between a PBR switch and this G-FAM device. Messages in both directions stay in PBR format
    /// (tables 7-92 and 7-98).
    Gfd(usize),
}

/// The kind of a PBR link; `None` for another link. Links of hosts and of other devices carry HBR
/// messages, which the edge switch converts.
fn pbr_link(scenario: &Scenario, devices: &[PlannedDevice], (a, b): (End, End)) -> Option<PbrLink> {
    if scenario.fabric.kind != FabricKind::Pbr {
        return None;
    }
    match (a, b) {
        (End::Switch(..), End::Switch(..)) => Some(PbrLink::InterSwitch),
        (End::Device(device, _), End::Switch(..)) | (End::Switch(..), End::Device(device, _)) => {
            let group = devices[device].memory()?;
            scenario.devices[group]
                .g_fam
                .then_some(PbrLink::Gfd(device))
        }
        _ => None,
    }
}

/// Checks that PBR links carry standard 256 B flits, as PBR requires (CXL 3.1 section 6.4.1.4,
/// table 6-13; section 4.3.2), and that G-FAM devices have no other link.
pub(crate) fn check_flits(
    scenario: &Scenario,
    links: &[PlannedLink],
    classes: &[LinkClass],
    devices: &[PlannedDevice],
) -> Result<(), Vec<Problem>> {
    let wrong = |number: usize| {
        let params = &classes[number].params;
        if params.transmission != Transmission::Flit || params.flit_format() == FlitFormat::B256 {
            return None;
        }
        let mut links = links.iter().filter(|link| link.class == number);
        let kind = links.find_map(|link| pbr_link(scenario, devices, (link.a, link.b)))?;
        Some((number, kind))
    };
    let problem = |(number, kind): (usize, PbrLink)| {
        let LinkClass { path, params, .. } = &classes[number];
        let found = match params.flit_format() {
            FlitFormat::B68 => {
                "68 B flits, the format of generations 3 to 5 unless `flit` says otherwise,"
            }
            _ => "latency-optimised flits",
        };
        Problem::new(
            format!("{path}.flit"),
            match kind {
                PbrLink::InterSwitch => format!(
                    "found {found} between switches of a PBR fabric; allowed there: \"256B\" (PBR flits are standard 256 B flits, \
                     CXL 3.1 section 6.4.1.4, table 6-13; links of hosts and devices are `fabric.edge_link`), or a fabric of `kind` \
                     \"single-vcs\" or \"multiple-vcs\""
                ),
                PbrLink::Gfd(device) => format!(
                    "found {found} on the link of G-FAM device `{}`; allowed there: \"256B\" (it is a PBR link, CXL 3.1 sections 2.8 \
                     and 7.7.6.9, and PBR flits are standard 256 B flits, section 6.4.1.4, table 6-13), or a device without \
                     `g_fam`",
                    devices[device].name
                ),
            },
        )
    };
    let mut problems: Vec<Problem> = (0..classes.len()).filter_map(wrong).map(problem).collect();
    let direct = |link: &PlannedLink| {
        let (End::Host(..), End::Device(device, _)) = (link.a, link.b) else {
            return None;
        };
        let group = devices[device].memory()?;
        scenario.devices[group].g_fam.then(|| {
            Problem::new(
                format!("devices[{group}].g_fam"),
                format!(
                    "found true for `{}`, which has a link to a host; allowed: behind a PBR switch alone (CXL 3.1 section \
                     7.7.6.9: a GFD link leads to a PBR switch)",
                    devices[device].name
                ),
            )
        })
    };
    problems.extend(links.iter().find_map(direct));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// Number of devices behind switches that cache the memory of `host`. `of_host` gives the
/// host of each accelerator.
pub(crate) fn caching_behind(
    scenario: &Scenario,
    links: &[PlannedLink],
    devices: &[PlannedDevice],
    of_host: &[usize],
    host: usize,
) -> usize {
    let memories = devices.len() - of_host.len();
    let caches = |device: usize| match devices[device].group {
        DeviceKind::Accelerator(group) => {
            scenario.accelerators[group].device.kind != AcceleratorKind::Pcie
        }
        DeviceKind::Memory(_) => false,
    };
    let is_one = |link: &&PlannedLink| match (link.a, link.b) {
        (End::Device(device, _), End::Switch(..)) => {
            caches(device) && of_host[device - memories] == host
        }
        _ => false,
    };
    links.iter().filter(is_one).count()
}

/// Most devices that a CacheID can identify: it has 4 bits (CXL 3.1 section 4.3.3).
const CACHE_IDS: usize = 16;

/// Checks that flits on a host's link to switches can identify the device of a CXL.cache message. Only
/// 256 B flits have a CacheID (CXL 3.1 section 4.2.1). With 68 B flits, one device behind switches can
/// cache the host's memory; with 256 B flits, 16 can. `of_host` has the host of each accelerator.
pub(crate) fn check_cache_ids(
    scenario: &Scenario,
    links: &[PlannedLink],
    classes: &[LinkClass],
    devices: &[PlannedDevice],
    of_host: &[usize],
) -> Result<(), Vec<Problem>> {
    let behind = |host| caching_behind(scenario, links, devices, of_host, host);
    let mut problems = Vec::new();
    for link in links {
        let (End::Host(host, _), true) = (link.a, link.b.is_switch()) else {
            continue;
        };
        if link.params.transmission != Transmission::Flit {
            continue;
        }
        let (narrow, number) = (link.params.flit_format() == FlitFormat::B68, behind(host));
        if !narrow && number > CACHE_IDS && problems.is_empty() {
            problems.push(Problem::new(
                "accelerators",
                format!(
                    "found {number} devices behind switches that cache the memory of one host; allowed: at most {CACHE_IDS}, which a \
                     CacheID of four bits tells apart"
                ),
            ));
        }
        if narrow && number > 1 {
            problems.push(Problem::new(
                format!("{}.flit", classes[link.class].path),
                format!(
                    "found 68 B flits on a link of a host with {number} devices behind switches that cache its memory; \
                     allowed: 256 B flits, or one such device (68 B flits have no CacheID, CXL 3.1 section 4.2.1)"
                ),
            ));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// Checks that no host sends `MemRdFill` over a link with 68 B flits, in which its opcode is
/// reserved (CXL 3.1, table 3-41).
pub(crate) fn check_fills(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    links: &[PlannedLink],
) -> Result<(), Vec<Problem>> {
    let is_narrow = |link: &PlannedLink| {
        link.params.transmission == Transmission::Flit
            && link.params.flit_format() == FlitFormat::B68
    };
    if !links.iter().any(is_narrow) {
        return Ok(());
    }
    let groups = scenario.hosts.iter().zip(workloads);
    let fills = groups.enumerate().find(|(_, (group, workload))| {
        group.issue.partial_write == PartialWrite::MemRdFill
            && group.issue.cache.is_none()
            && workload.request().0 < LINE_BYTES
    });
    match fills {
        None => Ok(()),
        Some((at, _)) => Err(vec![Problem::new(
            format!("hosts[{at}].issue.partial_write"),
            "found \"MemRdFill\" where links have 68 B flits; allowed there: \"MemWrPtl\" (CXL 3.1, table 3-41)",
        )]),
    }
}

/// A note for each named link class that no link uses.
pub(crate) fn notes(classes: &[LinkClass], links: &[PlannedLink]) -> Vec<Note> {
    let unused = |number: &usize| {
        classes[*number].name.is_some() && links.iter().all(|link| link.class != *number)
    };
    (0..classes.len())
        .filter(unused)
        .map(|number| Note::new(&classes[number].path, "no link of the fabric has it"))
        .collect()
}

impl Plan {
    /// Constant time that a component spends before the link that leaves at this end.
    pub fn egress(&self, end: End) -> Picos {
        match end {
            End::Host(number, _) => self.scenario.hosts[self.hosts[number].group].egress(),
            End::Device(number, _) => match self.devices[number].group {
                DeviceKind::Accelerator(group) => self.scenario.accelerators[group].device.egress(),
                DeviceKind::Memory(_) => Picos::ZERO,
            },
            End::Switch(..) => Picos::ZERO,
        }
    }

    /// Constant time that a component spends after the link that arrives at this end.
    pub fn ingress(&self, end: End) -> Picos {
        match end {
            End::Host(number, _) => self.scenario.hosts[self.hosts[number].group].ingress(),
            End::Device(number, _) => match self.devices[number].group {
                DeviceKind::Accelerator(group) => {
                    self.scenario.accelerators[group].device.ingress()
                }
                DeviceKind::Memory(group) => {
                    let group = &self.scenario.devices[group];
                    match group.is_hdm_db() {
                        true => group.coherence.filter.ingress(&group.controller),
                        false => group.controller.process_time,
                    }
                }
            },
            End::Switch(..) => self.scenario.fabric.switch.switching_time,
        }
    }

    /// The path of a link's parameters in the scenario.
    pub fn link_path(&self, link: &PlannedLink) -> &str {
        &self.link_classes[link.class].path
    }

    /// Most bandwidth of a host's links in one direction, in GB/s of line data.
    pub fn line_rate(&self, host: usize) -> f64 {
        let own = |link: &&PlannedLink| matches!(link.a, End::Host(number, _) if number == host);
        let links = self.links.iter().filter(own);
        links.map(|link| 64_000.0 / link.params.line_ps()).sum()
    }

    /// Constant time that the components at both ends of a link spend before and after it,
    /// summed over both directions.
    pub fn pipelines(&self, link: &PlannedLink) -> Picos {
        let of = |end| self.egress(end) + self.ingress(end);
        of(link.a) + of(link.b)
    }
}

/// Checks that half-duplex buses have no virtual channels of their own.
pub(crate) fn check_virtual_channels(
    scenario: &Scenario,
    tables: &RoutingTables,
) -> Result<(), Vec<Problem>> {
    if tables.virtual_channels() == 1 {
        return Ok(());
    }
    let half = |class: &LinkClass| class.params.duplex == Duplex::Half;
    let classes = scenario.fabric.link_classes().into_iter().filter(half);
    let problems = classes.map(|class| {
        Problem::new(
            format!("{}.duplex", class.path),
            format!(
                "found \"half\"; allowed on this topology: \"full\", or `fabric.virtual_channels = 1` (its routing needs {} \
                 virtual channels, which a half-duplex bus does not have)",
                tables.virtual_channels()
            ),
        )
    });
    let problems: Vec<Problem> = problems.collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}
