//! Tests of the drive: closed forms, data integrity, write amplification, memory, wrong parameters.

#![allow(clippy::unwrap_used)]

mod amplification;
mod behaviour;
mod closed_forms;
#[path = "../common/mod.rs"]
mod common;
mod harness;
mod memory;
mod oracle;
mod parameters;
mod theory;
