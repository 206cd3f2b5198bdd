//! What a host completed over the time of the measurement, in bounded memory: a fixed number of
//! bins of equal width, which doubles when the measurement outgrows them.
//!
//! Widths are the first one times a power of two, so the series of all hosts have common edges and
//! add up exactly, and nothing depends on how a run is executed.

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

/// Bins that are kept; a series that has outgrown them has half as many at least.
const BINS: usize = 256;
/// The first width: 1 ns.
const FIRST_WIDTH_PS: u64 = 1_000;

/// What was completed in one bin.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Bin {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Reads among those that a device denied.
    pub(crate) denied_reads: u64,
    /// Writes among those that a device denied.
    pub(crate) denied_writes: u64,
    /// Latency of all.
    pub(crate) latency_ps: u128,
}

impl Bin {
    fn add(&mut self, other: Bin) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.denied_reads += other.denied_reads;
        self.denied_writes += other.denied_writes;
        self.latency_ps += other.latency_ps;
    }

    /// What came to these totals since they were `before`.
    fn since(&self, before: &Bin) -> Bin {
        Bin {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            denied_reads: self.denied_reads - before.denied_reads,
            denied_writes: self.denied_writes - before.denied_writes,
            latency_ps: self.latency_ps - before.latency_ps,
        }
    }
}

/// The series of one host. It is told the totals at the ends of bins alone.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Series {
    /// Where the bin that is filled now ends.
    edge: u64,
    start: u64,
    width: u64,
    bins: Vec<Bin>,
    /// The totals where it began.
    told: Bin,
}

save_state!(Series {
    values: start, width, bins, edge, told;
});

impl Series {
    /// A series that begins at `start`, with totals of zero.
    pub(crate) fn new(start: SimTime) -> Series {
        let mut bins = Vec::with_capacity(BINS);
        bins.push(Bin::default());
        Series {
            start: start.0,
            width: FIRST_WIDTH_PS,
            bins,
            edge: start.0.saturating_add(FIRST_WIDTH_PS),
            told: Bin::default(),
        }
    }

    /// Whether the bin that is filled now has ended at `now`: then the series is told the totals before
    /// anything more is completed ([`Series::reach`]).
    #[inline]
    pub(crate) fn has_ended(&self, now: SimTime) -> bool {
        now.0 >= self.edge
    }

    /// The series with what was completed since the last end of a bin, up to these totals.
    pub(crate) fn up_to(&self, total: &Bin) -> Series {
        let mut series = self.clone();
        series.take(total);
        series
    }

    /// What was completed up to these totals belongs to the last bin.
    fn take(&mut self, total: &Bin) {
        if let Some(bin) = self.bins.last_mut() {
            bin.add(total.since(&self.told));
        }
        self.told = *total;
    }

    /// Makes the bin that `now` falls into the last one. The totals are those before anything is completed
    /// at `now`, which never goes back.
    #[cold]
    pub(crate) fn reach(&mut self, now: SimTime, total: &Bin) {
        self.take(total);
        let now = now.0;
        while (now - self.start) / self.width >= BINS as u64 {
            self.double();
        }
        let at = ((now - self.start) / self.width) as usize;
        self.bins.resize(at + 1, Bin::default());
        self.edge = self
            .start
            .saturating_add(self.width.saturating_mul(at as u64 + 1));
    }

    fn double(&mut self) {
        let half = self.bins.len().div_ceil(2);
        for at in 0..half {
            let mut sum = self.bins[2 * at];
            if let Some(second) = self.bins.get(2 * at + 1) {
                sum.add(*second);
            }
            self.bins[at] = sum;
        }
        self.bins.truncate(half);
        self.width *= 2;
    }

    /// Makes the last bin the one that `end`, the end of the measurement, falls into or closes.
    fn close(&mut self, end: u64) {
        let span = end.saturating_sub(self.start);
        while span.div_ceil(self.width) > BINS as u64 {
            self.double();
        }
        let count = (span.div_ceil(self.width) as usize).max(1);
        // What completed at the very end belongs to the bin that ends there.
        while self.bins.len() > count {
            if let (Some(late), Some(last)) = (self.bins.pop(), self.bins.last_mut()) {
                last.add(late);
            }
        }
        self.bins.resize(count, Bin::default());
    }

    /// A column of the bins; empty where all of it is zero.
    fn column_if_any(&self, of: impl Fn(&Bin) -> u64) -> Vec<u64> {
        let column: Vec<u64> = self.bins.iter().map(of).collect();
        match column.iter().any(|count| *count > 0) {
            true => column,
            false => Vec::new(),
        }
    }

    /// Adds another host's series that begins at the same time.
    fn merge(&mut self, mut other: Series) {
        while self.width < other.width {
            self.double();
        }
        while other.width < self.width {
            other.double();
        }
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), Bin::default());
        }
        for (sum, bin) in self.bins.iter_mut().zip(&other.bins) {
            sum.add(*bin);
        }
    }
}

