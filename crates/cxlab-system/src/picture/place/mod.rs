//! Placement: the centre of each box, and the courses of links that are not straight.
//!
//! Boxes never overlap. An arrangement that does not fit the width is refused, and the caller makes fewer boxes.

mod grid;
mod hang;
mod layers;
mod line;
mod round;
mod stress;

pub(super) use stress::from_one;

use std::collections::BTreeMap;

use cxlab_fabric::graph::Arrangement;

use super::geometry::{Point, Rect, Size};

/// Least distance between two boxes, in pixels.
const GAP: f64 = 8.0;

/// A box to place: a switch with its endpoints, or a group.
#[derive(Clone, Default)]
pub(super) struct Body {
    pub(super) size: Size,
    pub(super) level: u32,
    /// Endpoints that hang on it.
    pub(super) satellites: Vec<Satellite>,
    /// Whether it is a host whose devices are placed in a line with it.
    pub(super) is_host: bool,
}

/// An endpoint to place at its body.
#[derive(Clone, Copy)]
pub(super) struct Satellite {
    pub(super) size: Size,
    pub(super) is_host: bool,
}

/// Boxes to place, and the pairs of them with links between them.
pub(super) struct Layout<'a> {
    pub(super) bodies: &'a [Body],
    pub(super) edges: &'a [(usize, usize)],
    pub(super) arrangement: &'a Arrangement,
}

/// The course of a link between two boxes.
#[derive(Clone, PartialEq, Debug)]
pub enum Course {
    /// Straight lines through these points, with round corners.
    Lines(Vec<Point>),
    /// A curve from the first to the last point, drawn towards the one between them.
    Curve([Point; 3]),
}

impl Course {
    pub(super) fn moved(&self, by: Point) -> Course {
        match self {
            Course::Lines(points) => {
                Course::Lines(points.iter().map(|point| point.plus(by)).collect())
            }
            Course::Curve(points) => Course::Curve(points.map(|point| point.plus(by))),
        }
    }

    /// The points that give it.
    pub fn points(&self) -> &[Point] {
        match self {
            Course::Lines(points) => points,
            Course::Curve(points) => points,
        }
    }
}

/// A tinted arc behind the switches of a sector.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Band {
    /// Where the arc begins.
    pub from: Point,
    /// Where it ends, clockwise.
    pub to: Point,
    /// Radius, in pixels.
    pub radius: f64,
    /// Whether it is more than half of a circle.
    pub large: bool,
}

/// A satellite in its place, and the course of its link.
#[derive(Clone)]
pub(super) struct PlacedSatellite {
    pub(super) at: Point,
    pub(super) course: Vec<Point>,
}

/// Boxes in their places.
#[derive(Clone, Default)]
pub(super) struct PlacedBoxes {
    pub(super) at: Vec<Point>,
    pub(super) satellites: Vec<Vec<PlacedSatellite>>,
    /// Courses of links that are not straight, by pair of bodies.
    pub(super) courses: BTreeMap<(usize, usize), Course>,
    pub(super) bands: Vec<Band>,
}

impl PlacedBoxes {
    fn rects(&self, bodies: &[Body]) -> Vec<Rect> {
        let mut rects = Vec::new();
        for ((body, at), hung) in bodies.iter().zip(&self.at).zip(&self.satellites) {
            rects.push(Rect::around(*at, body.size));
            let satellites = body.satellites.iter().zip(hung);
            rects.extend(satellites.map(|(satellite, hung)| Rect::around(hung.at, satellite.size)));
        }
        rects
    }

