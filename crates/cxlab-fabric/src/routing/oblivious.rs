//! Oblivious routing: one shortest path for each pair of source and destination, by a hash.

use cxlab_engine::catalog::Entry;

use super::{RoutingKind, no_schema, without_parameters};

pub(super) const ENTRY: Entry<RoutingKind> = Entry {
    name: "oblivious",
    summary: "a static hash of source and destination chooses among shortest paths",
    schema: no_schema,
    build: |params| without_parameters(params, RoutingKind::Oblivious),
};

/// The candidate that the hash of switch, source and destination selects. Without the switch in the hash,
/// consecutive switches would choose alike and leave paths unused. The hash is the finalizer of SplitMix64
/// (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
pub(super) fn pick(candidates: &[u16], switch: usize, source: usize, destination: usize) -> u16 {
    let mut hash = (switch as u64) << 32 | (source as u64) << 16 | destination as u64;
    hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    candidates[(hash % candidates.len() as u64) as usize]
}
