//! `ep`: pairs of Gaussian random numbers, counted by magnitude (NPB `ep.f`). Each thread draws a
//! batch of uniform numbers into its own buffer, and then processes them in pairs. An iteration is
//! a batch of every thread.

use cxlab_engine::units::LINE_BYTES;

use super::{Arrays, Nas, Program, RangesAhead, RunningKernel, Worker, bytes_of, doubles};
use crate::thread::Window;

/// The generator: `x = A x mod 2^46`, starting with [`SEED`] (`randlc`).
const A: u64 = 1_220_703_125;
const SEED: u64 = 271_828_183;
const MODULUS_BITS: u32 = 46;
/// Working set in GiB: CXL-ClusterSim, Table 3, for all buffers together.
const GIBIBYTES: u64 = 1;
/// Number of pairs in a block of the buffer.
const BLOCK: u64 = 32;
/// Floating-point operations of a pair: two multiplications of the generator in halves, and a
/// logarithm and a square root for most pairs (*assumed*; NPB counts numbers instead).
const FLOPS: u64 = 100;
/// Words of a thread's results: ten counts, and both sums.
const RESULTS: u64 = 16;

const BUFFERS: usize = 0;
const COUNTS: usize = 1;

pub(super) struct Pairs {
    /// Number of pairs of a batch: a multiple of [`BLOCK`].
    pairs: u64,
    iterations: u32,
    cores: u64,
}

/// Counts and sums of Gaussian pairs.
#[derive(Clone, Default)]
struct Tally {
    counts: [u64; 10],
    sums: [f64; 2],
}

impl Tally {
    /// Adds the Gaussian pair of two uniform numbers between 0 and 1 (the polar method).
    fn take(&mut self, one: f64, other: f64) {
        let (x, y) = (2.0 * one - 1.0, 2.0 * other - 1.0);
        let square = x * x + y * y;
        if square > 1.0 {
            return;
        }
        let factor = (-2.0 * libm::log(square) / square).sqrt();
        let (x, y) = (x * factor, y * factor);
        let ring = x.abs().max(y.abs()) as usize;
        if let Some(count) = self.counts.get_mut(ring) {
            *count += 1;
        }
        self.sums[0] += x;
        self.sums[1] += y;
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let sums = self.sums.map(f64::to_bits);
        self.counts.into_iter().chain(sums)
    }
}

fn multiplied(x: u64, y: u64) -> u64 {
    x.wrapping_mul(y) & ((1 << MODULUS_BITS) - 1)
}

/// The state of the generator after this many numbers.
fn state_after(numbers: u64) -> u64 {
    let (mut left, mut power, mut state) = (numbers, A, SEED);
    while left > 0 {
        if left & 1 == 1 {
            state = multiplied(state, power);
        }
        power = multiplied(power, power);
        left >>= 1;
    }
    state
}

/// The next number, between 0 and 1.
fn draw(state: &mut u64) -> f64 {
    *state = multiplied(*state, A);
    *state as f64 / (1u64 << MODULUS_BITS) as f64
}

impl Pairs {
    pub(super) fn new(params: &Nas, cores: u64) -> Pairs {
        let pairs = params.working_set(GIBIBYTES) / (16 * cores);
        Pairs {
            pairs: (pairs / BLOCK).max(1) * BLOCK,
            iterations: params.iterations,
            cores,
        }
    }

