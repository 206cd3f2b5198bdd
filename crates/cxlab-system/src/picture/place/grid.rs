//! Boxes at the points of a grid. Endpoints are below their switch, to the right of the link that leads down.

use super::hang::{self, list};
use super::{Body, Course, GAP, Layout, PlacedBoxes, PlacedSatellite};
use crate::picture::geometry::{Point, Rect};

/// Distance between a box and a link around the grid along its side, in pixels.
const LANE: f64 = 9.0;
/// Distance between a box and the turn of such a link at the end, in pixels.
const END: f64 = 18.0;
/// Distance between the boxes of neighbours, in pixels.
const BETWEEN: f64 = 26.0;

/// Bodies at the points of a grid, on its side where it is too wide otherwise. A third dimension leads to the upper right
/// within the place of each point of the other two.
pub(super) fn grid(layout: &Layout<'_>, lengths: &[usize], most: f64) -> Option<PlacedBoxes> {
    let axes = |swapped| Axes { lengths, swapped };
    let found = placed(layout, axes(false));
    if found.bounds(layout.bodies).width() <= most {
        return Some(found);
    }
    Some(placed(layout, axes(true)))
}

/// Dimensions of a grid, and whether the first two are swapped in the picture.
#[derive(Clone, Copy)]
struct Axes<'a> {
    lengths: &'a [usize],
    swapped: bool,
}

impl Axes<'_> {
    fn length(self, dimension: usize) -> usize {
        self.lengths.get(dimension).copied().unwrap_or(1)
    }

    /// Column, row, and place in the third dimension.
    fn of(self, number: usize) -> [usize; 3] {
        let (width, height) = (self.length(0), self.length(1));
        let (x, y) = (number % width, number / width % height);
        let z = number / (width * height);
        if self.swapped { [y, x, z] } else { [x, y, z] }
    }
}

fn placed(layout: &Layout<'_>, axes: Axes<'_>) -> PlacedBoxes {
    let bodies = layout.bodies;
    let hung: Vec<Vec<(usize, PlacedSatellite)>> = bodies.iter().map(below).collect();
    let extents = bodies.iter().zip(&hung);
    let extents = extents.map(|(body, hung)| hang::extent(body, hung));
    let cell = Rect::around_all(extents).unwrap_or(Rect::of(Point::default()));
    let depth = axes.length(2) as f64;
    // Boxes of the third dimension are beside and above one another.
    let step = Point::new(cell.width() + GAP + LANE, -(cell.height() + GAP + LANE));
    let pitch = Point::new(
        step.x * (depth - 1.0) + cell.width() + BETWEEN + END,
        -step.y * (depth - 1.0) + cell.height() + BETWEEN + END,
    );
    let mut placed = PlacedBoxes::default();
    for (number, hung) in hung.into_iter().enumerate() {
        let [x, y, z] = axes.of(number).map(|place| place as f64);
        let at = Point::new(x * pitch.x + z * step.x, y * pitch.y + z * step.y);
        placed.at.push(at);
        placed.satellites.push(hang::moved(hung, at));
    }
    for edge in layout.edges {
        let (a, b) = (axes.of(edge.0), axes.of(edge.1));
        let far = (0..3).find(|axis| a[*axis].abs_diff(b[*axis]) > 1);
        if let Some(axis) = far {
            let course = around(&placed, bodies, *edge, axis);
            placed.courses.insert(*edge, course);
        }
    }
    placed
}

/// Satellites below their body, to the right of its middle.
fn below(body: &Body) -> Vec<(usize, PlacedSatellite)> {
    let satellites: Vec<_> = body.satellites.iter().copied().enumerate().collect();
    list(body, &satellites, true, 9.0)
}

/// The link between opposite sides of the grid: above a row, to the left of a column, or beside the third dimension.
fn around(placed: &PlacedBoxes, bodies: &[Body], edge: (usize, usize), axis: usize) -> Course {
    let (a, b) = (placed.at[edge.0], placed.at[edge.1]);
    let size = bodies[edge.0].size;
    let half = Point::new(size.width / 2.0, size.height / 2.0);
    let in_order = (a.x, a.y) <= (b.x, b.y);
    let (first, last) = if in_order { (a, b) } else { (b, a) };
    match axis {
        0 => {
            let y = first.y - half.y - LANE;
            let (left, right) = (first.x - half.x, last.x + half.x);
            Course::Lines(vec![
                Point::new(left, first.y),
                Point::new(left - END, first.y),
                Point::new(left - END, y),
                Point::new(right + END, y),
                Point::new(right + END, last.y),
                Point::new(right, last.y),
            ])
        }
        1 => {
            let x = first.x - half.x - LANE;
            let (top, bottom) = (first.y - half.y, last.y + half.y);
            Course::Lines(vec![
                Point::new(first.x, top),
                Point::new(first.x, top - END),
                Point::new(x, top - END),
                Point::new(x, bottom + END),
                Point::new(last.x, bottom + END),
                Point::new(last.x, bottom),
            ])
        }
        _ => {
            let middle = first.plus(last).times(0.5);
            let across = last.minus(first).times(0.6);
            let drawn = middle.plus(Point::new(across.y, -across.x));
            Course::Curve([first, drawn, last])
        }
    }
}
