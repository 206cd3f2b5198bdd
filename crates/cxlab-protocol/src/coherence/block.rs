//! One answer for a block of lines.
//!
//! A `BISnp*Blk` covers 2 or 4 lines, naturally aligned, and may be answered by one `BIRsp*Blk` or
//! by one `BIRsp*` a line, in any order (CXL 3.1, section 3.3.8.1). Each line is handled by itself
//! in the requester's table. The rule here for which form is used:
//!
//! - If no line of the block is in conflict, the answers are held until the last one and go as
//!   one `BIRsp*Blk` if all are the same, and one by one otherwise.
//! - If a line is in conflict, conflicts must be resolved for each line separately, so every line
//!   is answered by itself, as soon as it can be.
//!
//! Lengths of 1 and 3, which the specification does not have, are accepted for studies of block
//! length.

use serde::{Deserialize, Serialize};

use super::list::List;
use super::message::{Kept, Snoop};

/// An answer to a block snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// For one line, by its place in the block.
    Line(u8, Kept),
    /// For the whole block.
    Block(Kept),
}

/// The answers that may go.
pub type Answers = List<Answer, { BlockSnoop::MAX_LEN as usize }>;

/// A block snoop that a requester works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub struct BlockSnoop {
    snoop: Snoop,
    len: u8,
    answered: u8,
    kept: [Kept; BlockSnoop::MAX_LEN as usize],
    individually: bool,
}

impl BlockSnoop {
    /// The longest block, in lines.
    pub const MAX_LEN: u8 = 4;

    /// A block of `len` lines, 1 to 4. `None` for other lengths.
    pub const fn new(snoop: Snoop, len: u8) -> Option<BlockSnoop> {
        if len == 0 || len > BlockSnoop::MAX_LEN {
            return None;
        }
        Some(BlockSnoop {
            snoop,
            len,
            answered: 0,
            kept: [Kept::Invalid; BlockSnoop::MAX_LEN as usize],
            individually: false,
        })
    }

    /// What it asks.
    pub const fn snoop(&self) -> Snoop {
        self.snoop
    }

    /// How many lines it covers.
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Blocks have at least one line.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether the specification has blocks of this length.
    pub const fn is_standard(&self) -> bool {
        matches!(self.len, 2 | 4)
    }

    /// Whether the lines are answered one by one.
    pub const fn is_individual(&self) -> bool {
        self.individually
    }

    /// Whether the line has been given to `answer`.
    pub const fn has_answered(&self, line: u8) -> bool {
        self.answered & (1 << line) != 0
    }

    /// Whether every line has.
    pub const fn is_done(&self) -> bool {
        self.answered == (1 << self.len) - 1
    }

    /// A line is in conflict: from now on lines are answered one by one, those held at once.
    pub fn conflict(&mut self) -> Answers {
        let mut out = Answers::new();
        if !self.individually {
            self.individually = true;
            self.release(&mut out);
        }
        out
    }

    /// The table has answered the snoop for the line at this place of the block.
    pub fn answer(&mut self, line: u8, kept: Kept) -> Answers {
        let mut out = Answers::new();
        if line >= self.len || self.has_answered(line) {
            return out;
        }
        self.answered |= 1 << line;
        self.kept[usize::from(line)] = kept;
        if self.individually {
            out.push(Answer::Line(line, kept));
        } else if self.is_done() {
            if self.kept[..usize::from(self.len)]
                .iter()
                .all(|&k| k == kept)
            {
                out.push(Answer::Block(kept));
            } else {
                self.release(&mut out);
            }
        }
        out
    }

    fn release(&self, out: &mut Answers) {
        for line in (0..self.len).filter(|&line| self.has_answered(line)) {
            out.push(Answer::Line(line, self.kept[usize::from(line)]));
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

    fn answers(list: Answers) -> Vec<Answer> {
        list.iter().collect()
    }

    #[test]
    fn equal_answers_go_as_one_when_the_last_is_known() {
        let mut snoop = block(Snoop::Inv, 4);
        for line in [2, 0, 3] {
            assert!(snoop.answer(line, Kept::Invalid).is_empty());
        }
        assert_eq!(
            answers(snoop.answer(1, Kept::Invalid)),
            [Answer::Block(Kept::Invalid)]
        );
        assert!(snoop.is_done());
    }

    #[test]
    fn different_answers_go_one_by_one() {
        let mut snoop = block(Snoop::Data, 2);
        assert!(snoop.answer(0, Kept::Shared).is_empty());
        assert_eq!(
            answers(snoop.answer(1, Kept::Invalid)),
            [
                Answer::Line(0, Kept::Shared),
                Answer::Line(1, Kept::Invalid)
            ]
        );
    }

    #[test]
    fn a_conflict_releases_what_is_held_and_later_answers_go_at_once() {
        let mut snoop = block(Snoop::Inv, 3);
        assert!(snoop.answer(0, Kept::Invalid).is_empty());
        assert_eq!(answers(snoop.conflict()), [Answer::Line(0, Kept::Invalid)]);
        assert!(snoop.conflict().is_empty());
        assert_eq!(
            answers(snoop.answer(2, Kept::Invalid)),
            [Answer::Line(2, Kept::Invalid)]
        );
        assert!(!snoop.is_done());
        assert!(!snoop.is_standard());
    }

    #[test]
    fn a_line_is_answered_once_and_only_if_it_is_of_the_block() {
        let mut snoop = block(Snoop::Inv, 1);
        assert!(snoop.answer(1, Kept::Invalid).is_empty());
        assert_eq!(
            answers(snoop.answer(0, Kept::Invalid)),
            [Answer::Block(Kept::Invalid)]
        );
        assert!(snoop.answer(0, Kept::Invalid).is_empty());
        assert_eq!(BlockSnoop::new(Snoop::Inv, 0), None);
        assert_eq!(BlockSnoop::new(Snoop::Inv, 5), None);
    }
}
