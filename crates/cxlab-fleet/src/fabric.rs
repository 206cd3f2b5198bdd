//! Interface to the analytic form of the fabric model, which gives the latency of pool memory.

use serde::Serialize;

/// State of a host's fabric at a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadedFabric {
    /// Mean latency of a read, in nanoseconds.
    pub latency_ns: f64,
    /// Time that the fabric needs for the traffic, divided by the time in which it was requested. At least 1.
    pub stretch: f64,
    /// Largest relative error of the latency. Infinite if it is unknown.
    pub error: f64,
}

/// Model of the fabric of a pod.
pub trait PoolFabric {
    /// Unloaded latency of a read by host and device, in nanoseconds. `None` if the host does not reach the device.
    fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>>;

    /// By host: its state if every host requests this traffic, evenly of all devices that it reaches.
    fn loaded(&mut self, bytes_per_ns: f64) -> Vec<LoadedFabric>;

    /// State of one host that requests this traffic while all other hosts are idle.
    fn loaded_alone(&mut self, host: usize, bytes_per_ns: f64) -> LoadedFabric;
}

/// Growth of latency with load, for one host.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LoadCurve {
    /// Load of each host at the points, in GB/s, increasing from 0.
    pub load_gb_per_s: Vec<f64>,
    /// Wait of a read at the points, in nanoseconds.
    pub wait_ns: Vec<f64>,
    /// Load that the fabric can carry of each host, in GB/s.
    pub limit_gb_per_s: f64,
}

impl LoadCurve {
    /// A curve from the latencies at [`PARTS`] of the limit, and the unloaded latency.
    fn new(limit_gb_per_s: f64, unloaded: f64, latencies: impl Iterator<Item = f64>) -> LoadCurve {
        let mut curve = LoadCurve {
            load_gb_per_s: vec![0.0],
            wait_ns: vec![0.0],
            limit_gb_per_s,
        };
        let mut most = 0.0;
        for (part, latency) in PARTS.iter().zip(latencies) {
            // The fixed point may end with a tiny error, so waits are made monotonic.
            most = (latency - unloaded).max(most);
            curve.load_gb_per_s.push(part * limit_gb_per_s);
            curve.wait_ns.push(most);
        }
        curve
    }

    /// Index of the first point that is not below a load, or the number of points.
    fn next(&self, gb_per_s: f64) -> usize {
        (self.load_gb_per_s).partition_point(|point| *point < gb_per_s)
    }

    /// Wait in nanoseconds at a load in GB/s, linear between the points, and the stretch of time, at least 1.
    pub fn at(&self, gb_per_s: f64) -> (f64, f64) {
        let stretch = if gb_per_s > self.limit_gb_per_s {
            gb_per_s / self.limit_gb_per_s
        } else {
            1.0
        };
        let next = self.next(gb_per_s);
        let wait = match next {
            0 => self.wait_ns.first().copied().unwrap_or(0.0),
            next if next == self.load_gb_per_s.len() => self.wait_ns[next - 1],
            next => {
                let (a, b) = (self.load_gb_per_s[next - 1], self.load_gb_per_s[next]);
                let part = (gb_per_s - a) / (b - a);
                self.wait_ns[next - 1] * (1.0 - part) + self.wait_ns[next] * part
            }
        };
        (wait, stretch)
    }
}

/// Fabric of a pod as the fleet uses it: unloaded latencies, and a curve for each host.
#[derive(Clone, PartialEq, Debug)]
pub struct PodFabric {
    /// Unloaded latency by host and device, in nanoseconds. `None` if there is no path.
    pub unloaded_ns: Vec<Vec<Option<f64>>>,
    /// By host: its curve if all hosts load the fabric equally.
    pub curves: Vec<LoadCurve>,
    /// By host: its curve if the other hosts are idle.
    pub alone: Vec<LoadCurve>,
    /// Largest relative error of the latency of any host, by point of all curves, and beyond the
    /// last point. Infinite if it is unknown.
    pub errors: [f64; LOADS],
}

/// Points of a curve beyond 0, as shares of the load that the fabric can carry.
const PARTS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97];
/// Number of points of a curve, and one for loads beyond the last.
pub const LOADS: usize = PARTS.len() + 2;
/// A load that no fabric can carry, in GB/s of each host.
const EXCESS: f64 = 1e4;

impl PodFabric {
    /// Extracts latencies and curves from a model.
    pub fn new(model: &mut dyn PoolFabric) -> PodFabric {
        let unloaded_ns = model.unloaded_ns();
        let means: Vec<f64> = unloaded_ns.iter().map(|row| mean(row)).collect();
        let hosts = unloaded_ns.len();
        // At far too large a load, the stretch says what the fabric can carry.
        let limit = |loaded: LoadedFabric| EXCESS / loaded.stretch;
        let loads = model.loaded(EXCESS).into_iter().map(limit);
        let least = loads.fold(f64::INFINITY, f64::min);
        let mut errors = [0.0; LOADS];
        errors[LOADS - 1] = f64::INFINITY;
        let mut note = |at: usize, loaded: LoadedFabric| {
            errors[at + 1] = loaded.error.max(errors[at + 1]);
            loaded.latency_ns
        };
        let mut points: Vec<Vec<f64>> = Vec::with_capacity(PARTS.len());
        for (at, part) in PARTS.iter().enumerate() {
            let all = model.loaded(part * least).into_iter();
            points.push(all.map(|loaded| note(at, loaded)).collect());
        }
        let curves = (0..hosts)
            .map(|host| LoadCurve::new(least, means[host], points.iter().map(|all| all[host])))
            .collect();
        let mut alone = Vec::with_capacity(hosts);
        for (host, mean) in means.iter().enumerate() {
            let most = limit(model.loaded_alone(host, EXCESS));
            let points = PARTS.iter().enumerate();
            let latencies =
                points.map(|(at, part)| note(at, model.loaded_alone(host, part * most)));
            alone.push(LoadCurve::new(most, *mean, latencies));
        }
        PodFabric {
            unloaded_ns,
            curves,
            alone,
            errors,
        }
    }

