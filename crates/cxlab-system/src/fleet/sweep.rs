//! Several studies as one table and one picture.

use super::report::FleetReport;
use crate::chart::{Chart, Series, Style, page};
use crate::layout::{row, table};

/// A point of a sweep, and the result of its study.
#[derive(Clone, Debug)]
pub struct SweepPoint {
    /// Changed paths with their values, in the order of the grid.
    pub changes: Vec<(String, String)>,
    /// Report of the study.
    pub report: FleetReport,
}

/// Columns of a sweep after its changes.
const COLUMNS: [&str; 13] = [
    "pod_hosts",
    "pool_ns",
    "alone_gib",
    "local_gib",
    "pool_gib",
    "saved_percent",
    "peaks_saved_percent",
    "stranded_alone_percent",
    "stranded_pooled_percent",
    "rejected_pooled_percent",
    "slowdown_mean_percent",
    "slowdown_over_5_percent",
    "seed",
];

fn values(report: &FleetReport) -> [String; COLUMNS.len()] {
    let some = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    let (needed, pooled) = (report.needed.as_ref(), report.pooled.as_ref());
    [
        report.fleet.pod_hosts.to_string(),
        format!("{:.1}", report.latency.mean_ns),
        some(needed.map(|dram| dram.alone_gib)),
        some(needed.map(|dram| dram.local_gib)),
        some(needed.map(|dram| dram.pool_gib)),
        some(needed.and_then(|dram| dram.saved_percent)),
        some(report.peaks.as_ref().and_then(|dram| dram.saved_percent)),
        some(Some(report.alone.stranded_percent)),
        some(pooled.map(|one| one.stranded_percent)),
        some(pooled.map(|one| one.rejected_core_percent)),
        some(pooled.map(|one| one.slowdown_running.mean)),
        some(pooled.map(|one| one.slowdown_running.over_5)),
        report.seed.to_string(),
    ]
}

/// A number of a report, if it has that.
type OfReport = fn(&FleetReport) -> Option<f64>;

/// A field of CSV, in quotes where it needs them.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn rows(points: &[SweepPoint]) -> Vec<Vec<String>> {
    let paths = points.first().map(|point| &point.changes);
    let paths = paths.into_iter().flatten().map(|(path, _)| path.clone());
    let head: Vec<String> = paths.chain(COLUMNS.map(str::to_owned)).collect();
    let body = points.iter().map(|point| {
        let changes = point.changes.iter().map(|(_, value)| value.clone());
        changes.chain(values(&point.report)).collect()
    });
    std::iter::once(head).chain(body).collect()
}

/// As CSV, a line for each study.
pub fn sweep_csv(points: &[SweepPoint]) -> String {
    let line = |row: Vec<String>| {
        let fields: Vec<String> = row.iter().map(|text| field(text)).collect();
        fields.join(",") + "\n"
    };
    rows(points).into_iter().map(line).collect()
}

/// As a table to read.
pub fn sweep_text(points: &[SweepPoint]) -> String {
    let shown = |row: &Vec<String>| {
        // The seed and what both kinds of DRAM are made of are in the file.
        let changes = row.len() - COLUMNS.len();
        let kept = [0, 1, 5, 6, 7, 9, 10, 11].map(|column| row[changes + column].clone());
        row[..changes].iter().cloned().chain(kept).collect()
    };
    let mut rows: Vec<Vec<String>> = rows(points).iter().map(shown).collect();
    if let (Some(head), Some(point)) = (rows.first_mut(), points.first()) {
        let names = row(
            "hosts/pod | pool ns | saved % | peaks % | stranded % | rejected % | slowdown % | >= 5 % slow",
        );
        head.splice(point.changes.len().., names);
    }
    table(&rows)
}

/// DRAM saved, and VMs that lose 5 % and more, against hosts of a pod: a line for each
/// combination of the other changes.
pub fn sweep_svg(points: &[SweepPoint]) -> String {
    let title = points.first().map_or("", |point| &point.report.scenario);
    let needed = |report: &FleetReport| report.needed.as_ref().and_then(|dram| dram.saved_percent);
    let peaks = |report: &FleetReport| report.peaks.as_ref().and_then(|dram| dram.saved_percent);
    let slow = |report: &FleetReport| Some(report.pooled.as_ref()?.slowdown_running.over_5);
    let latency = |report: &FleetReport| Some(report.latency.mean_ns);
    let charts: [(_, _, OfReport); 4] = [
        (
            "DRAM saved, needed at the same rejections",
            "saved, %",
            needed,
        ),
        ("DRAM saved, peaks of VMs where they are", "saved, %", peaks),
        ("VMs that lose 5 % and more", "of running VMs, %", slow),
        ("Pool memory without load", "ns", latency),
    ];
    let charts = charts.map(|(title, y, value)| chart(title, y, points, value));
    page(&format!("{title}: pool size"), &charts, 2)
}

fn chart(title: &str, y: &str, points: &[SweepPoint], value: OfReport) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for point in points {
        let Some(value) = value(&point.report) else {
            continue;
        };
        let name = line_name(points, point);
        let at = (point.report.fleet.pod_hosts as f64, value);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(at),
            None => series.push(Series {
                colour: series.len(),
                name,
                points: vec![at],
                style: Style::LineAndPoints,
            }),
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Chart {
        title: title.to_owned(),
        x: "hosts that share a pool".to_owned(),
        y: y.to_owned(),
        series,
        doubling: true,
        ..Chart::default()
    }
}

/// The changes that do not follow from the number of hosts of a pod.
fn line_name(points: &[SweepPoint], point: &SweepPoint) -> String {
    let follows = |at: usize| {
        points.iter().all(|one| {
            let same_hosts = one.report.fleet.pod_hosts == point.report.fleet.pod_hosts;
            !same_hosts || one.changes[at].1 == point.changes[at].1
        })
    };
    let told = point
        .changes
        .iter()
        .enumerate()
        .filter(|(at, _)| !follows(*at));
    let short = |path: &str, value: &str| {
        let plain = value.replace(['{', '}', '"'], "").replace("kind = ", "");
        let key = path.rsplit('.').next().unwrap_or(path);
        match value.contains('{') {
            true => plain.trim().to_owned(),
            false => format!("{key} = {}", plain.trim()),
        }
    };
    let names: Vec<String> = told.map(|(_, (path, value))| short(path, value)).collect();
    match names.is_empty() {
        true => point.report.fleet.policy.clone(),
        false => names.join("; "),
    }
}
