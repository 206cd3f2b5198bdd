//! A checked family of curves: for each mix of reads and writes, latency as a function of bandwidth.
//!
//! A measured curve is wavy. In a queue, more bandwidth never comes with less latency, so a point is
//! *dominated* if another point of its curve has as much bandwidth at less latency. Dominated points are
//! left out, and what is left is the monotone lower envelope of the points. A dominated point must be
//! within `noise` of the envelope, in latency or in bandwidth. Saturated points of one bandwidth and
//! different latencies are within it in bandwidth: their latency follows from the number of requests that
//! the measuring program kept in flight, which is not a property of the memory.

use std::fmt;

use super::read::MeasuredPoint;

/// The largest factor between the peaks of two mixes. A larger one is a wrong unit (*assumed*).
const MAX_PEAK_RATIO: f64 = 100.0;

/// The points of one file.
#[derive(Clone, PartialEq, Debug)]
pub struct CurveSource {
    /// Name of the file, for messages.
    pub name: String,
    /// The points in the order of the file.
    pub points: Vec<MeasuredPoint>,
}

/// Why points are no family of curves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CurveError {
    /// Name of the file.
    pub name: String,
    /// Line of the file, from 1.
    pub line: usize,
    /// The field, the value found, and the values allowed.
    pub message: String,
}

impl CurveError {
    fn new(name: &str, line: usize, message: String) -> CurveError {
        let name = name.to_owned();
        CurveError {
            name,
            line,
            message,
        }
    }
}

impl fmt::Display for CurveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.name, self.line, self.message)
    }
}

impl std::error::Error for CurveError {}

/// A curve for one mix.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Number of the source that has the curve.
    source: usize,
    /// Read percent of the mix.
    pub read_percent: f64,
    /// The points in order of bandwidth; latencies do not fall. At least two.
    pub points: Vec<MeasuredPoint>,
    /// Number of dominated points, which were left out.
    pub left_out: usize,
    /// The largest distance of a point that was left out from the curve, as a fraction of its latency
    /// or its bandwidth, whichever is less.
    pub largest_noise: f64,
}

/// Curves of one memory for different mixes.
#[derive(Clone, PartialEq, Debug)]
pub struct CurveFamily {
    sources: Vec<String>,
    /// In order of their mixes.
    curves: Vec<Curve>,
}

impl Curve {
    /// The point of most bandwidth.
    pub fn peak(&self) -> MeasuredPoint {
        self.points[self.points.len() - 1]
    }

    /// Latency in nanoseconds at a bandwidth in MB/s: linear between points, constant below the first
    /// and beyond the last.
    pub fn latency_ns(&self, mb_per_s: f64) -> f64 {
        self.along(mb_per_s, |one| [one.mb_per_s, one.latency_ns])
    }

    /// Least bandwidth in MB/s at which the curve has a latency; that of the last point beyond.
    fn bandwidth_at(&self, latency_ns: f64) -> f64 {
        self.along(latency_ns, |one| [one.latency_ns, one.mb_per_s])
    }

    /// The second coordinate where the curve first has `x` as its first; linear between points.
    fn along(&self, x: f64, coordinates: impl Fn(&MeasuredPoint) -> [f64; 2]) -> f64 {
        let next = self.points.partition_point(|one| coordinates(one)[0] < x);
        let (Some(before), Some(after)) = (next.checked_sub(1), self.points.get(next)) else {
            return coordinates(&self.points[next.min(self.points.len() - 1)])[1];
        };
        let (before, after) = (coordinates(&self.points[before]), coordinates(after));
        let part = (x - before[0]) / (after[0] - before[0]);
        before[1] + part * (after[1] - before[1])
    }

    /// The distance of a dominated point from the curve: the least of its excess latency and its
    /// missing bandwidth, as a fraction.
    fn noise_of(&self, point: &MeasuredPoint) -> f64 {
        let excess = point.latency_ns / self.latency_ns(point.mb_per_s) - 1.0;
        let missing = self.bandwidth_at(point.latency_ns) / point.mb_per_s - 1.0;
        excess.min(missing)
    }
}

