//! Block-length-prioritised eviction: the line with the longest block leaves, so that one
//! `BISnpInvBlk` clears as many entries as possible.
//!
//! A block consists of contiguous lines that are all resident, unpinned, and of one owner; they may
//! be in different sets. When a line changes, the blocks of the lines around it are recomputed.

use std::ops::RangeInclusive;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PolicyState, ReplacementPolicy, VictimPolicy};
use crate::resident::lines::ResidentLines;
use crate::resident::order::EvictionRank;
use crate::resident::{Geometry, LineBlock, Slot};

/// Most lines in a block: `BISnpInvBlk` covers 256 bytes.
const MAX_LINES: usize = 4;
/// Farthest distance of a line from another one of its block.
const REACH: usize = MAX_LINES - 1;
/// Size of a window: a line, the lines whose blocks may contain it, and the lines that those
/// blocks may contain.
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
    /// Most lines in a block: 1, 2 or 4, and 3 if not aligned. Default 4.
    #[schemars(range(min = 1, max = 4))]
    max_lines: u32,
    /// Whether blocks have 2 or 4 lines and begin at a multiple of their size, as `BISnpInvBlk` can
    /// express (CXL 3.1, block enable encoding in address bits 7:6). Otherwise they begin anywhere
    /// and may have 3 lines, as in ESF, section V-C. Default true.
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

/// The policy's state. The rank is the difference between the longest possible block and
/// the line's block.
pub(super) struct BlockLength {
    max_lines: usize,
    aligned: bool,
    owners: Vec<u64>,
}

save_state!(BlockLength {
    sized: owners;
    built: max_lines, aligned;
});

/// A resident, unpinned line, which may be part of a block.
#[derive(Clone, Copy)]
struct BlockMember {
    slot: Slot,
    owner: u64,
}

/// The lines around a line.
struct LineWindow {
    first: u64,
    members: [Option<BlockMember>; WINDOW],
}

impl LineWindow {
    fn owner(&self, at: usize) -> Option<u64> {
        self.members[at].map(|member| member.owner)
    }
}

impl BlockLength {
    /// The part of the window with lines that may share a block with `line`: its aligned block, or
    /// the reach of `blocks` adjacent blocks.
    fn about(&self, line: LineAddr, blocks: usize) -> RangeInclusive<usize> {
        if self.aligned {
            let start = MIDDLE - (line.0 % self.max_lines as u64) as usize;
            return start..=start + self.max_lines - 1;
        }
        let reach = blocks * (self.max_lines - 1);
        MIDDLE - reach..=MIDDLE + reach
    }

    /// Looks up those lines; `line` is in the middle of the window.
    fn window(&self, lines: &ResidentLines, line: LineAddr, blocks: usize) -> LineWindow {
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
                *member = Some(BlockMember { slot, owner });
            }
        }
        LineWindow { first, members }
    }

    /// The start of a member's block in the window, and the number of lines in the block.
    fn block_at(&self, window: &LineWindow, at: usize) -> (usize, usize) {
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

impl ReplacementPolicy for BlockLength {
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
        self.owners[slot.index()] = 0;
        let rank = EvictionRank {
            class: 0,
            stamp: u64::MAX - lines.order.tick(),
        };
        lines.order.set_rank(slot, rank);
        lines.order.unpin(slot);
        let line = lines.line(slot);
        self.changed(lines, line);
    }

    #[inline]
    fn touched(&mut self, _: &mut ResidentLines, _: Slot) {}

    fn changed(&mut self, lines: &mut ResidentLines, line: LineAddr) {
        let window = self.window(lines, line, 2);
        for at in self.about(line, 1) {
            let Some(BlockMember { slot, .. }) = window.members[at] else {
                continue;
            };
            let (_, length) = self.block_at(&window, at);
            let class = (self.max_lines - length) as u32;
            let rank = lines.order.rank(slot);
            if rank.class != class {
                lines.order.set_rank(slot, EvictionRank { class, ..rank });
            }
        }
    }

    fn owned(&mut self, lines: &mut ResidentLines, slot: Slot, owner: u64) {
        if std::mem::replace(&mut self.owners[slot.index()], owner) != owner {
            let line = lines.line(slot);
            self.changed(lines, line);
        }
    }

    fn block(&self, lines: &ResidentLines, slot: Slot) -> LineBlock {
        let victim = lines.line(slot);
        let window = self.window(lines, victim, 1);
        let (first, length) = self.block_at(&window, MIDDLE);
        LineBlock {
            victim,
            first: LineAddr(window.first.wrapping_add(first as u64)),
            lines: length as u32,
        }
    }
}
