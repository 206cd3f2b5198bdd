//! Deterministic discrete-event engine. It knows time and no CXL.
//!
//! A [`Component`] receives events and sends others through ports; [`Simulation`] owns the
//! components and their wiring and runs them, on one thread or several, with bit-identical
//! results.
//!
//! # The order contract
//! A component handles its events in the order of `(time, source component, source's own
//! sequence number)`. Sources count their own sends, so the key does not depend on how the
//! components are divided among threads. Every wire takes at least 1 ps in each direction, so
//! what happens at one instant in one component cannot depend on the same instant in another.

pub mod catalog;
mod component;
mod partition;
mod prefetch;
pub mod probe;
pub mod queue;
pub mod rng;
mod simulation;
pub mod state;
pub mod units;

pub use component::{Component, ComponentId, Ctx, Kept, Payload, Wire};
pub use partition::{Partition, partition};
pub use prefetch::{CACHE_LINE, prefetch, prefetch_first};
pub use simulation::{
    GatherError, LocalRank, Monitor, Outcome, Ranks, Simulation, Stop, Threads, Windows,
    processors, share,
};
