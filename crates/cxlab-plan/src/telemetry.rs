//! Resolves the load telemetry and the throttles of a plan.
//!
//! The thresholds of a device follow from its bandwidth times the time that a request spends inside
//! without load. Both values are those of its medium, measured alone with random reads, or of its
//! ports if they give less. The step of a host's throttle follows from the host's share of the
//! devices that report their load to it.

use cxlab_analytic::{ProbeAccess, Saturation, fill};
use cxlab_device::{DeviceChange, DeviceChangeKind, HostShare, LoadThresholds, QosConfig};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{BytesPerSec, Dpa, LINE_BYTES, Picos};
use cxlab_memory::{MediumSite, RunContext};
use cxlab_protocol::{Channel, PortId};

use crate::endpoints::PlannedDevice;
use crate::links::{End, PlannedLink};
use crate::plan::Plan;
use crate::problem::{Problem, Problems};
use crate::qos::{PlannedQos, PlannedThrottle, Qos, has_telemetry};

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
        let mut problems = Problems::default();
        for number in 0..plan.devices.len() {
            match resolve(plan, number, &mut filled) {
                Ok(found) => qos.devices[number] = found,
                // All devices of a group have the same problem.
                Err(problem) => problems.push_once(problem),
            }
        }
        problems.into_result(())?;
        for (number, host) in plan.hosts.iter().enumerate() {
            for target in host.targets(plan.hosts.len()) {
                if let Some(device) = &mut qos.devices[target]
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
            let issue = plan.scenario.hosts[host.group].requester();
            let throttle = issue.and_then(|issue| issue.throttle.as_ref());
            let mut reached = qos.devices.iter().flatten();
            let is_told = reached.any(|device| device.hosts.contains(&number));
            qos.throttles[number] = throttle.filter(|_| is_told).map(|throttle| {
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
            let qos = qos.as_ref().filter(|qos| qos.hosts.contains(&host))?;
            Some(qos.part(&device.share_changes(), host, at))
        });
        let wires = (plan.host_gb_per_s(host) * 1e9) as u64;
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
    let is_it = |end: &End| matches!(end, End::Device(of, _) if *of == number);
    let own = |link: &&PlannedLink| [link.a, link.b].iter().any(is_it);
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
    let LoadThresholds {
        optimal,
        moderate,
        severe,
    } = thresholds;
    for (field, found, below, limit) in [
        ("moderate", moderate, "optimal", optimal),
        ("severe", severe, "moderate", moderate),
    ] {
        if found <= limit {
            let allowed = format_args!("more than `{below}`, which is {limit} by default");
            let path = format!("devices[{at}].qos.{field}");
            return Err(Problem::refused(path, found, allowed));
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
    if plan.media.devices[at].runs_code() {
        // Making a plan never runs code from shared libraries.
        return Err(Problem::refused(
            format!("devices[{at}].memory"),
            "a medium in a shared library in a system with `qos`, which measures media before a run",
            "other media",
        ));
    }
    let fresh = || {
        plan.media.devices[at].backend(MediumSite {
            capacity: group.capacity,
            rng: StreamRng::new(plan.scenario.seed, "qos/medium"),
            context: RunContext::default(),
        })
    };
    let mut rng = StreamRng::new(plan.scenario.seed, "qos/reads");
    let lines = (group.capacity.0 / LINE_BYTES).max(1);
    let reads = (0..READS).map(|_| ProbeAccess {
        dpa: Dpa(rng.below(lines) * LINE_BYTES),
        write: false,
    });
    let reads: Vec<ProbeAccess> = reads.collect();
    let found = fill(fresh, &reads, group.controller.contexts, port_ps);
    found.map_err(|error| {
        let message = format!("{error}; allowed with `qos`: media that answer by themselves");
        Problem::new(format!("devices[{at}].memory"), message)
    })
}
