//! What issues: requesters (hosts and accelerators) with their private state.

mod cache;
mod coherent;
mod core;
mod issuer;
mod params;
mod requester;

pub use self::core::{
    CacheLevel, Core, CoreConfig, CoreParams, CoreStats, LocalConfig, PhaseStats,
};
pub use cache::PrivateCache;
pub use coherent::{CachingConfig, CachingRequester, CoherenceStats, Found, Observation, Stall};
pub use cxlab_agent::{
    AddressMap, HopStats, LOCAL, RequestRow, RequesterStats, STAGE_NAMES, Stages, Window,
};
pub use params::{CacheParams, CachePolicyChoice, RequesterParams};
pub use requester::{Requester, RequesterConfig};
