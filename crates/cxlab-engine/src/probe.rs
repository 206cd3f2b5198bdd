//! Probes, with which components measure. They count in integers, so results can be compared exactly.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::units::Picos;

/// The distribution of a latency: exact count, sum, minimum and maximum, and quantiles to within 0.1 %
/// or 128 ps.
///
/// The histogram has three significant digits above 262 ns (HDR histogram), and steps of 128 ps below.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(from = "SavedProbe", into = "SavedProbe")]
pub struct LatencyProbe {
    histogram: Histogram<u32>,
    sum: u128,
    min: u64,
    max: u64,
    count: u64,
}

/// The saved form of a distribution: the counts that are not zero, each with a value of its bucket.
#[derive(Serialize, Deserialize)]
struct SavedProbe {
    counts: Vec<(u64, u32)>,
    sum: u128,
    min: u64,
    max: u64,
    count: u64,
}

impl From<LatencyProbe> for SavedProbe {
    fn from(probe: LatencyProbe) -> SavedProbe {
        let LatencyProbe {
            histogram,
            sum,
            min,
            max,
            count,
        } = probe;
        let recorded = histogram.iter_recorded();
        SavedProbe {
            counts: recorded
                .map(|one| (one.value_iterated_to(), one.count_at_value()))
                .collect(),
            sum,
            min,
            max,
            count,
        }
    }
}

impl From<SavedProbe> for LatencyProbe {
    fn from(saved: SavedProbe) -> LatencyProbe {
        let mut histogram = new_histogram();
        for (steps, count) in saved.counts {
            if histogram.record_n(steps, count).is_err() {
                unreachable!("an auto-resizing histogram takes every value");
            }
        }
        LatencyProbe {
            histogram,
            sum: saved.sum,
            min: saved.min,
            max: saved.max,
            count: saved.count,
        }
    }
}

/// The unit of the histogram, as a power of two of picoseconds: 128 ps.
const STEP_SHIFT: u32 = 7;

impl Default for LatencyProbe {
    fn default() -> Self {
        LatencyProbe {
            histogram: new_histogram(),
            sum: 0,
            min: u64::MAX,
            max: 0,
            count: 0,
        }
    }
}

fn new_histogram() -> Histogram<u32> {
    match Histogram::new(3) {
        Ok(mut histogram) => {
            histogram.auto(true);
            histogram
        }
        Err(_) => unreachable!("three significant digits are allowed"),
    }
}

impl LatencyProbe {
    /// Adds one span.
    #[inline]
    pub fn record(&mut self, span: Picos) {
        if self.histogram.record(span.0 >> STEP_SHIFT).is_err() {
            unreachable!("an auto-resizing histogram takes every value");
        }
        self.sum += u128::from(span.0);
        self.min = self.min.min(span.0);
        self.max = self.max.max(span.0);
        self.count += 1;
    }

    /// Adds all spans of another probe.
    pub fn merge(&mut self, other: &LatencyProbe) {
        if self.histogram.add(&other.histogram).is_err() {
            unreachable!("an auto-resizing histogram takes every other one");
        }
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.count += other.count;
    }

    /// Number of spans.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the spans, in picoseconds.
    pub fn sum_ps(&self) -> u128 {
        self.sum
    }

    /// The mean span in nanoseconds; zero when there are none.
    pub fn mean_ns(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64 / 1e3
    }

