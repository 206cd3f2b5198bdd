//! Limits of links and devices other than their own rate: credits, requests in flight and throttles, as
//! measured by a run.

use cxlab_plan::{CreditLimit, Plan, PlannedLink};
use cxlab_protocol::Channel;
use cxlab_scenario::Note;

use super::bottleneck::longest_stage;
use crate::readings::LinkReadings;
use crate::report::{LinkReport, Report};

/// A wire that carries less than this fraction of its possible lines is not the limit (*assumed*).
const MIN_CARRIED: f64 = 0.95;
/// Credits limit a message class if the round trip alone fills at least this fraction of its window (*assumed*).
/// Otherwise the far end holds the credits, because a later stage is full.
const MIN_WINDOW_USE: f64 = 0.85;
/// Requests in flight limit a host with at least this fraction of them in flight on average (*assumed*).
const MIN_IN_FLIGHT: f64 = 0.95;
/// Waits in queues, or inside of media, are a limit from this fraction of the latency on. Below it, requests in flight
/// may be (*assumed*).
pub(super) const MIN_QUEUE_SHARE: f64 = 0.25;

/// A device is noted if its throttled hosts leave it used less than this fraction (*assumed*).
const MAX_USED: f64 = 0.9;
/// A host had more to send if the allowed rate limited it in at least this fraction of the periods (*assumed*).
pub(super) const MIN_HELD: f64 = 0.5;

/// Lines carried in one direction, as a fraction of the lines that the wire could carry.
pub(super) fn lines_carried(link: &PlannedLink, report: &LinkReport, window_ps: f64) -> f64 {
    (report.payload_bytes / 64) as f64 * link.params.line_ps() / window_ps
}

/// The note on a direction of a link whose messages waited for credits, if credits limited it. They did if
/// the wire was not full and the round trip alone kept most of the credit window in flight.
pub(super) fn by_credits(
    plan: &Plan,
    link: &PlannedLink,
    read: &LinkReadings,
    report: &LinkReport,
    window_ps: f64,
) -> Option<Note> {
    let waited = |channel: &Channel| read.starved[channel.index()] && !channel.is_io();
    if !Channel::ALL.iter().any(waited) || lines_carried(link, report, window_ps) >= MIN_CARRIED {
        return None;
    }
    let lines = report.payload_bytes / 64;
    let pipelines = plan.pipelines(link);
    let windows = link.params.windows(pipelines);
    let round_trip = (link.params.credit_round_ps() + pipelines.0) as f64;
    let limited = |channel: &Channel| {
        let sent = match channel.carries_data() {
            true => lines,
            false => read.stats.messages.saturating_sub(lines),
        };
        let in_flight = sent as f64 / window_ps * round_trip;
        waited(channel) && in_flight >= MIN_WINDOW_USE * f64::from(windows[channel.index()])
    };
    let channel = Channel::ALL.into_iter().find(limited)?;
    let name = channel.name();
    let credits = link.params.credits_of(channel);
    let remedy = match CreditLimit::of(plan, link, channel) {
        Some(limit) => limit.remedy(),
        None => format!("{} carry all", link.params.credits_needed()),
    };
    Some(Note::new(
        format!("{}.credits", plan.link_path(link)),
        format!(
            "messages {} waited for {name} = {credits}, and the wire carried {:.0} % of the lines that \
             it could; {remedy}",
            report.direction,
            100.0 * lines_carried(link, report, window_ps)
        ),
    ))
}

/// True for stages in which requests wait in queues.
fn waits(stage: &str) -> bool {
    stage == "credits" || stage.ends_with("queue")
}

