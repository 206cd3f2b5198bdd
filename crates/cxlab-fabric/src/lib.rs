//! CXL fabric: topologies, routing, switches, links between them.
