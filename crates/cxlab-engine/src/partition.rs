//! Dividing the component graph among threads: only long-latency wires are cut, because the
//! shortest cut wire is the lookahead, the span that partitions may run apart.

use crate::component::Wire;
use crate::units::Picos;

/// A division of components into parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The part of each component.
    pub part_of: Vec<u16>,
    /// How many parts there are (at least one, at most what was asked for).
    pub parts: usize,
    /// The shortest latency of a wire between two parts; `None` when nothing is cut.
    pub lookahead: Option<Picos>,
}

/// Divides components, given each one's wires, into at most `parts` parts of similar weight (a
/// component weighs one plus its wires, about its share of the events).
///
/// Among the wire latencies that occur, the longest is chosen as lookahead for which clusters of
/// components joined by shorter wires still balance; clusters are then laid out in breadth-first
/// order and cut into parts, so that neighbours tend to stay together. Deterministic.
pub fn partition(wires: &[Vec<Wire>], parts: usize) -> Partition {
    let count = wires.len();
    let parts = parts.clamp(1, count.max(1));
    if parts == 1 {
        return Partition {
            part_of: vec![0; count],
            parts: 1,
            lookahead: None,
        };
    }
    let weight: Vec<u64> = wires.iter().map(|own| 1 + own.len() as u64).collect();
    let total: u64 = weight.iter().sum();
    let mut latencies: Vec<u64> = wires
        .iter()
        .flatten()
        .map(|wire| wire.min_latency.0)
        .collect();
    latencies.sort_unstable();
    latencies.dedup();
    let cluster_of = latencies
        .iter()
        .rev()
        .map(|threshold| clusters(wires, *threshold))
        .find(|cluster_of| {
            let mut sizes = vec![0u64; count];
            for (component, cluster) in cluster_of.iter().enumerate() {
                sizes[*cluster] += weight[component];
            }
            let largest = sizes.iter().max().copied().unwrap_or(0);
            largest * parts as u64 <= total + total / 4
        })
        .unwrap_or_else(|| (0..count).collect());

    let order = breadth_first(wires, &cluster_of);
    let mut part_of = vec![0u16; count];
    let (mut filled, mut part) = (0u64, 0usize);
    let mut previous = None;
    for component in order {
        let cluster = cluster_of[component];
        if previous != Some(cluster) && filled * parts as u64 >= total * (part as u64 + 1) {
            part = (part + 1).min(parts - 1);
        }
        previous = Some(cluster);
        part_of[component] = part as u16;
        filled += weight[component];
    }
    let lookahead = wires
        .iter()
        .enumerate()
        .flat_map(|(from, own)| own.iter().map(move |wire| (from, wire)))
        .filter(|(from, wire)| part_of[*from] != part_of[wire.peer.0 as usize])
        .map(|(_, wire)| wire.min_latency)
        .min();
    Partition {
        part_of,
        parts: part + 1,
        lookahead,
    }
}

/// Joins components by wires shorter than `threshold`; returns each one's cluster representative.
fn clusters(wires: &[Vec<Wire>], threshold: u64) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..wires.len()).collect();
    for (from, own) in wires.iter().enumerate() {
        for wire in own.iter().filter(|wire| wire.min_latency.0 < threshold) {
            let (a, b) = (
                root(&mut parent, from),
                root(&mut parent, wire.peer.0 as usize),
            );
            parent[a.max(b)] = a.min(b);
        }
    }
    (0..wires.len())
        .map(|component| root(&mut parent, component))
        .collect()
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

/// Every component once, neighbours near each other, clusters contiguous.
fn breadth_first(wires: &[Vec<Wire>], cluster_of: &[usize]) -> Vec<usize> {
    let count = wires.len();
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (component, cluster) in cluster_of.iter().enumerate() {
        members[*cluster].push(component);
    }
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    let mut frontier = std::collections::VecDeque::new();
    for first in 0..count {
        let cluster = cluster_of[first];
        if seen[cluster] {
            continue;
        }
        seen[cluster] = true;
        frontier.push_back(cluster);
        while let Some(cluster) = frontier.pop_front() {
            for &component in &members[cluster] {
                order.push(component);
                for wire in &wires[component] {
                    let next = cluster_of[wire.peer.0 as usize];
                    if !seen[next] {
                        seen[next] = true;
                        frontier.push_back(next);
                    }
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::ComponentId;

    fn ring(latencies: &[u64]) -> Vec<Vec<Wire>> {
        let count = latencies.len();
        let wire = |to: usize, latency: u64| Wire {
            peer: ComponentId(to as u32),
            peer_port: 0,
            min_latency: Picos(latency),
        };
        (0..count)
            .map(|at| {
                let before = (at + count - 1) % count;
                vec![
                    wire((at + 1) % count, latencies[at]),
                    wire(before, latencies[before]),
                ]
            })
            .collect()
    }

    #[test]
    fn only_long_wires_are_cut() {
        let wires = ring(&[1, 100, 1, 100, 1, 100, 1, 100]);
        for parts in 2..=4 {
            let division = partition(&wires, parts);
            assert_eq!(division.lookahead, Some(Picos(100)));
            assert_eq!(division.parts, parts);
        }
    }

    #[test]
    fn parts_balance_when_wires_are_equal() {
        for parts in 1..=8 {
            let division = partition(&ring(&[5; 64]), parts);
            let mut sizes = vec![0; division.parts];
            division
                .part_of
                .iter()
                .for_each(|part| sizes[*part as usize] += 1);
            assert_eq!(division.parts, parts);
            assert!(
                sizes
                    .iter()
                    .all(|size| (64 / parts - 1..=64 / parts + 2).contains(size))
            );
        }
    }
}