    /// Index in `errors` for the result of [`PodFabric::wait`] at these loads.
    pub fn point(&self, host: usize, own: f64, mean: f64) -> usize {
        let at = |curve: &LoadCurve, gb_per_s: f64| match curve.next(gb_per_s) {
            next if next == curve.load_gb_per_s.len() => LOADS - 1,
            next => next,
        };
        at(&self.curves[host], mean).max(at(&self.alone[host], own))
    }

    /// Wait of a host's read in nanoseconds, and the stretch of time. The host requests `own` GB/s, and the hosts of
    /// its pod `mean` GB/s on average. Parts that serve the host alone (its link) wait by the host's own load, and all
    /// other parts by the mean: `all(mean) + alone(own) - alone(mean)`.
    pub fn wait(&self, host: usize, own: f64, mean: f64) -> (f64, f64) {
        let (all, alone) = (&self.curves[host], &self.alone[host]);
        let (shared, stretch) = all.at(mean);
        let (mine, own_stretch) = alone.at(own);
        let wait = shared + mine - alone.at(mean).0;
        (wait.max(0.0), stretch.max(own_stretch))
    }

    /// A fabric in which every host reaches every device with the same latency at any load.
    pub fn constant(hosts: usize, devices: usize, latency_ns: f64) -> PodFabric {
        let free = LoadCurve {
            load_gb_per_s: vec![0.0],
            wait_ns: vec![0.0],
            limit_gb_per_s: f64::INFINITY,
        };
        PodFabric {
            unloaded_ns: vec![vec![Some(latency_ns); devices]; hosts],
            curves: vec![free.clone(); hosts],
            alone: vec![free; hosts],
            errors: [0.0; LOADS],
        }
    }

    /// Number of hosts of the pod.
    pub fn hosts(&self) -> usize {
        self.unloaded_ns.len()
    }

    /// Number of devices of the pod.
    pub fn devices(&self) -> usize {
        self.unloaded_ns.first().map_or(0, Vec::len)
    }

    /// Mean unloaded latency over all connected pairs of host and device, in nanoseconds. 0 if there are no such pairs.
    pub fn mean_ns(&self) -> f64 {
        let all: Vec<Option<f64>> = self.unloaded_ns.iter().flatten().copied().collect();
        mean(&all)
    }
}

fn mean(row: &[Option<f64>]) -> f64 {
    let (sum, count) =
        (row.iter().flatten()).fold((0.0, 0), |(sum, count), ns| (sum + ns, count + 1));
    if count > 0 {
        sum / f64::from(count)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An M/D/1 queue of 10 bytes a nanosecond, with 100 ns after it.
    struct Queue;

    impl PoolFabric for Queue {
        fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>> {
            vec![vec![Some(100.0), None, Some(120.0)]]
        }

        fn loaded(&mut self, bytes_per_ns: f64) -> Vec<LoadedFabric> {
            let used = (bytes_per_ns / 10.0).min(0.999);
            let wait = 6.4 * used / (2.0 * (1.0 - used));
            vec![LoadedFabric {
                latency_ns: 110.0 + wait,
                stretch: (bytes_per_ns / 10.0).max(1.0),
                error: used / 10.0,
            }]
        }

        fn loaded_alone(&mut self, _: usize, bytes_per_ns: f64) -> LoadedFabric {
            self.loaded(bytes_per_ns / 2.0)[0]
        }
    }

    #[test]
    fn a_curve_meets_its_points_and_says_when_the_fabric_is_full() {
        let fabric = PodFabric::new(&mut Queue);
        let curve = &fabric.curves[0];
        assert!((curve.limit_gb_per_s - 10.0).abs() < 1e-9);
        assert!((curve.at(5.0).0 - 3.2).abs() < 1e-9);
        assert!((curve.at(9.0).0 - 28.8).abs() < 1e-6);
        assert!(curve.at(9.9).0 > curve.at(9.0).0);
        assert!((curve.at(20.0).1 - 2.0).abs() < 1e-9);
        assert_eq!(curve.at(0.0), (0.0, 1.0));
        assert!((fabric.mean_ns() - 110.0).abs() < 1e-9);
        assert_eq!(fabric.wait(0, 5.0, 5.0), curve.at(5.0));
        assert!(fabric.wait(0, 8.0, 5.0).0 > curve.at(5.0).0);
        assert!((fabric.wait(0, 30.0, 5.0).1 - 1.5).abs() < 1e-9);
        // A load between two points has the error of the higher point.
        assert_eq!(fabric.point(0, 0.0, 0.0), 0);
        assert_eq!(
            (fabric.point(0, 5.5, 5.5), fabric.point(0, 5.5, 0.5)),
            (6, 3)
        );
        assert!((fabric.errors[6] - 0.06).abs() < 1e-9);
        assert!(fabric.errors[fabric.point(0, 9.9, 9.9)].is_infinite());
    }
}