    /// An upper bound of the span at a quantile from 0 to 1, in nanoseconds; zero when there are no
    /// spans. The bound is at most 0.1 % or 128 ps above the span, and never outside minimum and maximum.
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let steps = self.histogram.value_at_quantile(quantile);
        let picos = (steps << STEP_SHIFT).saturating_add((1 << STEP_SHIFT) - 1);
        picos.clamp(self.min, self.max) as f64 / 1e3
    }

    /// The longest span in nanoseconds; zero when there are none.
    pub fn max_ns(&self) -> f64 {
        self.max as f64 / 1e3
    }

    /// The shortest span in nanoseconds; zero when there are none.
    pub fn min_ns(&self) -> f64 {
        let min = if self.count == 0 { 0 } else { self.min };
        min as f64 / 1e3
    }

    /// The distribution for a picture: `bins` bins of equal logarithmic width between minimum and
    /// maximum, each as its upper bound in nanoseconds and its count. Empty when there are no spans.
    pub fn bins(&self, bins: usize) -> Vec<(f64, u64)> {
        if self.count == 0 || bins == 0 {
            return Vec::new();
        }
        let (low, high) = (
            libm::log(self.min_ns().max(0.1)),
            libm::log(self.max_ns().max(0.2)),
        );
        let width = ((high - low) / bins as f64).max(1e-9);
        let mut counts = vec![0u64; bins];
        for value in self.histogram.iter_recorded() {
            let nanos = ((value.value_iterated_to() << STEP_SHIFT) as f64 / 1e3).max(0.1);
            let bin = (((libm::log(nanos) - low) / width).max(0.0) as usize).min(bins - 1);
            counts[bin] += value.count_since_last_iteration();
        }
        counts
            .into_iter()
            .enumerate()
            .map(|(bin, count)| (libm::exp(low + width * (bin + 1) as f64), count))
            .collect()
    }
}

/// The distribution of waits at one place: exact count, sum and maximum, and counts in bins that are an
/// eighth of a power of two wide.
///
/// The probe takes memory for the bins up to the longest wait: at most about 2 KiB.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct WaitProbe {
    count: u64,
    sum: u128,
    max: u64,
    bins: Vec<u32>,
}

impl WaitProbe {
    /// Number of bins for each power of two, as a power of two.
    const SPLIT: u32 = 3;

    /// Adds one wait, in picoseconds.
    #[inline]
    pub fn record(&mut self, picos: u64) {
        let bin = Self::bin(picos);
        if bin >= self.bins.len() {
            self.grow(bin);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.sum += u128::from(picos);
        self.max = self.max.max(picos);
    }

    #[cold]
    fn grow(&mut self, bin: usize) {
        self.bins.resize(bin + 1, 0);
    }

    #[inline]
    fn bin(picos: u64) -> usize {
        let power = (picos | 1).ilog2().max(Self::SPLIT);
        let shift = power - Self::SPLIT;
        ((shift << Self::SPLIT) as usize) + (picos >> shift) as usize
    }

    /// The longest wait that a bin counts, in picoseconds.
    fn longest(bin: usize) -> u64 {
        let (bin, split) = (bin as u64, 1 << Self::SPLIT);
        let shift = (bin / split).saturating_sub(1);
        ((bin - shift * split + 1) << shift) - 1
    }

    /// Adds all waits of another probe.
    pub fn merge(&mut self, other: &WaitProbe) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (sum, count) in self.bins.iter_mut().zip(&other.bins) {
            *sum += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the waits, in picoseconds.
    pub fn sum_ps(&self) -> u128 {
        self.sum
    }

    /// The longest wait, in picoseconds.
    pub fn max_ps(&self) -> u64 {
        self.max
    }

    /// An upper bound of the wait at a quantile (0 to 1) of `all` passages, in picoseconds. Passages
    /// without a recorded wait count as waits of zero. The bound is at most an eighth above the wait, and
    /// never above the longest wait.
    pub fn quantile_ps(&self, quantile: f64, all: u64) -> u64 {
        let all = all.max(self.count);
        let rank = libm::ceil(quantile * all as f64) as u64;
        let mut below = all - self.count;
        if rank <= below {
            return 0;
        }
        for (bin, count) in self.bins.iter().enumerate() {
            below += u64::from(*count);
            if rank <= below {
                return Self::longest(bin).min(self.max);
            }
        }
        self.max
    }
}

/// The integral over time of a level, such as requests in flight or the length of a queue. Its unit is
/// that of the level times picoseconds; divided by a span it is the mean level.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct LevelIntegral {
    level: u64,
    since: u64,
    integral: u128,
}

impl LevelIntegral {
    /// Sets the level from time `now` on, in picoseconds. Times must not decrease.
    #[inline]
    pub fn set(&mut self, now: u64, level: u64) {
        self.integral += u128::from(self.level) * u128::from(now - self.since);
        self.since = now;
        self.level = level;
    }

    /// The integral from time zero to `now`, which must not be before the last change of the level.
    pub fn at(&self, now: u64) -> u128 {
        self.integral + u128::from(self.level) * u128::from(now.saturating_sub(self.since))
    }

