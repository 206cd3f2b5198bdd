//! `cg`: steps of conjugate gradients with a random sparse symmetric
//! matrix (NPB `cg.f`, `conj_grad`).
//!
//! An iteration here is one step, of which the benchmark makes 25 between two normalisations. The
//! matrix is in compressed rows. Class D has 484 nonzeros a row. With as many, a small matrix would
//! have too few rows for its vectors to exceed a cache, so rows have [`PAIRS`] pairs of nonzeros
//! and the diagonal on average (*assumed*).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;

use cxlab_engine::rng::StreamRng;

use super::{Arrays, Nas, Program, RangesAhead, RunningKernel, Worker, bytes_of, doubles};
use crate::kernel::team::part;
use crate::thread::{Value, Window};

/// Nonzeros above the diagonal that are drawn for each row.
const PAIRS: u64 = 16;
/// Bytes of a row: its nonzeros of 8 B and 4 B, its start, and five vectors, of which
/// this kernel allocates four.
const ROW_BYTES: u64 = (2 * PAIRS + 1) * 12 + 8 + 5 * 8;
/// Working set in GiB: CXL-ClusterSim, Table 3.
const GIBIBYTES: u64 = 17;
/// Numbers of a vector that are loaded at a time.
const BLOCK: u64 = 64;
/// Nonzeros that are loaded at a time: a line of column numbers.
const NONZEROS: u64 = 16;

const VALUES: usize = 0;
const COLUMNS: usize = 1;
const ROWS: usize = 2;
const Z: usize = 3;
const P: usize = 4;
const Q: usize = 5;
const R: usize = 6;

pub(super) struct ConjugateGradients {
    rows: u64,
    iterations: u32,
    seed: u64,
    /// The matrix, made when it is first needed.
    matrix: OnceLock<Matrix>,
}

/// A sparse matrix in compressed rows.
struct Matrix {
    /// Index of each row's first nonzero.
    starts: Vec<u64>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Matrix {
    /// Draws a symmetric positive definite matrix from a seed.
    fn random(rows: u64, seed: u64) -> Matrix {
        let mut rng = StreamRng::new(seed, "nas/cg");
        let mut lists: Vec<Vec<(u32, f64)>> = vec![Vec::new(); rows as usize];
        for row in 0..rows {
            for _ in 0..PAIRS {
                let (column, value) = (rng.below(rows), rng.unit() - 0.5);
                lists[row as usize].push((column as u32, value));
                lists[column as usize].push((row as u32, value));
            }
        }
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for (row, mut list) in (0..).zip(lists) {
            // The diagonal is larger than the sum of the row's other magnitudes, so the
            // matrix is positive definite.
            let others: f64 = list.iter().map(|(_, value)| value.abs()).sum();
            list.push((row, 1.0 + others));
            list.sort_by_key(|(column, _)| *column);
            for (column, value) in list {
                columns.push(column);
                values.push(value);
            }
            starts.push(columns.len() as u64);
        }
        Matrix {
            starts,
            columns,
            values,
        }
    }
}

impl ConjugateGradients {
    pub(super) fn new(params: &Nas, seed: u64) -> ConjugateGradients {
        ConjugateGradients {
            rows: params.working_set(GIBIBYTES) / ROW_BYTES,
            iterations: params.iterations,
            seed,
            matrix: OnceLock::new(),
        }
    }

    fn matrix(&self) -> &Matrix {
        self.matrix
            .get_or_init(|| Matrix::random(self.rows, self.seed))
    }

    async fn work(&self, worker: &mut Worker<'_>) {
        let mine = worker.team.part(self.rows);
        let mut rho = dot(worker, R, R, mine.clone()).await;
        for _ in 0..self.iterations {
            multiply(worker, mine.clone()).await;
            worker.team.barrier().await;
            let alpha = rho / dot(worker, P, Q, mine.clone()).await;
            combine(worker, Z, Z, alpha, P, mine.clone()).await;
            combine(worker, R, R, -alpha, Q, mine.clone()).await;
            let before = rho;
            rho = dot(worker, R, R, mine.clone()).await;
            combine(worker, P, R, rho / before, P, mine.clone()).await;
            worker.team.barrier().await;
        }
    }

