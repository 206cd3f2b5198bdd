//! The simulator as WebAssembly: what the lab's worker calls.
//!
//! [`lab`] has the functions, as ordinary Rust that takes and returns text. `bindings` exports them
//! to JavaScript where this crate is compiled for a browser.

#[cfg(target_family = "wasm")]
mod bindings;
pub mod lab;
mod slowest;
