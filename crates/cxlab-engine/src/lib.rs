//! Deterministic discrete-event engine. Knows time and no CXL.

pub mod catalog;
pub mod units;
