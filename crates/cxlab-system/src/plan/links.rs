//! Links: who is joined to whom, at which ports, with which parameters.

use cxlab_engine::units::Picos;
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingTables};
use cxlab_link::{Duplex, LinkParams, Transmission};
use cxlab_protocol::flit::FlitFormat;

use super::{DeviceKind, Plan, Problem};
use crate::scenario::Scenario;

/// Longest of a link's delays.
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

/// A link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedLink {
    /// One end; the endpoint's, where there is one (the host's, where there are two).
    pub a: End,
    /// The other end.
    pub b: End,
    /// Its parameters.
    pub params: LinkParams,
}

/// Checks the parameters of the scenario's links.
pub(super) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    check_one("fabric.link", &scenario.fabric.link, problems);
    if let Some(link) = &scenario.fabric.edge_link {
        check_one("fabric.edge_link", link, problems);
    }
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
    let spans = [
        ("propagation", link.propagation),
        ("port_delay", link.port_delay),
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
    // Also keeps the sums below from overflowing.
    if link.propagation > LONGEST_DELAY || link.port_delay > LONGEST_DELAY {
        return;
    }
    if link.crossing_ps() < 2 {
        wrong(
            "propagation",
            format!(
                "found {}, with two port delays {} ps; allowed: at least 2 ps together, or \
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

/// Every link of the fabric.
pub(super) fn list(
    scenario: &Scenario,
    graph: &FabricGraph,
    tables: &RoutingTables,
) -> Vec<PlannedLink> {
    let core = &scenario.fabric.link;
    let edge = scenario.fabric.edge_link.as_ref().unwrap_or(core);
    let hosts = graph.endpoints.requesters.len();
    let endpoint = |number: usize, port: u16| match number.checked_sub(hosts) {
        None => End::Host(number, port),
        Some(device) => End::Device(device, port),
    };
    let mut links = Vec::new();
    for switch in 0..graph.switches.len() {
        for (port, peer) in tables.ports().of(switch).iter().enumerate() {
            let here = End::Switch(switch, port as u16);
            match *peer {
                PortPeer::Endpoint(number) => {
                    links.push(PlannedLink {
                        a: endpoint(number, 0),
                        b: here,
                        params: edge.clone(),
                    });
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
                        let b = End::Switch(index, far);
                        links.push(PlannedLink {
                            a: here,
                            b,
                            params: core.clone(),
                        });
                    }
                }
            }
        }
    }
    let mut next_port = vec![0u16; graph.endpoints.len()];
    for (host, device) in &graph.direct {
        let mut take = |number: usize| {
            next_port[number] += 1;
            endpoint(number, next_port[number] - 1)
        };
        let (a, b) = (take(*host), take(*device));
        links.push(PlannedLink {
            a,
            b,
            params: edge.clone(),
        });
    }
    links
}

impl Plan {
    /// Constant time before a link that leaves this end.
    pub(crate) fn egress(&self, end: End) -> Picos {
        match end {
            End::Host(number, _) => self.scenario.hosts[self.hosts[number].group].egress(),
            End::Device(number, _) => match self.devices[number].group {
                DeviceKind::Accelerator(group) => self.scenario.accelerators[group].device.egress(),
                DeviceKind::Memory(_) => Picos::ZERO,
            },
            End::Switch(..) => Picos::ZERO,
        }
    }

    /// Constant time behind a link that arrives at this end.
    pub(crate) fn ingress(&self, end: End) -> Picos {
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

    /// Where the scenario says a link's parameters.
    pub(crate) fn link_path(&self, link: &PlannedLink) -> &'static str {
        let inside = matches!((link.a, link.b), (End::Switch(..), End::Switch(..)));
        match self.scenario.fabric.edge_link.is_some() && !inside {
            true => "fabric.edge_link",
            false => "fabric.link",
        }
    }

    /// Lines in GB/s that the links of a host carry at most in one direction.
    pub(crate) fn line_rate(&self, host: usize) -> f64 {
        let own = |link: &&PlannedLink| matches!(link.a, End::Host(number, _) if number == host);
        let links = self.links.iter().filter(own);
        links.map(|link| 64_000.0 / link.params.line_ps()).sum()
    }

    /// Constant time that the components at both ends of a link spend before and behind it, in both
    /// directions.
    pub fn pipelines(&self, link: &PlannedLink) -> Picos {
        let of = |end| self.egress(end) + self.ingress(end);
        of(link.a) + of(link.b)
    }
}

/// Half-duplex buses have no virtual channels of their own.
pub(super) fn check_virtual_channels(
    scenario: &Scenario,
    tables: &RoutingTables,
) -> Result<(), Vec<Problem>> {
    if tables.virtual_channels() == 1 {
        return Ok(());
    }
    let links = [
        ("link", Some(&scenario.fabric.link)),
        ("edge_link", scenario.fabric.edge_link.as_ref()),
    ];
    let half = |link: &&LinkParams| link.duplex == Duplex::Half;
    let problems = links.into_iter().filter(|(_, link)| link.as_ref().is_some_and(half)).map(|(name, _)| {
        Problem::new(
            format!("fabric.{name}.duplex"),
            format!(
                "found \"half\"; allowed on this topology: \"full\" (its routing needs {} virtual \
                 channels, which a half-duplex bus does not have)",
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
