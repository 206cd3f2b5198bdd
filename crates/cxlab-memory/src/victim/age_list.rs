//! Doubly linked lists of small numbers. Several lists share one array, without allocation.

use serde::{Deserialize, Serialize};

/// The end of a list.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct AgeLink {
    before: u32,
    after: u32,
}

/// The links of all numbers; each number is in at most one list.
#[derive(Serialize, Deserialize)]
pub(super) struct AgeLinks(Vec<AgeLink>);

/// A list, from the oldest number to the youngest.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct AgeList {
    pub(super) oldest: u32,
    youngest: u32,
    pub(super) len: u32,
}

impl AgeList {
    pub(super) const EMPTY: AgeList = AgeList {
        oldest: NONE,
        youngest: NONE,
        len: 0,
    };
}

impl AgeLinks {
    /// Links of the numbers below `count`, which are in no list.
    pub(super) fn new(count: u32) -> Self {
        let none = AgeLink {
            before: NONE,
            after: NONE,
        };
        AgeLinks(vec![none; count as usize])
    }

    /// The next younger number of the same list; [`NONE`] after the youngest.
    #[inline]
    pub(super) fn after(&self, number: u32) -> u32 {
        self.0[number as usize].after
    }

    /// The next older number of the same list; [`NONE`] before the oldest.
    #[inline]
    pub(super) fn before(&self, number: u32) -> u32 {
        self.0[number as usize].before
    }

    /// Appends a number that is in no list, as the youngest.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut AgeList, number: u32) {
        let before = std::mem::replace(&mut chain.youngest, number);
        self.0[number as usize] = AgeLink {
            before,
            after: NONE,
        };
        match before {
            NONE => chain.oldest = number,
            before => self.0[before as usize].after = number,
        }
        chain.len += 1;
    }

    /// Removes a number from its list `chain`.
    #[inline]
    pub(super) fn take(&mut self, chain: &mut AgeList, number: u32) {
        let AgeLink { before, after } = self.0[number as usize];
        match before {
            NONE => chain.oldest = after,
            before => self.0[before as usize].after = after,
        }
        match after {
            NONE => chain.youngest = before,
            after => self.0[after as usize].before = before,
        }
        chain.len -= 1;
    }
}
