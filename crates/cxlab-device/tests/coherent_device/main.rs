//! The coherent device against scripted peers, and against caches that follow the table.
#![allow(clippy::unwrap_used)]

mod blocks;
mod cache;
mod harness;
mod random;
mod scripted;
