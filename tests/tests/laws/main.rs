//! Laws: exact times, closed formulas and conservation, of systems that are small enough to know them.

mod adaptive;
mod analytic;
mod bias;
mod coherence;
mod cohet;
mod credits;
mod curves;
#[path = "../../shared/documents.rs"]
#[allow(clippy::unwrap_used)]
mod documents;
mod duplex;
mod enumeration;
mod flit;
mod invariants;
mod keys;
mod latency;
mod links;
mod liveness;
mod llc;
mod notes_copies;
mod os;
mod pcie;
mod programs;
mod qos;
mod requests;
mod scenarios;
mod speculation;
mod topology;
mod vm_memory;
mod waits;
mod window_edges;
