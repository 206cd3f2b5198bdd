//! Throttling by QoS telemetry: a host issues no faster than the load that devices report allows. CXL 3.1
//! (section 3.3.4.2, tables 3-29 and 3-30) gives the direction for each load; how far is left to the host.
//!
//! The host records the highest load that responses report in a period (LoadMax), and changes its
//! rate when the period ends:
//!
//! - optimal load: the rate grows by a step, so that a host which has less than others gets its share;
//! - light load: the rate grows as well, and the step doubles with each further period of light load up to
//!   the rate of the last overload, and with each eighth such period beyond;
//! - overload: the rate falls by a factor.
//!
//! Overload counts at once when it is first reported, and again when it becomes severe. A new period begins
//! then, in which responses to requests that were in flight change nothing.
//!
//! Additions and factors bring hosts that see the same loads to rates in the proportion of their steps (D.
//! Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer
//! networks", Computer Networks and ISDN Systems 17, 1989). In balance the steps of all periods make up for
//! the factors. The difference between two hosts therefore shrinks in each period by the ratio of the step
//! to the rate of a host.
//!
//! A host has one throttle for all its devices.

use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos, SimTime};
use cxlab_protocol::DevLoad;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of throttling in a scenario.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottleParams {
    /// Sampling period, of which the highest load counts. It should be at least as long as a request takes,
    /// so that responses to requests that were in flight at a cut are ignored. 10 ns to 1 ms. Default 1 us
    /// (*assumed*), and at least the time of 16 lines (*assumed*) at the rate of the host's share of its
    /// devices: fewer responses would show each host different loads by chance.
    pub period: Option<Picos>,
    /// Increase of the rate after a period of optimal load, and the first rate. 1 MB/s to 1 TB/s. Default:
    /// a 12th (*assumed*) of the host's share of the devices that report their load. Its share of a device
    /// is what the device allocates to it, or an equal part for each host that reaches the device.
    pub step: Option<BytesPerSec>,
    /// Decrease of the rate after a period of moderate overload, in 256ths. 1 to 255.
    /// Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 255))]
    pub moderate_cut: u16,
    /// Decrease of the rate after a period of severe overload, in 256ths. 1 to 255. Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 255))]
    pub severe_cut: u16,
    /// Lowest rate. 1 MB/s to 1 TB/s. Default: `step`.
    pub least: Option<BytesPerSec>,
}

impl Default for ThrottleParams {
    fn default() -> Self {
        ThrottleParams {
            period: None,
            step: None,
            moderate_cut: 16,
            severe_cut: 64,
            least: None,
        }
    }
}

/// The default step is the host's share of its devices divided by this number. With a step of `s` of
/// the rate and a cut of `c` of it, periods of growth and of cuts are in balance as `c` to `s`. A
/// difference between hosts then shrinks by `c s / (c + s)` a period: with the defaults by a 28th,
/// to a 20th in 84 periods.
const STEPS: u64 = 12;
/// Lower bounds of the default period: a time, and the time of a number of lines.
const PERIOD: Picos = Picos::from_nanos(1000);
const LINES: u64 = 16;
/// Longest period that a scenario may give.
const LONGEST: Picos = Picos::from_nanos(1_000_000);
/// Lowest step and lowest rate that a scenario may give.
const LOWEST: BytesPerSec = BytesPerSec(1_000_000);

impl ThrottleParams {
    /// Sets the step and the period that follow from a host's share of its devices, unless
    /// the scenario gives them.
    #[must_use]
    pub fn with_part(mut self, part: BytesPerSec) -> ThrottleParams {
        let step = BytesPerSec(part.0 / STEPS).clamp(LOWEST, BytesPerSec(FULL));
        self.step.get_or_insert(step);
        let lines = part.time_for(Bytes(LINES * LINE_BYTES));
        self.period.get_or_insert(lines.clamp(PERIOD, LONGEST));
        self
    }

    /// The sampling period: the scenario's or the default.
    pub fn period(&self) -> Picos {
        self.period.unwrap_or(PERIOD)
    }

    /// The step: the scenario's or the default.
    pub fn step(&self) -> BytesPerSec {
        self.step.unwrap_or(LOWEST)
    }