    /// The same computation on plain arrays. Each thread's part is summed up first, then the parts
    /// in order of threads.
    fn plain(&self, cores: u64) -> [Vec<f64>; 3] {
        let rows = self.rows as usize;
        let matrix = self.matrix();
        let (mut z, mut p, mut r) = (vec![0.0; rows], vec![1.0; rows], vec![1.0; rows]);
        let dot = |a: &[f64], b: &[f64]| {
            let part = |core| {
                let range = part(self.rows, core, cores);
                let range = range.start as usize..range.end as usize;
                let pairs = a[range.clone()].iter().zip(&b[range]);
                pairs.fold(0.0, |sum, (a, b)| sum + a * b)
            };
            (0..cores).map(part).fold(0.0, |sum, one| sum + one)
        };
        let mut rho = dot(&r, &r);
        for _ in 0..self.iterations {
            let row = |at: usize| {
                let range = matrix.starts[at] as usize..matrix.starts[at + 1] as usize;
                let columns = matrix.columns[range.clone()].iter();
                let products = columns.zip(&matrix.values[range]);
                let products = products.map(|(column, value)| value * p[*column as usize]);
                products.fold(0.0, |sum, product| sum + product)
            };
            let q: Vec<f64> = (0..rows).map(row).collect();
            let alpha = rho / dot(&p, &q);
            for at in 0..rows {
                z[at] += alpha * p[at];
                r[at] += -alpha * q[at];
            }
            let before = rho;
            rho = dot(&r, &r);
            for at in 0..rows {
                p[at] = r[at] + rho / before * p[at];
            }
        }
        [z, p, r]
    }
}

/// Splits a range into blocks of at most `block` numbers that end at multiples of `block`.
fn blocks(range: Range<u64>, block: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = ((at / block + 1) * block).min(range.end);
        let found = (at < range.end).then_some(at..end);
        at = end;
        found
    })
}

/// The dot product of two vectors, over all threads.
async fn dot(worker: &mut Worker<'_>, a: usize, b: usize, mine: Range<u64>) -> f64 {
    let mut sum = 0.0;
    let arrays = if a == b { vec![a] } else { vec![a, b] };
    let wanted = blocks(mine.clone(), BLOCK).flat_map(|block| {
        let bytes = 8 * (block.end - block.start);
        let range = |array: &usize| (worker.at(*array, block.start), bytes);
        arrays.iter().map(range).collect::<Vec<_>>()
    });
    let mut ahead = RangesAhead::new(worker, wanted);
    for block in blocks(mine, BLOCK) {
        let left = doubles(&ahead.next().await);
        let right = match a == b {
            true => left.clone(),
            false => doubles(&ahead.next().await),
        };
        sum = left.iter().zip(&right).fold(sum, |sum, (a, b)| sum + a * b);
        worker.compute(2 * (block.end - block.start)).await;
    }
    drop(ahead);
    worker.team.sum_f64(sum).await
}

/// Computes `to = a + factor b` for this thread's part.
async fn combine(
    worker: &Worker<'_>,
    to: usize,
    a: usize,
    factor: f64,
    b: usize,
    mine: Range<u64>,
) {
    let wanted = blocks(mine.clone(), BLOCK).flat_map(|block| {
        let range = |array| (worker.at(array, block.start), 8 * (block.end - block.start));
        [range(a), range(b)]
    });
    let mut ahead = RangesAhead::new(worker, wanted);
    let mut stores = Window::new(worker.outstanding());
    for block in blocks(mine, BLOCK) {
        let left = doubles(&ahead.next().await);
        let right = doubles(&ahead.next().await);
        let pairs = left.iter().zip(&right);
        let result: Vec<f64> = pairs.map(|(a, b)| a + factor * b).collect();
        worker.compute(2 * (block.end - block.start)).await;
        stores.room().await;
        let at = worker.at(to, block.start);
        stores.add(worker.t.write_range(at, &bytes_of(&result)));
    }
    stores.drain().await;
}

