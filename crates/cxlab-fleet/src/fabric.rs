//! What an access to pool memory costs: the seam to the analytic form of the fabric model.

use serde::Serialize;

/// One pod's fabric.
pub trait PoolFabric {
    /// By host and device: the latency of a read without load, in nanoseconds; `None` where the
    /// host does not reach the device.
    fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>>;

    /// When every host asks for so many bytes a nanosecond of all devices that it reaches, alike:
    /// by host, mean latency of a read, in nanoseconds, and time that the fabric needs over the
    /// time in which it was asked for, at least 1.
    fn loaded(&mut self, bytes_per_ns: f64) -> Vec<(f64, f64)>;
}

/// How latency grows with load, for one host.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LoadCurve {
    /// Load of each host, in GB/s, rising; the first is 0.
    pub load_gbps: Vec<f64>,
    /// What a read waits there, in nanoseconds.
    pub wait_ns: Vec<f64>,
    /// Load that the fabric carries of each host, in GB/s; more is only asked for.
    pub limit_gbps: f64,
}

impl LoadCurve {
    /// Wait in nanoseconds at a load in GB/s, between the points by straight lines, and the
    /// stretch of time, at least 1.
    pub fn at(&self, gbps: f64) -> (f64, f64) {
        let stretch = if gbps > self.limit_gbps {
            gbps / self.limit_gbps
        } else {
            1.0
        };
        let next = self.load_gbps.partition_point(|point| *point < gbps);
        let wait = match next {
            0 => self.wait_ns.first().copied().unwrap_or(0.0),
            next if next == self.load_gbps.len() => self.wait_ns[next - 1],
            next => {
                let (a, b) = (self.load_gbps[next - 1], self.load_gbps[next]);
                let part = (gbps - a) / (b - a);
                self.wait_ns[next - 1] * (1.0 - part) + self.wait_ns[next] * part
            }
        };
        (wait, stretch)
    }
}

/// A pod's fabric as the fleet uses it: constant latencies, and a curve for each host.
#[derive(Clone, PartialEq, Debug)]
pub struct PodFabric {
    /// By host and device, in nanoseconds; `None` where there is no way.
    pub unloaded_ns: Vec<Vec<Option<f64>>>,
    /// By host.
    pub curves: Vec<LoadCurve>,
}

/// Points of a curve beyond 0, as parts of the load that the fabric carries.
const PARTS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97];
/// A load that no fabric carries: TB/s of each host.
const EXCESS: f64 = 1e4;

impl PodFabric {
    /// Takes what is needed from a model.
    pub fn new(model: &mut dyn PoolFabric) -> PodFabric {
        let unloaded_ns = model.unloaded_ns();
        // Asked for far too much, the fabric says what it carries.
        let limits: Vec<f64> = (model.loaded(EXCESS).iter())
            .map(|(_, stretch)| EXCESS / stretch)
            .collect();
        let reaches = |host: usize| unloaded_ns[host].iter().any(Option::is_some);
        let least = (limits.iter().enumerate())
            .filter(|(host, _)| reaches(*host))
            .map(|(_, limit)| *limit)
            .fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least } else { 0.0 };
        let mut curves: Vec<LoadCurve> = (0..unloaded_ns.len())
            .map(|_| LoadCurve {
                load_gbps: Vec::with_capacity(PARTS.len() + 1),
                wait_ns: Vec::with_capacity(PARTS.len() + 1),
                limit_gbps: least,
            })
            .collect();
        let means: Vec<f64> = unloaded_ns.iter().map(|row| mean(row)).collect();
        for curve in &mut curves {
            curve.load_gbps.push(0.0);
            curve.wait_ns.push(0.0);
        }
        for part in PARTS {
            let load = part * least;
            let found = model.loaded(load);
            for (host, (latency, _)) in found.iter().enumerate() {
                let wait = (latency - means[host]).max(0.0);
                let before = curves[host].wait_ns.last().copied().unwrap_or(0.0);
                curves[host].load_gbps.push(load);
                curves[host].wait_ns.push(wait.max(before));
            }
        }
        PodFabric {
            unloaded_ns,
            curves,
        }
    }

    /// A fabric in which every host reaches every device after the same time, at any load.
    pub fn constant(hosts: usize, devices: usize, latency_ns: f64) -> PodFabric {
        PodFabric {
            unloaded_ns: vec![vec![Some(latency_ns); devices]; hosts],
            curves: vec![
                LoadCurve {
                    load_gbps: vec![0.0],
                    wait_ns: vec![0.0],
                    limit_gbps: f64::INFINITY,
                };
                hosts
            ],
        }
    }

    /// Hosts.
    pub fn hosts(&self) -> usize {
        self.unloaded_ns.len()
    }

    /// Devices.
    pub fn devices(&self) -> usize {
        self.unloaded_ns.first().map_or(0, Vec::len)
    }

    /// Mean latency without load over all pairs that reach each other, in nanoseconds; 0 if none
    /// do.
    pub fn mean_ns(&self) -> f64 {
        let all: Vec<Option<f64>> = self.unloaded_ns.iter().flatten().copied().collect();
        mean(&all)
    }
}

fn mean(row: &[Option<f64>]) -> f64 {
    let (sum, count) = (row.iter().flatten()).fold((0.0, 0), |(sum, count), ns| (sum + ns, count + 1));
    if count > 0 { sum / f64::from(count) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An M/D/1 queue of 10 bytes a nanosecond in front of 100 ns.
    struct Queue;

    impl PoolFabric for Queue {
        fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>> {
            vec![vec![Some(100.0), None, Some(120.0)]]
        }

        fn loaded(&mut self, bytes_per_ns: f64) -> Vec<(f64, f64)> {
            let used = (bytes_per_ns / 10.0).min(0.999);
            let wait = 6.4 * used / (2.0 * (1.0 - used));
            vec![(110.0 + wait, (bytes_per_ns / 10.0).max(1.0))]
        }
    }

    #[test]
    fn a_curve_meets_its_points_and_says_when_the_fabric_is_full() {
        let fabric = PodFabric::new(&mut Queue);
        let curve = &fabric.curves[0];
        assert!((curve.limit_gbps - 10.0).abs() < 1e-9);
        assert!((curve.at(5.0).0 - 3.2).abs() < 1e-9);
        assert!((curve.at(9.0).0 - 28.8).abs() < 1e-6);
        assert!(curve.at(9.9).0 > curve.at(9.0).0);
        assert!((curve.at(20.0).1 - 2.0).abs() < 1e-9);
        assert_eq!(curve.at(0.0), (0.0, 1.0));
        assert!((fabric.mean_ns() - 110.0).abs() < 1e-9);
    }
}
