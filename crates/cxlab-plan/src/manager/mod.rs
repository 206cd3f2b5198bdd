//! The fabric manager: carries out its commands, one after another, on the memory that each host
//! has at the time. The outcome is known before the run: each device's changes with their times,
//! and the response to each command.
//!
//! A device serves a host's memory of a region while the host has it (by `add` and `release`) and
//! is bound to the device (by `bind` and `unbind`). The policy grants blocks of a pooled region
//! when hosts' demands arrive. Released memory is scrubbed when no host has it any more, and no
//! host gets it before that. Unbinding does not change the memory.

mod account;
mod commands;
mod events;
mod names;
mod pools;
mod ports;
mod response;
mod timelines;

pub(crate) use account::Account;
pub(crate) use events::changes_capacity;
pub use pools::{PlannedPool, Sample};
pub use response::{PlannedCommand, Response};
