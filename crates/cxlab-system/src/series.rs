//! Completed requests of a host over the time of the measurement, in bounded memory: a fixed number
//! of bins of equal width, which doubles when the measurement outgrows them.
//!
//! Widths are the first one times a power of two, so the series of all hosts have common edges and add up exactly, and
//! nothing depends on how a run is executed. Only bins with completed requests take memory: in a large system each host
//! completes few requests a bin, and data that a host writes displaces other data from the CPU's caches.

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use crate::statistics;

/// Most bins of a series; a series whose bins have doubled has at least half as many.
const BINS: usize = 256;
/// Initial width of a bin: 1 ns.
const FIRST_WIDTH_PS: u64 = 1_000;

/// Totals of completed requests since the measurement began.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Totals {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Reads and writes that a device denied.
    pub(crate) denied: [u64; 2],
    /// Reads and writes that failed: timed out, cut off or poisoned.
    pub(crate) failed: [u64; 2],
    /// Summed latency of served requests.
    pub(crate) latency_ps: u128,
}

/// Requests completed in one bin of time. Two bins fill a cache line.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct Bin {
    number: u32,
    reads: u64,
    writes: u64,
    /// Sum of latencies of served requests in picoseconds. 1,000 requests in flight reach 2^64 after five hours
    /// of simulated time.
    latency_ps: u64,
}

/// Bins that are not empty, in their order.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
struct Bins(Vec<Bin>);

impl Bins {
    /// Adds to the last bin, or to a later one.
    fn add(&mut self, bin: Bin) {
        match self.0.last_mut() {
            Some(last) if last.number == bin.number => last.add(&bin),
            _ if bin.reads + bin.writes > 0 => self.0.push(bin),
            _ => {}
        }
    }

    /// Merges neighbouring bins that have the same number.
    fn unite(&mut self) {
        self.0.dedup_by(|later, bin| {
            let same = later.number == bin.number;
            if same {
                bin.add(later);
            }
            same
        });
    }

    /// Doubles the width: each pair of successive bins becomes one.
    fn double(&mut self) {
        for bin in &mut self.0 {
            bin.number /= 2;
        }
        self.unite();
    }

    /// Adds the bins of another series of the same width.
    fn merge(&mut self, mut others: Bins) {
        self.0.append(&mut others.0);
        self.0.sort_by_key(|bin| bin.number);
        self.unite();
    }

    /// A value of each of the first `count` bins; later bins count in the last one.
    fn column(&self, count: usize, of: impl Fn(&Bin) -> u64) -> Vec<u64> {
        let mut column = vec![0u64; count];
        for bin in &self.0 {
            let sum = &mut column[(bin.number as usize).min(count - 1)];
            *sum = sum.saturating_add(of(bin));
        }
        column
    }

    /// As [`Bins::column`], but empty if all values are zero.
    fn column_if_any(&self, count: usize, of: impl Fn(&Bin) -> u64) -> Vec<u64> {
        match self.0.iter().any(|bin| of(bin) > 0) {
            true => self.column(count, of),
            false => Vec::new(),
        }
    }
}

impl Bin {
    fn add(&mut self, other: &Bin) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.latency_ps = self.latency_ps.saturating_add(other.latency_ps);
    }
}

/// The time series of one host. The host passes its totals only when a bin ends.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[repr(C)]
pub(crate) struct Series {
    /// End of the current bin.
    edge: u64,
    start: u64,
    width: u64,
    /// Number of the current bin.
    number: u32,
    done: Bins,
    /// Completed requests that devices denied.
    denied: Bins,
    /// Completed requests that failed.
    failed: Bins,
    /// Totals at the start of the current bin.
    told: Totals,
}

save_state!(Series {
    values: start, width, number, done, denied, failed, edge, told;
});

impl Series {
    /// A series that begins at `start`, with totals of zero.
    pub(crate) fn new(start: SimTime) -> Series {
        Series {
            start: start.0,
            width: FIRST_WIDTH_PS,
            number: 0,
            done: Bins(Vec::with_capacity(BINS)),
            denied: Bins::default(),
            failed: Bins::default(),
            edge: start.0.saturating_add(FIRST_WIDTH_PS),
            told: Totals::default(),
        }
    }

    /// Whether the current bin has ended at `now`. Then [`Series::reach`] must get the totals
    /// before more requests complete.
    #[inline]
    pub(crate) fn has_ended(&self, now: SimTime) -> bool {
        now.0 >= self.edge
    }

    /// The series with the requests completed since the last end of a bin, up to these totals.
    pub(crate) fn up_to(&self, total: &Totals) -> Series {
        let mut series = self.clone();
        series.take(total);
        series
    }

    /// Counts the requests completed up to these totals in the current bin.
    fn take(&mut self, total: &Totals) {
        let (number, told) = (self.number, &self.told);
        let latency_ps = total.latency_ps - told.latency_ps;
        self.done.add(Bin {
            number,
            reads: total.reads - told.reads,
            writes: total.writes - told.writes,
            latency_ps: u64::try_from(latency_ps).unwrap_or(u64::MAX),
        });
        let more = |now: [u64; 2], then: [u64; 2]| Bin {
            number,
            reads: now[0] - then[0],
            writes: now[1] - then[1],
            latency_ps: 0,
        };
        self.denied.add(more(total.denied, told.denied));
        self.failed.add(more(total.failed, told.failed));
        self.told = *total;
    }

    /// Makes the bin of `now` the current one. `total` has the totals before requests complete at
    /// `now`, which never decreases.
    #[cold]
    pub(crate) fn reach(&mut self, now: SimTime, total: &Totals) {
        self.take(total);
        let span = now.0 - self.start;
        while span / self.width >= BINS as u64 {
            self.double();
        }
        self.number = (span / self.width) as u32;
        let span = self.width.saturating_mul(u64::from(self.number) + 1);
        self.edge = self.start.saturating_add(span);
    }

