//! `cxlab diff`: what differs between two reports, and whether it is beyond their intervals.

mod read;
mod values;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::results::json;
use super::{OutputFormat, harmless, print};
use read::ReadReport;
use values::{MeasuredValue, Names, firsts, measured};

/// Rows of a group that are shown without `--all`.
const SHOWN: usize = 20;

/// Keys that are no result of the system: they name the run, or may differ between identical runs.
const OF_THE_RUN: [&str; 6] = [
    "version",
    "format",
    "run",
    "digest",
    "wall_seconds",
    "events_per_second",
];

/// Values that are shown first, in this order.
const FIRST: [&str; 5] = [
    "bandwidth_gb_per_s.total",
    "latency_ns.mean",
    "latency_ns.p50",
    "latency_ns.p99",
    "latency_ns.max",
];

/// Names of percentiles and extremes, which have no interval in one run.
const PERCENTILES: [&str; 6] = ["min", "p50", "p90", "p99", "p999", "max"];

/// Lists with hundreds of entries, which other values sum up.
const LISTS: [&str; 2] = ["latency_histogram", "time_series"];

#[derive(Args)]
pub(super) struct DiffArgs {
    /// The first report: report.json or seeds.json, or the folder that a run wrote
    a: PathBuf,
    /// The second report
    b: PathBuf,
    /// What to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    /// Show all values, also those within the intervals
    #[arg(long)]
    all: bool,
}

/// Whether two values differ by more than their intervals. The order is that of the output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// The 95 % intervals have no value in common.
    BeyondIntervals,
    /// A percentile or an extreme. One run does not tell how far another seed would move it.
    Percentile,
    /// One of the reports has no interval for the value.
    NoInterval,
    /// The 95 % intervals overlap.
    WithinIntervals,
}

/// A number that differs.
#[derive(Serialize, PartialEq, Debug)]
struct Change {
    path: String,
    a: f64,
    b: f64,
    /// Half-widths of the 95 % intervals; `null` where a report has none.
    a_ci95: Option<f64>,
    b_ci95: Option<f64>,
    /// `b / a - 1`; `null` where `a` is 0.
    relative: Option<f64>,
    verdict: Verdict,
}

/// A value besides numbers that differs, or that only one report has (`null` in the other).
#[derive(Serialize, PartialEq, Debug)]
struct OtherChange {
    path: String,
    a: Value,
    b: Value,
}

/// What differs between two reports.
#[derive(Serialize, Debug)]
struct Difference {
    a: ReadReport,
    b: ReadReport,
    /// What makes the two runs different, or their values no measurement of a whole run.
    notes: Vec<String>,
    /// Numbers that are equal.
    equal: usize,
    changes: Vec<Change>,
    others: Vec<OtherChange>,
    /// Keys that are not compared.
    left_out: Vec<&'static str>,
    /// Whether the digests are equal, if both reports have one. Then all that was simulated is equal.
    same_digest: Option<bool>,
}

impl Change {
    fn of(path: &str, a: MeasuredValue, b: MeasuredValue) -> Change {
        let verdict = match (a.ci95, b.ci95) {
            (Some(one), Some(other)) if (a.value - b.value).abs() > one + other => {
                Verdict::BeyondIntervals
            }
            (Some(_), Some(_)) => Verdict::WithinIntervals,
            _ if is_percentile(path) => Verdict::Percentile,
            _ => Verdict::NoInterval,
        };
        let relative = (a.value != 0.0).then(|| b.value / a.value - 1.0);
        Change {
            path: path.to_owned(),
            a: a.value,
            b: b.value,
            a_ci95: a.ci95,
            b_ci95: b.ci95,
            relative,
            verdict,
        }
    }

    /// What sorts changes within a verdict: those of [`FIRST`], then values of the whole system, of what issues
    /// requests, and of other parts, each with the largest relative change first.
    fn rank(&self) -> (usize, u8, f64) {
        let first = FIRST.iter().position(|path| *path == self.path);
        let part = match self.path.split_once('[') {
            None => 0,
            Some(("hosts" | "accelerators", _)) => 1,
            Some(_) => 2,
        };
        let relative = self.relative.map_or(f64::INFINITY, f64::abs);
        (first.unwrap_or(FIRST.len()), part, -relative)
    }
}

