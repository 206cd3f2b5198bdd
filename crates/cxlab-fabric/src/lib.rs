//! CXL fabric: topologies, routing, switches, links between them, and how the fabric manager grants
//! memory of a pool.

pub mod bus;
pub mod graph;
pub mod manager;
pub mod routing;
pub mod switch;
pub mod topology;
