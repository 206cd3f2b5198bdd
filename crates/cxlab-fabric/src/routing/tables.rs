//! Routing tables: the ports by which a switch may send a message on, and the virtual channel.
//!
//! Paths are shortest, or up*/down* if there are too few virtual channels for shortest paths ([`AllowedPaths`]).
//! Tables are kept by destination switch, so their size does not grow with the number of endpoints.

use crate::graph::FabricGraph;

use super::RoutingKind;
use super::candidates::OutputCandidates;
use super::deadlock::{ChannelDependencies, DeadlockProof, MAX_VIRTUAL_CHANNELS, check};
use super::distances::SwitchDistances;
use super::order::orders;
use super::ports::SwitchPorts;
use crate::error::{DependencyCycle, FabricError};

/// The paths that messages may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllowedPaths {
    /// All shortest paths.
    Shortest,
    /// Some shortest paths: a switch with shortest paths to later switches uses only those.
    Turns,
    /// Paths that climb an order of the switches first and descend afterwards (M. Schroeder et al.,
    /// "Autonet: a high-speed, self-configuring local area network using point-to-point links", IEEE JSAC
    /// 9(8), 1991). They may be longer than the shortest.
    UpDown,
}

impl AllowedPaths {
    /// Name of the paths, as `cxlab plan` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            AllowedPaths::Shortest => "shortest",
            AllowedPaths::Turns => "shortest, restricted by a turn model",
            AllowedPaths::UpDown => "up*/down*",
        }
    }
}

/// The routing of one fabric, proved free of deadlock.
#[derive(Clone, Debug)]
pub struct RoutingTables {
    kind: RoutingKind,
    ports: SwitchPorts,
    /// Edge port of each endpoint, as a slice of one candidate.
    edge_ports: Vec<u16>,
    distances: SwitchDistances,
    candidates: OutputCandidates,
    /// Whether each port, numbered over all switches, leads to a later switch. Empty
    /// with one virtual channel.
    climbs: Vec<bool>,
    paths: AllowedPaths,
    proof: DeadlockProof,
    requesters: usize,
    /// Pairs of endpoints linked without a switch, sorted.
    direct: Vec<(usize, usize)>,
}

impl RoutingTables {
    /// Builds the tables of a fabric, with the fewest virtual channels that the search finds.
    ///
    /// # Errors
    /// The first of [`FabricGraph::problems`], or [`FabricError::Isolated`] for a requester that reaches no
    /// device or a device that reaches no requester.
    pub fn build(graph: &FabricGraph, kind: RoutingKind) -> Result<Self, FabricError> {
        Self::build_within(graph, kind, MAX_VIRTUAL_CHANNELS)
    }

    /// Builds the tables as [`RoutingTables::build`] does, with at most `most` virtual channels (1 to 8).
    ///
    /// If the set of all shortest paths needs more, every switch with candidates to a later switch uses
    /// only those. That is a turn model: less adaptive, but still with shortest paths. If the turn model
    /// needs more channels too, paths are [`AllowedPaths::UpDown`], which need one.
    ///
    /// # Errors
    /// Those of [`RoutingTables::build`].
    pub fn build_within(
        graph: &FabricGraph,
        kind: RoutingKind,
        most: u8,
    ) -> Result<Self, FabricError> {
        let tables = Self::unproven(graph, kind, |_| false)?;
        tables.check_isolation(graph)?;
        tables.proven(graph, most)
    }

    /// Builds the tables of a fabric in which the links between switches have failed for which
    /// `is_cut` is true. Port numbers do not change. Some requesters may then reach no device, and
    /// some devices no requester.
    ///
    /// # Errors
    /// Those of [`RoutingTables::build`], except [`FabricError::Isolated`].
    pub fn build_without(
        graph: &FabricGraph,
        kind: RoutingKind,
        most: u8,
        is_cut: impl Fn(usize) -> bool,
    ) -> Result<Self, FabricError> {
        Self::unproven(graph, kind, is_cut)?.proven(graph, most)
    }

