//! The analytic form of the fabric model: the same stages, flit packing and limits as the event
//! engine's components, as sums, closed forms and a fixed point. No event is run.
//!
//! A [`Network`] consists of stations (wires of links, and media), hosts (requests in flight, issue
//! rate) and flows. A flow is what a host requests of a device: the stations on its route, and the
//! constant time of all its stages. [`solve`] finds the rate of every host and the wait at every
//! station. `docs/explain/analytic.md` has the formulas, the limits of the model, and its errors
//! against the event engine.
//!
//! # Invariants
//! Without load a flow takes the sum of its constant stages, to the picosecond. Waits are never
//! negative, and a station is never busy for more than all of the time. A longer latency never
//! gives a host a higher rate.

mod class;
mod flow;
mod medium;
mod network;
mod solve;
mod wire;

pub use class::{ErrorClass, ErrorClasses, classify};
pub use flow::{ConstantStages, Flow, MessageClass, Visit};
pub use medium::{MediumModel, ProbeAccess, ProbeError, Saturation, fill, probe};
pub use network::{Arbitration, HostLimits, Network, Station};
pub use solve::{Solution, StationLoad, solve};
pub use wire::{Wire, WireLoad};
