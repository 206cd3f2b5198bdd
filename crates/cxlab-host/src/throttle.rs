//! Throttling by QoS telemetry: a host issues no faster than the load that devices tell it allows (CXL
//! 3.1, section 3.3.4.2, tables 3-29 and 3-30: under light load reduce throttling, under optimal load change
//! nothing, under moderate overload throttle more, under severe overload throttle heavily).
//!
//! The host keeps the highest load that answers say in a period (LoadMax), and changes its rate by it when the period
//! ends: by an addition under light load, by a factor under overload. Overload counts at once when it is told first,
//! and again when it is told to be severe; a new period begins then, in which answers to what was in flight change
//! nothing. Additions and factors make hosts which share a device come to equal rates, unless it tells them different
//! loads (D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer
//! networks", Computer Networks and ISDN Systems 17, 1989). One throttle is for all devices of a host.

use cxlab_engine::units::{BytesPerSec, LINE_BYTES, Picos, SimTime};
use cxlab_protocol::DevLoad;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user says of throttling.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottleParams {
    /// The sampling period, of which the highest load counts: at least as long as a request takes, so that answers
    /// to what was in flight at a cut are not heeded. 10 ns to 1 ms. Default 1 us (*assumed*).
    pub period: Picos,
    /// How much faster after a period of light load. 1 MB/s to 1 TB/s. Default 100 MB/s (*assumed*).
    pub step: BytesPerSec,
    /// How much slower after a period of moderate overload, in 256ths. 1 to 255. Default 8
    /// (*assumed*).
    #[schemars(range(min = 1, max = 255))]
    pub moderate_cut: u16,
    /// How much slower after a period of severe overload, in 256ths. 1 to 255. Default 128
    /// (*assumed*).
    #[schemars(range(min = 1, max = 255))]
    pub severe_cut: u16,
    /// Never slower than that. 1 MB/s to 1 TB/s. Default 100 MB/s (*assumed*).
    pub least: BytesPerSec,
}

impl Default for ThrottleParams {
    fn default() -> Self {
        ThrottleParams {
            period: Picos::from_nanos(1000),
            step: BytesPerSec(100_000_000),
            moderate_cut: 8,
            severe_cut: 128,
            least: BytesPerSec(100_000_000),
        }
    }
}

/// From this rate on there is no throttle.
const FULL: u64 = 1_000_000_000_000;

/// What a throttle did, since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct ThrottleStats {
    /// How often the host went faster.
    pub faster: u64,
    /// How often it went slower.
    pub slower: u64,
    /// The rate allowed now; `None` without a throttle.
    pub rate: Option<BytesPerSec>,
}

/// The throttle of a host.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Throttle {
    params: ThrottleParams,
    /// Bytes a second allowed.
    rate: Option<u64>,
    /// The period: since when, answers, and the highest load.
    since: u64,
    answers: u64,
    most: DevLoad,
    /// The overload that the rate was cut for when it began, or light load.
    heeded: DevLoad,
    /// Bytes a second in the last whole period.
    used: u64,
    stats: ThrottleStats,
}

impl Throttle {
    pub(crate) fn new(params: ThrottleParams) -> Throttle {
        Throttle {
            params,
            rate: None,
            since: 0,
            answers: 0,
            most: DevLoad::Light,
            heeded: DevLoad::Light,
            used: 0,
            stats: ThrottleStats::default(),
        }
    }

    pub(crate) fn begin_measurement(&mut self) {
        self.stats = ThrottleStats::default();
    }

    pub(crate) fn stats(&self) -> ThrottleStats {
        ThrottleStats {
            rate: self.rate.map(BytesPerSec),
            ..self.stats
        }
    }

