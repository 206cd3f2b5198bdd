//! The coherence tables, explored exhaustively.
#![allow(clippy::unwrap_used)]

mod cache;
mod checker;
mod docs;
mod mem;
mod together;
