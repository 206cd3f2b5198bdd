//! QoS: telemetry of devices and throttles of hosts, checked and resolved.

use cxlab_device::{QosConfig, QosParams, Share};
use cxlab_engine::units::{BytesPerSec, Picos};
use cxlab_host::ThrottleParams;
use cxlab_protocol::PortId;

use super::endpoints::{Named, unknown};
use super::{PlannedHost, Problem};
use crate::scenario::Scenario;

/// The shortest and the longest interval in which a device counts answers.
const INTERVALS: [Picos; 2] = [Picos(1_000), Picos(127_000)];
/// The shortest and the longest interval in which a device looks at its egress port.
const SAMPLES: [Picos; 2] = [Picos(1_000), Picos(31_000)];
/// The shortest and the longest period of a host.
const PERIODS: [Picos; 2] = [Picos(10_000), Picos(1_000_000_000)];
/// The lowest and the highest rate.
const RATES: [BytesPerSec; 2] = [BytesPerSec(1_000_000), BytesPerSec(1_000_000_000_000)];

/// Whether some device tells its load.
fn has_telemetry(scenario: &Scenario) -> bool {
    scenario.devices.iter().any(|group| group.qos.is_some())
}

/// Checks telemetry and throttles.
pub(super) fn check(scenario: &Scenario, named: &Named, problems: &mut Vec<Problem>) {
    for (at, group) in scenario.devices.iter().enumerate() {
        let Some(qos) = &group.qos else { continue };
        let path = format!("devices[{at}].qos");
        check_telemetry(&path, qos, problems);
        check_shares(&path, qos, named, problems);
    }
    for (at, group) in scenario.hosts.iter().enumerate() {
        let Some(throttle) = &group.issue.throttle else {
            continue;
        };
        let path = format!("hosts[{at}].issue.throttle");
        if !has_telemetry(scenario) {
            problems.push(Problem::new(
                &path,
                "found a throttle in a scenario without telemetry; allowed: with devices[].qos",
            ));
        }
        check_throttle(&path, throttle, problems);
    }
}

/// A value that is not between two others.
fn check_between<T: PartialOrd + std::fmt::Display>(
    path: String,
    found: &T,
    [least, most]: &[T; 2],
    problems: &mut Vec<Problem>,
) {
    if found < least || found > most {
        problems.push(Problem::new(
            path,
            format!("found {found}; allowed: {least} to {most}"),
        ));
    }
}

fn check_telemetry(path: &str, qos: &QosParams, problems: &mut Vec<Problem>) {
    let path_of = |field: &str| format!("{path}.{field}");
    let interval = &qos.completion_collection_interval;
    let path_of_interval = path_of("completion_collection_interval");
    check_between(path_of_interval, interval, &INTERVALS, problems);
    if let Some(rate) = &qos.bandwidth {
        check_between(path_of("bandwidth"), rate, &RATES, problems);
    }
    let sampled = qos.backpressure_sample_interval;
    if sampled != Picos::ZERO {
        check_between(
            path_of("backpressure_sample_interval"),
            &sampled,
            &SAMPLES,
            problems,
        );
    }
    let (moderate, severe) = (qos.egress_moderate_percentage, qos.egress_severe_percentage);
    let steps = [
        (
            "egress_moderate_percentage",
            moderate.into(),
            "egress_severe_percentage",
            severe.into(),
        ),
        ("optimal", qos.optimal, "moderate", qos.moderate),
        ("moderate", qos.moderate, "severe", qos.severe),
    ];
    for (field, found, next, limit) in steps {
        if found >= limit {
            problems.push(Problem::new(
                path_of(field),
                format!("found {found}; allowed: less than `{next}`, {limit}"),
            ));
        }
    }
}

fn check_shares(path: &str, qos: &QosParams, named: &Named, problems: &mut Vec<Problem>) {
    let limits = qos.shares.iter().any(|share| share.limit.is_some());
    if limits && qos.bandwidth.is_none() {
        problems.push(Problem::new(
            format!("{path}.shares"),
            "found a limit without `bandwidth`, which it is a fraction of; allowed: with it",
        ));
    }
    let mut sum = 0;
    for (at, share) in qos.shares.iter().enumerate() {
        let path = format!("{path}.shares[{at}]");
        let hosts = &named.names.requesters;
        if !hosts.contains(&share.host) {
            problems.push(unknown(
                format!("{path}.host"),
                &share.host,
                "a host",
                hosts,
            ));
        } else if qos.shares[..at]
            .iter()
            .any(|other| other.host == share.host)
        {
            problems.push(Problem::new(
                format!("{path}.host"),
                format!(
                    "found `{}` again; allowed: one share for each host",
                    share.host
                ),
            ));
        }
        sum += share.allocated;
        if sum > 256 {
            problems.push(Problem::new(
                format!("{path}.allocated"),
                format!("found {sum} of 256 allocated in all; allowed: at most 256"),
            ));
            return;
        }
        if share.limit.is_some_and(|limit| limit < share.allocated) {
            problems.push(Problem::new(
                format!("{path}.limit"),
                format!(
                    "found {}; allowed: at least what is allocated, {}",
                    share.limit.unwrap_or(0),
                    share.allocated
                ),
            ));
        }
    }
}

fn check_throttle(path: &str, throttle: &ThrottleParams, problems: &mut Vec<Problem>) {
    let path_of = |field: &str| format!("{path}.{field}");
    check_between(path_of("period"), &throttle.period, &PERIODS, problems);
    check_between(path_of("step"), &throttle.step, &RATES, problems);
    check_between(path_of("least"), &throttle.least, &RATES, problems);
}

/// Telemetry of a device, with its shares by host.
pub(super) fn resolve(params: &QosParams, hosts: &[PlannedHost], edge_ports: usize) -> QosConfig {
    let shares = params.shares.iter().filter_map(|share| {
        let host = hosts.iter().position(|host| host.name == share.host)?;
        Some(Share {
            host: PortId(host as u16),
            allocated: share.allocated,
            limit: share.limit,
        })
    });
    QosConfig {
        params: params.clone(),
        edge_ports,
        shares: shares.collect(),
    }
}
