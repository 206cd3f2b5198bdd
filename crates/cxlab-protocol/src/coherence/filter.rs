//! Who may hold a line, as the snoop filter of the DCOH knows it.

use serde::{Deserialize, Serialize};

/// The number of a requester at this device, 0 to 63.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Peer(pub(super) u8);

impl Peer {
    /// How many requesters one device can keep apart.
    pub const MAX_COUNT: usize = 64;

    /// The requester with this number; `None` from 64 on.
    #[inline]
    pub const fn new(number: usize) -> Option<Peer> {
        if number < Peer::MAX_COUNT {
            Some(Peer(number as u8))
        } else {
            None
        }
    }

    /// Its number.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of requesters: bit n is requester n.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Peers(pub u64);

impl Peers {
    /// No requester.
    pub const NONE: Peers = Peers(0);

    /// Only this one.
    #[inline]
    pub const fn only(peer: Peer) -> Peers {
        Peers(1 << peer.0)
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is among them.
    #[inline]
    pub const fn contains(self, peer: Peer) -> bool {
        self.0 & Peers::only(peer).0 != 0
    }

    /// These and one more.
    #[inline]
    pub const fn with(self, peer: Peer) -> Peers {
        Peers(self.0 | Peers::only(peer).0)
    }

    /// These without one.
    #[inline]
    pub const fn without(self, peer: Peer) -> Peers {
        Peers(self.0 & !Peers::only(peer).0)
    }

    /// Those that are in both sets.
    #[inline]
    pub const fn common(self, other: Peers) -> Peers {
        Peers(self.0 & other.0)
    }

    /// Each of them, in the order of their numbers.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Peer> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let peer = Peer(rest.trailing_zeros() as u8);
                rest &= rest - 1;
                peer
            })
        })
    }
}

/// What the snoop filter says of a line.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum Filter {
    /// Nobody holds it; no entry is needed.
    #[default]
    Invalid,
    /// These may hold a shared copy.
    Shared(Peers),
    /// This one may hold the only copy, perhaps modified.
    Any(Peer),
}

impl Filter {
    /// All that may hold a copy.
    #[inline]
    pub const fn holders(self) -> Peers {
        match self {
            Filter::Invalid => Peers::NONE,
            Filter::Shared(peers) => peers,
            Filter::Any(peer) => Peers::only(peer),
        }
    }

    #[inline]
    pub(super) fn without(self, peer: Peer) -> Filter {
        match self {
            Filter::Shared(peers) if !peers.without(peer).is_empty() => {
                Filter::Shared(peers.without(peer))
            }
            Filter::Any(owner) if owner != peer => self,
            _ => Filter::Invalid,
        }
    }

    #[inline]
    pub(super) fn shared_with(self, peer: Peer) -> Filter {
        Filter::Shared(self.holders().with(peer))
    }

    /// What it says of all but this requester.
    #[inline]
    pub(super) fn others(self, peer: Option<Peer>) -> Others {
        match (self, peer) {
            (Filter::Any(owner), Some(peer)) if owner == peer => Others::None,
            (Filter::Any(_), _) => Others::Owner,
            (_, Some(peer)) if self.holders().without(peer).is_empty() => Others::None,
            (Filter::Invalid, _) => Others::None,
            (Filter::Shared(_), _) => Others::Sharers,
        }
    }
}

/// What the filter says of requesters other than the one that the event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Others {
    /// None of them holds the line.
    None,
    /// Some may share it.
    Sharers,
    /// One may own it.
    Owner,
}
