//! Moving a page to another node, step by step, because devices may hold its translation.
//!
//! 1. [`AddressSpace::begin_move`] allocates a frame and makes the entry not present.
//! 2. The owner invalidates every cached translation ([`crate::ats`]) and waits.
//! 3. The owner copies the page.
//! 4. [`AddressSpace::end_move`] makes the entry present at the new frame and frees the old one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::AddressSpace;
use crate::address::{Page, VirtAddr};
use crate::frames::{Frame, FrameAllocator, NodeId};

/// A page that is being moved.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct MovingPage {
    /// The moving page.
    pub page: Page,
    /// Frame that has the data during the move.
    pub from: Frame,
    /// Frame that the data are copied to.
    pub to: Frame,
}

/// Why a page cannot be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveError {
    /// The page has no frame.
    NotResident,
    /// The page is at the target node already.
    Already,
    /// The page is already being moved.
    Moving,
    /// The node has no free frame beyond what must stay free.
    Full(NodeId),
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveError::NotResident => f.write_str("the page has no frame"),
            MoveError::Already => f.write_str("the page is at that node"),
            MoveError::Moving => f.write_str("the page is being moved"),
            MoveError::Full(node) => write!(f, "node {} has no frame left", node.0),
        }
    }
}

impl std::error::Error for MoveError {}

impl AddressSpace {
    /// Begins to move the page around an address to a node, if `keep` bytes stay free there.
    ///
    /// # Errors
    /// See [`MoveError`]; nothing is changed then.
    pub fn begin_move(
        &mut self,
        address: VirtAddr,
        to: NodeId,
        keep: u64,
        frames: &mut FrameAllocator,
    ) -> Result<MovingPage, MoveError> {
        let mapping = self.table.lookup(address).ok_or(MoveError::NotResident)?;
        if mapping.entry.is_moving() {
            return Err(MoveError::Moving);
        }
        let from = mapping.frame;
        if frames.node_of(from.base) == Some(to) {
            return Err(MoveError::Already);
        }
        let placed = frames.take_from(to, from.size, keep);
        let placed = placed.ok_or(MoveError::Full(to))?;
        self.table.suspend(address);
        let moving = MovingPage {
            page: Page::around(self.pasid, address, from.size),
            from,
            to: placed.frame,
        };
        self.moving.push(moving);
        Ok(moving)
    }

    fn take_moving(&mut self, page: Page) -> Option<MovingPage> {
        let place = self.moving.iter().position(|moving| moving.page == page)?;
        Some(self.moving.swap_remove(place))
    }

    /// Ends a move and frees the old frame. `None` if the page is not being moved.
    pub fn end_move(&mut self, page: Page, frames: &mut FrameAllocator) -> Option<MovingPage> {
        let moving = self.take_moving(page)?;
        self.table.resume(page.start, moving.to.base);
        frames.free(moving.from);
        Some(moving)
    }

    /// Pages that are being moved.
    pub fn moving(&self) -> &[MovingPage] {
        &self.moving
    }
}
