//! Tests of the DRAM medium.
#![allow(clippy::unwrap_used)]

mod checker;
mod closed_forms;
mod legality;
mod owner;
mod parameters;
mod queues;
