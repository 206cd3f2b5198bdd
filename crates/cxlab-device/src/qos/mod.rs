//! QoS telemetry: a device reports its load in each response, and reports overload
//! earlier to a logical device that uses more than its share (CXL 3.1, section 3.3.4.3,
//! read in a public transcription).
//!
//! The internal load (IntLoad) is the number of requests inside: in the receive buffers, in the
//! medium, or on their way out. Egress port backpressure adds to it. The port is sampled at fixed
//! intervals; its congestion is the number of the last 100 samples in which messages were queued
//! and none had credits (sections 3.3.4.3.4 and 3.3.4.3.9). The larger of both is the internal load
//! in the tables below.
//!
//! A host's use is the number of its requests in the device (ReqCnt) plus the responses to it in
//! the last 16 intervals (CmpCnt). Its limit is a fraction of the responses that a device which is
//! never idle gives in these intervals (ReqCmpBasis). Its allocation is a fraction of the use of
//! all hosts. An allocation that is not fully used leaves a surplus, which is divided among the
//! hosts above their allocation, in proportion to their allocations. Limit and allocation turn the
//! internal load into the reported load.
//!
//! A multi-logical device (table 3-32):
//!
//! | internal load | over its limit | over its allocation | reported |
//! |---|---|---|---|
//! | light or optimal | no | any | the internal load |
//! | light or optimal | yes | any | moderate overload |
//! | moderate overload | no | no | optimal |
//! | moderate overload | no | yes | moderate overload |
//! | moderate overload | yes | any | moderate overload |
//! | severe overload | any | no | moderate overload |
//! | severe overload | any | yes | severe overload |
//!
//! A device of many hosts without allocations, such as a G-FAM device (table 3-33):
//!
//! | internal load | over its limit | reported |
//! |---|---|---|
//! | light or optimal | no | the internal load |
//! | light or optimal | yes | moderate overload |
//! | moderate overload | no | moderate overload |
//! | moderate overload | yes | severe overload |
//! | severe overload | any | severe overload |

mod params;

use cxlab_engine::units::{LINE_BYTES, SimTime};
use cxlab_link::{LinkPort, Outbox};
use cxlab_protocol::{DevLoad, PortId};
use serde::{Deserialize, Serialize};

pub use params::{HostShare, LoadThresholds, QosConfig, QosParams, ShareParams};

/// Number of intervals whose responses are counted (CmpCnt; CXL 3.1, section 3.3.4.3).
const HISTORY: u64 = 16;

/// Use of the device by one host, or by all hosts.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
struct DeviceUsage {
    /// Requests in the device (ReqCnt).
    requests: u64,
    /// Responses in each of the last intervals, and their sum (CmpCnt).
    answers: [u32; HISTORY as usize],
    sum: u64,
    /// Number of the newest interval.
    interval: u64,
}

impl DeviceUsage {
    /// Index of an interval in `answers`.
    fn slot(interval: u64) -> usize {
        (interval % HISTORY) as usize
    }

    /// Drops the intervals that are older than the history.
    fn advance(&mut self, interval: u64) {
        let ended = interval.saturating_sub(self.interval).min(HISTORY);
        for later in 1..=ended {
            let oldest = &mut self.answers[DeviceUsage::slot(self.interval + later)];
            self.sum -= u64::from(std::mem::take(oldest));
        }
        self.interval = self.interval.max(interval);
    }

    /// Counts a response in an interval.
    fn answer(&mut self, interval: u64) {
        self.advance(interval);
        self.requests = self.requests.saturating_sub(1);
        self.answers[DeviceUsage::slot(self.interval)] += 1;
        self.sum += 1;
    }

    /// Requests and responses (ReqCmpCnt).
    fn count(&self) -> u64 {
        self.requests + self.sum
    }
}

/// Use and share of a host.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
struct HostAccount {
    used: DeviceUsage,
    /// Allocation in 256ths.
    allocated: u64,
    /// Maximum use, in 256ths of a request or response.
    limit: Option<u64>,
}

/// Number of samples of an egress port that are kept (BPhist; CXL 3.1, section 3.3.4.3.4).
const SAMPLES: u32 = 100;

/// Backpressure of a port: whether messages waited for credits, at the last samples.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
struct Backpressure {
    /// One bit for each sample; the newest is the lowest bit.
    samples: u128,
    /// Number of the next sample.
    next: u64,
    /// Whether messages wait for credits now (FCBP).
    waits: bool,
}

