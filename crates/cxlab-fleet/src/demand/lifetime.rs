//! Lifetimes of VMs: a distribution given by points of its CDF, log-uniform between them.

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
    /// The part of VMs that live no longer. 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub part: f64,
}

/// A distribution of lifetimes. Moments and residual lives have closed forms: within a piece from a
/// to b the density is 1 / (x ln(b / a)), so the mean is (b - a) / ln(b / a), and the density of
/// the life that a given moment falls into, x times that, is uniform.
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
    /// From points in order, the first with part 0 and the last with part 1.
    ///
    /// # Errors
    /// Points that are no distribution.
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

    /// The mean, in hours.
    pub fn mean_h(&self) -> f64 {
        self.mean_h
    }

    /// The mean of the smaller of a lifetime and `bound`, in hours: what is seen of lives that a
    /// window of that length cuts.
    pub fn mean_below_h(&self, bound: f64) -> f64 {
        let part = |piece: &Piece| {
            let to = piece.to.min(bound);
            if to <= piece.from {
                return piece.part * bound.min(piece.from);
            }
            let width = libm::log(piece.to / piece.from);
            let inside = (to - piece.from) / width + bound * libm::log(piece.to / to) / width;
            piece.part
                * if piece.to > piece.from {
                    inside
                } else {
                    piece.from
                }
        };
        self.pieces.iter().map(part).sum()
    }

    /// A lifetime, in hours.
    pub fn draw(&self, rng: &mut StreamRng) -> f64 {
        let (piece, part) = self.pick(rng, |piece| piece.part, 1.0);
        piece.from * libm::exp(part * libm::log(piece.to / piece.from))
    }

    /// The lifetime that a given moment falls into, in hours: longer ones are found more often.
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
        let below = |bound| lifetimes.mean_below_h(bound);
        assert!((below(1e9) - exact).abs() < 1e-12 && (below(0.5) - 0.5).abs() < 1e-12);
    }

    /// E[L'] of the life that a moment falls into is E[L^2] / E[L] (inspection paradox).
    #[test]
    fn lives_that_a_moment_falls_into_have_the_mean_of_the_second_moment_over_the_first() {
        let lifetimes = lifetimes();
        let ln10 = std::f64::consts::LN_10;
        let square = |a: f64, b: f64| (b * b - a * a) / 2.0 / ln10;
        let second = 0.5 * square(1.0, 10.0) + 0.4 * square(10.0, 100.0) + 0.1 * 1e4;
        let exact = second / lifetimes.mean_h();
        let mut rng = StreamRng::new(1, "biased");
        let mean = (0..400_000)
            .map(|_| lifetimes.draw_biased(&mut rng))
            .sum::<f64>()
            / 400_000.0;
        assert!((mean / exact - 1.0).abs() < 0.01, "{mean} {exact}");
    }

    #[test]
    fn points_that_are_no_distribution_are_refused() {
        let refused = |points: &[(f64, f64)]| {
            let points: Vec<Point> = (points.iter())
                .map(|(hours, part)| Point {
                    hours: *hours,
                    part: *part,
                })
                .collect();
            Lifetimes::new(&points).is_err()
        };
        assert!(refused(&[]) && refused(&[(1.0, 0.0)]) && refused(&[(1.0, 0.0), (2.0, 0.9)]));
        assert!(refused(&[(1.0, 0.1), (2.0, 1.0)]));
        assert!(refused(&[(1.0, 0.0), (3.0, 0.5), (2.0, 1.0)]));
        assert!(refused(&[(1.0, 0.0), (2.0, 0.5), (3.0, 0.4), (4.0, 1.0)]));
    }
}
