//! Satellites at their body: in a fan, or in a list.

use super::{Body, GAP, PlacedSatellite, Satellite};
use crate::picture::geometry::{Point, Rect, Size};

/// The side of a body on which its satellites are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Up,
    Down,
    Left,
    Right,
}

impl Side {
    /// The side that a direction points to. Boxes are wide, so that the upper and lower sides are larger. Up and down are
    /// also for satellites that would need several columns beside the body: links would pass behind the first column.
    pub(super) fn towards(direction: Point, satellites: usize) -> Side {
        let fits = satellites <= 2 * ROWS;
        match fits && direction.x.abs() >= 0.6 * direction.length() {
            true if direction.x > 0.0 => Side::Right,
            true => Side::Left,
            false if direction.y > 0.0 => Side::Down,
            false => Side::Up,
        }
    }
}

/// Distance between a body and its fan, in pixels.
const STEM: f64 = 34.0;
/// Distance between a body and its list, in pixels.
const SHORT_STEM: f64 = 14.0;
/// Distance between boxes of one column, in pixels.
const ROW_GAP: f64 = 8.0;
/// Distance between the vertical parts of two links, in pixels.
const TRACK: f64 = 5.0;
/// Most boxes of a column.
const ROWS: usize = 8;

/// Places satellites relative to the centre of their body. Up or down, at most `row` of them are side by side; more are a
/// list to the right of the body's left side.
pub(super) fn hang(
    body: &Body,
    which: &[usize],
    side: Side,
    row: usize,
) -> Vec<(usize, PlacedSatellite)> {
    let satellites = which
        .iter()
        .map(|number| (*number, body.satellites[*number]));
    let satellites: Vec<(usize, Satellite)> = satellites.collect();
    match side {
        Side::Left | Side::Right => beside(body, &satellites, side == Side::Right),
        Side::Up | Side::Down if satellites.len() <= row => {
            in_a_row(body, &satellites, side == Side::Down)
        }
        Side::Up | Side::Down => {
            let left = -body.size.width / 2.0 + 6.0;
            list(body, &satellites, side == Side::Down, left)
        }
    }
}

/// All satellites of a body, hosts first.
pub(super) fn all(body: &Body) -> Vec<usize> {
    (0..body.satellites.len()).collect()
}

/// The rectangle around a body and its satellites, relative to the centre of the body.
pub(super) fn extent(body: &Body, hung: &[(usize, PlacedSatellite)]) -> Rect {
    let boxes = hung.iter();
    let boxes = boxes.map(|(number, hung)| Rect::around(hung.at, body.satellites[*number].size));
    let lines = hung.iter().flat_map(|(_, hung)| &hung.course);
    let lines = lines.map(|point| Rect::of(*point));
    let own = Rect::around(Point::default(), body.size);
    boxes.chain(lines).fold(own, Rect::joined)
}

/// A fan above or below.
fn in_a_row(
    body: &Body,
    satellites: &[(usize, Satellite)],
    down: bool,
) -> Vec<(usize, PlacedSatellite)> {
    let sign = if down { 1.0 } else { -1.0 };
    let widths: f64 = satellites.iter().map(|(_, one)| one.size.width).sum();
    let mut left = -(widths + GAP * (satellites.len().max(1) - 1) as f64) / 2.0;
    let half = body.size.width / 2.0 - 6.0;
    let edge = body.size.height / 2.0;
    let hung = satellites.iter().map(|(number, one)| {
        let x = left + one.size.width / 2.0;
        left += one.size.width + GAP;
        let near = sign * (edge + STEM);
        let at = Point::new(x, near + sign * one.size.height / 2.0);
        let start = Point::new(x.clamp(-half, half), sign * edge);
        let course = vec![start, Point::new(x, near)];
        (*number, PlacedSatellite { at, course })
    });
    hung.collect()
}

/// A fan to the left or to the right: a column, and further columns beyond it.
fn beside(
    body: &Body,
    satellites: &[(usize, Satellite)],
    right: bool,
) -> Vec<(usize, PlacedSatellite)> {
    let sign = if right { 1.0 } else { -1.0 };
    let edge = body.size.width / 2.0;
    let mut near = edge + STEM;
    let mut hung = Vec::new();
    for column in satellites.chunks(2 * ROWS) {
        let size = largest(column);
        let pitch = size.height + ROW_GAP;
        let top = -pitch * (column.len() - 1) as f64 / 2.0;
        for (place, (number, one)) in column.iter().enumerate() {
            let y = top + pitch * place as f64;
            let at = Point::new(sign * (near + one.size.width / 2.0), y);
            let course = vec![Point::new(sign * edge, 0.0), Point::new(sign * near, y)];
            hung.push((*number, PlacedSatellite { at, course }));
        }
        near += size.width + GAP;
    }
    hung
}

fn largest(satellites: &[(usize, Satellite)]) -> Size {
    let most = |of: fn(&Size) -> f64| {
        let all = satellites.iter().map(|(_, one)| of(&one.size));
        all.fold(0.0, f64::max)
    };
    Size {
        width: most(|size| size.width),
        height: most(|size| size.height),
    }
}

/// Columns below or above the body, to the right of `left`. Each link of the first column has a track of its own; the
/// links of another column share one.
pub(super) fn list(
    body: &Body,
    satellites: &[(usize, Satellite)],
    down: bool,
    left: f64,
) -> Vec<(usize, PlacedSatellite)> {
    let sign = if down { 1.0 } else { -1.0 };
    let (half, edge) = (body.size.width / 2.0, body.size.height / 2.0);
    let first = satellites.len().min(ROWS);
    let mut x = left + TRACK * first as f64 + 4.0;
    let mut hung = Vec::new();
    for (number_of_column, column) in satellites.chunks(ROWS).enumerate() {
        let size = largest(column);
        for (place, (number, one)) in column.iter().enumerate() {
            let row = (size.height + ROW_GAP) * place as f64;
            let y = sign * (edge + SHORT_STEM + size.height / 2.0 + row);
            let track = match number_of_column {
                0 => left + TRACK * (column.len() - 1 - place) as f64,
                _ => x - 7.0,
            };
            let start = track.clamp(-half + 4.0, half - 4.0);
            let mut course = vec![Point::new(start, sign * edge)];
            if start != track {
                let lane = sign * (edge + SHORT_STEM / 2.0);
                course.extend([Point::new(start, lane), Point::new(track, lane)]);
            }
            course.extend([Point::new(track, y), Point::new(x, y)]);
            let at = Point::new(x + one.size.width / 2.0, y);
            hung.push((*number, PlacedSatellite { at, course }));
        }
        x += size.width + GAP + 10.0;
    }
    hung
}

/// Moves satellites with their body to `at`, in order of number.
pub(super) fn moved(mut hung: Vec<(usize, PlacedSatellite)>, at: Point) -> Vec<PlacedSatellite> {
    hung.sort_by_key(|(number, _)| *number);
    let moved = hung.into_iter().map(|(_, one)| PlacedSatellite {
        at: one.at.plus(at),
        course: one.course.iter().map(|point| point.plus(at)).collect(),
    });
    moved.collect()
}