/// Whether one run does not bound the value at this path.
fn is_percentile(path: &str) -> bool {
    let name = path.rsplit('.').next();
    name.is_some_and(|name| PERCENTILES.contains(&name))
}

/// Compares two reports.
fn difference(a: ReadReport, b: ReadReport) -> Difference {
    let (mut of_a, mut of_b) = (measured(&a.value), measured(&b.value));
    let renamed = [firsts(&a.value, &b.value), firsts(&b.value, &a.value)];
    of_a.rename(&renamed[0]);
    of_b.rename(&renamed[1]);
    let (mut changes, mut others, mut equal) = (Vec::new(), Vec::new(), 0);
    let both = [&of_a, &of_b].into_iter();
    let paths = both.flat_map(|own| own.numbers.keys().chain(own.others.keys()));
    for path in paths.collect::<BTreeSet<_>>() {
        if let (Some(one), Some(other)) = (of_a.numbers.get(path), of_b.numbers.get(path)) {
            match one.value == other.value {
                true => equal += 1,
                false => changes.push(Change::of(path, *one, *other)),
            }
            continue;
        }
        let of = |own: &values::Values| match own.numbers.get(path) {
            Some(number) => number.value.into(),
            None => own.others.get(path).cloned().unwrap_or(Value::Null),
        };
        let (a, b): (Value, Value) = (of(&of_a), of(&of_b));
        if a != b {
            let path = path.clone();
            others.push(OtherChange { path, a, b });
        }
    }
    changes.sort_by(|one, other| {
        let (first, part, relative) = one.rank();
        let (other_first, other_part, other_relative) = other.rank();
        (one.verdict.cmp(&other.verdict))
            .then(first.cmp(&other_first))
            .then(part.cmp(&other_part))
            .then(relative.total_cmp(&other_relative))
            .then(one.path.cmp(&other.path))
    });
    let digests = [&a, &b].map(|report| report.value.get("digest"));
    let is_known = digests.iter().all(Option::is_some);
    Difference {
        same_digest: is_known.then_some(digests[0] == digests[1]),
        notes: notes(&a, &b, &renamed),
        a,
        b,
        equal,
        changes,
        others,
        left_out: OF_THE_RUN
            .into_iter()
            .chain(["requests.per_wall_second"])
            .chain(LISTS)
            .collect(),
    }
}

