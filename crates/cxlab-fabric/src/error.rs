//! Errors in the description of a fabric. Each is a mistake in the scenario, so each is a value that
//! names the parts concerned.

use std::fmt;

use cxlab_protocol::PortId;

/// A fabric that cannot be built as described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricError {
    /// More endpoints than a PBR fabric has PIDs.
    TooManyEdgePorts {
        /// Number of endpoints.
        found: usize,
    },
    /// Two parts of the fabric with the same name.
    DuplicateName {
        /// The name that occurs twice.
        name: String,
    },
    /// A link from a switch to itself.
    SelfLink {
        /// Name of the switch.
        switch: String,
    },
    /// An endpoint without any link.
    NeverAttached {
        /// Name of the endpoint.
        endpoint: String,
    },
    /// An endpoint with more than one link.
    AttachedTwice {
        /// Name of the endpoint.
        endpoint: String,
    },
    /// A switch with more ports than allowed.
    TooManyPorts {
        /// Name of the switch.
        switch: String,
        /// Number of ports that the switch has.
        found: usize,
        /// Largest number of ports allowed.
        allowed: usize,
    },
    /// No path leads from a requester to a device that it addresses.
    UnreachableDevice {
        /// Name of the requester.
        requester: String,
        /// Name of the device.
        device: String,
    },
    /// A requester without a path to any device, or a device without a path to any requester.
    Isolated {
        /// Name of the endpoint.
        endpoint: String,
        /// Kind of endpoint that cannot be reached: `device` or `requester`.
        peer: &'static str,
    },
    /// The routing can deadlock, or sends messages in a loop.
    DependencyCycle(DependencyCycle),
    /// Two paths from one host to a switch of a hierarchy (VCS).
    HierarchyLoop {
        /// Name of the host.
        requester: String,
        /// Name of the switch.
        switch: String,
    },
    /// Two hosts above one switch of a single VCS.
    TwoUpstreamPorts {
        /// Name of the switch.
        switch: String,
        /// Name of the first host.
        first: String,
        /// Name of the second host.
        second: String,
    },
    /// A link between switches that would carry the hierarchies of two hosts.
    SharedHierarchyLink {
        /// Name of the upper switch.
        a: String,
        /// Name of the lower switch.
        b: String,
        /// Name of the first host.
        first: String,
        /// Name of the second host.
        second: String,
    },
    /// A device bound to two hosts at once.
    BoundTwice {
        /// Name of the device.
        device: String,
    },
    /// A binding whose endpoint numbers are not a device and a requester.
    NoSuchBinding {
        /// Number given for the device.
        device: usize,
        /// Number given for the requester.
        requester: usize,
    },
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FabricError::*;
        match self {
            TooManyEdgePorts { found } => write!(
                f,
                "the fabric has {found} edge ports, but at most {} (CXL 3.x PBR identifies an \
                 edge port by a 12-bit PID)",
                PortId::MAX_COUNT
            ),
            DuplicateName { name } => write!(f, "`{name}` names two parts of the fabric"),
            SelfLink { switch } => write!(f, "switch `{switch}` is linked to itself"),
            NeverAttached { endpoint } => write!(f, "endpoint `{endpoint}` is attached to nothing"),
            AttachedTwice { endpoint } => write!(f, "endpoint `{endpoint}` is attached twice"),
            TooManyPorts {
                switch,
                found,
                allowed,
            } => write!(
                f,
                "switch `{switch}` has {found} ports, but at most {allowed} are allowed"
            ),
            UnreachableDevice { requester, device } => {
                write!(
                    f,
                    "no path leads from requester `{requester}` to device `{device}`"
                )
            }
            Isolated { endpoint, peer } => {
                write!(f, "no path leads from `{endpoint}` to any {peer}")
            }
            DependencyCycle(cycle) => write!(f, "the routing can deadlock: {cycle}"),
            HierarchyLoop { requester, switch } => write!(
                f,
                "two ways lead from requester `{requester}` to switch `{switch}`, but a VCS \
                 hierarchy is a tree (use a PBR fabric)"
            ),
            TwoUpstreamPorts {
                switch,
                first,
                second,
            } => write!(
                f,
                "switch `{switch}` is below both `{first}` and `{second}`, but a single VCS has \
                 one upstream port (use several VCSs or a PBR fabric)"
            ),
            SharedHierarchyLink {
                a,
                b,
                first,
                second,
            } => write!(
                f,
                "the link `{a}`-`{b}` would carry the hierarchies of both `{first}` and \
                 `{second}`, but a port belongs to one VCS (use a PBR fabric)"
            ),
            BoundTwice { device } => {
                write!(f, "device `{device}` is bound to more than one requester")
            }
            NoSuchBinding { device, requester } => write!(
                f,
                "endpoints {device} and {requester} are not a device and a requester to bind it to"
            ),
        }
    }
}

impl std::error::Error for FabricError {}

/// One channel of a dependency cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelName {
    /// Name of the switch from which the link leads.
    pub from: String,
    /// Name of the switch to which the link leads.
    pub to: String,
    /// Number of the virtual channel.
    pub virtual_channel: u8,
}

/// A cycle of dependencies: each channel waits for the next, and the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DependencyCycle {
    /// The channels of the cycle, in order.
    pub channels: Vec<ChannelName>,
}

impl fmt::Display for DependencyCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("each of these waits for the next, and the last for the first: ")?;
        for (i, channel) in self.channels.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            let (from, to, vc) = (&channel.from, &channel.to, channel.virtual_channel);
            write!(f, "{separator}`{from}`->`{to}` vc {vc}")?;
        }
        Ok(())
    }
}
