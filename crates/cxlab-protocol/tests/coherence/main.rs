//! The coherence tables, explored exhaustively.
#![allow(clippy::unwrap_used)]

mod cache;
mod docs;
mod exploration;
mod flows;
mod model;
mod mutation;
mod search;
mod together;