    /// The lowest rate.
    pub fn least(&self) -> BytesPerSec {
        self.least.unwrap_or(self.step())
    }
}

/// From this rate on, in bytes per second, the host is not throttled (*assumed*: no host issues so fast).
const FULL: u64 = 1_000_000_000_000;
/// Most doublings of the step in a row: the lowest step is then a million times as large, [`FULL`].
const DOUBLINGS: u32 = 20;
/// Above the rate of the last overload, the step doubles after this many periods of light load (*assumed*).
/// A request may take several periods, and until its response comes the load seems light.
const SLOWLY: u32 = 8;
/// A throttle may have limited a host that issued at least this many tenths of what its rate allowed (*assumed*).
const NEARLY_ALL: u64 = 9;

/// Statistics of a throttle since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct ThrottleStats {
    /// Number of times that the rate grew.
    pub faster: u64,
    /// Number of times that the rate was cut.
    pub slower: u64,
    /// Number of sampling periods.
    pub periods: u64,
    /// Periods in which the host issued nearly all that its rate allowed, so that the
    /// throttle may have limited it.
    pub held: u64,
    /// Current rate; `None` if the host is not limited.
    pub rate: Option<BytesPerSec>,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Throttle {
    params: ThrottleParams,
    /// Bytes per second added in a period of optimal load.
    step: u64,
    /// Future steps, each with its start after the workloads begin, in descending order of time.
    steps: Vec<(Picos, BytesPerSec)>,
    /// When the workloads began.
    begun: SimTime,
    /// Allowed bytes per second.
    rate: u64,
    /// The current period: its start, the number of lines issued before it, and its highest load.
    since: u64,
    issued: u64,
    most: DevLoad,
    /// The overload for which the rate was cut when the period began, or light load.
    overload: DevLoad,
    /// Number of periods of light load in a row.
    light_periods: u32,
    /// Rate at the last overload, in bytes per second.
    overloaded: u64,
    stats: ThrottleStats,
}

impl Throttle {
    /// A throttle that starts with the step of `params`, and uses those of `steps` later, in order of time.
    pub(crate) fn new(params: ThrottleParams, mut steps: Vec<(Picos, BytesPerSec)>) -> Throttle {
        steps.reverse();
        Throttle {
            step: params.step().0,
            steps,
            begun: SimTime::ZERO,
            rate: params.step().max(params.least()).0,
            params,
            since: 0,
            issued: 0,
            most: DevLoad::Light,
            overload: DevLoad::Light,
            light_periods: 0,
            overloaded: FULL,
            stats: ThrottleStats::default(),
        }
    }

    pub(crate) fn begin(&mut self, now: SimTime) {
        self.begun = now;
    }

    pub(crate) fn begin_measurement(&mut self) {
        self.stats = ThrottleStats::default();
    }

    pub(crate) fn stats(&self) -> ThrottleStats {
        ThrottleStats {
            rate: (self.rate < FULL).then_some(BytesPerSec(self.rate)),
            ..self.stats
        }
    }

    /// Least time between two issues, in picoseconds.
    pub(crate) fn interval(&self) -> u64 {
        match self.rate < FULL {
            true => BytesPerSec(self.rate).time_for(Bytes(LINE_BYTES)).0,
            false => 0,
        }
    }

