//! Scenario, plan, system, run and report: the only crate that knows everything.

pub mod diagnostics;
