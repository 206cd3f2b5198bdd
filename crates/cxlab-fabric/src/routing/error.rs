//! What can be wrong with a fabric. Each is the user's mistake, so each is a value and names what
//! it is about.

use std::fmt;

use cxlab_protocol::PortId;

use super::deadlock::Cycle;

/// A fabric that cannot be built as described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricError {
    /// More endpoints than a PBR fabric has PIDs.
    TooManyEdgePorts {
        /// How many there are.
        found: usize,
    },
    /// Two parts of the fabric with one name.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A link from a switch to itself.
    SelfLink {
        /// The switch.
        switch: String,
    },
    /// An endpoint without a link.
    NeverAttached {
        /// The endpoint.
        endpoint: String,
    },
    /// An endpoint with more links than one.
    AttachedTwice {
        /// The endpoint.
        endpoint: String,
    },
    /// A switch with more ports than it may have.
    TooManyPorts {
        /// The switch.
        switch: String,
        /// How many it has.
        found: usize,
        /// How many it may have.
        allowed: usize,
    },
    /// No path leads from a requester to a device that it addresses.
    UnreachableDevice {
        /// The requester.
        requester: String,
        /// The device.
        device: String,
    },
    /// A requester from which no path leads to any device, or the reverse.
    Isolated {
        /// The endpoint.
        endpoint: String,
        /// What it cannot reach: `device` or `requester`.
        peer: &'static str,
    },
    /// The routing can deadlock, or sends messages round in a loop.
    DependencyCycle(Cycle),
    /// Two ways from one host to a switch of a hierarchy (VCS).
    HierarchyLoop {
        /// The host.
        requester: String,
        /// The switch.
        switch: String,
    },
    /// Two hosts above one switch of a single VCS.
    TwoUpstreamPorts {
        /// The switch.
        switch: String,
        /// One host.
        first: String,
        /// The other.
        second: String,
    },
    /// Two hosts' hierarchies on one link between switches.
    SharedHierarchyLink {
        /// One end of the link.
        a: String,
        /// The other end.
        b: String,
        /// One host.
        first: String,
        /// The other.
        second: String,
    },
    /// A device bound to two hosts at once.
    BoundTwice {
        /// The device.
        device: String,
    },
    /// A binding that is not of a device to a requester, by endpoint numbers.
    NoSuchBinding {
        /// The number given for the device.
        device: usize,
        /// The number given for the requester.
        requester: usize,
    },
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricError::TooManyEdgePorts { found } => write!(
                f,
                "the fabric has {found} edge ports, but at most {} (CXL 3.x PBR identifies an \
                 edge port by a 12-bit PID)",
                PortId::MAX_COUNT
            ),
            FabricError::DuplicateName { name } => {
                write!(f, "`{name}` names two parts of the fabric")
            }
            FabricError::SelfLink { switch } => write!(f, "switch `{switch}` is linked to itself"),
            FabricError::NeverAttached { endpoint } => {
                write!(f, "endpoint `{endpoint}` is attached to nothing")
            }
            FabricError::AttachedTwice { endpoint } => {
                write!(f, "endpoint `{endpoint}` is attached twice")
            }
            FabricError::TooManyPorts {
                switch,
                found,
                allowed,
            } => write!(
                f,
                "switch `{switch}` has {found} ports, but at most {allowed} are allowed"
            ),
            FabricError::UnreachableDevice { requester, device } => {
                write!(
                    f,
                    "no path leads from requester `{requester}` to device `{device}`"
                )
            }
            FabricError::Isolated { endpoint, peer } => {
                write!(f, "no path leads from `{endpoint}` to any {peer}")
            }
            FabricError::DependencyCycle(cycle) => write!(f, "the routing can deadlock: {cycle}"),
            FabricError::HierarchyLoop { requester, switch } => write!(
                f,
                "two ways lead from requester `{requester}` to switch `{switch}`, but a VCS \
                 hierarchy is a tree (use a PBR fabric)"
            ),
            FabricError::TwoUpstreamPorts {
                switch,
                first,
                second,
            } => write!(
                f,
                "switch `{switch}` is below both `{first}` and `{second}`, but a single VCS has \
                 one upstream port (use several VCSs or a PBR fabric)"
            ),
            FabricError::SharedHierarchyLink {
                a,
                b,
                first,
                second,
            } => write!(
                f,
                "the link `{a}`-`{b}` would carry the hierarchies of both `{first}` and \
                 `{second}`, but a port belongs to one VCS (use a PBR fabric)"
            ),
            FabricError::BoundTwice { device } => {
                write!(f, "device `{device}` is bound to more than one requester")
            }
            FabricError::NoSuchBinding { device, requester } => write!(
                f,
                "endpoints {device} and {requester} are not a device and a requester to bind it to"
            ),
        }
    }
}

impl std::error::Error for FabricError {}
