//! The content of a picture: nodes and links of a fabric, and the endpoints at each node.

use cxlab_fabric::graph::{Arrangement, FabricGraph};
use cxlab_plan::{End, Plan, PlannedLink};

use crate::report::{LinkReport, Report};

/// A node of a fabric, by its number among those of its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// A host, or another requester.
    Host(usize),
    /// A device at an edge port.
    Device(usize),
    /// A switch of the fabric.
    Switch(usize),
}

impl Node {
    fn of(end: End) -> Node {
        match end {
            End::Host(number, _) => Node::Host(number),
            End::Device(number, _) => Node::Device(number),
            End::Switch(number, _) => Node::Switch(number),
        }
    }

    fn of_endpoint(graph: &FabricGraph, endpoint: usize) -> Node {
        match endpoint.checked_sub(graph.endpoints.requesters.len()) {
            None => Node::Host(endpoint),
            Some(device) => Node::Device(device),
        }
    }
}

/// Use of one direction of a link.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Load {
    /// Part of the time in which the wire is busy, from 0 to 1.
    pub utilization: f64,
    /// Payload as a part of all bytes, from 0 to 1.
    pub efficiency: f64,
}

/// A fabric to draw.
pub struct Scene<'a> {
    /// Name of the system.
    pub title: &'a str,
    /// Switches, names and arrangement.
    pub graph: &'a FabricGraph,
    /// Both ends of each link.
    pub links: Vec<(Node, Node)>,
    /// By link: use of the direction from its first end to the second, and of the other direction. `None` without a run.
    pub loads: Option<Vec<[Load; 2]>>,
}

impl<'a> Scene<'a> {
    /// The fabric of a plan; with a report, how its links are used.
    pub fn of_plan(plan: &'a Plan, report: Option<&Report>) -> Self {
        let load = |link: &LinkReport| Load {
            utilization: link.utilization,
            efficiency: link.efficiency,
        };
        let loads = |report: &Report| {
            let links = report.links.as_chunks().0.iter();
            links
                .map(|[there, back]| [load(there), load(back)])
                .collect()
        };
        let ends = |link: &PlannedLink| (Node::of(link.a), Node::of(link.b));
        Scene {
            title: &plan.scenario.name,
            graph: &plan.graph,
            links: plan.links.iter().map(ends).collect(),
            loads: report.map(loads),
        }
    }

    /// A fabric without a plan: links of endpoints, then those between switches, then those without a switch.
    pub fn of_graph(title: &'a str, graph: &'a FabricGraph) -> Self {
        let endpoint = |number: usize| Node::of_endpoint(graph, number);
        let attached = graph.attachments.iter();
        let attached = attached.map(|one| (endpoint(one.endpoint), Node::Switch(one.switch)));
        let between = graph.links.iter();
        let between = between.map(|link| (Node::Switch(link.a), Node::Switch(link.b)));
        let direct = graph.direct.iter();
        let direct = direct.map(|(host, device)| (endpoint(*host), endpoint(*device)));
        Scene {
            title,
            graph,
            links: attached.chain(between).chain(direct).collect(),
            loads: None,
        }
    }

    /// Number of hosts, devices and switches.
    pub fn nodes(&self) -> usize {
        self.graph.endpoints.len() + self.graph.switches.len()
    }

    /// Name of a node.
    pub fn name(&self, node: Node) -> &str {
        match node {
            Node::Host(number) => &self.graph.endpoints.requesters[number],
            Node::Device(number) => &self.graph.endpoints.devices[number],
            Node::Switch(number) => &self.graph.switches[number].name,
        }
    }

    /// Name of a direction of a link, as in reports.
    pub fn direction(&self, link: usize, back: bool) -> String {
        let (a, b) = self.links[link];
        let (from, to) = if back { (b, a) } else { (a, b) };
        format!("{}->{}", self.name(from), self.name(to))
    }

