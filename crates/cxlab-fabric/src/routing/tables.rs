//! Routing tables: where a switch may send a message, and on which virtual channel.
//!
//! Paths are shortest, or up*/down* where virtual channels do not suffice ([`Paths`]). Tables are kept by destination switch, so their size does not grow
//! with the number of endpoints.

use crate::graph::FabricGraph;

use super::candidates::Candidates;
use super::deadlock::{Cycle, Dependencies, MAX_VIRTUAL_CHANNELS, Proof, check};
use super::distances::Distances;
use super::order::orders;
use super::ports::Ports;
use super::{FabricError, RoutingKind};

/// Which paths messages may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paths {
    /// All shortest paths.
    Shortest,
    /// Shortest paths alone, but not all: a switch with paths to later switches gives up the others.
    Turns,
    /// Paths that climb an order of the switches first and descend then (M. Schroeder et al., "Autonet: a high-speed,
    /// self-configuring local area network using point-to-point links", IEEE JSAC 9(8), 1991). They may be longer.
    UpDown,
}

impl Paths {
    /// As a plan prints them.
    pub const fn name(self) -> &'static str {
        match self {
            Paths::Shortest => "shortest",
            Paths::Turns => "shortest, restricted by a turn model",
            Paths::UpDown => "up*/down*",
        }
    }
}

/// The routing of one fabric, proved free of deadlock.
#[derive(Clone, Debug)]
pub struct RoutingTables {
    kind: RoutingKind,
    ports: Ports,
    /// Each endpoint's edge port, as its list of candidates.
    edge_ports: Vec<u16>,
    distances: Distances,
    candidates: Candidates,
    /// Whether each port, numbered among all, leads to a later switch; empty with one virtual
    /// channel.
    climbs: Vec<bool>,
    paths: Paths,
    proof: Proof,
    requesters: usize,
    /// The pairs linked without a switch, sorted.
    direct: Vec<(usize, usize)>,
}

impl RoutingTables {
    /// Makes the tables of a fabric with as few virtual channels as can be found.
    ///
    /// # Errors
    /// The first of [`FabricGraph::problems`], or an endpoint that can reach none of the other kind.
    pub fn build(graph: &FabricGraph, kind: RoutingKind) -> Result<Self, FabricError> {
        Self::build_within(graph, kind, MAX_VIRTUAL_CHANNELS)
    }

    /// As [`RoutingTables::build`], with at most `most` virtual channels (1 to 8).
    ///
    /// When all shortest paths together need more, every switch that has candidates to a later
    /// switch gives up the others. That is a turn model: less adaptive, still shortest. When that needs more, too, paths are
    /// [`Paths::UpDown`], which need one.
    ///
    /// # Errors
    /// As [`RoutingTables::build`].
    pub fn build_within(
        graph: &FabricGraph,
        kind: RoutingKind,
        most: u8,
    ) -> Result<Self, FabricError> {
        let tables = Self::unproven(graph, kind, |_| false)?;
        tables.check_isolation(graph)?;
        tables.proven(graph, most)
    }

    /// The tables of a fabric in which the links between switches that `is_cut` says have failed:
    /// ports have the numbers that they had. Some endpoints may reach none of the other kind then.
    ///
    /// # Errors
    /// As [`RoutingTables::build`].
    pub fn build_without(
        graph: &FabricGraph,
        kind: RoutingKind,
        most: u8,
        is_cut: impl Fn(usize) -> bool,
    ) -> Result<Self, FabricError> {
        Self::unproven(graph, kind, is_cut)?.proven(graph, most)
    }

    /// All shortest paths, on one virtual channel.
    fn unproven(
        graph: &FabricGraph,
        kind: RoutingKind,
        is_cut: impl Fn(usize) -> bool,
    ) -> Result<Self, FabricError> {
        if let Some(problem) = graph.problems().into_iter().next() {
            return Err(problem);
        }
        let mut ports = Ports::number(graph)?;
        ports.cut(is_cut);
        let distances = Distances::measure(&ports);
        let candidates = Candidates::collect(&ports, &distances, None);
        let mut direct = graph.direct.clone();
        direct.sort_unstable();
        let edge_port = |endpoint| ports.edge(endpoint).map_or(0, |(_, port)| port);
        Ok(RoutingTables {
            kind,
            edge_ports: (0..graph.endpoints.len()).map(edge_port).collect(),
            ports,
            distances,
            candidates,
            climbs: Vec::new(),
            paths: Paths::Shortest,
            proof: Proof {
                virtual_channels: 1,
                ..Proof::default()
            },
            requesters: graph.endpoints.requesters.len(),
            direct,
        })
    }

