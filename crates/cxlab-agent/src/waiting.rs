//! Accesses that wait for transactions, as linked lists in one array.

use cxlab_engine::list;
use cxlab_engine::slab::Slab;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use crate::access::Access;

/// An access that waits for a transaction.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct WaitingAccess {
    /// Load, store or other access, which continues when the transaction ends.
    pub access: Access,
    /// When the access began, in picoseconds.
    pub begun: u64,
    /// Place of the next access of the same transaction, or [`WaitingAccesses::NONE`].
    pub next: u32,
}

/// The waiting accesses of all transactions of an agent, by place. A transaction has the places of the
/// first and the last access that wait for it.
#[derive(Default, Serialize, Deserialize)]
pub struct WaitingAccesses(Slab<WaitingAccess>);

impl WaitingAccesses {
    /// Stands for no place.
    pub const NONE: u32 = list::NONE;

    /// Appends an access to a list, whose ends are `first` and `last`.
    pub fn append(&mut self, first: &mut u32, last: &mut u32, access: Access, begun: SimTime) {
        let place = self.0.insert(WaitingAccess {
            access,
            begun: begun.0,
            next: Self::NONE,
        });
        match *last {
            Self::NONE => *first = place,
            last => self.0[last].next = place,
        }
        *last = place;
    }

    /// The access at a place.
    #[inline]
    pub fn get(&self, place: u32) -> &WaitingAccess {
        &self.0[place]
    }

    /// Removes the access at a place.
    #[inline]
    pub fn take(&mut self, place: u32) -> WaitingAccess {
        self.0.remove(place)
    }
}
