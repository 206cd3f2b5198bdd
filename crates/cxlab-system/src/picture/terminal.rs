//! A picture in characters: the boxes and straight links of the SVG, and the counts of links between groups as a table.

use std::collections::BTreeMap;

use super::geometry::{Point, shortened};
use super::place::Course;
use super::{Kind, NodeBox, Picture, Traffic};
use crate::layout::table;

/// Pixels of a column and of a row.
const CELL: (f64, f64) = (7.0, 14.0);

/// Strokes by the sides that they reach: 1 up, 2 down, 4 left, 8 right.
const STROKES: [char; 16] = [
    ' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼',
];

/// Characters in rows.
struct Canvas {
    rows: Vec<Vec<char>>,
    /// Sides that the strokes of a cell reach, by column and row.
    strokes: BTreeMap<(i64, i64), usize>,
}

impl Canvas {
    fn of(picture: &Picture) -> Canvas {
        let bottom = picture.boxes.iter().map(|node| node.rect.bottom);
        let bottom = bottom.fold(0.0, f64::max) + 2.0 * CELL.1;
        let columns = (picture.width / CELL.0).ceil() as usize + 2;
        let rows = (bottom / CELL.1).ceil() as usize + 1;
        Canvas {
            rows: vec![vec![' '; columns]; rows],
            strokes: BTreeMap::new(),
        }
    }

    fn set(&mut self, column: i64, row: i64, char: char) {
        let [Ok(column), Ok(row)] = [column, row].map(usize::try_from) else {
            return;
        };
        if let Some(cell) = self.rows.get_mut(row).and_then(|row| row.get_mut(column)) {
            *cell = char;
        }
    }

    fn write(&mut self, column: i64, row: i64, text: &str) {
        for (place, char) in text.chars().enumerate() {
            self.set(column + place as i64, row, char);
        }
    }

    /// A line of dots, or of strokes where it is horizontal or vertical.
    fn line(&mut self, from: Point, to: Point) {
        let (a, b) = (cell(from), cell(to));
        let step = ((b.0 - a.0).signum(), (b.1 - a.1).signum());
        let steps = (b.0 - a.0).abs().max((b.1 - a.1).abs());
        let is_straight = step.0 == 0 || step.1 == 0;
        for number in 0..=steps {
            if is_straight {
                let at = (a.0 + step.0 * number, a.1 + step.1 * number);
                if number < steps {
                    self.stroke(at, step);
                }
                if number > 0 {
                    self.stroke(at, (-step.0, -step.1));
                }
            } else {
                let between = |a: i64, b: i64| {
                    let part = (b - a) as f64 * number as f64 / steps as f64;
                    a + part.round() as i64
                };
                self.set(between(a.0, b.0), between(a.1, b.1), '·');
            }
        }
    }

    /// A stroke from the middle of a cell to one of its sides, beside those that it has.
    fn stroke(&mut self, at: (i64, i64), side: (i64, i64)) {
        let bit = match side {
            (0, -1) => 1,
            (0, _) => 2,
            (-1, _) => 4,
            _ => 8,
        };
        let sides = self.strokes.entry(at).or_default();
        *sides |= bit;
        let char = STROKES[*sides];
        self.set(at.0, at.1, char);
    }

    fn text(&self) -> String {
        let lines = self.rows.iter().map(|row| {
            let line: String = row.iter().collect();
            line.trim_end().to_owned()
        });
        let lines: Vec<String> = lines.collect();
        let used = lines.iter().filter(|line| !line.is_empty());
        let indent = used.map(|line| line.chars().take_while(|char| *char == ' ').count());
        let indent = indent.min().unwrap_or(0);
        let shown = lines.iter().map(|line| {
            let line: String = line.chars().skip(indent).collect();
            format!("  {line}").trim_end().to_owned()
        });
        let text: Vec<String> = shown.collect();
        format!("{}\n", text.join("\n").trim_matches('\n'))
    }
}

fn cell(point: Point) -> (i64, i64) {
    let (column, row) = (point.x / CELL.0, point.y / CELL.1);
    (column.round() as i64, row.floor() as i64)
}

pub(super) fn write(picture: &Picture) -> String {
    let mut canvas = Canvas::of(picture);
    for wire in &picture.wires {
        match &wire.course {
            Course::Lines(points) => {
                for pair in points.windows(2) {
                    canvas.line(pair[0], pair[1]);
                }
            }
            Course::Curve([from, _, to]) => canvas.line(*from, *to),
        }
    }
    for node in &picture.boxes {
        draw(&mut canvas, node);
    }
    let title = shortened(&picture.title, COLUMNS);
    let drawing = canvas.text();
    let below = match &picture.traffic {
        Some(traffic) => links(traffic),
        None => "  [host] (switch) {device}\n".to_owned(),
    };
    format!("{title}\n\n{drawing}\n{below}")
}

/// A box: the text in brackets, which differ by kind.
fn draw(canvas: &mut Canvas, node: &NodeBox) {
    let (open, close) = match node.kind {
        Kind::Host => ('[', ']'),
        Kind::Device => ('{', '}'),
        Kind::Switch => ('(', ')'),
        Kind::Group => ('|', '|'),
    };
    let middle = node.rect.center();
    let widest = node.texts.iter().map(|text| text.chars().count()).max();
    let width = widest.unwrap_or(0);
    let (column, row) = cell(middle);
    let first = row - (node.texts.len() as i64 - 1) / 2;
    for (line, text) in node.texts.iter().enumerate() {
        let text = format!("{open}{text:^width$}{close}");
        let left = column - text.chars().count() as i64 / 2;
        canvas.write(left, first + line as i64, &text);
    }
}

/// Most columns of a text.
const COLUMNS: usize = 104;

/// Numbers of links by source and destination: as a table, or as a list where the table is too wide.
fn links(traffic: &Traffic) -> String {
    let matrix = matrix(traffic);
    if matrix.lines().all(|line| line.chars().count() <= COLUMNS) {
        return matrix;
    }
    let mut text = String::from("  links from to\n");
    for (from, name) in traffic.names.iter().enumerate() {
        let mut line = format!("  {} {name}:", from + 1);
        let flows = traffic.flows.range((from, 0)..(from + 1, 0));
        for ((_, to), flow) in flows {
            let next = format!(" {} to {},", flow.links, to + 1);
            if line.chars().count() + next.chars().count() > COLUMNS {
                text.push_str(&format!("{line}\n"));
                line = String::from("     ");
            }
            line.push_str(&next);
        }
        text.push_str(&format!("{}\n", line.trim_end_matches(',')));
    }
    text
}

fn matrix(traffic: &Traffic) -> String {
    let mut rows = vec![vec!["links from to".to_owned()]];
    rows[0].extend((1..=traffic.names.len()).map(|number| number.to_string()));
    for (from, name) in traffic.names.iter().enumerate() {
        let mut row = vec![format!("{} {name}", from + 1)];
        row.extend((0..traffic.names.len()).map(|to| {
            let flow = traffic.flows.get(&(from, to));
            flow.map_or_else(|| "·".to_owned(), |flow| flow.links.to_string())
        }));
        rows.push(row);
    }
    table(&rows)
}
