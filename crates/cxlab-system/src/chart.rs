//! Small charts as SVG: lines, points and bars over two axes.
//!
//! Pictures of a study must not need Python; this is no more than they need.

use std::fmt::Write;

/// Colours of series that colour-blind readers can tell apart (Okabe and Ito).
pub(crate) const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
];

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Line,
    LineAndPoints,
    Points,
    /// The area between this series and the next one, which has the same x values.
    Band,
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) style: Style,
    pub(crate) colour: usize,
}

/// A column of stacked parts, with its label.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) parts: Vec<(f64, usize)>,
}

/// A chart of lines over two axes, as SVG.
#[derive(Clone, Default, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) series: Vec<Series>,
    pub(crate) bars: Vec<Bar>,
    /// Meaning of colours that no series explains.
    pub(crate) legend: Vec<(String, usize)>,
    /// Whether the x axis has a logarithmic scale, for powers of two.
    pub(crate) doubling: bool,
    /// Ends of the x axis, where not all of its values are shown.
    pub(crate) x_ends: Option<(f64, f64)>,
}

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 48.0;
/// Height of a line of the legend, below the axis.
const LINE: f64 = 17.0;
/// Most characters of a name in the legend.
const LETTERS: usize = 30;
/// Names in a line of the legend.
const IN_LINE: usize = 2;

/// Charts beside and below each other, `in_row` in a row, under a title.
pub(crate) fn page(title: &str, charts: &[Chart], in_row: usize) -> String {
    let legend = charts.iter().map(Chart::legend_height).fold(0.0, f64::max);
    let height = HEIGHT + legend;
    let rows = charts.len().div_ceil(in_row);
    let head = 34.0;
    let (w, h) = (in_row as f64 * WIDTH, head + rows as f64 * height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"23\" text-anchor=\"middle\" font-size=\"16\">{}</text>",
        w / 2.0,
        escaped(title)
    );
    for (at, chart) in charts.iter().enumerate() {
        let x = (at % in_row) as f64 * WIDTH;
        let y = head + (at / in_row) as f64 * height;
        let _ = writeln!(text, "<g transform=\"translate({x},{y})\">");
        chart.draw(&mut text);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

/// Text within XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Round numbers from a little below `low` to a little above `high`: first, step, last.
fn ticks(low: f64, high: f64) -> (f64, f64, f64) {
    let span = match high > low {
        true => high - low,
        false => high.abs().max(1.0),
    };
    let rough = span / 5.0;
    let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = libm::floor(low / step + 1e-9) * step;
    let last = libm::ceil(high / step - 1e-9) * step;
    (first, step, if last > first { last } else { first + step })
}

/// Position of a value on an axis.
fn scale(value: f64, doubling: bool) -> f64 {
    match doubling {
        true => libm::log2(value.max(1e-9)),
        false => value,
    }
}

fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    // No "-0".
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// The mapping from values to positions in the picture.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
    doubling: bool,
}

impl Axes {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let part = (scale(x, self.doubling) - self.x.0) / (self.x.1 - self.x.0);
        let up = (y - self.y.0) / (self.y.1 - self.y.0);
        (
            LEFT + part * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )
    }
}

impl Chart {
    fn names(&self) -> Vec<(String, usize)> {
        let named = self.series.iter().filter(|series| !series.name.is_empty());
        let named = named.map(|series| (series.name.clone(), series.colour));
        named.chain(self.legend.iter().cloned()).collect()
    }

    fn legend_height(&self) -> f64 {
        self.names().len().div_ceil(IN_LINE) as f64 * LINE
    }

