//! Lifetimes of VMs: a distribution given by points of its CDF, log-uniform between the points.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A point of the distribution of lifetimes.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Lifetime in hours, above 0.
    #[schemars(range(min = 1e-4, max = 1e6))]
    pub hours: f64,
    /// Share of VMs that live no longer. 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub part: f64,
}

/// A distribution of lifetimes. Moments and residual lifetimes have closed forms. Within a piece
/// from a to b the density is 1 / (x ln(b / a)), so the mean is (b - a) / ln(b / a). The
/// length-biased density, x times that, is uniform.
#[derive(Clone, PartialEq, Debug)]
pub struct Lifetimes {
    pieces: Vec<Piece>,
    mean_h: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Piece {
    from: f64,
    to: f64,
    part: f64,
}

impl Piece {
    fn mean(&self) -> f64 {
        if self.to > self.from {
            (self.to - self.from) / libm::log(self.to / self.from)
        } else {
            self.from
        }
    }
}

impl Lifetimes {
    /// A distribution from sorted points. The first point must have part 0, and the last part 1.
    ///
    /// # Errors
    /// The first mistake, if the points form no distribution.
    pub fn new(points: &[Point]) -> Result<Lifetimes, ParamError> {
        let wrong = |message: &str| Err(ParamError::new("lifetimes", message));
        let ends = (points.first(), points.last());
        let (Some(first), Some(last)) = ends else {
            return wrong("found no points; allowed: two or more");
        };
        if points.len() < 2 || first.part != 0.0 || last.part != 1.0 {
            return wrong(
                "allowed: two points or more, the first with `part = 0`, the last with `part = 1`",
            );
        }
        let rise = |pair: &[Point]| pair[0].hours <= pair[1].hours && pair[0].part <= pair[1].part;
        if !points.windows(2).all(rise) {
            return wrong("allowed: points whose hours and parts never fall");
        }
        let pieces: Vec<Piece> = (points.windows(2))
            .map(|pair| Piece {
                from: pair[0].hours,
                to: pair[1].hours,
                part: pair[1].part - pair[0].part,
            })
            .filter(|piece| piece.part > 0.0)
            .collect();
        let mean_h = pieces.iter().map(|piece| piece.part * piece.mean()).sum();
        Ok(Lifetimes { pieces, mean_h })
    }

    /// Mean lifetime, in hours.
    pub fn mean_h(&self) -> f64 {
        self.mean_h
    }

    /// Mean lifetime that an observer sees in a window of `window_h` hours, in hours, if VMs arrive
    /// at a constant rate for ever. VMs that run when the window opens are seen from then on, and
    /// VMs that run when it closes until then.
    ///
    /// At a rate r the observer sees r m VMs that run at the beginning and r w that arrive in the
    /// window, and r m w hours in all, with m the mean lifetime and w the window. So the mean is
    /// `m w / (m + w)`, whatever the distribution.
    pub fn mean_in_window_h(&self, window_h: f64) -> f64 {
        self.mean_h * window_h / (self.mean_h + window_h)
    }

    /// Share of the VMs seen in a window of `window_h` hours (see [`Self::mean_in_window_h`])
    /// whose seen lifetime is at most `hours`, for `hours` below the window:
    /// `(integral of 1 - F from 0 to x + (w - x) F(x) + x) / (m + w)`. The terms are the VMs that
    /// run at the beginning and have at most x left, those that live at most x and arrive early
    /// enough, and those that arrive within x of the end.
    pub fn part_seen_in_window(&self, hours: f64, window_h: f64) -> f64 {
        let early = (window_h - hours) * self.part_up_to(hours);
        (self.mean_up_to_h(hours) + early + hours) / (self.mean_h + window_h)
    }

    /// Share of VMs that live at most `hours`.
    pub fn part_up_to(&self, hours: f64) -> f64 {
        let part = |piece: &Piece| {
            if hours >= piece.to {
                piece.part
            } else if hours <= piece.from {
                0.0
            } else {
                piece.part * libm::log(hours / piece.from) / libm::log(piece.to / piece.from)
            }
        };
        self.pieces.iter().map(part).sum()
    }

    /// Mean of the smaller of a lifetime and `bound`, in hours. It is the integral of
    /// `1 - F` from 0 to `bound`.
    fn mean_up_to_h(&self, bound: f64) -> f64 {
        let part = |piece: &Piece| {
            let to = piece.to.min(bound);
            if to <= piece.from {
                return piece.part * bound.min(piece.from);
            }
            let width = libm::log(piece.to / piece.from);
            piece.part * ((to - piece.from) / width + bound * libm::log(piece.to / to) / width)
        };
        self.pieces.iter().map(part).sum()
    }

