//! QoS: load telemetry of devices and throttles of hosts, checked and resolved.
//!
//! The thresholds of a device follow from its bandwidth times the time that a request spends inside
//! without load. Both values are those of its medium, measured alone with random reads, or of its
//! ports if they give less. The step of a host's throttle follows from the host's share of the
//! devices that report their load to it.

use cxlab_analytic::{ProbeAccess, Saturation, fill};
use cxlab_device::{
    DeviceChange, DeviceChangeKind, HostShare, LoadThresholds, QosConfig, QosParams,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{BytesPerSec, Dpa, LINE_BYTES, Picos};
use cxlab_host::ThrottleParams;
use cxlab_memory::{MediumSite, RunContext};
use cxlab_protocol::{Channel, PortId};
use cxlab_scenario::Scenario;

use super::endpoints::{Named, unknown};
use super::{End, Plan, PlannedDevice, PlannedLink, Problem};

/// The shortest and the longest interval in which a device counts responses.
const INTERVALS: [Picos; 2] = [Picos(1_000), Picos(127_000)];
/// The shortest and the longest interval at which a device samples its egress port.
const SAMPLES: [Picos; 2] = [Picos(1_000), Picos(31_000)];
/// The shortest and the longest period of a host's throttle.
const PERIODS: [Picos; 2] = [Picos(10_000), Picos(1_000_000_000)];
/// The lowest and the highest rate of a throttle.
const RATES: [BytesPerSec; 2] = [BytesPerSec(1_000_000), BytesPerSec(1_000_000_000_000)];

/// Whether some device reports its load.
fn has_telemetry(scenario: &Scenario) -> bool {
    scenario.devices.iter().any(|group| group.qos.is_some())
}

/// Checks the parameters of telemetry and throttles.
pub(crate) fn check(scenario: &Scenario, named: &Named, problems: &mut Vec<Problem>) {
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

/// Refuses a value outside a range.
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
    let given = [qos.optimal, qos.moderate, qos.severe];
    let steps = [
        (
            "egress_moderate_percentage",
            Some(moderate.into()),
            "egress_severe_percentage",
            Some(severe.into()),
        ),
        ("optimal", given[0], "moderate", given[1]),
        ("optimal", given[0], "severe", given[2]),
        ("moderate", given[1], "severe", given[2]),
    ];
    for (field, found, next, limit) in steps {
        if let (Some(found), Some(limit)) = (found, limit)
            && found >= limit
        {
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
    if let Some(period) = throttle.period {
        check_between(path_of("period"), &period, &PERIODS, problems);
    }
    for (field, rate) in [("step", throttle.step), ("least", throttle.least)] {
        if let Some(rate) = rate {
            check_between(path_of(field), &rate, &RATES, problems);
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

/// Number of reads, of lines at random places, for measuring a medium (*assumed*: several times
/// more than fill the queues of a medium).
const READS: usize = 16_000;

impl Qos {
    /// Resolves the telemetry and the throttles of a plan.
    pub(crate) fn of(plan: &Plan) -> Result<Qos, Vec<Problem>> {
        let mut qos = Qos {
            devices: vec![None; plan.devices.len()],
            throttles: vec![None; plan.hosts.len()],
        };
        if !has_telemetry(&plan.scenario) {
            return Ok(qos);
        }
        let mut filled = vec![None; plan.scenario.devices.len()];
        let mut problems = Vec::new();
        for number in 0..plan.devices.len() {
            match resolve(plan, number, &mut filled) {
                Ok(found) => qos.devices[number] = found,
                // All devices of a group have the same problem.
                Err(problem) if problems.contains(&problem) => {}
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        for (number, host) in plan.hosts.iter().enumerate() {
            let targets = host.map.windows().iter().flat_map(|window| &window.targets);
            for target in targets {
                let device = &mut qos.devices[usize::from(target.0) - plan.hosts.len()];
                if let Some(device) = device
                    && device.hosts.last() != Some(&number)
                {
                    device.hosts.push(number);
                }
            }
        }
        let changes = plan.devices.iter().flat_map(PlannedDevice::share_changes);
        let mut times: Vec<Picos> = changes.map(|change| change.at).collect();
        times.push(Picos::ZERO);
        times.sort_unstable();
        times.dedup();
        for (number, host) in plan.hosts.iter().enumerate() {
            let throttle = &plan.scenario.hosts[host.group].issue.throttle;
            let reached = qos.devices.iter().flatten();
            let is_told = reached
                .into_iter()
                .any(|device| device.hosts.contains(&number));
            qos.throttles[number] = throttle.as_ref().filter(|_| is_told).map(|throttle| {
                let at = |at: Picos| throttle.clone().with_part(qos.part(plan, number, at));
                let mut steps = Vec::new();
                let params = at(Picos::ZERO);
                for time in &times[1..] {
                    let last = steps.last().map_or(params.step(), |(_, step)| *step);
                    let step = at(*time).step();
                    if step != last {
                        steps.push((*time, step));
                    }
                }
                PlannedThrottle { params, steps }
            });
        }
        Ok(qos)
    }

    /// A host's share of the bandwidth of all devices that report their load to it, at time `at`
    /// after the workloads begin. The share is at most the rate of the host's links.
    fn part(&self, plan: &Plan, host: usize, at: Picos) -> BytesPerSec {
        let devices = plan.devices.iter().zip(&self.devices);
        let parts = devices.filter_map(|(device, qos)| {
            let qos = qos.as_ref()?;
            qos.hosts
                .contains(&host)
                .then(|| qos.part(&device.share_changes(), host, at))
        });
        let wires = (plan.line_rate(host) * 1e9) as u64;
        BytesPerSec(parts.sum::<u64>().min(wires))
    }
}

impl PlannedQos {
    /// A host's share of the device's bandwidth at time `at` after the workloads begin. Shares are in
    /// the proportion of the device's allocations to the hosts that reach it, or equal if it allocates
    /// nothing. A host without an allocation gets the smallest share if others have allocations.
    fn part(&self, changes: &[DeviceChange], host: usize, at: Picos) -> u64 {
        let mut shares = self.config.shares.clone();
        for change in changes.iter().take_while(|change| change.at <= at) {
            if let DeviceChangeKind::Share(share) = change.kind {
                shares.retain(|other| other.host != share.host);
                shares.push(share);
            }
        }
        let allocated = |host: usize| {
            let mut shares = shares.iter();
            let share = shares.find(|share| usize::from(share.host.0) == host);
            share.map_or(0, |share| u64::from(share.allocated)).max(1)
        };
        let sum: u64 = self.hosts.iter().map(|host| allocated(*host)).sum();
        self.bandwidth.0 / sum.max(1) * allocated(host)
    }
}

impl Plan {
    /// Name and description of telemetry and throttles, for reports. Neighbouring entries that
    /// are equal appear once.
    pub fn describe_qos(&self) -> Vec<(String, String)> {
        let devices = self.devices.iter().zip(&self.qos.devices);
        let telemetry = devices.filter_map(|(device, qos)| {
            let qos = qos.as_ref()?;
            Some((format!("load of {}", device.name), qos.to_string()))
        });
        let hosts = self.hosts.iter().zip(&self.qos.throttles);
        let throttles = hosts.filter_map(|(host, throttle)| {
            let throttle = &throttle.as_ref()?.params;
            let what = format!(
                "each {}: {:.3} GB/s faster, by {} or {} of 256 slower, {:.3} GB/s at least",
                throttle.period(),
                throttle.step().as_gb_per_s(),
                throttle.moderate_cut,
                throttle.severe_cut,
                throttle.least().as_gb_per_s(),
            );
            Some((format!("throttle of {}", host.name), what))
        });
        let mut rows: Vec<(String, String, usize)> = Vec::new();
        for (name, what) in telemetry.chain(throttles) {
            match rows.last_mut() {
                Some((_, last, more)) if *last == what => *more += 1,
                _ => rows.push((name, what, 0)),
            }
        }
        let rows = rows.into_iter().map(|(name, what, more)| match more {
            0 => (name, what),
            more => (name, format!("{what} (and {more} more)")),
        });
        rows.collect()
    }
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

/// Telemetry of a device, if it reports its load. `filled` caches the saturation of each group's
/// medium, with the port time for which it was measured.
fn resolve(
    plan: &Plan,
    number: usize,
    filled: &mut [Option<(u64, Saturation)>],
) -> Result<Option<PlannedQos>, Problem> {
    let device = &plan.devices[number];
    let Some(at) = device.memory() else {
        return Ok(None);
    };
    let group = &plan.scenario.devices[at];
    let Some(params) = &group.qos else {
        return Ok(None);
    };
    let own = |link: &&PlannedLink| {
        [link.a, link.b]
            .iter()
            .any(|end| matches!(end, End::Device(of, _) if *of == number))
    };
    let links = || plan.links.iter().filter(own).map(|link| &link.params);
    let rate: f64 = links().map(|link| 1.0 / link.line_ps()).sum();
    // A device without a link serves no requests.
    let port_ps = if rate > 0.0 { 1.0 / rate } else { 0.0 };
    let found = match filled[at] {
        Some((for_ps, found)) if for_ps == port_ps.to_bits() => found,
        _ => {
            let found = measure(plan, at, port_ps)?;
            filled[at] = Some((port_ps.to_bits(), found));
            found
        }
    };
    // A response is inside until its last flit has left, and starts up to a flit late.
    let sending =
        links().map(|link| 2 * link.unit_bytes() * 1_000_000_000_000 / link.rate().0.max(1));
    let sending = sending.max().unwrap_or(0) as f64;
    let full = found.inside + (sending / found.service_ps).ceil() as u32;
    let credits = links().map(|link| u32::from(link.credits_of(Channel::M2sReq)));
    let most = group.controller.contexts + credits.sum::<u32>();
    let spread = found.busy.saturating_sub(found.inside);
    let thresholds = params.thresholds(full, spread, most);
    for (field, found, below, limit) in [
        (
            "moderate",
            thresholds.moderate,
            "optimal",
            thresholds.optimal,
        ),
        ("severe", thresholds.severe, "moderate", thresholds.moderate),
    ] {
        if found <= limit {
            return Err(Problem::new(
                format!("devices[{at}].qos.{field}"),
                format!("found {found}; allowed: more than `{below}`, which is {limit} by default"),
            ));
        }
    }
    let shares = params.shares.iter().filter_map(|share| {
        let host = plan.hosts.iter().position(|host| host.name == share.host)?;
        Some(HostShare {
            host: PortId(host as u16),
            allocated: share.allocated,
            limit: share.limit,
        })
    });
    Ok(Some(PlannedQos {
        bandwidth: BytesPerSec((64e12 / found.service_ps) as u64),
        is_limited_by_ports: found.service_ps <= port_ps,
        full,
        hosts: Vec::new(),
        config: QosConfig {
            params: params.clone(),
            thresholds,
            edge_ports: plan.hosts.len() + plan.devices.len(),
            shares: shares.collect(),
        },
    }))
}

/// Measures the saturation of a group's medium when the ports take `port_ps` picoseconds a line.
fn measure(plan: &Plan, at: usize, port_ps: f64) -> Result<Saturation, Problem> {
    let group = &plan.scenario.devices[at];
    if !plan.media[at].files().is_empty() {
        // Making a plan never runs code from shared libraries.
        return Err(Problem::new(
            format!("devices[{at}].memory"),
            "found a medium in a shared library in a system with `qos`, which measures media before a run; \
             allowed: other media",
        ));
    }
    let fresh = || {
        plan.media[at].backend(MediumSite {
            capacity: group.capacity,
            rng: StreamRng::new(plan.scenario.seed, "qos/medium"),
            context: RunContext::default(),
        })
    };
    let mut rng = StreamRng::new(plan.scenario.seed, "qos/reads");
    let lines = (group.capacity.0 / LINE_BYTES).max(1);
    let reads: Vec<ProbeAccess> = (0..READS)
        .map(|_| ProbeAccess {
            dpa: Dpa(rng.below(lines) * LINE_BYTES),
            write: false,
        })
        .collect();
    fill(fresh, &reads, group.controller.contexts, port_ps).map_err(|error| {
        Problem::new(
            format!("devices[{at}].memory"),
            format!("{error}; allowed with `qos`: media that answer by themselves"),
        )
    })
}
