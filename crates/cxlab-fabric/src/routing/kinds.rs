//! The kinds of routing: which of several candidate ports each of them picks.

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RoutingKind;

/// Every kind of routing, in the order of `cxlab list`.
pub static CATALOG: &[Entry<RoutingKind>] = &[
    entry(
        "shortest",
        "one shortest path for each destination, ties by destination number",
        |params| without_parameters(params, RoutingKind::Shortest),
    ),
    entry(
        "oblivious",
        "a static hash of source and destination chooses among shortest paths",
        |params| without_parameters(params, RoutingKind::Oblivious),
    ),
    entry(
        "random",
        "a random shortest path for each message",
        |params| without_parameters(params, RoutingKind::Random),
    ),
    entry(
        "adaptive",
        "the least congested output on a shortest path, chosen for each message",
        |params| without_parameters(params, RoutingKind::Adaptive),
    ),
];

/// Parameters of a routing without parameters.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NoParameters {}

/// An entry without parameters.
const fn entry(
    name: &'static str,
    summary: &'static str,
    build: fn(&Value) -> Result<RoutingKind, ParamError>,
) -> Entry<RoutingKind> {
    Entry {
        name,
        summary,
        schema: NoParameters::json_schema,
        build,
    }
}

/// Builds a routing that accepts no parameters.
fn without_parameters(params: &Value, kind: RoutingKind) -> Result<RoutingKind, ParamError> {
    read_params::<NoParameters>(params).map(|NoParameters {}| kind)
}

/// The only candidate for a destination under [`RoutingKind::Shortest`]: the destination's number modulo
/// the number of candidates. This spreads the destinations evenly and statically over the paths, after
/// "D-mod-k" routing of fat trees (E. Zahavi, "Fat-Tree Routing and Node Ordering Providing Contention Free
/// Traffic for MPI Global Collectives", 2010). D-mod-k divides the number by the arity of lower levels; here
/// it stays whole.
#[inline]
pub(super) fn narrow(candidates: &[u16], destination: usize) -> &[u16] {
    match candidates.len() {
        0 | 1 => candidates,
        ties => &candidates[destination % ties..][..1],
    }
}

/// The candidate that the hash of switch, source and destination selects. Without the switch in the hash,
/// consecutive switches would choose alike and leave paths unused. The hash is the finalizer of SplitMix64
/// (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
pub(super) fn pick_oblivious(
    candidates: &[u16],
    switch: usize,
    source: usize,
    destination: usize,
) -> u16 {
    let mut hash = (switch as u64) << 32 | (source as u64) << 16 | destination as u64;
    hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    candidates[(hash % candidates.len() as u64) as usize]
}

/// The candidate that a random number selects. The bias of the modulus is under 2^-48 for any switch of
/// 65,535 ports or fewer.
pub(super) fn pick_random(candidates: &[u16], random: u64) -> u16 {
    candidates[(random % candidates.len() as u64) as usize]
}

/// The least congested candidate; on a tie, the first.
pub(super) fn pick_adaptive(candidates: &[u16], mut congestion: impl FnMut(u16) -> u64) -> u16 {
    let mut best = (u64::MAX, candidates[0]);
    for port in candidates {
        let found = congestion(*port);
        if found < best.0 {
            best = (found, *port);
        }
    }
    best.1
}
