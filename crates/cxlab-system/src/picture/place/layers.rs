//! Boxes in layers: the edge of the fabric at the bottom, the core at the top.

use super::hang::{self, Side};
use super::{Body, Course, Layout, PlacedBoxes, PlacedSatellite};
use crate::picture::geometry::{Point, Rect};

/// Distance between two boxes of a layer, in pixels.
const BETWEEN: f64 = 18.0;

/// Bodies in layers by level. Those of the lowest layer are in order of number, others above the middle of the bodies
/// below that they are linked to.
pub(super) fn layers(layout: &Layout<'_>, most: f64) -> Option<PlacedBoxes> {
    let bodies = layout.bodies;
    // The most satellites side by side that fit, or else a list below each body.
    let mut tried = [6, 2, 1].iter().map(|row| placed(layout, *row));
    tried.find(|placed| placed.bounds(bodies).width() <= most)
}

fn placed(layout: &Layout<'_>, row: usize) -> PlacedBoxes {
    let bodies = layout.bodies;
    let hang = |body: &Body| hang::hang(body, &hang::all(body), Side::Down, row);
    let hung: Vec<Vec<(usize, PlacedSatellite)>> = bodies.iter().map(hang).collect();
    let extents = bodies.iter().zip(&hung);
    let extents = extents.map(|(body, hung)| hang::extent(body, hung));
    let extents: Vec<Rect> = extents.collect();
    let levels = bodies.iter().map(|body| body.level).max().unwrap_or(0);
    let of_level = |level: u32| -> Vec<usize> {
        let all = 0..bodies.len();
        all.filter(|number| bodies[*number].level == level)
            .collect()
    };
    let rows = (0..=levels).map(of_level);
    let rows: Vec<Vec<usize>> = rows.filter(|row| !row.is_empty()).collect();
    let mut below = vec![Vec::new(); bodies.len()];
    for (a, b) in layout.edges {
        let in_order = bodies[*a].level <= bodies[*b].level;
        let (low, high) = if in_order { (*a, *b) } else { (*b, *a) };
        below[high].push(low);
    }
    let mut x = vec![0.0; bodies.len()];
    let mut width = 0.0;
    for (number, row) in rows.iter().enumerate() {
        match number {
            0 => width = pack(row, &extents, &mut x),
            _ => above(row, &below, &extents, width, &mut x),
        }
    }
    let y = heights(bodies, &rows, &extents, width);
    let at: Vec<Point> = x.iter().zip(&y).map(|(x, y)| Point::new(*x, *y)).collect();
    let edges = layout.edges.iter();
    let slanted = edges.filter(|(a, b)| bodies[*a].level != bodies[*b].level);
    let courses = slanted.map(|(a, b)| ((*a, *b), between(bodies, &at, *a, *b)));
    let courses = courses.collect();
    let satellites = hung.into_iter().zip(&at);
    let satellites = satellites.map(|(hung, at)| hang::moved(hung, *at));
    PlacedBoxes {
        satellites: satellites.collect(),
        at,
        courses,
        ..PlacedBoxes::default()
    }
}

/// A link from the top of the lower body to the bottom of the upper one: from the middles it would pass behind neighbours.
fn between(bodies: &[Body], at: &[Point], a: usize, b: usize) -> Course {
    let edge = |one: usize, other: usize| {
        let half = bodies[one].size.height / 2.0;
        let up = bodies[one].level < bodies[other].level;
        Point::new(at[one].x, at[one].y + if up { -half } else { half })
    };
    Course::Lines(vec![edge(a, b), edge(b, a)])
}

/// The lowest layer, from left to right. Returns its width.
fn pack(row: &[usize], extents: &[Rect], x: &mut [f64]) -> f64 {
    let mut left = 0.0;
    for number in row {
        x[*number] = left - extents[*number].left;
        left += extents[*number].width() + BETWEEN;
    }
    left - BETWEEN
}