    /// A response has come that says this load; `counts` tells whether it is the one of its request that counts, where
    /// a request has two. Returns the least time between two issues from now on, in picoseconds,
    /// where that may have changed.
    pub(crate) fn note(&mut self, now: SimTime, load: DevLoad, counts: bool) -> Option<u64> {
        self.answers += u64::from(counts);
        self.most = self.most.max(load);
        let span = now.0 - self.since;
        let is_over = span >= self.params.period.0;
        let is_new = load >= DevLoad::Moderate && load > self.heeded;
        if !is_over && !is_new {
            return None;
        }
        if is_over || self.used == 0 {
            let bytes = u128::from(self.answers * LINE_BYTES) * 1_000_000_000_000;
            self.used = (bytes / u128::from(span.max(1))) as u64;
        }
        let heeded = if is_over { self.most } else { load };
        match heeded {
            DevLoad::Light => self.speed_up(),
            DevLoad::Optimal => {}
            DevLoad::Moderate => self.slow_down(self.params.moderate_cut),
            DevLoad::Severe => self.slow_down(self.params.severe_cut),
        }
        self.heeded = match heeded {
            DevLoad::Light | DevLoad::Optimal => DevLoad::Light,
            overload => overload,
        };
        (self.since, self.answers, self.most) = (now.0, 0, DevLoad::Light);
        let interval = |rate| {
            BytesPerSec(rate)
                .time_for(cxlab_engine::units::Bytes(LINE_BYTES))
                .0
        };
        Some(self.rate.map_or(0, interval))
    }

    /// Goes faster, unless the host uses less than half of what it may.
    fn speed_up(&mut self) {
        if let Some(rate) = self.rate
            && self.used.saturating_mul(2) >= rate
        {
            let faster = rate + self.params.step.0;
            self.rate = (faster < FULL).then_some(faster);
            self.stats.faster += 1;
        }
    }

    fn slow_down(&mut self, cut: u16) {
        let rate = self.rate.unwrap_or(self.used);
        let slower = rate / 256 * u64::from(256 - cut);
        self.rate = Some(slower.max(self.params.least.0));
        self.stats.slower += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What answers say every 100 ns from `from` on, in nanoseconds; the rate behind them.
    fn told(throttle: &mut Throttle, from: u64, loads: &[DevLoad]) -> u64 {
        for (at, load) in (from..).step_by(100).zip(loads) {
            throttle.note(SimTime(at * 1000), *load, true);
        }
        throttle.rate.unwrap_or(0) / 1000
    }

    #[test]
    fn overload_counts_at_once_and_then_the_highest_load_of_a_period() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        let mut own = Throttle::new(ThrottleParams::default());
        // Ten lines in 1 us are 640 MB/s.
        assert_eq!(told(&mut own, 100, &[Light; 10]), 0);
        assert_eq!(told(&mut own, 1100, &[Moderate]), 620_000);
        assert_eq!(told(&mut own, 1200, &[Moderate; 3]), 620_000, "the same");
        assert_eq!(told(&mut own, 1500, &[Severe]), 310_000, "it is worse");
        assert_eq!(told(&mut own, 1600, &[Severe, Light, Light]), 310_000);
        assert_eq!(
            told(&mut own, 2500, &[Light]),
            154_999,
            "once it was severe"
        );
        assert_eq!(told(&mut own, 2600, &[Severe]), 154_999, "in flight then");
        assert_eq!(told(&mut own, 3500, &[Light]), 100_000, "the least");
        assert_eq!(told(&mut own, 3600, &[Light; 9]), 100_000);
        assert_eq!(told(&mut own, 4500, &[Light]), 200_000);
        assert_eq!(told(&mut own, 4600, &[Optimal; 10]), 200_000);
        assert_eq!(
            told(&mut own, 5600, &[Moderate]),
            193_750,
            "overload is new again"
        );
    }

    #[test]
    fn who_does_not_use_its_rate_gets_no_more() {
        let mut throttle = Throttle::new(ThrottleParams::default());
        throttle.rate = Some(10_000_000_000);
        for answer in 1..100 {
            throttle.note(SimTime(answer * 100_000), DevLoad::Light, true);
        }
        assert_eq!(throttle.rate, Some(10_000_000_000));
        assert_eq!(
            throttle.stats(),
            ThrottleStats {
                rate: Some(BytesPerSec(10_000_000_000)),
                ..ThrottleStats::default()
            }
        );
    }
}
