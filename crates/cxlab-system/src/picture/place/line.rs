//! Boxes in a line, which is folded where it is too long.

use super::hang::{self, Side};
use super::{Body, Course, GAP, Layout, PlacedBoxes, PlacedSatellite};
use crate::picture::geometry::{Point, Rect};

/// Most endpoints side by side at one body.
const ROWS_OF: [usize; 3] = [16, 3, 1];
/// Least distance between two bodies of a line, in pixels.
const BETWEEN: f64 = 26.0;
/// Distance between a link that turns and the boxes, in pixels.
const TURN: f64 = 16.0;

/// Bodies in lines that alternate in direction; hosts above them, devices below.
pub(super) fn line(layout: &Layout<'_>, most: f64) -> Option<PlacedBoxes> {
    let bodies = layout.bodies;
    let hung = |row: usize| -> Vec<Vec<(usize, PlacedSatellite)>> {
        let all = bodies.iter().map(|body| {
            let is_host = |number: &usize| body.satellites[*number].is_host;
            let (hosts, devices): (Vec<usize>, Vec<usize>) =
                hang::all(body).into_iter().partition(is_host);
            let mut hung = hang::hang(body, &hosts, Side::Up, row);
            hung.extend(hang::hang(body, &devices, Side::Down, row));
            hung
        });
        all.collect()
    };
    let cell = |hung: &[Vec<(usize, PlacedSatellite)>]| {
        let extents = bodies.iter().zip(hung);
        Rect::around_all(extents.map(|(body, hung)| hang::extent(body, hung)))
    };
    let usable = most - 2.0 * (TURN + GAP);
    // Fans where the whole line fits, lists where a single box would not fit otherwise.
    let tried: Vec<_> = ROWS_OF.iter().map(|row| hung(*row)).collect();
    let wide =
        |hung: &Vec<Vec<(usize, PlacedSatellite)>>| cell(hung).map_or(0.0, Rect::width) + BETWEEN;
    let fits = |hung: &&Vec<_>| wide(hung) * bodies.len() as f64 <= usable;
    let one_line = tried.iter().find(fits);
    let hung = one_line.or_else(|| tried.iter().skip(1).find(|hung| wide(hung) <= usable))?;
    let cell = cell(hung)?;
    let pitch = cell.width() + BETWEEN;
    let per_line = ((usable / pitch) as usize).clamp(1, bodies.len());
    // Lines of equal length.
    let lines = bodies.len().div_ceil(per_line);
    let per_line = bodies.len().div_ceil(lines);
    let mut placed = PlacedBoxes::default();
    let mut y = 0.0;
    for line in 0..lines {
        let numbers = line * per_line..((line + 1) * per_line).min(bodies.len());
        let extent = |number: usize| hang::extent(&bodies[number], &hung[number]);
        let extents = numbers.clone().map(extent);
        let line_cell = Rect::around_all(extents)?;
        y -= line_cell.top;
        for number in numbers {
            let place = number % per_line;
            let column = match line.is_multiple_of(2) {
                true => place,
                false => per_line - 1 - place,
            };
            placed.at.push(Point::new(column as f64 * pitch, y));
        }
        y += line_cell.bottom + 1.5 * BETWEEN;
    }
    let satellites = hung.iter().zip(&placed.at);
    let satellites = satellites.map(|(hung, at)| hang::moved(hung.clone(), *at));
    placed.satellites = satellites.collect();
    for (a, b) in layout.edges {
        let (from, to) = (placed.at[*a], placed.at[*b]);
        if from.y != to.y {
            let course = turn(from, to, cell, bodies[*a].size.width / 2.0);
            placed.courses.insert((*a, *b), course);
        }
    }
    Some(placed)
}

/// The link from the end of a line to the next line, around the boxes.
fn turn(from: Point, to: Point, cell: Rect, half: f64) -> Course {
    let side = if from.x > 0.0 { 1.0 } else { -1.0 };
    let beyond = if from.x > 0.0 { cell.right } else { -cell.left };
    let x = from.x + side * (beyond + TURN);
    Course::Lines(vec![
        Point::new(from.x + side * half, from.y),
        Point::new(x, from.y),
        Point::new(x, to.y),
        Point::new(to.x + side * half, to.y),
    ])
}

/// Hosts with their devices to the right, in as many columns as fit.
pub(super) fn hosts_with_devices(bodies: &[Body], most: f64) -> Option<PlacedBoxes> {
    let hang = |body: &Body| hang::hang(body, &hang::all(body), Side::Right, 1);
    let hung: Vec<Vec<(usize, PlacedSatellite)>> = bodies.iter().map(hang).collect();
    let extents = bodies.iter().zip(&hung);
    let cell = Rect::around_all(extents.map(|(body, hung)| hang::extent(body, hung)))?;
    let (pitch, height) = (cell.width() + 1.5 * BETWEEN, cell.height() + 12.0);
    let fitting = ((most + 1.5 * BETWEEN) / pitch) as usize;
    if fitting == 0 {
        return None;
    }
    // About as wide as high.
    let square = (1..).find(|columns| {
        let rows = bodies.len().div_ceil(*columns);
        *columns as f64 * pitch * 0.7 >= rows as f64 * height
    })?;
    let columns = square.clamp(1, fitting);
    let rows = bodies.len().div_ceil(columns);
    let mut placed = PlacedBoxes::default();
    for (number, hung) in hung.into_iter().enumerate() {
        let (column, row) = ((number / rows) as f64, (number % rows) as f64);
        let at = Point::new(column * pitch, row * height);
        placed.at.push(at);
        placed.satellites.push(hang::moved(hung, at));
    }
    Some(placed)
}
