//! Divides the components among threads. Only wires of long latency are cut, because the shortest cut
//! wire is the lookahead, the span of time that partitions run independently.

use crate::component::Wire;
use crate::units::Picos;

/// A division of the components of a system into parts, one for each thread or rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partitioning {
    /// The part of each component, by component number.
    pub part_of: Vec<u16>,
    /// Number of parts: at least one, at most the number requested.
    pub parts: usize,
    /// The shortest latency of a wire between two parts; `None` when no wire is cut.
    pub lookahead: Option<Picos>,
}

impl Partitioning {
    /// All components in one part.
    pub fn single(components: usize) -> Partitioning {
        Partitioning {
            part_of: vec![0; components],
            parts: 1,
            lookahead: None,
        }
    }

    /// The numbers of the components of each part, in ascending order.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.parts];
        for (component, part) in self.part_of.iter().enumerate() {
            members[usize::from(*part)].push(component);
        }
        members
    }

    /// The weight of the heaviest part, where `weights` has the weight of each component.
    pub fn busiest(&self, weights: &[u64]) -> u64 {
        let mut load = vec![0; self.parts];
        for (part, weight) in self.part_of.iter().zip(weights) {
            load[usize::from(*part)] += weight;
        }
        load.into_iter().max().unwrap_or(0)
    }
}

/// Largest weight of the heaviest part, in percent of that in the most even division (*assumed*). Among the
/// divisions within this limit, the one with the longest lookahead is taken. A longer lookahead means fewer
/// barriers, and an uneven division means that threads wait at each of them.
const MAX_HEAVIEST_PERCENT: u64 = 135;

/// Divides components into at most `parts` parts of similar weight.
///
/// `wires` has the wires of each component, and `weights` its share of the work. The two components of a
/// pair in `together` come to one part. The division depends on these arguments alone.
///
/// 1. Components join into clusters. Two components with a wire shorter than the lookahead share a
///    cluster. The lookahead is the longest latency of a wire for which the parts still balance. A
///    component with a single wire joins its neighbour, which receives most of its events, where the
///    parts still balance.
/// 2. Clusters go to the part with the least weight: heavy ones first, those of similar weight by number.
///    In most systems neighbours in number are of one kind (hosts, leaves, spines), and traffic loads one
///    kind after the other. So every part gets a share of each kind, and no part waits for the others.
pub fn partition(
    wires: &[Vec<Wire>],
    weights: &[u64],
    parts: usize,
    together: &[(usize, usize)],
) -> Partitioning {
    let parts = parts.clamp(1, wires.len().max(1));
    if parts == 1 {
        return Partitioning::single(wires.len());
    }
    let mut latencies: Vec<u64> = wires
        .iter()
        .flatten()
        .map(|wire| wire.min_latency.0)
        .collect();
    latencies.sort_unstable();
    latencies.dedup();
    let longest_first = |with_neighbour| {
        let latencies = latencies.iter().rev();
        latencies.map(move |latency| (*latency, with_neighbour))
    };
    // With a threshold of 0, only the pairs in `together` are joined.
    let thresholds = longest_first(true)
        .chain(longest_first(false))
        .chain([(0, false)]);
    let divisions = thresholds.map(|(threshold, with_neighbour)| {
        let cluster_of = clusters(wires, threshold, with_neighbour, together);
        let division = deal(wires, weights, parts, &cluster_of);
        (division.busiest(weights), division)
    });
    let mut divisions: Vec<(u64, Partitioning)> = divisions.collect();
    let most_parts = divisions.iter().map(|(_, division)| division.parts).max();
    divisions.retain(|(_, division)| Some(division.parts) == most_parts);
    let most_even = divisions
        .iter()
        .map(|(busiest, _)| *busiest)
        .min()
        .unwrap_or(0);
    // Divisions with joined neighbours come first, and among these the one with the highest threshold.
    let mut divisions = divisions.into_iter();
    let limit = most_even * MAX_HEAVIEST_PERCENT;
    let division = divisions.find(|(busiest, _)| busiest * 100 <= limit);
    division.map_or_else(|| Partitioning::single(wires.len()), |(_, found)| found)
}

/// Distributes clusters over parts, each to the part with the least weight.
fn deal(wires: &[Vec<Wire>], weights: &[u64], parts: usize, cluster_of: &[usize]) -> Partitioning {
    let mut weight_of_cluster = vec![0u64; wires.len()];
    for (component, cluster) in cluster_of.iter().enumerate() {
        weight_of_cluster[*cluster] += weights[component];
    }
    // A cluster has the number of its first component.
    let numbered = cluster_of.iter().enumerate();
    let clusters = numbered.filter(|(component, cluster)| component == *cluster);
    let mut order: Vec<usize> = clusters.map(|(component, _)| component).collect();
    order.sort_by_key(|cluster| std::cmp::Reverse(rounded(weight_of_cluster[*cluster])));
    let mut load = vec![0u64; parts];
    let mut part_of_cluster = vec![0u16; wires.len()];
    for cluster in order {
        let least = (0..parts).min_by_key(|part| load[*part]).unwrap_or(0);
        load[least] += weight_of_cluster[cluster].max(1);
        part_of_cluster[cluster] = least as u16;
    }
    let part_of = cluster_of.iter().map(|cluster| part_of_cluster[*cluster]);
    let part_of: Vec<u16> = part_of.collect();
    let used = part_of.iter().max().map_or(1, |part| *part as usize + 1);
    let lookahead = wires
        .iter()
        .enumerate()
        .flat_map(|(from, wires)| wires.iter().map(move |wire| (from, wire)))
        .filter(|(from, wire)| part_of[*from] != part_of[wire.peer.0 as usize])
        .map(|(_, wire)| wire.min_latency)
        .min();
    Partitioning {
        part_of,
        parts: used,
        lookahead,
    }
}