    fn draw(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"14\">{}</text>",
            WIDTH / 2.0,
            escaped(&self.title)
        );
        let axes = self.axes();
        self.frame(out, &axes);
        match self.bars.is_empty() {
            true => self.lines(out, &axes),
            false => self.columns(out, &axes),
        }
        self.write_legend(out);
    }

    fn shows(&self, x: f64) -> bool {
        self.x_ends.is_none_or(|(low, high)| low <= x && x <= high)
    }

    fn axes(&self) -> Axes {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let heights = points().filter(|(x, _)| self.shows(*x)).map(|(_, y)| *y);
        let sum = |bar: &Bar| bar.parts.iter().map(|(value, _)| value).sum::<f64>();
        let all = heights.chain(self.bars.iter().map(sum));
        let (low, high) = all.fold((0.0_f64, 0.0_f64), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        let (low, _, high) = ticks(low, high);
        let ends = points().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (x, _)| {
            let x = scale(*x, self.doubling);
            (low.min(x), high.max(x))
        });
        let (left, right) = match (self.x_ends, ends) {
            (Some(ends), _) => ends,
            (None, (left, right)) if right > left => (left, right),
            (None, (left, _)) if left.is_finite() => (left - 1.0, left + 1.0),
            _ => (0.0, 1.0),
        };
        let margin = if self.doubling { 0.15 } else { 0.0 };
        Axes {
            x: (left - margin, right + margin),
            y: (low, high),
            doubling: self.doubling,
        }
    }

    fn frame(&self, out: &mut String, axes: &Axes) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let (first, step, last) = ticks(axes.y.0, axes.y.1);
        for count in 0..=((last - first) / step + 0.5) as usize {
            let value = first + count as f64 * step;
            let (_, y) = axes.at(0.0, value);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                number(value)
            );
        }
        if self.bars.is_empty() {
            self.x_ticks(out, axes);
        }
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#333\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(15,{:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escaped(&self.x),
            (TOP + bottom) / 2.0,
            escaped(&self.y)
        );
    }

    fn x_ticks(&self, out: &mut String, axes: &Axes) {
        let bottom = HEIGHT - BOTTOM;
        let values: Vec<f64> = if self.doubling {
            let points = self.series.iter().flat_map(|series| &series.points);
            let mut all: Vec<f64> = points.map(|(x, _)| *x).collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            all
        } else {
            let (first, step, last) = ticks(axes.x.0, axes.x.1);
            let count = ((last - first) / step + 0.5) as usize;
            let inside = |value: &f64| *value >= axes.x.0 - 1e-9 && *value <= axes.x.1 + 1e-9;
            let steps = (0..=count).map(|at| first + at as f64 * step);
            steps.filter(inside).collect()
        };
        for value in values {
            let (x, _) = axes.at(value, axes.y.0);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\" stroke=\"#333\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 18.0,
                number(value)
            );
        }
    }

    fn lines(&self, out: &mut String, axes: &Axes) {
        let mut all = self.series.iter();
        while let Some(series) = all.next() {
            let colour = COLOURS[series.colour % COLOURS.len()];
            let places = |series: &Series| -> Vec<(f64, f64)> {
                let inside = series.points.iter().filter(|(x, _)| self.shows(*x));
                inside.map(|(x, y)| axes.at(*x, *y)).collect()
            };
            let mine = places(series);
            let path = |points: &mut dyn Iterator<Item = &(f64, f64)>| -> String {
                points.map(|(x, y)| format!("{x:.1},{y:.1} ")).collect()
            };
            if series.style == Style::Band {
                let Some(other) = all.next() else { break };
                let back = places(other);
                let _ = writeln!(
                    out,
                    "<polygon points=\"{}{}\" fill=\"{colour}\" fill-opacity=\"0.2\"/>",
                    path(&mut mine.iter()),
                    path(&mut back.iter().rev())
                );
                continue;
            }
            if series.style != Style::Points {
                let _ = writeln!(
                    out,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                    path(&mut mine.iter())
                );
            }
            if series.style != Style::Line {
                for (x, y) in mine {
                    let _ = writeln!(
                        out,
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                    );
                }
            }
        }
    }

    fn columns(&self, out: &mut String, axes: &Axes) {
        let slot = (WIDTH - LEFT - RIGHT) / self.bars.len() as f64;
        for (at, bar) in self.bars.iter().enumerate() {
            let middle = LEFT + (at as f64 + 0.5) * slot;
            let width = (0.6 * slot).min(90.0);
            let mut sum = 0.0;
            for (value, colour) in &bar.parts {
                let (_, top) = axes.at(0.0, sum + value);
                let (_, bottom) = axes.at(0.0, sum);
                sum += value;
                let _ = writeln!(
                    out,
                    "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                    middle - width / 2.0,
                    bottom - top,
                    COLOURS[colour % COLOURS.len()]
                );
            }
            let (_, top) = axes.at(0.0, sum);
            let _ = writeln!(
                out,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{sum:.0}</text>\
                 <text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                top - 5.0,
                HEIGHT - BOTTOM + 18.0,
                escaped(&bar.name)
            );
        }
    }

    fn write_legend(&self, out: &mut String) {
        let slot = (WIDTH - LEFT - RIGHT) / IN_LINE as f64;
        for (at, (name, colour)) in self.names().iter().enumerate() {
            let x = LEFT + (at % IN_LINE) as f64 * slot;
            let y = HEIGHT + (at / IN_LINE) as f64 * LINE;
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"8\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                y - 2.0,
                COLOURS[colour % COLOURS.len()],
                x + 20.0,
                y + 6.0,
                escaped(&shortened(name))
            );
        }
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        for (low, high) in [
            (0.0, 1.0),
            (0.0, 97.3),
            (3.0, 4.1),
            (0.0, 0.0),
            (-5.0, 12.0),
            (1e-7, 2e-7),
        ] {
            let (first, step, last) = ticks(low, high);
            let covers = first <= low && last >= high && step > 0.0;
            assert!(covers, "{low} {high}: {first} {step} {last}");
            assert!((last - first) / step < 12.0);
        }
        assert_eq!(ticks(0.0, 100.0), (0.0, 20.0, 100.0));
    }

    #[test]
    fn a_chart_of_anything_has_no_place_that_is_no_number() {
        let series = |points: &[(f64, f64)]| Series {
            name: "a < b & c".to_owned(),
            points: points.to_vec(),
            style: Style::LineAndPoints,
            colour: 9,
        };
        for points in [
            &[][..],
            &[(1.0, 0.0)],
            &[(2.0, 5.0), (2.0, 5.0)],
            &[(1.0, -1.0), (64.0, 3.0)],
        ] {
            for doubling in [false, true] {
                let chart = Chart {
                    series: vec![series(points)],
                    doubling,
                    ..Chart::default()
                };
                let text = page("<&>", &[chart], 1);
                let odd = text.contains("NaN") || text.contains("inf");
                assert!(!odd, "{points:?}: {text}");
                assert!(text.contains("a &lt; b &amp; c"));
            }
        }
    }
}
