//! Routing: which of several paths a message takes, on which virtual channels, and the proof that the
//! routing cannot deadlock.
//!
//! The kinds of routing form a catalog. All of them choose among the same paths ([`AllowedPaths`]): a switch calls
//! [`RoutingTables::candidates`], and [`RoutingKind::pick`] chooses among the result.

mod candidates;
pub mod deadlock;
mod distances;
mod kinds;
#[cfg(test)]
mod laws;
mod order;
mod ports;
mod tables;
pub mod vcs;

pub use kinds::CATALOG;
pub use ports::{PortPeer, SwitchPorts};
pub use tables::{AllowedPaths, RoutingTables};

/// How a switch chooses among the shortest paths to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RoutingKind {
    /// One path for each destination; candidates are chosen by the destination's number.
    #[default]
    Shortest,
    /// One path for each pair of source and destination, chosen by a hash.
    Oblivious,
    /// A random path for each message.
    Random,
    /// The least congested output at the time of the decision.
    Adaptive,
}

impl RoutingKind {
    /// The output port for a message at `switch`: one of `candidates`, which must not be
    /// empty ([`RoutingTables::candidates`]). Only [`RoutingKind::Random`] calls `random`,
    /// and only [`RoutingKind::Adaptive`] calls `congestion` with a port. Neither is called
    /// if there is a single candidate.
    #[inline]
    pub fn pick(
        self,
        candidates: &[u16],
        switch: usize,
        source: usize,
        destination: usize,
        random: impl FnOnce() -> u64,
        congestion: impl FnMut(u16) -> u64,
    ) -> u16 {
        if let [only] = candidates {
            return *only;
        }
        assert!(
            !candidates.is_empty(),
            "a message for endpoint {destination} has no way on"
        );
        match self {
            RoutingKind::Shortest => kinds::narrow(candidates, destination)[0],
            RoutingKind::Oblivious => {
                kinds::pick_oblivious(candidates, switch, source, destination)
            }
            RoutingKind::Random => kinds::pick_random(candidates, random()),
            RoutingKind::Adaptive => kinds::pick_adaptive(candidates, congestion),
        }
    }

    /// The routing of messages that must keep their order ([`cxlab_protocol::Channel::is_ordered`]). It is
    /// [`RoutingKind::Oblivious`] if this kind may send each message on a different path.
    #[inline]
    pub fn in_order(self) -> RoutingKind {
        match self.keeps_order() {
            true => self,
            false => RoutingKind::Oblivious,
        }
    }

    /// Whether all messages from one source to one destination take the same path, and so stay in order.
    pub fn keeps_order(self) -> bool {
        match self {
            RoutingKind::Shortest | RoutingKind::Oblivious => true,
            RoutingKind::Random | RoutingKind::Adaptive => false,
        }
    }
}
