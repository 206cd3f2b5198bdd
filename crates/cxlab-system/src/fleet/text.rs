//! A fleet's report as a table to read.

use super::report::{Dram, ErrorShare, FleetReport, OutcomeReport};
use crate::layout::{cells, row, table};

fn percent(value: f64) -> String {
    format!("{value:.2} %")
}

fn dram_row(name: &str, dram: &Dram) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.1}", dram.alone_gib),
        format!("{:.1}", dram.local_gib),
        format!("{:.1}", dram.pool_gib),
        dram.saved_percent.map_or("-".to_owned(), percent),
    ]
}

/// Summary of the report as text for the user.
pub fn summary(report: &FleetReport) -> String {
    let (shape, latency) = (&report.fleet, &report.latency);
    let mut text = format!(
        "{} (fleet): {} hosts of {} cores in {} pods of {}, {} clusters, {} days\n",
        report.scenario,
        shape.hosts,
        shape.cores,
        shape.pods,
        shape.pod_hosts,
        shape.clusters,
        shape.days,
    );
    text.push_str(&format!(
        "  demand {}, placement {}, pool policy {}\n",
        shape.demand, shape.placement, shape.policy
    ));
    text.push_str(&format!(
        "  pool memory {:.0} ns ({:.0} to {:.0}), {:.0} % of local; the fabric carries {:.1} GB/s a host\n\n",
        latency.mean_ns,
        latency.min_ns,
        latency.max_ns,
        100.0 * latency.ratio,
        latency.limit_gb_per_s
    ));
    let mut rows = vec![row("DRAM per host, GiB | no pool | local | pool | saved")];
    if let Some(needed) = &report.needed {
        rows.push(dram_row("needed", needed));
    }
    if let Some(peaks) = &report.peaks {
        rows.push(dram_row("at peaks, VMs where they are", peaks));
    }
    if rows.len() > 1 {
        text.push_str(&table(&rows));
        text.push('\n');
    }
    text.push_str(&outcomes(report));
    if let Some(pooled) = &report.pooled {
        text.push('\n');
        text.push_str(&slowdown(pooled));
    }
    for note in &report.notes {
        text.push_str(&format!("\n  note: {note}\n"));
    }
    text
}

/// A line of a table: what it is, and its value in an outcome.
type Line = (&'static str, fn(&OutcomeReport) -> String);

fn outcomes(report: &FleetReport) -> String {
    let shown: Vec<&OutcomeReport> = [&report.alone].into_iter().chain(&report.pooled).collect();
    let in_use = |one: &OutcomeReport| match one.pool_gib > 0.0 {
        true => format!("{:.1} / {:.1} %", one.pool_percent, one.pool_most_percent),
        false => "-".to_owned(),
    };
    let rejected = |one: &OutcomeReport| percent(one.rejected_core_percent);
    let mitigated = |one: &OutcomeReport| percent(one.mitigated_percent);
    let lines: [Line; 11] = [
        ("local DRAM, GiB per host", |one| {
            format!("{:.1}", one.local_gib)
        }),
        ("pool DRAM, GiB per host", |one| {
            format!("{:.1}", one.pool_gib)
        }),
        ("VMs that came", |one| one.arrived.to_string()),
        ("VMs rejected", |one| one.rejected.to_string()),
        ("core-hours rejected", rejected),
        ("cores scheduled", |one| percent(one.cores_percent)),
        ("local DRAM in use", |one| percent(one.local_percent)),
        ("DRAM stranded", |one| percent(one.stranded_percent)),
        ("  at most", |one| percent(one.stranded_most_percent)),
        ("VMs given local DRAM by the monitor", mitigated),
        ("pool in use, mean / most", in_use),
    ];
    let mut rows = vec![cells(["", "no pool"])];
    if shown.len() > 1 {
        rows[0].push("with pool".to_owned());
    }
    for (name, value) in lines {
        let values = shown.iter().map(|one| value(one));
        rows.push(std::iter::once(name.to_owned()).chain(values).collect());
    }
    table(&rows)
}

fn slowdown(pooled: &OutcomeReport) -> String {
    let mut rows = vec![row(
        "slowdown, % | mean | p50 | p90 | p99 | >= 1 % | >= 5 % | >= 25 %",
    )];
    for (name, one) in [
        ("VMs, over their lives", &pooled.slowdown),
        ("VMs that run at a moment", &pooled.slowdown_running),
    ] {
        let values = [one.mean, one.p50, one.p90, one.p99].map(|value| format!("{value:.2}"));
        let parts = [one.over_1, one.over_5, one.over_25].map(percent);
        let cells = [name.to_owned()].into_iter().chain(values).chain(parts);
        rows.push(cells.collect());
    }
    let mut text = table(&rows);
    text.push_str(&format!(
        "  pool latency under load: {:.1} ns on the mean; error against events: {}\n",
        pooled.pool_latency_ns,
        errors(&pooled.pool_latency_error)
    ));
    text
}

/// Error classes of the latencies, and for how much of the pool traffic they go.
fn errors(shares: &[ErrorShare]) -> String {
    let one = |share: &ErrorShare| match share.percent {
        100.0 => share.error_class.to_string(),
        part => format!("{} for {part:.2} %", share.error_class),
    };
    match shares {
        [] => "no pool traffic".to_owned(),
        shares => shares.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}
