//! One shortest path for each destination ("D-mod-k").

use cxlab_engine::catalog::Entry;

use super::{RoutingKind, no_schema, without_parameters};

pub(super) const ENTRY: Entry<RoutingKind> = Entry {
    name: "shortest",
    summary: "one shortest path for each destination, ties by destination number",
    schema: no_schema,
    build: |params| without_parameters(params, RoutingKind::Shortest),
};

/// The only candidate for a destination: the destination's number modulo the number of candidates. This
/// spreads the destinations evenly and statically over the paths, after "D-mod-k" routing of fat trees (E.
/// Zahavi, "Fat-Tree Routing and Node Ordering Providing Contention Free Traffic for MPI Global
/// Collectives", 2010). Unlike there, the number is not divided by the arity of the levels below.
#[inline]
pub(super) fn narrow(candidates: &[u16], destination: usize) -> &[u16] {
    match candidates.len() {
        0 | 1 => candidates,
        ties => &candidates[destination % ties..][..1],
    }
}