    /// Accounts for a response that reports `load`. `issued` is the number of lines that the
    /// host has issued so far. Returns the new least time between two issues, in picoseconds,
    /// if it may have changed.
    pub(crate) fn observe(&mut self, now: SimTime, load: DevLoad, issued: u64) -> Option<u64> {
        self.most = self.most.max(load);
        let span = now.0 - self.since;
        let is_over = span >= self.params.period().0;
        let is_new = load >= DevLoad::Moderate && load > self.overload;
        if !is_over && !is_new {
            return None;
        }
        let period_load = if is_over { self.most } else { load };
        let bytes = u128::from((issued - self.issued) * LINE_BYTES) * 1_000_000_000_000;
        let used = (bytes / u128::from(span.max(1))).min(u128::from(FULL)) as u64;
        self.stats.periods += 1;
        self.stats.held += u64::from(used >= self.rate / 10 * NEARLY_ALL);
        while let Some((_, step)) = self.steps.pop_if(|(start, _)| self.begun + *start <= now) {
            self.step = step.0;
        }
        let light_periods = std::mem::take(&mut self.light_periods);
        match period_load {
            DevLoad::Light => {
                self.light_periods = (light_periods + 1).min(DOUBLINGS);
                let doublings = match self.rate < self.overloaded {
                    true => light_periods,
                    false => light_periods / SLOWLY,
                };
                self.speed_up(doublings, used);
            }
            DevLoad::Optimal => self.speed_up(0, used),
            DevLoad::Moderate => self.slow_down(self.params.moderate_cut),
            DevLoad::Severe => self.slow_down(self.params.severe_cut),
        }
        self.overload = match period_load {
            DevLoad::Light | DevLoad::Optimal => DevLoad::Light,
            overload => overload,
        };
        (self.since, self.issued, self.most) = (now.0, issued, DevLoad::Light);
        Some(self.interval())
    }

    /// Raises the rate by the step, doubled `doublings` times. The new rate is at most
    /// twice the rate in use.
    fn speed_up(&mut self, doublings: u32, used: u64) {
        let faster = self.rate + (self.step << doublings);
        let faster = faster.min(2 * used).min(FULL);
        if faster > self.rate {
            self.rate = faster;
            self.stats.faster += 1;
        }
    }

    fn slow_down(&mut self, cut: u16) {
        self.overloaded = self.rate;
        let slower = self.rate / 256 * u64::from(256 - cut);
        self.rate = slower.max(self.params.least().0);
        self.stats.slower += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn throttle() -> Throttle {
        let params = ThrottleParams {
            step: Some(BytesPerSec(100 * MB)),
            severe_cut: 128,
            ..ThrottleParams::default()
        };
        Throttle::new(params, vec![(Picos(100_000_000), BytesPerSec(300 * MB))])
    }

    /// Reports loads every 100 ns from `from` on, in nanoseconds, to a host that issues all that it may.
    /// Returns the rate afterwards, in MB/s.
    fn rate_after(throttle: &mut Throttle, from: u64, loads: &[DevLoad]) -> u64 {
        for (time, load) in (from..).step_by(100).zip(loads) {
            let issued = throttle.issued + 1_000_000;
            throttle.observe(SimTime(time * 1000), *load, issued);
        }
        throttle.rate / MB
    }

    #[test]
    fn overload_counts_at_once_and_then_the_highest_load_of_a_period() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        let mut throttle = throttle();
        throttle.rate = 1280 * MB;
        assert_eq!(
            rate_after(&mut throttle, 100, &[Light; 9]),
            1280,
            "the period lasts"
        );
        assert_eq!(rate_after(&mut throttle, 950, &[Moderate]), 1200);
        assert_eq!(
            rate_after(&mut throttle, 1000, &[Moderate; 3]),
            1200,
            "the same"
        );
        assert_eq!(
            rate_after(&mut throttle, 1500, &[Severe]),
            600,
            "it is worse"
        );
        assert_eq!(
            rate_after(&mut throttle, 1600, &[Severe, Light, Light]),
            600
        );
        assert_eq!(
            rate_after(&mut throttle, 2500, &[Light]),
            300,
            "once it was severe"
        );
        assert_eq!(
            rate_after(&mut throttle, 2600, &[Severe]),
            300,
            "in flight then"
        );
        assert_eq!(rate_after(&mut throttle, 3500, &[Light]), 150);
        assert_eq!(
            rate_after(&mut throttle, 3600, &[Severe]),
            150,
            "in flight then"
        );
        assert_eq!(rate_after(&mut throttle, 4500, &[Light]), 100, "the least");
        assert_eq!(rate_after(&mut throttle, 5500, &[Optimal]), 200);
        assert_eq!(
            rate_after(&mut throttle, 5600, &[Moderate]),
            187,
            "it is new again"
        );
    }