    /// Utilization of the busier direction of a link. `None` without a run.
    pub(super) fn busier(&self, link: usize) -> Option<f64> {
        let [there, back] = self.loads.as_ref()?[link];
        Some(there.utilization.max(back.utilization))
    }
}

/// A node that is placed by the arrangement, and the endpoints that hang on it.
pub(super) struct Anchor {
    pub(super) node: Node,
    /// Endpoints that have their only link to the anchor: hosts, then devices.
    pub(super) satellites: Vec<Node>,
    pub(super) level: u32,
}

/// The anchors of a fabric, and the links between them.
pub(super) struct Skeleton {
    pub(super) anchors: Vec<Anchor>,
    pub(super) arrangement: Arrangement,
    homes: [Vec<usize>; 3],
    /// Pairs of anchors with links between them, the smaller number first, without repetition.
    pub(super) edges: Vec<(usize, usize)>,
}

impl Skeleton {
    /// Every switch is an anchor. Without a switch, a requester is, and a device unless it has one link only.
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let graph = scene.graph;
        let requesters = graph.endpoints.requesters.len();
        let mut parent: Vec<Option<Node>> = vec![None; graph.endpoints.len()];
        for one in &graph.attachments {
            parent[one.endpoint] = Some(Node::Switch(one.switch));
        }
        let mut heads = vec![Vec::new(); graph.endpoints.len()];
        for (requester, device) in &graph.direct {
            heads[*device].push(*requester);
        }
        for (endpoint, heads) in heads.iter().enumerate() {
            if let [requester] = heads[..] {
                parent[endpoint] = Some(Node::Host(requester));
            }
        }
        let mut anchors = Vec::new();
        let mut homes = [
            vec![0; requesters],
            vec![0; graph.endpoints.devices.len()],
            vec![0; graph.switches.len()],
        ];
        let mut add = |node: Node, level: u32, homes: &mut [Vec<usize>; 3]| {
            *slot(homes, node) = anchors.len();
            anchors.push(Anchor {
                node,
                satellites: Vec::new(),
                level,
            });
        };
        for (number, switch) in graph.switches.iter().enumerate() {
            add(Node::Switch(number), switch.level, &mut homes);
        }
        let orphans = (0..parent.len()).filter(|endpoint| parent[*endpoint].is_none());
        for endpoint in orphans {
            // Without switches, devices with several heads are a layer below the hosts.
            let level = u32::from(endpoint < requesters && graph.switches.is_empty());
            add(Node::of_endpoint(graph, endpoint), level, &mut homes);
        }
        for (endpoint, parent) in parent.iter().enumerate() {
            if let Some(parent) = parent {
                let home = *slot(&mut homes, *parent);
                let node = Node::of_endpoint(graph, endpoint);
                *slot(&mut homes, node) = home;
                anchors[home].satellites.push(node);
            }
        }
        let mut skeleton = Skeleton {
            anchors,
            arrangement: graph.arrangement.clone(),
            homes,
            edges: Vec::new(),
        };
        let links = scene.links.iter();
        let ends = links.map(|(a, b)| (skeleton.home(*a), skeleton.home(*b)));
        let between = ends
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a.min(b), a.max(b)));
        let mut edges: Vec<(usize, usize)> = between.collect();
        edges.sort_unstable();
        edges.dedup();
        skeleton.edges = edges;
        skeleton
    }

    /// Number of the anchor that a node is, or hangs on.
    pub(super) fn home(&self, node: Node) -> usize {
        match node {
            Node::Host(number) => self.homes[0][number],
            Node::Device(number) => self.homes[1][number],
            Node::Switch(number) => self.homes[2][number],
        }
    }
}

fn slot(homes: &mut [Vec<usize>; 3], node: Node) -> &mut usize {
    match node {
        Node::Host(number) => &mut homes[0][number],
        Node::Device(number) => &mut homes[1][number],
        Node::Switch(number) => &mut homes[2][number],
    }
}
