//! `ft`: a field that diffuses in Fourier space, and its transform back in
//! each iteration (NPB `ft.f`).
//!
//! An iteration multiplies the field's transform by a factor for each point, and transforms the
//! result along `x`, `y` and `z`. A line along `x` is contiguous in memory. Along the other
//! directions, 16 adjacent lines are transformed together, as in NPB (`fftblock`), so that whole
//! cache lines are used.

use std::ops::Range;
use std::sync::OnceLock;

use cxlab_engine::rng::StreamRng;

use super::{Arrays, Nas, Program, RangesAhead, RunningKernel, Worker, bytes_of, doubles};
use crate::thread::Window;

/// Sides of class D.
const SIDES: [u64; 3] = [2048, 1024, 1024];
/// Number of lines that are transformed together (`fftblock_default`).
const BLOCK: u64 = 16;
/// Number of points that are multiplied by their factors at a time.
const POINTS: u64 = 32;

const SPECTRUM: usize = 0;
const FIELD: usize = 1;
const FACTORS: usize = 2;

/// A complex number: its real part, then its imaginary part.
type Complex = [f64; 2];

pub(super) struct Transforms {
    sides: [u64; 3],
    iterations: u32,
    seed: u64,
    /// The initial contents, made when they are first needed.
    data: OnceLock<Data>,
}

/// The initial contents of memory.
struct Data {
    spectrum: Vec<f64>,
    factors: Vec<f64>,
}

/// The discrete Fourier transform of a power of two of numbers, without scaling:
/// `sum x[k] e^(i 2 pi j k / n)`. The algorithm is Stockham's.
fn transform(mut from: Vec<Complex>) -> Vec<Complex> {
    let n = from.len();
    let mut to = vec![[0.0; 2]; n];
    let (mut groups, mut length) = (n / 2, 1);
    while groups > 0 {
        for group in 0..groups {
            let angle = std::f64::consts::PI * group as f64 / groups as f64;
            let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
            for at in 0..length {
                let [a, b] = [group, group + groups].map(|one| from[at + length * one]);
                let difference = [a[0] - b[0], a[1] - b[1]];
                to[at + length * 2 * group] = [a[0] + b[0], a[1] + b[1]];
                to[at + length * (2 * group + 1)] = [
                    cosine * difference[0] - sine * difference[1],
                    cosine * difference[1] + sine * difference[0],
                ];
            }
        }
        std::mem::swap(&mut from, &mut to);
        (groups, length) = (groups / 2, 2 * length);
    }
    from
}

fn complex(numbers: &[f64]) -> Vec<Complex> {
    numbers.as_chunks::<2>().0.to_vec()
}

impl Transforms {
    pub(super) fn new(params: &Nas, seed: u64) -> Transforms {
        Transforms {
            sides: SIDES.map(|side| side / params.shrink),
            iterations: params.iterations,
            seed,
            data: OnceLock::new(),
        }
    }

    fn data(&self) -> &Data {
        self.data.get_or_init(|| {
            let mut rng = StreamRng::new(self.seed, "nas/ft");
            Data {
                spectrum: (0..2 * self.points()).map(|_| rng.unit()).collect(),
                factors: (0..self.points()).map(|point| self.factor(point)).collect(),
            }
        })
    }

    /// The decay factor of a wave in an iteration, by the square of the wave's
    /// number (`alpha` is 1e-6).
    fn factor(&self, point: u64) -> f64 {
        let [x, y, z] = self.sides;
        let waves = [(point % x, x), (point / x % y, y), (point / (x * y), z)];
        let number = |(at, side): (u64, u64)| at.min(side - at) as f64;
        let square: f64 = waves.into_iter().map(|one| number(one).powi(2)).sum();
        libm::exp(-4e-6 * std::f64::consts::PI.powi(2) * square)
    }

    fn points(&self) -> u64 {
        self.sides.iter().product()
    }

    /// The pieces of a block of lines in a direction: the first point of each piece, and the number
    /// of points of a piece. Along `x`, a block is one line in one piece. Along `y` and `z`, each
    /// piece has one point of every line of the block.
    fn pieces(&self, direction: usize, block: u64) -> (Vec<u64>, u64) {
        let [x, y, _] = self.sides;
        let (stride, along) = match direction {
            0 => return (vec![block * x], x),
            1 => (x, self.sides[1]),
            _ => (x * y, self.sides[2]),
        };
        let wide = BLOCK.min(x);
        let (column, other) = (block % (x / wide), block / (x / wide));
        let first = column * wide + other * if direction == 1 { x * y } else { x };
        ((0..along).map(|at| first + at * stride).collect(), wide)
    }

    fn blocks(&self, direction: usize) -> u64 {
        let [x, y, z] = self.sides;
        match direction {
            0 => y * z,
            1 => x / BLOCK.min(x) * z,
            _ => x / BLOCK.min(x) * y,
        }
    }

    /// Transforms the lines of a block and returns the block's pieces.
    fn transformed(direction: usize, pieces: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        if direction == 0 {
            let lines = pieces.into_iter().map(|line| transform(complex(&line)));
            return lines.map(|line| line.as_flattened().to_vec()).collect();
        }
        let mut results = vec![Vec::new(); pieces.len()];
        let wide = pieces.first().map_or(0, |piece| piece.len() / 2);
        for line in 0..wide {
            let point = |piece: &Vec<f64>| [piece[2 * line], piece[2 * line + 1]];
            let transformed = transform(pieces.iter().map(point).collect());
            for (result, point) in results.iter_mut().zip(transformed) {
                result.extend(point);
            }
        }
        results
    }

