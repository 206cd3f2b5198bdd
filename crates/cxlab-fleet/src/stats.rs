//! Statistics of one cluster, and their sums over clusters in the order of the clusters.

use crate::fabric::LOADS;

/// Bins of slowdown: each a tenth of a percent, the last one all above.
pub const SLOWDOWN_BINS: usize = 1001;
/// Groups of clusters by the share of scheduled cores: each 5 %.
pub const CORE_BINS: usize = 20;
/// Bins of stranded memory: each a percent.
const STRANDED_BINS: usize = 101;

/// Frequencies of values, in equal bins from 0 on.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    width: f64,
    sum: f64,
    total: u64,
}

impl Histogram {
    /// An empty histogram with bins of this width.
    pub fn new(bins: usize, width: f64) -> Histogram {
        Histogram {
            counts: vec![0; bins],
            width,
            sum: 0.0,
            total: 0,
        }
    }

    /// Counts a value, 0 or more.
    pub fn add(&mut self, value: f64) {
        let bin = ((value / self.width) as usize).min(self.counts.len() - 1);
        self.counts[bin] += 1;
        self.sum += value;
        self.total += 1;
    }

    /// Adds a histogram of the same shape.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum += other.sum;
        self.total += other.total;
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Mean of the values, 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.sum / self.total.max(1) as f64
    }

    /// The value below which this share of the values is, interpolated linearly within its bin. 0
    /// for values in the first bin.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = part * self.total as f64;
        let mut below = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            let before = below;
            below += count;
            if below as f64 >= wanted && *count > 0 {
                let within = (wanted - before as f64) / *count as f64;
                return if bin == 0 {
                    0.0
                } else {
                    (bin as f64 + within) * self.width
                };
            }
        }
        0.0
    }

    /// Share of the values that are at least `bin` times the width of a bin.
    pub fn part_from(&self, bin: usize) -> f64 {
        let above: u64 = self.counts[bin.min(self.counts.len())..].iter().sum();
        above as f64 / self.total.max(1) as f64
    }

    /// Number of values in each bin.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

/// A sampling point of the time series: sums over all hosts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Point {
    /// Number of running VMs.
    pub vms: u64,
    /// Number of scheduled cores.
    pub cores: u64,
    /// Local DRAM in use, in MiB.
    pub local_mib: u64,
    /// Pool memory in use, in MiB.
    pub pool_mib: u64,
    /// Stranded memory, in MiB.
    pub stranded_mib: u64,
    /// VMs rejected so far.
    pub rejected: u64,
    /// Sum over VMs with pool memory of their loaded latency, in nanoseconds.
    pub latency_sum_ns: f64,
    /// VMs with pool memory.
    pub pooled_vms: u64,
    /// Hosts whose pool traffic exceeds what the fabric can carry.
    pub saturated: u64,
}

impl Point {
    fn merge(&mut self, other: &Point) {
        self.vms += other.vms;
        self.cores += other.cores;
        self.local_mib += other.local_mib;
        self.pool_mib += other.pool_mib;
        self.stranded_mib += other.stranded_mib;
        self.rejected += other.rejected;
        self.latency_sum_ns += other.latency_sum_ns;
        self.pooled_vms += other.pooled_vms;
        self.saturated += other.saturated;
    }
}

/// Results of simulating some clusters.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Number of clusters.
    pub clusters: u64,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of pods.
    pub pods: u64,
    /// VMs that arrived.
    pub arrived: u64,
    /// VMs that fitted on no host.
    pub rejected: u64,
    /// VMs that departed.
    pub departed: u64,
    /// VMs that run at the end.
    pub running: u64,
    /// Requested core-seconds within the study.
    pub asked_core_s: u64,
    /// Core-seconds of rejected VMs.
    pub rejected_core_s: u64,
    /// VMs whose pool memory the monitor replaced by local DRAM.
    pub mitigated: u64,
    /// VMs by class of sensitivity: all placed ones, and those with pool memory.
    pub by_class: Vec<[u64; 2]>,
    /// Sampling points in the order of time.
    pub series: Vec<Point>,
    /// Sum over clusters of the peak local DRAM use of any of its hosts, times the
    /// number of its hosts, in MiB.
    pub local_peak_mib: u64,
    /// Sum over clusters of the peak pool memory use of any of its pods, times the
    /// number of its pods, in MiB.
    pub pool_peak_mib: u64,
    /// Largest number of slices of a device in use at the peak of its pod.
    pub device_peak: u32,
    /// Number of samples of hosts with pool traffic, by the index of their load in
    /// the errors of the pod's fabric.
    pub loads: [u64; LOADS],
    /// Mean slowdown of each VM over its life.
    pub slowdown: Histogram,
    /// Slowdown of running VMs at each point of the series.
    pub slowdown_now: Histogram,
    /// Stranded memory of a cluster as a share of its DRAM, by the cluster's scheduled cores.
    pub stranded: Vec<Histogram>,
    /// By cluster: mean share of scheduled cores, and mean share of stranded memory.
    pub scatter: Vec<[f64; 2]>,
}