/// What a reader has to know before the numbers.
fn notes(a: &ReadReport, b: &ReadReport, renamed: &[Names; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    if a.scenario != b.scenario {
        notes.push(format!(
            "the reports are of two scenarios: {} and {}",
            a.scenario, b.scenario
        ));
    } else if a.plan_hash != b.plan_hash {
        notes.push("the scenarios have the same name and resolve to two systems".to_owned());
    }
    if a.seed != b.seed {
        let which = if a.seeds.is_some() {
            "first seeds"
        } else {
            "seeds"
        };
        notes.push(format!("the {which} are {} and {}", a.seed, b.seed));
    }
    if a.version != b.version {
        notes.push(format!(
            "cxlab {} wrote A, cxlab {} wrote B",
            a.version, b.version
        ));
    }
    for (name, renamed) in ["A", "B"].into_iter().zip(renamed) {
        for (alone, first) in renamed {
            notes.push(format!(
                "{alone} of {name} is compared with {first}, the first of its group"
            ));
        }
    }
    for (name, report) in [("A", a), ("B", b)] {
        if report.partial {
            notes.push(format!("{name} is partial: its run was interrupted"));
        }
    }
    notes
}

/// Compares two reports, and prints what differs.
pub(super) fn show(args: &DiffArgs) -> Result<(), Failure> {
    let (a, b) = (read::report(&args.a)?, read::report(&args.b)?);
    if a.kind() != b.kind() {
        return Err(Failure::mistake(format!(
            "{}: found {}, and {} is {}; allowed: two of a kind (`cxlab compare` compares a run with the analytic \
             form)",
            args.a.display(),
            a.kind(),
            args.b.display(),
            b.kind()
        )));
    }
    let difference = difference(a, b);
    match args.format {
        OutputFormat::Json => print(&json(&difference)?),
        OutputFormat::Text => print(&text(&difference, args.all)),
    }
}

/// The difference as a table.
fn text(difference: &Difference, all: bool) -> String {
    let mut text = String::new();
    for (name, report) in [("A", &difference.a), ("B", &difference.b)] {
        let seeds = match report.seeds {
            Some(count) => format!("means over {count} seeds"),
            None => format!("seed {}", report.seed),
        };
        let _ = writeln!(
            text,
            "{name}: {} ({}, {seeds})",
            report.path, report.scenario
        );
    }
    for note in &difference.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    if difference.changes.is_empty() && difference.others.is_empty() {
        let _ = writeln!(text, "\nno difference in {} values", difference.equal);
    }
    let groups = [
        (Verdict::BeyondIntervals, "beyond the 95 % intervals"),
        (
            Verdict::Percentile,
            "percentiles and extremes, which one run does not bound (compare runs with --seeds)",
        ),
        (Verdict::NoInterval, "no interval"),
        (Verdict::WithinIntervals, "within the 95 % intervals"),
    ];
    if !difference.changes.is_empty() {
        text += "\nin each list: the main results, the whole system, hosts and accelerators, other parts; all but the \
                 first by relative change\n";
    }
    for (verdict, title) in groups {
        let group = difference
            .changes
            .iter()
            .filter(|change| change.verdict == verdict);
        write_group(
            &mut text,
            title,
            &group.collect::<Vec<_>>(),
            match (all, verdict) {
                (true, _) => usize::MAX,
                (false, Verdict::WithinIntervals) => 0,
                (false, _) => SHOWN,
            },
        );
    }
    if !difference.others.is_empty() {
        let _ = writeln!(
            text,
            "\nother values that differ, or that one report lacks: {}",
            difference.others.len()
        );
        let shown = if all { usize::MAX } else { SHOWN };
        for other in difference.others.iter().take(shown) {
            let told = |value: &Value| match value {
                Value::Null => "(absent)".to_owned(),
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let (a, b) = (told(&other.a), told(&other.b));
            let _ = writeln!(text, "  {}: {a} -> {b}", other.path);
        }
        write_more(&mut text, difference.others.len(), shown);
    }
    let _ = writeln!(
        text,
        "\nequal: {} values; not compared: {}",
        difference.equal,
        difference.left_out.join(", ")
    );
    if let Some(same) = difference.same_digest {
        let told = match same {
            true => "equal, so that both simulated the same",
            false => "different",
        };
        let _ = writeln!(text, "digests: {told}");
    }
    harmless(&text).into_owned()
}

fn write_more(text: &mut String, count: usize, shown: usize) {
    if count > shown {
        let more = count - shown;
        let _ = writeln!(text, "  {more} more: --all shows them");
    }
}

/// Writes the changes of a verdict.
fn write_group(text: &mut String, title: &str, group: &[&Change], shown: usize) {
    if group.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}: {}", group.len());
    let shown_rows = group.iter().take(shown);
    let width = shown_rows
        .clone()
        .map(|change| change.path.chars().count())
        .max();
    let width = width.unwrap_or(0);
    for change in shown_rows {
        let with = |value: f64, ci95: Option<f64>| match ci95 {
            Some(half) => format!("{} +-{}", number(value, 6), number(half, 2)),
            None => number(value, 6),
        };
        let relative = change.relative.map_or("from 0".to_owned(), |relative| {
            format!("{:+.2} %", relative * 100.0)
        });
        let _ = writeln!(
            text,
            "  {:<width$}  {:>20} -> {:<20} {relative}",
            change.path,
            with(change.a, change.a_ci95),
            with(change.b, change.b_ci95),
        );
    }
    write_more(text, group.len(), shown);
}

/// A number with at most so many significant digits, or all digits before the point.
fn number(value: f64, significant: i32) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let magnitude = value.abs().max(f64::MIN_POSITIVE);
    let digits = (1..=12)
        .find(|digits| magnitude * 10f64.powi(*digits) >= 10f64.powi(significant - 1))
        .unwrap_or(12);
    let text = format!("{value:.*}", digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
