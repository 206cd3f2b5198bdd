//! What several crates do together: equal reports on any threads and ranks, checkpoints, intervals, shared memory.

mod checkpoints;
mod determinism;
mod dynamic_capacity;
mod error_bars;
mod fabric_manager;
mod fleet;
mod peer_to_peer;
mod pooling;
mod processes;
mod ranks;
mod sampling;
mod shared_regions;