    /// Draws a lifetime, in hours.
    pub fn draw(&self, rng: &mut StreamRng) -> f64 {
        let (piece, part) = self.pick(rng, |piece| piece.part, 1.0);
        piece.from * libm::exp(part * libm::log(piece.to / piece.from))
    }

    /// Draws a length-biased lifetime, in hours: that of a VM that runs at a given moment.
    pub fn draw_biased(&self, rng: &mut StreamRng) -> f64 {
        let weight = |piece: &Piece| piece.part * piece.mean();
        let (piece, part) = self.pick(rng, weight, self.mean_h);
        piece.from + part * (piece.to - piece.from)
    }

    fn pick(
        &self,
        rng: &mut StreamRng,
        weight: impl Fn(&Piece) -> f64,
        total: f64,
    ) -> (Piece, f64) {
        let mut left = rng.unit() * total;
        let part = rng.unit();
        let mut chosen = self.pieces[0];
        for piece in &self.pieces {
            chosen = *piece;
            left -= weight(piece);
            if left <= 0.0 {
                break;
            }
        }
        (chosen, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetimes() -> Lifetimes {
        let points = [(1.0, 0.0), (10.0, 0.5), (100.0, 0.9), (100.0, 1.0)];
        let points = points.map(|(hours, part)| Point { hours, part });
        Lifetimes::new(&points).unwrap()
    }

    #[test]
    fn draws_have_the_mean_of_the_closed_form() {
        let lifetimes = lifetimes();
        let ln10 = std::f64::consts::LN_10;
        let exact = 0.5 * 9.0 / ln10 + 0.4 * 90.0 / ln10 + 0.1 * 100.0;
        assert!((lifetimes.mean_h() - exact).abs() < 1e-12);
        let mut rng = StreamRng::new(1, "lifetimes");
        let mean = (0..400_000).map(|_| lifetimes.draw(&mut rng)).sum::<f64>() / 400_000.0;
        assert!((mean / exact - 1.0).abs() < 0.01, "{mean} {exact}");
        let below = |bound| lifetimes.mean_up_to_h(bound);
        assert!((below(1e9) - exact).abs() < 1e-12 && (below(0.5) - 0.5).abs() < 1e-12);
    }

    /// Lifetimes of exactly 30 hours in a window of 60. A third of the VMs run at the beginning and
    /// are seen for 0 to 30 hours, a third are seen whole, and the end cuts a third.
    #[test]
    fn equal_lives_in_a_window_have_the_distribution_that_is_counted_by_hand() {
        let points = [(30.0, 0.0), (30.0, 1.0)].map(|(hours, part)| Point { hours, part });
        let lifetimes = Lifetimes::new(&points).unwrap();
        assert!((lifetimes.mean_in_window_h(60.0) - 20.0).abs() < 1e-12);
        for hours in [0.0, 7.5, 15.0, 29.999] {
            let by_hand = 2.0 / 3.0 * hours / 30.0;
            let found = lifetimes.part_seen_in_window(hours, 60.0);
            assert!((found - by_hand).abs() < 1e-12, "{hours}: {found}");
        }
        assert!((lifetimes.part_seen_in_window(30.0, 60.0) - 1.0).abs() < 1e-12);
    }

    /// The mean of a length-biased lifetime is E[L^2] / E[L] (inspection paradox).
    #[test]
    fn lives_that_a_moment_falls_into_have_the_mean_of_the_second_moment_over_the_first() {
        let lifetimes = lifetimes();
        let ln10 = std::f64::consts::LN_10;
        let square = |a: f64, b: f64| (b * b - a * a) / 2.0 / ln10;
        let second = 0.5 * square(1.0, 10.0) + 0.4 * square(10.0, 100.0) + 0.1 * 1e4;
        let exact = second / lifetimes.mean_h();
        let mut rng = StreamRng::new(1, "biased");
        let draws = (0..400_000).map(|_| lifetimes.draw_biased(&mut rng));
        let mean = draws.sum::<f64>() / 400_000.0;
        assert!((mean / exact - 1.0).abs() < 0.01, "{mean} {exact}");
    }

    #[test]
    fn points_that_are_no_distribution_are_refused() {
        let refused = |points: &[(f64, f64)]| {
            let point = |&(hours, part): &(f64, f64)| Point { hours, part };
            let points: Vec<Point> = points.iter().map(point).collect();
            Lifetimes::new(&points).is_err()
        };
        assert!(refused(&[]) && refused(&[(1.0, 0.0)]) && refused(&[(1.0, 0.0), (2.0, 0.9)]));
        assert!(refused(&[(1.0, 0.1), (2.0, 1.0)]));
        assert!(refused(&[(1.0, 0.0), (3.0, 0.5), (2.0, 1.0)]));
        assert!(refused(&[(1.0, 0.0), (2.0, 0.5), (3.0, 0.4), (4.0, 1.0)]));
    }
}
