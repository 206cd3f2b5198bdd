//! `bt` and `sp`: implicit steps on a grid with five numbers in each cell, which solve systems
//! along the grid's lines in three directions (NPB `bt.f` and `sp.f`), access-accurate.
//!
//! A step computes the right-hand side from the solution and from quantities derived from it. It
//! then solves along `x`, `y` and `z`, each forwards and backwards through the line, and adds the
//! result to the solution. The further data of a line are in a buffer of the thread (`lhs`).
//! Instead of NPB's arithmetic, each update adds one to a number.

use std::ops::Range;

use super::{Arrays, Nas, Program, RangesAhead, RunningKernel, Worker, one_more};
use crate::thread::Window;

/// A side of class D.
const SIDE: u64 = 408;
/// Numbers of a cell in the large arrays.
const FIVE: u64 = 5;

const U: usize = 0;
/// Index of the quantities derived from the solution, a number for each cell: velocities,
/// energy and so on.
const KNOWN: usize = 1;
const FORCING: usize = 2;
const RHS: usize = 3;
const BUFFERS: usize = 4;

pub(super) struct Solves {
    name: &'static str,
    side: u64,
    iterations: u32,
    cores: u64,
    /// Number of derived arrays, with one number for each cell.
    known: u64,
    /// Number of derived arrays that a solve reads.
    reads: u64,
    /// Numbers for each cell in a line's buffer.
    buffer: u64,
    /// Floating-point operations of a cell in a step.
    flops: u64,
}

impl Solves {
    /// `bt`: blocks of 5 x 5 on three diagonals. NPB counts 3,479 operations for a cell in a step.
    pub(super) fn block_tridiagonal(params: &Nas, cores: u64) -> Solves {
        Solves {
            name: "bt",
            side: SIDE / params.shrink,
            iterations: params.iterations,
            cores,
            known: 6,
            reads: 3,
            buffer: 75,
            flops: 3479,
        }
    }

    /// `sp`: five diagonals for each of three kinds of waves. NPB counts 881 operations for a
    /// cell in a step.
    pub(super) fn pentadiagonal(params: &Nas, cores: u64) -> Solves {
        Solves {
            name: "sp",
            side: SIDE / params.shrink,
            iterations: params.iterations,
            cores,
            known: 7,
            reads: 2,
            buffer: 15,
            flops: 881,
        }
    }

    fn cells(&self) -> u64 {
        self.side.pow(3)
    }

    /// Number of rows of cells along `x`.
    fn rows(&self) -> u64 {
        self.side.pow(2)
    }

    async fn work(&self, worker: &mut Worker<'_>) {
        for _ in 0..self.iterations {
            let mine = worker.team.part(self.rows());
            self.right_hand_side(worker, mine.clone()).await;
            worker.team.barrier().await;
            for direction in 0..3 {
                for line in mine.clone() {
                    self.solve(worker, direction, line).await;
                }
                worker.team.barrier().await;
            }
            self.add(worker, mine).await;
            worker.team.barrier().await;
        }
    }

    /// Address and bytes of a row in the `part`-th of several adjacent arrays with `numbers`
    /// numbers for each cell.
    fn row(
        &self,
        worker: &Worker<'_>,
        array: usize,
        part: u64,
        numbers: u64,
        row: u64,
    ) -> (u64, u64) {
        let first = numbers * (part * self.cells() + row * self.side);
        (worker.at(array, first), 8 * numbers * self.side)
    }

    /// Computes the right-hand side and the derived arrays from the forcing and from the
    /// solution around each row.
    async fn right_hand_side(&self, worker: &Worker<'_>, mine: Range<u64>) {
        let rows = self.rows();
        let around = |row: u64| {
            // The stencil extends two cells in each direction (`dssp`).
            [0, 1, 2, self.side, 2 * self.side].map(|by| (row + by) % rows)
        };
        let wanted = mine.clone().flat_map(|row| {
            let solution = around(row).map(|row| self.row(worker, U, 0, FIVE, row));
            let forcing = self.row(worker, FORCING, 0, FIVE, row);
            solution.into_iter().chain([forcing])
        });
        let mut ahead = RangesAhead::new(worker, wanted);
        let mut stores = Window::new(worker.outstanding());
        for row in mine {
            let mut forcing = Vec::new();
            for _ in 0..6 {
                forcing = ahead.next().await;
            }
            worker.compute(self.flops / 4 * self.side).await;
            stores.room().await;
            let (at, _) = self.row(worker, RHS, 0, FIVE, row);
            stores.add(worker.t.write_range(at, &one_more(&forcing)));
            for part in 0..self.known {
                let (at, bytes) = self.row(worker, KNOWN, part, 1, row);
                stores.room().await;
                stores.add(worker.t.write_range(at, &vec![1; bytes as usize]));
            }
        }
        stores.drain().await;
    }