/// Computes `q = A p`: values and columns are loaded in lines, and `p` at the index of each column.
async fn multiply(worker: &Worker<'_>, mine: Range<u64>) {
    let t = worker.t;
    let starts = blocks(mine.start..mine.end + 1, 8).map(|block| {
        let at = worker.at(ROWS, block.start);
        (at, 8 * (block.end - block.start))
    });
    let mut ahead = RangesAhead::new(worker, starts);
    let mut ends: VecDeque<u64> = VecDeque::new();
    for _ in blocks(mine.start..mine.end + 1, 8) {
        let words = ahead.next().await;
        let words = words.as_chunks::<8>().0.iter();
        ends.extend(words.map(|one| u64::from_le_bytes(*one)));
    }
    let (Some(first), Some(last)) = (ends.pop_front(), ends.back().copied()) else {
        return;
    };
    let (values, columns) = (worker.places[VALUES].0, worker.places[COLUMNS].0);
    let wanted = blocks(first..last, NONZEROS).flat_map(|block| {
        let count = block.end - block.start;
        [
            (columns + 4 * block.start, 4 * count),
            (values + 8 * block.start, 8 * count),
        ]
    });
    let mut ahead = RangesAhead::new(worker, wanted);
    let mut operands: VecDeque<(f64, Value<'_>)> = VecDeque::with_capacity(worker.outstanding());
    let mut stores = Window::new(worker.outstanding());
    let mut sums = Sums {
        at: first,
        row: mine.start,
        sum: 0.0,
        ends,
        done: Vec::new(),
    };
    for block in blocks(first..last, NONZEROS) {
        let columns = ahead.next().await;
        let values = doubles(&ahead.next().await);
        for (column, value) in columns.as_chunks::<4>().0.iter().zip(values) {
            if operands.len() == worker.outstanding()
                && let Some((value, operand)) = operands.pop_front()
            {
                sums.add(value * f64::from_bits(operand.await));
            }
            let column = u32::from_le_bytes(*column);
            operands.push_back((value, t.load(worker.at(P, column.into()))));
        }
        worker.compute(2 * (block.end - block.start)).await;
        t.count((block.end - block.start) as u32);
        sums.store(worker, &mut stores).await;
    }
    while let Some((value, operand)) = operands.pop_front() {
        sums.add(value * f64::from_bits(operand.await));
    }
    sums.store(worker, &mut stores).await;
    stores.drain().await;
}

/// The rows that are being summed up.
struct Sums {
    /// Index of the next nonzero.
    at: u64,
    /// The row of the next nonzero.
    row: u64,
    sum: f64,
    /// The ends of this row and of the rows after it.
    ends: VecDeque<u64>,
    /// The sums of the rows before `row` that have not been stored.
    done: Vec<f64>,
}

impl Sums {
    fn add(&mut self, product: f64) {
        self.sum += product;
        self.at += 1;
        // Every row has its diagonal, so none is empty.
        if self.ends.front() == Some(&self.at) {
            self.ends.pop_front();
            self.done.push(self.sum);
            self.sum = 0.0;
            self.row += 1;
        }
    }

    async fn store<'t>(&mut self, worker: &Worker<'t>, stores: &mut Window<Value<'t>>) {
        if self.done.is_empty() {
            return;
        }
        let first = self.row - self.done.len() as u64;
        stores.room().await;
        let bytes = bytes_of(&self.done);
        stores.add(worker.t.write_range(worker.at(Q, first), &bytes));
        self.done.clear();
    }
}

impl Program for ConjugateGradients {
    fn arrays(&self) -> Vec<u64> {
        let nonzeros = self.rows * (2 * PAIRS + 1);
        let mut arrays = vec![8 * nonzeros, 4 * nonzeros, 8 * (self.rows + 1)];
        arrays.extend([8 * self.rows; 4]);
        arrays
    }

    fn prepare(&self, memory: &Arrays<'_>) {
        let matrix = self.matrix();
        memory.write(VALUES, 0, &matrix.values);
        let columns = matrix.columns.iter().flat_map(|one| one.to_le_bytes());
        memory.write_bytes(COLUMNS, &columns.collect::<Vec<u8>>());
        let starts = matrix.starts.iter().flat_map(|one| one.to_le_bytes());
        memory.write_bytes(ROWS, &starts.collect::<Vec<u8>>());
        memory.write(P, 0, &vec![1.0; self.rows as usize]);
        memory.write(R, 0, &vec![1.0; self.rows as usize]);
    }

    fn run<'a>(&'a self, worker: &'a mut Worker<'_>) -> RunningKernel<'a> {
        Box::pin(self.work(worker))
    }

    fn check(&self, memory: &Arrays<'_>) -> Result<(), String> {
        let [z, p, r] = self.plain(memory.cores);
        memory.hold("cg: z", Z, &z)?;
        memory.hold("cg: p", P, &p)?;
        memory.hold("cg: r", R, &r)
    }
}
