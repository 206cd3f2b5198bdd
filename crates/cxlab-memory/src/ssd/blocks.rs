//! Planes and their blocks: free blocks, open blocks, and counts of erases.
//!
//! The state of a block exists from the first time that the block is opened.

use std::collections::VecDeque;

use cxlab_engine::list::NONE;
use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

use super::geometry::DriveGeometry;

/// The state of a block.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum BlockState {
    Free,
    /// The block's pages are being allocated.
    Open,
    /// All pages were allocated; some are still being programmed.
    Full,
    /// All pages were programmed.
    Closed,
    /// The block's data are being moved.
    Victim,
}

/// A block that has been written at least once.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct FlashBlock {
    pub state: BlockState,
    /// Sub-pages that the mapping refers to.
    pub valid: u32,
    /// Number of outstanding programs.
    pub pending: u32,
    /// Number of outstanding reads.
    pub readers: u32,
    pub erases: u32,
    /// Time at which the block was closed, counted in closed blocks.
    pub closed: u64,
    /// Time at which data of the block last became invalid, counted in programmed pages.
    pub touched: u64,
}

/// The source of written pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteStream {
    /// Flushes of the write buffer.
    Host,
    /// Copies by garbage collection.
    Collected,
    /// Static wear levelling: rarely changed data, which go to the most worn block.
    Cold,
}

pub(super) const STREAMS: usize = 3;

/// The open block of a stream, and its next page.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct OpenBlock {
    block: u32,
    page: u32,
}

/// The collection of a block; a plane collects one block at a time.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub(super) struct BlockCollection {
    pub victim: u32,
    /// The next page of the victim to examine.
    pub page: u32,
    /// Outstanding reads and programs.
    pub reads: u32,
    pub programs: u32,
    /// Whether the victim is being erased.
    pub erasing: bool,
    /// Whether the collection is for wear levelling.
    pub wear: bool,
}

/// A plane with its blocks.
pub(super) struct Plane {
    pub blocks: Vec<FlashBlock>,
    /// For each place of each block, the logical sub-page.
    pub owners: Vec<Box<[u32]>>,
    /// Erased blocks, in the order of their erases.
    free: Vec<u32>,
    open: [Option<OpenBlock>; STREAMS],
    pub collection: Option<BlockCollection>,
    /// Sub-pages read by collection and not yet programmed: logical sub-page and place.
    pub staged: VecDeque<(u32, u32)>,
    pub urgent: bool,
    total: u32,
}

save_state!(Plane {
    values: blocks, owners, free, open, collection, staged, urgent;
    built: total;
});

impl Plane {
    pub fn new(geometry: &DriveGeometry) -> Plane {
        Plane {
            blocks: Vec::new(),
            owners: Vec::new(),
            free: Vec::new(),
            open: [None; STREAMS],
            collection: None,
            staged: VecDeque::new(),
            urgent: false,
            total: geometry.blocks,
        }
    }

    /// Number of free blocks, including those that were never opened.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.free.len() as u32 + (self.total - self.blocks.len() as u32)
    }

    /// Whether the write buffer can get a page. The last free block is reserved for collection, which returns it. If
    /// both write the same block, the rest of the open block is reserved as well.
    #[inline]
    pub fn has_page(&self, shared: bool) -> bool {
        if self.open[WriteStream::Host as usize].is_some() {
            !shared || self.free_blocks() > 0
        } else {
            self.free_blocks() > 1
        }
    }

    /// Allocates a stream's next page, and returns its block and page. The page is pending until [`Plane::programmed`].
    ///
    /// # Panics
    /// If there is no free block. Callers ask [`Plane::has_page`] before, and collection keeps one block.
    pub fn take_page(
        &mut self,
        stream: WriteStream,
        dynamic: bool,
        geometry: &DriveGeometry,
    ) -> (u32, u32) {
        let open = match self.open[stream as usize] {
            Some(open) => open,
            None => OpenBlock {
                block: self.open_block(stream == WriteStream::Cold, dynamic, geometry),
                page: 0,
            },
        };
        let block = &mut self.blocks[open.block as usize];
        block.pending += 1;
        let last = open.page + 1 == geometry.pages;
        if last {
            block.state = BlockState::Full;
        }
        self.open[stream as usize] = (!last).then_some(OpenBlock {
            block: open.block,
            page: open.page + 1,
        });
        (open.block, open.page)
    }

    fn open_block(&mut self, worn: bool, dynamic: bool, geometry: &DriveGeometry) -> u32 {
        let fresh = (self.blocks.len() as u32) < self.total;
        if fresh && (!worn || self.free.is_empty()) {
            self.blocks.push(FlashBlock {
                state: BlockState::Open,
                valid: 0,
                pending: 0,
                readers: 0,
                erases: 0,
                closed: 0,
                touched: 0,
            });
            let owners = vec![NONE; geometry.block_subs() as usize];
            self.owners.push(owners.into_boxed_slice());
            return self.blocks.len() as u32 - 1;
        }
        let erases = |at: &usize| self.blocks[self.free[*at] as usize].erases;
        let range = 0..self.free.len();
        let at = if worn {
            range.rev().max_by_key(erases)
        } else if dynamic {
            range.min_by_key(erases)
        } else {
            range.min()
        };
        let at = at.expect("a free block, because somebody asked before");
        let block = self.free.remove(at);
        self.blocks[block as usize].state = BlockState::Open;
        block
    }

    /// Ends the pending state of a page, which has been programmed or never will be. The result
    /// tells whether the block is now closed.
    pub fn programmed(&mut self, block: u32, closed: u64) -> bool {
        let block = &mut self.blocks[block as usize];
        block.pending -= 1;
        if block.state == BlockState::Full && block.pending == 0 {
            block.state = BlockState::Closed;
            block.closed = closed;
            return true;
        }
        false
    }

    /// Records that a block has been erased.
    pub fn erased(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        assert!(
            block.valid == 0 && block.readers == 0 && block.pending == 0,
            "an erased block has no data, readers or writers"
        );
        block.erases += 1;
        block.state = BlockState::Free;
        self.owners[number as usize].fill(NONE);
        self.free.push(number);
    }

    /// The closed block with the fewest erases, if the most worn block of the plane has over `spread` more.
    pub fn wear_leveling_victim(&self, spread: u32) -> Option<u32> {
        let most = self.blocks.iter().map(|block| block.erases).max()?;
        let closed = self.blocks.iter().zip(0..);
        let closed = closed.filter(|(block, _)| block.state == BlockState::Closed);
        let (least, number) = closed.min_by_key(|(block, _)| block.erases)?;
        (most - least.erases > spread).then_some(number)
    }

    /// Number of blocks that were never opened, and so never erased.
    pub fn unopened(&self) -> u32 {
        self.total - self.blocks.len() as u32
    }
}
