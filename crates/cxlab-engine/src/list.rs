//! Doubly linked lists of numbered entries. The links are stored in the entries, so that several lists
//! share one array and an entry moves between lists without allocation.

use serde::{Deserialize, Serialize};

/// Stands for the absence of a number, as at the end of a list.
pub const NONE: u32 = u32::MAX;

/// The neighbours of an entry in its list.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Link {
    /// The entry before, or [`NONE`].
    pub before: u32,
    /// The entry after, or [`NONE`].
    pub after: u32,
}

impl Link {
    /// The link of an entry that is in no list.
    pub const NONE: Link = Link {
        before: NONE,
        after: NONE,
    };
}

impl Default for Link {
    fn default() -> Self {
        Link::NONE
    }
}

/// An entry with a link.
pub trait Linked {
    /// The link.
    fn link(&self) -> &Link;
    /// The link, to be changed.
    fn link_mut(&mut self) -> &mut Link;
}

impl Linked for Link {
    #[inline]
    fn link(&self) -> &Link {
        self
    }

    #[inline]
    fn link_mut(&mut self) -> &mut Link {
        self
    }
}

/// A list of entries. Each entry is in at most one list.
///
/// ```
/// use cxlab_engine::list::{Link, List, NONE};
///
/// let mut entries = [Link::NONE; 3];
/// let mut list = List::EMPTY;
/// list.push_back(&mut entries[..], 2);
/// list.push_front(&mut entries[..], 0);
/// list.push_back(&mut entries[..], 1);
/// list.remove(&mut entries[..], 2);
/// assert_eq!((list.first, entries[0].after, list.last), (0, 1, 1));
/// assert_eq!((list.len, entries[1].after), (2, NONE));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct List {
    /// The first entry, or [`NONE`].
    pub first: u32,
    /// The last entry, or [`NONE`].
    pub last: u32,
    /// Number of entries.
    pub len: u32,
}

impl List {
    /// A list without entries.
    pub const EMPTY: List = List {
        first: NONE,
        last: NONE,
        len: 0,
    };

    /// Appends an entry that is in no list.
    #[inline]
    pub fn push_back<E: Linked>(&mut self, entries: &mut [E], number: u32) {
        let before = std::mem::replace(&mut self.last, number);
        *entries[number as usize].link_mut() = Link {
            before,
            after: NONE,
        };
        match before {
            NONE => self.first = number,
            before => entries[before as usize].link_mut().after = number,
        }
        self.len += 1;
    }

    /// Puts an entry that is in no list in front of all others.
    #[inline]
    pub fn push_front<E: Linked>(&mut self, entries: &mut [E], number: u32) {
        let after = std::mem::replace(&mut self.first, number);
        *entries[number as usize].link_mut() = Link {
            before: NONE,
            after,
        };
        match after {
            NONE => self.last = number,
            after => entries[after as usize].link_mut().before = number,
        }
        self.len += 1;
    }

    /// Removes an entry of this list. The entry keeps its link.
    #[inline]
    pub fn remove<E: Linked>(&mut self, entries: &mut [E], number: u32) {
        let Link { before, after } = *entries[number as usize].link();
        match before {
            NONE => self.first = after,
            before => entries[before as usize].link_mut().after = after,
        }
        match after {
            NONE => self.last = before,
            after => entries[after as usize].link_mut().before = before,
        }
        self.len -= 1;
    }
}
