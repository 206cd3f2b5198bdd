//! Events while the workloads run: commands of the fabric manager, hosts that come and go, and
//! components that fail.

use cxlab_engine::units::{Bytes, Picos};
use cxlab_fabric::manager::GrantPolicyChoice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fabric::Binding;

/// An event at a time after the workloads begin: at most 1 hour, and not before the event above it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EventParams {
    /// The devices of a region begin to serve it to a host (Initiate Dynamic Capacity Add, CXL 3.1
    /// section 7.6.7.6.5, which the host accepts at once).
    Add {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The region, by name.
        region: String,
        /// The host, by name.
        host: String,
    },
    /// The devices of a region stop serving it to a host (Initiate Dynamic Capacity Release, section 7.6.7.6.6).
    Release {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The region, by name.
        region: String,
        /// The host, by name.
        host: String,
        /// Removes the memory without asking the host (Forced Removal). Otherwise the host has `fabric_manager.host_time` to give
        /// the memory up, and requests issued before that are served. Default true.
        #[serde(
            default = "crate::defaults::yes",
            skip_serializing_if = "crate::defaults::is_yes"
        )]
        forced: bool,
    },
    /// A host is bound to a device, or to its logical device of a multi-logical device (Bind vPPB,
    /// section 7.6.7.2.2): the device begins to serve the host's memory on it.
    Bind {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The host, by name.
        host: String,
        /// The device, by name.
        device: String,
    },
    /// A host is unbound from a device (Unbind vPPB, section 7.6.7.2.3): the device denies all requests of the host
    /// until the host is bound again. The host's memory on the device stays assigned to it and keeps its data.
    Unbind {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The host, by name.
        host: String,
        /// The device, by name.
        device: String,
        /// Treatment of requests in flight. Default `managed-hot-remove`.
        #[serde(default, skip_serializing_if = "UnbindOption::is_managed")]
        option: UnbindOption,
    },
    /// Sets the capacity of a pooled region that a logical device of a multi-logical device has on this device (Set
    /// LD Allocations, section 7.6.7.4.3). To grow, the logical device takes free blocks; without enough of them the
    /// command is refused. To shrink, it gives blocks back at once, the last granted first.
    SetLdAllocations {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The device, by name.
        device: String,
        /// The host that the logical device is bound to, by name.
        host: String,
        /// The region, by name.
        region: String,
        /// Capacity of the region on this device: a multiple of 256 MiB.
        capacity: Bytes,
    },
    /// The fabric manager resets the component behind a port of a switch, or ends the reset
    /// (Physical Port Control, section 7.6.7.1.4). The port's link is down during the reset.
    PortControl {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The port, by the ends of its link: the switch with the port, and the component behind it.
        link: [String; 2],
        /// Which one of several links between them, from 0 on. Default 0.
        #[serde(default, skip_serializing_if = "crate::defaults::is_zero")]
        number: u32,
        /// The action on the port.
        action: PortAction,
    },
    /// A host's share of a device with `qos` changes (Set QoS Allocated BW and Set QoS BW Limit,
    /// sections 7.6.7.4.8 and 7.6.7.4.10).
    SetQos {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The device, by name.
        device: String,
        /// The host, by name.
        host: String,
        /// QoS Allocated BW Fraction, in 256ths: 0 to 256, in all hosts together at most 256. Default:
        /// as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 256))]
        allocated: Option<u16>,
        /// QoS BW Limit Fraction, in 256ths: 1 to 256. Default: as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 256))]
        limit: Option<u16>,
    },
    /// Sets the total capacity that a host needs of a pooled region. The fabric manager grants missing blocks by its
    /// policy, or refuses; it takes surplus blocks back as by a `release` that is not forced.
    Demand {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The host, by name.
        host: String,
        /// The region, by name.
        region: String,
        /// Total capacity that the host needs: a multiple of 256 MiB.
        capacity: Bytes,
    },
    /// A host begins its workload. Hosts without this event begin at once.
    HostJoins {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The host, by name.
        host: String,
    },
    /// A host issues no more requests. The fabric manager releases all its memory of regions, as by
    /// a `release` that is not forced.
    HostLeaves {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The host, by name.
        host: String,
    },
    /// A link fails: messages in flight on it are lost.
    LinkDown {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The ends of the link: names of switches, hosts or devices, in any order.
        link: [String; 2],
        /// Which one of several links between them, from 0 on. Default 0.
        #[serde(default, skip_serializing_if = "crate::defaults::is_zero")]
        number: u32,
    },
    /// A link that has failed is trained again.
    LinkUp {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The ends of the link, by name.
        link: [String; 2],
        /// Which one of several links between them, from 0 on. Default 0.
        #[serde(default, skip_serializing_if = "crate::defaults::is_zero")]
        number: u32,
    },
    /// A switch fails with all its links; messages in the switch are lost.
    SwitchDown {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The switch, by name.
        switch: String,
    },
    /// A failed switch is repaired: its buffers are empty, and its working links are trained again.
    SwitchUp {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The switch, by name.
        switch: String,
    },
    /// A device is taken out without warning (surprise hot removal), with its links and its content.
    DeviceRemoved {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The device, by name.
        device: String,
    },
    /// A host or a device detects an uncorrected fatal error and goes into viral. Its viral indication puts the hosts
    /// of a device, and all devices of a host, into viral too (CXL 3.1 section 12.4).
    Viral {
        /// Time of the event, from when the workloads begin.
        at: Picos,
        /// The host or the device, by name.
        component: String,
    },
}

