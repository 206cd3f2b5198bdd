//! Block-length prioritised: the line whose block is the longest, so that one `BISnpInvBlk` clears
//! as many entries as it can.
//!
//! A block is of contiguous lines that are all resident, unpinned, and of one owner; its lines may
//! lie in different sets. Whenever a line changes, the blocks of the few lines about it are found
//! anew.

use std::ops::RangeInclusive;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Policy, PolicyState, VictimPolicy};
use crate::tag_array::lines::Lines;
use crate::tag_array::order::Rank;
use crate::tag_array::{Block, Geometry, Slot};

/// Most lines of a block: `BISnpInvBlk` covers 256 bytes.
const MAX_LINES: usize = 4;
/// How far from a line its block can reach.
const REACH: usize = MAX_LINES - 1;
/// A line, those whose blocks it can be in, and those that theirs can be of.
const WINDOW: usize = 4 * REACH + 1;
const MIDDLE: usize = WINDOW / 2;

pub(super) const ENTRY: Entry<Box<dyn VictimPolicy>> = Entry {
    name: "block-length",
    summary: "a line of the longest block of one owner that a BISnpInvBlk can clear; of equals the last inserted",
    schema: <BlockLengthParams as JsonSchema>::json_schema,
    build: |params| {
        let params: BlockLengthParams = read_params(params)?;
        let allowed: &[u32] = if params.aligned {
            &[1, 2, 4]
        } else {
            &[1, 2, 3, 4]
        };
        if !allowed.contains(&params.max_lines) {
            let (found, aligned) = (params.max_lines, params.aligned);
            let message = format!("found {found}; allowed with aligned = {aligned}: {allowed:?}");
            return Err(ParamError::new("max_lines", message));
        }
        Ok(Box::new(params))
    },
};

/// Parameters of the block-length-prioritised policy.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct BlockLengthParams {
    /// Most lines of a block: 1, 2 or 4, and 3 if not aligned. Default 4.
    #[schemars(range(min = 1, max = 4))]
    max_lines: u32,
    /// Blocks are of 2 or 4 lines and begin at a multiple of their size, as `BISnpInvBlk` can say
    /// (CXL 3.1, block enable encoding in address bits 7:6). Without, they begin anywhere and may
    /// be of 3, as in ESF, section V-C. Default true.
    aligned: bool,
}

impl Default for BlockLengthParams {
    fn default() -> Self {
        BlockLengthParams {
            max_lines: MAX_LINES as u32,
            aligned: true,
        }
    }
}

impl VictimPolicy for BlockLengthParams {
    fn state(&self, geometry: Geometry, _: StreamRng) -> PolicyState {
        PolicyState::from(BlockLength {
            max_lines: self.max_lines as usize,
            aligned: self.aligned,
            owners: vec![0; geometry.lines() as usize],
        })
    }
}

/// The rank is how much the line's block is shorter than it could be.
pub(super) struct BlockLength {
    max_lines: usize,
    aligned: bool,
    owners: Vec<u64>,
}

save_state!(BlockLength {
    sized: owners;
    built: max_lines, aligned;
});

/// A line that may be part of a block.
#[derive(Clone, Copy)]
struct Member {
    slot: Slot,
    owner: u64,
}

/// The lines about a line.
struct Window {
    first: u64,
    members: [Option<Member>; WINDOW],
}

impl Window {
    fn owner(&self, at: usize) -> Option<u64> {
        self.members[at].map(|member| member.owner)
    }
}

impl BlockLength {
    /// Where in the window about a line the lines are that blocks can join with it: all of its
    /// aligned block, or those that `blocks` blocks end to end reach.
    fn about(&self, line: LineAddr, blocks: usize) -> RangeInclusive<usize> {
        if self.aligned {
            let start = MIDDLE - (line.0 % self.max_lines as u64) as usize;
            return start..=start + self.max_lines - 1;
        }
        let reach = blocks * (self.max_lines - 1);
        MIDDLE - reach..=MIDDLE + reach
    }

    /// Looks at those lines; the line itself comes to lie in the middle.
    fn window(&self, lines: &Lines, line: LineAddr, blocks: usize) -> Window {
        let first = line.0.wrapping_sub(MIDDLE as u64);
        let mut members = [None; WINDOW];
        let about = self.about(line, blocks);
        for (at, member) in about.clone().zip(&mut members[about]) {
            let near = (line.0 + at as u64).checked_sub(MIDDLE as u64);
            let Some(slot) = near.and_then(|near| lines.find(LineAddr(near))) else {
                continue;
            };
            if !lines.order.is_pinned(slot) {
                let owner = self.owners[slot.index()];
                *member = Some(Member { slot, owner });
            }
        }
        Window { first, members }
    }

    /// Where the block of a member begins in the window, and how many lines it has.
    fn block_at(&self, window: &Window, at: usize) -> (usize, usize) {
        let owner = window.owner(at);
        let same = |other: &usize| window.owner(*other) == owner;
        if !self.aligned {
            let below = (at - (self.max_lines - 1)..at)
                .rev()
                .take_while(same)
                .count();
            let left = self.max_lines - 1 - below;
            let above = (at + 1..=at + left).take_while(same).count();
            return (at - below, below + 1 + above);
        }
        let line = window.first.wrapping_add(at as u64);
        let mut block = (at, 1);
        for size in [2, 4] {
            let start = at - (line % size as u64) as usize;
            if size <= self.max_lines && (start..start + size).all(|other| same(&other)) {
                block = (start, size);
            }
        }
        block
    }
}

impl Policy for BlockLength {
    fn inserted(&mut self, lines: &mut Lines, slot: Slot) {
        self.owners[slot.index()] = 0;
        let rank = Rank {
            class: 0,
            stamp: u64::MAX - lines.order.tick(),
        };
        lines.order.set_rank(slot, rank);
        lines.order.unpin(slot);
        let line = lines.line(slot);
        self.changed(lines, line);
    }

    #[inline]
    fn touched(&mut self, _: &mut Lines, _: Slot) {}

    fn changed(&mut self, lines: &mut Lines, line: LineAddr) {
        let window = self.window(lines, line, 2);
        for at in self.about(line, 1) {
            let Some(Member { slot, .. }) = window.members[at] else {
                continue;
            };
            let (_, length) = self.block_at(&window, at);
            let class = (self.max_lines - length) as u32;
            let rank = lines.order.rank(slot);
            if rank.class != class {
                lines.order.set_rank(slot, Rank { class, ..rank });
            }
        }
    }

    fn owned(&mut self, lines: &mut Lines, slot: Slot, owner: u64) {
        if std::mem::replace(&mut self.owners[slot.index()], owner) != owner {
            let line = lines.line(slot);
            self.changed(lines, line);
        }
    }

    fn block(&self, lines: &Lines, slot: Slot) -> Block {
        let victim = lines.line(slot);
        let window = self.window(lines, victim, 1);
        let (first, length) = self.block_at(&window, MIDDLE);
        Block {
            victim,
            first: LineAddr(window.first.wrapping_add(first as u64)),
            lines: length as u32,
        }
    }
}