    async fn work(&self, worker: &mut Worker<'_>) {
        let (t, core) = (worker.t, worker.team.core);
        let mine = 2 * self.pairs * core;
        let mut tally = Tally::default();
        for iteration in 0..u64::from(self.iterations) {
            let mut state = state_after(2 * self.pairs * (iteration * self.cores + core));
            let mut stores = Window::new(worker.outstanding());
            for block in 0..self.pairs / BLOCK {
                let numbers: Vec<f64> = (0..2 * BLOCK).map(|_| draw(&mut state)).collect();
                worker.compute(FLOPS * BLOCK / 2).await;
                stores.room().await;
                let at = worker.at(BUFFERS, mine + 2 * BLOCK * block);
                stores.add(t.write_range(at, &bytes_of(&numbers)));
            }
            stores.drain().await;
            let blocks = (0..self.pairs / BLOCK)
                .map(|block| (worker.at(BUFFERS, mine + 2 * BLOCK * block), 16 * BLOCK));
            let mut ahead = RangesAhead::new(worker, blocks);
            for _ in 0..self.pairs / BLOCK {
                let numbers = doubles(&ahead.next().await);
                for pair in numbers.as_chunks::<2>().0 {
                    tally.take(pair[0], pair[1]);
                }
                worker.compute(FLOPS * BLOCK / 2).await;
                t.count(BLOCK as u32);
            }
        }
        for (at, word) in (RESULTS * core..).zip(tally.words()) {
            drop(t.store(worker.at(COUNTS, at), word));
        }
        worker.team.barrier().await;
    }
}

impl Program for Pairs {
    fn arrays(&self) -> Vec<u64> {
        let results = (8 * RESULTS).next_multiple_of(LINE_BYTES);
        vec![16 * self.pairs * self.cores, results * self.cores]
    }

    fn prepare(&self, _: &Arrays<'_>) {}

    fn run<'a>(&'a self, worker: &'a mut Worker<'_>) -> RunningKernel<'a> {
        Box::pin(self.work(worker))
    }

    /// Checks against all numbers drawn in one sequence, without jumps.
    fn check(&self, memory: &Arrays<'_>) -> Result<(), String> {
        let mut state = SEED;
        let mut tallies = vec![Tally::default(); self.cores as usize];
        for _ in 0..self.iterations {
            for tally in &mut tallies {
                for _ in 0..self.pairs {
                    let one = draw(&mut state);
                    tally.take(one, draw(&mut state));
                }
            }
        }
        for (core, tally) in (0..).zip(&tallies) {
            for (at, expected) in (0..).zip(tally.words()) {
                let found = memory.word(COUNTS, RESULTS * core + at);
                if found != expected {
                    return Err(format!(
                        "ep: result {at} of thread {core} is {found:#x}, not {expected:#x}"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_as_many_draws() {
        let mut state = SEED;
        for numbers in 0..100 {
            assert_eq!(state_after(numbers), state);
            draw(&mut state);
        }
    }

    /// Sums of class S, 2^24 pairs, as `ep.f` of NPB 3.4 verifies them.
    #[test]
    fn class_s_sums_up_to_what_the_benchmark_expects() {
        let (mut state, mut tally) = (SEED, Tally::default());
        for _ in 0..1 << 24 {
            let one = draw(&mut state);
            tally.take(one, draw(&mut state));
        }
        let expected = [-3_247.834_652_034_74, -6_958.407_078_382_297];
        for (found, expected) in tally.sums.into_iter().zip(expected) {
            assert!(((found - expected) / expected).abs() < 1e-8, "{found}");
        }
    }

    #[test]
    fn pairs_fall_as_a_normal_distribution() {
        let (mut state, mut tally) = (SEED, Tally::default());
        let pairs = 1 << 16;
        for _ in 0..pairs {
            let one = draw(&mut state);
            tally.take(one, draw(&mut state));
        }
        let all: u64 = tally.counts.iter().sum();
        let part = |count: u64| count as f64 / all as f64;
        // Expected fractions: pi / 4 of the square; both numbers below 1: 0.6827 squared; both
        // below 2: 0.9545 squared.
        assert!((all as f64 / f64::from(pairs) - std::f64::consts::FRAC_PI_4).abs() < 0.01);
        assert!((part(tally.counts[0]) - 0.4660).abs() < 0.01);
        assert!((part(tally.counts[0] + tally.counts[1]) - 0.9110).abs() < 0.01);
    }
}