    /// The same with virtual channels, proved free of deadlock.
    fn proven(mut self, graph: &FabricGraph, most: u8) -> Result<Self, FabricError> {
        if !graph.switches.is_empty() {
            self.choose_virtual_channels(graph, most)?;
        }
        Ok(self)
    }

    /// The routing these tables are for.
    pub fn kind(&self) -> RoutingKind {
        self.kind
    }

    /// The ports of all switches.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// All ports by which a message for that endpoint may leave that switch; with `shortest`,
    /// the one by which it does. Empty when no path leads there.
    #[inline]
    pub fn candidates(&self, switch: usize, destination: usize) -> &[u16] {
        let Some((target, _)) = self.ports.edge(destination) else {
            return &[];
        };
        if target == switch {
            return std::slice::from_ref(&self.edge_ports[destination]);
        }
        let Some(row) = self.distances.row(target) else {
            return &[];
        };
        let all = self.candidates.of(switch, row);
        match self.kind {
            RoutingKind::Shortest => super::shortest::narrow(all, destination),
            RoutingKind::Oblivious | RoutingKind::Random | RoutingKind::Adaptive => all,
        }
    }

    /// Whether a message moves to the next virtual channel at a switch that it enters and leaves
    /// by these ports.
    #[inline]
    pub fn vc_increment(&self, switch: usize, in_port: u16, out_port: u16) -> bool {
        turns(&self.ports, &self.climbs, switch, in_port, out_port)
    }

    /// How many virtual channels each link between switches needs, at least 1.
    pub fn virtual_channels(&self) -> u8 {
        self.proof.virtual_channels
    }

    /// What was examined to prove the routing free of deadlock.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Which paths messages may take.
    pub fn paths(&self) -> Paths {
        self.paths
    }

    /// The links from one endpoint to another, edge links included; `None` without a path.
    pub fn hops(&self, source: usize, destination: usize) -> Option<u32> {
        if source == destination {
            return Some(0);
        }
        match (self.ports.edge(source), self.ports.edge(destination)) {
            (Some((from, _)), Some((to, _))) => {
                Some(2 + self.distances.between(from, self.distances.row(to)?)?)
            }
            _ => {
                let pair = (source.min(destination), source.max(destination));
                self.direct.binary_search(&pair).ok().map(|_| 1)
            }
        }
    }

    /// The devices that a requester reaches, by endpoint numbers.
    pub fn reachable(&self, requester: usize) -> Vec<usize> {
        let devices = self.requesters..self.edge_ports.len();
        devices
            .filter(|device| self.hops(requester, *device).is_some())
            .collect()
    }

    /// Checks that a path leads from a requester to a device, by endpoint numbers.
    ///
    /// # Errors
    /// [`FabricError::UnreachableDevice`] otherwise.
    pub fn require(
        &self,
        graph: &FabricGraph,
        requester: usize,
        device: usize,
    ) -> Result<(), FabricError> {
        match self.hops(requester, device) {
            Some(_) => Ok(()),
            None => Err(FabricError::UnreachableDevice {
                requester: graph.endpoints.name(requester).to_owned(),
                device: graph.endpoints.name(device).to_owned(),
            }),
        }
    }

    /// Endpoints that stand for all: destinations that are routed alike need one path check.
    pub(super) fn representatives(&self) -> Vec<usize> {
        let switched = (0..self.ports.endpoints()).filter(|e| self.ports.edge(*e).is_some());
        match self.kind {
            RoutingKind::Shortest => switched.collect(),
            RoutingKind::Oblivious | RoutingKind::Random | RoutingKind::Adaptive => {
                let mut seen = vec![false; self.ports.switches()];
                let mut first = |endpoint: &usize| match self.ports.edge(*endpoint) {
                    Some((switch, _)) => !std::mem::replace(&mut seen[switch], true),
                    None => false,
                };
                switched.filter(|endpoint| first(endpoint)).collect()
            }
        }
    }

