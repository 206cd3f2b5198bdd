//! A picture as an SVG file.
//!
//! Colours of light pages are attributes, because not every reader knows style sheets. On dark pages, a style sheet
//! replaces these colours.

use std::fmt::Write;

use super::colour;
use super::geometry::{FONT, Point, Rect};
use super::place::{BAND, Course};
use super::{Band, Cell, Fill, Ink, Kind, Label, NodeBox, Picture, Wire};

/// The name of a class, its colour on light pages and on dark pages.
struct Paint {
    class: &'static str,
    light: &'static str,
    dark: &'static str,
}

const GROUND: Paint = paint("cx-ground", "#ffffff", "#0d1117");
const STRONG: Paint = paint("cx-strong", "#1b1f24", "#e6edf3");
const SOFT: Paint = paint("cx-soft", "#57606a", "#a3adb8");
const BAND_FILL: Paint = paint("cx-band", "#eef1f5", "#1b222b");
const EMPTY: Paint = paint("cx-empty", "#f3f5f7", "#161b22");
const COUNT: Paint = paint("cx-count", "#0d6efd", "#388bfd");
const HOST: Paint = paint("cx-host", "#cfe2ff", "#17375e");
const DEVICE: Paint = paint("cx-device", "#d1e7dd", "#164230");
const SWITCH: Paint = paint("cx-switch", "#f1f3f5", "#2a313a");
const GROUP: Paint = paint("cx-group", "#fbfcfd", "#1c232c");
/// Lines around boxes, and links without a run.
const EDGE: Paint = paint("cx-edge", "#495057", "#8b949e");
const LINK: Paint = paint("cx-link", "#868e96", "#768390");

const fn paint(class: &'static str, light: &'static str, dark: &'static str) -> Paint {
    Paint { class, light, dark }
}

fn of_kind(kind: Kind) -> Paint {
    match kind {
        Kind::Host => HOST,
        Kind::Device => DEVICE,
        Kind::Switch => SWITCH,
        Kind::Group => GROUP,
    }
}

/// The style sheet for dark pages.
fn style() -> String {
    let fills = [
        GROUND, STRONG, SOFT, EMPTY, COUNT, HOST, DEVICE, SWITCH, GROUP,
    ];
    let fills = fills.map(|paint| format!(".{}{{fill:{}}}", paint.class, paint.dark));
    let lines = [BAND_FILL, EDGE, LINK];
    let lines = lines.map(|paint| format!(".{}{{stroke:{}}}", paint.class, paint.dark));
    format!(
        "<style>@media (prefers-color-scheme:dark){{{}{}}}</style>\n",
        fills.concat(),
        lines.concat()
    )
}

pub(super) fn write(picture: &Picture) -> String {
    let (width, height) = (picture.width, picture.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n"
    );
    text.push_str(&style());
    let ground = fill(&GROUND);
    let _ = writeln!(text, "<rect width=\"100%\" height=\"100%\" {ground}/>");
    picture.bands.iter().for_each(|one| band(&mut text, one));
    let bundled = picture.traffic.is_some();
    (picture.wires.iter()).for_each(|one| wire(&mut text, one, bundled));
    picture.boxes.iter().for_each(|one| node(&mut text, one));
    picture.cells.iter().for_each(|one| cell(&mut text, one));
    picture.labels.iter().for_each(|one| label(&mut text, one));
    text.push_str("</svg>\n");
    text
}

fn fill(paint: &Paint) -> String {
    format!("class=\"{}\" fill=\"{}\"", paint.class, paint.light)
}

/// The attributes that draw lines with a colour.
fn stroke(paint: &Paint) -> String {
    format!("class=\"{}\" stroke=\"{}\"", paint.class, paint.light)
}

fn band(text: &mut String, band: &Band) {
    let _ = writeln!(
        text,
        "<path d=\"M{} A{r} {r} 0 {} 1 {}\" fill=\"none\" {} stroke-width=\"{BAND}\" \
         stroke-linecap=\"round\"/>",
        at(band.from),
        u8::from(band.large),
        at(band.to),
        stroke(&BAND_FILL),
        r = number(band.radius),
    );
}

fn wire(text: &mut String, wire: &Wire, bundled: bool) {
    let colour = match wire.load {
        None => stroke(&LINK),
        Some(load) => format!("stroke=\"{}\"", colour::of_utilization(load)),
    };
    let wide = match (wire.load, bundled) {
        (None, true) => (1.2 + 0.25 * (wire.links.len() as f64).sqrt()).min(5.0),
        (None, false) => 1.5,
        (Some(load), true) => 1.2 + 2.4 * load,
        (Some(load), false) => 1.4 + 3.6 * load,
    };
    let _ = writeln!(
        text,
        "<path d=\"{}\" fill=\"none\" {colour} stroke-width=\"{wide:.1}\"><title>{}</title></path>",
        path(&wire.course),
        escape(&wire.title)
    );
}

