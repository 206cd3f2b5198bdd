//! Rows of a cubic grid that is periodic and a power of two on each side. A row along `x`
//! is contiguous in memory.

use super::{Worker, doubles};

/// A cubic grid of doubles in an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grid {
    /// Index of the array.
    pub(super) array: usize,
    /// Index of the grid's first number in the array.
    pub(super) first: u64,
    /// Number of points on a side.
    pub(super) side: u64,
}

impl Grid {
    /// Number of rows of the grid.
    pub(super) fn rows(self) -> u64 {
        self.side * self.side
    }

    /// Index in the array of a row's first number.
    pub(super) fn place(self, row: u64) -> u64 {
        self.first + row * self.side
    }

    /// The row `up` rows and `back` planes from another row, with wrap-around.
    pub(super) fn beside(self, row: u64, up: i64, back: i64) -> u64 {
        let wrapped = |at: u64, by: i64| at.wrapping_add_signed(by) % self.side;
        let (y, z) = (wrapped(row % self.side, up), wrapped(row / self.side, back));
        z * self.side + y
    }

    /// A row, its four neighbours across faces, and its four neighbours across edges.
    pub(super) fn around(self, row: u64) -> [u64; 9] {
        let beside = [
            (0, 0),
            (1, 0),
            (-1, 0),
            (0, 1),
            (0, -1),
            (1, 1),
            (1, -1),
            (-1, 1),
            (-1, -1),
        ];
        beside.map(|(up, back)| self.beside(row, up, back))
    }

    /// Address and bytes of a row.
    pub(super) fn range(self, worker: &Worker<'_>, row: u64) -> (u64, u64) {
        (worker.at(self.array, self.place(row)), 8 * self.side)
    }
}

/// Applies a stencil of 27 points to a row and the rows around it. `weights` are ordered
/// by distance, from the middle to the corners. As in NPB, the two groups of four rows
/// are summed up first.
pub(super) fn stencil(rows: &[Vec<f64>], weights: [f64; 4]) -> Vec<f64> {
    let [middle, near @ .., _, _, _, _] = rows else {
        return Vec::new();
    };
    let far = &rows[5..];
    let side = middle.len();
    let sum = |of: &[Vec<f64>], at: usize| of.iter().fold(0.0, |sum, row| sum + row[at]);
    let near: Vec<f64> = (0..side).map(|at| sum(near, at)).collect();
    let far: Vec<f64> = (0..side).map(|at| sum(far, at)).collect();
    let point = |at: usize| {
        let (left, right) = ((at + side - 1) % side, (at + 1) % side);
        let faces = middle[left] + middle[right] + near[at];
        let edges = far[at] + near[left] + near[right];
        let corners = far[left] + far[right];
        weights[0] * middle[at] + weights[1] * faces + weights[2] * edges + weights[3] * corners
    };
    (0..side).map(point).collect()
}

/// Takes the numbers of the next `count` rows.
pub(super) async fn rows_of<I>(ahead: &mut super::RangesAhead<'_, I>, count: usize) -> Vec<Vec<f64>>
where
    I: Iterator<Item = (u64, u64)>,
{
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        rows.push(doubles(&ahead.next().await));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stencil_counts_each_of_27_points_once() {
        let grid = Grid {
            array: 0,
            first: 0,
            side: 4,
        };
        // One point is 1, so every point within one step of it gets its weight by distance.
        let at = |x: usize, row: u64| f64::from(u8::from((x, row) == (1, 2)));
        let row = |row: u64| (0..4).map(|x| at(x, row)).collect::<Vec<f64>>();
        let weights = [1.0, 10.0, 100.0, 1000.0];
        let mut sum = 0.0;
        for centre in 0..16 {
            let rows: Vec<Vec<f64>> = grid.around(centre).map(row).into();
            let found = stencil(&rows, weights);
            for (x, found) in found.into_iter().enumerate() {
                let apart = |a: u64, b: u64| u32::from(!a.abs_diff(b).is_multiple_of(4));
                let near = |a: u64, b: u64| a.abs_diff(b) % 4 != 2;
                let (y, z) = (centre % 4, centre / 4);
                let steps = apart(x as u64, 1) + apart(y, 2) + apart(z, 0);
                let within = near(x as u64, 1) && near(y, 2) && near(z, 0);
                let expected = if within {
                    10f64.powi(steps as i32)
                } else {
                    0.0
                };
                assert_eq!(found, expected, "{x} of {centre}");
                sum += found;
            }
        }
        assert_eq!(sum, 1.0 + 6.0 * 10.0 + 12.0 * 100.0 + 8.0 * 1000.0);
    }
}
