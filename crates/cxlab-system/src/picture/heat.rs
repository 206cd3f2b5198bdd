//! The heat map of links by source and destination group, and the list of the busiest links.

use super::colour;
use super::geometry::{FONT, MARGIN, Rect, shortened, text_width};
use super::traffic::{Flow, Traffic};
use super::{Cell, Fill, Frame, Ink, Label, Picture};

/// Largest and smallest side of a cell, in pixels. `524k` fits the smallest one.
const SIDES: (f64, f64) = (28.0, 24.0);
/// Font size of the numbers in cells, in pixels.
const CELL_FONT: f64 = 9.0;
/// Most characters of a group's name.
const NAME: usize = 20;
/// Most characters of a link's name.
const LINK: usize = 34;
/// Distance between the map and the list, in pixels.
const ASIDE: f64 = 36.0;
/// Distance of the lines of the list, in pixels.
const LINE: f64 = 20.0;

/// Where the parts of the map are.
struct Dimensions {
    /// Width of the names at the left, and height of those above.
    names: f64,
    side: f64,
    map: f64,
    list: f64,
    /// Whether the list is to the right of the map, or else below it.
    beside: bool,
}

impl Dimensions {
    fn of(traffic: &Traffic, frame: Frame) -> Dimensions {
        let names = traffic.names.iter();
        let names = names.map(|name| text_width(&shortened(name, NAME), FONT));
        let names = names.fold(0.0, f64::max) + 8.0;
        let count = traffic.names.len().max(1) as f64;
        let links = traffic.busiest.iter();
        let links = links.map(|(name, _)| text_width(&shortened(name, LINK), FONT));
        let list = match traffic.busiest.len() {
            0 => 0.0,
            _ => links.fold(120.0, f64::max) + 80.0,
        };
        let room = frame.wrap - 2.0 * MARGIN - names - ASIDE - list;
        let side = (room / count).floor().clamp(SIDES.1, SIDES.0);
        let map = names + side * count;
        let beside = list > 0.0 && 2.0 * MARGIN + map + ASIDE + list <= frame.wrap;
        Dimensions {
            names,
            side,
            map,
            list,
            beside,
        }
    }

    /// Width of map, list and heading, in pixels.
    fn used(&self) -> f64 {
        let heading = text_width(HEADINGS.0, FONT + 1.0) * 1.12;
        let parts = match self.beside {
            true => self.map + ASIDE + self.list,
            false => self.map.max(self.list),
        };
        parts.max(heading)
    }
}

/// Width that the map and the list need, with margins, in pixels.
pub(super) fn width(traffic: &Traffic, frame: Frame) -> f64 {
    Dimensions::of(traffic, frame).used() + 2.0 * MARGIN
}

/// Headings of the map with and without a run.
const HEADINGS: (&str, &str) = (
    "Busiest link from one group (row) to another (column), % of time",
    "Number of links from one group (row) to another (column)",
);

/// Draws the map and the list below what the picture has.
pub(super) fn draw(picture: &mut Picture, traffic: &Traffic, with_loads: bool, frame: Frame) {
    let parts = Dimensions::of(traffic, frame);
    let left = ((picture.width - parts.used()) / 2.0).max(MARGIN);
    let top = picture.height + 8.0;
    let heading = if with_loads { HEADINGS.0 } else { HEADINGS.1 };
    picture.labels.push(Label {
        size: FONT + 1.0,
        bold: true,
        ..Label::new(left, top + 10.0, heading.to_owned())
    });
    let (x, y) = (left + parts.names, top + 26.0 + parts.names);
    map(picture, traffic, with_loads, (x, y, parts.side));
    let bottom = y + parts.side * traffic.names.len() as f64;
    picture.height = bottom + 10.0;
    if traffic.busiest.is_empty() {
        return;
    }
    if parts.beside {
        let end = list(picture, traffic, left + parts.map + ASIDE, y);
        picture.height = picture.height.max(end);
    } else {
        picture.height = list(picture, traffic, left, bottom + 34.0);
    }
}

