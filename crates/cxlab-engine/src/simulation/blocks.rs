//! Putting the components of a part into blocks whose state lies in a processor's second-level cache.

use crate::component::Wire;
use crate::partition::clusters;

/// Wires of a block's components, and one for each of them: state goes with ports. Twice and four times
/// as many were as fast (`docs/explain/performance.md`).
const BLOCK: usize = 128;

/// A part with less than this stays whole.
const SMALL: usize = 2 * BLOCK;

/// Blocks of a part, from which on it pays that they take turns: 256 endpoints, which are fewer, take up to a quarter
/// longer then, and 512 as long, as measured on a processor with 1 MiB of second-level cache.
const MANY: usize = 16;

/// Events of a block in a window, from which on it pays to turn to it; *assumed*.
const WORTH_TURNING: u128 = 8;

/// The components of a part, block by block.
pub(super) struct Arrangement {
    pub(super) blocks: Vec<Vec<usize>>,
    /// The shortest latency of a wire between two blocks, in picoseconds; `u64::MAX` with one block.
    pub(super) span: u64,
}

impl Arrangement {
    /// All in one block.
    pub(super) fn whole(members: Vec<usize>) -> Self {
        Arrangement {
            blocks: vec![members],
            span: u64::MAX,
        }
    }

    /// Neighbours together, and cut at long wires: the longest that leave blocks small.
    pub(super) fn in_blocks(wires: &[Vec<Wire>], members: Vec<usize>) -> Self {
        let size = |members: &[usize]| -> usize {
            let sizes = members.iter().map(|number| 1 + wires[*number].len());
            sizes.sum()
        };
        if size(&members) < SMALL {
            return Arrangement::whole(members);
        }
        let own = members.iter().flat_map(|number| &wires[*number]);
        let mut latencies: Vec<u64> = own.map(|wire| wire.min_latency.0).collect();
        latencies.sort_unstable();
        latencies.dedup();
        // Nothing is joined by the shortest.
        for latency in latencies.iter().rev() {
            let cluster_of = clusters(wires, *latency, false, &[]);
            let mut order: Vec<(usize, usize)> = members
                .iter()
                .map(|number| (cluster_of[*number], *number))
                .collect();
            order.sort_by_key(|(cluster, number)| (beside(wires, *cluster), *cluster, *number));
            let clusters = order.chunk_by(|(a, _), (b, _)| a == b);
            let clusters = clusters.map(|chunk| chunk.iter().map(|(_, number)| *number));
            let clusters: Vec<Vec<usize>> = clusters.map(Iterator::collect).collect();
            let alone = |cluster: &Vec<usize>| cluster.len() == 1;
            if !clusters
                .iter()
                .all(|cluster| alone(cluster) || size(cluster) <= BLOCK)
            {
                continue;
            }
            let mut blocks: Vec<Vec<usize>> = Vec::new();
            let mut room = 0;
            for cluster in clusters {
                let needs = size(&cluster);
                match blocks.last_mut() {
                    Some(block) if needs <= room => block.extend(cluster),
                    _ => {
                        blocks.push(cluster);
                        room = BLOCK.max(needs);
                    }
                }
                room -= needs;
            }
            return Arrangement {
                blocks,
                span: *latency,
            };
        }
        Arrangement::whole(members)
    }

    /// Whether there are so many blocks that they do not all lie near the processor.
    pub(super) fn is_large(&self) -> bool {
        self.blocks.len() >= MANY
    }

    /// Whether turning from block to block pays where so many events come in so much time.
    pub(super) fn pays(&self, events: u64, picoseconds: u64) -> bool {
        let blocks = self.blocks.len() as u128;
        let in_a_window = u128::from(events) * u128::from(self.span);
        let enough = u128::from(picoseconds) * WORTH_TURNING * blocks;
        blocks > 1 && in_a_window > enough
    }
}

/// Beside whom a component lies: what has a single wire, beside its neighbour.
fn beside(wires: &[Vec<Wire>], number: usize) -> usize {
    match &wires[number][..] {
        [only] => only.peer.0 as usize,
        _ => number,
    }
}
