//! QoS: load telemetry of devices and throttles of hosts, checked, and as a plan has them.

use cxlab_device::{LoadThresholds, QosConfig, QosParams};
use cxlab_engine::units::{BytesPerSec, Picos};
use cxlab_host::ThrottleParams;
use cxlab_scenario::{HostKind, Scenario};

use crate::endpoints::NamedGroups;
use crate::problem::{Fields, Problems, unknown};

/// The shortest and the longest interval in which a device counts responses.
const INTERVALS: [Picos; 2] = [Picos(1_000), Picos(127_000)];
/// The shortest and the longest interval at which a device samples its egress port.
const SAMPLES: [Picos; 2] = [Picos(1_000), Picos(31_000)];
/// The shortest and the longest period of a host's throttle.
const PERIODS: [Picos; 2] = [Picos(10_000), Picos(1_000_000_000)];
/// The lowest and the highest rate of a device and of a throttle.
const RATES: [BytesPerSec; 2] = [BytesPerSec(1_000_000), BytesPerSec(1_000_000_000_000)];

/// Whether some device reports its load.
pub(crate) fn has_telemetry(scenario: &Scenario) -> bool {
    scenario.devices.iter().any(|group| group.qos.is_some())
}

/// Checks the parameters of telemetry and throttles.
pub(crate) fn check(scenario: &Scenario, named: &NamedGroups, problems: &mut Problems) {
    for (at, group) in scenario.devices.iter().enumerate() {
        let Some(qos) = &group.qos else { continue };
        let path = format!("devices[{at}].qos");
        check_telemetry(problems.below(&path), qos);
        check_shares(&path, qos, named, problems);
    }
    for (at, group) in scenario.hosts.iter().enumerate() {
        let mut throttles = group.kinds().filter_map(|kind| match kind {
            HostKind::Requester(issue) => issue.throttle.as_ref(),
            HostKind::Core(_) | HostKind::Processor(_) => None,
        });
        let Some(throttle) = throttles.next() else {
            continue;
        };
        let path = format!("hosts[{at}].issue.throttle");
        if !has_telemetry(scenario) {
            let found = "a throttle in a scenario without telemetry";
            problems.refuse(&path, found, "with devices[].qos");
        }
        let mut fields = problems.below(path);
        if let Some(period) = throttle.period {
            fields.between("period", period, PERIODS);
        }
        for (field, rate) in [("step", throttle.step), ("least", throttle.least)] {
            if let Some(rate) = rate {
                fields.between(field, rate, RATES);
            }
        }
    }
}

fn check_telemetry(mut fields: Fields<'_>, qos: &QosParams) {
    let interval = qos.completion_collection_interval;
    fields.between("completion_collection_interval", interval, INTERVALS);
    if let Some(rate) = qos.bandwidth {
        fields.between("bandwidth", rate, RATES);
    }
    let sampled = qos.backpressure_sample_interval;
    if sampled != Picos::ZERO {
        fields.between("backpressure_sample_interval", sampled, SAMPLES);
    }
    let egress = [qos.egress_moderate_percentage, qos.egress_severe_percentage];
    let [moderate, severe] = egress.map(|percentage| Some(percentage.into()));
    for (field, found, next, limit) in [
        (
            "egress_moderate_percentage",
            moderate,
            "egress_severe_percentage",
            severe,
        ),
        ("optimal", qos.optimal, "moderate", qos.moderate),
        ("optimal", qos.optimal, "severe", qos.severe),
        ("moderate", qos.moderate, "severe", qos.severe),
    ] {
        if let (Some(found), Some(limit)) = (found, limit)
            && found >= limit
        {
            fields.refuse(field, found, format_args!("less than `{next}`, {limit}"));
        }
    }
}

fn check_shares(path: &str, qos: &QosParams, named: &NamedGroups, problems: &mut Problems) {
    let limits = qos.shares.iter().any(|share| share.limit.is_some());
    if limits && qos.bandwidth.is_none() {
        let found = "a limit without `bandwidth`, which it is a fraction of";
        problems.refuse(format!("{path}.shares"), found, "with it");
    }
    let mut sum = 0;
    for (at, share) in qos.shares.iter().enumerate() {
        let path = format!("{path}.shares[{at}]");
        let (host, hosts) = (&share.host, &named.names.requesters);
        if !hosts.contains(host) {
            problems.push(unknown(format!("{path}.host"), host, "a host", hosts));
        } else if qos.shares[..at].iter().any(|other| other.host == *host) {
            let found = format_args!("`{host}` again");
            problems.refuse(format!("{path}.host"), found, "one share for each host");
        }
        sum += share.allocated;
        if sum > 256 {
            let found = format_args!("{sum} of 256 allocated in all");
            problems.refuse(format!("{path}.allocated"), found, "at most 256");
            return;
        }
        if let Some(limit) = share.limit.filter(|limit| *limit < share.allocated) {
            let allowed = format_args!("at least what is allocated, {}", share.allocated);
            problems.refuse(format!("{path}.limit"), limit, allowed);
        }
    }
}

/// Load telemetry of a device, resolved.
#[derive(Clone, Debug)]
pub struct PlannedQos {
    /// Highest bandwidth of the device, limited by its medium or its ports.
    pub bandwidth: BytesPerSec,
    /// Whether the ports give less than the medium.
    pub is_limited_by_ports: bool,
    /// Number of requests inside the device that just saturates it.
    pub full: u32,
    /// Numbers of the hosts that reach the device.
    pub hosts: Vec<usize>,
    /// Parameters of the device's telemetry.
    pub config: QosConfig,
}

/// Load telemetry of all devices and throttles of all hosts, resolved.
#[derive(Clone, Default, Debug)]
pub struct Qos {
    /// By device: its telemetry, if it reports its load.
    pub devices: Vec<Option<PlannedQos>>,
    /// By host: its throttle, if it has one and a device reports its load to it.
    pub throttles: Vec<Option<PlannedThrottle>>,
}

/// The throttle of a host, resolved.
#[derive(Clone, Debug)]
pub struct PlannedThrottle {
    /// Parameters with the initial step.
    pub params: ThrottleParams,
    /// Later steps, each with its time after the workloads begin, for changes of shares.
    pub steps: Vec<(Picos, BytesPerSec)>,
}

impl std::fmt::Display for PlannedQos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit = match self.is_limited_by_ports {
            true => "ports",
            false => "medium",
        };
        let LoadThresholds {
            optimal,
            moderate,
            severe,
        } = self.config.thresholds;
        write!(
            f,
            "{:.1} GB/s by its {limit}, full with {} requests inside; optimal from {optimal}, moderate overload from \
             {moderate}, severe from {severe}",
            self.bandwidth.as_gb_per_s(),
            self.full,
        )
    }
}
