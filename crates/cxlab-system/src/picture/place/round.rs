//! Boxes on circles and at free positions: the smallest scale at which no boxes overlap.

use super::hang::{self, Side};
use super::stress::{stress, widest_gap};
use super::{Band, Body, Course, GAP, Layout, PlacedBoxes, PlacedSatellite};
use crate::picture::geometry::{Point, Rect};

/// Most endpoints side by side above or below a body.
const ROW: usize = 3;
/// Smallest and largest scale that is tried, and the factor between two scales.
const SCALES: (f64, f64, f64) = (40.0, 1600.0, 1.04);

/// A position at scale 1, and the direction in which the satellites are.
#[derive(Clone, Copy)]
struct Spot {
    at: Point,
    outward: Point,
}

/// The satellites of a body on the side that a direction points to.
fn hung_towards(body: &Body, outward: Point) -> Vec<(usize, PlacedSatellite)> {
    let side = Side::towards(outward, body.satellites.len());
    hang::hang(body, &hang::all(body), side, ROW)
}

/// The bodies of a layout at a scale.
fn at_scale(layout: &Layout<'_>, spots: &[Spot], scale: f64) -> PlacedBoxes {
    let mut placed = PlacedBoxes::default();
    for (body, spot) in layout.bodies.iter().zip(spots) {
        let at = spot.at.times(scale);
        let hung = hung_towards(body, spot.outward);
        placed.at.push(at);
        placed.satellites.push(hang::moved(hung, at));
    }
    placed
}

/// The smallest scale at which boxes do not overlap and the picture fits.
fn scaled(layout: &Layout<'_>, spots: &[Spot], most: f64) -> Option<PlacedBoxes> {
    let bodies = layout.bodies;
    let mut scale = SCALES.0;
    while scale <= SCALES.1 {
        let placed = at_scale(layout, spots, scale);
        if placed.bounds(bodies).width() > most {
            return None;
        }
        if placed.is_free_of_overlaps(bodies) {
            return Some(placed);
        }
        scale *= SCALES.2;
    }
    None
}

fn on_circle(turn: f64) -> Spot {
    let at = Point::at_turn(turn);
    Spot { at, outward: at }
}

/// Bodies on one circle, clockwise from the top. Links are curved towards the centre, the shorter the more.
pub(super) fn circle(layout: &Layout<'_>, most: f64) -> Option<PlacedBoxes> {
    let count = layout.bodies.len();
    let turns = (0..count).map(|number| number as f64 / count as f64);
    let spots: Vec<Spot> = turns.map(on_circle).collect();
    let mut placed = scaled(layout, &spots, most)?;
    for (a, b) in layout.edges {
        let apart = (b - a).min(count - (b - a));
        if apart == 1 {
            continue;
        }
        // Chords between near neighbours would pass behind the boxes between them.
        let towards = 0.6 + 0.8 * apart as f64 / count as f64;
        let (from, to) = (placed.at[*a], placed.at[*b]);
        let drawn = from.plus(to).times(0.5 * towards.min(1.0));
        let course = Course::Curve([from, drawn, to]);
        placed.courses.insert((*a, *b), course);
    }
    Some(placed)
}

/// Bodies on one circle, with a gap after each `size` of them. Links are curved towards the centre, those between sectors
/// more than those within one.
pub(super) fn sectors(layout: &Layout<'_>, size: usize, most: f64) -> Option<PlacedBoxes> {
    let count = layout.bodies.len();
    let slots = count as f64 + count.div_ceil(size) as f64;
    let turn = |number: usize| {
        let slot = number as f64 + (number / size) as f64 - (size - 1) as f64 / 2.0;
        slot / slots
    };
    let spots: Vec<Spot> = (0..count).map(|number| on_circle(turn(number))).collect();
    let mut placed = scaled(layout, &spots, most)?;
    for (a, b) in layout.edges {
        let (from, to) = (placed.at[*a], placed.at[*b]);
        let towards = match (a / size == b / size, b - a) {
            (true, 1) => continue,
            (true, _) => 0.72,
            (false, _) => 0.30,
        };
        let drawn = from.plus(to).times(0.5 * towards);
        let course = Course::Curve([from, drawn, to]);
        placed.courses.insert((*a, *b), course);
    }
    let radius = placed.at.first().map_or(0.0, |at| at.length());
    let band = |first: usize| {
        let last = (first + size).min(count) - 1;
        Band {
            from: placed.at[first],
            to: placed.at[last],
            radius,
            large: turn(last) - turn(first) > 0.5,
        }
    };
    placed.bands = (0..count).step_by(size).map(band).collect();
    Some(placed)
}

/// `rings` circles of `size` bodies around the remaining ones.
pub(super) fn rings(
    layout: &Layout<'_>,
    rings: usize,
    size: usize,
    most: f64,
) -> Option<PlacedBoxes> {
    let count = layout.bodies.len();
    let inner = count - rings * size;
    // Rings are as far from the centre as their size and number need, in radii of a ring.
    let radius: f64 = if size == 1 { 0.0 } else { 1.0 };
    let neighbours = libm::sin(std::f64::consts::PI / rings.max(2) as f64);
    let far = (2.4 * radius.max(0.5)).max((1.25 * radius + 0.5) / neighbours);
    let around = |number: usize| {
        let (ring, place) = (number / size, number % size);
        let turn = ring as f64 / rings as f64;
        // The first one faces the centre.
        let around = Point::at_turn(turn + 0.5 + place as f64 / size as f64);
        let center = Point::at_turn(turn).times(far);
        center.plus(around.times(radius))
    };
    let mut at: Vec<Point> = (0..rings * size).map(around).collect();
    at.extend((0..inner).map(|number| match inner {
        1 => Point::default(),
        _ => Point::at_turn(number as f64 / inner as f64).times(0.4 * far),
    }));
    let mut spots = beside_links(layout, &at);
    let placed = scaled(layout, &spots, most)?;
    for (spot, at) in spots.iter_mut().zip(&placed.at) {
        spot.at = *at;
    }
    avoid_links(layout, &mut spots);
    let better = at_scale(layout, &spots, 1.0);
    let fits = better.bounds(layout.bodies).width() <= most;
    let is_free = better.is_free_of_overlaps(layout.bodies);
    Some(if fits && is_free { better } else { placed })
}

