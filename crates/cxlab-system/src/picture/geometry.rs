//! Points, rectangles and the size of text.

/// Distance between a picture and its sides, in pixels.
pub(super) const MARGIN: f64 = 18.0;
/// Font size of most texts, in pixels.
pub(super) const FONT: f64 = 11.0;

/// A point, in pixels: `x` to the right and `y` downwards.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Point {
    /// Distance from the left side, in pixels.
    pub x: f64,
    /// Distance from the top, in pixels.
    pub y: f64,
}

impl Point {
    pub(super) fn new(x: f64, y: f64) -> Self {
        Point { x, y }
    }

    pub(super) fn plus(self, other: Point) -> Point {
        Point::new(self.x + other.x, self.y + other.y)
    }

    pub(super) fn minus(self, other: Point) -> Point {
        Point::new(self.x - other.x, self.y - other.y)
    }

    pub(super) fn times(self, factor: f64) -> Point {
        Point::new(self.x * factor, self.y * factor)
    }

    pub(super) fn length(self) -> f64 {
        (self.x * self.x + self.y * self.y).sqrt()
    }

    /// The point of the unit circle at an angle in turns, clockwise from the top.
    pub(super) fn at_turn(turn: f64) -> Point {
        let angle = turn * std::f64::consts::TAU;
        Point::new(libm::sin(angle), -libm::cos(angle))
    }
}

/// Width and height, in pixels.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A rectangle with sides along the axes, in pixels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rect {
    /// Horizontal position of the left side.
    pub left: f64,
    /// Vertical position of the top, counted downwards.
    pub top: f64,
    /// Horizontal position of the right side.
    pub right: f64,
    /// Vertical position of the bottom.
    pub bottom: f64,
}

impl Rect {
    pub(super) fn around(center: Point, size: Size) -> Rect {
        Rect {
            left: center.x - size.width / 2.0,
            top: center.y - size.height / 2.0,
            right: center.x + size.width / 2.0,
            bottom: center.y + size.height / 2.0,
        }
    }

    /// A rectangle with its upper left corner at a place.
    pub(super) fn at(left: f64, top: f64, width: f64, height: f64) -> Rect {
        Rect {
            left,
            top,
            right: left + width,
            bottom: top + height,
        }
    }

    pub(super) fn of(point: Point) -> Rect {
        Rect::around(point, Size::default())
    }

    pub(super) fn grown(self, by: f64) -> Rect {
        Rect {
            left: self.left - by,
            top: self.top - by,
            right: self.right + by,
            bottom: self.bottom + by,
        }
    }

    pub(super) fn moved(self, by: Point) -> Rect {
        Rect {
            left: self.left + by.x,
            top: self.top + by.y,
            right: self.right + by.x,
            bottom: self.bottom + by.y,
        }
    }

    /// The smallest rectangle around both.
    pub(super) fn joined(self, other: Rect) -> Rect {
        Rect {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// The smallest rectangle around all, or `None` of nothing.
    pub(super) fn around_all(all: impl IntoIterator<Item = Rect>) -> Option<Rect> {
        all.into_iter().reduce(Rect::joined)
    }

    /// Width, in pixels.
    pub fn width(self) -> f64 {
        self.right - self.left
    }

    /// Height, in pixels.
    pub fn height(self) -> f64 {
        self.bottom - self.top
    }

    /// The point in the middle of the rectangle.
    pub fn center(self) -> Point {
        let (x, y) = (self.left + self.right, self.top + self.bottom);
        Point::new(x / 2.0, y / 2.0)
    }

    /// Whether the rectangles have more than a side in common.
    pub fn overlaps(self, other: Rect) -> bool {
        let apart = self.right <= other.left
            || other.right <= self.left
            || self.bottom <= other.top
            || other.bottom <= self.top;
        !apart
    }

    /// Whether the line between two points passes through the rectangle.
    pub(super) fn is_crossed_by(self, from: Point, to: Point) -> bool {
        let along = to.minus(from);
        // The part of the line within the vertical and the horizontal strip of the rectangle.
        let mut part = (0.0_f64, 1.0_f64);
        let strips = [
            (from.x, along.x, self.left, self.right),
            (from.y, along.y, self.top, self.bottom),
        ];
        for (start, step, low, high) in strips {
            if step.abs() < 1e-9 {
                if start <= low || start >= high {
                    return false;
                }
                continue;
            }
            let (one, other) = ((low - start) / step, (high - start) / step);
            part = (part.0.max(one.min(other)), part.1.min(one.max(other)));
        }
        part.0 < part.1
    }

    /// Whether the other rectangle is within this one.
    pub fn contains(self, other: Rect) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && self.right >= other.right
            && self.bottom >= other.bottom
    }
}

/// Width of a text in a sans-serif font, in pixels. The widths are those of DejaVu Sans, rounded up: one of the widest
/// fonts that browsers use for `sans-serif`.
pub fn text_width(text: &str, font_size: f64) -> f64 {
    let widths = text.chars().map(|char| match char {
        'i' | 'j' | 'l' | '\'' => 0.30,
        ' ' | '.' | ',' | ':' | ';' | '!' | '|' | 'I' => 0.35,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'a'..='z' if !"mw".contains(char) => 0.63,
        '0'..='9' | '–' | '_' => 0.64,
        '%' | 'm' | 'M' | 'w' | 'W' | '…' | '@' => 1.0,
        'A'..='Z' => 0.78,
        '<' | '>' | '+' | '=' | '×' | '~' => 0.84,
        _ => 1.0,
    });
    widths.sum::<f64>() * font_size
}

/// The text, or its beginning and end where it has more characters. The end distinguishes numbered names.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let tail = most / 3;
    let head: String = text.chars().take(most - tail - 1).collect();
    let tail: String = text.chars().skip(count - tail).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_that_touch_do_not_overlap() {
        let size = Size {
            width: 2.0,
            height: 2.0,
        };
        let one = Rect::around(Point::new(0.0, 0.0), size);
        assert!(!one.overlaps(Rect::around(Point::new(2.0, 0.0), size)));
        assert!(one.overlaps(Rect::around(Point::new(1.9, 1.9), size)));
        assert!(one.contains(one) && !one.contains(one.grown(0.1)));
    }

    #[test]
    fn a_line_crosses_a_rectangle_only_if_it_passes_through_it() {
        let size = Size {
            width: 4.0,
            height: 2.0,
        };
        let rect = Rect::around(Point::default(), size);
        let crosses = |from: (f64, f64), to: (f64, f64)| {
            rect.is_crossed_by(Point::new(from.0, from.1), Point::new(to.0, to.1))
        };
        assert!(crosses((-9.0, 0.0), (9.0, 0.0)) && crosses((-3.0, -2.0), (3.0, 2.0)));
        assert!(!crosses((-9.0, 2.0), (9.0, 2.0)) && !crosses((3.0, 0.0), (9.0, 0.0)));
    }

    #[test]
    fn a_long_name_keeps_its_number() {
        assert_eq!(shortened("host12", 9), "host12");
        assert_eq!(shortened("accelerator12", 9), "accel…r12");
    }
}