    /// The rectangle around boxes, links and bands.
    pub(super) fn bounds(&self, bodies: &[Body]) -> Rect {
        let hung = self.satellites.iter().flatten();
        let lines = hung.flat_map(|hung| hung.course.iter());
        let curves = self.courses.values().flat_map(|course| match course {
            Course::Lines(points) => &points[..],
            // A curve stays nearer to its ends than the point that draws it.
            Course::Curve(_) => &[],
        });
        let points = lines.chain(curves).map(|point| Rect::of(*point).grown(3.0));
        let bands = self.bands.iter().flat_map(|band| [band.from, band.to]);
        let bands = bands.map(|point| Rect::of(point).grown(BAND / 2.0));
        let all = self.rects(bodies).into_iter().chain(points).chain(bands);
        Rect::around_all(all).unwrap_or(Rect::of(Point::default()))
    }

    /// Whether no two boxes are nearer than [`GAP`], and no box is on the links of a list.
    fn is_free_of_overlaps(&self, bodies: &[Body]) -> bool {
        let rects: Vec<Rect> = self.rects(bodies);
        // Boxes at exactly this distance must not fail by rounding.
        let by = GAP / 2.0 - 0.01;
        let grown: Vec<Rect> = rects.iter().map(|rect| rect.grown(by)).collect();
        let mut pairs = (0..grown.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        !pairs.any(|(a, b)| grown[a].overlaps(grown[b])) && self.lists_are_free(bodies)
    }

    /// Whether no box is on the links of another body's list.
    fn lists_are_free(&self, bodies: &[Body]) -> bool {
        let all = self.satellites.iter().enumerate();
        let mut lists = all.filter_map(|(number, hung)| {
            let lines = hung.iter().filter(|hung| hung.course.len() > 2);
            let points = lines.flat_map(|hung| &hung.course);
            let list = Rect::around_all(points.map(|point| Rect::of(*point)))?;
            Some((number, list))
        });
        lists.all(|(number, list)| {
            let mut others = (0..bodies.len()).filter(|other| *other != number);
            !others.any(|other| {
                let own = Rect::around(self.at[other], bodies[other].size);
                let hung = bodies[other].satellites.iter().zip(&self.satellites[other]);
                let mut hung = hung.map(|(one, hung)| Rect::around(hung.at, one.size));
                list.overlaps(own) || hung.any(|rect| list.overlaps(rect))
            })
        })
    }
}

/// Width of a band, in pixels.
pub(super) const BAND: f64 = 44.0;

/// Places boxes by their arrangement. `None` if the result is wider than `most` pixels.
pub(super) fn place(layout: &Layout<'_>, most: f64) -> Option<PlacedBoxes> {
    let bodies = layout.bodies;
    let found = match layout.arrangement {
        Arrangement::Line if bodies.iter().any(|body| body.is_host) => {
            line::hosts_with_devices(bodies, most)
        }
        Arrangement::Line => line::line(layout, most),
        Arrangement::Circle if bodies.len() == 1 => line::line(layout, most),
        Arrangement::Circle => round::circle(layout, most),
        Arrangement::Grid(lengths) => grid::grid(layout, lengths, most),
        Arrangement::Sectors { size } => round::sectors(layout, *size, most),
        Arrangement::Rings { rings, size } => round::rings(layout, *rings, *size, most),
        Arrangement::Free if bodies.iter().any(|body| body.level != bodies[0].level) => {
            // Hosts and devices of many heads may be too many for two layers.
            let has_hosts = bodies.iter().any(|body| body.is_host);
            let other = || round::free(layout, most).filter(|_| has_hosts);
            layers::layers(layout, most).or_else(other)
        }
        Arrangement::Free if is_path(layout) => line::line(layout, most),
        Arrangement::Free => round::free(layout, most),
    }?;
    let fits = found.bounds(bodies).width() <= most && found.is_free_of_overlaps(bodies);
    fits.then_some(found)
}

/// Whether each body is linked to the next one, and nothing else.
fn is_path(layout: &Layout<'_>) -> bool {
    let steps = layout.edges.iter().enumerate();
    let mut all = steps.map(|(number, (a, b))| (*a, *b) == (number, number + 1));
    layout.edges.len() + 1 == layout.bodies.len() && all.all(|step| step)
}
