//! Distances between switches, in links.

use std::collections::VecDeque;

use super::ports::{PortPeer, Ports};

/// The distance of every switch to every switch that holds an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    switches: usize,
    /// The row of each switch that holds an endpoint.
    row_of: Vec<Option<u32>>,
    /// Row by row, the distance of each switch to the row's.
    distance: Vec<u16>,
}

/// The distance of switches without a path between them.
const UNREACHABLE: u16 = u16::MAX;

impl Distances {
    /// Measures by one breadth-first search for each switch that holds an endpoint.
    pub(super) fn measure(ports: &Ports) -> Self {
        let targets = ports.edge_switches();
        let mut row_of = vec![None; ports.switches()];
        let mut distance = Vec::with_capacity(targets.len() * ports.switches());
        for (row, target) in targets.iter().enumerate() {
            row_of[*target] = Some(row as u32);
            distance.extend(search(ports, *target));
        }
        Distances {
            switches: ports.switches(),
            row_of,
            distance,
        }
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

/// The distance of every switch to `target`.
pub(super) fn search(ports: &Ports, target: usize) -> Vec<u16> {
    let mut distance = vec![UNREACHABLE; ports.switches()];
    distance[target] = 0;
    let mut queue = VecDeque::from([target]);
    while let Some(switch) = queue.pop_front() {
        for peer in ports.of(switch) {
            if let PortPeer::Switch { index, .. } = *peer
                && distance[index] == UNREACHABLE
            {
                distance[index] = distance[switch] + 1;
                queue.push_back(index);
            }
        }
    }
    distance
}
