//! The drive: closed forms, data honesty, write amplification, memory, wrong parameters.

#![allow(clippy::unwrap_used)]

mod closed_forms;
mod harness;
mod oracle;
mod parameters;