impl CurveFamily {
    /// Checks the points of one or several files, and makes curves of them. `noise` is the largest
    /// distance of a point from the envelope, as a fraction.
    ///
    /// # Errors
    /// A file without points; a mix of two files; a curve of fewer than two points, or of which the
    /// envelope leaves fewer; a point beyond the noise; peaks of two mixes that differ by more than
    /// a factor of 100.
    pub fn new(sources: &[CurveSource], noise: f64) -> Result<CurveFamily, CurveError> {
        let mut all: Vec<(usize, MeasuredPoint)> = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            if source.points.is_empty() {
                let message = "found no points; allowed: two at least for each mix".to_owned();
                return Err(CurveError::new(&source.name, 1, message));
            }
            all.extend(source.points.iter().map(|point| (at, *point)));
        }
        // The sort is stable: points of a mix stay in the order of their file.
        all.sort_by(|a, b| a.1.read_percent.total_cmp(&b.1.read_percent));
        let mixes = all.chunk_by(|a, b| a.1.read_percent == b.1.read_percent);
        let curves = mixes.map(|points| curve(sources, points, noise));
        let family = CurveFamily {
            sources: sources.iter().map(|source| source.name.clone()).collect(),
            curves: curves.collect::<Result<_, _>>()?,
        };
        family.check_peaks()?;
        Ok(family)
    }

    /// The curves in order of their mixes.
    pub fn curves(&self) -> &[Curve] {
        &self.curves
    }

    /// Subtracts a constant from all latencies, in nanoseconds.
    ///
    /// # Errors
    /// The first point that would be left with no latency.
    pub fn less(&mut self, ns: f64) -> Result<(), CurveError> {
        for curve in &self.curves {
            let mut points = curve.points.iter();
            if let Some(point) = points.find(|point| point.latency_ns - ns <= 0.0) {
                let message = format!(
                    "latency: found {} ns at {} MB/s; allowed: more than the {ns} ns that are \
                     subtracted",
                    point.latency_ns, point.mb_per_s
                );
                return Err(self.error(curve.source, point.line, message));
            }
        }
        for point in self.curves.iter_mut().flat_map(|curve| &mut curve.points) {
            point.latency_ns -= ns;
        }
        Ok(())
    }

    /// The point with most lines in flight, by Little's law: its mix, the point, and their number.
    pub fn fullest(&self) -> (f64, MeasuredPoint, f64) {
        let peaks = self.curves.iter().map(|curve| {
            let peak = curve.peak();
            // MB/s times ns is 10^-3 bytes.
            let in_flight = peak.mb_per_s * peak.latency_ns * 1e-3 / 64.0;
            (curve.read_percent, peak, in_flight)
        });
        let most = peaks.max_by(|a, b| a.2.total_cmp(&b.2));
        most.unwrap_or_else(|| unreachable!("a family has a curve"))
    }

    /// An error about a point of a curve.
    pub(super) fn point_error(
        &self,
        read_percent: f64,
        line: usize,
        message: String,
    ) -> CurveError {
        let mut curves = self.curves.iter();
        let curve = curves.find(|curve| curve.read_percent == read_percent);
        self.error(curve.map_or(0, |curve| curve.source), line, message)
    }

    fn error(&self, source: usize, line: usize, message: String) -> CurveError {
        CurveError::new(&self.sources[source], line, message)
    }

    fn check_peaks(&self) -> Result<(), CurveError> {
        let peak = |curve: &Curve| curve.peak().mb_per_s;
        let by_peak = |a: &&Curve, b: &&Curve| peak(a).total_cmp(&peak(b));
        let (least, most) = (
            self.curves.iter().min_by(by_peak),
            self.curves.iter().max_by(by_peak),
        );
        let (Some(least), Some(most)) = (least, most) else {
            unreachable!("a family has a curve")
        };
        if peak(most) > MAX_PEAK_RATIO * peak(least) {
            let message = format!(
                "bandwidth: found {} MB/s; allowed: at most {MAX_PEAK_RATIO} times the least peak \
                 of the family, {} MB/s at {} % reads. A larger factor is a wrong unit",
                peak(most),
                peak(least),
                least.read_percent
            );
            return Err(self.error(most.source, most.peak().line, message));
        }
        Ok(())
    }
}

/// The curve of the points of one mix; `points` has the number of the source of each.
fn curve(
    sources: &[CurveSource],
    points: &[(usize, MeasuredPoint)],
    noise: f64,
) -> Result<Curve, CurveError> {
    let (source, first) = points[0];
    let read_percent = first.read_percent;
    let error = |source: usize, line: usize, message: String| {
        Err(CurveError::new(&sources[source].name, line, message))
    };
    if let Some((other, point)) = points.iter().find(|(other, _)| *other != source) {
        let message = format!(
            "mix: found {read_percent} % reads, as in {}:{}; allowed: a mix in one file",
            sources[source].name, first.line
        );
        return error(*other, point.line, message);
    }
    if points.len() < 2 {
        let message = format!("found 1 point of {read_percent} % reads; allowed: two at least");
        return error(source, first.line, message);
    }
    let mut curve = Curve {
        source,
        read_percent,
        points: envelope(points.iter().map(|(_, point)| *point).collect()),
        left_out: 0,
        largest_noise: 0.0,
    };
    curve.left_out = points.len() - curve.points.len();
    for (_, point) in points {
        let found = curve.noise_of(point);
        curve.largest_noise = curve.largest_noise.max(found);
        if found > noise {
            let on_curve = curve.latency_ns(point.mb_per_s);
            let message = format!(
                "latency: found {:.6} ns at {:.6} MB/s, though points of as much bandwidth have {:.6} ns: \
                 {:.1} % from the curve of {read_percent} % reads; allowed: a latency that does not fall \
                 with bandwidth, but by `noise`, {:.1} %",
                point.latency_ns,
                point.mb_per_s,
                on_curve,
                100.0 * found,
                100.0 * noise
            );
            return error(source, point.line, message);
        }
    }
    if curve.points.len() < 2 {
        let message = format!(
            "found one point of {read_percent} % reads that has least latency and most bandwidth; \
             allowed: two at least with a latency that does not fall with bandwidth"
        );
        return error(source, curve.points[0].line, message);
    }
    Ok(curve)
}

/// The points that no other point dominates, in order of bandwidth.
fn envelope(mut points: Vec<MeasuredPoint>) -> Vec<MeasuredPoint> {
    points.sort_by(|a, b| {
        let by_bandwidth = b.mb_per_s.total_cmp(&a.mb_per_s);
        by_bandwidth.then(a.latency_ns.total_cmp(&b.latency_ns))
    });
    let mut kept: Vec<MeasuredPoint> = Vec::new();
    for point in points {
        let keeps = |last: &MeasuredPoint| {
            point.mb_per_s < last.mb_per_s && point.latency_ns <= last.latency_ns
        };
        if kept.last().is_none_or(keeps) {
            kept.push(point);
        }
    }
    kept.reverse();
    kept
}
