//! Notes on defaults of a scenario that its author may not have intended.

use cxlab_device::WriteCompletion;
use cxlab_engine::units::Picos;
use cxlab_scenario::{AddressMapParams, DeviceGroup, Note, Scenario};
use cxlab_workload::Workload;

use crate::endpoints::{PlannedDevice, PlannedHost};

/// The notes about defaults. `workloads` has the workload of each host group.
pub(crate) fn notes(
    scenario: &Scenario,
    hosts: &[PlannedHost],
    devices: &[PlannedDevice],
    workloads: &[Box<dyn Workload>],
) -> Vec<Note> {
    let mut notes = Vec::new();
    notes.extend(mixed_interleaving(scenario, hosts, devices));
    notes.extend(cut_traces(scenario, workloads));
    notes.extend(late_events(scenario));
    notes.extend(hidden_write_latency(scenario));
    notes
}

/// A note on devices of different media over which one window is interleaved by default.
fn mixed_interleaving(
    scenario: &Scenario,
    hosts: &[PlannedHost],
    devices: &[PlannedDevice],
) -> Option<Note> {
    if scenario.address_map != AddressMapParams::default() || !scenario.regions.is_empty() {
        return None;
    }
    let medium = |device: usize| {
        let group = devices.get(device).and_then(PlannedDevice::memory)?;
        Some((group, &scenario.devices[group]))
    };
    let windows = hosts.iter().flat_map(|host| host.map.windows());
    let mut different = windows.filter_map(|window| {
        let targets = window.targets.iter().map(|target| usize::from(target.0));
        let mut media = targets.filter_map(|target| medium(target.checked_sub(hosts.len())?));
        let first = media.next()?;
        let other = media.find(|(at, group)| *at != first.0 && group.memory != first.1.memory)?;
        Some((first, other))
    });
    let ((_, first), (at, other)) = different.next()?;
    Some(Note::new(
        "address_map",
        format!(
            "`{}` (\"{}\") and `{}` (\"{}\", devices[{at}]) are of one capacity and no `address_map` is given, so \
             every {} of addresses are on the next of them, and each host works at the speed of the slower. \
             `ways = 1` puts devices one behind the other, [[regions]] give hosts memory of each, and \
             `granularity` says that it is meant",
            first.name,
            first.memory.kind,
            other.name,
            other.memory.kind,
            scenario.address_map.granularity
        ),
    ))
}

/// A note on workloads that would end by themselves, but are cut after a default number of requests
/// because other workloads are endless.
fn cut_traces(scenario: &Scenario, workloads: &[Box<dyn Workload>]) -> Option<Note> {
    let measure = &scenario.measure;
    let says = measure.requests.is_some() || measure.duration.is_some();
    if says || measure.precision.is_some() || measure.sampling.is_some() {
        return None;
    }
    let ends = |at: &usize| {
        let group = &scenario.hosts[*at];
        group.requests.is_some() || workloads[*at].is_finite() || workloads[*at].needs_threads()
    };
    let groups = 0..workloads.len().min(scenario.hosts.len());
    let finite = groups.clone().find(ends)?;
    let endless = groups.clone().find(|at| !ends(at))?;
    Some(Note::new(
        "measure",
        format!(
            "says no end, and the workload of hosts[{endless}] has none, so the run ends after 100,000 requests of \
             all hosts together, whether that of hosts[{finite}] (\"{}\") has ended or not; allowed: `requests` or \
             `duration`, or `requests` of hosts[{endless}]",
            scenario.hosts[finite].workload.kind
        ),
    ))
}

/// Notes on events that are later than the end of a run of given length.
fn late_events(scenario: &Scenario) -> Vec<Note> {
    let measure = &scenario.measure;
    let (Some(duration), None, None) = (measure.duration, measure.warmup_requests, measure.warmup)
    else {
        return Vec::new();
    };
    let warmup = measure.warmup_time.unwrap_or_default();
    let end = warmup.0.saturating_add(duration.0);
    let events = scenario.events.iter().enumerate();
    let late = events.filter(|(_, event)| event.at().0 > end);
    let notes = late.map(|(number, event)| {
        let (end, at) = (Picos(end), event.at());
        let message =
            format!("will not happen: the run ends {end} after the workloads begin, before {at}");
        Note::new(format!("events[{number}]"), message)
    });
    notes.collect()
}

/// Notes on write latencies of media of kind `fixed` that no write contains, because its device completes a
/// write when the medium accepts it.
fn hidden_write_latency(scenario: &Scenario) -> Vec<Note> {
    let devices = scenario.devices.iter().enumerate();
    let hides = |group: &DeviceGroup| {
        let completion = group.controller.write_completion;
        completion == WriteCompletion::Accepted && group.memory.kind == "fixed"
    };
    let notes = devices.filter(|(_, group)| hides(group)).filter_map(|(at, group)| {
        let time = group.memory.params.get("write_latency")?.as_str()?;
        let instead = match group.is_hdm_db() {
            true => "a device of class \"hdm-db\" completes every write so",
            false => "`controller.write_completion = \"written\"` completes a write when the medium has finished it",
        };
        let message = format!(
            "is not part of the latency of a write, which is complete when the medium accepts it. The write \
             occupies an entry of the medium's `queue` for {time} or more; {instead}"
        );
        Some(Note::new(format!("devices[{at}].memory.write_latency"), message))
    });
    notes.collect()
}
