//! Orders of the switches, and the turn rule that derives virtual channels from them.
//!
//! In any order of the switches, a directed link *climbs* if it leads to a later switch, and *descends*
//! otherwise. A message moves to the next virtual channel at each switch where it arrives on a descending
//! link and leaves on a climbing one. Within one virtual channel, a message therefore climbs first and
//! descends afterwards, so its dependencies form no cycle.

use std::cmp::Reverse;

use crate::graph::FabricGraph;

use super::distances::{SwitchDistances, UNREACHABLE, search};
use super::ports::{PortPeer, SwitchPorts};

/// For each candidate order: whether each port, numbered over all switches, leads to a later switch.
pub(super) fn orders(
    graph: &FabricGraph,
    ports: &SwitchPorts,
    distances: &SwitchDistances,
) -> Vec<Vec<bool>> {
    let switches = graph.switches.len();
    let by_level = |switch: usize| (graph.switches[switch].level, switch);
    let from_centre = forest(ports, centre(distances, switches));
    let from_first = forest(ports, 0);
    let mut orders = vec![
        climbs(ports, by_level),
        climbs(ports, |switch| (Reverse(from_centre[switch]), switch)),
        climbs(ports, |switch| (Reverse(from_first[switch]), switch)),
        climbs(ports, |switch| switch),
    ];
    orders.dedup();
    orders
}

/// Whether the link of each port, numbered over all switches, climbs in the order of `key`.
fn climbs<K: Ord>(ports: &SwitchPorts, key: impl Fn(usize) -> K) -> Vec<bool> {
    let mut climbs = Vec::with_capacity(ports.count());
    for switch in 0..ports.switches() {
        for peer in ports.of(switch) {
            climbs.push(match *peer {
                PortPeer::Endpoint(_) | PortPeer::Cut => false,
                PortPeer::Switch { index, .. } => key(index) > key(switch),
            });
        }
    }
    climbs
}

/// The switch whose largest distance to a destination is smallest; on a tie, the first.
fn centre(distances: &SwitchDistances, switches: usize) -> usize {
    let mut farthest = vec![0_u16; switches];
    for row in 0..distances.rows() {
        for (far, distance) in farthest.iter_mut().zip(distances.to(row)) {
            *far = (*far).max(*distance);
        }
    }
    (0..switches)
        .min_by_key(|switch| farthest[*switch])
        .unwrap_or(0)
}

/// Distance of every switch to `root`, or to the first switch of its component if the
/// fabric is not connected.
fn forest(ports: &SwitchPorts, root: usize) -> Vec<u16> {
    let mut all = search(ports, root, |_| true);
    while let Some(apart) = all.iter().position(|links| *links == UNREACHABLE) {
        for (links, from_apart) in all.iter_mut().zip(search(ports, apart, |_| true)) {
            *links = (*links).min(from_apart);
        }
    }
    all
}
