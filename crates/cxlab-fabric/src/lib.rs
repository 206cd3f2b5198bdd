//! The CXL fabric: topologies, routing, switches and buses, and how the fabric manager grants
//! memory of a pool to hosts.

pub mod bus;
mod error;
pub mod graph;
pub mod manager;
pub mod routing;
pub mod switch;
pub mod topology;

pub use error::{ChannelName, DependencyCycle, FabricError};
