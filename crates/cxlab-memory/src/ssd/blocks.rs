//! Planes and their blocks: which are free, which are written, how often each was erased.
//!
//! A block's state exists from the first time that the block is opened.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

use super::geometry::{Geometry, NONE};

/// What a block is doing.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum State {
    Free,
    /// Pages are being given out.
    Open,
    /// Every page was given out; some are still being programmed.
    Full,
    /// Every page was programmed.
    Closed,
    /// Its data are being moved.
    Victim,
}

/// A block that has been written at least once.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct Block {
    pub state: State,
    /// Sub-pages that the mapping points at.
    pub valid: u32,
    /// Programs under way.
    pub pending: u32,
    /// Reads under way.
    pub readers: u32,
    pub erases: u32,
    /// When the block was closed, in blocks closed.
    pub closed: u64,
    /// When data of the block last became invalid, in pages programmed.
    pub touched: u64,
}

/// Who writes pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// The write buffer.
    Host,
    /// Collection.
    Collected,
    /// Static wear levelling: data that hardly change, in the most worn block.
    Cold,
}

pub(super) const STREAMS: usize = 3;

/// A block that a stream writes.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct Open {
    block: u32,
    page: u32,
}

/// Blocks are moved by collection, one at a time in a plane.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(super) struct Collection {
    pub victim: u32,
    /// The page of the victim to be looked at next.
    pub page: u32,
    /// Reads and programs under way.
    pub reads: u32,
    pub programs: u32,
    /// Whether the erase is under way.
    pub erasing: bool,
    /// Whether it is for wear levelling.
    pub wear: bool,
}

/// The blocks of a plane.
pub(super) struct Plane {
    pub blocks: Vec<Block>,
    /// The logical sub-page of each place of a block.
    pub owners: Vec<Box<[u32]>>,
    /// Blocks that were erased, in that order.
    free: Vec<u32>,
    open: [Option<Open>; STREAMS],
    pub collection: Option<Collection>,
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
    pub fn new(geometry: &Geometry) -> Plane {
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

    /// Free blocks.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.free.len() as u32 + (self.total - self.blocks.len() as u32)
    }

    /// Whether the write buffer can be given a page. The last free block is for collection, which
    /// gives it back; where both write the same block, so is what is left of that one.
    #[inline]
    pub fn has_page(&self, shared: bool) -> bool {
        if self.open[Stream::Host as usize].is_some() {
            !shared || self.free_blocks() > 0
        } else {
            self.free_blocks() > 1
        }
    }

    /// Gives a stream its next page: block and page. The page is pending until
    /// [`Plane::programmed`].
    ///
    /// # Panics
    /// If there is no free block: the owner asks [`Plane::has_page`], and collection keeps one.
    pub fn take_page(&mut self, stream: Stream, dynamic: bool, geometry: &Geometry) -> (u32, u32) {
        let open = match self.open[stream as usize] {
            Some(open) => open,
            None => Open {
                block: self.open_block(stream == Stream::Cold, dynamic, geometry),
                page: 0,
            },
        };
        let block = &mut self.blocks[open.block as usize];
        block.pending += 1;
        let last = open.page + 1 == geometry.pages;
        if last {
            block.state = State::Full;
        }
        self.open[stream as usize] = (!last).then_some(Open {
            block: open.block,
            page: open.page + 1,
        });
        (open.block, open.page)
    }

    fn open_block(&mut self, worn: bool, dynamic: bool, geometry: &Geometry) -> u32 {
        let fresh = (self.blocks.len() as u32) < self.total;
        if fresh && (!worn || self.free.is_empty()) {
            self.blocks.push(Block {
                state: State::Open,
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
        self.blocks[block as usize].state = State::Open;
        block
    }

    /// A page that was given out has been programmed, or never will be. Whether the block is now
    /// closed.
    pub fn programmed(&mut self, block: u32, closed: u64) -> bool {
        let block = &mut self.blocks[block as usize];
        block.pending -= 1;
        if block.state == State::Full && block.pending == 0 {
            block.state = State::Closed;
            block.closed = closed;
            return true;
        }
        false
    }

    /// A block has been erased.
    pub fn erased(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        assert!(
            block.valid == 0 && block.readers == 0 && block.pending == 0,
            "an erased block has no data, readers or writers"
        );
        block.erases += 1;
        block.state = State::Free;
        self.owners[number as usize].fill(NONE);
        self.free.push(number);
    }

    /// The closed block that was erased least often, if it lies more than `spread` behind the most
    /// worn block of all.
    pub fn unlevel(&self, spread: u32) -> Option<u32> {
        let most = self.blocks.iter().map(|block| block.erases).max()?;
        let closed = self.blocks.iter().zip(0..);
        let closed = closed.filter(|(block, _)| block.state == State::Closed);
        let (least, number) = closed.min_by_key(|(block, _)| block.erases)?;
        (most - least.erases > spread).then_some(number)
    }

    /// Blocks that were never opened, and so never erased.
    pub fn unopened(&self) -> u32 {
        self.total - self.blocks.len() as u32
    }
}
