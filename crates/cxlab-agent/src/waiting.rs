//! Accesses that wait for transactions, as linked lists in one array.

use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use crate::access::Access;

/// An access that waits for a transaction.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct WaitingAccess {
    /// The access.
    pub access: Access,
    /// When the access began, in picoseconds.
    pub begun: u64,
    /// Place of the next access of the same transaction, or [`WaitingAccesses::NONE`].
    pub next: u32,
}

/// The waiting accesses of all transactions of an agent, by place. A transaction has the places of the
/// first and the last access that wait for it.
#[derive(Default, Serialize, Deserialize)]
pub struct WaitingAccesses {
    entries: Vec<WaitingAccess>,
    free: Vec<u32>,
}

impl WaitingAccesses {
    /// Stands for no place.
    pub const NONE: u32 = u32::MAX;

    /// Appends an access to a list, whose ends are `first` and `last`.
    pub fn append(&mut self, first: &mut u32, last: &mut u32, access: Access, begun: SimTime) {
        let entry = WaitingAccess {
            access,
            begun: begun.0,
            next: Self::NONE,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        match *last {
            Self::NONE => *first = place,
            last => self.entries[last as usize].next = place,
        }
        *last = place;
    }

    /// The access at a place.
    #[inline]
    pub fn get(&self, place: u32) -> &WaitingAccess {
        &self.entries[place as usize]
    }

    /// Removes the access at a place.
    #[inline]
    pub fn take(&mut self, place: u32) -> WaitingAccess {
        self.free.push(place);
        self.entries[place as usize]
    }
}