impl Backpressure {
    /// Takes the samples up to `now`, between which nothing has changed.
    fn advance(&mut self, now: SimTime, interval: u64) {
        let next_sample = now.0.div_ceil(interval);
        let missed = next_sample
            .saturating_sub(self.next)
            .min(u64::from(SAMPLES)) as u32;
        let new_samples = match self.waits {
            true => (1 << missed) - 1,
            false => 0,
        };
        self.samples = self.samples << missed & ((1 << SAMPLES) - 1) | new_samples;
        self.next = self.next.max(next_sample);
    }
}

/// Egress port congestion of a device, if it is measured.
#[derive(Clone, Serialize, Deserialize, Debug)]
struct EgressCongestion {
    interval: u64,
    /// Numbers of samples from which the load is moderate and severe overload.
    steps: [u32; 2],
    ports: Vec<Backpressure>,
}

impl EgressCongestion {
    fn new(params: &QosParams, ports: usize) -> Option<EgressCongestion> {
        let interval = params.backpressure_sample_interval.0;
        let steps = [
            params.egress_moderate_percentage,
            params.egress_severe_percentage,
        ];
        (interval > 0).then(|| EgressCongestion {
            interval,
            steps: steps.map(u32::from),
            ports: vec![Backpressure::default(); ports],
        })
    }

    /// The load that the congestion of a port means.
    fn load(&mut self, now: SimTime, port: u16) -> DevLoad {
        let port = &mut self.ports[usize::from(port)];
        port.advance(now, self.interval);
        // Backpressure Average Percentage.
        let congested = port.samples.count_ones();
        match self.steps.map(|step| congested >= step) {
            [_, true] => DevLoad::Severe,
            [true, false] => DevLoad::Moderate,
            [false, false] => DevLoad::Light,
        }
    }
}

/// The state of a device's telemetry.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Telemetry {
    /// Numbers of requests inside from which the load is optimal, moderate and severe overload.
    steps: [u32; 3],
    /// Completion Collection Interval, in picoseconds.
    interval: u64,
    /// Responses of a device that is never idle (ReqCmpBasis).
    basis: u64,
    all: DeviceUsage,
    accounts: Vec<HostAccount>,
    /// Hosts with an allocation; other hosts neither leave nor receive a surplus.
    allocated: Vec<u16>,
    egress: Option<EgressCongestion>,
    /// Number of responses with each load since measurement began.
    pub(crate) reported: [u64; DevLoad::ALL.len()],
}

impl Telemetry {
    pub(crate) fn new(config: &QosConfig, ports: usize) -> Telemetry {
        let (params, thresholds) = (&config.params, &config.thresholds);
        let interval = params.completion_collection_interval.0.max(1);
        let basis = params.bandwidth.map_or(0, |rate| {
            let span = u128::from(interval * HISTORY);
            let bytes = u128::from(rate.0) * span / 1_000_000_000_000;
            bytes as u64 / LINE_BYTES
        });
        let mut telemetry = Telemetry {
            steps: [thresholds.optimal, thresholds.moderate, thresholds.severe],
            interval,
            basis,
            all: DeviceUsage::default(),
            accounts: vec![HostAccount::default(); config.edge_ports],
            allocated: Vec::new(),
            egress: EgressCongestion::new(params, ports),
            reported: [0; DevLoad::ALL.len()],
        };
        for share in &config.shares {
            telemetry.set_share(share);
        }
        telemetry
    }

    /// Sets the share of a host from now on (Set QoS Allocated BW, Set QoS BW Limit).
    pub(crate) fn set_share(&mut self, share: &HostShare) {
        let account = &mut self.accounts[share.host.0 as usize];
        account.allocated = share.allocated.into();
        account.limit = share.limit.map(|limit| self.basis * u64::from(limit));
        self.allocated.retain(|host| *host != share.host.0);
        if share.allocated > 0 {
            self.allocated.push(share.host.0);
        }
    }

    pub(crate) fn begin_measurement(&mut self) {
        self.reported = [0; DevLoad::ALL.len()];
    }

    /// Counts a host's request that has arrived in the device.
    #[inline]
    pub(crate) fn received(&mut self, host: PortId) {
        self.accounts[host.0 as usize].used.requests += 1;
        self.all.requests += 1;
    }

