//! Distances between switches, in links.

use std::collections::VecDeque;

use super::ports::{PortPeer, SwitchPorts};

/// Distance of every switch to every switch with endpoints, along the paths that messages may take.
#[derive(Clone, Debug)]
pub(super) struct SwitchDistances {
    switches: usize,
    /// Row of each switch with endpoints.
    row_of: Vec<Option<u32>>,
    /// Row by row: distance of each switch to the row's switch.
    distance: Vec<u16>,
    /// Row by row: whether descending links alone lead from each switch to the row's switch. Empty
    /// unless paths are up*/down*.
    descends: Vec<bool>,
}

/// Distance of two switches without a path between them.
pub(super) const UNREACHABLE: u16 = u16::MAX;

impl SwitchDistances {
    /// Measures shortest paths, with one breadth-first search for each switch with endpoints.
    pub(super) fn measure(ports: &SwitchPorts) -> Self {
        SwitchDistances::of_rows(ports, |target, all| {
            all.distance.extend(search(ports, target, |_| true));
        })
    }

    /// Measures up*/down* paths, which climb first and descend afterwards. `climbs` says which ports climb,
    /// numbered over all switches. A switch from which descending links lead to the destination uses only
    /// these, so the next hop of a message depends on the switch and the destination alone.
    pub(super) fn measure_up_down(ports: &SwitchPorts, climbs: &[bool]) -> Self {
        SwitchDistances::of_rows(ports, |target, all| {
            // Seen from the destination, a link that climbs descends to it.
            let mut distance = search(ports, target, |port| climbs[port]);
            all.descends
                .extend(distance.iter().map(|links| *links != UNREACHABLE));
            let first = (0..ports.switches()).filter(|switch| distance[*switch] != UNREACHABLE);
            let mut first: Vec<usize> = first.collect();
            first.sort_by_key(|switch| distance[*switch]);
            spread(ports, &mut distance, &first, |port| !climbs[port]);
            all.distance.extend(distance);
        })
    }

    fn of_rows(ports: &SwitchPorts, mut add: impl FnMut(usize, &mut SwitchDistances)) -> Self {
        let targets = ports.edge_switches();
        let mut all = SwitchDistances {
            switches: ports.switches(),
            row_of: vec![None; ports.switches()],
            distance: Vec::with_capacity(targets.len() * ports.switches()),
            descends: Vec::new(),
        };
        for (row, target) in targets.iter().enumerate() {
            all.row_of[*target] = Some(row as u32);
            add(*target, &mut all);
        }
        all
    }

    /// Whether a message to the destination of `row` may go from `switch` to `next`. `climbs` is true if
    /// the link between the switches climbs.
    pub(super) fn may(&self, row: usize, switch: usize, next: usize, climbs: bool) -> bool {
        let to = self.to(row);
        let legal = match self.descends.get(row * self.switches + switch) {
            None => true,
            Some(false) => climbs,
            Some(true) => !climbs && self.descends[row * self.switches + next],
        };
        legal && to[next] < to[switch]
    }

    /// Whether every switch reaches each destination that it reaches according to `other`.
    pub(super) fn reaches_all_of(&self, other: &SwitchDistances) -> bool {
        let pairs = self.distance.iter().zip(&other.distance);
        pairs
            .into_iter()
            .all(|(links, other)| *links != UNREACHABLE || *other == UNREACHABLE)
    }

    /// Sum of all distances, without pairs that have no path.
    pub(super) fn sum(&self) -> u64 {
        let links = self.distance.iter().filter(|links| **links != UNREACHABLE);
        links.map(|links| u64::from(*links)).sum()
    }

    /// Number of switches that are destinations.
    pub(super) fn rows(&self) -> usize {
        self.distance.len().checked_div(self.switches).unwrap_or(0)
    }

    /// Row of a destination switch.
    pub(super) fn row(&self, destination: usize) -> Option<usize> {
        self.row_of[destination].map(|row| row as usize)
    }

    /// Distances of all switches to the destination of `row`.
    pub(super) fn to(&self, row: usize) -> &[u16] {
        &self.distance[row * self.switches..(row + 1) * self.switches]
    }

    /// Number of links between a switch and the destination of `row`; `None` without a path.
    pub(super) fn between(&self, switch: usize, row: usize) -> Option<u32> {
        match self.to(row)[switch] {
            UNREACHABLE => None,
            links => Some(u32::from(links)),
        }
    }
}

/// Distance of every switch to `target`, over the ports that `takes` accepts. The port passed to `takes` is
/// on the switch nearer to `target`.
pub(super) fn search(
    ports: &SwitchPorts,
    target: usize,
    takes: impl Fn(usize) -> bool,
) -> Vec<u16> {
    let mut distance = vec![UNREACHABLE; ports.switches()];
    distance[target] = 0;
    spread(ports, &mut distance, &[target], takes);
    distance
}

/// Extends known distances to the switches that have none yet, by breadth-first search. The search starts
/// at the switches of `first`, in order of their distances.
fn spread(
    ports: &SwitchPorts,
    distance: &mut [u16],
    first: &[usize],
    takes: impl Fn(usize) -> bool,
) {
    let mut waiting = first.iter().copied().peekable();
    let mut queue = VecDeque::new();
    loop {
        // The nearer of the next known switch and the next found switch goes first.
        let known = waiting.peek().map(|switch| distance[*switch]);
        let found = queue.front().map(|switch: &usize| distance[*switch]);
        let nearest = match (known, found) {
            (Some(known), found) if found.is_none_or(|found| known <= found) => waiting.next(),
            _ => queue.pop_front(),
        };
        let Some(switch) = nearest else { return };
        for (port, peer) in ports.of(switch).iter().enumerate() {
            if let PortPeer::Switch { index, .. } = *peer
                && distance[index] == UNREACHABLE
                && takes(ports.flat(switch, port as u16))
            {
                distance[index] = distance[switch] + 1;
                queue.push_back(index);
            }
        }
    }
}
