//! The fabric as a graph: switches, the links between them, and the attachment of each endpoint.
//!
//! Topologies build the graph, and routing reads it. It is pure data, computed before a run, without times
//! or bandwidths (a link only names its class). Endpoints are numbered requesters first, then devices. An
//! endpoint's number is also the PID of its edge port in a PBR fabric.

use std::collections::{BTreeMap, BTreeSet};

use cxlab_protocol::PortId;

use crate::error::FabricError;

/// Names of the endpoints of a fabric. Endpoint `e` is requester `e` if `e < requesters.len()`, or else
/// device `e - requesters.len()`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Endpoints {
    /// Names of the requesters: hosts and accelerators.
    pub requesters: Vec<String>,
    /// Names of the devices.
    pub devices: Vec<String>,
}

/// A switch of the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchSpec {
    /// Name of the switch, which depends on the topology alone: `sw3`, `leaf0`, `root`.
    pub name: String,
    /// Distance from the edge: 0 for switches with endpoints, more towards the core.
    pub level: u32,
}

/// A link between two switches. Two switches may have several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchLink {
    /// Number of the switch at one end.
    pub a: usize,
    /// Number of the switch at the other end.
    pub b: usize,
    /// Link class, or `None` for the default class.
    pub class: Option<String>,
}

/// The link of an endpoint to its switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Number of the endpoint.
    pub endpoint: usize,
    /// Number of the switch that the endpoint attaches to.
    pub switch: usize,
    /// Link class, or `None` for the default class.
    pub class: Option<String>,
}

/// How a picture arranges the switches of a fabric, which the topology knows. It affects nothing but pictures: neither
/// routing nor results. A picture with too many nodes combines switches into groups that fit the arrangement.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Arrangement {
    /// In layers by [`SwitchSpec::level`] if the levels differ, or else at distances in the plane that are close to the
    /// numbers of links between the switches.
    #[default]
    Free,
    /// In a line, in order of number. Without switches: each requester in a line with its devices.
    Line,
    /// On a circle, in order of number.
    Circle,
    /// At the points of a grid with two or three dimensions of these lengths, numbered with the first dimension fastest.
    /// Links between opposite sides of the grid are drawn around it.
    Grid(Vec<usize>),
    /// On a circle with a gap after each sector.
    Sectors {
        /// Number of switches of a sector: consecutive numbers.
        size: usize,
    },
    /// On small circles around the remaining switches. The first switch of each small circle faces the centre.
    Rings {
        /// Number of small circles.
        rings: usize,
        /// Number of switches of each small circle: consecutive numbers.
        size: usize,
    },
}

/// The switches, links and endpoints of one fabric.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FabricGraph {
    /// Names of the endpoints.
    pub endpoints: Endpoints,
    /// Switches, in order of their numbers.
    pub switches: Vec<SwitchSpec>,
    /// Links between switches, in order of their numbers.
    pub links: Vec<SwitchLink>,
    /// Links from endpoints to their switches.
    pub attachments: Vec<Attachment>,
    /// Links from a requester to a device without a switch, as pairs of endpoint numbers.
    pub direct: Vec<(usize, usize)>,
    /// Classes of the `direct` links that do not have the default class, by endpoint numbers.
    pub direct_classes: BTreeMap<(usize, usize), String>,
    /// Arrangement of the switches in pictures.
    pub arrangement: Arrangement,
}

impl Endpoints {
    /// `requesters` hosts `host0..` and `devices` devices `device0..`, for tests and examples.
    pub fn numbered(requesters: usize, devices: usize) -> Self {
        Endpoints {
            requesters: (0..requesters).map(|i| format!("host{i}")).collect(),
            devices: (0..devices).map(|i| format!("device{i}")).collect(),
        }
    }

    /// Number of endpoints: requesters and devices.
    pub fn len(&self) -> usize {
        self.requesters.len() + self.devices.len()
    }

    /// Whether the fabric has no endpoints.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Endpoint number of device `index`.
    pub fn device(&self, index: usize) -> usize {
        self.requesters.len() + index
    }

    /// Endpoint numbers of all devices.
    pub fn device_range(&self) -> std::ops::Range<usize> {
        self.requesters.len()..self.len()
    }

    /// Whether the endpoint is a requester.
    pub fn is_requester(&self, endpoint: usize) -> bool {
        endpoint < self.requesters.len()
    }

    /// Name of an endpoint.
    pub fn name(&self, endpoint: usize) -> &str {
        match endpoint.checked_sub(self.requesters.len()) {
            None => &self.requesters[endpoint],
            Some(device) => &self.devices[device],
        }
    }

    /// Names of all endpoints, in order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.requesters.iter().chain(&self.devices);
        all.map(String::as_str)
    }
}

impl FabricGraph {
    /// A fabric with these endpoints, and without switches and links.
    pub fn new(endpoints: &Endpoints) -> Self {
        FabricGraph {
            endpoints: endpoints.clone(),
            ..FabricGraph::default()
        }
    }

    /// Adds a switch and returns its number.
    pub fn add_switch(&mut self, name: impl Into<String>, level: u32) -> usize {
        let name = name.into();
        self.switches.push(SwitchSpec { name, level });
        self.switches.len() - 1
    }

    /// Adds a link of the default class between two switches.
    pub fn add_link(&mut self, a: usize, b: usize) {
        self.links.push(SwitchLink { a, b, class: None });
    }

    /// Attaches an endpoint to a switch by a link of the default class.
    pub fn attach(&mut self, endpoint: usize, switch: usize) {
        self.attachments.push(Attachment {
            endpoint,
            switch,
            class: None,
        });
    }

