//! Distances between switches, in links.

use std::collections::VecDeque;

use super::ports::{PortPeer, Ports};

/// The distance of every switch to every switch that holds an endpoint, along the paths that messages may take.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    switches: usize,
    /// The row of each switch that holds an endpoint.
    row_of: Vec<Option<u32>>,
    /// Row by row, the distance of each switch to the row's.
    distance: Vec<u16>,
    /// Whether links that descend lead from each switch to the row's, row by row; empty unless paths are up*/down*.
    descends: Vec<bool>,
}

/// The distance of switches without a path between them.
pub(super) const UNREACHABLE: u16 = u16::MAX;

impl Distances {
    /// Measures shortest paths by one breadth-first search for each switch that holds an endpoint.
    pub(super) fn measure(ports: &Ports) -> Self {
        Distances::of_rows(ports, |target, all| {
            all.distance.extend(search(ports, target, |_| true));
        })
    }

    /// Measures up*/down* paths, which climb first and descend then; `climbs` says which ports climb, numbered among all.
    /// A switch from which links that descend lead to the destination takes these, so where a message goes on depends on
    /// nothing but the switch and the destination.
    pub(super) fn measure_up_down(ports: &Ports, climbs: &[bool]) -> Self {
        Distances::of_rows(ports, |target, all| {
            // From the destination, what climbs is what descends to it.
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

    fn of_rows(ports: &Ports, mut add: impl FnMut(usize, &mut Distances)) -> Self {
        let targets = ports.edge_switches();
        let mut all = Distances {
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

    /// Whether a message to the destination of that row may go from one switch to the next by a port that climbs, or
    /// by one that does not.
    pub(super) fn may(&self, row: usize, switch: usize, next: usize, climbs: bool) -> bool {
        let to = self.to(row);
        let legal = match self.descends.get(row * self.switches + switch) {
            None => true,
            Some(false) => climbs,
            Some(true) => !climbs && self.descends[row * self.switches + next],
        };
        legal && to[next] < to[switch]
    }

    /// Whether every switch reaches every destination that `other` reaches it by.
    pub(super) fn reaches_all_of(&self, other: &Distances) -> bool {
        let pairs = self.distance.iter().zip(&other.distance);
        pairs
            .into_iter()
            .all(|(own, other)| *own != UNREACHABLE || *other == UNREACHABLE)
    }

    /// The sum of all distances, those without a path left out.
    pub(super) fn sum(&self) -> u64 {
        let links = self.distance.iter().filter(|links| **links != UNREACHABLE);
        links.map(|links| u64::from(*links)).sum()
    }

    /// How many switches are destinations.
    pub(super) fn rows(&self) -> usize {
        self.distance.len().checked_div(self.switches).unwrap_or(0)
    }

    /// The row of a destination switch.
    pub(super) fn row(&self, destination: usize) -> Option<usize> {
        self.row_of[destination].map(|row| row as usize)
    }

    /// The distances of all switches to the destination of that row.
    pub(super) fn to(&self, row: usize) -> &[u16] {
        &self.distance[row * self.switches..(row + 1) * self.switches]
    }

    /// The links between a switch and the destination of that row.
    pub(super) fn between(&self, switch: usize, row: usize) -> Option<u32> {
        match self.to(row)[switch] {
            UNREACHABLE => None,
            links => Some(u32::from(links)),
        }
    }
}

/// The distance of every switch to `target`, over the ports that `takes` accepts: each is a port of the switch that is nearer.
pub(super) fn search(ports: &Ports, target: usize, takes: impl Fn(usize) -> bool) -> Vec<u16> {
    let mut distance = vec![UNREACHABLE; ports.switches()];
    distance[target] = 0;
    spread(ports, &mut distance, &[target], takes);
    distance
}

/// Goes on from the switches of `first`, whose distances are known and rise, to those whose are not.
fn spread(ports: &Ports, distance: &mut [u16], first: &[usize], takes: impl Fn(usize) -> bool) {
    let mut waiting = first.iter().copied().peekable();
    let mut queue = VecDeque::new();
    loop {
        // The nearer of what was known and what was found goes first.
        let known = waiting.peek().map(|switch| distance[*switch]);
        let found = queue.front().map(|switch: &usize| distance[*switch]);
        let next = match (known, found) {
            (Some(known), found) if found.is_none_or(|found| known <= found) => waiting.next(),
            _ => queue.pop_front(),
        };
        let Some(switch) = next else { return };
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
