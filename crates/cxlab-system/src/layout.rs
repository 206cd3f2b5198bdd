//! Layout of texts to read: tables, and values with their units.

use cxlab_agent::STAGE_NAMES;
use cxlab_plan::Plan;
use serde_json::{Map, Value};

/// Rows of cells, the first row being the head; the first column is left-aligned.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line.push_str(&match column {
                0 => format!(" {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A row of a table.
pub fn cells<const N: usize>(values: [&str; N]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// A row of cells, with ` | ` between them.
pub(crate) fn row(cells: &str) -> Vec<String> {
    cells.split(" | ").map(str::to_owned).collect()
}

/// A table with the rows of the first of all components, and with a count of the others. Nothing where there are none.
pub(crate) fn listed<T, R: IntoIterator<Item = Vec<String>>>(
    head: &str,
    all: &[T],
    rows: impl Fn(&T) -> R,
) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut shown = vec![row(head)];
    shown.extend(all.iter().take(SHOWN).flat_map(rows));
    shown.extend(more(all.len()));
    table(&shown) + "\n"
}

/// A time in nanoseconds as tables show it.
pub fn nanos(value: f64) -> String {
    let digits = usize::from(value < 100_000.0);
    format!("{value:.digits$}")
}

/// A half-width of a confidence interval of a value, with as many digits as the value has.
pub(crate) fn plus_minus(width: Option<f64>, digits: usize) -> String {
    match width {
        Some(width) => format!("+-{width:.digits$}"),
        None => "-".to_owned(),
    }
}

/// A half-width of a confidence interval of a time, with the digits of [`nanos`].
pub(crate) fn plus_minus_nanos(width: Option<f64>) -> String {
    width.map_or_else(|| "-".to_owned(), |width| format!("+-{}", nanos(width)))
}

/// A number with commas between groups of three digits.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// At most this many hosts, devices and links are shown; the report has them all.
pub const SHOWN: usize = 8;

pub(crate) fn more(all: usize) -> Option<Vec<String>> {
    more_than(SHOWN, all)
}

/// The row that counts those of `all` that are not among the `shown`.
pub(crate) fn more_than(shown: usize, all: usize) -> Option<Vec<String>> {
    (all > shown).then(|| vec![format!("... {} more in report.json", all - shown)])
}

fn counted(number: usize, singular: &str, plural: &str) -> String {
    let noun = if number == 1 { singular } else { plural };
    format!("{number} {noun}")
}

/// The size of a system: hosts, devices and switches.
pub(crate) fn size(plan: &Plan) -> String {
    format!(
        "{}, {}, {}",
        counted(plan.hosts.len(), "host", "hosts"),
        counted(plan.devices.len(), "device", "devices"),
        counted(plan.graph.switches.len(), "switch", "switches"),
    )
}

/// Stages with a bar each, so that one sees where the time goes; with their intervals, where there are any.
pub(crate) fn stages(
    mean_ns: f64,
    stages_ns: &Map<String, Value>,
    ci95: Option<&Map<String, Value>>,
) -> String {
    let total = mean_ns.max(1e-9);
    let mut rows = vec![cells(["stage", "mean ns", "+-", "share", ""])];
    for name in STAGE_NAMES {
        let value = stages_ns.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        if value > 0.0 {
            let share = value / total;
            let width = ci95.and_then(|all| all.get(name)?.as_f64());
            let bar = "#".repeat((share * 40.0).round() as usize);
            rows.push(vec![
                name.to_owned(),
                nanos(value),
                plus_minus_nanos(width),
                format!("{:.1} %", share * 100.0),
                bar,
            ]);
        }
    }
    // The bar is left-aligned, so it is padded to one width.
    for row in &mut rows {
        row[4] = format!("{:<40}", row[4]);
    }
    if ci95.is_none() {
        without(&mut rows, &[2]);
    }
    table(&rows)
}

/// Takes columns out, the last one first.
fn without(rows: &mut [Vec<String>], columns: &[usize]) {
    for row in rows {
        for column in columns {
            row.remove(*column);
        }
    }
}

/// A direction of a link: its name, utilization, efficiency, payload in GB/s, and the intervals of utilization and
/// payload where there are any.
pub(crate) type LinkRow<'a> = (&'a str, f64, f64, f64, Option<[Option<f64>; 2]>);

pub(crate) fn busiest_links(mut links: Vec<LinkRow<'_>>) -> String {
    links.sort_by(|a, b| b.1.total_cmp(&a.1));
    let head = [
        "busiest links",
        "utilization",
        "+-",
        "efficiency",
        "payload GB/s",
        "+-",
    ];
    let mut rows = vec![cells(head)];
    let sampled = links.iter().any(|link| link.4.is_some());
    for (direction, utilization, efficiency, payload, ci95) in links.into_iter().take(SHOWN) {
        let [utilization_width, payload_width] = ci95.unwrap_or_default();
        rows.push(vec![
            direction.to_owned(),
            format!("{:.1} %", utilization * 100.0),
            plus_minus(utilization_width.map(|width| width * 100.0), 1),
            format!("{:.1} %", efficiency * 100.0),
            format!("{payload:.2}"),
            plus_minus(payload_width, 2),
        ]);
    }
    if !sampled {
        without(&mut rows, &[5, 2]);
    }
    table(&rows)
}