/// Radius of corners, in pixels.
const CORNER: f64 = 5.0;

/// The course of a link, with round corners.
fn path(course: &Course) -> String {
    let points = match course {
        Course::Curve([from, drawn, to]) => {
            return format!("M{} Q{} {}", at(*from), at(*drawn), at(*to));
        }
        Course::Lines(points) => points,
    };
    let mut text = String::new();
    for (number, point) in points.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| points[before]);
        match (before, points.get(number + 1)) {
            (None, _) => text.push_str(&format!("M{}", at(*point))),
            (Some(before), Some(after)) => {
                let (start, end) = (near(*point, before), near(*point, *after));
                text.push_str(&format!(" L{} Q{} {}", at(start), at(*point), at(end)));
            }
            (Some(_), None) => text.push_str(&format!(" L{}", at(*point))),
        }
    }
    text
}

/// The point on the way from a corner to another point at which the corner ends.
fn near(corner: Point, other: Point) -> Point {
    let along = other.minus(corner);
    let length = along.length().max(1e-6);
    corner.plus(along.times(CORNER.min(length / 2.0) / length))
}

fn node(text: &mut String, node: &NodeBox) {
    let round = match node.kind {
        Kind::Host => 3.0,
        Kind::Device => 8.0,
        Kind::Switch => 10.0,
        Kind::Group => 6.0,
    };
    let paint = of_kind(node.kind);
    let rest = &node.texts[1.min(node.texts.len())..];
    let title = match rest {
        [] => node.name.clone(),
        _ => format!("{}: {}", node.name, rest.join(", ")),
    };
    // The page lists what a group contains.
    let members = match &node.members[..] {
        [] => String::new(),
        members => format!("<desc>{}</desc>", escape(&members.join("\n"))),
    };
    let rect = rect(&node.rect);
    let (stroke, fill) = (stroke(&EDGE), fill(&paint));
    let _ = writeln!(
        text,
        "<g {stroke}>{rect} rx=\"{round}\" {fill}><title>{}</title></rect>{members}</g>",
        escape(&title)
    );
}

/// The beginning of a rectangle's element, with its place.
fn rect(rect: &Rect) -> String {
    let [x, y] = [rect.left, rect.top].map(number);
    let [width, height] = [rect.width(), rect.height()].map(number);
    format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

fn cell(text: &mut String, cell: &Cell) {
    let fill = match &cell.fill {
        Fill::Node(kind) => fill(&of_kind(*kind)),
        Fill::Empty => fill(&EMPTY),
        Fill::Share(share) => format!("{} fill-opacity=\"{share:.2}\"", fill(&COUNT)),
        Fill::Colour(colour) => format!("fill=\"{colour}\""),
    };
    let rect = format!("{} {fill}", rect(&cell.rect));
    let _ = match (&cell.fill, cell.title.is_empty()) {
        (Fill::Node(_), _) => writeln!(text, "<g {}>{rect}/></g>", stroke(&EDGE)),
        (_, true) => writeln!(text, "{rect}/>"),
        (_, false) => writeln!(text, "{rect}><title>{}</title></rect>", escape(&cell.title)),
    };
}

fn label(text: &mut String, label: &Label) {
    let ink = match label.ink {
        Ink::Strong => fill(&STRONG),
        Ink::Soft => fill(&SOFT),
        Ink::On(colour) => format!("fill=\"{colour}\""),
    };
    // The page removes the title by its place, since the page has it as heading.
    let mut attributes = format!("x=\"{}\" y=\"{}\"", number(label.at.x), number(label.at.y));
    if label.size != FONT {
        attributes.push_str(&format!(" font-size=\"{}\"", label.size));
    }
    if label.bold {
        attributes.push_str(" font-weight=\"bold\"");
    }
    if label.centered {
        attributes.push_str(" text-anchor=\"middle\"");
    }
    if label.turned {
        let (x, y) = (number(label.at.x), number(label.at.y));
        attributes.push_str(&format!(" transform=\"rotate(-90 {x} {y})\""));
    }
    let words = escape(&label.text);
    let _ = writeln!(text, "<text {attributes} {ink}>{words}</text>");
}

fn at(point: Point) -> String {
    format!("{} {}", number(point.x), number(point.y))
}

/// A coordinate with at most one digit after the point.
fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
    match tenth {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{tenth}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_as_short_as_they_can_be() {
        let all = [3.0, -0.04, 2.25, -1.5].map(number);
        assert_eq!(all, ["3", "0", "2.3", "-1.5"]);
    }

    #[test]
    fn corners_are_round_and_ends_are_not() {
        let points = [(0.0, 0.0), (10.0, 0.0), (10.0, 40.0)];
        let points = points.map(|(x, y)| Point { x, y }).to_vec();
        assert_eq!(path(&Course::Lines(points)), "M0 0 L5 0 Q10 0 10 5 L10 40");
    }
}
