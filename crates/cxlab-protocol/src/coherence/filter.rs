//! The record of a line's holders, in the snoop filter of the DCOH and in the home agent's directory.

use serde::{Deserialize, Serialize};

/// Number of a requester at one device, 0 to 63.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Peer(pub(super) u8);

impl Peer {
    /// Number of requesters that one device can distinguish.
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

    /// The number of the requester.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The host's cores and their last-level cache, as one holder of lines of the host's memory.
pub const CORES: Peer = Peer(Peer::MAX_COUNT as u8 - 1);

/// A set of requesters: bit n is requester n.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Peers(pub u64);

impl Peers {
    /// The set without any requester.
    pub const NONE: Peers = Peers(0);

    /// The set of this requester alone.
    #[inline]
    pub const fn only(peer: Peer) -> Peers {
        Peers(1 << peer.0)
    }

    /// Whether the set contains no requester.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the requester is in the set.
    #[inline]
    pub const fn contains(self, peer: Peer) -> bool {
        self.0 & Peers::only(peer).0 != 0
    }

    /// The set with this requester added.
    #[inline]
    pub const fn with(self, peer: Peer) -> Peers {
        Peers(self.0 | Peers::only(peer).0)
    }

    /// The set with this requester removed.
    #[inline]
    pub const fn without(self, peer: Peer) -> Peers {
        Peers(self.0 & !Peers::only(peer).0)
    }

    /// The requesters that are in both sets.
    #[inline]
    pub const fn common(self, other: Peers) -> Peers {
        Peers(self.0 & other.0)
    }

    /// The requesters in the set, in ascending order.
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

/// The record of a line's holders in a snoop filter or directory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum Filter {
    /// No requester holds the line; no entry is needed.
    #[default]
    Invalid,
    /// These requesters may hold a shared copy.
    Shared(Peers),
    /// This requester may hold the only copy, perhaps modified.
    Any(Peer),
}

impl Filter {
    /// All requesters that may hold a copy.
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

    /// The view of the other holders: all requesters except for `peer`.
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

/// The filter's view of the requesters other than the one that the event concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Others {
    /// No other requester holds the line.
    None,
    /// Other requesters may share the line.
    Sharers,
    /// Another requester may own the line.
    Owner,
}

/// The change of the record of holders. "Peer" is the holder that the event concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// The record does not change.
    Keep,
    /// No holder has the line.
    Clear,
    /// The peer is removed from the holders.
    Remove,
    /// The peer is added to the sharers.
    AddShared,
    /// Only the peer may hold the line.
    SetOwner,
    /// Only the host's cores may hold the line.
    SetCores,
}

impl Update {
    /// The record after the change. Without a peer, only `Clear` and `SetCores` change it.
    #[inline]
    pub(super) fn of(self, filter: Filter, peer: Option<Peer>) -> Filter {
        match (self, peer) {
            (Update::Clear, _) => Filter::Invalid,
            (Update::SetCores, _) => Filter::Any(CORES),
            (Update::Remove, Some(peer)) => filter.without(peer),
            (Update::AddShared, Some(peer)) => filter.shared_with(peer),
            (Update::SetOwner, Some(peer)) => Filter::Any(peer),
            _ => filter,
        }
    }
}
