//! Numbers drawn from Zipf's distribution by rejection-inversion (Hörmann and Derflinger, ACM
//! TOMACS 1996). The method needs no table and only a few draws, whatever the number of items.

use cxlab_engine::rng::StreamRng;
use serde::{Deserialize, Serialize};

/// A distribution over the ranks 0 to n - 1; rank k has a probability in proportion
/// to (k + 1)^-exponent.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Zipf {
    exponent: f64,
    n: f64,
    /// The integral of the enveloping function up to 3/2, less 1.
    low: f64,
    /// The integral of the enveloping function up to n + 1/2.
    high: f64,
    /// Draws at most this far below an integer are accepted without a further test.
    near: f64,
}

impl Zipf {
    /// Makes the distribution over `n` ranks, at least 1, with an exponent above 0.
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let n = n.max(1) as f64;
        let zipf = Zipf {
            exponent,
            n,
            low: integral(exponent, 1.5) - 1.0,
            high: integral(exponent, n + 0.5),
            near: 0.0,
        };
        let second = integral(exponent, 2.5) - zipf.height(2.0);
        Zipf {
            near: 2.0 - zipf.inverse(second),
            ..zipf
        }
    }

    /// Draws a rank.
    pub fn draw(&self, rng: &mut StreamRng) -> u64 {
        loop {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let k = libm::floor(x + 0.5).clamp(1.0, self.n);
            if k - x <= self.near || u >= integral(self.exponent, k + 0.5) - self.height(k) {
                return k as u64 - 1;
            }
        }
    }

    /// The enveloping function, x^-exponent.
    fn height(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// The inverse of the integral: the x up to which it has this value.
    fn inverse(&self, value: f64) -> f64 {
        let t = (value * (1.0 - self.exponent)).max(-1.0);
        let slope = match t.abs() > 1e-8 {
            true => libm::log1p(t) / t,
            false => 1.0 - t / 2.0,
        };
        libm::exp(slope * value)
    }
}

/// The integral of x^-exponent from 1 to x.
fn integral(exponent: f64, x: f64) -> f64 {
    let log = libm::log(x);
    let t = (1.0 - exponent) * log;
    let slope = match t.abs() > 1e-8 {
        true => libm::expm1(t) / t,
        false => 1.0 + t / 2.0,
    };
    slope * log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_their_power_says() {
        const DRAWS: usize = 400_000;
        for (n, exponent) in [
            (1u64, 0.99),
            (2, 0.99),
            (50, 0.5),
            (50, 0.99),
            (50, 1.0),
            (50, 2.5),
        ] {
            let zipf = Zipf::new(n, exponent);
            let mut rng = StreamRng::new(n, "zipf");
            let mut counts = vec![0u32; n as usize];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            let weight = |k: usize| ((k + 1) as f64).powf(-exponent);
            let all: f64 = (0..n as usize).map(weight).sum();
            for (k, count) in counts.iter().enumerate() {
                let expected = weight(k) / all * DRAWS as f64;
                let deviation = (f64::from(*count) - expected).abs();
                assert!(
                    deviation < 5.0 * expected.sqrt().max(1.0),
                    "{n} {exponent}: rank {k} came {count} times, expected {expected}"
                );
            }
        }
    }
}
