//! The documents agree with the command and with the crates.

mod catalogs;
mod commands;
mod imports;
mod sizes;
