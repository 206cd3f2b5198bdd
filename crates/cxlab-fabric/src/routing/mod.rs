//! Routing: which of several paths a message takes, on which virtual channels, and the proof that
//! nothing can deadlock.
//!
//! The kinds of routing are a catalog. All of them choose among the same paths ([`Paths`]); a switch asks
//! [`RoutingTables::candidates`] and lets [`RoutingKind::pick`] choose.

mod adaptive;
mod candidates;
pub mod deadlock;
mod distances;
mod error;
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

pub use error::FabricError;
pub use ports::{PortPeer, Ports};
pub use tables::{Paths, RoutingTables};

/// How a switch chooses among the shortest paths to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RoutingKind {
    /// One path for each destination.
    #[default]
    Shortest,
    /// One path for each pair of source and destination.
    Oblivious,
    /// A random path for each message.
    Random,
    /// The least congested output at the time.
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
    /// The output port for a message at `switch`, one of `candidates` (not empty, as
    /// [`RoutingTables::candidates`] gave them). `random` is drawn from only by
    /// [`RoutingKind::Random`] and `congestion` of a port asked only by [`RoutingKind::Adaptive`],
    /// and neither when there is just one candidate.
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

    /// The routing of messages that keep their order ([`cxlab_protocol::Channel::is_ordered`]): where this one may
    /// give each message a path of its own, it is [`RoutingKind::Oblivious`].
    #[inline]
    pub fn in_order(self) -> RoutingKind {
        match self.keeps_order() {
            true => self,
            false => RoutingKind::Oblivious,
        }
    }

    /// Whether messages of one source to one destination all take the same path, and so stay in
    /// order.
    pub fn keeps_order(self) -> bool {
        match self {
            RoutingKind::Shortest | RoutingKind::Oblivious => true,
            RoutingKind::Random | RoutingKind::Adaptive => false,
        }
    }
}

/// The parameters of a routing that has none.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NoParameters {}

/// The `schema` function of an entry without parameters.
fn no_schema(generator: &mut SchemaGenerator) -> Schema {
    NoParameters::json_schema(generator)
}

/// Refuses any parameter.
fn without_parameters(
    params: &serde_json::Value,
    kind: RoutingKind,
) -> Result<RoutingKind, ParamError> {
    read_params::<NoParameters>(params).map(|NoParameters {}| kind)
}