/// A layer above others: in order of the middle of what is below, and as near to it as the distances allow. Bodies with the
/// same middle are spread over the width.
fn above(row: &[usize], below: &[Vec<usize>], extents: &[Rect], width: f64, x: &mut [f64]) {
    let middle = |number: usize| {
        let linked = &below[number];
        match linked.len() {
            0 => width / 2.0,
            count => linked.iter().map(|low| x[*low]).sum::<f64>() / count as f64,
        }
    };
    let wanted = row.iter().map(|number| (middle(*number), *number));
    let mut wanted: Vec<(f64, usize)> = wanted.collect();
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = wanted.first().map_or(0.0, |(middle, _)| *middle);
    let same = wanted
        .iter()
        .all(|(middle, _)| (middle - first).abs() < 1.0);
    if same && wanted.len() > 1 {
        let widest = row.iter().map(|number| extents[*number].width());
        let least = widest.fold(0.0, f64::max) + BETWEEN;
        let pitch = (width / wanted.len() as f64).clamp(least, least.max(170.0));
        let first = wanted[0].0 - pitch * (wanted.len() - 1) as f64 / 2.0;
        for (place, (_, number)) in wanted.iter().enumerate() {
            x[*number] = first + pitch * place as f64;
        }
        return;
    }
    // Neighbours that are too near form a block around the mean of their middles.
    let mut blocks: Vec<Vec<(f64, usize)>> = Vec::new();
    for one in wanted {
        blocks.push(vec![one]);
        while blocks.len() > 1 {
            let last = blocks.len() - 1;
            let right = span(&blocks[last - 1], extents).1;
            if right + BETWEEN <= span(&blocks[last], extents).0 {
                break;
            }
            let moved = blocks.pop().unwrap_or_default();
            blocks[last - 1].extend(moved);
        }
    }
    for block in blocks {
        let mut left = span(&block, extents).0;
        for (_, number) in block {
            x[number] = left - extents[number].left;
            left += extents[number].width() + BETWEEN;
        }
    }
}

/// Left and right side of a block.
fn span(block: &[(f64, usize)], extents: &[Rect]) -> (f64, f64) {
    let mean = block.iter().map(|(middle, _)| middle).sum::<f64>() / block.len() as f64;
    let widths = block.iter().map(|(_, number)| extents[*number].width());
    let width = widths.sum::<f64>() + BETWEEN * (block.len() - 1) as f64;
    (mean - width / 2.0, mean + width / 2.0)
}

/// The vertical position of each body. The bodies of a layer have their tops side by side.
fn heights(bodies: &[Body], rows: &[Vec<usize>], extents: &[Rect], width: f64) -> Vec<f64> {
    let mut y = vec![0.0; extents.len()];
    // Wide pictures need more room for slanted links.
    let gap = (30.0 + 0.08 * width).clamp(48.0, 110.0);
    let mut bottom = 0.0;
    for row in rows {
        let lowest = row.iter().map(|number| extents[*number].bottom);
        let lowest = lowest.fold(0.0, f64::max);
        let highest = row.iter().map(|number| extents[*number].top);
        let highest = highest.fold(0.0, f64::min);
        for number in row {
            y[*number] =
                bottom - lowest - highest_half(bodies, row) + bodies[*number].size.height / 2.0;
        }
        bottom += highest - lowest - gap;
    }
    y
}

fn highest_half(bodies: &[Body], row: &[usize]) -> f64 {
    let heights = row.iter().map(|number| bodies[*number].size.height);
    heights.fold(0.0, f64::max) / 2.0
}

#[cfg(test)]
mod tests {
    use cxlab_fabric::graph::Arrangement;

    use super::*;
    use crate::picture::geometry::Size;

    #[test]
    fn a_parent_is_above_the_middle_of_its_children() {
        let body = |level| Body {
            size: Size {
                width: 50.0,
                height: 20.0,
            },
            level,
            ..Body::default()
        };
        let bodies = [body(0), body(0), body(0), body(1), body(1), body(2)];
        let edges = [(0, 3), (1, 3), (2, 4), (3, 5), (4, 5)];
        let layout = Layout {
            bodies: &bodies,
            edges: &edges,
            arrangement: &Arrangement::Free,
        };
        let at = layers(&layout, 1000.0).expect("it fits").at;
        assert_eq!(at[3].x, (at[0].x + at[1].x) / 2.0);
        assert_eq!(at[4].x, at[2].x);
        assert_eq!(at[5].x, (at[3].x + at[4].x) / 2.0);
        assert!(at[5].y < at[3].y && at[3].y < at[0].y);
    }
}