    /// The level since the last change.
    pub fn level(&self) -> u64 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_tenth_of_a_percent() {
        let mut probe = LatencyProbe::default();
        (1..=100_000u64).for_each(|i| probe.record(Picos(i * 1_000)));
        for (quantile, expected) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let found = probe.quantile_ns(quantile);
            assert!(
                (found / expected - 1.0).abs() < 1.1e-3,
                "{quantile}: {found}"
            );
        }
        assert_eq!((probe.min_ns(), probe.max_ns()), (1.0, 100_000.0));
        assert_eq!(probe.mean_ns(), 50_000.5);
        assert_eq!(
            probe.bins(20).iter().map(|(_, count)| count).sum::<u64>(),
            100_000
        );
    }

    #[test]
    fn a_restored_distribution_is_the_one_that_was_saved() {
        let mut probe = LatencyProbe::default();
        (0..2000u64).for_each(|i| probe.record(Picos(i * i * i * 77)));
        probe.record(Picos(u64::MAX >> 1));
        let mut copy = LatencyProbe::from(SavedProbe::from(probe.clone()));
        for more in [12, 5_000_000, 77 << 40] {
            assert_eq!(copy.histogram, probe.histogram);
            assert_eq!(copy.bins(50), probe.bins(50));
            assert_eq!(copy.quantile_ns(0.99), probe.quantile_ns(0.99));
            copy.record(Picos(more));
            probe.record(Picos(more));
        }
    }

    #[test]
    fn a_quantile_is_never_below_the_span_that_it_stands_for() {
        let spans: Vec<u64> = (1..=999u64).map(|i| i * i * 131 + i).collect();
        let mut probe = LatencyProbe::default();
        spans.iter().for_each(|span| probe.record(Picos(*span)));
        for rank in [1, 10, 500, 900, 990, 999] {
            let exact = spans[rank - 1] as f64 / 1e3;
            let found = probe.quantile_ns((rank as f64 - 0.5) / spans.len() as f64);
            assert!(
                found >= exact && found <= exact * 1.001 + 0.128,
                "{rank}: {found} {exact}"
            );
        }
    }

    #[test]
    fn merging_equals_recording_in_one() {
        let [mut a, mut b, mut all] = [(); 3].map(|()| LatencyProbe::default());
        for i in 0..1000u64 {
            let span = Picos(i * i * 77);
            let part = if i % 3 == 0 { &mut a } else { &mut b };
            part.record(span);
            all.record(span);
        }
        a.merge(&b);
        assert_eq!(a.sum_ps(), all.sum_ps());
        assert_eq!(a.quantile_ns(0.9), all.quantile_ns(0.9));
    }

    #[test]
    fn a_wait_lies_in_the_bin_that_ends_at_most_an_eighth_above_it() {
        let mut last = 0;
        for picos in (0..5_000).chain((13..60).flat_map(|power| {
            let around = 1u64 << power;
            [around - 1, around, around + around / 3]
        })) {
            let bin = WaitProbe::bin(picos);
            let longest = WaitProbe::longest(bin);
            assert!(
                picos <= longest && longest <= picos + picos / 8,
                "{picos}: {longest}"
            );
            assert!(bin == 0 || WaitProbe::longest(bin - 1) < picos, "{picos}");
            assert!(bin >= last, "{picos}");
            last = bin;
        }
    }

    #[test]
    fn quantiles_of_waits_are_upper_bounds_over_all_that_passed() {
        let mut waits = WaitProbe::default();
        (1..=100u64).for_each(|nanos| waits.record(nanos * 1_000));
        assert_eq!(
            (waits.count(), waits.sum_ps(), waits.max_ps()),
            (100, 5_050_000, 100_000)
        );
        // Of 1,000 passages, 900 did not wait.
        assert_eq!(waits.quantile_ps(0.9, 1_000), 0);
        let found = waits.quantile_ps(0.99, 1_000);
        assert!((90_000..=101_250).contains(&found), "{found}");
        assert_eq!(waits.quantile_ps(1.0, 1_000), 100_000);
    }

    #[test]
    fn a_level_integrates_exactly() {
        let mut level = LevelIntegral::default();
        level.set(10, 3);
        level.set(30, 1);
        assert_eq!(level.at(35), 3 * 20 + 5);
    }
}
