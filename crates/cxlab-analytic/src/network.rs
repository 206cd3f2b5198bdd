//! The input of the solver: stations, hosts and flows.

use crate::flow::Flow;
use crate::medium::MediumModel;
use crate::wire::Wire;

/// A place where messages queue.
#[derive(Clone, PartialEq, Debug)]
pub enum Station {
    /// One direction of a full-duplex link, or both directions of a half-duplex link.
    Wire(Wire),
    /// The medium of a device.
    Medium(MediumModel),
}

/// How a switch arbitrates between inputs that want the same output wire.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Arbitration {
    /// Round-robin by message among the inputs, separately for each class of messages.
    #[default]
    RoundRobin,
    /// Oldest first, by the time at which the request was issued.
    Age,
}

/// The limits on the requests that a host issues.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostLimits {
    /// The most requests in flight, 1 or more. With dependent operations this is the mean number
    /// in flight that their dependencies allow.
    pub outstanding: f64,
    /// Least mean time between two requests, in picoseconds; 0 for none.
    pub interval_ps: f64,
}

/// The stations, the hosts, and the flows of requests from hosts to devices.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Network {
    /// All places where messages queue; flows refer to them by index.
    pub stations: Vec<Station>,
    /// The arbitration of the switches.
    pub arbitration: Arbitration,
    /// The requesters; flows refer to them by index.
    pub hosts: Vec<HostLimits>,
    /// The requests of the hosts, grouped by host in ascending order.
    pub flows: Vec<Flow>,
}
