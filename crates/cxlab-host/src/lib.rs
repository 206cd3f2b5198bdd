//! Components that issue requests: requesters (hosts and accelerators), cores and processors,
//! with their private state.

mod cache;
mod coherent;
mod core;
mod issuer;
mod local;
mod params;
mod parts;
mod processor;
mod requester;
mod throttle;

pub use self::core::{
    CacheLevel, Core, CoreConfig, CoreParams, CoreStats, PhaseStats, ThreadTimes,
};
pub use cache::PrivateCache;
pub use coherent::{
    CacheSnoop, CachingConfig, CachingRequester, CoherenceStats, Observation, SnoopedState,
    StallReason,
};
pub use cxlab_agent::{
    AddressMap, AddressWindow, Failure, FailureHandling, HopStats, LOCAL, QUEUES, RequestAgent,
    RequestRow, RequesterStats, STAGE_NAMES, StageTimes, UnservedRequests,
};
pub use issuer::DueWake;
pub use local::LocalConfig;
pub use params::{
    CacheParams, CachePolicyChoice, LoadMiss, PartialWrite, RequesterParams, RequesterPreset,
};
pub use processor::{
    Cluster, DeviceEvictions, DirectoryParams, Inclusion, LlcParams, MOST_FAULTS, MOST_PROMISED,
    OsConfig, OsParams, PageChoice, PreparedMemory, ProcessParams, Processor, ProcessorConfig,
    ProcessorError, ProcessorParams, ProcessorPreset, ProcessorStats, VIRTUAL,
};
pub use requester::{Requester, RequesterConfig, WarmAccess, WarmBuffer};
pub use throttle::{ThrottleParams, ThrottleStats};
