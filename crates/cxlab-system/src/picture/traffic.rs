//! Links by source and destination group, and the busiest links.

use std::collections::BTreeMap;

use super::scene::{Load, Node, Scene};

/// Number of busiest links that are named.
const NAMED: usize = 10;

/// The links from one group to another.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Flow {
    /// Number of links.
    pub links: usize,
    /// Largest utilization of them in this direction, from 0 to 1. 0 without a run.
    pub busiest: f64,
}

/// Links by source and destination group.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Traffic {
    /// Names of the groups. The links between endpoints and switches have two groups of their own at the end: `hosts` and
    /// `devices`.
    pub names: Vec<String>,
    /// By numbers of source and destination.
    pub flows: BTreeMap<(usize, usize), Flow>,
    /// The busiest directions of links with their utilization, the busiest first. Empty without a run.
    pub busiest: Vec<(String, f64)>,
}

impl Traffic {
    /// The links of a scene whose nodes are in groups with these names.
    pub(super) fn of(
        scene: &Scene<'_>,
        names: Vec<String>,
        group_of: impl Fn(Node) -> usize,
    ) -> Traffic {
        let groups = names.len();
        let mut flows: BTreeMap<(usize, usize), Flow> = BTreeMap::new();
        for (number, (a, b)) in scene.links.iter().enumerate() {
            let attached = matches!(b, Node::Switch(_));
            let place = |node: Node| match node {
                Node::Host(_) if attached => groups,
                Node::Device(_) if attached => groups + 1,
                _ => group_of(node),
            };
            let (from, to) = (place(*a), place(*b));
            let loads = scene.loads.as_ref();
            let [there, back] =
                loads.map_or([0.0; 2], |loads| loads[number].map(|load| load.utilization));
            let directions: &[((usize, usize), f64)] = match from == to {
                // A link counts once within its group.
                true => &[((from, to), there.max(back))],
                false => &[((from, to), there), ((to, from), back)],
            };
            for (pair, utilization) in directions {
                let flow = flows.entry(*pair).or_default();
                flow.links += 1;
                flow.busiest = flow.busiest.max(*utilization);
            }
        }
        let mut traffic = Traffic {
            names,
            flows,
            busiest: busiest(scene),
        };
        traffic.add_endpoints(groups);
        traffic
    }

    /// Names the groups of hosts and devices that have links.
    fn add_endpoints(&mut self, groups: usize) {
        let used = |group: usize| self.flows.keys().any(|(from, _)| *from == group);
        let devices = used(groups + 1);
        if used(groups) || devices {
            self.names.push("hosts".to_owned());
        }
        if devices {
            self.names.push("devices".to_owned());
        }
    }
}

/// The busiest directions of all links; of equally busy ones those with the smaller numbers.
fn busiest(scene: &Scene<'_>) -> Vec<(String, f64)> {
    let Some(loads) = &scene.loads else {
        return Vec::new();
    };
    let both = |(number, [there, back]): (usize, &[Load; 2])| {
        [
            (there.utilization, number, false),
            (back.utilization, number, true),
        ]
    };
    let all = loads.iter().enumerate().flat_map(both);
    let busy = all.filter(|(utilization, ..)| *utilization > 0.0);
    let mut busy: Vec<(f64, usize, bool)> = busy.collect();
    busy.sort_by(|a, b| b.0.total_cmp(&a.0));
    let first = busy.into_iter().take(NAMED);
    let named = first.map(|(load, number, back)| (scene.direction(number, back), load));
    named.collect()
}