    /// The cells of a line, in order.
    fn line(&self, direction: usize, line: u64) -> impl Iterator<Item = u64> + Clone + use<> {
        let side = self.side;
        let (first, stride) = match direction {
            0 => (line * side, 1),
            1 => (line % side + line / side * side * side, side),
            _ => (line, side * side),
        };
        (0..side).map(move |at| first + at * stride)
    }

    /// Solves one line: forwards, which leaves a part of the system in the buffer, then backwards.
    async fn solve(&self, worker: &Worker<'_>, direction: usize, line: u64) {
        let t = worker.t;
        let cells = self.line(direction, line);
        let own = BUFFERS;
        let buffer = worker.team.core * self.side * self.buffer;
        let cell = |array: usize, cell: u64| (worker.at(array, FIVE * cell), 8 * FIVE);
        let wanted = cells.clone().flat_map(|at| {
            let known = (0..self.reads).map(move |part| (part, at));
            let known = known.map(|(part, at)| (worker.at(KNOWN, part * self.cells() + at), 8));
            [cell(U, at), cell(RHS, at)].into_iter().chain(known)
        });
        let mut ahead = RangesAhead::new(worker, wanted);
        let mut stores = Window::new(worker.outstanding());
        for (place, at) in (0..).zip(cells.clone()) {
            ahead.next().await;
            let rhs = ahead.next().await;
            for _ in 0..self.reads {
                ahead.next().await;
            }
            worker.compute(self.flops / 6).await;
            stores.room().await;
            stores.add(t.write_range(cell(RHS, at).0, &one_more(&rhs)));
            stores.room().await;
            let part = worker.at(own, buffer + place * self.buffer);
            stores.add(t.write_range(part, &vec![1; 8 * self.buffer as usize]));
        }
        stores.drain().await;
        drop(ahead);
        let back: Vec<(u64, u64)> = (0..).zip(cells).collect();
        let wanted = back.iter().rev().flat_map(|(place, at)| {
            let part = worker.at(own, buffer + place * self.buffer);
            [cell(RHS, *at), (part, 8 * self.buffer)]
        });
        let mut ahead = RangesAhead::new(worker, wanted);
        for (_, at) in back.iter().rev() {
            let rhs = ahead.next().await;
            ahead.next().await;
            worker.compute(self.flops / 12).await;
            stores.room().await;
            stores.add(t.write_range(cell(RHS, *at).0, &one_more(&rhs)));
        }
        stores.drain().await;
    }

    /// Adds the result to the solution.
    async fn add(&self, worker: &Worker<'_>, mine: Range<u64>) {
        let wanted = mine
            .clone()
            .flat_map(|row| [U, RHS].map(|array| self.row(worker, array, 0, FIVE, row)));
        let mut ahead = RangesAhead::new(worker, wanted);
        let mut stores = Window::new(worker.outstanding());
        for row in mine {
            let solution = ahead.next().await;
            ahead.next().await;
            worker.compute(FIVE * self.side).await;
            stores.room().await;
            let (at, _) = self.row(worker, U, 0, FIVE, row);
            stores.add(worker.t.write_range(at, &one_more(&solution)));
            worker.t.count(self.side as u32);
        }
        stores.drain().await;
    }
}

impl Program for Solves {
    fn arrays(&self) -> Vec<u64> {
        let (five, cells) = (8 * FIVE * self.cells(), 8 * self.cells());
        let buffers = 8 * self.cores * self.side * self.buffer;
        vec![five, self.known * cells, five, five, buffers]
    }

    fn prepare(&self, _: &Arrays<'_>) {}

    fn run<'a>(&'a self, worker: &'a mut Worker<'_>) -> RunningKernel<'a> {
        Box::pin(self.work(worker))
    }

    /// Checks the number of updates: the solution once in a step, the right-hand side once and
    /// twice in each direction.
    fn check(&self, memory: &Arrays<'_>) -> Result<(), String> {
        let (numbers, steps) = (FIVE * self.cells(), u64::from(self.iterations));
        memory.count(&format!("{}: solution", self.name), U, numbers, steps)?;
        memory.count(&format!("{}: right-hand side", self.name), RHS, numbers, 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_direction_hold_each_cell_once() {
        let params = Nas {
            shrink: 64,
            ..Nas::default()
        };
        let bt = Solves::block_tridiagonal(&params, 1);
        for direction in 0..3 {
            let mut cells: Vec<u64> = (0..bt.rows())
                .flat_map(|line| bt.line(direction, line))
                .collect();
            cells.sort_unstable();
            assert!(cells.into_iter().eq(0..bt.cells()), "{direction}");
        }
    }
}
