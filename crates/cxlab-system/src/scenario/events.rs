//! What happens while the workloads run: capacity that comes and goes, and components that fail.

use cxlab_engine::units::Picos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that happens at a time after the workloads begin: at most 1 hour, and not before the
/// event that is written before it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EventParams {
    /// The devices of a region begin to serve it to a host (Add Capacity, CXL 3.1 section 9.13.3).
    Add {
        /// When.
        at: Picos,
        /// The region, by name.
        region: String,
        /// The host, by name.
        host: String,
    },
    /// They end to, without waiting for the host (Forced Release).
    Release {
        /// When.
        at: Picos,
        /// The region, by name.
        region: String,
        /// The host, by name.
        host: String,
    },
    /// A link fails: what it carries is lost.
    LinkDown {
        /// When.
        at: Picos,
        /// Its ends: names of switches, hosts or devices, in any order.
        link: [String; 2],
        /// Which one of several links between them, from 0 on. Default 0.
        #[serde(default, skip_serializing_if = "is_zero")]
        number: u32,
    },
    /// A link that has failed is trained again.
    LinkUp {
        /// When.
        at: Picos,
        /// Its ends, by name.
        link: [String; 2],
        /// Which one of several links between them, from 0 on. Default 0.
        #[serde(default, skip_serializing_if = "is_zero")]
        number: u32,
    },
    /// A switch fails for good, and with it all its links and what it holds.
    SwitchDown {
        /// When.
        at: Picos,
        /// The switch, by name.
        switch: String,
    },
    /// A device is taken out without warning (surprise hot removal), and with it its links and what it
    /// holds.
    DeviceRemoved {
        /// When.
        at: Picos,
        /// The device, by name.
        device: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// What happens to a host's memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacityKind {
    /// The devices begin to serve it.
    Add,
    /// They end to.
    Release,
}

impl EventParams {
    /// When it happens.
    pub fn at(&self) -> Picos {
        match self {
            EventParams::Add { at, .. }
            | EventParams::Release { at, .. }
            | EventParams::LinkDown { at, .. }
            | EventParams::LinkUp { at, .. }
            | EventParams::SwitchDown { at, .. }
            | EventParams::DeviceRemoved { at, .. } => *at,
        }
    }

    /// A change of capacity: what happens to which region of which host.
    pub fn capacity(&self) -> Option<(CapacityKind, &str, &str)> {
        match self {
            EventParams::Add { region, host, .. } => Some((CapacityKind::Add, region, host)),
            EventParams::Release { region, host, .. } => {
                Some((CapacityKind::Release, region, host))
            }
            _ => None,
        }
    }

    /// Whether something fails, or comes back that has failed.
    pub fn is_failure(&self) -> bool {
        self.capacity().is_none()
    }

    /// What happens, in words.
    pub fn describe(&self) -> String {
        let joined = |link: &[String; 2], number: u32| match number {
            0 => format!("{}--{}", link[0], link[1]),
            number => format!("{}--{} ({number})", link[0], link[1]),
        };
        match self {
            EventParams::Add { region, host, .. } => format!("add {region}, {host}"),
            EventParams::Release { region, host, .. } => format!("release {region}, {host}"),
            EventParams::LinkDown { link, number, .. } => {
                format!("link down {}", joined(link, *number))
            }
            EventParams::LinkUp { link, number, .. } => {
                format!("link up {}", joined(link, *number))
            }
            EventParams::SwitchDown { switch, .. } => format!("switch down {switch}"),
            EventParams::DeviceRemoved { device, .. } => format!("device removed {device}"),
        }
    }
}

/// How hosts and the fabric deal with what fails.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct FailureParams {
    /// From a request's issue until its host ends it, if nothing answers it: the CXL.mem transaction
    /// timeout (CXL 3.1, section 12.3; its register has the ranges of the PCIe completion timeout, 50 us
    /// to 64 s, *recollection*). 1 us to 64 s. Default 50 us, the shortest of those.
    pub completion_timeout: Picos,
    /// From a failure, or the return of a link, until the fabric manager has found out and all switches
    /// have new tables, and hosts know which devices they do not reach. 1 ns to 1 s. Default 20 us
    /// (*assumed*).
    pub reconfiguration_time: Picos,
    /// What a root port takes to answer a request for a device that the host does not reach, behind
    /// `process_time`. 1 ns to 1 ms. Default 20 ns (*assumed*).
    pub isolation_time: Picos,
}

impl Default for FailureParams {
    fn default() -> Self {
        FailureParams {
            completion_timeout: Picos::from_nanos(50_000),
            reconfiguration_time: Picos::from_nanos(20_000),
            isolation_time: Picos::from_nanos(20),
        }
    }
}
