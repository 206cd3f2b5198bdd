//! Physical memory as NUMA nodes: frames, watermarks, and fallback to other nodes when a node is full.
//!
//! Processors and accelerators are nodes alike; a memory expander is a node without processors.
//! Left out: zones within a node, per-processor lists, compaction, reclaim and swap. A node whose
//! free memory is all in 4 KiB pieces has no 2 MiB frame.
//!
//! Invariants: a frame is allocated at most once. Free and allocated bytes of a node sum to its
//! capacity. The same calls return the same frames.

mod distance;
mod node;
mod watermarks;

use std::fmt;

use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Hpa};

pub use distance::{DistanceError, LOCAL_DISTANCE, NumaDistances, UNREACHABLE};
pub use watermarks::{WatermarkParams, Watermarks};

use crate::address::PageSize;
use node::NodeFrames;
use serde::{Deserialize, Serialize};

/// Maximum number of nodes (a [`NodeSet`] is 64 bits; Linux's default for x86-64 is 64 with `NODES_SHIFT` 6).
pub const MAX_NODES: usize = 64;

/// The number of a NUMA node.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of nodes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct NodeSet(pub u64);

impl NodeSet {
    /// The empty set.
    pub const NONE: NodeSet = NodeSet(0);

    /// The first `count` nodes.
    pub fn first(count: usize) -> NodeSet {
        (0..count.min(MAX_NODES))
            .map(|node| NodeId(node as u16))
            .collect()
    }

    /// The set of a single node.
    pub fn of(node: NodeId) -> NodeSet {
        NodeSet::NONE.with(node)
    }

    /// The set with another node added; nodes from 64 on are never in a set.
    pub fn with(self, node: NodeId) -> NodeSet {
        NodeSet(self.0 | 1u64.checked_shl(u32::from(node.0)).unwrap_or(0))
    }

    /// Whether `node` is an element of the set.
    #[inline]
    pub fn contains(self, node: NodeId) -> bool {
        self.0.checked_shr(u32::from(node.0)).unwrap_or(0) & 1 == 1
    }

    /// Whether the set contains no node at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of nodes in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The nodes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..MAX_NODES as u16)
            .map(NodeId)
            .filter(move |node| self.contains(*node))
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        nodes.into_iter().fold(NodeSet::NONE, NodeSet::with)
    }
}

/// Physical memory for one page.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Frame {
    /// First address of the frame, a multiple of its size.
    pub base: Hpa,
    /// Size of the frame.
    pub size: PageSize,
}

/// Kind of processing at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A node with processors.
    Cpu,
    /// A node of an accelerator with memory of its own.
    Xpu,
    /// A memory expander, without processing.
    Memory,
}

/// Specification of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeSpec {
    /// Kind of processing at the node.
    pub kind: NodeKind,
    /// First address of the node's memory, a multiple of 2 MiB.
    pub base: Hpa,
    /// Size of the node's memory, a multiple of 2 MiB; 0 for a node of processors alone.
    pub capacity: Bytes,
    /// Free memory that the node keeps.
    pub watermarks: WatermarkParams,
}

/// Why a set of nodes is illegal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FramesError {
    /// The number of nodes differs from the number of rows of distances.
    Count {
        /// Number of nodes found.
        nodes: usize,
        /// Number of rows of distances found.
        distances: usize,
    },
    /// Base or capacity is not a multiple of 2 MiB, or the range ends beyond 2^52.
    Range(NodeId),
    /// The address ranges of two nodes overlap.
    Overlap(NodeId, NodeId),
}

impl fmt::Display for FramesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FramesError::Count { nodes, distances } => {
                write!(f, "found {nodes} nodes and distances of {distances}")
            }
            FramesError::Range(node) => write!(
                f,
                "memory of node {}: base and capacity must be multiples of 2 MiB below 2^52",
                node.0
            ),
            FramesError::Overlap(a, b) => {
                write!(f, "the memory of node {} and of node {} overlaps", a.0, b.0)
            }
        }
    }
}

impl std::error::Error for FramesError {}

/// The nodes that an allocation may use, and their order.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct NodePreference {
    /// Nodes are tried in the order of their distance from this node.
    pub from: NodeId,
    /// Nodes tried before all others, whatever their distance.
    pub first: NodeSet,
    /// The only nodes that may be used.
    pub allowed: NodeSet,
}

/// A frame that was allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocatedFrame {
    /// The allocated frame.
    pub frame: Frame,
    /// Node of the frame.
    pub node: NodeId,
}

struct NumaNode {
    spec: NodeSpec,
    marks: Watermarks,
    frames: NodeFrames,
    zonelist: Vec<NodeId>,
}

save_state!(NumaNode {
    states: frames;
    built: spec, marks, zonelist;
});

/// All frames of a system.
pub struct FrameAllocator {
    nodes: Vec<NumaNode>,
}

save_state!(FrameAllocator {
    states: nodes;
});

