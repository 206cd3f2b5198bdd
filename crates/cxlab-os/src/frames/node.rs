//! The frames of one node: 2 MiB blocks, some of them split into 4 KiB frames.
//!
//! Blocks that were never used need no storage. The lowest free block or frame is allocated, so
//! that the same calls return the same addresses everywhere. (Linux allocates the frame freed last.
//! The choice of the frame within a node affects no modelled behaviour but the bank of the memory.)

use std::collections::{BTreeMap, BTreeSet};

use cxlab_engine::save_state;
use cxlab_engine::units::Hpa;
use serde::{Deserialize, Serialize};

use super::Frame;
use crate::address::PageSize;

/// Number of small frames in a block.
const SMALL_PER_BLOCK: u16 = (PageSize::Large.bytes() / PageSize::Small.bytes()) as u16;

/// A block that is split into small frames: a bit mask of the allocated ones, and their number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SplitBlock {
    taken: [u64; SMALL_PER_BLOCK as usize / 64],
    count: u16,
}

impl SplitBlock {
    fn take_lowest(&mut self) -> Option<u64> {
        let (word, bits) = self
            .taken
            .iter_mut()
            .enumerate()
            .find(|(_, bits)| **bits != u64::MAX)?;
        let bit = bits.trailing_ones();
        *bits |= 1 << bit;
        self.count += 1;
        Some(word as u64 * 64 + u64::from(bit))
    }

    fn free(&mut self, frame: u64) -> bool {
        let mask = 1 << (frame % 64);
        let Some(bits) = self.taken.get_mut((frame / 64) as usize) else {
            return false;
        };
        let was_taken = *bits & mask != 0;
        if was_taken {
            *bits &= !mask;
            self.count -= 1;
        }
        was_taken
    }
}

/// The free and allocated frames of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeFrames {
    base: u64,
    blocks: u64,
    /// Blocks from here on have never been used.
    fresh: u64,
    /// Blocks that were used and are free.
    free_blocks: BTreeSet<u64>,
    split: BTreeMap<u64, SplitBlock>,
    /// Split blocks with a free frame.
    open: BTreeSet<u64>,
    free_bytes: u64,
}

save_state!(NodeFrames {
    values: fresh, free_blocks, split, open, free_bytes;
    built: base, blocks;
});

impl NodeFrames {
    /// A node of whole blocks, all of them free.
    pub(super) fn new(base: Hpa, capacity: u64) -> Self {
        NodeFrames {
            base: base.0,
            blocks: capacity / PageSize::Large.bytes(),
            fresh: 0,
            free_blocks: BTreeSet::new(),
            split: BTreeMap::new(),
            open: BTreeSet::new(),
            free_bytes: capacity,
        }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Allocates a frame; `None` if no frame of that size is free. Large frames may be unavailable
    /// although many small ones are free.
    pub(super) fn take(&mut self, size: PageSize) -> Option<Frame> {
        let offset = match size {
            PageSize::Large => self.take_block()? * size.bytes(),
            PageSize::Small => self.take_small()?,
        };
        self.free_bytes -= size.bytes();
        Some(Frame {
            base: Hpa(self.base + offset),
            size,
        })
    }

    fn take_block(&mut self) -> Option<u64> {
        if let Some(block) = self.free_blocks.pop_first() {
            return Some(block);
        }
        let block = self.fresh;
        (block < self.blocks).then(|| {
            self.fresh += 1;
            block
        })
    }

    fn take_small(&mut self) -> Option<u64> {
        let block = match self.open.first() {
            Some(block) => *block,
            None => {
                let block = self.take_block()?;
                self.open.insert(block);
                block
            }
        };
        let split = self.split.entry(block).or_default();
        let frame = split.take_lowest()?;
        if split.count == SMALL_PER_BLOCK {
            self.open.remove(&block);
        }
        Some(block * PageSize::Large.bytes() + frame * PageSize::Small.bytes())
    }

    /// Frees a frame; false if it is not allocated, or not in this size.
    pub(super) fn free(&mut self, frame: Frame) -> bool {
        let offset = frame.base.0 - self.base;
        let block = offset / PageSize::Large.bytes();
        let given = match frame.size {
            PageSize::Large => self.free_block(block),
            PageSize::Small => self.free_small(block, offset),
        };
        if given {
            self.free_bytes += frame.size.bytes();
        }
        given
    }

    fn free_block(&mut self, block: u64) -> bool {
        block < self.fresh && !self.split.contains_key(&block) && self.free_blocks.insert(block)
    }

    fn free_small(&mut self, block: u64, offset: u64) -> bool {
        let Some(split) = self.split.get_mut(&block) else {
            return false;
        };
        let frame = offset % PageSize::Large.bytes() / PageSize::Small.bytes();
        if !split.free(frame) {
            return false;
        }
        if split.count == 0 {
            self.split.remove(&block);
            self.open.remove(&block);
            self.free_blocks.insert(block);
        } else {
            self.open.insert(block);
        }
        true
    }
}
