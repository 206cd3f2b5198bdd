//! Pictures of a system: SVG with links coloured by utilization, text for a terminal, and a graph for Graphviz.
//!
//! `Scene -> Picture -> SVG, text`: the scene says which nodes and links there are, the picture has the places of boxes,
//! links and texts, and the views only write it. The topology names its arrangement
//! ([`Arrangement`](cxlab_fabric::graph::Arrangement)). Boxes and texts never overlap. More than [`MOST_NODES`] nodes, or
//! fewer that do not fit the width, are combined into groups with a heat map of the links between them.
//!
//! A scene has the same picture on every machine: positions are computed in a fixed order, and `sin`, `cos` and `atan2`
//! are those of `libm`.

mod collapse;
mod colour;
mod compose;
mod dot;
mod geometry;
mod heat;
mod place;
mod scene;
mod svg;
mod terminal;
mod traffic;

use std::collections::BTreeMap;

use cxlab_plan::Plan;

use crate::report::Report;

pub use compose::MOST_NODES;
pub use dot::dot;
pub use geometry::{Point, Rect, text_width};
pub use place::{Band, Course};
pub use scene::{Load, Node, Scene};
pub use traffic::{Flow, Traffic};

/// The width that a picture may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frame {
    /// Width that is kept if another way of placing does, in pixels.
    pub wrap: f64,
    /// Width that is never exceeded, in pixels.
    pub most: f64,
}

impl Frame {
    /// The frame of an SVG: its text stays legible on a page of 1,180 pixels.
    pub const SVG: Frame = Frame {
        wrap: 1120.0,
        most: 1600.0,
    };
    /// The frame of a terminal: 100 columns of 7 pixels.
    pub const TERMINAL: Frame = Frame {
        wrap: 700.0,
        most: 700.0,
    };
}

/// Kind of the nodes that a box stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A host, or another requester.
    Host,
    /// A device at an edge port.
    Device,
    /// A switch of the fabric.
    Switch,
    /// A group of nodes.
    Group,
}

/// A box for a node or for a group of nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeBox {
    /// Its place, in pixels.
    pub rect: Rect,
    /// Kind of the nodes that the box stands for.
    pub kind: Kind,
    /// Name of the node or group, which its text may shorten.
    pub name: String,
    /// Its text, by line.
    pub texts: Vec<String>,
    /// Names of the nodes of a group: of each switch with its hosts and devices. Empty for a single node.
    pub members: Vec<String>,
}

/// A line for a link, or for all links between two groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Wire {
    /// The line's course from one box to the other.
    pub course: Course,
    /// Numbers of the boxes at its ends.
    pub ends: (usize, usize),
    /// Numbers of the links that the line stands for.
    pub links: Vec<usize>,
    /// Utilization of the busiest direction of its links, from 0 to 1. `None` without a run.
    pub load: Option<f64>,
    /// Tooltip of the line.
    pub title: String,
}

/// The colour of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// The colour of names.
    Strong,
    /// A weaker colour.
    Soft,
    /// This colour, on a cell.
    On(&'static str),
}

/// A text of the picture, in one line.
#[derive(Clone, PartialEq, Debug)]
pub struct Label {
    /// Left end of the baseline, or its middle, in pixels.
    pub at: Point,
    /// The characters of the text.
    pub text: String,
    /// Font size, in pixels.
    pub size: f64,
    /// Whether the characters are bold, as in a system's title.
    pub bold: bool,
    /// Whether `at` is the middle of the baseline.
    pub centered: bool,
    /// Whether the text is read from the bottom to the top.
    pub turned: bool,
    /// The colour of the characters.
    pub ink: Ink,
    /// The box or cell that contains the text.
    pub within: Option<Rect>,
}

impl Label {
    fn new(x: f64, y: f64, text: String) -> Label {
        Label {
            at: Point { x, y },
            text,
            size: geometry::FONT,
            bold: false,
            centered: false,
            turned: false,
            ink: Ink::Strong,
            within: None,
        }
    }

    /// The rectangle that the text takes at most, in pixels.
    pub fn rect(&self) -> Rect {
        let bold = if self.bold { 1.12 } else { 1.0 };
        let width = text_width(&self.text, self.size) * bold;
        let (above, below) = (0.78 * self.size, 0.24 * self.size);
        let Point { x, y } = self.at;
        let before = if self.centered { width / 2.0 } else { 0.0 };
        if self.turned {
            return Rect {
                left: x - above,
                top: y - width + before,
                right: x + below,
                bottom: y + before,
            };
        }
        Rect {
            left: x - before,
            top: y - above,
            right: x - before + width,
            bottom: y + below,
        }
    }
}

/// The colour of a rectangle.
#[derive(Clone, PartialEq, Debug)]
pub enum Fill {
    /// The colour of such nodes.
    Node(Kind),
    /// The ground of a heat map.
    Empty,
    /// The colour of counts with this opacity, from 0 to 1.
    Share(f64),
    /// A colour in the notation of SVG.
    Colour(String),
}

/// A rectangle of a heat map or of a legend.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// Its place, in pixels.
    pub rect: Rect,
    /// Colour of the rectangle.
    pub fill: Fill,
    /// Tooltip of the rectangle; empty for none.
    pub title: String,
}

/// A system as a picture: places of boxes, links and texts.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Picture {
    /// Name of the system.
    pub title: String,
    /// Width, in pixels.
    pub width: f64,
    /// Height, in pixels.
    pub height: f64,
    /// Nodes, or groups of nodes.
    pub boxes: Vec<NodeBox>,
    /// The number of the box of each node.
    pub spots: BTreeMap<Node, usize>,
    /// Links, the busiest last.
    pub wires: Vec<Wire>,
    /// Tinted arcs behind the boxes.
    pub bands: Vec<Band>,
    /// Rectangles of the heat map and the legend.
    pub cells: Vec<Cell>,
    /// Texts of boxes, maps and legends.
    pub labels: Vec<Label>,
    /// Links by source and destination group. `None` in a picture of single nodes.
    pub traffic: Option<Traffic>,
}

impl Picture {
    /// The picture of a scene.
    pub fn of(scene: &Scene<'_>, frame: Frame) -> Picture {
        compose::draw(scene, frame)
    }

    /// The picture as an SVG file, with colours for light and dark pages.
    pub fn svg(&self) -> String {
        svg::write(self)
    }

    /// The picture in characters.
    pub fn text(&self) -> String {
        terminal::write(self)
    }
}

/// A picture of the system; with a report, links are coloured by their busier direction.
pub fn svg(plan: &Plan, report: Option<&Report>) -> String {
    Picture::of(&Scene::of_plan(plan, report), Frame::SVG).svg()
}

/// A picture of the system in characters, at most 104 columns wide.
pub fn text(plan: &Plan) -> String {
    Picture::of(&Scene::of_plan(plan, None), Frame::TERMINAL).text()
}
