//! Orders of the switches, and the turn rule that makes virtual channels of them.
//!
//! With the switches in any order, a directed link climbs when it leads to a later switch. A
//! message moves to the next virtual channel at each switch where it arrives on a link that does
//! not climb and leaves on one that does. Within one virtual channel it therefore climbs first
//! and descends then, so no dependency leads back to where it came from.

use std::cmp::Reverse;

use crate::graph::FabricGraph;

use super::distances::{Distances, UNREACHABLE, search};
use super::ports::{PortPeer, Ports};

/// Which ports, numbered among all, lead to a later switch in each of the orders to try.
pub(super) fn orders(graph: &FabricGraph, ports: &Ports, distances: &Distances) -> Vec<Vec<bool>> {
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

/// The ports, numbered among all, whose link climbs in the order of `key`.
fn climbs<K: Ord>(ports: &Ports, key: impl Fn(usize) -> K) -> Vec<bool> {
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

/// The switch whose farthest destination is nearest, the first of them.
fn centre(distances: &Distances, switches: usize) -> usize {
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

/// The distance of every switch to `root`, or to the first switch of its part of the fabric where that is another.
fn forest(ports: &Ports, root: usize) -> Vec<u16> {
    let mut all = search(ports, root, |_| true);
    while let Some(apart) = all.iter().position(|links| *links == UNREACHABLE) {
        for (links, own) in all.iter_mut().zip(search(ports, apart, |_| true)) {
            *links = (*links).min(own);
        }
    }
    all
}