    /// Every requester needs some device and every device some requester.
    fn check_isolation(&self, graph: &FabricGraph) -> Result<(), FabricError> {
        let devices = graph.endpoints.device_range();
        for requester in 0..self.requesters {
            if !devices
                .clone()
                .any(|device| self.hops(requester, device).is_some())
            {
                let endpoint = graph.endpoints.name(requester).to_owned();
                return Err(FabricError::Isolated {
                    endpoint,
                    peer: "device",
                });
            }
        }
        for device in devices {
            if !(0..self.requesters).any(|requester| self.hops(requester, device).is_some()) {
                let endpoint = graph.endpoints.name(device).to_owned();
                return Err(FabricError::Isolated {
                    endpoint,
                    peer: "requester",
                });
            }
        }
        Ok(())
    }

    /// Tries one virtual channel; then all shortest paths in several orders of the switches; then
    /// the turn model of each order; then the paths that climb and descend in each. Takes the fewest virtual channels, or
    /// the shortest paths.
    fn choose_virtual_channels(
        &mut self,
        graph: &FabricGraph,
        most: u8,
    ) -> Result<(), FabricError> {
        if let Ok(proof) = self.prove(graph, &[], 1) {
            self.proof = proof;
            return Ok(());
        }
        let orders = orders(graph, &self.ports, &self.distances);
        let mut best: Option<(u8, &Vec<bool>)> = None;
        for climbs in &orders {
            if let Some(needed) = self.virtual_channels_of(climbs, most)
                && best.is_none_or(|(fewest, _)| needed < fewest)
            {
                best = Some((needed, climbs));
            }
        }
        if best.is_none() {
            self.paths = Paths::Turns;
            for climbs in &orders {
                let turned = Candidates::collect(&self.ports, &self.distances, Some(climbs));
                let previous = std::mem::replace(&mut self.candidates, turned);
                match self.virtual_channels_of(climbs, most) {
                    Some(needed) if best.is_none_or(|(fewest, _)| needed < fewest) => {
                        best = Some((needed, climbs));
                    }
                    _ => self.candidates = previous,
                }
            }
        }
        let Some((needed, climbs)) = best else {
            self.climb_and_descend(&orders);
            self.proof = self
                .prove(graph, &[], 1)
                .map_err(FabricError::DependencyCycle)?;
            return Ok(());
        };
        // The proof is made of the tables as they will be used, not of the search for them.
        self.proof = self
            .prove(graph, climbs, needed)
            .map_err(FabricError::DependencyCycle)?;
        self.climbs = climbs.clone();
        Ok(())
    }

    /// Takes the up*/down* paths of the order in which they are the shortest. The order by distance from the centre, at least,
    /// leads everywhere: each switch but the first of its part of the fabric has a nearer one above it.
    fn climb_and_descend(&mut self, orders: &[Vec<bool>]) {
        let all = orders.iter().map(|climbs| {
            let distances = Distances::measure_up_down(&self.ports, climbs);
            (distances, climbs)
        });
        let whole = all.filter(|(distances, _)| distances.reaches_all_of(&self.distances));
        let Some((distances, climbs)) = whole.min_by_key(|(distances, _)| distances.sum()) else {
            unreachable!("an order by distance leads everywhere")
        };
        self.paths = Paths::UpDown;
        self.candidates = Candidates::collect(&self.ports, &distances, Some(climbs));
        self.distances = distances;
    }

    /// Checks all dependencies under the turn rule of that order.
    fn prove(&self, graph: &FabricGraph, climbs: &[bool], channels: u8) -> Result<Proof, Cycle> {
        check(
            graph,
            &self.ports,
            &self.representatives(),
            |switch, destination| self.candidates(switch, destination),
            |switch, from, to| turns(&self.ports, climbs, switch, from, to),
            channels,
        )
    }

    /// How many virtual channels the turn rule of that order needs, if at most `most`.
    fn virtual_channels_of(&self, climbs: &[bool], most: u8) -> Option<u8> {
        let increments = |switch, from, to| turns(&self.ports, climbs, switch, from, to);
        let candidates = |switch, destination| self.candidates(switch, destination);
        let all = Dependencies::collect(
            &self.ports,
            &self.representatives(),
            candidates,
            increments,
            most,
        );
        (!all.overflow).then(|| all.virtual_channels_used())
    }
}

/// Whether both ports lead to a later switch, which is to say that a message between them comes
/// from a later switch and goes to one.
#[inline]
fn turns(ports: &Ports, climbs: &[bool], switch: usize, in_port: u16, out_port: u16) -> bool {
    !climbs.is_empty()
        && climbs[ports.flat(switch, in_port)]
        && climbs[ports.flat(switch, out_port)]
}