/// Action on a port (Port Opcode of Physical Port Control).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum PortAction {
    /// Holds the component behind the port in reset: the port's link goes down.
    AssertPerst,
    /// Releases the component behind the port from reset: the link is trained again.
    DeassertPerst,
    /// Holds the component in reset, then releases it: the link is down for `fabric_manager.reset_time`.
    ResetPpb,
}

impl PortAction {
    fn name(self) -> &'static str {
        match self {
            PortAction::AssertPerst => "assert PERST",
            PortAction::DeassertPerst => "deassert PERST",
            PortAction::ResetPpb => "reset PPB",
        }
    }
}

/// When a host is unbound, and what becomes of its requests in flight (Unbind Option of Unbind vPPB).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum UnbindOption {
    /// The host has `fabric_manager.host_time` to prepare: requests issued before that are served.
    #[default]
    ManagedHotRemove,
    /// Requests in flight are denied, except those that the medium has accepted.
    SurpriseHotRemove,
    /// The command waits until the device's link is down; requests in flight are lost with the link.
    WaitForLinkDown,
}

impl UnbindOption {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_managed(&self) -> bool {
        *self == UnbindOption::ManagedHotRemove
    }
}

/// Change of a host's memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacityKind {
    /// The devices begin to serve the region's memory to the host.
    Add,
    /// The devices stop serving the region's memory to the host.
    Release,
}

impl EventParams {
    /// Time of the event, from when the workloads begin.
    pub fn at(&self) -> Picos {
        match self {
            EventParams::Add { at, .. }
            | EventParams::Release { at, .. }
            | EventParams::Bind { at, .. }
            | EventParams::Unbind { at, .. }
            | EventParams::SetLdAllocations { at, .. }
            | EventParams::PortControl { at, .. }
            | EventParams::SetQos { at, .. }
            | EventParams::Demand { at, .. }
            | EventParams::HostJoins { at, .. }
            | EventParams::HostLeaves { at, .. }
            | EventParams::LinkDown { at, .. }
            | EventParams::LinkUp { at, .. }
            | EventParams::SwitchDown { at, .. }
            | EventParams::SwitchUp { at, .. }
            | EventParams::DeviceRemoved { at, .. }
            | EventParams::Viral { at, .. } => *at,
        }
    }

    /// The change of capacity with its region and host; `None` for other events.
    pub fn capacity(&self) -> Option<(CapacityKind, &str, &str)> {
        match self {
            EventParams::Add { region, host, .. } => Some((CapacityKind::Add, region, host)),
            EventParams::Release { region, host, .. } => {
                Some((CapacityKind::Release, region, host))
            }
            _ => None,
        }
    }