/// A weight rounded down to three binary digits (*assumed*), so that clusters whose weights differ by chance
/// keep their order.
fn rounded(weight: u64) -> u64 {
    let digits = u64::BITS - weight.leading_zeros();
    let shift = digits.saturating_sub(3);
    weight >> shift << shift
}

/// Joins components that have a wire shorter than `threshold`, and with `with_neighbour` also a component with a single
/// wire and its neighbour. Returns the cluster of each component, which is the number of its first component.
pub(crate) fn clusters(
    wires: &[Vec<Wire>],
    threshold: u64,
    with_neighbour: bool,
    together: &[(usize, usize)],
) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..wires.len()).collect();
    let mut join = |a, b| {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b)] = a.min(b);
    };
    together.iter().for_each(|(a, b)| join(*a, *b));
    for (from, wires_of) in wires.iter().enumerate() {
        for wire in wires_of {
            if wire.min_latency.0 < threshold || with_neighbour && wires_of.len() == 1 {
                join(from, wire.peer.0 as usize);
            }
        }
    }
    (0..wires.len())
        .map(|component| root(&mut parent, component))
        .collect()
}

/// The root of a component in the union-find forest; shortens the path to it.
fn root(parent: &mut [usize], mut component: usize) -> usize {
    while parent[component] != component {
        parent[component] = parent[parent[component]];
        component = parent[component];
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::ComponentId;

    /// Divides with the weights of a simulation that has not run: one plus the number of wires.
    fn divide(wires: &[Vec<Wire>], parts: usize, together: &[(usize, usize)]) -> Partitioning {
        let weights: Vec<u64> = wires.iter().map(|wires| 1 + wires.len() as u64).collect();
        partition(wires, &weights, parts, together)
    }

    fn ring(latencies: &[u64]) -> Vec<Vec<Wire>> {
        let count = latencies.len();
        let wire = |to: usize, latency: u64| Wire::new(ComponentId(to as u32), 0, Picos(latency));
        (0..count)
            .map(|number| {
                let before = (number + count - 1) % count;
                vec![
                    wire((number + 1) % count, latencies[number]),
                    wire(before, latencies[before]),
                ]
            })
            .collect()
    }

    #[test]
    fn only_long_wires_are_cut() {
        let wires = ring(&[1, 100, 1, 100, 1, 100, 1, 100]);
        for parts in 2..=4 {
            let division = divide(&wires, parts, &[]);
            assert_eq!(division.lookahead, Some(Picos(100)));
            assert_eq!(division.parts, parts);
        }
    }

    #[test]
    fn what_has_much_to_do_is_with_fewer_others() {
        let wires = ring(&[100; 9]);
        let mut weights = vec![10; 9];
        weights[3] = 40;
        let division = partition(&wires, &weights, 2, &[]);
        let same_part = (division.part_of.iter()).filter(|part| **part == division.part_of[3]);
        assert_eq!((division.busiest(&weights), same_part.count()), (60, 3));
        // As many parts as possible, even where fewer would balance as well.
        let division = partition(&ring(&[100, 1, 100, 1]), &[1, 1, 1, 90], 4, &[]);
        assert_eq!(division.parts, 4);
        // Cutting short wires gains nothing where one component has most of the work.
        weights[3] = 1_000;
        let mut wires = ring(&[100; 9]);
        for (from, to) in [(3, 4), (4, 3)] {
            let wire = wires[from].iter_mut().find(|wire| wire.peer.0 == to);
            wire.expect("neighbours").min_latency = Picos(1);
        }
        let division = partition(&wires, &weights, 2, &[]);
        assert_eq!(division.lookahead, Some(Picos(100)));
    }

    #[test]
    fn what_belongs_together_stays_together() {
        let wires = ring(&[100; 8]);
        let division = divide(&wires, 4, &[(0, 4), (4, 6)]);
        assert_eq!(division.parts, 4);
        let part = |component: usize| division.part_of[component];
        assert_eq!((part(0), part(0)), (part(4), part(6)));
    }

    #[test]
    fn parts_balance_when_wires_are_equal() {
        for parts in 1..=8 {
            let division = divide(&ring(&[5; 64]), parts, &[]);
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
        // Eight leaves of two endpoints each around one spine: endpoints 0 to 15, leaves 16 to 23, the spine 24.
        let wire =
            |to: usize, port: usize| Wire::new(ComponentId(to as u32), port as u16, Picos(70));
        let mut wires: Vec<Vec<Wire>> = (0..16).map(|at| vec![wire(16 + at / 2, at % 2)]).collect();
        wires.extend(
            (0..8).map(|leaf| vec![wire(2 * leaf, 0), wire(2 * leaf + 1, 0), wire(24, leaf)]),
        );
        wires.push((0..8).map(|leaf| wire(16 + leaf, 2)).collect());
        let division = divide(&wires, 2, &[]);
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
