//! Readings: counters of the components of a system in a window.

use std::borrow::Cow;

use cxlab_device::{DeviceStats, DeviceWaits};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::RequesterStats;
use cxlab_link::{DirectionStats, PortWaits};
use cxlab_protocol::Channel;

use crate::laws::check_host;
use crate::system::{Node, System};

/// Readings of a host or an accelerator.
pub(crate) struct IssuerReadings<'a> {
    pub(crate) stats: Cow<'a, RequesterStats>,
    /// Requests in flight, integrated over time, in picoseconds.
    pub(crate) integral: u128,
}

/// Readings of a device.
pub(crate) struct DeviceReadings {
    pub(crate) stats: DeviceStats,
    pub(crate) waits: DeviceWaits,
}

/// Readings of a direction of a link.
pub(crate) struct LinkReadings {
    pub(crate) stats: DirectionStats,
    pub(crate) waits: PortWaits,
    /// By message class: whether one of its messages waited for a credit.
    pub(crate) starved: [bool; Channel::COUNT],
}

impl LinkReadings {
    /// Reads both directions of all links at the end of a window: forward and backward of each in turn.
    pub(crate) fn all(system: &mut System, end: SimTime) -> Vec<LinkReadings> {
        let ends = system.directions.iter();
        let ends: Vec<(usize, u16)> = ends.flat_map(|one| [one.forward, one.backward]).collect();
        let links = ends.into_iter().map(|(component, port)| {
            let port = system.simulation.component_mut(component).port_mut(port);
            LinkReadings {
                stats: port.transmitter.stats(end),
                waits: port.waits().cloned().unwrap_or_default(),
                starved: Channel::ALL.map(|channel| port.has_stalled(channel)),
            }
        });
        links.collect()
    }
}

/// Readings of a system, in one window or in several.
pub(crate) struct Readings<'a> {
    /// Length of the windows together.
    pub(crate) window: Picos,
    /// Hosts, then accelerators.
    pub(crate) issuers: Vec<IssuerReadings<'a>>,
    /// By device; `None` for an accelerator.
    pub(crate) devices: Vec<Option<DeviceReadings>>,
    pub(crate) links: Vec<LinkReadings>,
}

impl<'a> Readings<'a> {
    /// Reads a system at the end of a window of that length.
    ///
    /// # Errors
    /// A law that does not hold, which is our own mistake.
    pub(crate) fn of(
        system: &'a System,
        links: Vec<LinkReadings>,
        window: Picos,
        end: SimTime,
    ) -> Result<Readings<'a>, String> {
        let nodes = system.simulation.components();
        let nodes = nodes.take(system.hosts + system.devices);
        let issuers = nodes.filter_map(Node::host).map(|host| {
            Ok(IssuerReadings {
                integral: check_host(host, end)?,
                stats: Cow::Borrowed(host.stats()),
            })
        });
        let issuers = issuers.collect::<Result<_, String>>()?;
        let nodes = system.simulation.components().skip(system.hosts);
        let devices = nodes.take(system.devices).map(|node| {
            let (stats, waits) = match node.inside() {
                Node::Device(device) => (device.stats(), device.waits()),
                Node::Coherent(device) => (device.stats(), device.waits()),
                _ => return None,
            };
            let waits = waits.clone();
            Some(DeviceReadings { stats, waits })
        });
        Ok(Readings {
            window,
            issuers,
            devices: devices.collect(),
            links,
        })
    }

    /// The readings without borrows from the system, which can then continue.
    pub(crate) fn into_owned(self) -> Readings<'static> {
        let issuers = self.issuers.into_iter().map(|one| IssuerReadings {
            stats: Cow::Owned(one.stats.into_owned()),
            integral: one.integral,
        });
        Readings {
            window: self.window,
            issuers: issuers.collect(),
            devices: self.devices,
            links: self.links,
        }
    }

    /// Adds the readings of the same system in another window.
    pub(crate) fn merge(&mut self, other: &Readings<'_>) {
        self.window = Picos(self.window.0 + other.window.0);
        for (sum, one) in self.issuers.iter_mut().zip(&other.issuers) {
            sum.stats.to_mut().merge(&one.stats);
            sum.integral += one.integral;
        }
        for (sum, one) in self.devices.iter_mut().zip(&other.devices) {
            if let (Some(sum), Some(one)) = (sum, one) {
                sum.stats.merge(&one.stats);
                sum.waits.merge(&one.waits);
            }
        }
        for (sum, one) in self.links.iter_mut().zip(&other.links) {
            sum.stats.merge(&one.stats);
            sum.waits.merge(&one.waits);
            for (sum, one) in sum.starved.iter_mut().zip(one.starved) {
                *sum |= one;
            }
        }
    }
}