    /// Tables with all shortest paths on one virtual channel, not yet proved free of deadlock.
    fn unproven(
        graph: &FabricGraph,
        kind: RoutingKind,
        is_cut: impl Fn(usize) -> bool,
    ) -> Result<Self, FabricError> {
        graph.check()?;
        let mut ports = SwitchPorts::number(graph)?;
        ports.cut(is_cut);
        let distances = SwitchDistances::measure(&ports);
        let candidates = OutputCandidates::collect(&ports, &distances, None);
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
            paths: AllowedPaths::Shortest,
            proof: DeadlockProof {
                virtual_channels: 1,
                ..DeadlockProof::default()
            },
            requesters: graph.endpoints.requesters.len(),
            direct,
        })
    }

    /// Chooses virtual channels and paths, and proves the routing free of deadlock.
    fn proven(mut self, graph: &FabricGraph, most: u8) -> Result<Self, FabricError> {
        if !graph.switches.is_empty() {
            self.choose_virtual_channels(graph, most)?;
        }
        Ok(self)
    }

    /// The kind of routing for which the tables were built.
    pub fn kind(&self) -> RoutingKind {
        self.kind
    }

    /// The ports of all switches.
    pub fn ports(&self) -> &SwitchPorts {
        &self.ports
    }

    /// All ports by which a message for endpoint `destination` may leave `switch`; with `shortest`, the
    /// single port that it takes. Empty if no path leads there.
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
            RoutingKind::Shortest => super::kinds::narrow(all, destination),
            RoutingKind::Oblivious | RoutingKind::Random | RoutingKind::Adaptive => all,
        }
    }

    /// Whether a message moves to the next virtual channel at a switch that it enters by `in_port`
    /// and leaves by `out_port`.
    #[inline]
    pub fn vc_increment(&self, switch: usize, in_port: u16, out_port: u16) -> bool {
        turns(&self.ports, &self.climbs, switch, in_port, out_port)
    }

    /// Number of virtual channels that each link between switches needs, at least 1.
    pub fn virtual_channels(&self) -> u8 {
        self.proof.virtual_channels
    }

    /// Size of the proof that the routing is free of deadlock.
    pub fn proof(&self) -> DeadlockProof {
        self.proof
    }

    /// The paths that messages may take.
    pub fn paths(&self) -> AllowedPaths {
        self.paths
    }

    /// Number of links from one endpoint to another, with edge links; `None` without a path.
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

    /// The devices that a requester reaches, as endpoint numbers.
    pub fn reachable(&self, requester: usize) -> Vec<usize> {
        let devices = self.requesters..self.edge_ports.len();
        devices
            .filter(|device| self.hops(requester, *device).is_some())
            .collect()
    }

    /// Checks that a path leads from a requester to a device, given their endpoint numbers.
    ///
    /// # Errors
    /// [`FabricError::UnreachableDevice`] if there is none.
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

    /// Endpoints to which the proof follows paths. Destinations that are routed alike need only one.
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

    /// Checks that every requester reaches a device and every device a requester.
    fn check_isolation(&self, graph: &FabricGraph) -> Result<(), FabricError> {
        let endpoints = &graph.endpoints;
        let joins = |requester, device| self.hops(requester, device).is_some();
        let is_joined = |endpoint| match endpoints.is_requester(endpoint) {
            true => endpoints
                .device_range()
                .any(|device| joins(endpoint, device)),
            false => (0..self.requesters).any(|requester| joins(requester, endpoint)),
        };
        match (0..endpoints.len()).find(|endpoint| !is_joined(*endpoint)) {
            Some(endpoint) => Err(graph.isolated(endpoint)),
            None => Ok(()),
        }
    }

    /// Chooses paths and virtual channels. The search tries one virtual channel, then all shortest
    /// paths in several orders of the switches, then the turn model of each order, and then the
    /// up*/down* paths of each order. The first of these stages with a solution determines the paths.
    /// Within a stage, the order with the fewest virtual channels is used, and for up*/down* paths the
    /// order with the shortest paths.
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
            self.paths = AllowedPaths::Turns;
            for climbs in &orders {
                let turned = OutputCandidates::collect(&self.ports, &self.distances, Some(climbs));
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
        // The proof is made of the tables in their final form, not of the search for them.
        self.proof = self
            .prove(graph, climbs, needed)
            .map_err(FabricError::DependencyCycle)?;
        self.climbs = climbs.clone();
        Ok(())
    }

    /// Uses the up*/down* paths of the order in which they are shortest in total. The order by distance
    /// from the centre always reaches every destination: each switch except the first of its component has
    /// a nearer one above it.
    fn climb_and_descend(&mut self, orders: &[Vec<bool>]) {
        let all = orders.iter().map(|climbs| {
            let distances = SwitchDistances::measure_up_down(&self.ports, climbs);
            (distances, climbs)
        });
        let complete = all.filter(|(distances, _)| distances.reaches_all_of(&self.distances));
        let Some((distances, climbs)) = complete.min_by_key(|(distances, _)| distances.sum())
        else {
            unreachable!("an order by distance leads everywhere")
        };
        self.paths = AllowedPaths::UpDown;
        self.candidates = OutputCandidates::collect(&self.ports, &distances, Some(climbs));
        self.distances = distances;
    }

    /// Checks all dependencies under the turn rule of an order.
    fn prove(
        &self,
        graph: &FabricGraph,
        climbs: &[bool],
        channels: u8,
    ) -> Result<DeadlockProof, DependencyCycle> {
        check(
            graph,
            &self.ports,
            &self.representatives(),
            |switch, destination| self.candidates(switch, destination),
            |switch, from, to| turns(&self.ports, climbs, switch, from, to),
            channels,
        )
    }

    /// Number of virtual channels that the turn rule of an order needs; `None` if more than `most`.
    fn virtual_channels_of(&self, climbs: &[bool], most: u8) -> Option<u8> {
        let increments = |switch, from, to| turns(&self.ports, climbs, switch, from, to);
        let candidates = |switch, destination| self.candidates(switch, destination);
        let all = ChannelDependencies::collect(
            &self.ports,
            &self.representatives(),
            candidates,
            increments,
            most,
        );
        (!all.overflow).then(|| all.virtual_channels_used())
    }
}

/// Whether both ports lead to a later switch, so that a message between them comes from a later
/// switch and goes to one.
#[inline]
fn turns(ports: &SwitchPorts, climbs: &[bool], switch: usize, in_port: u16, out_port: u16) -> bool {
    !climbs.is_empty()
        && climbs[ports.flat(switch, in_port)]
        && climbs[ports.flat(switch, out_port)]
}
