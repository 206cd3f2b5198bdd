//! The drive: closed forms, data honesty, write amplification, memory, wrong parameters.

#![allow(clippy::unwrap_used)]

mod amplification;
mod behaviour;
mod closed_forms;
mod harness;
mod memory;
mod oracle;
mod parameters;
mod theory;