/// Notes on groups of hosts that are limited by their requests in flight, where no link is full and no other place
/// is the bottleneck.
pub(super) fn by_requests_in_flight(plan: &Plan, report: &Report) -> Vec<Note> {
    let found = report.bottleneck.as_ref();
    if found.is_some_and(|found| !found.limit.is_of_hosts()) {
        return Vec::new();
    }
    let report_ps = (report.extent.window_ns * 1e3).max(1.0);
    let waits = report.stages_ns.iter().filter(|(name, _)| waits(name));
    let queue_ns: f64 = waits.filter_map(|(_, value)| value.as_f64()).sum();
    let full = |(link, report): (&PlannedLink, &[LinkReport])| {
        let carried = |report| lines_carried(link, report, report_ps);
        report.iter().any(|report| carried(report) >= MIN_CARRIED)
    };
    let links = plan.links.iter().zip(report.links.chunks_exact(2));
    let queued = queue_ns >= MIN_QUEUE_SHARE * report.latency_ns.mean;
    if links.into_iter().any(full) || report.latency_ns.mean <= 0.0 || queued {
        return Vec::new();
    }
    // A medium that queues requests itself is seen by its stage alone.
    let medium = match longest_stage(&report.stages_ns) {
        Some(("media", time, _)) => {
            format!(" ({time:.0} ns of it are in the medium, which may carry no more)")
        }
        _ => String::new(),
    };
    let mut notes = Vec::new();
    for (index, group) in plan.scenario.hosts.iter().enumerate() {
        let first = plan.hosts.iter().position(|host| host.group == index);
        let (Some(number), Some(issue)) = (first, group.requester()) else {
            continue;
        };
        let host = &report.hosts[number];
        let outstanding = f64::from(issue.outstanding);
        let (rate, wire) = (host.bandwidth_gb_per_s.total, plan.host_gb_per_s(number));
        // A host with one request waits for its data before the next request, so it cannot have more.
        let may_have_more = issue.outstanding > 1;
        let full = host.in_flight >= MIN_IN_FLIGHT * outstanding;
        if may_have_more && full && rate > 0.0 && rate < MIN_CARRIED * wire {
            notes.push(Note::new(
                format!("hosts[{index}].issue.outstanding"),
                format!(
                    "{} requests in flight carry {rate:.1} GB/s over a latency of {:.0} ns, and a host's links \
                     carry {wire:.1} GB/s of reads; {:.0} requests fill the links if that latency stays{medium}",
                    issue.outstanding,
                    host.latency_ns.mean,
                    (outstanding * wire / rate).ceil()
                ),
            ));
        }
    }
    notes
}

/// Notes on devices that throttled hosts leave unused although the hosts had more to send.
pub(super) fn by_throttles(plan: &Plan, report: &Report) -> Vec<Note> {
    let mut notes = Vec::new();
    for (number, qos) in plan.qos.devices.iter().enumerate() {
        let Some(qos) = qos else { continue };
        // A report lists only the measured devices.
        let name = &plan.devices[number].name;
        let mut devices = report.devices.iter();
        let Some(device) = devices.find(|device| device.name == *name) else {
            continue;
        };
        let (used, most) = (device.bandwidth_gb_per_s.total, qos.bandwidth.as_gb_per_s());
        let held = qos.hosts.iter().filter_map(|host| {
            let host = report.hosts.get(*host)?;
            let throttle = host.throttle.filter(|throttle| throttle.held >= MIN_HELD)?;
            Some((host.name.as_str(), throttle.slower))
        });
        let held: Vec<(&str, u64)> = held.collect();
        let Some((first, _)) = held.first().filter(|_| used < MAX_USED * most) else {
            continue;
        };
        let which = match held.len() {
            1 => format!("the throttle of {first}"),
            count => format!("the throttles of {first} and {} more", count - 1),
        };
        let why = match held.iter().map(|(_, slower)| slower).sum::<u64>() {
            0 => "their rates were still growing when the window began; use a longer warm-up"
                .to_owned(),
            cuts => format!(
                "they cut their rates {cuts} times; a smaller `step` or `moderate_cut`, or higher thresholds of the \
                 device, leave less unused"
            ),
        };
        let group = plan.devices[number].memory().unwrap_or(0);
        notes.push(Note::new(
            format!("devices[{group}].qos"),
            format!(
                "{which} left {:.1} of the {most:.1} GB/s of {} unused ({:.0} % used), and had more to send: {why}",
                most - used,
                device.name,
                100.0 * used / most
            ),
        ));
    }
    notes
}
