//! Adaptive routing: the least congested shortest path, as the switch sees it at the time.

use cxlab_engine::catalog::Entry;

use super::{RoutingKind, no_schema, without_parameters};

pub(super) const ENTRY: Entry<RoutingKind> = Entry {
    name: "adaptive",
    summary: "the least congested output on a shortest path, chosen for each message",
    schema: no_schema,
    build: |params| without_parameters(params, RoutingKind::Adaptive),
};

/// The least congested candidate; on a tie, the first.
pub(super) fn pick(candidates: &[u16], mut congestion: impl FnMut(u16) -> u64) -> u16 {
    let mut best = (u64::MAX, candidates[0]);
    for port in candidates {
        let found = congestion(*port);
        if found < best.0 {
            best = (found, *port);
        }
    }
    best.1
}