    fn double(&mut self) {
        self.done.double();
        self.denied.double();
        self.failed.double();
        self.width *= 2;
    }

    /// The sum of series that begin at the same time.
    pub(crate) fn merged(all: impl IntoIterator<Item = Series>) -> Option<Series> {
        all.into_iter().reduce(|mut sum, series| {
            sum.merge(series);
            sum
        })
    }

    /// The requests completed in the whole bins before `now`.
    pub(crate) fn profile(&self, now: SimTime) -> Profile {
        let count = (now.0.saturating_sub(self.start) / self.width) as usize;
        // What completed after the last whole bin falls into one more.
        let column = |of: fn(&Bin) -> u64| -> Vec<f64> {
            let column = self.done.column(count + 1, of).into_iter();
            column.take(count).map(|sum| sum as f64).collect()
        };
        Profile {
            start: SimTime(self.start),
            width: self.width,
            requests: column(|bin| bin.reads + bin.writes),
            latency: column(|bin| bin.latency_ps),
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
        self.done.merge(other.done);
        self.denied.merge(other.denied);
        self.failed.merge(other.failed);
    }
}

/// Completed requests in successive bins.
pub(crate) struct Profile {
    start: SimTime,
    width: u64,
    requests: Vec<f64>,
    latency: Vec<f64>,
}

impl Profile {
    /// When the transient at the beginning had ended; `None` where rate or mean latency has not settled, or too
    /// little was completed to say so.
    pub(crate) fn settled(&self) -> Option<SimTime> {
        let rate = statistics::truncation(&self.requests)?;
        let filled = (0..self.requests.len()).filter(|bin| self.requests[*bin] > 0.0);
        let filled: Vec<usize> = filled.collect();
        let mean = |bin: &usize| self.latency[*bin] / self.requests[*bin];
        let means: Vec<f64> = filled.iter().map(mean).collect();
        let latency = filled[statistics::truncation(&means)?];
        let bin = rate.max(latency) as u64;
        Some(SimTime(self.start.0 + bin * self.width))
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
    /// Reads that a device denied, among the completed; empty if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_reads: Vec<u64>,
    /// Writes that a device denied, among the completed; empty if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_writes: Vec<u64>,
    /// Reads that failed, among the completed; empty if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_reads: Vec<u64>,
    /// Writes that failed, among the completed; empty if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_writes: Vec<u64>,
    /// Mean latency of the requests served in each bin; zero if none was.
    pub latency_ns: Vec<f64>,
}

/// The sum of all hosts' series, of a measurement that ends at `end`.
pub(crate) fn sum(all: impl IntoIterator<Item = Series>, end: SimTime) -> TimeSeries {
    let Some(mut sum) = Series::merged(all) else {
        return TimeSeries::default();
    };
    let span = end.0.saturating_sub(sum.start);
    while span.div_ceil(sum.width) > BINS as u64 {
        sum.double();
    }
    // What completed at the very end belongs to the bin that ends there.
    let count = (span.div_ceil(sum.width) as usize).max(1);
    let Series {
        done,
        denied,
        failed,
        ..
    } = &sum;
    let reads = done.column(count, |bin| bin.reads);
    let writes = done.column(count, |bin| bin.writes);
    let latencies = done.column(count, |bin| bin.latency_ps);
    let all = |bins: &Bins| bins.column(count, |bin| bin.reads + bin.writes);
    let unserved = all(denied).into_iter().zip(all(failed));
    let served = (all(done).into_iter().zip(unserved)).map(|(all, (a, b))| all - a - b);
    let mean = |(latency, served): (&u64, u64)| *latency as f64 / 1e3 / served.max(1) as f64;
    TimeSeries {
        bin_ns: sum.width as f64 / 1e3,
        latency_ns: (latencies.iter().zip(served)).map(mean).collect(),
        denied_reads: denied.column_if_any(count, |bin| bin.reads),
        denied_writes: denied.column_if_any(count, |bin| bin.writes),
        failed_reads: failed.column_if_any(count, |bin| bin.reads),
        failed_writes: failed.column_if_any(count, |bin| bin.writes),
        reads,
        writes,
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
        let mut total = Totals::default();
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
        let reads = [0, 3, 255].map(|bin| series.reads[bin]);
        assert_eq!(reads, [2, 1, 1]);
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
    fn bins_without_anything_take_no_memory() {
        let series = told((0..1_000).map(|nano| nano * 300));
        assert!(series.done.0.len() <= BINS && series.denied.0.is_empty());
        let series = told([0, 200, 1_000_000_000]);
        assert_eq!(series.done.0.len(), 2);
    }

    #[test]
    fn what_was_not_served_is_a_part_of_it_and_has_no_latency() {
        let mut series = Series::new(SimTime::ZERO);
        let mut total = Totals {
            reads: 3,
            writes: 2,
            denied: [0, 1],
            failed: [2, 0],
            latency_ps: 14_000,
        };
        series.reach(SimTime(5_000), &total);
        (total.reads, total.denied) = (4, [1, 1]);
        let sum = sum([series.up_to(&total)], SimTime(6_000));
        assert_eq!(sum.latency_ns, [7.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(sum.failed_reads, [2, 0, 0, 0, 0, 0]);
        assert!(sum.failed_writes.is_empty());
        assert_eq!(sum.reads, [3, 0, 0, 0, 0, 1]);
        assert_eq!(sum.denied_reads, [0, 0, 0, 0, 0, 1]);
        assert_eq!(sum.denied_writes, [1, 0, 0, 0, 0, 0]);
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
