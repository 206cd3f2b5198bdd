//! The analytic form of the fabric model: the same stages, flit packing and limits as the event
//! engine's components, as sums, closed forms and a fixed point. No event is run.
//!
//! A [`Network`] is stations (the wires of links, media), hosts (how much they keep in flight, how
//! fast they issue) and flows: what a host asks of a device, over which stations, and the constant
//! time of all its stages. [`solve`] finds the rate of every host and the wait at every station.
//! `docs/explain/analytic.md` has the formulas, what is left out, and how far the engine is.
//!
//! # Invariants
//! Without load a flow takes the sum of its constant stages, to the picosecond. Waits are never
//! negative, a station is never busier than all the time, and more latency never gives a host a
//! higher rate.

mod class;
mod flow;
mod medium;
mod network;
mod solve;
mod wire;

pub use class::{Classes, ErrorClass, classify};
pub use flow::{Class, Flow, Stages, Visit};
pub use medium::{Access, Filled, Medium, ProbeError, fill, probe};
pub use network::{Host, Network, Station, Turns};
pub use solve::{Solution, StationLoad, solve};
pub use wire::{Wire, WireLoad};
