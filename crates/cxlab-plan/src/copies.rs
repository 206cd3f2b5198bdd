//! Finds memory that several hosts cache and that no protocol keeps coherent.

use cxlab_engine::units::Dpa;
use cxlab_protocol::{DecoderTable, PortId};
use cxlab_scenario::{HostKind, Note, Scenario};

use crate::endpoints::{PlannedDevice, PlannedHost};
use crate::sharing::SharedPart;

/// The warning about hosts whose caches hold the same memory of class HDM-H. There is one note for
/// all such devices, which names the first.
pub(crate) fn note(
    scenario: &Scenario,
    hosts: &[PlannedHost],
    devices: &[PlannedDevice],
    parts: &[SharedPart],
) -> Option<Note> {
    let mut shared = devices.iter().enumerate().filter_map(|(number, device)| {
        if scenario.devices[device.memory()?].is_hdm_db() {
            return None;
        }
        let (one, other) = two_caches(scenario, hosts, number, &device.decoders)?;
        Some((number, device, one, other))
    });
    let (number, device, one, other) = shared.next()?;
    let more = match shared.count() {
        0 => String::new(),
        count => format!(" (and of {count} devices more)"),
    };
    let has_part = |host: &PlannedHost| {
        let mut named = hosts.iter().zip(parts);
        let part = named.find(|(one, _)| one.name == host.name);
        part.is_some_and(|(_, part)| part.shares.iter().any(|share| share.0 == number))
    };
    if has_part(one) && has_part(other) {
        return Some(Note::of_system(format!(
            "`{}` and `{}` keep copies of the same memory of `{}`{more}, which nobody keeps coherent \
             (HDM-H): each sees the other's stores when that has flushed the line and itself has no \
             copy of it",
            one.name, other.name, device.name
        )));
    }
    // Cores and processors cannot hold memory of class HDM-DB.
    let (values, or) = match [one, other].iter().any(|host| has_values(scenario, host)) {
        true => (
            ", and threads and programs of one see no value of the other's",
            "",
        ),
        false => ("", ", or the device coherence = { class = \"hdm-db\" }"),
    };
    Some(Note::of_system(format!(
        "`{}` and `{}` keep copies of the same memory of `{}`{more}, which nobody keeps coherent \
         (HDM-H): neither hears of the other's stores{values}. Give hosts exclusive [[regions]]{or}",
        one.name, other.name, device.name
    )))
}

/// Two hosts with caches whose addresses lead to the same memory of a device.
fn two_caches<'a>(
    scenario: &Scenario,
    hosts: &'a [PlannedHost],
    device: usize,
    decoders: &DecoderTable,
) -> Option<(&'a PlannedHost, &'a PlannedHost)> {
    // Shares in the order of their beginnings. A share that begins within an earlier one overlaps it.
    let mut shares: Vec<(Dpa, Dpa, usize)> = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let mut targets = host.targets(hosts.len());
        if has_cache(&scenario.hosts[host.group].kind) && targets.any(|target| target == device) {
            let own = decoders.of(PortId(number as u16)).iter();
            shares.extend(own.map(|share| (share.first, share.end(), number)));
        }
    }
    shares.sort_unstable();
    let mut reached: Option<(Dpa, usize)> = None;
    for (first, end, host) in shares {
        match reached {
            Some((until, other)) if first < until && host != other => {
                return Some((&hosts[other.min(host)], &hosts[other.max(host)]));
            }
            Some((until, _)) if until >= end => {}
            _ => reached = Some((end, host)),
        }
    }
    None
}

/// Whether a host caches the memory that it accesses.
fn has_cache(kind: &HostKind) -> bool {
    match kind {
        HostKind::Requester(issue) => issue.cache.is_some(),
        HostKind::Core(_) | HostKind::Processor(_) => true,
    }
}

/// Whether a host runs code that computes on values.
fn has_values(scenario: &Scenario, host: &PlannedHost) -> bool {
    scenario.hosts[host.group].requester().is_none()
}