    /// The host that is bound, unbound, joins or leaves; `None` for other events.
    pub fn whole_host(&self) -> Option<&str> {
        match self {
            EventParams::Bind { host, .. }
            | EventParams::Unbind { host, .. }
            | EventParams::HostJoins { host, .. }
            | EventParams::HostLeaves { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Whether something fails or is taken down, or comes back.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            EventParams::PortControl { .. }
                | EventParams::LinkDown { .. }
                | EventParams::LinkUp { .. }
                | EventParams::SwitchDown { .. }
                | EventParams::SwitchUp { .. }
                | EventParams::DeviceRemoved { .. }
        )
    }

    /// The host or device that goes into viral.
    pub fn viral(&self) -> Option<&str> {
        match self {
            EventParams::Viral { component, .. } => Some(component),
            _ => None,
        }
    }

    /// The event in words, for reports.
    pub fn describe(&self) -> String {
        let joined = |link: &[String; 2], number: u32| match number {
            0 => format!("{}--{}", link[0], link[1]),
            number => format!("{}--{} ({number})", link[0], link[1]),
        };
        match self {
            EventParams::Add { region, host, .. } => format!("add {region}, {host}"),
            EventParams::Release {
                region,
                host,
                forced,
                ..
            } => match forced {
                true => format!("release {region}, {host}"),
                false => format!("release {region}, {host}, when it has given it up"),
            },
            EventParams::Bind { host, device, .. } => format!("bind {host}, {device}"),
            EventParams::Unbind {
                host,
                device,
                option,
                ..
            } => match option {
                UnbindOption::ManagedHotRemove => format!("unbind {host}, {device}"),
                UnbindOption::SurpriseHotRemove => format!("unbind {host}, {device}, by surprise"),
                UnbindOption::WaitForLinkDown => {
                    format!("unbind {host}, {device}, when its link is down")
                }
            },
            EventParams::SetLdAllocations {
                device,
                host,
                region,
                capacity,
                ..
            } => format!("{host} has {capacity} of {region} on {device}"),
            EventParams::PortControl {
                link,
                number,
                action,
                ..
            } => format!("{} {}", action.name(), joined(link, *number)),
            EventParams::SetQos {
                device,
                host,
                allocated,
                limit,
                ..
            } => {
                let part = |name: &str, part: &Option<u16>| match part {
                    Some(part) => format!(", {name} {part}/256"),
                    None => String::new(),
                };
                let (allocated, limit) = (part("allocated", allocated), part("limit", limit));
                format!("set QoS of {device}, {host}{allocated}{limit}")
            }
            EventParams::Demand {
                host,
                region,
                capacity,
                ..
            } => format!("{host} needs {capacity} of {region}"),
            EventParams::HostJoins { host, .. } => format!("{host} joins"),
            EventParams::HostLeaves { host, .. } => format!("{host} leaves"),
            EventParams::LinkDown { link, number, .. } => {
                format!("link down {}", joined(link, *number))
            }
            EventParams::LinkUp { link, number, .. } => {
                format!("link up {}", joined(link, *number))
            }
            EventParams::SwitchDown { switch, .. } => format!("switch down {switch}"),
            EventParams::SwitchUp { switch, .. } => format!("switch up {switch}"),
            EventParams::DeviceRemoved { device, .. } => format!("device removed {device}"),
            EventParams::Viral { component, .. } => format!("viral of {component}"),
        }
    }
}

/// The fabric manager, whose commands are [`EventParams`].
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct FabricManagerParams {
    /// From a command's time in `events` until it is in force. 0 to 1 hour. Default 10 us (*assumed*).
    pub command_time: Picos,
    /// Time in which a host gives up memory or a device after the fabric manager's request. 0 to 1 hour. Default
    /// 20 us (*assumed*, and short so that runs may be; Pond has 10 to 100 ms for 1 GiB).
    pub host_time: Picos,
    /// Time from the release of capacity by its last host until the capacity is scrubbed and can be
    /// granted again. 0 to 1 hour. Default 0 (*assumed*: its key is thrown away).
    pub scrub_time: Picos,
    /// How long a link is down when its port is reset. 1 ps to 1 hour. Default 20 us (*assumed*, and short so
    /// that runs may be: PCIe has a hot reset of 2 ms and training behind it).
    #[serde(skip_serializing_if = "is_default_reset")]
    pub reset_time: Picos,
    /// How blocks of pooled regions are granted. Default `{ kind = "on-demand" }`.
    #[serde(skip_serializing_if = "is_default_policy")]
    pub policy: GrantPolicyChoice,
    /// Hosts that are not bound to a device from the beginning. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unbound: Vec<Binding>,
}

impl Default for FabricManagerParams {
    fn default() -> Self {
        FabricManagerParams {
            command_time: Picos::from_nanos(10_000),
            host_time: Picos::from_nanos(20_000),
            scrub_time: Picos::ZERO,
            reset_time: RESET_TIME,
            policy: GrantPolicyChoice::default(),
            unbound: Vec::new(),
        }
    }
}

/// The default of `reset_time`.
const RESET_TIME: Picos = Picos::from_nanos(20_000);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_default_reset(time: &Picos) -> bool {
    *time == RESET_TIME
}

fn is_default_policy(policy: &GrantPolicyChoice) -> bool {
    *policy == GrantPolicyChoice::default()
}

/// How hosts and the fabric deal with failures.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct FailureParams {
    /// Time from a request's issue until its host ends it without a response: the CXL.mem transaction timeout
    /// (CXL 3.1, section 12.3; its register has the ranges of the PCIe completion timeout, 50 us to 64 s, *recollection*).
    /// 1 us to 64 s. Default 50 us, the shortest of those.
    pub completion_timeout: Picos,
    /// Time from a failure, or the return of a link, until all switches have new routing tables and
    /// hosts know which devices they cannot reach. 1 ns to 1 s. Default 20 us (*assumed*).
    pub reconfiguration_time: Picos,
    /// Time in which a root port responds to a request for a device that the host cannot reach,
    /// after `process_time`. 1 ns to 1 ms. Default 20 ns (*assumed*).
    pub isolation_time: Picos,
    /// Time from the replacement of routing tables until their virtual channels may be given to other tables. Switches then
    /// discard messages that still wait on these channels (the packet lifetime of a switch in InfiniBand). 1 us to 64 s. Default:
    /// `completion_timeout`, by which hosts have ended all requests of such messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_time: Option<Picos>,
    /// Links and switches that fail at random and are repaired. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomFailures>,
}

