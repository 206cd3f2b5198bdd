//! Responses to a snoop of a block of lines.
//!
//! A `BISnp*Blk` covers 2 or 4 lines, naturally aligned. It may be answered by one `BIRsp*Blk`, or
//! by one `BIRsp*` per line in any order (CXL 3.1, section 3.3.8.1). The requester's table handles
//! each line separately. The form is chosen as follows:
//!
//! - If no line of the block is in conflict, the responses are buffered until the last one. They
//!   are sent as one `BIRsp*Blk` if all are equal, and one by one otherwise.
//! - If a line is in conflict, conflicts must be resolved for each line separately. Every line then
//!   gets a response of its own, as soon as possible.
//!
//! Lengths of 1 and 3, which the specification does not have, are accepted for studies of block length.

use serde::{Deserialize, Serialize};

use super::list::List;
use super::message::{KeptCopy, Snoop};

/// A response to a block snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockResponse {
    /// The response for one line, given by its position in the block.
    Line(u8, KeptCopy),
    /// The response for the whole block.
    Block(KeptCopy),
}

/// Responses that may be sent.
pub type BlockResponses = List<BlockResponse, { BlockSnoop::MAX_LEN as usize }>;

/// A block snoop that a requester is processing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub struct BlockSnoop {
    snoop: Snoop,
    len: u8,
    responded: u8,
    kept: [KeptCopy; BlockSnoop::MAX_LEN as usize],
    individually: bool,
}

impl BlockSnoop {
    /// Length of the longest block, in lines.
    pub const MAX_LEN: u8 = 4;

    /// A snoop of a block of `len` lines, 1 to 4. `None` for other lengths.
    pub const fn new(snoop: Snoop, len: u8) -> Option<BlockSnoop> {
        if len == 0 || len > BlockSnoop::MAX_LEN {
            return None;
        }
        Some(BlockSnoop {
            snoop,
            len,
            responded: 0,
            kept: [KeptCopy::Invalid; BlockSnoop::MAX_LEN as usize],
            individually: false,
        })
    }

    /// The kind of the snoop.
    pub const fn snoop(&self) -> Snoop {
        self.snoop
    }

    /// Number of lines that the snoop covers.
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Always `false`: a block has at least one line.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether each line gets a response of its own.
    pub const fn is_individual(&self) -> bool {
        self.individually
    }

    /// Whether [`BlockSnoop::respond`] was called for the line.
    pub const fn has_responded(&self, line: u8) -> bool {
        self.responded & (1 << line) != 0
    }

    /// Whether [`BlockSnoop::respond`] was called for every line.
    pub const fn is_done(&self) -> bool {
        self.responded == (1 << self.len) - 1
    }

    /// Records that a line is in conflict: from now on each line gets a response of its own.
    /// Returns the buffered responses.
    pub fn conflict(&mut self) -> BlockResponses {
        let mut out = BlockResponses::new();
        if !self.individually {
            self.individually = true;
            self.release(&mut out);
        }
        out
    }

    /// Records the table's response for the line at this position of the block. Returns the
    /// responses that may be sent now.
    pub fn respond(&mut self, line: u8, kept: KeptCopy) -> BlockResponses {
        let mut out = BlockResponses::new();
        if line >= self.len || self.has_responded(line) {
            return out;
        }
        self.responded |= 1 << line;
        self.kept[usize::from(line)] = kept;
        if self.individually {
            out.push(BlockResponse::Line(line, kept));
        } else if self.is_done() {
            if self.kept[..usize::from(self.len)]
                .iter()
                .all(|&k| k == kept)
            {
                out.push(BlockResponse::Block(kept));
            } else {
                self.release(&mut out);
            }
        }
        out
    }

    fn release(&self, out: &mut BlockResponses) {
        for line in (0..self.len).filter(|&line| self.has_responded(line)) {
            out.push(BlockResponse::Line(line, self.kept[usize::from(line)]));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn block(snoop: Snoop, len: u8) -> BlockSnoop {
        BlockSnoop::new(snoop, len).unwrap()
    }

    fn listed(list: BlockResponses) -> Vec<BlockResponse> {
        list.iter().collect()
    }

    #[test]
    fn equal_responses_go_as_one_when_the_last_is_known() {
        let mut snoop = block(Snoop::Inv, 4);
        for line in [2, 0, 3] {
            assert!(snoop.respond(line, KeptCopy::Invalid).is_empty());
        }
        assert_eq!(
            listed(snoop.respond(1, KeptCopy::Invalid)),
            [BlockResponse::Block(KeptCopy::Invalid)]
        );
        assert!(snoop.is_done());
    }

    #[test]
    fn different_responses_go_one_by_one() {
        let mut snoop = block(Snoop::Data, 2);
        assert!(snoop.respond(0, KeptCopy::Shared).is_empty());
        assert_eq!(
            listed(snoop.respond(1, KeptCopy::Invalid)),
            [
                BlockResponse::Line(0, KeptCopy::Shared),
                BlockResponse::Line(1, KeptCopy::Invalid)
            ]
        );
    }

    #[test]
    fn a_conflict_releases_what_is_held_and_later_responses_go_at_once() {
        let mut snoop = block(Snoop::Inv, 3);
        assert!(snoop.respond(0, KeptCopy::Invalid).is_empty());
        assert_eq!(
            listed(snoop.conflict()),
            [BlockResponse::Line(0, KeptCopy::Invalid)]
        );
        assert!(snoop.conflict().is_empty());
        assert_eq!(
            listed(snoop.respond(2, KeptCopy::Invalid)),
            [BlockResponse::Line(2, KeptCopy::Invalid)]
        );
        assert!(!snoop.is_done());
    }

    #[test]
    fn a_line_has_one_response_and_only_if_it_is_of_the_block() {
        let mut snoop = block(Snoop::Inv, 1);
        assert!(snoop.respond(1, KeptCopy::Invalid).is_empty());
        assert_eq!(
            listed(snoop.respond(0, KeptCopy::Invalid)),
            [BlockResponse::Block(KeptCopy::Invalid)]
        );
        assert!(snoop.respond(0, KeptCopy::Invalid).is_empty());
        assert_eq!(BlockSnoop::new(Snoop::Inv, 0), None);
        assert_eq!(BlockSnoop::new(Snoop::Inv, 5), None);
    }
}