    /// All errors in the graph that can be found without routing.
    ///
    /// # Panics
    /// If a link or attachment has a number that is not in the graph: such a number is an error in cxlab.
    pub fn problems(&self) -> Vec<FabricError> {
        let mut problems = Vec::new();
        let found = self.endpoints.len();
        if found > PortId::MAX_COUNT {
            problems.push(FabricError::TooManyEdgePorts { found });
        }
        let mut names = BTreeSet::new();
        let switch_names = self.switches.iter().map(|switch| switch.name.as_str());
        for name in switch_names.chain(self.endpoints.names()) {
            if !names.insert(name) {
                let name = name.to_owned();
                problems.push(FabricError::DuplicateName { name });
            }
        }
        for link in &self.links {
            let last = link.a.max(link.b);
            assert!(last < self.switches.len(), "no such switch");
            if link.a == link.b {
                let switch = self.switches[link.a].name.clone();
                problems.push(FabricError::SelfLink { switch });
            }
        }
        problems.extend(self.attachment_problems());
        problems
    }

    /// The first of [`FabricGraph::problems`].
    pub(crate) fn check(&self) -> Result<(), FabricError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// The error that an endpoint has no path to any endpoint of the other kind.
    pub(crate) fn isolated(&self, endpoint: usize) -> FabricError {
        let peer = match self.endpoints.is_requester(endpoint) {
            true => "device",
            false => "requester",
        };
        let endpoint = self.endpoints.name(endpoint).to_owned();
        FabricError::Isolated { endpoint, peer }
    }

    /// Errors in the attachments. Every endpoint must have either one link to a switch, or direct links to
    /// different endpoints: the root ports of a requester, the heads of a device.
    fn attachment_problems(&self) -> Vec<FabricError> {
        let mut switched = vec![0_usize; self.endpoints.len()];
        let mut direct = vec![0_usize; self.endpoints.len()];
        for attachment in &self.attachments {
            assert!(attachment.switch < self.switches.len(), "no such switch");
            switched[attachment.endpoint] += 1;
        }
        for (requester, device) in &self.direct {
            let ends = [requester, device].map(|end| self.endpoints.is_requester(*end));
            assert_eq!(ends, [true, false], "from a requester to a device");
            direct[*requester] += 1;
            direct[*device] += 1;
        }
        let name = |endpoint: usize| self.endpoints.name(endpoint).to_owned();
        let mut pairs = BTreeSet::new();
        let twice = self.direct.iter().filter(|pair| !pairs.insert(**pair));
        let twice = twice.map(|(_, device)| name(*device));
        let mut problems: Vec<FabricError> = twice
            .map(|endpoint| FabricError::AttachedTwice { endpoint })
            .collect();
        for endpoint in 0..self.endpoints.len() {
            let (links, endpoint) = ((switched[endpoint], direct[endpoint]), name(endpoint));
            match links {
                (0, 0) => problems.push(FabricError::NeverAttached { endpoint }),
                (1, 0) | (0, _) => {}
                _ => problems.push(FabricError::AttachedTwice { endpoint }),
            }
        }
        problems
    }

    /// Checks that no switch has more than `max_ports` ports.
    ///
    /// # Errors
    /// [`FabricError::TooManyPorts`] for the first switch with more.
    pub fn check_ports(&self, max_ports: usize) -> Result<(), FabricError> {
        let mut count = vec![0_usize; self.switches.len()];
        for link in &self.links {
            count[link.a] += 1;
            count[link.b] += 1;
        }
        for attachment in &self.attachments {
            count[attachment.switch] += 1;
        }
        match count.iter().position(|ports| *ports > max_ports) {
            None => Ok(()),
            Some(switch) => Err(FabricError::TooManyPorts {
                switch: self.switches[switch].name.clone(),
                found: count[switch],
                allowed: max_ports,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(endpoint: &str) -> FabricError {
        let endpoint = endpoint.to_owned();
        FabricError::AttachedTwice { endpoint }
    }

    #[test]
    fn every_problem_of_a_graph_is_reported_at_once() {
        let mut graph = FabricGraph::new(&Endpoints::numbered(2, 1));
        let switch = graph.add_switch("host1", 0);
        graph.add_link(switch, switch);
        for endpoint in [0, 0, 1] {
            graph.attach(endpoint, switch);
        }
        let (name, switch, endpoint) = ("host1".into(), "host1".into(), "device0".into());
        let expected = [
            FabricError::DuplicateName { name },
            FabricError::SelfLink { switch },
            twice("host0"),
            FabricError::NeverAttached { endpoint },
        ];
        assert_eq!(graph.problems(), expected);
    }

    #[test]
    fn a_switch_with_more_ports_than_allowed_is_named() {
        let mut graph = FabricGraph::new(&Endpoints::numbered(1, 1));
        let switch = graph.add_switch("sw0", 0);
        graph.attach(0, switch);
        graph.attach(1, switch);
        assert_eq!(graph.check_ports(2), Ok(()));
        let error = graph.check_ports(1).unwrap_err();
        let expected = "switch `sw0` has 2 ports, but at most 1 are allowed";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_device_has_a_head_for_each_host_but_not_two_for_one() {
        let mut graph = FabricGraph::new(&Endpoints::numbered(2, 1));
        graph.direct = vec![(0, 2), (1, 2)];
        assert_eq!(graph.problems(), []);
        graph.direct.push((1, 2));
        assert_eq!(graph.problems(), [twice("device0")]);
    }
}
