//! Groups the components of a partition into blocks whose state fits a processor's second-level cache.

use crate::component::Wire;
use crate::partition::clusters;

/// Size of a block: the number of its components plus the number of their wires, since the state of a component grows
/// with its ports. Blocks of twice and four times this size are as fast (`docs/explain/performance.md`).
const BLOCK: usize = 128;

/// Size below which a partition stays one block (*assumed*).
const SMALL: usize = 2 * BLOCK;

/// Least number of blocks of a partition for block-by-block execution. With fewer blocks it is slower: a
/// system of 256 endpoints takes up to a quarter longer. One of 512 endpoints takes as long as without.
/// Measured on a processor with 1 MiB of second-level cache.
const MANY: usize = 16;

/// Least mean number of events of a block in a window for block-by-block execution (*assumed*).
const WORTH_BLOCKS: u128 = 8;

/// The components of a partition, block by block.
pub(super) struct BlockArrangement {
    pub(super) blocks: Vec<Vec<usize>>,
    /// The shortest latency of a wire between two blocks, in picoseconds; `u64::MAX` with one block.
    pub(super) span: u64,
}

impl BlockArrangement {
    /// All components in one block.
    pub(super) fn whole(members: Vec<usize>) -> Self {
        BlockArrangement {
            blocks: vec![members],
            span: u64::MAX,
        }
    }

    /// Blocks of about [`BLOCK`] that keep neighbours together. Components with a wire shorter than the
    /// span share a block; the span is the longest for which such groups fit.
    pub(super) fn in_blocks(wires: &[Vec<Wire>], members: Vec<usize>) -> Self {
        let size = |members: &[usize]| -> usize {
            let sizes = members.iter().map(|number| 1 + wires[*number].len());
            sizes.sum()
        };
        if size(&members) < SMALL {
            return BlockArrangement::whole(members);
        }
        let wires_of_members = members.iter().flat_map(|number| &wires[*number]);
        let mut latencies: Vec<u64> = wires_of_members.map(|wire| wire.min_latency.0).collect();
        latencies.sort_unstable();
        latencies.dedup();
        // With the shortest latency as threshold, no components are joined.
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
            let fits = |cluster: &Vec<usize>| cluster.len() == 1 || size(cluster) <= BLOCK;
            if !clusters.iter().all(fits) {
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
            return BlockArrangement {
                blocks,
                span: *latency,
            };
        }
        BlockArrangement::whole(members)
    }

    /// Whether there are so many blocks that they do not all fit the caches.
    pub(super) fn is_large(&self) -> bool {
        self.blocks.len() >= MANY
    }

    /// Whether block-by-block execution is faster for this number of events in this simulated time.
    pub(super) fn is_faster(&self, events: u64, picoseconds: u64) -> bool {
        let blocks = self.blocks.len() as u128;
        let in_a_window = u128::from(events) * u128::from(self.span);
        let enough = u128::from(picoseconds) * WORTH_BLOCKS * blocks;
        blocks > 1 && in_a_window > enough
    }
}

/// Sort key of a component: a component with a single wire is placed beside its neighbour.
fn beside(wires: &[Vec<Wire>], number: usize) -> usize {
    match &wires[number][..] {
        [only] => only.peer.0 as usize,
        _ => number,
    }
}