/// Requests completed over the time of the measurement, in bins of equal width; bin `i` begins
/// `i * bin_ns` after the measurement does, and the last one ends with it.
#[derive(Clone, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct TimeSeries {
    /// Width of a bin.
    pub bin_ns: f64,
    /// Reads completed in each bin.
    pub reads: Vec<u64>,
    /// Writes completed in each bin.
    pub writes: Vec<u64>,
    /// Reads among them that a device denied; empty where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_reads: Vec<u64>,
    /// Writes among them that a device denied; empty where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_writes: Vec<u64>,
    /// Mean latency of both; zero where none completed.
    pub latency_ns: Vec<f64>,
}

/// The sum of all hosts' series, of a measurement that ends at `end`.
pub(crate) fn sum(all: impl IntoIterator<Item = Series>, end: SimTime) -> TimeSeries {
    let mut all = all.into_iter();
    let Some(mut sum) = all.next() else {
        return TimeSeries::default();
    };
    all.for_each(|series| sum.merge(series));
    sum.close(end.0);
    TimeSeries {
        bin_ns: sum.width as f64 / 1e3,
        reads: sum.bins.iter().map(|bin| bin.reads).collect(),
        writes: sum.bins.iter().map(|bin| bin.writes).collect(),
        denied_reads: sum.column_if_any(|bin| bin.denied_reads),
        denied_writes: sum.column_if_any(|bin| bin.denied_writes),
        latency_ns: sum
            .bins
            .iter()
            .map(|bin| bin.latency_ps as f64 / 1e3 / (bin.reads + bin.writes).max(1) as f64)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of series of a measurement of so many nanoseconds.
    fn sum_of(all: &[&Series], nanos: u64) -> TimeSeries {
        let all = all.iter().map(|series| (*series).clone());
        sum(all, SimTime(7_000 + nanos * 1_000))
    }

    /// Tells a series of one read of 5 ns at each of these nanoseconds after its start at 7 ns.
    fn told(nanos: impl IntoIterator<Item = u64>) -> Series {
        let mut series = Series::new(SimTime(7_000));
        let mut total = Bin::default();
        for nano in nanos {
            let now = SimTime(7_000 + nano * 1_000);
            if series.has_ended(now) {
                series.reach(now, &total);
            }
            total.reads += 1;
            total.latency_ps += 5_000;
        }
        series.up_to(&total)
    }

    #[test]
    fn every_completion_is_in_the_bin_of_its_time() {
        let series = sum_of(&[&told([0, 0, 3, 255])], 256);
        assert_eq!((series.bin_ns, series.reads.len()), (1.0, 256));
        assert_eq!(
            (series.reads[0], series.reads[3], series.reads[255]),
            (2, 1, 1)
        );
        assert_eq!((series.latency_ns[0], series.latency_ns[1]), (5.0, 0.0));
    }

    #[test]
    fn bins_double_their_width_and_lose_nothing() {
        let series = sum_of(&[&told(0..100_000)], 100_000);
        assert_eq!(series.bin_ns, 512.0);
        assert_eq!(series.reads.len(), 196);
        assert!(series.reads[..195].iter().all(|reads| *reads == 512));
        assert_eq!(series.reads.iter().sum::<u64>(), 100_000);
        assert!(series.latency_ns.iter().all(|latency| *latency == 5.0));
    }

    #[test]
    fn a_long_silence_is_bins_of_nothing() {
        let series = sum_of(&[&told([1, 1_000_000_000])], 1_000_000_001);
        assert_eq!(series.reads.iter().sum::<u64>(), 2);
        assert!(series.reads.len() <= BINS && series.reads.len() > BINS / 2);
        assert_eq!((series.reads[0], series.reads.last()), (1, Some(&1)));
    }

    #[test]
    fn series_of_different_widths_add_up_as_if_they_were_one() {
        let (even, odd) = (told((0..5_000).step_by(2)), told((1..300).step_by(2)));
        let expected = told((0..5_000).filter(|nano| nano % 2 == 0 || *nano < 300));
        let expected = sum_of(&[&expected], 5_000);
        assert_eq!(sum_of(&[&even, &odd], 5_000), expected);
        assert_eq!(sum_of(&[&odd, &even], 5_000), expected);
    }

    #[test]
    fn bins_cover_the_measurement_and_no_more() {
        let series = sum_of(&[&told([1])], 100);
        assert_eq!((series.bin_ns, series.reads.len()), (1.0, 100));
        let series = sum_of(&[&told([1])], 300);
        assert_eq!((series.bin_ns, series.reads.len()), (2.0, 150));
        let series = sum_of(&[&told([1, 100])], 100);
        assert_eq!((series.reads.len(), series.reads[99]), (100, 1));
    }
}
