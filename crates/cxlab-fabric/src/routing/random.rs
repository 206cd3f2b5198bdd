//! A random shortest path for each message.

use cxlab_engine::catalog::Entry;

use super::{RoutingKind, no_schema, without_parameters};

pub(super) const ENTRY: Entry<RoutingKind> = Entry {
    name: "random",
    summary: "a random shortest path for each message",
    schema: no_schema,
    build: |params| without_parameters(params, RoutingKind::Random),
};

/// The candidate that a random number selects. The bias of the modulus is under 2^-48 for any switch of
/// 65,535 ports or fewer.
pub(super) fn pick(candidates: &[u16], random: u64) -> u16 {
    candidates[(random % candidates.len() as u64) as usize]
}
