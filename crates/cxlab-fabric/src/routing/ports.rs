//! Numbers of switch ports: first the endpoints, in order of attachment, then the links,
//! in order of the graph.

use crate::graph::FabricGraph;

use crate::error::FabricError;

/// What is at the other end of a switch port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortPeer {
    /// An endpoint, by its number.
    Endpoint(usize),
    /// Another switch, by a link that works.
    Switch {
        /// Number of the other switch.
        index: usize,
        /// Number of the port at the other end.
        port: u16,
        /// Number of the link in [`FabricGraph::links`].
        link: usize,
    },
    /// Another switch, by a link that has failed.
    Cut,
}

/// The ports of all switches of a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchPorts {
    /// All ports, switch by switch.
    peers: Vec<PortPeer>,
    /// Index in `peers` of each switch's first port, and one entry more.
    start: Vec<usize>,
    /// Switch and port of each endpoint that has one.
    edges: Vec<Option<(usize, u16)>>,
}

impl SwitchPorts {
    /// Numbers the ports of a graph that has no [`FabricGraph::problems`].
    ///
    /// # Errors
    /// [`FabricError::TooManyPorts`] if a port number does not fit in 16 bits.
    pub fn number(graph: &FabricGraph) -> Result<Self, FabricError> {
        graph.check_ports(usize::from(u16::MAX))?;
        let mut peers_of: Vec<Vec<PortPeer>> = vec![Vec::new(); graph.switches.len()];
        let mut edges = vec![None; graph.endpoints.len()];
        for attachment in &graph.attachments {
            let ports = &mut peers_of[attachment.switch];
            edges[attachment.endpoint] = Some((attachment.switch, ports.len() as u16));
            ports.push(PortPeer::Endpoint(attachment.endpoint));
        }
        for (link, ends) in graph.links.iter().enumerate() {
            let (at_a, at_b) = (peers_of[ends.a].len() as u16, peers_of[ends.b].len() as u16);
            peers_of[ends.a].push(PortPeer::Switch {
                index: ends.b,
                port: at_b,
                link,
            });
            peers_of[ends.b].push(PortPeer::Switch {
                index: ends.a,
                port: at_a,
                link,
            });
        }
        let mut start = vec![0];
        let mut peers = Vec::new();
        for ports in peers_of {
            peers.extend(ports);
            start.push(peers.len());
        }
        Ok(SwitchPorts {
            peers,
            start,
            edges,
        })
    }

    /// Removes the links between switches for which `is_cut` is true. All numbers stay.
    pub(super) fn cut(&mut self, is_cut: impl Fn(usize) -> bool) {
        for peer in &mut self.peers {
            if let PortPeer::Switch { link, .. } = *peer
                && is_cut(link)
            {
                *peer = PortPeer::Cut;
            }
        }
    }

    /// Number of switches.
    pub fn switches(&self) -> usize {
        self.start.len() - 1
    }

    /// Peers of a switch's ports, in order of port numbers.
    pub fn of(&self, switch: usize) -> &[PortPeer] {
        &self.peers[self.start[switch]..self.start[switch + 1]]
    }

    /// Switch and port to which an endpoint attaches; `None` for an endpoint without a switch.
    pub fn edge(&self, endpoint: usize) -> Option<(usize, u16)> {
        self.edges[endpoint]
    }

    /// Number of endpoints.
    pub(super) fn endpoints(&self) -> usize {
        self.edges.len()
    }

    /// Number of ports of all switches together.
    pub(super) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Number of a port among the ports of all switches.
    pub(super) fn flat(&self, switch: usize, port: u16) -> usize {
        self.start[switch] + usize::from(port)
    }

    /// Switch of a port, given the port's number over all switches.
    pub(super) fn owner(&self, flat: usize) -> usize {
        self.start.partition_point(|start| *start <= flat) - 1
    }

    /// Peer of a port, given the port's number over all switches.
    pub(super) fn peer(&self, flat: usize) -> PortPeer {
        self.peers[flat]
    }

    /// The switches with endpoints, ascending.
    pub(super) fn edge_switches(&self) -> Vec<usize> {
        let mut switches: Vec<usize> = self
            .edges
            .iter()
            .flatten()
            .map(|(switch, _)| *switch)
            .collect();
        switches.sort_unstable();
        switches.dedup();
        switches
    }
}