/// The cells and the names of rows and columns.
fn map(picture: &mut Picture, traffic: &Traffic, with_loads: bool, at: (f64, f64, f64)) {
    let (x, y, side) = at;
    let count = traffic.names.len();
    for (number, name) in traffic.names.iter().enumerate() {
        let text = shortened(name, NAME);
        let middle = side * (number as f64 + 0.5) + 0.36 * FONT;
        let row = x - 6.0 - text_width(&text, FONT);
        picture.labels.push(Label {
            ink: Ink::Soft,
            ..Label::new(row, y + middle, text.clone())
        });
        picture.labels.push(Label {
            ink: Ink::Soft,
            turned: true,
            ..Label::new(x + middle, y - 6.0, text)
        });
    }
    let whole = side * count as f64;
    picture.cells.push(Cell {
        rect: Rect::at(x, y, whole, whole),
        fill: Fill::Empty,
        title: String::new(),
    });
    let most = traffic.flows.values().map(|flow| flow.links).max();
    let most = most.unwrap_or(1);
    for ((from, to), flow) in &traffic.flows {
        let (left, top) = (x + side * *to as f64, y + side * *from as f64);
        let rect = Rect {
            left: left + 0.5,
            top: top + 0.5,
            right: left + side - 0.5,
            bottom: top + side - 0.5,
        };
        let cell = Shade::of(flow, most, with_loads);
        picture.labels.push(Label {
            size: CELL_FONT,
            centered: true,
            ink: cell.ink,
            within: Some(rect),
            ..Label::new(
                left + side / 2.0,
                top + side / 2.0 + 0.36 * CELL_FONT,
                cell.text,
            )
        });
        picture.cells.push(Cell {
            rect,
            fill: cell.fill,
            title: say(traffic, (*from, *to), flow, with_loads),
        });
    }
}

/// How a cell looks.
struct Shade {
    text: String,
    ink: Ink,
    fill: Fill,
}

impl Shade {
    fn of(flow: &Flow, most: usize, with_loads: bool) -> Shade {
        if with_loads {
            return Shade {
                text: format!("{:.0}", flow.busiest * 100.0),
                ink: Ink::On(colour::of_text_on(flow.busiest)),
                fill: Fill::Colour(colour::of_utilization(flow.busiest)),
            };
        }
        // Numbers of links differ by orders of magnitude.
        let share = libm::log((1 + flow.links) as f64) / libm::log((1 + most) as f64);
        Shade {
            text: abbreviated(flow.links),
            ink: Ink::Strong,
            fill: Fill::Share(0.12 + 0.5 * share),
        }
    }
}

/// A number with at most three digits: `999`, `4k`, `52k`.
fn abbreviated(count: usize) -> String {
    match count {
        0..=999 => count.to_string(),
        _ => format!("{}k", (count + 500) / 1000),
    }
}

/// Tooltip of a cell.
fn say(traffic: &Traffic, pair: (usize, usize), flow: &Flow, with_loads: bool) -> String {
    let (from, to) = (&traffic.names[pair.0], &traffic.names[pair.1]);
    let links = if flow.links == 1 { "link" } else { "links" };
    let mut text = match pair.0 == pair.1 {
        true => format!("within {from}: {} {links}", flow.links),
        false => format!("{from} -> {to}: {} {links}", flow.links),
    };
    if with_loads {
        text.push_str(&format!(", the busiest {:.1} % busy", flow.busiest * 100.0));
    }
    text
}

/// The busiest links, one a line. Returns where the list ends.
fn list(picture: &mut Picture, traffic: &Traffic, x: f64, y: f64) -> f64 {
    let count = traffic.busiest.len();
    let heading = match count {
        1 => "Busiest link".to_owned(),
        10 => "Ten busiest links".to_owned(),
        _ => format!("{count} busiest links"),
    };
    picture.labels.push(Label {
        size: FONT + 1.0,
        bold: true,
        ..Label::new(x, y, heading)
    });
    for (line, (name, load)) in traffic.busiest.iter().enumerate() {
        let base = y + LINE * (line as f64 + 1.0) + 2.0;
        picture.cells.push(Cell {
            rect: Rect {
                left: x,
                top: base - 10.0,
                right: x + 12.0,
                bottom: base + 2.0,
            },
            fill: Fill::Colour(colour::of_utilization(*load)),
            title: String::new(),
        });
        let percent = format!("{:.1} %", load * 100.0);
        let right = x + 70.0 - text_width(&percent, FONT);
        picture.labels.push(Label {
            ink: Ink::Soft,
            ..Label::new(right, base, percent)
        });
        let text = shortened(name, LINK);
        picture.labels.push(Label::new(x + 78.0, base, text));
    }
    y + LINE * (count as f64 + 1.0)
}
