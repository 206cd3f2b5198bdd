//! The resident lines of a tag array: where each line is, which ways of a set are free, and the order in which
//! lines would leave. Tag arrays and victim policies work on them.

mod geometry;
pub(crate) mod line_table;
pub(crate) mod lines;
pub(crate) mod order;

use cxlab_engine::units::LineAddr;
use serde::{Deserialize, Serialize};

pub use geometry::{Geometry, GeometryError};

/// The place of a resident line; valid until the line is removed.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug,
)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// Index from 0 to [`Geometry::lines`] - 1, for arrays of the owner beside the tag array.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Contiguous lines that one invalidation can evict together.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct LineBlock {
    /// The line that the policy chose, in the set that needs room.
    pub victim: LineAddr,
    /// The first line of the block.
    pub first: LineAddr,
    /// Number of lines, 1 to 4.
    pub lines: u32,
}

impl LineBlock {
    /// A block of one line.
    pub fn single(line: LineAddr) -> Self {
        LineBlock {
            victim: line,
            first: line,
            lines: 1,
        }
    }

    /// The lines of the block, in order.
    pub fn iter(self) -> impl Iterator<Item = LineAddr> {
        (self.first.0..self.first.0 + u64::from(self.lines)).map(LineAddr)
    }
}
