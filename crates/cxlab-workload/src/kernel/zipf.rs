//! Numbers drawn from Zipf's distribution by rejection-inversion (Hörmann and Derflinger, ACM
//! TOMACS 1996): no table, and a few draws at most, for every number of items.

use cxlab_engine::rng::StreamRng;
use serde::{Deserialize, Serialize};

/// Ranks 0 to n - 1; rank k is drawn with a probability in proportion to (k + 1)^-exponent.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Zipf {
    exponent: f64,
    n: f64,
    /// Integrals of the enveloping function to 3/2, less 1, and to n + 1/2.
    low: f64,
    high: f64,
    /// Draws this near to a number are accepted at once.
    near: f64,
}

impl Zipf {
    /// The distribution over `n` ranks, at least 1, with an exponent above 0.
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

    /// A rank.
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

    /// x^-exponent.
    fn height(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// Where the integral has this value.
    fn inverse(&self, value: f64) -> f64 {
        let t = (value * (1.0 - self.exponent)).max(-1.0);
        let slope = match t.abs() > 1e-8 {
            true => libm::log1p(t) / t,
            false => 1.0 - t / 2.0,
        };
        libm::exp(slope * value)
    }
}

/// The integral of x^-exponent from 1.
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