impl FrameAllocator {
    /// The memory of these nodes; node `n` has row `n` of the distances.
    ///
    /// # Errors
    /// Ranges that overlap or are not whole blocks, or distances of another number of nodes.
    pub fn new(
        specs: &[NodeSpec],
        distances: NumaDistances,
    ) -> Result<FrameAllocator, FramesError> {
        check(specs, &distances)?;
        let has_cpus: Vec<bool> = specs
            .iter()
            .map(|spec| spec.kind == NodeKind::Cpu)
            .collect();
        let node = |(number, spec): (usize, &NodeSpec)| NumaNode {
            spec: *spec,
            marks: spec.watermarks.of(spec.capacity),
            frames: NodeFrames::new(spec.base, spec.capacity.0),
            zonelist: distances.zonelist(NodeId(number as u16), &has_cpus),
        };
        let nodes = specs.iter().enumerate().map(node).collect();
        Ok(FrameAllocator { nodes })
    }

    /// The set of all nodes.
    pub fn nodes(&self) -> NodeSet {
        NodeSet::first(self.nodes.len())
    }

    /// Specification of a node.
    pub fn spec(&self, node: NodeId) -> Option<&NodeSpec> {
        self.nodes.get(node.index()).map(|node| &node.spec)
    }

    /// Fallback order of a node: itself first, then other nodes by distance.
    pub fn zonelist(&self, node: NodeId) -> &[NodeId] {
        self.nodes
            .get(node.index())
            .map_or(&[], |node| &node.zonelist)
    }

    /// Number of free bytes of a node.
    pub fn free_bytes(&self, node: NodeId) -> u64 {
        self.nodes
            .get(node.index())
            .map_or(0, |node| node.frames.free_bytes())
    }

    /// The watermarks of a node.
    pub fn watermarks(&self, node: NodeId) -> Watermarks {
        self.nodes
            .get(node.index())
            .map_or_else(Watermarks::default, |node| node.marks)
    }

    /// Node whose memory contains an address.
    pub fn node_of(&self, address: Hpa) -> Option<NodeId> {
        let holds = |node: &NumaNode| {
            address
                .0
                .checked_sub(node.spec.base.0)
                .is_some_and(|at| at < node.spec.capacity.0)
        };
        self.nodes
            .iter()
            .position(holds)
            .map(|node| NodeId(node as u16))
    }

    /// Allocates a frame as Linux does (`get_page_from_freelist`). The first choice is a node that
    /// stays above its low watermark, in the order of preference; the second a node that stays
    /// above its minimum. `None` if there is no memory.
    pub fn allocate(
        &mut self,
        preference: NodePreference,
        size: PageSize,
    ) -> Option<AllocatedFrame> {
        let low = |marks: Watermarks| marks.low;
        let min = |marks: Watermarks| marks.min;
        self.pass(preference, size, low)
            .or_else(|| self.pass(preference, size, min))
    }

    fn pass(
        &mut self,
        preference: NodePreference,
        size: PageSize,
        keep: fn(Watermarks) -> u64,
    ) -> Option<AllocatedFrame> {
        let from = preference.from.index();
        let count = self.nodes.get(from)?.zonelist.len();
        for early in [true, false] {
            for place in 0..count {
                let node = self.nodes[from].zonelist[place];
                let turn = preference.first.contains(node) == early;
                if !turn || !preference.allowed.contains(node) {
                    continue;
                }
                let keep = keep(self.watermarks(node));
                if let Some(placed) = self.take_from(node, size, keep) {
                    return Some(placed);
                }
            }
        }
        None
    }

    /// Allocates a frame of one node if at least `keep` bytes stay free.
    pub fn take_from(&mut self, node: NodeId, size: PageSize, keep: u64) -> Option<AllocatedFrame> {
        let frames = &mut self.nodes.get_mut(node.index())?.frames;
        if frames.free_bytes() < keep.saturating_add(size.bytes()) {
            return None;
        }
        let frame = frames.take(size)?;
        Some(AllocatedFrame { frame, node })
    }

    /// Frees a frame.
    ///
    /// # Panics
    /// If the frame is not allocated, which is a bug of the simulator.
    pub fn free(&mut self, frame: Frame) {
        let node = self.node_of(frame.base);
        let nodes = node.and_then(|node| self.nodes.get_mut(node.index()));
        let given = nodes.is_some_and(|node| node.frames.free(frame));
        assert!(given, "frame {:#x} was not taken", frame.base.0);
    }
}

fn check(specs: &[NodeSpec], distances: &NumaDistances) -> Result<(), FramesError> {
    if specs.len() != distances.len() {
        return Err(FramesError::Count {
            nodes: specs.len(),
            distances: distances.len(),
        });
    }
    let block = PageSize::Large.bytes();
    for (number, spec) in specs.iter().enumerate() {
        let id = NodeId(number as u16);
        let end = spec.base.0.checked_add(spec.capacity.0);
        let whole = spec.base.0.is_multiple_of(block) && spec.capacity.0.is_multiple_of(block);
        if !whole || end.is_none_or(|end| end > 1 << 52) {
            return Err(FramesError::Range(id));
        }
        let overlaps = |other: &NodeSpec| {
            spec.base.0 < other.base.0 + other.capacity.0
                && other.base.0 < spec.base.0 + spec.capacity.0
        };
        if let Some(other) = specs[..number].iter().position(overlaps) {
            return Err(FramesError::Overlap(NodeId(other as u16), id));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