impl Outcome {
    /// A result without clusters, with this many points and sensitivity classes.
    pub fn new(points: usize, classes: usize) -> Outcome {
        Outcome {
            clusters: 0,
            hosts: 0,
            pods: 0,
            arrived: 0,
            rejected: 0,
            departed: 0,
            running: 0,
            asked_core_s: 0,
            rejected_core_s: 0,
            mitigated: 0,
            by_class: vec![[0; 2]; classes],
            series: vec![Point::default(); points],
            local_peak_mib: 0,
            pool_peak_mib: 0,
            loads: [0; LOADS],
            device_peak: 0,
            slowdown: Histogram::new(SLOWDOWN_BINS, 0.001),
            slowdown_now: Histogram::new(SLOWDOWN_BINS, 0.001),
            stranded: vec![Histogram::new(STRANDED_BINS, 0.01); CORE_BINS],
            scatter: Vec::new(),
        }
    }

    /// Appends the clusters of another result.
    pub fn merge(&mut self, other: &Outcome) {
        self.clusters += other.clusters;
        self.hosts += other.hosts;
        self.pods += other.pods;
        self.arrived += other.arrived;
        self.rejected += other.rejected;
        self.departed += other.departed;
        self.running += other.running;
        self.asked_core_s += other.asked_core_s;
        self.rejected_core_s += other.rejected_core_s;
        self.mitigated += other.mitigated;
        self.local_peak_mib += other.local_peak_mib;
        self.pool_peak_mib += other.pool_peak_mib;
        self.device_peak = self.device_peak.max(other.device_peak);
        for (mine, theirs) in self.by_class.iter_mut().zip(&other.by_class) {
            mine[0] += theirs[0];
            mine[1] += theirs[1];
        }
        for (mine, theirs) in self.series.iter_mut().zip(&other.series) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.loads.iter_mut().zip(&other.loads) {
            *mine += theirs;
        }
        self.slowdown.merge(&other.slowdown);
        self.slowdown_now.merge(&other.slowdown_now);
        for (mine, theirs) in self.stranded.iter_mut().zip(&other.stranded) {
            mine.merge(theirs);
        }
        self.scatter.extend_from_slice(&other.scatter);
    }

    /// Share of the requested core-hours that was rejected.
    pub fn rejected_part(&self) -> f64 {
        self.rejected_core_s as f64 / self.asked_core_s.max(1) as f64
    }

    /// Mean of a quantity over the series.
    pub fn mean(&self, of: impl Fn(&Point) -> f64) -> f64 {
        let sum: f64 = self.series.iter().map(of).sum();
        sum / self.series.len().max(1) as f64
    }

    /// Largest value of a quantity in the series.
    pub fn most(&self, of: impl Fn(&Point) -> u64) -> u64 {
        self.series.iter().map(of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_quantiles_to_a_bin() {
        let mut histogram = Histogram::new(SLOWDOWN_BINS, 0.001);
        (0..1000).for_each(|at| histogram.add(f64::from(at) / 10_000.0 + 1e-9));
        assert!((histogram.quantile(0.5) - 0.05).abs() < 1e-9);
        assert_eq!(histogram.quantile(0.005), 0.0);
        assert!((histogram.part_from(50) - 0.5).abs() < 1e-9);
        histogram.add(55.0);
        assert_eq!(histogram.counts()[SLOWDOWN_BINS - 1], 1);
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.total(), twice.mean()), (2002, histogram.mean()));
    }
}
