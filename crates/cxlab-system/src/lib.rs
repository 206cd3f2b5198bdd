//! Scenario, plan, system, run and report: the only crate that knows everything.
//!
//! `Scenario -> Plan -> System -> Run -> Report`: each arrow is one function, each noun one type,
//! and nothing flows back.

pub mod analytic;
mod batches;
pub mod bottleneck;
mod chart;
pub mod checkpoint;
pub mod describe;
pub mod enumeration;
mod failures;
pub mod fleet;
pub mod host;
mod intervals;
mod limited;
pub mod output;
pub mod picture;
mod readings;
pub mod report;
pub mod requests;
pub mod run;
mod samples;
pub mod seeds;
mod series;
mod statistics;
pub mod system;
pub mod table;
