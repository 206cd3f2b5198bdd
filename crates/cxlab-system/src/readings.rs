//! What the components of a system have measured in a window, and the laws that it obeys.

use std::borrow::Cow;

use cxlab_device::{DeviceStats, DeviceWaits, MOST_PASSED_FLIPS};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_host::{MOST_FAULTS, Processor, RequesterStats};
use cxlab_link::{DirectionStats, PortWaits};
use cxlab_os::ats::MOST_REQUESTS;
use cxlab_protocol::Channel;

use crate::host::Host;
use crate::system::{Node, System};

/// What was read of a host or an accelerator.
pub(crate) struct IssuerReadings<'a> {
    pub(crate) stats: Cow<'a, RequesterStats>,
    /// Requests in flight, integrated over time, in picoseconds.
    pub(crate) integral: u128,
}

/// What was read of a device.
pub(crate) struct DeviceReadings {
    pub(crate) stats: DeviceStats,
    pub(crate) waits: DeviceWaits,
}

/// What was read of a direction of a link.
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

/// What was read of a system, in one window or in several.
pub(crate) struct Readings<'a> {
    /// Length of the windows together.
    pub(crate) window: Picos,
    /// Hosts, then accelerators.
    pub(crate) issuers: Vec<IssuerReadings<'a>>,
    /// By device; nothing of an accelerator.
    pub(crate) devices: Vec<Option<DeviceReadings>>,
    /// [`LinkReadings::all`].
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
        let nodes = system
            .simulation
            .components()
            .take(system.hosts + system.devices);
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

    /// The same, to be kept while the system goes on.
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

    /// Adds what was read of the same system in another window.
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

/// What waits is overtaken no more often than `docs/explain/liveness.md` says.
fn check_waiting(host: &Host) -> Result<(), String> {
    if let Some(accelerator) = host.accelerator() {
        if let Some(overtaken) = accelerator.overtaken() {
            return Err(format!(
                "{overtaken} accesses of an accelerator overtook a message of its host"
            ));
        }
        let turns = accelerator.most_host_turns();
        if turns > 1 {
            return Err(format!(
                "{turns} messages of the host had a line before an access of an accelerator whose turn it was"
            ));
        }
        let passed = accelerator.most_passed_flips();
        if passed > MOST_PASSED_FLIPS {
            return Err(format!(
                "{passed} accesses of an accelerator took a CQID before a line of a page that flips"
            ));
        }
        let passed = accelerator.most_passed_ports();
        if passed > 0 {
            return Err(format!(
                "{passed} accesses of an accelerator overtook an element that waited for the cache's port"
            ));
        }
        let requests = accelerator.most_translation_requests();
        if requests > MOST_REQUESTS {
            return Err(format!(
                "an access of an accelerator waited for {requests} Translation Requests"
            ));
        }
    }
    let passed = host.processor().map_or(0, Processor::most_passed_misses);
    if passed > 0 {
        return Err(format!(
            "{passed} accesses of a core overtook one that waited for an outstanding line"
        ));
    }
    let passed = host.processor().map_or(0, Processor::most_passed_entries);
    if passed > 0 {
        return Err(format!(
            "{passed} transactions overtook one that waited for an entry of the directory"
        ));
    }
    let faults = host.processor().map_or(0, Processor::most_faults);
    if faults > MOST_FAULTS {
        return Err(format!("an access of a core met {faults} page faults"));
    }
    Ok(())
}

/// The laws of a host: requests are conserved; the stages of those served sum to their latency, and so do
/// the stages of those that ended in each other way; and Little's law
/// exactly: the integral of requests in flight over the window is the latency of those completed,
/// plus the age at the end of those in flight, less the age at the beginning of those in flight.
fn check_host(host: &Host, end: SimTime) -> Result<u128, String> {
    let stats = host.stats();
    if stats.issued_ever != stats.completed_ever + host.requests_in_flight() {
        return Err(format!(
            "{} requests issued, {} completed, {} in flight",
            stats.issued_ever,
            stats.completed_ever,
            host.requests_in_flight()
        ));
    }
    if let Some(core) = host.core() {
        core.check()
            .map_err(|wrong| format!("the result of the program: {wrong}"))?;
    }
    if let Some(hw_threads) = host.hw_threads() {
        hw_threads
            .check()
            .map_err(|wrong| format!("the result of a program: {wrong}"))?;
    }
    check_waiting(host).map_err(|wrong| format!("bounded waiting: {wrong}"))?;
    let stages: u128 = stats.stages_ps.iter().copied().map(u128::from).sum();
    let mut latencies = stats.served_ps();
    let mut sums = vec![(stages, latencies)];
    for unserved in stats.unserved() {
        sums.push((unserved.stages_ps(), unserved.latency_ps()));
        latencies += unserved.latency_ps();
    }
    if let Some((stages, latencies)) = sums.into_iter().find(|(stages, sum)| stages != sum) {
        return Err(format!(
            "stages sum to {stages} ps, latencies to {latencies} ps"
        ));
    }
    let ended = stats.unserved().map(|one| one.reads + one.writes);
    let served = stats.read_latency.count() + stats.write_latency.count();
    let completed = stats.reads + stats.writes;
    if completed != served + ended.iter().sum::<u64>() {
        return Err(format!(
            "{completed} requests completed, {served} served, {ended:?} denied, timed out, cut off and poisoned"
        ));
    }
    let integral = stats.in_flight.at(end.0) - stats.integral_before;
    let edges = latencies + host.age_ps(end);
    if integral + stats.age_before_ps != edges {
        return Err(format!(
            "Little's law: {integral} + {} ps in flight against {edges} ps of latency",
            stats.age_before_ps
        ));
    }
    Ok(integral)
}
