//! The picture of a study.

use cxlab_fleet::FleetParams;

use super::report::{FleetReport, OutcomeReport, SeriesPoint, Stranding};
use crate::chart::{Bar, Chart, Series, Style, page};

/// Memory over time, stranded memory, slowdown, and DRAM that is needed.
pub fn svg(params: &FleetParams, report: &FleetReport) -> String {
    let shape = &report.fleet;
    let title = format!(
        "{}: {} hosts in pods of {}, {} days, policy {}{}",
        report.scenario,
        shape.hosts,
        shape.pod_hosts,
        shape.days,
        shape.policy,
        if report.partial { " (interrupted)" } else { "" }
    );
    let charts = [
        over_time(params, report),
        stranded(report),
        dram(report),
        slowdown(report),
    ];
    page(&title, &charts, 2)
}

fn line(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        points,
        style: Style::Line,
        colour,
    }
}

/// A number of megabytes of a point in time.
type OfPoint = fn(&SeriesPoint) -> u64;

fn over_time(params: &FleetParams, report: &FleetReport) -> Chart {
    let step_days = f64::from(params.sample_minutes) / 1440.0;
    let hosts = report.fleet.hosts.max(1) as f64;
    let points = |outcome: &OutcomeReport, of: OfPoint| {
        let points = outcome.series.iter().enumerate();
        let points =
            points.map(|(at, one)| (at as f64 * step_days, of(one) as f64 / 1024.0 / hosts));
        points.collect()
    };
    let (alone, pooled) = (Some(&report.alone), report.pooled.as_ref());
    let curves: [(_, _, _, OfPoint); 5] = [
        ("in use, no pool", 0, alone, |one| one.local_mib),
        ("local, with pool", 2, pooled, |one| one.local_mib),
        ("pool", 4, pooled, |one| one.pool_mib),
        ("stranded, no pool", 1, alone, |one| one.stranded_mib),
        ("stranded, with pool", 3, pooled, |one| one.stranded_mib),
    ];
    let curves = curves.into_iter();
    let series = curves.filter_map(|(name, colour, outcome, of)| {
        outcome.map(|outcome| line(name, colour, points(outcome, of)))
    });
    Chart {
        title: "Memory over time".to_owned(),
        x: "days".to_owned(),
        y: "GiB per host".to_owned(),
        series: series.collect(),
        ..Chart::default()
    }
}

fn stranded(report: &FleetReport) -> Chart {
    let groups = report.alone.stranding.iter();
    let at = |of: fn(&Stranding) -> f64| -> Vec<(f64, f64)> {
        let middle = |group: &Stranding| (group.cores_from + group.cores_to) / 2.0;
        groups
            .clone()
            .map(|group| (middle(group), of(group)))
            .collect()
    };
    let series = vec![
        Series {
            style: Style::Band,
            ..line("5th to 95th percentile", 1, at(|group| group.p5))
        },
        line("", 1, at(|group| group.p95)),
        Series {
            style: Style::LineAndPoints,
            ..line("mean", 1, at(|group| group.mean))
        },
    ];
    Chart {
        title: "Stranded memory of clusters, no pool".to_owned(),
        x: "cores scheduled, %".to_owned(),
        y: "DRAM stranded, %".to_owned(),
        series,
        ..Chart::default()
    }
}

fn dram(report: &FleetReport) -> Chart {
    let (local, pool) = (0, 4);
    let mut bars = Vec::new();
    for (name, dram) in [("needed", &report.needed), ("peaks", &report.peaks)] {
        if let Some(dram) = dram {
            bars.push(Bar {
                name: format!("{name}, no pool"),
                parts: vec![(dram.alone_gib, local)],
            });
            bars.push(Bar {
                name: match dram.saved_percent {
                    Some(saved) => format!("with: {:+.1} %", -saved),
                    None => "with".to_owned(),
                },
                parts: vec![(dram.local_gib, local), (dram.pool_gib, pool)],
            });
        }
    }
    if bars.is_empty() {
        bars.push(Bar {
            name: "no pool".to_owned(),
            parts: vec![(report.alone.local_gib, local)],
        });
    }
    Chart {
        title: "DRAM".to_owned(),
        y: "GiB per host".to_owned(),
        bars,
        legend: vec![("local".to_owned(), local), ("pool".to_owned(), pool)],
        ..Chart::default()
    }
}

/// Distribution of slowdown: the fraction of VMs that lose as much or more.
fn slowdown(report: &FleetReport) -> Chart {
    let mut series = Vec::new();
    if let Some(pooled) = &report.pooled {
        for (name, colour, slowdown) in [
            ("VMs, over their lives", 0, &pooled.slowdown),
            ("VMs that run at a moment", 1, &pooled.slowdown_running),
        ] {
            let points = slowdown.curve.iter().map(|[x, y]| (*x, *y)).collect();
            series.push(line(name, colour, points));
        }
    }
    Chart {
        title: "Slowdown with the pool".to_owned(),
        x: "slowdown, %".to_owned(),
        y: "VMs that lose as much or more, %".to_owned(),
        series,
        x_ends: Some((0.0, 40.0)),
        ..Chart::default()
    }
}