    /// Removes a host's request that was denied, whose response reports no load.
    pub(crate) fn denied(&mut self, host: PortId) {
        for used in [&mut self.accounts[host.0 as usize].used, &mut self.all] {
            used.requests = used.requests.saturating_sub(1);
        }
    }

    /// Forgets the requests inside when the device is removed.
    pub(crate) fn removed(&mut self) {
        let accounts = self.accounts.iter_mut().map(|account| &mut account.used);
        for used in accounts.chain([&mut self.all]) {
            used.requests = 0;
        }
    }

    /// Checks whether messages wait for credits at each port, in the ports' order. The device calls
    /// this after anything that may have changed it.
    pub(crate) fn check_backpressure<'a>(
        &mut self,
        now: SimTime,
        ports: impl Iterator<Item = (&'a LinkPort, &'a Outbox)>,
    ) {
        if self.egress.is_some() {
            for (number, (link, outbox)) in (0..).zip(ports) {
                self.backpressure(now, number, link.is_starved() && !outbox.is_empty());
            }
        }
    }

    /// Records whether messages at a port wait for credits from now on.
    fn backpressure(&mut self, now: SimTime, port: u16, waits: bool) {
        if let Some(egress) = &mut self.egress {
            let port = &mut egress.ports[usize::from(port)];
            port.advance(now, egress.interval);
            port.waits = waits;
        }
    }

    /// The load to report in a response to `host` through `port`, with `inside`
    /// requests in the device.
    pub(crate) fn answer(&mut self, now: SimTime, host: PortId, port: u16, inside: u32) -> DevLoad {
        let interval = now.0 / self.interval;
        self.all.answer(interval);
        self.accounts[host.0 as usize].used.answer(interval);
        let passed = self.steps.iter().filter(|step| inside >= **step).count();
        let egress = self
            .egress
            .as_mut()
            .map_or(DevLoad::Light, |egress| egress.load(now, port));
        let internal = DevLoad::ALL[passed.max(egress as usize)];
        let HostAccount { used, limit, .. } = self.accounts[host.0 as usize];
        let is_over_limit = limit.is_some_and(|limit| 256 * used.count() > limit);
        let reported = match self.allocated.is_empty() {
            true => of_many(internal, is_over_limit),
            false => of_logical(internal, is_over_limit, || {
                self.is_over_allocation(host, interval)
            }),
        };
        self.reported[reported as usize] += 1;
        reported
    }

    /// Whether a host uses more than its allocation and its part of the surplus.
    fn is_over_allocation(&mut self, host: PortId, interval: u64) -> bool {
        let total = self.all.count();
        let (mut claimed, mut surplus) = (0_u128, 0_u128);
        for host in &self.allocated {
            let account = &mut self.accounts[usize::from(*host)];
            account.used.advance(interval);
            let (used, allocated) = (256 * account.used.count(), account.allocated * total);
            match used > allocated {
                true => claimed += u128::from(allocated),
                false => surplus += u128::from(allocated - used),
            }
        }
        let account = &self.accounts[host.0 as usize];
        let used = u128::from(256 * account.used.count());
        let allocated = u128::from(account.allocated * total);
        // A host without allocation receives no surplus, so any use is above its allocation.
        // The specification has "more than" in the second comparison. With the whole device
        // allocated, a single host above its allocation would then be exactly at the bound,
        // and never above it.
        used > allocated && (claimed == 0 || used * claimed >= allocated * (claimed + surplus))
    }
}

/// Table 3-32: load reported to a logical device.
fn of_logical(
    internal: DevLoad,
    is_over_limit: bool,
    is_over_allocation: impl FnOnce() -> bool,
) -> DevLoad {
    use DevLoad::{Light, Moderate, Optimal, Severe};
    match (internal, is_over_limit) {
        (Light | Optimal, false) => internal,
        (Light | Optimal | Moderate, true) => Moderate,
        (Moderate, false) => match is_over_allocation() {
            true => Moderate,
            false => Optimal,
        },
        (Severe, _) => match is_over_allocation() {
            true => Severe,
            false => Moderate,
        },
    }
}