/// Positions with their satellites where no links are.
fn beside_links(layout: &Layout<'_>, at: &[Point]) -> Vec<Spot> {
    let mut linked = vec![Vec::new(); at.len()];
    for (a, b) in layout.edges {
        linked[*a].push(at[*b].minus(at[*a]));
        linked[*b].push(at[*a].minus(at[*b]));
    }
    let spots = at.iter().zip(&linked).map(|(at, linked)| Spot {
        at: *at,
        outward: widest_gap(linked),
    });
    spots.collect()
}

/// Bodies at distances that are close to the numbers of links between them, satellites where the fewest links are.
pub(super) fn free(layout: &Layout<'_>, most: f64) -> Option<PlacedBoxes> {
    let at = stress(layout.bodies.len(), layout.edges);
    let mut scale = SCALES.0;
    while scale <= SCALES.1 {
        let at: Vec<Point> = at.iter().map(|at| at.times(scale)).collect();
        let mut spots = beside_links(layout, &at);
        let parted = apart(layout, &spots, scale);
        for (spot, at) in spots.iter_mut().zip(parted) {
            spot.at = at;
        }
        avoid_links(layout, &mut spots);
        let placed = at_scale(layout, &spots, 1.0);
        if placed.bounds(layout.bodies).width() > most {
            return None;
        }
        if placed.is_free_of_overlaps(layout.bodies) {
            return Some(placed);
        }
        scale *= SCALES.2;
    }
    None
}

/// Turns satellites to the side where they cover the fewest links and overlap the fewest bodies.
fn avoid_links(layout: &Layout<'_>, spots: &mut [Spot]) {
    let bodies = layout.bodies;
    let core = |(body, spot): (&Body, &Spot)| Rect::around(spot.at, body.size).grown(GAP);
    let cores: Vec<Rect> = bodies.iter().zip(spots.iter()).map(core).collect();
    let lines = layout.edges.iter();
    let lines = lines.map(|(a, b)| (spots[*a].at, spots[*b].at));
    let lines: Vec<(Point, Point)> = lines.collect();
    let mut taken: Vec<Vec<Rect>> = vec![Vec::new(); bodies.len()];
    for number in 0..bodies.len() {
        let body = &bodies[number];
        let at = spots[number].at;
        if body.satellites.is_empty() {
            continue;
        }
        let preferred = spots[number].outward;
        let tried = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)];
        let tried = tried.map(|(x, y)| Point::new(x, y));
        let rated = std::iter::once(preferred).chain(tried).map(|outward| {
            let hung = hung_towards(body, outward).into_iter();
            let rects = hung
                .map(|(number, hung)| Rect::around(hung.at.plus(at), body.satellites[number].size));
            let rects: Vec<Rect> = rects.collect();
            let crossed = |rect: &Rect| {
                let lines = lines.iter().filter(|(a, b)| rect.is_crossed_by(*a, *b));
                let others = cores.iter().chain(taken.iter().flatten());
                lines.count() + 3 * others.filter(|other| rect.overlaps(**other)).count()
            };
            (rects.iter().map(crossed).sum::<usize>(), outward, rects)
        });
        if let Some((_, outward, rects)) = rated.min_by_key(|(covered, ..)| *covered) {
            spots[number].outward = outward;
            taken[number] = rects.iter().map(|rect| rect.grown(GAP)).collect();
        }
    }
}

/// Rounds in which boxes are moved apart.
const ROUNDS: usize = 40;

/// The positions, with overlapping boxes moved apart a little: by half of a link of length `scale` at most.
fn apart(layout: &Layout<'_>, spots: &[Spot], scale: f64) -> Vec<Point> {
    let bodies = layout.bodies;
    let start: Vec<Point> = spots.iter().map(|spot| spot.at).collect();
    let extent = |(body, spot): (&Body, &Spot)| {
        hang::extent(body, &hung_towards(body, spot.outward)).grown(GAP)
    };
    let extents: Vec<Rect> = bodies.iter().zip(spots).map(extent).collect();
    let mut at = start.clone();
    for _ in 0..ROUNDS {
        let mut moved = false;
        for a in 0..at.len() {
            for b in 0..a {
                let (one, other) = (extents[a].moved(at[a]), extents[b].moved(at[b]));
                if !one.overlaps(other) {
                    continue;
                }
                moved = true;
                let x = one.right.min(other.right) - one.left.max(other.left);
                let y = one.bottom.min(other.bottom) - one.top.max(other.top);
                let away = one.center().minus(other.center());
                let push = match x < y {
                    true => Point::new(x.copysign(away.x), 0.0),
                    false => Point::new(0.0, y.copysign(away.y)),
                };
                at[a] = at[a].plus(push.times(0.52));
                at[b] = at[b].minus(push.times(0.52));
            }
        }
        if !moved {
            break;
        }
    }
    let most = scale / 2.0;
    let moved = at.iter().zip(start).map(|(at, start)| {
        let by = at.minus(start);
        start.plus(by.times((most / by.length().max(1e-6)).min(1.0)))
    });
    moved.collect()
}