    #[test]
    fn the_step_doubles_with_each_period_of_light_load_and_not_under_optimal_load() {
        use DevLoad::{Light, Optimal};
        let mut throttle = throttle();
        let rates = [Light, Light, Light, Optimal, Optimal, Light, Light];
        let mut at = 0;
        let found = rates.map(|load| {
            at += 1000;
            rate_after(&mut throttle, at, &[load])
        });
        assert_eq!(found, [200, 400, 800, 900, 1000, 1100, 1300]);
        // Overload at 1300 leaves 650; from 1350 on the step doubles at the eighth period.
        assert_eq!(rate_after(&mut throttle, 7_500, &[DevLoad::Severe]), 650);
        throttle.steps.clear();
        let found = [(); 10].map(|()| {
            at += 1000;
            rate_after(&mut throttle, at + 1000, &[Light])
        });
        let expected = [750, 950, 1350, 1450, 1550, 1650, 1750, 1850, 2050, 2250];
        assert_eq!(found, expected);
    }

    /// Two hosts see the same loads. The first has the whole rate, and the second starts
    /// late and gets its share.
    #[test]
    fn a_late_host_comes_to_the_part_of_its_steps_within_a_hundred_periods() {
        for weight in [1, 3] {
            let of = |step: u64, rate: u64| {
                let mut throttle = throttle();
                throttle.step = step * MB;
                throttle.steps.clear();
                throttle.rate = rate * MB;
                throttle
            };
            // The first host has the whole rate: 12 steps per host.
            let mut hosts = [of(100, 1200 * (1 + weight)), of(100 * weight, 0)];
            for period in 1..=100 {
                let sum: u64 = hosts.iter().map(|host| host.rate / MB).sum();
                let load = match sum > 1200 * (1 + weight) {
                    true => DevLoad::Moderate,
                    false => DevLoad::Optimal,
                };
                for host in &mut hosts {
                    rate_after(host, period * 1000, &[load]);
                }
            }
            let [first, second] = hosts.map(|host| host.rate as f64);
            let part = (first + second) / (1 + weight) as f64;
            let late = second / part / weight as f64;
            assert!((0.95..1.05).contains(&late), "{weight}: {late}");
        }
    }

    #[test]
    fn step_and_period_follow_from_a_hosts_part_unless_they_are_given() {
        let of = |params: ThrottleParams, part| {
            let params = params.with_part(BytesPerSec(part));
            (params.step().0, params.period().0, params.least().0)
        };
        let free = ThrottleParams::default();
        assert_eq!(
            of(free.clone(), 12_000 * MB),
            (1000 * MB, 1_000_000, 1000 * MB)
        );
        // 16 lines of 64 B at 0.24 GB/s.
        assert_eq!(of(free.clone(), 240 * MB), (20 * MB, 4_266_667, 20 * MB));
        assert_eq!(of(free, 1), (MB, 1_000_000_000, MB));
        let given = ThrottleParams {
            period: Some(Picos(2)),
            step: Some(BytesPerSec(3)),
            least: Some(BytesPerSec(1)),
            ..ThrottleParams::default()
        };
        assert_eq!(of(given, 12_000 * MB), (3, 2, 1));
    }

    #[test]
    fn the_step_changes_at_its_time_after_the_workloads_begin() {
        let mut throttle = throttle();
        throttle.begin(SimTime(5_000_000));
        throttle.rate = 1000 * MB;
        assert_eq!(
            rate_after(&mut throttle, 104_000, &[DevLoad::Optimal]),
            1100
        );
        assert_eq!(
            rate_after(&mut throttle, 105_000, &[DevLoad::Optimal]),
            1400
        );
        assert_eq!(
            rate_after(&mut throttle, 106_000, &[DevLoad::Optimal]),
            1700
        );
    }

    #[test]
    fn a_host_that_does_not_use_its_rate_gets_no_more() {
        let mut throttle = throttle();
        throttle.rate = 10_000 * MB;
        for period in 1..100 {
            // 3.2 GB/s.
            throttle.observe(SimTime(period * 1_000_000), DevLoad::Light, period * 50);
        }
        assert_eq!(
            throttle.stats(),
            ThrottleStats {
                rate: Some(BytesPerSec(10_000 * MB)),
                periods: 99,
                ..ThrottleStats::default()
            }
        );
    }
}