    async fn work(&self, worker: &mut Worker<'_>) {
        for _ in 0..self.iterations {
            let mine = worker.team.part(self.points() / POINTS);
            evolve(worker, mine).await;
            worker.team.barrier().await;
            for direction in 0..3 {
                self.along(worker, direction).await;
                worker.team.barrier().await;
            }
        }
    }

    async fn along(&self, worker: &Worker<'_>, direction: usize) {
        let mine = worker.team.part(self.blocks(direction));
        let wanted = mine.clone().flat_map(|block| {
            let (pieces, wide) = self.pieces(direction, block);
            let range = move |first: u64| (worker.at(FIELD, 2 * first), 16 * wide);
            pieces.into_iter().map(range)
        });
        let mut ahead = RangesAhead::new(worker, wanted);
        let mut stores = Window::new(worker.outstanding());
        for block in mine {
            let (places, wide) = self.pieces(direction, block);
            let mut pieces = Vec::with_capacity(places.len());
            for _ in &places {
                pieces.push(doubles(&ahead.next().await));
            }
            // 5 operations of a point for each step of its line's transform; NPB counts 7.2 log2 of
            // the number of all points.
            let points = wide * places.len() as u64;
            let steps = u64::from(self.sides[direction].ilog2());
            worker.compute(5 * points * steps).await;
            for (first, piece) in places.into_iter().zip(Self::transformed(direction, pieces)) {
                stores.room().await;
                let at = worker.at(FIELD, 2 * first);
                stores.add(worker.t.write_range(at, &bytes_of(&piece)));
            }
            if direction == 0 {
                worker.t.count(points as u32);
            }
        }
        stores.drain().await;
    }
}

/// Multiplies the transform by its factors, and copies it for the transform back.
async fn evolve(worker: &Worker<'_>, mine: Range<u64>) {
    let wanted = mine.clone().flat_map(|at| {
        let first = at * POINTS;
        [
            (worker.at(SPECTRUM, 2 * first), 16 * POINTS),
            (worker.at(FACTORS, first), 8 * POINTS),
        ]
    });
    let mut ahead = RangesAhead::new(worker, wanted);
    let mut stores = Window::new(worker.outstanding());
    for at in mine {
        let first = at * POINTS;
        let numbers = doubles(&ahead.next().await);
        let decayed = bytes_of(&decay(&numbers, &doubles(&ahead.next().await)));
        worker.compute(2 * POINTS).await;
        for array in [SPECTRUM, FIELD] {
            stores.room().await;
            let at = worker.at(array, 2 * first);
            stores.add(worker.t.write_range(at, &decayed));
        }
    }
    stores.drain().await;
}

fn decay(numbers: &[f64], factors: &[f64]) -> Vec<f64> {
    let twice = factors.iter().flat_map(|factor| [factor, factor]);
    numbers.iter().zip(twice).map(|(a, b)| a * b).collect()
}

impl Program for Transforms {
    fn arrays(&self) -> Vec<u64> {
        let points = self.points();
        vec![16 * points, 16 * points, 8 * points]
    }

    fn prepare(&self, memory: &Arrays<'_>) {
        memory.write(SPECTRUM, 0, &self.data().spectrum);
        memory.write(FACTORS, 0, &self.data().factors);
    }

    fn run<'a>(&'a self, worker: &'a mut Worker<'_>) -> RunningKernel<'a> {
        Box::pin(self.work(worker))
    }

    /// Checks against the same transforms, line after line, on plain arrays.
    fn check(&self, memory: &Arrays<'_>) -> Result<(), String> {
        let mut spectrum = self.data().spectrum.clone();
        let mut field = Vec::new();
        for _ in 0..self.iterations {
            spectrum = decay(&spectrum, &self.data().factors);
            field.clone_from(&spectrum);
            let mut stride = 1;
            for side in self.sides {
                for first in (0..self.points()).filter(|at| at / stride % side == 0) {
                    let place = |at: u64| 2 * (first + at * stride) as usize;
                    let point = |at| [field[place(at)], field[place(at) + 1]];
                    let line = transform((0..side).map(point).collect());
                    for (at, [real, imaginary]) in (0..).zip(line) {
                        field[place(at)] = real;
                        field[place(at) + 1] = imaginary;
                    }
                }
                stride *= side;
            }
        }
        memory.hold("ft: the transform", SPECTRUM, &spectrum)?;
        memory.hold("ft: the field", FIELD, &field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_the_sum_that_defines_it() {
        let mut rng = StreamRng::new(1, "ft");
        for n in [1usize, 2, 4, 16, 64] {
            let numbers: Vec<Complex> = (0..n).map(|_| [rng.unit(), rng.unit()]).collect();
            let found = transform(numbers.clone());
            for (j, found) in found.iter().enumerate() {
                let mut sum = [0.0; 2];
                for (k, [real, imaginary]) in numbers.iter().enumerate() {
                    let angle = std::f64::consts::TAU * (j * k % n) as f64 / n as f64;
                    sum[0] += real * angle.cos() - imaginary * angle.sin();
                    sum[1] += real * angle.sin() + imaginary * angle.cos();
                }
                let off = (sum[0] - found[0]).hypot(sum[1] - found[1]);
                assert!(off < 1e-10, "{j} of {n}: {found:?}, not {sum:?}");
            }
        }
    }

    #[test]
    fn the_blocks_of_a_direction_hold_each_point_once() {
        let params = Nas {
            shrink: 128,
            ..Nas::default()
        };
        let ft = Transforms::new(&params, 1);
        for direction in 0..3 {
            let mut seen = vec![0; ft.points() as usize];
            for block in 0..ft.blocks(direction) {
                let (pieces, wide) = ft.pieces(direction, block);
                for first in pieces {
                    (first..first + wide).for_each(|at| seen[at as usize] += 1);
                }
            }
            assert!(seen.iter().all(|one| *one == 1), "{direction}");
        }
    }
}
