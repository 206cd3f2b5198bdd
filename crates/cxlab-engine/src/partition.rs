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
/// Components join into clusters: those with a single wire with their neighbour (most of their
/// events go there), and all that are joined by wires shorter than the lookahead, which is the
/// longest latency that occurs for which the clusters still balance. Clusters are dealt out in
/// order to the part with the least weight. Neighbours in number are of one kind in most systems
/// (hosts, leaves, spines), and traffic comes in waves that are at one kind at a time: dealing
/// gives every part a share of each kind, so that no part waits for another's wave. Deterministic.
pub fn partition(wires: &[Vec<Wire>], parts: usize) -> Partition {
    partition_together(wires, parts, &[])
}

/// The same where some components share something and so belong to one part, pair by pair.
pub fn partition_together(
    wires: &[Vec<Wire>],
    parts: usize,
    together: &[(usize, usize)],
) -> Partition {
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
    let cluster_of = choose_clusters(wires, &weight, parts, together);
    let mut cluster_weight = vec![0u64; count];
    for (component, cluster) in cluster_of.iter().enumerate() {
        cluster_weight[*cluster] += weight[component];
    }
    let mut load = vec![0u64; parts];
    let mut part_of_cluster: Vec<Option<u16>> = vec![None; count];
    for cluster in &cluster_of {
        if part_of_cluster[*cluster].is_none() {
            let least = (0..parts).min_by_key(|part| load[*part]).unwrap_or(0);
            load[least] += cluster_weight[*cluster];
            part_of_cluster[*cluster] = Some(least as u16);
        }
    }
    let part_of: Vec<u16> = cluster_of
        .iter()
        .map(|cluster| part_of_cluster[*cluster].unwrap_or(0))
        .collect();
    let used = part_of.iter().max().map_or(1, |part| *part as usize + 1);
    let lookahead = wires
        .iter()
        .enumerate()
        .flat_map(|(from, own)| own.iter().map(move |wire| (from, wire)))
        .filter(|(from, wire)| part_of[*from] != part_of[wire.peer.0 as usize])
        .map(|(_, wire)| wire.min_latency)
        .min();
    Partition {
        part_of,
        parts: used,
        lookahead,
    }
}

/// The clusters with the longest lookahead that still balance, each named by its first component.
fn choose_clusters(
    wires: &[Vec<Wire>],
    weight: &[u64],
    parts: usize,
    together: &[(usize, usize)],
) -> Vec<usize> {
    let total: u64 = weight.iter().sum();
    let mut latencies: Vec<u64> = wires
        .iter()
        .flatten()
        .map(|wire| wire.min_latency.0)
        .collect();
    latencies.sort_unstable();
    latencies.dedup();
    let balances = |cluster_of: &Vec<usize>| {
        let mut sizes = vec![0u64; weight.len()];
        for (component, cluster) in cluster_of.iter().enumerate() {
            sizes[*cluster] += weight[component];
        }
        let largest = sizes.iter().max().copied().unwrap_or(0);
        largest * parts as u64 <= total + total / 4
    };
    for with_neighbour in [true, false] {
        for threshold in latencies.iter().rev() {
            let cluster_of = clusters(wires, *threshold, with_neighbour, together);
            if balances(&cluster_of) {
                return cluster_of;
            }
        }
    }
    clusters(wires, 0, false, together)
}

/// Joins components by wires shorter than `threshold`, and if asked those with a single wire with
/// their neighbour; returns each one's cluster, named by its first component.
fn clusters(
    wires: &[Vec<Wire>],
    threshold: u64,
    with_neighbour: bool,
    together: &[(usize, usize)],
) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..wires.len()).collect();
    for (a, b) in together {
        let (a, b) = (root(&mut parent, *a), root(&mut parent, *b));
        parent[a.max(b)] = a.min(b);
    }
    for (from, own) in wires.iter().enumerate() {
        for wire in own {
            if wire.min_latency.0 < threshold || with_neighbour && own.len() == 1 {
                let (a, b) = (
                    root(&mut parent, from),
                    root(&mut parent, wire.peer.0 as usize),
                );
                parent[a.max(b)] = a.min(b);
            }
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
    fn what_belongs_together_stays_together() {
        let wires = ring(&[100; 8]);
        let division = partition_together(&wires, 4, &[(0, 4), (4, 6)]);
        assert_eq!(division.parts, 4);
        let part = |at: usize| division.part_of[at];
        assert_eq!((part(0), part(0)), (part(4), part(6)));
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

    #[test]
    fn every_part_gets_a_share_of_each_kind() {
        // Eight leaves of two endpoints each around one spine: endpoints 0 to 15, leaves 16 to
        // 23, the spine 24.
        let wire = |to: usize, port: usize| Wire {
            peer: ComponentId(to as u32),
            peer_port: port as u16,
            min_latency: Picos(70),
        };
        let mut wires: Vec<Vec<Wire>> = (0..16).map(|at| vec![wire(16 + at / 2, at % 2)]).collect();
        wires.extend(
            (0..8).map(|leaf| vec![wire(2 * leaf, 0), wire(2 * leaf + 1, 0), wire(24, leaf)]),
        );
        wires.push((0..8).map(|leaf| wire(16 + leaf, 2)).collect());
        let division = partition(&wires, 2);
        assert_eq!((division.parts, division.lookahead), (2, Some(Picos(70))));
        for endpoints in [0..8, 8..16] {
            let ours = division.part_of[endpoints]
                .iter()
                .filter(|part| **part == 0);
            assert_eq!(ours.count(), 4, "{:?}", division.part_of);
        }
        assert!((0..16).all(|at| division.part_of[at] == division.part_of[16 + at / 2]));
    }
}
