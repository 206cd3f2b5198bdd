//! Failures and errors: what is lost, who hears of it, and that nothing else is.

mod components;
mod media;
mod processors;
mod storms;
mod stray;
mod viral;
