//! Latency as a function of the number of lines in flight, made from a family of curves.
//!
//! By Little's law a point of bandwidth `b` and latency `L` has `n = b L` lines in flight. On a curve
//! that does not fall, `n` grows with `b`, so the latency is a function of `n` too. Between two points the
//! latency is linear in the bandwidth: `L = c + k b`, and with `b = n / L` it is
//! `L = (c + sqrt(c^2 + 4 k n)) / 2`. Beyond the last point the latency is that of the last point: more
//! requests wait for the bus.
//!
//! All values are `f64`. The operations are those that IEEE 754 rounds alike on every machine (`+ - * /`
//! and the square root), so results are the same everywhere.

use cxlab_engine::units::LINE_BYTES;

use super::family::{Curve, CurveFamily};

/// A part of a curve that begins at `from` lines in flight.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: f64,
    /// Picoseconds.
    c: f64,
    /// Four times the slope of the latency, in square picoseconds.
    four_k: f64,
}

impl Segment {
    fn latency_ps(&self, in_flight: f64) -> f64 {
        let product = self.four_k * in_flight;
        let root = (self.c * self.c + product).sqrt();
        // The two forms are equal. Each is exact where the other subtracts nearly equal numbers.
        match self.c > 0.0 {
            true => 0.5 * (self.c + root),
            false => 0.5 * product / (root - self.c),
        }
    }
}

/// The latency of one mix as a function of the lines in flight.
#[derive(Debug)]
struct LatencyCurve {
    /// Share of reads, 0 to 1.
    reads: f64,
    segments: Vec<Segment>,
    /// Lines in flight at the last point.
    full: f64,
    /// Time of a line at the peak, in picoseconds.
    line_ps: f64,
    /// Latency of the first point, in picoseconds.
    unloaded_ps: f64,
}

impl LatencyCurve {
    fn new(curve: &Curve) -> LatencyCurve {
        // Bandwidths in lines per picosecond, latencies in picoseconds.
        let points: Vec<[f64; 2]> = curve
            .points
            .iter()
            .map(|point| {
                let rate = point.mb_per_s * 1e-6 / LINE_BYTES as f64;
                [rate, point.latency_ns * 1e3]
            })
            .collect();
        let (first, last) = (points[0], points[points.len() - 1]);
        let constant = Segment {
            from: 0.0,
            c: first[1],
            four_k: 0.0,
        };
        let between = points.windows(2).map(|pair| {
            let ([b, latency], [next_b, next_latency]) = (pair[0], pair[1]);
            let k = (next_latency - latency) / (next_b - b);
            Segment {
                from: b * latency,
                c: latency - k * b,
                four_k: 4.0 * k,
            }
        });
        LatencyCurve {
            reads: curve.read_percent / 100.0,
            segments: std::iter::once(constant).chain(between).collect(),
            full: last[0] * last[1],
            line_ps: 1.0 / last[0],
            unloaded_ps: first[1],
        }
    }

    fn latency_ps(&self, in_flight: f64) -> f64 {
        if in_flight >= self.full {
            return self.full * self.line_ps;
        }
        let next = (self.segments).partition_point(|segment| segment.from <= in_flight);
        self.segments[next.saturating_sub(1)].latency_ps(in_flight)
    }
}

/// The latencies of all mixes.
#[derive(Debug)]
pub(super) struct LatencyTable {
    /// In order of their share of reads. At least one.
    curves: Vec<LatencyCurve>,
}

/// A mix between two curves of a table.
#[derive(Clone, Copy)]
pub(super) struct Mix<'a> {
    below: &'a LatencyCurve,
    above: &'a LatencyCurve,
    /// Weight of the curve above, 0 to 1.
    weight: f64,
    /// Distance of the share of reads from the nearest curve beyond the ends of the family; 0 within.
    pub(super) outside: f64,
}

impl LatencyTable {
    pub(super) fn new(family: &CurveFamily) -> LatencyTable {
        LatencyTable {
            curves: family.curves().iter().map(LatencyCurve::new).collect(),
        }
    }

    /// The mix of a share of reads, 0 to 1. Beyond the ends of the family it is the last curve.
    pub(super) fn mix(&self, reads: f64) -> Mix<'_> {
        let last = self.curves.len() - 1;
        let next = self.curves.partition_point(|curve| curve.reads < reads);
        let above = &self.curves[next.min(last)];
        let below = &self.curves[next.saturating_sub(1).min(last)];
        let span = above.reads - below.reads;
        let (weight, outside) = match span > 0.0 {
            true => ((reads - below.reads) / span, 0.0),
            false => (0.0, (reads - above.reads).abs()),
        };
        Mix {
            below,
            above,
            weight,
            outside,
        }
    }

    /// The unloaded latency in picoseconds, if it is the same for all mixes.
    pub(super) fn constant_unloaded_ps(&self) -> Option<f64> {
        let first = self.curves[0].unloaded_ps;
        let same = |curve: &LatencyCurve| curve.unloaded_ps == first;
        self.curves.iter().all(same).then_some(first)
    }
}

impl Mix<'_> {
    /// Times of both curves, weighted.
    fn between(&self, of: impl Fn(&LatencyCurve) -> f64) -> f64 {
        let below = of(self.below);
        if self.weight == 0.0 {
            return below;
        }
        below + self.weight * (of(self.above) - below)
    }

    /// Latency in picoseconds with this many lines in flight.
    pub(super) fn latency_ps(&self, in_flight: f64) -> f64 {
        self.between(|curve| curve.latency_ps(in_flight))
    }

    /// Latency in picoseconds at the lowest bandwidth of the curves.
    pub(super) fn unloaded_ps(&self) -> f64 {
        self.between(|curve| curve.unloaded_ps)
    }

    /// Time of a line at the peak, in picoseconds.
    pub(super) fn line_ps(&self) -> f64 {
        self.between(|curve| curve.line_ps)
    }

    /// Lines in flight at the last point.
    pub(super) fn full(&self) -> f64 {
        self.between(|curve| curve.full)
    }
}
