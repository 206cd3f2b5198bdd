//! The documents agree with the command and with the crates.

mod commands;
mod imports;
mod sizes;