/// Table 3-33: load reported to a host of a device without allocations.
fn of_many(internal: DevLoad, is_over_limit: bool) -> DevLoad {
    use DevLoad::{Light, Moderate, Optimal, Severe};
    match (internal, is_over_limit) {
        (Light | Optimal, true) => Moderate,
        (Moderate, true) => Severe,
        (Light | Optimal | Moderate | Severe, _) => internal,
    }
}

#[cfg(test)]
mod tests {
    use cxlab_engine::units::{BytesPerSec, Picos};

    use super::*;

    fn share(host: u16, allocated: u16, limit: Option<u16>) -> HostShare {
        HostShare {
            host: PortId(host),
            allocated,
            limit,
        }
    }

    /// Three hosts at a device of 4 lines an interval. The first is allocated a quarter of the use;
    /// the second has a limit of half of the 64 lines of 16 intervals.
    fn telemetry(allocated: u16) -> Telemetry {
        let config = QosConfig {
            thresholds: LoadThresholds {
                optimal: 2,
                moderate: 4,
                severe: 6,
            },
            params: QosParams {
                completion_collection_interval: Picos(1000),
                bandwidth: Some(BytesPerSec(4 * 64 * 1_000_000_000)),
                backpressure_sample_interval: Picos(2_000),
                ..QosParams::default()
            },
            edge_ports: 3,
            shares: vec![share(0, allocated, None), share(1, 0, Some(128))],
        };
        Telemetry::new(&config, 2)
    }

    /// Sends requests of a host and responds to all of them at one time.
    fn serve(telemetry: &mut Telemetry, at: u64, host: u16, lines: u64) {
        for _ in 0..lines {
            telemetry.received(PortId(host));
        }
        for _ in 0..lines {
            telemetry.answer(SimTime(at), PortId(host), 0, 0);
        }
    }

    /// Load reported in the response to a new request of the second host.
    fn report(telemetry: &mut Telemetry, at: u64) -> DevLoad {
        telemetry.received(PortId(1));
        telemetry.answer(SimTime(at), PortId(1), 0, 0)
    }

    /// Load reported to each host with `inside` requests inside, after `lines`
    /// responses to each host.
    fn reported(allocated: u16, lines: [u64; 3], inside: u32) -> [DevLoad; 3] {
        let mut all = telemetry(allocated);
        for (host, lines) in lines.into_iter().enumerate() {
            serve(&mut all, 500, host as u16, lines - 1);
        }
        [0, 1, 2].map(|host| {
            let mut telemetry = all.clone();
            telemetry.received(PortId(host));
            telemetry.answer(SimTime(1500), PortId(host), 0, inside)
        })
    }

