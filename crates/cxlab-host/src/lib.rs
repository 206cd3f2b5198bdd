//! What issues: requesters (hosts and accelerators) with their private state.

mod address_map;
mod cache;
mod coherent;
mod core;
mod issuer;
mod ledger;
mod params;
mod requester;
mod root_ports;
mod stats;

pub use self::core::{
    CacheLevel, Core, CoreConfig, CoreParams, CoreStats, LocalConfig, PhaseStats,
};
pub use address_map::{AddressMap, Window};
pub use cache::PrivateCache;
pub use coherent::{CachingConfig, CachingRequester, CoherenceStats, Found, Observation, Stall};
pub use params::{CacheParams, CachePolicyChoice, RequesterParams};
pub use requester::{Requester, RequesterConfig};
pub use stats::{HopStats, LOCAL, RequestRow, RequesterStats, STAGE_NAMES, Stages};
