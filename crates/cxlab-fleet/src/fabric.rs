//! What an access to pool memory costs: the seam to the analytic form of the fabric model.

use serde::Serialize;

/// What a fabric says of a host at a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loaded {
    /// Mean latency of a read, in nanoseconds.
    pub latency_ns: f64,
    /// Time that the fabric needs over the time in which it was asked for, at least 1.
    pub stretch: f64,
    /// How far the latency can be from what it should be, as a part of it; infinite where that is not known.
    pub error: f64,
}

/// One pod's fabric.
pub trait PoolFabric {
    /// By host and device: the latency of a read without load, in nanoseconds; `None` where the
    /// host does not reach the device.
    fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>>;

    /// By host: when every host asks for so many bytes a nanosecond of all devices that it reaches, alike.
    fn loaded(&mut self, bytes_per_ns: f64) -> Vec<Loaded>;

    /// The same of one host while no other asks for anything.
    fn loaded_alone(&mut self, host: usize, bytes_per_ns: f64) -> Loaded;
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
    /// From latencies at the points, and the one without load.
    fn new(limit_gbps: f64, unloaded: f64, latencies: impl Iterator<Item = f64>) -> LoadCurve {
        let mut curve = LoadCurve {
            load_gbps: vec![0.0],
            wait_ns: vec![0.0],
            limit_gbps,
        };
        let mut most = 0.0;
        for (part, latency) in PARTS.iter().zip(latencies) {
            // The fixed point may end a hair's breadth apart.
            most = (latency - unloaded).max(most);
            curve.load_gbps.push(part * limit_gbps);
            curve.wait_ns.push(most);
        }
        curve
    }

    /// The first point that is not below a load; the number of points where all are.
    fn next(&self, gbps: f64) -> usize {
        self.load_gbps.partition_point(|point| *point < gbps)
    }

    /// Wait in nanoseconds at a load in GB/s, between the points by straight lines, and the
    /// stretch of time, at least 1.
    pub fn at(&self, gbps: f64) -> (f64, f64) {
        let stretch = if gbps > self.limit_gbps {
            gbps / self.limit_gbps
        } else {
            1.0
        };
        let next = self.next(gbps);
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
    /// By host: when all hosts load the fabric alike.
    pub curves: Vec<LoadCurve>,
    /// By host: when it is the only one.
    pub alone: Vec<LoadCurve>,
    /// By point of all curves, and beyond the last: how far the latency of any host can be from what it should be, as
    /// a part of it; infinite where that is not known.
    pub errors: [f64; LOADS],
}

/// Points of a curve beyond 0, as parts of the load that the fabric carries.
const PARTS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97];
/// Points of a curve, and what is beyond the last.
pub const LOADS: usize = PARTS.len() + 2;
/// A load that no fabric carries: TB/s of each host.
const EXCESS: f64 = 1e4;

impl PodFabric {
    /// Takes what is needed from a model.
    pub fn new(model: &mut dyn PoolFabric) -> PodFabric {
        let unloaded_ns = model.unloaded_ns();
        let means: Vec<f64> = unloaded_ns.iter().map(|row| mean(row)).collect();
        let hosts = unloaded_ns.len();
        // Asked for far too much, the fabric says what it carries.
        let limit = |loaded: Loaded| EXCESS / loaded.stretch;
        let least = model
            .loaded(EXCESS)
            .into_iter()
            .map(limit)
            .fold(f64::INFINITY, f64::min);
        let mut errors = [0.0; LOADS];
        errors[LOADS - 1] = f64::INFINITY;
        let mut note = |at: usize, loaded: Loaded| {
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

    /// The place in `errors` of what [`PodFabric::wait`] says of the same loads.
    pub fn point(&self, host: usize, own: f64, mean: f64) -> usize {
        let at = |curve: &LoadCurve, gbps: f64| match curve.next(gbps) {
            next if next == curve.load_gbps.len() => LOADS - 1,
            next => next,
        };
        at(&self.curves[host], mean).max(at(&self.alone[host], own))
    }

    /// What a read of a host waits in nanoseconds, and the stretch of time, when the host itself
    /// asks for `own` GB/s and all hosts of its pod for `mean`, on the mean. What is the host's
    /// alone (its link) waits as its own load says, all else as the mean does:
    /// `all(mean) + alone(own) - alone(mean)`.
    pub fn wait(&self, host: usize, own: f64, mean: f64) -> (f64, f64) {
        let (all, alone) = (&self.curves[host], &self.alone[host]);
        let (shared, stretch) = all.at(mean);
        let (mine, own_stretch) = alone.at(own);
        let wait = shared + mine - alone.at(mean).0;
        (wait.max(0.0), stretch.max(own_stretch))
    }

    /// A fabric in which every host reaches every device after the same time, at any load.
    pub fn constant(hosts: usize, devices: usize, latency_ns: f64) -> PodFabric {
        let free = LoadCurve {
            load_gbps: vec![0.0],
            wait_ns: vec![0.0],
            limit_gbps: f64::INFINITY,
        };
        PodFabric {
            unloaded_ns: vec![vec![Some(latency_ns); devices]; hosts],
            curves: vec![free.clone(); hosts],
            alone: vec![free; hosts],
            errors: [0.0; LOADS],
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

    /// An M/D/1 queue of 10 bytes a nanosecond in front of 100 ns.
    struct Queue;

    impl PoolFabric for Queue {
        fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>> {
            vec![vec![Some(100.0), None, Some(120.0)]]
        }

        fn loaded(&mut self, bytes_per_ns: f64) -> Vec<Loaded> {
            let used = (bytes_per_ns / 10.0).min(0.999);
            let wait = 6.4 * used / (2.0 * (1.0 - used));
            vec![Loaded {
                latency_ns: 110.0 + wait,
                stretch: (bytes_per_ns / 10.0).max(1.0),
                error: used / 10.0,
            }]
        }

        fn loaded_alone(&mut self, _: usize, bytes_per_ns: f64) -> Loaded {
            self.loaded(bytes_per_ns / 2.0)[0]
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
        assert_eq!(fabric.wait(0, 5.0, 5.0), curve.at(5.0));
        assert!(fabric.wait(0, 8.0, 5.0).0 > curve.at(5.0).0);
        assert!((fabric.wait(0, 30.0, 5.0).1 - 1.5).abs() < 1e-9);
        // What is between two points is as good as the fuller one.
        assert_eq!(fabric.point(0, 0.0, 0.0), 0);
        assert_eq!(
            (fabric.point(0, 5.5, 5.5), fabric.point(0, 5.5, 0.5)),
            (6, 3)
        );
        assert!((fabric.errors[6] - 0.06).abs() < 1e-9);
        assert!(fabric.errors[fabric.point(0, 9.9, 9.9)].is_infinite());
    }
}
