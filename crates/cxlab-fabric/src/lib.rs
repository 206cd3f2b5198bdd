//! CXL fabric: topologies, routing, switches, links between them.

pub mod graph;
pub mod routing;
pub mod topology;
