//! The caching requester against devices with a script, and against a home that follows
//! the table of the DCOH.
#![allow(clippy::unwrap_used)]

mod above;
mod harness;
mod home;
mod random;
mod scripted;
mod snoops;