impl FailureParams {
    /// `drain_time`, or its default.
    pub fn drain_time(&self) -> Picos {
        self.drain_time.unwrap_or(self.completion_timeout)
    }
}

/// Failures at random: each component of a class fails and is repaired by itself, at times that are drawn before the
/// run from the seed and the component's name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct RandomFailures {
    /// Latest time of a failure after the workloads begin; components that fail before are repaired, also later. At most 1 hour.
    pub until: Picos,
    /// Seed of the times. Default: the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Links between switches. Default: none fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<FailureRates>,
    /// Links of hosts and devices. Default: none fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_links: Option<FailureRates>,
    /// Switches. Default: none fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<FailureRates>,
}

impl RandomFailures {
    /// The classes of components by key, as far as they fail.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &FailureRates)> {
        let all = [
            ("links", &self.links),
            ("edge_links", &self.edge_links),
            ("switches", &self.switches),
        ];
        all.into_iter()
            .filter_map(|(key, rates)| Some((key, rates.as_ref()?)))
    }
}

/// How often a component fails and how long it takes to repair it. Both times are exponentially distributed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct FailureRates {
    /// Mean time that a component works until it fails. 1 us to 1 hour.
    pub mtbf: Picos,
    /// Mean time until a failed component is repaired. 1 us to 1 hour.
    pub mttr: Picos,
}

impl Default for FailureParams {
    fn default() -> Self {
        FailureParams {
            completion_timeout: Picos::from_nanos(50_000),
            reconfiguration_time: Picos::from_nanos(20_000),
            isolation_time: Picos::from_nanos(20),
            drain_time: None,
            random: None,
        }
    }
}
