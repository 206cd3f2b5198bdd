//! Throttling by QoS telemetry: a host issues no faster than the load that devices tell it allows (CXL
//! 3.1, section 3.3.4, *recollection*: under light load reduce throttling, under optimal load change
//! nothing, under moderate overload throttle more, under severe overload throttle heavily).
//!
//! The host averages what answers say over a period, then changes its rate: by an addition under light
//! load, by a factor under overload. That is what makes hosts which share a device come to
//! equal rates, unless it tells them different loads (D. Chiu, R. Jain, "Analysis of the increase and
//! decrease algorithms for congestion avoidance in computer networks", Computer Networks and ISDN
//! Systems 17, 1989). One throttle is for all devices of a host.

use cxlab_engine::units::{BytesPerSec, LINE_BYTES, Picos, SimTime};
use cxlab_protocol::DevLoad;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user says of throttling.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottleParams {
    /// Time between two changes of the rate, at least, over which loads are averaged. 10 ns to 1 ms.
    /// Default 1 us (*assumed*).
    pub period: Picos,
    /// How much faster after a period of light load. 1 MB/s to 1 TB/s. Default 100 MB/s (*assumed*).
    pub step: BytesPerSec,
    /// How much slower after a period of moderate overload, in 256ths. 1 to 255. Default 16
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
            moderate_cut: 16,
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
    /// Periods after which the host went faster.
    pub faster: u64,
    /// Periods after which it went slower.
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
    /// The period: since when, answers, and the sum of their loads.
    since: u64,
    answers: u64,
    loads: u64,
    stats: ThrottleStats,
}

impl Throttle {
    pub(crate) fn new(params: ThrottleParams) -> Throttle {
        Throttle {
            params,
            rate: None,
            since: 0,
            answers: 0,
            loads: 0,
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

    /// An answer has come that says this. Returns the least time between two issues from now on,
    /// in picoseconds, when a period is over.
    pub(crate) fn note(&mut self, now: SimTime, load: DevLoad) -> Option<u64> {
        self.answers += 1;
        self.loads += load as u64;
        let span = now.0 - self.since;
        if span < self.params.period.0 {
            return None;
        }
        // Rounded.
        let mean = (2 * self.loads + self.answers) / (2 * self.answers);
        let bytes = u128::from(self.answers * LINE_BYTES) * 1_000_000_000_000;
        let used = (bytes / u128::from(span)) as u64;
        match DevLoad::ALL[mean as usize] {
            DevLoad::Light => self.speed_up(used),
            DevLoad::Optimal => {}
            DevLoad::Moderate => self.slow_down(used, self.params.moderate_cut),
            DevLoad::Severe => self.slow_down(used, self.params.severe_cut),
        }
        (self.since, self.answers, self.loads) = (now.0, 0, 0);
        let interval = |rate| {
            BytesPerSec(rate)
                .time_for(cxlab_engine::units::Bytes(LINE_BYTES))
                .0
        };
        Some(self.rate.map_or(0, interval))
    }

    /// Goes faster, unless the host uses less than half of what it may.
    fn speed_up(&mut self, used: u64) {
        if let Some(rate) = self.rate
            && used.saturating_mul(2) >= rate
        {
            let faster = rate + self.params.step.0;
            self.rate = (faster < FULL).then_some(faster);
            self.stats.faster += 1;
        }
    }

    fn slow_down(&mut self, used: u64, cut: u16) {
        let rate = self.rate.unwrap_or(used);
        let slower = rate / 256 * u64::from(256 - cut);
        self.rate = Some(slower.max(self.params.least.0));
        self.stats.slower += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A throttle after periods in each of which ten answers came with these loads; the rates.
    fn rates(loads: &[DevLoad]) -> Vec<Option<u64>> {
        let mut throttle = Throttle::new(ThrottleParams::default());
        let mut now = 0;
        let period = |load: &DevLoad| {
            for _ in 0..10 {
                now += 100_000;
                throttle.note(SimTime(now), *load);
            }
            throttle.rate
        };
        loads.iter().map(period).collect()
    }

    #[test]
    fn a_rate_falls_by_a_factor_and_grows_by_a_step() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        // Ten lines in 1 us are 640 MB/s.
        let found = rates(&[
            Light, Optimal, Moderate, Light, Optimal, Severe, Severe, Severe,
        ]);
        let expected = [
            None,
            None,
            Some(600_000_000),
            Some(700_000_000),
            Some(700_000_000),
            Some(349_999_872 + 128),
            Some(175_000_000),
            Some(100_000_000),
        ];
        for (found, expected) in found.into_iter().zip(expected) {
            let (found, expected) = (found.unwrap_or(0), expected.unwrap_or(0));
            assert!(found.abs_diff(expected) <= 256, "{found} {expected}");
        }
    }

    #[test]
    fn who_does_not_use_its_rate_gets_no_more() {
        let mut throttle = Throttle::new(ThrottleParams::default());
        throttle.rate = Some(10_000_000_000);
        for answer in 1..100 {
            throttle.note(SimTime(answer * 100_000), DevLoad::Light);
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
