//! A network to solve: stations, hosts, flows.

use crate::flow::Flow;
use crate::medium::Medium;
use crate::wire::Wire;

/// Where requests may have to wait.
#[derive(Clone, PartialEq, Debug)]
pub enum Station {
    /// A direction of a link, or both of a half-duplex one.
    Wire(Wire),
    /// A device's medium.
    Medium(Medium),
}

/// How a switch chooses where messages from several inputs want one wire.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Turns {
    /// The inputs, each class of messages for itself, take turns by message.
    #[default]
    RoundRobin,
    /// The message that was issued first.
    Age,
}

/// How a host issues.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Host {
    /// Requests in flight at most, 1 or more. With dependent operations, the mean that they
    /// allow.
    pub outstanding: f64,
    /// Least mean time between two requests, in picoseconds; 0 for none.
    pub interval_ps: f64,
}

/// Stations, hosts, and what hosts ask of devices.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Network {
    /// Where requests may have to wait.
    pub stations: Vec<Station>,
    /// How switches choose among the inputs of an output.
    pub turns: Turns,
    /// Who issues.
    pub hosts: Vec<Host>,
    /// What they ask for, host by host in order.
    pub flows: Vec<Flow>,
}