    /// Each row of table 3-32. A quarter of the 33 lines, including the reported one, is 8.25. No
    /// host claims the surplus of the first.
    #[test]
    fn a_logical_device_is_told_by_table_3_32() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        let internal = [(1, Light), (2, Optimal), (4, Moderate), (6, Severe)];
        let rows = [
            // Within its allocation, and above it.
            (0, [8, 24, 3], [Light, Optimal, Optimal, Moderate]),
            (0, [20, 12, 2], [Light, Optimal, Moderate, Severe]),
            // Above its limit of 32 lines, without an allocation.
            (1, [20, 33, 2], [Moderate, Moderate, Moderate, Severe]),
            (1, [20, 32, 2], [Light, Optimal, Moderate, Severe]),
        ];
        for (host, lines, expected) in rows {
            for ((inside, _), load) in internal.iter().zip(expected) {
                let found = reported(64, lines, *inside)[host];
                assert_eq!(found, load, "host {host} of {lines:?}, {inside} inside");
            }
        }
    }

    /// Severe overload of a host above its limit but within its allocation: the limit
    /// does not count (table 3-32).
    #[test]
    fn under_severe_overload_the_allocation_alone_counts() {
        let mut all = telemetry(64);
        all.set_share(&share(1, 192, Some(1)));
        serve(&mut all, 500, 1, 10);
        serve(&mut all, 500, 0, 10);
        all.received(PortId(1));
        assert_eq!(all.answer(SimTime(500), PortId(1), 0, 6), DevLoad::Moderate);
    }

    /// Each row of table 3-33.
    #[test]
    fn a_host_of_a_device_without_allocations_is_told_by_table_3_33() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        for (inside, within, over) in [
            (1, Light, Moderate),
            (2, Optimal, Moderate),
            (4, Moderate, Severe),
            (6, Severe, Severe),
        ] {
            assert_eq!(reported(0, [1, 32, 1], inside)[1], within, "{inside}");
            assert_eq!(reported(0, [1, 33, 1], inside)[1], over, "{inside}");
        }
    }

    /// The first host is allocated half of the use of all, the others a quarter each.
    #[test]
    fn who_uses_more_than_its_allocation_has_a_part_of_what_others_leave() {
        let over = |lines: [u64; 3]| {
            let mut all = telemetry(128);
            for host in [1, 2] {
                all.set_share(&share(host, 64, None));
            }
            for (host, lines) in lines.into_iter().enumerate() {
                serve(&mut all, 500, host as u16, lines);
            }
            [0, 1, 2].map(|host| all.is_over_allocation(PortId(host), 0))
        };
        // Of 64 lines 32, 16 and 16 are allocated. The first host leaves 24; each of two hosts
        // above their allocation gets 12.
        assert_eq!(over([8, 29, 27]), [false, true, false]);
        assert_eq!(over([8, 27, 29]), [false, false, true]);
        // A single host above its allocation uses the whole surplus.
        assert_eq!(over([8, 40, 16]), [false, true, false]);
        assert_eq!(over([32, 16, 16]), [false; 3]);
    }

    #[test]
    fn answers_are_forgotten_after_sixteen_intervals_and_requests_count_at_once() {
        let mut all = telemetry(64);
        serve(&mut all, 500, 1, 32);
        assert_eq!(report(&mut all, 600), DevLoad::Moderate, "33 of 32");
        assert_eq!(report(&mut all, 15_900), DevLoad::Moderate);
        assert_eq!(
            report(&mut all, 16_000),
            DevLoad::Light,
            "two are remembered"
        );
        for _ in 0..39 {
            all.received(PortId(1));
        }
        assert_eq!(report(&mut all, 17_000), DevLoad::Moderate);
        all.removed();
        assert_eq!(report(&mut all, 17_000), DevLoad::Light);
        assert_eq!(all.reported.iter().sum::<u64>(), 37);
    }

    #[test]
    fn a_share_that_is_set_counts_from_the_next_answer_on() {
        let mut all = telemetry(64);
        serve(&mut all, 500, 1, 32);
        assert_eq!(report(&mut all, 1500), DevLoad::Moderate);
        all.set_share(&share(1, 0, Some(160)));
        assert_eq!(report(&mut all, 1500), DevLoad::Light, "34 of 40");
        all.set_share(&share(1, 0, None));
        assert_eq!(report(&mut all, 1500), DevLoad::Light);
    }

    /// A sample counts if messages were waiting at its instant, of the last hundred samples. Each
    /// port has its own samples, and the load is the larger of the internal load and the port's.
    #[test]
    fn a_port_that_waits_for_credits_tells_overload_by_the_part_of_its_last_hundred_samples() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        let at = |sample: u64| SimTime(2_000 * sample);
        // `congested` of the last hundred samples have backpressure at the time of the response.
        for (congested, expected) in [
            (0, Light),
            (9, Light),
            (10, Moderate),
            (24, Moderate),
            (25, Severe),
            (100, Severe),
        ] {
            let mut all = telemetry(0);
            all.backpressure(at(1000), 0, true);
            all.backpressure(at(1000 + congested), 0, false);
            let mut reported =
                |sample, port, inside| all.answer(at(sample), PortId(2), port, inside);
            assert_eq!(reported(1000 + congested, 0, 1), expected, "{congested}");
            assert_eq!(reported(1000 + congested, 1, 1), Light, "the other port");
            // The samples expire one by one.
            let kept = 1000 + congested + 100 - congested.min(100);
            assert_eq!(reported(kept, 0, 1), expected, "{congested}");
            assert_eq!(
                reported(1000 + congested + 100, 0, 2),
                Optimal,
                "{congested}"
            );
        }
        let mut brief = telemetry(0);
        for sample in 0..100 {
            // Backpressure between two samples is not seen.
            brief.backpressure(SimTime(2_000 * sample + 1), 0, true);
            brief.backpressure(SimTime(2_000 * sample + 1_999), 0, false);
        }
        assert_eq!(brief.answer(at(100), PortId(2), 0, 1), Light);
    }
}
