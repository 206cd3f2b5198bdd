//! Routing: which of several paths a message takes, on which virtual channels, and the proof that the
//! routing cannot deadlock.
//!
//! The kinds of routing form a catalog. All of them choose among the same paths ([`AllowedPaths`]): a switch calls
//! [`RoutingTables::candidates`], and [`RoutingKind::pick`] chooses among the result.

mod adaptive;
mod candidates;
pub mod deadlock;
mod distances;
#[cfg(test)]
mod laws;
mod oblivious;
mod order;
mod ports;
mod random;
mod shortest;
mod tables;
pub mod vcs;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

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

/// Every kind of routing, in the order of `cxlab list`.
pub const CATALOG: &[Entry<RoutingKind>] = &[
    shortest::ENTRY,
    oblivious::ENTRY,
    random::ENTRY,
    adaptive::ENTRY,
];

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
            RoutingKind::Shortest => shortest::narrow(candidates, destination)[0],
            RoutingKind::Oblivious => oblivious::pick(candidates, switch, source, destination),
            RoutingKind::Random => random::pick(candidates, random()),
            RoutingKind::Adaptive => adaptive::pick(candidates, congestion),
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

/// Parameters of a routing without parameters.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NoParameters {}

/// The `schema` function of an entry without parameters.
fn no_schema(generator: &mut SchemaGenerator) -> Schema {
    NoParameters::json_schema(generator)
}

/// Builds a routing that accepts no parameters.
fn without_parameters(
    params: &serde_json::Value,
    kind: RoutingKind,
) -> Result<RoutingKind, ParamError> {
    read_params::<NoParameters>(params).map(|NoParameters {}| kind)
}
