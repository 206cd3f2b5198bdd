//! CXL fabric: topologies, routing, switches, links between them.

pub mod bus;
pub mod graph;
pub mod routing;
pub mod switch;
pub mod topology;
