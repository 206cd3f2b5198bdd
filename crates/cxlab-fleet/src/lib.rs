//! Fleet planning: how much DRAM thousands of hosts need for days of demand for virtual machines
//! (VMs), with and without memory pools, and how much the pools slow VMs down.
//!
//! A *pod* is one CXL system: hosts, and the Type 3 devices that they reach. A *cluster* is a set of pods on whose
//! hosts one scheduler places VMs. A *fleet* is a set of clusters. Each cluster is simulated alone, with its own random
//! stream, VM by VM: arrival, placement by cores and memory, split between local and pool memory, departure. No memory
//! access is simulated: latency by load comes from a [`PoolFabric`]. `docs/explain/fleet.md` describes the model, its
//! sources, its limits, and the comparison with published results.
//!
//! # Invariants
//! * Memory is conserved: at every moment, a host and its pool have
//!   granted exactly what its VMs have.
//! * No VM is lost: arrived = running + departed + rejected.
//! * Results do not depend on the number of threads.

pub mod cluster;
pub mod demand;
pub mod fabric;
pub mod params;
pub mod placement;
pub mod policy;
pub mod pool;
pub mod search;
pub mod sensitivity;
pub mod stats;
pub mod study;

pub use demand::{Demand, DemandChoice, DemandError, VmRequest};
pub use fabric::{LoadCurve, LoadedFabric, PodFabric, PoolFabric};
pub use params::{
    Exposure, FleetParams, HostParams, Monitor, Packs, SizedFor, Sizing, Slow, Spread,
};
pub use placement::{Order, Placement, PlacementChoice};
pub use policy::{PoolPolicy, PoolPolicyChoice};
pub use stats::Outcome;
pub use study::{Study, StudyResult, Watch};
