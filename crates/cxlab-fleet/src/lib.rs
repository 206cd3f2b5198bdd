//! Fleet planning: how much DRAM thousands of hosts need for days of demand for virtual machines
//! (VMs), with and without memory pools, and what the pools cost in speed.
//!
//! A *pod* is one CXL system: hosts, and the Type 3 devices that they reach. A *cluster* is some
//! pods whose hosts one scheduler places VMs on. A *fleet* is some clusters. Each cluster is
//! simulated alone, with a random stream of its own, VM by VM: arrival, placement by cores and
//! memory, split between local and pool memory, departure. No memory access is simulated: what an
//! access costs comes from a [`PoolFabric`], by load. `docs/guide/fleet.md` has the model, its sources,
//! its limits, and the comparison with what was published.
//!
//! # Invariants
//! Memory is conserved: at every moment, what a host and its pool gave is what its VMs have. No VM
//! is lost: arrived = running + departed + rejected. Results do not depend on threads.

pub mod cluster;
pub mod demand;
pub mod fabric;
pub mod hosts;
pub mod params;
pub mod placement;
pub mod policy;
pub mod pool;
pub mod search;
pub mod sensitivity;
pub mod stats;
pub mod study;

pub use demand::{Ask, Demand, DemandChoice, DemandError};
pub use fabric::{LoadCurve, Loaded, PodFabric, PoolFabric};
pub use params::{
    Exposure, FleetParams, HostParams, Monitor, Packs, SizedFor, Sizing, Slow, Spread,
};
pub use placement::{Order, Placement, PlacementChoice};
pub use policy::{PoolPolicy, PoolPolicyChoice};
pub use stats::Outcome;
pub use study::{Study, StudyResult, Watch};
